"""Where the tables of one statement are together: a connection that shows each under its own name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from dpnotebook.dialect.types import Kind
from dpnotebook.engine.base import Source
from dpnotebook.engine.executor import Executor
from dpnotebook.errors import DomainError, EngineError, SQLError, shorten

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.engine.frames import FrameColumns


@dataclass(eq=False)
class Held:
    """A table that statements may name.

    Parameters
    ----------
    name, source, unit, private
        As it was protected or registered.
    """

    name: str
    source: Source
    unit: str | None
    private: bool
    number: int = field(default_factory=itertools.count().__next__, init=False)
    frame: FrameColumns | None = field(default=None, init=False)
    kinds: dict[str, Kind] = field(default_factory=dict, init=False)
    elements: dict[str, Kind] = field(default_factory=dict, init=False)
    rounded: frozenset[str] = field(default=frozenset(), init=False)
    dates: frozenset[str] = field(default=frozenset(), init=False)
    untyped: frozenset[str] = field(default=frozenset(), init=False)
    forms: Mapping[str, str] = field(default_factory=dict, init=False)
    digest: str = field(default="", init=False)

    @property
    def numbered(self) -> bool:
        """Whether its rows are units of their own."""
        return self.private and self.unit is None


class Home(Protocol):
    """A connection in which tables have their names."""

    @property
    def broken(self) -> bool:
        """Whether it shows nothing any more after a failure."""

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names, with every column that `words` holds.

        Raises
        ------
        DomainError
            If a column that is named cannot be read.
        """

    def check(self, query: str) -> None:
        """Raise EngineError if a query uses what this database does not have."""

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""

    def keep(self, query: str) -> str | None:
        """Keep the rows of a query, and return what to select them from; None where they are read as well in place."""

    def drop(self, kept: str) -> None:
        """Let go of rows that were kept."""

    def spare(self, kept: str) -> None:
        """Hold rows that were kept for who asks for the same again, where there is room; let go of them otherwise."""

    def spared(self, query: str) -> str | None:
        """Return what to select the rows of a query from, if they were spared; None where they have to be found."""

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order; elements of lists, and what is rounded, are noted in the table."""

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried to where this connection cannot be reached."""

    def digest_once(self, table: Held) -> str:
        """Return what tells whether the rows of a table have changed; never shown, and worked out once."""

    def close(self) -> None:
        """Let go of the connection."""


def unclear(table: Held, words: set[str]) -> None:
    """Refuse a statement that names a column whose name differs from another's only in case.

    Raises
    ------
    DomainError
        If it does.
    """
    seen: dict[str, str] = {}
    for name in table.kinds:
        other = seen.setdefault(name.casefold(), name)
        if other != name and name.casefold() in words:
            raise DomainError(
                f"{shorten(other)} and {shorten(name)} of {shorten(table.name)} differ only in case, which SQL "
                "cannot tell apart; "
                "rename one of them"
            )


def check_runs(executor: Executor, query: str) -> None:
    """Refuse a query that the database cannot run, whatever the rows: it is read and bound, not run.

    Raises
    ------
    SQLError
        If it cannot.
    EngineError
        If the connection was lost.
    """
    try:
        executor.types(query)
    except EngineError:
        if executor.broken and executor.dialect != "duckdb":
            raise
        raise SQLError(
            "the database cannot run this statement: something in it has no meaning there, or does not fit the types "
            "of its columns; write it otherwise, with CAST for example"
        ) from None

"""What an engine has to give: a source, which is where the rows of one table are, and how they are read and told apart.

A protected table is one fixed set of rows. Files are read in place, and refused once they were changed; whatever can
change unseen, or give other rows every time it is read, is copied once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnotebook.engine.executor import Executor
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.keyed import keyed

if TYPE_CHECKING:
    import pandas as pd

DUCKDB = ("duckdb", None)  # the place of all that one connection of ours can read


class Source(ABC):
    """Where the rows of a table are.

    What is abstract every engine gives. The rest has an answer that is right for rows that lie in a database of their
    own and cannot change unseen there; an engine of another kind gives its own.
    """

    @property
    @abstractmethod
    def place(self) -> tuple[str, Any]:
        """Which database it is in: the engine's name and what tells databases apart, or `DUCKDB`."""

    @property
    def at_hand(self) -> bool:
        """Whether its rows are in this process, so that SQL may be prepared when the first statement asks."""
        return False

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Names of all columns."""

    @abstractmethod
    def connect(self, unit: str | None = None) -> tuple[Executor, str]:
        """Return a connection and the SQL of the relation to select from; `unit` is the column of the units."""

    @abstractmethod
    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the rows; equal digests mean the same snapshot."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise FrameChanged if the rows can no longer be read as they were."""

    @abstractmethod
    def shows(self, protected: Source) -> bool:
        """Return whether this table, which is said to be public, shows rows of a protected one."""

    # How rows are read.
    @contextmanager
    def reading(self, columns: Sequence[str], unit: str | None) -> Iterator[tuple[Executor, str]]:
        """Yield a connection that sees the rows as they were protected, and the relation with these columns."""
        executor, relation = self.connect(unit)
        try:
            yield executor, relation
        finally:
            executor.close()

    def select(self, columns: Sequence[str]) -> Source:
        """Return the same rows with some columns alone, where the others would be in the way."""
        return self

    def declare(self, held: Mapping[str, str]) -> None:  # noqa: B027 - most rows have types
        """Read columns that have no type of their own as they are declared."""

    @property
    def decimals(self) -> frozenset[str]:
        """Columns of decimals that are read as such: no floating-point number need hold them."""
        return frozenset()

    @property
    def zoned(self) -> frozenset[str]:
        """Columns of moments whose type does not say so."""
        return frozenset()

    @property
    def clocks(self) -> Mapping[str, str]:
        """The time zones of columns of moments, where their types name one that has changing clocks."""
        return {}

    @property
    def integers_are_numbers(self) -> bool:
        """Whether whole numbers are taken for numbers of any kind, as in a frame, where a gap makes them floats."""
        return False

    # Where rows are, for a connection that shows several tables.
    @property
    def parts(self) -> tuple[Source, ...]:
        """The parts of a table that grew by parts; none of another."""
        return ()

    @property
    def rows(self) -> FrameColumns | None:
        """The rows, where they were copied; None where they are read in place."""
        return None

    @property
    def files(self) -> Sequence[Path]:
        """The files that a connection of ours has to be let read."""
        return ()

    @property
    def databases(self) -> Sequence[Path]:
        """The DuckDB files that a connection of ours has to have attached."""
        return ()

    def relation_in(self, attached: Mapping[Path, str]) -> str:
        """Return the SQL of the rows in a connection of ours, which has databases attached under these names."""
        raise NotImplementedError

    def as_given(self) -> pd.DataFrame | None:
        """Return the rows as the frame that was given; None where it was none."""
        return None

    def changed_in(self, frame: pd.DataFrame, columns: Sequence[str]) -> str | None:
        """Return the first of some columns that is another in the frame that was given; values are not read."""
        return None

    # How rows are told apart.
    @property
    def fleeting(self) -> bool:
        """Whether fingerprints must be made at once: what they are made from may be gone later."""
        return False

    @property
    def fingerprint_is_whole(self) -> bool:
        """Whether a fingerprint of some columns tells of all the others too."""
        return False

    def fingerprint_like(self, known: str | None, columns: Sequence[str], key: bytes) -> str:
        """Return a fingerprint that can be compared with one that is known, which an earlier version may have made.

        Parameters
        ----------
        known
            The other fingerprint; None or empty if there is none.
        columns, key
            Of which columns, and with what key.
        """
        return self.fingerprint(columns, key)

    def form_digest(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of rows that are not of single values, which is one of their form as well."""
        return keyed(key, "form", self.fingerprint(columns, key))

    def note(self, columns: Sequence[str], key: bytes) -> None:  # noqa: B027 - most need none
        """Note what the rows are now, where that is needed to know them again when a connection was lost."""

    def check_still(self) -> None:  # noqa: B027 - most cannot be changed
        """Raise EngineError if the rows were changed while they were read: what was counted is of no one set."""

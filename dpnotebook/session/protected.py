"""A protected table: its rows, an engine that can count them, and the frames that they were made from."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpnotebook.domain.left_out import lacking, left_out
from dpnotebook.engine.base import Source
from dpnotebook.engine.parts import PartsEngine, PartsSource
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import NotProtected
from dpnotebook.planner.table import TableSchema
from dpnotebook.session.kept_here import KeptHere
from dpnotebook.session.protected_rows import ProtectedRows
from dpnotebook.session.query import SessionProtocol
from dpnotebook.session.verbs import Verbs

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.domain import Domain


class ProtectedTable(KeptHere, Verbs):
    """A table under a session's budget, with all the verbs of `df.dp`.

    Parameters
    ----------
    session
        Who pays.
    table
        Its name and declared domain.
    parts
        Its rows; of a table that grew, those of each part that is here, from the first.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> patients
    <protected table 'patients': age, sex, income; privacy unit: one row;
     rows with no age, sex or income, or with an undeclared sex, are left out; nullable=True counts missing values>
    >>> patients.domain.sizes
    {'age': 100, 'sex': 2, 'income': 10}
    >>> patients.count(error=25).run().value
    1000.0
    """

    def __init__(self, session: SessionProtocol, table: TableSchema, parts: Sequence[ProtectedRows]) -> None:
        super().__init__(session, table)
        self.parts: tuple[ProtectedRows, ...] = ()
        self.hold(table, parts)

    def _elsewhere(self) -> str:
        """Return what to write instead of pickling it."""
        return "Protect it there, in a session on the same ledger"

    def hold(self, table: TableSchema, parts: Sequence[ProtectedRows]) -> None:
        """Be about these rows from now on: a part was added."""
        here = tuple(range(1, len(parts) + 1))
        self.table = self._table = replace(table, asked=here) if table.parts else table
        self.parts = tuple(parts)
        engines = [rows.engine for rows in parts]
        self.engine: TableEngine | PartsEngine = PartsEngine(engines) if table.parts else engines[0]

    @property
    def session(self) -> SessionProtocol:
        """The session that pays."""
        return self._session

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self.table.domain

    @property
    def fingerprint(self) -> str:
        """What the ledger knows its first rows by."""
        return self.parts[0].fingerprint

    @property
    def source(self) -> Source:
        """Where the declared columns of its first rows are."""
        return self.parts[0].source

    @property
    def whole(self) -> Source:
        """Where all columns of its rows are."""
        return PartsSource(tuple(rows.whole for rows in self.parts)) if self.table.parts else self.parts[0].whole

    @property
    def complete(self) -> bool:
        """Whether all parts are here."""
        return len(self.parts) >= self.table.parts

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the rows can no longer be read as they were protected."""
        for rows in self.parts:
            rows.source.check_unchanged()

    def beside(self, words: Collection[str]) -> list[str]:
        """Return the columns that the fingerprint leaves out and words of a statement name; see `ProtectedRows`."""
        return sorted({name for rows in self.parts for name in rows.beside(words)})

    def digest_beside(self, columns: Sequence[str], like: str | Sequence[str] = "") -> str | list[str]:
        """Return a keyed digest of columns that the fingerprint leaves out; of a table that grew, one for each part."""
        known = itertools.chain([like] if isinstance(like, str) else like, itertools.repeat(""))
        found = [rows.digest_beside(columns, one) for rows, one in zip(self.parts, known, strict=False)]
        return found if self.table.parts else found[0]

    def undeclared_like(self, known: str) -> str:
        """Return the digest that earlier versions kept of all that is not declared; see `ProtectedRows`."""
        return self.parts[0].undeclared_like(known)

    def __repr__(self) -> str:
        most = self.table.max_rows if self.table.unit else None
        unit = f"one {self.table.one}" + (f", up to {most} rows" if most is not None else "")
        if self.table.unit and most is None:
            unit += ", of as many rows as there are (max_rows=1 where everyone has one: answers are closer)"
        unit += " in each part" if self.table.adds else ""
        parts = f"; {len(self.parts)} of {self.table.parts} parts" if self.table.parts else ""
        names = ", ".join(self.table.columns.names)
        planned = self.table.unit is None or most is not None  # else all it is asked are statements, which count them
        without = left_out(self.table.columns) if planned else ""
        lost = f";\n {without} are left out" if without else ""
        lost += "; nullable=True counts missing values" if planned and lacking(self.table.columns) else ""
        return f"<protected table {self.table.name!r}: {names}{parts}; privacy unit: {unit}{lost}>"


class DeclaredTable(ProtectedTable):
    """A table of which this process has the declaration, and no rows: what was answered of it can be read."""

    def hold(self, table: TableSchema, parts: Sequence[ProtectedRows]) -> None:
        """Be about the declaration alone."""
        self.table = self._table = table
        self.parts = ()


class Frames:
    """Which frame is which protected table: by identity, forgotten with the frame.

    A frame derived from a protected one is another frame, so it is not in here: state never follows `df.attrs`.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], ProtectedTable, int]] = {}

    def bind(self, data: Any, protected: ProtectedTable, part: int = 0) -> None:
        """Remember that `data`, if it is a pandas frame, is `protected`, or a part of it, counted from 0."""
        import pandas as pd

        if isinstance(data, pd.DataFrame):
            key = id(data)
            forget = weakref.ref(data, lambda _: self._entries.pop(key, None))
            self._entries[key] = (forget, protected, part)

    def is_part(self, data: Any, protected: ProtectedTable, part: int) -> bool:
        """Return whether `data` is a frame that is bound to a part of a table."""
        known, table, place = self._entries.get(id(data), (None, None, 0))
        return known is not None and known() is data and table is protected and place == part

    def find(self, frame: pd.DataFrame) -> ProtectedTable:
        """Return the protected table of a frame.

        Raises
        ------
        NotProtected
            If it is not one, or its session is gone.
        """
        return self._find(frame)[0]

    def _find(self, frame: pd.DataFrame) -> tuple[ProtectedTable, int]:
        known, protected, part = self._entries.get(id(frame), (None, None, 0))
        if known is None or known() is not frame or protected is None:  # ids are used again
            raise NotProtected(
                "this frame is not protected. A filtered or copied frame is a new one: ask the original and say "
                "which rows with where=, for example patients.dp.count(where='age >= 65', error=25). To protect this "
                "one: session.protect(frame, name, domain={...})"
            )
        return protected, part

    def verbs(self, frame: pd.DataFrame) -> Verbs:
        """Return the verbs of a protected frame, whose queries first check that it was not modified.

        Of a table that grew, a frame is the part that it was added as.

        Raises
        ------
        NotProtected
            If it is not one.
        FrameChanged
            If it was modified.
        """
        (protected, part), known = self._find(frame), weakref.ref(frame)
        rows = protected.parts[part]

        def guard() -> None:
            if (alive := known()) is not None:
                rows.check_unchanged(alive)

        guard()
        return self._verbs(protected, part, guard)

    def unguarded(self, frame: pd.DataFrame) -> Verbs:
        """Return the verbs of a protected frame for planning only: no look at whether it was modified, so at no row.

        Raises
        ------
        NotProtected
            If it is not one.
        """
        return self._verbs(*self._find(frame))

    @staticmethod
    def _verbs(protected: ProtectedTable, part: int, guard: Callable[[], None] | None = None) -> Verbs:
        table = protected.table
        return Verbs(protected.session, replace(table, asked=(part + 1,)) if table.parts else table, guard=guard)


frames = Frames()

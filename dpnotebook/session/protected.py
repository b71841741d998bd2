"""A protected table: a snapshot of rows, an engine that can count them, and the frame it was made from."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.engine.row_digest import FORMLESS, digest_of
from dpnotebook.engine.source import FrameSource, ParquetSource, TableSource, fingerprint_like, source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import DomainError, FrameChanged, NotProtected, shorten
from dpnotebook.planner.table import TableSchema
from dpnotebook.session.query import SessionProtocol
from dpnotebook.session.verbs import Verbs

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.domain import Domain


class ProtectedTable(Verbs):
    """A table under a session's budget, with all the verbs of `df.dp`.

    Parameters
    ----------
    session
        Who pays.
    table
        Its name and declared domain.
    data
        The frame, file or DuckDB table.
    key
        The ledger's secret.
    known
        The fingerprint that the ledger knows the name by, if it does.

    Raises
    ------
    DomainError
        If the data does not hold what the domain declares.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> patients
    <protected table 'patients': age, sex, income; privacy unit: one row>
    >>> patients.domain.sizes
    {'age': 100, 'sex': 2, 'income': 10}
    >>> patients.count(error=25).run().value
    1000.0
    """

    def __init__(
        self, session: SessionProtocol, table: TableSchema, data: Any, key: bytes, known: str | None = None
    ) -> None:
        super().__init__(session, table)
        self.table = table
        source = source_of(data)
        if isinstance(source, FrameSource):
            source.rows.declare({name: attribute.holds for name, attribute in table.domain.items()})
        columns = list(source.columns)
        has = f"the table, whose columns are {_listed(columns)}"
        for name in table.domain.names:
            if name not in columns:
                raise DomainError(f"{shorten(name)} is in the domain but not in {has}")
        if table.unit is not None and table.unit not in columns:
            raise DomainError(f"unit={shorten(table.unit)} is not a column of {has}")
        self._used = list(dict.fromkeys([*table.domain.names, *([table.unit] if table.unit else [])]))
        folded: dict[str, str] = {}
        for name in self._used:
            if folded.setdefault(name.casefold(), name) != name:
                raise DomainError(
                    f"{shorten(folded[name.casefold()])} and {shorten(name)} differ only in case; rename one of them"
                )
        self.whole = source
        self.source = source.select(self._used) if isinstance(source, FrameSource) else source
        self._key = key
        self._beside: dict[tuple[str, ...], str] = {}
        # What earlier versions kept of it: nothing of a file, all of whose bytes were in the fingerprint.
        self._undeclared = None if self._used and not isinstance(source, ParquetSource) else ""
        max_rows = table.max_rows if table.unit is not None else None
        earlier = bool(known) and not str(known).startswith(FORMLESS)
        self.engine = TableEngine(self.source, table.domain, table.unit, max_rows, key, as_written=earlier)
        if earlier:
            self.fingerprint = self._earlier(self._used or columns, known)
            if isinstance(source, TableSource) and source.fleeting:  # its connection may be closed later
                self._undeclared = self._earlier(self._left_out, None)
        else:
            # Where nothing is declared, any column may be what a statement measures.
            self.fingerprint = self.engine.fingerprint if self._used else digest_of(source, columns, None, key)
            if source.place[0] == "postgres":  # notes it, to tell when a connection is lost whether the rows are these
                source.fingerprint(self._used or columns, key)

    @property
    def session(self) -> SessionProtocol:
        """The session that pays."""
        return self._session

    @property
    def domain(self) -> Domain:
        """The declared domain."""
        return self.table.domain

    def beside(self, words: Collection[str]) -> list[str]:
        """Return the columns that the fingerprint leaves out and words of a statement name, in order of their names.

        Parameters
        ----------
        words
            Casefolded.
        """
        return sorted(name for name in self._left_out if name.casefold() in words)

    def digest_beside(self, columns: Sequence[str]) -> str:
        """Return a keyed digest of columns that the fingerprint leaves out, each value with the rest of its row.

        Parameters
        ----------
        columns
            Their names; the digest is of all of them together, so that they cannot trade values between rows either.
        """
        key = tuple(columns)
        if key and key not in self._beside:
            self._beside[key] = digest_of(self.whole, [*self._used, *key], self.table.unit, self._key)
        return self._beside[key] if key else ""

    def undeclared_like(self, known: str) -> str:
        """Return the digest that earlier versions kept of all that is not declared, as the one that made `known` did.

        Parameters
        ----------
        known
            Such a digest; empty where there was nothing to keep.
        """
        if self._undeclared in ("", known):
            return known if self._undeclared else ""
        return self._earlier(self._left_out, known)

    @property
    def _left_out(self) -> list[str]:
        return [name for name in self.whole.columns if name not in self._used] if self._used else []

    def _earlier(self, columns: Sequence[str], known: str | None) -> str:
        return fingerprint_like(known, self.whole, columns, self._key) if columns else ""

    def check_unchanged(self, frame: pd.DataFrame) -> None:
        """Raise FrameChanged if the frame was modified in place since it was protected; its values are not read."""
        assert isinstance(self.source, FrameSource)
        for name in self._used:
            if name not in frame.columns or not _same_memory(frame[name], self.source.frame[name]):
                raise FrameChanged(
                    f"{shorten(name)} was changed after {shorten(self.table.name)} was protected; nothing was spent. "
                    f"To ask about the new values, protect the frame under a new name. "
                    f"session.table({shorten(self.table.name, 120)}) still asks about the old ones"
                )

    def __repr__(self) -> str:
        unit = f"one {self.table.one}" + (f", up to {self.table.max_rows} rows" if self.table.unit else "")
        return f"<protected table {self.table.name!r}: {', '.join(self.table.domain.names)}; privacy unit: {unit}>"


class Frames:
    """Which frame is which protected table: by identity, forgotten with the frame.

    A frame derived from a protected one is another frame, so it is not in here: state never follows `df.attrs`.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], ProtectedTable]] = {}

    def bind(self, data: Any, protected: ProtectedTable) -> None:
        """Remember that `data`, if it is a pandas frame, is `protected`."""
        import pandas as pd

        if isinstance(data, pd.DataFrame):
            key = id(data)
            forget = weakref.ref(data, lambda _: self._entries.pop(key, None))
            self._entries[key] = (forget, protected)

    def find(self, frame: pd.DataFrame) -> ProtectedTable:
        """Return the protected table of a frame.

        Raises
        ------
        NotProtected
            If it is not one, or its session is gone.
        """
        known, protected = self._entries.get(id(frame), (None, None))
        if known is None or known() is not frame or protected is None:  # ids are used again
            raise NotProtected(
                "this frame is not protected. A filtered or copied frame is a new one: ask the original and say "
                "which rows with where=, for example patients.dp.count(where='age >= 65', error=25). To protect this "
                "one: session.protect(frame, name, domain={...})"
            )
        return protected

    def verbs(self, frame: pd.DataFrame) -> Verbs:
        """Return the verbs of a protected frame, whose queries first check that it was not modified.

        Raises
        ------
        NotProtected
            If it is not one.
        FrameChanged
            If it was modified.
        """
        protected, known = self.find(frame), weakref.ref(frame)

        def guard() -> None:
            if (alive := known()) is not None:
                protected.check_unchanged(alive)

        guard()
        return Verbs(protected.session, protected.table, guard=guard)


frames = Frames()


def _same_memory(now: pd.Series[Any], then: pd.Series[Any]) -> bool:
    """Whether two columns are the same memory: pandas copies a column before it writes to one that is shared."""
    if now.dtype != then.dtype or len(now) != len(then):
        return False
    tokens = [_buffers(column.array) for column in (now, then)]
    return tokens[0] == tokens[1] if tokens[0] is not None else now.equals(then)


def _buffers(array: Any) -> Any:
    """Return what identifies the memory of a column, or None where that cannot be told."""
    arrow = getattr(array, "_pa_array", None)
    if arrow is not None:
        return [buffer.address for chunk in arrow.chunks for buffer in chunk.buffers() if buffer is not None]
    codes = getattr(array, "codes", None)
    if codes is not None:
        return codes.__array_interface__["data"], tuple(array.categories)
    parts = [getattr(array, name, None) for name in ("_ndarray", "_data", "_mask")]
    found = [part.__array_interface__["data"][0] for part in parts if isinstance(part, np.ndarray)]
    return found or None


def _listed(columns: list[str]) -> str:
    return ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")

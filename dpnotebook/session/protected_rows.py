"""The rows of a protected table, or of one part of it: a snapshot, an engine that counts it, and what identifies it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpnotebook.domain import Attribute, Dates, Domain, Times
from dpnotebook.domain.parts import check_no_part
from dpnotebook.engine.base import Source
from dpnotebook.engine.parts import RowDigests, check_together, without_units
from dpnotebook.engine.row_digest import FORMLESS, TYPED, digest_of, typed_digest_of
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import DomainError, FrameChanged, shorten
from dpnotebook.planner.table import TableSchema

if TYPE_CHECKING:
    import pandas as pd


class ProtectedRows:
    """Rows that were protected together.

    Parameters
    ----------
    table
        Whose rows they are; its columns are those of the rows, without the attribute that tells parts apart.
    data
        The frame, file or DuckDB table.
    key
        The ledger's secret.
    known
        The fingerprint that the ledger knows them by, if it does.
    earlier
        The parts before them; a unit that has rows in one of these has none here.

    Raises
    ------
    DomainError
        If the data does not hold what the domain declares.
    """

    def __init__(
        self,
        table: TableSchema,
        data: Any,
        key: bytes,
        known: str | None = None,
        earlier: Sequence[ProtectedRows] = (),
    ) -> None:
        self.table = table
        domain = table.columns
        source = source_of(data)
        _declare(source, domain, table.unit)
        columns = list(source.columns)
        has = f"the table, whose columns are {_listed(columns)}"
        if table.parts:
            check_together(source)
            check_no_part(columns)
        for name in domain.names:
            if name not in columns:
                raise DomainError(f"{shorten(name)} is in the domain but not in {has}{_elsewhere(data, name)}")
        if table.unit is not None and table.unit not in columns:
            raise DomainError(f"unit={shorten(table.unit)} is not a column of {has}{_elsewhere(data, table.unit)}")
        self._used = list(dict.fromkeys([*domain.names, *([table.unit] if table.unit else [])]))
        folded: dict[str, str] = {}
        for name in self._used:
            if folded.setdefault(name.casefold(), name) != name:
                raise DomainError(
                    f"{shorten(folded[name.casefold()])} and {shorten(name)} differ only in case; rename one of them"
                )
        self.given = source  # with the rows of units that earlier parts have
        self.digests = RowDigests(source)
        if earlier and table.unit is not None:
            source = without_units(source, table.unit, [rows.whole for rows in earlier])
            _declare(source, domain, table.unit)
        self.whole: Source = source
        self.source = source.select(self._used)
        self._key = key
        self._beside: dict[tuple[tuple[str, ...], str], str] = {}
        # What earlier versions kept of it: nothing of a file, all of whose bytes were in the fingerprint.
        self._undeclared = None if self._used and not source.fingerprint_is_whole else ""
        max_rows = table.max_rows if table.unit is not None else None
        old = bool(known) and not str(known).startswith(FORMLESS)
        self.engine = TableEngine(self.source, domain, table.unit, max_rows, key, as_written=old)
        if old:
            self.fingerprint = self._earlier(self._used or columns, known)
            if source.fleeting:  # its connection may be closed later
                self._undeclared = self._earlier(self._left_out, None)
        else:
            # Where nothing is declared, any column may be what a statement measures.
            self.fingerprint = self.engine.fingerprint if self._used else digest_of(source, columns, None, key)
            source.note(self._used or columns, key)

    def same_as(self, other: ProtectedRows) -> bool:
        """Whether both were given as the same rows, in any order, with those of units that earlier parts have."""
        return self._declared_digest == other._declared_digest and self._whole_digest == other._whole_digest

    @cached_property
    def _declared_digest(self) -> str:
        return digest_of(self.given, self._used, self.table.unit, self._key) if self._used else ""

    @cached_property
    def _whole_digest(self) -> str:
        return digest_of(self.given, list(self.given.columns), self.table.unit, self._key)

    def beside(self, words: Collection[str]) -> list[str]:
        """Return the columns that the fingerprint leaves out and words of a statement name, in order of their names.

        Parameters
        ----------
        words
            Casefolded.
        """
        return sorted(name for name in self._left_out if name.casefold() in words)

    def digest_beside(self, columns: Sequence[str], like: str = "") -> str:
        """Return a keyed digest of columns that the fingerprint leaves out, each value with the rest of its row.

        Parameters
        ----------
        columns
            Their names; the digest is of all of them together, so that they cannot trade values between rows either.
            Those that other parts have are left out.
        like
            A digest that was recorded, which it is to be compared with: it is made as the version made it that did.
        """
        key = tuple(name for name in columns if name in self._left_out)
        if not key:
            return ""
        form = _form(like)
        if (key, form) not in self._beside:
            found = typed_digest_of(self.whole, [*self._used, *key], self.table.unit, self._key, form)
            self._beside[key, form] = self._beside[key, _form(found)] = found
        return self._beside[key, form]

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

    @cached_property
    def _left_out(self) -> list[str]:
        return [name for name in self.whole.columns if name not in self._used] if self._used else []

    def _earlier(self, columns: Sequence[str], known: str | None) -> str:
        return self.whole.fingerprint_like(known, columns, self._key) if columns else ""

    def check_unchanged(self, frame: pd.DataFrame) -> None:
        """Raise FrameChanged if the frame was modified in place since it was protected; its values are not read."""
        name = self.source.changed_in(frame, self._used)
        if name is not None:
            raise FrameChanged(
                f"{shorten(name)} was changed after {shorten(self.table.name)} was protected; nothing was spent. "
                f"To ask about the new values, protect the frame under a new name. "
                f"session.table({shorten(self.table.name, 120)}) still asks about the old ones"
            )


def _form(digest: str) -> str:
    """Return how digests begin that can be compared with one; empty where there is none."""
    return TYPED if digest.startswith(TYPED) else digest and FORMLESS


def _declare(source: Source, domain: Domain, unit: str | None) -> None:
    """Let columns of objects be read as they are declared; units are texts, of which equal ones are equal values."""
    units = {} if unit is None else {unit: "text"}
    source.declare({name: _held(attribute) for name, attribute in domain.items()} | units)


def _held(attribute: Attribute) -> str:
    """Return what a column of objects is to be read as."""
    if isinstance(attribute, Dates | Times) and attribute.timezone is not None:
        return "moment"
    return "time" if isinstance(attribute, Times) else attribute.holds


def _elsewhere(data: Any, name: str) -> str:
    """Return where a frame has what is no column: in its index, or under a name that is no text."""
    if name in (getattr(getattr(data, "index", None), "names", None) or ()):
        return "; it is in the index: protect frame.reset_index()"
    names = list(getattr(data, "columns", ()))
    levels = [level for one in names for level in (one if isinstance(one, tuple) else (one,))]
    if name in names or name not in map(str, levels):
        return ""
    said = "'_'.join" if any(isinstance(one, tuple) for one in names) else "str"
    return f"; names of columns are texts here: frame.columns = frame.columns.map({said})"


def _listed(columns: list[str]) -> str:
    return ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")

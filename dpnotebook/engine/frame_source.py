"""Frames: a snapshot of one of pandas, and what others give by Arrow's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotebook.dialect.attributes import identifier
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.digests import digest_column
from dpnotebook.engine.executor import DuckDBExecutor, Executor
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.same import equal, same_memory, share_memory
from dpnotebook.engine.sealed import sealed
from dpnotebook.engine.time_zones import clocks_of
from dpnotebook.errors import DomainError

if TYPE_CHECKING:
    import pandas as pd

ROWS = "rows "  # begins the digests of frames that are made as this version makes them


@dataclass(frozen=True, eq=False)
class FrameSource(Source):
    """A snapshot of a pandas frame.

    Parameters
    ----------
    frame
        The frame, sharing its memory: it tells whether somebody's frame is this one.
    copied
        A copy of its columns.
    names
        Of the columns that can be asked about; all, if None.
    """

    frame: pd.DataFrame
    copied: FrameColumns
    names: tuple[str, ...] | None = None

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @property
    def at_hand(self) -> bool:
        """They are."""
        return True

    @property
    def rows(self) -> FrameColumns:
        """The copy of its columns."""
        return self.copied

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns that have a text for a name."""
        return self.copied.names if self.names is None else list(self.names)

    @property
    def clocks(self) -> Mapping[str, str]:
        """The time zones of its columns of moments."""
        return clocks_of(self.frame, self.columns)

    def select(self, columns: Sequence[str]) -> FrameSource:
        """Return the snapshot of some columns alone: DuckDB need not understand the others, nor tell "Id" from "id"."""
        return FrameSource(self.frame, self.copied, tuple(columns))

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a sealed connection in which the frame is registered.

        Raises
        ------
        DomainError
            If DuckDB cannot read a column.
        """
        return of_frame(self.copied, self.columns)

    def check_unchanged(self) -> None:
        """Do nothing: the columns are a copy."""

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the values of `columns`, in row order."""
        digests = (digest_column(name, self.copied.read(name), key) for name in columns)
        return ROWS + keyed(key, "frame", str(self.copied.rows), *digests)

    def shows(self, protected: Source) -> bool:
        """Return whether both share memory, or are the same rows in the same order."""
        if not isinstance(protected, FrameSource):
            return False
        return share_memory(self.frame, protected.frame) or equal(self.rows, protected.rows)

    @contextmanager
    def reading(self, columns: Sequence[str], unit: str | None) -> Iterator[tuple[Executor, str]]:
        """Yield a sealed connection in which these columns are registered."""
        executor, relation = of_frame(self.rows, columns)
        try:
            yield executor, relation
        finally:
            executor.close()

    def declare(self, held: Mapping[str, str]) -> None:
        """Read columns of objects as they are declared."""
        self.rows.declare(held)

    def as_given(self) -> pd.DataFrame:
        """Return the columns that can be asked about."""
        return self.rows.frame(self.columns)

    def changed_in(self, frame: pd.DataFrame, columns: Sequence[str]) -> str | None:
        """Return the first of some columns that was modified in place since the snapshot, or is gone."""
        return next(
            (name for name in columns if name not in frame or not same_memory(frame[name], self.frame[name])), None
        )

    def fingerprint_like(self, known: str | None, columns: Sequence[str], key: bytes) -> str:
        """Return a fingerprint made as the version made one that is known."""
        old = known and not known.startswith(ROWS)
        return self.fingerprint_by_pandas(columns, key) if old else self.fingerprint(columns, key)

    def fingerprint_by_pandas(self, columns: Sequence[str], key: bytes) -> str:
        """Return the digest of earlier versions, from hashes of pandas; of a column that has none, the name."""
        try:
            return self._by_pandas(columns, key)
        except (TypeError, ValueError, OverflowError):
            return " ".join(self._by_pandas_or_name(name, key) for name in columns)

    def _by_pandas_or_name(self, name: str, key: bytes) -> str:
        try:
            return self._by_pandas([name], key)
        except (TypeError, ValueError, OverflowError):
            return name

    def _by_pandas(self, columns: Sequence[str], key: bytes) -> str:
        import pandas as pd

        rows = pd.util.hash_pandas_object(self.copied.frame(columns), index=False, hash_key="0123456789abcdef")
        return keyed(key, "frame", *columns, rows.to_numpy().tobytes())


def of_frame(rows: FrameColumns, names: Sequence[str]) -> tuple[DuckDBExecutor, str]:
    """Return a sealed connection that sees columns of a snapshot, and the SQL of the relation.

    Parameters
    ----------
    rows
        The snapshot.
    names
        Of the columns.

    Raises
    ------
    DomainError
        If DuckDB cannot read one of them.
    """
    rows.convert(names)
    connection = sealed()
    relation = rows.register(connection, "frame", names)
    for name in names:
        if name not in relation.names:
            raise DomainError(rows.unreadable(name))
    shown = [f"c{relation.names.index(name)} AS {identifier(name)}" for name in names] or ["1 AS one"]
    return DuckDBExecutor(connection), f"(SELECT {', '.join(shown)} FROM {relation.sql})"

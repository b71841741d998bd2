"""Where the rows of a protected table are: a pandas frame, a Parquet file, a table in DuckDB.

A protected table is one fixed set of rows. Files are read in place, and refused once they were changed; whatever can
change unseen, or give other rows every time it is read, is copied once.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.dialect.types import ZONED
from dpnotebook.engine.arrow import frame_of, is_arrow
from dpnotebook.engine.digests import digest_column, row_sums
from dpnotebook.engine.executor import DuckDBExecutor, Executor
from dpnotebook.engine.frame_transfer import carried
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.sealed import sealed
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten
from dpnotebook.ledger.forks import in_child, opened

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

CHUNK = 1 << 24
DUCKDB = ("duckdb", None)
SUMS, ROWS = "sums ", "rows "  # begin the digests of tables and of frames that are made as this version makes them


class Source(Protocol):
    """A place that rows can be read from."""

    @property
    def place(self) -> tuple[str, Any]:
        """Which database it is in: ("duckdb", None) for all that one connection of ours can read."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""

    def connect(self, unit: str | None = None) -> tuple[Executor, str]:
        """Return a connection and the SQL of the relation to select from; `unit` is the column of the units."""

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the rows; equal digests mean the same snapshot."""

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the rows can no longer be read as they were."""


@dataclass(frozen=True, eq=False)
class FrameSource:
    """A snapshot of a pandas frame.

    Parameters
    ----------
    frame
        The frame, sharing its memory: it tells whether somebody's frame is this one.
    rows
        A copy of its columns.
    names
        Of the columns that can be asked about; all, if None.
    """

    frame: pd.DataFrame
    rows: FrameColumns
    names: tuple[str, ...] | None = None

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns that have a text for a name."""
        return self.rows.names if self.names is None else list(self.names)

    def select(self, columns: Sequence[str]) -> FrameSource:
        """Return the snapshot of some columns alone: DuckDB need not understand the others, nor tell "Id" from "id"."""
        return FrameSource(self.frame, self.rows, tuple(columns))

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a sealed connection in which the frame is registered.

        Raises
        ------
        DomainError
            If DuckDB cannot read a column.
        """
        return of_frame(self.rows, self.columns)

    def check_unchanged(self) -> None:
        """Do nothing: the columns are a copy."""

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the values of `columns`, in row order."""
        digests = (digest_column(name, self.rows.read(name), key) for name in columns)
        return ROWS + keyed(key, "frame", str(self.rows.rows), *digests)

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

        rows = pd.util.hash_pandas_object(self.rows.frame(columns), index=False, hash_key="0123456789abcdef")
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


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, read in place."""

    path: Path
    stamp: tuple[int, int, int]

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @classmethod
    def of(cls, path: Path) -> ParquetSource:
        """Return the file as it is now.

        Raises
        ------
        DomainError
            If it is not a Parquet file.
        """
        source = cls(path, _stamp(path))
        try:
            executor, relation = source.connect()
            types = executor.types(f"SELECT * FROM {relation}")
        except EngineError:
            raise DomainError(f"{path} cannot be read as a Parquet file") from None
        _check_texts(path, executor, relation, [identifier(name) for name, kind in types if "VARCHAR" in kind])
        return source

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the file was replaced or written to."""
        if not self.path.is_file() or _stamp(self.path) != self.stamp:
            raise FrameChanged(
                f"{self.path} was changed after it was protected; nothing was spent. "
                "To ask about what is in it now, protect it under a new name"
            )

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        executor, relation = self.connect()
        return [name for name, _ in executor.types(f"SELECT * FROM {relation}")]

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a connection that can read this file and nothing else."""
        return DuckDBExecutor(sealed([self.path])), f"read_parquet({literal(str(self.path.resolve()))})"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        digest = hashlib.blake2b(key=key)
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return keyed(key, "parquet", digest.digest())


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table or view in DuckDB: in a database file, opened read-only, or in a connection of the user's.

    Tables of files are read in place. Those of a connection can change, follow its settings, and go with it, and views
    can give other rows every time: their rows are taken once, at the first look, and these are asked.
    """

    database: Path | duckdb.DuckDBPyConnection
    table: str
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.database, Path):
            in_child(self._forget_parent)
        else:
            opened(self.database)

    def _forget_parent(self) -> None:
        """Forget the parent's connection to a file: this process opens its own."""
        self.__dict__.pop("_raw", None)

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @cached_property
    def rows(self) -> FrameColumns | None:
        """The rows as they were at the first look; None where they are read in place."""
        executor, relation = self._raw
        if isinstance(self.database, Path) and not self._is_worked_out(executor):
            return None
        return FrameColumns(*carried(executor, relation))

    @property
    def zoned(self) -> frozenset[str]:
        """Columns of moments among the rows that were taken, whose types there are others."""
        types = {} if self.rows is None else self.rows.types
        return frozenset(name for name, kind in types.items() if kind in ZONED)

    @cached_property
    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """What tells whether the file was changed, when it was first looked at; empty for connections."""
        return self._stamps()

    @property
    def fleeting(self) -> bool:
        """Whether fingerprints must be made now: the connection may be closed later."""
        return not isinstance(self.database, Path)

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the file was replaced or written to."""
        if isinstance(self.database, Path) and self.database.exists() and self._stamps() != self.stamp:
            raise FrameChanged(
                f"{self.database} was changed after {self.table} was protected; nothing was spent. To ask about "
                "what is in it now, protect it under a new name"
            )

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        if self.rows is not None:
            return self.rows.names
        executor, relation = self._raw
        return [name for name, _ in executor.types(f"SELECT * FROM {relation}")]

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a connection that sees the table."""
        if self.rows is not None:
            return of_frame(self.rows, self.rows.names)
        assert isinstance(self.database, Path)
        return DuckDBExecutor(sealed(attached={"source": self.database})), f"source.{identifier(self.table)}"

    @cached_property
    def _raw(self) -> tuple[DuckDBExecutor, str]:
        """A connection that sees the table as it is stored, at one moment."""
        if isinstance(self.database, Path):
            _ = self.stamp
            return DuckDBExecutor(sealed(attached={"source": self.database})), f"source.{identifier(self.table)}"
        cursor = opened(self.database.cursor())
        # Never committed: whatever is written to the table from now on, this cursor sees the rows of this moment.
        cursor.execute("BEGIN TRANSACTION")
        return DuckDBExecutor(cursor), identifier(self.table)

    @cached_property
    def file(self) -> Path | None:
        """The file that the table is in; None where it is in memory."""
        if isinstance(self.database, Path):
            return self.database
        query = "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
        found = self._stored()[0].columns(query)
        path = np.ma.filled(np.ma.asarray(found["path"]), "")[0]
        return Path(path) if path else None

    def shares_memory(self, other: TableSource) -> bool:
        """Whether another table in memory is in the same database: what one connection attaches, the others see."""
        if isinstance(self.database, Path) or isinstance(other.database, Path):
            return False
        self._stored(), other._stored()
        name = f"dpnotebook_{secrets.token_hex(8)}"
        query = f"SELECT count(*) AS n FROM duckdb_databases() WHERE database_name = '{name}'"
        cursors = self.database.cursor(), other.database.cursor()
        cursors[0].execute(f"ATTACH ':memory:' AS {name}")
        try:
            return bool(DuckDBExecutor(cursors[1]).columns(query)["n"][0])
        finally:
            cursors[0].execute(f"DETACH {name}")

    def definitions(self) -> list[str]:
        """Return what the table is as a view, and the views that it is made of; nothing for a table."""
        executor, _ = self._stored()
        found = executor.columns("SELECT lower(view_name) AS name, sql FROM duckdb_views() WHERE NOT internal")
        views = dict(zip(found["name"].tolist(), found["sql"].tolist(), strict=True))
        waiting, texts = [self.table.lower()], []
        while waiting:
            text = views.pop(waiting.pop(), None)
            if text is not None:
                texts.append(text)
                waiting += [name for name in views if name in text.lower()]
        return texts

    def _is_worked_out(self, executor: DuckDBExecutor) -> bool:
        """Whether the table is a view, or has columns that are worked out when it is read."""
        here, name = "database_name = 'source' AND", f"lower({literal(self.table)})"
        views = f"SELECT 1 AS one FROM duckdb_views() WHERE {here} lower(view_name) = {name}"
        made = f"SELECT 1 AS one FROM duckdb_tables() WHERE {here} lower(table_name) = {name}"
        generated = f"{made} AND contains(sql, 'GENERATED ALWAYS')"
        return len(executor.columns(f"{views} UNION ALL {generated}")["one"]) > 0

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        if not isinstance(self.database, Path):
            return ()
        log = self.database.with_name(self.database.name + ".wal")
        return tuple(_stamp(path) for path in (self.database, log) if path.is_file())

    def _stored(self) -> tuple[DuckDBExecutor, str]:
        if not isinstance(self.database, Path) and os.getpid() != self._process:
            raise EngineError(
                f"{shorten(self.table)} is read through a connection of the process that this one was forked from; "
                "make a "
                "session of its own here, with a connection that is opened here"
            )
        return self._raw

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        executor, relation = self._stored()
        kinds = dict(executor.types(f"SELECT * FROM {relation}"))
        found = row_sums(executor, relation, [(name, kinds[name]) for name in columns], key)
        return SUMS + keyed(key, "table", *columns, repr(found).encode())

    def fingerprint_by_text(self, columns: Sequence[str], key: bytes) -> str:
        """Return the digest of earlier versions, from the MD5 of every row's text: exact, and 30 times slower."""
        executor, relation = self._stored()
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in map(_as_text, columns)]
        salt = literal(hmac.new(key, b"rows", "sha256").hexdigest())
        row = f"concat({salt}, {', '.join(parts)})"
        sums = ", ".join(f"sum(md5_number_{half}({row})::HUGEINT)" for half in ("lower", "upper"))
        assert executor.connection is not None
        found = executor.connection.execute(f"SELECT count(*), {sums} FROM {relation}").fetchone()
        return keyed(key, "table", *columns, repr(found).encode())


def check_still(source: Source) -> None:
    """Make sure that a file was not changed while it was read.

    Raises
    ------
    EngineError
        If it was: what was counted is of no one set of rows.
    """
    if isinstance(source, (ParquetSource, TableSource)):
        try:
            source.check_unchanged()
        except FrameChanged:
            raise EngineError("the file was changed while it was read") from None


def fingerprint_like(known: str | None, source: Source, columns: Sequence[str], key: bytes) -> str:
    """Return a fingerprint that can be compared with one that is known, which an earlier version may have made.

    Parameters
    ----------
    known
        The other fingerprint; None or empty if there is none.
    source, columns, key
        Of which rows, and with what key.
    """
    if known and not known.startswith(SUMS) and isinstance(source, TableSource):
        return source.fingerprint_by_text(columns, key)
    if known and not known.startswith(ROWS) and isinstance(source, FrameSource):
        return source.fingerprint_by_pandas(columns, key)
    return source.fingerprint(columns, key)


def source_of(data: Any) -> Source:
    """Return where the rows of `data` are.

    Parameters
    ----------
    data
        A pandas DataFrame; a table in Arrow's form, of pyarrow or polars; the path of a Parquet file; (database, table)
        with the path of a DuckDB file, an open DuckDB connection, the address "postgresql://..." of a PostgreSQL
        database, or a Spark session; or a Spark DataFrame.

    Raises
    ------
    DomainError
        If it is none of these, or the file or table is not there.
    """
    import pandas as pd

    if isinstance(data, FrameSource):
        return data
    if isinstance(data, pd.DataFrame):
        if not data.columns.is_unique:
            raise DomainError("the frame has two columns of the same name; give them different names first")
        return FrameSource(data.copy(deep=False), FrameColumns(data))
    if type(data).__module__.startswith("pyspark."):
        from dpnotebook.engine.spark_source import SparkSource

        return SparkSource.of(data)
    if is_arrow(data):
        return source_of(frame_of(data))
    if isinstance(data, (str, Path)):
        return ParquetSource.of(_existing(Path(data)))
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], str):
        database, table = data
        if isinstance(database, str) and database.startswith(("postgresql://", "postgres://")):
            from dpnotebook.engine.postgres_source import PostgresSource

            return PostgresSource(database, table)
        if type(database).__module__.startswith("pyspark."):
            from dpnotebook.engine.spark_source import SparkSource

            return SparkSource.of(database, table)
        if isinstance(database, (str, Path)):
            database = _existing(Path(database))
        if isinstance(database, Path) or hasattr(database, "cursor"):
            source = TableSource(database, table)
            _check_table(source)
            return source
    if type(data).__module__.startswith("polars.") and hasattr(data, "collect"):
        raise DomainError(f"a {type(data).__name__} of polars has no rows yet: give .collect() of it")
    raise DomainError(
        f"cannot protect a {type(data).__name__}: give a pandas or polars DataFrame, the path of a Parquet file, "
        "(database, table) with a DuckDB file or connection, or tables in PostgreSQL or Spark"
    )


def _check_texts(path: Path, executor: DuckDBExecutor, relation: str, texts: Sequence[str]) -> None:
    """Refuse a Parquet file with a text that is none: DuckDB would stop at it, in a query that was paid for."""

    def read(columns: Sequence[str]) -> bool:
        hashes = ", ".join(f"bit_xor(hash({column}))" for column in columns)
        try:
            executor.columns(f"SELECT {hashes} FROM {relation}")
        except EngineError:
            return False
        return True

    if texts and not read(texts):
        found = [text for text in texts if not read([text])]
        raise DomainError(f"{path} cannot be read: {', '.join(found) or 'it'} holds texts that are not UTF-8")


def _existing(path: Path) -> Path:
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise DomainError(f"there is no file {shorten(str(path), 200)[1:-1]}")
    return path


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _check_table(source: TableSource) -> None:
    import duckdb

    try:
        executor, relation = source._raw
    except duckdb.Error:
        raise DomainError(
            f"{source.database if isinstance(source.database, Path) else 'that connection'} cannot be opened as a "
            "DuckDB database; if a connection of yours has it open, give the connection itself"
        ) from None
    try:
        executor.types(f"SELECT * FROM {relation}")
    except EngineError:
        raise DomainError(f"there is no table or view {shorten(source.table)} in that database") from None
    try:
        _ = source.rows
    except EngineError:
        raise DomainError(
            f"the rows of {shorten(source.table)} cannot be read; does a query of all of them work?"
        ) from None


def _as_text(column: str) -> str:
    return f"CAST({identifier(column)} AS VARCHAR)"

"""Where the rows of a protected table are: a pandas frame, a Parquet file, a table in DuckDB. Nothing is copied."""

from __future__ import annotations

import hashlib
import hmac
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dpnotebook.engine.digests import row_sums
from dpnotebook.engine.executor import DuckDBExecutor, Executor
from dpnotebook.engine.sql import identifier, literal
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten
from dpnotebook.forks import opened

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

CHUNK = 1 << 24
DUCKDB = ("duckdb", None)
SUMS = "sums "  # begins the digests of tables that are made as this version makes them


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


@dataclass(frozen=True)
class FrameSource:
    """A snapshot of a pandas frame; the frame's memory is shared, and copied by pandas when the frame is changed."""

    frame: pd.DataFrame

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns that have a text for a name."""
        return [name for name in self.frame.columns if isinstance(name, str)]

    def select(self, columns: Sequence[str]) -> FrameSource:
        """Return the snapshot of some columns alone: DuckDB need not understand the others, nor tell "Id" from "id"."""
        import pandas as pd

        if not columns:  # DuckDB reads no frame without one, and there are still rows to count
            return FrameSource(pd.DataFrame({"row": range(len(self.frame))}))
        return FrameSource(pd.DataFrame({name: self.frame[name] for name in columns}, copy=False))

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a sealed connection in which the frame is registered.

        Columns of Python objects are read once, here, all rows of them: DuckDB would guess their type from a sample
        at every query, and stop at a value that does not fit.

        Raises
        ------
        DomainError
            If DuckDB cannot read a column.
        """
        import duckdb

        connection, relation = opened(duckdb.connect()), "frame"
        try:
            connection.execute(f"SET pandas_analyze_sample = {max(len(self.frame), 1)}")
            try:
                connection.register("frame", self.frame)
            except duckdb.Error:  # it cannot read memory backwards, as that of a frame that was reversed
                connection.register("frame", self.frame.copy())
            if any(getattr(dtype, "hasobject", False) for dtype in self.frame.dtypes):
                connection.execute("CREATE TABLE objects AS SELECT * FROM frame")
                connection.unregister("frame")
                relation = "objects"
        except (duckdb.Error, TypeError, ValueError, OverflowError):
            raise DomainError(self._unreadable()) from None
        seal(connection)
        return DuckDBExecutor(connection), relation

    def _unreadable(self) -> str:
        """Say which column DuckDB cannot read. What it says itself may quote a value."""
        import duckdb

        for name in self.frame.columns:
            try:
                connection = opened(duckdb.connect()).register("frame", self.frame[[name]].copy())
                connection.execute("SELECT count(*) FROM frame")
            except (duckdb.Error, TypeError, ValueError, OverflowError):
                kind = str(self.frame[name].dtype).split("<")[0]
                return f"{shorten(name)} holds values of type {kind}, which cannot be counted; make it numbers or text"
        return "the values of a declared column cannot be counted; convert them to numbers or text"

    def check_unchanged(self) -> None:
        """Do nothing: pandas copies a column before it changes one that is shared."""

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the values of `columns`, in row order."""
        import pandas as pd

        try:
            rows = pd.util.hash_pandas_object(self.frame[list(columns)], index=False, hash_key="0123456789abcdef")
        except TypeError:
            raise DomainError(
                "a declared column holds lists or other objects; only plain values can be counted"
            ) from None
        return keyed(key, "frame", *columns, rows.to_numpy().tobytes())


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
            _ = source.columns
        except EngineError:
            raise DomainError(f"{path} cannot be read as a Parquet file") from None
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
        import duckdb

        connection = opened(duckdb.connect())
        where = literal(str(self.path.resolve()))
        connection.execute(f"SET allowed_paths = [{where}]")
        seal(connection)
        return DuckDBExecutor(connection), f"read_parquet({where})"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        digest = hashlib.blake2b(key=key)
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return keyed(key, "parquet", digest.digest())


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table or view in DuckDB: in a database file, opened read-only, or in a connection of the user's."""

    database: Path | duckdb.DuckDBPyConnection
    table: str
    _given: weakref.WeakSet[DuckDBExecutor] = field(default_factory=weakref.WeakSet, init=False, repr=False)
    _known: list[tuple[tuple[str, ...], bytes, str]] = field(default_factory=list, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.database, Path):
            opened(self.database)

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    def check_unchanged(self) -> None:
        """Raise FrameChanged if a transaction that showed the rows of one moment failed, and they are others now.

        A file is locked while it is open.
        """
        if not isinstance(self.database, Path):
            self._check_process()
        if self._known and any(executor.broken for executor in self._given):
            columns, key, digest = self._known[0]
            if fingerprint_like(digest, self, columns, key) != digest:
                raise FrameChanged(
                    f"{self.table} was changed in its database after it was protected; nothing was spent. To ask about "
                    "what is in it now, protect it under a new name"
                )

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        executor, relation = self.connect()
        return [name for name, _ in executor.types(f"SELECT * FROM {relation}")]

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Return a connection that sees the table."""
        import duckdb

        if not isinstance(self.database, Path):
            self._check_process()
            cursor = opened(self.database.cursor())
            # Never committed: whatever is written to the table from now on, this cursor sees the rows of this moment.
            cursor.execute("BEGIN TRANSACTION")
            executor = DuckDBExecutor(cursor, lent=True)
            self._given.add(executor)
            return executor, identifier(self.table)
        connection = opened(duckdb.connect())
        connection.execute(f"ATTACH {literal(str(self.database.resolve()))} AS source (READ_ONLY)")
        seal(connection)
        return DuckDBExecutor(connection), f"source.{identifier(self.table)}"

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise EngineError(
                f"{shorten(self.table)} is read through a connection of the process that this one was forked from; "
                "make a "
                "session of its own here, with a connection that is opened here"
            )

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        executor, relation = self.connect()
        kinds = dict(executor.types(f"SELECT * FROM {relation}"))
        found = row_sums(executor, relation, [(name, kinds[name]) for name in columns], key)
        return self._noted(columns, key, SUMS + keyed(key, "table", *columns, repr(found).encode()))

    def fingerprint_by_text(self, columns: Sequence[str], key: bytes) -> str:
        """Return the digest of earlier versions, from the MD5 of every row's text: exact, and 30 times slower."""
        executor, relation = self.connect()
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in map(_as_text, columns)]
        salt = literal(hmac.new(key, b"rows", "sha256").hexdigest())
        row = f"concat({salt}, {', '.join(parts)})"
        sums = ", ".join(f"sum(md5_number_{half}({row})::HUGEINT)" for half in ("lower", "upper"))
        assert executor.connection is not None
        found = executor.connection.execute(f"SELECT count(*), {sums} FROM {relation}").fetchone()
        return self._noted(columns, key, keyed(key, "table", *columns, repr(found).encode()))

    def _noted(self, columns: Sequence[str], key: bytes, digest: str) -> str:
        if not self._known:
            self._known.append((tuple(columns), key, digest))
        return digest


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
    return source.fingerprint(columns, key)


def source_of(data: Any) -> Source:
    """Return where the rows of `data` are.

    Parameters
    ----------
    data
        A pandas DataFrame; the path of a Parquet file; (database, table) with the path of a DuckDB file, an open DuckDB
        connection, the address "postgresql://..." of a PostgreSQL database, or a Spark session; or a Spark DataFrame.

    Raises
    ------
    DomainError
        If it is none of these, or the file or table is not there.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        if not data.columns.is_unique:
            raise DomainError("the frame has two columns of the same name; give them different names first")
        return FrameSource(data.copy(deep=False))
    if type(data).__module__.startswith("pyspark."):
        from dpnotebook.engine.spark_source import SparkSource

        return SparkSource.of(data)
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
    raise DomainError(
        f"cannot protect a {type(data).__name__}: give a pandas DataFrame, the path of a Parquet file, "
        "(database, table) with a DuckDB file or connection, or tables in PostgreSQL or Spark"
    )


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DomainError(f"there is no file {path}")
    return path


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _check_table(source: TableSource) -> None:
    import duckdb

    try:
        executor, relation = source.connect()
    except duckdb.Error:
        raise DomainError(
            f"{source.database if isinstance(source.database, Path) else 'that connection'} cannot be opened as a "
            "DuckDB database; if a connection of yours has it open, give the connection itself"
        ) from None
    try:
        executor.types(f"SELECT * FROM {relation}")
    except EngineError:
        raise DomainError(f"there is no table or view {shorten(source.table)} in that database") from None


def seal(connection: duckdb.DuckDBPyConnection) -> None:
    """Shut a connection off: no other file, no network, no way back; it sees the protected rows only."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET enable_progress_bar = false")  # in notebooks it is a widget of its own
    connection.execute("SET lock_configuration = true")


def _as_text(column: str) -> str:
    return f"CAST({identifier(column)} AS VARCHAR)"


def keyed(key: bytes, *parts: str | bytes) -> str:
    """Return a digest of parts that only who has the key can make."""
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()

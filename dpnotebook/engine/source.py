"""Where the rows of a protected table are: a pandas frame, a Parquet file, a table in DuckDB. Nothing is copied."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dpnotebook.engine.sql import identifier, literal
from dpnotebook.errors import DomainError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

CHUNK = 1 << 24


class Source(Protocol):
    """A place that rows can be read from."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""

    def connect(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Return a connection and the SQL of the relation to select from."""

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the rows; equal digests mean the same snapshot."""


@dataclass(frozen=True)
class FrameSource:
    """A snapshot of a pandas frame; the frame's memory is shared, and copied by pandas when the frame is changed."""

    frame: pd.DataFrame

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        return [str(name) for name in self.frame.columns]

    def connect(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Return a sealed connection in which the frame is registered."""
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET pandas_analyze_sample = 100000")
        connection.register("frame", self.frame)
        _seal(connection)
        return connection, "frame"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the values of `columns`, in row order."""
        import pandas as pd

        try:
            rows = pd.util.hash_pandas_object(self.frame[list(columns)], index=False, hash_key="0123456789abcdef")
        except TypeError:
            raise DomainError(
                "a declared column holds lists or other objects; only plain values can be counted"
            ) from None
        return _keyed(key, "frame", *columns, rows.to_numpy().tobytes())


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, read in place."""

    path: Path

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        connection, relation = self.connect()
        return [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]

    def connect(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Return a connection that can read this file and nothing else."""
        import duckdb

        connection = duckdb.connect()
        where = literal(str(self.path.resolve()))
        connection.execute(f"SET allowed_paths = [{where}]")
        _seal(connection)
        return connection, f"read_parquet({where})"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the file's bytes."""
        digest = hashlib.blake2b(key=key)
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return _keyed(key, "parquet", digest.digest())


@dataclass(frozen=True)
class TableSource:
    """A table or view in DuckDB: in a database file, opened read-only, or in a connection of the user's."""

    database: Path | duckdb.DuckDBPyConnection
    table: str

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        connection, relation = self.connect()
        return [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]

    def connect(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Return a connection that sees the table."""
        import duckdb

        if not isinstance(self.database, Path):
            return self.database.cursor(), identifier(self.table)
        connection = duckdb.connect()
        connection.execute(f"ATTACH {literal(str(self.database.resolve()))} AS source (READ_ONLY)")
        _seal(connection)
        return connection, f"source.{identifier(self.table)}"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        connection, relation = self.connect()
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in map(_as_text, columns)]
        salt = literal(hmac.new(key, b"rows", "sha256").hexdigest())
        row = f"concat({salt}, {', '.join(parts)})"
        sums = ", ".join(f"sum(md5_number_{half}({row})::HUGEINT)" for half in ("lower", "upper"))
        found = connection.execute(f"SELECT count(*), {sums} FROM {relation}").fetchone()
        return _keyed(key, "table", *columns, repr(found).encode())


def source_of(data: Any) -> Source:
    """Return where the rows of `data` are.

    Parameters
    ----------
    data
        A pandas DataFrame; the path of a Parquet file; or (database, table) with the path of a DuckDB file or an open
        DuckDB connection.

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
    if isinstance(data, (str, Path)):
        return ParquetSource(_existing(Path(data)))
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], str):
        database, table = data
        source = TableSource(_existing(Path(database)) if isinstance(database, (str, Path)) else database, table)
        _check_table(source)
        return source
    raise DomainError(
        f"cannot protect a {type(data).__name__}: give a pandas DataFrame, the path of a Parquet file, or "
        "(database, table) with a DuckDB file or connection"
    )


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DomainError(f"there is no file {path}")
    return path


def _check_table(source: TableSource) -> None:
    import duckdb

    try:
        _ = source.columns
    except duckdb.Error:
        raise DomainError(f"there is no table or view {source.table!r} in that database") from None


def _seal(connection: duckdb.DuckDBPyConnection) -> None:
    """No other file, no network, no way back: what runs here sees the protected rows only."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _as_text(column: str) -> str:
    return f"CAST({identifier(column)} AS VARCHAR)"


def _keyed(key: bytes, *parts: str | bytes) -> str:
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()

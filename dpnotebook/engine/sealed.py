"""Connections to DuckDB that see protected rows: shut off from all else, and leaving no rows behind."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpnotebook.dialect.attributes import literal
from dpnotebook.ledger.forks import opened

if TYPE_CHECKING:
    import duckdb

SAMPLE = 1_000  # DuckDB's own
DENSE = 17  # bits of whole numbers up to which rows are grouped by place, not by hash: each thread has all places
_numbers = itertools.count()


def sealed(
    files: Sequence[Path] = (), attached: Mapping[str, Path] | None = None, strict: bool = True
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database in memory that can read a few files and nothing else.

    Parameters
    ----------
    files
        Parquet files that it may read.
    attached
        DuckDB files that it reads, by the name of each.
    strict
        Whether a file that cannot be attached is an error.

    Raises
    ------
    duckdb.Error
        If a file cannot be attached.
    """
    import duckdb

    if not files and not attached:
        return without_files()
    connection = opened(duckdb.connect())
    if files:
        listed = ", ".join(literal(str(path.resolve())) for path in files)
        connection.execute(f"SET allowed_paths = [{listed}]")
    for name, path in (attached or {}).items():
        with contextlib.nullcontext() if strict else contextlib.suppress(duckdb.Error):
            connection.execute(f"ATTACH {literal(str(path.resolve()))} AS {name} (READ_ONLY)")
    seal(connection)
    return connection


def without_files(sample: int = SAMPLE) -> duckdb.DuckDBPyConnection:
    """Return a sealed connection to the process's database in memory that reads no files.

    Frames that are registered, views and tables are temporary there: the connection that made them sees them, no other.

    Parameters
    ----------
    sample
        How many rows of a frame are looked at for the type of a column of objects.
    """
    import duckdb

    try:
        return _cursor(sample)
    except duckdb.Error:  # after a failure inside of DuckDB a database answers nothing any more
        empty_database.cache_clear()
        return _cursor(sample)


def _cursor(sample: int) -> duckdb.DuckDBPyConnection:
    connection = opened(empty_database(os.getpid(), sample).cursor())
    connection.execute("SELECT 1").fetchall()
    return connection


@functools.cache
def empty_database(process: int, sample: int = SAMPLE) -> duckdb.DuckDBPyConnection:
    """Return a sealed database without tables, one a process: to open one takes longer than most that it is asked.

    Parameters
    ----------
    process, sample
        The number of this process, and what `without_files` takes.
    """
    import duckdb

    connection = opened(duckdb.connect())
    connection.execute(f"SET GLOBAL pandas_analyze_sample = {sample}")
    seal(connection)
    atexit.register(_close, connection, process)
    return connection


def _close(connection: duckdb.DuckDBPyConnection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def seal(connection: duckdb.DuckDBPyConnection) -> None:
    """Shut a connection off: no other file, no network, no way back; it sees the protected rows only.

    Rows that do not fit into memory go to a folder that nobody else can read, and that goes with the connection.
    """
    connection.execute(f"SET temp_directory = {literal(scratch())}")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # of its cursors too
    connection.execute("SET enable_external_access = false")
    connection.execute("SET enable_progress_bar = false")  # in notebooks it is a widget of its own
    connection.execute(f"SET GLOBAL perfect_ht_threshold = {DENSE}")
    connection.execute("SET lock_configuration = true")


def scratch() -> str:
    """Return the path of a folder that DuckDB makes when it needs it, and removes; no folder where none can be."""
    parent = _private(os.getpid())
    return "" if parent is None else str(Path(parent) / str(next(_numbers)))


@functools.cache
def _private(process: int) -> str | None:
    try:
        folder = tempfile.mkdtemp(prefix="dpnotebook-")  # of its owner only
    except OSError:
        return None
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: str, process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)

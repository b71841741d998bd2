"""Whether a table that is said to be public is one that is protected: by its memory, its file, its name or its rows."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.source import FrameSource, ParquetSource, Source, TableSource
from dpnotebook.errors import EngineError

if TYPE_CHECKING:
    import pandas as pd

# What a table in PostgreSQL is made of: the tables of views, and those that rows are shared with by inheritance.
_MADE_OF = """
WITH RECURSIVE edges(made, of) AS (
    SELECT r.ev_class, d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
    UNION SELECT inhrelid, inhparent FROM pg_inherits UNION SELECT inhparent, inhrelid FROM pg_inherits
), found(place) AS (
    VALUES ({public}::oid) UNION SELECT edges.of FROM found JOIN edges ON edges.made = found.place
)
SELECT EXISTS (SELECT FROM found WHERE place = {protected}::oid)
"""


def is_same(public: Source, protected: Source) -> bool:
    """Return whether a public table shows rows of a protected one.

    Parameters
    ----------
    public, protected
        Where their rows are.
    """
    if isinstance(public, FrameSource) and isinstance(protected, FrameSource):
        return _share_memory(public.frame, protected.frame) or _equal(public.rows, protected.rows)
    if isinstance(public, ParquetSource) and isinstance(protected, ParquetSource):
        return _same_file(public.path, protected.path)
    if isinstance(public, TableSource):
        if isinstance(protected, ParquetSource):
            return any(protected.path.name in text for text in public.definitions())
        return isinstance(protected, TableSource) and _shows(public, protected)
    if public.place[0] != protected.place[0]:
        return False
    if public.place[0] == "postgres":
        return _shows_in_postgres(public, protected)
    return public.place[0] == "spark" and _shows_in_spark(public, protected)


def _shows(public: TableSource, protected: TableSource) -> bool:
    """Return whether a table in DuckDB is another one, or a view of it."""
    import duckdb

    with contextlib.suppress(duckdb.Error, EngineError):  # a connection was closed: then only the rows can tell
        if _same_database(public, protected):
            name = protected.table.casefold()
            if public.table.casefold() == name or any(name in _words(text) for text in public.definitions()):
                return True
    return public.rows is not None and protected.rows is not None and _equal(public.rows, protected.rows)


def _shows_in_postgres(public: Any, protected: Any) -> bool:
    """Return whether a table or view is another one, is made of it, or is a part of it, whatever it is called."""
    from psycopg.conninfo import conninfo_to_dict

    from dpnotebook.engine.postgres import PostgresExecutor

    places = [conninfo_to_dict(source.dsn) for source in (public, protected)]
    if any(places[0].get(part) != places[1].get(part) for part in ("host", "hostaddr", "port", "dbname", "service")):
        return False
    executor = PostgresExecutor(public.dsn)
    try:
        query = _MADE_OF.format(public=public.relation.number, protected=protected.relation.number)
        return bool(executor.once(query)[0][0])
    finally:
        executor.close()


def _shows_in_spark(public: Any, protected: Any) -> bool:
    """Return whether a Spark frame is another one, or is worked out from it."""
    frames = [getattr(source.frame, "_jdf", None) for source in (public, protected)]
    if frames[0] is None or frames[1] is None or public.frame.sparkSession is not protected.frame.sparkSession:
        return public.frame is protected.frame
    wanted, waiting = frames[1].queryExecution().analyzed(), [frames[0].queryExecution().analyzed()]
    while waiting:
        plan = waiting.pop()
        if plan.sameResult(wanted):
            return True
        waiting += [plan.children().apply(i) for i in range(plan.children().size())]
    return False


def _same_database(one: TableSource, other: TableSource) -> bool:
    if one.database is other.database:
        return True
    mine, others = one.file, other.file
    if mine is not None and others is not None:
        return _same_file(mine, others)
    return mine is others is None and one.shares_memory(other)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.resolve() == other.resolve()


def _words(text: str) -> set[str]:
    return {(quoted or word).casefold() for quoted, word in re.findall(r'"((?:[^"]|"")*)"|(\w+)', text)}


def _equal(one: FrameColumns, other: FrameColumns) -> bool:
    """Whether two snapshots are the same rows in the same order."""
    return one.names == other.names and len(one.names) > 0 and one.frame(one.names).equals(other.frame(other.names))


def _share_memory(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    mine, others = ([_memory(frame.iloc[:, i].array) for i in range(frame.shape[1])] for frame in (one, other))
    arrays = [array for found in others for array in found[0]]
    addresses = {address for found in others for address in found[1]}
    return any(
        bool(addresses & found[1]) or any(np.may_share_memory(array, theirs) for array in found[0] for theirs in arrays)
        for found in mine
    )


def _memory(array: Any) -> tuple[list[np.ndarray[Any, Any]], set[int]]:
    """Return the arrays of a column, and the addresses of what Arrow holds of it."""
    arrow = getattr(array, "_pa_array", None)
    if arrow is not None:
        buffers = [buffer for chunk in arrow.chunks for buffer in chunk.buffers() if buffer is not None and buffer.size]
        return [], {buffer.address for buffer in buffers}
    parts = [getattr(array, name, None) for name in ("_ndarray", "_data", "_codes")]
    return [part for part in parts if isinstance(part, np.ndarray) and part.size], set()

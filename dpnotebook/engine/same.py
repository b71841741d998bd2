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
    mine, other = (getattr(source, "table", None) for source in (public, protected))
    return type(public) is type(protected) and public.place == protected.place and mine is not None and mine == other


def _shows(public: TableSource, protected: TableSource) -> bool:
    """Return whether a table in DuckDB is another one, or a view of it."""
    import duckdb

    with contextlib.suppress(duckdb.Error, EngineError):  # a connection was closed: then only the rows can tell
        if _same_database(public, protected):
            name = protected.table.casefold()
            if public.table.casefold() == name or any(name in _words(text) for text in public.definitions()):
                return True
    return public.rows is not None and protected.rows is not None and _equal(public.rows, protected.rows)


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

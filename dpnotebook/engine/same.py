"""Whether two tables are one: by their memory, their file, the names in their text or their rows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.engine.frames import FrameColumns

if TYPE_CHECKING:
    import pandas as pd


def same_file(one: Path, other: Path) -> bool:
    """Return whether two paths are of one file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one.resolve() == other.resolve()


def words(text: str) -> set[str]:
    """Return the names that a text of SQL holds, casefolded."""
    found = re.findall(r'"((?:[^"]|"")*)"|(\w+)', text)
    return {(quoted.replace('""', '"') or word).casefold() for quoted, word in found}


def equal(one: FrameColumns, other: FrameColumns) -> bool:
    """Return whether two snapshots are the same rows in the same order."""
    return one.names == other.names and len(one.names) > 0 and one.frame(one.names).equals(other.frame(other.names))


def share_memory(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return whether a column of one frame lies in the memory of the other."""
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


def same_memory(now: pd.Series[Any], then: pd.Series[Any]) -> bool:
    """Return whether two columns are the same memory: pandas copies a column before it writes to one that is shared."""
    if now.dtype != then.dtype or len(now) != len(then):
        return False
    tokens = [_buffers(column.array) for column in (now, then)]
    return bool(tokens[0] == tokens[1]) if tokens[0] is not None else now.equals(then)


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

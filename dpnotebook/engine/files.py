"""Files that rows are read from in place: which there are, and whether one was changed."""

from __future__ import annotations

from pathlib import Path

from dpnotebook.engine.base import Source
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten


def existing(path: Path) -> Path:
    """Return the path of a file.

    Raises
    ------
    DomainError
        If there is none.
    """
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise DomainError(f"there is no file {shorten(str(path), 200)[1:-1]}")
    return path


def stamp_of(path: Path) -> tuple[int, int, int]:
    """Return what tells whether a file was replaced or written to."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def check_file(source: Source) -> None:
    """Make sure that a file was not changed while it was read.

    Raises
    ------
    EngineError
        If it was: what was counted is of no one set of rows.
    """
    try:
        source.check_unchanged()
    except FrameChanged:
        raise EngineError("the file was changed while it was read") from None

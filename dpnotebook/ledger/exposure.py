"""Who else may read, write or replace the ledger's file: refused or warned of, with the line that mends it.

The file holds the ledger's key and every noisy answer, and whoever can write to it, or put another file in its place,
can take back what was spent. It is made for its owner alone; a chmod, an unpacked archive or a shared folder may have
opened it since. Where a system has no such permissions (Windows), nothing is checked.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import warnings
from pathlib import Path

from dpnotebook.errors import LedgerError, LedgerWarning

POSIX = os.name == "posix"
_said: set[str] = set()


def check_exposure(path: Path) -> None:
    """Check who may do what with a ledger's file.

    Parameters
    ----------
    path
        The file itself, not a link to it.

    Raises
    ------
    LedgerError
        If everybody may write to it, or it has a second name.

    Warns
    -----
    LedgerWarning
        If everybody may read it, its group may write to it, or everybody may replace it.
    """
    if not POSIX:
        return
    status = path.stat()
    mend = f"chmod 600 {shlex.quote(str(path))}"
    if status.st_mode & stat.S_IWOTH:
        raise LedgerError(
            f"everybody on this machine may write to {path}, and so take back what was spent. Run: {mend} (where a "
            f"disk keeps no permissions, move the ledger to one that does)"
        )
    if status.st_nlink > 1 and _names(path) > 1:
        raise LedgerError(
            f"{path} has a second name (a hard link): who uses it by that name would not see what is being written "
            f"here. Replace the other name by a copy, made with session.ledger.backup, or remove it"
        )
    if status.st_mode & stat.S_IROTH:
        warn(f"everybody on this machine can read {path}, with its secret key and every answer. Run: {mend}")
    if status.st_mode & stat.S_IWGRP:
        warn(f"the group of {path} may write to it, and so take back what was spent. Unless all of it may: {mend}")
    for folder in path.parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            mend = f"chmod o-w {shlex.quote(str(folder))}"
            warn(f"everybody on this machine may replace {path}, for example by an older copy. Run: {mend}")
            break


def warn(text: str, about: str = "") -> None:
    """Warn the user at the line of theirs that led here, once for each text, or for what it is about."""
    if (about or text) in _said:
        return
    package, level, frame = os.path.join(os.path.dirname(os.path.dirname(__file__)), ""), 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, LedgerWarning, stacklevel=level)
    _said.add(about or text)


def _names(path: Path) -> int:
    """Return how many names a file has, after removing those that it had while it was being made."""
    own = path.stat()
    for draft in path.parent.glob(f".{_literally(path.name)}.*.new"):
        try:
            other = draft.lstat()
            if (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino):
                draft.unlink()
        except FileNotFoundError:  # its maker was faster
            pass
    return path.stat().st_nlink


def _literally(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)

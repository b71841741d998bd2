"""What SQLite reports, said in the words of the person whose ledger it is."""

from __future__ import annotations

import errno
import os
import sqlite3

from dpnotebook.errors import LedgerCorrupt, LedgerError, LedgerFull, LedgerLocked, LedgerReadOnly, shorten

# A write of a few pages fails below this; SQLite calls some of these failures an input/output error.
ROOM = 1 << 16
MOST_OF_PATH = 250  # characters


def translated(error: sqlite3.Error, path: str, timeout: float) -> LedgerError:
    """Return the error to raise in place of SQLite's.

    Parameters
    ----------
    error
        What SQLite raised.
    path
        The ledger's file, or ":memory:".
    timeout
        How many seconds a lock was waited for.
    """
    shown = shorten(path, MOST_OF_PATH)[1:-1]
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerLocked(
            f"{shown} has been held by another process for {timeout:g} s; nothing was written. "
            f"Run this again when the other notebook's query has ended, or restart the kernel that holds it"
        )
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _no_room(path)):
        return LedgerFull(f"no room on the disk to write to {shown}; nothing was written. Make room and run this again")
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return LedgerReadOnly(f"{shown} or its folder cannot be written, so nothing was; make both writable")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH):
        return corrupt(path, str(error))
    return LedgerError(f"{shown} cannot be used: {error}")


def translated_system(error: OSError, path: str) -> LedgerError:
    """Return the error to raise where the system did not let the file be found or made."""
    shown = shorten(path, MOST_OF_PATH)[1:-1]
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        doing = "write to" if os.path.exists(path) else "make"
        return LedgerFull(f"no room on the disk to {doing} {shown}; make room and run this again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return LedgerReadOnly(f"{shown} cannot be read and written by you: {error.strerror}; write another path")
    return LedgerError(f"{shown} cannot be used: {error.strerror or error}")


def corrupt(path: str, what: str) -> LedgerCorrupt:
    """Return the error for a file that is no ledger, or a damaged one."""
    shown = shorten(path, MOST_OF_PATH)[1:-1]
    return LedgerCorrupt(
        f"{shown} is not a sound ledger: {what}. Nothing was asked of the data and the file was left as it is. "
        f"Restore it from a copy; a new ledger would not know what was spent from this one"
    )


def _no_room(path: str) -> bool:
    try:
        status = os.statvfs(os.path.dirname(path))
    except (OSError, AttributeError):
        return False
    return status.f_bavail * status.f_frsize < ROOM

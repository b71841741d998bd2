"""The one file of a ledger: how SQLite writes it, and what lies beside it and is not its own.

A rollback journal, not a write-ahead log: what was committed is in the file itself when the commit returns, so a copy
of the file has every charge that was acknowledged before it was begun, and nothing else need be copied. A write-ahead
log keeps commits in a second file for as long as any kernel is open, and loses them with it. A copy that was made while
something was being written may be torn; then its totals do not follow from its entries, and it is refused.

SQLite plays back whatever journal or log has the right name, whichever copy of the file it was written for. So before
a file is used it is checked that they belong together.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from dpnotebook.errors import LedgerCorrupt, LedgerLocked
from dpnotebook.ledger.failures import corrupt

APPLICATION = 0x64706E62  # "dpnb"
EARLIER = 1  # versions that kept commits in a write-ahead log; they refuse what is of the later format
WIDE = 2  # versions that kept recorded numbers as 64-bit integers, and cannot read shorter ones
FORMAT = 3
_MAGIC = bytes.fromhex("d9d505f920a163d7")
_LIVE = 1.0  # seconds; a journal that another kernel is writing is another one long before
_ROLLBACK = 1  # what a file's header says of its journal; 2 is a write-ahead log


def use_rollback_journal(connection: sqlite3.Connection, path: str, patience: float) -> None:
    """Turn a file from a write-ahead log to a rollback journal, once and for all; what the log holds is kept.

    Raises
    ------
    LedgerLocked
        If another process, of an earlier version perhaps, has the file open all the time.
    """
    while True:
        with contextlib.suppress(sqlite3.OperationalError):
            if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == b"delete":
                return
        if time.monotonic() >= patience:
            raise LedgerLocked(
                f"{path} is open in another program, or in a kernel with an earlier version of dpnotebook; nothing was "
                f"written. Close that one or restart its kernel, then run this again"
            )
        time.sleep(0.02)


def check_beside(path: str) -> None:
    """Check that a journal or log that lies beside a ledger's file belongs to it, before SQLite plays it back.

    Raises
    ------
    LedgerCorrupt
        If one does not.
    """
    log, journal = _size(f"{path}-wal"), _size(f"{path}-journal")
    if not (log or journal):
        return
    header = _header(path)
    if int.from_bytes(header[68:72], "big") != APPLICATION:
        return
    if log and int.from_bytes(header[60:64], "big") > EARLIER and header[18] == _ROLLBACK:
        raise _stranger(path, "-wal", "a ledger keeps nothing in such a file")
    if journal:
        _check_journal(path)


def _check_journal(path: str) -> None:
    """Check that a journal undoes a change of this very state of the file: every change counts itself on page 1."""
    seen, since = None, time.monotonic()
    while True:
        nonce, before = _journal(f"{path}-journal")
        now = int.from_bytes(_header(path)[24:28], "big")
        if before is None or now in (before, (before + 1) % 2**32):
            return
        if seen != (nonce, now):
            seen, since = (nonce, now), time.monotonic()
        elif time.monotonic() - since > _LIVE:
            raise _stranger(path, "-journal", "it was written for another copy of it")
        time.sleep(0.01)


def _journal(path: str) -> tuple[bytes, int | None]:
    """Return what is particular to a rollback journal, and the change counter of the state that it would restore.

    Source: https://www.sqlite.org/fileformat.html, section 3. None where it restores nothing, or cannot be read.
    """
    try:
        data = Path(path).read_bytes()  # SQLite holds no lock on it
    except OSError:
        return b"", None
    start = 0
    while data[start : start + 8] == _MAGIC and len(data) >= start + 28:
        count, _, _, sector, page = struct.unpack(">IIIII", data[start + 8 : start + 28])
        if not (sector and page):
            break
        start += sector
        for _ in range(count):
            record, start = data[start : start + 4 + page], start + page + 8
            if len(record) == 4 + page and record[:4] == b"\0\0\0\1":
                return data[12:16], int.from_bytes(record[28:32], "big")
        start = -(-start // sector) * sector
    return data[12:16], None


def _stranger(path: str, suffix: str, why: str) -> LedgerCorrupt:
    name = f"{Path(path).name}{suffix}"
    return corrupt(
        path,
        f"{name} lies beside it and does not belong to it ({why}); SQLite would write it into the ledger. If you put "
        f"a copy in the ledger's place, move {name} away",
    )


def _header(path: str) -> bytes:
    patience = time.monotonic() + _LIVE
    while True:
        try:
            with as_it_lies(path) as connection:
                return connection.serialize()[:100]
        except sqlite3.OperationalError:  # its length changed meanwhile: another process commits
            if time.monotonic() >= patience:  # or one was killed while it did: its pages are not all there
                with contextlib.suppress(OSError):
                    return os.read(os.open(path, os.O_RDONLY), 100)  # it stays open: to close it drops locks
                raise
            time.sleep(0.01)


@contextlib.contextmanager
def as_it_lies(path: str) -> Iterator[sqlite3.Connection]:
    """Give a connection that reads a file and nothing beside it, and changes nothing."""
    # By SQLite: to open and close the file in another way would drop the locks that this process has on it.
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        connection.text_factory = bytes
        yield connection
    finally:
        connection.close()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0

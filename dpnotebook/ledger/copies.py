"""A copy of a ledger that is whole: made by SQLite's backup, audited, and on the disk before it has its name."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from dpnotebook.errors import LedgerError
from dpnotebook.ledger.audit import Audit, examine_connection
from dpnotebook.ledger.failures import corrupt, translated, translated_system
from dpnotebook.ledger.files import check_folder, create, place_of
from dpnotebook.ledger.store import MEMORY, Store


def back_up(store: Store, path: object) -> Audit:
    """Write a copy of a ledger to a new file; see `Ledger.backup`."""
    place = place_of(path)
    if place == MEMORY:
        raise LedgerError("a backup is a file: write its path, such as 'clinic-backup.ledger'")
    target = Path(os.path.realpath(place))
    audits: list[Audit] = []

    def build(draft: Path) -> None:
        with store.reading() as source, contextlib.closing(_file_of_ours(draft)) as copy:
            source.backup(copy)
        with contextlib.closing(_file_of_ours(draft, "&immutable=1")) as copy:
            audits.append(examine_connection(copy))
        handle = os.open(draft, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if not audits[0].ok:
            raise corrupt(store.path, f"no backup was made of it; {audits[0].problems[0]}")

    try:
        check_folder(target)
        if os.path.lexists(target) or not create(target, build):
            raise LedgerError(
                f"{target} is there already, and a backup overwrites nothing. Write another name, such as "
                f"{target.stem}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}{target.suffix}"
            )
    except sqlite3.Error as error:
        raise translated(error, str(target), store.timeout) from error
    except OSError as error:
        raise translated_system(error, str(target)) from error
    return audits[0]


def _file_of_ours(path: Path, more: str = "") -> sqlite3.Connection:
    # Nobody else knows the file yet, so it needs no locks: it may lie where there are none, on a network.
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw&nolock=1{more}", uri=True, isolation_level=None)
    connection.text_factory = bytes
    connection.execute("PRAGMA journal_mode = OFF")
    return connection

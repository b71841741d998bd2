"""Connections that survive a fork of the process: none is open while it happens.

SQLite keeps what it knows of its locks in the process's memory. A child that inherits an open connection also
inherits that knowledge, but not the locks: even a connection of its own would then write without holding them. So
every connection is closed before a fork, and parent and child open their own when they next need one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator

from dpnotebook.errors import LedgerError

# Held while a handle is made and across a fork, so that a fork sees every handle.
_guard = threading.Lock()
_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_held: list[Handle] = []
# Connections of another process, kept for ever: closing one could remove files that the other still writes.
_foreign: list[sqlite3.Connection] = []


class Handle:
    """A connection that is opened when it is needed, for one thread at a time.

    Parameters
    ----------
    connect
        Opens the connection.
    survives
        Whether the connection stays open across a fork, because it would lose what it holds: one in memory.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, survives: bool = False) -> None:
        self._lock = threading.RLock()
        self.survives = survives
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._owner = os.getpid()
        with _guard:
            _handles.add(self)

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection; only inside `held`."""
        if self._connection is not None and self._owner != os.getpid() and not self.survives:
            raise LedgerError("this process was forked without Python knowing of it: use the ledger in its parent only")
        if self._connection is None:
            self._connection, self._owner = self._connect(), os.getpid()
        return self._connection

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from the connection, and a fork from happening, while the block runs; blocks must not nest."""
        with _guard:  # behind a fork that waits for its turn, or busy threads would never let it through
            pass
        with self._lock:
            yield

    def close(self) -> None:
        """Close the connection if it is open; it opens again when it is needed."""
        connection, self._connection = self._connection, None
        if connection is not None and self._owner != os.getpid():
            _foreign.append(connection)
        elif connection is not None:
            connection.close()

    def __del__(self) -> None:
        self.close()


def _before_fork() -> None:
    _guard.acquire()
    for handle in list(_handles):
        handle._lock.acquire()  # waits for the transaction of another thread to end
        _held.append(handle)
        if not handle.survives:
            handle.close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

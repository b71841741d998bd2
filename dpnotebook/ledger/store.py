"""The SQLite file under the ledger: one connection a thread, transactions that are whole or nothing.

Rollback journal, full synchronisation (a commit is in the file and on the disk when it returns), and `BEGIN IMMEDIATE`
around every read-check-append, so that of several kernels only one at a time decides whether a cost still fits.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from numbers import Real
from pathlib import Path

from dpnotebook.errors import LedgerError
from dpnotebook.ledger.exposure import check_exposure
from dpnotebook.ledger.failures import corrupt, translated, translated_system
from dpnotebook.ledger.files import check_place, create, place_of, way_to_read
from dpnotebook.ledger.journals import APPLICATION, EARLIER, FORMAT, WIDE, check_beside, use_rollback_journal

MEMORY = ":memory:"
TURN = 0.25  # seconds
LONGEST = 86_400.0

# Nothing outside the chain is trusted: `state` and `snapshot` must follow from it, `refusal` is only a log.
SCHEMA = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, payload BLOB NOT NULL, "
    "prev BLOB NOT NULL, hash BLOB NOT NULL, answers BLOB)",
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, spent INTEGER NOT NULL, "
    "head BLOB NOT NULL, key BLOB NOT NULL)",
    "CREATE TABLE snapshot (name TEXT NOT NULL UNIQUE, charge INTEGER NOT NULL, spend BLOB NOT NULL)",
    "CREATE TABLE refusal (time TEXT NOT NULL, name TEXT NOT NULL, question TEXT NOT NULL, requested TEXT NOT NULL, "
    "remaining TEXT NOT NULL)",
    "CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
    "CREATE TRIGGER entry_is_final BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
)

Fill = Callable[[sqlite3.Connection], None]

# Held while a handle is made and across a fork, so that a fork sees every handle.
_guard = threading.Lock()
_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_held: list[Handle] = []
# Connections of another process, kept for ever: closing one could remove files that the other still writes.
_foreign: list[sqlite3.Connection] = []


class Store:
    """A ledger's database, in a file or in memory.

    Parameters
    ----------
    path
        The file, or ":memory:".
    timeout
        Seconds to wait for another process's transaction.
    fill
        Writes the first rows into a new database whose schema is there; None: the file must exist, and one of an
        earlier format stays as it is.

    Raises
    ------
    LedgerError
        If the file cannot be used; its subclasses say why.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float, fill: Fill | None) -> None:
        self.timeout = _seconds(timeout)
        path = place_of(path)
        self.memory = path == MEMORY
        self.path = MEMORY if self.memory else os.path.realpath(path)
        self._process = os.getpid()
        self._closed, self._upgrades, self._mode = False, fill is not None, "rw"
        self._threads = threading.local()
        self._shared = Handle(self._connect_memory, survives=True) if self.memory else None
        if self.memory:
            if fill is None:
                raise LedgerError("a ledger in memory has no file to open")
            with self.writing() as connection:
                _lay_out(connection)
                fill(connection)
        else:
            self._find_or_create(Path(self.path), fill)
            self._identity = _identity(self.path)
            try:
                with self.reading() as connection:
                    _check_schema(connection, self.path)
                    if fill is not None:  # an audit names all that is damaged
                        _check_pages(connection, self.path)
            except BaseException:
                self.close()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the database; waits while another process commits."""
        with self._transaction("BEGIN", "SELECT entries FROM state") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that alone may write; all is written when the block ends, nothing if it raises."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
        if not self.memory and _identity(self.path) != self._identity:
            raise corrupt(self.path, "the file was moved, deleted or replaced while it was written to")

    def close(self) -> None:
        """Close the connections; each closes when the thread that is using it is done."""
        self._closed = True
        self._threads = threading.local()
        if self._shared is not None:
            with self._shared.held():
                self._shared.close()

    @contextlib.contextmanager
    def _transaction(self, *begin: str) -> Iterator[sqlite3.Connection]:
        handle = self._handle()
        with handle.held():
            try:
                connection = handle.connection
                if connection.in_transaction:  # an interrupt struck between the end of a block and its commit
                    connection.execute("ROLLBACK")
                try:
                    self._begin(connection, begin)
                    yield connection
                    self._patiently(connection, "COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        with contextlib.suppress(sqlite3.Error):
                            connection.execute("ROLLBACK")
                    raise
            except UnicodeDecodeError:  # SQLite quotes a damaged schema in what it says
                raise corrupt(self.path, "its tables are not those of a ledger") from None
            except sqlite3.Error as error:
                raise translated(error, self.path, self.timeout) from error

    def _begin(self, connection: sqlite3.Connection, begin: tuple[str, ...]) -> None:
        for statement in begin:
            self._patiently(connection, statement)
        if begin == ("BEGIN IMMEDIATE",) and connection.execute("PRAGMA journal_mode").fetchone()[0] == b"wal":
            connection.execute("ROLLBACK")  # another program changed it: what is committed now would be in its log
            use_rollback_journal(connection, self.path, time.monotonic() + self.timeout)
            self._patiently(connection, *begin)

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> None:
        """Execute what may have to wait, in short turns: an interrupt of the kernel gets through between them."""
        patience = time.monotonic() + self.timeout
        while True:
            wait = max(0.0, min(TURN, patience - time.monotonic()))
            connection.execute(f"PRAGMA busy_timeout = {math.ceil(1000 * wait)}")
            try:
                connection.execute(statement).fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= patience:
                    raise
            else:
                connection.execute(f"PRAGMA busy_timeout = {math.ceil(1000 * self.timeout)}")
                return

    def _handle(self) -> Handle:
        if self._closed:
            raise LedgerError(f"the ledger {self.path} was closed; open it again")
        if self._shared is not None:
            if os.getpid() != self._process:
                raise LedgerError(
                    "a ledger in memory belongs to the process that made it, and this one was forked from it; "
                    'keep the ledger in a file: Session(ledger="my.ledger")'
                )
            return self._shared
        if _identity(self.path) != self._identity:
            raise corrupt(self.path, "the file was moved, deleted or replaced while it was in use")
        if os.path.exists(f"{self.path}-wal"):
            check_beside(self.path)
        threads = self._threads
        handle: Handle | None = getattr(threads, "handle", None)
        if handle is None:
            handle = threads.handle = Handle(self._connect_file)
        return handle

    @staticmethod
    def _connect_memory() -> sqlite3.Connection:
        return _prepared(sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False))

    def _connect_file(self) -> sqlite3.Connection:
        check_beside(self.path)
        # mode: an existing file, never a new one. Threads take turns by the handle's lock.
        connection = sqlite3.connect(
            f"{Path(self.path).as_uri()}?mode={self._mode}",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.text_factory = bytes
            return self._upgraded(_prepared(connection))
        except BaseException:
            connection.close()
            raise

    def _upgraded(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Check that a database is a ledger, before anything in it is changed, and bring it to the format of today."""
        patience = time.monotonic() + self.timeout
        version = _recognise(connection, self.path)
        if self._upgrades and connection.execute("PRAGMA journal_mode").fetchone()[0] == b"wal":
            use_rollback_journal(connection, self.path, patience)
        if self._upgrades and version != FORMAT:
            self._patiently(connection, f"PRAGMA user_version = {FORMAT}")
        return connection

    def _find_or_create(self, file: Path, fill: Fill | None) -> None:
        def build(draft: Path) -> None:
            with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                _prepared(connection)
                connection.execute("BEGIN IMMEDIATE")
                _lay_out(connection)
                assert fill is not None  # or nothing is made
                fill(connection)
                connection.execute("COMMIT")

        try:
            if fill is None:
                self._mode = way_to_read(file)
                return
            check_place(file)
            if not file.exists():
                create(file, build)
            check_exposure(file)
        except sqlite3.Error as error:
            raise translated(error, self.path, self.timeout) from error
        except OSError as error:
            raise translated_system(error, self.path) from error


def _seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not 0 <= float(timeout) <= LONGEST:
        shown = timeout if isinstance(timeout, float) else f"a {type(timeout).__name__}"
        raise LedgerError(f"timeout= is a number of seconds to wait for another process, from 0 to a day; not {shown}")
    return float(timeout)


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.text_factory = bytes  # what was tampered with need not be text
    # EXTRA: also the folder is on the disk, or a journal that was deleted could come back and undo a commit.
    for pragma in ("synchronous = EXTRA", "fullfsync = ON", "checkpoint_fullfsync = ON", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _recognise(connection: sqlite3.Connection, path: str) -> int:
    """Return the format of a ledger, after checking that it is one and of a format that is known here."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise corrupt(path, "it is a database of another program")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (EARLIER, WIDE, FORMAT):
        raise LedgerError(f"{path} was written by another version of dpnotebook (format {version}); use that one")
    return int(version)


def _lay_out(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in SCHEMA:
        connection.execute(statement)


def _check_schema(connection: sqlite3.Connection, path: str) -> None:
    # A trigger or view that somebody added could make statements do something else.
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != {statement.encode() for statement in SCHEMA}:
        raise corrupt(path, "its tables are not those of a ledger")


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    # A copy that was made in the middle of a commit may have pages of before and after: later writes would mix them up.
    ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != b"ok":
        raise corrupt(path, f"the database is damaged: {found.decode(errors='replace')}")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# Connections that survive a fork of the process: none is open while it happens.
#
# SQLite keeps what it knows of its locks in the process's memory. A child that inherits an open connection also
# inherits that knowledge, but not the locks: even a connection of its own would then write without holding them. So
# every connection is closed before a fork, and parent and child open their own when they next need one.
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

"""What a database does for us: run one query and give its columns."""

from __future__ import annotations

import atexit
import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from dpnotebook.errors import EngineError, QueryFailed

if TYPE_CHECKING:
    import duckdb


_open: weakref.WeakSet[DuckDBExecutor] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let go of every connection in time: DuckDB reports those that outlive the interpreter as leaks."""
    for executor in list(_open):
        executor.close()


class Executor(Protocol):
    """A connection to a database that holds protected rows.

    Queries are written in DuckDB's SQL, whatever the database is.
    """

    @property
    def dialect(self) -> str:
        """What sqlglot calls the database's SQL."""

    @property
    def broken(self) -> bool:
        """Whether the connection was lost, or shows nothing any more after a failure."""

    def columns(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL.

        Raises
        ------
        EngineError
            If the database fails. What it says itself is not repeated: it may quote values.
        """

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types, as DuckDB calls them, of the columns of a query, without running it."""

    def md5_sums(self, text: str, rows: str) -> tuple[int, int]:
        """Return the number of rows and the sum, modulo 2^128, of the MD5 of a text of each.

        Parameters
        ----------
        text
            SQL, never NULL.
        rows
            SQL of what stands behind FROM.
        """

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query where only this connection sees them; return the name to select from."""

    def close(self) -> None:
        """Let go of the connection; closing again does nothing."""


class DuckDBExecutor:
    """A connection to DuckDB.

    Parameters
    ----------
    connection
        Sealed, or a cursor of the user's connection.
    """

    dialect = "duckdb"
    broken = False

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection: duckdb.DuckDBPyConnection | None = connection
        self._process = os.getpid()
        _open.add(self)

    def columns(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return dict(self._run(query, lambda result: result.fetchnumpy()))

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        rows = self._run(f"DESCRIBE {query}", lambda result: result.fetchall())
        return [(row[0], str(row[1])) for row in rows]

    def reduced(self, query: str, work: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
        """Return what `work` makes of the result of a query, which it reads bit by bit."""
        return self._run(query, work)

    def md5_sums(self, text: str, rows: str) -> tuple[int, int]:
        """Return the number of rows and the sum of the MD5 of a text of each; its first byte is the lowest."""
        low, high = f"(h & {2**64 - 1}::UHUGEINT)::HUGEINT", "(h >> 64)::HUGEINT"
        query = f"SELECT count(*), sum({low}), sum({high}) FROM (SELECT md5_number({text}) AS h FROM {rows})"
        number, low, high = self._run(query, lambda result: result.fetchone())
        return int(number), (int(low or 0) + (int(high or 0) << 64)) % 2**128

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query in a temporary table."""
        self._run(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", lambda result: None)
        return name

    def close(self) -> None:
        """Close the connection, unless it is a parent's."""
        if self.connection is not None and self._process == os.getpid():
            self.connection.close()
            self.connection = None

    def _run(self, query: str, fetch: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
        import duckdb

        if self.connection is None:
            raise EngineError("the table's connection was closed; protect the table again in a new session")
        connection = self.connection
        try:
            return interruptible(lambda: fetch(connection.execute(query)), connection.interrupt)
        except duckdb.Error as failure:
            raise failed("DuckDB", failure) from None


def md5_words(byte_numbers: str) -> list[str]:
    """Return SQL of the four words of 32 bits in an MD5 that is written in hexadecimal digits, its first byte lowest.

    Parameters
    ----------
    byte_numbers
        SQL of a number, for the SQL of eight hexadecimal digits in the place of {}.
    """
    words = []
    for word in range(4):
        digits = [f"substr(h, {1 + 2 * byte}, 2)" for byte in range(4 * word + 3, 4 * word - 1, -1)]
        words.append(f"sum({byte_numbers.format(' || '.join(digits))})")
    return words


def md5_total(found: Sequence[Any]) -> tuple[int, int]:
    """Return the number of rows and the sum, modulo 2^128, that the sums of four words are."""
    number, *words = [int(value or 0) for value in found]
    return number, sum(word << 32 * place for place, word in enumerate(words)) % 2**128


def interruptible(work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Return what work gives, done in a thread of its own: DuckDB does not look whether somebody wants it to stop.

    Parameters
    ----------
    work
        What is to be done.
    stop
        Makes it fail soon.

    Raises
    ------
    KeyboardInterrupt
        If it was interrupted meanwhile; it has ended then.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()  # an interrupted join() would forget the thread

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as caught:
            failure.append(caught)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        while not done.wait(0.05):
            stop()
        raise
    if failure:
        raise failure[0]
    return outcome[0]


def failed(engine: str, failure: Exception) -> QueryFailed:
    """Return an error that names the kind of a failure and nothing of its text."""
    kind = type(failure).__name__
    kind = re.sub(r"(Exception|Error)$", "", kind)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower() or "error"
    return QueryFailed(
        f"{engine} stopped with an error ({words}). Its own message is not shown because it may hold values of the data"
    )


def named(queries: Sequence[str]) -> set[str]:
    """Return, casefolded, every word in queries that could be the name of a column."""
    found = {pair for query in queries for pair in re.findall(r'"((?:[^"]|"")*)"|(\w+)', query)}
    return {(quoted.replace('""', '"') or word).casefold() for quoted, word in found}

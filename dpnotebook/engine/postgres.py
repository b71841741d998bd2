"""A connection to PostgreSQL that reads the rows of one moment, and never writes to a table of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.engine.dialects import translated
from dpnotebook.engine.executor import failed
from dpnotebook.engine.found import arrays
from dpnotebook.engine.kinds import kind_of
from dpnotebook.engine.postgres_functions import FUNCTIONS
from dpnotebook.engine.sql import identifier
from dpnotebook.errors import DomainError, EngineError
from dpnotebook.forks import opened

if TYPE_CHECKING:
    pass

SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",  # the transaction shows one moment's rows for as long as it lasts
    "SET jit = off",
)
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"
PATIENCE = 15  # seconds
TYPES = {
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext", "enum"), "VARCHAR"),
}


class PostgresExecutor:
    """A connection to PostgreSQL, in one transaction that sees the rows of one moment.

    Parameters
    ----------
    dsn
        Where the database is.

    Raises
    ------
    DomainError
        If it cannot be reached.
    """

    dialect = "postgres"

    def __init__(self, dsn: str) -> None:
        self._names: dict[str, str] = {}  # what tables are called here: a long name would be cut off
        self._bodies: dict[str, str] = {}  # what they are, by that name
        try:
            import psycopg
        except ImportError:
            raise DomainError("PostgreSQL needs psycopg: pip install 'dpnotebook[postgres]'") from None
        try:
            self._connection: Any = opened(
                psycopg.connect(dsn, autocommit=True, application_name="dpnotebook", connect_timeout=PATIENCE)
            )
        except psycopg.Error:
            raise DomainError(
                "that PostgreSQL database cannot be reached; check its address and that it runs"
            ) from None
        try:
            for statement in (*SETTINGS, *FUNCTIONS):
                self._connection.execute(statement)
        except psycopg.Error as failure:
            self._connection.close()
            raise failed("PostgreSQL", failure) from None

    def begin(self) -> None:
        """Begin to see the rows of this moment, and no later ones. Names mean the database's own from here on."""
        for statement in (
            "SET search_path = pg_catalog",
            BEGIN,
            "SELECT 1",
        ):
            self._connection.execute(statement)

    @property
    def broken(self) -> bool:
        """Whether the connection was lost."""
        return bool(self._connection.closed or self._connection.broken)

    def answers(self) -> bool:
        """Whether the connection still stands; a lost one is noticed when it is used."""
        with contextlib.suppress(EngineError):
            self.read("SELECT 1 AS one")
        return not self.broken

    def columns(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        described, rows = self.read(self._put(query))
        names = [name for name, _ in described]
        return arrays(names, [kind_of(kind) for _, kind in described], rows)

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        limited = f"SELECT * FROM ({query}) AS described LIMIT 0"
        return self.read(self._put(limited))[0]

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query in a temporary table, from which alone the next queries may select."""
        self.write(f"CREATE TEMP TABLE {identifier(name)} AS {self._put(query)}")
        self._connection.execute("COMMIT")  # or it would hold a lock on the tables that it was made from
        self._connection.execute(BEGIN)
        return name

    def define(self, name: str, hidden: str, body: str | None) -> None:
        """Say what a table is called here, and what it is: no view of ours may keep its owner from changing it.

        Parameters
        ----------
        name, hidden
            In queries, and here.
        body
            The query in PostgreSQL's words that is the table; None for a temporary table of that name.
        """
        self._names[name] = hidden
        if body is not None:
            self._bodies[hidden] = body

    def with_tables(self, text: str) -> str:
        """Return a query in PostgreSQL's words with what the tables in it are in front of it."""
        parts = [
            f"{identifier(hidden)} AS {body}" for hidden, body in self._bodies.items() if identifier(hidden) in text
        ]
        if not parts:
            return text
        rest = f", {text[5:]}" if text.startswith("WITH ") else f" {text}"
        return f"WITH {', '.join(parts)}{rest}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def read(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Return names and types of the columns of a query in PostgreSQL's words, and its rows."""

        def fetch() -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
            self._connection.execute("SET LOCAL transaction_read_only = on")
            # What is prepared is one statement for certain.
            cursor = self._connection.execute(text, prepare=True)
            described = [(column.name, self._type(column.type_code)) for column in cursor.description]
            return described, cursor.fetchall()

        return self._inside(fetch, keep=False)

    def once(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the database itself, before the transaction begins."""
        import psycopg

        try:
            found: list[tuple[Any, ...]] = self._connection.execute(text).fetchall()
        except psycopg.Error as failure:
            raise failed("PostgreSQL", failure) from None
        return found

    def write(self, text: str) -> None:
        """Make a temporary view or table."""
        self._inside(lambda: self._connection.execute(text), keep=True)

    def copy(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Fill a temporary table with public rows."""

        def fill() -> None:
            with self._connection.cursor().copy(f"COPY {identifier(name)} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)

        self._inside(fill, keep=True)

    def _inside(self, work: Any, keep: bool) -> Any:
        """Work in a part of the transaction that can be taken back; a failure must not end the transaction."""
        import psycopg

        try:
            self._connection.execute("SAVEPOINT part")
            try:
                found = work()
                if keep:
                    self._connection.execute("RELEASE SAVEPOINT part")
                    return found
            except BaseException:
                keep = False
                raise
            finally:
                if not keep and not self._connection.closed:
                    # Writing is allowed again with that, too.
                    self._connection.execute("ROLLBACK TO SAVEPOINT part")
                    self._connection.execute("RELEASE SAVEPOINT part")
        except psycopg.Error as failure:
            raise failed("PostgreSQL", failure) from None
        return found

    def _put(self, query: str) -> str:
        return self.with_tables(translated(query, "postgres", self._names))

    def _type(self, code: int) -> str:
        from psycopg import adapters

        known = adapters.types.get(code)
        name = known.name if known is not None else "other"
        return TYPES.get(name, name.upper())

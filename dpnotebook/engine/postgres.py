"""A connection to PostgreSQL that reads the rows of one moment, and never writes to a table of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.translate import translated
from dpnotebook.dialect.types import kind_of
from dpnotebook.engine.column_arrays import arrays
from dpnotebook.engine.executor import failed, md5_total, md5_words
from dpnotebook.engine.postgres_functions import FUNCTIONS
from dpnotebook.errors import DomainError, EngineError, QueryFailed
from dpnotebook.ledger.forks import lock, opened

Done = TypeVar("Done")

SETTINGS = (
    "SET client_encoding = 'UTF8'",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET lc_monetary = 'C'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
    "SET default_transaction_read_only = off",  # for temporary tables of ours; what reads is read-only all the same
    "SET statement_timeout = 0",
    "SET lock_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",  # the transaction shows one moment's rows for as long as it lasts
    "SET jit = off",
)
# Those that some versions do not have.
LATER_SETTINGS = """
SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings
WHERE name IN ('transaction_timeout', 'idle_session_timeout')
"""
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"
ENCODINGS = ("UTF8", "LATIN1", "LATIN9")  # in which every text can be fetched
SECRETS = "pg_temp.dp_secrets"
# Behind a subquery whose columns are read many times: folded into what reads it, it would be worked out as often.
ONCE_A_ROW = " OFFSET 0"
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
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), "VARCHAR"),
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
        If it cannot be reached or used.
    """

    dialect = "postgres"

    def __init__(self, dsn: str) -> None:
        self._names: dict[str, str] = {}  # what tables are called here: a long name would be cut off
        self._bodies: dict[str, str] = {}  # what they are, by that name
        self._same: dict[str, Callable[[PostgresExecutor], bool]] = {}  # whether they are as they were
        self._hidden: list[str] = []
        self._moment: str | None = None
        self._within = self.ended = self.kept = False
        self._lock = lock()
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
            self._set_up()
        except BaseException:
            self._connection.close()
            raise

    def _set_up(self) -> None:
        import psycopg

        try:
            encoding, replica = self._connection.execute(
                "SELECT pg_catalog.current_setting('server_encoding'), pg_catalog.pg_is_in_recovery()"
            ).fetchone()
            if replica:
                raise DomainError("that PostgreSQL server is a read-only replica; give the address of the primary one")
            if encoding not in ENCODINGS:
                raise DomainError(
                    f"that PostgreSQL database has the encoding {encoding}, in which not every text can be read; its "
                    f"encoding must be {', '.join(ENCODINGS[:-1])} or {ENCODINGS[-1]}"
                )
            # Functions of ours are made of the system's own, whatever else the names in them could mean.
            statements = [*SETTINGS, "SET search_path = pg_catalog", LATER_SETTINGS, *FUNCTIONS]
            statements += [f"CREATE TEMP TABLE {SECRETS.partition('.')[2]} (id int, value text)"]
            self._connection.execute("; ".join(statements))
            self._connection.execute("RESET search_path")
        except psycopg.errors.InsufficientPrivilege:
            raise DomainError(
                "that PostgreSQL user may not make temporary tables, in which samples are kept: GRANT TEMPORARY ON "
                "DATABASE ... TO ... allows it"
            ) from None
        except psycopg.Error as failure:
            raise failed("PostgreSQL", failure) from None

    def number_of(self, names: Sequence[str]) -> int | None:
        """Return the system's number of the first table or view of these names, as the user's own settings find it."""
        for name in names:
            with contextlib.suppress(EngineError):  # a name that cannot be one
                ((number,),) = self.once("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", name)
                if number is not None:
                    return int(number)
        return None

    def own_names(self) -> None:
        """Let names mean the database's own from here on."""
        self.once("SET search_path = pg_catalog")

    def begin(self, moment: str | None = None) -> None:
        """Begin to see the rows of this moment, or of one that another connection sees, and no later ones."""
        self.own_names()
        self._begin(moment)

    def _begin(self, moment: str | None = None) -> None:
        import psycopg

        self._moment = None
        try:
            self._connection.execute(BEGIN)
            if moment is not None:
                try:
                    self._connection.execute(f"SET TRANSACTION SNAPSHOT '{moment}'")
                    self._moment = moment
                except psycopg.Error:  # that connection is gone
                    self._connection.execute("ROLLBACK")
                    self._connection.execute(BEGIN)
            self._connection.execute("SELECT 1")
        except psycopg.Error as failure:
            raise failed("PostgreSQL", failure) from None

    def moment(self) -> str | None:
        """Return what other connections can see the same rows by, as long as this one stays as it is."""
        with contextlib.suppress(EngineError):
            return str(self.once("SELECT pg_catalog.pg_export_snapshot()")[0][0])
        return None

    def sees(self, moment: str | None) -> bool:
        """Whether the rows are those of a moment that was taken over."""
        return moment is not None and self._moment == moment

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
        with self._lock:
            described, rows = self.read(self._put(query))
        names = [name for name, _ in described]
        return arrays(names, [kind_of(kind) for _, kind in described], rows)

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        limited = f"SELECT * FROM ({query}) AS described LIMIT 0"
        with self._lock:
            return self.read(self._put(limited))[0]

    def md5_sums(self, text: str, rows: str) -> tuple[int, int]:
        """Return the number of rows and the sum of the MD5 of a text of each."""
        words = ", ".join(md5_words("('x' || {})::bit(32)::bigint"))
        with self._lock:
            hashed = self._put(f"SELECT md5({text}) AS h FROM {rows}")
            _, found = self.read(f"SELECT count(*), {words} FROM ({hashed}{ONCE_A_ROW}) AS hashed")
        return md5_total(found[0])

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query in a temporary table, from which alone the next queries may select."""
        with self._lock:
            self.write(f"CREATE TEMP TABLE {identifier(name)} AS {self._put(query)}")
            self._connection.execute("COMMIT")  # or it would hold a lock on the tables that it was made from
            self._same.clear()
            self.kept = True
            self._begin()
        return name

    def copy_rows(self, name: str, place: str) -> None:
        """Keep the rows of a table or view, at the beginning: read again, they may not be the same."""
        import psycopg

        with self._lock:
            try:
                self._connection.execute(f"CREATE TEMP TABLE {identifier(name)} AS SELECT * FROM {place} WITH NO DATA")
                self._connection.execute("SET LOCAL transaction_read_only = on")  # but for temporary tables
                self._connection.execute(f"INSERT INTO pg_temp.{identifier(name)} SELECT * FROM {place}")
                self._connection.execute("COMMIT")
            except psycopg.Error as failure:
                raise failed("PostgreSQL", failure) from None
            self._begin()  # no earlier moment has these rows

    def define(
        self, name: str, hidden: str, body: str | None, same: Callable[[PostgresExecutor], bool] | None = None
    ) -> None:
        """Say what a table is called here, and what it is: no view of ours may keep its owner from changing it.

        Parameters
        ----------
        name, hidden
            In queries, and here.
        body
            The query in PostgreSQL's words that is the table; None for a temporary table of that name.
        same
            Tells whether it still is as it was; asked after it was read, while what was read is still locked.
        """
        self._names[name] = hidden
        if body is not None:
            self._bodies[hidden] = body
        if same is not None:
            self._same[hidden] = same

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
        self.ended = True
        self._connection.close()

    def read(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Return names and types of the columns of a query in PostgreSQL's words, and its rows.

        Raises
        ------
        QueryFailed
            If it fails, or a table is not the one any more that it was.
        """

        def fetch() -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
            self._connection.execute("SET LOCAL transaction_read_only = on")
            # What is prepared is one statement for certain.
            cursor = self._connection.execute(text, prepare=True)
            described = [(column.name, self._type(column.type_code)) for column in cursor.description]
            rows = cursor.fetchall()
            self._check_same(text)
            return described, rows

        return self._inside(fetch, keep=False)

    def once(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query about the database itself; where nothing is private yet, or within `_inside`."""
        import psycopg

        try:
            cursor = self._connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as failure:
            raise failed("PostgreSQL", failure) from None

    def write(self, text: str) -> None:
        """Make a temporary table."""

        def make() -> None:
            self._connection.execute(text)
            self._check_same(text)

        self._inside(make, keep=True)

    def copy(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Fill a temporary table; what is sent so stands in no statement, and in no log."""

        def fill() -> None:
            with self._connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)

        self._inside(fill, keep=True)

    def about(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about tables as they are now; no lock is kept, or it would not tell again."""
        from psycopg.pq import TransactionStatus

        inside = self._within or self._connection.info.transaction_status == TransactionStatus.IDLE
        return self.once(text) if inside else self.read(text)[1]

    def hide(self, values: Sequence[str]) -> list[str]:
        """Return SQL for secrets, which stand in no statement: logs, statistics and lists of what runs show those."""
        values = list(values)
        if values and values != self._hidden:
            self.write(f"DELETE FROM {SECRETS}")
            self.copy(SECRETS, list(enumerate(values)))
            self._hidden = values
        return [f"(SELECT value FROM {SECRETS} WHERE id = {i})" for i in range(len(values))]

    def _check_same(self, text: str) -> None:
        if not all(same(self) for hidden, same in self._same.items() if identifier(hidden) in text):
            raise QueryFailed("a table was emptied, rewritten or replaced in its database before it could be read")

    def _inside(self, work: Callable[[], Done], keep: bool) -> Done:
        """Work in a part of the transaction that can be taken back; a failure must not end the transaction."""
        import psycopg

        with self._lock:
            outside, self._within = not self._within, True
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
            finally:
                self._within = not outside
        return found

    def _put(self, query: str) -> str:
        """Return a query in PostgreSQL's words, with its secrets in a temporary table and not in its text."""
        return self.with_tables(translated(query, "postgres", self._names, self.hide))

    def _type(self, code: int) -> str:
        from psycopg import adapters

        known = adapters.types.get(code)
        if known is None or known.oid != code:  # of arrays there is what they are of
            return "OTHER"
        return TYPES.get(known.name, known.name.upper())

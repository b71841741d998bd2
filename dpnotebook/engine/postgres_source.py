"""A table in PostgreSQL as something to protect: its columns, its rows of one moment, and what tells them apart."""

from __future__ import annotations

import hmac
import weakref
from collections.abc import Sequence
from typing import Any

from dpnotebook.engine.postgres import TYPES, PostgresExecutor
from dpnotebook.engine.source import keyed
from dpnotebook.engine.sql import identifier, literal
from dpnotebook.errors import DomainError, EngineError, FrameChanged, shorten
from dpnotebook.forks import in_child

_LAST = {"date": "9999-12-31", "timestamp": "9999-12-31 23:59:59.999999"}


class PostgresSource:
    """A table or view in PostgreSQL.

    Parameters
    ----------
    dsn
        Where the database is; it may hold a password, so it is never shown.
    table
        "schema.table", or "table" where the search path finds it.

    Raises
    ------
    DomainError
        If the database cannot be reached or has no such table.
    """

    def __init__(self, dsn: str, table: str) -> None:
        self.dsn, self.table = dsn, table
        self._given: weakref.WeakSet[PostgresExecutor] = weakref.WeakSet()
        self._known: tuple[tuple[str, ...], bytes, str] | None = None
        executor, _ = self.connect()
        executor.close()
        self._given.clear()
        self._forked = False
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget the parent's connections, and look at the rows again before they are asked about."""
        self._given.clear()
        self._forked = True

    def __repr__(self) -> str:
        return f"<{self.table} in PostgreSQL>"

    @property
    def place(self) -> tuple[str, Any]:
        """Which database it is in."""
        return "postgres", self.dsn

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        return list(self._columns)

    def connect(self) -> tuple[PostgresExecutor, str]:
        """Return a connection and the name of the table in it."""
        executor = PostgresExecutor(self.dsn)
        relation = self.resolve(executor)
        executor.begin()
        executor.define("__rows", "__rows", self.body(relation, None, False))
        self._given.add(executor)
        return executor, "__rows"

    def resolve(self, executor: PostgresExecutor) -> str:
        """Return the table's full name, and note its columns."""
        quoted = ".".join(identifier(part) for part in self.table.split("."))
        found: list[tuple[Any, ...]] = []
        for name in (quoted, identifier(self.table), self.table):
            text = (
                "SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname END, n.nspname, c.relname "
                "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
                "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
                "JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
                f"WHERE a.attrelid = to_regclass({literal(name)}) AND a.attnum > 0 AND NOT a.attisdropped "
                "ORDER BY a.attnum"
            )
            try:
                found = executor.once(text)
            except EngineError:  # a name that cannot be one
                continue
            if found:
                break
        if not found:
            executor.close()
            raise DomainError(
                f"there is no table or view {shorten(self.table)} in that database, or it may not be read"
            )
        self._columns = {str(row[0]): str(row[1]) for row in found}
        return f"{identifier(found[0][2])}.{identifier(found[0][3])}"

    def body(self, relation: str, unit: str | None, numbered: bool) -> str:
        """Return the query that is the table, its values made plain, as it stands in front of other queries.

        Parameters
        ----------
        relation
            The table's full name.
        unit
            The column that identifies units; a number stays exact there.
        numbered
            Whether to number the rows.
        """
        from dpnotebook.sql.statement import ROW_UNIT

        shown = [
            f"{_plain(identifier(column), kind, column == unit)} AS {identifier(column)}"
            for column, kind in self._columns.items()
        ]
        if numbered:
            shown.append(f"row_number() OVER () AS {identifier(ROW_UNIT)}")
        # Rows are numbered once, however often the table is read.
        return f"{'' if numbered else 'NOT MATERIALIZED '}(SELECT {', '.join(shown)} FROM {relation})"

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        executor, _ = self.connect()
        try:
            found = self._digest(executor, columns, key)
        finally:
            executor.close()
        if self._known is None:
            self._known = tuple(columns), key, found
        return found

    def _digest(self, executor: PostgresExecutor, columns: Sequence[str], key: bytes) -> str:
        texts = [f"CAST({identifier(name)} AS TEXT)" for name in columns]
        parts = [f"coalesce(length({text}) || ':' || {text}, 'null')" for text in texts]
        salt = literal(hmac.new(key, b"rows", "sha256").hexdigest())
        halves = [f"sum(('x' || substr(h, {start}, 15))::bit(60)::bigint)" for start in (1, 17)]
        hashed = f'SELECT md5(concat({", ".join([salt, *parts])})) AS h FROM "__rows"'
        text = f"SELECT count(*), {', '.join(halves)} FROM ({hashed}) AS hashed"
        _, rows = executor.read(executor.with_tables(text))
        return keyed(key, "postgres", *columns, repr([str(value) for value in rows[0]]).encode())

    def check_unchanged(self) -> None:
        """Raise FrameChanged if a connection was lost, and the table does not hold the same rows any more."""
        lost = [executor for executor in self._given if not executor.answers()]
        if (lost or self._forked) and self._known is not None:
            columns, key, digest = self._known
            executor, _ = self.connect()
            try:
                same = self._digest(executor, columns, key) == digest
            finally:
                self._given.discard(executor)
                executor.close()
            if not same:
                raise FrameChanged(
                    f"the connection to {self.table} was lost, and the table has changed since it was protected; "
                    "nothing was spent. To ask about what is in it now, protect it under a new name"
                )
        self._forked = False


def _plain(column: str, kind: str, unit: bool) -> str:
    """Return an expression for a column that means here what it means in DuckDB."""
    if kind in ("float4", "float8"):
        return f"nullif({column}, 'NaN'::{kind})"
    if kind == "numeric":
        return f"trim_scale({column})::text" if unit else f"pg_temp.dp_number({column})"
    if kind in ("date", "timestamp", "timestamptz"):  # infinite times, and those before our era, cannot be fetched
        plain = f"({column} AT TIME ZONE 'UTC')" if kind == "timestamptz" else column
        name = "date" if kind == "date" else "timestamp"
        return f"CASE WHEN {plain} BETWEEN {name} '0001-01-01' AND {name} '{_LAST[name]}' THEN {plain} END"
    if TYPES.get(kind) == "VARCHAR":
        return f'{column}::text COLLATE "C"'
    return column

"""Tables side by side in one PostgreSQL connection, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpnotebook.engine.homes import Held
from dpnotebook.engine.postgres import PostgresExecutor
from dpnotebook.engine.postgres_source import PostgresSource
from dpnotebook.engine.server_home import ServerHome
from dpnotebook.engine.sql import identifier, literal

if TYPE_CHECKING:
    import pandas as pd


_TYPES: dict[str, str] = {
    "integer": "bigint",
    "number": "double precision",
    "text": 'text COLLATE "C"',
    "boolean": "boolean",
    "time": "timestamp",
}


class PostgresHome(ServerHome):
    """One PostgreSQL connection with names for tables.

    Parameters
    ----------
    dsn
        Where the database is.
    tables
        Those of this database that it must show.
    carry
        Fetches a public table from another database.
    """

    dialect = "postgres"

    def __init__(self, dsn: str, tables: Sequence[Held], carry: Callable[[Held], pd.DataFrame]) -> None:
        self._executor = PostgresExecutor(dsn)
        super().__init__(self._executor, carry)
        self._digests: dict[Held, str] = {}
        # Names are looked up before the transaction begins; later on they mean the system's own only.
        self._relations = {
            table: table.source.resolve(self._executor) for table in tables if isinstance(table.source, PostgresSource)
        }
        self._executor.begin()

    @property
    def broken(self) -> bool:
        """Whether the connection was lost."""
        return self._executor.broken

    def digest_once(self, table: Held) -> str:
        """Return what tells whether the rows of a table have changed; never shown, and worked out once."""
        if table not in self._digests:
            salt = literal(table.name)
            halves = [f"sum(('x' || substr(h, {start}, 15))::bit(60)::bigint)" for start in (1, 17)]
            hashed = f"SELECT md5({salt} || t::text) AS h FROM {self._relations[table]} AS t"
            _, rows = self._executor.read(f"SELECT count(*), {', '.join(halves)} FROM ({hashed}) AS hashed")
            self._digests[table] = repr([str(value) for value in rows[0]])
        return self._digests[table]

    def _place(self, table: Held) -> None:
        name = f"__table{table.number}"
        if table in self._relations:
            source = table.source
            assert isinstance(source, PostgresSource)
            body = source.body(self._relations[table], table.unit, table.numbered)
            self._executor.define(table.name, name, body)
        else:
            kinds, rows = self._carried(table)
            columns = ", ".join(f"{identifier(column)} {_TYPES[kind]}" for column, kind in kinds.items())
            self._executor.write(f"CREATE TEMP TABLE {name} ({columns})")
            self._executor.copy(name, rows)
            self._executor.define(table.name, name, None)

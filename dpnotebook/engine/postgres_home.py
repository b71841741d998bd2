"""Tables side by side in one PostgreSQL connection, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.engine.carried import plain_rows
from dpnotebook.engine.dialects import translated
from dpnotebook.engine.found import frame
from dpnotebook.engine.homes import Held, check_runs
from dpnotebook.engine.kinds import kind_of
from dpnotebook.engine.postgres import PostgresExecutor
from dpnotebook.engine.postgres_source import PostgresSource
from dpnotebook.engine.sql import identifier, literal
from dpnotebook.errors import EngineError

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.sql.statement import Kind

_TYPES: dict[str, str] = {
    "integer": "bigint",
    "number": "double precision",
    "text": 'text COLLATE "C"',
    "boolean": "boolean",
    "time": "timestamp",
}


class PostgresHome:
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

    def __init__(self, dsn: str, tables: Sequence[Held], carry: Callable[[Held], pd.DataFrame]) -> None:
        self._executor, self._carry = PostgresExecutor(dsn), carry
        self._shown: dict[str, Held] = {}
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

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names."""
        for table in tables:
            self._show(table)

    def check(self, query: str) -> None:
        """Raise EngineError if a query uses what PostgreSQL does not have."""
        translated(query, "postgres")
        check_runs(self._executor, query)

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return self._executor.columns(query)

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        self._show(table)
        from dpnotebook.sql.statement import ROW_UNIT

        types = self._executor.types(f"SELECT * FROM {identifier(table.name)}")
        return {name: kind_of(kind) for name, kind in types if name != ROW_UNIT}

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried elsewhere."""
        self._show(table)
        return frame(self._executor.columns(f"SELECT * FROM {identifier(table.name)}"))

    def digest_once(self, table: Held) -> str:
        """Return what tells whether the rows of a table have changed; never shown, and worked out once."""
        if table not in self._digests:
            salt = literal(table.name)
            halves = [f"sum(('x' || substr(h, {start}, 15))::bit(60)::bigint)" for start in (1, 17)]
            hashed = f"SELECT md5({salt} || t::text) AS h FROM {self._relations[table]} AS t"
            _, rows = self._executor.read(f"SELECT count(*), {', '.join(halves)} FROM ({hashed}) AS hashed")
            self._digests[table] = repr([str(value) for value in rows[0]])
        return self._digests[table]

    def close(self) -> None:
        """Close the connection."""
        self._executor.close()

    def _show(self, table: Held) -> None:
        if self._shown.get(table.name) is table:
            return
        name = f"__table{table.number}"
        if table in self._relations:
            source = table.source
            assert isinstance(source, PostgresSource)
            body = source.body(self._relations[table], table.unit, table.numbered)
            self._executor.define(table.name, name, body)
        elif table.private:
            raise EngineError(f"{table.name!r} is protected in another database; bring both tables into one")
        else:
            kinds, rows = plain_rows(self._carry(table), table.kinds)
            columns = ", ".join(f"{identifier(column)} {_TYPES[kind]}" for column, kind in kinds.items())
            self._executor.write(f"CREATE TEMP TABLE {name} ({columns})")
            self._executor.copy(name, rows)
            self._executor.define(table.name, name, None)
        self._shown[table.name] = table

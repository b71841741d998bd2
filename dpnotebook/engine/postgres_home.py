"""Tables side by side in one PostgreSQL connection, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.types import Kind
from dpnotebook.engine.homes import Held
from dpnotebook.engine.postgres import PostgresExecutor
from dpnotebook.engine.postgres_source import PostgresSource
from dpnotebook.engine.server_home import ServerHome
from dpnotebook.errors import DomainError, DPError, FrameChanged

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
        Those of this database that it must show, the newest last: it sees the moment at which that was protected.
    carry
        Fetches a public table from another database.
    """

    dialect = "postgres"

    def __init__(self, dsn: str, tables: Sequence[Held], carry: Callable[[Held], pd.DataFrame]) -> None:
        self._executor = PostgresExecutor(dsn)
        super().__init__(self._executor, carry)
        self._digests: dict[Held, str] = {}
        self._sources = {table: table.source for table in tables if isinstance(table.source, PostgresSource)}
        self._gone: dict[PostgresSource, DPError] = {}
        try:
            self._begin()
        except BaseException:
            self._executor.close()
            raise

    def _begin(self) -> None:
        sources = list(dict.fromkeys(self._sources.values()))
        # Names are looked up before the transaction begins; later on they mean the system's own only.
        numbers = {source: source.number(self._executor) for source in sources}
        self._executor.own_names()
        for source, number in numbers.items():
            self._try(source, partial(source.look, self._executor, number))
        moments = [source.moment for source in sources if source.moment is not None]
        self._executor.begin(moments[-1] if moments else None)
        for source in sorted(sources, key=lambda source: source.relation.fixed):  # what is copied begins a new moment
            self._try(source, partial(source.settle, self._executor))
            source.release()

    def _try(self, source: PostgresSource, step: Callable[[], None]) -> None:
        """Take a step with a table; where one is gone, only who asks for it need know."""
        if source not in self._gone:
            try:
                step()
            except (DomainError, FrameChanged) as failure:
                self._gone[source] = failure

    def _source(self, table: Held) -> PostgresSource | None:
        source = self._sources.get(table)
        if source in self._gone:
            raise self._gone[source]
        return source

    @property
    def broken(self) -> bool:
        """Whether the connection was lost."""
        return self._executor.broken

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        source = self._source(table)
        if source is None:
            return super().kinds(table)
        self._show(table)
        table.forms = source.forms
        return source.kinds(table.unit)

    def digest_once(self, table: Held) -> str:
        """Return what tells whether the rows of a table have changed; never shown, and worked out once."""
        if table not in self._digests:
            source = self._source(table)
            assert source is not None
            self._digests[table] = source.whole(self._executor)
        return self._digests[table]

    def _place(self, table: Held) -> None:
        name, source = f"__table{table.number}", self._source(table)
        if source is not None:
            body = source.body(self._executor, table.unit, numbered=table.numbered)
            source.define(self._executor, table.name, name, body)
        else:
            kinds, rows = self._carried(table)
            columns = ", ".join(f"{identifier(column)} {_TYPES[kind]}" for column, kind in kinds.items())
            self._executor.write(f"CREATE TEMP TABLE {name} ({columns})")
            self._executor.copy(name, rows)
            self._executor.define(table.name, name, None)

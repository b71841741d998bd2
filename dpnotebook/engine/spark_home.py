"""Tables side by side in one Spark session, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpnotebook.dialect.types import Kind
from dpnotebook.engine.homes import Held
from dpnotebook.engine.server_home import ServerHome
from dpnotebook.engine.spark import SparkExecutor
from dpnotebook.engine.spark_source import SparkSource

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession


_TYPES: dict[str, str] = {
    "integer": "bigint",
    "number": "double",
    "text": "string",
    "boolean": "boolean",
    "time": "timestamp_ntz",
}


class SparkHome(ServerHome):
    """One Spark session with names for tables.

    Parameters
    ----------
    session
        The user's.
    carry
        Fetches a public table from another database.
    """

    dialect = "spark"
    broken = False

    def __init__(self, session: SparkSession, carry: Callable[[Held], pd.DataFrame]) -> None:
        self._executor = SparkExecutor(session)
        super().__init__(self._executor, carry)

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        mine = self._mine(table)
        if mine is None:
            return super().kinds(table)
        self._show(table)
        return mine.kinds(table.unit)

    def digest_once(self, table: Held) -> str:
        """Return the same for every table: a frame is what it is."""
        return ""

    def _place(self, table: Held) -> None:
        mine = self._mine(table)
        if mine is not None:
            shown = mine.plain(table.unit, numbered=table.numbered)
        else:
            kinds, rows = self._carried(table)
            schema = ", ".join(f"`{name.replace('`', '``')}` {_TYPES[kind]}" for name, kind in kinds.items())
            shown = self._executor.made(rows, schema)
        self._executor.show(table.name, shown)

    def _mine(self, table: Held) -> SparkSource | None:
        source = table.source
        return source if isinstance(source, SparkSource) and source.place[1] is self._executor.session else None

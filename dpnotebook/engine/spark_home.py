"""Tables side by side in one Spark session, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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

    def digest_once(self, table: Held) -> str:
        """Return the same for every table: a frame is what it is."""
        return ""

    def _place(self, table: Held) -> None:
        if isinstance(table.source, SparkSource) and table.source.place[1] is self._executor.session:
            shown = table.source.plain(table.unit, table.numbered)
        else:
            kinds, rows = self._carried(table)
            schema = ", ".join(f"`{name.replace('`', '``')}` {_TYPES[kind]}" for name, kind in kinds.items())
            shown = self._executor.made(rows, schema)
        self._executor.show(table.name, shown)

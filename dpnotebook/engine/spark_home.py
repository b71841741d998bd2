"""Tables side by side in one Spark session, each under its own name; public ones are brought along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.engine.carried import plain_rows
from dpnotebook.engine.dialects import translated
from dpnotebook.engine.found import frame
from dpnotebook.engine.homes import Held, check_runs
from dpnotebook.engine.kinds import kind_of
from dpnotebook.engine.spark import SparkExecutor
from dpnotebook.engine.spark_source import SparkSource
from dpnotebook.engine.sql import identifier
from dpnotebook.errors import EngineError
from dpnotebook.sql.statement import ROW_UNIT

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from dpnotebook.sql.statement import Kind

_TYPES: dict[str, str] = {
    "integer": "bigint",
    "number": "double",
    "text": "string",
    "boolean": "boolean",
    "time": "timestamp_ntz",
}


class SparkHome:
    """One Spark session with names for tables.

    Parameters
    ----------
    session
        The user's.
    carry
        Fetches a public table from another database.
    """

    broken = False

    def __init__(self, session: SparkSession, carry: Callable[[Held], pd.DataFrame]) -> None:
        self._executor, self._carry = SparkExecutor(session), carry
        self._shown: dict[str, Held] = {}

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names."""
        for table in tables:
            self._show(table)

    def check(self, query: str) -> None:
        """Raise EngineError if a query uses what Spark does not have."""
        translated(query, "spark")
        check_runs(self._executor, query)

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return self._executor.columns(query)

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        self._show(table)
        types = self._executor.types(f"SELECT * FROM {identifier(table.name)}")
        return {name: kind_of(kind) for name, kind in types if name != ROW_UNIT}

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried elsewhere."""
        self._show(table)
        return frame(self._executor.columns(f"SELECT * FROM {identifier(table.name)}"))

    def digest_once(self, table: Held) -> str:
        """Return the same for every table: a frame is what it is."""
        return ""

    def close(self) -> None:
        """Drop our names."""
        self._executor.close()

    def _show(self, table: Held) -> None:
        if self._shown.get(table.name) is table:
            return
        if isinstance(table.source, SparkSource) and table.source.place[1] is self._executor.session:
            shown = table.source.plain(table.unit, table.numbered)
        elif table.private:
            raise EngineError(f"{table.name!r} is protected in another database; bring both tables into one")
        else:
            kinds, rows = plain_rows(self._carry(table), table.kinds)
            schema = ", ".join(f"`{name.replace('`', '``')}` {_TYPES[kind]}" for name, kind in kinds.items())
            shown = self._executor.made(rows, schema)
        self._executor.show(table.name, shown)
        self._shown[table.name] = table

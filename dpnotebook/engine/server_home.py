"""What connections to PostgreSQL and to Spark have in common, where tables are side by side under their own names."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.translate import Dialect, translated
from dpnotebook.dialect.types import ROW_UNIT, Kind, kind_of
from dpnotebook.engine.column_arrays import frame
from dpnotebook.engine.executor import Executor
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.homes import Held, check_runs
from dpnotebook.errors import EngineError, shorten

if TYPE_CHECKING:
    import pandas as pd


class ServerHome(ABC):
    """A connection to a database elsewhere, with names for tables; public ones are brought along.

    Parameters
    ----------
    executor
        The connection.
    carry
        Fetches a public table from another database.
    """

    dialect: Dialect

    def __init__(self, executor: Executor, carry: Callable[[Held], pd.DataFrame]) -> None:
        self._queries, self._carry = executor, carry
        self._shown: dict[str, Held] = {}

    def prepare(self, tables: Sequence[Held], words: set[str]) -> None:
        """Show tables under their names."""
        for table in tables:
            self._show(table)

    def check(self, query: str) -> None:
        """Raise EngineError if a query uses what this database does not have."""
        translated(query, self.dialect)
        check_runs(self._queries, query)

    def run(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        return self._queries.columns(query)

    def keep(self, query: str) -> str | None:
        """Return None: nothing more than has to be is written into a database of the user's."""
        return None

    def drop(self, kept: str) -> None:  # noqa: B027 - nothing was kept
        """Do nothing: nothing is kept."""

    def spare(self, kept: str) -> None:  # noqa: B027 - nothing was kept
        """Do nothing: nothing is kept."""

    def spared(self, query: str) -> str | None:
        """Return None: nothing is kept."""
        return None

    def kinds(self, table: Held) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        self._show(table)
        types = self._queries.types(f"SELECT * FROM {identifier(table.name)}")
        table.dates = frozenset(name for name, kind in types if kind == "DATE")
        return {name: kind_of(kind) for name, kind in types if name != ROW_UNIT}

    def fetch(self, table: Held) -> pd.DataFrame:
        """Return a table, whole, to be carried elsewhere."""
        self._show(table)
        return frame(self._queries.columns(f"SELECT * FROM {identifier(table.name)}"))

    def close(self) -> None:
        """Let go of the connection, or of our names in it."""
        self._queries.close()

    @abstractmethod
    def _place(self, table: Held) -> None:
        """Give a table its name."""

    def _show(self, table: Held) -> None:
        if self._shown.get(table.name) is not table:
            self._place(table)
            self._shown[table.name] = table

    def _carried(self, table: Held) -> tuple[dict[str, Kind], list[Any]]:
        """Return the columns and the rows of a public table from elsewhere.

        Raises
        ------
        EngineError
            If it is protected.
        """
        if table.private:
            raise EngineError(f"{shorten(table.name)} is protected in another database; bring both tables into one")
        return plain_rows(self._carry(table), table.kinds)


# A public table on its way from one database to another: rows of plain values.
def plain_rows(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> tuple[dict[str, Kind], list[tuple[Any, ...]]]:
    """Return what can be carried of a public frame: the kinds of the columns, and the rows, None where NULL.

    Parameters
    ----------
    frame
        The table, whole.
    kinds
        What its columns hold; those that hold other things than numbers, texts, truth values or times stay behind.
    """
    from pandas.api.types import is_integer_dtype

    columns = FrameColumns(frame)
    columns.convert(name for name, kind in kinds.items() if kind != "other")
    kept = {}
    for name in columns.readable():
        if kinds[name] != "other":
            whole = kinds[name] == "number" and is_integer_dtype(columns.ready(name).dtype)
            kept[name] = "integer" if whole else kinds[name]
    values = [_values(columns.ready(name), kind) for name, kind in kept.items()]
    return kept, list(zip(*values, strict=True)) if values else [() for _ in range(len(frame))]


def _values(column: pd.Series[Any], kind: Kind) -> list[Any]:
    import pandas as pd

    missing = column.isna().to_numpy()
    if kind == "time":
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        values: list[Any] = column.astype("datetime64[us]").to_numpy().astype(datetime.datetime).tolist()
    else:
        made = {"integer": int, "number": float, "boolean": bool, "text": str}[kind]
        values = [None if absent else made(value) for value, absent in zip(column, missing, strict=True)]
    return [None if absent else value for value, absent in zip(values, missing, strict=True)]

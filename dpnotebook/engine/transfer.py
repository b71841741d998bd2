"""A public table on its way from one database to another: rows of plain values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpnotebook.dialect.types import Kind
from dpnotebook.engine.frames import FrameColumns

if TYPE_CHECKING:
    import pandas as pd


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

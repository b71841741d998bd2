"""Rows of Python values as columns of arrays, as DuckDB gives them: whatever database they come from."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

_MADE: dict[str, Any] = {"integer": np.int64, "number": np.float64, "boolean": np.bool_, "time": "datetime64[us]"}


def arrays(names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, NDArray[Any]]:
    """Return columns of arrays, masked where a value is None.

    Parameters
    ----------
    names
        Of the columns.
    kinds
        What they hold; texts and others stay as they are.
    rows
        The values, row by row.
    """
    found = {}
    for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        values = [row[i] for row in rows]
        missing = np.array([value is None for value in values], dtype=bool)
        found[name] = _column(values, missing, kind)
    return found


def frame(columns: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """Return columns of arrays as a frame, whole numbers exact where some are missing."""
    import pandas as pd

    made = {}
    for name, column in columns.items():
        missing = np.ma.getmaskarray(column)
        if missing.any() and column.dtype.kind in "ib":
            values = np.ma.getdata(column).astype(object)
            values[missing] = None
            made[name] = pd.Series(values, dtype="Int64" if column.dtype.kind == "i" else "boolean")
        elif column.dtype.kind == "O":
            made[name] = pd.Series(np.ma.getdata(column), dtype=object).mask(missing, None)
        else:
            made[name] = pd.Series(column)
    return pd.DataFrame(made)


def _column(values: list[Any], missing: NDArray[np.bool_], kind: str) -> NDArray[Any]:
    dtype = _MADE.get(kind)
    if dtype is None or any(isinstance(value, datetime.time) for value in values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
    else:
        fill: Any = datetime.datetime(1970, 1, 1) if kind == "time" else 0
        plain = [fill if absent else _plain(value) for value, absent in zip(values, missing, strict=True)]
        column = np.array(plain, dtype=dtype)
    return np.ma.MaskedArray(column, mask=missing) if missing.any() else column


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:  # numpy keeps times in UTC, without a zone
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value

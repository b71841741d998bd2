"""The columns of a pandas frame as DuckDB can read them, whatever they are made of; nothing is copied that need not be.

Columns of Python objects are converted when a statement names them, once: DuckDB would guess their type from a sample
at every query, and stop at a value that does not fit.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DomainError, shorten

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.sql.statement import Kind

_KINDS: dict[str, Kind] = {
    "string": "text",
    "boolean": "boolean",
    "integer": "integer",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "time",
    "datetime": "time",
    "datetime64": "time",
    "empty": "text",
}


class FrameColumns:
    """A snapshot of a frame, its columns numbered in the order of the frame.

    Parameters
    ----------
    frame
        The snapshot; columns whose name is not text cannot be asked about.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._columns = {name: frame[name] for name in frame.columns if isinstance(name, str)}
        self._rows = len(frame)
        self._ready = {name: column for name, column in self._columns.items() if not _needs_converting(column)}
        self._objects: dict[str, Kind] = {
            name: _object_kind(column) for name, column in self._columns.items() if name not in self._ready
        }

    @property
    def names(self) -> list[str]:
        """Names of all columns, in order."""
        return list(self._columns)

    @property
    def objects(self) -> dict[str, Kind]:
        """What the columns hold that must be converted before they can be read."""
        return self._objects

    def convert(self, names: Iterable[str]) -> bool:
        """Make columns readable; return whether any was not before.

        Raises
        ------
        DomainError
            If one cannot be.
        """
        missing = [name for name in names if name in self._columns and name not in self._ready]
        for name in missing:
            self._ready[name] = _converted(name, self._columns[name], self._objects[name])
        return bool(missing)

    def set_aside(self, readable: Callable[[pd.DataFrame], bool]) -> None:
        """Find out which columns DuckDB cannot read after all, one by one; they are errors once they are named."""
        for name, column in list(self._ready.items()):
            if not readable(column.to_frame("c0")):
                del self._ready[name]
                self._objects[name] = "other"

    def readable(self) -> tuple[list[str], pd.DataFrame]:
        """Return the names of what can be read so far, and a frame of it with columns c0, c1, ... of those names.

        Names that differ only in case are one column to SQL, hence the numbers.
        """
        import pandas as pd

        names = [name for name in self._columns if name in self._ready]
        frame = pd.DataFrame({f"c{i}": self._ready[name] for i, name in enumerate(names)}, copy=False)
        if not names:
            frame = pd.DataFrame({"c0": pd.Series(0, index=range(self._rows))})
        return names, frame


def _needs_converting(column: pd.Series[Any]) -> bool:
    import numpy as np
    import pandas as pd

    dtype: Any = column.dtype
    if isinstance(dtype, np.dtype):
        # Complex numbers have no order, bytes no text, and memory cannot be read backwards.
        known = dtype.kind in "biufmM" and dtype != np.float16 and dtype.isnative
        return not known or column.to_numpy().strides[0] < 0
    if isinstance(dtype, pd.CategoricalDtype):
        return not isinstance(dtype.categories.dtype, pd.StringDtype)
    return isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype, pd.SparseDtype))


def _object_kind(column: pd.Series[Any]) -> Kind:
    """Return what the values of a column are, all of them; "other" where they are no numbers, texts or times."""
    import numpy as np
    import pandas as pd
    from pandas.api.types import infer_dtype

    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _object_kind(dtype.categories.to_series()) if len(dtype.categories) else "text"
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufM":
        found: dict[str, Kind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "M": "time"}
        return found[dtype.kind]
    if not isinstance(dtype, np.dtype) or dtype.kind != "O":
        return "text" if isinstance(dtype, pd.StringDtype) else "other"
    inferred = infer_dtype(column, skipna=True)
    if inferred in ("mixed", "mixed-integer") and all(
        value is None or isinstance(value, (str, numbers.Number, decimal.Decimal, datetime.date, type(pd.NA)))
        for value in column
    ):
        return "text"
    return _KINDS.get(inferred, "other")


def _converted(name: str, column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    import numpy as np
    import pandas as pd

    dtype: Any = column.dtype
    try:
        if isinstance(dtype, np.dtype) and dtype.kind in "biufM":
            native = np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")
            return pd.Series(np.ascontiguousarray(column.to_numpy().astype(native)))
        if isinstance(dtype, pd.SparseDtype):
            return column.sparse.to_dense().reset_index(drop=True)
        if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
            column = column.astype(object)
        values = column.to_numpy(dtype=object, copy=True)
        missing = np.asarray(pd.isna(values)) if kind != "other" else np.zeros(len(values), dtype=bool)
        if kind == "number":
            values[missing] = np.nan
            return pd.Series(values.astype(np.float64))
        if kind == "text":
            texts = [None if absent else str(value) for value, absent in zip(values, missing, strict=True)]
            return pd.Series(texts, dtype="str")
        if kind == "time":
            values[missing] = None
            return pd.Series(values.astype("datetime64[us]"))
        values[missing] = None
        if kind in ("integer", "boolean"):
            return pd.Series(pd.array(values, dtype="Int64" if kind == "integer" else "boolean"))
        return _lists(values)
    except (TypeError, ValueError, OverflowError, ArithmeticError, ImportError):
        held = str(dtype).split("<")[0].split("[")[0]
        raise DomainError(
            f"{shorten(name)} holds values of type {held} that no statement can read; convert it to numbers or text"
        ) from None


def _lists(values: Any) -> pd.Series[Any]:
    """Return lists of numbers or texts, which a statement may unnest."""
    import pandas as pd
    import pyarrow as pa

    array = pa.array(values, from_pandas=True)
    if not (pa.types.is_list(array.type) or pa.types.is_struct(array.type)):
        raise TypeError
    return pd.Series(pd.arrays.ArrowExtensionArray(array))

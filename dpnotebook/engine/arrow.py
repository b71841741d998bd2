"""Tables in Arrow's form, of pyarrow, polars and whatever else gives its columns so, as a pandas frame."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DomainError

if TYPE_CHECKING:
    import pandas as pd


def is_arrow(data: Any) -> bool:
    """Return whether an object, other than one of pandas, gives its columns by Arrow's `__arrow_c_stream__`."""
    return hasattr(type(data), "__arrow_c_stream__") and type(data).__module__.split(".")[0] != "pandas"


def frame_of(data: Any) -> pd.DataFrame:
    """Return the columns of a table in Arrow's form, as they are; texts that it shares between rows are written out.

    Parameters
    ----------
    data
        A `pyarrow.Table`, a `polars.DataFrame`, or another object with `__arrow_c_stream__`.

    Raises
    ------
    DomainError
        If it can be read only once, is not read, or has two columns of one name.
    """
    import pandas as pd

    try:
        import pyarrow as pa
    except ImportError:
        raise DomainError(
            f"to read a {type(data).__name__}, pyarrow is needed: pip install pyarrow, or give a pandas DataFrame"
        ) from None
    if isinstance(data, pa.RecordBatchReader):
        raise DomainError(
            "a RecordBatchReader gives its rows only once, and a protected table stays: give reader.read_all()"
        )
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError):
        raise DomainError(f"this {type(data).__name__} cannot be read as a table of Arrow") from None
    if len(set(table.column_names)) < table.num_columns:
        raise DomainError("the table has two columns of the same name; give them different names first")
    columns = {name: _plain(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _plain(column: Any) -> Any:
    """Return a column as an array of pandas; views of texts and dictionaries, which few can read, as plain values."""
    import pandas as pd
    import pyarrow as pa

    with contextlib.suppress(pa.ArrowException):  # else it stays as it is, and is refused when it is asked about
        if pa.types.is_dictionary(column.type):
            values = [_texts(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
            column = pa.chunked_array(values, None if values else _texts(pa.array([], column.type.value_type)).type)
        column = _texts(column)
    return pd.arrays.ArrowExtensionArray(column)


def _texts(values: Any) -> Any:
    import pyarrow as pa

    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values

"""Rows of DuckDB on their way into a frame and back, every value and type as it was.

Arrays of numpy hold no numbers of 128 bits, no decimals and no lists, so these travel as texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpnotebook.dialect.attributes import FLOATING, INTEGERS, identifier
from dpnotebook.dialect.types import STAMPS, element_kind, element_of, plain_value
from dpnotebook.engine.executor import DuckDBExecutor

if TYPE_CHECKING:
    import pandas as pd

WIDE = "HUGEINT"


def carried(executor: DuckDBExecutor, relation: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows of a relation as they are now, and the types of its columns.

    Parameters
    ----------
    executor
        Can read it.
    relation
        The SQL of it.

    Raises
    ------
    EngineError
        If DuckDB fails.
    """
    import pandas as pd

    types = dict(executor.types(f"SELECT * FROM {relation}"))
    shown = [f"{_packed(identifier(name), kind)} AS c{i}" for i, (name, kind) in enumerate(types.items())]
    found = executor.columns(f"SELECT {', '.join(shown)} FROM {relation}")
    columns = {}
    for i, name in enumerate(types):
        values = found.pop(f"c{i}")
        data, missing = np.ma.getdata(values), np.ma.getmaskarray(values)
        if data.dtype.kind == "O":
            data[missing] = None
            columns[name] = pd.Series(data, dtype="str")
        elif data.dtype.kind in "biu" and missing.any():
            kind = {"b": "boolean", "i": "Int64", "u": "UInt64"}[data.dtype.kind]
            columns[name] = pd.Series(data).astype(kind).mask(missing)
        else:
            if missing.any():
                data[missing] = "NaT" if data.dtype.kind == "M" else np.nan
            columns[name] = pd.Series(data)
    return pd.DataFrame(columns, copy=False), types


def _packed(column: str, type_name: str) -> str:
    if type_name in (*INTEGERS, *FLOATING, "BOOLEAN") and type_name != WIDE:
        return column
    if type_name == "DATE" or type_name in STAMPS:
        return f"CAST({plain_value(column, type_name)} AS TIMESTAMP)"
    if element_kind(type_name) is not None:
        # In hexadecimal digits, so that nothing in an element ends it.
        one = "coalesce(hex(encode(CAST(x AS VARCHAR))), '-')"
        return f"'[' || array_to_string(list_transform({column}, lambda x: {one}), ',')"
    return f"CAST({column} AS VARCHAR)" if type_name == "VARCHAR" else f"TRY_CAST({column} AS VARCHAR)"


def restored(column: str, type_name: str) -> str:
    """Return SQL of a column of a type that was carried.

    Parameters
    ----------
    column
        As `carried` gave it.
    type_name
        What it was. What is no canonical scalar and no list of them stays a text.
    """
    if element_kind(type_name) is not None:
        split = f"CASE WHEN length({column}) > 1 THEN string_split(substr({column}, 2), ',') ELSE [] END"
        one = f"CAST(CASE WHEN x <> '-' THEN decode(unhex(x)) END AS {element_of(type_name)})"
        return f"CASE WHEN {column} IS NOT NULL THEN list_transform({split}, lambda x: {one}) END"
    if type_name in (WIDE, "DATE") or type_name.startswith("DECIMAL("):
        return f"CAST({column} AS {type_name})"
    return column

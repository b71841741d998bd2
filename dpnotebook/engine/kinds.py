"""What a column holds, in the words of a statement; told from types, never from values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.engine.sql import FLOATING, INTEGERS

if TYPE_CHECKING:
    from dpnotebook.sql.statement import Kind

TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")


def kind_of(type_name: str) -> Kind:
    """Return what a column of a DuckDB type holds.

    Parameters
    ----------
    type_name
        As DESCRIBE shows it, such as "BIGINT", "DECIMAL(18,3)" or "ENUM('a', 'b')".
    """
    if type_name in INTEGERS or type_name == "UHUGEINT":
        return "integer"
    if type_name in FLOATING or type_name.startswith("DECIMAL("):
        return "number" if type_name[-2:] != "[]" else "other"
    if type_name == "VARCHAR" or (type_name.startswith("ENUM(") and type_name.endswith(")")):
        return "text"
    if type_name == "BOOLEAN":
        return "boolean"
    return "time" if type_name in TIMES else "other"


def plain_value(column: str, type_name: str) -> str:
    """Return an expression for a column that is the same on every engine: NaN is NULL, and text is text.

    Parameters
    ----------
    column
        A quoted identifier.
    type_name
        Its type, as DuckDB calls it.
    """
    if type_name in FLOATING:
        return f"nullif({column}, CAST('NaN' AS {type_name}))"
    if type_name.startswith("DECIMAL(") and not type_name.endswith("[]"):
        return f"CAST({column} AS DOUBLE)"  # arithmetic of decimals overflows, which would be an answer
    if type_name.startswith("ENUM(") and not type_name.endswith("[]"):
        return f"CAST({column} AS VARCHAR)"
    if type_name == "TIMESTAMP WITH TIME ZONE":
        return f"{column} AT TIME ZONE 'UTC'"
    return column

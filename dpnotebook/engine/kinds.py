"""What a column holds, in the words of a statement; told from types, never from values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.engine.sql import FLOATING, INTEGERS

if TYPE_CHECKING:
    from dpnotebook.sql.statement import Kind

STAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
WIDEST_WHOLE = 18  # digits of a decimal that any BIGINT can hold


def kind_of(type_name: str, unit: bool = False) -> Kind:
    """Return what a column of a DuckDB type holds, as statements see it.

    Parameters
    ----------
    type_name
        As DESCRIBE shows it, such as "BIGINT", "DECIMAL(18,3)" or "ENUM('a', 'b')".
    unit
        Whether the column identifies privacy units.
    """
    if type_name in INTEGERS or type_name == "UHUGEINT":
        return "integer"
    if type_name in FLOATING:
        return "number"
    if type_name == "VARCHAR" or _is(type_name, "ENUM"):
        return "text"
    if _is(type_name, "DECIMAL"):
        return "integer" if _whole(type_name) else "text" if unit else "number"
    if type_name == "BOOLEAN":
        return "boolean"
    return "time" if type_name == "DATE" or type_name in STAMPS else "other"


def plain_value(column: str, type_name: str, unit: bool = False) -> str:
    """Return an expression for a column that is the same on every engine, and that no value makes fail.

    NaN is NULL, as are times that are infinite or not of the years 1 to 9999; texts are texts, and times are UTC.

    Parameters
    ----------
    column
        A quoted identifier.
    type_name
        Its type, as DuckDB calls it.
    unit
        Whether the column identifies privacy units, whose values must stay apart.
    """
    if type_name in FLOATING:
        return f"nullif({column}, CAST('NaN' AS {type_name}))"
    if _is(type_name, "DECIMAL"):  # arithmetic of decimals overflows, which would be an answer
        return f"CAST({column} AS {'BIGINT' if _whole(type_name) else 'VARCHAR' if unit else 'DOUBLE'})"
    if _is(type_name, "ENUM"):
        return f"CAST({column} AS VARCHAR)"
    if type_name == "DATE":
        return f"CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {column} END"
    if type_name in STAMPS:
        time = f"{column} AT TIME ZONE 'UTC'" if type_name.endswith("ZONE") else f"TRY_CAST({column} AS TIMESTAMP)"
        first, last = "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
        return f"CASE WHEN {time} BETWEEN {first} AND {last} THEN {time} END"
    return column


def _is(type_name: str, head: str) -> bool:
    return type_name.startswith(f"{head}(") and type_name.endswith(")")


def _whole(type_name: str) -> bool:
    digits, _, scale = type_name[len("DECIMAL(") : -1].partition(",")
    return scale.strip() == "0" and int(digits) <= WIDEST_WHOLE

"""The text of a plain value that is the same on every engine, in DuckDB's words.

It depends on the value alone: not on the width of its type, on how a database writes numbers, or on whether whole
numbers came as floating-point ones because some are missing. Different values have different texts. Where it cannot be
told that two engines mean one value, they have different texts as well: a table is then taken for another one, which is
safe; never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpnotebook.dialect.attributes import FLOATING, number
from dpnotebook.dialect.types import SCALARS, Kind, kind_of

EXACT = {"FLOAT": 2.0**24, "DOUBLE": 2.0**53}  # below it every whole number is one of the type
STEP = 2.0**-53
TAGS: dict[Kind, str] = {"integer": "n", "number": "n", "text": "t", "boolean": "b", "time": "m"}


def canonical(column: str, type_name: str, decimal: bool = False, *, parts: bool = False) -> str | None:
    """Return SQL of the text of a plain value; None for types that are not those of one value.

    Parameters
    ----------
    column
        SQL of a plain value (see `types.plain_value`), of which missing ones are NULL.
    type_name
        What DuckDB calls its type.
    decimal
        Whether it is a decimal of a database elsewhere, which no floating-point number need hold.
    parts
        Whether the parts of a floating-point number are columns: those of `with_parts`, which names this one.
    """
    kind = kind_of(type_name)
    if kind not in SCALARS:
        return None
    written = f"CAST({column} AS VARCHAR)"
    if kind == "boolean":
        return f"CASE WHEN {column} THEN 'true' WHEN NOT {column} THEN 'false' END"
    if kind in ("integer", "number") and decimal:
        return f"'d' || {written}"
    if type_name not in FLOATING:
        return written
    return _of_parts(column, type_name, *(_names(column) if parts else _parts(column)))


def with_parts(rows: str, columns: Sequence[str]) -> str:
    """Return SQL of rows with the parts of floating-point columns beside them, for `canonical`.

    Written out, each part stands in the text some eight times, and DuckDB plans it for longer than it reads 100,000
    rows.

    Parameters
    ----------
    rows
        SQL of a relation.
    columns
        Names in it.
    """
    if not columns:
        return rows
    sizes = ", ".join(f"{_size(column)} AS {_names(column)[0]}" for column in columns)
    named = [_names(column) for column in columns]
    upper = ", ".join(f"{_rest(size)} AS {upper}" for size, upper, _ in named)
    lower = ", ".join(f"{_rest(upper)} AS {lower}" for _, upper, lower in named)
    return f"(SELECT *, {lower} FROM (SELECT *, {upper} FROM (SELECT *, {sizes} FROM {rows} AS r) AS sized) AS halved)"


def in_row(text: str, type_name: str | None = None) -> str:
    """Return SQL of a text for its place in a row: nothing that follows it can be taken for a part of it.

    Parameters
    ----------
    text
        SQL of a canonical text, NULL where the value is missing.
    type_name
        The type of the value, which then tells 1 from '1'; without it the texts of one table are told apart.
    """
    tag = "" if type_name is None else f"'{TAGS[kind_of(type_name)]}' || "
    return f"coalesce({tag}length({text}) || ':' || {text}, 'null')"


def _of_parts(column: str, type_name: str, size: str, upper: str, lower: str) -> str:
    """Return SQL of the text of a floating-point number: what it is exactly, in parts that are whole numbers.

    Whole numbers are written as those of an integer type are; from 2^53 on, where floating-point numbers stand for many
    whole ones, and below what two parts of 53 bits can say, they are as the database writes them.
    """
    value, whole = f"CAST({column} AS DOUBLE)", f"floor({size})"
    parts = " || '.' || ".join(f"CAST(CAST(floor({part}) AS BIGINT) AS VARCHAR)" for part in (size, upper, lower))
    plain = f"CAST(CAST({whole} AS BIGINT) AS VARCHAR)"
    shown = f"CASE WHEN {size} = {whole} THEN {plain} ELSE {parts} END"
    sign = f"CASE WHEN {value} < {number(0.0)} THEN '-' ELSE '' END"
    odd = f"abs({value}) >= {number(EXACT[type_name])} OR {lower} > floor({lower})"
    # The least and the greatest of a number and nothing are the number: what is missing is asked for first.
    return (
        f"CASE WHEN {value} IS NULL THEN NULL WHEN {odd} THEN '{type_name[0]}' || CAST({value} AS VARCHAR) "
        f"ELSE {sign} || {shown} END"
    )


def _parts(column: str) -> tuple[str, str, str]:
    """Return SQL of a number without its sign, and of what is left of it in units of 2^-53 and of 2^-106."""
    size = _size(column)
    upper = _rest(size)
    return size, upper, _rest(upper)


def _names(column: str) -> tuple[str, str, str]:
    return f"{column}_size", f"{column}_upper", f"{column}_lower"


def _size(column: str) -> str:
    # Clamped, so that no database has to look whether arithmetic overflows. All of it is exact.
    return f"least(greatest(abs(CAST({column} AS DOUBLE)), {number(0.0)}), {number(EXACT['DOUBLE'])})"


def _rest(part: str) -> str:
    return f"(({part} - floor({part})) / {number(STEP)})"

"""What a column holds, in the words of a statement; told from types, never from values.

Keys, levels and units are canonical scalars: whole and other numbers, texts told apart by their bytes, truth values,
dates and times. `plain_value` makes a column such that what is equal in the engine is equal in Python, and what is
distinct there is distinct here; a type that has no such form is "other", and is refused before anything is charged.
"""

from __future__ import annotations

from typing import Literal

from dpnotebook.dialect.attributes import FLOATING, INTEGERS
from dpnotebook.errors import DomainError, shorten

Kind = Literal["integer", "number", "text", "boolean", "time", "other"]

# What a column is beside the kind that it is read as: an enum, a text filled up with blanks, a time of a day.
ENUM, PADDED, OF_A_DAY = "enum", "padded", "of a day"

# In a table whose rows are units of their own, the engine numbers them in a column of this name.
ROW_UNIT = "__row__"
SCALARS: tuple[Kind, ...] = ("integer", "number", "text", "boolean", "time")
OF_THE_DAY = ("TIME", "TIME_NS")  # times without a day; those with a zone but no day are at no one hour
ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")
STAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", *ZONED)
WIDEST_WHOLE = 18  # digits of a decimal that any BIGINT can hold
WIDEST_DOUBLE = 15  # digits of a decimal that any DOUBLE tells apart
LONGEST_TEXT = 1_000_000  # bytes of a text that is read: what a statement makes of it must not fill the memory


def kind_of(type_name: str, unit: bool = False) -> Kind:
    """Return what a column of a DuckDB type holds, as statements see it.

    Parameters
    ----------
    type_name
        As DESCRIBE shows it, such as "BIGINT", "DECIMAL(18,3)" or "ENUM('a', 'b')".
    unit
        Whether the column identifies privacy units.

    Returns
    -------
    One of `SCALARS`, or "other": lists, structs, bytes, intervals, times of day and whatever else has no canonical
    form; such a column must be CAST where it is to be a key.
    """
    if type_name in INTEGERS:
        return "integer"
    if type_name in FLOATING:
        return "number"
    if type_name in ("VARCHAR", "UUID", '"NULL"', "NULL") or _is(type_name, "ENUM"):
        return "text"
    if _is(type_name, "DECIMAL"):
        return "integer" if _whole(type_name) else "text" if unit else "number"
    if type_name == "BOOLEAN":
        return "boolean"
    return "time" if type_name == "DATE" or type_name in STAMPS else "other"


def element_kind(type_name: str) -> Kind | None:
    """Return what the elements of a list or an array of scalars hold; None for everything else."""
    inner = element_of(type_name)
    kind = None if inner is None or element_of(inner) is not None else kind_of(inner)
    return kind if kind in SCALARS else None


def is_rounded(type_name: str) -> bool:
    """Whether numbers of a type can be closer than floating-point numbers are: they, or a list's, are no exact keys."""
    type_name = element_of(type_name) or type_name
    return _is(type_name, "DECIMAL") and not _whole(type_name) and _size(type_name)[0] > WIDEST_DOUBLE


def check_unit(name: str, kind: Kind) -> None:
    """Refuse a column that cannot say whose row it is: its values have no canonical form.

    Raises
    ------
    DomainError
        If what the column holds is "other".
    """
    if kind not in SCALARS:
        raise DomainError(
            f"unit={shorten(name)} holds values that cannot be told apart exactly; give it a column of whole numbers "
            "or texts"
        )


def check_unit_type(name: str, kind: Kind, type_name: str, place: str, bytewise: str | None) -> None:
    """Refuse a column of a database that cannot say whose row it is, with what to write there instead.

    Parameters
    ----------
    name, kind
        What it is called and what it holds.
    type_name
        Its type, as the database calls it.
    place
        What can be protected in its place: "a view" or "a frame".
    bytewise
        The collation to write in which texts are equal only where they are the same; None where it has such a one.

    Raises
    ------
    DomainError
        If it is "other", or a text of another collation.
    """
    if kind not in SCALARS:
        raise DomainError(
            f"unit={shorten(name)} is of the type {type_name}, whose values cannot be told apart exactly; CAST it to a "
            f"text or a number in {place}, and protect that"
        )
    if kind == "text" and bytewise is not None:
        raise DomainError(
            f"unit={shorten(name)} has a collation in which different texts are equal; write each unit in one way in "
            f"{place}, such as lower(name) COLLATE {bytewise}, and protect that"
        )


def keeps_type(type_name: str) -> bool:
    """Return whether plain values of a column are of its own type in DuckDB; else it has to be asked."""
    return type_name in INTEGERS or type_name in FLOATING or type_name in ("BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR")


def plain_value(column: str, type_name: str, unit: bool = False) -> str:
    """Return an expression for a column that is the same on every engine, and that no value makes fail.

    NaN is NULL, as are times that are infinite or not of the years 1 to 9999, and texts of more than a megabyte; texts
    are told apart by their bytes, whatever the collation of the column; times are UTC, to the microsecond. What is
    "other" is a text, or a list of plain values.

    Parameters
    ----------
    column
        A quoted identifier.
    type_name
        Its type, as DuckDB calls it.
    unit
        Whether the column identifies privacy units, whose values must stay apart.
    """
    if type_name in INTEGERS or type_name == "BOOLEAN":
        return column
    if type_name in FLOATING:
        return f"nullif({column}, CAST('NaN' AS {type_name}))"
    if _is(type_name, "DECIMAL"):  # arithmetic of decimals overflows, which would be an answer
        return _decimal(column, type_name, unit)
    if type_name == "DATE":
        return f"CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {column} END"
    if type_name in STAMPS:
        time = f"{column} AT TIME ZONE 'UTC'" if type_name in ZONED else column
        time = time if type_name == "TIMESTAMP" else f"TRY_CAST({time} AS TIMESTAMP)"
        first, last = "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"
        return f"CASE WHEN {time} BETWEEN {first} AND {last} THEN {time} END"
    element = element_of(type_name)
    if element is not None and element_kind(type_name) is not None:
        # A collation inside of a list outlives COLLATE, but not a way through bytes.
        plain = plain_value("x", element)
        if kind_of(element) == "text":
            plain = _within("CAST(x AS VARCHAR)", "decode(encode(CAST(x AS VARCHAR)))")
        return f"list_transform({column}, lambda x: {plain})"
    text = f"CAST({column} AS VARCHAR)" if kind_of(type_name) == "text" else f"TRY_CAST({column} AS VARCHAR)"
    return _within(text, f'{text} COLLATE "binary"')


def _within(text: str, shown: str) -> str:
    return f"CASE WHEN strlen({text}) <= {LONGEST_TEXT} THEN {shown} END"


def exact_number(column: str, type_name: str) -> str:
    """Return a plain number as a HUGEINT, the same for numbers that are equal exactly, whatever their types.

    Whole numbers are themselves; others, which nobody is known by, become numbers that are no one else's.

    Parameters
    ----------
    column
        SQL of the number.
    type_name
        Its type: an integer or a floating-point one.
    """
    if type_name in INTEGERS:
        return f"CAST({column} AS HUGEINT)"
    number = f"CAST({column} AS DOUBLE)"
    other = f"CAST(md5_number(CAST({number} AS VARCHAR)) % {2**120}::UHUGEINT AS HUGEINT) + {2**122}::HUGEINT"
    whole = f"{number} = floor({number}) AND abs({number}) < CAST('{float(2**120)!r}' AS DOUBLE)"
    return f"CASE WHEN {whole} THEN TRY_CAST({number} AS HUGEINT) ELSE {other} END"


def _decimal(column: str, type_name: str, unit: bool) -> str:
    if _whole(type_name):
        return f"CAST({column} AS BIGINT)"
    if not unit:
        return f"CAST({column} AS DOUBLE)"
    text = f"CAST({column} AS VARCHAR)"  # the same for the same number, whatever the scale
    return text if _size(type_name)[1] == 0 else f"rtrim(rtrim({text}, '0'), '.')"


def _is(type_name: str, head: str) -> bool:
    return type_name.startswith(f"{head}(") and type_name.endswith(")")


def element_of(type_name: str) -> str | None:
    """Return the type of the elements of a list such as BIGINT[] or of an array such as FLOAT[3]; else None."""
    head, bracket, size = type_name.rpartition("[")
    return head if bracket and size.endswith("]") and (size == "]" or size[:-1].isdigit()) else None


def _whole(type_name: str) -> bool:
    digits, scale = _size(type_name)
    return scale == 0 and digits <= WIDEST_WHOLE


def _size(type_name: str) -> tuple[int, int]:
    digits, _, scale = type_name[len("DECIMAL(") : -1].partition(",")
    return int(digits), int(scale)

"""The values of an expression over declared levels: FLOOR(age / 10) * 10 of ages from 0 to 99 is one of ten numbers.

What is worked out is about levels that are public. No row is read.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from sqlglot import exp

from dpnotebook.dialect.attributes import literal, moment
from dpnotebook.dialect.expressions import kind_of, with_kind
from dpnotebook.dialect.text import DIALECT
from dpnotebook.dialect.types import Kind
from dpnotebook.domain import Attribute, Boolean, Categories, Dates, Range
from dpnotebook.engine.sealed import without_files
from dpnotebook.errors import SQLError
from dpnotebook.sql.ownership.expressions import bare, total

Value: TypeAlias = str | int | bool | None

MOST_COMBINATIONS = 100_000  # of levels of all columns together, as the days of two centuries: a tenth of a second
TYPES: dict[Kind, str] = {"integer": "BIGINT", "text": "VARCHAR", "boolean": "BOOLEAN", "time": "TIMESTAMP"}
EXACT = 2**53  # whole numbers below it are themselves as floating-point numbers
PARTS_OF_DAYS = {
    *(
        "YEAR",
        "ISOYEAR",
        "DECADE",
        "CENTURY",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DOY",
        "DAYOFYEAR",
        "DOW",
        "DAYOFWEEK",
    ),
    "ISODOW",
}
SPANS_OF_DAYS = PARTS_OF_DAYS & {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"}


LENGTHS_AND_DATES = (exp.Add, exp.Sub, exp.Paren, exp.Cast, exp.DataType, exp.Literal, exp.Interval, exp.Var)
KNOWS_NULL = (exp.Coalesce, exp.Is)  # what is missing is asked about


@dataclass(frozen=True)
class LevelledColumn:
    """A column in an expression, and what is declared of it.

    Parameters
    ----------
    node
        As it stands in the expression.
    attribute
        What is declared.
    """

    node: exp.Column
    attribute: Attribute

    @property
    def kind(self) -> Kind:
        """What its levels are."""
        return kinds_of(self.attribute)[0]

    @property
    def size(self) -> int:
        """How many values it has: its levels, and nothing."""
        return self.attribute.regular + 1

    @property
    def is_ascii(self) -> bool:
        """Whether its levels have no letters but those that every database knows."""
        return self.kind != "text" or all(str(level).isascii() for level in self._labels())

    def literals(self) -> list[str]:
        """Return its levels in SQL, and NULL."""
        return [*(literal(label) for label in self._labels()), "NULL"]

    def _labels(self) -> Sequence[Value]:
        return [False, True] if isinstance(self.attribute, Boolean) else self.attribute.labels[: self.attribute.regular]


def kinds_of(attribute: Attribute) -> tuple[Kind, ...]:
    """Return what a column may hold for its values to be the levels that are declared of it."""
    if isinstance(attribute, Range):
        return "integer", "number"
    if isinstance(attribute, Dates):
        return ("time",)
    return ("integer",) if attribute.holds == "number" else ("boolean" if attribute.holds == "boolean" else "text",)


def with_whole_numbers(node: exp.Expr) -> exp.Expr | None:
    """Return an expression that writes whole numbers as texts in one way, whatever database works it out.

    `CAST(age // 10 AS VARCHAR)` is '3' in one and '3.0' in another.

    Parameters
    ----------
    node
        The expression, whose columns have their kinds noted; it is left as it is.

    Returns
    -------
    The expression; None where it writes fractions, times or truth values as texts, which each database does in its way.
    """
    holder = exp.Paren(this=node.copy())
    for place in list(holder.find_all(exp.Cast, exp.DPipe, exp.Concat)):
        if isinstance(place, exp.Cast) and not place.is_type(*exp.DataType.TEXT_TYPES):
            continue
        for operand in _written_as_texts(place):
            kind = kind_of(operand)
            if kind == "integer":
                operand.replace(with_kind(exp.cast(operand.copy(), "bigint"), "integer"))
            elif kind != "text" and not isinstance(operand, exp.Null):
                return None
    made: exp.Expr = holder.this
    made.parent = None
    return made


def _written_as_texts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Concat):
        return list(node.expressions)
    return [node.this, node.expression] if isinstance(node, exp.DPipe) else [node.this]


def has_values(attribute: Attribute | None, node: exp.Expr, column: exp.Column) -> bool:
    """Return whether each level of an attribute is one value of an expression, whatever the rows hold.

    Parameters
    ----------
    attribute
        What is declared of a column.
    node
        The expression.
    column
        The column in it.
    """
    if attribute is None or attribute.other_index is not None or attribute.regular >= MOST_COMBINATIONS:
        return False
    if isinstance(attribute, Dates):
        here = [place for place in node.find_all(exp.Column) if place == column]
        by_days = attribute.by == "day" and not attribute.clamps
        return by_days and all(_is_of_days(place) for place in here)
    return isinstance(attribute, Categories | Boolean | Range)


def _is_of_days(column: exp.Column) -> bool:
    """Return whether a column stands where only its day counts, and not the hour."""
    above = column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, exp.Extract):
        return above.name.upper() in PARTS_OF_DAYS
    if isinstance(above, exp.TimestampTrunc | exp.DateTrunc | exp.DateDiff):
        unit = above.args.get("unit")
        return unit is not None and unit.name.upper() in SPANS_OF_DAYS
    of_days = exp.Year | exp.Quarter | exp.Month | exp.Day | exp.Date
    return isinstance(above, of_days) or (isinstance(above, exp.Cast) and above.is_type("date"))


def values(node: exp.Expr, columns: Sequence[LevelledColumn]) -> list[Value] | None:
    """Return the value of an expression for every combination of levels, the last column's changing first.

    Parameters
    ----------
    node
        The expression, whose columns have their kinds noted; it is left as it is.
    columns
        All columns in it. Each has its levels and NULL, in this order.

    Returns
    -------
    Texts, whole numbers or truth values; None where there are too many combinations, or values of another kind.
    """
    import duckdb

    if not columns or prod(column.size for column in columns) > MOST_COMBINATIONS:
        return None
    if node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None  # not of the columns of one row
    if node.find(exp.Upper, exp.Lower) is not None and not all(column.is_ascii for column in columns):
        return None  # what is the capital of é is said by the locale of a database
    holder = exp.Paren(this=node.copy())
    for place in list(holder.find_all(exp.Column)):
        number = next((i for i, column in enumerate(columns) if column.node == place), None)
        if number is None:
            return None
        place.replace(with_kind(exp.column("v", table=f"l{number}"), columns[number].kind))
    try:
        asked = total(bare(holder.this)).sql(DIALECT)
        lists = [_list(number, column) for number, column in enumerate(columns)]
        order = ", ".join(f"l{number}.i" for number in range(len(columns)))
        return _worked_out(f"SELECT {asked} FROM {', '.join(lists)} ORDER BY {order}")
    except (SQLError, duckdb.Error):  # it is said where the statement itself is read
        return None


@functools.lru_cache(maxsize=64)
def _worked_out(query: str) -> list[Value] | None:
    with without_files() as connection:
        return _whole([row[0] for row in connection.execute(query).fetchall()])


def midnight(node: exp.Expr) -> datetime.date | None:
    """Return the day at whose beginning a moment is that is written with dates and lengths of time; None of others."""
    if not isinstance(node, exp.Add | exp.Sub) or node.find(exp.Interval) is None:
        return None
    known = all(isinstance(one, LENGTHS_AND_DATES) for one in node.walk())
    return _midnight(node.sql(DIALECT)) if known else None


@functools.lru_cache(maxsize=64)
def _midnight(written: str) -> datetime.date | None:
    import duckdb

    try:
        with without_files() as connection:
            found = connection.execute(f"SELECT CAST({written} AS TIMESTAMP)").fetchall()[0][0]
    except duckdb.Error:  # it is said where the statement itself is read
        return None
    at_midnight = isinstance(found, datetime.datetime) and found.time() == datetime.time()
    return found.date() if at_midnight else None


def _list(number: int, column: LevelledColumn) -> str:
    if isinstance(column.attribute, Dates):  # day after day: written out they would take longer to read
        day = f"{moment(column.attribute.starts[0])} + to_days(CAST(i AS INTEGER))"
        given = f"CASE WHEN i < {column.attribute.regular} THEN {day} END"
        return f"(SELECT i, {given} AS v FROM range({column.size}) AS given(i)) AS l{number}"
    rows = ", ".join(f"({i}, {level})" for i, level in enumerate(column.literals()))
    return f"(SELECT i, CAST(v AS {TYPES[column.kind]}) AS v FROM (VALUES {rows}) AS given(i, v)) AS l{number}"


def _whole(found: Sequence[object]) -> list[Value] | None:
    """Return values of one kind, numbers that are whole as such; None of others."""
    values: list[Value] = []
    for value in found:
        if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
            value = int(value)
        if not (value is None or isinstance(value, str | int | bool)):
            return None
        values.append(value)
    return values if len({type(value) for value in values if value is not None}) == 1 else None


def combinations(columns: Sequence[LevelledColumn]) -> list[tuple[tuple[int, ...], bool]]:
    """Return the numbers of levels of each combination, in the order of `values`, and whether all are declared.

    The last of each column is NULL, which is declared where the column may have nothing.
    """
    every = itertools.product(*(range(column.size) for column in columns))
    last = [column.attribute.size for column in columns]
    return [(places, all(place < size for place, size in zip(places, last, strict=True))) for places in every]


def within(node: exp.Expr, columns: Sequence[LevelledColumn]) -> exp.Expr:
    """Return an expression in which what lies beyond the ends of a Range is its end, as everywhere else.

    Parameters
    ----------
    node
        The expression, whose columns have their kinds noted; it is left as it is.
    columns
        All columns in it.
    """
    holder = exp.Paren(this=node.copy())
    for column in columns:
        if isinstance(column.attribute, Range):
            for place in [place for place in holder.find_all(exp.Column) if place == column.node]:
                place.replace(_clamped(column.attribute, place.copy()))
    made = holder.this
    made.parent = None
    return with_kind(made, kind_of(node)) if "kind" in node.meta else made


def _clamped(attribute: Range, node: exp.Expr) -> exp.Expr:
    low, high = (exp.Literal.number(int(end)) if end >= 0 else exp.Neg(this=exp.Literal.number(-int(end)))
                 for end in (attribute.low, attribute.high))  # fmt: skip
    whole = (
        node if kind_of(node) == "integer" else with_kind(exp.cast(exp.Floor(this=node.copy()), "bigint"), "integer")
    )
    branches = [
        exp.If(this=exp.LT(this=node.copy(), expression=low.copy()), true=low),
        exp.If(this=exp.GT(this=node.copy(), expression=high.copy()), true=high),
    ]
    return with_kind(exp.Paren(this=exp.Case(ifs=branches, default=whole)), "integer")

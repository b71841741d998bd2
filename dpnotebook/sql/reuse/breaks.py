"""Where an expression over a column can change: the moments and numbers that it is compared with, days, years."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.attributes import counted_months
from dpnotebook.dialect.safe.typed import FIRST, LAST
from dpnotebook.dialect.text import DIALECT
from dpnotebook.engine.sealed import without_files
from dpnotebook.sql.level_values import SPANS_OF_DAYS
from dpnotebook.sql.reuse.level_lists import Literal
from dpnotebook.sql.reuse.levels import NotTold
from dpnotebook.sql.reuse.rows import literal
from dpnotebook.sql.reuse.years import years_of

Moment: TypeAlias = datetime.datetime
Value: TypeAlias = Moment | float

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
PERIODIC = {"QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DAYOFYEAR", "DOW", "DAYOFWEEK", "ISODOW"}
WORKED_OUT = (exp.Paren, exp.Floor, exp.Cast, exp.TryCast, exp.Nullif, exp.Add, exp.Sub, exp.Mul, exp.DPipe, exp.Right)
NUMERIC = exp.DataType.NUMERIC_TYPES
IN_COUNTED_MONTHS = (exp.Cast, exp.Floor, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Least, exp.Greatest)


@dataclass
class Breaks:
    """Where expressions over a column can change.

    Parameters
    ----------
    moments, numbers
        What its values are compared with.
    by_days
        Whether they also change with each day.
    by_wholes
        Whether values are the whole numbers of a Range, between its ends.
    rounded
        Whether they also change with each whole number, of values that need not be whole.
    periodic
        Whether they come again year by year.
    """

    moments: set[Moment] = field(default_factory=set)
    numbers: set[float] = field(default_factory=set)
    by_days: bool = False
    by_wholes: bool = False
    rounded: bool = False
    periodic: bool = False

    def add(self, other: Breaks) -> None:
        """Add where other expressions can change."""
        self.moments |= other.moments
        self.numbers |= other.numbers
        self.by_days |= other.by_days
        self.by_wholes |= other.by_wholes
        self.rounded |= other.rounded
        self.periodic |= other.periodic


def column_of(node: exp.Expr) -> str:
    """Return SQL of the one column that an expression is of.

    Raises
    ------
    NotTold
        If it is of several, or not of the columns of one row.
    """
    found = {column.sql(DIALECT) for column in node.find_all(exp.Column)}
    if len(found) != 1 or node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        raise NotTold
    return found.pop()


def with_breaks(node: exp.Expr, column: str, listed: Sequence[Literal] = ()) -> tuple[exp.Expr, Breaks]:
    """Return an expression over a column without what keeps moments in the calendar, and where it can change.

    Parameters
    ----------
    node, column
        The expression, and SQL of the column.
    listed
        What it is looked up among, where that is all that matters of it.

    Raises
    ------
    NotTold
        If it is of another column, or nobody knows where it can change.
    """
    if column_of(node) != column:
        raise NotTold
    holder: exp.Expr = exp.Paren(this=node.copy())
    if listed:
        holder = exp.In(this=holder, expressions=[exp.convert(value) for value in listed])
    kept = [case for case in holder.find_all(exp.Case) if _keeps_in_calendar(case)]
    for case in reversed(kept):  # the inner ones first
        case.replace(case.args["ifs"][0].args["true"].copy())
    breaks = Breaks()
    for place in holder.find_all(exp.Column):
        breaks.add(_breaks_above(place))
    return (holder.this if listed else holder), breaks


def _keeps_in_calendar(case: exp.Case) -> bool:
    """Return whether a CASE gives what it asks about, and nothing for moments that no calendar has."""
    branches = case.args["ifs"]
    if case.this is not None or case.args.get("default") is not None or len(branches) != 1:
        return False
    inside, given = branches[0].this, branches[0].args["true"]
    if not isinstance(inside, exp.Between) or inside.this != given:
        return False
    ends = _constants([inside.args["low"], inside.args["high"]])
    return ends == [datetime.datetime.combine(end, datetime.time()) for end in (FIRST, LAST)]


def _breaks_above(place: exp.Expr) -> Breaks:
    """Return where what stands around a column can change."""
    node, above, by_days, rounded = place, place.parent, False, False
    while above is not None:
        if isinstance(above, exp.Floor):
            rounded = True
        elif (isinstance(above, exp.Cast) and above.is_type("date")) or isinstance(above, exp.Date) or _is_span(above):
            by_days = True
        elif not isinstance(above, exp.Paren) and not _keeps_number(above, rounded):
            break
        node, above = above, above.parent
    if isinstance(above, exp.Extract):
        return _breaks_of_part(above)
    if isinstance(above, exp.DateDiff) and by_days:
        return _breaks_of_counted_spans(above)
    if isinstance(above, exp.Is) and isinstance(above.expression, exp.Null):
        return Breaks(by_days=by_days, rounded=rounded)
    if isinstance(above, exp.Case) and _is_clamp(above, place):
        return Breaks(by_wholes=True)
    kept = isinstance(above, exp.Least | exp.Greatest)
    found = _ends(node, above) if kept else _constants(_compared(node, above))
    if not found:
        raise NotTold
    moments = {value for value in found if isinstance(value, datetime.datetime)}
    numbers = {value for value in found if not isinstance(value, datetime.datetime)}
    return Breaks(moments, numbers, by_days, kept, rounded and not kept)


def _keeps_number(node: exp.Expr, whole: bool) -> bool:
    """Return whether a node is a CAST that leaves numbers as they are; to whole numbers it rounds others."""
    return isinstance(node, exp.Cast) and node.is_type(*(NUMERIC if whole else ("double",)))


def _ends(node: exp.Expr, above: exp.Expr | None) -> list[Value]:
    """Return the two ends that a value is kept between."""
    kinds, found = set(), []
    while isinstance(above, exp.Least | exp.Greatest):
        kinds.add(type(above))
        found += _constants(_compared(node, above))
        node, above = above, above.parent
    if len(kinds) < 2:
        raise NotTold
    return found


def _is_span(node: exp.Expr | None) -> bool:
    """Return whether it is the first moment of a span of whole days."""
    unit = node.args.get("unit") if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) else None
    return unit is not None and unit.name.upper() in SPANS_OF_DAYS


def _breaks_of_part(part: exp.Extract) -> Breaks:
    """Return where what is said of a part of moments, as the month, can change."""
    name, above = part.this.name.upper(), part.parent
    if name in ("YEAR", "MONTH") and (counted := _breaks_of_counted_months(part)) is not None:
        return counted
    if name in PERIODIC:
        return Breaks(by_days=True, periodic=True)
    node: exp.Expr = part
    while isinstance(above, exp.Paren | exp.Floor | exp.Cast):
        node, above = above, above.parent
    if name != "YEAR":
        raise NotTold
    kept = isinstance(above, exp.Least | exp.Greatest)
    while not kept and isinstance(above, WORKED_OUT):
        node, above = above, above.parent
    if isinstance(above, exp.Is) and isinstance(above.expression, exp.Null):
        return Breaks(by_days=True)
    if kept:
        found: Sequence[Literal | None] = [end for end in _ends(node, above) if isinstance(end, int | float)]
    else:
        found = [literal(_without_casts(one)) for one in _compared(node, above)]
    years = years_of(part if kept else node, [value for value in found if value is not None])
    if any(value is None for value in found):
        raise NotTold
    return Breaks({datetime.datetime(year, 1, 1) for year in years}, by_days=True)


def _breaks_of_counted_spans(passed: exp.DateDiff) -> Breaks:
    """Return where the number of a day, or of a week, can change that is counted from a first one up to a last."""
    (first,) = _constants([passed.expression])
    days, last = 1, 0
    ends: set[type[exp.Expr]] = set()
    above = passed.parent
    while isinstance(above, exp.Paren | exp.Cast | exp.Floor | exp.Add | exp.Div | exp.Least | exp.Greatest):
        others = [*above.expressions, above.args.get("expression")]
        numbers = [literal(one) for one in others if isinstance(one, exp.Literal)]
        if isinstance(above, exp.Div | exp.Least) and type(numbers[0]) is int:
            days, last = (numbers[0], last) if isinstance(above, exp.Div) else (days, numbers[0])
        ends.add(type(above))
        above = above.parent
    if not {exp.Least, exp.Greatest} <= ends or not isinstance(first, datetime.datetime):
        raise NotTold
    return Breaks({first, first + datetime.timedelta(days=days * (last + 1))}, by_days=True)


def _breaks_of_counted_months(part: exp.Extract) -> Breaks | None:
    """Return where the number of a month, or of a quarter or a year, can change; None of what is not counted so."""
    node: exp.Expr = part
    numbers: dict[type[exp.Expr], int] = {}
    while isinstance(above := node.parent, IN_COUNTED_MONTHS):
        others = [one for one in (above.this, *above.expressions, above.args.get("expression")) if one is not node]
        written_out = [literal(one) for one in others if isinstance(one, exp.Literal)]
        numbers |= {type(above): number for number in written_out if isinstance(number, int)}
        node = above
    if not {exp.Sub, exp.Least} <= numbers.keys():
        return None
    second, months, last = numbers[exp.Sub], numbers.get(exp.Div, 1), numbers[exp.Least]
    written = counted_months(second, months, last + 1, part.expression.sql(DIALECT))
    if sqlglot.parse_one(written, read=DIALECT) != node:
        return None
    ends = (second, second + months * (last + 1))
    return Breaks({datetime.datetime((end - 1) // 12, (end - 1) % 12 + 1, 1) for end in ends}, by_days=True)


def _is_clamp(case: exp.Case, place: exp.Expr) -> bool:
    """Return whether a CASE gives a column between two ends, and these for what is beyond them."""
    branches = [branch.this for branch in case.args["ifs"]]
    if case.this is not None or [type(branch) for branch in branches] != [exp.LT, exp.GT]:
        return False
    columns = [column for branch in branches for column in branch.find_all(exp.Column)]
    return len(columns) == 2 and all(column == place for column in columns)


def _without_casts(node: exp.Expr) -> exp.Expr:
    """Return what stands in casts between numbers, and in parentheses."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.is_type(*NUMERIC)):
        node = node.this
    return node


def _compared(node: exp.Expr, above: exp.Expr | None) -> list[exp.Expr]:
    """Return what a node is compared with; nothing where it is not compared."""
    if isinstance(above, COMPARISONS):
        return [above.expression if above.this is node else above.this]
    if isinstance(above, exp.Between) and above.this is node:
        return [above.args["low"], above.args["high"]]
    if isinstance(above, exp.In) and above.this is node and not above.args.get("query"):
        return list(above.expressions)
    if isinstance(above, exp.Least | exp.Greatest):
        return [one for one in (above.this, *above.expressions) if one is not node]
    return []


def _constants(nodes: Iterable[exp.Expr]) -> list[Value]:
    """Return the moments and numbers that are written out.

    Raises
    ------
    NotTold
        If there is something else.
    """
    found: list[Value] = []
    for node in nodes:
        inner, of_number = node, False
        while isinstance(inner, exp.Paren | exp.Cast):
            of_number |= isinstance(inner, exp.Cast) and inner.is_type(*NUMERIC)
            inner = inner.this
        value = literal(inner) if isinstance(inner, exp.Literal | exp.Neg) else None
        if of_number and isinstance(value, str):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(value)
        elif node.find(exp.Column, exp.Query, exp.Boolean) is None:
            found.append(_moment(node.sql(DIALECT), value))
        else:
            raise NotTold
    return found


@functools.lru_cache(maxsize=4096)
def _moment(written: str, text: object) -> Moment:
    """Return the moment that is written out, as a text or worked out from one."""
    import duckdb

    if isinstance(text, str):
        return _read(text)
    try:
        with without_files() as connection:
            found = connection.execute(f"SELECT CAST({written} AS TIMESTAMP)").fetchall()[0][0]
    except duckdb.Error:  # it is said where the statement itself is read
        raise NotTold from None
    if not isinstance(found, datetime.datetime):
        raise NotTold
    return found


def _read(text: str) -> Moment:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise NotTold from None
    if found.tzinfo is not None:
        raise NotTold
    return found

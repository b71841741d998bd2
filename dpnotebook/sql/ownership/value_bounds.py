"""Between which values an expression lies, whatever the rows hold, as far as what is written and declared says so.

`CASE WHEN smokes THEN 1 ELSE 0 END` is 0 or 1, `2024 - born` lies where the declared years of birth put it, and an hour
is one of 24. Such bounds cost nothing. Values are clamped to them as to declared ones, so that privacy does not rest on
what is worked out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from dpnotebook.dialect.expressions import CONDITIONS
from dpnotebook.dialect.text import Text
from dpnotebook.domain import Attribute, Bins, Dates, Range
from dpnotebook.sql.ownership.expressions import bare, column_of
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.parse.arguments import whole_number
from dpnotebook.sql.select import TRUTH
from dpnotebook.sql.statement import Relation

End: TypeAlias = Fraction | float  # a float is infinite
Interval: TypeAlias = tuple[End, End]
Of: TypeAlias = Callable[[exp.Expr], Interval]

EVERYTHING: Interval = (-math.inf, math.inf)
LARGEST = 10**300  # what is beyond that may be no number of a computer's
NUMBERED: dict[str, Callable[[date], int]] = {  # by the unit of a difference, the number of a day's
    "YEAR": lambda day: day.year,
    "MONTH": lambda day: 12 * day.year + day.month,
    "DAY": lambda day: day.toordinal(),
}
PARTS = {  # of times; the year and the date have no ends
    **{"QUARTER": (1, 4), "MONTH": (1, 12), "WEEK": (1, 53), "ISOWEEK": (1, 53), "DAY": (1, 31), "HOUR": (0, 23)},
    **{"MINUTE": (0, 59), "DAYOFYEAR": (1, 366), "DOY": (1, 366), "ISODOW": (1, 7), "DOW": (0, 6), "DAYOFWEEK": (0, 6)},
}


def value_bounds(
    written: exp.Expr, scope: Scope, relations: Mapping[str, Relation], text: Text
) -> tuple[Fraction, Fraction] | None:
    """Return between which numbers an expression lies in every row; None where nothing says so.

    Parameters
    ----------
    written
        The expression as it was read. One that is the same number everywhere has no bounds.
    scope, relations
        What its names mean, and what is declared of the tables.
    text
        The statement.
    """

    def dates(node: exp.Expr) -> Dates | None:
        attribute = declared_attribute(node, scope, relations, text)
        return attribute if isinstance(attribute, Dates) else None

    def of(node: exp.Expr) -> Interval:
        node = bare(node)
        if isinstance(node, exp.Column):
            return _of_column(node, scope, relations, text)
        if isinstance(node, CONDITIONS):
            return TRUTH
        if (years := _of_years(node, dates)) is not None:
            return years
        rule = RULES.get(type(node))
        ends = EVERYTHING if rule is None else rule(node, of)
        beyond = any(isinstance(end, Fraction) and abs(end) > LARGEST for end in ends)
        return EVERYTHING if beyond else ends

    low, high = of(written)
    if isinstance(low, float) or isinstance(high, float) or low == high:  # of the last there is nothing to hide
        return None
    return Fraction(low), Fraction(high)


def declared_attribute(node: exp.Expr, scope: Scope, relations: Mapping[str, Relation], text: Text) -> Attribute | None:
    """Return what is declared of the values of a column, as it is in its table; None of anything else."""
    column = column_of(node, scope, text)
    if column is None or column.origin is None:
        return None
    domain = relations[column.origin[0]].domain
    return None if domain is None else domain.get(column.origin[1])


def _of_column(node: exp.Expr, scope: Scope, relations: Mapping[str, Relation], text: Text) -> Interval:
    column, attribute = column_of(node, scope, text), declared_attribute(node, scope, relations, text)
    if isinstance(attribute, Range | Bins):
        return Fraction(attribute.bounds[0]), Fraction(attribute.bounds[1])
    if column is not None and column.origin is not None:
        relation = relations[column.origin[0]]
        if column.origin[1] in relation.ends:  # of a public table, whose values everybody may know
            low, high = relation.ends[column.origin[1]]
            return Fraction(repr(low)), Fraction(repr(high))
    if column is not None and column.ends is not None:
        return column.ends
    return TRUTH if column is not None and column.kind == "boolean" else EVERYTHING


def _of_years(node: exp.Expr, dates: Callable[[exp.Expr], Dates | None]) -> Interval | None:
    """Return between which numbers a year of declared or written days lies, or so many years or days between them.

    Of two declared columns these are far apart, and what is between two days is mostly short: nothing is said of it.
    """
    if isinstance(node, exp.Year) or (isinstance(node, exp.Extract) and node.this.name.upper() == "YEAR"):
        days = _days(node.expression if isinstance(node, exp.Extract) else node.this, dates)
        return None if days is None else (Fraction(days[0].year), Fraction(days[1].year))
    unit = node.args.get("unit") if isinstance(node, exp.DateDiff) else None
    number = None if unit is None else NUMBERED.get(unit.name.upper())
    if number is None:
        return None
    later, earlier = _days(node.this, dates), _days(node.expression, dates)
    if later is None or earlier is None or (later[0] < later[1] and earlier[0] < earlier[1]):
        return None
    return Fraction(number(later[0]) - number(earlier[1])), Fraction(number(later[1]) - number(earlier[0]))


def _days(node: exp.Expr, dates: Callable[[exp.Expr], Dates | None]) -> tuple[date, date] | None:
    """Return the first and the last day that an expression can be, of a declared column or one that is written out."""
    node = bare(node)
    if isinstance(node, exp.Cast) and isinstance(bare(node.this), exp.Column):
        node = bare(node.this)
    if isinstance(node, exp.Column):
        declared = dates(node)
        return None if declared is None else (declared.first, declared.last)
    written = node.this if isinstance(node, exp.Cast | exp.Date) else None
    if not isinstance(written, exp.Literal) or not written.is_string:
        return None
    try:
        day = datetime.fromisoformat(written.name).date()
    except ValueError:
        return None
    return day, day


def _literal(node: exp.Expr, of: Of) -> Interval:
    if node.is_string:
        return EVERYTHING
    number = float(node.name)
    exact = Fraction(repr(number)) if math.isfinite(number) else number
    return exact, exact


def _negative(node: exp.Expr, of: Of) -> Interval:
    low, high = of(node.this)
    return -high, -low


def _added(node: exp.Expr, of: Of) -> Interval:
    (low, high), (least, most) = of(node.this), of(node.expression)
    return low + least, high + most


def _taken(node: exp.Expr, of: Of) -> Interval:
    (low, high), (least, most) = of(node.this), of(node.expression)
    return low - most, high - least


def _times(node: exp.Expr, of: Of) -> Interval:
    return _product(of(node.this), of(node.expression))


def _divided(node: exp.Expr, of: Of) -> Interval:
    least, most = of(node.expression)
    if isinstance(least, float) or isinstance(most, float) or least <= 0 <= most:
        return EVERYTHING
    return _product(of(node.this), (1 / most, 1 / least))


def _whole_times(node: exp.Expr, of: Of) -> Interval:
    """Return how many whole times a number can be in another; down or up makes one of difference."""
    low, high = _divided(node, of)
    return (
        low if isinstance(low, float) else Fraction(math.floor(low)),
        high if isinstance(high, float) else Fraction(math.ceil(high)),
    )


def _product(one: Interval, other: Interval) -> Interval:
    """Return where a multiple or a part of a value lies; products of two values are seldom near those of their ends."""
    known = not any(isinstance(end, float) for end in (*one, *other))
    if not known or not any(low == high or -1 <= low <= high <= 1 for low, high in (one, other)):
        return EVERYTHING
    ends = [first * second for first in one for second in other]
    return min(ends), max(ends)


def _case(node: exp.Expr, of: Of) -> Interval:
    given = [branch.args["true"] for branch in node.args["ifs"]]
    return _any_of([*given, node.args.get("default")], of)


def _if(node: exp.Expr, of: Of) -> Interval:
    return _any_of([node.args["true"], node.args.get("false")], of)


def _first_known(node: exp.Expr, of: Of) -> Interval:
    return _any_of([node.this, *node.expressions], of)


def _any_of(nodes: list[exp.Expr | None], of: Of) -> Interval:
    found = [of(node) for node in nodes if node is not None and not isinstance(bare(node), exp.Null)]
    return (min(low for low, _ in found), max(high for _, high in found)) if found else EVERYTHING


def _least(node: exp.Expr, of: Of) -> Interval:
    low, high = _first_known(node, of)  # what is NULL is left out, so that any of them may be the one
    written = [of(part)[1] for part in [node.this, *node.expressions] if isinstance(bare(part), exp.Literal)]
    return low, min([high, *written])


def _greatest(node: exp.Expr, of: Of) -> Interval:
    low, high = _first_known(node, of)
    written = [of(part)[0] for part in [node.this, *node.expressions] if isinstance(bare(part), exp.Literal)]
    return max([low, *written]), high


def _size(node: exp.Expr, of: Of) -> Interval:
    low, high = of(node.this)
    return max(low, -high, Fraction(0)), max(-low, high)


def _rounded(node: exp.Expr, of: Of) -> Interval:
    """Return what rounding gives, up or down: to whole numbers, or to so many decimals."""
    decimals = node.args.get("decimals")
    part = Fraction(10) ** -(0 if decimals is None else whole_number(decimals) or 0)
    low, high = of(node.this)
    return (
        low if isinstance(low, float) else math.floor(low / part) * part,
        high if isinstance(high, float) else math.ceil(high / part) * part,
    )


def _cast(node: exp.Expr, of: Of) -> Interval:
    if node.is_type("boolean"):
        return TRUTH
    return _rounded(node, of)  # to any other type, it moves no number past the next whole one


def _part_of_time(node: exp.Expr, of: Of) -> Interval:
    name = node.this.name.upper() if isinstance(node, exp.Extract) else type(node).__name__.upper()
    ends = PARTS.get(name)
    return EVERYTHING if ends is None else (Fraction(ends[0]), Fraction(ends[1]))


RULES: dict[type[exp.Expr], Callable[[exp.Expr, Of], Interval]] = {
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Add: _added,
    exp.Sub: _taken,
    exp.Mul: _times,
    **dict.fromkeys((exp.Div, exp.SafeDivide), _divided),
    exp.IntDiv: _whole_times,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _first_known,
    exp.Least: _least,
    exp.Greatest: _greatest,
    exp.Abs: _size,
    **dict.fromkeys((exp.Round, exp.Floor, exp.Ceil, exp.Trunc), _rounded),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Extract, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute), _part_of_time),
}

"""In which years what is worked out from parts of moments can change, as EXTRACT(YEAR FROM t) * 100 + 3 does."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import TypeAlias

from sqlglot import exp

from dpnotebook.sql.reuse.level_lists import Literal
from dpnotebook.sql.reuse.levels import NotTold
from dpnotebook.sql.reuse.rows import literal

# Of a year, and what is added to it: a number of years, and the least and most that other parts come to.
Linear: TypeAlias = tuple[float, float, float]

MOST_OF_PART = {
    **{"QUARTER": 4, "MONTH": 12, "WEEK": 53, "DAY": 31, "DOY": 366, "DAYOFYEAR": 366},
    **dict.fromkeys(("DOW", "DAYOFWEEK", "ISODOW"), 7),
}
DIGITS = 4  # of years, as texts have them


def years_of(node: exp.Expr, compared: Iterable[Literal]) -> set[int]:
    """Return the years at whose beginning it can change how an expression compares with some values.

    Parameters
    ----------
    node
        The expression: of numbers, in which the year stands once or added up, or a text that begins with the year.
    compared
        The numbers, or texts.

    Raises
    ------
    NotTold
        If it is neither.
    """
    values = list(compared)
    if values and all(isinstance(value, str) for value in values) and _begins_with_year(node):
        written = [str(value)[:DIGITS] for value in values]
        if not all(len(one) == DIGITS and one.isascii() and one.isdigit() for one in written):
            raise NotTold
        found = {int(one) + after for one in written for after in (0, 1)}
    elif values and all(type(value) in (int, float) for value in values):
        times, least, most = _linear(node)
        if not times:
            raise NotTold
        ends = [(float(value) - rest) / times for value in values for rest in (least, most)]
        found = {year for end in ends for year in (math.floor(end), math.floor(end) + 1, math.floor(end) + 2)}
    else:
        raise NotTold
    return {year for year in found if datetime.MINYEAR < year <= datetime.MAXYEAR}


def _begins_with_year(node: exp.Expr) -> bool:
    """Return whether a text begins with the four digits of the year, as STRFTIME(t, '%Y-%m') is written."""
    while isinstance(node, exp.Paren | exp.DPipe):
        node = node.this
    if not isinstance(node, exp.Right) or literal(node.expression) != DIGITS or not isinstance(node.this, exp.DPipe):
        return False
    zeros, year = node.this.this, node.this.expression
    while isinstance(year, exp.Cast | exp.TryCast | exp.Paren):
        year = year.this
    return literal(zeros) == "0" * (DIGITS - 1) and isinstance(year, exp.Extract) and year.this.name.upper() == "YEAR"


def _linear(node: exp.Expr) -> Linear:
    """Return an expression as a number of years, and what is added to them."""
    if isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.is_type(*exp.DataType.NUMERIC_TYPES)):
        return _linear(node.this)
    if isinstance(node, exp.Nullif) and node.expression.find(exp.Column) is None:
        return _linear(node.this)
    if isinstance(node, exp.Floor):
        years, least, most = _linear(node.this)
        return years, least - 1.0, most
    if isinstance(node, exp.Extract):
        name = node.this.name.upper()
        if name == "YEAR":
            return 1.0, 0.0, 0.0
        if name in MOST_OF_PART:
            return 0.0, 0.0, float(MOST_OF_PART[name])
    value = literal(node) if isinstance(node, exp.Literal | exp.Neg) else None
    if type(value) in (int, float):
        return 0.0, float(value), float(value)  # type: ignore[arg-type]
    if isinstance(node, exp.Add | exp.Sub):
        one, other = _linear(node.this), _times(_linear(node.expression), -1.0 if isinstance(node, exp.Sub) else 1.0)
        return one[0] + other[0], one[1] + other[1], one[2] + other[2]
    if isinstance(node, exp.Mul):
        one, other = _linear(node.this), _linear(node.expression)
        for constant, varied in ((one, other), (other, one)):
            if not constant[0] and constant[1] == constant[2]:
                return _times(varied, constant[1])
    raise NotTold


def _times(one: Linear, by: float) -> Linear:
    years, least, most = (by * part for part in one)
    return years, min(least, most), max(least, most)

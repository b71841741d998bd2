"""Which conditions follow from others: `q IN (4, 5)` is true of rows alone of which `q IS NOT NULL` and `q < 99` are.

Only what is written is looked at, and only what is sure is said: where a row counts above a line, it counts below it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from sqlglot import exp

COMPARED: dict[type[exp.Expr], Callable[[float, float], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
# True of values alone that are there.
OF_VALUES = (*COMPARED, exp.Between, exp.In, exp.Like, exp.ILike, exp.StartsWith, exp.EndsWith, exp.Contains)


def parts_of(condition: exp.Expr) -> frozenset[exp.Expr]:
    """Return what a condition is true of if it is true of all of them."""
    condition = condition.unnest()
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return frozenset(part.unnest() for part in parts)


def is_there(value: exp.Expr) -> exp.Expr:
    """Return the condition that a value is not missing."""
    return exp.Not(this=exp.Is(this=value.unnest().copy(), expression=exp.Null()))


def follows(condition: exp.Expr, given: exp.Expr) -> bool:
    """Return whether a condition surely holds of every row of which another one holds."""
    known = parts_of(given)
    return all(part in known or any(_follows(part, one) for one in known) for part in parts_of(condition))


def _follows(part: exp.Expr, given: exp.Expr) -> bool:
    if any(part == is_there(value) for value in _there(given)):
        return True
    values = _values(given)
    if values is None or not isinstance(part, (*COMPARED, exp.Between)) or part.this.unnest() != given.this.unnest():
        return False
    if isinstance(part, exp.Between):
        low, high = _number(part.args["low"]), _number(part.args["high"])
        return low is not None and high is not None and all(low <= value <= high for value in values)
    if isinstance(part, exp.NEQ) and isinstance(given, exp.Between):  # both ends tell of what is less or greater alone
        return False
    bound = _number(part.expression)
    return bound is not None and all(COMPARED[type(part)](value, bound) for value in values)


def _there(given: exp.Expr) -> Iterator[exp.Expr]:
    """Yield columns that are not missing where a condition is true."""
    if isinstance(given, exp.Column):
        yield given
    if isinstance(given, exp.Not) and isinstance(given.this.unnest(), exp.Column):
        yield given.this.unnest()
    if isinstance(given, OF_VALUES):
        yield from (side.unnest() for side in (given.this, given.args.get("expression")) if side is not None)


def _values(given: exp.Expr) -> list[float] | None:
    """Return numbers between whose least and largest a value lies, all that it can be or both ends; None if unknown."""
    if isinstance(given, exp.Between):
        listed = [given.args["low"], given.args["high"]]
    elif isinstance(given, exp.In) and not given.args.get("negate"):
        listed = given.expressions
    else:
        listed = [given.expression] if isinstance(given, exp.EQ) else []
    found = [_number(value) for value in listed]
    numbers = [number for number in found if number is not None]
    return numbers if listed and len(numbers) == len(found) else None


def _number(node: exp.Expr) -> float | None:
    """Return a number that is written out; None of anything else."""
    node, sign = node.unnest(), 1.0
    if isinstance(node, exp.Neg):
        node, sign = node.this.unnest(), -1.0
    return sign * float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None

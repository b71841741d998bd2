"""Calculations that no number makes fail."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of
from dpnotebook.dialect.safe.times import between_times, later
from dpnotebook.dialect.safe.typed import cast, double, not_nan, number

LARGEST_SQUARED = "1e100"  # what is squared and added up is left out beyond this


def arithmetic(node: exp.Expr) -> exp.Expr:
    """Return a sum, a difference or a product, of numbers or with dates."""
    for interval, other in ((node.expression, node.this), (node.this, node.expression)):
        if isinstance(interval, exp.Interval):
            return later(node, other, interval)
    kinds = {kind_of(node.this), kind_of(node.expression)}
    if isinstance(node, exp.Sub) and kinds == {"time"}:
        return between_times(node.this, node.expression)
    if _is_small(node.this) and _is_small(node.expression):
        return node
    above = node.parent
    return not_nan(type(node)(this=number(node.this), expression=number(node.expression)), above)


def divided(node: exp.Expr) -> exp.Expr:
    """Return a quotient or a remainder, NULL where it is by 0."""
    above = node.parent
    small = _is_small(node.this) and _is_small(node.expression) and isinstance(node.expression, exp.Literal)
    if isinstance(node, exp.Mod) and small and int(node.expression.name):
        return node
    divisor = exp.Nullif(this=number(node.expression), expression=number(exp.Literal.number(0)))
    kind = exp.Mod if isinstance(node, exp.Mod) else exp.Div
    made: exp.Expr = kind(this=number(node.this), expression=divisor)
    if isinstance(node, exp.IntDiv):
        made = exp.Trunc(this=made)
    return not_nan(made, above)


def of_number(node: exp.Expr) -> exp.Expr:
    """Return a function of a number."""
    node.set("this", number(node.this))
    return double(node)


def sign(node: exp.Expr) -> exp.Expr:
    """Return the sign of a number, as a DOUBLE too: engines have it as the shortest integer, which ends at 127."""
    node.set("this", number(node.this))
    return double(cast(node, "DOUBLE"))


def negative(node: exp.Expr) -> exp.Expr:
    """Return a number with the other sign."""
    return node if isinstance(node.this, exp.Literal) and not node.this.is_string else of_number(node)


def root(node: exp.Expr) -> exp.Expr:
    """Return a square root, NULL where there is none."""
    above = node.parent
    return not_nan(of_number(node), above)


def power(node: exp.Expr) -> exp.Expr:
    """Return a power, NULL where there is none."""
    above = node.parent
    return not_nan(exp.Pow(this=number(node.this), expression=number(node.expression)), above)


def logarithm(node: exp.Expr) -> exp.Expr:
    """Return a logarithm, NULL where there is none."""
    above = node.parent
    if isinstance(node, exp.Ln):
        return not_nan(exp.Ln(this=_positive(node.this)), above)
    base, of = (node.this, node.expression) if node.expression else (exp.Literal.number(10), node.this)
    if isinstance(base, exp.Literal) and base.name in ("2", "10"):
        return not_nan(exp.Log(this=exp.Literal.number(base.name), expression=_positive(of)), above)
    below = exp.Nullif(this=exp.Ln(this=_positive(base)), expression=number(exp.Literal.number(0)))
    return not_nan(exp.Div(this=exp.Ln(this=_positive(of)), expression=below), above)


def summed(node: exp.Expr) -> exp.Expr:
    """Return an aggregate of numbers, NULL where it has no value.

    Numbers are added up in the order of their size: in another order their sum is another number, and rows of other
    units change the order in which a database meets those of one.
    """
    node.set("this", number(node.this))
    if isinstance(node, exp.Variance | exp.VariancePop | exp.StddevSamp | exp.StddevPop):
        value = node.this
        near = exp.LTE(this=exp.Abs(this=value.copy()), expression=number(exp.Literal.number(LARGEST_SQUARED)))
        node.set("this", double(exp.Case(ifs=[exp.If(this=near, true=value)])))
    if not isinstance(node, exp.PercentileCont):
        ordered = exp.Ordered(this=node.this.copy(), nulls_first=False)
        node.set("this", exp.Order(this=node.this, expressions=[ordered]))
    return not_nan(node)


def _positive(node: exp.Expr) -> exp.Expr:
    """Return a number, NULL where it is not above 0."""
    largest = exp.Greatest(this=number(node), expressions=[number(exp.Literal.number(0))], ignore_nulls=True)
    return exp.Nullif(this=largest, expression=number(exp.Literal.number(0)))


def _is_small(node: exp.Expr) -> bool:
    """Whether a whole number is so small that adding or multiplying two of them stays far from the ends of BIGINT."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit() and len(node.name) <= 6
    return isinstance(node, exp.Extract | exp.Length)

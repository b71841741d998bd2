"""What the words of PostgreSQL and of Spark are made of: pieces of SQL trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Rule = Callable[[Any], exp.Expr]


def call(name: str, *arguments: exp.Expr | None) -> exp.Expr:
    """Return a call of a function, as it is named there; what is None is left out."""
    return exp.Anonymous(this=name, expressions=[item for item in arguments if item is not None])


def number(text: str) -> exp.Expr:
    """Return a text as a DOUBLE."""
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("DOUBLE"))


def double(node: exp.Expr) -> exp.Expr:
    """Return a value as a DOUBLE."""
    return exp.Cast(this=exp.paren(node, copy=False), to=exp.DataType.build("DOUBLE"))


def contains(node: exp.Contains) -> exp.Expr:
    """Return CONTAINS as the place of one text in another."""
    return exp.paren(exp.GT(this=exp.StrPosition(this=node.this, substr=node.expression), expression=whole(0)))


def begins(node: exp.StartsWith) -> exp.Expr:
    """Return STARTS_WITH as a comparison of the first characters."""
    length = exp.Length(this=node.expression.copy())
    return exp.paren(exp.EQ(this=exp.Left(this=node.this, expression=length), expression=node.expression))


def ends(node: exp.EndsWith) -> exp.Expr:
    """Return ENDS_WITH as a comparison of the last characters."""
    length = exp.Length(this=node.expression.copy())
    return exp.paren(exp.EQ(this=exp.Right(this=node.this, expression=length), expression=node.expression))


def logarithm(node: exp.Log) -> exp.Expr:
    """Return a logarithm to a base as a quotient of natural ones."""
    base, value = (node.this, node.expression) if node.expression else (exp.Literal.number(10), node.this)
    return exp.paren(exp.Div(this=exp.Ln(this=value), expression=exp.Ln(this=double(base)), typed=True, safe=False))


def truncated(node: exp.DateTrunc) -> exp.Expr:
    """Return DATE_TRUNC of what is a date for certain as that of a time: Spark's own way with dates knows no days."""
    return exp.TimestampTrunc(this=node.this, unit=node.args.get("unit"))


def whole(value: int) -> exp.Expr:
    """Return a whole number."""
    return exp.Literal.number(value)


def type_name(node: exp.Cast) -> str:
    """Return the name of the type that a cast is to."""
    kind = node.args["to"].this
    return str(kind.name if hasattr(kind, "name") else kind)


def size(node: exp.Expr) -> float:
    """Return the largest magnitude that a number can have, where that follows from how it is made; else infinity."""
    if isinstance(node, exp.Paren):
        return size(node.this)
    if isinstance(node, exp.Literal) or (isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)):
        try:
            return abs(float(node.name if isinstance(node, exp.Literal) else node.this.name))
        except ValueError:
            return float("inf")
    if isinstance(node, exp.Neg):
        return size(node.this)
    if isinstance(node, (exp.Floor, exp.Ceil)):
        return size(node.this) + 1
    if isinstance(node, (exp.Least, exp.Greatest)):
        # Clamped: the other one inside of it bounds it on the other side.
        inner, kind = node.this, exp.Greatest if isinstance(node, exp.Least) else exp.Least
        if isinstance(inner, kind) and len(node.expressions) == len(inner.expressions) == 1:
            return max(size(node.expressions[0]), size(inner.expressions[0]))
        return float("inf")
    if isinstance(node, (exp.Add, exp.Sub)):
        return size(node.this) + size(node.expression)
    if isinstance(node, exp.Div) and isinstance(bare(node.this), (exp.Add, exp.Sub)):
        # Of a sum only: what it gives is 0 or not too small to be divided, see `steps.whole`.
        divisor = bare(node.expression)
        if isinstance(divisor, exp.Cast) and isinstance(divisor.this, exp.Literal) and size(divisor) > 0:
            return size(node.this) / size(divisor)
    return float("inf")


def bare(node: exp.Expr) -> exp.Expr:
    """Return a node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def unordered(node: exp.Expr) -> exp.Expr:
    """Return what an aggregate is of, without the order in which it is added up."""
    return node.this if isinstance(node, exp.Order) else node


def ordered(node: exp.Expr) -> exp.Expr:
    """Return what an aggregate is of, in the order of its size: rows of other units change the order of rows."""
    value = unordered(node)
    least_first = exp.Ordered(this=value.copy(), nulls_first=False)
    return exp.Order(this=value.copy(), expressions=[least_first])

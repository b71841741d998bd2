"""The words of Spark for DuckDB's SQL; it is told not to stop at what it cannot convert."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.builders import (
    Rule,
    begins,
    call,
    contains,
    double,
    ends,
    logarithm,
    number,
    size,
    truncated,
    type_name,
    unordered,
    whole,
)

WHOLE = 1 << 52  # numbers from here on have no fraction


def _spark_try_cast(node: exp.TryCast) -> exp.Expr:
    if type_name(node) != "BIGINT":
        return node
    # It would cut 2.7 off to 2; and what is a whole number already must stay exact. DuckDB rounds halves of numbers to
    # the even number, and halves in texts away from zero.
    real = exp.TryCast(this=_as_text(node.this.copy()), to=exp.DataType.build("DOUBLE"), safe=True)
    branches = []
    for kinds, rounding in ((_WHOLE, None), (("string",), "ROUND")):
        held = exp.In(this=call("TYPEOF", node.this.copy()), expressions=[exp.Literal.string(kind) for kind in kinds])
        made = _rounded(rounding, real, node) if rounding else node
        branches.append(exp.If(this=held, true=made))
    return exp.Case(ifs=branches, default=_rounded("BROUND", real, node))


def _rounded(name: str, real: exp.Expr, node: exp.TryCast) -> exp.Expr:
    return exp.TryCast(this=call(name, real.copy()), to=node.args["to"].copy(), safe=True)


_WHOLE = ("tinyint", "smallint", "int", "bigint", "boolean")


def _as_text(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("TEXT"))


def _spark_floor(node: exp.Floor | exp.Ceil) -> exp.Expr:
    if size(node.this) < WHOLE:
        return node
    # It would give the largest integer for what is larger than that.
    small = exp.LT(this=exp.Abs(this=node.this.copy()), expression=whole(WHOLE))
    return exp.Case(ifs=[exp.If(this=small, true=double(node))], default=double(node.this.copy()))


def _spark_window(node: exp.Window) -> exp.Expr:
    if isinstance(node.this, exp.RowNumber) and node.args.get("order") is None:
        node.set("order", exp.Order(expressions=[exp.Ordered(this=whole(1), nulls_first=True)]))
    return node


def _spark_extract(node: exp.Extract) -> exp.Expr:
    if node.name.upper() == "ISODOW":
        node = exp.Extract(this=exp.Var(this="DAYOFWEEK_ISO"), expression=node.expression)
    if node.name.upper() in ("DOW", "DAYOFWEEK"):
        return exp.paren(exp.Sub(this=call("DAYOFWEEK", node.expression), expression=whole(1)))
    return exp.Cast(this=exp.Floor(this=node), to=exp.DataType.build("BIGINT"))


def _in_order(node: exp.Sum | exp.Avg) -> exp.Expr:
    """Return a sum or a mean that is added up in the order of the numbers: that of the rows can be any."""
    if isinstance(node, exp.Sum) and not isinstance(node.this, exp.Order):
        return node  # of whole numbers
    value = unordered(node.this)
    names = [exp.to_identifier("s"), exp.to_identifier("v")]
    add = exp.Lambda(this=exp.Add(this=names[0], expression=names[1]), expressions=[name.copy() for name in names])
    total = call("AGGREGATE", _sorted(value), number("0"), add)
    rows = exp.Count(this=value.copy())
    if isinstance(node, exp.Avg):
        total = exp.Div(this=total, expression=rows.copy(), typed=True, safe=False)
    return exp.Case(ifs=[exp.If(this=exp.GT(this=rows, expression=whole(0)), true=total)])


# Welford's way, number by number: how many so far, n, their mean m, and the squares of what they are away from it, q.
_SQUARES = sqlglot.parse_one(
    "AGGREGATE(sorted, NAMED_STRUCT('n', CAST('0' AS DOUBLE), 'm', CAST('0' AS DOUBLE), 'q', CAST('0' AS DOUBLE)), "
    "(s, v) -> NAMED_STRUCT('n', s.n + 1, 'm', s.m + (v - s.m) / (s.n + 1), "
    "'q', s.q + (v - s.m) * (v - (s.m + (v - s.m) / (s.n + 1)))), s -> s.q)",
    read="spark",
)


def _spread(node: exp.Expr) -> exp.Expr:
    """Return a variance or a deviation of numbers in the order of their size."""
    value = unordered(node.this)
    squares = _SQUARES.copy()
    for column in list(squares.find_all(exp.Column)):
        if column.name == "sorted":
            column.replace(_sorted(value))
    less = int(isinstance(node, (exp.Variance, exp.StddevSamp)))
    rows = exp.Count(this=value.copy())
    made: exp.Expr = exp.Div(
        this=squares, expression=exp.paren(exp.Sub(this=rows, expression=whole(less))), typed=True, safe=False
    )
    if isinstance(node, (exp.StddevSamp, exp.StddevPop)):
        made = exp.Sqrt(this=made)
    return exp.Case(ifs=[exp.If(this=exp.GT(this=rows.copy(), expression=whole(less)), true=made)])


def _sorted(value: exp.Expr) -> exp.Expr:
    return call("ARRAY_SORT", call("COLLECT_LIST", value.copy()))


def _spark_clock(node: exp.AtTimeZone) -> exp.Expr:
    """Return what clocks show at times of UTC: both ways there are one function."""
    inner: exp.Expr = node.this
    if isinstance(node.parent, exp.AtTimeZone):
        return inner
    return call("CONVERT_TIMEZONE", exp.Literal.string("UTC"), node.args["zone"], inner)


def _same(node: exp.Expr) -> exp.Expr:
    return node


SPARK: dict[type[exp.Expr], Rule] = {
    exp.TryCast: _spark_try_cast,
    exp.AtTimeZone: _spark_clock,
    exp.Window: _spark_window,
    exp.Floor: _spark_floor,
    exp.Ceil: _spark_floor,
    exp.Extract: _spark_extract,
    exp.Contains: contains,
    exp.DateTrunc: truncated,
    exp.StartsWith: begins,
    exp.EndsWith: ends,
    exp.Log: logarithm,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Pow, exp.Sqrt, exp.Round), _same),
    **dict.fromkeys((exp.Sum, exp.Avg), _in_order),
    **dict.fromkeys((exp.Variance, exp.VariancePop, exp.StddevSamp, exp.StddevPop), _spread),
    exp.IsNan: _same,
}

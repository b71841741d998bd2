"""The words of PostgreSQL for DuckDB's SQL, with functions of ours in the connection's own schema."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.builders import (
    Rule,
    bare,
    begins,
    call,
    contains,
    double,
    ends,
    logarithm,
    number,
    ordered,
    size,
    truncated,
    type_name,
    unordered,
    whole,
)
from dpnotebook.errors import EngineError

LARGEST = 1e300


def _try_cast(node: exp.TryCast) -> exp.Expr:
    kind = type_name(node)
    names = {"DOUBLE": "double", "BIGINT": "bigint", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp"}
    names["TIMESTAMPNTZ"] = "timestamp"  # what DuckDB calls TIMESTAMP is read so
    if kind in ("TEXT", "VARCHAR"):
        return exp.Cast(this=node.this, to=node.args["to"])
    if kind not in names:
        raise EngineError(f"casts to {kind} are not available on PostgreSQL")
    return call(f"pg_temp.dp_{names[kind]}", node.this)


def _operation(name: str) -> Rule:
    def rule(node: exp.Binary) -> exp.Expr:
        if isinstance(node.expression, exp.Interval) or isinstance(node.this, exp.Interval) or size(node) < LARGEST:
            return node
        return call(f"pg_temp.dp_{name}", node.this, node.expression)

    return rule


def _sum(node: exp.Sum) -> exp.Expr:
    if isinstance(node.parent, exp.Window) or _exact(node.this):
        node.set("this", unordered(node.this))
        return node
    # What rounds comes with an order, in which it meets the rows of a group: that of the rows can be any.
    return call("pg_temp.dp_sum", node.this)


def _exact(node: exp.Expr | None) -> bool:
    """Whether a value is an integer or decimal for certain, so that sums of it neither round nor overflow."""
    node = bare(unordered(node)) if node is not None else None
    if node is None or isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Cast):
        return type_name(node) in ("DECIMAL", "BIGINT", "INT")
    if isinstance(node, exp.Case):
        return all(_exact(branch.args["true"]) for branch in node.args["ifs"]) and _exact(node.args.get("default"))
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _average(node: exp.Avg) -> exp.Expr:
    value = unordered(node.this)
    total = double(call("pg_temp.dp_sum", ordered(double(value))))
    return call("pg_temp.dp_div", total, double(exp.Count(this=value.copy())))


def _spread(node: exp.Expr) -> exp.Expr:
    node.set("this", ordered(node.this))
    return node


def _extracted(node: exp.Extract) -> exp.Expr:
    made = exp.Extract(this=node.this, expression=node.expression)
    return exp.Cast(this=exp.Floor(this=made), to=exp.DataType.build("BIGINT"))


def _alike(node: exp.ILike) -> exp.Expr:
    return exp.Like(**{name: call("pg_temp.dp_lower", node.args[name]) for name in ("this", "expression")})


def _named(query: exp.Subquery) -> exp.Expr:
    if not query.alias and isinstance(query.parent, (exp.From, exp.Join)):
        query.set("alias", exp.TableAlias(this=exp.to_identifier(f"__q{id(query)}")))
    return query


def _function(name: str, *parts: str) -> Rule:
    return lambda node: call(f"pg_temp.dp_{name}", *(node.args.get(part) for part in parts))


POSTGRES: dict[type[exp.Expr], Rule] = {
    exp.TryCast: _try_cast,
    exp.Add: _operation("add"),
    exp.Sub: _operation("sub"),
    exp.Mul: _operation("mul"),
    exp.Div: _operation("div"),
    exp.Mod: _operation("mod"),
    exp.Pow: _function("pow", "this", "expression"),
    exp.Exp: _function("exp", "this"),
    exp.Sqrt: _function("sqrt", "this"),
    exp.Round: lambda node: call("pg_temp.dp_round", node.this, node.args.get("decimals") or whole(0)),
    exp.Sum: _sum,
    exp.Avg: _average,
    **dict.fromkeys((exp.Variance, exp.VariancePop, exp.StddevSamp, exp.StddevPop), _spread),
    exp.Log: logarithm,
    exp.IsNan: lambda node: exp.paren(exp.EQ(this=node.this, expression=number("NaN"))),
    exp.Lower: _function("lower", "this"),
    exp.Upper: _function("upper", "this"),
    exp.ILike: _alike,
    exp.Extract: _extracted,
    exp.Contains: contains,
    exp.DateTrunc: truncated,
    exp.StartsWith: begins,
    exp.EndsWith: ends,
    exp.Subquery: _named,
}

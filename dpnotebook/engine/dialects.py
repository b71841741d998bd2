"""DuckDB's SQL in the words of PostgreSQL and of Spark, meaning the same, and failing for no row.

Statements are made of few functions. Those that mean something else in another database, or stop there at values that
DuckDB gives NULL or infinity for, are written in another way; a function that is in no list is refused beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal

import sqlglot
from sqlglot import exp

from dpnotebook.errors import EngineError

Dialect = Literal["postgres", "spark"]
Rule = Callable[[Any], exp.Expr]

NAMES: Mapping[Dialect, str] = {"postgres": "PostgreSQL", "spark": "Spark"}
LARGEST = 1e300
WHOLE = 1 << 52  # numbers from here on have no fraction

# Functions and operators that mean the same once sqlglot has written them.
ALIKE = (
    exp.Abs,
    exp.And,
    exp.Case,
    exp.Cast,
    exp.Ceil,
    exp.Coalesce,
    exp.Concat,
    exp.Count,
    exp.DateDiff,
    exp.Exists,
    exp.Exp,
    exp.Floor,
    exp.Greatest,
    exp.If,
    exp.Least,
    exp.Left,
    exp.Length,
    exp.Ln,
    exp.Lower,
    exp.MD5,
    exp.Max,
    exp.Min,
    exp.Nullif,
    exp.Or,
    exp.Replace,
    exp.Right,
    exp.RowNumber,
    exp.Sign,
    exp.StddevPop,
    exp.StddevSamp,
    exp.StrPosition,
    exp.Substring,
    exp.Sum,
    exp.TimestampTrunc,
    exp.Trim,
    exp.Trunc,
    exp.Upper,
    exp.Variance,
    exp.VariancePop,
)


def translated(query: str, dialect: Dialect, tables: Mapping[str, str] | None = None) -> str:
    """Return a query of DuckDB's SQL in another dialect.

    Parameters
    ----------
    query
        What is asked.
    dialect
        Of the database that answers.
    tables
        What tables are called there, by their names here.

    Raises
    ------
    EngineError
        If it uses what the database does not have.
    """
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        tree: Any = sqlglot.parse_one(query, read="duckdb")
        holder = exp.Paren(this=tree)
        rules = RULES[dialect]
        for node in reversed(list(holder.walk())):
            rule = rules.get(type(node))
            if rule is not None and node is not holder:
                above, key, index = node.parent, node.arg_key, node.index
                made = rule(node)
                if made is not node and above is not None and key is not None:
                    above.set(key, made, index)
            elif isinstance(node, REFUSED) or (isinstance(node, exp.Func) and not isinstance(node, ALIKE)):
                name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
                raise EngineError(
                    f"{name} is not available on {NAMES[dialect]}: write the statement without it, or bring the table "
                    "to DuckDB (a frame, a Parquet file)"
                )
        tree = holder.this
        _rename(tree, tables or {})
        return str(tree.sql(dialect, identify=True))
    except sqlglot.errors.SqlglotError:
        raise EngineError(f"this statement cannot be put in the words of {NAMES[dialect]}") from None
    finally:
        logger.disabled = before


REFUSED = (exp.TableSample, exp.Unnest, exp.Lateral, exp.Array, exp.Bracket, exp.Lambda)


def _rename(tree: exp.Expr, tables: Mapping[str, str]) -> None:
    parts = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name in tables and table.name not in parts and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(tables[table.name], quoted=True))


def _call(name: str, *arguments: exp.Expr | None) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[item for item in arguments if item is not None])


def _number(text: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("DOUBLE"))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=exp.paren(node, copy=False), to=exp.DataType.build("DOUBLE"))


# ---- both


def _contains(node: exp.Contains) -> exp.Expr:
    return exp.paren(exp.GT(this=exp.StrPosition(this=node.this, substr=node.expression), expression=_whole(0)))


def _begins(node: exp.StartsWith) -> exp.Expr:
    length = exp.Length(this=node.expression.copy())
    return exp.paren(exp.EQ(this=exp.Left(this=node.this, expression=length), expression=node.expression))


def _ends(node: exp.EndsWith) -> exp.Expr:
    length = exp.Length(this=node.expression.copy())
    return exp.paren(exp.EQ(this=exp.Right(this=node.this, expression=length), expression=node.expression))


def _logarithm(node: exp.Log) -> exp.Expr:
    base, value = (node.this, node.expression) if node.expression else (exp.Literal.number(10), node.this)
    return exp.paren(exp.Div(this=exp.Ln(this=value), expression=exp.Ln(this=_double(base)), typed=True, safe=False))


def _whole(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _type(node: exp.Cast) -> str:
    kind = node.args["to"].this
    return str(kind.name if hasattr(kind, "name") else kind)


# ---- PostgreSQL: functions of ours in the connection's own schema (postgres_functions.py)


def _try_cast(node: exp.TryCast) -> exp.Expr:
    kind = _type(node)
    names = {"DOUBLE": "double", "BIGINT": "bigint", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamp"}
    names["TIMESTAMPNTZ"] = "timestamp"  # what DuckDB calls TIMESTAMP is read so
    if kind in ("TEXT", "VARCHAR"):
        return exp.Cast(this=node.this, to=node.args["to"])
    if kind not in names:
        raise EngineError(f"casts to {kind} are not available on PostgreSQL")
    return _call(f"pg_temp.dp_{names[kind]}", node.this)


def _operation(name: str) -> Rule:
    def rule(node: exp.Binary) -> exp.Expr:
        if isinstance(node.expression, exp.Interval) or isinstance(node.this, exp.Interval) or _size(node) < LARGEST:
            return node
        return _call(f"pg_temp.dp_{name}", node.this, node.expression)

    return rule


def _size(node: exp.Expr) -> float:
    """Return the largest magnitude that a number can have, where that follows from how it is made; else infinity."""
    if isinstance(node, exp.Paren):
        return _size(node.this)
    if isinstance(node, exp.Literal) or (isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)):
        try:
            return abs(float(node.name if isinstance(node, exp.Literal) else node.this.name))
        except ValueError:
            return float("inf")
    if isinstance(node, exp.Neg):
        return _size(node.this)
    if isinstance(node, (exp.Floor, exp.Ceil)):
        return _size(node.this) + 1
    if isinstance(node, (exp.Least, exp.Greatest)):
        # Clamped: the other one inside of it bounds it on the other side.
        inner, kind = node.this, exp.Greatest if isinstance(node, exp.Least) else exp.Least
        if isinstance(inner, kind) and len(node.expressions) == len(inner.expressions) == 1:
            return max(_size(node.expressions[0]), _size(inner.expressions[0]))
        return float("inf")
    if isinstance(node, (exp.Add, exp.Sub)):
        return _size(node.this) + _size(node.expression)
    if isinstance(node, exp.Div) and isinstance(_bare(node.this), (exp.Add, exp.Sub)):
        # Of a sum only: what it gives is 0 or not too small to be divided, see `steps.whole`.
        divisor = _bare(node.expression)
        if isinstance(divisor, exp.Cast) and isinstance(divisor.this, exp.Literal) and _size(divisor) > 0:
            return _size(node.this) / _size(divisor)
    return float("inf")


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _sum(node: exp.Sum) -> exp.Expr:
    if isinstance(node.parent, exp.Window) or _exact(node.this):
        return node
    return _call("pg_temp.dp_sum", node.this)


def _exact(node: exp.Expr | None) -> bool:
    """Whether a value is an integer or decimal for certain, so that sums of it neither round nor overflow."""
    node = _bare(node) if node is not None else None
    if node is None or isinstance(node, exp.Null):
        return True
    if isinstance(node, exp.Cast):
        return _type(node) in ("DECIMAL", "BIGINT", "INT")
    if isinstance(node, exp.Case):
        return all(_exact(branch.args["true"]) for branch in node.args["ifs"]) and _exact(node.args.get("default"))
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _average(node: exp.Avg) -> exp.Expr:
    total = _double(_call("pg_temp.dp_sum", _double(node.this)))
    return _call("pg_temp.dp_div", total, _double(exp.Count(this=node.this.copy())))


def _extracted(node: exp.Extract) -> exp.Expr:
    made = exp.Extract(this=node.this, expression=node.expression)
    return exp.Cast(this=exp.Floor(this=made), to=exp.DataType.build("BIGINT"))


def _named(query: exp.Subquery) -> exp.Expr:
    if not query.alias and isinstance(query.parent, (exp.From, exp.Join)):
        query.set("alias", exp.TableAlias(this=exp.to_identifier(f"__q{id(query)}")))
    return query


def _function(name: str, *parts: str) -> Rule:
    return lambda node: _call(f"pg_temp.dp_{name}", *(node.args.get(part) for part in parts))


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
    exp.Round: lambda node: _call("pg_temp.dp_round", node.this, node.args.get("decimals") or _whole(0)),
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Log: _logarithm,
    exp.IsNan: lambda node: exp.paren(exp.EQ(this=node.this, expression=_number("NaN"))),
    exp.Extract: _extracted,
    exp.Contains: _contains,
    exp.StartsWith: _begins,
    exp.EndsWith: _ends,
    exp.Subquery: _named,
}

# ---- Spark, told not to stop at what it cannot convert (spark.py)


def _spark_try_cast(node: exp.TryCast) -> exp.Expr:
    if _type(node) != "BIGINT":
        return node
    # It would cut 2.7 off to 2; and what is a whole number already must stay exact. DuckDB rounds halves of numbers to
    # the even number, and halves in texts away from zero.
    real = exp.TryCast(this=_as_text(node.this.copy()), to=exp.DataType.build("DOUBLE"), safe=True)
    branches = []
    for kinds, rounding in ((_WHOLE, None), (("string",), "ROUND")):
        held = exp.In(this=_call("TYPEOF", node.this.copy()), expressions=[exp.Literal.string(kind) for kind in kinds])
        made = _rounded(rounding, real, node) if rounding else node
        branches.append(exp.If(this=held, true=made))
    return exp.Case(ifs=branches, default=_rounded("BROUND", real, node))


def _rounded(name: str, real: exp.Expr, node: exp.TryCast) -> exp.Expr:
    return exp.TryCast(this=_call(name, real.copy()), to=node.args["to"].copy(), safe=True)


_WHOLE = ("tinyint", "smallint", "int", "bigint", "boolean")


def _as_text(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("TEXT"))


def _spark_floor(node: exp.Floor | exp.Ceil) -> exp.Expr:
    if _size(node.this) < WHOLE:
        return node
    # It would give the largest integer for what is larger than that.
    small = exp.LT(this=exp.Abs(this=node.this.copy()), expression=_whole(WHOLE))
    return exp.Case(ifs=[exp.If(this=small, true=_double(node))], default=_double(node.this.copy()))


def _spark_window(node: exp.Window) -> exp.Expr:
    if isinstance(node.this, exp.RowNumber) and node.args.get("order") is None:
        node.set("order", exp.Order(expressions=[exp.Ordered(this=_whole(1), nulls_first=True)]))
    return node


def _spark_extract(node: exp.Extract) -> exp.Expr:
    if node.name.upper() == "ISODOW":
        node = exp.Extract(this=exp.Var(this="DAYOFWEEK_ISO"), expression=node.expression)
    if node.name.upper() in ("DOW", "DAYOFWEEK"):
        return exp.paren(exp.Sub(this=_call("DAYOFWEEK", node.expression), expression=_whole(1)))
    return exp.Cast(this=exp.Floor(this=node), to=exp.DataType.build("BIGINT"))


def _same(node: exp.Expr) -> exp.Expr:
    return node


SPARK: dict[type[exp.Expr], Rule] = {
    exp.TryCast: _spark_try_cast,
    exp.Window: _spark_window,
    exp.Floor: _spark_floor,
    exp.Ceil: _spark_floor,
    exp.Extract: _spark_extract,
    exp.Contains: _contains,
    exp.StartsWith: _begins,
    exp.EndsWith: _ends,
    exp.Log: _logarithm,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Pow, exp.Sqrt, exp.Round), _same),
    **dict.fromkeys((exp.Avg, exp.IsNan), _same),
}
RULES: Mapping[Dialect, Mapping[type[exp.Expr], Rule]] = {"postgres": POSTGRES, "spark": SPARK}

"""What a statement may be made of: a list of node types and, for each, of the parts that may be filled.

The parser is lenient and knows far more SQL than can be answered, so everything that is not listed is refused.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dpnotebook.errors import SQLError
from dpnotebook.sql.text import Text

BINARY = frozenset({"this", "expression"})
UNARY = frozenset({"this"})

# Parts are named without the underscore that some versions of sqlglot put behind Python's keywords.
ALLOWED: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from", "where", "group"}),
    exp.From: UNARY,
    exp.Table: frozenset({"this", "alias"}),
    exp.TableAlias: UNARY,
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Star: frozenset(),
    exp.Count: frozenset({"this", "big_int"}),
    exp.Sum: UNARY,
    exp.Avg: UNARY,
    exp.Where: UNARY,
    exp.Group: frozenset({"expressions"}),
    exp.And: BINARY,
    exp.Or: BINARY,
    exp.Not: UNARY,
    exp.Paren: UNARY,
    exp.EQ: BINARY,
    exp.NEQ: BINARY,
    exp.LT: BINARY,
    exp.LTE: BINARY,
    exp.GT: BINARY,
    exp.GTE: BINARY,
    exp.Is: BINARY,
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Neg: UNARY,
    exp.Null: frozenset(),
    exp.Boolean: UNARY,
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Placeholder: UNARY,
}

ONE_TABLE = "a question is about one protected table: put what it needs into one table before you protect it"
ONE_GROUPING = "write a plain GROUP BY, one question for each set of columns"
AFTERWARDS = "do it on the release, where it is free"

PARTS = {
    "joins": ("JOIN", f"joins are not supported; {ONE_TABLE}"),
    "laterals": ("LATERAL", ONE_TABLE),
    "with": ("WITH", "WITH is not supported: write one SELECT from one protected table"),
    "distinct": ("DISTINCT", "DISTINCT is not supported: GROUP BY lists every combination of declared levels once"),
    "having": ("HAVING", f"HAVING is not supported: {AFTERWARDS}, r.frame.query('count > 100')"),
    "order": ("ORDER", f"ORDER BY is not supported: {AFTERWARDS}, r.frame.sort_values('count')"),
    "limit": ("LIMIT", f"LIMIT is not supported: {AFTERWARDS}, r.frame.nlargest(10, 'count')"),
    "offset": ("OFFSET", f"OFFSET is not supported: {AFTERWARDS}, r.frame.iloc[10:]"),
    "qualify": ("QUALIFY", f"QUALIFY is not supported: {AFTERWARDS}"),
    "windows": ("WINDOW", f"windows are not supported: {AFTERWARDS}"),
    "sample": ("SAMPLE", "a sample is not supported: a question is asked of all rows"),
    "into": ("INTO", "INTO is not supported: keep the release under a name, r << on the first line of the cell"),
    "pivots": ("PIVOT", f"PIVOT is not supported: {AFTERWARDS}, r.frame.pivot(...)"),
    "all": ("GROUP", "after GROUP BY stand columns, without ALL or DISTINCT"),
    "totals": ("TOTALS", f"totals are not supported: {AFTERWARDS}"),
    "rollup": ("ROLLUP", ONE_GROUPING),
    "cube": ("CUBE", ONE_GROUPING),
    "grouping_sets": ("GROUPING", ONE_GROUPING),
    "db": ("FROM", "write the name under which the table is protected, without anything before it"),
    "except": ("EXCLUDE", "write COUNT(*) alone"),
    "replace": ("REPLACE", "write COUNT(*) alone"),
    "rename": ("RENAME", "write COUNT(*) alone"),
    "columns": ("FROM", "columns keep the names they are declared with; give the table an alias only"),
    "symmetric": ("SYMMETRIC", "SYMMETRIC is not supported; write the smaller bound first"),
    "query": ("SELECT", f"a query inside a query is not supported; {ONE_TABLE}"),
    "field": ("IN", "after IN stands a list of values in parentheses: region IN ('N', 'S')"),
    "unnest": ("IN", "after IN stands a list of values in parentheses: region IN ('N', 'S')"),
}

ONE_COLUMN = "an aggregate takes one declared column, as in SUM(income)"
VALUES = "compare a declared column with a value worked out beforehand; values of the notebook can be bound as :name"
QUANTILES = "is not supported in SQL yet; df.dp.quantile(column, 0.5) is the median, and so on"
ARITHMETIC = f"arithmetic is not supported: with answers, {AFTERWARDS}, r.frame; {VALUES}"
NODES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("Subquery", "Exists", "Union", "Intersect", "Except", "SetOperation", "Values", "Lateral"), ONE_TABLE),
    (("Distinct",), f"DISTINCT in an aggregate is not supported; {ONE_COLUMN}"),
    (("Window", "WithinGroup"), f"windows are not supported: {AFTERWARDS}"),
    (("Filter",), "FILTER is not supported: write the condition as WHERE"),
    (("Order", "Limit", "HavingMax", "IgnoreNulls", "RespectNulls"), ONE_COLUMN),
    (("Rollup", "Cube", "GroupingSets"), ONE_GROUPING),
    (("Tuple",), "a tuple is not supported; write conditions on one column each, joined by AND"),
    (("Case", "If", "Coalesce", "Nullif"), "expressions are not supported: group by declared columns as they are"),
    (("Cast", "TryCast"), "casts and dates are not supported; write the value as it is declared"),
    (
        ("Like", "ILike", "RegexpLike", "SimilarTo", "Glob"),
        "patterns are not supported: list the levels, IN ('N', 'S')",
    ),
    (("NullSafeEQ", "NullSafeNEQ"), "IS DISTINCT FROM is not supported: write = or <>, and IS NULL for missing values"),
    (
        ("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Pow"),
        ARITHMETIC,
    ),
    (("Concat", "DPipe", "Collate", "National", "RawString", "ByteString"), "write one text in single quotes"),
    (("Interval",), "dates are not supported; declare a column of years, or of text such as '2024-05'"),
    (("Min", "Max", "Median", "Quantile", "PercentileCont", "ApproxQuantile"), QUANTILES),
)


def check(tree: exp.Expr, text: Text) -> None:
    """Refuse a tree with anything in it that is not allowed.

    Raises
    ------
    SQLError
        Pointing at the first such thing.
    """
    for node in tree.walk(bfs=False):
        parts = ALLOWED.get(type(node))
        if parts is None:
            raise _refused_node(node, text)
        for part, value in node.args.items():
            if part.rstrip("_") not in parts and not _empty(part, value):
                raise _refused_part(node, part.rstrip("_"), value, text)


def _empty(part: str, value: Any) -> bool:
    if part == "all":
        return value is None  # False is GROUP BY DISTINCT
    return value is None or value is False or value == []


def _refused_part(node: exp.Expr, part: str, value: Any, text: Text) -> SQLError:
    if isinstance(node, exp.Count) and part == "expressions":
        return text.error(f"COUNT takes one column: {ONE_COLUMN}", node)
    word, hint = PARTS.get(part, ("", f"{part.upper().replace('_', ' ')} is not supported"))
    first = value[0] if isinstance(value, list) and value else value
    inside = isinstance(first, exp.Expression) and part in ("joins", "laterals", "db", "columns", "field", "query")
    return text.error(hint, first if inside else word or node)


def _refused_node(node: exp.Expr, text: Text) -> SQLError:
    name = type(node).__name__
    for names, hint in NODES:
        if name in names:
            return text.error(f"{_called(node)} {hint}" if hint.startswith("is not") else hint, node)
    if isinstance(node, exp.Func) and isinstance(node.parent, exp.Table):
        return text.error("after FROM stands the name of one protected table, not a function", node)
    if isinstance(node, exp.Func):
        return text.error(
            f"the function {_called(node)} is not supported: the aggregates are COUNT(*), COUNT(column), SUM(column) "
            "and AVG(column), and conditions compare columns with values",
            node,
        )
    return text.error(f"{text.words(node)!r} is not supported: {VALUES}", node)


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    return node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()

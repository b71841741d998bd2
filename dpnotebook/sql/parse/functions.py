"""What a statement may be made of: tree nodes and scalar functions, and for each the parts that may be filled.

The parser is lenient and knows far more SQL than can be answered. What is not listed here is refused, by name: nothing
volatile, nothing that looks at the machine or at files, nothing whose rows do not belong to units of their own.

Which of it may stand where (below a private aggregation, above it) is not decided here.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.arguments import check_arguments
from dpnotebook.sql.parse.calls import call_of
from dpnotebook.sql.parse.grouping_sets import GROUPINGS
from dpnotebook.sql.parse.refusals import FILES, SERIES, refused_node, refused_part
from dpnotebook.sql.parse.windows import check_window, parts_of

BINARY = frozenset({"this", "expression"})
UNARY = frozenset({"this"})
LIST = frozenset({"expressions"})
MANY = UNARY | LIST
DATES = BINARY | {"unit", "date_part_boundary"}

NAMING_OF_PIVOTS = ("identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming")

# Parts are named without the underscore that sqlglot puts behind Python's keywords.
STRUCTURE: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {
            *("with", "distinct", "expressions", "from", "joins", "where", "group", "having", "qualify"),
            *("windows", "order", "limit", "offset"),
        }
    ),
    exp.Union: BINARY | {"distinct", "with", "order", "limit", "offset"},
    exp.Intersect: BINARY | {"distinct", "with", "order", "limit", "offset"},
    exp.Except: BINARY | {"distinct", "with", "order", "limit", "offset"},
    exp.With: LIST,
    exp.CTE: frozenset({"this", "alias"}),
    exp.Subquery: frozenset({"this", "alias", "order", "limit", "offset", "with", "pivots"}),
    exp.From: UNARY,
    exp.Join: frozenset({"this", "on", "using", "side", "kind"}),
    exp.Table: frozenset({"this", "alias", "db", "catalog", "sample", "pivots"}),
    exp.Pivot: frozenset({"expressions", "fields", "alias", "columns", *NAMING_OF_PIVOTS}),
    exp.PivotAlias: frozenset({"this", "alias"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.TableSample: frozenset({"method", "percent", "size"}),
    exp.Unnest: LIST | {"alias"},
    exp.Where: UNARY,
    exp.Group: LIST,
    exp.Having: UNARY,
    exp.Order: LIST,
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Distinct: LIST,
    exp.Alias: frozenset({"this", "alias"}),
    exp.Column: frozenset({"this", "table", "db"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Star: frozenset({"except"}),
    exp.Paren: UNARY,
    exp.Var: UNARY,
}
EXPRESSIONS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Boolean: UNARY,
    exp.Null: frozenset(),
    exp.Grouping: LIST,
    exp.Array: LIST | {"struct_name_inheritance"},
    exp.And: BINARY,
    exp.Or: BINARY,
    exp.Not: UNARY,
    exp.EQ: BINARY,
    exp.NEQ: BINARY,
    exp.LT: BINARY,
    exp.LTE: BINARY,
    exp.GT: BINARY,
    exp.GTE: BINARY,
    exp.NullSafeEQ: BINARY,
    exp.NullSafeNEQ: BINARY,
    exp.Is: BINARY,
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions", "query", "unnest", "negate"}),
    exp.Exists: UNARY,
    exp.Like: BINARY | {"negate"},
    exp.ILike: BINARY | {"negate"},
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.Coalesce: MANY,
    exp.Nullif: BINARY,
    exp.Least: MANY | {"ignore_nulls"},
    exp.Greatest: MANY | {"ignore_nulls"},
    exp.Add: BINARY,
    exp.Sub: BINARY,
    exp.Mul: BINARY,
    exp.Div: BINARY | {"typed", "safe"},
    exp.SafeDivide: BINARY,
    exp.IntDiv: BINARY,
    exp.Mod: BINARY,
    exp.Neg: UNARY,
    exp.Abs: UNARY,
    exp.Sign: UNARY,
    exp.Round: frozenset({"this", "decimals"}),
    exp.Floor: UNARY,
    exp.Ceil: UNARY,
    exp.Trunc: UNARY,
    exp.Ln: UNARY,
    exp.Log: BINARY,
    exp.Sqrt: UNARY,
    exp.Exp: UNARY,
    exp.Pow: BINARY,
    exp.Lower: UNARY,
    exp.Upper: UNARY,
    exp.Trim: frozenset({"this", "position"}),
    exp.Length: frozenset({"this", "binary"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Left: BINARY,
    exp.Right: BINARY,
    exp.Concat: LIST | {"safe", "coalesce"},
    exp.DPipe: BINARY | {"safe"},
    exp.Replace: BINARY | {"replacement"},
    exp.SplitPart: frozenset({"this", "delimiter", "part_index"}),
    exp.StartsWith: BINARY,
    exp.EndsWith: BINARY,
    exp.Contains: BINARY,
    exp.StrPosition: frozenset({"this", "substr"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
    exp.DataType: frozenset({"this", "expressions", "nested"}),
    exp.DataTypeParam: UNARY,
    exp.Date: UNARY,
    exp.Extract: BINARY,
    exp.Year: UNARY,
    exp.Quarter: UNARY,
    exp.Month: UNARY,
    exp.Day: UNARY,
    exp.Hour: UNARY,
    exp.Minute: UNARY,
    exp.Dayname: UNARY | {"abbreviated"},
    exp.Monthname: UNARY | {"abbreviated"},
    exp.TimeToStr: UNARY | {"format"},
    exp.StrToTime: UNARY | {"format"},
    exp.DateTrunc: frozenset({"this", "unit"}),
    exp.TimestampTrunc: frozenset({"this", "unit"}),
    exp.DateDiff: DATES,
    exp.TimestampDiff: DATES,
    exp.DateAdd: DATES,
    exp.DateSub: DATES,
    exp.Interval: frozenset({"this", "unit"}),
    exp.ArgMin: BINARY,
    exp.ArgMax: BINARY,
    exp.RegrSlope: BINARY,
    exp.RegrIntercept: BINARY,
    exp.RegrR2: BINARY,
    exp.RegrCount: BINARY,
}
ALLOWED = STRUCTURE | EXPRESSIONS


def check_nodes(tree: exp.Expr, text: Text) -> None:
    """Refuse a tree with anything in it that is not allowed.

    Raises
    ------
    SQLError
        Pointing at the first such thing.
    """
    for node in tree.walk(bfs=False):
        called = call_of(node) is not None  # of an aggregate, whose arguments were read with it
        parts = _parts(node)
        if parts is None and not called:
            raise refused_node(node, text)
        for part, value in node.args.items():
            if not called and part.rstrip("_") not in (parts or ()) and not _empty(part, value):
                raise refused_part(node, part.rstrip("_"), value, text)
        _check(node, text)
        check_window(node, text)
        check_arguments(node, text)


def _check(node: exp.Expr, text: Text) -> None:
    """Refuse what is wrong about one allowed node."""
    for part in NAMING.get(type(node), ()):
        held = node.args.get(part) or node.args.get(f"{part}_")
        for name in held if isinstance(held, list) else [held]:
            if name is not None and not isinstance(name, exp.Identifier | exp.Star | exp.TableAlias | exp.Column):
                raise text.error("a name stands here, and a text or a number is none; write the name out", name)
    if isinstance(node, exp.Select) and not node.expressions:
        raise text.error("after SELECT stands a list of columns and aggregates", "SELECT")
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        if isinstance(node.this, exp.Func):
            instead = (
                SERIES if node.this.name.upper() in LISTING or isinstance(node.this, exp.GenerateSeries) else FILES
            )
            raise text.error(f"a function cannot stand in FROM; {instead}", node)
        raise text.error("in FROM stand the names of tables", node)
    if call_of(node) is not None and _inside(node):
        raise text.error("an aggregate of an aggregate is not supported; aggregate in a query in FROM first", node)
    if isinstance(node, exp.Join) and str(node.args.get("kind") or "").upper() == "STRAIGHT":
        raise text.error("STRAIGHT joins are not supported; write JOIN", node)
    if isinstance(node, exp.In) and not (node.expressions or node.args.get("query") or node.args.get("unnest")):
        raise text.error("after IN stands a list in parentheses or a query", node)
    if isinstance(node, exp.Var) and not isinstance(node.parent, PLACES_OF_VARS):
        raise text.error(f"{node.name} has no meaning here", node)
    if isinstance(node, exp.Alias) and not isinstance(node, exp.PivotAlias) and not isinstance(node.parent, LISTS):
        raise text.error("a name with AS stands in the list after SELECT only", node)
    if isinstance(node, exp.Distinct) and node.parent is not None and not isinstance(node.parent, PLACES_OF_DISTINCT):
        raise text.error("DISTINCT cannot stand here", node)
    if isinstance(node, COPIED) and _depth(node) > MAX_COPIES:
        raise text.error("functions are nested too deeply here; take the expression apart", node)
    if isinstance(node, exp.Star) and not isinstance(node.parent, PLACES_OF_STARS):
        raise text.error("* cannot stand here; name the columns", node)


LISTING = ("RANGE", "GENERATE_SERIES", "GENERATE_ARRAY", "GENERATE_DATE_ARRAY", "SEQUENCE")

# Parts that hold names; the parser puts texts and numbers there too.
NAMING: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table", "db"),
    exp.Table: ("alias", "db", "catalog"),
    exp.TableAlias: ("this", "columns"),
    exp.Alias: ("alias",),
    exp.CTE: ("alias",),
    exp.Subquery: ("alias",),
    exp.Unnest: ("alias",),
    exp.Join: ("using",),
    exp.Star: ("except",),
}
PLACES_OF_VARS = (
    exp.Extract,
    exp.DateTrunc,
    exp.TimestampTrunc,
    exp.DateDiff,
    exp.TimestampDiff,
    exp.DateAdd,
    exp.DateSub,
    exp.Interval,
    exp.TableSample,
    exp.WindowSpec,
)
# What is written twice where an engine would fail: nesting must not double its length over and over.
COPIED: tuple[type[exp.Expr], ...] = (
    *(exp.Least, exp.Greatest, exp.Case, exp.Cast, exp.TryCast, exp.Pow, exp.Sqrt),
    *(exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute),
    *(exp.TimestampTrunc, exp.DateTrunc, exp.DateDiff, exp.Date, exp.TimeToStr, exp.StrToTime),
)
MAX_COPIES = 8
LISTS = (exp.Select, exp.Pivot)
PLACES_OF_DISTINCT = (exp.Select, exp.Count)
PLACES_OF_STARS = (exp.Select, exp.Count, exp.Column)


def _parts(node: exp.Expr) -> frozenset[str] | None:
    """Return the parts that a node may have; None where it cannot be."""
    found = ALLOWED.get(type(node))
    if found is None and isinstance(node, GROUPINGS | exp.Tuple):
        return LIST if isinstance(node.parent, exp.Group if isinstance(node, GROUPINGS) else GROUPINGS) else None
    return parts_of(node) if found is None else found


def _inside(node: exp.Expr) -> bool:
    """Return whether a node stands in the argument of an aggregate, with no query between."""
    above = node.parent
    while above is not None and not isinstance(above, exp.Query):
        if call_of(above) is not None:
            return True
        above = above.parent
    return False


def _depth(node: exp.Expr) -> int:
    """Return how many nodes that are copied a node stands in."""
    depth, above = 0, node.parent
    while above is not None and not isinstance(above, exp.Connector):
        depth += isinstance(above, COPIED) and not (isinstance(above, exp.Case) and not above.this)
        above = above.parent
    return depth


def _empty(part: str, value: Any) -> bool:
    if part == "all":
        return value is None  # False is GROUP BY DISTINCT
    return value is None or value is False or value == []

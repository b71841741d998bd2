"""What can be written in several ways, written in the one that the rest of the package reads.

`DAYOFWEEK(day)` is EXTRACT(DAYOFWEEK FROM day), `GROUP BY ALL` groups by what stands in the list beside aggregates, and
`ORDER BY ALL` orders by all of it.
Names of days and months, and times that are written out by a format, are put together of the parts of times: no engine
is asked for them, which write them in the language that it was set up for.
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.calls import call_of
from dpnotebook.sql.parse.literals import Tokens, is_bare

PARTS_BY_NODE: dict[type[exp.Expr], str] = {
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.DayOfWeek: "DAYOFWEEK",
    exp.DayOfWeekIso: "ISODOW",
    exp.DayOfYear: "DAYOFYEAR",
    exp.DayOfMonth: "DAY",
}
PARTS_BY_NAME = {"WEEKDAY": "DAYOFWEEK"}  # of functions that the parser knows nothing of
NAMED_PARTS = ("DATE_PART", "DATEPART")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# By the letter of a format: the part of a time, and how many digits it has or what its numbers are called, from 1 on.
FORMATS: dict[str, tuple[str, int | tuple[str, ...]]] = {
    **{"Y": ("YEAR", 4), "m": ("MONTH", 2), "d": ("DAY", 2), "H": ("HOUR", 2), "M": ("MINUTE", 2)},
    **{"j": ("DAYOFYEAR", 3), "V": ("WEEK", 2), "u": ("ISODOW", 1)},
    **{"A": ("ISODOW", DAYS), "a": ("ISODOW", tuple(day[:3] for day in DAYS))},
    **{"B": ("MONTH", MONTHS), "b": ("MONTH", tuple(month[:3] for month in MONTHS))},
}
PLACE = ("line", "col", "start", "end")


def in_usual_words(tree: exp.Expr, text: Text) -> exp.Expr:
    """Return a tree with EXTRACT for the functions of DuckDB that take parts of times, and ALL written out."""
    for group in list(tree.find_all(exp.Group)):
        if group.args.get("all") is True and not group.expressions and isinstance(group.parent, exp.Select):
            group.set("all", None)
            items = enumerate(group.parent.expressions, start=1)
            keys = [exp.Literal.number(place) for place, item in items if not _has_call(item)]
            if keys:
                group.set("expressions", keys)
            else:
                group.pop()
    for order in list(tree.find_all(exp.Order)):
        if _is_by_all(order) and isinstance(order.parent, exp.Select):
            (by,), places = order.expressions, range(1, len(order.parent.expressions) + 1)
            made = [exp.Ordered(**(by.args | {"this": exp.Literal.number(place)})) for place in places]
            order.set("expressions", made)
    if text.dialect == "bigquery":
        return _without_conversions(tree)
    if text.dialect != "duckdb":  # elsewhere days and weeks are numbered otherwise
        return tree
    for node in list(tree.find_all(exp.Anonymous, *PARTS_BY_NODE)):
        part, of = PARTS_BY_NODE.get(type(node)), node.this
        if isinstance(node, exp.Anonymous):
            name, arguments = str(node.this).upper(), node.expressions
            if name in PARTS_BY_NAME and len(arguments) == 1:
                part, of = PARTS_BY_NAME[name], arguments[0]
            elif name in NAMED_PARTS and len(arguments) == 2 and arguments[0].is_string:
                part, of = arguments[0].name.upper(), arguments[1]
        if part is not None:
            put(exp.Extract(this=exp.Var(this=part), expression=of), node)
    return tree


def _without_conversions(tree: exp.Expr) -> exp.Expr:
    """Return BigQuery's tree with casts for the functions that make times, and with weeks that begin on a Monday.

    A week from Sunday on is that of the day after, less a day.
    """
    for written in list(tree.find_all(exp.TimeToStr)):
        if isinstance(written.this, exp.TsOrDsToDate | exp.TsOrDsToTimestamp | exp.TsOrDsToDatetime):
            written.set("this", written.this.this)
    for node in list(tree.find_all(exp.Timestamp, exp.TsOrDsToTimestamp, exp.TsOrDsToDatetime)):
        if not node.args.get("zone") and not node.expressions:
            put(exp.Cast(this=node.this, to=exp.DataType.build("TIMESTAMP")), node)
    for cut in list(tree.find_all(exp.DateTrunc, exp.TimestampTrunc)):
        unit = cut.args.get("unit")
        first = unit.this.name.upper() if isinstance(unit, exp.WeekStart) else ""
        if first in ("MONDAY", "SUNDAY"):
            day = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY"))
            of = cut.this if first == "MONDAY" else exp.Paren(this=exp.Add(this=cut.this, expression=day))
            made: exp.Expr = exp.TimestampTrunc(this=of, unit=exp.Var(this="ISOWEEK"))
            put(made if first == "MONDAY" else exp.Paren(this=exp.Sub(this=made, expression=day.copy())), cut)
    return tree


def says_all(tokens: Tokens) -> bool:
    """Return whether GROUP BY ALL or ORDER BY ALL is written somewhere."""
    return any(
        (is_bare(token, "GROUP BY") or is_bare(token, "ORDER BY")) and is_bare(after, "ALL")
        for token, after in pairwise(tokens)
    )


def without_names_of_days(tree: exp.Expr) -> exp.Expr:
    """Return a tree with DAYNAME, MONTHNAME and STRFTIME put together of EXTRACT."""
    for node in list(tree.find_all(exp.Dayname, exp.Monthname, exp.TimeToStr)):
        if isinstance(node, exp.TimeToStr):
            whole, *others = (_piece(piece, node.this) for piece in pieces_of(node.args["format"].name))
            for piece in others:
                whole = exp.DPipe(this=whole, expression=piece, safe=True)
            put(exp.Paren(this=whole), node)
        else:
            put(_written("A" if isinstance(node, exp.Dayname) else "B", node.this), node)
    return tree


def _is_by_all(order: exp.Order) -> bool:
    by = order.expressions
    return len(by) == 1 and isinstance(by[0].this, exp.Var) and by[0].this.name.upper() == "ALL"


def _has_call(item: exp.Expr) -> bool:
    return any(call_of(node) is not None for node in item.walk(prune=lambda node: isinstance(node, exp.Query)))


def pieces_of(written: str) -> list[str]:
    """Return a format as the parts of times in it, "%Y", and the texts between them."""
    found, place = [], 0
    while place < len(written):
        end = place + 2 if written[place] == "%" else min((written + "%").index("%", place), len(written))
        found.append(written[place:end])
        place = end
    return found


def _piece(piece: str, of: exp.Expr) -> exp.Expr:
    return _written(piece[1:], of) if piece.startswith("%") else exp.Literal.string(piece)


def _written(code: str, of: exp.Expr) -> exp.Expr:
    """Return a part of a time as a text."""
    part, shown = FORMATS[code]
    number = exp.Extract(this=exp.Var(this=part), expression=of.copy())
    if isinstance(shown, int):  # so many digits
        zeros = exp.Literal.string("0" * (shown - 1))
        padded = exp.DPipe(this=zeros, expression=exp.cast(number, "text"), safe=True)
        return exp.Right(this=padded, expression=exp.Literal.number(shown))
    branches = [
        exp.If(this=exp.Literal.number(place), true=exp.Literal.string(name))
        for place, name in enumerate(shown, start=1)
    ]
    return exp.Case(this=number, ifs=branches)


def put(made: exp.Expr, node: exp.Expr) -> None:
    """Put a node where another one is, and say that it was read from the same words."""
    made.meta.update({key: node.meta[key] for key in PLACE if key in node.meta})
    node.replace(made)

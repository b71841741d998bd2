"""Casts, texts, comparisons and choices between values, each of one type, so that no row makes them fail."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpnotebook.dialect.expressions import form_of, is_untyped, kind_of, with_kind
from dpnotebook.dialect.safe.typed import (
    NUMBERS,
    TYPES,
    Misfit,
    boolean,
    cast,
    check_readable,
    double,
    is_day,
    is_literal_time,
    literal_time,
    number,
    read_number,
    text,
    time,
)
from dpnotebook.dialect.types import OF_A_DAY, Kind

Place = tuple[exp.Expr, str, int | None]

WHOLE_DIGITS = 18  # of a whole number that fits into 64 bits


def casted(node: exp.Expr) -> exp.Expr:
    """Return a cast that gives NULL where it cannot be, to one of few types."""
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) else ""
    written, kind = TYPES[name]
    if kind == "text" and form_of(node.this) == OF_A_DAY:
        return _hours(node.this)
    if kind == "text":
        return _as_of_truth(node.this) if is_untyped(node.this) else text(node.this)
    if kind == "number":
        made = number(exp.Literal.number(node.this.name)) if _is_numeral(node.this) else number(node.this)
        scale = to.expressions[1].this if len(to.expressions) > 1 else None
        return double(exp.Round(this=made, decimals=scale.copy())) if scale is not None else made
    if kind == "time" and isinstance(node.this, exp.Literal):
        return literal_time(node.this, written)
    if kind == "time" and kind_of(node.this) == "time":
        return with_kind(cast(time(node.this), written), "time")
    of = kind_of(node.this)
    check_readable(node.this, written)
    if (of == "time") != (kind == "time") and of in (*NUMBERS, "boolean", "time"):
        raise Misfit("dates cannot be cast to numbers or truth values, nor those to dates", node)
    read = read_number(node.this, written) if kind == "integer" else None
    made = with_kind(read or exp.TryCast(this=node.this, to=exp.DataType.build(written)), kind)
    return time(made) if kind == "time" else made


def _hours(node: exp.Expr) -> exp.Expr:
    """Return times of a day as texts without the day that they are read as those of."""
    written = text(node.copy())
    of_a_day = with_kind(exp.Like(this=written, expression=exp.Literal.string("1970-01-01 %")), "boolean")
    hours = exp.Substring(this=written.copy(), start=exp.Literal.number(12))
    return with_kind(exp.Case(ifs=[exp.If(this=of_a_day, true=hours)], default=written.copy()), "text")


def _as_of_truth(node: exp.Expr) -> exp.Expr:
    """Return texts of values of any kind, those of truth values as texts of a column of truth values alone are."""
    words = [exp.Literal.string(word) for word in ("True", "False")]
    truth = exp.In(this=node.copy(), expressions=words)
    made = with_kind(exp.Case(ifs=[exp.If(this=truth, true=exp.Lower(this=node.copy()))], default=node), "text")
    made.meta["untyped"] = False
    return made


def texts(*parts: str) -> Callable[[exp.Expr], exp.Expr]:
    """Return a rule for functions of texts, which stand in some parts of the node."""

    def rule(node: exp.Expr) -> exp.Expr:
        for part in parts:
            value = node.args.get(part)
            if isinstance(value, list):
                node.set(part, [text(item) for item in value])
            elif value is not None:
                node.set(part, text(value))
        if isinstance(node, exp.Length):
            node.set("binary", None)  # BigQuery's tells bytes from texts at run time; there are only texts here
        return node

    return rule


def logical(node: exp.Expr) -> exp.Expr:
    """Return AND, OR or NOT of truth values."""
    node.set("this", boolean(node.this))
    if node.args.get("expression") is not None:
        node.set("expression", boolean(node.expression))
    return node


def is_true(node: exp.Expr) -> exp.Expr:
    """Return IS TRUE of a truth value."""
    if isinstance(node.expression, exp.Boolean):
        node.set("this", boolean(node.this))
    return node


def compared(node: exp.Expr) -> exp.Expr:
    """Return a comparison whose sides have one type, where engines would convert one of them row by row."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _in_query(node)
    for side in list(node.iter_expressions()):
        if is_literal_time(side) and side.this.name.endswith(" 00:00:00"):
            side.set("this", exp.Literal.string(side.this.name[: -len(" 00:00:00")]))
            side.set("to", exp.DataType.build("DATE"))  # a time would make the engine convert the days of a column
    places: list[tuple[str, int | None]] = [
        (key, index)
        for key in ("this", "expression", "low", "high", "expressions")
        if node.args.get(key) is not None
        for index in (range(len(node.args[key])) if isinstance(node.args[key], list) else [None])
    ]
    sides = [node.args[key] if index is None else node.args[key][index] for key, index in places]
    kinds = {kind_of(side) for side in sides if not isinstance(side, exp.Null)}
    convert: Callable[[exp.Expr], exp.Expr] | None = None
    if len({"number" if kind in NUMBERS else kind for kind in kinds}) > 1 or kinds & {None, "other"}:
        convert = boolean if kinds == {"boolean", "text"} else text
    elif "number" in kinds and not all(map(_is_stored, sides)):
        convert = number
    elif "time" in kinds and sum(not is_day(side) for side in sides) > 1:
        convert = time
    for (key, index), side in zip(places, sides, strict=True):
        if convert is not None and not isinstance(side, exp.Null):
            node.set(key, convert(side), index)
    return node


def _in_query(node: exp.Expr) -> exp.Expr:
    """Return IN (SELECT ...) with a value before it that compares with whatever the query gives."""
    query = node.args["query"]
    while isinstance(query, exp.Subquery):
        query = query.this
    item = query.expressions[0] if isinstance(query, exp.Select) and query.expressions else exp.Null()
    kind, other = kind_of(node.this), kind_of(item.this if isinstance(item, exp.Alias) else item)
    if kind == "time":
        node.set("this", time(node.this))
    elif (other in NUMBERS and is_untyped(node.this)) or (
        kind in NUMBERS and not kind == other == "integer" and not _is_stored(node.this)
    ):
        node.set("this", number(node.this))
    return node


def case(node: exp.Expr) -> exp.Expr:
    """Return a choice with conditions that are ones, and values of one type."""
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return node  # a branch, and no choice of its own
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    if isinstance(node, exp.If):
        node = exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false"))
        branches = node.args["ifs"]
    if node.this:
        for branch in branches:  # CASE x WHEN 1 is CASE WHEN x = 1
            same = exp.EQ(this=_apart(node.this), expression=_apart(branch.this))
            branch.set("this", with_kind(compared(same), "boolean"))
        node.set("this", None)
    for branch in branches:
        branch.set("this", boolean(branch.this))
    places: list[Place] = [(branch, "true", None) for branch in branches]
    return _of_one_type(node, [*places, (node, "default", None)])


def choice(node: exp.Expr) -> exp.Expr:
    """Return COALESCE, GREATEST and the like with values of one type."""
    places: list[Place] = [(node, "this", None)]
    places += [(node, "expressions", index) for index in range(len(node.expressions))]
    if isinstance(node, exp.Nullif):
        places.append((node, "expression", None))
    return _of_one_type(node, places)


def _of_one_type(node: exp.Expr, places: list[Place]) -> exp.Expr:
    """Return a node whose value is one of several, which are made to have one type."""
    found = [(place, _at(place)) for place in places]
    values = [(place, value) for place, value in found if value is not None and not isinstance(value, exp.Null)]
    kinds = {kind_of(value) for _, value in values}
    if len(values) < 2 or (len(kinds) == 1 and kinds <= {"integer", "text", "boolean"}):
        if any(value.meta.get("double") for _, value in values):
            node.meta["double"] = len(values) == 1
        return node
    kind: Kind
    convert, kind = text, "text"
    if kinds <= {*NUMBERS}:
        convert, kind = number, "number"
    elif kinds == {"time"}:
        convert, kind = time, "time"
    elif kinds <= {"text", *NUMBERS} and all(is_untyped(value) for _, value in values if kind_of(value) == "text"):
        convert, kind = number, "number"
    for (holder, key, index), value in values:
        holder.set(key, convert(value), index)
    if kind == "number":
        node.meta["double"] = True
    return with_kind(node, kind)


def _at(place: Place) -> exp.Expr | None:
    value = place[0].args.get(place[1])
    return value if place[2] is None or value is None else value[place[2]]


def _apart(node: exp.Expr) -> exp.Expr:
    """Return a copy that can stand beside an operator."""
    return exp.paren(node) if isinstance(node, exp.Binary | exp.Not) else node.copy()


def _is_stored(node: exp.Expr) -> bool:
    """Whether a number is compared as it is, exactly: a column, or a whole number that is written out."""
    if isinstance(node, exp.Paren):
        return _is_stored(node.this)
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit() and len(node.name) <= WHOLE_DIGITS
    return isinstance(node, exp.Column | exp.Null)


def _is_numeral(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string

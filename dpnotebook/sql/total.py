"""Expressions that no row can make fail: what fails is NULL instead, and everything else keeps its value.

A failure is an answer: a query that stops where somebody's value is 0 tells that it is. So below a private
aggregation numbers are calculated with as DOUBLE, which never overflows into an error; a division by zero, a logarithm
of a negative number, a text that is no number, and infinity minus infinity are NULL; dates are those of the years 1 to
9999. The forms used have the same meaning in DuckDB, PostgreSQL and Spark, but for TRY_CAST (see `portable`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from sqlglot import exp

from dpnotebook.errors import SQLError
from dpnotebook.sql.kinds import kind_of, with_kind
from dpnotebook.sql.statement import Kind

TOTAL = "total"
MAX_NODES = 20_000  # some rules write an expression twice
NUMBERS = ("integer", "number")
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
DAYS = {"YEAR": 366, "MONTH": 31, "WEEK": 7}  # at most
LARGEST_SQUARED = "1e100"  # what is squared and added up is left out beyond this

# What a type in a cast is read as: one width of whole numbers, one of others, one kind of time.
TYPES: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT"), ("BIGINT", "integer")),
    **dict.fromkeys(("USMALLINT", "UINT", "UBIGINT", "MEDIUMINT"), ("BIGINT", "integer")),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "BIGDECIMAL"), ("DOUBLE", "number")),
    **dict.fromkeys(("CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT", "NAME"), ("TEXT", "text")),
    "BOOLEAN": ("BOOLEAN", "boolean"),
    "DATE": ("DATE", "time"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME"), ("TIMESTAMP", "time")),
}


def make_total(node: exp.Expr, condition: bool = False) -> exp.Expr:
    """Return an expression with the value of another one, and NULL where that would fail.

    Parameters
    ----------
    node
        An expression whose columns have their kinds noted (`kinds.with_kind`); it is left as it is. Queries inside
        are left out: what they select is made total where they are read. Applied to its own result it changes nothing.
    condition
        Whether it stands where a truth value is wanted: in WHERE, ON, HAVING.

    Raises
    ------
    SQLError
        If dates are calculated with as if they were numbers.
    """
    if sum(1 for _ in node.walk()) > MAX_NODES:
        raise SQLError("an expression of this statement is too long; take it apart")
    holder = exp.Paren(this=node.copy())
    for part in reversed(list(holder.walk(prune=_is_done))):
        rule = RULES.get(type(part))
        if rule is None or part is holder or _is_done(part) or part.parent is None:
            continue
        parent, key, index = part.parent, part.arg_key, part.index
        kind = kind_of(part)
        made = rule(part)
        if made is not part:
            with_kind(made, made.meta.get("kind") if kind is None else kind)
            assert key is not None
            parent.set(key, made, index)
    made = boolean(holder.this) if condition else holder.this
    if isinstance(made, exp.Column) and kind_of(made) == "time":
        made = time(made)  # what is shown of it cannot be more than what those who read it can hold
    made.meta[TOTAL] = True
    made.parent = None
    return made


def number(node: exp.Expr) -> exp.Expr:
    """Return an expression as a DOUBLE."""
    if node.meta.get("double"):
        return node
    kind = kind_of(node)
    if kind == "time":
        raise SQLError("dates are no numbers: write DATE_DIFF, EXTRACT, or date + INTERVAL 1 DAY")
    if isinstance(node, exp.Literal) and not node.is_string:
        return _double(_cast(node, "DOUBLE"))
    if kind in NUMBERS:
        return _double(_cast(node, "DOUBLE"))
    return _not_nan(exp.TryCast(this=node, to=exp.DataType.build("DOUBLE")))


def text(node: exp.Expr) -> exp.Expr:
    """Return an expression as a text."""
    return node if kind_of(node) == "text" else with_kind(_cast(node, "TEXT"), "text")


def boolean(node: exp.Expr) -> exp.Expr:
    """Return an expression as a truth value."""
    kind = kind_of(node)
    if kind == "boolean" or isinstance(node, exp.Null):
        return node
    if kind == "time":
        raise SQLError("a date is no condition; compare it with another one")
    return with_kind(exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN")), "boolean")


def time(node: exp.Expr) -> exp.Expr:
    """Return an expression as a date or a time in the years 1 to 9999."""
    node = _read_time(node)
    if node.meta.get("dated") or _is_literal_time(node):
        return node
    return _between(node, FIRST, LAST)


def _read_time(node: exp.Expr) -> exp.Expr:
    kind = kind_of(node)
    if kind in (*NUMBERS, "boolean"):
        raise SQLError("a number or truth value stands where a date is wanted")
    if kind == "time":
        return node
    return with_kind(exp.TryCast(this=node, to=exp.DataType.build("TIMESTAMP")), "time")


def _between(node: exp.Expr, first: datetime.date, last: datetime.date) -> exp.Expr:
    """Return a time, NULL where it is not of some days."""
    ends = [_date(day.isoformat()) for day in (first, last)]
    inside = with_kind(exp.Between(this=node.copy(), low=ends[0], high=ends[1]), "boolean")
    made = with_kind(exp.Case(ifs=[exp.If(this=inside, true=node)]), "time")
    made.meta["dated"] = True
    return made


def _is_done(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or bool(node.meta.get(TOTAL))


def _cast(node: exp.Expr, to: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(to))


def _date(day: str) -> exp.Expr:
    return with_kind(_cast(exp.Literal.string(day), "DATE"), "time")


def _double(node: exp.Expr) -> exp.Expr:
    node.meta["double"] = True
    return with_kind(node, "number")


def _not_nan(node: exp.Expr, above: exp.Expr | None = None) -> exp.Expr:
    """Return a calculation, NULL where it has no value; inside of another one, which passes that on, as it is."""
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, ARITHMETIC):
        # what was a function, MOD(a, b), is an operator now
        return _double(exp.Paren(this=_double(node)) if isinstance(node, exp.Div | exp.Mod) else node)
    return _double(exp.Nullif(this=_double(node), expression=_cast(exp.Literal.string("NaN"), "DOUBLE")))


def _positive(node: exp.Expr) -> exp.Expr:
    """Return a number, NULL where it is not above 0."""
    largest = exp.Greatest(this=number(node), expressions=[number(exp.Literal.number(0))], ignore_nulls=True)
    return exp.Nullif(this=largest, expression=number(exp.Literal.number(0)))


def _is_literal_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and kind_of(node) == "time"


def _is_day(node: exp.Expr) -> bool:
    return _is_literal_time(node) and node.args["to"].this.name == "DATE"


def _arithmetic(node: exp.Expr) -> exp.Expr:
    for interval, other in ((node.expression, node.this), (node.this, node.expression)):
        if isinstance(interval, exp.Interval):
            return _later(node, other, interval)
    kinds = {kind_of(node.this), kind_of(node.expression)}
    if isinstance(node, exp.Sub) and kinds == {"time"}:
        return _days(node.this, node.expression)
    if _is_small(node.this) and _is_small(node.expression):
        return node
    above = node.parent
    return _not_nan(type(node)(this=number(node.this), expression=number(node.expression)), above)


def _later(node: exp.Expr, start: exp.Expr, interval: exp.Expr) -> exp.Expr:
    """Return a date some time later, or earlier, NULL where that leaves the years 1 to 9999."""
    kind = exp.Sub if isinstance(node, exp.Sub | exp.DateSub) else exp.Add
    steps, unit = _steps(interval.this), interval.args["unit"].name.upper().removesuffix("S")
    forward = steps if kind is exp.Add else -steps
    far = datetime.timedelta(days=abs(steps) * DAYS.get(unit, 1))
    start = _read_time(start)
    if not _is_literal_time(start):
        start = _between(start, FIRST + far, LAST) if forward < 0 else _between(start, FIRST, LAST - far)
    step = exp.Interval(this=exp.Literal.string(str(steps)), unit=exp.Var(this=unit))
    made = kind(this=start, expression=step)
    made.meta["dated"] = True
    return with_kind(made, "time")


def _steps(node: exp.Expr) -> int:
    """Return the whole number that an interval is written with."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    return sign * int(node.name)


def _shifted(node: exp.Expr) -> exp.Expr:
    interval = node.expression
    if not isinstance(interval, exp.Interval):
        interval = exp.Interval(this=interval, unit=node.args.get("unit"))
    return _later(node, node.this, interval)


def _days(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    day = exp.DataType.build("DATE")
    dates = [exp.Cast(this=time(side), to=day.copy()) for side in (later, earlier)]
    made = exp.DateDiff(this=dates[0], expression=dates[1], unit=exp.Var(this="DAY"), date_part_boundary=True)
    return with_kind(made, "integer")


def _difference(node: exp.Expr) -> exp.Expr:
    """Return the whole days, months, quarters or years from one date to another one."""
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else "DAY"
    if unit == "DAY":
        return _days(node.this, node.expression)
    parts = {"YEAR": (("YEAR", 1),), "QUARTER": (("YEAR", 4), ("QUARTER", 1)), "MONTH": (("YEAR", 12), ("MONTH", 1))}
    ends = []
    for side in (node.this, node.expression):
        terms = [
            exp.Mul(this=_extracted(part, time(side.copy())), expression=exp.Literal.number(times))
            for part, times in parts[unit]
        ]
        ends.append(terms[0] if len(terms) == 1 else exp.Add(this=terms[0], expression=terms[1]))
    made = exp.Sub(this=exp.Paren(this=ends[0]), expression=exp.Paren(this=ends[1]))
    return with_kind(exp.Paren(this=made), "integer")


def _extracted(part: str, node: exp.Expr) -> exp.Expr:
    if part in ("HOUR", "MINUTE"):  # which a date does not have everywhere
        node = with_kind(_cast(node, "TIMESTAMP"), "time")
    return with_kind(exp.Extract(this=exp.Var(this=part), expression=node), "integer")


def _extract(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Extract):
        part = node.this.name.upper()
        if part in ("DOW", "DAYOFWEEK"):  # Sunday is 0; engines do not agree about this one
            day = _extracted("ISODOW", time(node.expression))
            return with_kind(exp.Mod(this=day, expression=exp.Literal.number(7)), "integer")
        if part == "DATE":
            return with_kind(_cast(time(node.expression), "DATE"), "time")
        return _extracted(PARTS_OF_TIME.get(part, part), time(node.expression))
    return _extracted(type(node).__name__.upper(), time(node.this))


PARTS_OF_TIME = {"DAYOFYEAR": "DOY", "ISOWEEK": "WEEK"}


def _truncated(node: exp.Expr) -> exp.Expr:
    unit = node.args["unit"].name.upper()
    of = with_kind(_cast(time(node.this), "TIMESTAMP"), "time") if unit in ("HOUR", "MINUTE") else time(node.this)
    made = exp.TimestampTrunc(this=of, unit=exp.Var(this=PARTS_OF_TIME.get(unit, unit)))
    made.meta["dated"] = True
    return with_kind(made, "time")


def _is_small(node: exp.Expr) -> bool:
    """Whether a whole number is so small that adding or multiplying two of them stays far from the ends of BIGINT."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit() and len(node.name) <= 6
    return isinstance(node, exp.Extract | exp.Length)


def _divided(node: exp.Expr) -> exp.Expr:
    above = node.parent
    small = _is_small(node.this) and _is_small(node.expression) and isinstance(node.expression, exp.Literal)
    if isinstance(node, exp.Mod) and small and int(node.expression.name):
        return node
    divisor = exp.Nullif(this=number(node.expression), expression=number(exp.Literal.number(0)))
    kind = exp.Mod if isinstance(node, exp.Mod) else exp.Div
    made: exp.Expr = kind(this=number(node.this), expression=divisor)
    if isinstance(node, exp.IntDiv):
        made = exp.Trunc(this=made)
    return _not_nan(made, above)


def _of_number(node: exp.Expr) -> exp.Expr:
    node.set("this", number(node.this))
    return _double(node)


def _negative(node: exp.Expr) -> exp.Expr:
    return node if isinstance(node.this, exp.Literal) else _of_number(node)


def _paren(node: exp.Expr) -> exp.Expr:
    for note in ("double", "dated", "kind"):
        if note in node.this.meta:
            node.meta[note] = node.this.meta[note]
    return node


def _root(node: exp.Expr) -> exp.Expr:
    above = node.parent
    return _not_nan(_of_number(node), above)


def _power(node: exp.Expr) -> exp.Expr:
    above = node.parent
    return _not_nan(exp.Pow(this=number(node.this), expression=number(node.expression)), above)


def _logarithm(node: exp.Expr) -> exp.Expr:
    above = node.parent
    if isinstance(node, exp.Ln):
        return _not_nan(exp.Ln(this=_positive(node.this)), above)
    base, of = (node.this, node.expression) if node.expression else (exp.Literal.number(10), node.this)
    if isinstance(base, exp.Literal) and base.name in ("2", "10"):
        return _not_nan(exp.Log(this=exp.Literal.number(base.name), expression=_positive(of)), above)
    below = exp.Nullif(this=exp.Ln(this=_positive(base)), expression=number(exp.Literal.number(0)))
    return _not_nan(exp.Div(this=exp.Ln(this=_positive(of)), expression=below), above)


def _casted(node: exp.Expr) -> exp.Expr:
    """Return a cast that gives NULL where it cannot be, to one of few types."""
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) else ""
    written, kind = TYPES[name]
    if kind == "text":
        return text(node.this)
    if kind == "number":
        made = number(exp.Literal.number(node.this.name)) if _is_numeral(node.this) else number(node.this)
        scale = to.expressions[1].this if len(to.expressions) > 1 else None
        return _double(exp.Round(this=made, decimals=scale.copy())) if scale is not None else made
    if kind == "time" and isinstance(node.this, exp.Literal):
        return _literal_time(node.this, written)
    if kind == "time" and kind_of(node.this) == "time":
        return with_kind(_cast(time(node.this), written), "time")
    of = kind_of(node.this)
    if (of == "time") != (kind == "time") and of in (*NUMBERS, "boolean", "time"):
        raise SQLError("dates cannot be cast to numbers or truth values, nor those to dates; EXTRACT takes one apart")
    made = with_kind(exp.TryCast(this=node.this, to=exp.DataType.build(written)), kind)
    return time(made) if kind == "time" else made


def _literal_time(node: exp.Expr, written: str) -> exp.Expr:
    """Return a date or a time that is written out; NULL if it is none, since engines stop when they get there."""
    try:
        moment = datetime.datetime.fromisoformat(node.name)
    except ValueError:
        return with_kind(_cast(exp.Null(), written), "time")
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    shown = moment.date().isoformat() if written == "DATE" else moment.isoformat(" ")
    return with_kind(_cast(exp.Literal.string(shown), written), "time")


def _is_numeral(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _dated(node: exp.Expr) -> exp.Expr:
    if isinstance(node.this, exp.Literal):
        return _literal_time(node.this, "DATE")
    inner, kind = node.this, kind_of(node.this)
    if kind in (*NUMBERS, "boolean"):
        raise SQLError("a number or truth value stands where a date is wanted")
    if kind != "time":
        inner = with_kind(exp.TryCast(this=inner, to=exp.DataType.build("DATE")), "time")
    return with_kind(_cast(time(inner), "DATE"), "time")


def _texts(*parts: str) -> Callable[[exp.Expr], exp.Expr]:
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


def _logical(node: exp.Expr) -> exp.Expr:
    node.set("this", boolean(node.this))
    if node.args.get("expression") is not None:
        node.set("expression", boolean(node.expression))
    return node


def _is(node: exp.Expr) -> exp.Expr:
    if isinstance(node.expression, exp.Boolean):
        node.set("this", boolean(node.this))
    return node


def _compared(node: exp.Expr) -> exp.Expr:
    """Return a comparison whose sides have one type, where engines would convert one of them row by row."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _in_query(node)
    for side in list(node.iter_expressions()):
        if _is_literal_time(side) and side.this.name.endswith(" 00:00:00"):
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
        convert = text
    elif "number" in kinds:
        convert = number
    elif "time" in kinds and sum(not _is_day(side) for side in sides) > 1:
        convert = time
    for (key, index), side in zip(places, sides, strict=True):
        if convert is not None and not isinstance(side, exp.Null):
            node.set(key, convert(side), index)
    return node


Place = tuple[exp.Expr, str, int | None]


def _at(place: Place) -> exp.Expr | None:
    value = place[0].args.get(place[1])
    return value if place[2] is None or value is None else value[place[2]]


def _in_query(node: exp.Expr) -> exp.Expr:
    """Return IN (SELECT ...) with a value before it that compares with whatever the query gives."""
    query = node.args["query"]
    while isinstance(query, exp.Subquery):
        query = query.this
    item = query.expressions[0] if isinstance(query, exp.Select) and query.expressions else exp.Null()
    kind, other = kind_of(node.this), kind_of(item.this if isinstance(item, exp.Alias) else item)
    if kind == "time":
        node.set("this", time(node.this))
    elif kind in NUMBERS and not kind == other == "integer":
        node.set("this", number(node.this))
    return node


def _apart(node: exp.Expr) -> exp.Expr:
    """Return a copy that can stand beside an operator."""
    return exp.paren(node) if isinstance(node, exp.Binary | exp.Not) else node.copy()


def _case(node: exp.Expr) -> exp.Expr:
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
            branch.set("this", with_kind(_compared(same), "boolean"))
        node.set("this", None)
    for branch in branches:
        branch.set("this", boolean(branch.this))
    places: list[Place] = [(branch, "true", None) for branch in branches]
    return _of_one_type(node, [*places, (node, "default", None)])


def _choice(node: exp.Expr) -> exp.Expr:
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
    for (holder, key, index), value in values:
        holder.set(key, convert(value), index)
    if kind == "number":
        node.meta["double"] = True
    return with_kind(node, kind)


def _summed(node: exp.Expr) -> exp.Expr:
    """Return an aggregate of numbers, NULL where it has no value."""
    node.set("this", number(node.this))
    if isinstance(node, exp.Variance | exp.VariancePop | exp.StddevSamp | exp.StddevPop):
        value = node.this
        near = exp.LTE(this=exp.Abs(this=value.copy()), expression=number(exp.Literal.number(LARGEST_SQUARED)))
        node.set("this", _double(exp.Case(ifs=[exp.If(this=near, true=value)])))
    return _not_nan(node)


Rule = Callable[[exp.Expr], exp.Expr]
RULES: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _arithmetic),
    **dict.fromkeys((exp.Div, exp.SafeDivide, exp.IntDiv, exp.Mod), _divided),
    **dict.fromkeys((exp.Abs, exp.Sign, exp.Round, exp.Floor, exp.Ceil, exp.Trunc, exp.Exp), _of_number),
    **dict.fromkeys((exp.Ln, exp.Log), _logarithm),
    **dict.fromkeys((exp.Cast, exp.TryCast), _casted),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _logical),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compared),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between), _compared),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif), _choice),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring), _texts("this")),
    **dict.fromkeys((exp.Left, exp.Right), _texts("this")),
    **dict.fromkeys((exp.DPipe, exp.StartsWith, exp.EndsWith, exp.Contains), _texts("this", "expression")),
    **dict.fromkeys((exp.Like, exp.ILike), _texts("this")),
    **dict.fromkeys((exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute), _extract),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), _truncated),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), _shifted),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.StddevSamp, exp.StddevPop), _summed),
    exp.PercentileCont: _summed,
    exp.DateDiff: _difference,
    exp.Date: _dated,
    exp.Sqrt: _root,
    exp.Pow: _power,
    exp.Neg: _negative,
    exp.Paren: _paren,
    exp.Is: _is,
    exp.Concat: _texts("expressions"),
    exp.Replace: _texts("this", "expression", "replacement"),
    exp.StrPosition: _texts("this", "substr"),
}

"""Dates and times that no calendar ends at: all of them in the years 1 to 9999."""

from __future__ import annotations

import datetime
import itertools

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of, with_kind
from dpnotebook.dialect.safe.typed import (
    FIRST,
    LAST,
    NUMBERS,
    Misfit,
    between,
    cast,
    double,
    is_literal_time,
    literal_time,
    read_time,
    time,
)

DAYS = {"YEAR": 366, "MONTH": 31, "WEEK": 7}  # at most
CLOCK = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}  # how many there are in one of what is before it
A_DAY = 86_400  # seconds
PARTS_OF_TIME = {"DAYOFYEAR": "DOY", "ISOWEEK": "WEEK"}


def later(node: exp.Expr, start: exp.Expr, interval: exp.Expr) -> exp.Expr:
    """Return a date some time later, or earlier, NULL where that leaves the years 1 to 9999."""
    kind = exp.Sub if isinstance(node, exp.Sub | exp.DateSub) else exp.Add
    steps, unit = _steps(interval.this), interval.args["unit"].name.upper().removesuffix("S")
    forward = steps if kind is exp.Add else -steps
    far = datetime.timedelta(days=abs(steps) * DAYS.get(unit, 1))
    start = read_time(start)
    if not is_literal_time(start):
        start = between(start, FIRST + far, LAST) if forward < 0 else between(start, FIRST, LAST - far)
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


def shifted(node: exp.Expr) -> exp.Expr:
    """Return DATE_ADD or DATE_SUB as an operator."""
    interval = node.expression
    if not isinstance(interval, exp.Interval):
        interval = exp.Interval(this=interval, unit=node.args.get("unit"))
    return later(node, node.this, interval)


def days(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Return the days from one date to a later one."""
    day = exp.DataType.build("DATE")
    dates = [exp.Cast(this=time(side), to=day.copy()) for side in (later, earlier)]
    made = exp.DateDiff(this=dates[0], expression=dates[1], unit=exp.Var(this="DAY"), date_part_boundary=True)
    return with_kind(made, "integer")


def on_the_clock(later: exp.Expr, earlier: exp.Expr, unit: str) -> exp.Expr:
    """Return how many times the hour, the minute or the second changes from one time to a later one."""
    made: exp.Expr = days(later.copy(), earlier.copy())
    for part, times in itertools.islice(CLOCK.items(), list(CLOCK).index(unit) + 1):
        whole = exp.Mul(this=made, expression=exp.Literal.number(times))
        ends = [exp.Floor(this=_extracted(part, time(side.copy()))) for side in (later, earlier)]
        added = exp.Add(this=whole, expression=cast(ends[0], "BIGINT"))
        made = exp.Paren(this=exp.Sub(this=added, expression=cast(ends[1], "BIGINT")))
    return with_kind(made, "integer")


def between_times(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Return the days from one time to a later one, and parts of a day to the second; whole days between two dates."""
    if _is_day(later) and _is_day(earlier):
        return days(later, earlier)
    seconds = on_the_clock(later, earlier, "SECOND")
    return double(exp.Div(this=seconds, expression=cast(exp.Literal.number(A_DAY), "DOUBLE"), typed=True, safe=False))


def is_length_of_time(node: exp.Expr) -> bool:
    """Return whether an expression, whose columns have their kinds noted, is how long it is between two times."""
    if not isinstance(node, exp.Sub) or any(kind_of(side) != "time" for side in (node.this, node.expression)):
        return False
    return not (_is_day(node.this) and _is_day(node.expression))


def _is_day(node: exp.Expr) -> bool:
    return isinstance(node, exp.Date) or (isinstance(node, exp.Cast) and node.is_type("date"))


def difference(node: exp.Expr) -> exp.Expr:
    """Return the whole days, weeks, months, quarters or years from one date to another, or hours, minutes, seconds."""
    unit = node.args["unit"].name.upper() if node.args.get("unit") is not None else "DAY"
    if unit == "DAY":
        return days(node.this, node.expression)
    if unit in CLOCK:
        return on_the_clock(node.this, node.expression, unit)
    if unit == "WEEK":
        return _weeks(node.this, node.expression)
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


def _weeks(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    """Return how many whole weeks the days from one date to a later one are, as DuckDB counts them."""
    sevens = exp.Div(
        this=cast(days(later, earlier), "DOUBLE"),
        expression=cast(exp.Literal.number(7), "DOUBLE"),
        typed=True,
        safe=False,
    )
    return with_kind(cast(exp.Trunc(this=sevens), "BIGINT"), "integer")


def extract(node: exp.Expr) -> exp.Expr:
    """Return a part of a date."""
    if isinstance(node, exp.Extract):
        part = node.this.name.upper()
        if part in ("DOW", "DAYOFWEEK"):  # Sunday is 0; engines do not agree about this one
            day = _extracted("ISODOW", time(node.expression))
            return with_kind(exp.Mod(this=day, expression=exp.Literal.number(7)), "integer")
        if part == "DATE":
            return with_kind(cast(time(node.expression), "DATE"), "time")
        return _extracted(PARTS_OF_TIME.get(part, part), time(node.expression))
    return _extracted(type(node).__name__.upper(), time(node.this))


def _extracted(part: str, node: exp.Expr) -> exp.Expr:
    """Return a part of a time."""
    if part in CLOCK:  # which a date does not have everywhere
        node = with_kind(cast(node, "TIMESTAMP"), "time")
    return with_kind(exp.Extract(this=exp.Var(this=part), expression=node), "integer")


def truncated(node: exp.Expr) -> exp.Expr:
    """Return the beginning of the month, year, ... of a time."""
    unit = node.args["unit"].name.upper()
    of = with_kind(cast(time(node.this), "TIMESTAMP"), "time") if unit in ("HOUR", "MINUTE") else time(node.this)
    made = exp.TimestampTrunc(this=of, unit=exp.Var(this=PARTS_OF_TIME.get(unit, unit)))
    made.meta["dated"] = True
    return with_kind(made, "time")


def dated(node: exp.Expr) -> exp.Expr:
    """Return the date of a time."""
    if isinstance(node.this, exp.Literal):
        return literal_time(node.this, "DATE")
    inner, kind = node.this, kind_of(node.this)
    if kind in (*NUMBERS, "boolean"):
        raise Misfit("a number or truth value stands where a date is wanted", node)
    if kind != "time":
        inner = with_kind(exp.TryCast(this=inner, to=exp.DataType.build("DATE")), "time")
    return with_kind(cast(time(inner), "DATE"), "time")

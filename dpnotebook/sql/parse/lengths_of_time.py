"""How long it is from one time to another: a number of days, however it is written.

`left - came < INTERVAL 36 HOUR` is `left - came < 1.5`, and EPOCH, the seconds between them, 86,400 times that number.
Years have no length: how old somebody is, EXTRACT(YEAR FROM AGE(day, born)), is worked out from both calendar days.
"""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.expressions import IN_DAYS
from dpnotebook.dialect.safe.times import A_DAY
from dpnotebook.sql.parse.arguments import whole_number
from dpnotebook.sql.parse.spellings import put

LENGTHS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": A_DAY, "WEEK": 7 * A_DAY}  # of what is always as long
COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ, exp.Between)


PARTS = {exp.Day: "DAY", exp.Hour: "HOUR", exp.Minute: "MINUTE", exp.Second: "SECOND", exp.TimeToUnix: "EPOCH"}
WITHIN = {"HOUR": "DAY", "MINUTE": "HOUR", "SECOND": "MINUTE"}  # hours of a length are those after its whole days
FULL_YEARS = "full years"  # notes a difference that is not of calendar years


def in_days(tree: exp.Expr) -> exp.Expr:
    """Return a tree with days in place of seconds between times, and of intervals that these are compared with.

    DAY, HOUR, MINUTE and SECOND of how long it is between two times are whole numbers of seconds between them, divided.
    """
    for node in list(tree.find_all(exp.Extract, exp.Year, *PARTS)):
        part = PARTS.get(type(node)) or ("YEAR" if isinstance(node, exp.Year) else node.name.upper())
        between = (node.expression if isinstance(node, exp.Extract) else node.this).unnest()
        if part == "YEAR" and _is_age(between):
            day, born = between.expressions
            full = exp.DateDiff(this=day, expression=born, unit=exp.Var(this="YEAR"))
            put(full, node)
            full.meta[FULL_YEARS] = True
        if part not in PARTS.values() or not _is_between(between):
            continue
        if part == "EPOCH":
            between = exp.Paren(this=between)
            between.meta[IN_DAYS] = True
            put(exp.Paren(this=exp.Mul(this=between, expression=exp.Literal.number(A_DAY))), node)
        else:
            put(_part(between, part), node)
    for interval in list(tree.find_all(exp.Interval)):
        size, unit = interval.this, interval.args.get("unit")
        steps = whole_number(exp.Literal.number(size.name) if isinstance(size, exp.Literal) else size)
        length = None if unit is None else LENGTHS.get(unit.name.upper().removesuffix("S"))
        if isinstance(interval.parent, COMPARED) and steps is not None and length is not None:
            days = exp.Literal.number(repr(steps * length / A_DAY))
            days.meta[IN_DAYS] = True
            put(days, interval)
    return tree


def with_full_years(tree: exp.Expr) -> exp.Expr:
    """Return a tree in which full years are worked out from the digits of both days, which `in_days` has noted."""
    for node in list(tree.find_all(exp.DateDiff)):
        if node.meta.get(FULL_YEARS):
            put(_full_years(node.this, node.expression), node)
    return tree


def days_in_duckdb(tree: exp.Expr) -> exp.Expr:
    """Return a tree over releases, where times are subtracted by DuckDB itself, with days where days are meant.

    What an interval was compared with may be such a difference, an INTERVAL there, or an average of some, which is a
    number of days already; the minus signs are there for DuckDB to refuse whatever is neither.
    """
    for node in list(tree.find_all(exp.Paren, exp.Literal)):
        if not node.meta.pop(IN_DAYS, False):
            continue
        above = node.parent
        if isinstance(node, exp.Paren):
            put(_days(node.this), node)
        elif above is not None:
            sides = [side for side in above.iter_expressions() if not isinstance(side, exp.Literal)]
            for side in sides:
                put(_days(side), side)
            for side in above.iter_expressions():  # both ends of BETWEEN may be intervals
                side.meta.pop(IN_DAYS, None)
    return tree


def _is_between(node: exp.Expr) -> bool:
    """Return whether an expression may be how long it is between two times: not of `day - 3`."""
    written = isinstance(node, exp.Sub) and not node.find(exp.Interval)
    return written and all(whole_number(side) is None for side in (node.this, node.expression))


def _is_age(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).upper() == "AGE" and len(node.expressions) == 2


def _full_years(day: exp.Expr, born: exp.Expr) -> exp.Expr:
    """Return how many birthdays lie between two days: 20250101 less 20000102 is 249999, and so 24 times 10,000.

    Days decide, and no hours of theirs; who was born on the 29th of February has a birthday on the 1st of March.
    """
    between = exp.Paren(this=exp.Sub(this=_digits(day), expression=_digits(born)))
    return exp.Paren(this=exp.IntDiv(this=between, expression=exp.Literal.number(10_000)))


def _digits(day: exp.Expr) -> exp.Expr:
    """Return a day as the number that its digits are, 20250101."""
    digits: exp.Expr = exp.Mul(this=exp.Year(this=day.copy()), expression=exp.Literal.number(10_000))
    months = exp.Mul(this=exp.Month(this=day.copy()), expression=exp.Literal.number(100))
    for more in (months, exp.Day(this=day.copy())):
        digits = exp.Add(this=digits, expression=more)
    return exp.Paren(this=digits)


def _part(between: exp.Expr, part: str) -> exp.Expr:
    """Return the whole days, or what hours, minutes or seconds are left after those."""
    seconds: exp.Expr = exp.DateDiff(
        this=between.this.copy(), expression=between.expression.copy(), unit=exp.Var(this="SECOND")
    )
    if part in WITHIN:
        seconds = exp.Mod(this=seconds, expression=exp.Literal.number(LENGTHS[WITHIN[part]]))
    whole = exp.Div(this=seconds, expression=exp.Literal.number(LENGTHS[part]))
    return seconds if part == "SECOND" else exp.Trunc(this=whole)


def _days(side: exp.Expr) -> exp.Expr:
    """Return DuckDB's words for an interval or a number as a number of days."""
    turned = exp.Neg(this=exp.Paren(this=side.copy()))
    seconds = exp.TimeToUnix(this=exp.TryCast(this=turned, to=exp.DataType.build("INTERVAL")))
    number = exp.TryCast(this=turned.copy(), to=exp.DataType.build("DOUBLE"))
    days = exp.Div(this=seconds, expression=exp.Literal.number(A_DAY))
    return exp.Paren(this=exp.Neg(this=exp.Coalesce(this=days, expressions=[number])))

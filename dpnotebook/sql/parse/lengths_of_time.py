"""How long it is from one time to another: a number of days, however it is written.

`left - came < INTERVAL 36 HOUR` is `left - came < 1.5`, and EPOCH, the seconds between them, 86,400 times that number.
"""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.safe.times import A_DAY
from dpnotebook.sql.parse.arguments import whole_number
from dpnotebook.sql.parse.spellings import put

LENGTHS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": A_DAY, "WEEK": 7 * A_DAY}  # of what is always as long
COMPARED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ, exp.Between)


def in_days(tree: exp.Expr) -> exp.Expr:
    """Return a tree with days in place of seconds between times, and of intervals that these are compared with."""
    for node in list(tree.find_all(exp.Extract, exp.TimeToUnix)):
        seconds = isinstance(node, exp.TimeToUnix) or node.name.upper() == "EPOCH"
        between = (node.expression if isinstance(node, exp.Extract) else node.this).unnest()
        if seconds and isinstance(between, exp.Sub) and not between.find(exp.Interval):
            times = exp.Mul(this=exp.Paren(this=between), expression=exp.Literal.number(A_DAY))
            put(exp.Paren(this=times), node)
    for interval in list(tree.find_all(exp.Interval)):
        size, unit = interval.this, interval.args.get("unit")
        steps = whole_number(exp.Literal.number(size.name) if isinstance(size, exp.Literal) else size)
        length = None if unit is None else LENGTHS.get(unit.name.upper().removesuffix("S"))
        if isinstance(interval.parent, COMPARED) and steps is not None and length is not None:
            put(exp.Literal.number(repr(steps * length / A_DAY)), interval)
    return tree

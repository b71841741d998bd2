"""Keys that are spans of dates, DATE_TRUNC('month', admitted), or parts of them, EXTRACT(MONTH FROM admitted)."""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from dpnotebook.domain.calendar import SPANS, Span
from dpnotebook.sql.ownership.expressions import bare


def truncation(node: exp.Expr) -> tuple[exp.Expr, Span] | None:
    """Return the times that an expression makes spans of, and which; None of any other expression.

    Parameters
    ----------
    node
        As it was read.
    """
    node = bare(node)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        unit = node.args.get("unit")
        by = "" if unit is None else unit.name.lower()
        inner = bare(node.this)
        if isinstance(inner, exp.Cast) and inner.is_type("date", "timestamp"):  # the date has the same span
            inner = bare(inner.this)
        return (inner, cast(Span, by)) if by in SPANS else None
    if (isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and node.is_type("date")) or (
        isinstance(node, exp.Date) and node.this is not None and not node.expressions
    ):
        return truncation(node.this) or (bare(node.this), "day")  # the date of a month's first moment is one a month
    return None


def part_of_times(node: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return the times that an expression takes a part of, and which, such as "MONTH"; None of any other expression.

    Parameters
    ----------
    node
        As it was read.
    """
    node = bare(node)
    if isinstance(node, exp.Extract):
        return bare(node.expression), node.name.upper()
    if isinstance(node, exp.Year | exp.Quarter | exp.Month | exp.Day | exp.Hour | exp.Minute):
        return bare(node.this), type(node).__name__.upper()
    return None

"""The values that a statement's own conditions leave to a column: groups by it are known, whatever the rows hold.

`WHERE region IN ('North', 'South') GROUP BY region` has two groups, `WHERE grade BETWEEN 1 AND 5 GROUP BY grade` five,
and `WHERE day >= '2024-01-01' AND day < '2025-01-01'` leaves 366 days, which are twelve months.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlglot import exp

from dpnotebook.dialect.expressions import MaybeKind
from dpnotebook.domain import Attribute, Boolean, Categories, Dates, Range
from dpnotebook.errors import DomainError
from dpnotebook.sql.ownership.expressions import bare

MOST_LISTED = 10_000  # values that a range of whole numbers may have
FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
MOMENT = timedelta(microseconds=1)


def written_levels(node: exp.Expr, kind: MaybeKind, conditions: Sequence[exp.Expr]) -> Attribute | None:
    """Return the values that a column has in rows for which all conditions hold, as they could have been declared.

    Parameters
    ----------
    node, kind
        The column, or what is worked out from columns, and what it holds.
    conditions
        What holds of every row, names resolved.

    Returns
    -------
    Attribute | None
        None where the conditions leave more values than can be listed. No value is missing: of what is missing no
        comparison is true. Truth values are two whatever the conditions are, or missing.
    """
    told = [one for condition in conditions for one in _told(condition, bare(node))]
    lists = [values for how, values in told if how is exp.In]
    try:
        match kind:
            case "boolean":
                return Boolean(nullable=True)
            case "text":
                return _listed(lists, str)
            case "integer" | "number":
                found = _listed(lists, int)
                return _between(told) if found is None and kind == "integer" else found
            case "time":
                return _days(told)
            case _:
                return None
    except DomainError:  # what no answer can be written with
        return None


_Told = tuple[type[exp.Expr], list[exp.Expr]]


def _told(condition: exp.Expr, column: exp.Expr) -> Iterator[_Told]:
    """Yield how a condition compares a column, and with which values that are written out."""
    condition = bare(condition)
    match condition:
        case exp.In() if bare(condition.this) == column and condition.expressions and not condition.args.get("query"):
            yield exp.In, [bare(value) for value in condition.expressions]
        case exp.Between() if bare(condition.this) == column:
            yield exp.GTE, [bare(condition.args["low"])]
            yield exp.LTE, [bare(condition.args["high"])]
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            how: type[exp.Expr] = type(condition)
            left, right = bare(condition.this), bare(condition.expression)
            if right == column:
                left, right, how = right, left, FLIPPED[how]
            if left == column:
                yield (exp.In if how is exp.EQ else how), [right]


def _listed(lists: Sequence[Sequence[exp.Expr]], of: type[str] | type[int]) -> Categories | None:
    """Return the values that all lists have, in the order of the first."""
    found: list[list[str | int]] = []
    for values in lists:
        known = [_literal(value) for value in values if not isinstance(value, exp.Null)]
        if all(isinstance(value, of) for value in known):
            found.append([value for value in known if value is not None])
    if not found:
        return None
    first, *others = found
    left = [value for value in dict.fromkeys(first) if all(value in other for other in others)]
    return Categories(left, nullable=False) if left else None


def _between(told: Sequence[_Told]) -> Range | None:
    """Return the whole numbers from the greatest lower end to the least upper one."""
    lower, upper = [], []
    for how, (value, *_) in told:
        number = _literal(value)
        if not isinstance(number, int):
            continue
        if how in (exp.GT, exp.GTE):
            lower.append(number + (how is exp.GT))
        elif how in (exp.LT, exp.LTE):
            upper.append(number - (how is exp.LT))
    if not lower or not upper or not max(lower) <= min(upper) < max(lower) + MOST_LISTED:
        return None
    return Range(max(lower), min(upper), nullable=False)


def _days(told: Sequence[_Told]) -> Dates | None:
    """Return the days from the greatest lower end to the least upper one."""
    lower, upper = [], []
    for how, values in told:
        moments = [moment for value in values if (moment := _moment(value)) is not None]
        if len(moments) < len(values):
            continue
        if how in (exp.GT, exp.GTE, exp.In):
            lower.append(min(moments))
        if how in (exp.LT, exp.LTE, exp.In):
            upper.append(max(moments) - (MOMENT if how is exp.LT else timedelta()))
    if not lower or not upper or max(lower) > min(upper):
        return None
    return Dates(max(lower).date(), min(upper).date(), nullable=False)


def _literal(node: exp.Expr) -> str | int | None:
    """Return a text or a whole number that is written out; None of anything else."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return int(node.sql()) if node.is_int else None


def _moment(node: exp.Expr) -> datetime | None:
    """Return a day or a moment that is written out; None of anything else."""
    if isinstance(node, exp.Cast | exp.Date):
        node = bare(node.this)
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    try:
        found = datetime.fromisoformat(node.name)
    except ValueError:
        return None
    return found if found.tzinfo is None else None

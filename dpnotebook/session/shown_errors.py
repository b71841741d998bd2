"""An error of what a statement shows, where that is worked out from aggregates: `100 * AVG(x)`, `SUM(a) / COUNT(*)`.

What is a multiple of one aggregate errs by as many times as much, exactly. Anything else is foretold from a release
that has its aggregates already, with the noise of a price drawn on it: that tells the price at which its error is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.errors import AccuracyError
from dpnotebook.planner.plan import KEPT
from dpnotebook.planner.planner import SURE
from dpnotebook.query.question import Accuracy
from dpnotebook.sql.derived import derived_columns
from dpnotebook.sql.statement import Statement

if TYPE_CHECKING:
    from dpnotebook.privacy.accountant import Accountant
    from dpnotebook.session.release import Release
    from dpnotebook.sql.plan import StatementPlan

TRIES = 8  # prices at which an error is foretold, each from the one before
NEAR = 0.93  # of an error that is asked for: a price that leaves less than that is more than it takes
AIM = 0.97  # of it, for the next try
SOME = 100  # a part of the budget at which it is seen whether a statement has a plan at all


@dataclass(frozen=True)
class Multiple:
    """How far a column is off, given how far the aggregate is off of which it is a multiple.

    Parameters
    ----------
    times
        So many times as far.
    rounded
        And so much more, as it is rounded.
    """

    times: float
    rounded: float = 0.0


def worked_out(statement: Statement) -> list[Multiple | None]:
    """Return how the columns that a statement works out are multiples of its aggregates; None of one that is none.

    Nothing where all that it shows are these, and where there are several private aggregations.
    """
    if statement.outer is None or len(statement.selects) != 1:
        return []
    found = derived_columns(statement.outer, statement.selects)
    if found is None:
        return []
    tree = sqlglot.parse_one(statement.outer, read=DIALECT)
    items = tree.selects if isinstance(tree, exp.Query) and len(tree.selects) == len(found.noisy) else []
    if grouped := statement.grouped in ("columns", "conditions"):
        items = [item.copy().transform(_of_one_group) for item in items]
    names = {part.name for part in statement.selects[0].aggregates}
    return [
        _multiple(items[place].unalias(), names) if items and (found.rows or grouped) else None
        for place, (noisy, shown) in enumerate(zip(found.noisy, found.shown, strict=True))
        if noisy and shown is None
    ]


def _of_one_group(node: exp.Expr) -> exp.Expr:
    """Return the column of one group that an aggregate of disjoint rows is read off, in place of what picks it."""
    picked = node.this if isinstance(node, exp.Max) else None
    if isinstance(picked, exp.Case) and len(picked.args["ifs"]) == 1 and picked.args.get("default") is None:
        column: exp.Expr = picked.args["ifs"][0].args["true"]
        return column
    return node


def _multiple(node: exp.Expr, names: set[str]) -> Multiple | None:
    """Return how a term is a multiple of an aggregate; None where it is none."""
    if isinstance(node, exp.Paren):
        return _multiple(node.this, names)
    if isinstance(node, exp.Column):
        return Multiple(1.0) if node.name in names else None
    if isinstance(node, exp.Round) and (digits := _number(node.args.get("decimals"))) is not None:
        inner = _multiple(node.this, names)
        return None if inner is None else replace(inner, rounded=inner.rounded + 0.5 * 10.0**-digits)
    if not isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return None
    sides = node.this, node.expression
    numbers = [_number(side) for side in sides]
    if isinstance(node, exp.Div) and numbers[1] is None:
        return None
    place = 0 if numbers[1] is not None else 1
    number, inner = numbers[1 - place], _multiple(sides[place], names)
    if number is None or inner is None:
        return None
    if isinstance(node, (exp.Add, exp.Sub)):
        return inner
    times = abs(number) if isinstance(node, exp.Mul) else math.inf if not number else 1 / abs(number)
    return Multiple(inner.times * times, inner.rounded * times) if 0 < times < math.inf else None


def _number(node: exp.Expr | None) -> float | None:
    """Return the number that is written; 0 for nothing, None for anything else."""
    if node is None:
        return 0.0
    if isinstance(node, (exp.Paren, exp.Neg)):
        inner = _number(node.this)
        return inner if inner is None or isinstance(node, exp.Paren) else -inner
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def of_aggregates(multiples: list[Multiple | None], accuracy: Accuracy) -> Accuracy | None:
    """Return the error that aggregates may have for what is worked out to keep one; None where that is not so simple.

    Raises
    ------
    AccuracyError
        If rounding alone passes it.
    """
    known = [one for one in multiples if one is not None]
    assert accuracy.error is not None
    if len(known) < len(multiples):
        return None
    errors = [(accuracy.error - one.rounded) / one.times for one in known]
    if min(errors) <= 0:
        raise AccuracyError(
            f"{accuracy.text} is less than what rounding alone may take: round to more digits, or later"
        )
    return replace(accuracy, error=min(errors))


def with_intervals(release: Release) -> list[str]:
    """Return how the names of the columns of intervals begin that a release shows, as "n_" in n_lower; or "" alone."""
    columns = release.frame.columns
    return [name.removesuffix("lower") for name in columns if name == "lower" or name.endswith("_lower")]


def size_shown(release: Release) -> float:
    """Return how large the answers are that a release shows, on average; NaN where noise may have made them up.

    Also where several columns are shown, which are in units of their own.
    """
    names = with_intervals(release)
    if len(names) != 1:
        return math.nan
    frame, (name,) = release.frame, names
    sizes, errors = frame[name.removesuffix("_") or "value"].abs(), frame[f"{name}std_error"]
    known = sizes.notna() & (errors < math.inf)
    size, off = float(sizes[known].mean()), math.sqrt(float((errors[known] ** 2).mean()))
    return size if size > SURE * off else math.nan


def foretold_plan(
    accuracy: Accuracy,
    at: Callable[[Accuracy], StatementPlan],
    delivered: tuple[float, int] | None,
    accountant: Accountant,
) -> StatementPlan:
    """Return the plan of the least price at which what a statement works out keeps an error.

    Parameters
    ----------
    accuracy
        The error.
    at
        Gives the plan for an epsilon, which foretells what is worked out.
    delivered
        How far off that is in the release that tells most, and what this cost; None where there is none.
    accountant
        Of the session.

    Raises
    ------
    AccuracyError
        If no release tells it.
    SQLError
        If the statement cannot be answered at any price, as where groups are not known and none can be hidden.
    """
    assert accuracy.error is not None
    if delivered is None:
        at(Accuracy(accountant.epsilon(accountant.total // SOME)))  # what has no plan at any price says why
        raise AccuracyError(
            f"{accuracy.text} cannot be planned: it is that of what the statement works out, which is foretold from a "
            "release that has its aggregates. Give epsilon= instead; error= can be planned from that afterwards"
        )
    width, units = delivered
    kept = None
    if width > KEPT * accuracy.error:
        units = _next(units, width, accuracy.error, accountant)
    for _ in range(TRIES):
        plan = at(Accuracy(accountant.epsilon(units), confidence=accuracy.confidence))
        if plan.free and width <= KEPT * accuracy.error:
            return plan
        told = [part.half_width for part in plan.derived()]
        if not told or plan.free:
            break
        if max(told) <= accuracy.error:
            kept = plan if kept is None or plan.cost.units < kept.cost.units else kept
            if max(told) >= NEAR * accuracy.error:
                return plan
        units = _next(units, max(told), accuracy.error, accountant)
    if kept is None:
        raise AccuracyError(
            f"{accuracy.text} cannot be planned: what the statement works out is known too roughly for that. Give "
            "epsilon= instead, the larger the more it tells; then error= can be planned from that"
        )
    return kept


def _next(units: int, width: float, error: float, accountant: Accountant) -> int:
    """Return about the price at which an error is kept, given how far off an answer is for another price."""
    if not math.isfinite(width):
        return 4 * units
    return max(math.ceil(units * (width / (AIM * error)) ** accountant.law.power), 1)

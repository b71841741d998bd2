"""Whether a statement over declared columns is measured by itself although the planner could answer it.

The planner adds noise for as many rows as one unit is declared to have at most, and what it measures serves every later
question. Measured by itself a statement pays for the rows that units really have, or for a few that are drawn where an
answer does not depend on how many there are; but it tells later questions little, and disjoint groups do not share it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnotebook.domain import Bins, Range
from dpnotebook.errors import DPError
from dpnotebook.planner.planner import farthest
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan, PlannedMeasure
    from dpnotebook.session.query import Query

# Times closer an answer by itself must be than the planner's, as it is of no use to later questions; of several
# aggregates it is the geometric mean.
CLOSER = 2.0
EACH_CLOSER = 1.25  # times closer each of several must be: a count in a session without a delta is about as close else
LEAST_ROWS = 3  # rows of a unit that are declared: with fewer no statement by itself is `CLOSER`
RATES = 1.5  # times closer counts must be known than an epsilon would tell them, for their ratio to be about as close
MANY = 1e9  # rows of a group, so many that noise on their number is nothing
# Plans foretell errors of sums and means as if values lay at both ends of what is declared. Amounts mostly do not.
CLOSER_OF_AMOUNTS = 4.0  # times closer, about, they are than foretold, where norms are found for them
CLOSER_INSIDE = 2.0  # times closer, at least, they mostly are, where bounds are found inside those that are declared


def much_closer(by_itself: Query, planned: Query, answered: bool = False) -> bool:
    """Return whether a statement measured by itself is much closer than the planner's answer, or much cheaper.

    It is judged by plans alone, so that no data is read. While nobody knows how many rows units have, a count is judged
    by its error if they have many, and what depends on values by the middle of what its error may be. Who gives an
    epsilon means to spend it: so an answer that is free, by what is known, is given only where measuring the statement
    by itself for that epsilon would not be much closer.

    Parameters
    ----------
    by_itself, planned
        The same statement, as it is measured by itself and as a question for the planner.
    answered
        Whether the planner was paid to answer the statement at this epsilon: then it is free, however close that is.
    """
    try:
        known = planned.plan
    except DPError:  # such as of a mean of nobody knows how many rows, where an error is asked for
        return by_itself.accuracy.epsilon is None and _can_be_planned(by_itself)
    try:
        if known.free and by_itself.accuracy.epsilon is None:
            return False
        alone = by_itself.plan
        if alone.free and not known.free:
            return True  # it was paid for
        if answered and known.free and not alone.free:
            return False
        if by_itself.accuracy.epsilon is None:
            return alone.cost.epsilon * CLOSER <= known.cost.epsilon
        expected, times = _half_widths(alone), 1.0 if alone.free else CLOSER
        if known.reused and not alone.free:
            expected = _beside_what_is_known(by_itself, planned, middle=known.free)
    except DPError:
        return False  # it is told where the question is asked
    assert isinstance(planned.question, Question)
    inside = _closer_of_amounts(by_itself.plan, planned.question)
    told = _told(known, planned.question)
    closer = [_times_closer(one / less, other) for one, less, other in zip(expected, inside, told, strict=False)]
    each = min(times, EACH_CLOSER)
    return min(closer) >= each and sum(map(math.log, closer)) >= len(closer) * math.log(times)


def _times_closer(width: float, planned: float) -> float:
    """Return how many times closer an answer by itself is than the planner's, which may be of no use at all."""
    return math.inf if math.isinf(planned) or width == 0.0 else planned / width


def _told(known: Plan, question: Question) -> list[float]:
    """Return the half-widths of a plan; infinite for means, where an interval is all that their bounds allow."""
    most = map(farthest, question.measures)
    return [width if width < half else math.inf for width, half in zip(_half_widths(known), most, strict=False)]


def _closer_of_amounts(alone: Plan, question: Question) -> list[float]:
    """Return how many times closer each aggregate by itself mostly is than its plan promises while nothing is known.

    Norms are found by where values lie and how many rows units have; the planner's noise goes by what is declared.
    """
    found: list[float] = []
    for part, measure in zip(alone.parts, question.measures, strict=False):
        attribute = None if measure.column is None else question.where.domain[measure.column]
        amount = isinstance(attribute, Range | Bins) and attribute.may_be_wide
        unknown = measure.kind in ("sum", "mean") and part.between is None and part.may_be_less
        found.append(CLOSER_OF_AMOUNTS if amount and unknown else 1.0)
    return found


def counts_tell_rates(counts: Query, paid: bool) -> bool:
    """Return whether rates follow from counts that are known, free and about as close as for the epsilon that is asked.

    Parameters
    ----------
    counts
        The statement, of which the counts are measured that it has the ratios of.
    paid
        Whether its epsilon was paid for these.
    """
    try:
        if not counts.plan.free:
            return False
        known, anew = _half_widths(counts.plan), _half_widths(replace(counts, fresh=True).plan)
    except DPError:
        return False
    return paid or all(one * RATES <= other for one, other in zip(known, anew, strict=True))


def _beside_what_is_known(by_itself: Query, planned: Query, middle: bool) -> list[float]:
    """Return the expected half-widths of a statement by itself, comparable to a planner's answer that reuses releases.

    Releases tell the planner how many rows each mean is of, which the statement by itself may not know; no other error
    depends on that. For groups of very many rows both errors are in proportion to noise, so both are planned for these,
    and the statement's is scaled by what the planner's is for groups as they are known.
    """
    assert isinstance(planned.question, Question)
    if all(part.kind != "mean" for part in planned.question.measures):
        return _half_widths(by_itself.plan, middle)
    anew = replace(planned, fresh=True)
    one = _half_widths(by_itself.assuming(rows=MANY).plan, middle)
    of_many, of_known = (_told(query.plan, planned.question) for query in (anew.assuming(rows=MANY), anew))
    return [width * own / many for width, own, many in zip(one, of_known, of_many, strict=True)]


def _half_widths(plan: Plan, middle: bool = False) -> list[float]:
    """Return the expected half-width of every aggregate; infinite where it is not known.

    Where it is a range, for units of one row to many, it is the middle of that for sums and means, and its upper end
    for counts; with `middle` the middle for all.
    """
    return [_half_width(part, middle) for part in plan.parts] if plan.parts else [plan.error]


def _can_be_planned(query: Query) -> bool:
    """Return whether a query can be answered as it is asked."""
    try:
        return bool(query.plan.affordable)
    except DPError:
        return False


def _half_width(part: PlannedMeasure, middle: bool) -> float:
    if part.between is not None and part.between[0] == part.between[1]:
        return part.between[1] / CLOSER_INSIDE
    if part.between is not None:  # values are mostly well inside their bounds, and means are clipped to fewer rows
        return math.sqrt(math.prod(part.between)) if part.may_be_less or middle else part.between[1]
    return math.inf if math.isnan(part.half_width) else part.half_width

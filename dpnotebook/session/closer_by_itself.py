"""Whether a statement over declared columns is measured by itself although the planner could answer it.

The planner adds noise for as many rows as one unit is declared to have at most, and what it measures serves every later
question. Measured by itself a statement pays for the rows that units really have, or for a few that are drawn where an
answer does not depend on how many there are; but it tells later questions little, and disjoint groups do not share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnotebook.domain import Bins, Range
from dpnotebook.errors import DPError
from dpnotebook.planner.plan import MANY_ROWS
from dpnotebook.planner.planner import farthest
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan, PlannedMeasure
    from dpnotebook.planner.table import TableSchema
    from dpnotebook.privacy.laws import Law
    from dpnotebook.query.question import Accuracy
    from dpnotebook.session.query import Query
    from dpnotebook.session.released_span import ReleasedSpan

CLOSER = 2.0  # so many times closer an answer must be to be worth what it does not do for later ones
LEAST_ROWS = 3  # of a unit: with fewer nothing is so much closer
RATES = 1.5  # so much closer counts are at hand than an epsilon tells them, where it tells their ratio half as well
SCALE_FREE = {"mean", "quantile"}  # measures that do not depend on how many rows of a unit count
ADDED = {"count", "sum"}
MANY = 1e9  # rows of a group, beside which noise on their number is nothing
FEWER_ROWS = 8  # of a unit, as an example
CLOSER_OF_AMOUNTS = 4.0  # so many times closer, about, a sum or a mean of amounts is than of values at both ends
CLOSER_INSIDE = 2.0  # so many times closer, at least, an amount mostly is for bounds found inside what is declared
MUCH_WIDER = 5.0  # times where most values lie, from which on it is worth to say that something is declared wide
LITTLE = 1e-3  # of what values lie between, an error of a mean that is no reason to look for narrower bounds


class Route:
    """Which way a statement is answered, decided anew whenever the ledger is another.

    So a query that is kept costs and answers what the same statement would that is written now.

    Parameters
    ----------
    decide
        Gives the query that answers the statement, for the accuracy and the freshness of a query, and with its route.
    state
        Gives in which state the ledger is.
    """

    def __init__(self, decide: Callable[[Accuracy, bool, Route | None], Query], state: Callable[[], Hashable]) -> None:
        self._decide, self._state = decide, state
        self._written: Hashable = None
        self._latest: tuple[Hashable, Query, Query] | None = None

    def first(self, accuracy: Accuracy, fresh: bool) -> Query:
        """Return the query as it is written."""
        self._written = self._state()
        return self._decide(accuracy, fresh, self)  # the very query whose plan was looked at, so that it is made once

    def __call__(self, query: Query) -> Query:
        """Return the query that answers another one now: itself where nothing has changed."""
        state, latest = self._state(), self._latest
        if state == self._written:
            return query
        if latest is not None and latest[0] == state and latest[1] is query:
            return latest[2]
        try:
            now = self._decide(query.accuracy, query.fresh, None)
        except DPError:
            return query  # it is told where that is planned
        same = type(now.question) is type(query.question) and now.question.key == query.question.key
        same = same and now.look is None and query.look is None
        # Without the route: what it leads to holds for this state only, and must not be held by what holds it.
        routed = (
            query if same else replace(query, question=now.question, statement=now.statement, look=now.look, route=None)
        )
        self._latest = state, query, routed
        return routed


def much_closer(by_itself: Query, planned: Query, answered: bool = False) -> bool:
    """Return whether a statement measured by itself is much closer than the planner's answer, or much cheaper.

    It is judged by plans alone, so that no data is read. While nobody knows how many rows units have, a count is judged
    by its error where they have many, what depends on values by the middle. An epsilon is no price that is to be
    saved: what is known answers for nothing where it is about as good as that epsilon would make the answer, and not
    where it is an answer of the planner's that measured by itself would be much closer.

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
    return all(one * times / less <= other for one, less, other in zip(expected, inside, told, strict=False))


def _told(known: Plan, question: Question) -> list[float]:
    """Return the half-widths of a plan, infinite of means of which it tells no more than their bounds."""
    most = map(farthest, question.measures)
    return [width if width < half else math.inf for width, half in zip(_half_widths(known), most, strict=False)]


def _closer_of_amounts(alone: Plan, question: Question) -> list[float]:
    """Return how many times closer each aggregate by itself mostly is than its plan promises while nothing is known.

    A norm goes by where values lie and by how many rows units have; the planner's noise goes by what is declared.
    """
    found: list[float] = []
    for part, measure in zip(alone.parts, question.measures, strict=False):
        attribute = None if measure.column is None else question.where.domain[measure.column]
        amount = isinstance(attribute, Range | Bins) and attribute.may_be_wide
        unknown = measure.kind in ("sum", "mean") and part.between is None and part.may_be_less
        found.append(CLOSER_OF_AMOUNTS if amount and unknown else 1.0)
    return found


def counts_tell_rates(counts: Query, paid: bool) -> bool:
    """Return whether rates follow for nothing from counts that are known, about as well as an epsilon would tell them.

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
    """Return the expected half-widths of a statement by itself, where releases are part of the planner's answer.

    They tell the planner how many rows means are of, which the statement may not know. Of very many rows both err in
    proportion to their noise. Nothing else depends on that.
    """
    assert isinstance(planned.question, Question)
    if all(part.kind != "mean" for part in planned.question.measures):
        return _half_widths(by_itself.plan, middle)
    anew = replace(planned, fresh=True)
    one = _half_widths(by_itself.assuming(rows=MANY).plan, middle)
    of_many, of_known = (_told(query.plan, planned.question) for query in (anew.assuming(rows=MANY), anew))
    return [width * own / many for width, own, many in zip(one, of_known, of_many, strict=True)]


def closer_in_sql(question: Question, table: TableSchema, law: Law) -> str:
    """Return that SQL tells mostly more closely what a verb asks of units with many rows; empty where it does not.

    Parameters
    ----------
    question, table
        What is asked, and what is public about its table.
    law
        Of the session's noise: norms of units are found where it is Gaussian, else how many rows suit what adds up.
    """
    kinds = {measure.kind for measure in question.measures}
    if table.contribution_bound <= MANY_ROWS or not kinds <= SCALE_FREE | ADDED:
        return ""
    if not _has_groups_of_sql(question, table):
        return ""
    counted = law.euclidean or kinds & ADDED
    goes_by = f"the rows that each {table.one} really has" if counted else f"a few rows of each {table.one}"
    return (
        f"noise hides one {table.one} with {table.contribution_bound:,} rows. The same in SQL (session.sql or %%dpsql) "
        f"goes by {goes_by}, and is mostly much closer"
    )


def closer_with_fewer_rows(question: Question, table: TableSchema, law: Law) -> str:
    """Return that fewer rows of each unit count with less noise, of what the planner answers in SQL; else empty.

    Parameters
    ----------
    question, table, law
        As for `closer_in_sql`.
    """
    rows, one = table.contribution_bound, table.one
    if law.euclidean or rows <= MANY_ROWS or not any(measure.kind in ADDED for measure in question.measures):
        return ""
    if not _has_groups_of_sql(question, table):
        return ""
    return (
        f"noise hides one {one} with {rows:,} rows. If few have so many, let fewer of each count, with less noise: in "
        f"SQL by SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = {FEWER_ROWS}) ...; a statement with "
        "one aggregate, or few, mostly finds how many by itself"
    )


def closer_inside(
    question: Question, table: TableSchema, errors: Mapping[str, float], span: Callable[[str], ReleasedSpan | None]
) -> str:
    """Return that bounds which are found privately make a sum or a mean of an amount closer; empty where they may not.

    Parameters
    ----------
    question, table
        What is asked, and what is public about its table.
    errors
        Half-widths of intervals by measure: a mean whose noise is nothing beside what values lie between is left alone.
    span
        Gives between which values most of a column lie, where a release tells.
    """
    for measure in question.measures:
        attribute = None if measure.column is None else table.domain[measure.column]
        if measure.kind not in ("sum", "mean") or not isinstance(attribute, Range | Bins) or not attribute.may_be_wide:
            continue
        low, high = attribute.bounds
        given = measure.summand
        if (float(given.low), float(given.high)) != (low, high):
            continue  # narrower ones were given
        told = span(str(measure.column))
        wider = 0.0 if told is None else told.times_wider(low, high, measure.kind)
        if told is not None and wider < MUCH_WIDER:
            continue  # there are none that are much closer
        width = high - low if told is None else told.high - told.low
        if measure.kind == "mean" and errors[measure.name] < LITTLE * width:
            continue
        unit = f" {attribute.unit}" if attribute.unit else ""
        said = f"noise is for values of {measure.column} anywhere from {low:,} to {high:,}{unit}. "
        ways = ["bounds=(low, high) if you know them"]
        if told is not None:
            said += (
                f"Release #{told.release} has {told.share} of 100 rows between {told.low:,.6g} and {told.high:,.6g}: "
                f"narrower bounds make noise up to {wider:,.0f} times smaller, and clamp what lies beyond: "
            )
            ways = [f"bounds=({told.low:.15g}, {told.high:.15g})"]
        else:
            said += "If most lie well inside, narrower bounds make it smaller in proportion: "
        ways = ways if len(question.measures) == 1 else []
        if _has_groups_of_sql(question, table):
            ways += ["bounds='auto' (%%dpsql --bounds auto), which finds them privately with a tenth of the price"]
        return said + ", or ".join(ways) if ways else ""
    return ""


def closer_by_epsilon(accuracy: Accuracy, rows: int, one: str, law: Law) -> str:
    """Return that an epsilon buys more than an error, which is planned for as many rows as were declared; else empty.

    Parameters
    ----------
    accuracy
        What is asked for.
    rows, one
        How many rows of a unit noise hides, and what a unit is.
    law
        Of the session's noise.
    """
    if rows <= MANY_ROWS or accuracy.epsilon is not None or not law.euclidean:
        return ""
    return (
        f"noise hides one {one} with {rows:,} rows, as how many each really has is not known well enough. epsilon= in "
        "place of error= finds that privately, and is mostly much closer"
    )


def _has_groups_of_sql(question: Question, table: TableSchema) -> bool:
    """Return whether the same can be asked in SQL, which has no groups of bins."""
    return not any(isinstance(table.domain[key], Bins) for key in question.keys)


def _half_widths(plan: Plan, middle: bool = False) -> list[float]:
    """Return the expected half-width of every aggregate; infinite where it is not known.

    Of those that depend on the rows of units it is the middle, or for counts where they have many, unless asked for it.
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

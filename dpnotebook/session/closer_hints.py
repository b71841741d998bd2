"""What cards say where another way to ask would be closer: in SQL, with fewer rows, narrower bounds, or by epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpnotebook.domain import Bins, Range
from dpnotebook.planner.plan import MANY_ROWS
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.views import digits

if TYPE_CHECKING:
    from dpnotebook.planner.table import TableSchema
    from dpnotebook.privacy.laws import Law
    from dpnotebook.query.question import Accuracy, Question
    from dpnotebook.session.released_span import ReleasedSpan

SCALE_FREE = {"mean", "quantile"}  # measures that do not depend on how many rows of a unit count
ADDED = {"count", "sum"}
FEWER_ROWS = 8  # of a unit, as an example
COUNTED_IN_SQL = 26  # rows of a unit, with fewer of which the planner answers counts in SQL too: see `much_closer`
LEAVE_OUT = (
    "If few have so many, a table that is protected without max_rows= has less noise: how many rows count is found then"
)
LET_FEWER = (
    "If few have so many, let fewer of each count, with less noise: in SQL by SELECT WITH DIFFERENTIAL_PRIVACY "
    f"OPTIONS(max_rows_contributed = {FEWER_ROWS}) ..."
)
MUCH_WIDER = 5.0  # times where most values lie, from which on it is worth to say that something is declared wide
LITTLE = 1e-3  # of what values lie between, an error of a mean that is no reason to look for narrower bounds


def closer_in_sql(question: Question, table: TableSchema, law: Law) -> str:
    """Return that SQL tells mostly more closely what a verb asks of units with many rows; empty where it does not.

    Parameters
    ----------
    question, table
        What is asked, and what is public about its table.
    law
        Of the session's noise: norms of units are found where it is Gaussian, else how many rows suit what adds up.
    """
    counts = {"workload" for measure in question.measures if groups_of(measure.asked, question.keys)}  # by month, say
    kinds = {"count" if measure.kind in counts else measure.kind for measure in question.measures}
    if table.contribution_bound <= MANY_ROWS or not kinds <= SCALE_FREE | ADDED:
        return ""
    if not _has_groups_of_sql(question, table):
        return ""
    hides = f"noise hides one {table.one} with {table.contribution_bound:,} rows"
    if kinds == {"count"} and table.contribution_bound < COUNTED_IN_SQL:
        if law.euclidean:
            return (
                f"{hides}. session.sql(..., contribution='l2') goes by the rows that each {table.one} really has, and "
                "is mostly much closer"
            )
        return f"{hides}. {LEAVE_OUT if counts else LET_FEWER}"
    counted = law.euclidean or kinds & ADDED
    goes_by = f"the rows that each {table.one} really has" if counted else f"a few rows of each {table.one}"
    return f"{hides}. The same in SQL (session.sql or %%dpsql) goes by {goes_by}, and is mostly much closer"


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
        f"noise hides one {one} with {rows:,} rows. {LET_FEWER}; a statement with one aggregate, or few, mostly finds "
        "how many by itself"
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
                f"Release #{told.release} has {told.share} of 100 rows between {digits(told.low, 6)} and "
                f"{digits(told.high, 6)}: narrower bounds make noise up to {wider:,.0f} times smaller, and "
                "clamp what lies beyond: "
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

"""A question that was asked by verbs, as the statement that asks the very same of the same history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpnotebook.errors import DPError
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.session.query import Query
    from dpnotebook.session.verbs import Verbs

FUNCTIONS: Mapping[str, str] = {"count": "COUNT", "sum": "SUM", "mean": "AVG"}


def as_sql(query: Query, table: Verbs) -> str | None:
    """Return the statement that asks what a query does; None where SQL has no statement for the identical question.

    What is returned was read back: `session.sql` makes a query of it whose question is the same, so that an answer to
    one is an answer to the other, at no cost.

    Parameters
    ----------
    query
        What is asked, of one table.
    table
        That table's verbs.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> patients = example_session().table("patients")
    >>> as_sql(patients.groupby("sex").count(where="age >= 65", error=25), patients)
    'SELECT sex, COUNT(*) AS value FROM patients WHERE age >= 65 GROUP BY sex'
    >>> as_sql(patients.cdf("age", error=25), patients) is None
    True
    """
    asked = query.question
    if not isinstance(asked, Question):
        return asked.text
    if len(asked.measures) != 1:
        return None
    measure = asked.measures[0]
    spans = groups_of(measure.asked, asked.keys)
    kind = "count" if measure.kind == "workload" and spans else measure.kind
    if kind not in FUNCTIONS or measure.rows is not None:
        return None
    grouped = table.groupby({key: spans.get(key) for key in asked.keys})
    accuracy = query.accuracy
    error = accuracy.error if accuracy.relative is None else accuracy.percent
    given: dict[str, float | str | None] = {
        "epsilon": accuracy.epsilon,
        "error": error,
        "variance": accuracy.variance,
    }
    where = None if asked.where.is_everything else asked.where.text
    try:
        return grouped.in_sql(FUNCTIONS[kind], measure.column, asked, where, given)
    except DPError:  # what SQL cannot say here, such as days of Paris
        return None

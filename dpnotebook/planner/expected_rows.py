"""About how many rows a mean is of, which its error depends on: as somebody says, as releases tell, or a careful guess.

The owner of a table says how many rows it has, not how many of them satisfy a condition. Where no release counted
these, levels are taken to be as frequent as each other, and no group to have more than `DEFAULT_ROWS`: guessing too few
makes the noise smaller than is needed, guessing too many breaks the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.parts import PART
from dpnotebook.domain.values import Mask
from dpnotebook.errors import PredicateError
from dpnotebook.planner.answers import Floats
from dpnotebook.planner.history import History
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Measure, Question

MOST_NAMED = 3  # releases that are named one by one
LOST = 3  # standard errors: counts up to so many may be of nothing, as `answers.weights_of` has it
ALL = 1 - 1e-9  # share from which on it is all of them, but for rounding


def with_rows(
    assumption: Assumption,
    question: Question,
    table: TableSchema,
    history: History | None,
    *,
    in_every_group: bool = False,
) -> Assumption:
    """Return an assumption that says how many rows the means of a question are of, where anything tells.

    Parameters
    ----------
    assumption
        What somebody says to assume; how many rows they say holds.
    question, table
        What is asked, and what is public of the table.
    history
        What was recorded; None where that is not looked at.
    in_every_group
        Whether an error is to be kept in each group, so that all are taken to be as small as the smallest.
    """
    means = [measure for measure in question.measures if measure.kind == "mean"]
    if assumption.rows is not None:
        return assumption
    if not means:
        return replace(assumption, rows=table.rows_of(question.where))
    of = {(question.rows_of(measure), measure.column): measure for measure in means}
    smallest = (_smallest_group(question.alone(one), history) if in_every_group else None for one in of.values())
    found = [one or _of_rows(assumption, *rows, table, history) for rows, one in zip(of, smallest, strict=True)]
    return min(found, key=lambda one: math.inf if one.rows is None else one.rows)


def _smallest_group(question: Question, history: History | None) -> Assumption | None:
    """Return the assumption that all groups of a mean are as small as the smallest; None where releases do not tell.

    Groups whose count is lost in its noise are left out, as no price is enough for those that are empty.
    """
    told = None if history is None else _told_groups(question, history)
    if told is None or not told.found.any():
        return None
    return Assumption(float(round(told.rows[told.found].min())) * told.rows.size, source=told.words)


def _of_rows(
    assumption: Assumption, where: Predicate, column: str | None, table: TableSchema, history: History | None
) -> Assumption:
    """Return the assumption for the mean of a column over the rows that satisfy a condition."""
    all_rows, share = table.rows_of(where), _share_of_levels(where)
    if all_rows is not None and share is not None and share > ALL:
        return replace(assumption, rows=all_rows)
    # Missing values are in no mean: a count without them tells most, and one of all rows about as much.
    counts = (_counted(rows, table, history) for rows in dict.fromkeys((_with_values(where, column), where)))
    if (counted := next(filter(None, counts), None)) is not None:
        rows, source = counted
        return replace(assumption, rows=rows, source=source)
    if all_rows is None:
        return assumption
    return replace(assumption, rows=all_rows if share is None else max(all_rows * share, 1.0), guessed=True)


def _counted(where: Predicate, table: TableSchema, history: History | None) -> tuple[float, str] | None:
    """Return how many rows releases say satisfy a condition, and which releases; None where none bears on it.

    A count that is lost in its noise is taken to be as large as that.
    """
    told = None if history is None else rows_of_groups(Question(table.name, (Measure("count"),), (), where), history)
    if told is None:
        return None
    return float(round(told.rows[0])), told.words


@dataclass(frozen=True)
class ToldRows:
    """How many rows groups have, as releases tell.

    Parameters
    ----------
    rows
        Of each group, in the order of the question's answers; a count that is lost in its noise is taken to be as
        large as that, and none to be below 1.
    sources
        The numbers of the releases.
    found
        Of which groups the count is not lost in its noise.
    """

    rows: Floats
    sources: tuple[int, ...]
    found: NDArray[np.bool_]

    @property
    def words(self) -> str:
        """Which releases tell it."""
        if not 0 < len(self.sources) <= MOST_NAMED:
            return "as releases tell"
        named = ", ".join(f"#{number}" for number in self.sources)
        return f"as release {named} tells" if len(self.sources) == 1 else f"as releases {named} tell"


def rows_of_groups(question: Question, history: History) -> ToldRows | None:
    """Return how many rows each group of a question has; None where releases do not tell.

    Parameters
    ----------
    question
        Which rows, by which keys; its measure is a count.
    history
        What was recorded.
    """
    asked = asked_of(question, history)
    if asked is None or not asked.told:
        return None
    values, variances = asked.estimates()
    if not np.isfinite(variances).all():
        return None
    noise = np.sqrt(variances)
    return ToldRows(np.maximum(np.maximum(values, noise), 1.0), tuple(asked.sources()), values > LOST * noise)


def sizes_of_groups(question: Question, history: History) -> Floats | None:
    """Return how many rows releases say each group of a mean has, in the order of its answers; None where they do not.

    A count that is lost in its noise is taken to be as large as that. Of one group `with_rows` tells.
    """
    told = _told_groups(question, history)
    return None if told is None else told.rows


def _told_groups(question: Question, history: History) -> ToldRows | None:
    measure = question.measures[0]
    if not question.keys or measure.workload is not None or measure.column in question.keys:
        return None
    for where in dict.fromkeys((_with_values(question.where, measure.column), question.where)):
        told = rows_of_groups(Question(question.table, (Measure("count"),), question.keys, where), history)
        if told is not None:
            return told
    return None


def _with_values(where: Predicate, column: str | None) -> Predicate:
    """Return the condition of the rows that also have a value in a column."""
    missing = None if column is None else where.domain[column].null_index
    if column is None or missing is None:
        return where
    present = np.arange(where.domain[column].size) != missing
    return where & Predicate.box(where.domain, {column: present})


def _share_of_levels(where: Predicate) -> float | None:
    """Return which share of the declared levels a condition lets in, over all columns; None where that takes long.

    Missing values take no part: that they are left out makes no condition of a mean. Nor do the parts of a table.
    """
    try:
        boxes = where.products()  # which are disjoint
    except PredicateError:
        return None
    shares = [math.prod(_share(where, name, mask) for name, mask in box.items() if name != PART) for box in boxes]
    if PART not in where.attributes:
        return sum(shares)
    parts = [float(box[PART].sum()) if PART in box else float(where.domain[PART].size) for box in boxes]
    return float(np.dot(shares, parts)) / len(allowed_levels(where, PART, where.domain))


def _share(where: Predicate, name: str, mask: Mask) -> float:
    """Return which share of the levels of one column a condition on it lets in."""
    missing = where.domain[name].null_index
    present = mask if missing is None else np.delete(mask, missing)
    return float(present.mean() if present.any() else mask.mean())

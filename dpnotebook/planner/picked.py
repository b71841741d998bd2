"""Whether a question may have been picked for what an earlier release showed: intervals know nothing of that.

Of 64 noisy counts the largest is likely to be one whose noise is large. Its own interval then misses up to four times
of five, and so does the same answer when it is asked for alone and read out of the record.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpnotebook.domain import Domain
from dpnotebook.planner.to_linear import answer_axes
from dpnotebook.query.question import Question

MANY = 10  # rows of a release: among fewer, the interval of the one that stands out holds four times of five or more


@dataclass(frozen=True)
class Picked:
    """The release that a question may have been picked from, and how many rows that showed."""

    release: int
    rows: int


def picked_from(question: Question, past: Iterable[tuple[int, Mapping[str, Any], Domain]]) -> Picked | None:
    """Return the release of most rows that a question looks like a part of.

    Parameters
    ----------
    question
        What is asked.
    past
        Numbers of the releases that answer it, what each was asked, as the ledger keeps questions, and the domain that
        the table had then.

    Returns
    -------
    Picked or None
        None where no release showed many parts like the one that `where=` cuts out here: whoever adds all of its rows
        up, or asks the same again, or for one of two sexes, picked nothing.
    """
    own, found = _rows(question, question.where.domain), None
    cut = question.where.attributes
    for number, told, domain in past:
        if not set(told["keys"]) & set(cut):
            continue
        before = Question.from_json(told, domain)
        rows = _rows(before, domain)
        many = own < rows and _rows(before, domain, cut) >= MANY
        if many and before.where != question.where and (found is None or rows > found.rows):
            found = Picked(number, rows)
    return found


def _rows(question: Question, domain: Domain, along: Collection[str] | None = None) -> int:
    """Return in how many rows a question is answered; or among how many parts, where only some attributes tell them."""
    measure = question.measures[0]
    if measure.workload is not None:
        return measure.workload.shape[0]
    axes = answer_axes(measure, question, domain)
    rows = axes[: -1 if measure.kind == "quantile" else None]
    return math.prod(axis.size for axis in rows if along is None or axis.attribute in along)

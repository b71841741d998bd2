"""The best answers from everything recorded, with their intervals, as they are recorded and shown.

What is shown is finite and as precise as its plan said. Where the combination of everything is not, because not all of
it had room in one state of least squares or because rounding has eaten it, the answer is that of the measurement that
was just paid for, or of both, answer by answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner import marginal_measurement
from dpnotebook.planner.answers import Answers, Estimates, Floats, LinearAnswers, QuantileAnswers, written
from dpnotebook.planner.beside_atoms import BesideAtoms
from dpnotebook.planner.beside_classes import BesideClasses
from dpnotebook.planner.beside_groups import BesideGroups
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import Item
from dpnotebook.planner.plan_json import estimates_to_json
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.to_linear import to_linear
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.question import Question
from dpnotebook.workload.terms import row_weights

MOST_WEIGHTS = 200_000  # of combinations whose interval is found from the exact law of their noise
MOST_DRAWS = 2_000  # of noise in one answer, up to which its law is worked out; above, the worst of all laws stands in
MOST_EXACT = 64  # answers whose intervals are found so
MOST_SHARPENED = 512  # answers of one question whose intervals are found so because a bound is too wide
NARROWER = 1 - 1e-6  # of a width: what is narrower by less is so by rounding, and is not preferred
ROUNDING = 1 + 2e-6  # by which an error may pass the one that was promised

Own = Callable[[], Estimates | None]
# A question over all that is known, or that is supposed to be.
OverAll = marginal_measurement.LinearTarget | BesideAtoms | BesideClasses | BesideGroups


@dataclass(frozen=True)
class Promise:
    """What a plan said of every answer, in its own units: the largest standard error and half-width of an interval.

    Parameters
    ----------
    std_error, half_width
        The largest of all answers.
    weighted
        The largest half-width times the weight of its answer, where parts of a workload have errors of their own.
    weights
        Of the answers, shape (answers,).
    """

    std_error: float = math.inf
    half_width: float = math.inf
    weighted: float = math.inf
    weights: Floats | float = field(default=1.0, compare=False)  # the question says them

    @classmethod
    def of(cls, question: Question, said: Sequence[float] = (), weighted: float | None = None) -> Promise:
        """Return what a plan said of the answers to a question: the largest two errors, and the weighted one."""
        std_error, half_width = said or (math.inf, math.inf)
        workload = question.measures[0].workload
        if weighted is None or workload is None:
            return cls(std_error, half_width)
        return cls(std_error, half_width, weighted, row_weights(workload))

    def kept(self, estimates: Estimates) -> Any:
        """Return for each answer whether it is finite and keeps the promise, bool, shape (answers,)."""
        width = (estimates.upper - estimates.lower) / 2
        known = np.isfinite(estimates.value) & np.isfinite(estimates.std_error) & np.isfinite(width)
        near = (width <= self.half_width * ROUNDING) & (width * self.weights <= self.weighted * ROUNDING)
        return known & (estimates.std_error <= self.std_error * ROUNDING) & near


@dataclass(frozen=True)
class Combined:
    """The best answers to what is linear in a question, from everything recorded.

    Parameters
    ----------
    estimates
        The answers; of quantiles, the cumulative counts that they are read off.
    sources
        Finds the numbers of the releases that they are made of.
    reach, scale
        The most that a draw of noise counts for in an answer, and the least scale of a draw.
    """

    estimates: Estimates
    sources: Callable[[], tuple[int, ...]]
    reach: float
    scale: float

    def details(self, question: Question, history: History, confidence: float) -> dict[str, Any]:
        """Return the answers to a question as what the ledger keeps beside the noisy numbers."""
        measure, found = question.measures[0], self.estimates
        told: dict[str, Any] = {"step": self.reach, "scale": self.scale}
        if measure.kind == "quantile":
            answer = to_linear(measure, question, history.domain, history.noise)
            assert isinstance(answer, QuantileAnswers)
            told["ranks"] = answer.worst(found.std_error).tolist()
            told["reach"] = float((found.upper - found.lower).max(initial=0.0)) / 2
            found = answer.read(found)
        return {"estimates": estimates_to_json(found, confidence, self.sources()) | told}


def combined_details(
    history: History,
    question: Question,
    confidence: float,
    promise: Promise,
    also: Sequence[Item] = (),
    own: Own | None = None,
    *,
    alone: bool = False,
) -> dict[str, Any] | None:
    """Return the best answers to a question as what the ledger keeps beside the noisy numbers.

    Parameters
    ----------
    history, question, confidence, promise, also, own, alone
        As for `combined`.

    Returns
    -------
    None where no answer keeps the promise: that is a matter of variances, never of what was measured.
    """
    found = combined(history, question, confidence, promise, also, own, alone=alone)
    return None if found is None else found.details(question, history, confidence)


def combined(
    history: History,
    question: Question,
    confidence: float,
    promise: Promise,
    also: Sequence[Item] = (),
    own: Own | None = None,
    *,
    alone: bool = False,
    asked: OverAll | None = None,
) -> Combined | None:
    """Return the best answers to what is linear in a question; of its quantiles of one column, the same for all.

    Parameters
    ----------
    history
        Everything recorded.
    question
        One linear measure.
    confidence
        Probability that an interval holds the exact answer.
    promise
        What was said of the answers.
    also
        What was just measured.
    own
        Gives the answers from what was just measured alone, where it gives any.
    alone
        Whether the promise rests on these: they are kept where their interval is narrower, which is known without
        looking at them. Single draws have narrower intervals than sums of equal variance at low confidence.
    asked
        The question over all of that, where it was worked out before.

    Returns
    -------
    None where no answer keeps the promise.
    """
    also = Supposed.of(also)
    asked = asked or marginal_measurement.asked_of(question, history, also)
    best = None if asked is None else _from_all(history, asked, confidence, also)
    if best is None or not promise.kept(best).all():
        # Of one release the exact law is known where that of many together is not.
        closed = marginal_measurement.closed_of(question, history, also)
        best = best if closed is None else _better(best, _from_all(history, closed, confidence, also), promise)
        if best is None or not promise.kept(best).all():
            most = promise.std_error * ROUNDING
            for one in marginal_measurement.each_closed_of(question, history, also, most):
                best = _better(best, _from_all(history, one, confidence, also), promise)
    if own is not None and (alone or best is None or not promise.kept(best).all()):
        single = own()
        if best is not None and single is not None and asked is not None:
            best = _sharper(best, single, history, asked, confidence, also)
        best = _better(best, single, promise)
        independent = all(item.refines is None for item in also)
        if best is not None and single is not None and independent and not promise.kept(best).all():
            best = _better(best, _answer_by_answer(history, question, confidence, also, single), promise)
    if best is None or not promise.kept(best).all():
        return None
    measure = question.measures[0]
    step = float(measure.summand.step) if measure.kind == "sum" else 1.0
    reach = step if asked is None else asked.step * asked.reach
    sources = (lambda: also.releases) if asked is None else asked.sources
    return Combined(best, sources, reach, marginal_measurement.least_scale(history, also))


def exact_half_width(history: History, asked: marginal_measurement.LinearTarget, confidence: float) -> float:
    """Return the half-width of the worst answer from what is known, from the exact law of its noise; inf for many."""
    widths = exact_half_widths(history, asked, confidence)
    return math.inf if widths is None else float(widths.max(initial=0.0))


def exact_half_widths(history: History, asked: marginal_measurement.LinearTarget, confidence: float) -> Floats | None:
    """Return the half-width of every answer from what is known, from the exact law of its noise; None for many."""
    # In closed form variances are certain, and answers, which nobody asks for here, take as long as all else.
    variances = asked.variances if isinstance(asked, InClosedForm) else asked.estimates()[1]
    if np.unique(asked.alike).size > MOST_EXACT or not np.isfinite(variances).all():
        return None
    return widths_of(history, asked, np.sqrt(variances) * asked.step, confidence)


def linear_of(answer: Answers) -> LinearAnswers | None:
    """Return the linear answers that a measure rests on, if it does."""
    if isinstance(answer, QuantileAnswers):
        return answer.ranks
    return answer if isinstance(answer, LinearAnswers) else None


def _from_all(
    history: History,
    asked: OverAll,
    confidence: float,
    also: Sequence[Item],
) -> Estimates:
    """Return the best answers from all that a block knows, infinitely uncertain where it knows nothing.

    Of what was recorded they are kept: a plan foretells what a free answer shows.
    """
    latest = history.latest_answers
    if not also and latest is not None and latest[0] is asked and latest[1] == confidence:
        kept: Estimates = latest[2]
        return kept
    values, variances = asked.estimates()
    std_errors = np.sqrt(variances) * asked.step
    widths = widths_of(history, asked, std_errors, confidence, also)
    found = written(values * asked.step, std_errors, widths)
    if not also:
        history.latest_answers = asked, confidence, found
    return found


def _answer_by_answer(
    history: History, question: Question, confidence: float, also: Sequence[Item], own: Estimates
) -> Estimates | None:
    """Return what was known before, and what was just measured independently of that, each answer by itself."""
    asked = marginal_measurement.asked_of(question, history)
    if asked is None:
        return None
    values, variances = asked.estimates()
    known = np.isfinite(variances)
    before = np.where(known, variances, 1.0) * asked.step**2
    share = np.where(known, own.std_error**2 / np.maximum(own.std_error**2 + before, 1e-300), 0.0)
    std_errors = own.std_error * np.sqrt(1 - share)
    mixed = np.where(known, values * asked.step, 0.0) * share + own.value * (1 - share)
    least = marginal_measurement.least_scale(history, also)
    bound = history.law.farthest(std_errors, confidence, asked.step * asked.reach, least)
    widths = np.where(known, bound, (own.upper - own.lower) / 2)
    return written(mixed, std_errors, widths)


def _sharper(
    best: Estimates,
    own: Estimates,
    history: History,
    asked: OverAll,
    confidence: float,
    also: Sequence[Item],
) -> Estimates:
    """Return the best answers with exact intervals where a bound is wider than that of a less accurate answer."""
    width, std_error = best.upper - best.lower, np.where(np.isfinite(best.std_error), best.std_error, np.inf)
    wide = np.flatnonzero((own.upper - own.lower < width * NARROWER) & (own.std_error > std_error * ROUNDING))
    if history.law.stable or not 0 < wide.size <= MOST_SHARPENED or asked.count != width.size:
        return best
    exact = width / 2
    for rows in np.array_split(wide, -(-wide.size // MOST_EXACT)):
        found = draws_of(asked, rows, history, also)
        if found is None:
            return best
        exact[rows] = np.minimum(exact[rows], half_widths(*found, history.law.name, confidence) * asked.step)
    return written(best.value, best.std_error, exact)


def _better(best: Estimates | None, other: Estimates | None, promise: Promise) -> Estimates | None:
    """Return of two estimates of each answer the one that keeps the promise; if both do, the one of less reach."""
    if best is None or other is None:
        return other if best is None else best
    keeps, other_keeps = promise.kept(best), promise.kept(other)
    width = np.where(np.isfinite(best.std_error), best.upper - best.lower, np.inf)
    narrower = other.upper - other.lower < width * NARROWER
    # Where both are as good as was said, a less accurate one is not preferred because the law of its noise is known.
    no_worse = other.std_error <= np.where(np.isfinite(best.std_error), best.std_error, np.inf) * ROUNDING
    chosen = np.where(keeps, other_keeps & narrower & no_worse, other_keeps | narrower)
    return Estimates(
        np.where(chosen, other.value, best.value),
        np.where(chosen, other.std_error, best.std_error),
        np.where(chosen, other.lower, best.lower),
        np.where(chosen, other.upper, best.upper),
    )


def widths_of(
    history: History,
    asked: OverAll,
    std_errors: Floats,
    confidence: float,
    also: Sequence[Item] = (),
) -> Floats:
    """Return half-widths: from the exact law of the combined noise where it has few enough terms, else a bound."""
    bound = history.law.farthest(std_errors, confidence, asked.step * asked.reach, asked.least_scale)
    known = np.flatnonzero(np.isfinite(std_errors))
    rows, which = np.unique(asked.alike[known], return_inverse=True)
    if history.law.stable or rows.size > MOST_EXACT or not known.size:
        return bound
    found = draws_of(asked, rows, history, also)
    if found is not None:
        widths = half_widths(*found, history.law.name, confidence)
        bound[known] = np.minimum(bound[known], widths[which] * asked.step)
    return bound


def draws_of(
    asked: OverAll,
    rows: NDArray[np.intp],
    history: History,
    also: Sequence[Item],
) -> tuple[Floats, list[Fraction]] | None:
    """Return what each draw of noise counts for in some answers, and its scale; None where there are too many terms.

    Parameters
    ----------
    asked, rows
        What is known, and which answers.
    history, also
        What was recorded, and what comes beside it.

    Returns
    -------
    Shape (rows, draws), and one scale a draw.
    """
    found = asked.draws(rows, MOST_DRAWS)
    if found is None or found[0].size > MOST_WEIGHTS:
        return None
    weights, keys = found
    scales = Supposed.of(also).scale_of
    return weights, [scales[key] if key in scales else history.items[key].scale for key in keys]

"""Answering from what is known and measuring what is missing: the proposals among which a plan takes the cheapest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.answers import Floats, LinearAnswers
from dpnotebook.planner.history import History
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.items import Item
from dpnotebook.planner.joint_measurement import bound_precision, joint_precision, known_of
from dpnotebook.planner.least_squares_state import FEW, Estimate, LeastSquaresState, Queries
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, added_precision, more_precise
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.to_linear import answer_axes, asked_workload
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import Noise
from dpnotebook.privacy.tails import farthest, spread_within
from dpnotebook.query.measurement import Axis
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.workload.terms import row_weights

LEAST_SCALE = 0.25  # of draws: finer noise leaves next to no privacy
ENOUGH = 1e200  # variances above it are all the same
MOST_TOGETHER = 600  # counts that are planned as one
LINEAR = ("count", "sum", "cdf", "quantile", "workload")
NAMED = 0.01  # a release that counts for less, relative to the one that counts most, is not named
SAME = 1 + 1e-9  # ratio of variances computed in two orders, which differ by rounding only
MOST_SOURCES = 16  # answers whose sources are each looked for; of more, those of a mixture of all
SLACK = 1 + 1e-6  # by which a variance may pass its target: rounding, and the grid of Gaussian noise


@dataclass(frozen=True, eq=False)
class LinearTarget:
    """A question as linear queries over the atoms of a block, in integers of its summand.

    Parameters
    ----------
    block
        Least squares over what was measured.
    queries
        What is asked.
    known
        What the block knows of it.
    step
        What one integer is worth in the answer's units.
    least_scale
        The least scale of noise that anything was measured with.
    """

    block: LeastSquaresState
    queries: Queries
    known: Estimate
    step: float
    least_scale: float

    @property
    def told(self) -> bool:
        """Whether anything that was measured bears on the answers."""
        return bool(self.block.sources) and bool(
            np.isfinite(self.known.variances).any() or self.block.touches(self.queries)
        )


@dataclass(frozen=True, eq=False)
class Proposal:
    """One way to reach the accuracy.

    Parameters
    ----------
    items
        What is measured; empty where past answers are enough.
    variances
        A bound on the variance of every answer afterwards, in squared integers of the summand; shape (answers,).
    half_width
        Half-width of the interval of the worst answer where that is known better than from its variance; else 0.
    sparing
        Whether it leaves so much to spare for later questions that it may be preferred to what is cheaper now.
    single
        Whether each answer by itself is as accurate from what was known of it and what is measured of it.
    """

    items: tuple[Planned, ...]
    variances: Floats
    half_width: float = 0.0
    sparing: bool = False
    single: bool = False


def asked_of(question: Question, history: History, also: Sequence[Item] = ()) -> LinearTarget | None:
    """Return a question as queries over atoms, with what is known about them; None where it has no such form.

    Parameters
    ----------
    question, history
        What is asked, and what was recorded.
    also
        What is to be recorded next, or is supposed to be.
    """
    measure = question.measures[0]
    if measure.kind not in LINEAR or len(question.measures) != 1:
        return None
    axes = answer_axes(measure, question, history.domain)
    workload = asked_workload(measure, axes)
    part = ProductTerm(axes, question.where, workload, 1.0, np.arange(0))
    block = history.block(part, measure.summand, also)
    queries = None if block is None else block.queries(part)
    if block is None or queries is None:
        return None
    weights = row_weights(workload)
    if not (weights == 1).all():
        queries = Queries(queries.columns / weights[:, None], queries.cells, False)
    step = float(measure.summand.step) if measure.kind == "sum" else 1.0
    least = min([history.least_scale, *(float(item.scale) for item in also)])
    return LinearTarget(block, queries, block.known(queries), step, least)


def target_of(accuracy: Accuracy, step: float, noise: Noise, least: float) -> float:
    """Return the variance that every answer must have, in squared integers, whatever it will be combined from."""
    if accuracy.variance is not None:
        return min(accuracy.variance / step**2, ENOUGH)
    assert accuracy.error is not None
    error = accuracy.error / step
    scale = LEAST_SCALE if noise == "gaussian" else min(max(error / 4, LEAST_SCALE), least)
    spread = spread_within(error, noise, accuracy.confidence, 1.0, scale)
    return min(spread, math.sqrt(ENOUGH)) ** 2


def certain(asked: LinearTarget) -> LinearTarget:
    """Return the same question with what is known of it by the certificates of what would be shown.

    What is known is screened in passing while ways to answer are compared; what a plan promises is looked at whole.
    """
    if not asked.block.sources or asked.queries.columns.shape[1] > FEW:  # of many, what is shown is screened as well
        return asked
    variances = asked.block.estimates(asked.queries)[1]
    # Computed in another order: what differs by rounding only need not be planned anew.
    same = variances <= asked.known.variances * SAME
    return asked if same.all() else replace(asked, known=replace(asked.known, variances=variances))


def is_known(asked: LinearTarget, target: float) -> bool:
    """Return whether past answers are as accurate as the target variance."""
    return bool((asked.known.variances <= target * SLACK).all())


def direct(asked: LinearTarget, answers: LinearAnswers, target: float, pricing: Pricing) -> Proposal:
    """Return how to measure the question's own strategy just as precisely as is missing.

    To what is known with variance v_B an independent measurement of precision 1/v - 1/v_B must be added.
    """
    factors = (answers.factors * answers.units**2) / answers.step**2
    before = asked.known.variances
    with np.errstate(divide="ignore"):  # a query that counts nothing is known exactly
        precision = bound_precision(before, factors, np.full(before.size, target))
    planned = more_precise(answers.measurement, precision, pricing, answers.strategy)
    gained = added_precision(planned, pricing.accountant.noise)
    return Proposal((planned,), combined(before, factors / gained), single=True)


def together(asked: LinearTarget, answers: LinearAnswers, target: float, pricing: Pricing) -> Proposal | None:
    """Return how to measure disjoint counts as one: what is known of their sums helps, and not all need measuring.

    None where the question is not of that form, or nothing is known of the counts together.
    """
    queries = asked.queries
    if not queries.bins or not 2 <= queries.count <= MOST_TOGETHER or not answers.direct:
        return None
    known = known_of(asked.block, queries)
    if known is None:
        return None
    wanted = np.full(queries.count, target)
    precision, measured = joint_precision(known[0], wanted, known[1])
    if precision <= 0:
        return None
    measurement = answers.measurement
    if not measured.all():
        # Counts outside of what is needed are noise alone, and cost nothing.
        chosen = cells_predicate(measurement.axes, measured, pricing.table.domain)
        measurement = replace(measurement, where=measurement.where & chosen)
    planned = more_precise(measurement, precision, pricing, answers.strategy if measured.all() else None)
    variances = np.minimum(target, asked.known.variances)
    return Proposal((planned,), variances)


def cells_predicate(axes: Sequence[Axis], chosen: NDArray[np.bool_], domain: Domain) -> Predicate:
    """Return the predicate of some cells of a histogram, shape (cells,), in C order of one or more axes."""
    *others, last = axes
    lines = chosen.reshape(-1, last.size)
    found: Predicate | None = None
    alike = {line.tobytes(): line for line in lines[lines.any(axis=1)]}
    for line in alike.values():  # cells along the last axis that are alike share a box
        mask = np.zeros(domain[last.attribute].size, dtype=bool)
        mask[np.asarray(last.levels)[line]] = True
        box = Predicate.box(domain, {last.attribute: mask})
        if others:
            box &= cells_predicate(others, (lines == line).all(axis=1), domain)
        found = box if found is None else found | box
    return ~Predicate.everything(domain) if found is None else found


def combined(before: Floats, measured: Floats) -> Floats:
    """Return a bound on the variances of answers that are known and measured independently, shape (answers,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 / before + 1 / measured))


def half_width(
    asked: LinearTarget, std_error: float, accuracy: Accuracy, noise: Noise, items: Sequence[Planned] = ()
) -> float:
    """Return how far the answer of this standard error, in its own units, can reach when `items` are measured too."""
    scale = min([asked.least_scale, *(float(item.scale) for item in items)])
    return farthest(std_error, noise, accuracy.confidence, asked.step, scale)


def sources_of(asked: LinearTarget, limit: int = MOST_SOURCES) -> tuple[int, ...]:
    """Return the numbers of the releases that the best answers use, ascending: of many, of their mixture."""
    queries, known = asked.queries, np.isfinite(asked.known.variances)
    columns = queries.columns[known]
    if not columns.shape[0]:
        return ()
    if columns.shape[0] > limit:
        columns = (MIDDLE + np.cos(np.arange(columns.shape[0]) * math.sqrt(ANGLES[0])))[None, :] @ columns
    found: set[int] = set()
    rows = asked.block.rows(replace(queries, columns=columns, bins=False))
    for z in rows @ asked.block.information.inverse:
        sizes: dict[int, float] = {}
        for source, weights in asked.block.weights(z):
            largest = float(np.abs(weights).max(initial=0))
            for (number, _), share in source.shares.items():
                sizes[number] = max(sizes.get(number, 0.0), largest * share)
        least = NAMED * max(sizes.values(), default=0.0)
        found.update(number for number, size in sizes.items() if size > least and number)
    return tuple(sorted(found))

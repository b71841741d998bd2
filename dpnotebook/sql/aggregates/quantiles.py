"""Quantiles read off noisy cumulative counts of bins."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.accountant import Noise
from dpnotebook.privacy.noise import integer_variance
from dpnotebook.privacy.tails import MOST_CONFIDENCE, kappa
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.strategy import Strategy

Floats = NDArray[np.float64]

NOTICED = 2.5  # standard errors: so many values beyond it make a least or greatest value stand out
LEAST_ERROR = 1e-3  # of the largest error: counts known better than that weigh as if they were not


def quantiles(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64], confidence: float) -> Estimates:
    """Return quantiles with intervals, shape (groups,), or (groups, fractions) where an array is asked for.

    The cumulative count of a quantile p of N values passes p N. Near the ends, where p N is less than noise can tell
    from nothing, it is taken to pass what noise can tell: the least and the greatest value are those with about that
    many values beyond them. Intervals reach to the ends of the bins they touch, and to the bound where nothing says
    otherwise.

    Parameters
    ----------
    measuring, part
        What was measured, and the aggregate.
    noisy
        Noisy numbers of all blocks, shape (groups, measured).
    confidence
        Probability with which an interval holds.
    """
    block = measuring.blocks[part.blocks[0]]
    strategy = block.combine
    assert isinstance(strategy, Strategy)
    weights = cumulative_weights(strategy)
    numbers = noisy[:, measuring.place(part.blocks[0])].astype(float)
    counts = numbers @ weights.T
    spread = math.sqrt(integer_variance(measuring.noise, block.scale))
    # Noise may pass a band in more than one of many bins, so bands fail half as often as the interval may; simulation
    # finds 92% for bands of 95% where all values are at the far end of the range, and never less than 95% for these.
    reach = kappa(min((1 + confidence) / 2, MOST_CONFIDENCE), measuring.noise)
    below, above = _levels(part)
    columns = []
    for fraction in part.fractions:
        errors = spread * excess_errors(strategy, fraction)
        excess = _rising(counts - fraction * counts[:, -1:], errors)
        value, std_error = _crossings(excess, np.maximum(counts[:, -1], 0.0), errors, fraction, below, above)
        lower, upper = below[_first(excess + reach * errors)], above[_first(excess - reach * errors)]
        columns.append(np.stack([value.clip(lower, upper), std_error, lower, upper]))
    stacked = np.stack(columns, axis=-1)  # (value, error, lower, upper) by groups by fractions
    if not part.array:
        stacked = stacked[..., 0]
    return Estimates(*stacked)


@lru_cache(maxsize=16)
def cumulative_weights(strategy: Strategy) -> Floats:
    """Return how the cumulative counts follow from what is measured, shape (bins, measured)."""
    return np.asarray(strategy.answer_weights(np.arange(strategy.workload.shape[0])))


@lru_cache(maxsize=256)
def excess_errors(strategy: Strategy, fraction: float) -> Floats:
    """Return the errors of cumulative counts less a fraction of all, for noise of variance 1, shape (bins,)."""
    weights = cumulative_weights(strategy)
    return np.asarray(np.linalg.norm(weights - fraction * weights[-1], axis=1))


def rank_error(noise: Noise, scale: object, strategy: Strategy) -> float:
    """Return the standard error, in values, of the worst rank: that of a cumulative count."""
    return math.sqrt(integer_variance(noise, scale) * float(np.max(strategy.error_factors())))


def _levels(part: AggregateInput) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each bin."""
    edges = np.array(part.edges)
    if part.points:
        return edges[:-1], edges[:-1]
    return edges[:-1], edges[1:]


def _rising(counts: Floats, errors: Floats) -> Floats:
    """Return the nearest counts that never fall, what is known better weighing more, shape (groups, bins)."""
    from scipy.optimize import isotonic_regression

    weights = np.maximum(errors / (errors.max() or 1.0), LEAST_ERROR) ** -2.0
    return np.array([isotonic_regression(group, weights=weights).x for group in counts]).reshape(counts.shape)


def _crossings(
    excess: Floats, total: Floats, errors: Floats, fraction: float, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return where counts pass a fraction of all, and half of how far that moves within one standard error."""
    # What noise can tell from nothing.
    least = np.minimum(NOTICED * np.median(errors), total / 2)
    rank = (fraction * total).clip(least, total - least)
    target = rank - fraction * total
    early, value, late = (
        _crossing(excess + side * errors - target[:, None], -rank, below, above) for side in (1, 0, -1)
    )
    return value, (late - early) / 2


def _first(excess: Floats) -> NDArray[np.int64]:
    """Return the first bin where it is not below zero, or the last one, shape (groups,)."""
    reached = excess >= 0
    return np.where(reached.any(axis=1), reached.argmax(axis=1), excess.shape[1] - 1)


def _crossing(excess: Floats, start: Floats, below: Floats, above: Floats) -> Floats:
    """Return where an excess that is `start` before the first bin reaches zero, values being spread evenly in bins."""
    level, row = _first(excess), np.arange(len(excess))
    before = np.where(level > 0, excess[row, np.maximum(level - 1, 0)], np.minimum(excess[:, 0], start))
    rise = excess[row, level] - before
    share = np.where(rise > 0, -before / np.where(rise > 0, rise, 1.0), 1.0).clip(0.0, 1.0)
    return np.asarray(below[level] + (above[level] - below[level]) * share)

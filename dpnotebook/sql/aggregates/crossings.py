"""Where noisy cumulative counts of bins pass a fraction of all of them: what quantiles are read off."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.noise import MOST_CONFIDENCE
from dpnotebook.privacy.tails import kappa
from dpnotebook.strategy import Strategy

Floats = NDArray[np.float64]

NOTICED = 2.5  # standard errors: so many values beyond it make a least or greatest value stand out
TINY = 1e-300
LEAST_ERROR = 1e-3  # of the largest error: counts known better than that weigh as if they were not


@lru_cache(maxsize=16)
def cumulative_weights(strategy: Strategy) -> Floats:
    """Return how the cumulative counts follow from what is measured, shape (bins, measured)."""
    return np.asarray(strategy.answer_weights(np.arange(strategy.workload.shape[0])))


@lru_cache(maxsize=256)
def excess_errors(strategy: Strategy, fraction: float) -> Floats:
    """Return the errors of cumulative counts less a fraction of all, for noise of variance 1, shape (bins,)."""
    weights = cumulative_weights(strategy)
    return np.asarray(np.linalg.norm(weights - fraction * weights[-1], axis=1))


def rising(counts: Floats, errors: Floats) -> Floats:
    """Return the nearest counts that never fall, what is known better weighing more, shape (groups, bins)."""
    from scipy.optimize import isotonic_regression

    weights = np.maximum(errors / (errors.max() or 1.0), LEAST_ERROR) ** -2.0
    return np.array([isotonic_regression(group, weights=weights).x for group in counts]).reshape(counts.shape)


def rank_read(total: Floats, errors: Floats, fraction: float) -> Floats:
    """Return of how many values a quantile is the last: a fraction of all, or what noise can tell from nothing."""
    least = np.minimum(NOTICED * np.median(errors), total / 2)
    return np.asarray((fraction * total).clip(least, total - least))


def band(confidence: float, noise: Noise) -> float:
    """Return how many standard errors of counts the band is wide in which they cross, on either side.

    Noise may pass a band in more than one of many bins, most easily in empty ones before the least value, which counts
    that rise leave too high: so bands fail a quarter as often as the interval may. Simulation finds 93% for bands of
    97.5% where all values are in the middle of the range, and never less than 95% for these.
    """
    return kappa(min((3 + confidence) / 4, MOST_CONFIDENCE), noise)


def crossed_between(
    excess: Floats, errors: Floats, reach: float, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return between which ends of bins counts cross, so many standard errors from what they are."""
    return below[_first(excess + reach * errors)], above[_first(excess - reach * errors)]


def _first(excess: Floats) -> NDArray[np.int64]:
    """Return the first bin where it is not below zero, or the last one, shape (groups,)."""
    reached = excess >= 0
    return np.asarray(np.where(reached.any(axis=1), reached.argmax(axis=1), excess.shape[1] - 1))


def crossed_at(excess: Floats, start: Floats, below: Floats, above: Floats) -> Floats:
    """Return where an excess that is `start` before the first bin reaches zero, values being spread evenly in bins."""
    level, row = _first(excess), np.arange(len(excess))
    before = np.where(level > 0, excess[row, np.maximum(level - 1, 0)], np.minimum(excess[:, 0], start))
    rise = excess[row, level] - before
    share = np.where(rise > 0, -before / np.where(rise > 0, rise, 1.0), 1.0).clip(0.0, 1.0)
    return np.asarray(below[level] + (above[level] - below[level]) * share)

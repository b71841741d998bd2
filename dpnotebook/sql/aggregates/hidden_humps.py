"""Units that lie together behind the last bin that noise does not hide, apart from how the tail thins out.

No law of a tail tells of them: of incomes whose logarithms are asked for, one of twenty may be next to nothing; of
answers one of fifty may be a code. Each bin of them is hidden, but several side by side say more than one: all windows
of some numbers of bins are looked at, and what is there beside the tail is weighed against noise that is as much by
chance. Far from what is found they decide about an answer by noise alone, so that they are taken to be the rarer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WINDOWS = (1, 2, 4, 8)  # bins side by side, in which they may be
RARE = 500.0  # times as likely as somebody nobody is in a window near what is found, before its count is seen
FAR = 2.0  # power of the distance, in widths of all that is found, by which they are rarer
SURELY_MANY = 50.0  # the logarithm of how much more likely counts make somebody, from which on nobody is no case
ROUGH = 0.1  # of a count: by so much no law of a tail is meant to fit
SELDOM = 1e-3  # of all cases: those that are rarer are left out
# Three values of equal or nearly equal weight with the mean and the variance of a normal distribution, and their parts.
THREE_PLACES, THREE_PARTS = (-math.sqrt(5 / 3), 0.0, math.sqrt(5 / 3)), (0.3, 0.4, 0.3)


class Humps(NamedTuple):
    """Cases of who is together behind the last bin that is found, the first of which is that nobody is.

    Parameters
    ----------
    weights
        How likely each case is, shape (cases,).
    units
        How many units are in each bin, shape (cases, bins).
    """

    weights: Floats
    units: Floats

    def average(self) -> Floats:
        """Return how many units are in each bin on average."""
        return np.asarray(self.weights @ self.units)


def hidden_humps(noisy: Floats, expected: Floats, scale: float, away: Floats, *, stable: bool = True) -> Humps:
    """Return who may be together in the bins behind the last that is found.

    Parameters
    ----------
    noisy, expected
        Noisy number of units in each of these bins, and how many of them the tail has, shape (bins,).
    scale
        Standard deviation of the noise on each.
    away
        How far each bin is from the found ones, in widths of all these, shape (bins,).
    stable
        Whether the noise is Gaussian; sums of Laplace noise are far out more often.
    """
    weights, units = [np.ones(1)], [np.zeros((1, noisy.size))]
    bins, sums = np.arange(noisy.size), np.cumsum([np.zeros(2), *zip(noisy - expected, expected, strict=True)], axis=0)
    for width in WINDOWS[: np.searchsorted(WINDOWS, noisy.size, side="right")]:
        told, by_tail = (sums[width:] - sums[:-width]).T
        error = np.hypot(scale * math.sqrt(width), ROUGH * by_tail)
        prior = (1.0 + away[: told.size]) ** -FAR / RARE
        likely = prior * np.exp(np.minimum(_unlikely(told / error, width, stable), SURELY_MANY)) * (told > 0.0)
        firsts = np.flatnonzero(likely > SELDOM)
        there = np.maximum(told[firsts] + np.multiply.outer(THREE_PLACES, error[firsts]), 0.0) / width
        within = (bins >= firsts[:, None]) & (bins < firsts[:, None] + width)
        weights.append(np.multiply.outer(THREE_PARTS, likely[firsts]).ravel())
        units.append((there[..., None] * within).reshape(-1, noisy.size))
    likely = np.concatenate(weights)
    return Humps(likely / likely.sum(), np.concatenate(units))


def _unlikely(away: Floats, draws: int, stable: bool) -> Floats:
    """Return minus the logarithm of what hardly is more likely than a sum of draws so many standard deviations away.

    Source: Chernoff, A measure of asymptotic efficiency (1952).
    """
    if stable:
        return np.asarray(away**2 / 2)
    each = np.abs(away) / math.sqrt(draws)
    slope = 2.0 * each / (1.0 + np.sqrt(1.0 + 2.0 * each**2))
    return np.asarray(draws * (slope * each + np.log1p(-(slope**2) / 2)))

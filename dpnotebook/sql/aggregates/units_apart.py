"""How many units may lie apart from all others, behind the last bin in which noise does not hide them.

A tail falls as laws do, and `hidden_tail` reads it off the bins before it. But of a few units that have far more than
all others, these bins say nothing: one patient of a hundred who comes every week, the accounts of firms among those of
people. Noise hides such units where they are spread over many bins, of which each has few. So units may be in any run
of bins, as many as its noisy count suits; before that count is seen, they are as likely there as `SEEN` says, less
likely the farther away the run is, and as likely to be ten as a hundred.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEEN = 0.05  # of all tables, in so many some do: more, and they were found in noise too often
REACH = 16  # bins in which they are looked for, behind the last that is found
WIDTHS = (1, 2, 4, 8)  # bins in a run
FALL = 0.25  # of a factor of two, by which a run is less likely with every bin that it is farther away
MOST = 0.1  # of all units, as many lie apart at most
AMOUNTS = 2  # numbers of units that are tried, in a factor of two
EVEN = 0.5  # probability that they do, from which on they are taken to be there
NOTHING = 1e-300  # squared: errors where there is no noise
SELDOM = 0.005  # of all tables, in so many more is taken than what is told as the most


class UnitsApart(NamedTuple):
    """Units that may lie apart from the others.

    Parameters
    ----------
    likely
        With what probability there are any.
    units
        How many each bin has if there are, on average, shape (bins,).
    runs
        The runs of bins they may be in: which part of them each bin has, shape (runs, bins).
    amounts
        How many they may be, shape (amounts,).
    cases
        Probability of each, shape (runs, amounts); together they are `likely`.
    """

    likely: float
    units: Floats
    runs: Floats
    amounts: Floats
    cases: Floats

    def at_most(self, each: Floats) -> float:
        """Return what they take together, but for `SELDOM`, where one unit takes so much by bin, shape (bins,)."""
        taken = (self.runs @ each)[:, None] * self.amounts
        order = np.argsort(taken, axis=None)[::-1]
        passed = np.cumsum(self.cases.ravel()[order])
        place = int(np.searchsorted(passed, SELDOM))
        return float(taken.ravel()[order[place]]) if place < order.size else 0.0


def expected_errors(usual: Floats, apart: Floats, likely: float) -> Floats:
    """Return the logarithms of errors that are expected.

    Parameters
    ----------
    usual, apart
        Squared errors where no units lie apart from the others, and where some do.
    likely
        With what probability some do.
    """
    usual, apart = (np.log(np.maximum(squared, NOTHING)) for squared in (usual, apart))
    return np.asarray(((1.0 - likely) * usual + likely * apart) / 2)


def units_apart(
    noisy: Floats, scale: float, units: float, before: int, behind: int = 0, *, stable: bool = True
) -> UnitsApart:
    """Return how many units may be in bins where noise hides them.

    Parameters
    ----------
    noisy
        Noisy number of units in each of these bins, less those of the tail that are there anyway, shape (bins,).
    scale
        Standard deviation of the noise on each.
    units
        How many there are in all.
    before, behind
        How many bins there are before and behind these, in which nobody of them is.
    stable
        Whether sums of the noise have its own law, the Gaussian; far draws of other noise, Laplace, are less rare.
    """
    runs, expected = _runs(noisy.size)
    amounts = 2.0 ** (np.arange(max(AMOUNTS * math.log2(max(MOST * units, 1.0)), 1.0)) / AMOUNTS)
    wide = (runs > 0).sum(axis=1)
    told, spread = (wide * (runs @ noisy))[:, None], (scale * np.sqrt(wide))[:, None]
    bend = math.inf if stable else np.sqrt(2.0 * wide)[:, None]  # from there on as the density of one draw falls
    # How many times as likely a count is where so many units are in the run as where nobody is.
    ratios = np.exp(np.clip(_unlikely(told / spread, bend) - _unlikely((told - amounts) / spread, bend), None, 700.0))
    cases = SEEN * expected[:, None] * ratios / amounts.size
    cases /= 1.0 - SEEN + float(cases.sum())
    likely = float(cases.sum())
    placed = np.pad(runs, ((0, 0), (before, behind)))
    return UnitsApart(likely, (cases @ amounts) @ placed / max(likely, 1e-300), placed, amounts, cases)


def _unlikely(away: Floats, bend: Floats | float) -> Floats:
    """Return minus the logarithm of the density of noise so many standard deviations away, nearly, but for a constant.

    A sum of Laplace noise is nearly Gaussian in its middle, and falls as an exponential outside.
    """
    inside = np.minimum(np.abs(away), bend)
    return np.asarray(inside * (np.abs(away) - inside / 2))


@lru_cache(maxsize=64)
def _runs(bins: int) -> tuple[Floats, Floats]:
    """Return which part of its units each bin of a run has, shape (runs, bins), and how likely each run is before."""
    runs, likely = [], []
    for width in WIDTHS:
        for start in range(bins - width + 1):
            run = np.zeros(bins)
            run[start : start + width] = 1.0 / width
            runs.append(run)
            likely.append(2.0 ** (-FALL * (start + width / 2)))
    return np.array(runs).reshape(len(runs), bins), np.array(likely) / (sum(likely) or 1.0)

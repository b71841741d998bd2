"""Bounds that nobody wrote: read off a noisy histogram of orders of magnitude.

Every unit is counted once, in the bin of what it would add, so that the histogram has sensitivity 1. A bin counts where
noise alone would hardly have filled it.

Source: Wilson et al., section 4.2.5 (approximate bounds), with signed powers of two as bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.accountant import Accountant, Noise
from dpnotebook.privacy.noise import draw_integers
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.partitions import log_tail
from dpnotebook.sql.aggregates.shares import Shares, found_with, needs_bounds
from dpnotebook.sql.statement import Aggregate, PrivateSelect

Bounds = tuple[Fraction, Fraction]

LEAST, MOST = -40, 63  # magnitudes are told apart from 2^-40 up to 2^63; smaller ones are zero, larger ones the largest

# How likely noise may fill an empty bin, of all bins; where no bin passes, the next is tried.
LEVELS = (1e-9, 1e-6, 1e-3, 1e-1)


def magnitude_edges() -> NDArray[np.float64]:
    """Return the edges of the bins: -2^63, ..., -2^-40, 2^-40, ..., 2^63; bins are closed below.

    What lies outside belongs to the first or the last bin.
    """
    powers = 2.0 ** np.arange(LEAST, MOST + 1)
    return np.concatenate([-powers[::-1], powers])


def find_bounds(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    magnitudes: Callable[[Aggregate], ArrayLike],
    draw: Draw = draw_integers,
) -> dict[int, Bounds]:
    """Return the bounds of all aggregates that have none, by their numbers.

    Parameters
    ----------
    select
        Whose bounds they will be.
    shares
        What it costs to find them.
    accountant
        The law of the noise.
    magnitudes
        Gives the exact histogram for an aggregate: units in every bin of `magnitude_edges`, each unit once, shape
        (bins,).
    draw
        Draws noise of a law and a scale.
    """
    noisy: dict[int, tuple[NDArray[np.int64], Fraction]] = {}
    bounds = {}
    for i, aggregate in enumerate(select.aggregates):
        if not needs_bounds(select, i):
            continue
        first = found_with(select, i)
        if first == i:
            exact = np.asarray(magnitudes(aggregate), dtype=np.int64)
            scale = histogram_scale(accountant, shares.auto[i])
            noisy[i] = exact + draw(accountant.noise, scale, exact.size), scale
        bounds[i] = _bounds(select, aggregate, *noisy[first], accountant.noise)
    return bounds


def _bounds(
    select: PrivateSelect, aggregate: Aggregate, noisy: NDArray[np.int64], scale: Fraction, noise: Noise
) -> Bounds:
    """Return bounds that suit what they bound."""
    added, clipped = aggregate.kind in ("count", "sum"), select.contribution.kind == "l2"
    # Averages of whole numbers, and norms, are none.
    integer = (aggregate.integer or aggregate.kind == "count") and aggregate.kind != "average" and not clipped
    lower, upper = found(noisy, scale, noise, integer, around_zero=added)
    if clipped or aggregate.kind == "count":
        lower, upper = Fraction(0), upper if upper > 0 else Fraction(1)
    return lower, upper


def histogram_scale(accountant: Accountant, units: int) -> Fraction:
    """Return the scale of the noise on the histogram for a cost in units."""
    return accountant.scale(units, 1)


def found(noisy: ArrayLike, scale: Fraction, noise: Noise, integer: bool = False, around_zero: bool = False) -> Bounds:
    """Return bounds that hold nearly all of what units would add; never fails, and lower < upper.

    Parameters
    ----------
    noisy
        Noisy number of units in every bin of `magnitude_edges`, shape (bins,).
    scale, noise
        The noise on each.
    integer
        Whether only whole numbers are added.
    around_zero
        Whether the bounds must hold zero, as those of sums: a unit that leaves takes nothing more than its sum along.
    """
    counts, edges = np.asarray(noisy, dtype=float), magnitude_edges()
    if counts.shape != (edges.size - 1,):
        raise ValueError(f"there are {edges.size - 1} bins, not {counts.shape}")
    passing = np.flatnonzero(counts >= _level(counts, scale, noise))
    lower, upper = Fraction(edges[passing[0]]), Fraction(edges[passing[-1] + 1])
    middle = (edges.size - 1) // 2  # the bin of zero
    if passing[0] == middle:
        lower = Fraction(0)
    if passing[-1] == middle:
        upper = Fraction(0)
    if integer:
        # Of a bin 2^k <= x < 2^(k + 1) the largest whole number; below one there is only zero.
        lower, upper = Fraction(math.ceil(lower)), Fraction(math.ceil(upper) - 1 if upper > 1 else math.floor(upper))
    if around_zero:
        lower, upper = min(lower, Fraction(0)), max(upper, Fraction(0))
    if lower >= upper:
        lower, upper = (Fraction(0), Fraction(1)) if upper >= 0 else (upper - 1, upper)
    return lower, upper


def _level(counts: NDArray[np.float64], scale: Fraction, noise: Noise) -> int:
    """Return the first level that some bin passes; in the end the largest count itself."""
    for chance in LEVELS:
        level = _reached(noise, scale, chance / counts.size)
        if counts.max() >= level:
            return level
    return math.floor(counts.max())


def _reached(noise: Noise, scale: Fraction, chance: float) -> int:
    """Return the least count that noise reaches with at most this probability."""
    low, high = 0, 1
    while float(log_tail(noise, scale, high)) > math.log(chance):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(log_tail(noise, scale, middle)) > math.log(chance) else (low, middle)
    return high

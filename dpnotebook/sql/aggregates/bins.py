"""The bins of quantiles, and what is measured of them: cumulative counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpnotebook.privacy.accountant import Noise
from dpnotebook.strategy import Strategy, hierarchical
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Prefix

BINS = 512  # of a range of values; within a bin they are taken to be spread evenly
OPTIMISED = 128  # bins up to which a strategy is optimised, which takes a moment
BRANCHINGS: dict[Noise, tuple[int, ...]] = {"gaussian": (2, 3, 4), "laplace": (8, 12, 15)}  # the best are near these


def bins(
    bounds: tuple[Fraction, Fraction], integer: bool, declared: Sequence[float] | None
) -> tuple[tuple[float, ...], bool]:
    """Return the edges of bins over a range of values, and whether each bin is one whole number.

    Parameters
    ----------
    bounds
        Lower and upper bound of values.
    integer
        Whether values are whole numbers.
    declared
        Edges of the declared levels of the column, increasing; used where they are few enough.
    """
    low, high = float(bounds[0]), float(bounds[1])
    first, last = math.ceil(bounds[0]), math.floor(bounds[1])
    if integer and 0 <= last - first < BINS and -(2**53) < first <= last < 2**53:
        return tuple(float(first + i) for i in range(last - first + 2)), True
    inside = [float(edge) for edge in declared or () if low < edge < high]
    if 0 < len(inside) < BINS:
        return (low, *inside, high), False
    edges = tuple(np.unique(low + (high - low) * (np.arange(BINS + 1) / BINS)).tolist())
    return (edges if len(edges) > 1 else (low, math.nextafter(low, math.inf))), False


@lru_cache(maxsize=64)
def cumulative(count: int, noise: Noise) -> Strategy:
    """Return what is measured of bins in order to know how many values lie below each edge."""
    if count <= OPTIMISED:
        return select_own(Prefix(count), noise=noise, effort="quick")
    trees = (hierarchical(Prefix(count), noise, branching=branching) for branching in BRANCHINGS[noise])
    return min(trees, key=lambda tree: tree.objective)

"""Real weights of measurements made small integers, as near as it takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy.lattice import Subset
from dpnotebook.workload.base import Array

LARGEST_NORM = 2.0**60  # of all measurements: they and their noise stay within 64 bits


def whole_weights(
    real: Array, norm: Callable[[Array], float], error: Callable[[Array], float], enough: float, finer: float
) -> Array:
    """Return small integers proportional to weights, but for what makes little difference.

    Parameters
    ----------
    real
        The weights, above 0, shape (k,).
    norm
        What measurements with such weights add up to in the most heavily counted cell.
    error
        The error with such weights, times their squared sensitivity.
    enough
        The error at which to stop.
    finer
        By which the scale grows until it is reached.

    Raises
    ------
    WorkloadError
        If they do not fit in 64 bits.
    """
    real = real / real.min()
    scale, kept, least = 1.0, np.ones(len(real)), np.inf
    while True:
        weights = np.maximum(1.0, np.rint(scale * real))
        total = norm(weights)
        if total > LARGEST_NORM and np.isfinite(least):
            break
        value = error(weights)
        if value < least:
            kept, least = weights, value
        if least <= enough or total > LARGEST_NORM:
            break
        scale *= finer
    if norm(kept) > 4 * LARGEST_NORM:
        raise WorkloadError("the weights of this strategy do not fit in 64 bits")
    whole = kept.astype(np.int64)
    return np.asarray(whole // np.gcd.reduce(whole))


def weighted_subsets(subsets: Array, weights: Array) -> list[tuple[Subset, int]]:
    """Return subsets, given as rows of truth values, with their weights: the smallest subsets first."""
    pairs = [(tuple(np.flatnonzero(row).tolist()), int(k)) for row, k in zip(subsets, weights, strict=True)]
    return sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))

"""Levels of an attribute that are alike share one index along an axis of an array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def told_apart(labels: Integers, norms: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Split classes of levels until every class has one value of each of some vectors.

    Parameters
    ----------
    labels
        The class of each level, from 0, shape (levels,).
    norms
        Vectors of shape (levels,).

    Returns
    -------
    The class of each level, in the order in which classes first appear, and the level that stands for each class.
    """
    finer = labels
    for norm in norms:
        _, values = np.unique(norm, return_inverse=True)
        finer = finer * (int(values.max(initial=0)) + 1) + values.reshape(-1)
        _, finer = np.unique(finer, return_inverse=True)  # numbers stay small
    _, first, found = np.unique(finer, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[found.reshape(-1)].astype(np.int64), first[order].astype(np.int64)


def same_slices(cells: Integers, axis: int) -> Integers:
    """Return for each index of an axis the first whose slice is the same, shape (length,)."""
    sums = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
    _, firsts, sums = np.unique(sums, return_index=True, return_inverse=True)
    found = firsts[sums.reshape(-1)]  # of each index, the first whose slice adds up to as much
    seen: dict[bytes, int] = {}
    for index in np.flatnonzero(np.bincount(found, minlength=found.size)[found] > 1):
        found[index] = seen.setdefault(np.take(cells, index, axis=axis).tobytes(), int(index))
    return np.asarray(found, dtype=np.int64)


def dearest(norm: Integers, labels: Integers) -> Integers:
    """Return the largest entry of a vector in each class of levels, shape (classes,)."""
    found: Integers = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(found, labels, norm)
    return found

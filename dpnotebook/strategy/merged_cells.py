"""Cells that a workload treats alike, or opposite, merged into one: a smaller problem with the same optimum.

Two cells that every query counts alike may share one column of the strategy. After the total is measured by itself
the same holds for what is left of each query, W (I - z 1') with z uniform, where cells are often opposite: of the
ranges of 32 cells over 64, each counts either cell j or cell j + 32, and 32 signed differences tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.workload.base import Array

ALIKE = 1e-9  # relative difference of Gram entries that is rounding


@dataclass(frozen=True)
class Merged:
    """A workload over fewer cells.

    Parameters
    ----------
    gram
        Gram matrix of the workload over the merged cells, shape (g, g).
    signs
        What one row of each cell adds to each merged cell, shape (g, n): at most one entry of a column is 1 or -1.
    total
        Squared weight of the total, which is measured apart; 0 where it is not.
    """

    gram: Array
    signs: Array
    total: float


def merged(gram: Array) -> list[Merged]:
    """Return smaller forms of the workload with this Gram matrix, if it has any: without the total apart, and with."""
    n = len(gram)
    found = []
    mean = gram.mean(axis=0)
    centred = gram - mean - mean[:, None] + mean.mean()
    for matrix, total in ((gram, 0.0), (centred, float(mean.mean()))):
        signs, cells = _groups(matrix, ALIKE * float(np.diagonal(gram).max()))
        if 0 < len(cells) < n - (total > 0):
            found.append(Merged(matrix[np.ix_(cells, cells)], signs, total))
    return found


def _groups(gram: Array, tolerance: float) -> tuple[Array, list[int]]:
    """Return the signs of each cell in its group, shape (groups, n), and the first cell of each group."""
    n = len(gram)
    diagonal = np.diagonal(gram)
    left = diagonal > tolerance
    signs, cells = [], []
    for cell in range(n):
        if not left[cell]:
            continue
        # |x - y|^2 = 0 or |x + y|^2 = 0 for the columns x and y of the workload.
        alike = left & (diagonal + diagonal[cell] - 2 * gram[cell] <= tolerance)
        opposite = left & (diagonal + diagonal[cell] + 2 * gram[cell] <= tolerance)
        signs.append(alike.astype(np.int64) - opposite)
        cells.append(cell)
        left &= ~(alike | opposite)
    return np.array(signs).reshape(len(cells), n), cells

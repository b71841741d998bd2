"""The inverse of a lower-triangular Toeplitz matrix, which is one too: its coefficients are those of 1 / C(x)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.workload.base import Array
from dpnotebook.workload.toeplitz import Toeplitz, convolved

RESIDUAL = 1e-9  # of C(x) / C(x) - 1: an inverse whose coefficients grow is not found this way
BATCH = 2**22  # entries of rows handled at a time

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ToeplitzInverse:
    """(A'A)^-1 = A^-1 A^-T of a lower-triangular Toeplitz matrix.

    Parameters
    ----------
    coefficients
        Of the inverse of A, shape (n,).
    """

    coefficients: Array

    @property
    def n(self) -> int:
        """Number of cells."""
        return int(self.coefficients.size)

    @property
    def rank(self) -> int:
        """Number of cells: every cell is measured."""
        return self.n

    def apply(self, z: Array) -> Array:
        """Return M z in O(n log n)."""
        return convolved(self.coefficients, self._transposed(z))

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw for runs: the squared sums of A^-1, less the same later where the run does not begin at once.

        Cell u of A^-T w is r(e - 1 - u) - r(s - 1 - u), r the running sums of the coefficients; so a run of L cells has
        r(0)^2 + ... + r(L - 1)^2, and (r(v + L) - r(v))^2 for every v below s.
        """
        running = np.cumsum(self.coefficients)
        squares = np.concatenate(([0.0], np.cumsum(running**2)))
        lengths = ends - starts
        result = squares[lengths]
        order = np.argsort(lengths, kind="stable")
        later = order[starts[order] > 0]
        for same in np.split(later, np.flatnonzero(np.diff(lengths[later])) + 1):
            if same.size:
                length, furthest = int(lengths[same[0]]), int(starts[same].max())
                moved = (running[length : length + furthest] - running[:furthest]) ** 2
                result[same] += np.concatenate(([0.0], np.cumsum(moved)))[starts[same]]
        return np.asarray(result)

    def of_all_runs(self) -> float:
        """Return the sum of w'Mw over all runs of cells.

        A run is the difference of two running counts, q_e - q_s with q_0 = 0 and q_e(u) = r(e - 1 - u); over all pairs
        of n + 1 vectors the squared differences add up to (n + 1) sum |q|^2 - |sum q|^2.
        """
        running = np.cumsum(self.coefficients)
        squares = np.cumsum(running**2).sum()
        return float((self.n + 1) * squares - (np.cumsum(running) ** 2).sum())

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw = |A^-T w|^2 for every row."""
        result = np.empty(len(rows))
        step = max(1, BATCH // self.n)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            result[some] = (self._transposed(rows[some].T[None].astype(float)) ** 2).sum(axis=(0, 1))
        return result

    def _transposed(self, z: Array) -> Array:
        return convolved(self.coefficients, z[:, ::-1])[:, ::-1]


def toeplitz_inverse(operator: Toeplitz) -> ToeplitzInverse | None:
    """Return the inverse by Newton's method for power series; None where rounding would be larger than it may be."""
    c = operator.coefficients.astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.array([1 / c[0]])
        while found.size < c.size:
            n = min(2 * found.size, c.size)
            found = np.pad(found, (0, n - found.size))
            found = 2 * found - _times(found, _times(c[:n], found))
        left = _times(c, found)
        left[0] -= 1
        sized = float(np.abs(c).max() * np.abs(found).max())
        if not np.abs(left).max() <= RESIDUAL or not sized < 1 / RESIDUAL:
            return None
    return ToeplitzInverse(found)


def _times(a: Array, b: Array) -> Array:
    return convolved(a, b[None, :, None])[0, :, 0]

"""Least squares over numbers that are solved for once: by a factor, and by an inverse only where much is asked."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.information import factor_of, generalised_inverse

MANY = 1 / 3  # of the numbers: for more queries an inverse takes no longer

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Factored:
    """What was measured of some numbers, as `solved.refined` looks at it.

    Parameters
    ----------
    matrix
        The information matrix, shape (numbers, numbers).
    every
        Whether each number is likely to have been measured by itself.
    queries
        How many are asked.
    """

    updated = False  # as for `Information`: nothing is ever added

    def __init__(self, matrix: Floats, *, every: bool, queries: int) -> None:
        self.matrix, self._every = matrix, every
        self._few = queries <= MANY * len(matrix)

    def applied(self, rows: Floats) -> Floats:
        """Return rows times a generalised inverse of the matrix."""
        from scipy.linalg.lapack import dpotrs

        if not self._few:
            return np.asarray(rows @ self.inverse)
        factor, kept, scale = self._factor
        found = np.zeros(rows.shape)
        if kept.size:
            solved, _ = dpotrs(factor, (rows[:, kept] / scale).T, lower=1, overwrite_b=1)
            found[:, kept] = solved.T / scale
        return found

    @cached_property
    def inverse(self) -> Floats:
        """A generalised inverse of the matrix."""
        return generalised_inverse(self.matrix, every=self._every)[0]

    @cached_property
    def _factor(self) -> tuple[Floats, Indices, Floats]:
        return factor_of(self.matrix, every=self._every)

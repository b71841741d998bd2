"""How each cell differs from the mean of all: what a marginal tells beyond the smaller marginals below it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.workload.base import Array, Number, Workload, whole


@dataclass(frozen=True, repr=False)
class Centred(Workload):
    """Query i is n times cell i less the total of all n cells: the integer matrix n I - 1 1'.

    Its products over attributes measure the residuals of marginals, which are independent of each other.

    Parameters
    ----------
    n
        Number of cells.

    Examples
    --------
    >>> from dpnotebook.workload import Centred
    >>> Centred(3).dense()
    array([[ 2, -1, -1],
           [-1,  2, -1],
           [-1, -1,  2]])
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole(self.n, "the number of cells"))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries n, number of cells n."""
        return self.n, self.n

    def apply(self, x: Array) -> Array:
        """Return n x less its total, everywhere."""
        return np.asarray(self.n * x - x.sum(axis=1, keepdims=True))

    def apply_transposed(self, y: Array) -> Array:
        """Return the same: the matrix is symmetric."""
        return self.apply(y)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as integers."""
        index = np.asarray(indices, dtype=np.int64)
        out = np.full((index.size, self.n), -1, dtype=np.int64)
        out[np.arange(index.size), index] += self.n
        return out

    def column_norms(self, power: int = 1) -> Array:
        """Return (n - 1)^power + (n - 1) in every cell."""
        return np.full(self.n, self.max_column_norm(power), dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return (n - 1)^power + (n - 1)."""
        return int((self.n - 1) ** power + (self.n - 1))

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        sums = matrix.sum(axis=-1)
        columns = matrix.sum(axis=-2)
        diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
        return np.asarray(self.n**2 * diagonal - self.n * (sums + columns) + sums.sum(axis=-1)[..., None])

    def _gram(self) -> Array:
        return np.asarray(self.n**2 * np.eye(self.n) - float(self.n))

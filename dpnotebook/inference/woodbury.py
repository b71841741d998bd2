"""The inverse of the normal matrix of a p-Identity, by p x p matrices.

Source: HDMM, the proof of Theorem 17 (the Woodbury identity): with A'A = D^2 + X'X, its inverse is D^-2 - Y'Y, where
Y = L^-1 X D^-2 and LL' = I + X D^-2 X'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.workload.base import Array, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.p_identity import PIdentity

Integers = NDArray[np.int64]
BATCH = 2**22  # entries handled at a time


@dataclass(frozen=True)
class WoodburyInverse:
    """(A'A)^-1 of a p-Identity."""

    operator: PIdentity

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.operator.shape[1]

    @property
    def rank(self) -> int:
        """Number of cells: every cell is measured."""
        return self.n

    def apply(self, z: Array) -> Array:
        """Return M z in O(p n)."""
        return np.asarray(self._cells[:, None] * z - np.matmul(self._rows.T, np.matmul(self._rows, z)))

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw from running sums."""
        cells = np.concatenate(([0.0], np.cumsum(self._cells)))
        sums = np.pad(np.cumsum(self._rows, axis=1), ((0, 0), (1, 0)))
        result = cells[ends] - cells[starts]
        step = max(1, BATCH // max(1, len(sums)))
        for first in range(0, len(starts), step):
            some = slice(first, first + step)
            result[some] -= ((sums[:, ends[some]] - sums[:, starts[some]]) ** 2).sum(axis=0)
        return np.asarray(result)

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        floats = rows.astype(float)
        return np.asarray(floats**2 @ self._cells - ((floats @ self._rows.T) ** 2).sum(axis=1))

    def total(self, workload: Workload) -> float:
        """Return the sum of w'Mw over all rows of a workload, from its Gram matrix where it has many."""
        if isinstance(workload, Contiguous) and workload.shape[0] <= self.n:
            return float(self.intervals(*workload.intervals(np.arange(workload.shape[0]))).sum())
        return self.total_of_gram(workload.gram())

    def total_of_gram(self, gram: Array) -> float:
        """Return the sum of w'Mw over all rows of a workload with this Gram matrix."""
        explained = np.vdot(self._rows @ gram, self._rows)
        return float(np.dot(np.diagonal(gram), self._cells) - explained)

    @cached_property
    def _cells(self) -> Array:
        return 1 / self.operator.diagonal.astype(float) ** 2

    @cached_property
    def _rows(self) -> Array:
        rows = self.operator.extra.astype(float)
        scaled = rows * self._cells
        inner = scaled @ rows.T
        inner[np.diag_indices_from(inner)] += 1
        return np.asarray(np.linalg.solve(np.linalg.cholesky(inner), scaled))

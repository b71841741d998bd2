"""The pseudo-inverse of the normal matrix of queries that share no cell: months of days, regions of districts.

Each query S is its own direction, 1_S / sqrt|S|: M = sum over S of 1_S 1_S' / |S|^2, in O(n) at any number of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.dense import UNSUPPORTED
from dpnotebook.inference.structured import runs_as_rows
from dpnotebook.workload.base import Array
from dpnotebook.workload.predicates import Predicates

Integers = NDArray[np.int64]


def are_disjoint(operator: Predicates) -> bool:
    """Return whether no cell is in two queries."""
    return int(operator.column_norms().max()) <= 1


@dataclass(frozen=True)
class DisjointInverse:
    """(A'A)^+ of queries with coefficients 0 and 1, of which no two share a cell."""

    operator: Predicates

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.operator.n

    @property
    def rank(self) -> int:
        """How many of the queries hold a cell."""
        return int(np.count_nonzero(self._sizes))

    def apply(self, z: Array) -> Array:
        """Return M z along the middle axis."""
        return self.operator.apply_transposed(self.operator.apply(z) * self._shares[:, None])

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw for each run: one for each query in it; infinite where it cuts one, or holds cells of none."""
        if not self.operator.single_runs:
            return runs_as_rows(self.of_rows, np.arange(self.n), starts, ends)
        begun, over = (np.bincount(at, minlength=self.n + 1) for at in (self.operator.starts, self.operator.ends))
        inside = np.cumsum(begun - over)[:-1]  # whether a cell is in a query
        before, held = (np.concatenate([[0], np.cumsum(counts)]) for counts in (begun, inside))
        borders = np.append(inside == 0, True) | (begun > 0) | (over > 0)  # where a run cuts no query
        whole = borders[starts] & borders[ends] & (held[ends] - held[starts] == ends - starts)
        return np.where(whole, before[ends] - before[starts], np.inf).astype(float)

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        written = rows.astype(float)[:, :, None]
        sums = self.operator.apply(written)[:, :, 0]
        seen = sums**2 @ np.where(self._sizes > 0, 1.0 / np.maximum(self._sizes, 1), 0.0)
        size = (written[:, :, 0] ** 2).sum(axis=1)
        return np.where(size - seen > UNSUPPORTED * size, np.inf, sums**2 @ self._shares)

    @cached_property
    def _sizes(self) -> Integers:
        """How many cells each query has."""
        runs = np.concatenate([[0], np.cumsum(self.operator.ends - self.operator.starts)])
        return np.diff(runs[self.operator.offsets])

    @cached_property
    def _shares(self) -> Array:
        """1 / |S|^2 for each query; 0 for those that hold no cell."""
        return np.where(self._sizes > 0, 1.0 / np.maximum(self._sizes, 1.0) ** 2, 0.0)

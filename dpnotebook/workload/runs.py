"""One query for each of some runs of cells, wherever they lie: what other workloads of runs are turned into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous, Integers


@dataclass(frozen=True, repr=False, eq=False)
class Runs(Contiguous):
    """For each run [start, end) of cells the query that counts them.

    Parameters
    ----------
    n
        Number of cells.
    starts, ends
        Of each run, shape (queries,).

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotebook.workload.runs import Runs
    >>> Runs(4, np.array([0, 1]), np.array([2, 4])).rows([0, 1])
    array([[1, 1, 0, 0],
           [0, 1, 1, 1]])
    """

    starts: Integers
    ends: Integers

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.starts.size, self.n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Runs):
            return NotImplemented
        same = self.n == other.n and np.array_equal(self.starts, other.starts)
        return same and np.array_equal(self.ends, other.ends)

    def __hash__(self) -> int:
        return hash((self.n, self.starts.tobytes(), self.ends.tobytes()))

    def apply(self, x: Array) -> Array:
        """Return the sum of each run, from sums before every cell."""
        before = np.zeros((x.shape[0], self.n + 1, x.shape[2]), dtype=np.result_type(x, np.int64))
        np.cumsum(x, axis=1, out=before[:, 1:])
        return before[:, self.ends] - before[:, self.starts]

    def apply_transposed(self, y: Array) -> Array:
        """Return for each cell the sum over the runs that it lies in."""
        steps = np.zeros((y.shape[0], self.n + 1, y.shape[2]), dtype=y.dtype)
        by_cell = np.moveaxis(steps, 1, 0)
        np.add.at(by_cell, self.starts, np.moveaxis(y, 1, 0))
        np.subtract.at(by_cell, self.ends, np.moveaxis(y, 1, 0))
        return np.cumsum(steps, axis=1)[:, : self.n]

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the runs."""
        return self.starts[indices], self.ends[indices]

    def column_norms(self, power: int = 1) -> NDArray[np.int64]:
        """Return in how many runs each cell lies."""
        steps = np.bincount(self.starts, minlength=self.n + 1) - np.bincount(self.ends, minlength=self.n + 1)
        return np.cumsum(steps)[: self.n].astype(np.int64)

    def _gram(self) -> Array:
        rows = self.rows(np.arange(self.shape[0]))
        return (rows.T @ rows).astype(float)


def placed(workload: Contiguous, before: int, n: int) -> Runs:
    """Return a workload of runs over the cells that follow on some others.

    Parameters
    ----------
    workload
        Over a part of the cells that lies together.
    before
        How many cells come first.
    n
        How many cells there are in all.
    """
    starts, ends = workload.intervals(np.arange(workload.shape[0]))
    return Runs(n, starts + before, ends + before)

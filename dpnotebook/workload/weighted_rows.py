"""A workload with a weight of its own on every query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Workload, exact_norms, exact_sum, require_exact
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.packing import packed, unpacked


@dataclass(frozen=True, repr=False, eq=False)
class WeightedRows(Workload):
    """Every query of a workload times its weight: weighted bases and trees, or queries scaled for relative error.

    Parameters
    ----------
    weights
        One finite number of at least 0 a query, not all 0, shape (m,). Kept as int64 where all are integers. A query
        of weight 0 keeps its place, so that the structure stays known, and is always answered by 0.
    workload
        What is weighted.

    Raises
    ------
    WorkloadError
        If the weights are not such numbers.

    Examples
    --------
    >>> from dpnotebook.workload import Prefix, WeightedRows
    >>> WeightedRows([3, 1], Prefix(2)).dense()
    array([[3, 0],
           [1, 1]])
    """

    weights: Array
    workload: Workload

    def __init__(self, weights: ArrayLike, workload: Workload) -> None:
        if not isinstance(workload, Workload):
            raise WorkloadError(f"WeightedRows takes a workload, such as Prefix(10), not {shorten(workload)}")
        array = np.array(weights)
        if array.shape != workload.shape[:1] or array.dtype.kind not in "iuf":
            raise WorkloadError(f"{shorten(workload)} takes {workload.shape[0]:,} weights, one number a query")
        if not np.isfinite(array).all() or (array < 0).any() or not array.any():
            raise WorkloadError("the weights of queries must be finite numbers of at least 0, and not all 0")
        whole = array.dtype.kind != "f" or bool((array == np.rint(array)).all() and array.max() < 2**53)
        array = array.astype(np.int64 if whole else np.float64)
        array.setflags(write=False)
        object.__setattr__(self, "weights", array)
        object.__setattr__(self, "workload", workload)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.workload.shape

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return self.weights.dtype.kind == "i" and self.workload.integer

    def apply(self, x: Array) -> Array:
        """Return the answers, each times its weight."""
        return self.weights[:, None] * self.workload.apply(x)

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product of what is weighted."""
        return self.workload.apply_transposed(self.weights[:, None] * y)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows, each times its weight."""
        index = np.asarray(indices, dtype=np.int64)
        return self.weights[index, None] * self.workload.rows(index)

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum over the queries of |weight * entry|^power, for each cell."""
        if isinstance(self.workload, Contiguous):  # the entries are 0 or 1
            largest = self.workload.apply_transposed(self.weights.astype(float)[None, :, None] ** power)
            require_exact(float(largest.max()) if self.integer else 0)
            return self.workload.apply_transposed((self.weights**power)[None, :, None])[0, :, 0]
        total = np.zeros(self.shape[1], dtype=self.weights.dtype if self.integer else np.float64)
        step = max(1, 2**22 // self.shape[1])
        for first in range(0, self.shape[0], step):
            some = np.arange(first, min(first + step, self.shape[0]))
            total = exact_sum([total, exact_norms(self.rows(some), power)])
        return total

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every weighted row w."""
        return self.weights**2 * self.workload.quadratic(matrix)

    def _gram(self) -> Array:
        squares = self.weights.astype(float) ** 2
        n = self.shape[1]
        if isinstance(self.workload, Contiguous):
            # Cells i <= j are counted together by the runs that start up to i and end after j.
            starts, ends = self.workload.intervals(np.arange(self.shape[0]))
            gram = np.bincount(starts * n + ends - 1, squares, n * n).reshape(n, n)
            np.cumsum(gram, axis=0, out=gram)
            np.cumsum(gram[:, ::-1], axis=1, out=gram[:, ::-1])
            upper = np.triu(gram)
            return np.asarray(upper + np.triu(gram, 1).T)
        weighted = (squares[:, None] * self.workload.dense())[None]
        return np.asarray(self.workload.apply_transposed(weighted)[0])

    def to_json(self) -> dict[str, Any]:
        """Return the weights and the workload as JSON values."""
        return {"kind": self.kind, "weights": packed(self.weights), "workload": self.workload.to_json()}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(unpacked(values["weights"]), Workload.from_json(values["workload"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeightedRows):
            return NotImplemented
        return self.workload == other.workload and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.workload, self.weights.dtype.kind, self.weights.tobytes()))

    def __repr__(self) -> str:
        return f"WeightedRows({self.workload!r})"

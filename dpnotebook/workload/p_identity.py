"""Every cell with a weight of its own, and a few weighted sums over all of them: p-Identity strategies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, Workload, exact_norms, exact_sum
from dpnotebook.workload.contiguous import Integers
from dpnotebook.workload.packing import packed, unpacked


@dataclass(frozen=True, repr=False, eq=False)
class PIdentity(Workload):
    """A weighted identity stacked on p further rows, all integer (HDMM, Definition 13, scaled to integers).

    Its first n queries are `diagonal[i]` times cell i, its last p are the rows of `extra`.

    Parameters
    ----------
    diagonal
        Integers of at least 1, shape (n,).
    extra
        Integers, shape (p, n); p may be 0.

    Raises
    ------
    WorkloadError
        If they are not.

    Examples
    --------
    >>> from dpnotebook.workload import PIdentity
    >>> PIdentity([2, 2, 2], [[1, 1, 1]]).dense()
    array([[2, 0, 0],
           [0, 2, 0],
           [0, 0, 2],
           [1, 1, 1]])
    """

    diagonal: Integers
    extra: Integers

    def __init__(self, diagonal: ArrayLike, extra: ArrayLike) -> None:
        diag, rows = np.array(diagonal), np.array(extra)
        if diag.ndim != 1 or not diag.size or diag.dtype.kind not in "iu" or diag.min() < 1:
            raise WorkloadError("the diagonal of a p-Identity is one integer of at least 1 a cell")
        if rows.ndim != 2 or rows.shape[1] != diag.size or rows.dtype.kind not in "iu":
            raise WorkloadError(f"the further rows of a p-Identity hold {diag.size:,} integers each")
        for name, array in (("diagonal", diag.astype(np.int64)), ("extra", rows.astype(np.int64))):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries n + p, number of cells n."""
        return self.diagonal.size + self.extra.shape[0], self.diagonal.size

    def apply(self, x: Array) -> Array:
        """Return the weighted cells, then the sums."""
        return np.concatenate([self.diagonal[:, None] * x, np.matmul(self.extra, x)], axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product."""
        n = self.diagonal.size
        return np.asarray(self.diagonal[:, None] * y[:, :n] + np.matmul(self.extra.T, y[:, n:]))

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows."""
        index, n = np.asarray(indices, dtype=np.int64), self.diagonal.size
        out = np.zeros((index.size, n), dtype=np.int64)
        cells = np.flatnonzero(index < n)
        out[cells, index[cells]] = self.diagonal[index[cells]]
        out[index >= n] = self.extra[index[index >= n] - n]
        return out

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum of |entry|^power of each column."""
        return exact_sum([exact_norms(self.diagonal[None], power), exact_norms(self.extra, power)])

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        cells = self.diagonal**2 * np.diagonal(matrix, axis1=-2, axis2=-1)
        rows = self.extra.astype(float)
        return np.concatenate([cells, np.einsum("...pj,pj->...p", rows @ matrix, rows)], axis=-1)

    def permuted(self, places: Integers) -> PIdentity:
        """Return the same strategy for cells in another order: its column i is column places[i] of this one."""
        return PIdentity(self.diagonal[places], self.extra[:, places])

    def _gram(self) -> Array:
        rows = self.extra.astype(float)
        gram = rows.T @ rows
        gram[np.diag_indices_from(gram)] += self.diagonal.astype(float) ** 2
        return np.asarray(gram)

    def to_json(self) -> dict[str, Any]:
        """Return both parts as JSON values."""
        return {"kind": self.kind, "diagonal": packed(self.diagonal), "extra": packed(self.extra)}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(unpacked(values["diagonal"]), unpacked(values["extra"]))

    @cached_property
    def _digest(self) -> int:
        return hash((self.extra.shape, self.diagonal.tobytes(), self.extra.tobytes()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PIdentity):
            return NotImplemented
        return np.array_equal(self.diagonal, other.diagonal) and np.array_equal(self.extra, other.extra)

    def __hash__(self) -> int:
        return self._digest

    def __repr__(self) -> str:
        return f"PIdentity({self.diagonal.size} cells, {self.extra.shape[0]} rows)"

"""A workload given by its matrix, for queries without a structure of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, Energy, Workload, exact_norms
from dpnotebook.workload.packing import packed, unpacked


@dataclass(frozen=True, repr=False, eq=False)
class Explicit(Workload):
    """A dense matrix of query coefficients.

    Parameters
    ----------
    matrix
        One row a query, one column a cell, shape (m, n), finite, not all zero. Kept as int64 where all are integers.

    Raises
    ------
    WorkloadError
        If it is empty, not two-dimensional, not finite, or all zero.

    Examples
    --------
    >>> from dpnotebook.workload import Explicit
    >>> Explicit([[1, 1, 0], [1, 0, -1]]).matvec([5, 1, 2])
    array([6, 3])
    """

    matrix: Array

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.array(matrix)
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
            raise WorkloadError("a workload's matrix has one row of numbers a query and one column a cell")
        if not np.isfinite(array).all():
            raise WorkloadError("a workload's coefficients must be finite numbers")
        if not array.any():
            raise WorkloadError("a workload whose coefficients are all zero asks nothing")
        whole = array.dtype.kind != "f" or bool((array == np.rint(array)).all() and abs(array).max() < 2**53)
        array = array.astype(np.int64 if whole else np.float64)
        array.setflags(write=False)
        object.__setattr__(self, "matrix", array)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return self.matrix.dtype.kind == "i"

    def apply(self, x: Array) -> Array:
        """Return the matrix product along the middle axis."""
        return np.asarray(np.matmul(self.matrix, x))

    def apply_transposed(self, y: Array) -> Array:
        """Return the product with the transposed matrix along the middle axis."""
        return np.asarray(np.matmul(self.matrix.T, y))

    def rows(self, indices: ArrayLike) -> Array:
        """Return a copy of the given rows."""
        return self.matrix[np.asarray(indices, dtype=np.int64)]

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum of |entry|^power of each column."""
        return exact_norms(self.matrix, power)

    def frobenius_squared(self) -> float:
        """Return the sum of all squared entries, however large."""
        return float((self.matrix.astype(float) ** 2).sum())

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        rows = self.matrix.astype(float)
        return np.asarray(np.einsum("mi,...im->...m", rows, matrix @ rows.T, optimize=True))

    def energy(self) -> Energy:
        """Return the squared sums of each row over a run, added up: few rows over many cells form no Gram matrix."""
        if self.shape[0] > self.shape[1]:
            return super().energy()

        def energy(starts: Array, ends: Array) -> Array:
            total = np.zeros(np.shape(starts))
            for row in self.matrix:
                sums = np.concatenate(([0.0], np.cumsum(row)))
                total += (sums[ends] - sums[starts]) ** 2
            return total

        return energy

    def to_json(self) -> dict[str, Any]:
        """Return the matrix as JSON values, compressed."""
        return {"kind": self.kind, "matrix": packed(self.matrix)}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(unpacked(values["matrix"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explicit) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.matrix.dtype.kind, self.matrix.tobytes()))

    def __repr__(self) -> str:
        return f"Explicit({self.shape[0]} x {self.shape[1]})"

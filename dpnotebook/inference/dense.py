"""Pseudo-inverses of normal matrices of operators without structure, by dense matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.structured import quadratic
from dpnotebook.workload.base import Array, Workload, corner_sums, run_sums

UNSUPPORTED = 1e-9  # squared share of a row outside the row space of A that is not rounding
BATCH = 2**22  # entries of measured runs handled at a time
# Of an eigenvalue of a Gram matrix of n rows, relative to the largest and times n: what is smaller may be rounding.
EIGENVALUE_ROUNDING = 8 * float(np.finfo(float).eps)
CERTAIN = 1e-7  # |G M - I| below which M is certainly near the inverse of G

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DenseInverse:
    """(A'A)^+ as a matrix, for operators without structure."""

    operator: Workload

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.operator.shape[1]

    @property
    def rank(self) -> int:
        """The rank of A."""
        return self._solved[2]

    @property
    def matrix(self) -> Array:
        """M, shape (n, n)."""
        return self._solved[0]

    @property
    def outside(self) -> Array | None:
        """The projection on what A does not see, shape (n, n); None where A has full rank."""
        return self._solved[1]

    def apply(self, z: Array) -> Array:
        """Return M z."""
        return np.asarray(np.matmul(self.matrix, z))

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw from sums over corner blocks."""
        sums, outside = self._corners
        result = run_sums(sums, starts, ends)
        if outside is not None:
            result[run_sums(outside, starts, ends) > UNSUPPORTED * (ends - starts)] = np.inf
        return result

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row, infinity off the row space of A."""
        result = quadratic(rows, self.apply)
        if self.outside is not None:
            lost = np.einsum("ki,ki->k", rows @ self.outside, rows)
            result[lost > UNSUPPORTED * (rows.astype(float) ** 2).sum(axis=1)] = np.inf
        return result

    @cached_property
    def _corners(self) -> tuple[Array, Array | None]:
        return corner_sums(self.matrix), None if self.outside is None else corner_sums(self.outside)

    @cached_property
    def _solved(self) -> tuple[Array, Array | None, int]:
        gram = self.operator.gram().astype(float)
        n = self.n
        certified = certified_inverse(gram)
        if certified is not None:
            return certified, None, n
        values, kept, lost = _eigen(gram)
        return (kept / values) @ kept.T, lost @ lost.T if lost.size else None, len(values)


@dataclass(frozen=True)
class WideInverse:
    """(A'A)^+ = A' K^2 A with K = (A A')^+, for few measurements of many cells."""

    operator: Workload

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.operator.shape[1]

    @property
    def rank(self) -> int:
        """The rank of A."""
        return len(self._solved[1])

    def apply(self, z: Array) -> Array:
        """Return M z, through the measurements."""
        solved = np.matmul(self._solved[0], self.operator.apply(z))
        return self.operator.apply_transposed(np.matmul(self._solved[0], solved))

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw from running sums of the rows of A."""
        result = np.empty(len(starts))
        for first in range(0, len(starts), max(1, BATCH // self.operator.shape[0])):
            some = slice(first, first + max(1, BATCH // self.operator.shape[0]))
            measured = self._sums[:, ends[some]] - self._sums[:, starts[some]]
            result[some] = self._variances(measured, ends[some] - starts[some])
        return result

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row, infinity off the row space of A."""
        floats = rows.astype(float)
        return self._variances(self.operator.apply(floats.T[None])[0], (floats**2).sum(axis=1))

    def _variances(self, measured: Array, sizes: Array) -> Array:
        """Return |K A w|^2 for the columns A w; what of |w|^2 is missing in (A w)' K (A w) is off the row space."""
        solved = self._solved[0] @ measured
        seen = np.einsum("pk,pk->k", measured, solved)
        return np.where(sizes - seen > UNSUPPORTED * sizes, np.inf, (solved**2).sum(axis=0))

    @cached_property
    def _sums(self) -> Array:
        return np.pad(np.cumsum(self.operator.dense().astype(float), axis=1), ((0, 0), (1, 0)))

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        units = np.eye(self.operator.shape[0])[None]
        values, kept, _ = _eigen(self.operator.apply(self.operator.apply_transposed(units))[0])
        return (kept / values) @ kept.T, values


def _eigen(gram: Array) -> tuple[Array, Array, Array]:
    """Return the eigenvalues that are not rounding, their eigenvectors, and the eigenvectors of the rest."""
    values, vectors = np.linalg.eigh(gram)
    seen = values > values[-1] * len(values) * EIGENVALUE_ROUNDING
    return values[seen], vectors[:, seen], vectors[:, ~seen]


def certified_inverse(gram: Array) -> Array | None:
    """Return the inverse if |G M - I| < 1e-7, which proves that G is not singular and M is that near; else None."""
    try:
        found = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return None
    residual = gram @ found
    residual[np.diag_indices_from(residual)] -= 1
    if not np.linalg.norm(residual) < CERTAIN:
        return None
    return (found + found.T) / 2

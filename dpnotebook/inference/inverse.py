"""The pseudo-inverse of the normal matrix A'A of one factor, in the cheapest form that its structure allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.tree import gains, tree_levels
from dpnotebook.workload.base import Array, Workload, corner_sums, run_sums
from dpnotebook.workload.compose import Stack, Weighted
from dpnotebook.workload.contiguous import AllRange, Contiguous, Hierarchy, Identity, Prefix, Total
from dpnotebook.workload.explicit import Explicit

DENSE_CELLS = 4096  # beyond it, the pseudo-inverse of a matrix without structure takes minutes
CHUNK = 2**22  # entries of rows handled at a time
UNSUPPORTED = 1e-9  # squared share of a row outside the row space of A that is not rounding

Integers = NDArray[np.int64]


class Inverse(Protocol):
    """M = (A'A)^+ for one operator A over n cells."""

    @property
    def n(self) -> int:
        """Number of cells."""

    @property
    def rank(self) -> int:
        """The rank of A."""

    def apply(self, z: Array) -> Array:
        """Return M z along the middle axis, shape (a, n, b)."""

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw for w the indicator of each run [start, end); infinite where A does not support w."""

    def supports(self, rows: Array) -> NDArray[np.bool_]:
        """Return, for each row of a (k, n) array, whether it is in the row space of A."""


@lru_cache(maxsize=8)
def inverse(operator: Workload) -> Inverse:
    """Return (A'A)^+ in the cheapest form.

    Raises
    ------
    WorkloadError
        If the operator has no structure to use and more than `DENSE_CELLS` cells.
    """
    if isinstance(operator, Identity):
        return TreeInverse(Hierarchy(operator.n, 2, 1))
    if isinstance(operator, Hierarchy):
        return TreeInverse(operator)
    if isinstance(operator, Prefix):
        return TridiagonalInverse(operator.n, 1, 1.0)
    if isinstance(operator, AllRange):
        return TridiagonalInverse(operator.n, 2, 1 / (operator.n + 1))
    if isinstance(operator, Total):
        return TotalInverse(operator.n)
    if operator.shape[1] > DENSE_CELLS:
        raise WorkloadError(
            f"least squares over {operator!r} needs a pseudo-inverse over {operator.shape[1]:,} cells at once; up to "
            f"{DENSE_CELLS:,} are possible"
        )
    return DenseInverse(operator)


@dataclass(frozen=True)
class TreeInverse:
    """(A'A)^-1 of a hierarchy; of the identity, for a tree of leaves alone."""

    tree: Hierarchy

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.tree.n

    @property
    def rank(self) -> int:
        """Number of cells: the leaves are measured."""
        return self.tree.n

    def apply(self, z: Array) -> Array:
        """Return M z in O(n) a level."""
        out = z.astype(float)
        for level in self._levels:
            u = level.u[:, None]
            sums = np.add.reduceat(u * z, np.arange(0, self.n, level.size), axis=1) * level.shrink[:, None]
            out -= u * np.repeat(sums, level.size, axis=1)[:, : self.n]
        return out

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw: the cells of the run, less what its first, last and inner nodes of each level explain."""
        result = (ends - starts).astype(float)
        for level in self._levels:
            sums = np.concatenate(([0.0], np.cumsum(level.u)))
            edges = np.append(np.arange(0, self.n, level.size), self.n)
            whole = np.concatenate(([0.0], np.cumsum(np.diff(sums[edges]) ** 2 * level.shrink)))
            first, last = starts // level.size, (ends - 1) // level.size
            apart = (sums[edges[first + 1]] - sums[starts]) ** 2 * level.shrink[first]
            apart += (sums[ends] - sums[edges[last]]) ** 2 * level.shrink[last]
            apart += whole[last] - whole[np.minimum(first + 1, last)]
            result -= np.where(first == last, (sums[ends] - sums[starts]) ** 2 * level.shrink[first], apart)
        return result

    def supports(self, rows: Array) -> NDArray[np.bool_]:
        """Return True: the leaves are measured."""
        return np.ones(len(rows), dtype=bool)

    def total(self, workload: Workload) -> float:
        """Return the sum of w'Mw over all rows of a workload from its energies alone."""
        result = workload.frobenius_squared()
        if self.tree.sizes[1:]:
            energy = workload.energy()
            for gain in gains(self.n, self.tree.branching)[: len(self.tree.sizes) - 1]:
                result -= float(np.dot(gain.coefficients, energy(gain.starts, gain.ends)))
        return result

    @cached_property
    def _levels(self) -> list[Any]:
        return tree_levels(self.tree)


@dataclass(frozen=True)
class TridiagonalInverse:
    """(A'A)^-1 of Prefix and AllRange: scale times the second-difference matrix, with `corner` as its first entry."""

    n: int
    corner: int
    scale: float

    @property
    def rank(self) -> int:
        """Number of cells."""
        return self.n

    def apply(self, z: Array) -> Array:
        """Return M z: second differences."""
        out = 2.0 * z
        out[:, 0] = self.corner * z[:, 0]
        out[:, 1:] -= z[:, :-1]
        out[:, :-1] -= z[:, 1:]
        return self.scale * out

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw: one unit a border that has a measurement on it."""
        return self.scale * np.where(starts == 0, self.corner, 2)

    def supports(self, rows: Array) -> NDArray[np.bool_]:
        """Return True: A has full rank."""
        return np.ones(len(rows), dtype=bool)


@dataclass(frozen=True)
class TotalInverse:
    """(A'A)^+ of one query that counts everything."""

    n: int

    @property
    def rank(self) -> int:
        """One."""
        return 1

    def apply(self, z: Array) -> Array:
        """Return the sum over n^2, in every cell."""
        return np.repeat(z.sum(axis=1, keepdims=True) / float(self.n) ** 2, self.n, axis=1)

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return 1 for the run of all cells, infinity for the others."""
        return np.where(ends - starts == self.n, 1.0, np.inf)

    def supports(self, rows: Array) -> NDArray[np.bool_]:
        """Return whether each row is constant."""
        return np.asarray(np.ptp(rows, axis=1) <= 1e-12 * np.abs(rows).max(axis=1))


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

    def supports(self, rows: Array) -> NDArray[np.bool_]:
        """Return whether the part of each row outside the row space is no more than rounding."""
        if self.outside is None:
            return np.ones(len(rows), dtype=bool)
        lost = np.einsum("ki,ki->k", rows @ self.outside, rows)
        return np.asarray(lost <= UNSUPPORTED * (rows.astype(float) ** 2).sum(axis=1))

    @cached_property
    def _corners(self) -> tuple[Array, Array | None]:
        return corner_sums(self.matrix), None if self.outside is None else corner_sums(self.outside)

    @cached_property
    def _solved(self) -> tuple[Array, Array | None, int]:
        gram = self.operator.gram().astype(float)
        n = self.n
        certified = _certified_inverse(gram)
        if certified is not None:
            return certified, None, n
        values, vectors = np.linalg.eigh(gram)
        seen = values > values[-1] * n * 8 * np.finfo(float).eps
        kept, lost = vectors[:, seen], vectors[:, ~seen]
        return (kept / values[seen]) @ kept.T, lost @ lost.T if lost.size else None, int(seen.sum())


def variances(inverse_: Inverse, workload: Workload) -> Array:
    """Return w'Mw for every row w of a workload, shape (m,); infinite for rows that A does not support.

    This is the variance of each answer, for measurements of A with unit variance.
    """
    if isinstance(workload, Weighted):
        return workload.weight**2 * variances(inverse_, workload.workload)
    if isinstance(workload, Stack):
        return np.concatenate([variances(inverse_, part) for part in workload.parts])
    if isinstance(workload, Contiguous):
        return np.concatenate([inverse_.intervals(*workload.intervals(rows)) for rows in _chunks(workload.shape[0], 8)])
    if isinstance(workload, Explicit) or not isinstance(inverse_, DenseInverse):
        return np.concatenate([_row_variances(inverse_, workload.rows(rows)) for rows in _chunks(*workload.shape)])
    result = workload.quadratic(inverse_.matrix)
    if inverse_.outside is not None:
        size = workload.quadratic(np.eye(inverse_.n))
        result = np.where(workload.quadratic(inverse_.outside) > UNSUPPORTED * size, np.inf, result)
    return result


def total_variance(operator: Workload, workload: Workload) -> float:
    """Return |W A^+|_F^2, the sum of `variances`; infinite if A does not support W."""
    found = inverse(operator)
    if workload == operator:
        return float(found.rank)  # W W^+ is a projection
    if isinstance(found, TreeInverse):
        return found.total(workload)
    if isinstance(workload, Weighted):
        return workload.weight**2 * total_variance(operator, workload.workload)
    if isinstance(workload, Stack):
        return sum(total_variance(operator, part) for part in workload.parts)
    if isinstance(found, DenseInverse):
        gram = workload.gram()
        if found.outside is not None and np.vdot(gram, found.outside) > UNSUPPORTED * np.trace(gram):
            return np.inf
        return float(np.vdot(gram, found.matrix))
    return float(variances(found, workload).sum())


def _row_variances(inverse_: Inverse, rows: Array) -> Array:
    solved = inverse_.apply(rows.T.astype(float)[None])[0]
    return np.where(inverse_.supports(rows), np.einsum("ki,ik->k", rows, solved), np.inf)


def _chunks(m: int, width: int) -> Iterator[Integers]:
    count = max(1, CHUNK // width)
    for start in range(0, m, count):
        yield np.arange(start, min(start + count, m))


def _certified_inverse(gram: Array) -> Array | None:
    """Return the inverse if |G M - I| < 1e-7, which proves that G is not singular and M is that near; else None."""
    try:
        found = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        return None
    residual = gram @ found
    residual[np.diag_indices_from(residual)] -= 1
    if not np.linalg.norm(residual) < 1e-7:
        return None
    return (found + found.T) / 2

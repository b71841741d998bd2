"""The pseudo-inverse of the normal matrix A'A of one factor, in the cheapest form that its structure allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.dense import UNSUPPORTED, DenseInverse, WideInverse
from dpnotebook.inference.disjoint import DisjointInverse, are_disjoint
from dpnotebook.inference.structured import TotalInverse, TreeInverse, TridiagonalInverse, chunks, runs_as_rows
from dpnotebook.inference.toeplitz import ToeplitzInverse, toeplitz_inverse
from dpnotebook.inference.weighted import WaveletInverse, WeightedTreeInverse
from dpnotebook.inference.woodbury import WoodburyInverse
from dpnotebook.workload.base import Array, Workload
from dpnotebook.workload.compose import Stack, Weighted
from dpnotebook.workload.contiguous import AllRange, Contiguous, Identity, Prefix, Total
from dpnotebook.workload.explicit import Explicit
from dpnotebook.workload.hierarchy import Hierarchy
from dpnotebook.workload.p_identity import PIdentity
from dpnotebook.workload.permuted import Permuted
from dpnotebook.workload.predicates import Predicates
from dpnotebook.workload.toeplitz import Toeplitz
from dpnotebook.workload.wavelet import Wavelet
from dpnotebook.workload.weighted_rows import WeightedRows

DENSE_CELLS = 4096  # beyond it, a dense pseudo-inverse takes minutes
DIRECT_CELLS = 1024  # up to it, less than a second
WIDE_ROWS, WIDE_ENTRIES = 1024, 2**24  # most measurements, and most entries of theirs, to go through A A'
RUN_ENTRIES = 8  # of a run of cells, which is handled by its ends
WRITTEN = 2**26  # entries of predicates that are written out to reorder their cells

Integers = NDArray[np.int64]
Value = TypeVar("Value")


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

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for each row of a (k, n) array; infinite where A does not support it."""


@lru_cache(maxsize=8)
def inverse(operator: Workload) -> Inverse:
    """Return (A'A)^+ in the cheapest form.

    Raises
    ------
    WorkloadError
        If the operator has no structure to use, and too many cells and measurements.
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
    if isinstance(operator, Wavelet) and operator.complete:
        return WaveletInverse(operator, np.ones(operator.shape[0]))
    if isinstance(operator, WeightedRows) and (weighted := _weighted_inverse(operator)):
        return weighted
    if isinstance(operator, Toeplitz) and (triangular := toeplitz_inverse(operator)):
        return triangular
    if isinstance(operator, PIdentity):
        return WoodburyInverse(operator)
    if isinstance(operator, Permuted):
        return PermutedInverse(inverse(operator.workload), operator.order)
    if operator.shape[1] > DIRECT_CELLS and is_direct(operator):
        return WideInverse(operator)
    if operator.shape[1] > DIRECT_CELLS and isinstance(operator, Predicates) and are_disjoint(operator):
        return DisjointInverse(operator)
    if operator.shape[1] > DENSE_CELLS:
        raise WorkloadError(
            f"least squares over {shorten(operator)} needs a pseudo-inverse over {operator.shape[1]:,} cells at "
            "once; up to "
            f"{DENSE_CELLS:,} are possible, or {WIDE_ROWS:,} measurements"
        )
    return DenseInverse(operator)


@dataclass(frozen=True, eq=False)
class PermutedInverse:
    """(A'A)^+ of an operator whose cells are in another order: column j of the inner one is cell order[j]."""

    inner: Inverse
    order: Integers

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.inner.n

    @property
    def rank(self) -> int:
        """The inner operator's: the order of the cells does not matter."""
        return self.inner.rank

    def apply(self, z: Array) -> Array:
        """Return M z along the middle axis, its cells put back."""
        result = np.empty(z.shape)
        result[:, self.order] = self.inner.apply(z[:, self.order])
        return result

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw for runs of cells, which are no runs in the inner order: each is written out."""
        return runs_as_rows(self.inner.of_rows, self.order, starts, ends)

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        return self.inner.of_rows(rows[:, self.order])

    def inner_workload(self, workload: Workload) -> Workload | None:
        """Return a workload as it is in the inner order; None where it would have to be written out, row by row."""
        if isinstance(workload, Permuted) and np.array_equal(workload.order, self.order):
            return workload.workload
        if isinstance(workload, Total):
            return workload
        if isinstance(workload, Explicit):
            columns = workload.matrix[:, self.order]
            runs = Predicates(columns == 1) if ((columns == 0) | (columns == 1)).all() else None
            return runs if runs is not None and runs.single_runs else Explicit(columns)
        if isinstance(workload, Predicates) and workload.shape[0] * workload.n <= WRITTEN:
            return Predicates(workload.dense()[:, self.order])
        return None


def _weighted_inverse(operator: WeightedRows) -> Inverse | None:
    inner = operator.workload
    if isinstance(inner, Hierarchy) and operator.weights[: inner.n].all():
        return WeightedTreeInverse(inner, operator.weights)
    if isinstance(inner, Wavelet) and inner.complete and operator.weights.all():
        return WaveletInverse(inner, operator.weights)
    return None


def is_direct(operator: Workload) -> bool:
    """Return whether the pseudo-inverse of any operator of this shape is found within about a second."""
    p, n = operator.shape
    return n <= DIRECT_CELLS or (p <= WIDE_ROWS and p * n <= WIDE_ENTRIES)


def variances(inverse_: Inverse, workload: Workload) -> Array:
    """Return w'Mw for every row w of a workload, shape (m,); infinite for rows that A does not support.

    This is the variance of each answer, for measurements of A with unit variance.
    """
    if isinstance(workload, Weighted):
        return workload.weight**2 * variances(inverse_, workload.workload)
    if isinstance(workload, Stack):
        return np.concatenate([variances(inverse_, part) for part in workload.parts])
    if isinstance(inverse_, PermutedInverse) and (inner := inverse_.inner_workload(workload)) is not None:
        return variances(inverse_.inner, inner)
    if isinstance(workload, Contiguous):
        some = chunks(workload.shape[0], RUN_ENTRIES)
        return np.concatenate([inverse_.intervals(*workload.intervals(rows)) for rows in some])
    if isinstance(workload, Predicates) and workload.single_runs:
        some = chunks(workload.shape[0], RUN_ENTRIES)
        return np.concatenate([inverse_.intervals(workload.starts[rows], workload.ends[rows]) for rows in some])
    if isinstance(workload, Permuted) and inverse_.rank == inverse_.n <= DENSE_CELLS:
        return workload.quadratic(inverse_.apply(np.eye(inverse_.n)[None])[0])
    if isinstance(workload, Explicit) or not isinstance(inverse_, DenseInverse):
        return np.concatenate([inverse_.of_rows(workload.rows(rows)) for rows in chunks(*workload.shape)])
    result = workload.quadratic(inverse_.matrix)
    if inverse_.outside is not None:
        size = workload.quadratic(np.eye(inverse_.n))
        result = np.where(workload.quadratic(inverse_.outside) > UNSUPPORTED * size, np.inf, result)
    return result


def total_variance(operator: Workload, workload: Workload) -> float:
    """Return |W A^+|_F^2, the sum of `variances`; infinite if A does not support W."""
    found = inverse(operator)
    return float(found.rank) if workload == operator else sum_of_variances(found, workload)  # W W^+ is a projection


def once_a_pair(of_pair: Callable[[Workload, Workload], Value]) -> Callable[[Workload, Workload], Value]:
    """Return a function of an operator and a workload that works out each pair once.

    The products of a union share their factors: one over forty attributes has tens of thousands of pairs, of which a
    hundred differ. What was found lives as long as the function.
    """
    same: dict[int, tuple[Workload, int]] = {}  # by identity first: hashing a matrix takes longer than looking it up
    numbers: dict[Workload, int] = {}
    found: dict[tuple[int, int], Value] = {}

    def number(workload: Workload) -> int:
        known = same.get(id(workload))
        if known is None:  # an object that is kept here cannot give its identity to another
            known = same[id(workload)] = workload, numbers.setdefault(workload, len(numbers))
        return known[1]

    def once(operator: Workload, workload: Workload) -> Value:
        pair = number(operator), number(workload)
        if pair not in found:
            found[pair] = of_pair(operator, workload)
        return found[pair]

    return once


def sum_of_variances(found: Inverse, workload: Workload) -> float:
    """Return the sum of `variances`, from Gram matrices or energies where it can be."""
    if isinstance(found, PermutedInverse):
        # The sum over single cells is the same in every order.
        inner = workload if isinstance(workload, Identity) else found.inner_workload(workload)
        if inner is not None:
            return sum_of_variances(found.inner, inner)
    if isinstance(found, TreeInverse | WaveletInverse) or (
        isinstance(found, WeightedTreeInverse) and found.n <= DENSE_CELLS
    ):
        return found.total(workload)
    if isinstance(workload, Weighted):
        return workload.weight**2 * sum_of_variances(found, workload.workload)
    if isinstance(workload, Stack):
        return sum(sum_of_variances(found, part) for part in workload.parts)
    if isinstance(found, ToeplitzInverse) and isinstance(workload, AllRange):
        return found.of_all_runs()
    if isinstance(found, WoodburyInverse):
        return found.total(workload)
    if isinstance(found, DenseInverse):
        gram = workload.gram()
        if found.outside is not None and np.vdot(gram, found.outside) > UNSUPPORTED * np.trace(gram):
            return np.inf
        return float(np.vdot(gram, found.matrix))
    return float(variances(found, workload).sum())

"""Workloads whose queries each count a contiguous run of cells: Identity, Total, Prefix, AllRange."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.workload.base import Array, Energy, Number, Workload, corner_sums, run_sums, whole

Integers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Contiguous(Workload):
    """A workload of 0/1 rows, each the indicator of a run [start, end) of `n` cells."""

    n: int

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:  # else it is what `whole` makes of it
            object.__setattr__(self, "n", whole(self.n, "the number of cells"))

    @abstractmethod
    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the start and the (exclusive) end of the run that each of the given rows counts."""

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as 0/1 integers, shape (len(indices), n)."""
        starts, ends = self.intervals(np.asarray(indices, dtype=np.int64))
        cells = np.arange(self.n)
        return ((starts[:, None] <= cells) & (cells < ends[:, None])).astype(np.int64)

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w, from sums over corner blocks of M: O(n^2 + m)."""
        return run_sums(corner_sums(matrix), *self.intervals(np.arange(self.shape[0])))


@dataclass(frozen=True, repr=False)
class Identity(Contiguous):
    """One query a cell: query i counts cell i.

    Examples
    --------
    >>> from dpnotebook.workload import Identity
    >>> Identity(3).matvec([5, 1, 2])
    array([5, 1, 2])
    """

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of queries n, number of cells n."""
        return self.n, self.n

    def apply(self, x: Array) -> Array:
        """Return x."""
        return x

    def apply_transposed(self, y: Array) -> Array:
        """Return y."""
        return y

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return [i, i + 1) for query i."""
        return indices, indices + 1

    def column_norms(self, power: int = 1) -> Array:
        """Return ones."""
        return np.ones(self.n, dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return 1."""
        return 1

    def frobenius_squared(self) -> float:
        """Return n."""
        return float(self.n)

    def quadratic(self, matrix: Array) -> Array:
        """Return the diagonal of M."""
        return np.diagonal(matrix, axis1=-2, axis2=-1)

    def energy(self) -> Energy:
        """Return the number of cells of a run."""
        return lambda starts, ends: (ends - starts).astype(float)

    def _gram(self) -> Array:
        return np.eye(self.n)


@dataclass(frozen=True, repr=False)
class Total(Contiguous):
    """One query, which counts all cells.

    Examples
    --------
    >>> from dpnotebook.workload import Total
    >>> Total(3).matvec([5, 1, 2])
    array([8])
    """

    @cached_property
    def shape(self) -> tuple[int, int]:
        """One query, number of cells n."""
        return 1, self.n

    def apply(self, x: Array) -> Array:
        """Return the sum over the middle axis."""
        total: Array = x.sum(axis=1, keepdims=True)
        return total

    def apply_transposed(self, y: Array) -> Array:
        """Return y in every cell."""
        return np.broadcast_to(y, (y.shape[0], self.n, y.shape[2]))

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return [0, n)."""
        return np.zeros_like(indices), np.full_like(indices, self.n)

    def column_norms(self, power: int = 1) -> Array:
        """Return ones."""
        return np.ones(self.n, dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return 1."""
        return 1

    def frobenius_squared(self) -> float:
        """Return n."""
        return float(self.n)

    def energy(self) -> Energy:
        """Return the squared number of cells of a run."""
        return lambda starts, ends: (ends - starts).astype(float) ** 2

    def _gram(self) -> Array:
        return np.ones((self.n, self.n))


@dataclass(frozen=True, repr=False)
class Prefix(Contiguous):
    """Running counts, the empirical distribution function: query i counts cells 0 to i, inclusive.

    Examples
    --------
    >>> from dpnotebook.workload import Prefix
    >>> Prefix(3).matvec([5, 1, 2])
    array([5, 6, 8])
    """

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of queries n, number of cells n."""
        return self.n, self.n

    def apply(self, x: Array) -> Array:
        """Return running sums."""
        return np.cumsum(x, axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return running sums from the end."""
        backwards: Array = np.cumsum(y[:, ::-1], axis=1)[:, ::-1]
        return backwards

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return [0, i + 1) for query i."""
        return np.zeros_like(indices), indices + 1

    def column_norms(self, power: int = 1) -> Array:
        """Return n - j: cell j is in every run that ends at j or later."""
        return np.arange(self.n, 0, -1)

    def energy(self) -> Energy:
        """Return the closed form: runs that end within the block, and runs that hold all of it."""

        def energy(starts: Array, ends: Array) -> Array:
            k = (ends - starts).astype(float)
            return np.asarray(squares(k) + (self.n - ends) * k**2)

        return energy

    def _gram(self) -> Array:
        cells = np.arange(self.n, dtype=float)
        return np.asarray(self.n - np.maximum.outer(cells, cells))


@dataclass(frozen=True, repr=False)
class AllRange(Contiguous):
    """Every range of cells, n (n + 1) / 2 queries, in lexicographic order of (start, end), both inclusive.

    Query number s n - s (s - 1) / 2 + (e - s) counts cells s to e. Answers come from prefix sums; no row is built.

    Examples
    --------
    >>> from dpnotebook.workload import AllRange
    >>> AllRange(3).dense()
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1],
           [0, 1, 0],
           [0, 1, 1],
           [0, 0, 1]])
    >>> AllRange(10**6).shape  # never built
    (500000500000, 1000000)
    """

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of ranges n (n + 1) / 2, number of cells n."""
        return self.n * (self.n + 1) // 2, self.n

    def apply(self, x: Array) -> Array:
        """Return differences of prefix sums, all ends of one start at a time."""
        a, n, b = x.shape
        sums = np.zeros((a, n + 1, b), dtype=x.dtype)
        np.cumsum(x, axis=1, out=sums[:, 1:])
        out = np.empty((a, self.shape[0], b), dtype=x.dtype)
        for start, offset in enumerate(self._offsets()):
            np.subtract(sums[:, start + 1 :], sums[:, start, None], out=out[:, offset : offset + n - start])
        return out

    def apply_transposed(self, y: Array) -> Array:
        """Return, for each cell, the sum over the ranges that hold it: a running sum of starts minus ends."""
        a, _, b = y.shape
        steps = np.zeros((a, self.n + 1, b), dtype=y.dtype)
        for start, offset in enumerate(self._offsets()):
            same_start = y[:, offset : offset + self.n - start]
            steps[:, start] += same_start.sum(axis=1)
            steps[:, start + 1 :] -= same_start
        return np.cumsum(steps[:, :-1], axis=1)

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the start and the (exclusive) end of each of the given ranges."""
        offsets = self._offsets()
        starts = np.searchsorted(offsets, indices, side="right") - 1
        return starts, indices - offsets[starts] + starts + 1

    def column_norms(self, power: int = 1) -> Array:
        """Return (j + 1) (n - j): starts up to cell j times ends from it on."""
        cells = np.arange(self.n)
        return np.asarray((cells + 1) * (self.n - cells))

    def energy(self) -> Energy:
        """Return the closed form: ranges that hold the block, that end on one side within it, that lie inside."""

        def energy(starts: Array, ends: Array) -> Array:
            k, outside = (ends - starts).astype(float), (starts + self.n - ends).astype(float)
            inside = k * (k + 1) ** 2 * (k + 2) / 12
            return np.asarray(starts * (self.n - ends).astype(float) * k**2 + outside * squares(k) + inside)

        return energy

    def _gram(self) -> Array:
        cells = np.arange(self.n, dtype=float)
        gram: Array = np.minimum.outer(cells + 1, cells + 1)
        for first in range(0, self.n, 256):  # a few rows at a time: nothing else of this size is held
            some = slice(first, first + 256)
            gram[some] *= np.minimum.outer(self.n - cells[some], self.n - cells)
        return gram

    def _offsets(self) -> Integers:
        starts = np.arange(self.n, dtype=np.int64)
        return starts * self.n - starts * (starts - 1) // 2


def squares(k: Any) -> Any:
    """Return 1 + 4 + ... + k^2."""
    return k * (k + 1) * (2 * k + 1) / 6

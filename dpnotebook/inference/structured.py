"""Pseudo-inverses of normal matrices that are never written out: of trees, prefixes, ranges and totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.tree import TreeLevel, gains, tree_levels
from dpnotebook.workload.base import Array, Workload
from dpnotebook.workload.hierarchy import Hierarchy

Integers = NDArray[np.int64]
CHUNK = 2**22  # entries of rows handled at a time
CONSTANT = 1e-12  # of the largest entry: entries of a row that differ by less are the same


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

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        return quadratic(rows, self.apply)

    def total(self, workload: Workload) -> float:
        """Return the sum of w'Mw over all rows of a workload from its energies alone."""
        result = workload.frobenius_squared()
        if self.tree.sizes[1:]:
            energy = workload.energy()
            for gain in gains(self.n, self.tree.branching)[: len(self.tree.sizes) - 1]:
                result -= float(np.dot(gain.coefficients, energy(gain.starts, gain.ends)))
        return result

    @cached_property
    def _levels(self) -> list[TreeLevel]:
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

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        return quadratic(rows, self.apply)


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

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row, infinity for those that are not constant."""
        constant = np.ptp(rows, axis=1) <= CONSTANT * np.abs(rows).max(axis=1)
        return np.where(constant, quadratic(rows, self.apply), np.inf)


def quadratic(rows: Array, apply: Callable[[Array], Array]) -> Array:
    """Return w'Mw for every row of a (k, n) array, where `apply` is M along the middle axis."""
    solved = apply(rows.T.astype(float)[None])[0]
    return np.asarray(np.einsum("ki,ik->k", rows, solved))


def runs_as_rows(of_rows: Callable[[Array], Array], cells: Integers, starts: Integers, ends: Integers) -> Array:
    """Return w'Mw for runs [start, end) of cells that are each written out, as `of_rows` has it; shape (runs,).

    Parameters
    ----------
    of_rows
        Returns it for rows.
    cells
        The cells in the order that rows have them in.
    starts, ends
        The runs.
    """
    found = [np.zeros(0)]
    for some in chunks(starts.size, cells.size):
        first, last = starts[some][:, None], ends[some][:, None]
        found.append(of_rows(((first <= cells) & (cells < last)).astype(float)))
    return np.concatenate(found)


def chunks(m: int, width: int) -> Iterator[Integers]:
    """Yield the numbers of m rows of so many entries each, some at a time."""
    count = max(1, CHUNK // width)
    for start in range(0, m, count):
        yield np.arange(start, min(start + count, m))

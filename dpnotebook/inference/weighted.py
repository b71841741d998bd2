"""Pseudo-inverses of weighted trees and of weighted orthogonal rows, without a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.structured import quadratic
from dpnotebook.workload.base import Array, Workload
from dpnotebook.workload.hierarchy import Hierarchy
from dpnotebook.workload.wavelet import Wavelet

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WeightedTreeInverse:
    """(A'A)^-1 of a hierarchy with a weight on every node, and above 0 on every leaf.

    The normal matrix is diag(leaf weights^2) and w^2 11' for every inner node; as for the plain tree, the inverse
    follows from the leaves upwards: minus u u' w^2 / (1 + w^2 1'u), where u is the inverse one level below applied to
    ones over the cells of the node.
    """

    tree: Hierarchy
    weights: Array

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
        out = z * self._leaves[:, None]
        for size, u, shrink in self._levels:
            sums = np.add.reduceat(u[:, None] * z, np.arange(0, self.n, size), axis=1) * shrink[:, None]
            out -= u[:, None] * np.repeat(sums, size, axis=1)[:, : self.n]
        return out

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw: the cells of the run, less what its first, last and inner nodes of each level explain."""
        leaves = np.concatenate(([0.0], np.cumsum(self._leaves)))
        result = leaves[ends] - leaves[starts]
        for size, u, shrink in self._levels:
            sums = np.concatenate(([0.0], np.cumsum(u)))
            edges = np.append(np.arange(0, self.n, size), self.n)
            inner = np.concatenate(([0.0], np.cumsum(np.diff(sums[edges]) ** 2 * shrink)))
            first, last = starts // size, (ends - 1) // size
            apart = (sums[edges[first + 1]] - sums[starts]) ** 2 * shrink[first]
            apart += (sums[ends] - sums[edges[last]]) ** 2 * shrink[last]
            apart += inner[last] - inner[np.minimum(first + 1, last)]
            result -= np.where(first == last, (sums[ends] - sums[starts]) ** 2 * shrink[first], apart)
        return result

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        return quadratic(rows, self.apply)

    def total(self, workload: Workload) -> float:
        """Return the sum of w'Mw over all rows of a workload, from the blocks of its Gram matrix."""
        gram = workload.gram()
        result = float(np.dot(np.diagonal(gram), self._leaves))
        for size, u, shrink in self._levels:
            blocks = [slice(start, start + size) for start in range(0, self.n, size)]
            result -= float(np.dot(shrink, [u[some] @ gram[some, some] @ u[some] for some in blocks]))
        return result

    @property
    def _leaves(self) -> Array:
        return 1 / self.weights[: self.n].astype(float) ** 2

    @cached_property
    def _levels(self) -> list[tuple[int, Array, Array]]:
        levels, u, first = [], self._leaves, self.n
        for size in self.tree.sizes[1:]:
            nodes = -(-self.n // size)
            squares = self.weights[first : first + nodes].astype(float) ** 2
            first += nodes
            grown = 1 + squares * np.add.reduceat(u, np.arange(0, self.n, size))
            levels.append((size, u, squares / grown))
            u = u / np.repeat(grown, size)[: self.n]
        return levels


@dataclass(frozen=True, eq=False)
class WaveletInverse:
    """(A'A)^-1 of the wavelet basis over a power of two cells, with a weight above 0 on every row.

    The rows r are orthogonal, so it is the sum of r r' / (|r|^4 weight^2).
    """

    basis: Wavelet
    weights: Array

    @property
    def n(self) -> int:
        """Number of cells."""
        return self.basis.n

    @property
    def rank(self) -> int:
        """Number of cells."""
        return self.basis.n

    def apply(self, z: Array) -> Array:
        """Return M z."""
        return np.asarray(self.basis.apply_transposed(self._scale[:, None] * self.basis.apply(z.astype(float))))

    def intervals(self, starts: Integers, ends: Integers) -> Array:
        """Return w'Mw: beside the total, only the blocks that a border of the run cuts see it."""
        result: Array = (ends - starts) ** 2.0 * self._scale[0]
        first = 1
        for size in self.basis.sizes:
            scale = np.append(self._scale[first : first + self.n // size], 0.0)
            first += self.n // size
            left, right = starts // size, ends // size
            # The sum of a row over the cells of its block before a border rises to the middle and falls again.
            before = np.minimum(starts % size, size - starts % size).astype(float)
            after = np.minimum(ends % size, size - ends % size).astype(float)
            apart = before**2 * scale[left] + after**2 * scale[right]
            result += np.where(left == right, (after - before) ** 2 * scale[left], apart)
        return result

    def of_rows(self, rows: Array) -> Array:
        """Return w'Mw for every row."""
        return quadratic(rows, self.apply)

    def total(self, workload: Workload) -> float:
        """Return the sum of w'Mw over all rows of a workload, from its energies alone."""
        starts, middles, ends = self.basis.halves(np.arange(self.basis.shape[0]))
        energy = workload.energy()
        cut = middles < ends
        energies = np.where(cut, -1.0, 1.0) * energy(starts, ends)
        energies[cut] += 2 * (energy(starts[cut], middles[cut]) + energy(middles[cut], ends[cut]))
        return float(np.dot(self._scale, energies))

    @cached_property
    def _scale(self) -> Array:
        sizes = [self.n, *np.repeat(self.basis.sizes, [self.n // size for size in self.basis.sizes])]
        return 1 / (np.array(sizes, dtype=float) * self.weights) ** 2

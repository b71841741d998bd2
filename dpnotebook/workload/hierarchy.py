"""Counts of the nodes of a tree over contiguous blocks of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, Energy, whole
from dpnotebook.workload.contiguous import Contiguous, Integers


@dataclass(frozen=True, repr=False)
class Hierarchy(Contiguous):
    """Counts of the nodes of a tree over contiguous blocks of cells: the leaves first, then level by level upwards.

    Parameters
    ----------
    n
        Number of cells (leaves).
    branching
        Children of a node, from 2 to max(2, n); the last block of a level may be short.
    levels
        Number of levels kept, counted from the leaves: level k has blocks of branching^k cells. All of them, up to
        the root that counts everything, unless said otherwise; 1 is Identity.

    Examples
    --------
    >>> from dpnotebook.workload import Hierarchy
    >>> Hierarchy(4, 2).dense()
    array([[1, 0, 0, 0],
           [0, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1],
           [1, 1, 0, 0],
           [0, 0, 1, 1],
           [1, 1, 1, 1]])
    """

    branching: int
    levels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        branching = whole(self.branching, "the branching of a hierarchy", 2)
        if branching > max(2, self.n):
            raise WorkloadError(f"the branching of a hierarchy over {self.n:,} cells is at most {self.n:,}")
        object.__setattr__(self, "branching", branching)
        most = depth(self.n, branching)
        levels = most if self.levels is None else whole(self.levels, "the number of levels")
        if levels > most:
            raise WorkloadError(f"a tree over {self.n:,} cells with branching {branching} has {most} levels")
        object.__setattr__(self, "levels", levels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of a (full) block of each level, from the leaves: 1, branching, branching^2, ..."""
        assert self.levels is not None
        return tuple(self.branching**level for level in range(self.levels))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of nodes, number of cells."""
        return sum(-(-self.n // size) for size in self.sizes), self.n

    def apply(self, x: Array) -> Array:
        """Return the sums over blocks, each level from the one below."""
        levels = [x]
        for _ in self.sizes[1:]:
            levels.append(np.add.reduceat(levels[-1], np.arange(0, levels[-1].shape[1], self.branching), axis=1))
        return np.concatenate(levels, axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return, for each cell, the sum over the nodes above it."""
        counts = [-(-self.n // size) for size in self.sizes]
        *below, total = np.split(y, np.cumsum(counts)[:-1], axis=1)
        for level in reversed(below):
            total = level + np.repeat(total, self.branching, axis=1)[:, : level.shape[1]]
        return total

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the block of each of the given nodes."""
        counts = np.array([-(-self.n // size) for size in self.sizes])
        offsets = np.concatenate(([0], np.cumsum(counts)))
        level = np.searchsorted(offsets, indices, side="right") - 1
        size = np.array(self.sizes)[level]
        starts = (indices - offsets[level]) * size
        return starts, np.minimum(starts + size, self.n)

    def column_norms(self, power: int = 1) -> Array:
        """Return the number of levels: each cell is in one node of each."""
        return np.full(self.n, self.levels, dtype=np.int64)

    def energy(self) -> Energy:
        """Return, level by level, the squared overlaps of a run with its first, last and inner blocks."""

        def energy(starts: Array, ends: Array) -> Array:
            total: Array = np.zeros(np.shape(starts))
            for size in self.sizes:
                first, last = starts // size, (ends - 1) // size
                apart = ((first + 1.0) * size - starts) ** 2 + (ends - last * float(size)) ** 2
                apart += (last - first - 1.0) * float(size) ** 2
                total += np.where(first == last, (ends - starts).astype(float) ** 2, apart)
            return total

        return energy

    def _gram(self) -> Array:
        gram, cells = np.zeros((self.n, self.n)), np.arange(self.n)
        for size in self.sizes:
            block = cells // size
            gram += block[:, None] == block
        return gram


def depth(n: int, branching: int) -> int:
    """Return the number of levels of a full tree: leaves, blocks of `branching`, ..., the root."""
    levels = 1
    while n > 1:
        n, levels = -(-n // branching), levels + 1
    return levels

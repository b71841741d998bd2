"""The Haar wavelet basis: the total, and the difference between the halves of every block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.workload.base import Array, Number, Workload, corner_sums, run_sums, whole

Integers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Wavelet(Workload):
    """The total of `n` cells, then the left minus the right half of every block of 2^k cells, the largest blocks first.

    Over a number of cells that is no power of two the blocks are those of the next one, less the cells that are not
    there (Xiao et al. 2010 fill them with zeros): every cell is in one block of each size.

    Examples
    --------
    >>> from dpnotebook.workload import Wavelet
    >>> Wavelet(4).dense()
    array([[ 1,  1,  1,  1],
           [ 1,  1, -1, -1],
           [ 1, -1,  0,  0],
           [ 0,  0,  1, -1]])
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole(self.n, "the number of cells"))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of a block of each size, the largest first."""
        return tuple(2**level for level in range((self.n - 1).bit_length(), 0, -1))

    @property
    def complete(self) -> bool:
        """Whether the number of cells is a power of two; then the rows are orthogonal."""
        return self.n & (self.n - 1) == 0

    @property
    def shape(self) -> tuple[int, int]:
        """One row and one a block, number of cells."""
        return 1 + sum(-(-self.n // size) for size in self.sizes), self.n

    def halves(self, indices: Integers) -> tuple[Integers, Integers, Integers]:
        """Return where the block of each of the given rows starts, where its second half does, and where it ends."""
        counts = np.array([1, *(-(-self.n // size) for size in self.sizes)])
        offsets = np.concatenate(([0], np.cumsum(counts)))
        level = np.searchsorted(offsets, indices, side="right") - 1
        size = np.array([2 * max(1, self.n), *self.sizes])[
            level
        ]  # the total is the first half of a block without a second
        starts = (indices - offsets[level]) * size
        return starts, np.minimum(starts + size // 2, self.n), np.minimum(starts + size, self.n)

    def apply(self, x: Array) -> Array:
        """Return the total and the differences, from the smallest blocks upwards."""
        sums, differences = x, []
        for _ in self.sizes:
            if sums.shape[1] % 2:
                sums = np.concatenate((sums, np.zeros_like(sums[:, :1])), axis=1)
            differences.append(sums[:, ::2] - sums[:, 1::2])
            sums = sums[:, ::2] + sums[:, 1::2]
        return np.concatenate([sums, *reversed(differences)], axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return, for each cell, the rows that add it less those that take it away."""
        counts = [-(-self.n // size) for size in self.sizes]
        total, *levels = np.split(y, np.cumsum([1, *counts])[:-1], axis=1)
        for size, level in zip(self.sizes, levels, strict=True):
            halves = np.stack((total + level, total - level), axis=2).reshape(y.shape[0], -1, y.shape[2])
            total = halves[:, : -(-self.n // (size // 2))]
        return total

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as 0 and plus or minus 1, shape (len(indices), n)."""
        starts, middles, ends = (part[:, None] for part in self.halves(np.asarray(indices, dtype=np.int64)))
        cells = np.arange(self.n)
        first, second = (starts <= cells) & (cells < middles), (middles <= cells) & (cells < ends)
        return first.astype(np.int64) - second

    def column_norms(self, power: int = 1) -> Array:
        """Return the number of sizes and one more: each cell is in the total and in one block of each size."""
        return np.full(self.n, len(self.sizes) + 1, dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the number of sizes and one more."""
        return len(self.sizes) + 1

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w, from sums over the blocks and their halves."""
        starts, middles, ends = self.halves(np.arange(self.shape[0]))
        corners = corner_sums((matrix + np.swapaxes(matrix, -1, -2)) / 2)
        halves = run_sums(corners, starts, middles) + run_sums(corners, middles, ends)
        return np.asarray(2 * halves - run_sums(corners, starts, ends))

    def _gram(self) -> Array:
        gram, cells = np.ones((self.n, self.n)), np.arange(self.n)
        for size in self.sizes:
            block, sign = cells // size, 1.0 - 2 * (cells // (size // 2) % 2)
            gram += np.where(block[:, None] == block, np.multiply.outer(sign, sign), 0)
        return gram

"""Ranges of one width: HDMM's "width 32" workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, Energy, whole
from dpnotebook.workload.contiguous import Contiguous, Integers, squares


@dataclass(frozen=True, repr=False)
class WidthRange(Contiguous):
    """Every range of exactly `width` cells: query i counts cells i to i + width - 1.

    Parameters
    ----------
    n
        Number of cells.
    width
        Cells of each range, from 1 (Identity) to n (Total).

    Examples
    --------
    >>> from dpnotebook.workload import WidthRange
    >>> WidthRange(4, 2).dense()
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """

    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        width = whole(self.width, "the width of the ranges")
        if width > self.n:
            raise WorkloadError(f"ranges of {width:,} cells do not fit into {self.n:,} cells; write a smaller width")
        object.__setattr__(self, "width", width)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of ranges n - width + 1, number of cells n."""
        return self.n - self.width + 1, self.n

    def apply(self, x: Array) -> Array:
        """Return differences of prefix sums."""
        sums = np.zeros((x.shape[0], self.n + 1, x.shape[2]), dtype=x.dtype)
        np.cumsum(x, axis=1, out=sums[:, 1:])
        return np.asarray(sums[:, self.width :] - sums[:, : -self.width])

    def apply_transposed(self, y: Array) -> Array:
        """Return, for each cell, the sum over the ranges that hold it: a running sum of starts minus ends."""
        steps = np.zeros((y.shape[0], self.n, y.shape[2]), dtype=y.dtype)
        steps[:, : self.shape[0]] += y
        steps[:, self.width :] -= y[:, :-1]
        return np.cumsum(steps, axis=1)

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return [i, i + width) for query i."""
        return indices, indices + self.width

    def column_norms(self, power: int = 1) -> Array:
        """Return how many ranges hold each cell: as many as may start at most width - 1 cells before it."""
        earliest, latest = self._starts()
        return latest - earliest + 1

    def energy(self) -> Energy:
        """Return the closed form: the overlap with a run rises by one a range, stays, and falls by one again."""

        def energy(starts: Array, ends: Array) -> Array:
            top = np.minimum(ends - starts, self.width)

            def below(first: int) -> Array:
                rising = np.clip(first - (starts - self.width), 0, top)
                level = np.clip(first - (starts - self.width + top), 0, ends - starts + self.width - 2 * top + 1)
                falling = np.clip(first - (ends - top + 1), 0, top)
                most = top.astype(float)
                slopes = squares(rising - 1.0) + squares(most - 1) - squares(most - 1 - falling)
                return np.asarray(level * most**2 + slopes)

            return below(self.shape[0]) - below(0)

        return energy

    def _gram(self) -> Array:
        """Return how many ranges hold both of two cells: those that start from the earliest to the latest that may."""
        earliest, latest = self._starts()
        gram: Array = np.minimum.outer(latest, latest).astype(float)
        gram -= np.maximum.outer(earliest, earliest)
        gram += 1
        return np.maximum(gram, 0, out=gram)

    def _starts(self) -> tuple[Integers, Integers]:
        """Return the first and the last cell at which a range that holds each cell starts."""
        cells = np.arange(self.n)
        return np.maximum(cells - self.width + 1, 0), np.minimum(cells, self.shape[0] - 1)

"""How many units lie in each of some bins, with noise: what bounds are chosen from, and what they take is told by."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """Noisy numbers of units in bins.

    Parameters
    ----------
    counts
        Noisy number of units in each bin, shape (bins,).
    scale
        Standard deviation of the noise on each.
    edges
        Of the bins, increasing, shape (bins + 1,). Further ones say where those may be who are counted in the last bin.
    tail_ratio
        How many times as wide Gaussian noise would be that is far out as often.
    """

    counts: Floats
    scale: float
    edges: Floats
    tail_ratio: float = 1.0

    @property
    def size(self) -> int:
        """How many bins there are."""
        return self.counts.size

    @property
    def stable(self) -> bool:
        """Whether the noise is Gaussian; sums of Laplace noise are far out more often."""
        return self.tail_ratio <= 1.0

    def with_found(self, first: int, end: int) -> FoundBins:
        """Return it with the first bin in which units are found, and the one behind the last."""
        return FoundBins(self.counts, self.scale, self.edges, self.tail_ratio, first=first, end=end)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundBins(NoisyHistogram):
    """A noisy histogram of which is known in which bins units are surely found: beyond these, noise hides tails.

    Parameters
    ----------
    counts, scale, edges, tail_ratio
        As for `NoisyHistogram`.
    first, end
        The first bin in which units are found, and the one behind the last.
    """

    first: int
    end: int

    @property
    def inside(self) -> slice:
        """The bins in which units are found."""
        return slice(self.first, self.end)

    @property
    def behind(self) -> Floats:
        """The noisy number of units in each bin behind the found ones."""
        return self.counts[self.end :]

    @property
    def width(self) -> float:
        """How wide the found bins are in all; 1 where that is nothing."""
        return float(self.edges[self.end] - self.edges[self.first]) or 1.0

    @property
    def middles_behind(self) -> Floats:
        """How far the middle of each bin behind the found ones is from these, further edges counted as bins."""
        return np.asarray((self.edges[self.end + 1 :] + self.edges[self.end : -1]) / 2 - self.edges[self.end])

    def mirrored(self) -> FoundBins:
        """Return it of values of the other sign: what lies below the found bins is behind them there."""
        first, end = self.size - self.end, self.size - self.first
        return replace(self, counts=self.counts[::-1], edges=-self.edges[::-1], first=first, end=end)

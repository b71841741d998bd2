"""Between which values most rows lie: bins of equal width between bounds, and again between the ones that are found.

Orders of magnitude alone, as in Wilson et al., section 4.2.5, say of years that they are between 1,024 and 2,048, and
averages would be hidden behind noise for values from all of that. A histogram may have many bins at the same cost. In
the end what lies outside is cut off where the bias of that and the noise for what is inside are least together.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.sql.aggregates.budget_split import HISTOGRAMS
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.norms import runs_end, with_tail

Floats = NDArray[np.float64]

ROUNDS = HISTOGRAMS - 2  # histograms of bins of equal width that are looked at: the last one is coarse
FINE, COARSE = 1024, 64  # bins: many tell where values are, few tell how many are in the tails
SPREAD = FINE // 16  # bins: where values take more, finer ones would not tell more
FALLS = 0.6  # what each bin behind the last one that is found has of the one before, where noise hides it


def wider(bounds: Bounds) -> Bounds:
    """Return bounds of magnitudes with the next order of magnitude: the tail of the last one may be hidden there."""
    low, high = bounds
    return low * 2 if low < 0 else low, high * 2 if high > 0 else high


def located(counts: ArrayLike, scale: float, bounds: Bounds) -> tuple[Bounds, bool] | None:
    """Return bounds that hold all values, but for a tail, and whether finer bins would tell more; None where hidden.

    Parameters
    ----------
    counts
        Noisy number of units in each of some bins of equal width, shape (bins,).
    scale
        Standard deviation of the Gaussian noise on each.
    bounds
        What the bins lie between.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale)
    if found is None:
        return None
    first, end = found
    wide = end - first  # as much on either side: a tail may be hidden
    return _between(bounds, noisy.size, max(first - wide, 0), min(end + wide, noisy.size)), wide < SPREAD


def trimmed(counts: ArrayLike, scale: float, bounds: Bounds, noise: float, *, squares: bool) -> Bounds | None:
    """Return the bounds between which values are kept for the least error of an answer; None where noise hides all.

    Parameters
    ----------
    counts, scale, bounds
        As for `located`.
    noise
        About the standard deviation of the noise on a sum over all units, of values half-way between bounds 2 apart.
    squares
        Whether the answer is how far values are spread, and not their mean.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale)
    if found is None:
        return None
    counts = _counts(noisy, scale, *found)
    units, ends = max(float(counts.sum()), 1.0), np.arange(noisy.size + 1)
    low, high = (side.ravel() for side in np.meshgrid(ends, ends, indexing="ij"))
    low, high = low[low < high], high[low < high]
    places, weights = np.arange(noisy.size) + 0.5, counts / units
    kept = np.clip(places, low[:, None], high[:, None])
    if squares:
        spread = kept**2 @ weights - (kept @ weights) ** 2
        bias, half = places**2 @ weights - (places @ weights) ** 2 - spread, ((high - low) / 2) ** 2
    else:  # what is cut off on one side may be less than is thought, so that it makes up for nothing
        bias, half = np.abs(places - kept) @ weights, (high - low) / 2
    best = int(np.argmin(bias**2 + (noise / units * half) ** 2))
    return _between(bounds, noisy.size, int(low[best]), int(high[best]))


def _found(noisy: Floats, scale: float) -> tuple[int, int] | None:
    """Return the first bin that surely holds units, and the one behind the last; None where there is none."""
    end, start = (runs_end(counts, scale, noisy.size // 4) for counts in (noisy, noisy[::-1]))
    if end is None or start is None:
        return None
    first, end = max(noisy.size - start, 0), min(end, noisy.size)
    return min(first, end - 1), max(end, first + 1)


def _counts(noisy: Floats, scale: float, first: int, end: int) -> Floats:
    """Return how many units each bin may hold: those that are found, and tails on either side of them."""
    above = with_tail(noisy[first:], scale, end - first, FALLS)
    below = with_tail(noisy[:end][::-1], scale, end - first, FALLS)[::-1]
    return np.maximum(np.concatenate([below[:first], noisy[first:end], above[end - first :]]), 0.0)


def _between(bounds: Bounds, bins: int, first: int, end: int) -> Bounds:
    """Return the edges of some bins of equal width."""
    low, width = bounds[0], (bounds[1] - bounds[0]) / bins
    return tuple(Fraction(float(low + width * place)) for place in (first, end))

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
TOGETHER = 32  # parts that what is found is looked at in, where it ends
FALLS = 0.6  # what each of these behind the last one that is found has of the one before, where noise hides it


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


def trimmed(counts: ArrayLike, scale: float, bounds: Bounds, noise: float) -> Bounds | None:
    """Return the bounds between which values are kept for the least error of their mean; None where noise hides all.

    Parameters
    ----------
    counts, scale, bounds
        As for `located`.
    noise
        About the standard deviation of the noise on a sum over all units, of values half-way between bounds 2 apart.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale)
    if found is None:
        return None
    first, end = found
    together = max(1, (end - first) // TOGETHER)
    above = _kept(noisy, scale, first, end, together, noise)
    below = noisy.size - _kept(noisy[::-1], scale, noisy.size - end, noisy.size - first, together, noise)
    return _between(bounds, noisy.size, min(below, above - 1), above)


def _found(noisy: Floats, scale: float) -> tuple[int, int] | None:
    """Return the first bin that surely holds units, and the one behind the last; None where there is none."""
    end, start = (runs_end(counts, scale, noisy.size // 4) for counts in (noisy, noisy[::-1]))
    if end is None or start is None:
        return None
    first, end = max(noisy.size - start, 0), min(end, noisy.size)
    return min(first, end - 1), max(end, first + 1)


def _kept(noisy: Floats, scale: float, first: int, end: int, together: int, noise: float) -> int:
    """Return before which bin values are cut off above, of those up to `end` that are found, and their tail."""
    beyond = max((noisy.size - end) // together, 0)
    tail = noisy[end : end + beyond * together].reshape(beyond, together).sum(axis=1)
    inside = noisy[end - (end - first) // together * together : end].reshape(-1, together).sum(axis=1)
    counts = np.maximum(with_tail(np.concatenate([inside, tail]), scale * together**0.5, inside.size, FALLS), 0.0)
    units = max(float(counts.sum()), 1.0)
    places = np.arange(counts.size) + 0.5
    ends = np.arange(1, counts.size + 1)
    bias = np.maximum(places - ends[:, None], 0.0) @ counts / units
    kept = int(ends[np.argmin(bias**2 + (noise / units * ends / 2) ** 2)])
    return min(end + (kept - inside.size) * together, noisy.size)


def _between(bounds: Bounds, bins: int, first: int, end: int) -> Bounds:
    """Return the edges of some bins of equal width."""
    low, width = bounds[0], (bounds[1] - bounds[0]) / bins
    return tuple(Fraction(float(low + width * place)) for place in (first, end))

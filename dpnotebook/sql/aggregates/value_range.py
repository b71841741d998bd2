"""Between which values most rows lie: bins of equal width between bounds, and again between the ones that are found.

Orders of magnitude alone, as in Wilson et al., section 4.2.5, say of years that they are between 1,024 and 2,048, and
averages would be hidden behind noise for values from all of that. A histogram may have many bins at the same cost. The
last one has few: narrow ones where most values are, and on either side wider ones the farther away they are, so that
all of a long tail is in few noisy numbers. What lies outside is cut off where the bias of that and the noise for what
is inside are least together, and about how much that bias is, at most, is told.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.laws import Noise
from dpnotebook.sql.aggregates.bounds_choice import Answer, bias, least_off, noise_between, noise_of_squares
from dpnotebook.sql.aggregates.budget_split import OF_VALUES
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.hidden_tail import ALIKE, alike_tails, hidden_tail
from dpnotebook.sql.aggregates.lost_values import lost_between
from dpnotebook.sql.aggregates.norms import MOST_BINS, SURE, runs_end
from dpnotebook.sql.aggregates.taken import Taken

Floats = NDArray[np.float64]

ROUNDS = OF_VALUES - 1  # histograms of values beside that of magnitudes: the last one is coarse
FINE = 1536  # bins of equal width: many tell where values are
SPIKE = 2  # bins: what takes no more may be one value that many have
SPREAD = 64  # bins: where values take more, finer ones would not tell more
NARROW = 12  # bins of equal width where values are surely found: few tell how many are in the tails
WIDENS = 1.35  # how many times as far from the middle each edge behind these is as the one before
FINER = 4  # ends to choose from in a bin, in which values are taken to be spread evenly
FILLED = 3.0  # standard deviations the second half of a run stands out by, for squares: wide bounds cost most there
# How likely noise alone may fill a bin near those found; an eighth of that for each doubling of their width.
NEXT = 3e-3
SEEN = 1e-5  # how likely noise alone may fill some bin or run of the last histogram: far ones make bounds too wide
BEHIND = 12  # times the largest magnitude that is found, up to which a tail is looked at
HIDES = 3.0  # standard deviations of noise that may hide values apart from the others
LEFT = 0.005  # of all values, that may be beyond either end of what nearly all lie between
SPREADS = 1.0  # standard errors, by which squares are rather taken to be spread too far than too little
USUAL = 0.5  # of the laws of a tail, the one that is expected
LEAST_LEFT = 0.25  # of the size of values, what is left on average where some are below 0


def wider(bounds: Bounds) -> Bounds:
    """Return bounds of magnitudes with the next order of magnitude, and with as many below zero as above.

    Tails may be hidden there. Where most values are on one side of zero, those on the other one are of several orders
    of magnitude, and noise hides them in each of these.
    """
    low, high = bounds
    return min(low * 2, -high), max(high * 2, -low)


def with_tails(bounds: Bounds) -> Bounds:
    """Return bounds of magnitudes with several more on each side where values are, for tails, and the other side."""
    low, high = bounds
    return min(low * BEHIND, -high), max(high * BEHIND, -low)


def located(
    counts: ArrayLike, scale: float, bounds: Bounds, units: float = 0.0, tail_ratio: float = 1.0
) -> tuple[Bounds, bool] | None:
    """Return bounds of the values that are surely there, and whether finer bins would tell more; None where hidden.

    Where these are fewer than half, noise hides most: one answer of five, say, that a third have is not what all have.

    Parameters
    ----------
    counts
        Noisy number of units in each of some bins of equal width, shape (bins,).
    scale
        Standard deviation of the noise on each.
    bounds
        What the bins lie between.
    units
        About how many units there are in all, where that is known.
    tail_ratio
        How many times as wide Gaussian noise would be that is far out as often.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale, noisy.size // 4, tail_ratio)
    if found is None:
        return None
    first, end = found
    if float(noisy[first:end].sum()) + scale * math.sqrt(end - first) < units / 2:
        return None
    low, width = bounds[0], (bounds[1] - bounds[0]) / noisy.size
    return tuple(Fraction(float(low + width * place)) for place in found), end - first < SPREAD


def is_spike(found: Bounds, between: Bounds, magnitudes: Bounds) -> bool:
    """Return whether nearly all that is found is one value, such as zero, and others are surely far from it.

    Parameters
    ----------
    found, between
        What `located` found, and what its bins lie between.
    magnitudes
        What values were found to lie between before, whose farthest order of magnitude surely has some.
    """
    (low, high), (least, most) = found, magnitudes
    narrow = high - low <= SPIKE * (between[1] - between[0]) / FINE
    return narrow and (high < most / 2 if most > -least else low > least / 2)


def with_margins(found: Bounds, bounds: Bounds) -> Bounds:
    """Return bounds with as much on either side, as far as other bounds go."""
    low, high = found
    return max(2 * low - high, bounds[0]), min(2 * high - low, bounds[1])


def range_edges(found: Bounds, bounds: Bounds) -> Floats:
    """Return the edges of bins that are narrow between bounds of most values, and get wider up to those of all."""
    low, high = map(float, found)
    middle, half = (low + high) / 2, (high - low) / 2
    least, most = map(float, bounds)
    times = math.log(max(most - middle, middle - least, half) / half) / math.log(WIDENS)
    away = half * WIDENS ** np.arange(1, math.ceil(times) + 1)
    edges = np.concatenate([middle - away, np.linspace(low, high, NARROW + 1), middle + away])
    return np.unique(np.clip(edges, least, most))


def trimmed(
    counts: ArrayLike,
    scale: float,
    edges: Floats,
    noise: float,
    of: Answer,
    tail_ratio: float = 1.0,
    sure: Bounds | None = None,
    safe: bool = False,
    ends: tuple[float, float] | None = None,
) -> tuple[Bounds, Taken] | None:
    """Return the bounds between which values are kept for the least error of an answer; None where noise hides all.

    Parameters
    ----------
    counts
        Noisy number of units in each bin, shape (bins,).
    scale
        Standard deviation of the noise on each.
    edges
        Of the bins, as `range_edges` has them.
    noise
        About the standard deviation of the noise on a sum over all units, of values half-way between bounds 2 apart.
    of
        What the answer is: how large values are on average, all together, or how far they are spread.
    tail_ratio
        How many times as wide Gaussian noise would be that is far out as often.
    sure
        What the bounds hold at least; None where these counts alone tell.
    safe
        Whether what they may take, in place of what is expected, is to be little beside the noise.
    ends
        As for `lost_between`.

    Returns
    -------
    The bounds, and what keeping values between them takes from a mean, or a variance, about and at most, also if some
    lie apart from the others, and in which direction; of a variance also about how large it is between them, and of
    sums how large values are on average.
    """
    noisy, squares = np.asarray(counts, dtype=float), of in ("squares", "square vectors")
    if (found := found_bins(noisy, scale, edges, tail_ratio, squares=squares)) is None:
        return None
    stable = tail_ratio <= 1.0
    below, kept, above = _ways(noisy, scale, edges, found, stable)
    likely = _most_likely(below, kept, above)
    below, above = (np.concatenate(side, axis=1) for side in ((below, kept, 0 * above), (0 * below, kept, above)))
    finer = np.interp(np.arange(likely.size + 1) / FINER, np.arange(edges.size), edges)
    total, places = max(float(likely.sum()), 1.0), (finer[1:] + finer[:-1]) / 2
    mean = float(np.clip(places @ likely / total, places[0], places[-1]))
    lows, highs = finer[finer < mean], finer[finer > mean]
    if sure is not None:
        lows, highs = lows[lows <= float(sure[0])], highs[highs >= float(sure[1])]
    pairs = np.meshgrid(lows, highs, indexing="ij")
    variance = float((places - mean) ** 2 @ likely / total)
    law: Noise = "laplace" if tail_ratio > 1.0 else "gaussian"  # which is recorded as how far its noise reaches
    if of == "square vectors":
        spread = noise_of_squares(lows, highs, mean, places, likely / total)
    else:
        spread = noise_between(pairs[0], pairs[1], mean, variance, of, law)
    error = noise / total * spread
    if safe:
        heavy = _finer(_counts(noisy, scale, edges, found, tail_ratio)[2])
        feared = bias(heavy, finer, pairs[0].ravel(), pairs[1].ravel(), squares=squares)
        best = int(np.argmin(feared**2 + error.ravel() ** 2))
        low, high = (float(side.flat[best]) for side in pairs)
    else:
        ways = (_anywhere(below, 0) / total, _anywhere(above, -1) / total)
        low, high = least_off(error, *ways, finer, lows, highs, mean, squares)
    return (Fraction(low), Fraction(high)), _taken(noisy, scale, edges, found, (low, high), of, likely, ends, stable)


def taken(
    counts: ArrayLike,
    scale: float,
    edges: Floats,
    bounds: Bounds,
    of: Answer,
    tail_ratio: float = 1.0,
    ends: tuple[float, float] | None = None,
) -> Taken:
    """Return what keeping values between some bounds takes from an answer, as `trimmed` has it of the best ones.

    Parameters
    ----------
    counts, scale, edges, of, tail_ratio, ends
        As for `trimmed`.
    bounds
        Between which values are kept.
    """
    noisy = np.asarray(counts, dtype=float)
    found = found_bins(noisy, scale, edges, tail_ratio, squares=of in ("squares", "square vectors"))
    if found is None:
        return Taken()
    stable = tail_ratio <= 1.0
    likely = _most_likely(*_ways(noisy, scale, edges, found, stable))
    low, high = bounds
    return _taken(noisy, scale, edges, found, (float(low), float(high)), of, likely, ends, stable)


def _taken(
    noisy: Floats,
    scale: float,
    edges: Floats,
    found: tuple[int, int],
    between: tuple[float, float],
    of: Answer,
    likely: Floats,
    ends: tuple[float, float] | None,
    stable: bool,
) -> Taken:
    """Return `taken` for bins in which units are found, and how many of them are likely in each of the finer bins."""
    (low, high), squares = between, of in ("squares", "square vectors")
    lost = lost_between(
        noisy, scale, edges, found, low, high, squares=squares, heavy=of == "sums", ends=ends, stable=stable
    )
    finer = np.interp(np.arange(likely.size + 1) / FINER, np.arange(edges.size), edges)
    places, weights = ((finer[1:] + finer[:-1]) / 2).clip(low, high), likely / max(float(likely.sum()), 1.0)
    answer = float((places - places @ weights) ** 2 @ weights) if squares else math.nan
    if of == "sums":  # of each value; where both signs are, what is lost is in no proportion to the rest that is left
        answer = max(abs(float(places @ weights)), LEAST_LEFT * float(np.abs(places) @ weights))
    apart = max(_apart(noisy, scale, edges, low, high, squares), lost.most)
    looked = float(np.abs(edges[[0, -1]]).max())
    told = Taken(lost.about, lost.most, answer, apart, looked, lost.below, lost.above, lost.single)
    if of == "sums":
        return told
    return told._replace(spread=math.sqrt(float((places - places @ weights) ** 2 @ weights)))


def _ways(
    noisy: Floats, scale: float, edges: Floats, found: tuple[int, int], stable: bool
) -> tuple[Floats, Floats, Floats]:
    """Return how many units bins below the found ones, these, and bins above may hold, in ways alike likely."""
    first, end = found
    kept = np.tile(np.maximum(noisy[first:end], 0.0), (ALIKE, 1))
    above = alike_tails(noisy, scale, edges, first, end, stable=stable)
    below = alike_tails(noisy[::-1], scale, -edges[::-1], noisy.size - end, noisy.size - first, stable=stable)[:, ::-1]
    return below, kept, above


def _most_likely(below: Floats, kept: Floats, above: Floats) -> Floats:
    """Return how many units each of the finer bins holds by the way in the middle."""
    return _finer(np.concatenate([below[ALIKE // 2], kept[0], above[ALIKE // 2]]))


def found_bins(
    noisy: Floats, scale: float, edges: Floats, tail_ratio: float, *, squares: bool
) -> tuple[int, int] | None:
    """Return the first bin in which units are found, and the one behind the last; None where there is none.

    Parameters
    ----------
    noisy, scale, edges, tail_ratio
        As for `trimmed`.
    squares
        Whether it is for variances, of which far bins decide more: they have to be there more surely.
    """
    found = _found(noisy, scale, min(noisy.size // 2, MOST_BINS), tail_ratio, SEEN, FILLED if squares else None)
    return found if found is None or squares else _with_next(noisy, scale * tail_ratio, edges, found)


def mean_and_deviation(
    counts: ArrayLike, scale: float, edges: Floats, bounds: Bounds, tail_ratio: float = 1.0
) -> tuple[float, float, float] | None:
    """Return about the mean of values and how far they are spread, as they count between bounds; None where hidden.

    The standard deviation is rather too large than too small, by one standard error. The last is that of the squares
    of how far values are from their mean, in squared standard deviations.

    Parameters
    ----------
    counts, scale, edges, tail_ratio
        As for `trimmed`.
    bounds
        Outside which values count as the nearest of them.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale, min(noisy.size // 2, MOST_BINS), tail_ratio, SEEN)
    if found is None:
        return None
    first, end = found = _with_next(noisy, scale * tail_ratio, edges, found)
    _, units, _ = _counts(noisy, scale, edges, found, tail_ratio)
    units[first:end] = noisy[first:end]
    low, high = map(float, bounds)
    lows, highs = (ends.clip(low, high) for ends in (edges[:-1], edges[1:]))
    places, total = (lows + highs) / 2, max(float(units.sum()), scale)
    mean = float(np.clip(places @ units / total, places[0], places[-1]))
    away, widths = (places - mean) ** 2, (highs - lows) ** 2
    squares, fourths = away + widths / 12, away**2 + away * widths / 2 + widths**2 / 80
    error = scale * float(np.sqrt((squares[first:end] ** 2).sum()))
    variance = max((max(float(squares @ units), 0.0) + error) / total, 1e-300)
    around = np.maximum(fourths / variance - 2 * squares + variance, 0.0)  # over the variance
    error = scale * float(np.sqrt((around[first:end] ** 2).sum()))
    return mean, math.sqrt(variance), math.sqrt((max(float(around @ units), 0.0) + SPREADS * error) / total / variance)


def spanned(counts: ArrayLike, scale: float, edges: Floats, tail_ratio: float = 1.0) -> Bounds | None:
    """Return what nearly all values lie between: bins that surely hold some, and what noise may hide beside them.

    Wide bounds cost quantiles hardly anything, as these err in ranks; narrow ones are the answer for all beyond them.

    Parameters
    ----------
    counts, scale, edges, tail_ratio
        As for `trimmed`.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale, min(noisy.size // 2, MOST_BINS), tail_ratio, SEEN)
    if found is None:
        return None
    first, end = max(found[0] - 1, 0), min(found[1] + 1, noisy.size)
    _, average, _ = _counts(noisy, scale, edges, found, tail_ratio)
    left = LEFT * average.sum()
    first = min(first, int(np.searchsorted(np.cumsum(average), left, side="right")))
    end = max(end, noisy.size - int(np.searchsorted(np.cumsum(average[::-1]), left, side="right")))
    return Fraction(float(edges[first])), Fraction(float(edges[end]))


def _apart(noisy: Floats, scale: float, edges: Floats, low: float, high: float, squares: bool) -> float:
    """Return what keeping values between bounds takes at most, by what noise may hide in all bins, near and far.

    What the noisy counts say is off by noise alone, whose standard deviation is known.
    """
    middle = float((edges[1:] + edges[:-1]).clip(2 * low, 2 * high) @ np.maximum(noisy, 0.0)) / 2
    total = max(float(noisy.sum()), 1.0)
    each = _of_each(edges[:-1], edges[1:], low, high, middle / total if squares else None)
    return max(float(each @ noisy) + HIDES * scale * float(np.sqrt((each**2).sum())), 0.0) / total


def _of_each(least: Floats, most: Floats, low: float, high: float, middle: float | None) -> Floats:
    """Return what a value loses that lies at the far end of a bin, or of its square about a middle, shape (bins,)."""
    less, more = np.maximum(low - least, 0.0), np.maximum(most - high, 0.0)
    if middle is None:
        return np.asarray(less + more)
    below = np.where(less > 0.0, (least - middle) ** 2 - (low - middle) ** 2, 0.0)
    above = np.where(more > 0.0, (most - middle) ** 2 - (high - middle) ** 2, 0.0)
    return np.asarray(np.maximum(below + above, 0.0))


def _found(
    noisy: Floats, scale: float, most: int, tail_ratio: float, sure: float = SURE, filled: float | None = None
) -> tuple[int, int] | None:
    """Return the first bin that surely holds units, and the one behind the last; None where there is none."""
    end, start = (runs_end(counts, scale, most, sure, filled, tail_ratio) for counts in (noisy, noisy[::-1]))
    if end is None or start is None:
        return None
    first, end = max(noisy.size - start, 0), min(end, noisy.size)
    return min(first, end - 1), max(end, first + 1)


def _with_next(noisy: Floats, scale: float, edges: Floats, found: tuple[int, int]) -> tuple[int, int]:
    """Return the bins that hold units with others that seem to: the farther these widen them, the less noise may do it.

    Of a few levels, as of answers to a question, the bins between them are empty: no law of tails tells of the others.
    """
    from scipy.special import ndtri

    first, end = found
    span = max(float(edges[end] - edges[first]), NARROW / 2 * float(np.diff(edges).min()))
    below, above = (edges[end] - edges[:first]) / span, (edges[end + 1 :] - edges[first]) / span
    wide = np.concatenate([below, np.ones(end - first), above])
    levels = scale * -ndtri(NEXT / 8.0 ** np.log2(wide.clip(1.0)))
    told = np.flatnonzero(noisy >= levels)
    return min(first, int(told[0])) if told.size else first, max(end, int(told[-1]) + 1) if told.size else end


def _counts(
    noisy: Floats, scale: float, edges: Floats, found: tuple[int, int], tail_ratio: float
) -> tuple[Floats, Floats, Floats]:
    """Return how many units each bin likely holds, on average and at most: with tails on either side."""
    (first, end), size, stable = found, noisy.size, tail_ratio <= 1.0
    above = hidden_tail(noisy, scale, edges, first, end, USUAL, beside=True, stable=stable)
    below = hidden_tail(noisy[::-1], scale, -edges[::-1], size - end, size - first, USUAL, beside=True, stable=stable)
    kept = np.maximum(noisy[first:end], 0.0)
    likely, average, most = (np.concatenate([less[::-1], kept, more]) for less, more in zip(below, above, strict=True))
    return likely, average, most


def likely_counts(noisy: Floats, scale: float, edges: Floats, found: tuple[int, int], tail_ratio: float) -> Floats:
    """Return how many units each bin likely holds: those that are found, and likely tails on either side."""
    return _counts(noisy, scale, edges, found, tail_ratio)[0]


def _finer(units: Floats) -> Floats:
    """Return how many units each of the finer bins holds that bounds are chosen from, shape (..., FINER * bins)."""
    return np.repeat(units / FINER, FINER, axis=-1)


def _anywhere(ways: Floats, far: int) -> Floats:
    """Return the same of several ways, in every other of which all values of a bin are the same, at its far end."""
    finer = _finer(ways)
    finer[1::2] = 0.0
    finer[1::2, (far % FINER) :: FINER] = ways[1::2]
    return finer

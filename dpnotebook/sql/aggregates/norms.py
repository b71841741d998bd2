"""To what norm the vectors of units are clipped: where the bias of clipping and the noise together are least.

A unit's vector is all that it adds, over all groups. A noisy histogram counts every unit once, by the norm of its
vector. A bin is found where it, or a run of bins from it on, holds more than noise would hardly ever put there. What
clipping to a norm takes away is read off these bins, and off the tail behind them, which is taken to fall as the laws
of `hidden_tail` that suit the noisy counts. Beside that tail there may be units that lie apart (`units_apart`): the
norm is one whose error is small in proportion to the least, whether there are such or not. How much of what is taken
away falls on one group is not known, so all of it is taken to point the same way, which it at most does.

The bins are narrow where Wilson et al., section 4.2.5, have powers of two, and what is chosen is no quantile: the norm
of the largest units is paid for by the noise on every group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.sql.aggregates.bounds import LEAST, MOST
from dpnotebook.sql.aggregates.hidden_tail import hidden_tail
from dpnotebook.sql.aggregates.lost_values import RARELY, ways_lost
from dpnotebook.sql.aggregates.noisy_histogram import Floats, FoundBins, NoisyHistogram
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.units_apart import EVEN, REACH, UnitsApart, expected_errors, units_apart

STEPS = 2  # bins of norms in a factor of two
FINER = 4  # norms to choose from in a bin
SURE = 1e-6  # how likely noise alone may fill some bin or run of bins
MOST_BINS = 16  # bins that are looked at together: 1, 2, 4, 8 and 16 of them
BEHIND = 8  # bins of a tail
USUAL = 0.35  # of the laws of a tail, the one that is expected
ABOVE = 2.0**-30  # by which edges are more than powers of sqrt(2)
ROUNDED = 0.5  # units, by which noise on whole numbers may be off: where noise is less, far sums are far less rare
NEARLY = 1.1  # times the least error, with which a norm is kept that was chosen for other noise
FEW = 2.0  # counts have norms 1, sqrt(2), sqrt(3) and 2 up to here: in bins that end at 1, sqrt(2) and 2


def norm_edges() -> Floats:
    """Return the edges of the bins: 2^-40, ..., 2^63 in steps of sqrt(2); what lies outside is in an end bin.

    A little more than these, as most norms are whole: those of units with one row or two are the most of their bins.
    """
    return np.asarray(2.0 ** (np.arange(LEAST * STEPS, MOST * STEPS + 1) / STEPS)) * (1.0 + ABOVE)


def norm_to_clip_at(
    counts: ArrayLike, scale: float, noise: float, groups: int, whole: bool = False, usual: float = math.inf
) -> tuple[Fraction, Taken] | None:
    """Return the norm with the least expected squared error, and what clipping to it takes away.

    Parameters
    ----------
    counts
        Noisy number of units in each bin of `norm_edges`, shape (bins,).
    scale
        Standard deviation of the Gaussian noise on each.
    noise
        Standard deviation of the noise on the answer of a group, for a norm of 1.
    groups
        How many groups there are.
    whole
        Whether vectors are of whole numbers, as those of counts: then few norms are small.
    usual
        A norm that no unit is meant to pass: behind it there is no tail, unless noise does not hide that some do.

    Returns
    -------
    The norm, and the root mean square over groups of what it takes away, about and at most; None where noise hides all.
    """
    if (found := norm_counts(counts, scale, whole, usual, groups)) is None:
        return None
    best = int(np.argmin(errors_of_norms(found, noise, groups)))
    return Fraction(float(f"{found.norms[best]:.4g}")), taken_by(found, best, groups)


def taken_by(found: NormCounts, place: int, groups: int) -> Taken:
    """Return what clipping to one of the norms takes away, root mean square over groups, about and at most.

    In many ways alike likely it is worked out how much that is: half of them have less than what is expected.
    """
    excess, norm = found.excess[place], float(found.norms[place])
    farthest = np.maximum(found.edges[1:] - norm, 0.0)
    each = np.stack([excess * farthest, excess, farthest**2, farthest], axis=1)
    noisy, bins = found.noisy[: excess.size], (found.start, min(found.end, excess.size))
    told = NoisyHistogram(noisy, found.scale, found.edges).with_found(*bins)
    if not found.whole:  # where most have about the same, every other bin is empty, which is no law of a tail
        told, each = _in_pairs(told, each)
    ways = ways_lost(told, each[:, :2], each[:, 2:], heavy=True)
    shared = math.sqrt(groups)
    squares, lost = np.maximum(ways, 0.0).T
    about, most = np.quantile(lost, [0.5, 1.0 - RARELY]) / shared
    some = float(excess @ found.apart.units) / shared if found.apart.likely > EVEN else 0.0
    lengths = found.lengths
    if found.whole:  # few of them are all at the end of their bin
        lengths = np.where(found.edges[1:] <= FEW, found.edges[1:], lengths)
    kept = max(float((lengths - excess) @ found.likely), norm, found.scale * norm) / shared
    apart = most + found.apart.at_most(excess / shared)
    single = math.sqrt(float(np.median(squares))) / shared
    about, most = float(about) + some, max(float(most), float(about) + some)
    taken = Taken(about, most, kept, below=most, above=0.0, single=single, groups=groups)
    return taken._replace(apart=apart, looked=found.farthest) if apart > most else taken


def _in_pairs(told: FoundBins, each: Floats) -> tuple[FoundBins, Floats]:
    """Return bins put together in twos, one of which ends where the last that is found does, and what each loses."""
    start = told.end % 2
    last = start + (told.size - start) // 2 * 2
    pairs = told.counts[start:last].reshape(-1, 2).sum(axis=1)
    of_pairs = each[start:last].reshape(-1, 2, each.shape[1])
    lost = np.concatenate([of_pairs.mean(axis=1)[:, :2], of_pairs.max(axis=1)[:, 2:]], axis=1)
    both = NoisyHistogram(pairs, told.scale * math.sqrt(2.0), told.edges[start : last + 1 : 2], told.tail_ratio)
    return both.with_found(max(told.first - start, 0) // 2, (told.end - start) // 2), lost


def nearly_best(
    norm: float,
    counts: ArrayLike,
    scale: float,
    noise: float,
    groups: int,
    whole: bool = False,
    usual: float = math.inf,
    own: float | None = None,
) -> bool:
    """Return whether a norm that vectors were clipped to gives nearly the least error with other noise too.

    Parameters
    ----------
    norm
        That is asked about; the others as for `norm_to_clip_at`.
    own
        The noise that it would have, where it is another one.
    """
    if (found := norm_counts(counts, scale, whole, usual, groups)) is None:
        return True
    errors = errors_of_norms(found, noise, groups)
    mine = errors if own is None else errors_of_norms(found, own, groups)
    return float(np.interp(norm, found.norms, mine)) <= float(errors.min()) + math.log(NEARLY)


def errors_of_norms(found: NormCounts, noise: float, groups: int) -> Floats:
    """Return the logarithm of the error of each norm, expected over whether some units lie apart."""
    every = (noise * found.norms) ** 2
    return usual_errors(found, lambda lost: (lost / math.sqrt(groups)) ** 2 + every)


def usual_errors(found: NormCounts, squared: Callable[[Floats], Floats]) -> Floats:
    """Return the logarithms of errors, expected over whether some units lie apart.

    Parameters
    ----------
    found
        How many units have which norm.
    squared
        Gives squared errors where clipping to each norm takes so much away, over all groups.
    """
    usual, apart = (
        squared(np.maximum(found.excess @ units, 0.0)) for units in (found.likely, found.likely + found.apart.units)
    )
    return expected_errors(usual, apart, found.apart.likely)


class NormCounts(NamedTuple):
    """How many units have which norm, as far as noise and the tail behind it tell.

    Parameters
    ----------
    norms
        To choose from, shape (norms,).
    excess
        By how much a norm in each bin passes them, on average, shape (norms, bins).
    lengths
        The norm in each bin, on average, shape (bins,).
    noisy
        The noisy counts, of all bins of `norm_edges`.
    likely, average, heavy
        Units in each bin, to choose by, on average, and at most, shape (bins,).
    apart
        Those that may lie apart behind the others, beside them.
    farthest
        The norm up to which these were looked for.
    edges
        Of the bins, shape (bins + 1,).
    start, end
        The first bin in which units are found, and the one behind the last.
    scale
        Standard deviation of the noise on each count.
    whole
        Whether vectors are of whole numbers.
    """

    norms: Floats
    excess: Floats
    lengths: Floats
    noisy: Floats
    likely: Floats
    average: Floats
    heavy: Floats
    apart: UnitsApart
    farthest: float
    edges: Floats
    start: int
    end: int
    scale: float
    whole: bool


def norm_counts(
    counts: ArrayLike, scale: float, whole: bool = False, usual: float = math.inf, groups: float = math.inf
) -> NormCounts | None:
    """Return how many units have which norm; see `norm_to_clip_at`. None where noise hides all."""
    noisy = np.asarray(counts, dtype=float)
    end = runs_end(noisy, scale)
    if end is None:
        return None
    most = int(np.searchsorted(norm_edges(), usual * (1.0 - ABOVE)))
    last, farthest = (
        min(end + behind if end > most else min(most, end + behind), noisy.size) for behind in (BEHIND, REACH)
    )
    norms, excess = _excess(farthest, whole)
    edges = _passed(norm_edges()[: farthest + 1], groups) if whole else norm_edges()[: farthest + 1]
    start = runs_start(noisy, scale)
    first = noisy.size - end if start is None else start
    tails = (
        hidden_tail(
            NoisyHistogram(noisy[:last], scale, edges[: last + 1]).with_found(min(first, end - 1), end),
            USUAL,
            alike=whole,
        )
        if last > end
        else [np.zeros(0)] * 3
    )
    lengths = (edges[1:] - edges[:-1]) * STEPS / math.log(2)
    found, beyond = noisy[:end][:farthest], np.zeros(farthest - last)
    likely, average, heavy = (np.concatenate([found, tail, beyond]) for tail in tails)
    noise = math.hypot(scale, ROUNDED)
    apart = units_apart(noisy[end:farthest] - likely[end:], noise, float(found.sum()), end)
    told = lengths, noisy, likely, average, heavy, apart, float(norm_edges()[farthest])
    return NormCounts(norms, excess, *told, edges, min(first, end - 1), end, scale, whole)


def _passed(edges: Floats, groups: float) -> Floats:
    """Return the longest norm of whole numbers that does not pass each edge: nobody is between two, as laws are.

    Of one group that is a whole number, of several the root of one.
    """
    return np.floor(edges) if groups == 1 else np.sqrt(np.floor(edges**2))


def described(counts: ArrayLike, scale: float) -> tuple[float, float, float]:
    """Return about how many units there are, and the ends of the bins that half and 95% of them do not pass.

    Parameters
    ----------
    counts, scale
        As for `norm_to_clip_at`; all are NaN where noise hides the units.
    """
    noisy = np.asarray(counts, dtype=float)
    end, first = runs_end(noisy, scale), runs_start(noisy, scale)
    if end is None or first is None:
        return math.nan, math.nan, math.nan
    below = np.maximum.accumulate(np.cumsum(noisy[first:end]))
    units = float(below[-1])
    half, most = (float(norm_edges()[first + 1 + np.searchsorted(below, share * units)]) for share in (0.5, 0.95))
    return round(units), half, most


def runs_end(
    noisy: Floats,
    scale: float,
    most: int = MOST_BINS,
    sure: float = SURE,
    filled: float | None = None,
    tail_ratio: float = 1.0,
) -> int | None:
    """Return where the last run of bins ends that noise alone would hardly have filled; None where there is none.

    Runs are of 1, 2, 4, ... bins, up to `most`; noise alone fills some of them with a probability of `sure`. Of those
    that start last it is the fullest; or, where `filled` is given, the shortest whose second half stands out by itself
    too, by so many standard deviations, if there is any: a long run may stand out by its first bins alone. `tail_ratio`
    is how many times as wide Gaussian noise would be that is far out as often as that of one bin.
    """
    from scipy.special import ndtri

    scale, widths = math.hypot(scale, ROUNDED), [1 << i for i in range(most.bit_length())]
    level = -float(ndtri(sure / sum(noisy.size - width + 1 for width in widths)))
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    heights, ends = np.full((2, len(widths), noisy.size), -np.inf)
    for i, width in enumerate(widths):
        starts, last = noisy.size - width + 1, -(-width // 2)
        heights[i, :starts] = (sums[width:] - sums[:-width]) / (scale * spread_of_run(width, tail_ratio))
        of_last = scale * spread_of_run(last, tail_ratio)
        ends[i, :starts] = (sums[width:] - sums[width - last : sums.size - last]) / of_last
    passing = heights >= level
    if filled is not None and (ending := passing & (ends >= filled)).any():
        passing = ending
    found = np.flatnonzero(passing.any(axis=0))
    if not found.size:
        return None
    last = int(found[-1])
    return last + widths[int((heights if filled is None else passing)[:, last].argmax())]


def runs_start(noisy: Floats, scale: float) -> int | None:
    """Return where the first run of bins starts that noise alone would hardly have filled; None where there is none."""
    end = runs_end(noisy[::-1], scale)
    return None if end is None else max(noisy.size - end, 0)


def spread_of_run(width: int, tail_ratio: float) -> float:
    """Return how many times as wide as the noise of one bin Gaussian noise would be that is as far out as a run's is.

    Of a sum of many draws far ones are as seldom as of Gaussian noise; of a few they are nearly as often as of one.
    """
    return math.sqrt(width) + tail_ratio - 1.0


@lru_cache(maxsize=8)
def _excess(end: int, whole: bool) -> tuple[Floats, Floats]:
    """Return norms to choose from, and by how much a norm in each of the first bins passes them, on average.

    Norms are taken to be spread evenly over the logarithms in a bin; those of few whole numbers are at its end.
    """
    low, high = norm_edges()[:end], norm_edges()[1 : end + 1]
    norms = 2.0 ** (np.arange(LEAST * STEPS * FINER, (LEAST * STEPS + end) * FINER + 1) / (STEPS * FINER))
    cut = np.clip(norms[:, None], low, high)
    excess = (high - cut - norms[:, None] * np.log(high / cut)) * STEPS / math.log(2)
    if whole:
        few = high < FEW * (1 + 2 * ABOVE)
        excess[:, few] = np.maximum(high[few] / (1.0 + ABOVE) - norms[:, None], 0.0)
    return norms, excess

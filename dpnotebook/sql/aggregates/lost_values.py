"""What keeping values between bounds may take from a mean or a variance, by a noisy histogram of the values.

Bounds are chosen where noise hides what lies beyond them, so what they take is hardly ever known within a factor of
two. It is worked out for many ways in which values could lie, all as likely by the noisy counts; the most that it may
be is what few of these ways pass. What is cut off above makes a mean too small, and what is cut off below makes it too
large. A variance can only become too small, as values between bounds are nearer to each other.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpnotebook.sql.aggregates.hidden_tail import endless_variance, possible_losses
from dpnotebook.sql.aggregates.noisy_histogram import Floats, FoundBins

SELDOM = 0.025  # the part of the ways that pass what is said to be the most: as seldom as noise passes either end
SELDOM_SQUARED = 0.04  # the same for variances, of which ways foretell far larger losses than columns really have
RARELY = 0.035  # the same for counts and sums: heavy tails are rare there, and would make intervals far longer
LIKELY = 0.25  # the probability of an endless variance, from which on tails are taken to be heavy
PLACES = 5  # quantiles of a normal number, that stand for noise in bins in which units are found
KEPT = 81  # ways are kept for either side; each is combined with each of the other side
ONE_VALUE = 1e-6  # of how large a value is: bins so narrow hold that value alone, as far as they tell
FARTHER = math.sqrt(2.0)  # times as far each edge behind all bins is as the one before, as many as stand here
FURTHER, FURTHER_SQUARED = 8, 4  # of variances fewer: what has far more is told of all columns with long tails else
AS_NARROW, SEVERAL = 1.01, 3  # times as wide a bin is at most that is as narrow as another; so many are not chance
PARTS = 4  # of a bin, in which values are taken to be spread evenly


class Lost(NamedTuple):
    """What bounds take from an answer.

    Parameters
    ----------
    about
        What is expected: half of the ways have less.
    most
        What they hardly take more than, in either direction.
    below, above
        By how much the answer may be too small, and too large, which hardly is more.
    single
        Root mean square of what is taken from single values; NaN where that is not told.
    """

    about: float
    most: float
    below: float
    above: float
    single: float = math.nan


def lost_between(
    found: FoundBins,
    low: float,
    high: float,
    *,
    squares: bool,
    heavy: bool = False,
    ends: tuple[float, float] | None = None,
) -> Lost:
    """Return what keeping values between bounds takes from their mean or their variance.

    Parameters
    ----------
    found
        The noisy histogram of the values.
    low, high
        The bounds.
    squares
        Whether it is a variance.
    heavy
        Whether it is a sum, of which more seldom far values are the most; as for `possible_losses`.
    ends
        Beyond which nothing lies, where that is declared: who is counted in the last bins may be as far as that.
    """
    units = found.counts[found.inside]
    total = max(float(units.sum()), found.scale)
    mean = float(_places(found.edges).clip(low, high).reshape(-1, PARTS).mean(axis=1)[found.inside] @ units) / total
    told, (least, most) = _without_ends(found) if heavy else found, ends or (None, None)
    over = _lost_above(told, high, mean, most, squares=squares, heavy=heavy)
    under = _lost_above(told.mirrored(), -low, -mean, None if least is None else -least, squares=squares, heavy=heavy)
    above, below = np.maximum(over[None], 0.0) / total, np.maximum(under[:, None], 0.0) / total
    return _of_variance(above, below) if squares else _of_mean(above, below, RARELY if heavy else SELDOM)


def _of_variance(above: Floats, below: Floats) -> Lost:
    """Return what a variance loses, which is about the mean of the values as bounds leave them: that is cut off too."""
    less = np.maximum(above[..., 2] + below[..., 2] - (above[..., 1] - below[..., 1]) ** 2, 0.0).ravel()
    about, most = np.quantile(less, [0.5, 1.0 - SELDOM_SQUARED])
    return Lost(float(about), float(most), float(most), 0.0)


def _of_mean(above: Floats, below: Floats, seldom: float) -> Lost:
    """Return what a mean or a sum loses, of which so few ways have more than the most.

    What is cut off on one side makes up for nothing: a group may have hardly any of it.
    """
    most_of_ways = 1.0 - seldom
    about, most = np.quantile(above[..., 1] + below[..., 1], [0.5, most_of_ways])
    too_small, too_large = (float(np.quantile(side[..., 1], most_of_ways)) for side in (above, below))
    single = math.sqrt(float(np.median(above[..., 0] + below[..., 0])))
    return Lost(float(about), float(most), too_small, too_large, single)


def _without_ends(found: FoundBins) -> FoundBins:
    """Return it with nobody found in the bins at either end, if others are left: who is counted there may be beyond."""
    first, end = max(found.first, 1), min(found.end, found.size - 1)
    return replace(found, first=first, end=end) if first < end else found


def _lost_above(
    found: FoundBins, bound: float, mean: float, limit: float | None, *, squares: bool, heavy: bool
) -> Floats:
    """Return what is lost above a bound, in ways alike likely: squared, as it is, and of squares about the mean.

    Parameters
    ----------
    found, squares, heavy
        As for `lost_between`; what is below a bound is above it in what is mirrored.
    bound, mean
        The bound, and the mean of the values between both.
    limit
        Beyond which nothing lies; None where that is not declared.

    Returns
    -------
    Of all values together, shape (KEPT, respects).
    """
    told = _farther(found, FURTHER_SQUARED if squares else FURTHER) if limit is None else _up_to(found, limit)
    places = _places(told.edges)
    outside = np.maximum(places - bound, 0.0)
    respects = [outside**2, outside]
    if squares:
        respects.append(np.where(outside > 0.0, (places - mean) ** 2 - (bound - mean) ** 2, 0.0))
    each, farthest = (
        np.stack([summed(one.reshape(-1, PARTS), axis=1) for one in respects], axis=1) for summed in (np.mean, np.max)
    )
    endless = squares and limit is not None and endless_variance(told) > LIKELY
    return ways_lost(told, each, farthest, heavy=heavy or endless, apart=True)


def _places(edges: Floats) -> Floats:
    """Return where values are in bins, in several parts of each, shape (PARTS * bins,)."""
    ends = np.interp(np.arange(PARTS * (edges.size - 1) + 1) / PARTS, np.arange(edges.size), edges)
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def _farther(found: FoundBins, further: int) -> FoundBins:
    """Return it with more edges behind the last, each as many times as far from the first bin in which units are."""
    return _with_edges(found, _farther_edges(found, further))


def _up_to(found: FoundBins, end: float) -> FoundBins:
    """Return it with more edges behind the last, up to where everything ends."""
    return _with_edges(found, np.unique(np.minimum(_farther_edges(found, FURTHER), max(end, float(found.edges[-1])))))


def _farther_edges(found: FoundBins, further: int) -> Floats:
    """Return the edges with so many more behind the last."""
    away = (found.edges[-1] - found.edges[found.first]) * FARTHER ** np.arange(1, further + 1)
    return np.concatenate([found.edges, found.edges[found.first] + away])


def _with_edges(found: FoundBins, edges: Floats) -> FoundBins:
    """Return it with other edges. If these are more, who is counted in the last bin may be far beyond that."""
    if edges.size <= found.edges.size:
        return replace(found, edges=edges)
    return replace(found, edges=edges, first=min(found.first, found.size - 2), end=min(found.end, found.size - 1))


def ways_lost(found: FoundBins, each: Floats, farthest: Floats, *, heavy: bool = False, apart: bool = False) -> Floats:
    """Return what is lost on the far side in ways that are all as likely, shape (KEPT, respects).

    In half of them all values of a bin lie at its far end: where many share the largest value that there is.

    Parameters
    ----------
    found
        The noisy histogram, which may have further edges.
    each, farthest
        What is lost with a unit in each bin on average, and at its far end, in several respects, the last of which
        tells how much it is, shape (bins, respects).
    heavy, apart
        As for `possible_losses`.
    """
    from scipy.special import ndtri

    noisy, scale, inside = found.counts, found.scale, found.inside
    hidden = possible_losses(found, each[found.end :], heavy=heavy, apart=apart)
    normal = ndtri((np.arange(PLACES) + 0.5) / PLACES)[:, None]
    if (beside := _beside_one_value(found, several=not heavy)) is not None:  # of these no law tells
        rarely = ndtri((np.arange(KEPT) + 0.5) / KEPT)[:, None]
        seen, of_seen = noisy[beside], each[beside][: noisy[beside].size]
        told, error = seen @ of_seen, scale * np.sqrt((of_seen**2).sum(axis=0))
        hidden = hidden.mean(axis=0) + np.maximum(told + error * rarely, 0.0)
    ways = []
    for one in (each[inside], farthest[inside]):
        told, error = noisy[inside] @ one, scale * np.sqrt((one**2).sum(axis=0))
        ways.append((hidden[:, None] + told + error * normal).reshape(-1, each.shape[1]))
    lost = np.concatenate(ways)
    order = np.argsort(lost[:, -1])
    return np.asarray(lost[order[(2 * np.arange(KEPT) + 1) * order.size // (2 * KEPT)]])


def _beside_one_value(found: FoundBins, *, several: bool) -> slice | None:
    """Return the bins behind the found ones up to twice as far as these, where all that is found is one value.

    Or one bin, if `several` of the next ones count: as narrow as it, they lie where values surely are, and noise hides
    that in each of them. Heavier laws hold it anyway.
    """
    edges, behind = found.edges, found.end
    first, end = float(edges[found.first]), float(edges[behind])
    size = max(abs(first), abs(end))
    if end - first > ONE_VALUE * size:
        wider = np.flatnonzero(np.diff(edges)[behind:] > (end - first) * AS_NARROW)
        last = behind + int(wider[0]) if wider.size else edges.size - 1
        return slice(behind, last) if several and behind - found.first == 1 and last - behind >= SEVERAL else None
    return slice(behind, max(int(np.searchsorted(edges, end + size)), behind))


def moved_alone(found: FoundBins, values: tuple[float, ...], norm: float, *, squares: bool) -> Lost:
    """Return what clipping to a norm does to a mean or a variance where every unit has one value: far ones count less.

    Parameters
    ----------
    found
        As for `lost_between`.
    values
        The bounds that values are kept between, with what vectors are centred by behind them; see `centring`.
    norm
        That vectors are clipped to.
    squares
        As for `lost_between`.
    """
    low, high, centre, length, *spread = values
    inside, bins = found.inside, np.arange(found.size)
    places = ((_places(found.edges).clip(low, high) - centre) / length).reshape(-1, PARTS)
    squared = (places**2 - 1.0) / spread[0] if squares else 0.0
    less = 1.0 - np.minimum(norm / np.sqrt(1.0 + places**2 + squared**2), 1.0)
    powers = np.stack([np.ones_like(places), places, places**2])
    lost, every = (less * powers).mean(axis=2).T, powers.mean(axis=2).T
    hidden = every * ((bins < found.first) | (bins >= found.end))[:, None]
    each = np.concatenate(
        [lost, hidden, (less * np.abs(places) ** (2 if squares else 1)).mean(axis=1)[:, None]], axis=1
    )
    middle = int(np.searchsorted(places.mean(axis=1), 0.0))
    own, other = each * (bins >= middle)[:, None], (each * (bins < middle)[:, None])[::-1]
    sides = [ways_lost(side, lost, lost, apart=True) for side, lost in ((found, own), (found.mirrored(), other))]
    less_of_both = sides[0][None] + sides[1][:, None]
    whole = np.maximum(found.counts[inside], 0.0) @ every[inside] + less_of_both[..., 3:6]
    whole[..., 0] = np.maximum(whole[..., 0], found.scale)
    kept = whole - less_of_both[..., :3]
    kept[..., 0] = np.maximum(kept[..., 0], found.scale)
    (mean, square), (mean_kept, square_kept) = (
        (sums[..., 1] / sums[..., 0], sums[..., 2] / sums[..., 0]) for sums in (whole, kept)
    )
    moved = (square - mean**2 - square_kept + mean_kept**2) * length**2 if squares else (mean - mean_kept) * length
    lowest, highest = np.quantile(moved, [SELDOM, 1.0 - SELDOM])
    about, most = np.quantile(np.abs(moved), [0.5, 1.0 - SELDOM])
    return Lost(float(about), float(most), max(float(highest), 0.0), max(float(-lowest), 0.0))

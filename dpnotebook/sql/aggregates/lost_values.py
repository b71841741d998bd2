"""What keeping values between bounds may take from a mean or a variance, by a noisy histogram of the values.

Bounds are chosen where noise hides what lies beyond them, so what they take is hardly ever known within a factor of
two. It is worked out for many ways in which values could lie, all as likely by the noisy counts; the most that it may
be is what few of these ways pass. What is cut off above makes a mean too small, and what is cut off below makes it too
large. A variance can only become too small, as values between bounds are nearer to each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.hidden_tail import endless_variance, possible_losses

Floats = NDArray[np.float64]

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
    noisy: Floats,
    scale: float,
    edges: Floats,
    found: tuple[int, int],
    low: float,
    high: float,
    *,
    squares: bool,
    heavy: bool = False,
    ends: tuple[float, float] | None = None,
    stable: bool = True,
) -> Lost:
    """Return what keeping values between bounds takes from their mean or their variance.

    Parameters
    ----------
    noisy, scale, edges
        Noisy number of units in each bin, the standard deviation of the noise, and the edges of the bins.
    found
        The first bin in which units are found, and the one behind the last.
    low, high
        The bounds.
    squares
        Whether it is a variance.
    heavy
        Whether it is a sum, of which more seldom far values are the most; as for `possible_losses`.
    ends
        Beyond which nothing lies, where that is declared: who is counted in the last bins may be as far as that.
    stable
        Whether the noise is Gaussian.
    """
    inside = slice(*found)
    most_of_ways = 1.0 - (RARELY if heavy else SELDOM)
    total = max(float(noisy[inside].sum()), scale)
    mean = float(_places(edges).clip(low, high).reshape(-1, PARTS).mean(axis=1)[inside] @ noisy[inside]) / total
    if heavy:  # who is counted in the bins at either end may be far beyond
        between = max(found[0], 1), min(found[1], noisy.size - 1)
        found = between if between[0] < between[1] else found
    sides = []  # above and below
    for end, turn in ((high, 1), (low, -1)):
        told = (turn * edges)[::turn]
        first = found[0] if turn > 0 else noisy.size - found[1]
        if ends is not None:
            told = _up_to(told, first, ends[1] if turn > 0 else -ends[0])
        else:
            told = _farther(told, first, FURTHER_SQUARED if squares else FURTHER)
        places = turn * _places(told)
        outside = np.maximum(turn * (places - end), 0.0)
        respects = [outside**2, outside]
        if squares:
            respects.append(np.where(outside > 0.0, (places - mean) ** 2 - (end - mean) ** 2, 0.0))
        each, farthest = (
            np.stack([summed(one.reshape(-1, PARTS), axis=1) for one in respects], axis=1)
            for summed in (np.mean, np.max)
        )
        bins = _turned(found, noisy.size, turn)
        if told.size > edges.size:  # who is counted in the last bin may be far beyond
            bins = min(bins[0], noisy.size - 2), min(bins[1], noisy.size - 1)
        endless = squares and ends is not None and endless_variance(noisy[::turn], scale, told, *bins) > LIKELY
        law = {"heavy": heavy or endless, "apart": True, "stable": stable}
        sides.append(ways_lost(noisy[::turn], scale, told, bins, each, farthest, **law))
    above, below = (np.maximum(side, 0.0) / total for side in (sides[0][None], sides[1][:, None]))
    if squares:  # about their own mean, which is cut off too
        less = np.maximum(above[..., 2] + below[..., 2] - (above[..., 1] - below[..., 1]) ** 2, 0.0).ravel()
        about, most = np.quantile(less, [0.5, 1.0 - SELDOM_SQUARED])
        return Lost(float(about), float(most), float(most), 0.0)
    # What is cut off on one side makes up for nothing: a group may have hardly any of it.
    about, most = np.quantile(above[..., 1] + below[..., 1], [0.5, most_of_ways])
    too_small, too_large = (float(np.quantile(side[..., 1], most_of_ways)) for side in (above, below))
    single = math.sqrt(float(np.median(above[..., 0] + below[..., 0])))
    return Lost(float(about), float(most), too_small, too_large, single)


def _places(edges: Floats) -> Floats:
    """Return where values are in bins, in several parts of each, shape (PARTS * bins,)."""
    ends = np.interp(np.arange(PARTS * (edges.size - 1) + 1) / PARTS, np.arange(edges.size), edges)
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def _farther(edges: Floats, first: int, further: int) -> Floats:
    """Return edges with others behind the last, each as many times as far from the first bin in which units are."""
    away = (edges[-1] - edges[first]) * FARTHER ** np.arange(1, further + 1)
    return np.concatenate([edges, edges[first] + away])


def _up_to(edges: Floats, first: int, end: float) -> Floats:
    """Return edges with others behind the last, up to where everything ends."""
    farther = _farther(edges, first, FURTHER)
    return np.unique(np.minimum(farther, max(end, float(edges[-1]))))


def _turned(found: tuple[int, int], size: int, turn: int) -> tuple[int, int]:
    """Return the same bins as they are counted from the other end."""
    return found if turn > 0 else (size - found[1], size - found[0])


def ways_lost(
    noisy: Floats,
    scale: float,
    edges: Floats,
    found: tuple[int, int],
    each: Floats,
    farthest: Floats,
    *,
    heavy: bool = False,
    apart: bool = False,
    stable: bool = True,
) -> Floats:
    """Return what is lost on the far side in ways that are all as likely, shape (KEPT, respects).

    In half of them all values of a bin lie at its far end: where many share the largest value that there is.

    Parameters
    ----------
    noisy, scale, edges, found
        As for `lost_between`.
    each, farthest
        What is lost with a unit in each bin on average, and at its far end, in several respects, the last of which
        tells how much it is, shape (bins, respects).
    heavy, apart, stable
        As for `possible_losses`.
    """
    from scipy.special import ndtri

    inside = slice(*found)
    hidden = possible_losses(noisy, scale, edges, *found, each[found[1] :], heavy=heavy, apart=apart, stable=stable)
    normal = ndtri((np.arange(PLACES) + 0.5) / PLACES)[:, None]
    if (beside := _beside_one_value(edges, found, several=not heavy)) is not None:  # of these no law tells
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


def _beside_one_value(edges: Floats, found: tuple[int, int], *, several: bool) -> slice | None:
    """Return the bins behind the found ones up to twice as far as these, where all that is found is one value.

    Or one bin, if `several` of the next ones count: as narrow as it, they lie where values surely are, and noise hides
    that in each of them. Heavier laws hold it anyway.
    """
    first, end = (float(edges[place]) for place in found)
    size = max(abs(first), abs(end))
    if end - first > ONE_VALUE * size:
        wider = np.flatnonzero(np.diff(edges)[found[1] :] > (end - first) * AS_NARROW)
        last = found[1] + int(wider[0]) if wider.size else edges.size - 1
        return slice(found[1], last) if several and found[1] - found[0] == 1 and last - found[1] >= SEVERAL else None
    return slice(found[1], max(int(np.searchsorted(edges, end + size)), found[1]))


def moved_alone(
    noisy: Floats,
    scale: float,
    edges: Floats,
    found: tuple[int, int],
    values: tuple[float, ...],
    norm: float,
    *,
    squares: bool,
    stable: bool = True,
) -> Lost:
    """Return what clipping to a norm does to a mean or a variance where every unit has one value: far ones count less.

    Parameters
    ----------
    noisy, scale, edges, found
        As for `lost_between`.
    values
        The bounds that values are kept between, with what vectors are centred by behind them; see `centring`.
    norm
        That vectors are clipped to.
    squares, stable
        As for `lost_between`.
    """
    low, high, centre, length, *spread = values
    inside, bins = slice(*found), np.arange(noisy.size)
    ends = np.interp(np.arange(PARTS * noisy.size + 1) / PARTS, np.arange(edges.size), edges)
    places = ((((ends[1:] + ends[:-1]) / 2).clip(low, high) - centre) / length).reshape(-1, PARTS)
    squared = (places**2 - 1.0) / spread[0] if squares else 0.0
    less = 1.0 - np.minimum(norm / np.sqrt(1.0 + places**2 + squared**2), 1.0)
    powers = np.stack([np.ones_like(places), places, places**2])
    lost, every = (less * powers).mean(axis=2).T, powers.mean(axis=2).T
    hidden = every * ((bins < found[0]) | (bins >= found[1]))[:, None]
    each = np.concatenate(
        [lost, hidden, (less * np.abs(places) ** (2 if squares else 1)).mean(axis=1)[:, None]], axis=1
    )
    middle = int(np.searchsorted(places.mean(axis=1), 0.0))
    sides = []
    for turn in (1, -1):
        own = (each * ((bins >= middle) if turn > 0 else (bins < middle))[:, None])[::turn]
        bins_of_side = _turned(found, noisy.size, turn)
        told = (turn * edges)[::turn]
        sides.append(ways_lost(noisy[::turn], scale, told, bins_of_side, own, own, apart=True, stable=stable))
    less_of_both = sides[0][None] + sides[1][:, None]
    whole = np.maximum(noisy[inside], 0.0) @ every[inside] + less_of_both[..., 3:6]
    whole[..., 0] = np.maximum(whole[..., 0], scale)
    kept = whole - less_of_both[..., :3]
    kept[..., 0] = np.maximum(kept[..., 0], scale)
    (mean, square), (mean_kept, square_kept) = (
        (sums[..., 1] / sums[..., 0], sums[..., 2] / sums[..., 0]) for sums in (whole, kept)
    )
    moved = (square - mean**2 - square_kept + mean_kept**2) * length**2 if squares else (mean - mean_kept) * length
    lowest, highest = np.quantile(moved, [SELDOM, 1.0 - SELDOM])
    about, most = np.quantile(np.abs(moved), [0.5, 1.0 - SELDOM])
    return Lost(float(about), float(most), max(float(highest), 0.0), max(float(-lowest), 0.0))

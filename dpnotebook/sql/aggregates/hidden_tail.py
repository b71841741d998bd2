"""How many units lie behind the last bin that noise does not hide, and how many may.

Of bins of few units each noise tells little, but together with those before them they tell how a tail falls. What
passes a high value follows, whatever the values are, a generalized Pareto law: one that ends, falls as an exponential
or as a power. All of these that a grid has are weighed by how well the noisy counts agree with them. In the order of
what they say is hidden, one near the middle is what is expected there, and one that few pass is what may be there.
Where the counts say little, tails are taken to be light: most are, and the rare heavy one would be told of them all.

Source: Pickands, Statistical inference using extreme order statistics, Annals of Statistics 3 (1975).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.hidden_humps import (
    ROUGH,
    SURELY_MANY,
    THREE_PARTS,
    THREE_PLACES,
    Humps,
    hidden_humps,
)
from dpnotebook.sql.aggregates.noisy_histogram import Floats, FoundBins

SHAPES = (-1.0, -0.5, -0.25, 0.0, 0.15, 0.3, 0.5, 0.7)  # of laws: below 0 they end, at 0.5 variances are infinite
ENDLESS = 0.5  # shape of a law, from which on its variance has no end
SPREADS = tuple(2.0 ** (k / 2) for k in range(-8, 4))  # of laws, in widths of the bins that are found behind the start
# Of others, whose logarithms thin out as normal ones do: their spread, and by how much the logarithm of their weight is
# less. What is lost behind bounds is told by these as well, as most of what people earn, pay or wait for falls so.
BENT = ((0.5, 0.1), (0.8, 0.2), (1.1, 0.4), (1.5, 0.8))
# Of what counts and sums lose, others: of them a few units with most are much of the answer, as of visits or incomes.
HEAVY, LESS_RARE = (0.85,), 0.5
RARE = 2.0  # by so much the logarithm of the weight of a law falls with its shape above 0: heavy tails are rare
ALLOWED = 2.0  # standard deviations by which more units may be hidden than the noisy counts there say
BODY = 0.3  # of the units that are found, what is behind the start of a tail at most
MOST_BODY = 0.8  # of the units that are found, that are in one bin: it is none of a tail
NOBODY = 10.0  # times as likely, before counts behind such a bin are seen, nobody is there as somebody
NOBODY_LOST = (
    5.0  # the same, where it is told what counts and sums lose: too little was told of who has two in place of one
)
LOUD = (40, 20, 10)  # in standard deviations of noise, the same: so many tell how it falls; fewer where no law fits
FEWEST = 100  # units, the same, where there is little noise: others may be farther out
MAY = 0.9  # how much of the weight the laws have that say no more than the one which tells what may be hidden
SOMEBODY = -math.log(MAY)  # units behind an edge by a law: so few are none with that probability
SELDOM = 0.02  # of what may be there, what is expected beside the usual: with no noise bounds go so far
ALIKE = 7  # ways in which a tail may be
UNLIKE = 1, 4, 6, 3, 0, 2, 5  # of as many cases of who is apart from it, one beside each: in no order but the middle
WAYS = 49  # the same, where it is told what is lost with it: one of forty is to be told apart
SURELY = 1.0  # standard deviations less than the noisy count, that the first bin behind those found has at least
BESIDE = 0.5  # standard deviations by which more may be there than that law says


def hidden_tail(
    found: FoundBins, usual: float, *, beside: bool = False, alike: bool = True
) -> tuple[Floats, Floats, Floats]:
    """Return how many units each bin behind the last that is found holds: to choose by, on average, and at most.

    Parameters
    ----------
    found
        The noisy histogram; what lies beyond its last bin is counted in that. Who lies together behind the tail
        (`hidden_humps`), for which the law of the noise matters, is looked for with `beside` alone.
    usual
        How much of the weight the laws have that say no more than the one to choose bounds by.
    beside
        Whether the first bin behind may hold what noise allows there, and each other one an eighth of the one before,
        whatever the laws say. These bins are narrow where units are found, so that the law of many of them is told.
        Bounds are chosen by `alike_tails` then.
    alike
        Whether all units of a bin may be alike, as those with one row are. If not, and nearly all are in one bin, that
        bin is no part of a tail: it tells nothing of how those behind it thin out.

    Returns
    -------
    Three arrays of shape (bins - end,). Bounds are not chosen by the average: a rare heavy law is most of it.
    """
    laws = _laws(found, LOUD[:1] if beside else LOUD, alike=alike)
    weights, amounts, hidden = laws.weights, laws.amounts, laws.hidden
    most = amounts + BESIDE / np.sqrt(laws.precisions)
    order = np.argsort(_cut_off(most, hidden, found))
    middle, heavy = _at(weights, order, np.array([usual, MAY]))
    may = _allowed(most[heavy] * hidden[heavy], found.behind, found.scale)
    average = (weights * amounts) @ hidden
    likely = amounts[middle] * hidden[middle] + SELDOM * may
    if beside and may.size and found.end > found.first:
        may = np.maximum(may, _beside(found) / 8.0 ** np.arange(may.size))
        humps = _humps(laws, found)
        likely, average = likely + _case(humps, found, usual), average + humps.average()
        may = np.maximum(may, _case(humps, found, MAY))
    return likely, average, may


def alike_tails(found: FoundBins) -> Floats:
    """Return what may be hidden behind the last bin in which units are found, in several ways that are alike likely.

    Parameters
    ----------
    found
        The noisy histogram.

    Returns
    -------
    Units in each bin behind it by laws that are as many equal parts of all weight apart, how many there are by each
    being uncertain too; in the order of how much is hidden, shape (ALIKE, bins - end).
    """
    laws = _laws(found, LOUD[:1])
    amounts = np.maximum(laws.amounts + np.multiply.outer(THREE_PLACES, 1.0 / np.sqrt(laws.precisions)), 0.0).ravel()
    weights = np.multiply.outer(THREE_PARTS, laws.weights).ravel()
    hidden = np.tile(laws.hidden, (len(THREE_PLACES), 1))
    order = np.argsort(_cut_off(amounts, hidden, found))
    picked = _at(weights, order, (np.arange(ALIKE) + 0.5) / ALIKE)
    tails = _somebody(np.cumsum((amounts[picked, None] * hidden[picked])[:, ::-1], axis=1)[:, ::-1])
    tails[:, :1] = np.maximum(tails[:, :1], found.behind[:1] - SURELY * found.scale)
    humps = _humps(laws, found)
    return np.asarray(tails + np.stack([_case(humps, found, (one + 0.5) / ALIKE) for one in UNLIKE]))


def possible_losses(found: FoundBins, each: Floats, *, heavy: bool = False, apart: bool = False) -> Floats:
    """Return what is lost with what is hidden behind the last bin in which units are found, in many ways alike likely.

    Parameters
    ----------
    found
        The noisy histogram, which may have further edges.
    each
        What is lost with a unit in each bin behind it, in several respects, the last of which tells how much it is,
        shape (bins - end, respects), of as many bins as edges tell of.
    heavy
        Whether tails may be heavier than those of means are taken to be, and either have somebody or nobody.
    apart
        Whether some may lie together behind the tail, or in it.

    Returns
    -------
    What is lost in each way, in the order of how much it is, shape (WAYS, respects).
    """
    if not each.size or found.end >= found.size:  # no bin tells of what is behind the last one
        return np.zeros((WAYS, each.shape[1]))
    laws = _laws(found, LOUD if heavy else LOUD[:1], alike=False, bent=True, heavy=heavy)
    amounts = np.maximum(laws.amounts + np.multiply.outer(THREE_PLACES, 1.0 / np.sqrt(laws.precisions)), 0.0).ravel()
    weights = np.multiply.outer(THREE_PARTS, laws.weights * laws.somebody).ravel()
    behind = np.cumsum(np.tile(laws.hidden, (len(THREE_PLACES), 1))[:, ::-1], axis=1)[:, ::-1]
    losses = _somebody(amounts[:, None] * behind) @ each
    order = np.argsort(losses[:, -1])
    ways, nobody = (np.arange(WAYS) + 0.5) / WAYS, max(1.0 - float(weights.sum()), 0.0)
    picked = _at(weights, order, ways - nobody)
    lost = losses[picked] * (ways >= nobody)[:, None]
    if not apart:
        return np.asarray(lost)
    humps = _humps(laws, found)
    both = (lost[:, None] + humps.units @ each[: humps.units.shape[1]]).reshape(-1, each.shape[1])
    order = np.argsort(both[:, -1])
    return np.asarray(both[_at(np.tile(humps.weights / WAYS, WAYS), order, ways)])


def endless_variance(found: FoundBins) -> float:
    """Return how likely the tail behind the last bin that is found is one whose variance has no end.

    Parameters
    ----------
    found
        As for `possible_losses`.
    """
    if found.end >= found.size:
        return 0.0
    laws = _laws(found, LOUD[:1], alike=False, bent=True)
    weights = laws.weights.reshape(len(SPREADS), -1)[:, : len(SHAPES)]
    return float(weights[:, np.array(SHAPES) >= ENDLESS].sum())


class _Laws(NamedTuple):
    """Laws of a tail: their weights, how many units they have and how precisely, what they have behind the last bin.

    Beside that stands how likely somebody is there at all, where it is not taken that there is.
    """

    weights: Floats
    amounts: Floats
    precisions: Floats
    hidden: Floats
    somebody: Floats


def _laws(
    found: FoundBins, louds: Sequence[int], *, alike: bool = True, bent: bool = False, heavy: bool = False
) -> _Laws:
    """Return the laws of the tail, also those that are bent or heavy if that is asked for; see `hidden_tail`."""
    shapes, edges = (*SHAPES, *HEAVY) if heavy else SHAPES, found.edges
    for loud in louds:
        start = _start(found, max(loud * found.scale, FEWEST))
        if of_one_bin := not alike and _in_one_bin(found, start):
            start += 1
        behind = max(found.end, min(start + 1, edges.size - 1))
        width = float(edges[behind] - edges[start]) or 1.0
        finest = _masses((edges[start:] - edges[start]) / width, shapes, bent=bent)
        counts = found.counts[start:]
        masses = np.concatenate(
            [finest[:, : counts.size - 1], finest[:, counts.size - 1 :].sum(axis=1, keepdims=True)], axis=1
        )
        variances = found.scale**2 + np.maximum(counts, 0.0) + (ROUGH * counts) ** 2
        precisions = (masses**2 / variances).sum(axis=1)
        amounts = np.maximum((masses * counts / variances).sum(axis=1) / precisions, 0.0)
        misfits = ((counts - amounts[:, None] * masses) ** 2 / variances).sum(axis=1)
        if misfits.min() <= counts.size:  # some law is off by no more than noise
            break
    rare_shapes = (LESS_RARE if heavy else RARE) * np.maximum(shapes, 0.0)
    rare = np.tile([*rare_shapes, *(less for _, less in BENT if bent)], len(SPREADS))
    somebody = np.ones(amounts.size)
    likely = -rare - misfits / 2 - np.log(precisions) / 2
    if of_one_bin:  # perhaps nobody is behind it
        gain = np.minimum(amounts**2 * precisions / 2, SURELY_MANY)
        there = np.exp(gain) / (np.exp(gain) + (NOBODY_LOST if heavy else NOBODY))
        amounts, somebody = (amounts, there) if heavy else (amounts * there, somebody)
    weights = np.exp(likely - likely.max())
    return _Laws(weights / weights.sum(), amounts, precisions, finest[:, found.end - start :], somebody)


def _humps(laws: _Laws, found: FoundBins) -> Humps:
    """Return who may be together behind the last bin that is found, beside those that the laws say are there."""
    size = found.size - found.end
    if size <= 0:
        return Humps(np.ones(1), np.zeros((1, 0)))
    expected = (laws.weights * laws.amounts) @ laws.hidden
    expected = np.append(expected[: size - 1], expected[size - 1 :].sum())
    away = (found.edges[found.end : found.end + size] - found.edges[found.end]) / found.width
    return hidden_humps(found.behind, expected, found.scale, away, stable=found.stable)


def _case(humps: Humps, found: FoundBins, before: float) -> Floats:
    """Return the case with so much weight before it, in the order of how far in all who is there passes an edge."""
    order = np.argsort(humps.units @ found.middles_behind[: humps.units.shape[1]])
    return np.asarray(humps.units[_at(humps.weights, order, np.array([before]))[0]])


def _cut_off(amounts: Floats, hidden: Floats, found: FoundBins) -> Floats:
    """Return by how much what laws have behind an edge passes it, in all."""
    return np.asarray(amounts * (hidden @ found.middles_behind))


def _at(weights: Floats, order: NDArray[np.intp], before: Floats) -> NDArray[np.intp]:
    """Return the first laws that have so much weight before them, with their own, in an order."""
    places = np.searchsorted(np.cumsum(weights[order]), before)
    return np.asarray(order[np.minimum(places, order.size - 1)])


def _in_one_bin(found: FoundBins, start: int) -> bool:
    """Return whether nearly all units that are found from a bin on are in that one."""
    units = found.counts[start : found.end]
    return units.size > 0 and float(units[0]) > MOST_BODY * max(float(units.clip(0.0).sum()), 1.0)


def _start(found: FoundBins, units: float) -> int:
    """Return the bin where a tail starts: so many units are found from it on, or a part of all of them."""
    behind = np.cumsum(found.counts[found.inside][::-1])[::-1]
    enough = np.flatnonzero(behind >= min(BODY * max(float(behind[0]), 1.0), units))
    start = found.first + (int(enough[-1]) if enough.size else 0)
    while start > found.first and found.edges[found.end] <= found.edges[start]:  # no whole number is between these
        start -= 1
    return start


def _beside(found: FoundBins) -> float:
    """Return what the first bin behind the last that is found may hold, whatever the law: laws are fitted to noise.

    Noise is far out often enough that by it a law with nobody there fits best. As densely as in the bin before it units
    are there at most, which may hold more than noise says.
    """
    noisy, scale, edges, end = found.counts, found.scale, found.edges, found.end
    wide = (edges[end + 1] - edges[end]) / (edges[end] - edges[end - 1])
    return float(min(max(noisy[end], 0.0) + ALLOWED * scale, (max(noisy[end - 1], 0.0) + scale) * wide))


def _allowed(counts: Floats, noisy: Floats, scale: float) -> Floats:
    """Return what bins hold by a law, but behind each edge no more units than the noisy counts there allow.

    Units are whole: where a law has few behind an edge, in most tables nobody is there at all.
    """
    behind, told = (np.cumsum(units[::-1])[::-1] for units in (counts, noisy))
    limits = np.maximum(told, 0.0) + ALLOWED * scale * np.sqrt(np.arange(noisy.size, 0, -1))
    behind = np.minimum(behind, np.minimum.accumulate(limits))
    return _somebody(behind)


def _somebody(behind: Floats) -> Floats:
    """Return what bins hold of which it is known how many units are behind the first edge of each, where any are."""
    behind = np.where(behind < SOMEBODY, 0.0, behind)
    return np.asarray(-np.diff(behind, append=0.0))


def _masses(edges: Floats, shapes: Sequence[float] = SHAPES, *, bent: bool = False) -> Floats:
    """Return what each law has in bins whose first edge is 0, shape (laws, bins); all that is farther in the last."""
    from scipy.special import ndtr

    away = edges / np.array(SPREADS)[:, None]
    passed = [
        *(np.maximum(1.0 + shape * away, 0.0) ** (-1.0 / shape) if shape else np.exp(-away) for shape in shapes),
        *(2.0 * ndtr(-np.log1p(away) / spread_out) for spread_out, _ in BENT if bent),
    ]
    survival = np.stack(passed, axis=1).reshape(-1, edges.size)
    survival[:, -1] = 0.0
    return np.asarray(survival[:, :-1] - survival[:, 1:])

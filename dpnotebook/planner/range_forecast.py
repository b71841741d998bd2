"""Which ranges of one ordered attribute are likely to be asked next, judged by those asked so far.

Starts and ends cluster: around a few levels of interest, or on a grid. Each range asked so far stands for a spread of
ranges around it (a kernel density with heavy tails), of any width unless all are about as wide; where cuts are likely
every level is a cut point, and where they are not, levels are merged, so that few cells are left to plan for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CELLS = 200  # merged cells that are told apart unless said
LATEST = 200  # ranges that are looked at
FINEST = 0.002  # share of all cuts that may lie inside one merged cell
FEW_PARTS, PARTS = 4, 24  # into which a merged cell is divided at least and at most,
ALL_PARTS = 1400  # and all of them together
LEAST_SPREAD = 0.7  # levels
WIDER = 1.3  # than a kernel for normal cuts: a cut that was not foreseen costs more than a few more cells
REACH = 40  # spreads beyond the outermost cut
GRIDDED = 4  # ranges whose cuts all lie on a grid, from which on it is taken for one
NORMAL = 1.35  # standard deviations between the quartiles of a normal law
ENOUGH, CAUTION = 10, 1.2  # cuts from which on quartiles say something, and by how much the deviation may pass theirs
NOTHING = 1e-3  # of the likeliest start, below which a range does not stand for it
OUTSIDE = 0.01  # of ranges, on either side, for which nothing is bought
COARSER = 1.1  # by which the share of a merged cell grows until there are few enough cells
ALIKE = 0.5  # of the spread of the ends: where widths spread by less, ranges are foreseen by their starts and widths
STRICT = 2.0  # standard deviations of the asked variances below their mean, for which a strategy is bought

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Forecast:
    """Ranges that are likely to be asked.

    Parameters
    ----------
    edges
        Cut points between merged cells, ascending, shape (cells + 1,).
    parts
        Those and further cut points inside of merged cells, ascending, shape (parts + 1,).
    weights
        Probability of the range from one edge to another, an upper triangle, shape (cells + 1, cells + 1).
    variance
        What nearly all of them may have.
    """

    edges: Integers
    parts: Integers
    weights: Floats
    variance: float

    @property
    def cells(self) -> int:
        """Number of merged cells."""
        return int(self.edges.size) - 1


def range_forecast(
    starts: ArrayLike,
    ends: ArrayLike,
    variances: ArrayLike,
    levels: int,
    cells: int = CELLS,
    cuts: ArrayLike = (),
) -> Forecast:
    """Return the ranges that are likely to be asked, given those that were.

    Parameters
    ----------
    starts, ends
        The ranges [start, end) asked so far, the latest last, shape (ranges,); at least two.
    variances
        The variance asked for each.
    levels
        Number of levels of the attribute.
    cells
        Most merged cells.
    cuts
        Cut points of what was measured before: where it makes no great difference they are taken again, since
        something is known between them.
    """
    asked = np.stack([np.asarray(starts), np.asarray(ends)])[:, -LATEST:].astype(np.int64)
    spreads = [_spread(cuts) for cuts in asked]
    margin = REACH * max(spreads)
    step, offset = _grid(asked)
    first, last = max(0.0, asked.min() - margin), min(float(levels), asked.max() + margin)
    places = np.arange(offset + step * np.ceil((first - offset) / step), last + 1e-9, step).astype(np.int64)
    before = np.unique(np.asarray(cuts, dtype=np.int64))
    edges = _snapped(_edges(places, asked, spreads, step, cells), before, asked[:, -1])
    middle = (edges[1:] + edges[:-1]) / 2
    shares = [
        np.diff(_below(middle, cuts, spread), axis=1, prepend=0.0, append=1.0)
        for cuts, spread in zip(asked, spreads, strict=True)
    ]
    width = _spread(asked[1] - asked[0])
    if width < ALIKE * spreads[1]:
        weights = _of_widths(edges, middle, shares[0], asked[1] - asked[0], width)
        kept = _usual(edges, weights, asked[:, -1])
        edges, weights = edges[kept], weights[kept, kept]
    else:
        weights = np.triu(shares[0].T @ shares[1], 1)
    return Forecast(
        edges,
        _parts(edges, step, before),
        weights / weights.sum(),
        _strict(np.asarray(variances, dtype=float)[-LATEST:]),
    )


def _of_widths(edges: Integers, middle: Floats, starts: Floats, widths: Integers, spread: float) -> Floats:
    """Return the weight of the range from one edge to another, where ranges are about as wide wherever they start.

    Parameters
    ----------
    edges, middle
        Cut points, and what lies half-way between them.
    starts
        How likely each range that was asked makes each start, shape (ranges, edges).
    widths, spread
        Of these ranges, and of the kernel around each.
    """
    found = np.zeros((edges.size, edges.size))
    for place, edge in enumerate(edges):
        likely = np.flatnonzero(starts[:, place] > NOTHING * starts.max())
        ends = np.diff(_below(middle - edge, widths[likely], spread), axis=1, prepend=0.0, append=1.0)
        found[place] = starts[likely, place] @ ends
    return np.triu(found, 1)


def _usual(edges: Integers, weights: Floats, now: Integers) -> slice:
    """Return the edges between which nearly all ranges lie: far out one is cheap by itself, as hardly any is asked."""
    total = weights.sum()
    starts, ends = np.cumsum(weights.sum(axis=1)) / total, np.cumsum(weights.sum(axis=0)[::-1])[::-1] / total
    first = min(int(np.searchsorted(starts, OUTSIDE)), int(np.searchsorted(edges, now[0])))
    last = max(int((ends > OUTSIDE).sum()) - 1, int(np.searchsorted(edges, now[1])))
    return slice(first, last + 1)


def _strict(variances: Floats) -> float:
    """Return a variance that nearly all questions to come allow, with a margin while few were asked."""
    m = variances.size
    return float(max(variances.mean() - STRICT * variances.std(ddof=1) * (1 + 1 / m) ** 1.5, variances.min() / 2))


def _spread(cuts: Integers) -> float:
    """Return the spread of the kernel around each cut."""
    m = cuts.size
    deviation = float(np.std(cuts, ddof=1))
    quartiles = float(np.subtract(*np.quantile(cuts, (0.75, 0.25)))) / NORMAL
    if m >= ENOUGH and quartiles > 0:
        deviation = min(deviation, CAUTION * quartiles)
    return float(max(LEAST_SPREAD, WIDER * deviation * m**-0.2 * (1 + 2 / m)))


def _grid(asked: Integers) -> tuple[int, int]:
    """Return the step and the offset of the grid on which all cuts lie; 1 and 0 if there is none."""
    distances = asked.ravel() - asked.min()
    step = reduce(gcd, distances.tolist())
    if asked.shape[1] < GRIDDED or step == 0:
        return 1, 0
    return step, int(asked.min()) % step


def _edges(places: Integers, asked: Integers, spreads: list[float], step: int, cells: int) -> Integers:
    """Return those of the places that leave an equal share of the cuts between them, and all where cuts are dense."""
    below = np.mean([_below(places + step / 2, c, s).mean(axis=0) for c, s in zip(asked, spreads, strict=True)], axis=0)
    share = max(FINEST, 1 / (2 * cells))
    while True:
        counts = np.floor(below / share)
        kept = np.diff(counts, prepend=0.0) > 0
        if np.count_nonzero(kept) <= cells + 1:
            break
        share *= COARSER
    kept[np.isin(places, asked[:, -1])] = True
    return np.asarray(places[kept])


def _snapped(edges: Integers, before: Integers, kept: Integers) -> Integers:
    """Return the edges, those that are not to be kept moved to an earlier cut point in the nearer half of a cell."""
    if not before.size:
        return edges
    right = np.searchsorted(before, edges)
    low = before[np.maximum(right - 1, 0)]
    high = before[np.minimum(right, before.size - 1)]
    nearest = np.where(np.abs(edges - low) <= np.abs(edges - high), low, high)
    widths = np.diff(edges)
    reach = np.minimum(np.append(widths[0], widths), np.append(widths, widths[-1])) / 2
    moved = (np.abs(nearest - edges) < reach) & ~np.isin(edges, kept)
    return np.unique(np.where(moved, nearest, edges))


def _parts(edges: Integers, step: int, before: Integers) -> Integers:
    """Return the edges, and cut points on the grid that divide the cells between them into parts."""
    found = [edges]
    for first, last, most in zip(edges[:-1].tolist(), edges[1:].tolist(), _counts(edges, step), strict=True):
        if most == 1:
            continue
        known = before[np.searchsorted(before, first + 1) : np.searchsorted(before, last)]
        even = first + step * (np.arange(1, most) * ((last - first) // step) // most)
        if known.size >= most:
            found.append(known[np.arange(1, most) * known.size // most])
        else:
            far = np.abs(even[:, None] - known).min(axis=1, initial=last) * 2 * most >= last - first
            found += [known, even[far][: most - 1 - known.size]]
    return np.unique(np.concatenate(found)).astype(np.int64)


def _counts(edges: Integers, step: int) -> list[int]:
    """Return into how many parts each cell is divided: single levels in narrow cells, where most cuts meet a part."""
    widths = np.diff(edges) // step
    counts = np.minimum(widths, FEW_PARTS)
    left = ALL_PARTS - int(counts.sum())
    for cell in np.argsort(widths, kind="stable").tolist():
        more = min(int(widths[cell]), PARTS) - int(counts[cell])
        if more > left:
            break
        counts[cell] += more
        left -= more
    return [int(count) for count in counts]


def _below(points: NDArray[np.floating[Any]], cuts: Integers, spread: float) -> Floats:
    """Return the mass of the kernel around each cut that lies below each point, shape (cuts, points).

    The kernel is Student's law of 4 degrees of freedom, whose distribution function has a closed form.
    """
    distance = (points - cuts[:, None]) / spread
    sine = distance / np.sqrt(4 + distance**2)
    return np.asarray(0.5 + 0.75 * sine * (1 - sine**2 / 3))

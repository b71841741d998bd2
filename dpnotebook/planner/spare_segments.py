"""A range of one ordered attribute, measured in pieces with what its cells have to spare.

A piece is charged to its own cells alone, so it costs the session nothing as long as none of them passes the dearest
cell. In one ordered attribute a range is a path between two cut points, and so are its pieces: a piece may also lie
outside of the range, where what is known reaches further. Which pieces to measure is a shortest path, whose steps are
as long as a piece would still be uncertain.

Among ways that raise the dearest cell, the least rise is not the best: measuring the whole range raises all of its
cells, and the next range meets them where they are, while a short piece leaves the others with something to spare.
The ways are compared by a sum over cells that grows exponentially with their spend (as in the routing of circuits
online: Aspnes et al., JACM 44(3), 1997).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.planner.run_state import Floats, RunState
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.laws import Law, Noise, law_of

STEPS = 3  # pieces on either side of what history knows
LENGTHS = (1.0, 0.25, 0.06, 0.015)  # longest pieces that are tried, as shares of the range
STEEP = 2.0  # the weight of a cell is exp(this) times larger when it has spent the price of the range once more
CLOSE = 2e-2  # of the price of the range, up to which the least rise is sought
SHARES = 10  # halvings of the share of its units that every piece gives up
PRIOR = 1e8  # variance of what is unknown, relative to the one asked for
ROUNDING = 1 + 1e-6  # by which a variance may pass the one asked for
EQUAL = 1e-6  # of the variance asked for: of ways as long up to that the first is taken, whatever rounding did to them

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """Measure the cells `start` to `end` - 1 together, at a cost of `units` in each, with noise of this variance."""

    start: int
    end: int
    units: int
    variance: float


@dataclass(frozen=True)
class Pieces:
    """What to measure for a range.

    Parameters
    ----------
    rise
        By how much the spend of the dearest cell rises, in units.
    pieces
        In no order, possibly overlapping; none where the range is known well enough.
    variance
        Of the range, by least squares over history and the pieces.
    """

    rise: int
    pieces: tuple[Piece, ...]
    variance: float


def spare_pieces(
    line: RunState,
    lengths: ArrayLike,
    spend: ArrayLike,
    maximum: int,
    asked: tuple[int, int],
    variance: float,
    noise: Noise,
    per_unit: int = 1,
    most: int | None = None,
    shares: Sequence[float] = LENGTHS,
) -> Pieces:
    """Return pieces that bring a range to a variance, for nothing if cells have enough to spare.

    Parameters
    ----------
    line
        What history knows of the runs between some cut points. A few dozen cut points near both ends are enough.
    lengths
        Levels of each cell, that is between neighbouring cut points; shape (cells,).
    spend
        Of each cell's dearest level, in units, shape (cells,).
    maximum
        The spend of the dearest cell of the table, in units: no less than any of `spend`.
    asked
        The range: from cut point asked[0] to cut point asked[1].
    variance
        To be reached.
    noise
        "laplace": a piece of variance 2 b^2 costs 1 / b; "gaussian": one of variance sigma^2 costs 1 / sigma^2.
    per_unit
        The accountant's factor for units with many rows.
    most
        The largest rise, in units, for which a short piece may be measured instead of the whole range; that of
        measuring the whole range at the precision that is missing unless given, so that no more than this is paid.
    shares
        Longest pieces to try, as shares of the range; (1.0,) for the least rise, whatever it leaves to spare.

    Source: DESIGN, section 5: a range is an edge between cut points, its variance a resistance.
    """
    law = law_of(noise)
    problem = _Problem(line, lengths, spend, maximum, asked, variance, law, per_unit)
    known = float(problem.known[asked])
    if known <= variance * ROUNDING:
        return Pieces(0, (), known)
    free = problem.cheapest(0, 1.0)
    if free is not None:
        return problem.least(free)
    price = _units(1 / (1 / variance - 1 / known), law, per_unit)
    whole = problem.measured(((*asked, price),))
    ways = [whole]
    for share in shares:
        way = problem.least_rise(whole.rise if share == 1 else max(whole.rise, most or 0), share)
        if way is not None:
            ways.append(way)
    best = min(ways, key=problem.weight if len(shares) > 1 else lambda way: way.rise)
    return best if best is whole else problem.least(best)


class _Problem:
    """The cut points: what is known of, and what can be spent on, the run between any two."""

    def __init__(
        self,
        line: RunState,
        lengths: ArrayLike,
        spend: ArrayLike,
        maximum: int,
        asked: tuple[int, int],
        variance: float,
        law: Law,
        per_unit: int,
    ) -> None:
        self.spend = np.asarray(spend, dtype=np.int64)
        self.lengths = np.asarray(lengths, dtype=float)
        self.maximum, self.asked, self.variance = maximum, asked, variance
        self.law, self.per_unit = law, per_unit
        self.corners, self.prior = line.corners, PRIOR * variance
        self.same = (line.groups[:, None] == line.groups).astype(float)
        known = line.variances()
        self.known = np.where(np.isfinite(known), known, 2 * self.prior)
        step = EQUAL * variance
        self.rounded = np.round(self.known / step) * step
        k = self.spend.size
        inside = np.triu(np.ones((k, k), dtype=bool))
        dearest = np.maximum.accumulate(np.where(inside, self.spend, 0), axis=1)
        self.dearest: Integers = np.zeros((k + 1, k + 1), dtype=np.int64)
        self.dearest[:-1, 1:] = np.where(inside, dearest, 0)
        self.dearest = np.maximum(self.dearest, self.dearest.T)
        ends = np.concatenate(([0.0], np.cumsum(self.lengths)))
        self.reach = np.abs(ends[:, None] - ends) / abs(ends[asked[1]] - ends[asked[0]])
        self.price = _units(variance, law, per_unit)

    def least_rise(self, most: int, share: float) -> Pieces | None:
        """Return the pieces, each at most this share of the range long, of least rise, if that is at most `most`."""
        best = self.cheapest(most, share)
        low, high = 0, most
        while best is not None and high - low > CLOSE * self.price:
            middle = (low + high) // 2
            found = self.cheapest(middle, share)
            if found is None:
                low = middle
            else:
                best, high = found, middle
        return best

    def weight(self, way: Pieces) -> float:
        """Return by how much the pieces raise the sum over levels of exp(spend), in suitable units."""
        added = np.zeros(self.spend.size)
        for piece in way.pieces:
            added[piece.start : piece.end] += piece.units
        steep = STEEP / self.price
        before, rise = steep * (self.spend - self.maximum), steep * added
        with np.errstate(over="ignore"):
            small = np.exp(before) * np.expm1(np.minimum(rise, 1.0))
            return float(self.lengths @ np.where(rise < 1, small, np.exp(before + rise) - np.exp(before)))

    def cheapest(self, rise: int, share: float) -> Pieces | None:
        """Return pieces that reach the variance while no cell passes the maximum by more than `rise`, if any do."""
        spare = np.where(self.reach <= share, np.maximum(self.maximum + rise - self.dearest, 0), 0)
        np.fill_diagonal(spare, 0)
        noisy = _variances(spare, self.law, self.per_unit)
        for path in self._paths(noisy):
            found = self.measured(tuple((a, b, int(spare[a, b])) for a, b in path))
            if found.rise <= rise and found.variance <= self.variance * ROUNDING:
                return found
        return None

    def _paths(self, noisy: Floats) -> Iterator[list[tuple[int, int]]]:
        """Propose pieces: those of the shortest path, where pieces replace what is known, or add to it; and the whole.

        What history knows of different runs is correlated, so that the length of a path is a guide, no promise.
        """
        start, end = self.asked
        seen = set()
        with np.errstate(divide="ignore"):
            together = 1 / (1 / noisy + 1 / self.rounded)
        together[~np.isfinite(noisy)] = np.inf
        for lengths in (noisy, together):
            from_start, before = _shortest(lengths, start)
            from_end, after = _shortest(lengths, end)
            a, b = divmod(int(np.argmin(from_start[:, None] + self.rounded + from_end)), len(noisy))
            path = [*_steps(before, start, a), *_steps(after, end, b)]
            key = tuple(sorted(path))
            if path and key not in seen:
                seen.add(key)
                yield path
        if np.isfinite(noisy[start, end]):
            yield [(start, end)]

    def measured(self, runs: tuple[tuple[int, int, int], ...]) -> Pieces:
        """Return what measuring runs (start, end, units) costs and gives, by least squares."""
        pieces = []
        added = np.zeros(self.spend.size, dtype=np.int64)
        noise = _variances(np.array([units for _, _, units in runs]), self.law, self.per_unit)
        for (start, end, units), one in zip(runs, noise.tolist(), strict=True):
            added[start:end] += units
            pieces.append(Piece(start, end, units, one))
        rise = max(0, int((self.spend + added).max(initial=0)) - self.maximum)
        return Pieces(rise, tuple(pieces), self._variance(pieces))

    def _variance(self, pieces: list[Piece]) -> float:
        starts = np.array([self.asked[0], *(piece.start for piece in pieces)])
        ends = np.array([self.asked[1], *(piece.end for piece in pieces)])
        # Where nothing is unknown the prior is left out to the last bit: no digits go with it.
        joint = _between(self.corners, starts, ends) + self.prior * _between(self.same, starts, ends)
        for row, piece in enumerate(pieces, 1):  # one by one: the prior and small noise must not meet in one inverse
            joint = joint - np.outer(joint[row] / (joint[row, row] + piece.variance), joint[row])
        return float(joint[0, 0])

    def least(self, found: Pieces) -> Pieces:
        """Return the same pieces with no more precision than is needed: each gives up the same share of its units."""
        low, high, best = 0.0, 1.0, found
        for _ in range(SHARES):
            share = (low + high) / 2
            less = self.measured(
                tuple((one.start, one.end, max(1, int(np.ceil(one.units * share)))) for one in found.pieces)
            )
            if less.variance <= self.variance * ROUNDING:
                best, high = less, share
            else:
                low = share
        return best


def _between(corners: Floats, starts: Integers, ends: Integers) -> Floats:
    """Return the covariances of runs, from those of the counts before each cut point; shape (runs, runs)."""
    found = corners[np.ix_(ends, ends)] + corners[np.ix_(starts, starts)]
    return np.asarray(found - corners[np.ix_(ends, starts)] - corners[np.ix_(starts, ends)])


def _shortest(lengths: Floats, node: int) -> tuple[Floats, Integers]:
    """Return the length of the shortest path of few steps from a node to every node, and the step before each."""
    distance = lengths[node].copy()
    distance[node] = 0.0
    before = np.full(len(lengths), node, dtype=np.int64)
    for _ in range(STEPS - 1):
        through = lengths + distance  # lengths are symmetric: row b holds the ways to b
        step = through.argmin(axis=1)
        length = through[np.arange(len(lengths)), step]
        better = length < distance
        if not better.any():
            break
        distance = np.where(better, length, distance)
        before = np.where(better, step, before)
    return distance, before


def _steps(before: Integers, start: int, node: int) -> list[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    while node != start and len(steps) <= 2 * STEPS:
        step = int(before[node])
        steps.append((min(step, node), max(step, node)))
        node = step
    return steps


def _units(variance: float, law: Law, per_unit: int) -> int:
    """Return what a piece of this variance costs, in units, rounded up."""
    return int(np.ceil(UNITS * per_unit * law.cost(1 / variance)))


def _variances(units: NDArray[np.int64], law: Law, per_unit: int) -> Floats:
    """Return the variance of pieces that cost so many units; infinite for none.

    Of Laplace noise, that of the continuous law, of which the discrete one of the same cost always has a little less.
    """
    with np.errstate(divide="ignore"):
        rate = UNITS * per_unit / units.astype(float)
    return np.asarray(law.variance_of_rate(rate))

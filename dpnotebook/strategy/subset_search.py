"""Which subsets of the attributes to measure, and with what share of the sensitivity.

A subset b that is measured with share u_b of the L1 norm tells of every subset S within it, with information
c_b u_b^2 (each times a constant of S), so the error is (sum_b u_b)^2 sum over S of L_S / q_S, q_S = sum over b that
contain S of c_b u_b^2. Given the subsets, shares are found by majorisation: with E_b what b carries of the error, the
step u_b <- u_b^(2/3) E_b^(1/3) never raises it. Which subsets is a combinatorial matter: sensitivities add up, and
information in squares, so two measurements are often worth replacing by one of their union. The search merges, extends,
shrinks and drops subsets as long as that helps.

Source: HDMM, Definitions 21 and 22 (OPT_M), where all 2^d shares are optimised at once from random starts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.lattice import as_words, pairs_within
from dpnotebook.workload.base import Array

Rows = NDArray[np.bool_]
Integers = NDArray[np.int64]
FORGOTTEN = 1e-5  # of the largest share: a measurement that is dropped
STEPS = 500  # of settling shares; it ends earlier where they are settled
SETTLED = 1e-8  # relative gain of a step below which shares are settled
GAIN = 1e-5  # relative gain for which the subsets are changed
TRIALS = (0.1, 0.4, 0.7, 1.0, 1.3)  # share of a union, in terms of the shares of its parts
BARS = (0.9999, 1.003, 1.01, 1.03)  # ratios of errors up to which moves are made together
PROMISING = 1.05  # ratio up to which they are tried at all
VERIFIED = 40  # and how many
MANY = 200  # needed subsets, of more of which moves are not worked out anew for all that is measured
NEARBY = 200  # of the most promising moves, whose subsets are looked at next
TOGETHER = 2**17  # moves that are worked out at a time
KEPT = 2_000  # needed subsets up to which it is kept which of them are within a measured one
LOST = 1e-9  # of what is told of a subset: less than that is nothing


@dataclass(frozen=True)
class SubsetShares:
    """Measured subsets with their shares of the sensitivity, and the error that they leave."""

    subsets: Rows
    shares: Array
    error: float


@dataclass(frozen=True)
class Problem:
    """What is asked of every subset of the attributes.

    Parameters
    ----------
    needed
        The subsets that queries are about, shape (subsets, attributes).
    losses
        L_S of each, times the product of `information` over it, above 0.
    information
        What a measurement of unit sensitivity of each attribute tells of its total, shape (attributes,).
    """

    needed: Rows
    losses: Array
    information: Array

    def settle(self, subsets: Rows, shares: Array, steps: int = STEPS) -> SubsetShares:
        """Return the subsets with the best shares that are found from those given."""
        row, column = self.pairs(subsets)
        told = self.told(subsets)
        error = last = np.inf
        for _ in range(steps):
            q = np.bincount(row, weights=(told * shares**2)[column], minlength=len(self.needed))
            with np.errstate(divide="ignore"):  # nothing measured tells of some subset: the error is infinite
                parts = self.losses / q
            error = float(shares.sum() ** 2 * parts.sum())
            if not error < last * (1 - SETTLED):
                break
            last = error
            # E_b / u_b = c_b u_b (sum of L_S / q_S^2): a share of nothing stays one.
            carried = np.bincount(column, weights=(parts / q)[row], minlength=len(subsets))
            shares = shares * np.cbrt(told * shares * carried)
            shares = shares / shares.sum()
        kept = shares > FORGOTTEN * shares.max()
        return SubsetShares(subsets[kept], shares[kept] / shares[kept].sum(), error)

    def told(self, subsets: Rows) -> Array:
        """Return c_b, shape (subsets,)."""
        return np.asarray(np.where(subsets, self.information, 1.0).prod(axis=1))

    def exact(self, found: SubsetShares) -> float:
        """Return the error that these shares leave."""
        row, column = self.pairs(found.subsets)
        each = self.told(found.subsets) * found.shares**2
        q = np.bincount(row, weights=each[column], minlength=len(self.needed))
        return float(found.shares.sum() ** 2 * (self.losses / q).sum())

    def covers(self, subsets: Rows) -> Any:
        """Return which measured subset contains which needed one, sparse, shape (needed, subsets)."""
        from scipy.sparse import csc_array

        row, column = self.pairs(subsets)
        return csc_array((np.ones(row.size), (row, column)), shape=(len(self.needed), len(subsets)))

    def pairs(self, subsets: Rows) -> tuple[Integers, Integers]:
        """Return which needed subset is within which measured one: the places of both, pair by pair, by the latter."""
        if len(self.needed) > KEPT:
            column, row = pairs_within(subsets, self.needed)
            return row, column
        return self._known.of(subsets)

    @cached_property
    def _known(self) -> _Within:
        return _Within(self.needed)

    def inside(self, subsets: Rows) -> Rows:
        """Return which needed subsets are within which of the given ones, shape (needed, subsets)."""
        inside = np.ones((len(self.needed), len(subsets)), dtype=bool)
        for needed, outside in zip(as_words(self.needed).T, ~as_words(subsets).T, strict=True):
            inside &= (needed[:, None] & outside[None, :]) == 0
        return inside


class _Within:
    """Which needed subsets are within those that were asked about: a search asks for the same again and again."""

    def __init__(self, needed: Rows) -> None:
        self.needed = needed
        self.numbers: dict[bytes, int] = {}
        self.ends = np.zeros(1, dtype=np.int64)  # of what is within each, in one row
        self.rows = np.zeros(0, dtype=np.int64)

    def of(self, subsets: Rows) -> tuple[Integers, Integers]:
        """Return `Problem.pairs`."""
        words = as_words(subsets)
        keys = words.view(f"S{8 * words.shape[1]}")[:, 0].tolist()
        new = [place for place, key in enumerate(keys) if key not in self.numbers]
        if new:
            column, row = pairs_within(subsets[new], self.needed)
            ends = np.cumsum(np.bincount(column, minlength=len(new)))
            self.numbers.update(
                zip((keys[place] for place in new), range(self.ends.size - 1, sys.maxsize), strict=False)
            )
            self.ends = np.concatenate((self.ends, self.ends[-1] + ends))
            self.rows = np.concatenate((self.rows, row))
        which = np.array([self.numbers[key] for key in keys], dtype=np.int64)
        lengths = self.ends[which + 1] - self.ends[which]
        column = np.repeat(np.arange(which.size), lengths)
        before = np.cumsum(lengths) - lengths
        return self.rows[(self.ends[which] - before)[column] + np.arange(column.size)], column


@dataclass(frozen=True)
class Moves:
    """Ways to replace one or two measured subsets by one, or to add one, the most promising first.

    Parameters
    ----------
    ratio
        Error after over error before, shares of the others being what they are, shape (moves,).
    first, second
        What is replaced; -1 is nothing.
    share
        Share of the new one.
    subsets
        The new ones, shape (moves, attributes).
    """

    ratio: Array
    first: Array
    second: Array
    share: Array
    subsets: Rows


def search(problem: Problem, start: SubsetShares, report: Progress = silent) -> SubsetShares:
    """Return subsets and shares that no single move improves by more than a little.

    The error of a move is known only after all shares have settled anew, so many moves that look like gains are made
    together, and those that look promising are tried one by one. Of many subsets moves take longest: those of all are
    worked out where those that looked promising before lead no further.
    """
    current = start
    among: Integers | None = None
    while True:
        report(None, f"marginals: {len(current.subsets):,} subsets, error {current.error:.6g}")
        moves = _moves(problem, current, among)
        found = current
        for bar in BARS:
            chosen = _apart(moves, np.flatnonzero((moves.ratio < bar) & (moves.first >= 0)))
            if len(chosen) > 1:
                found = min(found, _changed(problem, current, moves, chosen), key=lambda one: one.error)
        if found is current:
            found = _one_by_one(problem, current, moves)
        if found.error < current.error * (1 - GAIN):
            among = _nearby(moves, current, found) if len(problem.needed) > MANY else None
            current = found
        elif among is None:
            return current
        else:
            among = None


def _nearby(moves: Moves, current: SubsetShares, found: SubsetShares) -> Integers:
    """Return which of the subsets found are new, or were to be replaced by the most promising moves."""
    keys = [tuple(words) for words in as_words(current.subsets).tolist()]
    promising = np.unique((moves.first[:NEARBY], moves.second[:NEARBY]))
    known = set(keys).difference(keys[place] for place in promising[promising >= 0].tolist())
    now = [tuple(words) for words in as_words(found.subsets).tolist()]
    return np.array([place for place, key in enumerate(now) if key not in known], dtype=np.int64)


def _apart(moves: Moves, promising: Integers, most: int = sys.maxsize) -> list[int]:
    """Return the best moves, so many at most, that do not replace the same subsets."""
    used: set[int] = set()
    chosen: list[int] = []
    pairs = zip(promising.tolist(), moves.first[promising].tolist(), moves.second[promising].tolist(), strict=True)
    for i, first, second in pairs:
        if first not in used and second not in used:
            chosen.append(i)
            if len(chosen) == most:
                break
            used |= {first, second} - {-1}
    return chosen


def _one_by_one(problem: Problem, current: SubsetShares, moves: Moves) -> SubsetShares:
    """Return the result of the moves that help, each tried on top of those before it."""
    best = current
    kept: list[int] = []
    replaced = moves.first >= 0
    several = _apart(moves, np.flatnonzero(replaced), VERIFIED) + np.flatnonzero(~replaced)[:VERIFIED].tolist()
    for i in sorted(several):
        found = _changed(problem, current, moves, [*kept, i])
        if found.error < best.error * (1 - GAIN):
            best = found
            kept.append(i)
    return best


def _changed(problem: Problem, current: SubsetShares, moves: Moves, chosen: list[int]) -> SubsetShares:
    """Return what the moves lead to, all shares settled anew."""
    gone = np.concatenate((moves.first[chosen], moves.second[chosen]))
    stays = np.ones(len(current.subsets), dtype=bool)
    stays[gone[gone >= 0]] = False
    subsets = np.concatenate((current.subsets[stays], moves.subsets[chosen]))
    first, place = _distinct(subsets)
    shares = np.bincount(place, weights=np.concatenate((current.shares[stays], moves.share[chosen])))
    return problem.settle(subsets[first], shares)


def _distinct(subsets: Rows) -> tuple[Integers, Integers]:
    """Return where each distinct row is first, and which of these every row is: by its bits, ten times as fast."""
    words = as_words(subsets)
    if words.shape[1] == 1:
        _, first, place = np.unique(words[:, 0], return_index=True, return_inverse=True)
    else:
        _, first, place = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def _moves(problem: Problem, current: SubsetShares, among: Integers | None = None) -> Moves:
    """Return the moves from here that look promising, worked out some thousands at a time; of some subsets only."""
    subsets, shares = current.subsets, current.shares
    each = problem.inside(subsets) * (problem.told(subsets) * shares**2)
    q = each.sum(axis=1)
    parts = problem.losses / q
    error, needed = parts.sum(), as_words(problem.needed)
    found = []
    for new, base, mine, other in _changes(subsets, np.arange(len(subsets)) if among is None else among):
        # Only what is within a changed subset changes: entries (move, needed), sparse.
        replaced = np.where((mine >= 0)[:, None], subsets[mine], False)
        move, row = pairs_within(new | replaced, problem.needed)
        reach = problem.told(new)[move] * ~(needed[row] & ~as_words(new)[move]).any(axis=1)
        rest = q[row] - np.where(mine[move] >= 0, each[row, mine[move]], 0.0)
        rest -= np.where(other[move] >= 0, each[row, other[move]], 0.0)
        rest = np.maximum(rest, 0.0)
        gone = np.bincount(move, weights=parts[row], minlength=len(new))
        sum_ = shares[base] + np.where(other >= 0, shares[other], 0.0)
        freed = np.where(mine >= 0, sum_, 0.0)
        best = np.full(len(new), np.inf)
        share = np.zeros(len(new))
        reached, losses, least = reach * sum_[move] ** 2, problem.losses[row], LOST * q[row]
        for trial in TRIALS:
            after = rest + reached * trial**2
            lost = np.divide(losses, after, out=np.full(after.size, np.inf), where=after > least)
            left = error - gone + np.bincount(move, weights=lost, minlength=len(new))
            ratio = (1 - freed + trial * sum_) ** 2 * left / error
            better = ratio < best
            best[better], share[better] = ratio[better], trial * sum_[better]
        kept = np.flatnonzero(best < PROMISING)
        found.append((best[kept], mine[kept], other[kept], share[kept], new[kept]))
    ratio, first, second, share, new = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(ratio, kind="stable")
    return Moves(ratio[order], first[order], second[order], share[order], new[order])


def _changes(subsets: Rows, among: Integers) -> Iterator[tuple[Rows, Integers, Integers, Integers]]:
    """Yield what could be measured instead: new subsets, whose share each begins with, and the one or two it replaces.

    The union with another, in place of both; one attribute more or less, in place of it or beside it.
    """
    count, d = subsets.shape
    sizes = subsets.sum(axis=1)
    step = max(1, TOGETHER // (count + 2 * d))
    later = np.full(count, -1)  # a pair of two of them is yielded once
    later[among] = among
    for start in range(0, len(among), step):
        some = among[start : start + step]
        shared = subsets[some].astype(np.int32) @ subsets.T.astype(np.int32)
        joined = sizes[some][:, None] + sizes[None, :] - shared
        near = joined <= np.maximum(sizes[some][:, None], sizes[None, :]) + 1
        a, b = np.nonzero(near & (some[:, None] != np.arange(count)) & ((later < 0) | (some[:, None] < later)))
        a = some[a]
        each, axis = np.repeat(some, d), np.tile(np.arange(d), len(some))
        flipped = subsets[each]
        flipped[np.arange(len(each)), axis] ^= True
        none = np.full(len(each), -1)
        yield (
            np.concatenate((subsets[a] | subsets[b], flipped, flipped)),
            np.concatenate((a, each, each)),
            np.concatenate((a, each, none)),
            np.concatenate((b, none, none)),
        )

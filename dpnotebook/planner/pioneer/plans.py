"""Pioneer's execution plans: how rough the new question may be, and which past answers to refine how far.

A plan is a weighted average of sums, each of which equals the question asked: the question itself at a new, rougher
variance v' (top branching), and sums of past answers, which may be made more accurate first (leaf refining). A term
of a sum may itself be such an average (composite plans). Everything follows from one fact: with the best weights, the
variance of an average is the inverse of the sum of inverse variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_TINY = 1e-12  # relative: by which a variance may miss the one asked for, by rounding
_SAME = 1 - 1e-9  # of the highest level: queries from there on are refined together
_FIRST = 1e-12  # of the highest level: below what any answer is ever refined to
_STEPS = 200  # of a root search: it ends when floats are used up, long before
_ROOT = 1 + 1e-14  # ratio of the ends of an interval in which there is no float to try


@dataclass(frozen=True)
class Past:
    """A query that a plan can use.

    Parameters
    ----------
    variance
        Noise variance of its recorded answer; None for a new query that is answered beside the question at the same
        variance v', for nothing more, because the two select no row in common.
    coefficient
        Its coefficient in the sum that it is part of: c_ij of eq. 5.
    sensitivity
        Largest change of its answer by one record, times the number of times it is measured.
    refinable
        Whether its answer can be made more accurate by NoiseDown; a new query's cannot.
    """

    variance: float | None
    coefficient: float = 1.0
    sensitivity: float = 1.0
    refinable: bool = True


@dataclass(frozen=True)
class SumOfQueries:
    """A sum of past queries (positions in the plan's list) and averages of such sums, equal to the question (eq. 5)."""

    leaves: tuple[int, ...]
    averages: tuple[tuple[SumOfQueries, ...], ...] = ()


@dataclass(frozen=True)
class Stage:
    """The parameters of one plan.

    `variance` is v' of the new query, infinite where none is asked; `refined` has the variance of every past query
    after refinement (v' for those that are new); `epsilon` is eq. 16, 18 or 23.
    """

    epsilon: float
    variance: float
    refined: tuple[float, ...]


def cost(variance: float, sensitivity: float = 1.0) -> float:
    """Return the epsilon of Laplace noise of a variance (eq. 3)."""
    return math.sqrt(2 / variance) * sensitivity


def noise_down(before: float, after: float, sensitivity: float = 1.0) -> float:
    """Return the epsilon of refining an answer from one variance to a smaller one (eq. 4)."""
    return cost(after, sensitivity) - cost(before, sensitivity)


def flat(partitions: Sequence[Sequence[Past]]) -> tuple[list[Past], tuple[SumOfQueries, ...]]:
    """Return disjoint sets of queries, each of which sums up to the question, as a list and its sums."""
    queries = [query for partition in partitions for query in partition]
    ends = [sum(map(len, partitions[: i + 1])) for i in range(len(partitions))]
    return queries, tuple(
        SumOfQueries(tuple(range(end - len(part), end))) for part, end in zip(partitions, ends, strict=True)
    )


def top_branching(
    queries: Sequence[Past], totals: Sequence[SumOfQueries], variance: float, sensitivity: float = 1.0
) -> Stage:
    """Return the plan that refines nothing (Fig. 3, eq. 8 and 9)."""
    return next(stages(queries, totals, variance, sensitivity))


def stages(
    queries: Sequence[Past], totals: Sequence[SumOfQueries], variance: float, sensitivity: float = 1.0
) -> Iterator[Stage]:
    """Go from the plan that refines nothing to the plan that asks nothing new, refining the best answers by and by.

    Parameters
    ----------
    queries
        Past queries; a sum names them by position.
    totals
        Sums that equal the question asked. No query is in two of them, or twice in one.
    variance
        What the question needs.
    sensitivity
        The question's.

    Yields
    ------
    Stage
        One plan a step. The refinement of a step goes to the sum whose query has the highest score, the gain in
        accuracy per epsilon (eq. 14, 17 and 24; for coefficients c and sensitivities s it carries c^2 / s). There it
        lowers the queries of highest level, v (c^2 / s)^(2/3), to the next level (Lemma 1 for coefficients of 1), or,
        when there is no next, as far as needed for nothing new to be asked.
    """
    tree = _Tree(queries, totals)
    refined = [math.inf if query.variance is None else query.variance for query in queries]
    sums = [node for total in totals for node in _nodes(total)]
    while True:
        new = tree.needed(refined, variance)
        yield _stage(queries, refined, new, sensitivity)
        if math.isinf(new):
            return
        found = _best(tree, sums, refined, new)
        if found is None:
            return
        node, group, below = found
        lowered = list(refined)
        _lower(queries, lowered, group, below)
        if tree.variance(lowered, math.inf) < variance * (1 - _TINY):
            lowered = _reach(tree, refined, group, below, variance)
        elif below == 0:
            # Not even a perfect answer to these reaches the variance without a new question: leave this sum alone.
            sums = [other for other in sums if other is not node]
            continue
        refined = lowered


class _Tree:
    """The variance of the question's answer, as a function of the variances of its inputs."""

    def __init__(self, queries: Sequence[Past], totals: Sequence[SumOfQueries]) -> None:
        self.queries, self.totals = queries, totals

    def sum(self, total: SumOfQueries, refined: Sequence[float], new: float) -> float:
        """Return the variance of one sum (eq. 19)."""
        below = (_average([self.sum(term, refined, new) for term in terms]) for terms in total.averages)
        return sum(self.leaf(i, refined, new) for i in total.leaves) + sum(below)

    def leaf(self, i: int, refined: Sequence[float], new: float) -> float:
        query = self.queries[i]
        return query.coefficient**2 * (new if query.variance is None else refined[i])

    def variance(self, refined: Sequence[float], new: float) -> float:
        """Return the variance of the whole average, with the new query at variance `new` (eq. 15 and 19)."""
        return _average([new, *(self.sum(total, refined, new) for total in self.totals)])

    def needed(self, refined: Sequence[float], variance: float) -> float:
        """Return the variance v' that makes the answer as accurate as asked; infinite where nothing new is needed."""
        if self.variance(refined, math.inf) <= variance * (1 + _TINY):
            return math.inf
        if all(query.variance is not None for query in self.queries):
            return 1 / (1 / variance - 1 / self.variance(refined, math.inf))  # eq. 8
        high = variance
        while self.variance(refined, high) < variance:
            high *= 4
        return _root(lambda new: self.variance(refined, new) - variance, variance, high)

    def gains(self, refined: Sequence[float], new: float) -> list[float]:
        """Return d variance / d v_i of every query: its squared weight times its squared coefficient (eq. 13, 24)."""
        gain = [0.0] * len(self.queries)

        def visit(terms: Sequence[SumOfQueries], weight: float, beside: float) -> None:
            own = [1 / self.sum(term, refined, new) for term in terms]
            for term, precision in zip(terms, own, strict=True):
                share = weight * precision / (sum(own) + beside)
                for i in term.leaves:
                    gain[i] = (share * self.queries[i].coefficient) ** 2
                for below in term.averages:
                    visit(below, share, 0.0)

        visit(self.totals, 1.0, 1 / new)
        return gain


def _average(variances: Sequence[float]) -> float:
    """Return the variance of the best weighted average of independent estimates."""
    if min(variances) == 0:
        return 0.0
    precision = sum(1 / variance for variance in variances)
    return 1 / precision if precision else math.inf  # eq. 7 with the weights of eq. 8; eq. 10


def _nodes(total: SumOfQueries) -> Iterator[SumOfQueries]:
    yield total
    for terms in total.averages:
        for term in terms:
            yield from _nodes(term)


def _level(query: Past, variance: float) -> float:
    return variance * math.pow(query.coefficient**2 / query.sensitivity, 2 / 3)  # eq. 17, all but what a sum shares


def _lower(queries: Sequence[Past], refined: list[float], group: Sequence[int], level: float) -> None:
    for i in group:
        refined[i] = level / _level(queries[i], 1.0)


def _best(
    tree: _Tree, sums: list[SumOfQueries], refined: Sequence[float], new: float
) -> tuple[SumOfQueries, list[int], float] | None:
    """Return the sum whose top queries have the highest score, those queries, and the next level (0 where none is)."""
    gains = tree.gains(refined, new)
    best, most = None, 0.0
    for node in sums:
        levels = {i: _level(tree.queries[i], refined[i]) for i in node.leaves if _refinable(tree.queries[i])}
        if not levels:
            continue
        top = max(levels.values())
        group = [i for i, level in levels.items() if level >= top * _SAME]
        query = tree.queries[group[0]]
        score = gains[group[0]] * refined[group[0]] ** 1.5 / query.sensitivity  # eq. 14 and 24; eq. 12 is the price
        if score > most:
            below = max((level for level in levels.values() if level < top * _SAME), default=0.0)
            best, most = (node, group, below), score
    return best


def _refinable(query: Past) -> bool:
    return query.refinable and query.variance is not None and query.coefficient != 0


def _stage(queries: Sequence[Past], refined: Sequence[float], new: float, sensitivity: float) -> Stage:
    spent = sum(
        noise_down(query.variance, after, query.sensitivity)
        for query, after in zip(queries, refined, strict=True)
        if query.variance is not None and after < query.variance
    )
    after = tuple(new if query.variance is None else value for query, value in zip(queries, refined, strict=True))
    return Stage(cost(new, sensitivity) + spent, new, after)  # eq. 11, 16, 18 and 23


def _reach(tree: _Tree, refined: Sequence[float], group: Sequence[int], below: float, variance: float) -> list[float]:
    """Return the variances with the group lowered just so far that nothing new is needed, above the level `below`."""

    def lowered(level: float) -> list[float]:
        trial = list(refined)
        _lower(tree.queries, trial, group, level)
        return trial

    top = _level(tree.queries[group[0]], refined[group[0]])
    return lowered(_root(lambda level: tree.variance(lowered(level), math.inf) - variance, below or top * _FIRST, top))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0, or just below, between positive points (regula falsi, Illinois)."""
    below, above = rising(low), rising(high)
    side = 0
    for _ in range(_STEPS):
        if not below < 0 < above or high <= low * _ROOT:
            break
        middle = (low * above - high * below) / (above - below)
        if not low < middle < high:
            middle = (low + high) / 2
        value = rising(middle)
        if value <= 0:
            low, below, above = middle, value, above / 2 if side < 0 else above
            side = -1
        else:
            high, above, below = middle, value, below / 2 if side > 0 else below
            side = 1
    return low if below <= 0 else high

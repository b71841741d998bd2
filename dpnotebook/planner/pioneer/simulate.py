"""What a sequence of ranges costs under Pioneer and the methods it is compared with; no data, no noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from dpnotebook.inference.tree import tree_levels
from dpnotebook.planner.pioneer.choose import carry_out, decide
from dpnotebook.planner.pioneer.groups import Floats, Groups, Mask
from dpnotebook.planner.pioneer.plans import cost
from dpnotebook.workload.hierarchy import Hierarchy, depth

Method = Literal["naive", "parallel", "baseline", "pioneer", "hierarchy"]
Ranges = Sequence[tuple[int, int, float]]
BRANCHINGS = range(2, 17)  # of the trees that "hierarchy" chooses among
ROUNDING = 1 + 1e-12  # by which a total may pass the budget


def running_epsilon(
    ranges: Ranges,
    method: Method,
    *,
    k: int = 4,
    exactly: bool = False,
    domain: int | None = None,
    budget: float = math.inf,
) -> Floats:
    """Return the total epsilon after each range of a sequence.

    Parameters
    ----------
    ranges
        Start and end (exclusive) of every range, and the noise variance that its answer may have.
    method
        "naive": every range by itself, prices added up. "parallel": the same, but what counts is the dearest cell.
        "baseline": a range is coalesced with past ones that it does not meet, and only what it adds to the price of
        the most accurate of them is paid. "pioneer": see `choose`; a
        range asked again at the same or a looser variance is free. "hierarchy": counts of a tree over the domain,
        bought before the first range at the accuracy that the whole sequence needs, with the branching (up to 16) and
        the height that cost least; least squares.
    k, exactly
        Pioneer's number of groups, and whether plans use that many always.
    domain
        Number of cells, for "hierarchy"; as many as the ranges reach unless given.
    budget
        Stop after the first range that would pass it.

    Returns
    -------
    array
        Shape (ranges,), or shorter where the budget was passed: the last total is then above it.
    """
    if not ranges:
        return np.zeros(0)
    if method == "hierarchy":
        cells = max(end for _, end, _ in ranges) if domain is None else domain
        return np.full(len(ranges), hierarchy_epsilon(ranges, cells))
    steps = {"naive": _naive, "parallel": _parallel, "baseline": _baseline}
    running = steps[method](ranges) if method in steps else _pioneer(ranges, k, exactly)
    totals = []
    for total in running:
        totals.append(total)
        if total > budget:
            break
    return np.array(totals)


def answered(
    ranges: Ranges,
    method: Method,
    budget: float,
    *,
    k: int = 4,
    exactly: bool = False,
    domain: int | None = None,
) -> int:
    """Return how many ranges a budget answers before it is passed for the first time; see `running_epsilon`."""
    totals = running_epsilon(ranges, method, k=k, exactly=exactly, domain=domain, budget=budget)
    return int(np.count_nonzero(totals <= budget * ROUNDING))


def hierarchy_epsilon(ranges: Ranges, domain: int) -> float:
    """Return the price of the best full or cut tree over a domain that answers all the ranges by least squares."""
    starts, ends, variances = (np.array(column) for column in zip(*ranges, strict=True))
    best = math.inf
    for branching in BRANCHINGS:
        if branching > max(2, domain):
            break
        units = (ends - starts).astype(float)  # the variance of a sum of leaves of variance 1
        best = min(best, _tree_price(units, variances, 1))
        tree = Hierarchy(domain, branching, depth(domain, branching))
        for height, level in enumerate(tree_levels(tree), start=2):
            before = np.concatenate([[0.0], np.cumsum(level.u)])
            edges = np.append(np.arange(0, domain, level.size), domain)
            squares = np.concatenate([[0.0], np.cumsum((before[edges[1:]] - before[edges[:-1]]) ** 2 * level.shrink)])
            first, last = -(-starts // level.size), ends // level.size
            last = np.where(ends == domain, len(edges) - 1, last)
            inside = np.where(last > first, squares[last] - squares[np.minimum(first, last)], 0.0)
            left = np.minimum(edges[first], ends)
            right = np.where(last >= first, edges[last], ends)
            for low, high in ((starts, left), (np.maximum(right, left), ends)):
                node = np.minimum(low // level.size, len(edges) - 2)
                inside += (before[high] - before[low]) ** 2 * level.shrink[node]
            units -= inside
            best = min(best, _tree_price(units, variances, height))
    return best


def _tree_price(units: Floats, variances: Floats, height: int) -> float:
    """Return the epsilon at which every range is accurate enough; a record is counted once a level."""
    return height * cost(1 / float((units / variances).max()))


def _naive(ranges: Ranges) -> Iterator[float]:
    total = 0.0
    for _, _, variance in ranges:
        total += cost(variance)
        yield total


def _parallel(ranges: Ranges) -> Iterator[float]:
    masks = _masks(ranges)
    spend = np.zeros(masks[0].size)
    for mask, (_, _, variance) in zip(masks, ranges, strict=True):
        spend[mask] += cost(variance)
        yield float(spend.max())


def _baseline(ranges: Ranges) -> Iterator[float]:
    """Coalesce with the disjoint group to whose price least is added, the cheapest of those (section IV, Baseline)."""
    masks = _masks(ranges)
    unions = np.zeros((len(ranges), masks[0].size), dtype=np.float32)
    prices: list[float] = []
    for mask, (_, _, variance) in zip(masks, ranges, strict=True):
        price = cost(variance)
        count = len(prices)
        apart = np.flatnonzero(unions[:count] @ mask.astype(np.float32) == 0)
        into = min(apart, key=lambda i: (max(price - prices[i], 0), prices[i]), default=count)
        if into == count:
            prices.append(price)
        else:
            prices[into] = max(prices[into], price)
        unions[into] += mask
        yield sum(prices)


def _pioneer(ranges: Ranges, k: int, exactly: bool) -> Iterator[float]:
    groups: Groups | None = None
    answers: dict[tuple[int, int], float] = {}
    for mask, (start, end, variance) in zip(_masks(ranges), ranges, strict=True):
        groups = groups or Groups(mask.size)
        if answers.get((start, end), math.inf) > variance:
            carry_out(groups, decide(groups, mask, variance, k, exactly=exactly))
            answers[start, end] = variance
        yield groups.epsilon


def _masks(ranges: Ranges) -> list[Mask]:
    """Return the ranges as selections of atoms, the pieces between neighbouring ends."""
    cuts = np.unique([cut for start, end, _ in ranges for cut in (start, end)])
    atoms = cuts[:-1]
    return [(atoms >= start) & (atoms < end) for start, end, _ in ranges]

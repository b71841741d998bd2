"""DataCube: which marginals to measure so that the worst answer is as good as it can be.

Source: Ding et al. 2011, BMAX ("bound the maximum"): measuring s of the asked marginals answers another from one that
holds its attributes, at s^2 (Laplace) or s (Gaussian) times the number of measured cells that are summed into one of
its own. For every bound on that number, a greedy set cover finds few marginals that keep it; the best bound is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.strategy.lattice import pairs_within
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Marginals, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import sparse_terms

MOST_SUMMED = 1e300  # cells in one of another marginal: more are as many
WHOLE = 6  # decimals to which their number, computed by logarithms, is rounded to the whole number that it is


def datacube(workload: Workload, noise: Noise = "laplace", bound: float | None = None) -> Strategy:
    """Return the strategy of DataCube: some of the workload's marginals, all with the same noise.

    Answers are least squares over all that is measured, as in HDMM's comparison. Queries that are not counts of single
    levels (prefix-marginals, range marginals) are answered from the marginals over their attributes.

    Parameters
    ----------
    workload
        What is to be answered: a union of products over the same attributes.
    noise
        "laplace" or "gaussian".
    bound
        Most measured cells (at least 1) that may be summed into one of another marginal: the one for which the worst
        answer, before least squares, is best, unless given. HDMM's tables are those of the number of marginals asked.

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes, or the bound is below 1.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> found = strategy.datacube(marginals((3, 4, 50), upto=2))
    >>> [subset for subset, _ in found.operator.weights]  # the marginals that it measures
    [(0,), (0, 1), (0, 2), (1, 2)]
    """
    if bound is not None and not bound >= 1:
        raise WorkloadError(
            f"a marginal is the sum of at least 1 cell of itself, so no bound is below 1: {shorten(bound)}"
        )
    asked = sparse_terms(workload)
    if asked is None:
        raise WorkloadError("DataCube needs parts over the same attributes")
    sizes, terms = asked
    subsets = list(dict.fromkeys(term.axes for term in terms))
    summed = _summed_cells(subsets, sizes)
    cover = _least_maximum(summed, noise) if bound is None else _greedy_cover(summed, bound)
    chosen = [subsets[i] for i in sorted(cover)]
    return Strategy(workload, Marginals(map(Identity, sizes), dict.fromkeys(chosen, 1)), noise, "DataCube")


@dataclass(frozen=True, eq=False)
class _Summed:
    """Which marginals are sums of which others, pair by pair, by the number of the marginal that is measured.

    Parameters
    ----------
    count
        How many marginals there are.
    measured, asked
        Numbers of the two, shape (pairs,).
    cells
        How many cells of the measured one make one of the asked one, shape (pairs,).
    """

    count: int
    measured: NDArray[np.int64]
    asked: NDArray[np.int64]
    cells: Array


def _least_maximum(summed: _Summed, noise: Noise) -> list[int]:
    """Return the marginals to measure: those of the bound whose cover costs least."""
    best: list[int] = list(range(summed.count))
    least = _price(1.0, len(best), noise)
    for bound in np.unique(summed.cells):
        if bound >= least:
            break  # even a single measurement would cost more
        cover = _greedy_cover(summed, bound)
        if _price(bound, len(cover), noise) < least:
            best, least = cover, _price(bound, len(cover), noise)
    return best


def _price(bound: float, measured: int, noise: Noise) -> float:
    return bound * law_of(noise).squared_sensitivity(measured)


def _summed_cells(subsets: list[Subset], sizes: tuple[int, ...]) -> _Summed:
    inside = np.zeros((len(subsets), len(sizes)), dtype=bool)
    for row, subset in enumerate(subsets):
        inside[row, list(subset)] = True
    logs = inside @ np.log([float(size) for size in sizes])
    measured, asked = pairs_within(inside, inside)
    ratio = np.exp(np.minimum(logs[measured] - logs[asked], math.log(MOST_SUMMED)))
    return _Summed(len(subsets), measured, asked, np.round(ratio, WHOLE))


def _greedy_cover(summed: _Summed, bound: float) -> list[int]:
    """Return marginals that together answer all within the bound, each the one that adds most (the first such)."""
    kept = summed.cells <= bound
    measured, asked = summed.measured[kept], summed.asked[kept]
    ends = np.searchsorted(measured, np.arange(summed.count + 1))
    by_asked = np.argsort(asked, kind="stable")
    tellers, first = measured[by_asked], np.searchsorted(asked[by_asked], np.arange(summed.count + 1))
    chosen: list[int] = []
    left = np.ones(summed.count, dtype=bool)
    adds = np.diff(ends)
    while left.any():
        chosen.append(int(adds.argmax()))
        told = asked[ends[chosen[-1]] : ends[chosen[-1] + 1]]
        for one in told[left[told]].tolist():
            adds[tellers[first[one] : first[one + 1]]] -= 1  # no marginal tells of another twice
        left[told] = False
    return chosen

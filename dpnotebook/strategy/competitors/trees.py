"""Strategies published for ranges and histograms, in each attribute: Hay's tree, Qardaji's, and the Haar wavelet.

They are what the papers compare with, behind the interface of every other strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.baselines import same_attributes
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Hierarchy, Identity, Kron, Wavelet, Workload
from dpnotebook.workload.terms import Term, terms


def h2(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the complete binary tree of counts, from the cells to the total, in each attribute (Hay et al. 2010).

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.h2(AllRange(64)).rmse(epsilon=1.0), 2)
    11.28
    """
    return _each(workload, noise, "H2", lambda n: Hierarchy(n, 2))


def hb(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the tree, without its root, whose branching suits all ranges, in each attribute (Qardaji et al. 2013).

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.hb(AllRange(256)).rmse(epsilon=1.0), 2)
    8.9
    """
    return _each(workload, noise, "HB", _hb_tree)


def wavelet(workload: Workload, noise: Noise = "laplace", hybrid: bool = False) -> Strategy:
    """Return the Haar wavelet basis in each attribute (Xiao et al. 2010, Privelet).

    Privelet's weights make every row a plain difference of two sums, so that all entries are 0, 1 or -1.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".
    hybrid
        Measure the cells themselves in attributes with few of them (Privelet+, for Laplace noise): up to
        (1 + log2 n)^2 (1 + log2(n) / 2) cells.

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.wavelet(AllRange(64)).rmse(epsilon=1.0), 2)
    10.11
    """

    def basis(n: int) -> Workload:
        levels = math.log2(n)
        return Identity(n) if hybrid and n <= (1 + levels) ** 2 * (1 + levels / 2) else Wavelet(n)

    return _each(workload, noise, "wavelet", basis)


def best_branching(n: int) -> int:
    """Return the branching b of least average variance over all ranges of n cells (Qardaji et al. 2013, equation 3).

    A tree of height h = ceil(log_b n) without its root has a variance in proportion to (b - 1) h^3 - 2 (b + 1) h^2 / 3.
    """

    def variance(branching: int) -> float:
        height = tree_height(n, branching)
        return (branching - 1) * height**3 - 2 * (branching + 1) * height**2 / 3

    return min(range(2, max(2, n) + 1), key=variance)


def tree_height(n: int, branching: int) -> int:
    """Return the least h of at least 1 with branching^h >= n."""
    height = 1
    while branching**height < n:
        height += 1
    return height


def _hb_tree(n: int) -> Workload:
    branching = best_branching(n)
    height = tree_height(n, branching)
    return Identity(n) if height == 1 else Hierarchy(n, branching, height)


def per_attribute(workload: Workload, what: str) -> tuple[Term, ...]:
    """Return the terms of a workload, or raise WorkloadError if they are products over different attributes."""
    parts = terms(workload)
    if not same_attributes(parts):
        raise WorkloadError(f"{what} in each attribute needs parts over the same attributes")
    return parts


def _each(workload: Workload, noise: Noise, name: str, basis: Callable[[int], Workload]) -> Strategy:
    factors = [basis(size) for size in per_attribute(workload, name)[0].sizes]
    return Strategy(workload, factors[0] if len(factors) == 1 else Kron(*factors), noise, name)

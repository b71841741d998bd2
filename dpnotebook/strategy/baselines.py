"""Strategies that have a name: the identity, the workload itself, hierarchies."""

from __future__ import annotations

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.product import hierarchy_choice, product_operator
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import (
    Hierarchy,
    Identity,
    Kron,
    Marginals,
    Permuted,
    PIdentity,
    Toeplitz,
    Weighted,
    Workload,
)
from dpnotebook.workload.base import whole
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.terms import Term, terms


def identity(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the strategy that measures every cell.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.identity(AllRange(64)).rmse(epsilon=1.0), 2)
    6.63
    """
    parts = terms(workload)
    if len(parts[0].sizes) == 1 or not same_attributes(parts):
        return Strategy(workload, Identity(workload.shape[1]), noise, "identity")
    return Strategy(workload, Kron(*map(Identity, parts[0].sizes)), noise, "identity")


def itself(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the strategy that measures the queries that are asked, without a common weight.

    Raises
    ------
    WorkloadError
        If the queries have coefficients that are not integers.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.itself(AllRange(64)).rmse(epsilon=1.0))  # a row is in 1,056 of 2,080 ranges
    262
    """
    parts = terms(workload)
    operator = parts[0].product if len(parts) == 1 else workload
    while isinstance(operator, Weighted):
        operator = operator.workload
    if not operator.integer:
        raise WorkloadError("queries whose coefficients are not integers cannot be measured as they are")
    return Strategy(workload, operator, noise, "workload itself")


def hierarchical(
    workload: Workload, noise: Noise = "laplace", branching: int | None = None, levels: int | None = None
) -> Strategy:
    """Return the strategy that measures a tree of blocks in each attribute.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".
    branching
        Children of a node in every attribute (at most its number of cells); the best in each, unless given.
    levels
        Number of levels measured, from the leaves; the best number, unless given. One level is the identity.

    Raises
    ------
    WorkloadError
        If branching or levels is out of range, or parts of the workload are products over different attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> found = strategy.hierarchical(AllRange(64))
    >>> found.name, round(found.rmse(epsilon=1.0), 2)
    ('hierarchy of branching 7 with 2 levels', 6.08)
    """
    parts = terms(workload)
    if branching is not None:
        whole(branching, "the branching of a hierarchy", 2)
    if levels is not None:
        whole(levels, "the number of levels")
    if not same_attributes(parts):
        raise WorkloadError("a hierarchy in each attribute needs parts over the same attributes")
    operator = product_operator(parts, hierarchy_choice(noise, branching, levels))
    return Strategy(workload, operator, noise, operator_name(operator, workload))


def same_attributes(parts: tuple[Term, ...]) -> bool:
    """Return whether all terms are products over the same attribute sizes."""
    return len({part.sizes for part in parts}) == 1


def operator_name(operator: Workload, workload: Workload) -> str:
    """Return what to call a product operator: by its factors, or as the workload itself."""
    measured, asked = terms(operator)[0].factors, terms(workload)
    if all(isinstance(factor, Identity) for factor in measured):
        return "identity"
    if len(asked) == 1 and measured == asked[0].factors:
        return "workload itself"
    return " x ".join(map(factor_name, measured))


def factor_name(factor: Workload) -> str:
    """Return what to call the operator of one attribute."""
    if isinstance(factor, Hierarchy):
        return f"hierarchy of branching {factor.branching} with {factor.levels} levels"
    if isinstance(factor, PIdentity):
        rows = factor.extra.shape[0]
        constant = rows == 1 and np.ptp(factor.extra) == np.ptp(factor.diagonal) == 0
        return "identity and total" if constant else f"p-Identity with {rows:,} row{'s' if rows > 1 else ''}"
    if isinstance(factor, Permuted):
        return f"{factor_name(factor.workload)} of reordered cells"
    if isinstance(factor, Toeplitz):
        return "Toeplitz square root"
    return factor.kind.lower() if isinstance(factor, Contiguous) else "weighted queries"


def marginals_name(operator: Marginals) -> str:
    """Return what to call a strategy of weighted marginals: how many, and what is measured along their attributes."""
    subsets = f"{len(operator.weights):,} weighted marginal{'s' if len(operator.weights) > 1 else ''}"
    used = {i for subset, _ in operator.weights for i in subset}
    others = [factor_name(operator.factors[i]) for i in sorted(used) if not isinstance(operator.factors[i], Identity)]
    return f"{subsets}, with {' and '.join(dict.fromkeys(others))}" if others else subsets

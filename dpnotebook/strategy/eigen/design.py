"""Eigen-design: measure the eigenvectors of the workload's Gram matrix, each with the weight that is best for it.

Source: Li and Miklau 2012, Program 2, and the two reductions of section 4.2. Their Program 1 weighs the eigenvectors
without regard to the columns that are completed afterwards. The weights from which their Theorem 2 follows, completed
alike, are often better (11% for prefixes of 1,024 cells), so that both are looked at, and the better kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.dense import EIGENVALUE_ROUNDING
from dpnotebook.inference.inverse import DENSE_CELLS
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.eigen.integer_rows import completed_error, integer_operator
from dpnotebook.strategy.eigen.relative import for_relative_error
from dpnotebook.strategy.eigen.weighting import weigh_queries
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Kron, Total, Workload
from dpnotebook.workload.base import Array, whole
from dpnotebook.workload.terms import terms

ROUNDING = 1e-9  # relative error allowed for in a bound that is computed in floating point


@dataclass(frozen=True)
class _Plan:
    noise: Noise
    group: int | None
    principal: int | None
    tolerance: float
    report: Progress


def eigen_design(
    workload: Workload,
    noise: Noise = "gaussian",
    *,
    group: int | None = None,
    principal: int | None = None,
    relative: bool = False,
    tolerance: float = 1e-4,
    report: Progress = silent,
) -> Strategy:
    """Return the eigen-design strategy of a workload.

    A single product is designed attribute by attribute: its Gram matrix, the program and its optimum are products too.

    Parameters
    ----------
    workload
        What is to be answered: products of factors of up to 4,096 cells each, or a union over up to 4,096 cells.
    noise
        "gaussian", for which the paper proposes it, or "laplace".
    group
        Weigh eigen-queries in groups of this many, by falling eigenvalue, and then the groups (eigen-query separation):
        faster for large n, some percent worse; n^(1/3) is a good size. In each attribute, if the workload is a product.
    principal
        Weigh this many of the largest eigen-queries one by one, and all others alike (principal-vector optimization).
    relative
        Optimise the relative error of the queries, over cells that are all alike (`for_relative_error`).
    tolerance
        How far the weights may be from the best ones, as a share of the squared error.
    report
        Called with the progress.

    Raises
    ------
    WorkloadError
        If there are too many cells, or both reductions are asked for.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> found = strategy.eigen_design(AllRange(64))
    >>> found.optimality < 1.02  # times the least error that any strategy could have
    True
    """
    if group is not None and principal is not None:
        raise WorkloadError("weigh eigen-queries in groups or only the principal ones one by one, not both")
    for name, value in (("the size of a group", group), ("the number of principal eigen-queries", principal)):
        if value is not None:
            whole(value, name)
    plan = _Plan(noise, group, principal, tolerance, report)
    target = for_relative_error(workload) if relative else workload
    parts = terms(target)
    factors = parts[0].factors if len(parts) == 1 else (target,)
    designs = [_design(factor, plan) for factor in factors]
    operator = designs[0][0] if len(designs) == 1 else Kron(*(operator for operator, _ in designs))
    weight = float(parts[0].weight) if len(parts) == 1 else 1.0
    certificate = 0.0 if relative else weight**2 * math.prod(bound for _, bound in designs)
    return Strategy(workload, operator, noise, "eigen-design", certificate=certificate * (1 - ROUNDING))


def _design(factor: Workload, plan: _Plan) -> tuple[Workload, float]:
    """Return the operator for one factor, and the SVD bound."""
    if isinstance(factor, Identity):
        return factor, float(factor.n)
    if isinstance(factor, Total):
        return factor, 1.0
    n = factor.shape[1]
    if n > DENSE_CELLS:
        raise WorkloadError(
            f"the eigenvectors of {n:,} cells at once would take minutes (the limit is {DENSE_CELLS:,}); "
            "ask for products over attributes, coarser bins, or another strategy"
        )
    plan.report(None, f"finding the eigenvectors of {n:,} cells")
    gram = factor.gram().astype(float)
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[-1] * n * EIGENVALUE_ROUNDING
    values, queries = values[kept][::-1], vectors[:, kept].T[::-1]  # Program 2, step 1; Definition 6
    roots = np.sqrt(values)
    bound = float(roots.sum() ** 2 / n)  # Theorem 2
    plan.report(None, "weighing eigen-queries")
    even = law_of(plan.noise).best_weights(values)
    if law_of(plan.noise).euclidean and (roots @ queries**2).max() * roots.sum() <= bound * (1 + plan.tolerance):
        lengths = even  # the bound is reached: every column has the same norm
    else:
        lengths = eigen_weights(values, queries, plan.noise, plan.group, plan.principal, plan.tolerance, plan.report)
        if plan.group is None and plan.principal is None:
            candidates = [even, lengths]
            lengths = min(candidates, key=lambda each: completed_error(queries, each, gram, plan.noise))
    plan.report(None, "rounding to integers")
    return integer_operator(queries, lengths, gram, plan.noise), bound


def eigen_weights(
    values: Array,
    queries: Array,
    noise: Noise = "gaussian",
    group: int | None = None,
    principal: int | None = None,
    tolerance: float = 1e-4,
    report: Progress = silent,
) -> Array:
    """Return the weight of each eigen-query, shape (k,), so that no column's norm passes 1.

    Parameters
    ----------
    values
        Eigenvalues above 0, falling, shape (k,).
    queries
        Their eigenvectors, shape (k, n).
    noise, group, principal, tolerance, report
        As in `eigen_design`.
    """
    law = law_of(noise)
    power, usage = law.exponent, law.powers(queries)
    if group is not None:
        amounts = _separated(values, usage, power, group, tolerance, report)
    elif principal is not None and principal < len(values):
        # The rest has one common amount: together it is one more query.
        joined = np.vstack((usage[:principal], usage[principal:].sum(axis=0)))
        costs = np.append(values[:principal], values[principal:].sum())
        found = weigh_queries(costs, joined, power, tolerance=tolerance, report=report).amounts
        amounts = np.concatenate((found[:-1], np.full(len(values) - principal, found[-1])))
    else:
        amounts = weigh_queries(values, usage, power, tolerance=tolerance, report=report).amounts
    return law.roots(amounts)  # Theorem 1


def _separated(values: Array, usage: Array, power: int, group: int, tolerance: float, report: Progress) -> Array:
    """Return the amounts of groups weighed alone, times the best factor for each group."""
    cuts = list(range(0, len(values), group))
    alone = []
    for done, first in enumerate(cuts):
        report(done / len(cuts), "weighing groups of eigen-queries")
        some = slice(first, first + group)
        alone.append(weigh_queries(values[some], usage[some], power, tolerance=tolerance).amounts)
    amounts = np.concatenate(alone)
    costs = np.add.reduceat(values / amounts**power, cuts)
    together = weigh_queries(
        costs, np.add.reduceat(usage * amounts[:, None], cuts, axis=0), power, tolerance=tolerance, report=report
    )
    return np.asarray(amounts * np.repeat(together.amounts, np.diff([*cuts, len(values)])))

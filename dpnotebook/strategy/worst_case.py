"""Strategies whose worst answer is as good as can be: what `error=` is planned with, because it promises every answer.

Each form of workload has its own: one attribute an optimum over all that could be measured, several the product of
those of its factors, unions weighted subsets of the attributes, or one product a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress
from dpnotebook.strategy.baselines import operator_name
from dpnotebook.strategy.best_worst import best_worst, if_possible
from dpnotebook.strategy.explicit import Effort
from dpnotebook.strategy.lattice import is_lattice
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.worst_products import searched, worst_product, worst_union
from dpnotebook.strategy.worst_subsets import only_cells, weighted_for_worst, worst_marginals
from dpnotebook.workload import Centred, Identity, Marginals, Workload
from dpnotebook.workload.terms import sparse_terms

FLAT_CELLS = {"quick": 256, "full": 1024}  # of several attributes together
# Of an attribute whose residual operator is found while somebody waits: precisely in a second, or nearly in two.
PRECISE_CELLS, NEAR_CELLS = 512, 1024
PARTS = 200  # of a union that get a product each


def all_alike(workload: Workload) -> bool:
    """Return whether every strategy that suits one answer suits all: single cells, and totals, of one product."""
    found = sparse_terms(workload)
    return found is not None and len(found[1]) == 1 and only_cells(found[1])


def tried_for_worst(workload: Workload, total: Strategy, effort: Effort, report: Progress) -> Iterator[Strategy]:
    """Yield strategies that are made for the worst answer.

    Parameters
    ----------
    workload
        What is to be answered.
    total
        The strategy that is best for all answers together, in the session's noise.
    effort
        "quick": nothing that takes more than a moment. "full": as good as is known here.
    report
        Told of progress; may raise to stop.
    """
    noise = total.noise
    found = sparse_terms(workload)
    if found is None:
        return
    sizes, parts = found
    if len(parts) == 1:
        yield from if_possible(lambda: worst_product(workload, noise, effort, report))
        return
    if is_lattice(parts):
        yield from _subsets(workload, total, effort, report)
    if not only_cells(parts) and (len(sizes) == 1 or workload.shape[1] <= FLAT_CELLS[effort]):
        yield from if_possible(lambda: _flat(workload, noise, effort, report))
    if len(parts) <= PARTS:
        yield from if_possible(lambda: worst_union(workload, noise, effort, report))


def _flat(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    """Return what a search over all cells at once finds."""
    for operator, bound in searched(workload, noise, effort, report):
        name = operator_name(operator, workload)
        return Strategy(workload, operator, noise, name, certificate=bound, chosen_for="worst")
    raise WorkloadError("these are too many cells to search at once")


# Unions of products: weighted subsets of the attributes.
def _subsets(workload: Workload, total: Strategy, effort: Effort, report: Progress) -> Iterator[Strategy]:
    if not law_of(total.noise).euclidean:
        yield from weighted_for_worst(workload, total, report)
        return
    operators = _residual_operators(workload, effort, report)
    yield from if_possible(lambda: worst_marginals(workload, total.noise, operators, report=report))


def _residual_operators(workload: Workload, effort: Effort, report: Progress) -> Sequence[Workload]:
    """Return what is measured of each attribute; of none where that takes longer than somebody waits."""
    sizes, parts = sparse_terms(workload) or ((), [])
    if only_cells(parts):
        return [Centred(n) if n > 1 else Identity(n) for n in sizes]
    factors = (factor for part in parts for factor in part.factors if not isinstance(factor, Identity))
    widest = max(factor.shape[1] for factor in factors)
    if effort == "quick" and widest > NEAR_CELLS:
        return ()
    found = opt_residual(workload, report=report, quick=effort == "quick" and widest > PRECISE_CELLS).operator
    assert isinstance(found, Marginals)
    return found.factors


def weighed_again(workload: Workload, like: Strategy) -> Strategy | None:
    """Return the strategy of the best weights for the worst answer, of the operators of another strategy.

    Parameters
    ----------
    workload
        What is to be answered.
    like
        The strategy for a workload that asks the same with other weights.

    Returns
    -------
    None where that is no union of marginals, or its operators do not tell all that is asked.
    """
    before, found = as_marginals(like.operator), sparse_terms(workload)
    if before is None or found is None or not is_lattice(found[1]):
        return None
    begin = () if like.law.euclidean else before.weights
    made = [*if_possible(lambda: worst_marginals(workload, like.noise, before.factors, begin=begin))]
    return best_worst(made) if made else None

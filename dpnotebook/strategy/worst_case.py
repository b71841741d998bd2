"""Strategies whose worst answer is as good as can be: what `error=` is planned with, because it promises every answer.

Each form of workload has its own: one attribute an optimum over all that could be measured, several the product of
those of its factors, unions weighted subsets of the attributes, or one product a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import inverse, is_direct, variances
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress
from dpnotebook.strategy.baselines import operator_name
from dpnotebook.strategy.blocks import stacked
from dpnotebook.strategy.explicit import Effort, explicit_choice
from dpnotebook.strategy.lattice import is_lattice
from dpnotebook.strategy.product import BETTER, squared_sensitivity
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.whole_weights import whole_weights
from dpnotebook.strategy.worst_explicit import worst_gaussian_operator, worst_p_identity
from dpnotebook.strategy.worst_subsets import worst_marginals
from dpnotebook.workload import Centred, Identity, Kron, Marginals, Total, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import SparseTerm, sparse_terms, terms

CELLS = {"quick": 512, "full": 2048}  # over which all that could be measured is searched
LAPLACE_CELLS = {"quick": 512, "full": 1024}
GAP, ROUGH_GAP = 1e-3, 5e-3  # between a Gaussian strategy and its bound, and where somebody waits or cells are many
MANY_CELLS = 256
FLAT_CELLS = {"quick": 256, "full": 1024}  # of several attributes together
PARTS = 200  # of a union that get a product each
CLOSE, FINER = 1.001, 1.1  # of integer weights
REACHED = 1 + 1e-9  # times the bound: nothing can be better


def all_alike(workload: Workload) -> bool:
    """Return whether every strategy that suits one answer suits all: single cells, and totals, of one product."""
    found = sparse_terms(workload)
    return found is not None and len(found[1]) == 1 and _symmetric(found[1])


def best_worst(strategies: Iterable[Strategy]) -> Strategy:
    """Return the first strategy that has no worse worst answer than any other, with the largest bound of all."""
    best: Strategy | None = None
    bound = 0.0
    for found in strategies:
        if found.chosen_for == "worst":
            bound = max(bound, found.certificate)
        if best is None or found.worst < best.worst * BETTER:
            best = found
    if best is None:
        raise WorkloadError("no strategy that is known here answers this workload")
    return replace(best, certificate=max(bound, best.worst_bound), chosen_for="worst")


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
    symmetric = _symmetric(parts)
    if len(parts) == 1:
        yield from _possible(lambda: _product(workload, noise, effort, report))
        return
    if is_lattice(parts):
        yield from _subsets(workload, total, symmetric, report)
    if not symmetric and (len(sizes) == 1 or workload.shape[1] <= FLAT_CELLS[effort]):
        yield from _possible(lambda: _flat(workload, noise, effort, report))
    if len(parts) <= PARTS:
        yield from _possible(lambda: _one_a_part(workload, noise, effort, report))


def _possible(make: Callable[[], Strategy]) -> Iterator[Strategy]:
    """Yield what is made, or nothing where the workload is too large for it."""
    try:
        strategy = make()
        if math.isfinite(strategy.worst):
            yield strategy
    except WorkloadError:
        return


def _symmetric(parts: Sequence[SparseTerm]) -> bool:
    return all(isinstance(factor, Identity) for part in parts for factor in part.factors)


# One product: the worst variance is the product of its factors', and so are their optima, as the bounds multiply.
def _product(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    (part,) = terms(workload)
    chosen = [_factor(factor, noise, effort, report) for factor in part.factors]
    operators = [operator for operator, _ in chosen]
    operator = operators[0] if len(operators) == 1 else Kron(*operators)
    bound = float(part.weight) ** 2 * math.prod(bound for _, bound in chosen)
    name = operator_name(operator, workload)
    return Strategy(workload, operator, noise, name, certificate=bound, chosen_for="worst")


def _factor(factor: Workload, noise: Noise, effort: Effort, report: Progress) -> tuple[Workload, float]:
    """Return the operator of the best worst answer for one attribute, and what none can be below (0: not known)."""
    if isinstance(factor, Identity | Total):
        return factor, 1.0
    total = explicit_choice(noise, effort, report)([(1.0, factor)])
    found = [(total, 0.0), *_searched(factor, noise, effort, report)]
    return min(found, key=lambda one: _worst(one[0], factor, noise))[0], max(bound for _, bound in found)


def _searched(factor: Workload, noise: Noise, effort: Effort, report: Progress) -> Iterator[tuple[Workload, float]]:
    """Yield the operator that a search over all that could be measured finds, where that is a matter of moments."""
    if not 1 < factor.shape[1] <= (CELLS if law_of(noise).euclidean else LAPLACE_CELLS)[effort]:
        return
    try:
        if law_of(noise).euclidean:
            gap = GAP if effort == "full" and factor.shape[1] <= MANY_CELLS else ROUGH_GAP
            yield worst_gaussian_operator(factor, gap=gap, report=report)
        else:
            yield worst_p_identity(factor, report=report), 0.0
    except WorkloadError:
        return


def _worst(operator: Workload, factor: Workload, noise: Noise) -> float:
    """Return |A|^2 max_i |w_i A^+|^2."""
    return squared_sensitivity(operator, noise) * float(variances(inverse(operator), factor).max())


def _flat(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    """Return what a search over all cells at once finds."""
    for operator, bound in _searched(workload, noise, effort, report):
        name = operator_name(operator, workload)
        return Strategy(workload, operator, noise, name, certificate=bound, chosen_for="worst")
    raise WorkloadError("these are too many cells to search at once")


# Unions of products: weighted subsets of the attributes.
def _subsets(workload: Workload, total: Strategy, symmetric: bool, report: Progress) -> Iterator[Strategy]:
    noise = total.noise
    if law_of(noise).euclidean:
        operators = _residual_operators(workload, symmetric, report)
        yield from _possible(lambda: worst_marginals(workload, noise, operators, report=report))
        return
    sizes, _ = sparse_terms(workload) or ((), [])
    plain: list[Workload] = [Identity(n) for n in sizes]
    best = as_marginals(total.operator)
    if best is not None and list(best.factors) == plain:
        symmetric = True  # for what is measured
    begin = best.weights if symmetric and best is not None else ()
    yield from _possible(lambda: worst_marginals(workload, noise, plain, begin=begin, report=report))
    if not symmetric and best is not None:  # else no operators but plain ones were good for the total
        chosen = best
        yield from _possible(
            lambda: worst_marginals(workload, noise, chosen.factors, begin=chosen.weights, report=report)
        )


def _residual_operators(workload: Workload, symmetric: bool, report: Progress) -> Sequence[Workload]:
    if not symmetric:
        found = opt_residual(workload, report=report).operator
        assert isinstance(found, Marginals)
        return found.factors
    sizes, _ = sparse_terms(workload) or ((), [])
    return [Centred(n) if n > 1 else Identity(n) for n in sizes]


def _one_a_part(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    """Return a product for each part, measured so much that the worst answers of all parts are equally good (OPT_+)."""
    parts = terms(workload)
    products = [[_factor(factor, noise, effort, report)[0] for factor in part.factors] for part in parts]
    operators = [factors[0] if len(factors) == 1 else Kron(*factors) for factors in products]
    errors = np.array(
        [
            float(part.weight) ** 2
            * math.prod(float(variances(inverse(a), w).max()) for a, w in zip(factors, part.factors, strict=True))
            for part, factors in zip(parts, products, strict=True)
        ]
    )
    squares = np.array([squared_sensitivity(operator, noise) for operator in operators])
    power = law_of(noise).power
    lengths = squares ** (power / 2)

    def norm(weights: Array) -> float:
        return float(lengths @ weights**power)

    def squared(weights: Array) -> float:
        return law_of(noise).squared_sensitivity(norm(weights))

    real = np.sqrt(errors)
    whole = whole_weights(
        real,
        norm,
        lambda weights: squared(weights) * float((errors / weights**2).max()),
        squared(real) * CLOSE,
        FINER,
    )
    operator = stacked(operators, whole.tolist())
    direct = is_direct(workload) and is_direct(operator)
    name = "one strategy a part"
    return Strategy(workload, operator, noise, name, split=not direct, chosen_for="worst")

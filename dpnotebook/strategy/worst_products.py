"""Products of operators whose worst answer is as good as can be: one for a whole workload, or one a part of it.

The worst variance of a product is the product of its factors' worst variances, and so is its optimum, as the bounds
multiply. One product for several parts has each attribute's operator chosen in turn, as OPT_x has: with the others
fixed, the worst answer of all is that of the attribute's queries, weighted by what the others leave of each part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import inverse, is_direct, variances
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress
from dpnotebook.strategy.baselines import operator_name
from dpnotebook.strategy.blocks import stacked
from dpnotebook.strategy.explicit import Effort, explicit_choice
from dpnotebook.strategy.product import BETTER, squared_sensitivity
from dpnotebook.strategy.running_laplace import is_running
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.whole_weights import whole_weights
from dpnotebook.strategy.worst_explicit import worst_operator
from dpnotebook.workload import Identity, Kron, Stack, Total, Weighted, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import Term, terms

CELLS = {"quick": 512, "full": 2048}  # over which all that could be measured is searched
LAPLACE_CELLS = {"quick": 512, "full": 1024}
CLOSE, FINER = 1.001, 1.1  # of integer weights
ROUNDS = 4  # of choosing each attribute's operator for several parts
SETTLED = 1e-3  # relative gain of a round below which it is the last


def worst_product(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    """Return the product of the best worst answer, for a workload that is one product."""
    (part,) = terms(workload)
    chosen = [_chosen([(1.0, factor)], noise, effort, report) for factor in part.factors]
    operators = [operator for operator, _ in chosen]
    bound = float(part.weight) ** 2 * math.prod(bound for _, bound in chosen)
    return _named(workload, operators, noise, bound)


def worst_product_of_parts(
    workload: Workload, noise: Noise, effort: Effort, begin: Sequence[Workload], report: Progress
) -> Strategy:
    """Return one product for all parts, over the same attributes, whose worst answer is no worse than at the beginning.

    Parameters
    ----------
    workload, noise, effort, report
        As for `tried_for_worst`.
    begin
        One operator an attribute.
    """
    parts, operators = terms(workload), list(begin)
    worst = np.array([[_worst(a, w, noise) for a, w in zip(operators, part.factors, strict=True)] for part in parts])
    squared = np.array([float(part.weight) ** 2 for part in parts])
    least = float((squared * worst.prod(axis=1)).max())
    for _ in range(ROUNDS):
        before = least
        for axis in range(len(operators)):
            others = squared * np.delete(worst, axis, axis=1).prod(axis=1)
            found, _ = _chosen(_heaviest(parts, axis, others), noise, effort, report)
            mine = np.array([_worst(found, part.factors[axis], noise) for part in parts])
            value = float((others * mine).max())
            if value < least * BETTER:
                operators[axis], worst[:, axis], least = found, mine, value
        if least > before * (1 - SETTLED):
            break
    return _named(workload, operators, noise, 0.0)


def worst_union(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Strategy:
    """Return a product for each part, measured so much that the worst answers of all parts are equally good (OPT_+)."""
    parts = terms(workload)
    products = [[_chosen([(1.0, factor)], noise, effort, report)[0] for factor in part.factors] for part in parts]
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


def searched(factor: Workload, noise: Noise, effort: Effort, report: Progress) -> Iterator[tuple[Workload, float]]:
    """Yield the operator that a search over all that could be measured finds, where that is a matter of moments."""
    few = 1 < factor.shape[1] <= (CELLS if law_of(noise).euclidean else LAPLACE_CELLS)[effort]
    if not (few or (effort == "quick" and is_running(factor, noise))):
        return
    try:
        yield worst_operator(factor, noise, precise=effort == "full", report=report)
    except WorkloadError:
        return


def _named(workload: Workload, operators: Sequence[Workload], noise: Noise, bound: float) -> Strategy:
    operator = operators[0] if len(operators) == 1 else Kron(*operators)
    name = operator_name(operator, workload)
    return Strategy(workload, operator, noise, name, certificate=bound, chosen_for="worst")


def _chosen(
    union: Sequence[tuple[float, Workload]], noise: Noise, effort: Effort, report: Progress
) -> tuple[Workload, float]:
    """Return the operator of the best worst answer for one attribute, and what none can be below (0: not known).

    Parameters
    ----------
    union
        Squared weights and queries.
    noise, effort, report
        As for `tried_for_worst`.
    """
    asked = union[0][1] if len(union) == 1 else Stack(*(Weighted(weight**0.5, factor) for weight, factor in union))
    if isinstance(asked, Identity | Total):
        return asked, 1.0
    total = explicit_choice(noise, effort, report)(union)
    found = [(total, 0.0), *searched(asked, noise, effort, report)]
    return min(found, key=lambda one: _worst(one[0], asked, noise))[0], max(bound for _, bound in found)


def _heaviest(parts: Sequence[Term], axis: int, weights: Array) -> list[tuple[float, Workload]]:
    """Return what the parts ask of an attribute, each with the largest of its squared weights; the largest of all is 1.

    An answer of the same query and less weight is never the worst.
    """
    most: dict[Workload, float] = {}
    for weight, part in zip(weights.tolist(), parts, strict=True):
        factor = part.factors[axis]
        most[factor] = max(most.get(factor, 0.0), weight)
    largest = max(most.values())
    if not 0 < largest < math.inf:
        raise WorkloadError("the errors of these products of queries are beyond what floating point holds")
    return [(weight / largest, factor) for factor, weight in most.items() if weight > 0]


def _worst(operator: Workload, factor: Workload, noise: Noise) -> float:
    """Return |A|^2 max_i |w_i A^+|^2."""
    return squared_sensitivity(operator, noise) * float(variances(inverse(operator), factor).max())

"""One product strategy for a whole workload: the best known operator in each attribute.

Source: HDMM, Definitions 17 and 18: the error of a product is a sum of products of per-attribute errors, so one
attribute's operator is chosen for a weighted union of that attribute's factors while the others stay fixed. Here the
choice in each attribute is by exact expected error among named operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct, once_a_pair, total_variance
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.strategy.bounds import closed_bound
from dpnotebook.strategy.hierarchy import best_hierarchy
from dpnotebook.strategy.ordering import cells_in_order, put_back, reordered
from dpnotebook.strategy.rounding import rounded
from dpnotebook.strategy.running import square_root
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Padded,
    Predicates,
    Prefix,
    Stack,
    Toeplitz,
    Weighted,
    WidthRange,
    Workload,
)
from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.terms import Term

GRAM_CELLS = 1024  # trees are compared by the Gram matrix of up to this many cells
ENERGY_ENTRIES = 2**26  # and by the rows of an explicit matrix, or of predicates, of up to this many entries
RUNS = 2**21  # and the Toeplitz square root by up to this many runs
RUNNING_ENTRIES = 2**24  # or rows of up to this many entries
UNION_CELLS = 256  # up to this many cells, an attribute's distinct query factors together are a candidate
ROUNDS = 8  # of choosing the operator of every attribute in turn; it ends earlier where nothing changes
SETTLED = 1e-4  # relative change of errors below which another round would choose the same
BETTER = 1 - 1e-9  # a candidate replaces an earlier one only if it is better by more than rounding

Choice = Callable[[Sequence[tuple[float, Workload]]], Workload]


def product_operator(parts: Sequence[Term], choose: Choice, emphasis: Array | None = None) -> Workload:
    """Return the Kronecker product of one operator an attribute, chosen in turn until nothing gets better.

    Parameters
    ----------
    parts
        The workload, terms over the same attributes.
    choose
        Returns the operator for one attribute's union of (squared weight, factor).
    emphasis
        How much each part counts in the first round, besides its weight, shape (parts,): another start.
    """
    sizes, of_pair = parts[0].sizes, once_a_pair(total_variance)
    operators: list[Workload] = [Identity(size) for size in sizes]
    errors = np.array([[of_pair(a, w) for a, w in zip(operators, part.factors, strict=True)] for part in parts])
    squared = np.array([float(part.weight) ** 2 for part in parts])
    for round_ in range(ROUNDS):
        before, ratios = list(operators), errors / errors[0]
        counted = squared if round_ or emphasis is None else squared * emphasis
        for axis in range(len(sizes)):
            others = np.delete(errors, axis, axis=1).prod(axis=1) * counted
            # W_i of Definition 18, its weights c_j squared.
            union = _merged([(weight, part.factors[axis]) for weight, part in zip(others, parts, strict=True)])
            found = choose(union)
            if found != operators[axis]:
                operators[axis] = found
                errors[:, axis] = [of_pair(found, part.factors[axis]) for part in parts]
        if round_ == 0 and emphasis is not None:
            continue
        # The parts' errors matter to the next choice only by their ratios in each attribute.
        same = np.allclose(errors / errors[0], ratios, rtol=SETTLED, atol=0)
        if len(parts) == 1 or operators == before or (round_ and same):
            break
    return operators[0] if len(operators) == 1 else Kron(*operators)


def kept_choice(choose: Choice) -> Choice:
    """Return a choice that is made once for one factor alone, which is what each part of a union asks for."""
    kept: dict[tuple[float, Workload], Workload] = {}

    def once(union: Sequence[tuple[float, Workload]]) -> Workload:
        if len(union) > 1:
            return choose(union)
        found = kept.get(union[0])
        if found is None:
            found = kept[union[0]] = choose(union)
        return found

    return once


def library_choice(noise: Noise) -> Choice:
    """Return the choice among the identity, the queries themselves, the best hierarchy and the Toeplitz square root.

    The last two are for runs of cells, in the order in which the queries are such, if there is one.
    """

    def choose(union: Sequence[tuple[float, Workload]]) -> Workload:
        n = union[0][1].shape[1]
        best: Workload = Identity(n)
        least = sum(weight * factor.frobenius_squared() for weight, factor in union)
        for candidate in _themselves([factor for _, factor in union]):
            error = squared_sensitivity(candidate, noise) * sum(
                weight * total_variance(candidate, factor) for weight, factor in union
            )
            if error < least * BETTER:
                best, least = candidate, error
        if least * BETTER <= sum(weight * closed_bound(factor) for weight, factor in union):
            return best  # nothing can be better, and no tree need be looked at
        order = cells_in_order([factor for _, factor in union])
        runs = [(weight, reordered(factor, order)) for weight, factor in union]
        for candidate, error in _of_runs(runs, noise):
            if error < least * BETTER:
                best, least = put_back(candidate, order), error
        return best

    return choose


def hierarchy_choice(noise: Noise, branching: int | None, levels: int | None) -> Choice:
    """Return the choice among hierarchies, of the given branching and levels where they are given."""

    def choose(union: Sequence[tuple[float, Workload]]) -> Workload:
        n = union[0][1].shape[1]
        return _tree(union, noise, branching and min(branching, max(2, n)), levels)[0]

    return choose


def squared_sensitivity(operator: Workload, noise: Noise) -> float:
    """Return |A|^2: the squared largest L1 norm of a column for Laplace noise, L2 norm for Gaussian noise.

    It is infinite where 64-bit integers do not hold it: such queries cannot be measured exactly.
    """
    try:
        return law_of(noise).squared_sensitivity(float(operator.max_column_norm(law_of(noise).power)))
    except WorkloadError:
        return math.inf


def _tree(
    union: Sequence[tuple[float, Workload]], noise: Noise, branching: int | None = None, levels: int | None = None
) -> tuple[Workload, float]:
    n = union[0][1].shape[1]
    energies = [(weight, factor.energy()) for weight, factor in union]

    def energy(starts: Array, ends: Array) -> Array:
        return np.asarray(sum(weight * one(starts, ends) for weight, one in energies))

    size = sum(weight * factor.frobenius_squared() for weight, factor in union)
    tree, error = best_hierarchy(energy, size, n, noise, branching, levels)
    return (Identity(n) if tree.levels == 1 else tree), error


def _of_runs(union: Sequence[tuple[float, Workload]], noise: Noise) -> Iterator[tuple[Workload, float]]:
    """Yield operators for queries that are, more or less, runs of cells, and their errors."""
    if all(_energies_are_cheap(factor) for _, factor in union):
        yield _tree(union, noise)
    if law_of(noise).euclidean and any(_is_running(factor) for _, factor in union):
        n = union[0][1].shape[1]
        operator = rounded(Toeplitz(square_root(n)))
        if all(_is_weighed_by_runs(factor) for _, factor in union):
            error = sum(weight * total_variance(operator, factor) for weight, factor in union)
            yield operator, squared_sensitivity(operator, noise) * error


def _is_running(factor: Workload) -> bool:
    if isinstance(factor, Stack):
        return any(map(_is_running, factor.parts))
    return isinstance(factor, Prefix | AllRange | Padded | Predicates | WidthRange)


def _is_weighed_by_runs(factor: Workload) -> bool:
    """Return whether the error of its runs from running counts is found in a moment."""
    if isinstance(factor, Stack):
        return all(map(_is_weighed_by_runs, factor.parts))
    if isinstance(factor, Weighted):
        return _is_weighed_by_runs(factor.workload)
    if isinstance(factor, AllRange):
        return True
    few = factor.shape[0] <= RUNS
    runs = isinstance(factor, Contiguous) or (isinstance(factor, Predicates) and factor.single_runs)
    return few and (runs or factor.shape[0] * factor.shape[1] <= RUNNING_ENTRIES)


def _energies_are_cheap(factor: Workload) -> bool:
    """Return whether trees can be compared without the Gram matrix of many cells, or the sums of many rows."""
    if isinstance(factor, Stack):
        return all(map(_energies_are_cheap, factor.parts))
    if isinstance(factor, Weighted):
        return _energies_are_cheap(factor.workload)
    if isinstance(factor, Explicit | Predicates):
        return factor.shape[0] * factor.shape[1] <= ENERGY_ENTRIES
    return isinstance(factor, Contiguous) or factor.shape[1] <= GRAM_CELLS


def _themselves(factors: list[Workload]) -> list[Workload]:
    """Return the distinct query factors as one operator, where it is integer and small enough to be looked at."""
    distinct = list(dict.fromkeys(factors))
    if not all(factor.integer for factor in distinct):
        return []
    if len(distinct) == 1:
        factor = distinct[0]
        return [factor] if isinstance(factor, Contiguous) or is_direct(factor) else []
    return [Stack(*distinct)] if distinct[0].shape[1] <= UNION_CELLS else []


def _merged(union: list[tuple[float, Workload]]) -> list[tuple[float, Workload]]:
    total: dict[Workload, float] = {}
    for weight, factor in union:
        total[factor] = total.get(factor, 0.0) + weight
    most = max(total.values())
    if not 0 < most < math.inf:
        raise WorkloadError("the errors of these products of queries are beyond what floating point holds")
    # a choice does not depend on the scale, but is remembered with its weights
    return [(weight / most, factor) for factor, weight in total.items()]

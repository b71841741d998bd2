"""A workload as a union of weighted products, and what follows from that form over domains that are never formed.

Source: HDMM, equation 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpnotebook.workload.base import Array, Number, Workload, number
from dpnotebook.workload.compose import Kron, Stack, Weighted
from dpnotebook.workload.contiguous import Total
from dpnotebook.workload.marginals import Marginals

CANDIDATES = 2**17  # column norms that are compared while looking for the largest sum


@dataclass(frozen=True)
class Term:
    """One product of a union: weight times the Kronecker product of factors that are neither weighted nor products."""

    weight: Number
    factors: tuple[Workload, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each factor."""
        return tuple(factor.shape[1] for factor in self.factors)

    @property
    def product(self) -> Workload:
        """The factors as one workload, without the weight."""
        return self.factors[0] if len(self.factors) == 1 else Kron(*self.factors)


def terms(workload: Workload) -> tuple[Term, ...]:
    """Return the workload as a union of weighted products, in the order of its rows (HDMM, equation 3)."""
    if isinstance(workload, Stack):
        return tuple(term for part in workload.parts for term in terms(part))
    if isinstance(workload, Weighted):
        return tuple(Term(workload.weight * term.weight, term.factors) for term in terms(workload.workload))
    if isinstance(workload, Marginals):
        totals = [Total(size) for size in workload.sizes]
        return tuple(
            Term(weight, tuple(workload.factors[i] if i in subset else total for i, total in enumerate(totals)))
            for subset, weight in workload.weights
        )
    if isinstance(workload, Kron):
        # A factor that is itself a union stays one factor: its rows alternate with those of the factors after it.
        single = [_one_term(factor) for factor in workload.factors]
        weight = math.prod(term.weight for term in single)
        return (Term(weight, tuple(factor for term in single for factor in term.factors)),)
    return (Term(1, (workload,)),)


@dataclass(frozen=True)
class SparseTerm:
    """One product of a union, without the attributes that it sums over.

    Parameters
    ----------
    weight
        Weight of the product.
    axes
        Positions of the attributes whose factor is not Total, ascending.
    factors
        Their factors.
    """

    weight: Number
    axes: tuple[int, ...]
    factors: tuple[Workload, ...]

    @property
    def queries(self) -> int:
        """Number of queries."""
        return math.prod(factor.shape[0] for factor in self.factors)


def sparse_terms(workload: Workload) -> tuple[tuple[int, ...], list[SparseTerm]] | None:
    """Return the sizes of the attributes and the union of products, in the order of its rows.

    None if its products are over different attributes. Marginals of many attributes are not expanded.
    """
    found = list(_sparse(workload, 1))
    sizes = found[0][0]
    if any(other != sizes for other, _ in found):
        return None
    return sizes, [term for _, part in found for term in part]


def row_weights(workload: Workload) -> Array:
    """Return the weight of every query, shape (m,): that of the term it is in."""
    found = [term for _, part in _sparse(workload, 1) for term in part]
    return np.repeat([float(term.weight) for term in found], [term.queries for term in found])


def _sparse(workload: Workload, weight: Number) -> Iterator[tuple[tuple[int, ...], list[SparseTerm]]]:
    if isinstance(workload, Stack):
        for part in workload.parts:
            yield from _sparse(part, weight)
    elif isinstance(workload, Weighted):
        yield from _sparse(workload.workload, weight * workload.weight)
    elif isinstance(workload, Marginals):
        factors = workload.factors
        yield (
            workload.sizes,
            [SparseTerm(weight * w, subset, tuple(factors[i] for i in subset)) for subset, w in workload.weights],
        )
    else:
        (term,) = terms(workload)
        axes = tuple(i for i, factor in enumerate(term.factors) if not isinstance(factor, Total))
        yield term.sizes, [SparseTerm(weight * term.weight, axes, tuple(term.factors[i] for i in axes))]


def largest_norm(workload: Workload, power: int) -> Number | None:
    """Return the largest column sum of |entry|^power of a union of products over the same attributes.

    None if its parts are over different attributes, or too many cells could be the one with the largest sum.
    """
    flat = terms(workload)
    if len({term.sizes for term in flat}) > 1:
        return None
    sums = np.array([[abs(term.weight) ** power] for term in flat])
    for axis in range(len(flat[0].factors)):
        norms = _largest_columns(np.array([term.factors[axis].column_norms(power) for term in flat]))
        if sums.size * norms.shape[1] > CANDIDATES:
            return None
        sums = _largest_columns((sums[:, :, None] * norms[:, None, :]).reshape(len(flat), -1))
    return number(sums.sum(axis=0).max())


def _largest_columns(columns: Array) -> Array:
    """Return the columns that no other column equals or exceeds in every entry: only they can have the largest sum."""
    kept = columns[:, :0]
    for column in columns[:, np.argsort(-columns.sum(axis=0, dtype=float), kind="stable")].T:
        if not (kept >= column[:, None]).all(axis=0).any():
            kept = np.column_stack((kept, column))
    return kept


def _one_term(factor: Workload) -> Term:
    weight: Number = 1
    while isinstance(factor, Weighted):
        weight, factor = weight * factor.weight, factor.workload
    flat = terms(factor)
    return Term(weight * flat[0].weight, flat[0].factors) if len(flat) == 1 else Term(weight, (factor,))

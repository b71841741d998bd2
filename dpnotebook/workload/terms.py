"""A workload as a union of weighted products, and what follows from that form over domains that are never formed.

Source: HDMM, equation 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpnotebook.workload.base import Array, Number, Workload
from dpnotebook.workload.compose import Kron, Stack, Weighted
from dpnotebook.workload.contiguous import Total
from dpnotebook.workload.marginals import Marginals

FEW = 64  # products of a workload that are kept with it: plans ask for them again and again


@dataclass(frozen=True)
class Term:
    """One product of a union: weight times the Kronecker product of factors that are neither weighted nor products."""

    weight: Number
    factors: tuple[Workload, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each factor."""
        return tuple(factor.shape[1] for factor in self.factors)

    @property
    def product(self) -> Workload:
        """The factors as one workload, without the weight."""
        return self.factors[0] if len(self.factors) == 1 else Kron(*self.factors)


def terms(workload: Workload) -> tuple[Term, ...]:
    """Return the workload as a union of weighted products, in the order of its rows (HDMM, equation 3)."""
    kept: tuple[Term, ...] | None = vars(workload).get("_terms")
    if kept is None:
        kept = tuple(Term(weight, factors) for weight, factors in workload.products())
        if len(kept) <= FEW:
            vars(workload)["_terms"] = kept
    return kept


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

    @cached_property
    def queries(self) -> int:
        """Number of queries."""
        return math.prod(factor.shape[0] for factor in self.factors)


def sparse_terms(workload: Workload) -> tuple[tuple[int, ...], list[SparseTerm]] | None:
    """Return the sizes of the attributes and the union of products, in the order of its rows.

    None if its products are over different attributes. Marginals of many attributes are not expanded.
    """
    found = _parts(workload)
    sizes = found[0][0]
    if any(other != sizes for other, _ in found):
        return None
    return sizes, [term for _, part in found for term in part]


def row_weights(workload: Workload) -> Array:
    """Return the weight of every query, shape (m,): that of the term it is in."""
    found = [term for _, part in _parts(workload) for term in part]
    return np.repeat([float(term.weight) for term in found], [term.queries for term in found])


def _parts(workload: Workload) -> Sequence[tuple[tuple[int, ...], list[SparseTerm]]]:
    """Return the parts of a union, each with the sizes of its attributes and its products, in the order of its rows."""
    kept: tuple[tuple[tuple[int, ...], list[SparseTerm]], ...] | None = vars(workload).get("_sparse_terms")
    if kept is None:
        kept = tuple(_sparse(workload, 1))
        if sum(len(part) for _, part in kept) <= FEW:
            vars(workload)["_sparse_terms"] = kept
    return kept


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

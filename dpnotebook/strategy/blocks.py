"""Which measurements answer which queries: a strategy as blocks W_j A_j^+ that are products over attributes.

Every property of a strategy (variances, weights, answers) follows from these blocks by small per-factor matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.inverse import inverse, once_a_pair, total_variance, variances
from dpnotebook.inference.least_squares import Solver, solver
from dpnotebook.workload import Identity, Stack, Workload
from dpnotebook.workload.base import Array, Number, require_memory
from dpnotebook.workload.compose import apply_factors, row_products
from dpnotebook.workload.terms import Term, terms


def _variances(operator: Workload, query: Workload) -> Array:
    return variances(inverse(operator), query)


@dataclass(frozen=True)
class Block:
    """Consecutive queries, answered as weight times the Kronecker product of (query factor)(measured factor)^+.

    Parameters
    ----------
    weight
        Weight of the queries over the weight of the measurements.
    pairs
        The queries' and the measurements' factor for each attribute.
    first
        Column of the block's first measurement.
    """

    weight: float
    pairs: tuple[tuple[Workload, Workload], ...]
    first: int

    @property
    def queries(self) -> int:
        """Number of queries."""
        return math.prod(query.shape[0] for query, _ in self.pairs)

    @property
    def measured(self) -> slice:
        """Columns of the block's measurements."""
        return slice(self.first, self.first + math.prod(operator.shape[0] for _, operator in self.pairs))

    def total_variance(self, of_pair: Callable[[Workload, Workload], float] = total_variance) -> float:
        """Return the sum of `variances`, from the factors (HDMM, Theorem 4)."""
        return self.weight**2 * math.prod(of_pair(operator, query) for query, operator in self.pairs)

    def variances(self, of_pair: Callable[[Workload, Workload], Array] = _variances) -> Array:
        """Return the variance of each answer for measurements of unit variance, shape (queries,)."""
        require_memory(self.queries, f"the variances of {self.queries:,} answers")
        factors = [of_pair(operator, query) for query, operator in self.pairs]
        several = [factor for factor in factors if factor.size != 1]  # many attributes have their total alone
        alike = self.weight**2 * math.prod(float(factor[0]) for factor in factors if factor.size == 1)
        found: Array = np.full(1, alike)
        for factor in several:
            found = np.kron(found, factor)
        return found

    def weights(self, rows: Array) -> Array:
        """Return the coefficients of the block's measurements in the given answers, shape (rows, measured)."""
        where = np.unravel_index(rows, [query.shape[0] for query, _ in self.pairs])
        factors = []
        for (query, operator), index in zip(self.pairs, where, strict=True):
            found, wanted = inverse(operator), query.rows(index)
            if not np.isfinite(found.of_rows(wanted)).all():
                raise WorkloadError(
                    f"the measurements {shorten(operator)} do not determine every answer of {shorten(query)}"
                )
            require_memory(len(rows) * operator.shape[0], "these weights")
            factors.append(operator.apply(found.apply(wanted.T.astype(float)[None]))[0].T)
        return self.weight * row_products(factors)

    def answers(self, noisy: Array) -> Array:
        """Return the answers from all measurements, shape (queries,); of draws of them, shape (draws, queries)."""
        sizes = [operator.shape[0] for _, operator in self.pairs]
        # An axis that shrinks goes first, so that no intermediate array is larger than it must be.
        order = sorted(range(len(sizes)), key=lambda axis: self.pairs[axis][0].shape[0] / sizes[axis])
        steps = [(axis, _reconstruct(*self.pairs[axis])) for axis in order]
        drawn = noisy.shape[:-1]
        mine = noisy[..., self.measured].reshape(math.prod(drawn), -1, 1)
        return self.weight * apply_factors(mine, sizes, steps).reshape(*drawn, -1)


@dataclass(frozen=True)
class Blocks:
    """The blocks of a strategy, in the order of the workload's rows."""

    blocks: tuple[Block, ...]
    measurements: int

    def total_variance(self) -> float:
        """Return the sum of `variances`."""
        of_pair = once_a_pair(total_variance)
        return sum(block.total_variance(of_pair) for block in self.blocks)

    def variances(self) -> Array:
        """Return the variance of each answer for measurements of unit variance, shape (queries,)."""
        of_pair = once_a_pair(_variances)
        return np.concatenate([block.variances(of_pair) for block in self.blocks])

    def weights(self, rows: Array) -> Array:
        """Return the coefficients of the measurements in the given answers, shape (rows, measurements)."""
        weights = np.zeros((rows.size, self.measurements))
        first = 0
        for block in self.blocks:
            mine = np.flatnonzero((first <= rows) & (rows < first + block.queries))
            if mine.size:
                weights[mine, block.measured] = block.weights(rows[mine] - first)
            first += block.queries
        return weights

    def answers(self, noisy: Array) -> Array:
        """Return the answers from all measurements, shape (queries,); of draws of them, shape (draws, queries)."""
        return np.concatenate([block.answers(noisy) for block in self.blocks], axis=-1)


def blocks(workload: Workload, operator: Workload, split: bool) -> Blocks:
    """Return the blocks of a strategy.

    Parameters
    ----------
    workload, operator
        Queries and measurements over the same cells.
    split
        Whether term j of the workload is answered from term j of the operator alone. Else every answer is least
        squares over all measurements: by factors if the operator is one product that fits the workload's factors, over
        all cells at once if not.
    """
    measured = terms(operator)
    if not split:
        if len(measured) == 1:
            found = [_paired(query, measured[0], 0) for query in terms(workload)]
            if all(found):
                return Blocks(tuple(block for block in found if block), operator.shape[0])
        return Blocks((Block(1.0, ((workload, operator),), 0),), operator.shape[0])
    queries = terms(workload)
    if len(queries) != len(measured):
        raise WorkloadError(f"{len(queries)} parts cannot be answered one by one from {len(measured)}")
    offsets = accumulate((term.product.shape[0] for term in measured), initial=0)
    found = [_paired(query, term, first) for query, term, first in zip(queries, measured, offsets, strict=False)]
    if not all(found):
        raise WorkloadError("a part and the measurements that answer it are products over different attributes")
    return Blocks(tuple(block for block in found if block), operator.shape[0])


def _paired(query: Term, measured: Term, first: int) -> Block | None:
    factors = _aligned(measured.factors, query.sizes)
    if factors is None:
        return None
    return Block(query.weight / measured.weight, tuple(zip(query.factors, factors, strict=True)), first)


def _aligned(factors: Sequence[Workload], sizes: tuple[int, ...]) -> Sequence[Workload] | None:
    if tuple(factor.shape[1] for factor in factors) == sizes:
        return factors
    cells = math.prod(factor.shape[1] for factor in factors)
    if cells == math.prod(sizes) and all(isinstance(factor, Identity) for factor in factors):
        return [Identity(size) for size in sizes]
    return None


def _reconstruct(query: Workload, operator: Workload) -> Solver:
    solve = solver(operator)
    return lambda y: query.apply(solve(y))


def stacked(parts: Sequence[Workload], weights: Sequence[Number]) -> Workload:
    """Return the parts as one workload, each with its weight."""
    weighted = [part if weight == 1 else weight * part for part, weight in zip(parts, weights, strict=True)]
    return weighted[0] if len(weighted) == 1 else Stack(*weighted)

"""Queries over subsets of the attributes: marginals, prefix-marginals, and the strategies that measure such."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, islice, pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Number, Product, Workload, require_exact, require_memory
from dpnotebook.workload.compose import Kron
from dpnotebook.workload.contiguous import Total

MAX_ATTRIBUTES = 10_000

Subset = tuple[int, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Marginals(Workload):
    """For each of some subsets of the attributes, a weight times every combination of the queries of its attributes.

    Attributes outside a subset are summed over. With Identity factors these are marginals, with Prefix factors
    prefix-marginals (HDMM, Example 7); a strategy of weighted marginals is one too (HDMM, Definition 20).

    Parameters
    ----------
    factors
        The queries of each attribute, none of them Total.
    weights
        Pairs of a subset (ascending positions of attributes, () for the total) and its weight above 0, no subset twice.
        Queries come in the order of the pairs, those of one subset in C order.

    Raises
    ------
    WorkloadError
        If a subset names no attribute, is not ascending, or comes twice, or a weight is not a finite number above 0.

    Examples
    --------
    >>> from dpnotebook.workload import Identity, Marginals
    >>> Marginals([Identity(2), Identity(3)], {(): 1, (0,): 2}).dense()
    array([[1, 1, 1, 1, 1, 1],
           [2, 2, 2, 0, 0, 0],
           [0, 0, 0, 2, 2, 2]])
    """

    factors: tuple[Workload, ...]
    weights: tuple[tuple[Subset, Number], ...]

    def __init__(
        self, factors: Iterable[Workload], weights: Mapping[Subset, Number] | Iterable[tuple[Subset, Number]]
    ) -> None:
        factors = tuple(islice(factors, MAX_ATTRIBUTES + 1))
        if len(factors) > MAX_ATTRIBUTES:
            raise WorkloadError(f"marginals are of at most {MAX_ATTRIBUTES:,} attributes")
        pairs = weights.items() if isinstance(weights, Mapping) else weights
        if not factors or not all(isinstance(factor, Workload) for factor in factors):
            raise WorkloadError("marginals need the queries of at least one attribute, such as Identity(10)")
        if any(isinstance(factor, Total) and factor.n > 1 for factor in factors):
            raise WorkloadError("the attributes outside a subset are summed over: no attribute's own queries are Total")
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "weights", _checked(pairs, len(factors)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each attribute."""
        return tuple(factor.shape[1] for factor in self.factors)

    def products(self) -> tuple[Product, ...]:
        """Return one product for each subset."""
        totals = [Total(size) for size in self.sizes]
        return tuple(
            (weight, tuple(self.factors[i] if i in subset else total for i, total in enumerate(totals)))
            for subset, weight in self.weights
        )

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of queries of all subsets, number of cells."""
        queries = [factor.shape[0] for factor in self.factors]
        return sum(math.prod(queries[i] for i in subset) for subset, _ in self.weights), math.prod(self.sizes)

    @cached_property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return all(isinstance(w, int) for _, w in self.weights) and all(factor.integer for factor in self.factors)

    def product(self, subset: Subset) -> Workload:
        """Return the queries of one subset over all attributes, without their weight."""
        inside = set(subset)
        parts = [factor if i in inside else Total(factor.shape[1]) for i, factor in enumerate(self.factors)]
        return parts[0] if len(parts) == 1 else Kron(*parts)

    def apply(self, x: Array) -> Array:
        """Return the answers of every subset, each from its own margin."""
        answers = []
        for subset, weight in self.weights:
            margin = x.reshape(x.shape[0], *self.sizes, x.shape[2])
            margin = margin.sum(axis=tuple(1 + i for i in range(len(self.factors)) if i not in subset))
            answers.append(weight * _along(margin, [self.factors[i].apply for i in subset]))
        return np.concatenate(answers, axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return the sum over the subsets, each spread evenly over the attributes outside it."""
        kind = np.result_type(y.dtype, np.int64 if self.integer else np.float64)
        total = np.zeros((y.shape[0], *self.sizes, y.shape[2]), dtype=kind)
        first = 0
        for subset, weight in self.weights:
            queries = [self.factors[i].shape[0] for i in subset]
            part = y[:, first : first + math.prod(queries)].reshape(y.shape[0], *queries, y.shape[2])
            first += math.prod(queries)
            cells = _along(part, [self.factors[i].apply_transposed for i in subset])
            spread = [self.sizes[i] if i in subset else 1 for i in range(len(self.factors))]
            total += weight * cells.reshape(y.shape[0], *spread, y.shape[2])
        return total.reshape(y.shape[0], self.shape[1], y.shape[2])

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows, each from its subset."""
        index = np.asarray(indices, dtype=np.int64)
        require_memory(index.size * self.shape[1], "these rows")
        out = np.zeros((index.size, self.shape[1]), dtype=np.int64 if self.integer else np.float64)
        first = 0
        for subset, weight in self.weights:
            product = self.product(subset)
            mine = (first <= index) & (index < first + product.shape[0])
            if mine.any():
                out[mine] = weight * product.rows(index[mine] - first)
            first += product.shape[0]
        return out

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum over the subsets of products of the attributes' column norms."""
        require_memory(self.shape[1], "the column norms of these marginals")
        norms = [factor.column_norms(power) for factor in self.factors]
        ones = [np.ones(n, dtype=np.int64) for n in self.sizes]
        if self.integer:
            require_exact(self.max_column_norm(power))
        return np.asarray(
            sum(
                weight**power * reduce(np.kron, [norms[i] if i in subset else ones[i] for i in range(len(norms))])
                for subset, weight in self.weights
            )
        )

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the largest column norm, over any domain: an attribute's dearest level is dearest in every subset.

        For marginals it is the sum of the weights, or of their squares (HDMM, Proposition 7).
        """
        norms = [factor.max_column_norm(power) for factor in self.factors]
        return sum(weight**power * math.prod(norms[i] for i in subset) for subset, weight in self.weights)

    def frobenius_squared(self) -> float:
        """Return the sum of squared entries."""
        squares = [factor.frobenius_squared() for factor in self.factors]
        cells = float(math.prod(self.sizes))
        return sum(
            float(weight) ** 2 * cells * math.prod(squares[i] / self.sizes[i] for i in subset)
            for subset, weight in self.weights
        )

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        parts = [weight**2 * self.product(subset).quadratic(matrix) for subset, weight in self.weights]
        return np.concatenate(parts, axis=-1)

    def _gram(self) -> Array:
        total = np.zeros((self.shape[1], self.shape[1]))
        for subset, weight in self.weights:
            total += weight**2 * self.product(subset).gram()
        return total

    def to_json(self) -> dict[str, Any]:
        """Return the workload as JSON values."""
        return {
            "kind": self.kind,
            "factors": [factor.to_json() for factor in self.factors],
            "weights": [[list(subset), weight] for subset, weight in self.weights],
        }

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        factors = map(Workload.from_json, values["factors"])
        return cls(factors, [(tuple(subset), weight) for subset, weight in values["weights"]])

    @cached_property
    def _hash(self) -> int:
        return hash((self.factors, self.weights))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Marginals):
            return NotImplemented
        return self is other or (self.factors == other.factors and self.weights == other.weights)

    def __repr__(self) -> str:
        return f"Marginals({len(self.weights):,} subsets of {len(self.factors)} attributes, {self.shape[0]:,} queries)"


def _along(x: Array, functions: Sequence[Any]) -> Array:
    """Return x, (a, dims..., b), after one function along each of its dims; shape (a, product of dims, b)."""
    a, b = x.shape[0], x.shape[-1]
    dims = list(x.shape[1:-1])
    for axis, function in enumerate(functions):
        before, after = a * math.prod(dims[:axis]), math.prod(dims[axis + 1 :]) * b
        x = function(x.reshape(before, dims[axis], after))
        dims[axis] = x.shape[1]
    return x.reshape(a, math.prod(dims), b)


def _checked(pairs: Iterable[tuple[Subset, Number]], attributes: int) -> tuple[tuple[Subset, Number], ...]:
    kept: dict[Subset, Number] = {}
    if hasattr(pairs, "iloc"):  # whose values are in no message
        raise WorkloadError(f"weights are pairs (positions of attributes, weight), not {shorten(pairs)}")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], Iterable):
            raise WorkloadError(f"weights are pairs (positions of attributes, weight), not {shorten(pair)}")
        subset, weight = tuple(pair[0]), pair[1]
        if any(not isinstance(i, Integral) or not 0 <= i < attributes for i in subset):
            raise WorkloadError(f"{shorten(subset)} does not name attributes by their positions, 0 to {attributes - 1}")
        if any(a >= b for a, b in pairwise(subset)):
            raise WorkloadError(f"the attributes of a subset must be ascending and distinct, not {shorten(subset)}")
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < float(weight) < math.inf:
            raise WorkloadError(f"the weight of a marginal must be a finite number above 0, not {shorten(weight)}")
        if subset in kept:
            raise WorkloadError(f"the subset {shorten(subset)} comes twice; give it one weight")
        kept[tuple(int(i) for i in subset)] = int(weight) if weight == int(weight) else float(weight)
    if not kept:
        raise WorkloadError("marginals need at least one subset of the attributes")
    return tuple(kept.items())


def largest_subsets(subsets: list[Subset]) -> list[Subset]:
    """Return those of the subsets that are in no other."""
    kept: list[Subset] = []
    covered: set[Subset] = set()
    for subset in sorted(set(subsets), key=lambda s: (-len(s), s)):
        if subset not in covered:
            kept.append(subset)
            for size in range(len(subset) + 1):
                covered.update(combinations(subset, size))
    return kept

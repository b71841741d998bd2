"""Workloads made of workloads: products over several attributes, unions, and weights.

Source: HDMM, sections 5.2 to 5.4: a workload of conjunctions is a union of Kronecker products, and norms, Gram matrices
and pseudo-inverses of products are products of those of their factors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import (
    LARGEST_NORM,
    Array,
    Energy,
    Number,
    Product,
    Workload,
    block_sums,
    corner_sums,
    exact_multiple,
    exact_sum,
    number,
    require_exact,
    require_memory,
)

PIECE = 2**18  # entries that a factor is applied to at a time

CANDIDATES = 2**17  # column norms that are compared while looking for the largest sum


@dataclass(frozen=True, repr=False)
class Kron(Workload):
    """Every combination of one query of each factor: their Kronecker product, over the product of their cells.

    The last factor varies fastest, in queries and in cells (C order).

    Examples
    --------
    >>> from dpnotebook.workload import Identity, Kron, Prefix
    >>> Kron(Identity(2), Prefix(2)).dense()
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 1, 1]])
    """

    factors: tuple[Workload, ...]

    def __init__(self, *factors: Workload) -> None:
        object.__setattr__(self, "factors", _workloads(factors, "Kron"))

    def products(self) -> tuple[Product, ...]:
        """Return one product; a factor that is a union stays one, since its rows alternate with those of the next."""
        single = [_one_product(factor) for factor in self.factors]
        return ((math.prod(weight for weight, _ in single), tuple(one for _, factors in single for one in factors)),)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Products of the factors' numbers of queries and of cells."""
        return math.prod(f.shape[0] for f in self.factors), math.prod(f.shape[1] for f in self.factors)

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return all(factor.integer for factor in self.factors)

    def apply(self, x: Array) -> Array:
        """Return the product with each factor in turn, those that shrink their axis first.

        Source: HDMM, section 10, Algorithm 1.
        """
        order = sorted(range(len(self.factors)), key=lambda i: self.factors[i].shape[0] / self.factors[i].shape[1])
        return apply_factors(x, [f.shape[1] for f in self.factors], [(i, self.factors[i].apply) for i in order])

    def apply_transposed(self, y: Array) -> Array:
        """Return the product with each transposed factor in turn, those that shrink their axis first."""
        order = sorted(range(len(self.factors)), key=lambda i: self.factors[i].shape[1] / self.factors[i].shape[0])
        steps = [(i, self.factors[i].apply_transposed) for i in order]
        return apply_factors(y, [f.shape[0] for f in self.factors], steps)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows: products of one row of each factor."""
        where = np.unravel_index(np.asarray(indices, dtype=np.int64), [f.shape[0] for f in self.factors])
        return row_products([factor.rows(index) for factor, index in zip(self.factors, where, strict=True)])

    def column_norms(self, power: int = 1) -> Array:
        """Return the products of the factors' column norms (HDMM, Theorem 3)."""
        require_memory(self.shape[1], "the column norms of this workload")
        norms = [factor.column_norms(power) for factor in self.factors]
        require_exact(math.prod(int(norm.max()) for norm in norms) if self.integer else 0)
        return reduce(np.kron, norms)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the product of the factors' largest column norms (HDMM, Theorem 3)."""
        return math.prod(factor.max_column_norm(power) for factor in self.factors)

    def frobenius_squared(self) -> float:
        """Return the product over the factors (HDMM, Theorem 3)."""
        return math.prod(factor.frobenius_squared() for factor in self.factors)

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w, one factor at a time."""
        first, rest = self.factors[0], self.factors[1:]
        if not rest:
            return first.quadratic(matrix)
        others = Kron(*rest)
        n, r = first.shape[1], others.shape[1]
        split = matrix.reshape(*matrix.shape[:-2], n, r, n, r)
        inner = first.quadratic(np.moveaxis(split, (-4, -3, -2, -1), (-2, -4, -1, -3)))
        outer = others.quadratic(np.moveaxis(inner, -1, -3))
        return outer.reshape(*matrix.shape[:-2], self.shape[0])

    def energy(self) -> Energy:
        """Return it from the Gram matrices of some factors and of the others, whose product is never written out.

        A run is the rest of a row of cells, whole rows, and the beginning of a row; the Gram matrix of a product is the
        product of theirs, so that what two of these have in common is a product of two blocks.
        """
        sizes = [factor.shape[1] for factor in self.factors]
        if len(sizes) == 1:
            return self.factors[0].energy()
        at = min(range(1, len(sizes)), key=lambda place: max(math.prod(sizes[:place]), math.prod(sizes[place:])))
        above, below = (corner_sums(Kron(*part).gram()) for part in (self.factors[:at], self.factors[at:]))
        height, width = math.prod(sizes[:at]), math.prod(sizes[at:])

        def energy(starts: Array, ends: Array) -> Array:
            (first, begin), (last, end) = np.divmod(starts, width), np.divmod(ends, width)
            nothing, whole = np.zeros_like(first), np.full_like(first, width)
            second, after = (np.minimum(row + 1, height) for row in (first, last))  # there is none behind the last cell
            # Where a run ends in the row in which it begins, whole rows are counted from the next one back to it.
            rows = (
                ((first, second), (begin, whole)),
                ((second, last), (nothing, whole)),
                ((last, after), (nothing, end)),
            )
            found = np.zeros(np.shape(starts))
            for one, other in itertools.combinations_with_replacement(rows, 2):
                both = block_sums(above, one[0], other[0]) * block_sums(below, one[1], other[1])
                found += both if one is other else 2 * both
            return found

        return energy

    def _gram(self) -> Array:
        return reduce(np.kron, [factor.gram() for factor in self.factors])  # Proposition 6, mixed product

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(*map(Workload.from_json, values["factors"]))

    def __repr__(self) -> str:
        return f"Kron({', '.join(map(repr, self.factors))})"


@dataclass(frozen=True, repr=False)
class Stack(Workload):
    """The queries of several workloads over the same cells, one after the other.

    Examples
    --------
    >>> from dpnotebook.workload import Identity, Stack, Total
    >>> Stack(Total(2), Identity(2)).dense()  # or Total(2) + Identity(2)
    array([[1, 1],
           [1, 0],
           [0, 1]])
    """

    parts: tuple[Workload, ...]

    def __init__(self, *parts: Workload) -> None:
        parts = _workloads(parts, "Stack")
        cells = [part.shape[1] for part in parts]
        if len(set(cells)) > 1:
            raise WorkloadError(f"stacked workloads must be over the same cells, not over {cells} cells")
        object.__setattr__(self, "parts", parts)

    @property
    def stacked(self) -> tuple[Workload, ...]:
        """Its parts."""
        return self.parts

    def products(self) -> tuple[Product, ...]:
        """Return the products of all parts."""
        return tuple(product for part in self.parts for product in part.products())

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Sum of the parts' numbers of queries, number of cells."""
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return all(part.integer for part in self.parts)

    def apply(self, x: Array) -> Array:
        """Return the answers of all parts."""
        return np.concatenate([part.apply(x) for part in self.parts], axis=1)

    def apply_transposed(self, y: Array) -> Array:
        """Return the sum over the parts."""
        pieces = np.split(y, np.cumsum([part.shape[0] for part in self.parts])[:-1], axis=1)
        return np.asarray(sum(part.apply_transposed(piece) for part, piece in zip(self.parts, pieces, strict=True)))

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows, each from its part."""
        index = np.asarray(indices, dtype=np.int64)
        offsets = np.cumsum([0] + [part.shape[0] for part in self.parts])
        which = np.searchsorted(offsets, index, side="right") - 1
        out = np.zeros((index.size, self.shape[1]), dtype=np.int64 if self.integer else np.float64)
        for k, part in enumerate(self.parts):
            if (mine := which == k).any():
                out[mine] = part.rows(index[mine] - offsets[k])
        return out

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum of the parts' column norms."""
        return exact_sum(part.column_norms(power) for part in self.parts)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the largest sum over the parts, without forming the cells where the parts are products."""
        largest = largest_norm(self.products(), power)
        return number(self.column_norms(power).max()) if largest is None else largest

    def frobenius_squared(self) -> float:
        """Return the sum over the parts."""
        return sum(part.frobenius_squared() for part in self.parts)

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w of every part."""
        return np.concatenate([part.quadratic(matrix) for part in self.parts], axis=-1)

    def energy(self) -> Energy:
        """Return the sum over the parts."""
        energies = [part.energy() for part in self.parts]
        return lambda starts, ends: np.asarray(sum(energy(starts, ends) for energy in energies))

    def _gram(self) -> Array:
        total = self.parts[0].gram().astype(float, copy=True)
        for part in self.parts[1:]:
            total += part.gram()
        return total

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(*map(Workload.from_json, values["parts"]))

    def __repr__(self) -> str:
        return f"Stack({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True, repr=False)
class Weighted(Workload):
    """A workload with every coefficient multiplied by a weight: queries that matter more, or less.

    Parameters
    ----------
    weight
        A finite number above zero.
    workload
        What is weighted.

    Examples
    --------
    >>> from dpnotebook.workload import Prefix
    >>> (2 * Prefix(2)).dense()
    array([[2, 0],
           [2, 2]])
    """

    weight: Number
    workload: Workload

    def __post_init__(self) -> None:
        weight = self.weight
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < float(weight) < math.inf:
            raise WorkloadError(f"the weight of a workload must be a finite number above 0, not {shorten(weight)}")
        _workloads((self.workload,), "Weighted")
        object.__setattr__(self, "weight", int(weight) if weight == int(weight) else float(weight))

    @property
    def summands(self) -> tuple[tuple[Number, Workload], ...]:
        """The workload, with its weight."""
        return ((self.weight, self.workload),)

    def products(self) -> tuple[Product, ...]:
        """Return the products of the workload, weighted."""
        return tuple((self.weight * weight, factors) for weight, factors in self.workload.products())

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.workload.shape

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return isinstance(self.weight, int) and self.workload.integer

    def apply(self, x: Array) -> Array:
        """Return the weighted answers."""
        return self.weight * self.workload.apply(x)

    def apply_transposed(self, y: Array) -> Array:
        """Return the weighted transposed product."""
        return self.weight * self.workload.apply_transposed(y)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the weighted rows."""
        return self.weight * self.workload.rows(indices)

    def column_norms(self, power: int = 1) -> Array:
        """Return the column norms, times weight^power."""
        return exact_multiple(self.weight**power, self.workload.column_norms(power))

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the largest column norm, times weight^power."""
        return self.weight**power * self.workload.max_column_norm(power)

    def frobenius_squared(self) -> float:
        """Return the sum of squared entries."""
        return self.weight**2 * self.workload.frobenius_squared()

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every weighted row w."""
        return self.weight**2 * self.workload.quadratic(matrix)

    def energy(self) -> Energy:
        """Return the energy, times the squared weight."""
        energy = self.workload.energy()
        return lambda starts, ends: self.weight**2 * energy(starts, ends)

    def _gram(self) -> Array:
        return self.weight**2 * self.workload.gram()

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(values["weight"], Workload.from_json(values["workload"]))

    def __repr__(self) -> str:
        return f"{self.weight!r} * {self.workload!r}"


def apply_factors(x: Array, sizes: list[int], steps: list[tuple[int, Any]]) -> Array:
    """Return x after each (axis, function on the middle axis) in turn; x is (a, prod(sizes), b).

    Source: HDMM, section 10, Algorithm 1.
    """
    a, b, dims = x.shape[0], x.shape[2], list(sizes)
    for axis, function in steps:
        before, after = a * math.prod(dims[:axis]), math.prod(dims[axis + 1 :]) * b
        x = _by_pieces(function, x.reshape(before, dims[axis], after))
        dims[axis] = x.shape[1]
    return x.reshape(a, math.prod(dims), b)


def _by_pieces(function: Callable[[Array], Array], x: Array) -> Array:
    """Return function(x) along the middle axis; what it needs besides is as large as a piece, not as x."""
    a, n, b = x.shape
    if x.size <= PIECE or a * b == 1:
        return function(x)
    across = min(b, max(1, PIECE // n))
    down = max(1, PIECE // (n * across)) if across == b else 1
    out: Array | None = None
    for i in range(0, a, down):
        for j in range(0, b, across):
            piece = function(x[i : i + down, :, j : j + across])
            if out is None:
                out = np.empty((a, piece.shape[1], b), dtype=piece.dtype)
            out[i : i + down, :, j : j + across] = piece
    assert out is not None
    return out


def row_products(blocks: list[Array]) -> Array:
    """Return the Kronecker product of the i-th rows of all blocks, for each i; shape (rows, product of widths)."""
    count = blocks[0].shape[0]
    require_memory(count * math.prod(block.shape[1] for block in blocks), "these rows")
    out = blocks[0]
    for block in blocks[1:]:
        out = (out[:, :, None] * block[:, None, :]).reshape(count, -1)
    return out


def _workloads(values: tuple[Any, ...], what: str) -> tuple[Workload, ...]:
    if not values:
        raise WorkloadError(f"{what} needs at least one workload")
    for value in values:
        if not isinstance(value, Workload):
            raise WorkloadError(f"{what} is made of workloads, such as Identity(10), not of {type(value).__name__}")
    return tuple(values)


def _one_product(factor: Workload) -> Product:
    weight: Number = 1
    while isinstance(factor, Weighted):
        weight, factor = weight * factor.weight, factor.workload
    found = factor.products()
    return (weight * found[0][0], found[0][1]) if len(found) == 1 else (weight, (factor,))


# The largest column norm of a union of products, without forming the cells of its domain.
def largest_norm(products: tuple[Product, ...], power: int) -> Number | None:
    """Return the largest column sum of |entry|^power of a union of products over the same attributes.

    None if they are over different attributes, or too many cells could be the one with the largest sum.

    Parameters
    ----------
    products
        Of the union.
    power
        1 for the L1 norm, 2 for the square of the L2 norm.
    """
    if len({tuple(factor.shape[1] for factor in factors) for _, factors in products}) > 1:
        return None
    largest = [math.prod(factor.max_column_norm(power) for factor in factors) for _, factors in products]
    total = sum(abs(weight) ** power * norm for (weight, _), norm in zip(products, largest, strict=True))
    if total >= LARGEST_NORM:  # never less than what is looked for
        return None
    sums = np.array([[abs(weight) ** power] for weight, _ in products])
    for axis in range(len(products[0][1])):
        norms = _largest_columns(np.array([factors[axis].column_norms(power) for _, factors in products]))
        if sums.size * norms.shape[1] > CANDIDATES:
            return None
        sums = _largest_columns((sums[:, :, None] * norms[:, None, :]).reshape(len(products), -1))
    return number(sums.sum(axis=0).max())


def _largest_columns(columns: Array) -> Array:
    """Return the columns that no other column equals or exceeds in every entry: only they can have the largest sum."""
    kept = columns[:, :0]
    for column in columns[:, np.argsort(-columns.sum(axis=0, dtype=float), kind="stable")].T:
        if not (kept >= column[:, None]).all(axis=0).any():
            kept = np.column_stack((kept, column))
    return kept

"""What has been spent on each cell of a table's domain, and what a new measurement adds to the maximum.

A measurement of query vectors A with noise scale b costs a record in cell c |A[:, c]|_1 / b (Laplace) or
|A[:, c]|_2^2 / sigma^2 (Gaussian). Only the maximum over cells of the sum over releases is ever charged, which is
parallel composition made exact: disjoint questions cost what the dearest of them costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

DENSE_LIMIT = 10**6
_MOST = 2**62  # sums of two numbers below it are 64-bit integers

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Term:
    """Cost `ceil(rate * product over attributes of norms[attribute][level])` in every cell.

    Parameters
    ----------
    rate
        Units per unit of column norm (see `Accountant.rate`), times the factor for units with many rows.
    norms
        Column norm per level of each attribute that matters, non-negative integers; 1 on every other attribute.
    """

    rate: Fraction
    norms: Mapping[str, Integers]

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("a rate of cost cannot be negative")
        for name, norm in self.norms.items():
            if not np.issubdtype(norm.dtype, np.integer) or norm.min(initial=0) < 0:
                raise ValueError(f"column norms of {name!r} must be whole numbers from 0")

    @property
    def largest_norm(self) -> int:
        """The column norm of the dearest cell."""
        return math.prod(int(norm.max(initial=0)) for norm in self.norms.values())

    @property
    def maximum(self) -> int:
        """The cost of the dearest cell, in units."""
        return math.ceil(self.rate * self.largest_norm)


@dataclass(frozen=True)
class CellCost:
    """The cost of one charge in each cell, as a sum of product terms."""

    terms: tuple[Term, ...]

    @property
    def bound(self) -> int:
        """An upper bound on the cost of the dearest cell: the sum of the terms' maxima, in units."""
        return sum(term.maximum for term in self.terms)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes on which the cost depends."""
        return frozenset(name for term in self.terms for name in term.norms)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the cost as JSON values: exact rates and run-length coded norms."""
        return [
            {"rate": str(term.rate), "norms": {name: _runs(norm) for name, norm in sorted(term.norms.items())}}
            for term in self.terms
        ]

    @classmethod
    def from_json(cls, terms: Iterable[Mapping[str, Any]]) -> CellCost:
        """Return the cost that `to_json` wrote."""
        return cls(
            tuple(
                Term(Fraction(term["rate"]), {name: _unruns(runs) for name, runs in term["norms"].items()})
                for term in terms
            )
        )


class Spend:
    """The spend of every cell of one table, in units.

    The array spans only the attributes that some charge told apart (length 1 on the others), so a table of any size
    is exact as long as the attributes in use have at most `limit` cells together. A charge that would pass the limit
    is added as its upper bound on every cell instead: never less than what is true.

    Parameters
    ----------
    sizes
        Number of levels of each attribute of the table, in the order of its domain.
    limit
        Most cells to hold.
    """

    def __init__(self, sizes: Mapping[str, int], limit: int = DENSE_LIMIT) -> None:
        self.sizes = dict(sizes)
        self.limit = limit
        self.everywhere = 0
        self.cells: Integers = np.zeros((1,) * len(self.sizes), dtype=np.int64)

    @property
    def maximum(self) -> int:
        """The spend of the dearest cell, in units: what the table has cost its privacy units."""
        return self.everywhere + int(self.cells.max(initial=0))

    def increase(self, cost: CellCost) -> int:
        """Return by how much `cost` would raise the maximum, in units, without adding it."""
        shape = self._shape_with(cost)
        if shape is None:
            return cost.bound
        return int((self.cells + self._dense(cost)).max(initial=0)) - int(self.cells.max(initial=0))

    def add(self, cost: CellCost) -> None:
        """Add the cost of one charge to every cell."""
        if self._shape_with(cost) is None:
            self.everywhere += cost.bound
        else:
            self.cells = self.cells + self._dense(cost)

    def by_attribute(self, name: str) -> Integers:
        """Return the largest spend among the cells of each level of one attribute, in units; shape (levels,)."""
        axis = list(self.sizes).index(name)
        others = tuple(i for i in range(self.cells.ndim) if i != axis)
        along = self.cells.max(axis=others) if others else self.cells
        return np.broadcast_to(along + self.everywhere, (self.sizes[name],)).copy()

    def _shape_with(self, cost: CellCost) -> tuple[int, ...] | None:
        used = cost.attributes
        if unknown := used - self.sizes.keys():
            raise ValueError(f"the table has no attributes {sorted(unknown)}")
        shape = tuple(
            size if name in used else self.cells.shape[axis] for axis, (name, size) in enumerate(self.sizes.items())
        )
        top = max(cost.bound + int(self.cells.max(initial=0)), *(term.largest_norm for term in cost.terms), 0)
        return shape if math.prod(shape) <= self.limit and top < _MOST else None

    def _dense(self, cost: CellCost) -> Integers:
        total: Integers = np.zeros((1,) * len(self.sizes), dtype=np.int64)
        for term in cost.terms:
            norms: Integers = np.ones((1,) * len(self.sizes), dtype=np.int64)
            for axis, (name, size) in enumerate(self.sizes.items()):
                if name in term.norms:
                    column = term.norms[name].astype(np.int64)
                    if column.shape != (size,):
                        raise ValueError(f"norms of {name!r} have {column.size} levels, the table has {size}")
                    norms = norms * column.reshape([-1 if i == axis else 1 for i in range(len(self.sizes))])
            total = total + _ceil_times(norms, term.rate)
        return total


def _ceil_times(norms: Integers, rate: Fraction) -> Integers:
    """Return ceil(rate * norms), exactly."""
    top = int(norms.max(initial=0))
    if top == 0:
        return np.zeros_like(norms)
    if top * rate.numerator + rate.denominator < 2**63:
        return -(-norms * rate.numerator // rate.denominator)
    values, where = np.unique(norms, return_inverse=True)
    costs = np.array([math.ceil(int(value) * rate) for value in values], dtype=np.int64)
    return costs[where].reshape(norms.shape)


def _runs(norm: Integers) -> list[list[int]]:
    starts = np.flatnonzero(np.r_[True, norm[1:] != norm[:-1]])
    return [[int(norm[i]), int(n)] for i, n in zip(starts, np.diff(np.r_[starts, norm.size]), strict=True)]


def _unruns(runs: Iterable[Iterable[int]]) -> Integers:
    values, counts = zip(*runs, strict=True)
    return np.repeat(np.array(values, dtype=np.int64), counts)

"""A measurement: integer queries over a small histogram, a noise scale, and what that costs in every cell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.parts import PART
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.spend import CellCost, CostTerm
from dpnotebook.query.question import Summand
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import sparse_terms, terms


@dataclass(frozen=True)
class Axis:
    """One side of a histogram: an attribute and those of its levels that take part, in order."""

    attribute: str
    levels: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """Number of levels that take part."""
        return len(self.levels)

    @property
    def runs(self) -> list[list[int]]:
        """The maximal runs of its levels in order, each as its first level and the one after its last."""
        if self.levels and self.levels == tuple(range(self.levels[0], self.levels[0] + self.size)):  # as mostly
            return [[self.levels[0], self.levels[0] + self.size]]
        levels = np.asarray(self.levels, dtype=np.intp)
        ends = np.flatnonzero(np.diff(levels) != 1) + 1
        return [[int(run[0]), int(run[-1]) + 1] for run in np.split(levels, ends) if run.size]


@dataclass(frozen=True)
class Measurement:
    """What is asked of the data: `operator` applied to the histogram of `summand` over `axes`, rows as `where` says.

    Parameters
    ----------
    operator
        Integer queries, shape (answers, product of the axes' sizes); cells in C order.
    axes
        The sides of the histogram.
    where
        Which rows take part.
    summand
        What each row adds to its cell; each component is measured by the same queries.
    """

    operator: Workload
    axes: tuple[Axis, ...]
    where: Predicate
    summand: Summand = field(default_factory=Summand)

    _unit_costs: list[tuple[Domain, int, tuple[CostTerm, ...]]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )  # the latest: plans price one measurement at many scales
    _norms: list[tuple[Domain, int, int]] = field(default_factory=list, init=False, compare=False, repr=False)
    _costs: list[tuple[Any, CellCost]] = field(default_factory=list, init=False, compare=False, repr=False)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that it tells something about."""
        return frozenset(axis.attribute for axis in self.axes) | frozenset(self.where.attributes)

    @cached_property
    def key(self) -> str:
        """A text that is equal for measurements of the same queries."""
        axes = [[axis.attribute, axis.runs] for axis in self.axes]
        return f'[{self.operator.text}, {json.dumps(axes)}, "{self.where.key}", {self.summand.text}]'

    @cached_property
    def answers(self) -> int:
        """How many noisy numbers come out."""
        return int(self.operator.shape[0]) * self.summand.components

    @property
    def cells(self) -> int:
        """Cells of the largest histogram that is needed: those of one term, over the axes that it does not sum over."""
        found = sparse_terms(self.operator)
        if found is None or found[0] != tuple(axis.size for axis in self.axes):
            return flat_size(self.axes)
        return max(math.prod(self.axes[i].size for i in axes) for axes in {term.axes for term in found[1]})

    def norm(self, domain: Domain, power: int) -> int:
        """Return the largest column norm^power over the cells that take part: what one row can change, at least 1.

        Never less than that; more, where the operator is no product and the norms of its parts peak in different cells.
        """
        if self._norms and self._norms[0][0] is domain and self._norms[0][1] == power:
            return self._norms[0][2]
        queries = int(self.operator.max_column_norm(power))
        column = self.summand.column
        anywhere = queries * (1 if column is None else int(self.summand.norms(domain[column], power).max(initial=0)))
        parts = self._parts(domain, power)
        inside = (sum(weight * _largest(part, box) for weight, part in parts) for box in self._boxes())
        self._norms[:] = [(domain, power, max(1, min(anywhere, max(inside))))]
        return self._norms[0][2]

    def cost(
        self,
        domain: Domain,
        accountant: Accountant,
        scale: Fraction,
        rows: int,
        before: Fraction | None = None,
        parts: int = 0,
    ) -> CellCost:
        """Return what the measurement costs in each cell of the table.

        Parameters
        ----------
        domain
            The table's declared domain.
        accountant
            Which norm counts, and how.
        scale
            b of discrete Laplace noise, sigma of Gaussian noise.
        rows
            Most rows of one privacy unit.
        before
            The larger scale that a lossless refinement starts from: only the difference is paid.
        parts
            Of a table whose parts add up: how many of them it reads, each of which may have so many rows of a unit and
            pays its share. 0 for all other tables.
        """
        key = domain, accountant, scale, rows, before, parts
        if self._costs and self._costs[0][0] == key:
            return self._costs[0][1]
        factor = Fraction(accountant.per_unit(rows * max(parts, 1)), max(parts, 1))
        rate = (accountant.rate(scale) - (accountant.rate(before) if before else 0)) * factor
        every = {PART: np.ones(domain[PART].size, dtype=np.int64)} if parts else {}
        units = self._cost_of_one(domain, accountant.law.power)
        cost = CellCost(tuple(CostTerm(rate * term.rate, {**every, **term.norms}) for term in units))
        self._costs[:] = [(key, cost)]
        return cost

    def cost_terms(self, domain: Domain, power: int) -> int:
        """Return of how many terms the cost is, each of which is rounded up by itself."""
        return len(self._cost_of_one(domain, power))

    def _cost_of_one(self, domain: Domain, power: int) -> tuple[CostTerm, ...]:
        """Return the column norms^power of every cell, as the cost at a rate of 1."""
        if self._unit_costs and self._unit_costs[0][0] is domain and self._unit_costs[0][1] == power:
            return self._unit_costs[0][2]
        costs: dict[tuple[tuple[str, bytes], ...], CostTerm] = {}
        for weight, part in self._parts(domain, power):
            for box in self._boxes():
                norms = dict(part)
                for name, mask in box.items():
                    norms[name] = norms.get(name, np.ones(mask.size, dtype=np.int64)) * mask
                if all(norm.any() for norm in norms.values()):
                    _add(costs, Fraction(weight), norms)
        self._unit_costs[:] = [(domain, power, tuple(costs.values()))]
        return self._unit_costs[0][2]

    def _boxes(self) -> Sequence[Mapping[str, NDArray[np.bool_]]]:
        """Disjoint boxes that hold every row that takes part."""
        return self.where.products() or ({},)

    def _parts(self, domain: Domain, power: int) -> list[tuple[int, dict[str, NDArray[np.int64]]]]:
        """Column norms^power per level of each attribute: the norm of a cell is a weighted sum of their products."""
        boxed = {name for box in self._boxes() for name in box}
        # Of a term that sums over an axis every level has norm one: nothing to say, but where levels do not take part.
        told = {
            i
            for i, axis in enumerate(self.axes)
            if axis.attribute in boxed or len(axis.levels) < domain[axis.attribute].size
        }
        parts = []
        for weight, factors in _product_norms(self.operator, [axis.size for axis in self.axes], power):
            part: dict[str, NDArray[np.int64]] = {}
            for i in sorted(told.union(factors)):
                axis = self.axes[i]
                full = np.zeros(domain[axis.attribute].size, dtype=np.int64)
                full[list(axis.levels)] = factors.get(i, 1)
                part[axis.attribute] = part.get(axis.attribute, 1) * full
            column = self.summand.column
            if column is not None:
                part[column] = part.get(column, 1) * self.summand.norms(domain[column], power)
            parts.append((weight, part))
        return parts


def _add(costs: dict[tuple[tuple[str, bytes], ...], CostTerm], rate: Fraction, norms: Mapping[str, Any]) -> None:
    """Add a term; what is the same at every level is part of the rate, and terms of equal norms are one."""
    kept = {}
    for name, norm in sorted(norms.items()):
        if norm.min() == norm.max():
            rate *= int(norm[0])
        else:
            kept[name] = norm
    key = tuple((name, norm.tobytes()) for name, norm in kept.items())
    before = costs[key].rate if key in costs else 0
    costs[key] = CostTerm(before + rate, kept)


def _largest(part: Mapping[str, NDArray[np.int64]], box: Mapping[str, NDArray[np.bool_]]) -> int:
    """Return the largest entry of a product of vectors inside a box."""
    inside = (norm[box[name]] if name in box else norm for name, norm in part.items())
    return math.prod(int(norm.max(initial=0)) for norm in inside)


def _product_norms(
    operator: Workload, sizes: Sequence[int], power: int
) -> list[tuple[int, dict[int, NDArray[np.int64]]]]:
    """Write the column norms^power of an operator as a weighted sum of products of vectors, by the places of axes.

    Where a term over several axes is no product of them, every cell is given its largest norm: never less than its own.
    """
    sparse = sparse_terms(operator)
    if sparse is not None and sparse[0] == tuple(sizes):
        known: dict[Workload, NDArray[np.int64]] = {}

        def norms(factor: Workload) -> NDArray[np.int64]:
            if factor not in known:
                known[factor] = _integers(factor.column_norms(power))
            return known[factor]

        return [
            (int(abs(term.weight) ** power), dict(zip(term.axes, map(norms, term.factors), strict=True)))
            for term in sparse[1]
        ]
    found: list[tuple[int, dict[int, NDArray[np.int64]]]] = []
    for term in terms(operator):
        weight = int(abs(term.weight) ** power)
        if term.sizes == tuple(sizes):
            found.append((weight, {i: _integers(w.column_norms(power)) for i, w in enumerate(term.factors)}))
        elif len(sizes) == 1:
            found.append((weight, {0: _integers(term.product.column_norms(power))}))
        else:
            found.append((weight * int(_integers(term.product.column_norms(power)).max(initial=0)), {}))
    return found


def _integers(norms: NDArray[Any]) -> NDArray[np.int64]:
    rounded: NDArray[np.int64] = np.rint(norms).astype(np.int64)
    if not np.array_equal(rounded, norms):
        raise ValueError("a measured operator must have integer entries")
    return rounded


def flat_size(axes: Sequence[Axis]) -> int:
    """Return the number of cells of a histogram over `axes`."""
    return reduce(lambda product, axis: product * axis.size, axes, 1)

"""What has been spent on each cell of a table's domain, and what a new measurement adds to the maximum.

A measurement of query vectors A with noise scale b costs a record in cell c |A[:, c]|_1 / b (Laplace) or
|A[:, c]|_2^2 / sigma^2 (Gaussian). Only the maximum over cells of the sum over releases is ever charged, which is
parallel composition made exact: disjoint questions cost what the dearest of them costs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import shorten

DENSE_LIMIT = 10**6  # cells whose spend is kept one by one: 8 MB
_MOST = 2**62  # sums of two numbers below it are 64-bit integers
_FEW = 20_000  # cells up to which a price is worked out cell by cell sooner than levels that are alike are found

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class CostTerm:
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
                raise ValueError(f"column norms of {shorten(name)} must be whole numbers from 0")

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

    terms: tuple[CostTerm, ...]

    @cached_property
    def bound(self) -> int:
        """An upper bound on the cost of the dearest cell: the sum of the terms' maxima, in units."""
        return sum(term.maximum for term in self.terms)

    def bound_over(self, adds: str | None) -> int:
        """Return the same where the dearest cells of all levels of an attribute add up, see `Spend`; None: nowhere."""
        if adds is None:
            return self.bound
        total = 0
        for term in self.terms:
            others = math.prod(int(norm.max(initial=0)) for name, norm in term.norms.items() if name != adds)
            own = term.norms[adds].tolist() if adds in term.norms else [1]
            total += sum(math.ceil(term.rate * others * norm) for norm in own)
        return total

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes on which the cost depends."""
        return frozenset(name for term in self.terms for name in term.norms)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the cost as JSON values: exact rates and run-length coded norms."""
        return [
            {"rate": str(term.rate), "norms": {name: runs(norm) for name, norm in sorted(term.norms.items())}}
            for term in self.terms
        ]

    @classmethod
    def from_json(cls, terms: Iterable[Mapping[str, Any]]) -> CellCost:
        """Return the cost that `to_json` wrote."""
        return cls(
            tuple(
                CostTerm(Fraction(term["rate"]), {name: from_runs(coded) for name, coded in term["norms"].items()})
                for term in terms
            )
        )


def bounds_at(coded: Iterable[Mapping[str, Any]], attribute: str, size: int) -> list[int]:
    """Return, for every level of an attribute, `CellCost.bound` of a cost there, that `CellCost.to_json` wrote.

    Parameters
    ----------
    coded
        The cost; it is not unpacked.
    attribute, size
        Which one, and how many levels it has; a cost that does not name it is the same at all of them.
    """
    bounds = [0] * size
    for term in coded:
        others = math.prod(max(value for value, _ in norm) for name, norm in term["norms"].items() if name != attribute)
        own = [value for value, count in term["norms"].get(attribute, [[1, size]]) for _ in range(count)]
        bounds = [
            bound + math.ceil(Fraction(term["rate"]) * others * norm) for bound, norm in zip(bounds, own, strict=True)
        ]
    return bounds


class Spend:
    """The spend of every cell of one table, in units.

    The array spans only the attributes that some charge told apart (`axes`), so that a table may have any number of
    others. Where it would have more than `limit` cells, levels whose spend is the same wherever they occur, and which
    the new charge treats alike, share one index: the spend stays exact while no more than `limit` cells differ. Past
    that the levels of an attribute that share an index are all charged for the dearest of them: never less than what is
    true.

    Parameters
    ----------
    sizes
        Number of levels of each attribute of the table, in the order of its domain.
    limit
        Most cells to hold.
    merge
        Whether levels may share an index; if not, a charge that would pass the limit is added as its upper bound on
        every cell.
    adds
        The attribute over whose levels the dearest cells add up, as where a unit has rows at each of them; None: a unit
        has lost no more than the dearest cell of all. Of such a table a cost that does not name that attribute is of
        what counts a unit once, at whatever levels its rows are.
    """

    def __init__(
        self, sizes: Mapping[str, int], limit: int = DENSE_LIMIT, merge: bool = True, adds: str | None = None
    ) -> None:
        self.sizes = dict(sizes)
        self.limit = limit
        self.merge = merge
        self.adds = adds
        self.everywhere = 0
        # The attributes along which `cells` has an axis, of two indices or more, in the order of the domain.
        self.axes: tuple[str, ...] = ()
        self.cells: Integers = np.zeros((), dtype=np.int64)
        # The index of each level along the axis of its attribute; where there is none, that of the level.
        self.labels: dict[str, Integers] = {}
        self._kept: tuple[Integers, dict[Any, Integers]] = self.cells, {}  # what was worked out of these very cells

    def read_only(self) -> Spend:
        """Return a spend that can be added to without changing this one; the array of its cells is read-only."""
        twin = copy.copy(self)  # `add` puts new cells in place of the old ones: they can be shared
        twin.sizes, twin.labels, twin.cells = dict(self.sizes), dict(self.labels), self.cells.view()
        twin.cells.setflags(write=False)
        twin._kept = twin.cells, self._of_these_cells()
        return twin

    @property
    def maximum(self) -> int:
        """The spend of the dearest cell, in units: what the table has cost its privacy units."""
        return self.everywhere + self._dearest(self.axes, self.cells, self.labels)

    def increase(self, cost: CellCost) -> int:
        """Return by how much `cost` would raise the maximum, in units, without adding it."""
        once, cost = self._once(cost)
        rise = self._rise(cost)
        if rise is not None:
            return once + rise
        after = self._with(cost)
        if after is None:
            return once + self._bound(cost)
        return once + self._dearest(*after) - self._dearest(self.axes, self.cells, self.labels)

    def add(self, cost: CellCost) -> None:
        """Add the cost of one charge to every cell."""
        once, cost = self._once(cost)
        self.everywhere += once
        after = self._with(cost)
        if after is None:
            self.everywhere += self._bound(cost)
        else:
            self.axes, self.cells, self.labels = after

    def _dearest(self, axes: Sequence[str], cells: Integers, labels: Mapping[str, Integers]) -> int:
        """Return the spend of the dearest cell, or what those of all levels add up to where they add up."""
        if self.adds is None:
            return int(cells.max(initial=0))
        along = cells.max(axis=_others(axes, {self.adds}))
        along = along[labels[self.adds]] if self.adds in labels else along
        return sum(np.broadcast_to(along, (self.sizes[self.adds],)).tolist())

    def _bound(self, cost: CellCost) -> int:
        return cost.bound * (1 if self.adds is None else self.sizes[self.adds])

    def _once(self, cost: CellCost) -> tuple[int, CellCost]:
        """Return what a charge costs that counts a unit once, at whatever levels that add up, and the rest of it."""
        if self.adds is None:
            return 0, cost
        once = CellCost(tuple(term for term in cost.terms if self.adds not in term.norms))
        return once.bound, CellCost(tuple(term for term in cost.terms if self.adds in term.norms))

    def add_in_place(self, coded: Sequence[Mapping[str, Any]], maximum: int) -> int:
        """Add the cost of one charge to `cells` itself, which nothing else must refer to; return the new `maximum`.

        Where a term costs the same in every cell of one box, only those cells are touched, so that ten thousand charges
        on a hundred thousand cells are replayed in a second.

        Parameters
        ----------
        coded
            The cost, as `CellCost.to_json` gives it.
        maximum
            The present `maximum`, which need not be looked for then.
        """
        boxes = None if self.labels or self.adds is not None else [self._box(term) for term in coded]
        if boxes is None or None in boxes:
            self.add(CellCost.from_json(coded))
            return self.maximum
        found = [box for box in boxes if box is not None]
        named = {name for term in coded for name in term["norms"]}
        axes = self._axes_with(named)
        shape = tuple(self._lengths(axes, named))
        if math.prod(shape) > self.limit or maximum + sum(units for _, units in found) >= _MOST:
            self.add(CellCost.from_json(coded))
            return self.maximum
        if axes != self.axes:
            self.axes, self.cells = axes, np.broadcast_to(self._along(axes, self.cells), shape).copy()
        self._kept = self.cells, {}
        most = maximum
        for box, units in found:
            self.cells[tuple(box.get(name, slice(None)) for name in axes)] += units
        for box, _ in found:
            inside = self.cells[tuple(box.get(name, slice(None)) for name in axes)]
            most = max(most, self.everywhere + int(inside.max(initial=0)))
        return most

    def by_attribute(self, name: str) -> Integers:
        """Return the largest spend among the cells of each level of one attribute, in units; shape (levels,)."""
        along = self.cells.max(axis=_others(self.axes, {name})) + self.everywhere
        if name in self.labels:
            along = along[self.labels[name]]
        return np.broadcast_to(along, (self.sizes[name],)).copy()

    def _with(self, cost: CellCost) -> tuple[tuple[str, ...], Integers, dict[str, Integers]] | None:
        """Return the axes, cells and labels after a charge; None where there would be too many cells."""
        self._check(cost)
        if self._too_dear(cost):
            return None
        if self._has_room(cost):
            axes = self._axes_with(cost.attributes)
            return axes, np.asarray(self._along(axes, self.cells) + self._costs(cost, axes, {})), {}
        return self._added(cost, *self._classes(cost)[:2]) if self.merge else None

    def _rise(self, cost: CellCost) -> int | None:
        """Return by how much the dearest cell rises, from the dearest ones of the levels that a cost tells apart only.

        None where that is not what `add` makes of it.
        """
        self._check(cost)
        used = cost.attributes
        few = math.prod(self.sizes[name] for name in used) <= self.limit
        if self.adds is not None or not few or self._too_dear(cost):
            return None
        others = _others(self.axes, used)
        dearest = self._of_cells(("dearest", others), lambda cells: cells.max(axis=others))
        along, told = dearest, [name for name in self.axes if name in used]
        if not self._has_room(cost):
            if not self.merge:
                return None
            now, finer, alike = self._classes(cost)
            if not alike:
                return self._rise_of(cost, dearest, now, finer)
        axes = [name for name in self.sizes if name in used]
        classes: dict[str, tuple[Integers, Integers]] = {}
        if math.prod(self.sizes[name] for name in used) > _FEW:
            classes = {name: self._alike_among(dearest, others, told, name, cost) for name in axes}
        for axis, name in enumerate(told):
            if name in classes:
                along = along.take(self._label(name)[classes[name][1]], axis=axis)
            elif name in self.labels:
                along = along.take(self.labels[name], axis=axis)
        lengths = {name: classes[name][1].size if name in classes else self.sizes[name] for name in axes}
        along = along.reshape([lengths[name] if name in told else 1 for name in axes])
        labels = {name: label for name, (label, _) in classes.items()}
        return int((along + self._costs(cost, axes, labels)).max()) - int(dearest.max())

    def _rise_of(
        self,
        cost: CellCost,
        along: Integers,
        now: Mapping[str, Integers],
        classes: Mapping[str, tuple[Integers, Integers]],
    ) -> int:
        """Return by how much the dearest cell rises where levels are put together, as `_added` does.

        Parameters
        ----------
        cost
            What is charged.
        along
            The dearest cells along the axes that it has a part in.
        now, classes
            As `_classes` has them: levels that it has no part in are put together only where cells are alike.
        """
        most, told = int(along.max()), [name for name in self.axes if name in cost.attributes]
        for axis, name in enumerate(told):
            along = along.take(now[name][classes[name][1]], axis=axis)
        used = {name: one for name, one in classes.items() if name in cost.attributes and one[1].size > 1}
        labels = {name: label for name, (label, _) in used.items()}
        along = along.reshape([used[name][1].size if name in told else 1 for name in used])
        return int((along + self._costs(cost, tuple(used), labels)).max()) - most

    def _alike_among(
        self, dearest: Integers, others: tuple[int, ...], told: Sequence[str], name: str, cost: CellCost
    ) -> tuple[Integers, Integers]:
        """Return the classes of levels of an attribute that have spent alike and that a cost treats alike."""
        now = self._label(name)
        if name in told:
            same = self._of_cells(("alike", others, name), lambda _: same_slices(dearest, told.index(name)))
            now = same[now]
        return told_apart(now, [term.norms[name] for term in cost.terms if name in term.norms])

    def _axes_with(self, used: Container[str]) -> tuple[str, ...]:
        """Return the axes of cells that tell the levels of some more attributes apart."""
        return tuple(name for name, n in self.sizes.items() if name in self.axes or (n > 1 and name in used))

    def _lengths(self, axes: Iterable[str], used: Container[str]) -> list[int]:
        """Return how long axes are where every level of some attributes has an index of its own."""
        now = dict(zip(self.axes, self.cells.shape, strict=True))
        return [self.sizes[name] if name in used else now[name] for name in axes]

    def _along(self, axes: Iterable[str], cells: Integers) -> Integers:
        """Return cells along further axes, on which they do not depend, and without those that have one index left."""
        now = dict(zip(self.axes, cells.shape, strict=True))
        return cells.reshape([now.get(name, 1) for name in axes])

    def _of_cells(self, key: Any, work: Callable[[Integers], Integers]) -> Integers:
        """Return what follows from all cells, which is worked out once."""
        kept = self._of_these_cells()
        if key not in kept:
            kept[key] = work(self.cells)
        return kept[key]

    def _of_these_cells(self) -> dict[Any, Integers]:
        if self._kept[0] is not self.cells:
            self._kept = self.cells, {}
        return self._kept[1]

    def _too_dear(self, cost: CellCost) -> bool:
        """Return whether 64 bits may not hold what cells would have cost."""
        dearest = int(self._of_cells("dearest", lambda cells: cells.max(initial=0)))
        return max(cost.bound + dearest, *(term.largest_norm for term in cost.terms), 0) >= _MOST

    def _has_room(self, cost: CellCost) -> bool:
        """Return whether every cell that a charge tells apart has room, without levels that share an index."""
        used = cost.attributes
        return not self.labels and math.prod(self._lengths(self._axes_with(used), used)) <= self.limit

    def _check(self, cost: CellCost) -> None:
        if unknown := cost.attributes - self.sizes.keys():
            raise ValueError(f"the table has no attributes {sorted(unknown)}")
        for name, column in ((name, column) for term in cost.terms for name, column in term.norms.items()):
            if column.shape != (self.sizes[name],):
                raise ValueError(
                    f"norms of {shorten(name)} have {column.size} levels, the table has {self.sizes[name]}"
                )

    def _box(self, term: Mapping[str, Any]) -> tuple[dict[str, slice], int] | None:
        """Return the box of cells that a term touches, and what it costs in each; None where it is no such box."""
        box, norm = {}, 1
        for name, coded in term["norms"].items():
            start, touched = 0, None
            for value, count in coded:
                if type(value) is not int or type(count) is not int or value < 0 or count <= 0:
                    return None
                if value and touched is not None:
                    return None
                if value:
                    touched = slice(start, start + count)
                    norm *= value
                start += count
            if touched is None or start != self.sizes.get(name):
                return None
            box[name] = touched
        rate = Fraction(term["rate"])
        if rate < 0 or norm >= _MOST:
            return None
        return box, math.ceil(rate * norm)

    def _classes(self, cost: CellCost) -> tuple[dict[str, Integers], dict[str, tuple[Integers, Integers]], bool]:
        """Return which levels share cells now, and after a charge: as now but for what it tells apart, or all that may.

        And whether those that share cells afterwards are all alike.
        """
        used = cost.attributes
        now = {name: self._label(name) for name in self.sizes if name in self.axes or name in used}
        coarse = now
        for merged in (False, True):
            if merged:
                coarse = {name: self._alike(name)[now[name]] if name in self.axes else now[name] for name in now}
            finer = {
                name: told_apart(label, [term.norms[name] for term in cost.terms if name in term.norms])
                for name, label in coarse.items()
            }
            if _size(finer) <= self.limit:
                return now, finer, True
        chosen = {name: told_apart(label, ()) for name, label in coarse.items()}
        growth = {name: finer[name][1].size / chosen[name][1].size for name in now}
        for name in sorted(now, key=growth.__getitem__):
            trial = {**chosen, name: finer[name]}
            chosen = trial if _size(trial) <= self.limit else chosen
        return now, chosen, False

    def _alike(self, name: str) -> Integers:
        return self._of_cells(("alike", name), lambda cells: same_slices(cells, self.axes.index(name)))

    def _added(
        self, cost: CellCost, now: Mapping[str, Integers], classes: Mapping[str, tuple[Integers, Integers]]
    ) -> tuple[tuple[str, ...], Integers, dict[str, Integers]]:
        cells = self.cells
        for axis, name in enumerate(self.axes):
            index = now[name][classes[name][1]]
            if not np.array_equal(index, np.arange(cells.shape[axis])):
                cells = cells.take(index, axis=axis)
        labels = {name: label for name, (label, stand) in classes.items() if stand.size > 1}
        axes = tuple(labels)
        return axes, np.asarray(self._along(axes, cells) + self._costs(cost, axes, labels)), labels

    def _label(self, name: str) -> Integers:
        if name in self.labels:
            return self.labels[name]
        return np.arange(self.sizes[name]) if name in self.axes else np.zeros(self.sizes[name], dtype=np.int64)

    def _costs(self, cost: CellCost, axes: Sequence[str], labels: Mapping[str, Integers]) -> Integers:
        """Return a cost in every cell along some axes; of levels that share an index, or have no axis, the dearest."""
        total: Integers = np.zeros((1,) * len(axes), dtype=np.int64)
        for term in cost.terms:
            norms: Integers = np.ones((1,) * len(axes), dtype=np.int64)
            for name, norm in term.norms.items():
                column = norm.astype(np.int64)
                if name not in axes:
                    norms = norms * column.max(initial=0)
                    continue
                column = dearest(column, labels[name]) if name in labels else column
                norms = norms * column.reshape([-1 if other == name else 1 for other in axes])
            total = total + _ceil_times(norms, term.rate)
        return total


def _others(axes: Iterable[str], names: Container[str]) -> tuple[int, ...]:
    """Return the places of the axes of all other attributes."""
    return tuple(place for place, name in enumerate(axes) if name not in names)


def _size(classes: Mapping[str, tuple[Integers, Integers]]) -> int:
    return math.prod(stand.size for _, stand in classes.values())


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


def runs(norm: Integers) -> list[list[int]]:
    """Return a vector as pairs of a value and how often it follows in a row."""
    starts = np.flatnonzero(np.r_[True, norm[1:] != norm[:-1]])
    return [[int(norm[i]), int(n)] for i, n in zip(starts, np.diff(np.r_[starts, norm.size]), strict=True)]


def from_runs(coded: Iterable[Iterable[int]]) -> Integers:
    """Return the vector that `runs` wrote."""
    values, counts = zip(*coded, strict=True)
    return np.repeat(np.array(values, dtype=np.int64), counts)


# Levels of an attribute that are alike share one index along an axis of an array.
def told_apart(labels: Integers, norms: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Split classes of levels until every class has one value of each of some vectors.

    Parameters
    ----------
    labels
        The class of each level, from 0, shape (levels,).
    norms
        Vectors of shape (levels,).

    Returns
    -------
    The class of each level, in the order in which classes first appear, and the level that stands for each class.
    """
    finer = labels
    for norm in norms:
        _, values = np.unique(norm, return_inverse=True)
        finer = finer * (int(values.max(initial=0)) + 1) + values.reshape(-1)
        _, finer = np.unique(finer, return_inverse=True)  # numbers stay small
    _, first, found = np.unique(finer, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[found.reshape(-1)].astype(np.int64), first[order].astype(np.int64)


def same_slices(cells: Integers, axis: int) -> Integers:
    """Return for each index of an axis the first whose slice is the same, shape (length,)."""
    sums = cells.sum(axis=tuple(other for other in range(cells.ndim) if other != axis))
    _, firsts, sums = np.unique(sums, return_index=True, return_inverse=True)
    found = firsts[sums.reshape(-1)]  # of each index, the first whose slice adds up to as much
    seen: dict[bytes, int] = {}
    for index in np.flatnonzero(np.bincount(found, minlength=found.size)[found] > 1):
        found[index] = seen.setdefault(np.take(cells, index, axis=axis).tobytes(), int(index))
    return np.asarray(found, dtype=np.int64)


def dearest(norm: Integers, labels: Integers) -> Integers:
    """Return the largest entry of a vector in each class of levels, shape (classes,)."""
    found: Integers = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(found, labels, norm)
    return found

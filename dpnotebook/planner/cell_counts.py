"""Counts of groups over all cells of some attributes, many at a time.

Tables of some rows that are asked over the same attributes, of rows that are told by the same ones, differ in nothing
but which cells take part: what they count, and what they say together, are products of matrices that small. Beside ten
thousand releases a block of three attributes holds a thousand of them, and one by one numpy takes longer to begin than
to work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.atoms import places
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis

AT_ONCE = 2**20  # levels of conditions that are written out together

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CountsAlike:
    """Counts over the same axes, of rows that are told by the same attributes.

    Parameters
    ----------
    numbers
        Which of all these are, ascending.
    axes, told
        The axes, and the attributes.
    group
        Which group each cell is in, -1 for none, shape (cells,).
    box
        Which combination of the levels of `told` each cell has, shape (cells,).
    taking
        Which of these combinations take part, shape (numbers, combinations).
    """

    numbers: list[int]
    axes: tuple[Axis, ...]
    told: tuple[str, ...]
    group: Indices
    box: Indices
    taking: NDArray[np.bool_]


def alike_in(counts: Sequence[ProductTerm], domain: Domain, names: Sequence[str]) -> Iterator[CountsAlike]:
    """Yield disjoint counts by what they have in common, over the cells of some attributes of a domain."""
    found: dict[str, list[int]] = {}
    for number, part in enumerate(counts):
        found.setdefault(part.form, []).append(number)
    everything = Predicate.everything(domain)
    for numbers in found.values():
        axes = counts[numbers[0]].axes
        told = tuple(sorted(where := counts[numbers[0]].where.attributes, key=names.index))
        levels = [Axis(name, tuple(range(domain[name].size))) for name in told]
        group, box = (places(sides, everything, domain, names) for sides in (axes, levels))
        at_once = max(1, AT_ONCE // math.prod(axis.size for axis in levels))
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            rows = (counts[number].where for number in some)
            taking = np.array([row.cells if told == where else row.dense(told).reshape(-1) for row in rows])
            yield CountsAlike(some, axes, told, group, box, taking)


@dataclass(eq=False, slots=True)  # never changed, but a frozen one takes three times as long to make
class CellGroups:
    """The group of every cell, of one of many disjoint counts: written out when it is looked at.

    Parameters
    ----------
    group, box
        As in `CountsAlike`; of groups as the smallest integers that hold them and one more: there are many cells.
    taking
        Which of the combinations take part, shape (combinations,).
    """

    group: NDArray[np.signedinteger]
    box: Indices
    taking: NDArray[np.bool_]

    def __call__(self) -> NDArray[np.signedinteger]:
        """Return the group of every cell, -1 for none, shape (cells,)."""
        return np.where(self.taking[self.box], self.group, self.group.dtype.type(-1))


def groups_of(in_common: Sequence[CountsAlike]) -> list[CellGroups]:
    """Return what `places` says of the cells of some attributes, of many disjoint counts; as small integers."""
    found: dict[int, CellGroups] = {}
    for alike in in_common:
        group = alike.group.astype(np.min_scalar_type(-2 * int(alike.group.max(initial=0)) - 4))
        rows = zip(alike.numbers, alike.taking, strict=True)
        found.update((number, CellGroups(group, alike.box, row)) for number, row in rows)
    return [found[number] for number in range(len(found))]


class CountsOfCells:
    """Many disjoint counts over the cells of some attributes, below each other: multiplied by what they have in common.

    Parameters
    ----------
    in_common
        The counts, as `alike_in` has them.
    labels
        The place of every cell among the columns that are multiplied, shape (cells,).
    """

    def __init__(self, in_common: Sequence[CountsAlike], labels: Indices) -> None:
        from scipy.sparse import csr_array

        self._labels = labels
        sizes = {number: math.prod(axis.size for axis in one.axes) for one in in_common for number in one.numbers}
        starts = np.cumsum([0, *(sizes[number] for number in range(len(sizes)))])
        self._queries = int(starts[-1])
        self._alike: list[tuple[csr_array, NDArray[np.bool_], Indices]] = []
        for alike in in_common:
            groups, boxes = math.prod(axis.size for axis in alike.axes), alike.taking.shape[1]
            inside = np.flatnonzero(alike.group >= 0)
            places_of = alike.group[inside] * boxes + alike.box[inside]
            summing = csr_array((np.ones(inside.size), (places_of, inside)), shape=(groups * boxes, labels.size))
            rows = starts[alike.numbers][:, None] + np.arange(groups)
            self._alike.append((summing, alike.taking, rows))

    def times(self, coefficients: Floats) -> Floats:
        """Return the products of all queries with some columns, shape (columns, m): shape (queries, m)."""
        cells = np.ascontiguousarray(coefficients[self._labels])
        found = np.zeros((self._queries, cells.shape[1]))
        for summing, taking, rows in self._alike:
            own = (summing @ cells).reshape(rows.shape[1], taking.shape[1], -1)
            found[rows] = (taking.astype(float) @ own).transpose(1, 0, 2)
        return found


def told_of_cells(
    in_common: Sequence[CountsAlike], precision: Floats, weighted: Sequence[Floats], sizes: Mapping[str, int]
) -> tuple[Floats, Floats]:
    """Return what disjoint counts say of the cells: their information matrix, and the vector, as in `information`.

    Parameters
    ----------
    in_common
        The counts, as `alike_in` has them.
    precision
        One over the variance of each number, shape (counts,).
    weighted
        Precision times number of each.
    sizes
        Of each of the attributes whose cells are meant the number of levels.
    """
    cells = math.prod(sizes.values())
    matrix, vector = np.zeros((cells, cells)), np.zeros(cells)
    # What is told of fewer levels is added to what is told of more of them, before that is to all cells.
    alike_most_first = sorted(in_common, key=lambda alike: -len(alike.told))
    found: dict[tuple[Axis, ...], list[Floats]] = {}
    for alike in alike_most_first:
        both = _of_pairs(alike, precision[alike.numbers], sizes)
        for wider in found.setdefault(alike.axes, []):
            if np.broadcast_shapes(wider.shape, both.shape) == wider.shape:
                wider += both
                break
        else:
            found[alike.axes].append(both)
        said = np.array([weighted[number] for number in alike.numbers]).T @ alike.taking
        vector += np.where(alike.group >= 0, said[alike.group, alike.box], 0.0)
    for axes, each in found.items():
        _increase(matrix, axes, each, sizes)
    return matrix, vector


def _sides(axes: Sequence[Axis], sizes: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Return which attributes are told apart along the axes, and which are not."""
    along = {axis.attribute for axis in axes}
    apart, others = ([at for at, name in enumerate(sizes) if (name in along) == one] for one in (True, False))
    return apart, others


def _of_pairs(alike: CountsAlike, precision: Floats, sizes: Mapping[str, int]) -> Floats:
    """Return what counts say of pairs of cells that have the same levels along the axes.

    Shape (levels of each attribute along the axes..., levels of each other one..., the same again...); 1 instead of the
    levels of an attribute that does not matter.
    """
    names = list(sizes)
    along, across = ([names[at] for at in places] for places in _sides(alike.axes, sizes))
    order = [*(name for name in along if name in alike.told), *(name for name in across if name in alike.told)]
    apart = math.prod(sizes[name] for name in along if name in alike.told)
    taking = alike.taking.reshape([len(precision), *(sizes[name] for name in alike.told)])
    taking = taking.transpose([0, *(1 + alike.told.index(name) for name in order)])
    taking = taking.reshape(len(precision), apart, -1).transpose(1, 0, 2).astype(np.float64)
    both = (taking * precision[:, None]).transpose(0, 2, 1) @ taking
    both = both.reshape([sizes[name] if name in alike.told else 1 for name in (*along, *across, *across)])
    for axis in alike.axes:
        if axis.size < sizes[axis.attribute]:
            inside = np.zeros(sizes[axis.attribute])
            inside[list(axis.levels)] = 1
            at = along.index(axis.attribute)
            both = both * inside.reshape([-1 if other == at else 1 for other in range(both.ndim)])
    return both


def _increase(matrix: Floats, axes: Sequence[Axis], pairs: Sequence[Floats], sizes: Mapping[str, int]) -> None:
    """Add what is said of pairs of cells, as `_of_pairs` has it, to the information matrix of all cells."""
    count = len(sizes)
    along, across = _sides(axes, sizes)
    columns = [place if place in along else count + place for place in range(count)]
    kept = [*along, *across, *(count + place for place in across)]
    cells = matrix.reshape([*sizes.values()] * 2)
    # A view of what is not 0: along the axes what is on the diagonal.
    seen = np.einsum(cells, [*range(count), *columns], kept)  # type: ignore[arg-type]
    for each in pairs:
        seen += each

"""What was measured of some attributes as products, and the classes of levels that it tells apart along each.

Levels that no condition tells apart are exchangeable. Functions of the levels of an attribute are one of each class,
and such as add up to nothing over each.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.product_terms import ProductTerm, is_identity
from dpnotebook.planner.repeats import Repeats
from dpnotebook.query.measurement import Measurement

MOST_CLASSES = 700  # products of classes of levels that are solved for together
CUT = 1e-9  # of a level: what a condition takes of a class beside its part of it, below which that is rounding
MOST_LEFT_OUT = 400  # for too many classes: then only what tells all rows is looked at, which tells no classes apart
MOST_BOXES = 6  # that the rows of a measurement fall into
MOST_ALIKE = 4_096  # of what is asked along an attribute, that are kept once each
MOST_SIDED = 4  # sets of attributes over which it is kept what measurements of the same queries ask

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class LevelsAsked(NamedTuple):
    """What is asked along an attribute.

    Parameters
    ----------
    apart
        Whether every level is asked by itself, or their sum.
    mask
        Which levels take part, as bytes.
    """

    apart: bool
    mask: bytes

    @property
    def levels(self) -> Mask:
        """Which levels take part, shape (levels,)."""
        return np.frombuffer(self.mask, dtype=bool)


@lru_cache(maxsize=MOST_ALIKE)
def _asked_along(apart: bool, mask: bytes) -> LevelsAsked:
    """Return one object for all that ask the same: of ten thousand measurements there are a few hundred."""
    return LevelsAsked(apart, mask)


Sides = tuple[LevelsAsked, ...]
Boxes = tuple[Sides, ...]  # that are disjoint: each number is the sum of those of all


def boxes_of(part: ProductTerm, names: Sequence[str], domain: Domain) -> Boxes | None:
    """Return what is asked along each of some attributes, in each of the boxes that the rows fall into.

    None where that are no levels and sums, or too many boxes.
    """
    boxes = [{}] if part.where.is_everything else part.where.products()
    if len(boxes) > MOST_BOXES or not boxes or not is_identity(part.operator):
        return None
    axes = {axis.attribute: axis for axis in part.axes}
    if len(axes) < len(part.axes):
        return None
    found = []
    for box in boxes:
        sides = []
        for name in names:
            size = domain[name].size
            if name in axes and axes[name].size < size:
                mask = np.zeros(size, dtype=bool)
                mask[list(axes[name].levels)] = True
                levels = (mask & box[name] if name in box else mask).tobytes()
            else:  # as mostly: in a moment, as there are many measurements
                levels = box[name].tobytes() if name in box else b"\1" * size
            sides.append(_asked_along(name in axes, levels))
        found.append(tuple(sides))
    return tuple(found)


def _latest_boxes(known: Repeats, names: tuple[str, ...], domain: Domain) -> list[tuple[ProductTerm, Boxes | None]]:
    """Return what measurements say of some attributes, and `boxes_of` that: kept for a few, as plans look often.

    Nothing where they are of some rows by other attributes: what they say of these alone is not known how to find.
    """
    kept: list[tuple[ProductTerm, Boxes | None]] | None = known.sided.get(names)
    if kept is None:
        measurement = known.measurement
        found: list[tuple[ProductTerm, Boxes | None]] = []
        if known.rows <= set(names) and measurement.summand.components == 1:
            found = [(part, boxes_of(part, names, domain)) for _, part in known.seen_in(names, domain)]
        kept = known.sided[names] = found
        while len(known.sided) > MOST_SIDED:
            del known.sided[next(iter(known.sided))]
    return kept


class Basis:
    """Orthonormal functions of the levels of an attribute: of each class one, then such as add up to 0 over each.

    There are as many as levels, of which dates have tens of thousands: they are never written out as a matrix.

    Parameters
    ----------
    size
        Number of levels.
    sides
        All that is asked along it.
    """

    def __init__(self, size: int, sides: Sequence[LevelsAsked]) -> None:
        masks = np.array([side.levels for side in sides]).reshape(-1, size)
        _, self.labels = np.unique(masks, axis=1, return_inverse=True)
        self.labels = self.labels.reshape(-1)
        self.sizes = np.bincount(self.labels)
        self.count = int(self.sizes.size)
        self.first = np.array([int(np.argmax(self.labels == label)) for label in range(self.count)], dtype=np.intp)
        # Of the second kind of function what matters is what is told apart in a class: one of each of these kinds.
        told = np.array([side.levels for side in sides if side.apart]).reshape(-1, size)[:, self.first]
        _, kinds = np.unique(told, axis=1, return_inverse=True)
        self.kinds = kinds.reshape(-1)
        # Behind those of the classes stand those of each kind, class by class: Helmert's contrasts of its members.
        order = np.lexsort((self.labels, self.kinds[self.labels]))
        starts = np.cumsum([0, *(self.sizes[label] for label in np.lexsort((np.arange(self.count), self.kinds)))])
        self._order, self._starts, self._lengths = order, starts[:-1], np.diff(starts)
        self._within = np.arange(size) - np.repeat(self._starts, self._lengths)  # place of a level in its class
        self._places = np.empty_like(self._within)  # the same, level by level
        self._places[order] = self._within
        self._contrasts = np.flatnonzero(self._within)
        self.slices: dict[int, slice] = {}  # of the functions of each kind
        kinds, at = self.kinds[self.labels[order[self._contrasts]]], self.count
        for kind, many in zip(*np.unique(kinds, return_counts=True), strict=True):
            self.slices[int(kind)] = slice(at, at := at + int(many))

    def of_levels(self, values: Floats) -> Floats:
        """Return numbers of the levels in the functions, along the last axis."""
        ordered = values[..., self._order]
        before = np.cumsum(ordered, axis=-1)
        behind = before[..., self._starts] - ordered[..., self._starts]
        before = before - ordered - np.repeat(behind, self._lengths, axis=-1)  # of those before it in its class
        places = self._within[self._contrasts]
        contrasts = before[..., self._contrasts] - places * ordered[..., self._contrasts]
        contrasts /= np.sqrt(places * (places + 1.0))
        sums = np.zeros((*values.shape[:-1], self.count))
        sums[..., self.labels[self._order[self._starts]]] = np.add.reduceat(ordered, self._starts, axis=-1)
        return np.concatenate([sums / np.sqrt(self.sizes), contrasts], axis=-1)

    def at(self, levels: Indices) -> Floats:
        """Return the functions at some levels, shape (levels, functions): what `of_levels` makes of each by itself."""
        found = np.zeros((levels.size, self.labels.size))
        own = self.labels[levels]
        found[np.arange(levels.size), own] = 1 / np.sqrt(self.sizes[own])
        place, there = self._places[levels][:, None], self._within[self._contrasts]
        contrasts = (place < there).astype(float)
        contrasts -= (place == there) * there
        contrasts *= own[:, None] == self.labels[self._order[self._contrasts]]
        np.divide(contrasts, np.sqrt(there * (there + 1.0)), out=found[:, self.count :])
        return found

    def at_levels(self, values: Floats) -> Floats:
        """Return numbers in the functions at each level, along the last axis."""
        ordered = np.zeros((*values.shape[:-1], self.labels.size))
        places = self._within[self._contrasts]
        shares = values[..., self.count :] / np.sqrt(places * (places + 1.0))
        ordered[..., self._contrasts] = shares
        behind = np.cumsum(ordered[..., ::-1], axis=-1)[..., ::-1]
        ends = self._starts + self._lengths
        last = np.concatenate([behind, np.zeros((*values.shape[:-1], 1))], axis=-1)[..., ends]
        found = behind - ordered - np.repeat(last, self._lengths, axis=-1)
        found[..., self._contrasts] -= places * shares
        result: Floats = np.empty_like(found)
        result[..., self._order] = found
        return np.asarray(result + (values[..., : self.count] / np.sqrt(self.sizes))[..., self.labels])

    def sums(self, values: Floats) -> Floats:
        """Return numbers of the levels in the functions of the first kind alone, along the last axis."""
        found = np.zeros((*values.shape[:-1], self.count))
        found[..., self.labels[self._order[self._starts]]] = np.add.reduceat(values[..., self._order], self._starts, -1)
        return found / np.sqrt(self.sizes)

    def share(self, kind: int | None) -> Floats:
        """Return how much of a level lies along the functions of a kind, of the first for None; shape (classes,)."""
        if kind is None:
            return np.asarray(1 / self.sizes)
        return np.where(self.kinds == kind, 1 - 1 / self.sizes, 0.0)

    def place(self, kind: int | None) -> slice:
        """Return which functions are of a kind."""
        return slice(0, self.count) if kind is None else self.slices[kind]

    def tells(self, side: LevelsAsked) -> bool:
        """Return whether what is asked along the attribute tells no more apart than these functions do."""
        taking = side.levels[self.first]
        if not np.array_equal(taking[self.labels], side.levels):
            return False
        if not side.apart:
            return True
        of_kinds = np.zeros(self.kinds.max(initial=-1) + 1, dtype=bool)
        of_kinds[self.kinds] = taking
        return np.array_equal(of_kinds[self.kinds], taking)

    def along(self, sides: Sequence[LevelsAsked]) -> Floats:
        """Return what is asked along the classes: whether each takes part, or what it counts for in the sum.

        Shape (sides, classes), of sides that are all of one of the two.
        """
        taking = np.array([side.levels[self.first] for side in sides], dtype=float)
        return taking if sides[0].apart else taking * np.sqrt(self.sizes)


class Asked:
    """Functions of the levels of an attribute that a question adds up over: of each class, and where it cuts classes.

    What it takes of a class is a part of the class, and along each kind of what adds up to nothing a direction: of all
    boxes together no more than boxes. They are orthonormal, as those of the basis are.

    Parameters
    ----------
    basis
        The functions that what was measured falls into.
    sides
        What is asked along the attribute, box by box.
    """

    def __init__(self, basis: Basis, sides: Sequence[LevelsAsked]) -> None:
        taking = np.array([side.levels for side in sides], dtype=float)
        self._basis, self.along = basis, basis.sums(taking)  # shape (boxes, classes)
        cut = taking - (self.along / np.sqrt(basis.sizes))[:, basis.labels]
        self.directions: dict[int, Floats] = {}  # by kind, what each box has along each: shape (boxes, directions)
        self._slices: dict[tuple[int, int], slice] = {}
        found = [np.zeros((0, basis.labels.size))]
        at = basis.count
        for kind in basis.slices:
            own = np.where(basis.kinds[basis.labels] == kind, cut, 0.0)
            if not np.abs(own).max() > CUT:
                continue
            _, sizes, functions = np.linalg.svd(own, full_matrices=False)
            functions = functions[sizes > CUT * sizes[0]]
            along = own @ functions.T
            self.directions[kind] = np.where(np.abs(along) > CUT, along, 0.0)
            found.append(functions)
            for number in range(len(functions)):
                self._slices[kind, number] = slice(at, at := at + 1)
        self._functions = np.concatenate(found)
        self.count = at

    def of_levels(self, values: Floats) -> Floats:
        """Return numbers of the levels in the functions, along the last axis."""
        sums = self._basis.sums(values)
        return np.concatenate([sums, values @ self._functions.T], axis=-1) if len(self._functions) else sums

    def at_levels(self, values: Floats) -> Floats:
        """Return numbers in the functions at each level, along the last axis."""
        basis = self._basis
        found = (values[..., : basis.count] / np.sqrt(basis.sizes))[..., basis.labels]
        return np.asarray(found + values[..., basis.count :] @ self._functions if len(self._functions) else found)

    def place(self, kind: tuple[int, int] | None) -> slice:
        """Return which functions are of a kind, and of a direction along it."""
        return slice(0, self._basis.count) if kind is None else self._slices[kind]


class ToldProducts:
    """What was measured of some attributes, as products with their precision.

    Parameters
    ----------
    names, domain
        The attributes, in the domain's order.
    apart
        What tells levels apart as well.
    most
        Products of classes of levels that there is room for; None for `MOST_CLASSES`.
    """

    def __init__(self, names: Sequence[str], domain: Domain, apart: Boxes = (), most: int | None = None) -> None:
        self.names, self.domain, self.apart = tuple(names), domain, apart
        self._of = frozenset(names)
        self._most = MOST_CLASSES if most is None else most
        self.precisions: dict[Boxes, float] = {}
        self.parts: list[tuple[Repeats, Boxes, ProductTerm, int]] = []  # and where its numbers start among all
        self.measured: list[tuple[Repeats, int]] = []
        self.size = 0  # numbers of all measurements
        self.every = True  # whether all that was measured is here
        self.room = True  # whether nothing was left out for too many classes
        self.products = True  # whether all that was measured are products
        self._left_out = 0
        self._without: set[Boxes] = set()  # what had no room: it gets none later, as classes only get more
        self._apart = [{sides[place].mask for sides in apart} for place in range(len(names))]
        every = ([_bits(b"\1" * domain[name].size)] for name in names)
        self._classes = [cut(levels, own) for levels, own in zip(every, self._apart, strict=True)]

    def put(self, known: Repeats) -> None:
        """Add measurements of the same queries, as far as there is room for the classes that they tell apart."""
        if not known.rows <= self._of:
            return
        if known.rows and self._left_out >= MOST_LEFT_OUT:
            self.products = self.products and known.is_counts
            return
        first, before = self.size, len(self.parts)
        for part, boxes in _latest_boxes(known, self.names, self.domain):
            if boxes is None:
                self.every = self.products = False
            elif boxes in self.precisions or (boxes not in self._without and self._made_room(boxes)):
                precision = part.weight**2 * (known.precision / part.spread)
                self.precisions[boxes] = self.precisions.get(boxes, 0.0) + precision
                self.parts.append((known, boxes, part, first))
            else:
                self.every = self.room = False
                self._without.add(boxes)
                self._left_out += 1
        if len(self.parts) > before:
            self.measured.append((known, first))
            self.size += known.weighted.size

    def beside(self, supposed: Mapping[str, Repeats]) -> ToldProducts | None:
        """Return what is told if some measurements are as is supposed, by what was asked; None without room for these.

        This is not changed. What is left out is what would be if these came first: what had no room before has none
        beside more, and of what had it any part fits where all does.
        """
        found = copy.copy(self)
        found.precisions, found.parts = dict(self.precisions), []
        found.measured, found._apart, found._without = [], [set(masks) for masks in self._apart], set(self._without)
        for known, boxes, part, first in self.parts:
            now = supposed.get(known.measurement.key, known)
            if now is not known:
                more = now.precision - known.precision
                found.precisions[boxes] += part.weight**2 * (more / part.spread)
            found.parts.append((now, boxes, part, first))
        for known, first in self.measured:
            found.measured.append((supposed.get(known.measurement.key, known), first))
        here = {known.measurement.key for known, _ in self.measured}
        found.room, found._left_out = True, 0
        for name, known in supposed.items():
            if name not in here:
                found.put(known)
        fits, found.room, found._left_out = found.room, self.room, self._left_out
        return found if fits else None

    def has_room(self, measurement: Measurement) -> bool:
        """Return whether one more would be all here as well, and no other would be left out for it."""
        part = ProductTerm(measurement.axes, measurement.where, measurement.operator, 1.0, np.arange(0))
        inside = set(measurement.where.attributes) <= set(self.names) and measurement.summand.components == 1
        boxes = boxes_of(part, self.names, self.domain) if inside else None
        return boxes is not None and _products(self._with(self._masks(boxes))) <= self._most

    def _masks(self, boxes: Boxes) -> list[set[bytes]]:
        return [{sides[place].mask for sides in boxes} for place in range(len(self.names))]

    def _with(self, masks: Sequence[set[bytes]]) -> list[list[int]]:
        """Return the classes along each attribute with some conditions more."""
        places = zip(self._classes, masks, self._apart, strict=True)
        return [cut(own, new - apart) for own, new, apart in places]

    def _made_room(self, boxes: Boxes) -> bool:
        masks = self._masks(boxes)
        if all(new <= own for own, new in zip(self._apart, masks, strict=True)):  # nothing more is told apart
            return True
        classes = self._with(masks)
        if _products(classes) > max(self._most, self.classes):
            return False
        self._classes = classes
        for own, new in zip(self._apart, masks, strict=True):
            own |= new
        return True

    @property
    def classes(self) -> int:
        """How many products of classes of levels are told apart."""
        return _products(self._classes)

    @property
    def fits(self) -> bool:
        """Whether these are few enough to be solved for together."""
        return self.classes <= self._most

    def bases(self) -> list[Basis]:
        """Return the functions of the levels of each attribute."""
        every = [*self.apart, *(sides for boxes in self.precisions for sides in boxes)]
        return [
            Basis(self.domain[name].size, list(dict.fromkeys(sides[place] for sides in every)))
            for place, name in enumerate(self.names)
        ]


def _bits(mask: bytes) -> int:
    """Return levels as a number with a byte for each."""
    return int.from_bytes(mask, "little")


def cut(classes: list[int], masks: Iterable[bytes]) -> list[int]:
    """Return classes of levels, each a number with a byte for every level, as they are when some masks cut them."""
    for mask in masks:
        taking = _bits(mask)
        parts = [(one & taking, one & ~taking) for one in classes]
        classes = [part for pair in parts for part in pair if part]
    return classes


def _products(classes: Sequence[Sequence[int]]) -> int:
    """Return how many products of classes there are, of those along each attribute."""
    return math.prod(map(len, classes))

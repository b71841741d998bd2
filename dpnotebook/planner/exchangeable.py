"""Least squares over products of sides, along which levels that no condition tells apart are exchangeable.

Counts of groups, and of some rows of them, are products: along each attribute every level by itself, or their sum, of
all levels or of some. Functions that are equal on levels that no measurement and no question tells apart, and functions
that add up to nothing over each such class, are never mixed by any of them: over products of attributes the information
matrix falls into blocks over classes of levels, each as often as there are functions of the second kind. What is solved
grows with the classes, not with the cells, and is generalised least squares over all of them.

Source: symmetry reduction of least squares (the residual basis of marginals is the case of one class a side).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.class_information import ROUNDING, ClassInformation
from dpnotebook.planner.factored import InPassing
from dpnotebook.planner.level_classes import Asked, Basis, Boxes, LevelsAsked, Sides, ToldProducts, boxes_of
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.repeats import Repeats
from dpnotebook.planner.solved import RESIDUAL, refined

MOST_CELLS = 10**6  # of the attributes of a question
FEW_CLASSES = 2_500  # that are solved for where other attributes are looked at beside those of a question,
FEW_CELLS = 200_000  # with as many cells at most, and
MOST_BESIDE = 300  # as many different measurements
MOST_CHOICES = 300  # of kinds of functions that a question has a part in: of more it tells levels apart itself

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Choice = tuple[tuple[int, int] | None, ...]  # of kinds, and of directions along each


@dataclass(frozen=True, eq=False)
class _Block:
    """What is asked over classes of levels, and how it is answered.

    Parameters
    ----------
    asked
        The queries, shape (queries, classes).
    coefficients, told
        As `refined` has them.
    """

    asked: Floats
    coefficients: Floats
    told: Floats

    @property
    def count(self) -> int:
        """Number of queries."""
        return len(self.asked)

    @property
    def variances(self) -> Floats:
        """Variance of the answer to each query."""
        return np.asarray(np.einsum("ij,ij->i", self.told, self.coefficients))

    @property
    def covariance(self) -> Floats:
        """Covariances of the answers."""
        return self.told @ self.coefficients.T

    @property
    def residuals(self) -> Floats:
        """What is left of each query."""
        return self.asked - self.told

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        """Which queries are determined."""
        left = np.abs(self.residuals).max(axis=1, initial=0.0)
        return np.asarray(left <= RESIDUAL * np.abs(self.asked).max(axis=1, initial=0.0))

    def mixed(self, mixtures: Floats) -> Floats:
        """Return the coefficients of mixtures of the answers, shape (mixtures, queries): shape (mixtures, classes)."""
        return mixtures @ self.coefficients


class ByClasses:
    """How the counts of some groups follow from products: a `Reconstruction`, of numbers of unit variance.

    Parameters
    ----------
    part
        What is asked: the count of every cell of its axes.
    boxes
        The same along each attribute: each count is the sum of those of the boxes.
    information
        What was measured; in passing where some of it is only supposed.
    """

    def __init__(self, part: ProductTerm, boxes: Boxes, information: ClassInformation) -> None:
        self._part, self._boxes, self.information = part, boxes, information
        self._told, self._bases = information.told, information.bases
        self._keys = [place for place, side in enumerate(boxes[0]) if side.apart]
        names = [self._told.names[place] for place in self._keys]
        self._order = [names.index(axis.attribute) for axis in part.axes]  # of the axes among the attributes
        self._levels = [np.asarray(axis.levels, dtype=np.intp) for axis in part.axes]
        self._sides = [
            basis if place in self._keys else Asked(basis, [sides[place] for sides in boxes])
            for place, basis in enumerate(self._bases)
        ]

    @property
    def names(self) -> Sequence[str]:
        """The attributes that are looked at."""
        return self._told.names

    @property
    def every(self) -> bool:
        """Whether all that was measured of the attributes is here."""
        return self._told.every

    @property
    def products(self) -> bool:
        """Whether all that was measured of them are products."""
        return self._told.products

    @property
    def classes(self) -> int:
        """How many products of classes of levels there are."""
        return self._told.classes

    def sources(self) -> Iterator[tuple[Repeats, slice]]:
        """Yield the measurements, and where their numbers are among all."""
        for known, first in self._told.measured:
            yield known, slice(first, first + known.weighted.size)

    @property
    def numbers(self) -> Floats:
        """The noisy numbers of all measurements, each over its standard deviation."""
        told = [known.weighted / math.sqrt(known.precision) for known, _ in self.sources()]
        return np.concatenate(told)

    @cached_property
    def _takes(self) -> tuple[list[list[int]], Indices]:
        """Which boxes groups are in: of each pattern these, and the pattern of each group in the domain's order."""
        chosen = [self._levels[self._order.index(at)] for at in range(len(self._keys))]
        patterns = np.zeros([levels.size for levels in chosen], dtype=np.intp)
        for number, sides in enumerate(self._boxes):
            inside = np.ones([1] * len(chosen), dtype=bool)
            for at, (place, levels) in enumerate(zip(self._keys, chosen, strict=True)):
                inside = inside & _shaped(sides[place].levels[levels], at, len(chosen))
            patterns += inside.astype(np.intp) << number
        found, which = np.unique(patterns, return_inverse=True)
        boxes = [[number for number in range(len(self._boxes)) if pattern >> number & 1] for pattern in found.tolist()]
        return boxes, which.reshape(patterns.shape)

    @cached_property
    def _blocks(self) -> dict[Choice, _Block | InPassing]:
        return {choice: self._solved(choice) for choice in itertools.product(*self._kinds)}

    @property
    def choices(self) -> int:
        """How many products of kinds of functions the question has a part in."""
        return math.prod(map(len, self._kinds))

    @cached_property
    def _kinds(self) -> list[list[tuple[int, int] | None]]:
        """The kinds of functions along each attribute that the question has a part in."""
        kinds: list[list[tuple[int, int] | None]] = []
        for place, side in enumerate(self._sides):
            if isinstance(side, Asked):
                of = [(kind, number) for kind, own in side.directions.items() for number in range(own.shape[1])]
            else:
                levels = self._levels[self._order.index(self._keys.index(place))]
                some = set(side.kinds[side.labels[levels]].tolist())
                of = [(kind, 0) for kind in side.slices if kind in some]
            kinds.append([None, *of])
        return kinds

    def _solved(self, choice: Choice) -> _Block | InPassing:
        """Return the question over the classes of attributes whose kind is the first, and how it is answered."""
        block = self.information.block(tuple(None if kind is None else kind[0] for kind in choice))
        each = [self._asked(sides, number, choice) for number, sides in enumerate(self._boxes)]
        empty = np.zeros_like(each[0])
        asked = np.concatenate([sum((each[box] for box in boxes), empty) for boxes in self._takes[0]])
        if len(each) > 1:  # what boxes have of opposite signs is nothing but for rounding
            asked[np.abs(asked) <= ROUNDING * np.max(np.abs(each))] = 0.0
        single = len(self._boxes) == 1 and len(self._keys) == len(self._sides)
        if self.information.passing and (quick := block.in_passing(asked, single=single)) is not None:
            return quick
        return _Block(asked, *refined(block, asked, block.inverse if single else block.applied(asked)))

    def _asked(self, sides: Sides, number: int, choice: Choice) -> Floats:
        """Return what is asked of a box in a choice of kinds, by the classes of groups: shape (queries, classes)."""
        asked: Floats = np.ones((1, 1), dtype=np.float64)
        for place in reversed(range(len(choice))):
            side, kind = self._sides[place], choice[place]
            if not isinstance(side, Asked):
                asked = np.asarray(np.kron(np.eye(side.count), asked)) if kind is None else asked
            elif kind is None:
                asked = np.asarray(np.kron(side.along[number : number + 1], asked))
            else:
                asked = asked * side.directions[kind[0]][number, kind[1]]
        return asked

    @cached_property
    def _by_class(self) -> Floats:
        """Variances by pattern and by class of the attributes asked apart, in the domain's order."""
        total = np.zeros([len(self._takes[0]), *(self._bases[place].count for place in self._keys)])
        for choice, block in self._blocks.items():
            known = np.where(block.determined, block.variances, np.inf)
            shape = [self._bases[place].count if choice[place] is None else 1 for place in self._keys]
            share = np.ones(1)
            for place in self._keys:
                kind = choice[place]
                share = np.multiply.outer(share, self._bases[place].share(None if kind is None else kind[0]))
            known = np.broadcast_to(known.reshape([-1, *shape]), total.shape)
            with np.errstate(invalid="ignore"):
                total += np.where(share > 0, known * share, 0.0)
        return total

    def _at_levels(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return what is known by pattern and class for every answer, shape (answers,)."""
        patterns, labels = self._takes[1], []
        for at, place in enumerate(self._keys):
            own = self._bases[place].labels[self._levels[self._order.index(at)]]
            labels.append(_shaped(own, at, len(self._keys)))
        return np.asarray(values[(patterns, *labels)]).transpose(self._order).reshape(-1)

    @property
    def alike(self) -> Indices:
        """For each answer one whose noise has the same law: by symmetry in the levels of a class."""
        shape = [len(self._takes[0]), *(self._bases[place].count for place in self._keys)]
        kinds = self._at_levels(np.arange(math.prod(shape)).reshape(shape))
        _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
        return np.asarray(first[which.reshape(-1)])

    def total_variance(self) -> float:
        """Return the sum of `variances`."""
        return float(self.variances().sum())

    def variances(self) -> Floats:
        """Return the variance of each answer, infinite where it is not determined, shape (answers,)."""
        return np.asarray(self._at_levels(self._by_class), dtype=float)

    def answers(self, noisy: Floats) -> Floats:
        """Return the answers that follow from noisy numbers."""
        vector = self._vector(noisy)
        patterns = len(self._takes[0])
        found = np.zeros([patterns, *(self._bases[place].labels.size for place in self._keys)])
        for choice, block in self._blocks.items():
            free, bound, own = self._free(choice)
            inside = vector[self._functions(choice, range(len(choice)))].transpose(free + bound)
            values = block.coefficients @ inside.reshape(math.prod(inside.shape[: len(free)]), -1)
            apart = [at for at in bound if at in self._keys]  # of the others there is one function
            many = [inside.shape[len(free) + bound.index(at)] for at in apart]
            values = values.reshape([patterns, *(self._bases[place].count for place in own), *many])
            order = [0, *(1 + at for at in np.argsort(own + apart))]
            found[(slice(None), *self._functions(choice, self._keys))] += values.transpose(order)
        for at, place in enumerate(self._keys):
            found = _along(found, self._bases[place].at_levels, at + 1)
        levels = [_shaped(self._levels[self._order.index(at)], at, len(self._keys)) for at in range(len(self._keys))]
        return np.asarray(found[(self._takes[1], *levels)]).transpose(self._order).reshape(-1)

    def weights(self, rows: Indices) -> Floats:
        """Return what each number counts for in some answers, shape (rows, numbers)."""
        return self._of_numbers(self._in_functions(rows))

    def mixed(self, mixture: Floats) -> Floats:
        """Return what each number counts for in a combination of all answers, shape (1, numbers)."""
        return self.mixtures(mixture[None])

    def mixtures(self, mixtures: Floats) -> Floats:
        """Return what each number counts for in combinations of all answers, shape (combinations, numbers)."""
        return self._of_numbers(self._in_all_functions(mixtures))

    def _in_all_functions(self, mixtures: Floats) -> Floats:
        """Return combinations of all answers in the functions of the levels asked apart, as `_in_functions` does."""
        patterns, count = len(self._takes[0]), len(mixtures)
        asked = np.zeros([count, patterns, *(self._bases[place].labels.size for place in self._keys)])
        values = mixtures.reshape([count, *(levels.size for levels in self._levels)])
        values = values.transpose([0, *(1 + at for at in np.argsort(self._order))])
        levels = [_shaped(self._levels[self._order.index(at)], at, len(self._keys)) for at in range(len(self._keys))]
        groups: Any = slice(None), self._takes[1], *levels
        asked[groups] = values
        for at, place in enumerate(self._keys):
            asked = _along(asked, self._bases[place].of_levels, at + 2)
        return asked

    def peaks(self, mixture: Floats) -> Floats:
        """Return the most that a number of each of the `sources` counts for in a combination of all answers.

        What numbers count for is not written out, of which there may be a million.
        """
        over = _AtLevels(self._coefficients(self._in_all_functions(mixture[None]))[0], self._sides, self._bases)
        largest = over.largest(list(self._told.precisions))
        place = {first: number for number, (_, first) in enumerate(self._told.measured)}
        found = np.zeros(len(place))
        for known, boxes, part, first in self._told.parts:
            share = abs(part.weight) / part.spread * math.sqrt(known.precision)
            if part.totals is not None:
                share *= float(np.abs(part.totals).max(initial=0.0))
            found[place[first]] = max(found[place[first]], largest[boxes] * share)
        return found

    def in_turn(self, row: int) -> Iterator[Floats]:
        """Yield what the numbers of each of the `sources` count for in an answer, shape (numbers,)."""
        found, first = np.zeros((1, self._told.size)), 0
        for end in self._filled(self._in_functions(np.array([row])), found):
            yield found[0, first:end]
            first = end

    def _of_numbers(self, asked: Floats) -> Floats:
        """Return what each number counts for in answers, which are in the functions of the levels asked apart."""
        found = np.zeros((len(asked), self._told.size))
        for _ in self._filled(asked, found):
            pass
        return found

    def _filled(self, asked: Floats, found: Floats) -> Iterator[int]:
        """Write what each number counts for where nothing was; yield up to where, behind each measurement."""
        over, count = _AddedUp(self._coefficients(asked), self._sides, self._bases), len(asked)
        done = 0
        summed: dict[Boxes, Floats] = {}
        for known, boxes, part, first in self._told.parts:
            if first > done:
                yield first
                done = first
            if boxes not in summed:
                summed[boxes] = sum([over.told(sides) for sides in boxes[1:]], over.told(boxes[0]))
            own = summed[boxes]
            if math.prod(axis.size for axis in part.axes) < math.prod(own.shape[1:]):  # some of the levels
                own = own[np.ix_(np.arange(count), *self._levels_of(part))]
            own = own.transpose([0, *(1 + at for at in self._places_of(part))])
            share = part.weight / part.spread * math.sqrt(known.precision)
            if part.totals is None and part.run is not None:
                numbers = found[:, first + part.run.start : first + part.run.stop]
                np.multiply(own, share, out=numbers.reshape(own.shape))  # where nothing was before
                continue
            own = own.reshape(count, len(part.columns)) * share
            if part.totals is None:
                found[:, first + part.columns] += own
            else:
                found[:, first + part.columns] += own[:, :, None] * part.totals
        yield self._told.size

    def jointly(self) -> tuple[Floats, Floats]:
        """Return the covariances of all answers, and what is left of each, as for `joint_measurement.together`."""
        return self._jointly

    @cached_property
    def _jointly(self) -> tuple[Floats, Floats]:
        rows = self._in_functions(np.arange(math.prod(map(len, self._levels))))
        covariance, left = np.zeros((rows.shape[0],) * 2), [np.zeros((rows.shape[0], 0))]
        for choice, block in self._blocks.items():
            inside, _ = self._inside(rows, choice)
            inside = inside.reshape(rows.shape[0], -1, block.count)
            wide = (inside @ block.covariance).reshape(rows.shape[0], -1)
            covariance += wide @ inside.reshape(rows.shape[0], -1).T
            if isinstance(block, _Block) and not block.determined.all():
                square = np.asarray(np.linalg.qr(block.residuals.T, mode="r")).T  # as much is left, in fewer numbers
                left.append((inside @ square).reshape(rows.shape[0], -1))
        return (covariance + covariance.T) / 2, np.concatenate(left, axis=1)

    def _inside(self, asked: Floats, choice: Choice) -> tuple[Floats, list[int]]:
        """Return answers in the functions of a choice of kinds, and how many of each attribute whose kind is another.

        Shape (answers, functions of the latter..., patterns, classes of the others...).
        """
        _, bound, own = self._free(choice)
        apart = [place for place in bound if place in self._keys]
        inside = asked[(slice(None), slice(None), *self._functions(choice, self._keys))]
        many = dict(zip(apart, (inside.shape[2 + self._keys.index(place)] for place in apart), strict=True))
        order = [0, *(2 + self._keys.index(place) for place in apart), 1, *(2 + self._keys.index(at) for at in own)]
        return inside.transpose(order), [many.get(place, 1) for place in bound]

    def _free(self, choice: Choice) -> tuple[list[int], list[int], list[int]]:
        """Return the attributes whose kind is the first, the others, and those of the former that are asked apart."""
        free = [place for place, kind in enumerate(choice) if kind is None]
        bound = [place for place, kind in enumerate(choice) if kind is not None]
        return free, bound, [place for place in free if place in self._keys]

    def _functions(self, choice: Choice, places: Iterable[int]) -> tuple[slice, ...]:
        """Return which functions of some attributes are of a choice of kinds."""
        found = []
        for place in places:
            side, kind = self._sides[place], choice[place]
            if isinstance(side, Asked):
                found.append(side.place(kind))
            else:
                found.append(side.place(None if kind is None else kind[0]))
        return tuple(found)

    def _in_functions(self, rows: Indices) -> Floats:
        """Return some answers in the functions of levels asked apart, shape (rows, patterns, functions...)."""
        patterns = self._takes[1].transpose(self._order).reshape(-1)[rows]
        levels: dict[int, Indices] = {}
        if self._keys:
            for at, own, chosen in zip(
                self._order, self._levels, np.unravel_index(rows, [own.size for own in self._levels]), strict=True
            ):
                levels[self._keys[at]] = own[chosen]
        found = (patterns[:, None] == np.arange(len(self._takes[0]))).astype(float)
        for place in self._keys:
            along = self._bases[place].at(levels[place])
            found = found[..., None] * along.reshape(rows.size, *[1] * (found.ndim - 1), along.shape[1])
        return np.asarray(found)

    def _coefficients(self, asked: Floats) -> Floats:
        """Return the coefficients of answers in the functions of the attributes, shape (answers, functions...)."""
        sizes = [side.count if isinstance(side, Asked) else side.labels.size for side in self._sides]
        found = np.zeros([len(asked), *sizes])
        for choice, block in self._blocks.items():
            free, bound, _ = self._free(choice)
            inside, many = self._inside(asked, choice)
            inside = block.mixed(inside.reshape(-1, block.count))
            inside = inside.reshape([len(asked), *many, *(self._bases[place].count for place in free)])
            order = np.argsort(bound + free) + 1
            found[(slice(None), *self._functions(choice, range(len(choice))))] = inside.transpose([0, *order])
        return found

    def _vector(self, noisy: Floats) -> Floats:
        """Return what noisy numbers say, each times its precision, in the functions of the attributes.

        Shape (functions...). What takes part in a sum are whole classes, as in `_AddedUp`.
        """
        told = self._told
        sums: dict[Sides, Floats] = {}
        for known, boxes, part, first in told.parts:
            numbers = noisy[first : first + known.weighted.size] * math.sqrt(known.precision)
            own = part.answers(numbers) * (part.weight / part.spread)
            own = own.reshape([axis.size for axis in part.axes]).transpose(np.argsort(self._places_of(part)))
            for sides in boxes:
                if sides not in sums:
                    sums[sides] = np.zeros([basis.labels.size if one.apart else 1 for basis, one in self._along(sides)])
                apart = sums[sides].reshape([basis.labels.size for basis, one in self._along(sides) if one.apart])
                apart[np.ix_(*self._levels_of(part))] += own
        alike: dict[tuple[bool, ...], Floats] = {}  # by what is told apart: levels of that, classes of the others
        for sides, values in sums.items():
            for place, (basis, side) in enumerate(self._along(sides)):
                along = side.levels.astype(float)
                values = values * _shaped(along if side.apart else basis.sums(along), place, len(sides))
            pattern = tuple(side.apart for side in sides)
            alike[pattern] = alike[pattern] + values if pattern in alike else values
        vector = np.zeros([one.count if isinstance(one, Asked) else one.labels.size for one in self._sides])
        for pattern, values in alike.items():
            for place in np.flatnonzero(pattern).tolist():
                values = _along(values, self._sides[place].of_levels, place)
            counts = zip(pattern, self._bases, strict=True)
            vector[tuple(slice(None) if one else slice(basis.count) for one, basis in counts)] += values
        return vector

    def _along(self, sides: Sides) -> Iterator[tuple[Basis, LevelsAsked]]:
        return zip(self._bases, sides, strict=True)

    def _places_of(self, part: ProductTerm) -> list[int]:
        """Return where each axis of a part is among those of its attributes in the domain's order."""
        names = [name for name in self._told.names if name in {axis.attribute for axis in part.axes}]
        return [names.index(axis.attribute) for axis in part.axes]

    def _levels_of(self, part: ProductTerm) -> list[Indices]:
        """Return the levels of the axes of a part, in the domain's order of their attributes."""
        levels = {axis.attribute: np.asarray(axis.levels, dtype=np.intp) for axis in part.axes}
        return [levels[name] for name in self._told.names if name in levels]


def _shaped(values: NDArray[Any], place: int, count: int) -> NDArray[Any]:
    """Return values along one of so many sides."""
    return values.reshape([-1 if at == place else 1 for at in range(count)])


def _along(values: Floats, transform: Callable[[Floats], Floats], place: int) -> Floats:
    """Return values transformed along one of their sides."""
    return np.moveaxis(transform(np.moveaxis(values, place, -1)), -1, place)


class _AddedUp:
    """Coefficients of all cells, added up over what measurements do not tell apart: what many have in common once.

    What takes part in a sum are whole classes: functions that add up to nothing over each say nothing of it. So cells
    are never written out, but for the levels that are told apart.

    Parameters
    ----------
    functions
        The coefficients in the functions of the attributes, shape (rows, functions...).
    sides, bases
        These functions, and those that what was measured falls into.
    """

    def __init__(self, functions: Floats, sides: Sequence[Basis | Asked], bases: Sequence[Basis]) -> None:
        self._sides, self._bases, self._places = sides, bases, len(sides)
        self._over: dict[tuple[bytes | None, ...], Floats] = {(): functions}  # what the latest places were summed over
        self._at_levels: dict[tuple[bytes | None, ...], Floats] = {}

    def told(self, sides: Sides) -> Floats:
        """Return what is counted in the numbers of a box, shape (rows, levels told apart...)."""
        summed = tuple(None if side.apart else side.mask for side in sides)
        if summed not in self._at_levels:
            found, at = self._added_up(summed), 1
            for place, side in enumerate(sides):
                if side.apart:
                    found, at = _along(found, self._sides[place].at_levels, at), at + 1
            self._at_levels[summed] = found
        found = self._at_levels[summed]
        masks = [side.levels for side in sides if side.apart]
        for at, mask in enumerate(masks):
            if not mask.all():
                found = found * _shaped(mask, at + 1, found.ndim)
        return found

    def _added_up(self, masks: tuple[bytes | None, ...]) -> Floats:
        """Return the coefficients added up over the levels of the last so many places; None tells them apart."""
        if masks not in self._over:
            over, place = self._added_up(masks[1:]), self._places - len(masks)
            if masks[0] is not None:
                basis, shape = self._bases[place], over.shape
                counted = basis.sums(np.frombuffer(masks[0], dtype=bool).astype(float))
                before, behind = shape[: place + 1], shape[place + 2 :]
                rows = over.reshape(math.prod(before), shape[place + 1], math.prod(behind))[:, : basis.count]
                over = np.matmul(counted, rows).reshape(before + behind)
            self._over[masks] = over
        return self._over[masks]


class _AtLevels:
    """Coefficients of an answer at levels, of which it is looked what is largest in each of many boxes: all at once.

    Parameters
    ----------
    functions
        The coefficients in the functions of the attributes, shape (functions...).
    sides, bases
        As for `_AddedUp`.
    """

    def __init__(self, functions: Floats, sides: Sequence[Basis | Asked], bases: Sequence[Basis]) -> None:
        self._functions, self._sides, self._bases = functions, sides, bases

    def largest(self, each: Sequence[Boxes]) -> dict[Boxes, float]:
        """Return the largest of what is counted in the numbers of some boxes together."""
        alike: dict[tuple[bool, ...], list[Boxes]] = {}
        for boxes in each:
            alike.setdefault(tuple(side.apart for side in boxes[0]), []).append(boxes)
        found: dict[Boxes, float] = {}
        for apart, some in alike.items():
            counted = self._counted(apart, [sides for boxes in some for sides in boxes])
            starts = np.cumsum([0, *(len(boxes) for boxes in some[:-1])])
            together = np.abs(np.add.reduceat(counted, starts, axis=0)).max(axis=1, initial=0.0)
            found.update(zip(some, together.tolist(), strict=True))
        return found

    def _counted(self, apart: tuple[bool, ...], each: Sequence[Sides]) -> Floats:
        """Return what is counted in the numbers of some boxes that tell the same apart, shape (boxes, levels)."""
        coefficients, count = self._functions, len(each)
        taking, summing = np.ones((count, 1)), np.ones((count, 1))
        for place, basis in enumerate(self._bases):
            masks = np.frombuffer(b"".join([sides[place].mask for sides in each]), dtype=bool).reshape(count, -1)
            if apart[place]:
                coefficients = _along(coefficients, self._sides[place].at_levels, place)
                taking = (taking[:, :, None] * masks[:, None]).reshape(count, -1)
            else:
                coefficients = coefficients.take(np.arange(basis.count), place)
                summing = (summing[:, :, None] * basis.sums(masks.astype(float))[:, None]).reshape(count, -1)
        kept = [place for place, one in enumerate(apart) if one]
        others = [place for place, one in enumerate(apart) if not one]
        levels = coefficients.transpose(kept + others).reshape(taking.shape[1], summing.shape[1])
        return np.asarray((summing @ levels.T) * taking)


def wider_names(
    part: ProductTerm, names: tuple[str, ...], domain: Domain, known: Collection[Repeats]
) -> tuple[str, ...]:
    """Return the attributes of a question and others over which more is told of it, as far as cells stay few.

    A table of some rows tells something of all rows where the others are told as well. Of what tells too many classes
    of levels apart there, the least important is left out.

    Parameters
    ----------
    part, names, domain, known
        As for `by_classes`.
    """
    if len(known) > MOST_BESIDE:
        return names
    chosen, cells = set(names), math.prod(domain[name].size for name in names)
    told = [set(each.measurement.attributes) for each in known]
    others = {name: sum(name in one for one in told) for name in domain.names if name not in chosen}
    for name in sorted(others, key=lambda name: (-others[name], domain[name].size)):
        if others[name] and cells * domain[name].size <= FEW_CELLS:
            chosen.add(name)
            cells *= domain[name].size
    return tuple(name for name in domain.names if name in chosen)


def by_classes(
    part: ProductTerm,
    names: Sequence[str],
    domain: Domain,
    known: Iterable[Repeats],
    *,
    whole: bool = False,
    apart: bool = False,
    before: ByClasses | None = None,
    most: int | None = None,
) -> ByClasses | None:
    """Return how a question follows from what was measured, as far as that is products.

    Parameters
    ----------
    part
        The question.
    names
        Its attributes, in the domain's order.
    domain
        The table's declared domain.
    known
        What was measured, the most important first: of what has no room, what comes later is left out.
    whole
        Whether to return None rather than leave out anything.
    apart
        Whether the question tells levels apart as well: as what is supposed beside `known` may do.
    before
        The same question over less, where the rest is only supposed: it is then looked at in passing.
    most
        As for `ToldProducts`.

    Returns
    -------
    None where the question is no count of groups, or of too many cells or classes.
    """
    asked = asked_over(part, names, domain)
    if asked is None:
        return None
    found = ToldProducts(names, domain, asked if apart or before is not None else (), most)
    if not found.fits:
        return None
    for each in known:
        found.put(each)
        if whole and not found.every:
            return None
    if not found.parts:
        return None
    return ByClasses(part, asked, ClassInformation(found, None if before is None else before.information))


def with_supposed(part: ProductTerm, recorded: ClassInformation, supposed: Mapping[str, Repeats]) -> ByClasses | None:
    """Return how a question follows from what was recorded and what is supposed beside it, looked at in passing.

    Parameters
    ----------
    part
        The question.
    recorded
        What was measured, as far as it has room.
    supposed
        What was asked of which measurements are supposed, as it is with them.

    Returns
    -------
    None where that has no room beside, or tells levels apart that nothing recorded does: blocks have to be made anew.
    """
    asked = asked_over(part, recorded.told.names, recorded.told.domain)
    if asked is None or (told := recorded.told.beside(supposed)) is None:
        return None
    information = ClassInformation(told, recorded)
    return ByClasses(part, asked, information) if information.shares else None


def asked_over(part: ProductTerm, names: Sequence[str], domain: Domain) -> Boxes | None:
    """Return what a question asks along each of some attributes, in each of the boxes that its rows fall into.

    None where it is no count of groups, or of too many cells.
    """
    asked = boxes_of(part, names, domain)
    if asked is None or math.prod(domain[name].size for name in names) > MOST_CELLS:
        return None
    for axis in part.axes:
        some = np.any([sides[names.index(axis.attribute)].levels for sides in asked], axis=0)
        if len(axis.levels) != int(some.sum()):
            return None  # a group of no row
    return asked

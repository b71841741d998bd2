"""Least squares over the numbers that were measured, of conditions of any kind, where there are too many cells.

Conditions that no product has a place for tell nearly all cells apart, and what one table says of another goes through
attributes that a question does not ask about. Of few numbers it is known what all of them say together: see
`inference.row_space`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import ReadyRows, RowSpace, SolvedRows
from dpnotebook.planner.atoms import places
from dpnotebook.planner.known_part import Name, Observation
from dpnotebook.planner.product_terms import ProductTerm, is_identity, unique_columns
from dpnotebook.planner.repeats import Repeats, told

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CELLS = 50_000  # of the attributes that are looked at together
MOST_RANK = 1_800  # independent numbers that are solved for together, and
MOST_NUMBERS = 2_600  # numbers,
MOST_BESIDE_ALL = 4_000  # numbers beside those of all cells
MOST_ENTRIES = 2 * 10**6  # of their queries, and of a question's over the cells
MOST_DIFFERENT = 300  # different queries
BESIDE = 400  # rows of what is to be measured next, that always have room
NOTHING = 1e-12  # precision of rows of which no measurement counts any more
FEW = 64  # answers whose laws are worked out one by one
POWERS = (2, 3, 4, 6)
DIGITS = 7  # of the logarithm of a sum of powers, that are equal where laws are

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class MeasuredRows:
    """The queries of measurements over some attributes, as far as there is room for all.

    Parameters
    ----------
    names, domain
        The attributes, in the domain's order.
    """

    def __init__(self, names: Sequence[str], domain: Domain) -> None:
        self.names, self.domain = tuple(names), domain
        self.space = RowSpace(math.prod(domain[name].size for name in names))
        self.every = True  # whether all had room
        self._places: dict[Name, tuple[slice, Indices]] = {}  # where its rows are, and which of its queries they are
        self._without: frozenset[Name] = frozenset()  # what had no room: it gets none later, whenever this was made
        self._ready: tuple[bytes, ReadyRows] | None = None  # for the latest precisions
        self._latest: tuple[bytes, dict[bytes, int], SolvedRows] | None = None  # the latest questions

    def copy(self) -> MeasuredRows:
        """Return a copy that can be added to without changing this one."""
        twin = copy.copy(self)
        twin.space, twin._places = self.space.copy(), dict(self._places)
        return twin

    def put(self, known: Iterable[Repeats], more: int = 0) -> None:
        """Add the queries of measurements that are not here yet, as far as there is room, and so many rows more."""
        for each in known:
            for one in told(each, self.names, self.domain):
                if one.name in self._places or (one.name in self._without and not more):
                    continue
                if not self._put(one, more):
                    self.every, self._without = False, self._without | {one.name}

    def _put(self, one: Observation, more: int) -> bool:
        space = self.space
        if space.rank > MOST_RANK + more or (found := self.queries(one.part)) is None:
            return False
        kept = np.flatnonzero(np.diff(found.indptr))  # of no cell there is nothing but noise
        most = MOST_BESIDE_ALL if space.apart.all() else MOST_NUMBERS  # where every cell is known, there is no basis
        many = kept.size < found.nnz and space.numbers + kept.size > most + more
        if many or space.rows.nnz + found.nnz > MOST_ENTRIES:
            return False
        first = space.alone.size
        if kept.size:
            space.add(found[kept])
        self._places[one.name] = slice(first, first + kept.size), kept
        return True

    def queries(self, part: ProductTerm) -> csr_array | None:
        """Return the queries of a part over the cells, shape (queries, cells); None where they are too many."""
        from scipy.sparse import csr_array

        own, count = places(part.axes, part.where, self.domain, self.names), part.operator.shape[0]
        inside = np.flatnonzero(own >= 0)
        if is_identity(part.operator):
            values = np.full(inside.size, float(part.weight))
            return csr_array((values, (own[inside], inside)), shape=(count, own.size))
        found = unique_columns(part.operator, MOST_ENTRIES)
        if found is None or count * inside.size > MOST_ENTRIES:
            return None
        columns, classes = found
        inside = inside[classes[own[inside]] >= 0]
        values = columns[:, classes[own[inside]]] * part.weight
        rows, at = np.nonzero(values)
        return csr_array((values[rows, at], (rows, inside[at])), shape=(count, own.size))

    def told_apart(self) -> tuple[csr_array, Indices]:
        """Return the rows and a number of each, by which it tells cells apart; tables of single cells have one."""
        numbers = np.arange(self.space.alone.size)
        for place, (at, _) in enumerate(self._places.values()):
            own = numbers[at]  # a view
            own[self.space.alone[at]] = numbers.size + place
        return self.space.rows, numbers

    def ready(self, precision: Floats) -> ReadyRows:
        """Return the rows with the precision of each, ready for questions."""
        key = precision.tobytes()
        if self._ready is None or self._ready[0] != key:
            self._ready = key, self.space.ready(precision)
        return self._ready[1]

    def precisions(self, known: Iterable[Repeats]) -> Floats:
        """Return the precision of each row, given all measurements."""
        found = np.full(self.space.alone.size, NOTHING)  # of what was refined nothing is left
        for _, parts in self.parts(known):
            for one, at, _ in parts:
                found[at] = one.precision
        return found

    def solved(self, asked: csr_array, known: Iterable[Repeats], *, keep: bool = True) -> SolvedRows:
        """Return how questions are answered, shape (questions, cells), given all measurements; and keep it, or not."""
        return self._solved(asked, self.precisions(known), keep=keep)

    def _solved(self, asked: csr_array, precision: Floats, *, keep: bool = True) -> SolvedRows:
        if not keep:
            return self.ready(precision).solved(asked)
        key, rows = precision.tobytes(), _texts(asked)
        if self._latest is not None and self._latest[0] == key and self._latest[1].keys() >= set(rows):
            _, places, found = self._latest
            return found.some(np.array([places[row] for row in rows], dtype=np.intp))
        solved = self.ready(precision).solved(asked)
        self._latest = key, {row: place for place, row in enumerate(rows)}, solved
        return solved

    def now(self, known: Iterable[Repeats]) -> ReadyRows | None:
        """Return the rows, ready for questions, given all measurements; None where some are only supposed."""
        return self.ready(self.precisions(known))

    def parts(self, known: Iterable[Repeats]) -> Iterator[tuple[Repeats, list[tuple[Observation, slice, Indices]]]]:
        """Yield measurements that are here, and of each part of theirs where its rows are."""
        for each in known:
            asked = told(each, self.names, self.domain)
            found = [(one, *self._places[one.name]) for one in asked if one.name in self._places]
            if found:
                yield each, found


class RowsBeside(MeasuredRows):
    """The same with few measurements beside, which are supposed: what was worked out of the others is used again.

    Parameters
    ----------
    rows
        The queries of what was measured.
    recorded
        The measurements.
    """

    def __init__(self, rows: MeasuredRows, recorded: Iterable[Repeats]) -> None:
        self.__dict__.update(rows.__dict__)
        self._places, self._rows = dict(rows._places), rows
        self._before = rows.precisions(recorded)
        self._more: list[tuple[slice, csr_array, float]] = []  # where numbers stand, their queries and their precision
        self._numbers = self._before.size

    def puts(self, supposed: Iterable[Repeats]) -> bool:
        """Add measurements, as they are with what is supposed; return whether they are few, and more precise."""
        first = count = 0
        for each in supposed:
            for one in told(each, self.names, self.domain):
                if one.name in self._rows._places:
                    at, _ = self._rows._places[one.name]
                    found, gained = self.space.rows[at], one.precision - self._before[at].max(initial=0.0)
                elif (queries := self.queries(one.part)) is not None:
                    kept = np.flatnonzero(np.diff(queries.indptr))
                    first, found, gained = self._numbers, queries[kept], one.precision
                    at = slice(first, first + kept.size)
                    self._places[one.name], self._numbers = (at, kept), at.stop
                else:
                    return False
                count += found.shape[0]
                if count > BESIDE or gained <= 0:
                    return False
                self._more.append((at, found, gained))
        return count > 0

    def now(self, known: Iterable[Repeats]) -> None:
        """Return nothing: some are only supposed."""

    def told_apart(self) -> tuple[csr_array, Indices]:
        """Return the rows, and those beside, and a number of each by which it tells cells apart."""
        from scipy.sparse import vstack

        rows, numbers = self._rows.told_apart()
        further = vstack([found for _, found, _ in self._more])
        after = numbers.max(initial=0) + 1 + np.arange(further.shape[0])
        return vstack([rows, further]).tocsr(), np.concatenate([numbers, after])

    def solved(self, asked: csr_array, known: Iterable[Repeats], *, keep: bool = True) -> SolvedRows:
        """Return how questions are answered, shape (questions, cells)."""
        from scipy.sparse import vstack

        own = np.concatenate([np.full(found.shape[0], gained) for _, found, gained in self._more])
        sizes = np.maximum(abs(asked).max(axis=1).toarray().ravel(), NOTHING)
        before = self._rows._solved(asked, self._before, keep=keep)
        further = self._rows._solved(vstack([found for _, found, _ in self._more]).tocsr(), self._before)
        across = (before.weights / self._before) @ further.weights.T
        found, gain = beside(before, further, across, own, sizes)
        weights, first = np.zeros((asked.shape[0], self._numbers)), 0
        weights[:, : self._before.size] = found.weights
        for at, queries, _ in self._more:
            weights[:, at] += gain[:, first : first + queries.shape[0]]
            first += queries.shape[0]
        return replace(found, weights=weights)


class ByRows:
    """How the answers to a question follow from what was measured: a `Reconstruction`, of numbers of unit variance.

    Parameters
    ----------
    part
        What is asked: disjoint counts.
    rows
        The queries of what was measured.
    known
        The measurements.
    """

    products = False

    def __init__(self, part: ProductTerm, rows: MeasuredRows, known: Iterable[Repeats]) -> None:
        self._part, self._rows = part, rows
        self._told = list(rows.parts(known))
        self.every = rows.every

    def sources(self) -> Iterator[tuple[Repeats, slice]]:
        """Yield the measurements, and where their numbers are among all."""
        first = 0
        for known, _ in self._told:
            yield known, slice(first, first + known.weighted.size)
            first += known.weighted.size

    @property
    def numbers(self) -> Floats:
        """The noisy numbers of all measurements, each over its standard deviation."""
        return np.concatenate([known.weighted / math.sqrt(known.precision) for known, _ in self.sources()])

    @cached_property
    def _solved(self) -> SolvedRows:
        asked = self._rows.queries(self._part)
        assert asked is not None
        return self._rows.solved(asked, [known for known, _ in self._told])

    def variances(self) -> Floats:
        """Return the variance of each answer, infinite where it is not determined, shape (answers,)."""
        solved = self._solved
        return np.where(solved.determined, np.diagonal(solved.covariance), np.inf)

    def total_variance(self) -> float:
        """Return the sum of `variances`."""
        return float(self.variances().sum())

    @cached_property
    def _weights(self) -> Floats:
        """What each number counts for in the answers, shape (answers, numbers)."""
        return self._of_numbers(self._solved.weights)

    def _of_numbers(self, of_rows: Floats) -> Floats:
        """Return what each noisy number counts for, given what each row does; shape (answers, numbers)."""
        found = []
        for known, parts in self._told:
            own = np.zeros((len(of_rows), known.weighted.size))
            for one, at, kept in parts:
                weights = of_rows[:, at] / math.sqrt(known.precision)
                columns = one.part.columns[kept]
                if one.part.totals is None:
                    own[:, columns] += weights
                else:
                    own[:, columns] += weights[:, :, None] * one.part.totals
            found.append(own)
        return np.concatenate(found, axis=1)

    def weights(self, rows: Indices) -> Floats:
        """Return what each number counts for in some answers, shape (rows, numbers)."""
        return self._weights[rows]

    def answers(self, noisy: Floats) -> Floats:
        """Return the answers that follow from noisy numbers."""
        return self._weights @ noisy

    def mixed(self, mixture: Floats) -> Floats:
        """Return what each number counts for in a combination of all answers, shape (1, numbers)."""
        return (mixture @ self._weights)[None]

    def jointly(self) -> tuple[Floats, Floats] | None:
        """Return the covariances of all answers, and what is left of each, as for `joint_measurement.together`."""
        solved = self._solved
        if solved.determined.all():
            return solved.covariance, np.zeros((solved.determined.size, 0))
        left = np.where(solved.determined[:, None], 0.0, solved.residuals)
        return solved.covariance, np.asarray(np.linalg.qr(left.T, mode="r")).T  # as much is left, in fewer numbers

    @cached_property
    def alike(self) -> Indices:
        """For each answer one whose noise has the same law: of many, power sums of the weights of all draws say so."""
        weights, columns = np.abs(self._weights), []
        if len(weights) <= FEW:
            return np.arange(len(weights))
        for power in POWERS:
            sizes = [np.full(known.weighted.size, _power_sum(known, power)) for known, _ in self.sources()]
            columns.append(weights**power @ np.concatenate(sizes))
        with np.errstate(divide="ignore"):
            digits = np.round(np.log(np.stack(columns, axis=1)), DIGITS)
        _, first, which = np.unique(digits, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[which.reshape(-1)])


def _texts(rows: csr_array) -> list[bytes]:
    """Return the rows of a matrix as what equal ones share."""
    ends = rows.indptr
    return [
        rows.indices[first:last].astype(np.int64).tobytes() + rows.data[first:last].astype(float).tobytes()
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


def _power_sum(known: Repeats, power: int) -> float:
    """Return the sum of powers of what each of some measurements counts for in their mean, of unit variance."""
    shares = np.sqrt(np.fromiter(known.precisions.values(), float, len(known.precisions)) / known.precision)
    return float((shares**power).sum())

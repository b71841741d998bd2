"""Least squares over the numbers that were measured, for questions of thousands of counts.

A table of all cells, or a histogram of thousands of levels, is asked of the same numbers as any question is: see
`planner.over_rows`. What each of them counts for in each answer would fill a matrix of millions. Counts that nothing
tells apart have the same variance, and the same law of noise: one of each kind is worked out, and the others follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpnotebook.inference.row_space import SolvedRows
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.over_rows import ByRows, Floats, Indices, MeasuredRows
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.repeats import Repeats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_ASKED = 20_000  # counts of a question,
MOST_WORK = 2.5 * 10**10  # and kinds of them, times numbers beside those of single cells, squared
BY_WEIGHTS = 4  # times as much work where variances are those of all weights,
OF_CELLS = 16  # and as much for each cell as for so many products of two numbers
MOST_TOGETHER = 600  # counts whose covariances are worked out, and
MOST_JOINT = 8 * 10**6  # entries of their queries over the cells, where these were not all measured by themselves
TOGETHER = 10**6  # entries of queries over cells that are solved for together


class ByManyRows(ByRows):
    """How thousands of disjoint counts follow from what was measured: a `Reconstruction`, as `ByRows` is one.

    Parameters
    ----------
    part, rows, known
        As for `ByRows`.
    """

    def __init__(self, part: ProductTerm, rows: MeasuredRows, known: Iterable[Repeats]) -> None:
        super().__init__(part, rows, known)
        self._known = [known for known, _ in self._told]
        asked = rows.queries(part)
        assert asked is not None  # single counts
        self._asked: csr_array = asked

    @property
    def few(self) -> bool:
        """Whether it takes no longer than a person waits."""
        space = self._rows.space
        each = space.numbers**2
        if not space.apart.all():
            each = BY_WEIGHTS * (each + OF_CELLS * self._asked.shape[1])
        return bool(self._kinds[0].size * each <= MOST_WORK)

    @cached_property
    def _kinds(self) -> tuple[Indices, Indices]:
        """One of the counts of each kind, and the kind of each.

        Cells that all measured numbers count alike may change places, and so may counts of as many of each.
        """
        asked, (rows, numbers) = self._asked, self._rows.told_apart()
        seen = rows.T @ np.stack([_probe(numbers, angle) for angle in ANGLES], axis=1)
        _, kinds = np.unique(seen, axis=0, return_inverse=True)
        kinds, own = kinds.reshape(-1), np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
        # Added up in one order, so that equal ones have equal sums to the last bit.
        inside = kinds[asked.indices][np.lexsort((kinds[asked.indices], own))]
        sums = np.stack([np.bincount(own, _probe(inside, angle), asked.shape[0]) for angle in ANGLES], axis=1)
        _, first, which = np.unique(sums, axis=0, return_index=True, return_inverse=True)
        return first, which.reshape(-1)

    def _in_turn(self, asked: csr_array) -> Iterator[SolvedRows]:
        """Yield how questions are answered, shape (questions, cells), some at a time."""
        together = max(1, TOGETHER // asked.shape[1])
        for start in range(0, asked.shape[0], together):
            yield self._rows.solved(asked[start : start + together], self._known, keep=False)

    @cached_property
    def _variances(self) -> Floats:
        first, which = self._kinds
        asked = self._asked[first]
        ready = self._rows.now(self._known)
        if ready is not None and ready.complete and (quick := ready.variances(asked)) is not None:
            return quick[which]
        found = [np.where(solved.determined, np.diagonal(solved.covariance), np.inf) for solved in self._in_turn(asked)]
        return np.asarray(np.concatenate(found)[which])

    def variances(self) -> Floats:
        """Return the variance of each answer, infinite where it is not determined, shape (answers,)."""
        return self._variances

    def _of(self, asked: csr_array) -> Iterator[Floats]:
        """Yield what each number counts for in answers to questions, shape (questions, numbers), some at a time."""
        for solved in self._in_turn(asked):
            yield self._of_numbers(solved.weights)

    def weights(self, rows: Indices) -> Floats:
        """Return what each number counts for in some answers, shape (rows, numbers)."""
        return np.concatenate([*self._of(self._asked[rows])])

    def answers(self, noisy: Floats) -> Floats:
        """Return the answers that follow from noisy numbers."""
        if (ready := self._rows.now(self._known)) is not None:
            return ready.answers(self._asked, self._values(noisy))
        return np.concatenate([weights @ noisy for weights in self._of(self._asked)])

    def _values(self, noisy: Floats) -> Floats:
        """Return the number of each row, given the noisy numbers of unit variance."""
        found = np.zeros(self._rows.space.alone.size)
        for (known, columns), (_, parts) in zip(self.sources(), self._told, strict=True):
            numbers = noisy[columns] / math.sqrt(known.precision)
            for one, at, kept in parts:
                own = numbers[one.part.columns[kept]]
                found[at] = own if one.part.totals is None else own @ one.part.totals
        return found

    def mixed(self, mixture: Floats) -> Floats:
        """Return what each number counts for in a combination of all answers, shape (1, numbers)."""
        from scipy.sparse import csr_array

        return next(self._of(csr_array(mixture[None] @ self._asked)))

    def jointly(self) -> tuple[Floats, Floats] | None:
        """Return what `ByRows.jointly` does, and None of more than are measured as one."""
        if self._asked.shape[0] > MOST_TOGETHER:
            return None
        if (ready := self._rows.now(self._known)) is not None and ready.complete:
            return ready.covariance(self._asked), np.zeros((self._asked.shape[0], 0))
        return super().jointly() if math.prod(self._asked.shape) <= MOST_JOINT else None

    @property
    def alike(self) -> Indices:
        """For each answer one whose noise has the same law, where nothing that was measured tells them apart."""
        first, which = self._kinds
        return first[which]


def _probe(numbers: Indices, angle: float) -> Floats:
    """Return what tells whole numbers apart when it is added up."""
    return np.asarray(MIDDLE + np.cos((1.0 + numbers) * np.sqrt(angle)))

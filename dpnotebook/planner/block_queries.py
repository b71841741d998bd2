"""Queries over the cells of some attributes: their distinct columns, and what they are over the atoms of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.atoms import Atoms, places
from dpnotebook.planner.product_terms import ProductTerm, is_identity, unique_columns
from dpnotebook.planner.solved import Combinations, RunningTotals
from dpnotebook.workload import PIdentity, Prefix, Workload

MOST_ENTRIES = 4 * 10**6  # of the queries of one part

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries over the cells of a block: the distinct columns that they have, and which of them each cell has.

    Parameters
    ----------
    asked
        The columns, shape (queries, classes), written out or as a workload.
    cells
        The class of every cell, -1 where all queries are 0; shape (cells,).
    bins
        Whether the queries are disjoint counts: the columns are then the identity.
    """

    asked: Floats | Workload
    cells: Indices
    bins: bool

    @cached_property
    def columns(self) -> Floats:
        """The distinct columns, written out, shape (queries, classes)."""
        if not isinstance(self.asked, Workload):
            return self.asked
        return np.eye(self.count) if self.bins else np.asarray(self.asked.dense(), dtype=float)

    def mixed(self, mixtures: Floats) -> Floats:
        """Return the columns of mixtures of the queries, shape (mixtures, queries): shape (mixtures, classes)."""
        if self.bins:
            return mixtures
        return mixtures @ self.asked if isinstance(self.asked, np.ndarray) else self.asked.rmatvec(mixtures.T).T

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.asked.shape[1])

    @property
    def count(self) -> int:
        """Number of queries."""
        return int(self.asked.shape[0])

    @cached_property
    def combinations(self) -> Combinations | None:
        """The queries as combinations of the classes; None where these are what is asked."""
        if isinstance(self.asked, Prefix):
            return RunningTotals(self.count)
        return None if self.bins else Combinations(self.columns)

    @property
    def _padded(self) -> Floats:
        """The columns, and at -1 that of the cells where all queries are 0."""
        return np.concatenate([self.columns, np.zeros((self.count, 1))], axis=1)

    def rows(self, atoms: Atoms) -> Floats:
        """Return the queries over atoms, shape (queries, atoms), as they are at one cell of each."""
        return self._padded[:, self.cells[atoms.first]]

    def whole(self, atoms: Atoms) -> NDArray[np.bool_]:
        """Return which queries are the same in all cells of every atom: no other is determined by what was measured."""
        whole, mixed = np.ones(self.count, dtype=bool), self._mixed(atoms).tolist()
        if mixed:
            padded = self._padded
            for one, other in mixed:
                whole &= padded[:, one] == padded[:, other]
        return whole

    def whole_classes(self, atoms: Atoms) -> NDArray[np.bool_]:
        """Return which classes of cells are made of whole atoms."""
        whole = np.ones(self.classes + 1, dtype=bool)
        whole[self._mixed(atoms).ravel()] = False
        return whole[:-1]

    def _mixed(self, atoms: Atoms) -> Indices:
        """Return the pairs of classes that share an atom, shape (pairs, 2)."""
        here = self.cells[atoms.first][atoms.labels]
        moved = np.flatnonzero(self.cells != here)
        if not moved.size:
            return np.empty((0, 2), dtype=np.intp)
        base = self.classes + 2
        codes = np.unique((here[moved] + 1) * base + self.cells[moved] + 1)
        return np.stack([codes // base - 1, codes % base - 1], axis=1)


def same_queries(one: ProductTerm, other: ProductTerm) -> bool:
    """Return whether two parts ask the same."""
    if one.axes != other.axes or one.weight != other.weight or one.where.key != other.where.key:
        return False
    return one.operator is other.operator or one.operator == other.operator


def queries_of(part: ProductTerm, domain: Domain, names: Sequence[str]) -> Queries | None:
    """Return the queries of a part over the cells of a block; None if they are too many.

    Parameters
    ----------
    part
        A product term over some of the attributes.
    domain
        The table's declared domain.
    names
        The attributes of the block, in the domain's order.
    """
    alone = is_identity(part.operator)
    if part.weight == 1 and (alone or _by_form(part.operator)) and math.prod(part.operator.shape) <= MOST_ENTRIES:
        return Queries(part.operator, places(part.axes, part.where, domain, names), alone)
    found = unique_columns(part.operator, MOST_ENTRIES)
    if found is None:
        return None
    columns, classes = found
    own = places(part.axes, part.where, domain, names)
    cells = np.where(own >= 0, classes[own], -1)
    bins = columns.shape[0] == columns.shape[1] and bool((columns == np.eye(columns.shape[0])).all())
    return Queries(columns * part.weight, cells, bins and part.weight == 1)


def _by_form(operator: Workload) -> bool:
    """Return whether each cell begins, or is, a query of its own, so that nothing has to be written out to know it."""
    if isinstance(operator, PIdentity):
        return len(operator.extra) > 0
    return isinstance(operator, Prefix) and operator.n > 1


def bins_of(part: ProductTerm, domain: Domain, names: Sequence[str]) -> Indices | None:
    """Return which of the answers of a part each cell is counted in, shape (cells,), -1 for none.

    None where they are not disjoint counts. Parameters are those of `queries_of`.
    """
    if part.weight != 1 or not is_identity(part.operator):
        return None
    return places(part.axes, part.where, domain, names)

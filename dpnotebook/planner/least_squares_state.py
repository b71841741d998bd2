"""Least squares over the atoms of some attributes: what everything measured says about any question on them."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.atoms import Atoms, every_cell, one_atom
from dpnotebook.planner.block_queries import MOST_ENTRIES, Queries, bins_of, queries_of, same_queries
from dpnotebook.planner.cell_counts import CellGroups, CountsAlike, CountsOfCells, alike_in, groups_of, told_of_cells
from dpnotebook.planner.information import Information
from dpnotebook.planner.known_part import Key, KnownPart, Name, Observation, Sums
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.run_state import LineIndex, RunState, line_index
from dpnotebook.planner.solved import LOST, SCREENED, Solved, screened, solve_bins
from dpnotebook.planner.stacked_parts import MANY, StackedParts, draws_of

AT_ONCE = 2_048  # queries that are added together: more than an inverse is updated for, see `information`,
WRITTEN_OUT = 2**16  # or so many that have as many entries together: written out they take several times their room
MOST_ATOMS = 2_000  # of one block: its information matrix takes 32 MB, a new measurement 5 ms
MOST_CELLS = 10**6  # whose atoms are told apart one by one: 8 MB a block
FEW = 500  # classes of cells whose residuals are looked at entry by entry for what is shown

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a block knows about some queries.

    Parameters
    ----------
    variances
        Variance of the best answer to each, infinite where there is none; shape (queries,).
    covariance
        Covariances of the counts of the classes of cells, shape (classes, classes); what is not determined means
        nothing.
    determined
        Which of those counts are, shape (classes,).
    """

    variances: Floats
    covariance: Floats
    determined: NDArray[np.bool_]


class _NoRoom(Exception):
    """Not all that is to be added has room."""


def _lost(solved: Solved, variances: Floats, whole: NDArray[np.bool_], queries: Queries, within: float) -> bool:
    """Return whether queries are not determined that may be, as far as rounding hides what is left of them."""
    lost = whole & np.isinf(variances)
    return bool(lost.any() and solved.determined(queries.combinations, within)[lost].any())


def _in_little_room(cells: Indices) -> NDArray[Any]:
    """Return the classes of cells as the smallest integers that hold them and one more: there are many cells."""
    return cells.astype(np.min_scalar_type(-2 * int(cells.max(initial=0)) - 4))


class LeastSquaresState:
    """The least-squares state of some attributes of one table, for one summand.

    Parameters
    ----------
    domain
        The table's declared domain.
    names
        The attributes, in the domain's order; together at most 10^6 cells.
    sums
        Whether sums of values are seen as counts of the levels of their column.
    """

    def __init__(self, domain: Domain, names: Sequence[str], *, sums: bool = False) -> None:
        self.domain = domain
        self.names, self.sums = tuple(names), sums
        self.atoms: Atoms = one_atom({name: domain[name].size for name in names})
        self._information = Information(1)
        self._waiting: list[list[tuple[Observation, KnownPart]]] = []  # what has room, and is not yet added up
        self.sources: dict[Name, KnownPart] = {}
        self.partial = False  # whether it is made for one question, of what matters most to it
        self._index: tuple[int, LineIndex] | None = None
        self._latest_line: tuple[int, bytes, RunState] | None = None
        self._latest: tuple[Queries, int, Solved] | None = None
        self._latest_screened: tuple[Queries, int, tuple[Solved, Floats]] | None = None
        self._latest_queries: tuple[ProductTerm, Queries | None] | None = None
        self.latest_beside: Any = None  # what a question and what might be measured have to do with each other
        self.latest_rows: Any = None  # what was measured, by the few queries of several atoms
        self._parts: tuple[int, StackedParts] | None = None
        self._latest_alike: tuple[Sequence[ProductTerm], Sequence[CountsAlike]] | None = None
        self._passing = False  # whether it is looked at once: nothing is then worked out for the next time

    def add(self, parts: Iterable[Observation], most: int = MOST_ATOMS) -> None:
        """Add what measurements say, as far as there is room for their atoms: so many, of which each has its own."""
        self._put(self._prepared(parts, most))

    def add_all(self, parts: Iterable[Observation]) -> bool:
        """Add what measurements say, or nothing where there is no room for all; return whether there was."""
        try:
            self._put(self._prepared(parts, MOST_ATOMS, whole=True))
        except _NoRoom:
            return False
        return True

    def has_room(self, parts: Iterable[Observation]) -> bool:
        """Return whether there is room for all that measurements say; nothing is added."""
        try:
            self._refined(parts, MOST_ATOMS, whole=True)
        except _NoRoom:
            return False
        return True

    @property
    def information(self) -> Information:
        """What was added so far; added up when it is first looked at, as many a block turns out to have no room."""
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            self._add_up(found)
        return self._information

    def add_sums(self, sums: Sequence[Sums]) -> None:
        """Add sums of the answers of parts over whole classes of cells that the atoms tell apart already."""
        first, found = self.atoms.first, []
        for one in sums:
            at = _in_little_room(one.cells[first])
            found.append((one.told, KnownPart(one.told.part, None, at, one.summed.size, one.summed)))
        self._put(found)

    def twin(self) -> LeastSquaresState:
        """Return a copy that can be added to without changing this one."""
        twin = copy.copy(self)
        twin._information, twin._waiting = self.information.copy(), []
        twin.sources, twin._passing = dict(self.sources), True
        return twin

    def split(self, cells: Indices) -> None:
        """Tell cells of different classes apart, shape (cells,)."""
        self._split(*self.atoms.refined(cells))

    def queries(self, part: ProductTerm) -> Queries | None:
        """Return the queries of a part over the cells of this block; None if they are too many; the latest are kept."""
        kept = self._latest_queries
        if kept is None or not same_queries(kept[0], part):
            kept = self._latest_queries = part, queries_of(part, self.domain, self.names)
        return kept[1]

    def bins(self, part: ProductTerm) -> Indices | None:
        """Return which of the answers of a part each cell of this block is counted in, as `bins_of` does."""
        return bins_of(part, self.domain, self.names)

    def known(self, queries: Queries) -> Estimate:
        """Return what is known about queries."""
        classes = queries.classes
        if not self.sources:
            nothing = np.zeros(classes, dtype=bool)
            return Estimate(np.full(queries.count, np.inf), np.zeros((classes, classes)), nothing)
        whole = queries.whole(self.atoms)
        if queries.count == 1 and not whole[0]:
            return Estimate(np.full(1, np.inf), np.zeros((classes, classes)), np.zeros(classes, dtype=bool))
        solved, variances = self._screened(queries)
        # What only rounding hides is known: a plan is the same whether the block was added to or made anew.
        if self.information.updated and _lost(solved, variances, whole, queries, LOST * SCREENED):
            self.information.refactor()
            solved, variances = self._screened(queries)
        variances = np.where(whole, variances, np.inf)
        return Estimate(variances, solved.covariance, solved.determined() & queries.whole_classes(self.atoms))

    def _screened(self, queries: Queries) -> tuple[Solved, Floats]:
        """Return how the classes of queries are answered, in passing, and the variances: those of the latest are kept.

        What is known of a question, and what a card would show of it, are the same of many classes.
        """
        kept = self._latest_screened
        if kept is None or kept[0] is not queries or kept[1] != self.information.changes:
            at = queries.cells[self.atoms.first]
            solved = screened(self.information, at, queries.classes)
            kept = queries, self.information.changes, (solved, solved.variances(queries.combinations))
            self._latest_screened = kept
        return kept[2]

    def _solved(self, queries: Queries, *, exact: bool) -> tuple[Solved, Floats]:
        if not exact:
            return self._screened(queries)
        solved = self.solved(queries)
        return solved, solved.variances(queries.combinations)

    def solved(self, queries: Queries) -> Solved:
        """Return how the classes of queries are answered, with certificates; those of the latest queries are kept."""
        if self._latest is None or self._latest[0] is not queries or self._latest[1] != self.information.changes:
            found = solve_bins(self.information, queries.cells[self.atoms.first], queries.classes)
            self._latest = queries, self.information.changes, found
        return self._latest[2]

    def line(self, cuts: Indices) -> RunState:
        """Return what is known of the runs between cut points, for a block of one attribute; the latest is kept.

        A plan asks for the same one at every price that it tries.
        """
        if self._index is None or self._index[0] != self.information.changes:
            self._index = self.information.changes, line_index(self.information, self.atoms.labels)
        kept, asked = self._latest_line, cuts.tobytes()
        if kept is None or kept[:2] != (self.information.changes, asked):
            kept = self._latest_line = self.information.changes, asked, self._index[1].line(cuts)
        return kept[2]

    def touches(self, queries: Queries) -> bool:
        """Return whether something was measured of the cells that the queries are about."""
        seen = np.diagonal(self.information.matrix) > 0
        return bool(seen[self.atoms.labels[queries.cells >= 0]].any())

    def estimates(self, queries: Queries) -> tuple[Floats, Floats, Floats]:
        """Return the best answers to queries, their variances and the coefficients z, with certificates."""
        combinations = queries.combinations
        whole, exact = queries.whole(self.atoms), queries.classes <= FEW
        solved, variances = self._solved(queries, exact=exact)
        variances = np.where(whole, variances, np.inf)
        if _lost(solved, variances, whole, queries, LOST):  # by rounding, it may be: factorised anew
            self.information.refactor()
            solved, variances = self._solved(queries, exact=exact)
            variances = np.where(whole, variances, np.inf)
        coefficients = solved.coefficients if combinations is None else combinations.of(solved.coefficients)
        return coefficients @ self.information.vector, variances, coefficients

    def weights(self, coefficients: Floats) -> list[tuple[KnownPart, Floats]]:
        """Return what each noisy number counts for in answers with coefficients z, shape (m, atoms), by source."""
        stacked = self._stacked
        if stacked is not None:
            return stacked.weights(coefficients)
        return [(source, source.weights(coefficients)) for source in self.sources.values()]

    def draws(self, coefficients: Floats, most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in answers with coefficients z, as `draws_of` does."""
        stacked = self._stacked
        if stacked is not None:
            return stacked.draws(coefficients, most)
        return draws_of(self.weights(coefficients), len(coefficients), most)

    def peaks(self, coefficients: Floats) -> Floats:
        """Return the most that a noisy number of each source counts for in answers, shape (m, sources)."""
        stacked = self._stacked
        if stacked is not None:
            return stacked.peaks(coefficients)
        found = [np.abs(weights).max(axis=1, initial=0.0) for _, weights in self.weights(coefficients)]
        return np.stack(found, axis=1)

    @property
    def _stacked(self) -> StackedParts | None:
        """The parts that are known, stacked where they are many and looked at more than once."""
        if len(self.sources) < MANY:
            return None
        if self._parts is None or self._parts[0] != self.information.changes:
            parts = [*self.sources.values()]
            counts = None
            if self.atoms.every and all(part.summed is None and part.part.is_counts for part in parts):
                counts = CountsOfCells(self._in_common([part.part for part in parts]), self.atoms.labels)
            elif self._passing:
                return None
            self._parts = self.information.changes, StackedParts(parts, self.atoms.count, counts)
        return self._parts[1]

    def mixed(self, queries: Queries, mixtures: Floats) -> Floats:
        """Return the coefficients of mixtures of the answers to queries, shape (mixtures, queries)."""
        rows = Queries(queries.mixed(mixtures), queries.cells, False).rows(self.atoms)
        return np.asarray(rows @ self.information.inverse)

    def _prepared(
        self, parts: Iterable[Observation], most: int, *, whole: bool = False
    ) -> list[tuple[Observation, KnownPart]]:
        atoms, parents, prepared = self._refined(parts, most, whole=whole)
        self._split(atoms, parents)
        return [
            (
                one,
                self.sources[one.name]
                if cells is None
                else KnownPart(one.part, columns, self._of_atoms(cells), one.part.operator.shape[0]),
            )
            for one, cells, columns in prepared
        ]

    def _of_atoms(self, cells: NDArray[Any] | CellGroups) -> NDArray[Any] | Callable[[], NDArray[Any]]:
        """Return the class of every atom, or what works it out, from those of every cell."""
        if not isinstance(cells, CellGroups):
            return cells[self.atoms.first]
        first = self.atoms.first
        if not self.atoms.every:
            return cells()[first]
        return cells if first is self.atoms.labels else lambda: cells()[first]

    def _refined(
        self, parts: Iterable[Observation], most: int, *, whole: bool = False
    ) -> tuple[Atoms, Indices, list[tuple[Observation, NDArray[Any] | CellGroups | None, Floats | None]]]:
        """Return the atoms that measurements tell apart, the present one in which each lies, and their classes."""
        atoms, parents = self.atoms, np.arange(self.atoms.count)
        prepared: list[tuple[Observation, NDArray[Any] | CellGroups | None, Floats | None]] = []
        together: dict[Name, CellGroups] = {}
        if atoms.labels.size <= most:  # all have room: none is looked at in vain
            parts = list(parts)
            together = self._groups(parts)
        counted: dict[tuple[Any, ...], tuple[NDArray[Any] | None, Floats | None]] = {}  # of many measurements the same
        for one in parts:
            columns: Floats | None = None
            if one.name in self.sources:
                prepared.append((one, None, None))
                continue
            if one.name in together:
                cells: NDArray[Any] | CellGroups | None = together[one.name]
            elif one.part.is_counts:
                rows = one.part.axes, one.part.where.key
                if rows not in counted:
                    counted[rows] = self._classes(one.part)
                cells, columns = counted[rows]
            else:
                cells, columns = self._classes(one.part)
            if cells is None or not atoms.every:
                by_cell = cells() if isinstance(cells, CellGroups) else cells
                finer, above = (None, parents) if by_cell is None else atoms.refined(by_cell)
                if finer is None or finer.count > most:
                    if whole:
                        raise _NoRoom  # the rest is not even looked at
                    continue
                atoms, parents = finer, parents[above]
            prepared.append((one, cells, columns))
        if atoms.every and self.atoms.count == 1:  # in the order of the cells
            atoms = every_cell(atoms.sizes)
        return atoms, parents, prepared

    def _groups(self, parts: Sequence[Observation]) -> dict[Name, CellGroups]:
        """Return the group of every cell of those of some parts that are disjoint counts and not here yet."""
        new = {one.name: one.part for one in parts if one.name not in self.sources and one.part.is_counts}
        return dict(zip(new, groups_of(self._in_common([*new.values()])), strict=True))

    def _in_common(self, counts: Sequence[ProductTerm]) -> Sequence[CountsAlike]:
        """Return disjoint counts by what they have in common; of the latest it is kept, as a new block looks thrice."""
        kept = self._latest_alike
        if kept is None or len(kept[0]) != len(counts) or any(map(operator.is_not, kept[0], counts)):
            kept = self._latest_alike = counts, [*alike_in(counts, self.domain, self.names)]
        return kept[1]

    def _classes(self, part: ProductTerm) -> tuple[NDArray[Any] | None, Floats | None]:
        """Return the class of every cell and the distinct columns of a part, as in `KnownPart`; None for too many."""
        bins = self.bins(part)
        if bins is not None:
            return (_in_little_room(bins) if part.operator.shape[0] ** 2 <= MOST_ENTRIES else None), None
        queries = self.queries(part)
        if queries is None:
            return None, None
        return _in_little_room(queries.cells), None if queries.bins else queries.columns

    def _split(self, atoms: Atoms, parents: Indices) -> None:
        if atoms.count > self.atoms.count:
            information = self.information  # over the atoms that there are so far
            self.atoms = atoms
            information.split(parents)
            for name, source in self.sources.items():
                self.sources[name] = source.finer(parents)

    def _put(self, found: Sequence[tuple[Observation, KnownPart]]) -> None:
        """Note what says more than was known, to be added up when it is looked at."""
        more = [(one, source) for one, source in found if one.precision > source.total]  # no more is rounding
        if more:
            self._waiting.append(more)
        for one, of in more:  # of many in little time
            self.sources[one.name] = KnownPart(
                of.part, of.columns, of.of_atoms, of.queries, of.summed, one.precision, one.weighted, one.repeats
            )

    def _add_up(self, found: Sequence[tuple[Observation, KnownPart]]) -> None:
        """Add by how much more is said than before: of what is refined the difference, which is as good as new."""
        if self.atoms.every and not self._information.updates(sum(source.queries for _, source in found)):
            counts = [(one, source) for one, source in found if source.summed is None and source.part.is_counts]
            found = [(one, source) for one, source in found if source.summed is not None or not source.part.is_counts]
            self._add_counts(counts)
        entries: list[tuple[NDArray[Any], NDArray[Any], Floats]] = []
        count = size = 0
        precision: list[NDArray[Any]] = []
        weighted: list[NDArray[Any]] = []
        # Many measurements count the same disjoint atoms: together they are one. Some have a query of none behind them.
        counted: dict[tuple[int, bytes], int] = {}
        for one, source in found:
            share = 1.0 if source.summed is None else 1 / source.summed
            more = np.full(source.queries, one.precision - source.total) * share
            said = (one.weighted - source.weighted) * share
            disjoint = source.columns is None and source.summed is None
            same = (source.queries, source.atoms.tobytes()) if disjoint else None
            if same is not None and same in counted:
                precision[counted[same]] += more
                weighted[counted[same]] += said
            else:
                if same is not None:
                    counted[same] = len(precision)
                queries, atoms, values = source.entries()
                entries.append((queries + count, atoms, values))
                count, size = count + source.queries, size + queries.size
                precision.append(more)
                weighted.append(said)
                # So that what is measured of ever more is never written out all together.
                if count >= AT_ONCE or (size >= WRITTEN_OUT and not self._information.updates(count)):
                    self._tell(entries, count, precision, weighted)
                    entries, count, size, precision, weighted, counted = [], 0, 0, [], [], {}
        if entries:
            self._tell(entries, count, precision, weighted)

    def _add_counts(self, found: Sequence[tuple[Observation, KnownPart]]) -> None:
        """Add disjoint counts to what is known of cells, of which each is an atom, as `_add_up` does."""
        matrix, vector = told_of_cells(
            self._in_common([source.part for _, source in found]),
            np.array([one.precision - source.total for one, source in found]),
            [one.weighted - source.weighted for one, source in found],
            self.atoms.sizes,
        )
        cells = self.atoms.first
        if (cells[1:] < cells[:-1]).any():  # they came one after the other
            matrix, vector = matrix.take(cells, 0).take(cells, 1), vector[cells]
        self._information.add_together(matrix, vector)

    def _tell(
        self,
        entries: Sequence[tuple[NDArray[Any], NDArray[Any], Floats]],
        count: int,
        precision: Sequence[NDArray[Any]],
        weighted: Sequence[NDArray[Any]],
    ) -> None:
        """Add so many queries, of which the entries are given, to what is known."""
        from scipy.sparse import csr_array

        rows, columns, values = map(np.concatenate, zip(*entries, strict=True))
        queries = csr_array((values, (rows, columns)), shape=(count, self.atoms.count))
        self._information.add(queries, np.concatenate(precision), np.concatenate(weighted))

"""What a question over atoms would be answered with if a few more numbers were measured, without another block.

A block that has room for everything is a matrix of all its atoms, and a copy of it that is added to takes as long to
make as to go through, however little is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import RESIDUAL, SolvedRows
from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.known_part import Key, KnownPart, Observation
from dpnotebook.planner.least_squares_state import MOST_ATOMS, LeastSquaresState
from dpnotebook.planner.solved import refined
from dpnotebook.planner.stacked_parts import draws_of

Floats = NDArray[np.float64]

MOST_ROWS = 128  # asked and supposed together: of more a block is made
LEAST_ATOMS = 200  # a block of fewer is copied in no time


@dataclass(frozen=True, eq=False)
class BesideAtoms:
    """A question over the atoms of a block, as if a few more numbers had been measured.

    Parameters
    ----------
    block
        Least squares over all that was measured.
    found
        How it is answered: the weights are coefficients over the atoms of the block.
    further
        The parts that are supposed, and what the mean of each of their numbers counts for, shape (answers, queries).
    replaced
        The measurements that are refined: what takes their place is in `further`.
    step, least_scale, reach
        As in `OverAtoms`.
    """

    block: LeastSquaresState
    found: SolvedRows
    further: Sequence[tuple[KnownPart, Floats]]
    replaced: frozenset[Key] = frozenset()
    step: float = 1.0
    least_scale: float = 0.0
    reach: float = 1.0

    @property
    def count(self) -> int:
        """Number of answers."""
        return len(self.found.covariance)

    @cached_property
    def variances(self) -> Floats:
        """Variance of each answer, infinite where it were not known, shape (answers,)."""
        return np.where(self.found.determined, np.diagonal(self.found.covariance), np.inf)

    @property
    def alike(self) -> NDArray[np.intp]:
        """For each answer one whose noise has the same law: its own number."""
        return np.arange(self.count)

    def estimates(self) -> tuple[Floats, Floats]:
        """Return answers, of which nothing is known yet, and their variances, each of shape (answers,)."""
        return np.zeros(self.count), self.variances

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and what it is of, as in `OverAtoms`."""
        before = self.block.draws(self.found.weights[rows], most)
        if before is None:
            return None
        if not self.replaced.isdisjoint(before[1]):
            kept = [place for place, key in enumerate(before[1]) if key not in self.replaced]
            before = before[0][:, kept], [before[1][place] for place in kept]
        further = ((part, weights[rows]) for part, weights in self.further)
        now = draws_of(further, rows.size, most - len(before[1]))
        return None if now is None else (np.concatenate([before[0], now[0]], axis=1), before[1] + now[1])

    def sources(self) -> tuple[int, ...]:
        """Return nothing: what is only supposed has no number."""
        return ()


def beside_atoms(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> BesideAtoms | None:
    """Return a question as it would be answered if more were measured.

    Parameters
    ----------
    block
        Least squares over all that was measured.
    asked
        The question, over the cells of the block.
    supposed
        What would be said of them, by all measurements of the same queries together.

    Returns
    -------
    None where there are too many rows, or atoms, for this to be of use.
    """
    if block.atoms.count < LEAST_ATOMS or asked.count > MOST_ROWS:
        return None
    asked_too: list[Queries] = []
    parts: list[KnownPart] = []
    own: list[float] = []
    shares: list[float] = []
    replaced: set[Key] = set()
    for one in supposed:
        if one.part.operator.shape[0] + asked.count > MOST_ROWS:
            return None
        queries = block.queries(one.part)
        if queries is None or queries.count + asked.count > MOST_ROWS:
            return None
        known = block.sources.get(one.name)
        gained = one.precision - (0.0 if known is None else known.total)
        if gained <= 0:
            return None
        asked_too.append(queries)
        earlier = {} if known is None else known.repeats
        added = {key: one.repeats[key] for key in one.repeats if key not in earlier}
        removed = {key: earlier[key] for key in earlier if key not in one.repeats}
        # What refines another says all that both do: its number counts for more than for what is said anew.
        shares.append(sum(added.values()) / (sum(added.values()) - sum(removed.values())) if removed else 1.0)
        replaced.update(removed)
        nowhere = np.empty(0, dtype=np.int32)  # only its draws are looked at
        parts.append(KnownPart(one.part, None, nowhere, queries.count, repeats=added))
        own += [gained] * queries.count
    if not asked_too or len(own) + asked.count > MOST_ROWS:
        return None
    known_of = block.information.changes, asked, tuple(one.name for one in supposed)
    if block.latest_beside is None or block.latest_beside[0] != known_of:  # of other precisions it is the same
        block.latest_beside = known_of, _together(block, (asked, *asked_too))
    both = block.latest_beside[1]
    if both is None:
        return None
    first, second = both.some(np.arange(asked.count)), both.some(np.arange(asked.count, len(both.weights)))
    across = both.covariance[: asked.count, asked.count :]
    sizes = np.maximum(np.abs(asked.columns).max(axis=1, initial=0.0), 1e-300)
    found, gain = beside(first, second, across, np.array(own), sizes)
    pieces = np.split(gain, np.cumsum([part.queries for part in parts])[:-1], axis=1)
    further = [(part, piece * share) for part, piece, share in zip(parts, pieces, shares, strict=True)]
    return BesideAtoms(block, found, further, frozenset(replaced))


def _together(block: LeastSquaresState, questions: Sequence[Queries]) -> SolvedRows | None:
    """Return how several questions are answered by what was measured; None where they tell too many atoms apart."""
    atoms, parents = block.atoms, np.arange(block.atoms.count)
    for queries in questions:
        atoms, above = atoms.refined(queries.cells)
        parents = parents[above]
    if atoms.count > MOST_ATOMS:
        return None
    padded = [np.concatenate([one.columns, np.zeros((one.count, 1))], axis=1) for one in questions]
    at = [one.cells[atoms.first] for one in questions]
    rows = np.concatenate([columns[:, places] for columns, places in zip(padded, at, strict=True)])
    # Nothing tells the parts of an atom apart, so the inverse may be 0 for all but the first of them.
    old = rows[:, : block.atoms.count]
    coefficients, told = refined(block.information, old, old @ block.information.inverse)
    covariance, left = told @ coefficients.T, rows - told[:, parents]
    sizes = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    determined = np.abs(left).max(axis=1, initial=0.0) <= RESIDUAL * sizes
    return SolvedRows(coefficients, covariance, left, determined)

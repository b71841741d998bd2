"""Least squares where nearly all that was measured is of single atoms: by the few other rows, not by the atoms.

A histogram tells every level apart, and running totals, ranges and what is bought for them add a few queries of many
levels each. With D the precisions of single atoms, and U the other queries times the roots of theirs, what is known is
D + U'U, and its inverse is inv(D) - inv(D) U' inv(I + U inv(D) U') U inv(D) (Woodbury): over 1,500 levels and 150 rows
a hundredth of the work. `planner.beside_classes` asks, where many answers beside many prices are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.known_part import Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.workload import PIdentity

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SHARE = 4  # atoms for each row, at least: with more rows it would take no less time
EXACT = 1e-9  # by which an inverse may miss what it is the inverse of


@dataclass(frozen=True, eq=False)
class SplitRows:
    """What was measured of atoms, or would be.

    Parameters
    ----------
    single
        Precision with which each atom is counted alone, added up; shape (atoms,).
    others
        All other queries, each times the root of its precision, shape (rows, atoms).
    """

    single: Floats
    others: Floats


@dataclass(frozen=True, eq=False)
class FewRows:
    """Some answers, over what was measured and what is supposed to be, at any precisions of that.

    Parameters
    ----------
    asked, atoms
        The question, and the atom that each of its classes of cells is.
    known
        What was measured.
    supposed
        What would be, each at precision 1.
    """

    asked: Queries
    atoms: Indices
    known: SplitRows
    supposed: Sequence[SplitRows]

    def variances(self, gained: Sequence[float]) -> Floats | None:
        """Return the variances of the answers, shape (answers,); None where rounding may hide some of them.

        Parameters
        ----------
        gained
            The precision of what is supposed.
        """
        from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

        single = self.known.single + sum(own * one.single for own, one in zip(gained, self.supposed, strict=True))
        if not (single > 0).all():
            return None
        more = [np.sqrt(own) * one.others for own, one in zip(gained, self.supposed, strict=True)]
        others = np.concatenate([self.known.others, *more])
        scaled = others / single
        inner = scaled @ others.T
        inner[np.diag_indices_from(inner)] += 1
        factor, failed = dpotrf(inner, lower=1)
        if failed:
            return None
        # An inverse takes back what the matrix does to a vector of no particular direction.
        probe = MIDDLE + np.cos(np.arange(1.0, single.size + 1) * np.sqrt(ANGLES[0]))
        solved = probe / single - scaled.T @ dpotrs(factor, scaled @ probe, lower=1)[0]
        if not np.abs(single * solved + others.T @ (others @ solved) - probe).max() <= EXACT:
            return None
        alone, across = 1 / single[self.atoms], scaled.T[self.atoms]
        if self.asked.combinations is not None:
            alone, across = self.asked.combinations.of_squares(alone), self.asked.combinations.of(across)
        found = dtrtrs(factor, across.T, lower=1)[0]
        return np.asarray(alone - np.einsum("ij,ij->j", found, found))


def few_rows(
    block: LeastSquaresState, asked: Queries, atoms: Indices, supposed: Sequence[Observation]
) -> FewRows | None:
    """Return a question by the few rows that are not of single atoms; None where these are many.

    Parameters
    ----------
    block
        Least squares over all that was measured.
    asked, atoms
        The question, and the atom that each of its classes of cells is.
    supposed
        What would be said, of whole atoms.
    """
    known = _told(block)
    if known is None:
        return None
    more, room = [], block.atoms.count // SHARE - len(known.others)
    for one in supposed:
        would = _supposed(block, one, room)
        if would is None:
            return None
        more.append(would)
        room -= len(would.others)
    return FewRows(asked, atoms, known, more)


def _told(block: LeastSquaresState) -> SplitRows | None:
    """Return all that was measured; the latest is kept."""
    kept = block.latest_rows
    if kept is None or kept[0] != block.information.changes:
        kept = block.latest_rows = block.information.changes, _of_sources(block)
    found: SplitRows | None = kept[1]
    return found


def _of_sources(block: LeastSquaresState) -> SplitRows | None:
    count, found = block.atoms.count, []
    room = count // SHARE
    for source in block.sources.values():
        one = _rows(source.entries(), source.queries, source.precision, count, room)
        if one is None:
            return None
        found.append(one)
        room -= len(one.others)
    return SplitRows(np.sum([one.single for one in found], axis=0), np.concatenate([one.others for one in found]))


def _supposed(block: LeastSquaresState, one: Observation, most: int) -> SplitRows | None:
    """Return what would be measured at precision 1."""
    queries = block.queries(one.part)
    if queries is None:
        return None
    count, cells = block.atoms.count, queries.cells[block.atoms.first]
    inside = np.flatnonzero(cells >= 0)
    if queries.bins:
        return _rows((cells[inside], inside, np.ones(inside.size)), queries.count, 1.0, count, most)
    operator = one.part.operator
    if isinstance(operator, PIdentity) and len(operator.extra) <= most:  # its form says it already
        single, others = np.zeros(count), np.zeros((len(operator.extra), count))
        single[inside] = (operator.diagonal[cells[inside]] * one.part.weight) ** 2
        others[:, inside] = operator.extra[:, cells[inside]] * one.part.weight
        return SplitRows(single, others)
    columns = queries.columns[:, cells[inside]]
    asked, places = np.nonzero(columns)
    return _rows((asked, inside[places], columns[asked, places]), queries.count, 1.0, count, most)


def _rows(
    entries: tuple[NDArray[Any], NDArray[Any], Floats], count: int, precision: float | Floats, atoms: int, most: int
) -> SplitRows | None:
    """Return queries, of which the entries are given, as rows; None where more than `most` are of several atoms."""
    queries, places, values = entries
    root = np.broadcast_to(np.sqrt(precision), (count,))[queries] * values
    held = np.bincount(queries, minlength=count)
    alone = held[queries] == 1
    several = np.flatnonzero(held > 1)
    if several.size > most:
        return None
    others = np.zeros((several.size, atoms))
    others[np.searchsorted(several, queries[~alone]), places[~alone]] = root[~alone]
    return SplitRows(np.bincount(places[alone], root[alone] ** 2, atoms).astype(float), others)

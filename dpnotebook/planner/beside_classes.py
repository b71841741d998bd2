"""What many answers would be worth if as many numbers were measured too, over the classes of cells asked about.

A running total of some rows is measured by numbers of those rows alone. What a block knows of their counts is a
covariance C, and least squares over it and numbers with queries Q and precisions P is inv(inv(C) + Q'PQ): matrices of
the classes asked about, where a copy of the block would be one of all its atoms, factorised anew at each price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.few_rows import FewRows, few_rows
from dpnotebook.planner.information import ANGLES, MIDDLE, generalised_inverse
from dpnotebook.planner.known_part import Key, Observation
from dpnotebook.planner.least_squares_state import Estimate, LeastSquaresState

Floats = NDArray[np.float64]
OverClasses = tuple[Floats, list[Floats]]  # what is known of classes, and what each of more adds

LEAST_ATOMS = 200  # a block of fewer is copied in no time
DIGITS = 7  # of the logarithm of a sum of powers, that are equal where laws are
EXACT = 1e-9  # by which an inverse may miss what it is the inverse of


class Whole(Protocol):
    """A question with all that is known of it, and its noise."""

    @property
    def alike(self) -> NDArray[np.intp]:
        """For each answer one whose noise has the same law."""

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and what it is of."""


@dataclass(frozen=True, eq=False)
class BesideClasses:
    """Many answers, as if more had been measured: what they are worth, and all else where it is asked for.

    Parameters
    ----------
    variances
        Variance of each answer, shape (answers,).
    whole
        Works out the question over a block of everything.
    most
        Up to how many different laws of noise are worth finding.
    step, least_scale, reach
        As in `OverAtoms`.
    """

    variances: Floats
    whole: Callable[[], Whole | None]
    most: int
    step: float = 1.0
    least_scale: float = 0.0
    reach: float = 1.0

    @property
    def count(self) -> int:
        """Number of answers."""
        return self.variances.size

    @cached_property
    def alike(self) -> NDArray[np.intp]:
        """For each answer one whose noise has the same law: its own number where there are many laws."""
        if classes_of_size(self.variances[:, None])[0] <= self.most and (found := self.whole()) is not None:
            return found.alike
        return np.arange(self.count)

    def estimates(self) -> tuple[Floats, Floats]:
        """Return answers, of which nothing is known yet, and their variances, each of shape (answers,)."""
        return np.zeros(self.count), self.variances

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and what it is of, as in `OverAtoms`."""
        found = self.whole()
        return None if found is None else found.draws(rows, most)

    def sources(self) -> tuple[int, ...]:
        """Return nothing: what is only supposed has no number."""
        return ()


def classes_of_size(numbers: Floats) -> tuple[int, NDArray[np.intp]]:
    """Return how many rows differ by more than rounding, and which of these each is; all at least 0."""
    with np.errstate(divide="ignore"):
        digits = np.round(np.log(numbers), DIGITS)
    found, place = np.unique(digits, axis=0, return_inverse=True)
    return len(found), place.reshape(-1)


def variances_beside(
    block: LeastSquaresState, asked: Queries, known: Estimate, supposed: Sequence[Observation]
) -> Floats | None:
    """Return the variances of answers if more were measured of the classes of cells that they are about.

    Parameters
    ----------
    block
        Least squares over all that was measured.
    asked, known
        The question, over the cells of the block, and what is known of it.
    supposed
        What would be said of them, by all measurements of the same queries together.

    Returns
    -------
    None where not all is known of these classes, or something would be measured of other cells as well.
    """
    if block.atoms.count < LEAST_ATOMS or not supposed or not known.determined.all():
        return None
    gained = []
    for one in supposed:
        before = block.sources.get(one.name)
        gained.append(one.precision - (0.0 if before is None else before.total))
        if gained[-1] <= 0:
            return None
    known_of = block.information.changes, asked, tuple(one.name for one in supposed)
    if block.latest_beside is None or block.latest_beside[0] != known_of:  # of other precisions it is the same
        block.latest_beside = known_of, _together(block, asked, known, supposed)
    together = block.latest_beside[1]
    if isinstance(together, FewRows):
        variances = together.variances(gained)
        if variances is not None:
            return variances
        together = _over_classes(block, asked, known, supposed, block.atoms.first[together.atoms])
        block.latest_beside = known_of, together
    if together is None:
        return None
    information, grams = together
    root = _root_of_inverse(information + sum(own * gram for own, gram in zip(gained, grams, strict=True)))
    if root is None:
        return None
    rows = root if asked.combinations is None else asked.combinations.of(root)
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _together(
    block: LeastSquaresState, asked: Queries, known: Estimate, supposed: Sequence[Observation]
) -> FewRows | OverClasses | None:
    """Return what the classes of a question and what would be measured have to do with each other.

    None where that is of other cells, or of parts of the classes.
    """
    inside = np.flatnonzero(asked.cells >= 0)
    classes, first = np.unique(asked.cells[inside], return_index=True)
    first = inside[first]
    if not np.array_equal(classes, np.arange(asked.classes)):
        return None
    for one in supposed:
        queries = block.queries(one.part)
        if queries is None:
            return None
        own = queries.cells[first]
        if not np.array_equal(queries.cells, np.where(asked.cells >= 0, own[asked.cells], -1)):
            return None
    atoms = block.atoms.labels[first]
    few = few_rows(block, asked, atoms, supposed) if _are_atoms(block, asked, atoms) else None
    return few or _over_classes(block, asked, known, supposed, first)


def _are_atoms(block: LeastSquaresState, asked: Queries, atoms: NDArray[np.intp]) -> bool:
    """Return whether each class of a question is one atom."""
    here = np.full(block.atoms.count, -1)
    here[atoms] = np.arange(atoms.size)
    return bool(np.array_equal(here[block.atoms.labels], asked.cells))


def _over_classes(
    block: LeastSquaresState,
    asked: Queries,
    known: Estimate,
    supposed: Sequence[Observation],
    first: NDArray[np.intp],
) -> OverClasses | None:
    """Return what is known of classes of cells, as information, and what each of more adds at precision 1.

    Parameters
    ----------
    block, asked, known, supposed
        As for `variances_beside`.
    first
        A cell of each class.
    """
    from scipy.sparse import csr_array, eye_array

    grams = []
    for one in supposed:
        queries = block.queries(one.part)
        if queries is None:
            return None
        own = queries.cells[first]
        counted = np.flatnonzero(own >= 0)
        rows = eye_array(queries.count, format="csr") if queries.bins else csr_array(queries.columns)
        rows, gram = rows[:, own[counted]], np.zeros((first.size, first.size))
        gram[np.ix_(counted, counted)] = (rows.T @ rows).toarray()
        grams.append(gram)
    information = _information(block, block.atoms.labels[first], known)
    return None if information is None else (information, grams)


def _information(block: LeastSquaresState, atoms: NDArray[np.intp], known: Estimate) -> Floats | None:
    """Return what is known of classes of cells as information: the inverse of their covariance.

    Where each is an atom and few atoms are left, as the Schur complement of these; `atoms` are those of a cell of each.
    """
    matrix = block.information.matrix
    rest = np.setdiff1d(np.arange(len(matrix)), atoms)
    if rest.size + atoms.size == len(matrix) and rest.size < atoms.size:
        across = matrix[np.ix_(atoms, rest)]
        own: Floats = matrix[np.ix_(atoms, atoms)]
        return own if not rest.size else own - across @ generalised_inverse(matrix[np.ix_(rest, rest)])[0] @ across.T
    found, rank = generalised_inverse(known.covariance)
    return found if rank == len(found) and _close(found, lambda probe: known.covariance @ probe) else None


def _root_of_inverse(matrix: Floats) -> Floats | None:
    """Return R with RR' the inverse of a matrix, or None where it has none that is exact enough."""
    from scipy.linalg.lapack import dpotrf, dtrtri

    factor, failed = dpotrf(matrix.T, lower=1)
    if failed:
        return None
    root, failed = dtrtri(factor, lower=1, overwrite_c=1)
    return None if failed or not _close(matrix, lambda probe: root.T @ (root @ probe)) else np.asarray(root.T)


def _close(matrix: Floats, inverse: Callable[[Floats], Floats]) -> bool:
    """Return whether a matrix takes back what its inverse does to a vector of no particular direction."""
    probe = MIDDLE + np.cos(np.arange(1.0, len(matrix) + 1) * np.sqrt(ANGLES[0]))
    return bool(np.abs(matrix @ inverse(probe) - probe).max() <= EXACT)

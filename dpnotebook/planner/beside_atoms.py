"""What a question over atoms would be answered with if a few more numbers were measured, without another block.

A block that has room for everything is a matrix of all its atoms, and a copy of it that is added to takes as long to
make as to go through, however little is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import RESIDUAL, SolvedRows
from dpnotebook.planner.information import LOST, refined
from dpnotebook.planner.least_squares_state import MOST_ATOMS, KnownPart, LeastSquaresState, Observation, Queries

Floats = NDArray[np.float64]
Name = tuple[str, int]

MOST_ROWS = 128  # asked and supposed together: of more a block is made
LEAST_ATOMS = 200  # a block of fewer is copied in no time


def variances_beside(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> Floats | None:
    """Return the variance of each answer if more were measured, infinite where it were not known, shape (answers,).

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
    found = _beside(block, asked, supposed)
    return None if found is None else found.variances


@dataclass(frozen=True, eq=False)
class BlockBeside:
    """How one question is answered from a block and from a few more numbers, in place of a block of all.

    Parameters
    ----------
    block
        Least squares over all that was measured.
    further
        The further measurements, as one holds them: their queries are in the order of the last coefficients.
    sources
        All measurements, with what the further ones say.
    values, variances
        The answers, infinitely uncertain where they are not determined, shape (answers,).
    coefficients
        Of the atoms of the block and of the further numbers, shape (answers, atoms + further).
    """

    block: LeastSquaresState
    further: dict[Name, KnownPart]
    sources: dict[Name, KnownPart]
    values: Floats
    variances: Floats
    coefficients: Floats

    partial = False
    sums = False

    def estimates(self, queries: Queries) -> tuple[Floats, Floats, Floats]:
        """Return the answers to the question, as `LeastSquaresState.estimates` does."""
        return self.values, self.variances, self.coefficients

    def mixed(self, queries: Queries, mixtures: Floats) -> Floats:
        """Return the coefficients of mixtures of the answers, shape (mixtures, answers)."""
        return mixtures @ self.coefficients

    def weights(self, coefficients: Floats) -> list[tuple[KnownPart, Floats]]:
        """Return what each noisy number counts for in answers with such coefficients, by source."""
        first = self.block.atoms.count
        weights = {name: source.weights(coefficients[:, :first]) for name, source in self.block.sources.items()}
        for name, one in self.further.items():
            own = coefficients[:, first : first + one.queries]
            first += one.queries
            weights[name] = weights[name] + own if name in weights else own
        return [(self.sources[name], own) for name, own in weights.items()]


def block_beside(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> BlockBeside | None:
    """Return how a question is answered beside further measurements; parameters as for `variances_beside`.

    Returns
    -------
    None where a block of everything is to be made.
    """
    found = _beside(block, asked, supposed)
    if found is None or found.lost:
        return None
    further: dict[Name, KnownPart] = {}
    sources, said = dict(block.sources), []
    for one, queries, gained in found.further:
        known = block.sources.get(one.name)
        count = queries.count
        own = KnownPart(one.part, None, np.full(block.atoms.count, -1, np.int32), count)
        further[one.name] = own
        sources[one.name] = replace(known or own, total=one.precision, weighted=one.weighted, repeats=one.repeats)
        said.append((one.weighted - (0.0 if known is None else known.weighted)) / gained * np.ones(count))
    values = found.coefficients @ block.information.vector + found.gain @ np.concatenate(said)
    coefficients = np.concatenate([found.coefficients, found.gain], axis=1)
    return BlockBeside(block, further, sources, values, found.variances, coefficients)


@dataclass(frozen=True, eq=False)
class _BesideAtoms:
    """What `beside` finds, with the further measurements: their queries, and by how much their precision rises."""

    further: list[tuple[Observation, Queries, float]]
    coefficients: Floats
    gain: Floats
    variances: Floats
    lost: bool  # whether rounding may be to blame for what is not determined


def _beside(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> _BesideAtoms | None:
    if block.atoms.count < LEAST_ATOMS or asked.count > MOST_ROWS:
        return None
    further: list[tuple[Observation, Queries, float]] = []
    own: list[float] = []
    for one in supposed:
        queries = block.queries(one.part)
        if queries is None or queries.count + asked.count > MOST_ROWS:
            return None
        known = block.sources.get(one.name)
        gained = one.precision - (0.0 if known is None else known.total)
        if gained <= 0:
            return None
        further.append((one, queries, gained))
        own += [gained] * queries.count
    if not further or len(own) + asked.count > MOST_ROWS:
        return None
    every = [asked, *(queries for _, queries, _ in further)]
    atoms, parents = block.atoms, np.arange(block.atoms.count)
    for queries in every:
        atoms, above = atoms.refined(queries.cells)
        parents = parents[above]
    if atoms.count > MOST_ATOMS:
        return None
    padded = [np.concatenate([one.columns, np.zeros((one.count, 1))], axis=1) for one in every]
    at = [one.cells[atoms.first] for one in every]
    rows = np.concatenate([columns[:, places] for columns, places in zip(padded, at, strict=True)])
    # Nothing tells the parts of an atom apart, so the inverse may be 0 for all but the first of them.
    old = rows[:, : block.atoms.count]
    coefficients, told = refined(block.information, old, old @ block.information.inverse)
    covariance, left = told @ coefficients.T, rows - told[:, parents]
    sizes = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    determined = np.abs(left).max(axis=1, initial=0.0) <= RESIDUAL * sizes
    first, second = slice(0, asked.count), slice(asked.count, None)
    found, gain = beside(
        SolvedRows(coefficients[first], covariance[first, first], left[first], determined[first]),
        SolvedRows(coefficients[second], covariance[second, second], left[second], determined[second]),
        covariance[first, second],
        np.array(own),
        sizes[first],
    )
    missed = np.abs(found.residuals).max(axis=1, initial=0.0)
    return _BesideAtoms(
        further,
        found.weights,
        gain,
        np.where(found.determined, np.diagonal(found.covariance), np.inf),
        bool((~found.determined & (missed <= LOST * sizes[first])).any()),
    )

"""A block of least squares and a few more numbers, in the place of a copy of the block that holds these too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.beside_atoms import solved_beside
from dpnotebook.planner.information import LOST
from dpnotebook.planner.known_part import Key, KnownPart, Name, Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState, Queries
from dpnotebook.planner.stacked_parts import draws_of

Floats = NDArray[np.float64]


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
        known = zip(self.block.sources, self.block.weights(coefficients[:, :first]), strict=True)
        weights = {name: own for name, (_, own) in known}
        for name, one in self.further.items():
            own = coefficients[:, first : first + one.queries]
            first += one.queries
            weights[name] = weights[name] + own if name in weights else own
        return [(self.sources[name], own) for name, own in weights.items()]

    def draws(self, coefficients: Floats, most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in answers with such coefficients, as `draws_of` does."""
        return draws_of(self.weights(coefficients), len(coefficients), most)

    def peaks(self, coefficients: Floats) -> Floats:
        """Return the most that a noisy number of each source counts for in answers, shape (m, sources)."""
        found = [np.abs(weights).max(axis=1, initial=0.0) for _, weights in self.weights(coefficients)]
        return np.stack(found, axis=1)


def block_beside(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> BlockBeside | None:
    """Return how a question is answered beside further measurements.

    Parameters
    ----------
    block, asked, supposed
        As for `beside_atoms`.

    Returns
    -------
    None where a block of everything is to be made.
    """
    both = solved_beside(block, asked, supposed)
    if both is None:
        return None
    missed = np.abs(both.found.residuals).max(axis=1, initial=0.0)
    if (~both.found.determined & (missed <= LOST * both.sizes)).any():
        return None  # rounding may be to blame for what is not determined
    further: dict[Name, KnownPart] = {}
    sources, said = dict(block.sources), []
    for one, queries, gained in both.further:
        known = block.sources.get(one.name)
        count = queries.count
        own = KnownPart(one.part, None, np.full(block.atoms.count, -1, np.int32), count)
        further[one.name] = own
        sources[one.name] = replace(known or own, total=one.precision, weighted=one.weighted, repeats=one.repeats)
        said.append((one.weighted - (0.0 if known is None else known.weighted)) / gained * np.ones(count))
    weights = both.found.weights
    values = weights @ block.information.vector + both.gain @ np.concatenate(said)
    variances = np.where(both.found.determined, np.diagonal(both.found.covariance), np.inf)
    coefficients = np.concatenate([weights, both.gain], axis=1)
    return BlockBeside(block, further, sources, values, variances, coefficients)

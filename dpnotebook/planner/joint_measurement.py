"""How precisely several numbers must be measured together, when something is known about them and their combinations.

What is known of n numbers is an information matrix J: of every combination c that is determined, with the covariances
K of the determined ones. Measuring all n once with precision p leaves the covariance (J + p I)^-1, whose diagonal falls
with p: one eigendecomposition gives it for every p. What is only known in combination counts too: when a total is known
and its n parts are asked, n measurements tell n + 1 things.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.least_squares_state import MOST_ATOMS, LeastSquaresState

Floats = NDArray[np.float64]

# Squared residual, relative to the largest, up to which a combination counts as determined: calling one undetermined
# forgets what was paid for, and promises nothing false.
DETERMINED = 1e-14
CLOSE = 1e-9  # relative precision to which the least precision is found, from above
OUTSIDE = 1e-9  # squared share of an answer outside of all that is known, below which that is rounding
SINGULAR = 1e-14  # of the largest variance: a smaller one is what rounding has left of nothing
FEWER = 1.02  # precision may rise by so much where fewer numbers are then measured: what is left serves later


@dataclass(frozen=True, eq=False)
class Together:
    """What is known about n numbers, as orthogonal directions.

    Parameters
    ----------
    directions
        Orthonormal columns, the determined combinations; shape (n, k).
    precision
        What is known about each of them, positive; shape (k,). Nothing is known of what is orthogonal to all.
    """

    directions: Floats
    precision: Floats

    def variances(self, precision: float, asked: Floats | None = None) -> Floats:
        """Return variances after every one of the n numbers was measured with this precision, more than 0.

        Parameters
        ----------
        precision
            One over the variance of the noise.
        asked
            Combinations of the numbers, shape (m, n); the numbers themselves when None.
        """
        along, outside = self._split(asked)
        return np.asarray(along @ (1 / (self.precision + precision)) + outside / precision)

    def least(self, variances: Floats, asked: Floats | None = None) -> float:
        """Return the least precision of a measurement of all n numbers after which no answer is worse than asked.

        Parameters
        ----------
        variances
            What each answer may have, positive; shape (n,), or (m,) with `asked`.
        asked
            As for `variances`.

        Returns
        -------
        float
            0 where nothing has to be measured.
        """
        wanted = np.asarray(variances, dtype=float)
        if not (wanted > 0).all():
            raise WorkloadError("no precision gives an answer without variance")
        along, outside = self._split(asked)
        # Alone, a measurement of precision |w|^2 / v is enough; together never more is needed.
        high = float(((along.sum(axis=1) + outside) / wanted).max(initial=0.0))
        unknown = bool((outside > 0).any())
        if not unknown and (along @ (1 / self.precision) <= wanted).all():
            return 0.0
        low = 0.0
        while high - low > CLOSE * high:
            middle = (low + high) / 2
            # p outside / p <= p wanted: no division by a precision of 0
            if (middle * (along @ (1 / (self.precision + middle))) + outside <= middle * wanted).all():
                high = middle
            else:
                low = middle
        return high

    def _split(self, asked: Floats | None) -> tuple[Floats, Floats]:
        """Return squared coefficients of the answers along every direction, and of what is outside of all."""
        parts = self.directions if asked is None else asked @ self.directions
        along = parts**2
        size = np.ones(parts.shape[0]) if asked is None else (asked**2).sum(axis=1)
        outside = size - along.sum(axis=1)
        return along, np.where(outside > OUTSIDE * size, outside, 0.0)


def together(covariance: Floats, residual: Floats | None = None, size: float = 1.0) -> Together:
    """Return what is known about n numbers.

    Parameters
    ----------
    covariance
        Covariances of the estimates, shape (n, n). Where a number is not determined: of any estimate that is unbiased
        for the determined combinations, such as G q for a generalised inverse G of the information matrix X.
    residual
        What the estimates leave of each number: q - X G q, shape (n, unknowns). A combination is determined where its
        residual vanishes. None where all numbers are determined.
    size
        The largest entry of the queries that the numbers are: what rounding leaves of a residual is in proportion.

    Source: Gauss-Markov; the information about a subset of the unknowns is a Schur complement.
    """
    n = covariance.shape[0]
    directions: Floats = np.eye(n)
    if residual is not None and n:
        gram = residual @ residual.T
        largest = float(np.diagonal(gram).max())
        if largest > DETERMINED * size**2:
            values, vectors = np.linalg.eigh(gram)
            directions = vectors[:, values <= DETERMINED * n * max(largest, size**2)]
    inside = directions.T @ covariance @ directions
    values, vectors = np.linalg.eigh((inside + inside.T) / 2)
    # A variance that rounding has made nothing, or less, is taken for the least that rounding allows.
    least = max(SINGULAR * float(values.max(initial=0.0)), 1e-300)
    return Together(directions @ vectors, 1 / np.maximum(values, least))


def joint_precision(covariance: Floats, variances: Floats, residual: Floats | None = None) -> tuple[float, Any]:
    """Return how precisely to measure which of n numbers, so that afterwards none is worse than asked.

    Numbers that are known well enough are left out where that costs next to nothing: what is not measured of their
    cells is left for other questions.

    Parameters
    ----------
    covariance, residual
        What is known, as for `together`.
    variances
        What each number may have, positive; shape (n,).

    Returns
    -------
    float, numpy.ndarray
        The precision (one over the variance of the noise), and which numbers are measured, bool, shape (n,). Precision
        0 and none where all are known well enough.
    """
    wanted = np.asarray(variances, dtype=float)
    open_ = np.diagonal(covariance) > wanted
    if residual is not None:
        open_ |= np.abs(residual).max(axis=1, initial=0.0) ** 2 > DETERMINED
    if not open_.any():
        return 0.0, open_

    def least(some: NDArray[np.bool_]) -> float:
        left = None if residual is None else residual[some]
        # Numbers that are not measured only get better: what is known about the others is all that counts.
        return together(covariance[np.ix_(some, some)], left).least(wanted[some])

    few = least(open_)
    if open_.all():
        return few, open_
    everything = np.ones_like(open_)
    all_ = least(everything)
    return (few, open_) if few <= FEWER * all_ else (all_, everything)


def bound_precision(before: Floats, factors: Floats, variances: Floats) -> float:
    """Return a precision of a strategy's measurements that is enough, whatever the answers have to do with each other.

    What is known of answer i (variance `before`, infinite for nothing) and what is measured anew are combined answer by
    answer, 1 / (1 / before + precision / factor): least squares over both is never worse.

    Parameters
    ----------
    before
        Variance of each answer from what is known, shape (m,).
    factors
        Variance of each answer from the strategy alone, for noise of unit variance, shape (m,).
    variances
        What each answer may have, shape (m,).
    """
    return float((factors * np.maximum(1 / variances - 1 / before, 0.0)).max(initial=0.0))


def known_of(block: LeastSquaresState, queries: Queries) -> tuple[Floats, Floats] | None:
    """Return what a block knows about some queries and their combinations.

    Parameters
    ----------
    block
        Least squares over what was measured.
    queries
        Queries over the cells of the block; they may cut its atoms.

    Returns
    -------
    Covariances and residuals, as for `together`; None where the queries cut the atoms too often.
    """
    atoms, parents = block.atoms.refined(queries.cells)
    if atoms.count > MOST_ATOMS:
        return None
    if atoms.count == block.atoms.count:  # no atom is cut
        solved, columns = block.solved(queries), queries.columns
        if queries.bins:
            return (solved.covariance + solved.covariance.T) / 2, solved.residuals
        covariance = columns @ solved.covariance @ columns.T
        return (covariance + covariance.T) / 2, columns @ solved.residuals
    padded = np.concatenate([queries.columns, np.zeros((queries.count, 1))], axis=1)
    rows = padded[:, queries.cells[atoms.first]]
    information, old = block.information, block.atoms.count
    # Nothing tells the parts of an atom apart, so the inverse may be 0 for all but the first of them.
    coefficients = rows[:, :old] @ information.inverse
    told = coefficients @ information.matrix
    covariance = told @ coefficients.T
    return (covariance + covariance.T) / 2, rows - told[:, parents]

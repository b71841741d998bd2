"""Least squares over numbers that are solved for once: by a factor, and by an inverse only where much is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.information import ANGLES, MIDDLE, factor_of, generalised_inverse

MANY = 1 / 3  # of the numbers: for more queries an inverse takes no longer
CLEAN = 1e-10  # of the largest entry of a query: what a few vectors see of a residual that counts as none

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class InPassing:
    """How queries are answered, looked at while ways to answer are compared: residuals are seen through few vectors.

    Parameters
    ----------
    factor, kept, scale
        As `factor_of` has them.
    numbers
        How many numbers there are.
    halves
        The inverse of the factor times the queries over the scales: what answers have in common is the product of two;
        shape (kept, queries).
    """

    factor: Floats
    kept: Indices
    scale: Floats
    numbers: int
    halves: Floats

    @property
    def count(self) -> int:
        """Number of queries."""
        return int(self.halves.shape[1])

    @property
    def coefficients(self) -> Floats:
        """What each number counts for in each answer, shape (queries, numbers)."""
        return self.mixed(np.eye(self.count))

    @property
    def variances(self) -> Floats:
        """Variance of the answer to each query."""
        return np.asarray(np.einsum("ij,ij->j", self.halves, self.halves))

    @property
    def covariance(self) -> Floats:
        """Covariances of the answers."""
        return self.halves.T @ self.halves

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Which queries are determined: all."""
        return np.ones(self.count, dtype=bool)

    def mixed(self, mixtures: Floats) -> Floats:
        """Return the coefficients of mixtures of the answers, shape (mixtures, queries): shape (mixtures, numbers)."""
        from scipy.linalg.lapack import dtrtrs

        found = np.zeros((len(mixtures), self.numbers))
        found[:, self.kept] = dtrtrs(self.factor, self.halves @ mixtures.T, lower=1, trans=1)[0].T / self.scale
        return found


class Factored:
    """What was measured of some numbers, as `solved.refined` looks at it.

    Parameters
    ----------
    matrix
        The information matrix, shape (numbers, numbers).
    every
        Whether each number is likely to have been measured by itself.
    """

    updated = False  # as for `Information`: nothing is ever added

    def __init__(self, matrix: Floats, *, every: bool) -> None:
        self.matrix, self._every = matrix, every

    def applied(self, rows: Floats) -> Floats:
        """Return rows times a generalised inverse of the matrix."""
        from scipy.linalg.lapack import dpotrs

        if len(rows) > MANY * len(self.matrix):
            return np.asarray(rows @ self.inverse)
        factor, kept, scale = self._factor
        found = np.zeros(rows.shape)
        if kept.size:
            solved, _ = dpotrs(factor, (rows[:, kept] / scale).T, lower=1, overwrite_b=1)
            found[:, kept] = solved.T / scale
        return found

    def in_passing(self, queries: Floats, *, single: bool) -> InPassing | None:
        """Return how queries are answered in far less time; None where it takes the whole certificate to say that.

        Parameters
        ----------
        queries
            Shape (queries, numbers).
        single
            Whether these are the numbers themselves, in order.
        """
        from scipy.linalg.lapack import dtrtri, dtrtrs

        factor, kept, scale = self._factor
        if not kept.size:
            return None
        numbers = len(self.matrix)
        if single:
            halves = np.tril(dtrtri(factor, lower=1)[0])
            halves /= scale
            if kept.size < numbers or (kept != np.arange(numbers)).any():
                own, halves = halves, np.zeros((kept.size, numbers))
                halves[:, kept] = own
        else:
            halves = dtrtrs(factor, (queries[:, kept] / scale).T, lower=1)[0]
        probes = MIDDLE + np.cos(np.arange(1.0, numbers + 1)[:, None] * np.sqrt(ANGLES))
        told = dtrtrs(factor, (self.matrix @ probes)[kept] / scale[:, None], lower=1)[0]
        left = np.abs((probes if single else queries @ probes) - halves.T @ told)
        if not (left.max(axis=1) <= CLEAN * (1.0 if single else np.abs(queries).max(axis=1, initial=0.0))).all():
            return None
        return InPassing(factor, kept, scale, numbers, halves)

    @cached_property
    def inverse(self) -> Floats:
        """A generalised inverse of the matrix."""
        return generalised_inverse(self.matrix, every=self._every)[0]

    @cached_property
    def _factor(self) -> tuple[Floats, Indices, Floats]:
        return factor_of(self.matrix, every=self._every)

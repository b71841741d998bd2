"""Least squares when further numbers come beside those that were measured, without working these out anew.

What was measured answers a question q with weights w, leaving q - w Q of it, and so it does for the queries N of the
further numbers. Their innovations y - W_N y_Q are independent of what is known of determined combinations but for the
covariances that are given, and have the mean (N - W_N Q) x: what they count for is a regression on as many numbers as
were added, where that mean takes the place of what was left of q (Gauss-Markov; Kalman's update where all is known).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.row_space import RESIDUAL, SolvedRows

Floats = NDArray[np.float64]

SEEN = 1e-12  # squared, of what further numbers see anew, relative to the most: below it there is nothing but rounding
REFINEMENTS = 2  # each takes back most of what rounding left of a question


def beside(
    asked: SolvedRows, further: SolvedRows, across: Floats, own: Floats, sizes: Floats
) -> tuple[SolvedRows, Floats]:
    """Return how questions are answered from what was measured and from further numbers.

    Parameters
    ----------
    asked, further
        How the questions, and the queries of the further numbers, are answered from what was measured.
    across
        The covariances of the former with the latter, shape (questions, further).
    own
        One over the variance of each further number, shape (further,).
    sizes
        The largest coefficient of each question, shape (questions,).

    Returns
    -------
    The answers, with weights of the measured numbers; and what each further number counts for, (questions, further).
    """
    from scipy.linalg import cho_solve, cholesky, solve_triangular

    innovation = further.covariance + np.diag(1 / own)
    factor = cholesky((innovation + innovation.T) / 2, lower=True, check_finite=False)
    gain = cho_solve((factor, True), across.T, check_finite=False).T
    covariance = asked.covariance - gain @ across.T
    unknown = np.flatnonzero(~further.determined)
    left = asked.residuals
    if unknown.size:
        seen = further.residuals[unknown]
        whitened = _whitened(factor, unknown, seen)
        values, vectors = np.linalg.eigh(whitened @ whitened.T)
        some = values > SEEN * values[-1]
        inverse = (vectors[:, some] / values[some]) @ vectors[:, some].T
        total = np.zeros_like(gain)
        for _ in range(REFINEMENTS):
            left = asked.residuals - gain[:, unknown] @ seen
            more = left @ whitened.T @ inverse
            total += more
            gain = gain + solve_triangular(factor, more.T, lower=True, trans="T", check_finite=False).T
        left = asked.residuals - gain[:, unknown] @ seen
        covariance = covariance + total @ total.T
    missed = np.abs(left).max(axis=1, initial=0.0) / sizes
    weights = asked.weights - gain @ further.weights
    return SolvedRows(weights, (covariance + covariance.T) / 2, left, missed <= RESIDUAL), gain


def _whitened(factor: Floats, unknown: NDArray[np.intp], seen: Floats) -> Floats:
    """Return the inverse of a factor times rows of which only some are not 0, shape (rows of the factor, any)."""
    from scipy.linalg import solve_triangular

    columns = np.zeros((len(factor), unknown.size))
    columns[unknown, np.arange(unknown.size)] = 1.0
    return np.asarray(solve_triangular(factor, columns, lower=True, check_finite=False) @ seen)

"""COA: the convex program for Gaussian noise by Newton's method, its steps found by conjugate gradients.

Source: Yuan et al. 2016 ("Optimizing batch linear query answering under differential privacy"), as compared in HDMM,
Table 5. It minimises tr(X^-1 V) over the positive definite X = A'A with ones on the diagonal, for V = W'W with a little
added to its diagonal so that it has full rank. `opt_0` solves the same program faster, and with proof.
"""

from __future__ import annotations

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.competitors.factors import factor_by_factor
from dpnotebook.strategy.rounding import rounded_gram
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Total, Workload
from dpnotebook.workload.base import Array

CELLS = 1024  # a Newton step takes some ten products of matrices of this size
ADDED = 1e-3  # to the diagonal of V, as a share of its mean (as published)
INNER = 5  # steps of conjugate gradients within one of Newton's (as published)
SHORTEST = 2.0**-40  # step of a line search, after which there is nothing to gain
ARMIJO = 0.1  # of what a step promises, that it must keep
CONJUGATE = 1e-8  # of the squared residual at first, at which conjugate gradients end


def coa(
    workload: Workload,
    noise: Noise = "gaussian",
    *,
    tolerance: float = 1e-5,
    iterations: int = 100,
    report: Progress = silent,
) -> Strategy:
    """Return the strategy of COA. A single product is solved attribute by attribute.

    Parameters
    ----------
    workload
        What is to be answered: products of factors of up to 1,024 cells each, or a union over up to 1,024 cells.
    noise
        "gaussian".
    tolerance
        Stop when a step promises less than this share of the squared error.
    iterations
        Most Newton steps.
    report
        Called with the progress before each step.

    Raises
    ------
    WorkloadError
        If the noise is not Gaussian, or there are too many cells.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.coa(AllRange(64)).rmse(epsilon=1.0, delta=1e-6), 2)
    9.74
    """
    if not law_of(noise).euclidean:
        raise WorkloadError("COA is for Gaussian noise; for Laplace noise compare with LRM: lrm(workload)")

    def design(factor: Workload) -> Workload:
        if isinstance(factor, (Identity, Total)):
            return factor
        gram = factor.gram().astype(float)
        found = newton(gram, tolerance, iterations, report)
        return rounded_gram(found, gram, float(np.trace(np.linalg.solve(found, gram))))

    return Strategy(workload, factor_by_factor(workload, design, "COA", CELLS), noise, "COA")


def newton(gram: Array, tolerance: float = 1e-5, iterations: int = 100, report: Progress = silent) -> Array:
    """Return X with ones on its diagonal that nearly minimises tr(X^-1 V), shape (n, n).

    Parameters
    ----------
    gram
        V, shape (n, n).
    tolerance, iterations, report
        As for `coa`.
    """
    n = len(gram)
    target = gram + ADDED * np.trace(gram) / n * np.eye(n)
    x = np.eye(n)
    value = float(np.trace(target))
    for step in range(iterations):
        report(step / iterations, "COA: Newton steps")
        inverse = np.linalg.inv(x)
        inverse = (inverse + inverse.T) / 2
        slope = -inverse @ target @ inverse
        slope = (slope + slope.T) / 2
        direction = _direction(inverse, slope)
        promised = -float(np.vdot(slope, direction))
        if promised <= tolerance * value:
            break
        length = 1.0
        while length > SHORTEST:
            reached = _value(x + length * direction, target)
            if reached <= value - ARMIJO * length * promised:
                break
            length /= 2
        else:
            break
        x, value = x + length * direction, reached
    return x


def _direction(inverse: Array, slope: Array) -> Array:
    """Return a direction D of zero diagonal that nearly solves Hessian(D) = -slope, by conjugate gradients."""
    rest = _off_diagonal(-slope)
    direction, search = np.zeros_like(rest), rest
    size = first = float(np.vdot(rest, rest))
    if not size:  # the queries tell of each cell by itself, and nothing is to be gained
        return direction
    for _ in range(INNER):
        half = inverse @ search @ slope
        curved = _off_diagonal(-(half + half.T))
        length = size / float(np.vdot(search, curved))
        direction = direction + length * (search + search.T) / 2  # what is not symmetric is rounding, and would grow
        rest = rest - length * curved
        previous, size = size, float(np.vdot(rest, rest))
        if size <= CONJUGATE * first:
            break
        search = rest + size / previous * search
    return direction


def _off_diagonal(matrix: Array) -> Array:
    return np.asarray(matrix - np.diag(np.diagonal(matrix)))


def _value(x: Array, target: Array) -> float:
    try:
        np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.inf
    return float(np.trace(np.linalg.solve(x, target)))

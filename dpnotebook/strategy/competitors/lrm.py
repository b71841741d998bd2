"""LRM, the low-rank mechanism: a strategy of few rows with any entries, by projected gradient descent.

Source: Yuan et al. 2012 ("Low-rank mechanism"), as compared in HDMM, Table 4: W = B L, where L is measured, to minimise
the squared size of B with every column of L in the unit ball. For a given L the best B is W L^+, so that the problem
is to minimise tr(V (L'L)^-1), V = W'W, over L alone. It is not convex, and where one starts decides which local optimum
is found. The spectral projected gradient method (Birgin et al. 2000) takes the place of the paper's multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.competitors.factors import factor_by_factor
from dpnotebook.strategy.eigen.integer_rows import integer_matrix
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Total, Workload
from dpnotebook.workload.base import Array

CELLS = 1024  # a step takes some five products of matrices of this size
ROWS = 1.2  # rows of L for each cell (as published: 1.2 times the rank)
CELL_WEIGHTS = (0.3, 0.03)  # beside the queries themselves, in a start
ADDED = 1e-3  # to the diagonal of a V without full rank, as a share of its mean
DEFICIENT = 1e-10  # an eigenvalue below this share of the largest: V has not full rank
STEEP = 1e-9  # of the objective, what a step must promise for another one to be tried
ARMIJO = 1e-4  # of what a step promises, that it must keep
SHORTEST = 1e-10  # step that is taken whatever it keeps
CERTAIN = 1e-6  # by which the inverse of L'L may miss: beyond it, it is nothing but rounding
MEMORY = 10  # objectives that a step is compared with: the method need not descend at every one


def lrm(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    iterations: int = 200,
    report: Progress = silent,
) -> Strategy:
    """Return the strategy of the low-rank mechanism. A single product is solved attribute by attribute.

    Parameters
    ----------
    workload
        What is to be answered: products of factors of up to 1,024 cells each, or a union over up to 1,024 cells.
    noise
        "laplace" or "gaussian".
    iterations
        Most steps.
    report
        Called with the progress before each step.

    Raises
    ------
    WorkloadError
        If there are too many cells.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Explicit
    >>> few = Explicit([[1] * 16, [1] * 8 + [0] * 8, [0, 1] * 8])  # fewer queries than cells
    >>> strategy.lrm(few).objective < strategy.itself(few).objective
    True
    """

    def design(factor: Workload) -> Workload:
        if isinstance(factor, (Identity, Total)):
            return factor
        gram = factor.gram().astype(float)
        found = [low_rank(gram, noise, iterations, start, report) for start in _starts(factor, gram)]
        return integer_matrix(min(found, key=lambda point: _value_and_slope(point, gram)[0]), gram, noise)

    return Strategy(workload, factor_by_factor(workload, design, "LRM", CELLS), noise, "LRM")


def low_rank(
    gram: Array, noise: Noise, iterations: int = 200, start: Array | None = None, report: Progress = silent
) -> Array:
    """Return L with columns in the unit ball that is a local minimum of tr(V (L'L)^-1), shape (r, n).

    If V has a lower rank than n, a little is added to its diagonal, so that L'L stays invertible.

    Parameters
    ----------
    gram
        V, shape (n, n).
    noise
        "laplace": columns have an L1 norm of at most 1; "gaussian": an L2 norm.
    start
        Where to start from, shape (r, n), of full column rank.
    iterations, report
        As for `lrm`.
    """
    n = len(gram)
    values = np.linalg.eigvalsh(gram)
    if values[0] <= DEFICIENT * values[-1]:
        gram = gram + ADDED * np.trace(gram) / n * np.eye(n)
    project = _onto_l2_balls if law_of(noise).euclidean else _onto_l1_balls
    point = project(_start(gram) if start is None else start)
    value, slope = _value_and_slope(point, gram)
    best, best_value = point, value
    recent = [value]
    step = 1 / max(float(np.abs(slope).max()), 1e-300)
    for done in range(iterations):
        report(done / iterations, "LRM: projected gradient steps")
        direction = project(point - step * slope) - point
        along = float(np.vdot(direction, slope))
        if -along <= STEEP * value:
            break
        length = 1.0
        while True:
            trial = point + length * direction
            trial_value, trial_slope = _value_and_slope(trial, gram)
            if trial_value <= max(recent) + ARMIJO * length * along or length < SHORTEST:
                break
            length /= 2
        moved, bent = trial - point, trial_slope - slope
        curvature = float(np.vdot(moved, bent))
        step = float(np.vdot(moved, moved)) / curvature if curvature > 0 else 2 * step
        point, value, slope = trial, trial_value, trial_slope
        recent = [*recent[1 - MEMORY :], value]
        if value < best_value:
            best, best_value = point, value
    return best


def _starts(workload: Workload, gram: Array) -> Iterator[Array]:
    """Yield where to start from: for few queries also the queries themselves, with every cell weighed a little."""
    yield _start(gram)
    m, n = workload.shape
    if m <= ROWS * n:
        queries = workload.dense().astype(float)
        queries /= np.abs(queries).sum(axis=0).max()
        for cells in CELL_WEIGHTS:
            yield np.vstack((cells * np.eye(n), (1 - cells) * queries))


def _start(gram: Array) -> Array:
    """Return all cells, and below them leading eigenvectors of V times the fourth roots of their eigenvalues."""
    n = len(gram)
    values, vectors = np.linalg.eigh(gram)
    count = max(1, math.ceil((ROWS - 1) * n))
    leading = vectors[:, ::-1][:, :count].T * np.maximum(values[::-1][:count, None], 0) ** 0.25
    return np.vstack((np.eye(n) / 2, leading / np.abs(leading).sum(axis=0).max() / 2))


def _value_and_slope(point: Array, gram: Array) -> tuple[float, Array]:
    normal = point.T @ point
    try:
        inverse = np.linalg.inv(normal)
    except np.linalg.LinAlgError:
        return math.inf, np.zeros_like(point)
    spread = inverse @ gram
    value = float(np.trace(spread))
    exact = np.abs(normal @ inverse - np.eye(len(normal))).max() < CERTAIN
    return (value if exact else math.inf), -2 * point @ (spread @ inverse)


def _onto_l2_balls(point: Array) -> Array:
    return np.asarray(point / np.maximum(1, np.sqrt((point**2).sum(axis=0))))


def _onto_l1_balls(point: Array) -> Array:
    """Return each column's nearest point of L1 norm at most 1: its entries shrink alike (Duchi et al. 2008)."""
    sizes = np.abs(point)
    falling = -np.sort(-sizes, axis=0)
    sums = np.cumsum(falling, axis=0) - 1
    counts = np.arange(1, len(point) + 1)[:, None]
    kept = (falling * counts > sums).sum(axis=0)
    shrink = np.maximum(0, np.take_along_axis(sums, kept[None] - 1, axis=0)[0] / kept)
    return np.asarray(np.sign(point) * np.maximum(sizes - shrink, 0))

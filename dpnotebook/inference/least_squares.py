"""Reconstruct the cells from noisy answers of a strategy: x = A^+ y.

Source: HDMM, section 10 (RECONSTRUCT): the pseudo-inverse of a product is the product of its factors' (case 1,
Proposition 6); unions of products are solved iteratively, with the implicit operator, where the paper is content with
local least squares (case 3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.inverse import inverse, is_direct
from dpnotebook.workload.base import Array, Workload, require_memory
from dpnotebook.workload.compose import apply_factors
from dpnotebook.workload.contiguous import Identity
from dpnotebook.workload.terms import terms

Solver = Callable[[Array], Array]
TOLERANCE = 1e-12  # relative accuracy asked of the iteration
ITERATIONS = 10_000  # after which the result must be accepted or is refused
ACCEPTED = 1e-7  # relative size of the normal residual above which its result is refused


def least_squares(operator: Workload, noisy: ArrayLike) -> Array:
    """Return the cells of least norm among those that fit the noisy answers best.

    Parameters
    ----------
    operator
        What was measured, shape (p, n): every row with the same noise variance.
    noisy
        Noisy answers, shape (p,).

    Returns
    -------
    Estimated counts of the cells, shape (n,), float. `workload.matvec` of them are the best linear unbiased answers of
    every workload that the operator supports.

    Raises
    ------
    WorkloadError
        If there is not one finite number for every measurement, or the cells do not fit in memory.

    Examples
    --------
    >>> from dpnotebook.inference import least_squares
    >>> from dpnotebook.workload import Identity, Total
    >>> least_squares(Total(2) + Identity(2), [10, 4, 3])  # the total says 3 more than the cells
    array([5., 4.])
    """
    measured = np.asarray(noisy)
    p, n = operator.shape
    if measured.shape != (p,) or measured.dtype.kind not in "biuf" or not np.isfinite(measured).all():
        raise WorkloadError(f"reconstruction needs one finite number for each of {p:,} measurements")
    require_memory(n, f"an estimate of {n:,} cells")
    flat = terms(operator)
    if len(flat) == 1:
        factors = flat[0].factors
        sizes = [factor.shape[0] for factor in factors]
        # An axis that shrinks goes first, so that no intermediate array is larger than it must be.
        order = sorted(range(len(factors)), key=lambda axis: factors[axis].shape[1] / sizes[axis])
        steps = [(axis, solver(factors[axis])) for axis in order if not isinstance(factors[axis], Identity)]
        cells = apply_factors(measured.astype(float, copy=not steps).reshape(1, p, 1), sizes, steps).reshape(n)
        return cells if flat[0].weight == 1 else np.divide(cells, flat[0].weight, out=cells)
    if is_direct(operator):
        return solver(operator)(measured.reshape(1, p, 1)).reshape(n)
    return _iterate(operator, measured.astype(float))


def solver(factor: Workload) -> Solver:
    """Return the function y -> A^+ y = (A'A)^+ A' y along the middle axis, (a, p, b) to (a, n, b)."""
    return lambda y: inverse(factor).apply(factor.apply_transposed(y))


def _iterate(operator: Workload, measured: Array) -> Array:
    from scipy.sparse.linalg import LinearOperator, lsmr

    matrix = LinearOperator(operator.shape, matvec=operator.matvec, rmatvec=operator.rmatvec, dtype=np.float64)
    found = lsmr(matrix, measured, atol=TOLERANCE, btol=TOLERANCE, conlim=0, maxiter=ITERATIONS)
    estimate = np.asarray(found[0])
    # Relative to |A'y| alone: where y is nearly all noise outside the range of A, the residual itself stays large.
    scale = np.linalg.norm(operator.rmatvec(measured))
    if not np.linalg.norm(operator.rmatvec(measured - operator.matvec(estimate))) <= ACCEPTED * scale:
        raise WorkloadError(f"least squares over {shorten(operator)} did not converge")
    return estimate

"""The best strategy for Gaussian noise, with proof: the A'A of least error, and a lower bound that meets it.

The problem is convex in X = A'A: minimise tr(X^+ V) subject to diag X <= 1, for a workload with the Gram matrix V = W'W
(HDMM, Definition 12, eq. 2). With one multiplier v_i a cell, its Lagrange dual is to maximise
(tr S)^2 / sum(v), S = (D^1/2 V D^1/2)^1/2, D = diag(v): every v >= 0 gives a lower bound on the error of every strategy
(at v = 1 it is the SVD bound), and X = D^-1/2 S D^-1/2, scaled, a strategy. The optimum is where diag X = 1, which is a
fixed point of v <- v diag(X); Anderson's acceleration finds it in a few eigendecompositions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.dense import EIGENVALUE_ROUNDING
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.blas import threads_for
from dpnotebook.workload.base import Array, require_memory

DEFICIENT = 1e-10  # an eigenvalue of V below this share of the largest: the form for full rank would lose digits
MEMORY = 10  # steps that the acceleration remembers
STEP = 0.1  # an accelerated sqrt(v_i) is kept within this factor of the plain one
FELL = 1 - 1e-13  # of the dual value before: a step that takes more of it is taken back
STEADY = 1e-12  # singular value of the remembered steps, relative to the largest, below which one is left out
NEGATIVE = 1e-8  # of the largest eigenvalue: a matrix with one this far below 0 is no Gram matrix
SYMMETRIC = 1e-8  # relative difference of two entries that is rounding
ROUNDING = 1e-11  # relative error allowed for in a bound that is computed in floating point


@dataclass(frozen=True)
class Optimum:
    """A strategy for Gaussian noise as A'A, and how far from the best it can be.

    Parameters
    ----------
    gram
        X = A'A, shape (n, n), with diagonal at most 1. It has the rank of V: all ones on the diagonal if V has full
        rank, and else whatever the optimum needs.
    objective
        tr(X^+ V): |A|_2^2 |W A^+|_F^2 of this strategy.
    lower
        No strategy has an objective below this.
    v
        The multipliers that prove it, shape (n,): a warm start for a similar V.
    """

    gram: Array
    objective: float
    lower: float
    v: Array

    @property
    def gap(self) -> float:
        """How far the objective can be above the best possible, as a share of it."""
        return self.objective / self.lower - 1


class _Point(Protocol):
    """The dual value at some v, and the strategy that belongs to it."""

    dual: float
    diagonal: Array  # diag X, shape (n,)
    objective: float  # of the strategy, scaled to be feasible

    def gram(self) -> Array:
        """Return the scaled X."""


def gaussian_optimum(
    gram: ArrayLike,
    *,
    tolerance: float = 1e-6,
    iterations: int = 200,
    start: ArrayLike | None = None,
    report: Progress = silent,
) -> Optimum:
    """Return the strategy of least error for Gaussian noise.

    Parameters
    ----------
    gram
        V = W'W, shape (n, n): symmetric, positive semidefinite, not zero.
    tolerance
        Relative gap between the objective and its lower bound at which to stop.
    iterations
        Most eigendecompositions; what is best by then is returned, with its honest gap.
    start
        Multipliers to start from, shape (n,), above zero: those of a similar workload. Only a matter of speed.
    report
        Called with the progress before each eigendecomposition.

    Raises
    ------
    WorkloadError
        If the Gram matrix is not one, or would not fit in memory.
    """
    whole = _checked(gram)
    asked = np.diagonal(whole) > 0
    v = np.sqrt(np.diagonal(whole)) if start is None else np.array(start, dtype=float)
    if v.shape != (len(whole),) or not np.isfinite(v).all() or not (v[asked] > 0).all():
        raise WorkloadError(f"the start must be one number above zero for each of {len(whole):,} cells")
    with threads_for(len(whole)):
        if asked.all():
            return _solve(whole, v, tolerance, iterations, report)
        found = _solve(whole[np.ix_(asked, asked)], v[asked], tolerance, iterations, report)
    result, multipliers = np.zeros_like(whole), np.zeros(len(whole))
    result[np.ix_(asked, asked)], multipliers[asked] = found.gram, found.v
    return Optimum(result, found.objective, found.lower, multipliers)


def proved_bound(gram: Array, v: Array) -> float:
    """Return what the multipliers v prove that no strategy's objective can be below, for any v >= 0, shape (n,).

    Parameters
    ----------
    gram
        V = W'W, shape (n, n).
    v
        One multiplier a cell.
    """
    if v.shape != (len(gram),) or not np.isfinite(v).all() or not (v >= 0).all() or not v.any():
        return 0.0
    half = np.sqrt(v)
    with threads_for(len(gram)):
        values = np.linalg.eigvalsh(gram * half * half[:, None])
    return float(np.sqrt(np.maximum(values, 0.0)).sum() ** 2 / v.sum())


def _solve(gram: Array, v: Array, tolerance: float, iterations: int, report: Progress) -> Optimum:
    """Iterate on sqrt(v): plain steps never lower the dual value, and an accelerated one that does is taken back."""
    report(None, "looking for the best strategy for Gaussian noise")
    factor = _factor(gram)
    best: _Point | None = None
    lower, proof, fallback = 0.0, v, v
    last = 0.0
    memory = _Memory()
    for _ in range(max(1, iterations)):
        point: _Point = _FullRank(gram, v) if factor is None else _Deficient(factor, v)
        if best is None or point.objective < best.objective:
            best = point
        if point.dual > lower:
            lower, proof = point.dual, v
        gap = best.objective / lower - 1
        if gap <= tolerance:
            break
        report(None, f"looking for the best strategy for Gaussian noise, within {gap:.1g} of it")
        if memory.steps and point.dual < last * FELL:
            v, memory = fallback, _Memory()
            continue
        last, fallback = point.dual, v * point.diagonal
        plain = np.sqrt(fallback)
        v = np.clip(memory.next(np.sqrt(v), plain), STEP * plain, plain / STEP) ** 2
    assert best is not None
    return Optimum(best.gram(), best.objective, lower * (1 - ROUNDING), proof)


class _Memory:
    """Anderson's acceleration of x <- f(x): the combination of past steps whose residual is least."""

    def __init__(self) -> None:
        self.points: list[Array] = []
        self.steps: list[Array] = []

    def next(self, x: Array, image: Array) -> Array:
        """Return the next point, for the last one and its image."""
        self.points = [*self.points[-MEMORY:], x]
        self.steps = [*self.steps[-MEMORY:], image - x]
        if len(self.steps) == 1:
            return image
        moved, changed = np.diff(np.array(self.points), axis=0), np.diff(np.array(self.steps), axis=0)
        share = np.linalg.lstsq(changed.T, self.steps[-1], rcond=STEADY)[0]
        return np.asarray(image - share @ (moved + changed))


class _FullRank:
    """A point for a V of full rank: X is scaled to ones on its diagonal, which costs an error of second order."""

    def __init__(self, gram: Array, v: Array) -> None:
        half = np.sqrt(v)
        scaled = gram * half
        scaled *= half[:, None]
        values, self._vectors = np.linalg.eigh(scaled)
        self._roots = np.sqrt(np.maximum(values, values[-1] * np.finfo(float).eps))
        self._half = half
        self.dual = float(self._roots.sum() ** 2 / v.sum())
        # diag S, without a third array of this size.
        self.diagonal = np.einsum("ik,ik,k->i", self._vectors, self._vectors, self._roots, optimize=False) / v
        np.matmul(self._vectors / self._roots, self._vectors.T, out=scaled)  # S^-1
        scaled *= gram
        weights = half * np.sqrt(self.diagonal)
        self.objective = float(weights @ scaled @ weights)

    def gram(self) -> Array:
        result = (self._vectors * self._roots) @ self._vectors.T
        weights = 1 / (self._half * np.sqrt(self.diagonal))
        result *= weights
        result *= weights[:, None]
        result[np.diag_indices_from(result)] = 1.0
        return np.asarray(result)


class _Deficient:
    """A point for V = F'F of lower rank: X = F' (F D F')^-1/2 F stays stable where some v_i go to zero."""

    def __init__(self, factor: Array, v: Array) -> None:
        values, vectors = np.linalg.eigh((factor * v) @ factor.T)
        self._roots = np.sqrt(np.maximum(values, values[-1] * np.finfo(float).eps ** 2))
        self._turned = vectors.T @ factor
        total = float(self._roots.sum())
        self.dual = total**2 / float(v.sum())
        self.diagonal = (1 / self._roots) @ self._turned**2
        # Scaling each cell by itself would leave the row space, so that all are scaled alike.
        self.objective = total * float(self.diagonal.max())

    def gram(self) -> Array:
        result = (self._turned.T / (self._roots * self.diagonal.max())) @ self._turned
        return np.asarray((result + result.T) / 2)


def _factor(gram: Array) -> Array | None:
    """Return F with F'F = V and as many rows as V has rank; None where that is all of them."""
    values = np.linalg.eigvalsh(gram)
    if values[0] < -NEGATIVE * values[-1]:
        raise WorkloadError("a Gram matrix has no negative eigenvalues; pass W'W of a workload")
    if values[0] > DEFICIENT * values[-1]:
        return None
    values, vectors = np.linalg.eigh(gram)
    kept = values > len(gram) * EIGENVALUE_ROUNDING * values[-1]
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)


def _checked(gram: ArrayLike) -> Array:
    whole = np.asarray(gram, dtype=float)
    if whole.ndim != 2 or whole.shape[0] != whole.shape[1] or not whole.size or not np.isfinite(whole).all():
        raise WorkloadError("a Gram matrix is square, with one row and one column of finite numbers a cell")
    require_memory(whole.size, f"the {len(whole):,} x {len(whole):,} Gram matrix of this workload")
    if not np.allclose(whole, whole.T, rtol=SYMMETRIC, atol=SYMMETRIC * float(np.abs(whole).max())):
        raise WorkloadError("a Gram matrix is symmetric; pass W'W of a workload")
    if not (np.diagonal(whole) > 0).any():
        raise WorkloadError("a workload that asks nothing needs no strategy")
    return whole

"""The strategy whose worst answer is best, over few cells, with proof for Gaussian noise.

With one weight q_i >= 0 an answer, adding up to one, the weighted total is never above the worst answer; so the least
weighted total, for any q, is a lower bound on the worst answer of every strategy, and where the bound is largest the
two meet (von Neumann). For Gaussian noise the bound is (tr S)^2 / sum(v), S = (D^1/2 V D^1/2)^1/2, V = W' diag(q) W,
with one multiplier v_j a cell (see `gaussian`): tr S is the fidelity of the two, concave in v and q together.
Multiplicative weights raise both: v <- v diag(X), q <- q (variances)^step, the step as long as it helps. For Laplace
noise p-Identity strategies descend along a norm of the variances that goes to their maximum.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.gaussian import Optimum, gaussian_optimum, proved_bound
from dpnotebook.strategy.kept_optima import FoundOperator, kept
from dpnotebook.strategy.laplace import Descent, loss_and_gradient, p_identity, starting_points
from dpnotebook.strategy.ordering import permuted_operator
from dpnotebook.strategy.rounding import rounded_gram, rounded_p_identity
from dpnotebook.strategy.running_laplace import is_running, running_counts
from dpnotebook.workload import Explicit, Permuted, PIdentity, Stack, Weighted, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous

ENTRIES = 2**25  # of rows that are written out
INTERVALS = 2**22  # runs of cells, which need not be
GAP, ROUGH_GAP = 1e-3, 5e-3  # between the worst variance and its bound at which to stop; the latter where
MANY_CELLS = 256  # cells are more than this, or somebody waits
CUBES = 2**33  # cells cubed, times steps: what there is time for, some seconds
FEWEST, MOST = 8, 400  # steps
GROWTH, LEAST_STEP = 1.5, 1e-2
LONGEST = 8.0
ROUNDS, INNER = 20, 40  # steps where answers do not tell all cells apart, and most steps within each
SINGULAR = 1e-12  # of the largest eigenvalue: a smaller one is rounding
LEAST = 1e-12  # of the largest multiplier, that others begin again from
ROUNDING = 1e-9  # relative error allowed for in a bound that is computed in floating point
POWERS, SHARPEST = (8.0, 64.0, 256.0), 1024.0  # of the norms of the variances; the last where there is time
DESCENT = 40  # steps: half of them for the first, twice as many for others; over more than QUICK cells fewer
FEW, SOME, QUICK = 32, 3, 128  # cells up to which all starts are tried, how many of them beyond, and up to where
REFINED = 2  # descents that go on to sharper norms; one where somebody waits and cells are more than a few


@dataclass(frozen=True)
class WorstOptimum:
    """A strategy for Gaussian noise as A'A, its worst answer, and what that of no strategy can be below.

    Parameters
    ----------
    gram
        X = A'A, shape (n, n), with diagonal at most 1.
    worst
        max_i w_i' X^+ w_i.
    lower
        No strategy has a smaller worst answer.
    weights
        q, shape (m,), adding up to one: how much each answer counts in the proof.
    v
        The multipliers of the cells in it, shape (n,).
    """

    gram: Array
    worst: float
    lower: float
    weights: Array
    v: Array


class WeighedAnswers:
    """The answers of a workload over few cells: their variances, and their weighted Gram matrix."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.shape = workload.shape
        self._parts = list(_parts(workload, 1.0))

    def variances(self, matrix: Array) -> Array:
        """Return w'Mw of every answer, shape (m,)."""
        return np.concatenate([part.variances(matrix) for part in self._parts])

    def gram(self, weights: Array) -> Array:
        """Return W' diag(weights) W, shape (n, n)."""
        ends = np.cumsum([part.count for part in self._parts])[:-1]
        pieces = zip(self._parts, np.split(weights, ends), strict=True)
        return np.asarray(sum(part.gram(mine) for part, mine in pieces))


def _parts(workload: Workload, weight: float) -> Iterator[_Runs | _Rows]:
    if isinstance(workload, Stack):
        for part in workload.parts:
            yield from _parts(part, weight)
    elif isinstance(workload, Weighted):
        yield from _parts(workload.workload, weight * float(workload.weight))
    elif isinstance(workload, Contiguous) and workload.shape[0] <= INTERVALS:
        yield _Runs(workload, weight)
    elif workload.shape[0] * workload.shape[1] <= ENTRIES:
        yield _Rows(workload, weight)
    else:
        raise WorkloadError(f"the {workload.shape[0]:,} answers of this workload are too many to weigh one by one")


class _Runs:
    """Counts of runs of cells, whose Gram matrix is a sum over the runs that hold two cells."""

    def __init__(self, workload: Contiguous, weight: float) -> None:
        self.workload, self.count, self._square = workload, workload.shape[0], weight**2
        starts, ends = workload.intervals(np.arange(self.count))
        self._place = starts * workload.n + (ends - 1)

    def variances(self, matrix: Array) -> Array:
        return np.asarray(self._square * self.workload.quadratic(matrix))

    def gram(self, weights: Array) -> Array:
        n = self.workload.n
        table = np.bincount(self._place, weights=weights, minlength=n * n).reshape(n, n)
        # Entry (i, j), i <= j: the runs that begin at i or before and end at j or after.
        held = np.cumsum(np.cumsum(table, axis=0)[:, ::-1], axis=1)[:, ::-1]
        upper = np.triu(held)
        return np.asarray(self._square * (upper + np.triu(held, 1).T))


class _Rows:
    """Queries of any form, written out."""

    def __init__(self, workload: Workload, weight: float) -> None:
        self.count = workload.shape[0]
        self._rows = weight * workload.dense().astype(float)

    def variances(self, matrix: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self._rows @ matrix, self._rows))

    def gram(self, weights: Array) -> Array:
        return np.asarray(self._rows.T @ (weights[:, None] * self._rows))


def worst_operator(
    workload: Workload,
    noise: Noise,
    *,
    precise: bool = True,
    bits: int | None = None,
    p: int | None = None,
    report: Progress = silent,
) -> tuple[Explicit | PIdentity, float]:
    """Return the integer operator of the best worst answer that is found, and what none can be below (0: not known).

    Parameters
    ----------
    workload
        What is to be answered, over few cells.
    noise
        "gaussian": the optimum, within 0.1% of its bound. "laplace": the best p-Identity that a descent finds.
    precise
        Whether there is time: else, and over more than 256 cells, a gap of 0.5% is good enough.
    bits
        Of its entries, for Gaussian noise; as few as make little difference, unless given.
    p
        Rows of the p-Identity besides the identity, for Laplace noise.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If there are too many answers to weigh one by one.
    """
    if not law_of(noise).euclidean:
        return worst_p_identity(workload, p, precise=precise, report=report), 0.0
    gap = GAP if precise and workload.shape[1] <= MANY_CELLS else ROUGH_GAP
    return worst_gaussian_operator(workload, gap=gap, bits=bits, report=report)


def gaussian_worst(answers: WeighedAnswers, *, gap: float = GAP, report: Progress = silent) -> WorstOptimum:
    """Return the strategy of the best worst answer for Gaussian noise.

    Parameters
    ----------
    answers
        What is asked, of n cells that are all counted in some answer.
    gap
        Relative gap between the worst answer and its bound at which to stop; with many cells it is stopped earlier, and
        what is best by then is returned with its honest bound.
    report
        Told of progress; may raise to stop.
    """
    m, n = answers.shape
    steps = max(FEWEST, min(MOST, CUBES // n**3))
    q = np.full(m, 1 / m)
    with threads_for(n):
        start = gaussian_optimum(answers.gram(q), tolerance=gap, iterations=steps, report=report)
        if np.linalg.matrix_rank(start.gram, hermitian=True) < n:
            return _deficient(answers, start, gap, report)
        point = _WeighedPoint(answers, q, start.v)
        best, lower, proof = point, point.dual, (q, start.v)
        step = 1.0
        for _ in range(steps):
            if best.worst <= lower * (1 + gap):
                break
            report(None, f"the worst answer: within {best.worst / lower - 1:.1g} of the best")
            while True:
                q = point.q * (point.variances / point.worst) ** step
                trial = _WeighedPoint(answers, q / q.sum(), point.v * point.diagonal)
                if trial.dual >= point.dual or step < LEAST_STEP:
                    break
                step /= 2
            if trial.dual > lower:
                lower, proof = trial.dual, (trial.q, trial.v)
            point, step = trial, min(step * GROWTH, LONGEST)
            if point.worst < best.worst:
                best = point
    return WorstOptimum(best.gram(), best.worst, lower * (1 - ROUNDING), *proof)


def _deficient(answers: WeighedAnswers, start: Optimum, gap: float, report: Progress) -> WorstOptimum:
    """Return the same for answers that do not tell all cells apart: the optimum of each weighted total in turn.

    There the multipliers of many cells go to nothing, which takes all the steps that `gaussian_optimum` knows.
    """
    q = np.full(answers.shape[0], 1 / answers.shape[0])
    found, step, best, lower = start, 1.0, None, 0.0
    value = start.lower
    for _ in range(ROUNDS):
        variances = answers.variances(np.linalg.pinv(found.gram, rcond=SINGULAR, hermitian=True))
        worst = float(variances.max())
        if best is None or worst < best.worst:
            best = WorstOptimum(found.gram, worst, 0.0, q, found.v)
        if found.lower > lower:
            lower, proof = found.lower, (q, found.v)
        if best.worst <= lower * (1 + gap):
            break
        while True:
            report(None, f"the worst answer: within {best.worst / lower - 1:.1g} of the best")
            trial = q * (variances / worst) ** step
            trial /= trial.sum()
            near = np.maximum(found.v, LEAST * found.v.max())
            tried = gaussian_optimum(answers.gram(trial), tolerance=gap, iterations=INNER, start=near, report=report)
            if tried.lower >= value or step < LEAST_STEP:
                break
            step /= 2
        q, found, value, step = trial, tried, tried.lower, min(step * GROWTH, LONGEST)
    assert best is not None
    return WorstOptimum(best.gram, best.worst, lower * (1 - ROUNDING), *proof)


class _WeighedPoint:
    """The bound at some q and v, and the strategy that belongs to it, scaled to be feasible."""

    def __init__(self, answers: WeighedAnswers, q: Array, v: Array) -> None:
        self.q, self.v = q, v
        half = np.sqrt(v)
        values, vectors = np.linalg.eigh(answers.gram(q) * half * half[:, None])
        kept = values > values[-1] * len(v) * np.finfo(float).eps
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        self.dual = float(roots.sum() ** 2 / v.sum())
        squares = np.einsum("ik,ik,k->i", vectors, vectors, roots, optimize=False)
        self.diagonal = np.divide(squares, v, out=np.zeros_like(v), where=v > 0)  # 0: a cell that is counted nowhere
        # Scaling each cell by itself would leave the row space of answers that do not tell all cells apart.
        self._weights = half * np.sqrt(self.diagonal if kept.all() else self.diagonal.max())
        self._roots, self._vectors = roots, vectors
        turned = vectors * self._weights[:, None]
        self.variances = answers.variances((turned / roots) @ turned.T)
        self.worst = float(self.variances.max())
        self.diagonal = self.diagonal / roots.sum()

    def gram(self) -> Array:
        weights = self._weights[:, None]
        turned = np.divide(self._vectors, weights, out=np.zeros_like(self._vectors), where=weights > 0)
        return np.asarray((turned * self._roots) @ turned.T)


def worst_gaussian_operator(
    workload: Workload, *, gap: float = GAP, bits: int | None = None, report: Progress = silent
) -> tuple[Explicit | PIdentity, float]:
    """Return the integer operator of the best worst answer for Gaussian noise, and what none can be below.

    Raises
    ------
    WorkloadError
        If there are too many answers to weigh one by one.
    """
    inner = workload.workload if isinstance(workload, Permuted) else workload
    answers = WeighedAnswers(inner)

    def search() -> FoundOperator:
        found = gaussian_worst(answers, gap=gap, report=report)
        weighted = answers.gram(found.weights)
        pseudo = np.linalg.pinv(found.gram, rcond=SINGULAR, hermitian=True)
        rounded = rounded_gram(found.gram, weighted, float(np.vdot(pseudo, weighted)), bits)
        return FoundOperator(rounded, found.lower, (found.weights, found.v))

    def holds(kept_: FoundOperator) -> bool:
        q, v = kept_.proof
        proper = q.shape == (answers.shape[0],) and bool((q >= 0).all()) and abs(q.sum() - 1) <= ROUNDING
        return proper and kept_.bound <= proved_bound(answers.gram(q), v) and _supports(kept_.operator, inner)

    asked = ("worst", "gaussian", repr(gap), _written(inner), *_said(bits))
    found = kept(asked, answers.shape[1], search, holds)
    operator: Explicit | PIdentity = found.operator
    if isinstance(workload, Permuted):
        operator = permuted_operator(operator, workload.places)
    return operator, found.bound


def _written(workload: Workload) -> str:
    return json.dumps(workload.to_json(), sort_keys=True)


def _said(option: int | None) -> tuple[str, ...]:
    return () if option is None else (str(option),)


def _supports(operator: Explicit | PIdentity, workload: Workload) -> bool:
    return bool(np.isfinite(variances(inverse(operator), workload)).all())


def worst_p_identity(
    workload: Workload, p: int | None = None, *, precise: bool = True, report: Progress = silent
) -> Explicit | PIdentity:
    """Return the p-Identity whose worst answer is the best that a descent finds, for Laplace noise.

    Raises
    ------
    WorkloadError
        If there are too many answers to weigh one by one.
    """
    if isinstance(workload, Permuted):
        inner = worst_p_identity(workload.workload, p, precise=precise, report=report)
        return permuted_operator(inner, workload.places)
    if p is None and not precise and is_running(workload, "laplace"):
        return running_counts(workload.shape[1], "worst")
    return kept(
        ("worst", "laplace", "several starts", str(precise), _written(workload), *_said(p)),
        workload.shape[1],
        lambda: FoundOperator(_descended(workload, p, precise, report)),
        lambda found: not found.bound and _supports(found.operator, workload),
    ).operator


def _descended(workload: Workload, p: int | None, precise: bool, report: Progress) -> PIdentity:
    answers = WeighedAnswers(workload)
    n = workload.shape[1]
    steps = DESCENT if n <= QUICK else max(15, DESCENT * QUICK**2 // n**2)
    rest = [(power, (4 if precise else 2) * steps) for power in (*POWERS[1:], *([SHARPEST] if precise else []))]
    with threads_for(n):
        (best,) = p_identity(answers.gram(np.ones(answers.shape[0])), p, quick=True, report=report)
        # What is best for all answers may be the cells themselves, from which no small step is better for the worst.
        several = list(starting_points(n, len(best.theta)))[: None if n <= FEW else SOME if n <= QUICK else 0]
        begun = [_descent(answers, theta, POWERS[0], steps // 2, report) for theta in (best.theta, *several)]
        begun.sort(key=_worst_of)
        found = begun[:REFINED]
        for descent in begun[: REFINED if precise or n <= FEW else 1]:
            for power, most in rest:
                descent = _descent(answers, descent.theta, power, most, report)
                found.append(descent)
    return rounded_p_identity(min(found, key=_worst_of).theta)


def _worst_of(descent: Descent) -> float:
    return descent.loss


def _descent(answers: WeighedAnswers, start: Array, power: float, steps: int, report: Progress) -> Descent:
    """Return where a descent along a norm of the variances ends, with the worst variance as its loss."""
    from scipy.optimize import minimize

    def evaluate(flat: Array) -> tuple[float, Array]:
        report(None, "the worst answer: looking for the best p-Identity")
        theta = flat.reshape(start.shape)
        variances = answers.variances(_inverse(theta))
        top = float(variances.max())
        weights = (variances / top) ** (power - 1)
        size = float((weights * variances / top).sum())
        gram = answers.gram(weights)
        _, gradient = loss_and_gradient(theta, lambda x: np.asarray(x @ gram), np.diagonal(gram))
        return np.log(top) + np.log(size) / power, gradient.ravel() / (top * size)

    found = minimize(
        evaluate,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * start.size,
        options={"maxiter": steps},
    )
    theta = found.x.reshape(start.shape)
    return Descent(theta, float(answers.variances(_inverse(theta)).max()))


def _inverse(theta: Array) -> Array:
    """Return (A'A)^-1 of the p-Identity of Theta, with columns that add up to one (HDMM, Definition 13)."""
    sums = 1 + theta.sum(axis=0)
    inner = theta @ theta.T
    inner[np.diag_indices_from(inner)] += 1
    middle = np.eye(theta.shape[1]) - theta.T @ np.linalg.solve(inner, theta)
    return np.asarray(middle * sums * sums[:, None])

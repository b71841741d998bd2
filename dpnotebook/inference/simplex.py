"""Least squares over cells that are not negative and sum to a known total."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.held_counts import HeldCounts
from dpnotebook.progress import Progress, silent
from dpnotebook.workload.base import Array, Workload

DENSE_CELLS = 1024  # most cells whose Gram matrix is factored, again and again
ITERATIONS = 5_000  # of descent, after which the result must be accepted or is refused
CHECKED = 20  # iterations from one check of the accuracy to the next
PRECISE = 1e-2  # error of the answers, over the length of the residuals, at which to stop
INTERIOR_STEPS = 50  # of the interior-point method; it ends earlier where it is precise enough
SHORT = 0.99  # of the way to the border: an interior point stays one
GROWTH = 1.5  # of the steepness, where a step turns out too long
NOISE = 1e-12  # of the answers, what rounding adds to a difference of them
STEEPER = 1 + 1e-9  # by which a change may pass what the steepness allows, by rounding
POWERS = 10  # steps of the power method: near enough to begin with, and never too large
INTERIOR_PRECISE = 3e-4  # the same, for the interior-point method; rounding stops it near a tenth of that
ACCEPTED = 1e-1  # the same, at which to be content after all iterations
DOING = "finding the nearest counts that are not negative"
ROUNDING = 1e-6  # error of the answers over their length that is as good as none


class Products(Protocol):
    """What these methods need to know of A: products with it, and A'A."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of A."""

    def matvec(self, x: Array) -> Array:
        """Return A x."""

    def rmatvec(self, y: Array) -> Array:
        """Return A'y."""

    def gram(self) -> Array:
        """Return A'A."""


@dataclass(frozen=True, eq=False)
class _WithHeld:
    """Measurements, and counts of the cells beside them, each with a weight of its own.

    Parameters
    ----------
    operator
        What was measured.
    counted
        The counts.
    weights
        Of the counts.
    """

    operator: Workload
    counted: Workload
    weights: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Measurements and counts, cells."""
        p, n = self.operator.shape
        return p + self.weights.size, n

    def matvec(self, x: Array) -> Array:
        """Return the answers, and below them the weighted counts."""
        return np.concatenate([self.operator.matvec(x), self.weights * self.counted.matvec(x)])

    def rmatvec(self, y: Array) -> Array:
        """Return the transpose times a vector."""
        p = self.operator.shape[0]
        return np.asarray(self.operator.rmatvec(y[:p]) + self.counted.rmatvec(self.weights * y[p:]))

    def gram(self) -> Array:
        """Return the matrix of all inner products of columns."""
        held = self.counted.dense() * self.weights[:, None]
        return np.asarray(self.operator.gram() + held.T @ held)


def nearest_cells(
    operator: Workload, measured: Array, total: float, report: Progress = silent, held: HeldCounts | None = None
) -> Array:
    """Return the x >= 0 with sum `total` that minimises |A x - y|, shape (n,).

    What is held adds its weighted squared distances to that of the measurements.

    With g the gradient at x, |A x - A x*|^2 <= 2 (g'x - total min g): that says when to stop.

    Parameters
    ----------
    operator
        A, shape (p, n).
    measured
        y, shape (p,).
    total
        What the cells sum to.
    report
        Told that it goes on.
    held
        Least-squares counts, and how much each holds on to its value.

    Raises
    ------
    WorkloadError
        If it does not converge.
    """
    n = operator.shape[1]
    if total == 0 or n == 1:
        return np.full(n, total / n)
    find = _interior if n <= DENSE_CELLS else _descend
    asked: Products = operator
    if held is not None and held.stiffness.any():
        weights = np.sqrt(held.stiffness)
        asked = _WithHeld(operator, held.counted, weights)
        measured = np.concatenate([measured, weights * held.values])
    x = find(asked, measured, total, report)
    if not _within(asked, measured, x, total, ACCEPTED):
        raise WorkloadError(f"non-negative least squares over {shorten(operator)} did not converge")
    return x


def _interior(operator: Products, measured: Array, total: float, report: Progress) -> Array:
    """Return the minimiser by a primal-dual interior-point method with predictor and corrector (Mehrotra, 1992)."""
    from scipy.linalg import cho_factor, cho_solve

    n = operator.shape[1]
    gram = operator.gram().astype(float)
    scale = float(np.trace(gram)) / n
    gram /= scale
    pull = operator.rmatvec(measured) / (scale * total)
    x, level = np.full(n, 1 / n), 0.0
    prices = np.full(n, float(np.ptp(gram @ x - pull)) + 1 / n)
    for _ in range(INTERIOR_STEPS):
        if _within(operator, measured, total * x / x.sum(), total, INTERIOR_PRECISE):
            break
        report(None, DOING)
        try:
            solve = partial(cho_solve, cho_factor(gram + np.diag(prices / x), check_finite=False), check_finite=False)
        except np.linalg.LinAlgError:  # as near as rounding allows; the caller sees how near that is
            break
        newton = partial(_newton, solve, solve(np.ones(n)), x, prices, gram @ x - pull - level - prices)
        change, _, priced = newton(np.zeros(n))
        near = float((x + _longest(x, change) * change) @ (prices + _longest(prices, priced) * priced))
        now = float(x @ prices)
        change, more, priced = newton((near / now) ** 3 * now / n - change * priced)
        short = SHORT * min(_longest(x, change), _longest(prices, priced))
        x, level, prices = x + short * change, level + short * more, prices + short * priced
    return np.asarray(total * x / x.sum())


def _newton(
    solve: Callable[[Array], Array], even: Array, x: Array, prices: Array, off: Array, target: Array
) -> tuple[Array, float, Array]:
    """Return the steps of x, of the level and of the prices towards x * prices = target, to first order."""
    free = solve(target / x - prices - off)
    more = -float(free.sum() + x.sum() - 1) / float(even.sum())
    change = free + more * even
    return change, more, (target - prices * change) / x - prices


def _longest(x: Array, change: Array) -> float:
    """Return the largest step, up to 1, that leaves x at or above 0."""
    falling = change < 0
    return min(1.0, float((x[falling] / -change[falling]).min(initial=np.inf)))


def _descend(operator: Products, measured: Array, total: float, report: Progress) -> Array:
    """Return the minimiser by accelerated projected gradient steps (Beck and Teboulle, 2009).

    They start anew where the momentum points uphill (O'Donoghue and Candes, 2015).
    """
    n = operator.shape[1]
    x = np.full(n, total / n)
    answers = operator.matvec(x)
    ahead, ahead_answers, momentum = x, answers, 1.0
    steepness = _steepness(operator)
    for iteration in range(ITERATIONS):
        if iteration % CHECKED == 0:
            if _within(operator, measured, x, total, PRECISE):
                break
            report(None, DOING)
        slope = operator.rmatvec(ahead_answers - measured)
        rounding = (NOISE * np.linalg.norm(ahead_answers)) ** 2
        while True:
            new = on_simplex(ahead - slope / steepness, total)
            new_answers = operator.matvec(new)
            change, moved = new - ahead, new_answers - ahead_answers
            if moved @ moved <= steepness * (change @ change) * STEEPER + rounding:
                break
            steepness *= GROWTH
        if (ahead - new) @ (new - x) > 0:
            momentum = 1.0
        grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        share, momentum = (momentum - 1) / grown, grown
        ahead, ahead_answers = new + share * (new - x), new_answers + share * (new_answers - answers)
        x, answers = new, new_answers
    return x


def on_simplex(v: Array, total: float) -> Array:
    """Return the nearest point to v with no entry below 0 and the given sum.

    It is max(v - t, 0) for one t. Starting from all entries, those that fall below t are left out until none does
    (Michelot, 1986).
    """
    kept = v
    while True:
        t = (kept.sum() - total) / kept.size
        above = kept[kept > t]
        if above.size in (kept.size, 0):
            return np.asarray(np.maximum(v - t, 0.0))
        kept = above


def _within(operator: Products, measured: Array, x: Array, total: float, precision: float) -> bool:
    """Return whether the answers of x are proven to be that near to the best, as a share of the residuals' length."""
    answers = operator.matvec(x)
    residual, rounding = float(np.linalg.norm(answers - measured)), ROUNDING * float(np.linalg.norm(measured))
    if residual <= rounding:  # the best lies between these answers and what was measured
        return True
    slope = operator.rmatvec(answers - measured)
    return 2 * float(slope @ x - total * slope.min()) <= max(precision * residual, rounding) ** 2


def _steepness(operator: Products) -> float:
    """Return about the largest eigenvalue of A'A across changes that keep the sum, by the power method; never more."""
    v = np.arange(operator.shape[1]) * (math.sqrt(5) - 1) / 2 % 1  # of no direction in particular
    size = 1.0
    for _ in range(POWERS):
        v = v - v.mean()
        v /= np.linalg.norm(v)
        v = operator.rmatvec(operator.matvec(v))
        size = float(np.linalg.norm(v - v.mean()))
    return size

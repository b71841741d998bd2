"""How much to measure each of some fixed design queries: the convex program of eigen-design, solved with proof.

Source: Li and Miklau 2012, Program 1: minimise sum c_i / u_i subject to (Q o Q)'u <= 1, for Gaussian noise; the same
with sum c_i / u_i^2 and |Q|'u <= 1 for Laplace noise (their section 3.5), u being squared weights or weights.

The Lagrange dual has one multiplier p_j a cell, on the simplex. With r = B p and a the power of u, it is to maximise
S(p)^(1 + a), S = sum c^(1/(1 + a)) r^(a/(1 + a)), which is concave; its slope is g = B'(c/r)^(1/(1 + a)), and
g / max(g) is what the cells of the best u for p use. So every p has a feasible u and a lower bound: max(g)^a S against
S^(1 + a). Exponentiated gradient steps with a line search bring the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.progress import Progress, silent
from dpnotebook.workload.base import Array

GROWTH = 1.3  # of the step, after one that got better
LEAST_STEP = 1e-12  # below it nothing gets better but by rounding


@dataclass(frozen=True)
class Weighting:
    """How much of each design query to measure.

    Parameters
    ----------
    amounts
        u, shape (k,): squared weights for Gaussian noise, weights for Laplace noise. 0 where nothing is needed.
    objective
        sum c_i / u_i^a: |A|^2 |W A^+|_F^2 of the weighted queries.
    lower
        No weights of these queries have an objective below this.
    """

    amounts: Array
    objective: float
    lower: float

    @property
    def gap(self) -> float:
        """How far the objective can be above the best possible, as a share of it."""
        return self.objective / self.lower - 1


def weigh_queries(
    costs: Array,
    usage: Array,
    power: int = 1,
    *,
    tolerance: float = 1e-4,
    iterations: int = 5000,
    report: Progress = silent,
) -> Weighting:
    """Return the amounts u >= 0 of design queries that minimise sum c_i / u_i^a subject to B'u <= 1.

    Parameters
    ----------
    costs
        c, shape (k,): what each query contributes to the error, at least 0; those with 0 get no amount.
    usage
        B, shape (k, n), at least 0, no row all 0: what a unit of each query uses of each cell's sensitivity.
    power
        a: 1 for Gaussian noise, 2 for Laplace noise.
    tolerance
        Relative gap between the objective and its lower bound at which to stop.
    iterations
        Most steps; what is best by then is returned, with its honest gap.
    report
        Called with the progress before each step.
    """
    kept = costs > 0
    amounts = np.zeros(len(costs))
    if not kept.any():
        return Weighting(amounts, 0.0, 0.0)
    program = _Program(costs[kept], usage[kept], power)
    p = np.full(usage.shape[1], 1 / usage.shape[1])
    value, slope = program.dual(p)
    best = (np.inf, p, value, slope)
    lower, step = value, 1.0
    for _ in range(iterations):
        lower = max(lower, value)
        most = float(slope.max())
        if most**power * value < best[0]:
            best = (most**power * value, p, value, slope)
        gap = best[0] / lower ** (1 + power) - 1
        if gap <= tolerance:
            break
        report(None, f"weighing design queries, within {gap:.1g} of the best weights")
        previous = value
        while True:
            trial = p * np.exp(step * (slope / previous - 1))
            trial /= trial.sum()
            value, trial_slope = program.dual(trial)
            if value >= previous or step < LEAST_STEP:
                break
            step /= 2
        if value < previous:
            break
        p, slope, step = trial, trial_slope, step * GROWTH
    objective, p, _, slope = best
    amounts[kept] = program.primal(p, slope)
    return Weighting(amounts, float(objective), float(lower ** (1 + power)))


@dataclass(frozen=True)
class _Program:
    costs: Array
    usage: Array
    power: int

    def dual(self, p: Array) -> tuple[float, Array]:
        """Return S(p) and its slope, up to the factor a / (1 + a): p g = S."""
        used = self.usage @ p
        amounts = (self.costs / used) ** (1 / (1 + self.power))
        return float(amounts @ used), amounts @ self.usage

    def primal(self, p: Array, slope: Array) -> Array:
        """Return the best feasible amounts for these multipliers."""
        return np.asarray((self.costs / (self.usage @ p)) ** (1 / (1 + self.power)) / slope.max())

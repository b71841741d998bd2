"""Residual strategies for Gaussian noise: what every subset of the attributes adds to the smaller subsets below it.

For a subset S of the attributes, measure the product of the operators B_i of `splits` over S, and sums over the other
attributes. What these measure is independent of what is measured for every other subset: with all norms one, a share
v_S of the squared norm leaves the error sum over S of L_S / v_S (see `lattice`), which is least, (sum of sqrt L_S)^2,
for v_S proportional to sqrt L_S. For marginals this is the optimum over all strategies: it equals the SVD bound.

Source: the residual basis of marginals (ResidualPlanner), for which HDMM, Theorem 9, gives the eigenvectors; for
marginals what it finds is the optimum of HDMM, Theorem 13.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.progress import Progress, silent
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.lattice import Lattice, Subset, lattice
from dpnotebook.strategy.splits import MergedAttribute, Split, attribute, residual_objective, splits, together, traces
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.whole_weights import whole_weights
from dpnotebook.strategy.worst_subsets import worst_marginals
from dpnotebook.workload import Explicit, Identity, Marginals, Workload
from dpnotebook.workload.base import Array

CLOSE = 1.0001  # integers are accepted when the error is within this factor of what real numbers give,
NEARLY = 1.005  # or within this one, where there is no time
NARROWEST, WIDEST = 4, 14  # bits of the entries of an operator that is rounded
TOUCHES = 16  # entries of a column that are rounded the other way
ROOM = 50.0  # bits of the squared norm of the largest product of operators; the rest is for its weight
ROUNDING = 1e-10  # of sums in floating point, allowed for in a bound
FINER = 1.25  # by which the scale of the weights grows until they are close
SINGULAR = 1e-9  # of the largest eigenvalue: a smaller one is a direction that is not measured
TOLD = 1e-6  # by which the sums of an inverse may miss: beyond it the operator does not tell all cells apart
BLEND = 1e-4  # share of a plain operator mixed into one that leaves directions unmeasured


def opt_residual(
    workload: Workload, *, objective: Objective = "total", report: Progress = silent, quick: bool = False
) -> Strategy:
    """Return the residual strategy of least error for Gaussian noise.

    For marginals of any number of attributes, weighted or not, it is optimal over all strategies.

    Parameters
    ----------
    workload
        A union of products over the same attributes.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight.
    report
        Told of progress; may raise to stop.
    quick
        Whether the operators of attributes with queries of other forms than levels and totals are found only nearly.

    Raises
    ------
    WorkloadError
        If the workload's products are over different attributes.
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> found = strategy.opt_residual(marginals((10,) * 20, upto=2))  # over 10^20 cells
    >>> round(found.optimality, 3)
    1.0
    """
    worst = checked_objective(objective) == "worst"
    found = lattice(workload)
    attributes = [attribute(kinds, n) for kinds, n in zip(found.kinds, found.sizes, strict=True)]
    chosen = splits(found, attributes, report, quick=quick)
    # Attributes of few cells need few bits: what they leave is for the others.
    for axis in sorted(range(len(chosen)), key=lambda i: len(attributes[i].classes)):
        split = chosen[axis]
        if split is not None and split.operator is None:
            report(None, "residual strategy: whole numbers")
            chosen[axis] = _rounded(found, attributes[axis], chosen, axis, quick=quick)
    report(None, "residual strategy: weights")
    weights = _integer_weights(found, chosen)
    factors = [
        Identity(n) if split is None or split.operator is None else split.operator
        for n, split in zip(found.sizes, chosen, strict=True)
    ]
    optimal = not any(asked.grams for asked in attributes)
    certificate = residual_objective(found, chosen) * (1 - ROUNDING) if optimal else 0.0
    operator = Marginals(factors, weights)
    name = f"residuals of {len(weights):,} subsets of the attributes"
    total = Strategy(workload, operator, "gaussian", name, certificate=certificate)
    if not worst:
        return total
    return best_worst([total, worst_marginals(workload, "gaussian", factors, report=report)])


def _rounded(
    found: Lattice, asked: MergedAttribute, chosen: Sequence[Split | None], axis: int, *, quick: bool
) -> Split:
    """Return an attribute's split with an integer operator, of the coarsest scale that costs little."""
    split = chosen[axis]
    assert split is not None
    root = _root(split)
    exact, best = residual_objective(found, chosen), None
    widest, narrowest, close = _bits(found, chosen, axis), NARROWEST, CLOSE
    if quick:  # where a column has many entries, each is small
        narrowest, close = min(widest, max(NARROWEST, math.ceil(math.log2(len(root)) / 2) + 1)), NEARLY
    for bits in range(narrowest, widest + 1):
        trial = _measured(asked, whole_columns(root * 2.0**bits, 4.0**bits))
        if trial is None:
            continue
        value = residual_objective(found, [*chosen[:axis], trial, *chosen[axis + 1 :]])
        if best is None or value < best[0]:
            best = value, trial
        if value < exact * close:
            break
    if best is None:
        raise WorkloadError(f"the queries of attribute {axis} cannot be measured with whole numbers")
    return best[1]


def _root(split: Split) -> Array:
    """Return B with B'B the split's, shape (n - 1, n)."""
    n = len(split.total)
    z, pivot = split.total, int(np.argmax(np.abs(split.total)))
    others = np.delete(np.arange(n), pivot)
    gram = split.gram / split.norm
    plain = np.eye(n) - np.add.outer(z, z) + z @ z
    for share in (0.0, BLEND):
        mixed = (1 - share) * gram + share * plain / plain.diagonal().max()
        block = mixed[np.ix_(others, others)]
        values = np.linalg.eigvalsh(block)
        if values[0] > SINGULAR * values[-1] or share:
            break
    upper = np.linalg.cholesky(block).T
    root = np.empty((n - 1, n))
    root[:, others] = upper
    root[:, pivot] = -upper @ z[others] / z[pivot]
    return root


def whole_columns(matrix: Array, square: float) -> Array:
    """Return a matrix in whole numbers, near to it, with squared column norms just below what they may be.

    Rounding alone would make some column too long, and so all noise larger, in proportion to the rounding; rounding a
    few entries the other way leaves an effect of second order.
    """
    found = np.rint(matrix)
    left = np.arange(matrix.shape[1])  # columns that may still change: where nothing did, nothing will
    for _ in range(TOUCHES):
        exact, whole, columns = matrix[:, left], found[:, left], np.arange(left.size)
        size, room = np.abs(whole), square - (whole**2).sum(axis=0)
        shorter, longer = size > np.abs(exact), size < np.abs(exact)
        less, more = np.where(shorter, 2 * size - 1, np.inf), np.where(longer, 2 * size + 1, np.inf)
        # The largest step that does not pass the norm; where one must, the smallest.
        down = np.where(less <= -room, -less, less).argmin(axis=0)
        up = np.where(more <= room, more, -1.0).argmax(axis=0)
        shrinks = (room < 0) & np.isfinite(less[down, columns])
        grows = (room > 0) & (more[up, columns] <= room)
        changes = shrinks | grows
        if not changes.any():
            break
        pick = np.where(shrinks, down, up)[changes]
        towards = np.where(exact[pick, columns[changes]] < 0, -1, 1) * np.where(shrinks[changes], -1, 1)
        left = left[changes]
        found[pick, left] += towards
    return found


def _measured(asked: MergedAttribute, matrix: Array) -> Split | None:
    """Return the split that an integer operator of n - 1 rows makes; None if it does not tell all cells apart."""
    matrix = matrix / np.gcd.reduce(matrix.astype(np.int64), axis=None)
    gram = matrix.T @ matrix
    norm = float(gram.diagonal().max())
    try:
        inverse = np.linalg.inv(gram + norm)
    except np.linalg.LinAlgError:
        return None
    sums = inverse.sum(axis=1)
    if not np.isfinite(sums).all() or abs(sums.sum() * norm - 1) > TOLD:
        return None
    z = sums / sums.sum()
    alpha, beta = traces(asked.grams, z, inverse - np.outer(z, z) / norm, norm)
    return Split(z, gram, alpha, beta, norm, Explicit(matrix.astype(np.int64)[:, asked.classes]))


def _bits(found: Lattice, chosen: Sequence[Split | None], axis: int) -> int:
    """Return the largest scale for an attribute at which products with the others still fit, as a power of two."""
    known = [split.norm if split is not None and split.operator is not None else None for split in chosen]
    fixed = [None if norm is None else math.log2(max(1.0, norm)) for norm in known]
    fewest = WIDEST
    for group in found.groups:
        for axes in {tuple(axes) for axes in group.axes.tolist() if axis in axes}:
            left = sum(fixed[i] is None for i in axes)
            fewest = min(fewest, int((ROOM - sum(fixed[i] or 0.0 for i in axes)) / 2 / left))
    return max(NARROWEST, fewest)


def _integer_weights(found: Lattice, chosen: Sequence[Split | None]) -> list[tuple[Subset, int]]:
    """Return small integer weights of the subsets, near k_S^2 |B_S|^2 proportional to sqrt L_S."""
    losses = found.losses(*together(chosen))
    norms = np.array([1.0 if split is None else split.norm for split in chosen])
    asked = np.flatnonzero(losses > 0)
    subsets = [found.subsets[i] for i in asked]
    squares = np.array([math.prod(norms[i] for i in subset) for subset in subsets])
    roots = np.sqrt(losses[asked])
    best = roots.sum() ** 2
    whole = whole_weights(
        np.sqrt(roots / squares),
        lambda weights: float((weights**2 * squares).sum()),
        lambda weights: float((weights**2 * squares).sum()) * float((losses[asked] / squares / weights**2).sum()),
        best * CLOSE,
        FINER,
    )
    return list(zip(subsets, whole.tolist(), strict=True))

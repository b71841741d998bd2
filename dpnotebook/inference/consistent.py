"""The nearest non-negative and mutually consistent marginals, over domains of any size.

Marginals agree with one another where they are those of some cells, be these negative: a linear subspace, onto which
least squares projects in one pass (`marginal_algebra`). That none is negative concerns one entry at a time. The nearest
point in both follows from alternating the two (the alternating direction method of multipliers; Boyd et al., 2011).
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.marginal_algebra import MarginalAlgebra
from dpnotebook.progress import Progress, silent
from dpnotebook.workload import Identity, Marginals
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm

ITERATIONS = 5_000  # after which the result must be accepted or is refused
TOLD = 10  # iterations from one report to the next
PRECISE = 1e-11  # of the total: largest entry below 0 at which to stop
ACCEPTED = 1e-6  # the same, at which to be content after all iterations
PULL = 3.0  # weight of staying near the point of the other constraint, over that of the measurements


def nearest_marginals(
    operator: Marginals, measured: Array, total: float, report: Progress = silent
) -> dict[Subset, Array]:
    """Return non-negative, consistent marginals of the largest measured subsets, each an array over its attributes.

    They minimise the sum over all subsets S of attributes of precision_S |part_S - least-squares part_S|^2, where
    part_S is what varies within S alone: for Identity and Centred factors that is |A x - y|^2; for other factors the
    precision of a subset stands for those of its parts.

    Parameters
    ----------
    operator
        What was measured.
    measured
        Noisy answers, shape (p,).
    total
        The sum of every marginal.
    report
        Told that it goes on.

    Raises
    ------
    WorkloadError
        If a largest subset is not determined by what was measured, the marginals do not fit in memory, or it does not
        converge.
    """
    cells = max(math.prod(operator.sizes[i] for i in subset) for subset, _ in operator.weights)
    require_memory(cells, "the largest marginal")
    largest = largest_subsets([subset for subset, _ in operator.weights])
    shapes = [tuple(operator.sizes[i] for i in subset) for subset in largest]
    if total == 0:
        return {subset: np.zeros(shape) for subset, shape in zip(largest, shapes, strict=True)}
    require_memory(sum(map(math.prod, shapes)), f"the {len(largest):,} largest marginals")
    factors = [Identity(size) for size in operator.sizes]
    asked = [SparseTerm(1, subset, tuple(factors[i] for i in subset)) for subset in largest]
    known = MarginalAlgebra(operator, tuple(asked))
    if not math.isfinite(known.total_variance()):
        raise WorkloadError("the measurements do not determine every cell of the marginals that they are about")
    precisions = {subset: _precision(known, subset) for subset in known.precisions}

    # Tables in units of their noise, so that being near means the same in all of them.
    weights = [math.sqrt(precisions[subset]) for subset in largest]
    weighted = tuple(SparseTerm(w, term.axes, term.factors) for w, term in zip(weights, asked, strict=True))
    exact = MarginalAlgebra(Marginals(factors, zip(largest, weights, strict=True)), weighted)
    counts_of = [math.prod(shape) for shape in shapes]
    units = np.repeat(weights, counts_of)
    uniform = np.repeat([total / count for count in counts_of], counts_of)

    share = {s: precisions[s] / (precisions[s] + PULL * exact.precisions[s]) for s in precisions}
    estimates = exact.estimates(units * known.answers(measured))
    fixed = exact.answers_of({s: share[s] * part for s, part in estimates.items() if s} | {(): np.array([total])})
    inside, dual = np.maximum(fixed, 0.0), np.zeros(fixed.size)
    off = math.inf
    for iteration in range(ITERATIONS):
        parts = exact.estimates(inside - dual)
        agreed = exact.answers_of({s: (1 - share[s]) * part for s, part in parts.items() if s}) + fixed
        before, inside = inside, np.maximum(agreed + dual, 0.0)
        dual += agreed - inside
        off = float((np.maximum(np.abs(agreed - inside), np.abs(inside - before)) / units).max())
        if off <= PRECISE * total:
            break
        if iteration % TOLD == 0:
            report(None, "finding the nearest marginals that are not negative")
    if off > ACCEPTED * total:
        raise WorkloadError(f"non-negative marginals of {shorten(operator)} did not converge")

    # What is left below 0 is lifted by moving towards even counts, so that the marginals go on agreeing.
    agreed /= units
    below = max(0.0, -float(agreed.min()))
    moved = below / (below + float(uniform.min()))
    counts = np.maximum((1 - moved) * agreed + moved * uniform, 0.0)
    pieces = np.split(counts, np.cumsum(counts_of)[:-1])
    return {subset: part.reshape(shape) for subset, part, shape in zip(largest, pieces, shapes, strict=True)}


def largest_subsets(subsets: list[Subset]) -> list[Subset]:
    """Return those of the subsets that are in no other."""
    kept: list[Subset] = []
    covered: set[Subset] = set()
    for subset in sorted(set(subsets), key=lambda s: (-len(s), s)):
        if subset not in covered:
            kept.append(subset)
            for size in range(len(subset) + 1):
                covered.update(combinations(subset, size))
    return kept


def _precision(known: MarginalAlgebra, subset: Subset) -> float:
    """Return one over the mean variance of what the measurements say of the part that varies within a subset."""
    share = 1.0
    for i in subset:
        size = known.operator.sizes[i]
        if size > 1:
            share *= (size - 1) / known.splits[i].total_variance(Identity(size))
    return known.precisions[subset] * share

"""The nearest non-negative and mutually consistent marginals, over domains of any size.

Marginals agree with one another where they are those of some cells, be these negative: a linear subspace, onto which
least squares projects in one pass (`marginal_algebra`). That none is negative concerns one entry at a time. The nearest
point in both follows from alternating the two (the alternating direction method of multipliers; Boyd et al., 2011).
Large counts are held to their values on the way (`held_counts`).
"""

from __future__ import annotations

import math

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.agreeing_tables import AgreeingTables
from dpnotebook.inference.held_counts import stiffness
from dpnotebook.inference.marginal_algebra import MarginalAlgebra
from dpnotebook.progress import Progress, silent
from dpnotebook.workload import Identity, Marginals
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.marginals import Subset, largest_subsets
from dpnotebook.workload.terms import SparseTerm

ITERATIONS = 5_000  # after which the result must be accepted or is refused
TOLD = 10  # iterations from one report to the next
FLOOR = 1e-4  # of an even count, that no count is below: so that what is left to do is to agree to within that
LIFTED = 0.05  # share of even counts at which to be content after all iterations
PULL = 3.0  # weight of staying near the point of the other constraint, over that of the measurements
HELD_PULL = 30.0  # the same where large counts are held, which is as stiff
AHEAD = 1.7  # of the way to the point that agrees: a little beyond is faster (over-relaxation, the same source)


def nearest_marginals(
    operator: Marginals, measured: Array, total: float, report: Progress = silent, noise_std: float | None = None
) -> dict[Subset, Array]:
    """Return non-negative, consistent marginals of the largest measured subsets, each an array over its attributes.

    They minimise the sum over all subsets S of attributes of precision_S |part_S - least-squares part_S|^2, where
    part_S is what varies within S alone: for Identity and Centred factors that is |A x - y|^2; for other factors the
    precision of a subset stands for those of its parts. With `noise_std` large counts weigh more (`held_counts`).

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
    noise_std
        Standard deviation of the noise of a measurement, where it is known.

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

    unbiased = known.answers(measured)
    held = None if noise_std is None else stiffness(unbiased, known.variances(), noise_std)
    # Tables in units of their noise, so that being near means the same in all of them.
    tables = AgreeingTables(operator.sizes, {subset: math.sqrt(precisions[subset]) for subset in largest})
    counts = _nearest(tables, precisions, unbiased, held, total, report)
    pieces = np.split(counts, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return {subset: part.reshape(shape) for subset, part, shape in zip(largest, pieces, shapes, strict=True)}


def _nearest(
    tables: AgreeingTables,
    precisions: dict[Subset, float],
    cells: Array,
    held: Array | None,
    total: float,
    report: Progress,
) -> Array:
    """Return the nearest counts that agree, none of them negative, of all tables below each other."""
    counts_of = [tables.cells_of(subset) for subset in tables.weights]
    units = np.repeat(list(tables.weights.values()), counts_of)
    even = np.repeat([total / count for count in counts_of], counts_of)
    least, floor = FLOOR * even * units, FLOOR * float(even.min())

    pull = PULL if held is None else HELD_PULL
    shares = {s: precisions[s] / (precisions[s] + pull * told) for s, told in tables.precisions.items()}
    share, follow = (
        tables.per_part(shares),
        tables.per_part({s: 1 - value if s else 0.0 for s, value in shares.items()}),
    )
    parts = share * tables.estimates(units * cells)
    parts[0] = total  # the part of no attribute is first
    fixed = tables.tables_of(parts)
    stiff = np.zeros(cells.size) if held is None else held / units**2
    kept = stiff * units * cells

    inside, dual = np.maximum(fixed, least), np.zeros(fixed.size)
    agreed = fixed
    for iteration in range(ITERATIONS):
        agreed = tables.tables_of(follow * tables.estimates(inside - dual)) + fixed
        ahead = AHEAD * agreed + (1 - AHEAD) * inside
        before, inside = inside, np.maximum((pull * (ahead + dual) + kept) / (pull + stiff), least)
        dual += ahead - inside
        if (np.maximum(np.abs(agreed - inside), np.abs(inside - before)) / units).max() <= floor:
            break
        if iteration % TOLD == 0:
            report(None, "finding the nearest marginals that are not negative")

    # What is left below 0 is lifted by moving towards even counts, so that the marginals go on agreeing.
    agreed /= units
    below = max(0.0, -float(agreed.min()))
    moved = below / (below + float(even.min()))
    if moved > LIFTED:
        raise WorkloadError("non-negative marginals of these measurements did not converge")
    return np.maximum((1 - moved) * agreed + moved * even, 0.0)


def _precision(known: MarginalAlgebra, subset: Subset) -> float:
    """Return one over the mean variance of what the measurements say of the part that varies within a subset."""
    share = 1.0
    for i in subset:
        size = known.operator.sizes[i]
        if size > 1:
            share *= (size - 1) / known.splits[i].total_variance(Identity(size))
    return known.precisions[subset] * share

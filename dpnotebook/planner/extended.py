"""What was measured under a domain that was extended since, said in the present one: the same sums over the same rows.

Every cell of the earlier domain is a union of cells of the present one, so a query that counts it counts all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpnotebook.domain.extension import NONE, Extension
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Coarse, Kron, Marginals, Stack, Total, Weighted, Workload

Edges = Sequence[int]  # where the runs of levels start that were one level, and where the last one ends


def under(measurement: Measurement, found: Extension) -> Measurement | None:
    """Return a measurement of an earlier domain as one of the present domain; None where that is not known.

    Parameters
    ----------
    measurement
        Of the earlier domain, whose rows are all rows of the present one.
    found
        What became of the domain.
    """
    if measurement.summand.column in found.changed:  # a value beyond the earlier bounds was counted as one of them
        return None
    axes, edges = [], []
    for axis in measurement.axes:
        levels = found.levels[axis.attribute]
        runs = [np.flatnonzero(levels == level) for level in axis.levels]
        axes.append(Axis(axis.attribute, tuple(np.concatenate([[], *runs]).astype(int).tolist())))
        edges.append(np.cumsum([0, *map(len, runs)]).tolist())
        if list(axes[-1].levels) != sorted(axes[-1].levels):
            return None
    operator = _over_runs(measurement.operator, edges)
    if operator is None:
        return None
    return replace(measurement, operator=operator, axes=tuple(axes), where=where_under(measurement.where, found))


def where_under(where: Predicate, found: Extension) -> Predicate:
    """Return which rows of the present domain satisfied a predicate over the earlier one, and had a cell there."""
    inside = {name: levels != NONE for name, levels in found.levels.items() if (levels == NONE).any()}
    return where.mapped(found.after, found.levels) & Predicate.box(found.after, inside)


def _over_runs(operator: Workload, edges: Sequence[Edges]) -> Workload | None:
    """Return queries over the product of some axes as queries over finer ones; None where they are no products."""
    sizes = tuple(len(ends) - 1 for ends in edges)
    if all(ends[-1] == size for ends, size in zip(edges, sizes, strict=True)):
        return operator
    if len(edges) == 1:
        return _coarse(operator, edges[0])
    if isinstance(operator, Stack):
        parts = [_over_runs(part, edges) for part in operator.parts]
        return None if any(part is None for part in parts) else Stack(*(part for part in parts if part is not None))
    if isinstance(operator, Weighted):
        inner = _over_runs(operator.workload, edges)
        return None if inner is None else Weighted(operator.weight, inner)
    if isinstance(operator, (Kron, Marginals)) and tuple(factor.shape[1] for factor in operator.factors) == sizes:
        factors = [_coarse(factor, ends) for factor, ends in zip(operator.factors, edges, strict=True)]
        return Kron(*factors) if isinstance(operator, Kron) else Marginals(factors, operator.weights)
    return None


def _coarse(factor: Workload, ends: Edges) -> Workload:
    if ends[-1] == len(ends) - 1:
        return factor
    return Total(ends[-1]) if isinstance(factor, Total) else Coarse(factor, ends, ends[-1])

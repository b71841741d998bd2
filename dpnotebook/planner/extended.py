"""What was measured under a domain that was extended since, said in the present one: the same sums over the same rows.

Every cell of the earlier domain is a union of cells of the present one, so a query that counts it counts all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.extension import NONE, Extension
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Coarse, Kron, Marginals, Permuted, Stack, Total, Weighted, Workload


@dataclass(frozen=True, eq=False)
class _Unions:
    """Which levels of an axis were one level of the earlier one.

    Parameters
    ----------
    ends
        Of the levels in the order of the earlier ones: where the runs start that were one level, and the last ends.
    order
        The place of each of these among the levels that take part.
    """

    ends: NDArray[np.intp]
    order: NDArray[np.intp]

    @property
    def trivial(self) -> bool:
        """Whether every level was one, in the same order."""
        return self.ends.size - 1 == self.order.size and bool((np.diff(self.order) == 1).all())

    def over(self, factor: Workload) -> Workload:
        """Return queries over the earlier axis as queries over the present one."""
        if self.trivial:
            return factor
        split = self.ends.size - 1 != self.order.size
        coarse = Coarse(factor, self.ends, self.order.size) if split else factor
        return coarse if (np.diff(self.order) == 1).all() else Permuted(coarse, self.order)


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
    axes, unions = [], []
    for axis in measurement.axes:
        runs = [np.flatnonzero(found.levels[axis.attribute] == level) for level in axis.levels]
        levels = np.concatenate([np.zeros(0, dtype=np.intp), *runs])
        axes.append(Axis(axis.attribute, tuple(np.sort(levels).tolist())))
        unions.append(_Unions(np.cumsum([0, *map(len, runs)]), np.argsort(np.argsort(levels))))
    operator = _over(measurement.operator, unions)
    if operator is None:
        return None
    return replace(measurement, operator=operator, axes=tuple(axes), where=where_under(measurement.where, found))


def where_under(where: Predicate, found: Extension) -> Predicate:
    """Return which rows of the present domain satisfied a predicate over the earlier one, and had a cell there."""
    inside = {name: levels != NONE for name, levels in found.levels.items() if (levels == NONE).any()}
    return where.mapped(found.after, found.levels) & Predicate.box(found.after, inside)


def _over(operator: Workload, unions: Sequence[_Unions]) -> Workload | None:
    """Return queries over the product of some axes as queries over finer ones; None where they are no products."""
    if all(union.trivial for union in unions):
        return operator
    if len(unions) == 1:
        return unions[0].over(operator)
    if isinstance(operator, Stack):
        parts = [_over(part, unions) for part in operator.parts]
        return None if any(part is None for part in parts) else Stack(*(part for part in parts if part is not None))
    if isinstance(operator, Weighted):
        inner = _over(operator.workload, unions)
        return None if inner is None else Weighted(operator.weight, inner)
    sizes = tuple(union.ends.size - 1 for union in unions)
    if isinstance(operator, (Kron, Marginals)) and tuple(factor.shape[1] for factor in operator.factors) == sizes:
        factors = [union.over(factor) for factor, union in zip(operator.factors, unions, strict=True)]
        if isinstance(operator, Marginals):
            return Marginals(factors, operator.weights)
        pairs = zip(operator.factors, factors, strict=True)  # what sums over an axis does so still, and is seen to
        return Kron(*(Total(new.shape[1]) if isinstance(old, Total) else new for old, new in pairs))
    return None

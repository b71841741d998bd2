"""Which histograms to read for a measurement: the smallest that its queries need, and few of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.errors import EngineError
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.query.measurement import Measurement
from dpnotebook.workload import Workload
from dpnotebook.workload.compose import apply_factors
from dpnotebook.workload.terms import SparseTerm, sparse_terms

SCAN_CELLS = 10**6  # one histogram of so many cells is read rather than two smaller ones
COUNTED_CELLS = 10**4  # the same where rows are counted here: a larger one does not stay near the processor
MANY = 4  # histograms, from which on every row's levels are read once and counted here
MOST = 2**62  # sums of two numbers below it are 64-bit integers

Integers = NDArray[np.int64]
Levels = list[NDArray[Any]]


@dataclass(frozen=True)
class Scan:
    """One histogram to read: which axes it has, and which terms of the operator are answered from it.

    Parameters
    ----------
    axes
        Positions of the measurement's axes, ascending.
    terms
        The queries, with the place of their answers.
    """

    axes: tuple[int, ...]
    terms: tuple[tuple[SparseTerm, slice], ...]


def scans(
    operator: Workload, sizes: Sequence[int], needed: frozenset[int] = frozenset(), limit: int = SCAN_CELLS
) -> list[Scan]:
    """Return the histograms that answer an operator.

    Parameters
    ----------
    operator
        Integer queries over the product of the axes.
    sizes
        Levels of each axis.
    needed
        Axes that every histogram must have, because a row outside their levels takes no part.
    limit
        Cells up to which one histogram is better than two.
    """
    every = tuple(range(len(sizes)))
    found = sparse_terms(operator)
    if math.prod(sizes) <= limit or found is None or found[0] != tuple(sizes):
        whole = SparseTerm(1, every, (operator,))
        return [Scan(every, ((whole, slice(0, operator.shape[0])),))]
    placed: list[tuple[SparseTerm, slice]] = []
    first = 0
    for term in found[1]:
        placed.append((term, slice(first, first + term.queries)))
        first += term.queries
    chosen: dict[frozenset[int], list[tuple[SparseTerm, slice]]] = {}

    def cells(axes: frozenset[int]) -> int:
        return math.prod(sizes[i] for i in axes)

    for term, where in sorted(placed, key=lambda item: -cells(needed | set(item[0].axes))):
        axes = needed | set(term.axes)
        holding = [scan for scan in chosen if scan >= axes]
        if not holding:
            wider = [scan for scan in chosen if cells(scan | axes) <= limit]
            joined = min((scan | axes for scan in wider), key=cells, default=axes)
            moved = [item for scan in wider if scan | axes == joined for item in chosen.pop(scan)]
            chosen[joined] = moved
            holding = [joined]
        chosen[min(holding, key=cells)].append((term, where))
    return [Scan(tuple(sorted(axes)), tuple(terms)) for axes, terms in chosen.items()]


def exact_answers(
    measurement: Measurement,
    domain: Domain,
    totals: Callable[[Measurement], Integers],
    levels: Callable[[Measurement], Levels | None] = lambda _: None,
) -> Integers:
    """Return the exact answers of a measurement, int64, shape (components, queries).

    Parameters
    ----------
    measurement
        What is asked.
    domain
        The table's declared domain.
    totals
        Reads the histogram of a measurement, shape (components, cells).
    levels
        Reads which level of each axis every row is in that takes part; None where it does not. Of many histograms
        that is faster than to read each.

    Raises
    ------
    EngineError
        If the answers could pass 64 bits.
    """
    axes = measurement.axes
    sizes = [axis.size for axis in axes]
    needed = frozenset(
        i for i, axis in enumerate(axes) if axis.levels != allowed_levels(measurement.where, axis.attribute, domain)
    )
    chosen = scans(measurement.operator, sizes, needed)
    rows = levels(measurement) if len(chosen) >= MANY else None
    if rows is not None:
        chosen = scans(measurement.operator, sizes, limit=COUNTED_CELLS)
    out = np.zeros((measurement.summand.components, measurement.operator.shape[0]), dtype=np.int64)
    for scan in chosen:
        if rows is None:
            read = totals(replace(measurement, axes=tuple(axes[i] for i in scan.axes)))
        else:
            read = _counted([rows[i] for i in scan.axes], [sizes[i] for i in scan.axes])
        most = float(np.abs(read).sum(axis=1, dtype=float).max(initial=0))
        for term, where in scan.terms:
            if most * _reach(term) >= MOST:
                raise EngineError("the queries of this strategy are too large for 64-bit counts; measure fewer at once")
            out[:, where] = _answers(term, read, scan.axes, [sizes[i] for i in scan.axes])
    return out


def _counted(levels: Levels, sizes: Sequence[int]) -> Integers:
    """Return how many rows are in each cell of some axes, shape (1, cells)."""
    cells = levels[0].astype(np.intp)
    for level, size in zip(levels[1:], sizes[1:], strict=True):
        cells *= size
        cells += level
    return np.bincount(cells, minlength=math.prod(sizes)).astype(np.int64, copy=False)[None]


def _reach(term: SparseTerm) -> float:
    return float(term.weight) * math.prod(float(factor.max_column_norm(1)) for factor in term.factors)


def _answers(term: SparseTerm, read: Integers, axes: tuple[int, ...], sizes: Sequence[int]) -> Integers:
    if len(term.factors) == 1 and term.axes == axes:
        (whole,) = term.factors
        return np.asarray(term.weight * whole.apply(read[:, :, None])[:, :, 0])
    table = read.reshape(read.shape[0], *sizes)
    table = table.sum(axis=tuple(1 + k for k, axis in enumerate(axes) if axis not in term.axes))
    steps = [(k, factor.apply) for k, factor in enumerate(term.factors)]
    kept = [factor.shape[1] for factor in term.factors]
    answers = apply_factors(table.reshape(read.shape[0], -1, 1), kept, steps)
    return np.asarray(term.weight * answers[:, :, 0])

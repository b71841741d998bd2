"""Which histograms to read for a measurement: the smallest that its queries need, and few of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

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
TOGETHER = 32  # measurements that are read at once: a statement stays short, and what is read of a frame small
SHORT = 16  # bits, up to which the number of a cell is made in a type as small
MOST = 2**62  # sums of two numbers below it are 64-bit integers

Integers = NDArray[np.int64]
Levels = list[NDArray[Any]]


class TotalsReader(Protocol):
    """True histograms of a table; see `dpnotebook.engine.table.TableEngine`."""

    def totals(self, measurement: Measurement) -> Integers:
        """Return what the rows add up to in every cell of a measurement's histogram, shape (components, cells)."""

    def totals_of(self, measurements: Sequence[Measurement]) -> list[Integers]:
        """Return the totals of measurements of the same rows and axes, read at once."""

    def totals_apart(self, measurements: Sequence[Measurement]) -> list[Integers]:
        """Return how many of the same rows have each level of one axis, for several such measurements, at once."""

    def levels(self, measurement: Measurement) -> Levels | None:
        """Return which level of each axis every row is in that takes part; None where it does not."""


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
    # Thousands of terms: those that may hold another are found by its axes, and only small scans can be made wider.
    by_axis: list[dict[frozenset[int], None]] = [{} for _ in sizes]
    small: dict[frozenset[int], None] = {}
    least = min(sizes, default=1)

    def cells(axes: frozenset[int]) -> int:
        return math.prod(sizes[i] for i in axes)

    for term, where in sorted(placed, key=lambda item: -cells(needed | set(item[0].axes))):
        axes = needed | set(term.axes)
        near = min((by_axis[i] for i in axes), key=len) if axes else chosen
        holding = [scan for scan in near if scan >= axes]
        if not holding:
            wider = [scan for scan in small if cells(scan | axes) <= limit]
            joined = min((scan | axes for scan in wider), key=cells, default=axes)
            moved = [item for scan in wider if scan | axes == joined for item in chosen.pop(scan)]
            for scan in [scan for scan in wider if scan | axes == joined]:
                del small[scan]
                for i in scan:
                    del by_axis[i][scan]
            chosen[joined] = moved
            for i in joined:
                by_axis[i][joined] = None
            if cells(joined) * least <= limit:
                small[joined] = None
            holding = [joined]
        chosen[min(holding, key=cells)].append((term, where))
    return [Scan(tuple(sorted(axes)), tuple(terms)) for axes, terms in chosen.items()]


def exact_answers(measurement: Measurement, domain: Domain, table: TotalsReader) -> Integers:
    """Return the exact answers of a measurement, int64, shape (components, queries).

    Parameters
    ----------
    measurement
        What is asked.
    domain
        The table's declared domain.
    table
        Reads the histograms. Of many, which level every row is in is read once where it can be: that is faster.

    Raises
    ------
    EngineError
        If the answers could pass 64 bits.
    """
    axes = measurement.axes
    sizes = [axis.size for axis in axes]
    chosen = scans(measurement.operator, sizes, frozenset(_narrower(measurement, domain)))
    rows = table.levels(measurement) if len(chosen) >= MANY else None
    if rows is not None:
        chosen = scans(measurement.operator, sizes, limit=COUNTED_CELLS)
    out = np.zeros((measurement.summand.components, measurement.operator.shape[0]), dtype=np.int64)
    for scan in chosen:
        if rows is None:
            read = table.totals(replace(measurement, axes=tuple(axes[i] for i in scan.axes)))
        else:
            read = _counted([rows[i] for i in scan.axes], [sizes[i] for i in scan.axes])
        _fill(out, scan, read, sizes)
    return out


def all_exact_answers(measurements: Sequence[Measurement], domain: Domain, table: TotalsReader) -> Iterator[Integers]:
    """Yield the exact answers of several measurements in their order, those of the same rows from the same scans.

    Sums and counts over the same axes are one statement; so are histograms of single columns, which are counted from
    the levels of all rows where `levels` reads these. Parameters and what is raised are as for `exact_answers`.
    """
    read: dict[int, Integers] = {}
    for first, measurement in enumerate(measurements):
        if first not in read:
            for alike in (_same_axes, _single_columns):
                places = alike(measurements, first, domain, read)
                if len(places) > 1:
                    found = _read_at_once([measurements[i] for i in places], table)
                    read.update(zip(places, found, strict=True))
                    break
        if first not in read:
            yield exact_answers(measurement, domain, table)
            continue
        sizes = [axis.size for axis in measurement.axes]
        out = np.zeros((measurement.summand.components, measurement.operator.shape[0]), dtype=np.int64)
        _fill(out, scans(measurement.operator, sizes)[0], read.pop(first), sizes)
        yield out


def _same_axes(measurements: Sequence[Measurement], first: int, _: Domain, read: Mapping[int, Integers]) -> list[int]:
    """Return which measurements are of the rows and axes of one, itself first: as many as are read and held at once."""
    own = measurements[first]
    most = min(TOGETHER, SCAN_CELLS // math.prod(axis.size for axis in own.axes))
    rest = range(first, len(measurements))
    alike = (i for i in rest if measurements[i].axes == own.axes and measurements[i].where == own.where)
    return list(itertools.islice((i for i in alike if i not in read), most))


def _single_columns(
    measurements: Sequence[Measurement], first: int, domain: Domain, read: Mapping[int, Integers]
) -> list[int]:
    """Return which measurements count rows of those of one along a column that every such row has a level of."""
    own = measurements[first]

    def counts(one: Measurement) -> bool:
        small = len(one.axes) == 1 and one.axes[0].size <= COUNTED_CELLS
        return small and one.summand.column is None and one.where == own.where and not _narrower(one, domain)

    if not counts(own):
        return []
    alike = (i for i in range(first, len(measurements)) if i not in read and counts(measurements[i]))
    return list(itertools.islice(alike, TOGETHER))


def _read_at_once(chosen: Sequence[Measurement], table: TotalsReader) -> list[Integers]:
    """Return the histograms of measurements that go together."""
    if all(one.axes == chosen[0].axes for one in chosen):
        return table.totals_of(chosen)
    axes = tuple(dict.fromkeys(one.axes[0] for one in chosen))
    rows = table.levels(replace(chosen[0], axes=axes))
    if rows is None:
        return table.totals_apart(chosen)
    found = dict(zip(axes, rows, strict=True))
    return [_counted([found[one.axes[0]]], [one.axes[0].size]) for one in chosen]


def _narrower(measurement: Measurement, domain: Domain) -> list[int]:
    """Return the axes that every histogram must have, because a row outside their levels takes no part."""
    return [
        i
        for i, axis in enumerate(measurement.axes)
        if axis.levels != allowed_levels(measurement.where, axis.attribute, domain)
    ]


def _fill(out: Integers, scan: Scan, read: Integers, sizes: Sequence[int]) -> None:
    """Put in what a histogram says."""
    most = float(np.abs(read).sum(axis=1, dtype=float).max(initial=0))
    for term, where in scan.terms:
        if most * _reach(term) >= MOST:
            raise EngineError("the queries of this strategy are too large for 64-bit counts; measure fewer at once")
        out[:, where] = _answers(term, read, scan.axes, [sizes[i] for i in scan.axes])


def _counted(levels: Levels, sizes: Sequence[int]) -> Integers:
    """Return how many rows are in each cell of some axes, shape (1, cells)."""
    most = math.prod(sizes)
    kind = np.min_scalar_type(most) if most <= 2**SHORT else np.dtype(np.intp)
    cells = levels[0].astype(kind)  # as small as they fit into: most of the time goes into moving them
    for level, size in zip(levels[1:], sizes[1:], strict=True):
        cells *= kind.type(size)
        cells += level.astype(kind, copy=False)
    return np.bincount(cells, minlength=most).astype(np.int64, copy=False)[None]


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

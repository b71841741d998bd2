"""An order of the cells in which every query counts a run of them: where there is one, trees and running counts apply.

Whether a matrix of zeros and ones has such an order is the consecutive-ones problem (Fulkerson and Gross 1965): rows
that overlap, neither within the other, fix the order of the cells that only one of them holds, but for its direction.
A row that is largest begins a chain of such, cells that no row of the chain tells apart are ordered among themselves by
the rows within them. What comes of it is believed only once every query is seen to be a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.workload import (
    Explicit,
    Identity,
    Permuted,
    PIdentity,
    Predicates,
    Stack,
    Total,
    Weighted,
    Workload,
)

ENTRIES = 2**25  # of rows that are looked at: 32 MiB of zeros and ones
DEPTH = 100  # rows within rows within rows

Integers = NDArray[np.int64]


def cells_in_order(factors: Sequence[Workload]) -> Integers | None:
    """Return which cell takes each place so that queries that are none as it stands become runs of cells.

    Parameters
    ----------
    factors
        Queries over the same n cells.

    Returns
    -------
    An order, shape (n,), of 0 to n - 1, for which `reordered` gives each factor. None where the cells may stay as they
    are, where no order is found, and where looking for one would take long.
    """
    given = [factor for factor in map(_bare, factors) if not isinstance(factor, Identity | Total)]
    orders = {one.order.tobytes(): one.order for one in given if isinstance(one, Permuted)}
    if len(orders) == 1 and all(isinstance(one, Permuted) for one in given):
        return next(iter(orders.values()))
    if not orders and given and all(isinstance(one, Explicit | Predicates) for one in given):
        return _sought(tuple(given))
    return None


def permuted_operator(operator: Explicit | PIdentity, places: Integers) -> Explicit | PIdentity:
    """Return the operator for cells in another order: its column i is column places[i] of the given one."""
    return operator.permuted(places) if isinstance(operator, PIdentity) else Explicit(operator.matrix[:, places])


def reordered(factor: Workload, order: Integers | None) -> Workload:
    """Return a factor with its cells in another order, as runs of cells where its queries are such.

    Queries of single cells come in the order that they had: of the errors that follow, none changes but in place.
    """
    if isinstance(factor, Weighted):
        return factor.weight * reordered(factor.workload, order)
    if isinstance(factor, Stack):
        return Stack(*(reordered(part, order) for part in factor.parts))
    if isinstance(factor, Permuted) and order is not None:
        return factor.workload
    if isinstance(factor, Explicit | Predicates):
        rows = _zeros_and_ones(factor)
        if rows is not None:
            rows = rows if order is None else rows[:, order]
            if _are_runs(rows):
                return Predicates(rows).simplest()
        if order is not None:
            return Explicit(factor.dense()[:, order])
    return factor


def put_back(operator: Workload, order: Integers | None) -> Workload:
    """Return an operator over reordered cells as one over the cells as they are."""
    return operator if order is None or isinstance(operator, Identity | Total) else Permuted(operator, order)


def _bare(factor: Workload) -> Workload:
    while isinstance(factor, Weighted):
        factor = factor.workload
    return factor


@lru_cache(maxsize=64)
def _sought(factors: tuple[Workload, ...]) -> Integers | None:
    n = factors[0].shape[1]
    if n < 3 or sum(one.shape[0] for one in factors) * n > ENTRIES:
        return None
    parts = [_zeros_and_ones(factor) for factor in factors]
    rows = [part for part in parts if part is not None]
    if len(rows) < len(parts):
        return None
    whole = np.concatenate(rows)
    if _are_runs(whole):
        return None
    order = np.argsort(-whole.sum(axis=0), kind="stable")  # rows within rows: running counts, for example
    if not _are_runs(whole[:, order]):
        order = np.array(_order(np.unique(whole, axis=0), np.arange(n)), dtype=np.int64)
    return order if _are_runs(whole[:, order]) else None


def _zeros_and_ones(factor: Workload) -> NDArray[np.bool_] | None:
    """Return the rows of a factor whose coefficients are all 0 or 1, None for others and where there are too many."""
    if factor.shape[0] * factor.shape[1] > ENTRIES:
        return None
    matrix = factor.matrix if isinstance(factor, Explicit) else factor.dense()
    return matrix == 1 if ((matrix == 0) | (matrix == 1)).all() else None


def _are_runs(rows: NDArray[np.bool_]) -> bool:
    begins = rows[:, 0].astype(np.int64) + (rows[:, 1:] & ~rows[:, :-1]).sum(axis=1)
    return bool((begins <= 1).all())


def _order(rows: NDArray[np.bool_], cells: Integers, depth: int = DEPTH) -> list[int]:
    """Return the cells so that rows, each a set of them, are runs, where that can be."""
    if not depth:
        return [int(cell) for cell in cells]
    placed: list[int] = []
    left = np.ones(cells.size, dtype=bool)
    rows = rows[rows.sum(axis=1) > 1]
    while len(rows):
        sizes = rows.sum(axis=1)
        place = _chain(rows, sizes, int(sizes.argmax()))
        held = rows[:, place >= 0].sum(axis=1)
        inside = rows[held == sizes]
        _refine(place, inside)
        ranked = np.argsort(place, kind="stable")
        groups = np.split(ranked, np.flatnonzero(np.diff(place[ranked])) + 1)
        groups = groups[1:] if place[ranked[0]] < 0 else groups
        lows, highs = (np.array([int(end(place[row])) for row in inside]) for end in (np.min, np.max))
        for number, group in enumerate(groups):
            within = inside[(lows == number) & (highs == number)]
            shorter = within.sum(axis=1) < group.size
            rest = cells[group]
            placed += _order(within[shorter][:, group], rest, depth - 1) if shorter.any() else rest.tolist()
        left &= place < 0
        rows = rows[held == 0]
    return placed + [int(cell) for cell in cells[left]]


def _chain(rows: NDArray[np.bool_], sizes: Integers, first: int) -> Integers:
    """Return the class of each cell, in the order that overlapping rows force, and -1 where none of them reaches.

    It begins with a largest row. Whatever crosses the border of all so far cannot hold it, and so goes on from one end.
    """
    place = np.where(rows[first], 0, -1)
    held = rows[:, rows[first]].sum(axis=1)
    while (crossing := (held > 0) & (held < sizes)).any():
        row = rows[int(crossing.argmax())]
        new = row & (place < 0)
        last = int(place.max())
        met = place[row & ~new]
        if int(met.max()) == last:
            _split(place, int(met.min()), row, first=False)
            place[new] = place.max() + 1
        else:
            _split(place, int(met.max()), row, first=True)
            place[place >= 0] += 1
            place[new] = 0
        held = held + rows[:, new].sum(axis=1)
    return place


def _refine(place: Integers, rows: NDArray[np.bool_]) -> None:
    """Split the classes at the ends of every row that is in more than one of them."""
    while True:
        before = int(place.max())
        for row in rows:
            met = place[row]
            low, high = int(met.min()), int(met.max())
            if low < high:
                _split(place, high, row, first=True)
                _split(place, low, row, first=False)
        if int(place.max()) == before:
            return


def _split(place: Integers, group: int, row: NDArray[np.bool_], *, first: bool) -> None:
    """Split a class into its cells in a row and the others, those in the row first or last."""
    mine = place == group
    part = mine & row
    if np.array_equal(part, mine):
        return
    place[place > group] += 1
    place[(mine & ~row) if first else part] += 1

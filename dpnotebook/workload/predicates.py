"""Counting queries by arbitrary sets of cells, kept as runs of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Energy, Workload, corner_sums, require_memory, run_sums, whole
from dpnotebook.workload.contiguous import AllRange, Contiguous, Identity, Integers, Prefix, Total
from dpnotebook.workload.packing import packed, unpacked
from dpnotebook.workload.width_range import WidthRange

GRAM_ROWS = 8  # a Gram matrix takes as long as sums of an eighth of so many rows,
GRAM_CELLS = 8192  # up to this many cells: 512 MiB
CHUNK = 2**22  # entries of rows, or of pairs of borders, handled at a time


@dataclass(frozen=True, repr=False, eq=False)
class Predicates(Workload):
    """Queries with coefficients 0 and 1, one a row, each the set of cells that satisfy some predicate.

    Parameters
    ----------
    masks
        A boolean (or 0/1) array of shape (m, n); or, with `n`, for every row its runs (start, end) of cells, the end
        exclusive. Runs may touch or overlap: a row is their union. A row may be empty, but not all rows.
    n
        Number of cells, where `masks` holds runs.

    Raises
    ------
    WorkloadError
        If there is no row, a run is empty or leaves the cells, an entry is not 0 or 1, or no row holds a cell.

    Examples
    --------
    >>> from dpnotebook.workload import Predicates
    >>> Predicates([[(0, 2)], [(1, 2), (3, 4)]], n=4).dense()
    array([[1, 1, 0, 0],
           [0, 1, 0, 1]])
    """

    n: int
    starts: Integers  # runs of all rows, ascending within each row and apart from one another
    ends: Integers
    offsets: Integers  # row i has the runs offsets[i] to offsets[i + 1]

    def __init__(self, masks: ArrayLike | Sequence[Any], n: int | None = None) -> None:
        cells, starts, ends, counts = _of_masks(masks) if n is None else _of_runs(masks, n)
        if not starts.size:
            raise WorkloadError("a workload whose queries hold no cell asks nothing")
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        for name, array in (("starts", starts), ("ends", ends), ("offsets", offsets)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "n", cells)

    @classmethod
    def inclusive(cls, rows: Iterable[Iterable[Sequence[int]]], n: int) -> Predicates:
        """Return the queries whose rows are runs [first, last] of cells, both ends included."""
        listed = [[tuple(run) for run in row] for row in rows]
        if any(len(run) != 2 for row in listed for run in row):
            raise WorkloadError("a run of cells is a pair of its first and its last cell")
        return cls([[(first, last + 1) for first, last in row] for row in listed], n)

    @classmethod
    def of_groups(cls, groups: ArrayLike) -> Predicates:
        """Return one query for each group of cells, in the order of their numbers.

        Parameters
        ----------
        groups
            In which group each cell is, integers of shape (n,); groups without a cell are none.
        """
        of_cells = np.asarray(groups)
        starts = np.flatnonzero(np.diff(of_cells, prepend=of_cells[:1] - 1))
        order = np.argsort(of_cells[starts], kind="stable")
        ends = np.append(starts[1:], of_cells.size)
        counts = np.unique(of_cells[starts], return_counts=True)[1]
        return _of_parts(of_cells.size, starts[order], ends[order], counts)

    def simplest(self) -> Workload:
        """Return Identity, Total, Prefix, AllRange or WidthRange where the queries are those in order, else this."""
        if not (np.diff(self.offsets) == 1).all():
            return self
        m = self.shape[0]
        kinds: list[Contiguous] = [Total(self.n), Identity(self.n), Prefix(self.n), AllRange(self.n)]
        kinds += [WidthRange(self.n, self.n - m + 1)] if m < self.n else []
        for known in kinds:
            if known.shape[0] == m:
                starts, ends = known.intervals(np.arange(m))
                if np.array_equal(starts, self.starts) and np.array_equal(ends, self.ends):
                    return known
        return self

    def complement(self) -> Predicates:
        """Return the negation of every query: the cells that it leaves out (HDMM, Theorem 15)."""
        counts = np.diff(self.offsets) + 1
        # A row with the runs [s1, e1), [s2, e2) leaves out [0, s1), [e1, s2), [e2, n), of which some are empty.
        starts = np.insert(self.ends, self.offsets[:-1], 0)
        ends = np.insert(self.starts, self.offsets[1:], self.n)
        owners = np.repeat(np.arange(counts.size), counts)
        kept = starts < ends
        if not kept.any():
            raise WorkloadError("the negation of queries that hold every cell asks nothing")
        return _of_parts(self.n, starts[kept], ends[kept], np.bincount(owners[kept], minlength=counts.size))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.offsets.size - 1, self.n

    def apply(self, x: Array) -> Array:
        """Return sums over runs, from running sums over cells."""
        sums = np.zeros((x.shape[0], self.n + 1, x.shape[2]), dtype=x.dtype)
        np.cumsum(x, axis=1, out=sums[:, 1:])
        out = np.zeros((x.shape[0], self.shape[0], x.shape[2]), dtype=x.dtype)
        filled = np.flatnonzero(np.diff(self.offsets))
        out[:, filled] = np.add.reduceat(sums[:, self.ends] - sums[:, self.starts], self.offsets[filled], axis=1)
        return out

    def apply_transposed(self, y: Array) -> Array:
        """Return, for each cell, the sum over the queries that hold it: a running sum of starts minus ends."""
        steps = np.zeros((y.shape[0], self.n + 1, y.shape[2]), dtype=y.dtype)
        for borders, sign in ((self.starts, 1), (self.ends, -1)):
            order = np.argsort(borders, kind="stable")
            distinct, first = np.unique(borders[order], return_index=True)
            steps[:, distinct] += sign * np.add.reduceat(y[:, self._owners[order]], first, axis=1)
        return np.cumsum(steps[:, :-1], axis=1)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as 0/1 integers."""
        index = np.asarray(indices, dtype=np.int64)
        require_memory(index.size * self.n, "these rows")
        counts = np.diff(self.offsets)[index]
        where = np.repeat(np.arange(index.size), counts)
        runs = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        runs += np.repeat(self.offsets[index], counts)
        steps = np.zeros((index.size, self.n + 1), dtype=np.int64)
        steps[where, self.starts[runs]] = 1  # runs of a row neither touch nor overlap
        steps[where, self.ends[runs]] = -1
        return np.cumsum(steps[:, :-1], axis=1)

    def column_norms(self, power: int = 1) -> Array:
        """Return in how many queries each cell is."""
        steps = np.bincount(self.starts, minlength=self.n + 1) - np.bincount(self.ends, minlength=self.n + 1)
        return np.cumsum(steps[:-1]).astype(np.int64)

    def frobenius_squared(self) -> float:
        """Return the number of cells of all queries together."""
        return float((self.ends - self.starts).sum())

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        if self.single_runs:  # one run a row
            return run_sums(corner_sums(matrix), self.starts, self.ends)
        found = []
        for first in range(0, self.shape[0], max(1, CHUNK // self.n)):
            some = self.rows(np.arange(first, min(self.shape[0], first + max(1, CHUNK // self.n)))).astype(float)
            found.append(np.einsum("mi,...im->...m", some, matrix @ some.T, optimize=True))
        return np.concatenate(found, axis=-1)

    def energy(self) -> Energy:
        """Return the squared overlaps of a run with each row; few rows over many cells form no Gram matrix."""
        if self.shape[0] * GRAM_ROWS > self.n <= GRAM_CELLS:
            return super().energy()

        def energy(starts: Array, ends: Array) -> Array:
            total = np.zeros(np.shape(starts))
            for row in range(self.shape[0]):
                sums = np.concatenate(([0.0], np.cumsum(self.rows([row])[0])))
                total += (sums[ends] - sums[starts]) ** 2
            return total

        return energy

    def _gram(self) -> Array:
        """Return the Gram matrix from its second differences: one entry for each pair of borders of a row.

        Rows with more pairs of borders than cells are multiplied out instead.
        """
        steps = np.zeros((self.n + 1) ** 2)
        counts = np.diff(self.offsets)
        dense = np.zeros((self.n, self.n))
        for runs in np.unique(counts[counts > 0]).tolist():
            mine = np.flatnonzero(counts == runs)
            pairwise = 4 * runs * runs <= self.n
            for first in range(0, mine.size, max(1, CHUNK // max(self.n, 4 * runs * runs))):
                some = mine[first : first + max(1, CHUNK // max(self.n, 4 * runs * runs))]
                if pairwise:
                    where = self.offsets[some][:, None] + np.arange(runs)
                    borders = np.concatenate((self.starts[where], self.ends[where]), axis=1)
                    pairs = borders[:, :, None] * (self.n + 1) + borders[:, None, :]
                    signs = np.repeat((1.0, -1.0), runs)
                    weights = np.broadcast_to(np.outer(signs, signs), pairs.shape)
                    steps += np.bincount(pairs.ravel(), weights.ravel(), minlength=steps.size)
                else:
                    some_rows = self.rows(some).astype(float)
                    dense += some_rows.T @ some_rows
        gram = steps.reshape(self.n + 1, self.n + 1)[:-1, :-1]
        return np.asarray(np.cumsum(np.cumsum(gram, axis=0), axis=1) + dense)

    def to_json(self) -> dict[str, Any]:
        """Return the runs as JSON values."""
        runs = np.column_stack((self.starts, self.ends))
        return {"kind": self.kind, "n": self.n, "runs": packed(runs), "counts": packed(np.diff(self.offsets))}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        runs, counts = unpacked(values["runs"]), unpacked(values["counts"])
        if runs.ndim != 2 or runs.shape[1:] != (2,) or counts.ndim != 1 or counts.sum() != len(runs):
            raise WorkloadError("these JSON values do not describe predicates")
        n, ends = whole(values["n"], "the number of cells"), np.cumsum(counts)
        inside = runs.size > 0 and runs.min() >= 0 and runs.max() <= n and (runs[:, 0] < runs[:, 1]).all()
        apart = runs[1:, 0] > runs[:-1, 1]
        apart[ends[(ends > 0) & (ends < len(runs))] - 1] = True  # between two rows
        if inside and apart.all() and (counts >= 0).all():
            starts, stops = np.ascontiguousarray(runs.T, dtype=np.int64)
            return _of_parts(n, starts, stops, counts)
        return cls([runs[a - k : a].tolist() for a, k in zip(ends, counts, strict=True)], n)

    @cached_property
    def _owners(self) -> Integers:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    @property
    def single_runs(self) -> bool:
        """Whether every query is one run of cells."""
        return bool((np.diff(self.offsets) == 1).all())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicates) or self.shape != other.shape:
            return False
        mine, theirs = (self.starts, self.ends, self.offsets), (other.starts, other.ends, other.offsets)
        return all(np.array_equal(one, two) for one, two in zip(mine, theirs, strict=True))

    def __hash__(self) -> int:
        return hash((self.n, self.starts.tobytes(), self.ends.tobytes(), self.offsets.tobytes()))

    def __repr__(self) -> str:
        return f"Predicates({self.shape[0]} x {self.n})"


def _of_parts(n: int, starts: Integers, ends: Integers, counts: Integers) -> Predicates:
    found = object.__new__(Predicates)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    for name, value in (("n", n), ("starts", starts), ("ends", ends), ("offsets", offsets)):
        object.__setattr__(found, name, value)
    return found


def _of_masks(masks: Any) -> tuple[int, Integers, Integers, Integers]:
    array = np.asarray(masks)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise WorkloadError(
            "predicates are a boolean array with one row a query and one column a cell; for runs of cells give their "
            "number too: Predicates([[(0, 5)], [(5, 10)]], n=10)"
        )
    if array.dtype.kind != "b" and not ((array == 0) | (array == 1)).all():
        raise WorkloadError("predicates have coefficients 0 and 1; write Explicit(matrix) for others")
    padded = np.zeros((array.shape[0], array.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = array
    steps = np.diff(padded, axis=1)
    owners, starts = np.nonzero(steps == 1)
    ends = np.nonzero(steps == -1)[1]
    return array.shape[1], starts, ends, np.bincount(owners, minlength=array.shape[0])


def _of_runs(rows: Any, n: Any) -> tuple[int, Integers, Integers, Integers]:
    cells = whole(n, "the number of cells")
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise WorkloadError(f"predicates are a list of rows, each a list of runs (start, end), not {shorten(rows)}")
    starts: list[int] = []
    ends: list[int] = []
    counts: list[int] = []
    for row in rows:
        before = len(starts)
        for run in _sorted_runs(row, cells):
            if len(starts) > before and run[0] <= ends[-1]:
                ends[-1] = max(ends[-1], run[1])
            else:
                starts.append(run[0])
                ends.append(run[1])
        counts.append(len(starts) - before)
    if not counts:
        raise WorkloadError("predicates need at least one row")
    return cells, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), np.array(counts, dtype=np.int64)


def _sorted_runs(row: Any, cells: int) -> list[tuple[int, int]]:
    try:
        found = sorted((whole(start, "the start of a run", 0), whole(end, "the end of a run")) for start, end in row)
    except (TypeError, ValueError) as error:
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(f"a row of predicates is a list of runs (start, end), not {shorten(row)}") from None
    for start, end in found:
        if not start < end <= cells:
            raise WorkloadError(f"a run of cells [{start}, {end}) is empty or leaves the {cells:,} cells")
    return found

"""Queries over runs of cells: a workload whose cells are each made of several neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Workload, whole
from dpnotebook.workload.contiguous import Integers
from dpnotebook.workload.packing import packed, unpacked


@dataclass(frozen=True, repr=False, eq=False)
class Coarse(Workload):
    """The queries of a workload, each of whose cells is a run of cells; cells before the first run and after the last
    one are counted by no query.

    Parameters
    ----------
    workload
        What is asked of the runs.
    edges
        Where the runs start, ascending, and where the last one ends, shape (runs + 1,).
    n
        Number of cells.

    Raises
    ------
    WorkloadError
        If the edges are not such numbers from 0 to n.

    Examples
    --------
    >>> from dpnotebook.workload import Coarse, Identity
    >>> Coarse(Identity(2), [0, 2, 5], 5).dense()  # cells 0 and 1, and cells 2 to 4
    array([[1, 1, 0, 0, 0],
           [0, 0, 1, 1, 1]])
    """

    workload: Workload
    edges: Integers
    n: int

    def __init__(self, workload: Workload, edges: ArrayLike, n: int) -> None:
        if not isinstance(workload, Workload):
            raise WorkloadError(f"Coarse takes a workload, such as Prefix(10), not {shorten(workload)}")
        found = np.array(edges)
        cells = whole(n, "the number of cells")
        runs = workload.shape[1]
        if found.shape != (runs + 1,) or found.dtype.kind not in "iu":
            raise WorkloadError(
                f"{shorten(workload)} takes {runs + 1:,} edges, whole numbers, one more than it has cells"
            )
        if found[0] < 0 or found[-1] > cells or (np.diff(found) < 1).any():
            raise WorkloadError(f"edges of runs of {cells:,} cells rise, from 0 or more to {cells:,} or less")
        found = found.astype(np.int64)
        found.setflags(write=False)
        for name, value in (("workload", workload), ("edges", found), ("n", cells)):
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.workload.shape[0], self.n

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return self.workload.integer

    @cached_property
    def run_of(self) -> Integers:
        """The run in which each cell lies, -1 for none, shape (n,)."""
        found = np.full(self.n, -1, dtype=np.int64)
        found[self.edges[0] : self.edges[-1]] = np.repeat(np.arange(self.edges.size - 1), np.diff(self.edges))
        return found

    def apply(self, x: Array) -> Array:
        """Return the answers from the sums over runs."""
        return self.workload.apply(np.add.reduceat(x[:, : self.edges[-1]], self.edges[:-1], axis=1))

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product: the same in all cells of a run."""
        return self._spread(self.workload.apply_transposed(y), 1)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows."""
        return self._spread(self.workload.rows(indices), 1)

    def column_norms(self, power: int = 1) -> Array:
        """Return the workload's, in all cells of a run."""
        return self._spread(self.workload.column_norms(power), 0)

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w, from the sums of M over pairs of runs."""
        inside = matrix[..., : self.edges[-1], : self.edges[-1]]
        sums = np.add.reduceat(np.add.reduceat(inside, self.edges[:-1], axis=-2), self.edges[:-1], axis=-1)
        return self.workload.quadratic(sums)

    def _gram(self) -> Array:
        return self._spread(self._spread(self.workload.gram(), 0), 1)

    def _spread(self, values: Array, axis: int) -> Array:
        """Return values per run as values per cell, 0 in no run."""
        pad = [(0, 0)] * values.ndim
        pad[axis] = (int(self.edges[0]), int(self.n - self.edges[-1]))
        return np.pad(np.repeat(values, np.diff(self.edges), axis=axis), pad)

    def to_json(self) -> dict[str, Any]:
        """Return the workload and the edges as JSON values."""
        return {"kind": self.kind, "workload": self.workload.to_json(), "edges": packed(self.edges), "n": self.n}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(Workload.from_json(values["workload"]), unpacked(values["edges"]), values["n"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coarse):
            return NotImplemented
        return (self.n, self.workload) == (other.n, other.workload) and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash((self.n, self.workload, self.edges.tobytes()))

    def __repr__(self) -> str:
        return f"Coarse({self.workload!r}, {self.n} cells)"

"""Queries that leave cells out, or hold them all: the pieces that workloads over a declared domain are padded with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Energy, Number, Workload, whole
from dpnotebook.workload.contiguous import Contiguous, Integers


@dataclass(frozen=True, repr=False)
class Ones(Contiguous):
    """One query, which counts all cells, asked several times: every coefficient is 1.

    Parameters
    ----------
    n
        Number of cells.
    m
        Number of queries.

    Examples
    --------
    >>> from dpnotebook.workload import Ones
    >>> Ones(3, 2).dense()
    array([[1, 1, 1],
           [1, 1, 1]])
    """

    m: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "m", whole(self.m, "the number of queries"))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.m, self.n

    def apply(self, x: Array) -> Array:
        """Return the sum over the middle axis, for each query."""
        return np.broadcast_to(x.sum(axis=1, keepdims=True), (x.shape[0], self.m, x.shape[2]))

    def apply_transposed(self, y: Array) -> Array:
        """Return the sum over the queries, in every cell."""
        return np.broadcast_to(y.sum(axis=1, keepdims=True), (y.shape[0], self.n, y.shape[2]))

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return [0, n)."""
        return np.zeros_like(indices), np.full_like(indices, self.n)

    def column_norms(self, power: int = 1) -> Array:
        """Return the number of queries."""
        return np.full(self.n, self.m, dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the number of queries."""
        return self.m

    def frobenius_squared(self) -> float:
        """Return the number of entries."""
        return float(self.m * self.n)

    def energy(self) -> Energy:
        """Return the squared number of cells of a run, for each query."""
        return lambda starts, ends: self.m * (ends - starts).astype(float) ** 2

    def _gram(self) -> Array:
        return np.full((self.n, self.n), float(self.m))


@dataclass(frozen=True, repr=False)
class Padded(Contiguous):
    """Runs of the first cells only: a workload followed by cells that none of its queries counts.

    Ranges over an ordered column leave out its levels without an order, those of other and of missing values.

    Parameters
    ----------
    workload
        Queries over the first cells.
    extra
        How many cells follow.

    Examples
    --------
    >>> from dpnotebook.workload import Padded, Prefix
    >>> Padded(Prefix(2), 1).dense()  # the last cell may be "other"
    array([[1, 0, 0],
           [1, 1, 0]])
    """

    workload: Contiguous
    extra: int

    def __init__(self, workload: Contiguous, extra: int) -> None:
        if not isinstance(workload, Contiguous):
            raise WorkloadError(f"Padded takes a workload of runs, such as Prefix(10), not {shorten(workload)}")
        object.__setattr__(self, "workload", workload)
        object.__setattr__(self, "extra", whole(extra, "the number of cells left out"))
        object.__setattr__(self, "n", workload.n + self.extra)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells, those left out included."""
        return self.workload.shape[0], self.n

    def apply(self, x: Array) -> Array:
        """Return the answers over the first cells."""
        return self.workload.apply(x[:, : self.workload.n])

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product, and zero for the cells left out."""
        return np.pad(self.workload.apply_transposed(y), ((0, 0), (0, self.extra), (0, 0)))

    def intervals(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the workload's."""
        return self.workload.intervals(indices)

    def column_norms(self, power: int = 1) -> Array:
        """Return the workload's, and zero for the cells left out."""
        return np.pad(self.workload.column_norms(power), (0, self.extra))

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the workload's."""
        return self.workload.max_column_norm(power)

    def frobenius_squared(self) -> float:
        """Return the workload's."""
        return self.workload.frobenius_squared()

    def energy(self) -> Energy:
        """Return the energy of what a run has among the first cells."""
        energy = self.workload.energy()

        def clipped(starts: Array, ends: Array) -> Array:
            ends = np.minimum(ends, self.workload.n)
            some = starts < ends
            inside = energy(np.where(some, starts, 0), np.where(some, ends, 1))
            return np.where(some, inside, 0.0)

        return clipped

    def _gram(self) -> Array:
        return np.pad(self.workload.gram(), (0, self.extra))

    def to_json(self) -> dict[str, Any]:
        """Return the workload and the number of cells left out as JSON values."""
        return {"kind": self.kind, "workload": self.workload.to_json(), "extra": self.extra}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(Workload.from_json(values["workload"]), values["extra"])  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Padded({self.workload!r}, {self.extra})"

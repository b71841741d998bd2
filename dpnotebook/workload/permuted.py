"""A workload asked of cells in another order: ranges that are no runs of cells, for example."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Number, Workload
from dpnotebook.workload.contiguous import Integers
from dpnotebook.workload.packing import packed, unpacked


@dataclass(frozen=True, repr=False, eq=False)
class Permuted(Workload):
    """The queries of a workload with its cells in another order.

    Parameters
    ----------
    workload
        What is asked, over n cells.
    order
        Which cell takes each place: column j of `workload` is asked of cell order[j]. An array that holds 0 to n - 1
        once each; or a seed (a whole number), for the random order that numpy's generator draws from it.

    Raises
    ------
    WorkloadError
        If `order` is neither.

    Examples
    --------
    >>> from dpnotebook.workload import Permuted, Prefix
    >>> Permuted(Prefix(3), [2, 0, 1]).dense()
    array([[0, 0, 1],
           [1, 0, 1],
           [1, 1, 1]])
    """

    workload: Workload
    order: Integers

    def __init__(self, workload: Workload, order: int | ArrayLike) -> None:
        if not isinstance(workload, Workload):
            raise WorkloadError(f"Permuted takes a workload, such as AllRange(10), not {shorten(workload)}")
        n = workload.shape[1]
        if isinstance(order, Integral) and not isinstance(order, bool) and int(order) >= 0:
            found = np.random.default_rng(int(order)).permutation(n)
        else:
            found = np.array(order)
            whole = found.shape == (n,) and found.dtype.kind in "iu"
            if not whole or not np.array_equal(np.sort(found), np.arange(n)):
                raise WorkloadError(f"an order of {n:,} cells holds each of 0 to {n - 1:,} once, or is a seed")
        found = found.astype(np.int64)
        found.setflags(write=False)
        object.__setattr__(self, "workload", workload)
        object.__setattr__(self, "order", found)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.workload.shape

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return self.workload.integer

    def apply(self, x: Array) -> Array:
        """Return the answers over the reordered cells."""
        return self.workload.apply(x[:, self.order])

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product, its cells put back."""
        return self.workload.apply_transposed(y)[:, self.places]

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows, their columns put back."""
        return self.workload.rows(indices)[:, self.places]

    def column_norms(self, power: int = 1) -> Array:
        """Return the workload's column norms, put back."""
        return self.workload.column_norms(power)[self.places]

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the workload's: the order of the cells does not matter."""
        return self.workload.max_column_norm(power)

    def frobenius_squared(self) -> float:
        """Return the workload's: the order of the cells does not matter."""
        return self.workload.frobenius_squared()

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w, with M reordered."""
        return self.workload.quadratic(matrix[..., self.order[:, None], self.order])

    @cached_property
    def places(self) -> Integers:
        """The place of each cell: the inverse of `order`."""
        return np.argsort(self.order)

    def _gram(self) -> Array:
        return self.workload.gram()[self.places[:, None], self.places]

    def to_json(self) -> dict[str, Any]:
        """Return the workload and the order as JSON values."""
        return {"kind": self.kind, "workload": self.workload.to_json(), "order": packed(self.order)}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(Workload.from_json(values["workload"]), unpacked(values["order"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Permuted):
            return NotImplemented
        return self.workload == other.workload and np.array_equal(self.order, other.order)

    def __hash__(self) -> int:
        return hash((self.workload, self.order.tobytes()))

    def __repr__(self) -> str:
        return f"Permuted({self.workload!r})"

"""What every workload can do: an implicit matrix of queries (rows) over the cells of a histogram (columns)."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.errors import WorkloadError, shorten

MEMORY_LIMIT = 2**31  # bytes of the largest single array that is ever built
SHORT = 1_000  # characters of a workload that are kept
LARGEST_NORM = 2**62  # sums of two numbers below it are 64-bit integers

Array = NDArray[Any]
Number = int | float
Energy = Callable[[Array, Array], Array]
Product = tuple[Number, "tuple[Workload, ...]"]
"""A weight, and factors that are neither weighted nor products."""

_KINDS: dict[str, Any] = {}  # classes by name, each with arguments of its own
OWN = "dpnotebook."  # modules whose classes are not somebody else's


@dataclass(frozen=True, repr=False)
class Workload(ABC):
    """An implicit matrix of m linear queries over n cells; frozen, hashable, and never built unless asked for.

    Integer workloads answer integer counts in exact integer arithmetic.

    Examples
    --------
    >>> from dpnotebook.workload import Identity, Prefix
    >>> both = Prefix(3) + 2 * Identity(3)
    >>> both.shape
    (6, 3)
    >>> both.matvec([5, 1, 2])
    array([ 5,  6,  8, 10,  2,  4])
    >>> both.l1_sensitivity
    5
    """

    kind: ClassVar[str] = "Workload"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = cls.__name__
        known = _KINDS.get(cls.__name__)
        if known is None or cls.__module__.startswith(OWN) or not known.__module__.startswith(OWN):
            _KINDS[cls.__name__] = cls  # a class of somebody else's never replaces one that ledgers are read with

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of queries m, number of cells n."""

    @property
    def integer(self) -> bool:
        """Whether every entry is an integer."""
        return True

    @property
    def stacked(self) -> tuple[Workload, ...]:
        """The workloads whose queries follow one another here: itself, unless it is a stack."""
        return (self,)

    @property
    def summands(self) -> tuple[tuple[Number, Workload], ...]:
        """Weights and workloads of the same shape that add up to this one, entry by entry."""
        return ((1, self),)

    def products(self) -> tuple[Product, ...]:
        """Return it as a union of weighted products, in the order of its rows (HDMM, equation 3)."""
        return ((1, (self,)),)

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """Return W x along the middle axis: (a, n, b) to (a, m, b)."""

    @abstractmethod
    def apply_transposed(self, y: Array) -> Array:
        """Return W' y along the middle axis: (a, m, b) to (a, n, b)."""

    @abstractmethod
    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as a dense array, shape (len(indices), n)."""

    @abstractmethod
    def column_norms(self, power: int = 1) -> Array:
        """Return the sum of |entry|^power of each column, shape (n,): int64 where the workload is integer."""

    @abstractmethod
    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w: `matrix` is (..., n, n), the result (..., m)."""

    def matvec(self, x: ArrayLike) -> Array:
        """Return the answers W x.

        Parameters
        ----------
        x
            Counts of the cells, shape (n,) or (n, k); integers are answered exactly where the workload is integer.

        Returns
        -------
        Answers, shape (m,) or (m, k), in the order that the workload documents.

        Raises
        ------
        WorkloadError
            If x has another shape, is not numeric, or the answers would not fit in memory.
        """
        return self._on_middle(x, self.shape[1], self.shape[0], "cell", self.apply)

    def rmatvec(self, y: ArrayLike) -> Array:
        """Return W' y, shape (n,) or (n, k), for y of shape (m,) or (m, k)."""
        return self._on_middle(y, self.shape[0], self.shape[1], "query", self.apply_transposed)

    def gram(self) -> Array:
        """Return W'W, shape (n, n), or raise WorkloadError with the size it would take."""
        n = self.shape[1]
        require_memory(
            n * n,
            f"the {n:,} x {n:,} Gram matrix of this workload",
            advice="write it as products or marginals, whose factors are small, or over fewer or coarser cells",
        )
        return self._gram()

    def dense(self) -> Array:
        """Return the whole matrix, shape (m, n), or raise WorkloadError with the size it would take."""
        m, n = self.shape
        require_memory(
            m * n,
            f"the {m:,} x {n:,} matrix of this workload",
            advice="matvec, rmatvec and gram need no matrix, and rows(indices) gives some of it",
        )
        return self.rows(np.arange(m))

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the largest column sum of |entry|^power: an exact int where the workload is integer."""
        return number(self.column_norms(power).max())

    def frobenius_squared(self) -> float:
        """Return the sum of all squared entries."""
        return float(self.column_norms(2).sum(dtype=float))

    @property
    def l1_sensitivity(self) -> Number:
        """Most that all answers together change (sum of absolute values) when one row is added or removed."""
        return self.max_column_norm(1)

    @property
    def l2_sensitivity(self) -> float:
        """Most that the vector of answers moves (Euclidean length) when one row is added or removed."""
        return math.sqrt(self.max_column_norm(2))

    def energy(self) -> Energy:
        """Return a function of (starts, ends): |W 1|^2 of the indicator of each run [start, end) of cells.

        This one quantity is all that a strategy made of contiguous blocks needs to know about the workload's Gram
        matrix. The general form sums the Gram matrix once; structured workloads have it in closed form.
        """
        corner = corner_sums(self.gram())
        return lambda starts, ends: run_sums(corner, starts, ends)

    def to_json(self) -> dict[str, Any]:
        """Return the workload as JSON values; `Workload.from_json` reads them."""
        return {"kind": self.kind, **{field.name: _plain(getattr(self, field.name)) for field in fields(self)}}

    @property
    def text(self) -> str:
        """What `to_json` returns as one text; a short one is written once, as thousands of questions share a few."""
        found: str | None = self.__dict__.get("_text")
        if found is None:
            found = json.dumps(self.to_json(), sort_keys=True)
            if len(found) <= SHORT:
                self.__dict__["_text"] = found
        return found

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Workload:
        """Return the workload that `to_json` wrote.

        Raises
        ------
        WorkloadError
            If the value is not one that `to_json` writes.
        """
        try:
            kind: type[Workload] = _KINDS[value["kind"]]
            return kind._from_fields({k: v for k, v in value.items() if k != "kind"})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, WorkloadError):
                raise
            raise WorkloadError("these JSON values do not describe a workload") from None

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(**values)

    def _gram(self) -> Array:
        dense = self.dense().astype(float)
        gram: Array = dense.T @ dense
        return gram

    def _on_middle(self, x: ArrayLike, size: int, result: int, what: str, apply: Callable[[Array], Array]) -> Array:
        array = np.asarray(x)
        if array.dtype.kind not in "biuf":
            raise WorkloadError(f"a workload acts on numbers, not on an array of {array.dtype}")
        if array.ndim not in (1, 2) or array.shape[0] != size:
            raise WorkloadError(f"{shorten(self)} takes one number a {what}, {size:,} in all; got shape {array.shape}")
        require_memory(
            result * (1 if array.ndim == 1 else array.shape[1]),
            "the result of this workload",
            advice="ask for fewer queries at a time",
        )
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
        out = apply(array.reshape(1, size, -1))
        return out.reshape(result) if array.ndim == 1 else out.reshape(result, array.shape[1])

    def __add__(self, other: Workload) -> Workload:
        if not isinstance(other, Workload):
            raise WorkloadError(f"a workload can be joined with another workload, not with {shorten(other)}")
        stack: Workload = _KINDS["Stack"](*self.stacked, *other.stacked)
        return stack

    def __mul__(self, weight: Number) -> Workload:
        weighted: Workload = _KINDS["Weighted"](weight, self)
        return weighted

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(repr(getattr(self, field.name)) for field in fields(self))})"


def registered_kind(name: str) -> type[Workload] | None:
    """Return the class that ledgers mean by a name."""
    return _KINDS.get(name)


def whole(value: object, name: str, least: int = 1) -> int:
    """Return `value` as an int of at least `least`, or raise WorkloadError naming it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise WorkloadError(f"{name} must be a whole number of at least {least}, not {shorten(value)}")
    return int(value)


def number(value: Any) -> Number:
    """Return a numpy or Python number as a plain int or float."""
    return int(value) if isinstance(value, Integral) else float(value)


def require_memory(entries: int, what: str, limit: int = MEMORY_LIMIT, advice: str = "") -> None:
    """Raise WorkloadError, naming the size and what to do instead, if an array of 8-byte entries passes the limit."""
    if 8 * entries > limit:
        size = 8 * entries / 2**30
        text = f"{what} would take {size:,.1f} GiB (the limit is {limit / 2**30:,.1f} GiB)"
        raise WorkloadError(f"{text}; {advice}" if advice else text)


def exact_norms(entries: Array, power: int) -> Array:
    """Return the sum of |entry|^power of each column of a matrix: exact where it is one of integers, shape (n,).

    Raises
    ------
    WorkloadError
        If sums of integers could pass 62 bits; they would come out too small.
    """
    if entries.dtype.kind != "f" and entries.size:
        largest = max(int(entries.max()), -int(entries.min()))
        if largest**power * entries.shape[0] >= LARGEST_NORM:
            require_exact(float((np.abs(entries.astype(float)) ** power).sum(axis=0).max()))
    return np.asarray((np.abs(entries) ** power).sum(axis=0))


def exact_sum(norms: Iterable[Array]) -> Array:
    """Return the sum of column norms, or raise WorkloadError if those of integers pass 62 bits."""
    total: Array | int = 0
    for some in norms:
        total = total + some
        if total.dtype.kind != "f":
            require_exact(int(total.max()))
    return np.asarray(total)


def exact_multiple(weight: Number, norms: Array) -> Array:
    """Return column norms times a weight, or raise WorkloadError if those of integers pass 62 bits."""
    if isinstance(weight, int) and norms.dtype.kind != "f":
        require_exact(weight * int(norms.max()))
    return np.asarray(weight * norms)


def require_exact(norm: Number) -> None:
    """Raise WorkloadError if a column norm passes 62 bits, beyond which 64-bit integers are no longer exact."""
    if norm >= LARGEST_NORM:
        raise WorkloadError(
            "the coefficients of these queries are so large that 64-bit integers cannot hold their sensitivity; "
            "write them in a coarser unit, such as with dpn.strategy.rounded"
        )


def corner_sums(matrix: Array) -> Array:
    """Return S with S[..., i, j] = the sum of the leading i x j block; shape (..., n + 1, n + 1)."""
    rows, columns = matrix.shape[-2:]
    sums = np.zeros((*matrix.shape[:-2], rows + 1, columns + 1))
    np.cumsum(matrix, axis=-2, out=sums[..., 1:, 1:])
    np.cumsum(sums[..., 1:, 1:], axis=-1, out=sums[..., 1:, 1:])
    return sums


def run_sums(corners: Array, starts: Array, ends: Array) -> Array:
    """Return 1'M1 for the indicator of each run [start, end), from the corner sums of M; shape (..., runs)."""
    return block_sums(corners, (starts, ends), (starts, ends))


def block_sums(corners: Array, rows: tuple[Array, Array], columns: tuple[Array, Array]) -> Array:
    """Return the sum of M in each block of rows [up, down) and columns [left, right); shape (..., blocks)."""
    (up, down), (left, right) = rows, columns
    result = corners[..., down, right] - corners[..., up, right]
    result -= corners[..., down, left]
    result += corners[..., up, left]
    return np.asarray(result)


def _plain(value: Any) -> Any:
    if isinstance(value, Workload):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value

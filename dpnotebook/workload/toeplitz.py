"""Queries that weigh a cell by how far back it is: lower-triangular Toeplitz matrices, never written out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, Workload, exact_norms
from dpnotebook.workload.packing import packed, unpacked

WORD = 64  # bits of an integer
ROUNDING = 2.0**-53
WRONG = 0.25  # most that a product of digits may be off before it is rounded to the integer that it is


@dataclass(frozen=True, repr=False, eq=False)
class Toeplitz(Workload):
    """A lower-triangular Toeplitz matrix: query i adds up, over the cells j up to i, coefficient i - j times cell j.

    Parameters
    ----------
    coefficients
        One finite number a cell, shape (n,), the first of them not 0. Kept as int64 where all are integers.

    Raises
    ------
    WorkloadError
        If they are not such numbers.

    Examples
    --------
    >>> from dpnotebook.workload import Toeplitz
    >>> Toeplitz([4, 2, 1]).dense()
    array([[4, 0, 0],
           [2, 4, 0],
           [1, 2, 4]])
    """

    coefficients: Array

    def __init__(self, coefficients: ArrayLike) -> None:
        array = np.array(coefficients)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise WorkloadError("a Toeplitz workload takes one finite number a cell")
        if array[0] == 0:
            raise WorkloadError("the first coefficient of a Toeplitz workload, that of a query's own cell, is not 0")
        whole = array.dtype.kind != "f" or bool((array == np.rint(array)).all() and abs(array).max() < 2**53)
        array = array.astype(np.int64 if whole else np.float64)
        array.setflags(write=False)
        object.__setattr__(self, "coefficients", array)

    @property
    def n(self) -> int:
        """Number of cells."""
        return int(self.coefficients.size)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries n, number of cells n."""
        return self.n, self.n

    @property
    def integer(self) -> bool:
        """Whether every coefficient is an integer."""
        return self.coefficients.dtype.kind == "i"

    def apply(self, x: Array) -> Array:
        """Return the answers by fast Fourier transforms: of integers exact, as `convolved` says."""
        return convolved(self.coefficients, x)

    def apply_transposed(self, y: Array) -> Array:
        """Return the transposed product, which is the same from the other end."""
        return convolved(self.coefficients, y[:, ::-1])[:, ::-1]

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows."""
        back = np.asarray(indices, dtype=np.int64)[:, None] - np.arange(self.n)
        return np.where(back >= 0, self.coefficients[np.maximum(back, 0)], 0)

    def column_norms(self, power: int = 1) -> Array:
        """Return the sums of the first n - j coefficients' |.|^power: cell j is in the queries from j on."""
        exact_norms(self.coefficients[:, None], power)
        return np.cumsum(np.abs(self.coefficients) ** power)[::-1]

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        rows = self.dense().astype(float)
        return np.asarray(np.einsum("mi,...im->...m", rows, matrix @ rows.T, optimize=True))

    def to_json(self) -> dict[str, Any]:
        """Return the coefficients as JSON values, compressed."""
        return {"kind": self.kind, "coefficients": packed(self.coefficients)}

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(unpacked(values["coefficients"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Toeplitz):
            return NotImplemented
        return np.array_equal(self.coefficients, other.coefficients) and self.integer == other.integer

    def __hash__(self) -> int:
        return hash((self.integer, self.coefficients.tobytes()))

    def __repr__(self) -> str:
        return f"Toeplitz({self.n:,} coefficients)"


def convolved(coefficients: Array, x: Array) -> Array:
    """Return sum over j <= i of coefficients[i - j] x[:, j], along the middle axis, in O(n log n).

    Of integers the result is exact, modulo 2^64 as all sums of int64 are: both are split into digits so short that the
    transforms of two of them are off by less than a quarter (Percival 2003, Theorem 5.1), and rounding gives what the
    integer is. How much work that is does not depend on what is in `x`.

    Parameters
    ----------
    coefficients
        Shape (n,).
    x
        Shape (a, n, b).
    """
    if coefficients.dtype.kind == "f" or x.dtype.kind == "f":
        return _product(coefficients.astype(float), x.astype(float))
    bits = digit_bits(x.shape[1])
    longest = int(np.abs(coefficients.astype(float)).max()).bit_length()
    few = _digits(coefficients[None, :, None], bits, min(-(-WORD // bits), longest // bits + 1))
    size = _size(x.shape[1])
    turned = [np.fft.rfft(digit, size, axis=1) for digit in few]
    out = np.zeros(x.shape, dtype=np.int64)
    for place, digit in enumerate(_digits(x, bits, -(-WORD // bits))):
        spectrum = np.fft.rfft(digit, size, axis=1)
        for other, factor in enumerate(turned):
            shift = bits * (place + other)
            if shift < WORD:
                exact = np.fft.irfft(spectrum * factor, size, axis=1)[:, : x.shape[1]]
                out += np.rint(exact).astype(np.int64) << shift
    return out


def digit_bits(n: int) -> int:
    """Return how long digits may be for transforms over n cells: their products are off by less than a quarter.

    With digits of at most 2^(bits - 1), the two sequences have norms of at most 2^(bits - 1) sqrt(n), and transforms of
    2^k numbers an error of at most that product times (1 + u)^3k (1 + sqrt(5) u)^(3k + 1) (1 + u)^3k - 1, u = 2^-53.
    """
    k = _size(n).bit_length() - 1
    growth = math.expm1(6 * k * math.log1p(ROUNDING) + (3 * k + 1) * math.log1p(math.sqrt(5) * ROUNDING))
    bits = 1 + math.floor(math.log2(WRONG / (n * growth)) / 2)
    if bits < 2:
        raise WorkloadError(f"Toeplitz workloads over {n:,} cells are too large to be answered exactly")
    return bits


def _size(n: int) -> int:
    """Return the power of two that holds a product of two sequences of n."""
    return 1 << (2 * n - 1).bit_length()


def _digits(x: Array, bits: int, count: int) -> list[Array]:
    """Return x as floats whose sum, each shifted by `bits` more than the last, is x modulo 2^64."""
    half, found, rest = 1 << (bits - 1), [], x.astype(np.int64)
    for _ in range(count):
        digit = ((rest + half) & ((1 << bits) - 1)) - half
        rest = (rest - digit) >> bits
        found.append(digit.astype(float))
    return found


def _product(coefficients: Array, x: Array) -> Array:
    n = x.shape[1]
    size = _size(n)
    spectrum = np.fft.rfft(x, size, axis=1) * np.fft.rfft(coefficients, size)[None, :, None]
    return np.asarray(np.fft.irfft(spectrum, size, axis=1)[:, :n])

"""The Fourier basis over bits: sums of cells with the sign of a parity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.workload.base import Array, Number, Workload, whole


@dataclass(frozen=True, repr=False)
class Fourier(Workload):
    """The Fourier basis of `n` cells that are told apart by the bits of their number (Walsh-Hadamard).

    Row r has entry -1 at cell j where r and j share an odd number of bits, else 1. Over a number of cells that is no
    power of two they are the rows of the next one, less the cells that are not there, and then more than n.

    Parameters
    ----------
    n
        Number of cells.
    constant
        Whether row 0, which is the total, is among them.

    Examples
    --------
    >>> from dpnotebook.workload import Fourier
    >>> Fourier(4).dense()
    array([[ 1,  1,  1,  1],
           [ 1, -1,  1, -1],
           [ 1,  1, -1, -1],
           [ 1, -1, -1,  1]])
    """

    n: int
    constant: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole(self.n, "the number of cells", 1 if self.constant else 2))
        object.__setattr__(self, "constant", bool(self.constant))

    @property
    def padded(self) -> int:
        """The least power of two that is not below n."""
        return int(2 ** (self.n - 1).bit_length())

    @property
    def shape(self) -> tuple[int, int]:
        """One row a parity of bits, number of cells."""
        return self.padded - (not self.constant), self.n

    def apply(self, x: Array) -> Array:
        """Return the fast transform of x."""
        full = np.zeros((x.shape[0], self.padded, x.shape[2]), dtype=x.dtype)
        full[:, : self.n] = x
        return self._transform(full)[:, 0 if self.constant else 1 :]

    def apply_transposed(self, y: Array) -> Array:
        """Return the fast transform of y: the basis is symmetric."""
        full = np.zeros((y.shape[0], self.padded, y.shape[2]), dtype=y.dtype)
        full[:, 0 if self.constant else 1 :] = y
        return self._transform(full)[:, : self.n]

    def rows(self, indices: ArrayLike) -> Array:
        """Return the given rows as plus or minus 1, shape (len(indices), n)."""
        index = np.asarray(indices, dtype=np.int64) + (not self.constant)
        return np.asarray(1 - 2 * (np.bitwise_count(index[:, None] & np.arange(self.n)).astype(np.int64) % 2))

    def column_norms(self, power: int = 1) -> Array:
        """Return the number of rows."""
        return np.full(self.n, self.shape[0], dtype=np.int64)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the number of rows."""
        return self.shape[0]

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        half = self.apply(matrix.reshape(-1, self.n, self.n))
        result = np.einsum("amj,mj->am", half, self.dense().astype(float))
        return np.asarray(result.reshape(*matrix.shape[:-2], self.shape[0]))

    def _gram(self) -> Array:
        return np.asarray(self.padded * np.eye(self.n) - (not self.constant))

    def _transform(self, x: Array) -> Array:
        """Return x, (a, padded, b), after sums and differences over one bit of the cells at a time."""
        a, size, b = x.shape
        step = 1
        while step < size:
            pairs = x.reshape(a, size // (2 * step), 2, step, b)
            x = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
            step *= 2
        return x.reshape(a, size, b)

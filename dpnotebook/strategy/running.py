"""The coefficients of the Toeplitz square root of running counts (see `toeplitz`)."""

from __future__ import annotations

import numpy as np

from dpnotebook.workload.base import Array


def square_root(n: int) -> Array:
    """Return the first n coefficients of 1 / sqrt(1 - x): 1, 1/2, 3/8, ..., each (2k - 1) / 2k times the one before."""
    k = np.arange(1, n)
    return np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))

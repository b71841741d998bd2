"""Products with a Gram matrix, by running sums where V_ij = a_i b_j for i <= j: prefixes, all ranges, and the like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpnotebook.workload.base import Array

Product = Callable[[Array], Array]

DENSE_CELLS = 256  # up to this many cells a dense product is as fast
EXACT = 1e-12  # relative to the largest entry


def gram_product(gram: Array) -> Product:
    """Return the function X -> X V, for V of shape (n, n) and X of shape (p, n)."""
    factors = _generators(gram) if len(gram) > DENSE_CELLS else None
    if factors is None:
        return lambda x: np.asarray(x @ gram)
    a, b = factors

    def multiply(x: Array) -> Array:
        # Column j of X V is b_j sum_(i <= j) a_i x_i + a_j sum_(i > j) b_i x_i.
        result = np.cumsum(x * a, axis=1)
        result *= b
        after = x * b
        sums = np.cumsum(after[:, ::-1], axis=1)[:, ::-1]
        sums -= after
        sums *= a
        result += sums
        return np.asarray(result)

    return multiply


def _generators(gram: Array) -> tuple[Array, Array] | None:
    """Return a and b with V_ij = a_i b_j for all i <= j, if there are such."""
    if gram[0, 0] <= 0 or gram[0, -1] <= 0:
        return None
    a, b = gram[:, -1] / gram[0, -1], gram[0]
    near = EXACT * float(np.abs(gram).max())
    for i in range(len(gram)):  # a row at a time: no second matrix of this size
        if np.abs(a[i] * b[i:] - gram[i, i:]).max() > near:
            return None
    return a, b

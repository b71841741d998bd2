"""Products A'B of two workloads with the same number of rows, from their structure (HDMM, appendix A)."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from dpnotebook.workload.base import Array, Number, Workload, number, require_memory
from dpnotebook.workload.compose import Kron
from dpnotebook.workload.contiguous import Identity
from dpnotebook.workload.padded import Ones

CHUNK = 2**22  # entries of rows handled at a time


def cross_gram(a: Workload, b: Workload) -> Array:
    """Return A'B, shape (cells of a, cells of b); both have the same number of rows."""
    require_memory(a.shape[1] * b.shape[1], f"the {a.shape[1]:,} x {b.shape[1]:,} Gram matrix of this workload")
    parts = _parts(a, b)
    if parts is not None:
        return np.asarray(sum(sign * cross_gram(one, two) for sign, one, two in parts))
    factors = _aligned(a, b)
    if factors is not None:
        return reduce(np.kron, [cross_gram(one, two) for one, two in factors])
    if a == b:
        return a.gram()
    if isinstance(a, Ones):
        return np.broadcast_to(_row_sum(b), (a.n, b.shape[1])).astype(float)
    if isinstance(b, Ones) or isinstance(a, Identity):
        return cross_gram(b, a).T if isinstance(b, Ones) else b.dense().astype(float)
    total = np.zeros((a.shape[1], b.shape[1]))
    for rows in _chunks(a, b):
        total += a.rows(rows).astype(float).T @ b.rows(rows)
    return total


def cross_diagonal(a: Workload, b: Workload) -> Array:
    """Return the diagonal of A'B, shape (cells,): int64 where both are integer."""
    parts = _parts(a, b)
    if parts is not None:
        return np.asarray(sum(sign * cross_diagonal(one, two) for sign, one, two in parts))
    factors = _aligned(a, b)
    if factors is not None:
        return reduce(np.kron, [cross_diagonal(one, two) for one, two in factors])
    if a == b:
        return a.column_norms(2)
    if isinstance(a, Ones) or isinstance(b, Ones):
        return _row_sum(b if isinstance(a, Ones) else a)
    return np.asarray(sum((a.rows(rows) * b.rows(rows)).sum(axis=0) for rows in _chunks(a, b)))


def cross_sum(a: Workload, b: Workload) -> Number:
    """Return the sum of the products of corresponding entries: the trace of A'B, over any domain."""
    parts = _parts(a, b)
    if parts is not None:
        return sum(sign * cross_sum(one, two) for sign, one, two in parts)
    factors = _aligned(a, b)
    if factors is not None:
        return math.prod(cross_sum(one, two) for one, two in factors)
    if a == b:
        return a.frobenius_squared()
    return number(cross_diagonal(a, b).sum())


def _parts(a: Workload, b: Workload) -> list[tuple[Number, Workload, Workload]] | None:
    """Return a weighted sum of products, where one side is a difference or weighted."""
    first, second = a.summands, b.summands
    if first != ((1, a),):
        return [(weight, one, b) for weight, one in first]
    return [(weight, a, two) for weight, two in second] if second != ((1, b),) else None


def _aligned(a: Workload, b: Workload) -> list[tuple[Workload, Workload]] | None:
    """Return the pairs of factors of two products whose factors have the same shapes."""
    if isinstance(a, Kron) and isinstance(b, Kron) and [f.shape for f in a.factors] == [f.shape for f in b.factors]:
        return list(zip(a.factors, b.factors, strict=True))
    return None


def _row_sum(workload: Workload) -> Array:
    """Return the sum of all rows."""
    ones = np.ones((1, workload.shape[0], 1), dtype=np.int64 if workload.integer else np.float64)
    return workload.apply_transposed(ones)[0, :, 0]


def _chunks(a: Workload, b: Workload) -> list[Array]:
    step = max(1, CHUNK // max(a.shape[1], b.shape[1]))
    return [np.arange(first, min(a.shape[0], first + step)) for first in range(0, a.shape[0], step)]

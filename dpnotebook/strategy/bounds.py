"""Lower bounds on the error of every strategy for a workload.

Source: HDMM, Definition 11 and Proposition 5: (sum of singular values)^2 / n; Theorem 5: bounds of products multiply.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce

import numpy as np

from dpnotebook.workload import AllRange, Identity, Prefix, Total, Workload
from dpnotebook.workload.terms import Term, terms

EIGEN_CELLS = 1024  # eigenvalues of a Gram matrix without structure: a second
MOMENT_CELLS = 4096  # a Gram matrix without structure: a second, 128 MiB
MARGINAL_ATTRIBUTES = 20


@lru_cache(maxsize=256)
def svd_bound(workload: Workload) -> float:
    """Return a lower bound on |A|^2 |W A^+|_F^2 over all strategies A, for Laplace and for Gaussian noise.

    It is the SVD bound wherever that can be computed: products of factors of up to 1,024 cells (any size for Identity,
    Total, Prefix and AllRange), sets of marginals over any domain, other unions of up to 1,024 cells. Beyond, it is
    something smaller; for unions the sum of the bounds of the parts, because X -> (tr sqrt X)^2 is superadditive on
    positive semidefinite matrices.
    """
    parts = terms(workload)
    if len(parts) == 1:
        return parts[0].weight ** 2 * math.prod(_factor_bound(factor) for factor in parts[0].factors)
    if _is_marginals(parts):
        return _marginals_bound(parts)
    if workload.shape[1] <= EIGEN_CELLS:
        return _eigen_bound(workload)
    return sum(part.weight**2 * svd_bound(part.product) for part in parts)


def closed_bound(factor: Workload) -> float:
    """Return the SVD bound of Identity, Total, Prefix and AllRange, whose eigenvalues are known; 0 for others."""
    n = factor.shape[1]
    if isinstance(factor, Identity):
        return float(n)
    if isinstance(factor, Total):
        return 1.0
    k = np.arange(1, n + 1)
    if isinstance(factor, Prefix):
        return float((0.5 / np.sin((2 * k - 1) * np.pi / (4 * n + 2))).sum() ** 2 / n)
    if isinstance(factor, AllRange):  # the inverse of its Gram matrix is (2, -1) tridiagonal over n + 1
        return float((math.sqrt(n + 1) / 2 / np.sin(k * np.pi / (2 * n + 2))).sum() ** 2 / n)
    return 0.0


def _factor_bound(factor: Workload) -> float:
    closed = closed_bound(factor)
    if closed:
        return closed
    if len(terms(factor)) > 1:
        return svd_bound(factor)
    n = factor.shape[1]
    if n <= EIGEN_CELLS:
        return _eigen_bound(factor)
    # Too large for eigenvalues: tr sqrt(G) is at least tr(G)^(3/2) / |G|_F (by Hoelder), and at least sqrt(tr G).
    return _moment_bound(factor) if n <= MOMENT_CELLS else factor.frobenius_squared() / n


def _eigen_bound(workload: Workload) -> float:
    n = workload.shape[1]
    values = np.linalg.eigvalsh(workload.gram().astype(float))
    kept = values[values > values[-1] * n * 8 * np.finfo(float).eps]  # the root of what is rounding is not small
    return float(np.sqrt(kept).sum() ** 2 / n)


def _moment_bound(workload: Workload) -> float:
    gram = workload.gram().astype(float)
    return float(np.trace(gram) ** 3 / np.vdot(gram, gram) / workload.shape[1])


def _is_marginals(parts: tuple[Term, ...]) -> bool:
    plain = all(isinstance(factor, (Identity, Total)) for part in parts for factor in part.factors)
    return plain and len({part.sizes for part in parts}) == 1 and len(parts[0].sizes) <= MARGINAL_ATTRIBUTES


def _marginals_bound(parts: tuple[Term, ...]) -> float:
    """Return the SVD bound of a set of weighted marginals: their Gram matrices share eigenvectors (HDMM, Theorem 9).

    In each attribute the constant vector has eigenvalue 1 (Identity) or n (Total), its complement 1 or 0.
    """
    sizes = parts[0].sizes
    values = np.zeros(2 ** len(sizes))
    for part in parts:
        pairs = [(1.0, 1.0) if isinstance(factor, Identity) else (factor.shape[1], 0.0) for factor in part.factors]
        values += part.weight**2 * reduce(np.kron, np.array(pairs))
    multiplicities = reduce(np.kron, np.array([(1.0, n - 1) for n in sizes]))
    return float((multiplicities * np.sqrt(values)).sum() ** 2 / math.prod(sizes))

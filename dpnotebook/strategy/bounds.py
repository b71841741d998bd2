"""Lower bounds on the error of every strategy for a workload.

Source: HDMM, Definition 11 and Proposition 5: (sum of singular values)^2 / n; Theorem 5: bounds of products multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpnotebook.inference.dense import EIGENVALUE_ROUNDING
from dpnotebook.strategy.lattice import is_lattice, lattice
from dpnotebook.strategy.splits import attribute, residual_objective, uniform
from dpnotebook.strategy.subset_bound import subset_bound
from dpnotebook.workload import AllRange, Identity, Padded, Permuted, Prefix, Total, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import SparseTerm, sparse_terms, terms

FEW_WAYS = 4  # of asking an attribute
EIGEN_CELLS = 1024  # eigenvalues of a Gram matrix without structure: a second
MOMENT_CELLS = 4096  # a Gram matrix without structure: a second, 128 MiB
UNLIKE = 1e-9  # of the largest: squared norms of columns that differ by more do so by more than rounding


@lru_cache(maxsize=256)
def svd_bound(workload: Workload) -> float:
    """Return a lower bound on |A|^2 |W A^+|_F^2 over all strategies A, for Laplace and for Gaussian noise.

    It is the SVD bound wherever that can be computed: products of factors of up to 1,024 cells (any size for Identity,
    Total, Prefix and AllRange), sets of marginals over any domain, other unions of up to 1,024 cells. Beyond, of unions
    of products `subset_bound`, which is near where attributes are asked in few ways; or something smaller, as for
    unions the sum of the bounds of the parts, because X -> (tr sqrt X)^2 is superadditive on positive semidefinite
    matrices.
    """
    found = sparse_terms(workload)
    if found is not None and len(found[1]) > 1 and is_lattice(found[1]):
        bound = _marginals_bound(workload)
        if bound is not None:
            return bound
    parts = terms(workload)
    if len(parts) == 1:
        return parts[0].weight ** 2 * math.prod(_factor_bound(factor) for factor in parts[0].factors)  # Theorem 5
    if workload.shape[1] <= EIGEN_CELLS:
        return gram_bound(workload.gram().astype(float))
    if found is not None:  # the bound of a total is 1
        each = (part.weight**2 * math.prod(_factor_bound(factor) for factor in part.factors) for part in found[1])
        return max(float(sum(each)), subset_bound(workload))
    apart = float(sum(part.weight**2 * svd_bound(part.product) for part in parts))
    return max(apart, subset_bound(workload))


@lru_cache(maxsize=256)
def is_near(workload: Workload) -> bool:
    """Return whether `svd_bound` says something of the best that Gaussian noise can do, and is not far below it."""
    parts = terms(workload)
    if workload.shape[1] <= EIGEN_CELLS:
        return True
    if len(parts) > 1:
        found = sparse_terms(workload)
        return found is not None and (_all_alike(found[1]) or (_in_few_ways(found[1]) and subset_bound(workload) > 0))
    return all(closed_bound(one) > 0 or one.shape[1] <= EIGEN_CELLS for one in parts[0].factors)


def _in_few_ways(parts: Sequence[SparseTerm]) -> bool:
    """Return whether no attribute is asked in so many ways that `subset_bound` is far below."""
    ways: dict[int, set[Workload]] = {}
    for part in parts:
        for axis, factor in zip(part.axes, part.factors, strict=True):
            ways.setdefault(axis, set()).add(factor)
    return all(len(factors) <= FEW_WAYS for factors in ways.values())


def _all_alike(parts: Sequence[SparseTerm]) -> bool:
    return is_lattice(parts) and all(isinstance(factor, Identity) for part in parts for factor in part.factors)


def closed_bound(factor: Workload) -> float:
    """Return the SVD bound of Identity, Total, Prefix and AllRange, whose eigenvalues are known; 0 for others.

    The order of the cells changes no singular value, and cells that no query counts add zeros.
    """
    if isinstance(factor, Permuted):
        return closed_bound(factor.workload)
    if isinstance(factor, Padded):
        return closed_bound(factor.workload) * factor.workload.n / factor.n
    n = factor.shape[1]
    if isinstance(factor, Identity):
        return float(n)
    if isinstance(factor, Total):
        return 1.0
    if not isinstance(factor, Prefix | AllRange):
        return 0.0
    k = np.arange(1, n + 1)
    if isinstance(factor, Prefix):
        return float((0.5 / np.sin((2 * k - 1) * np.pi / (4 * n + 2))).sum() ** 2 / n)
    # The inverse of the Gram matrix of all ranges is (2, -1) tridiagonal over n + 1.
    return float((math.sqrt(n + 1) / 2 / np.sin(k * np.pi / (2 * n + 2))).sum() ** 2 / n)


def _factor_bound(factor: Workload) -> float:
    closed = closed_bound(factor)
    if closed:
        return closed
    if len(terms(factor)) > 1:
        return svd_bound(factor)
    n = factor.shape[1]
    if n <= EIGEN_CELLS:
        return gram_bound(factor.gram().astype(float))
    # Too large for eigenvalues: tr sqrt(G) is at least tr(G)^(3/2) / |G|_F (by Hoelder), and at least sqrt(tr G).
    return _moment_bound(factor) if n <= MOMENT_CELLS else factor.frobenius_squared() / n


def gram_bound(gram: Array) -> float:
    """Return the SVD bound of the workload with this Gram matrix, shape (n, n)."""
    n = len(gram)
    values = np.linalg.eigvalsh(gram)
    kept = values[values > values[-1] * n * EIGENVALUE_ROUNDING]  # the root of what is rounding is not small
    return float(np.sqrt(kept).sum() ** 2 / n)  # Definition 11


def _moment_bound(workload: Workload) -> float:
    gram = workload.gram().astype(float)
    return float(np.trace(gram) ** 3 / np.vdot(gram, gram) / workload.shape[1])


def _maybe_alike(kind: Workload) -> bool:
    """Return whether a factor may treat all cells alike, where those that no query tells apart count as one."""
    norms = np.asarray(kind.column_norms(2), dtype=float)
    return bool(np.ptp(norms) <= UNLIKE * norms.max())


def _marginals_bound(workload: Workload) -> float | None:
    """Return the SVD bound of a union of products that treat all cells of every attribute alike; None for others.

    Their Gram matrices share eigenvectors (HDMM, Theorem 9), one eigenvalue for every subset of the attributes; only
    subsets that some product is about have one above 0, so this works for any number of attributes (Theorem 12).
    """
    found = lattice(workload)
    if not all(_maybe_alike(kind) for kinds in found.kinds for kind in kinds):
        return None  # before matrices of all pairs of cells are looked at
    attributes = [attribute(kinds, n) for kinds, n in zip(found.kinds, found.sizes, strict=True)]
    if any(asked.grams for asked in attributes):
        return None
    return residual_objective(found, [uniform(asked) for asked in attributes])

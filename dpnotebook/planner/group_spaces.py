"""The eigenspaces of marginals, one for each subset of the attributes: what is known of any group-by in 2^d numbers.

By symmetry in the levels a group-by with filters is described by widths: how many levels of each attribute one answer
sums, 1 for a key and all for an attribute that plays no part. Measured marginals have an information matrix with these
eigenspaces, so that the variance of any such question is a sum of 2^d terms: its squared length in each space over the
eigenvalue there.

Source: HDMM, Theorem 9.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Subset = tuple[int, ...]


@lru_cache(maxsize=64)
def subsets(attributes: int) -> tuple[Subset, ...]:
    """Return all subsets of so many attributes, smaller ones first."""
    return tuple(s for size in range(attributes + 1) for s in combinations(range(attributes), size))


@lru_cache(maxsize=64)
def marginal_information(sizes: tuple[int, ...]) -> Floats:
    """Return the eigenvalues of the information matrix of each marginal measured with precision 1.

    Parameters
    ----------
    sizes
        Levels of each attribute.

    Returns
    -------
    Shape (2^d marginals, 2^d eigenspaces).

    Source: HDMM, Theorem 9.
    """
    all_ = subsets(len(sizes))
    return np.array(
        [
            [math.prod(n for i, n in enumerate(sizes) if i not in s) if set(a) <= set(s) else 0.0 for a in all_]
            for s in all_
        ],
        dtype=float,
    )


@lru_cache(maxsize=4096)
def shares(widths: tuple[int, ...], sizes: tuple[int, ...]) -> Floats:
    """Return the squared length of a question with these widths in every eigenspace, shape (2^d,)."""
    mean = [w * w / n for w, n in zip(widths, sizes, strict=True)]
    rest = [w - m for w, m in zip(widths, mean, strict=True)]
    return np.array([math.prod(rest[i] if i in a else mean[i] for i in range(len(sizes))) for a in subsets(len(sizes))])


def average_information(matrix: Floats, sizes: tuple[int, ...]) -> Floats:
    """Return the eigenvalues of an information matrix averaged over all permutations of levels, shape (2^d,).

    Parameters
    ----------
    matrix
        Over the cells of the attributes in C order, shape (cells, cells).
    sizes
        Levels of each attribute.
    """
    found: dict[Subset, Floats] = {(): matrix.reshape(*sizes, *sizes)}
    for i, n in enumerate(sizes):
        after: dict[Subset, Floats] = {}
        for subset, part in found.items():
            axis = part.ndim // 2
            mean = part.sum(axis=(0, axis)) / n
            after[subset] = mean
            after[(*subset, i)] = np.trace(part, axis1=0, axis2=axis) - mean
        found = after
    spaces = [math.prod(sizes[i] - 1 for i in subset) for subset in subsets(len(sizes))]
    totals = [float(found[subset]) for subset in subsets(len(sizes))]
    return np.array([total / max(space, 1) for total, space in zip(totals, spaces, strict=True)])

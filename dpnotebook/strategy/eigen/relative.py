"""Workloads whose optimum is good for relative errors: every query scaled to length one.

Source: Li and Miklau 2012, section 3.4: the error of a query grows with its length, its relative error does not. With
nothing known about the data this stands for cells that are all alike.
"""

from __future__ import annotations

import math

import numpy as np

from dpnotebook.workload import Identity, Kron, Marginals, Permuted, Stack, Total, Weighted, WeightedRows, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous

ENTRIES = 2**22  # of rows that are looked at at a time: 32 MB


def for_relative_error(workload: Workload) -> Workload:
    """Return the workload with each query divided by its Euclidean length; weights on parts no longer matter.

    Optimise a strategy for it, then use that strategy's operator for the original workload.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Total
    >>> strategy.for_relative_error(Total(4)).dense()
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    if isinstance(workload, Identity):
        return workload
    if isinstance(workload, Total):
        return workload if workload.n == 1 else Weighted(workload.n**-0.5, workload)
    if isinstance(workload, Weighted):
        return for_relative_error(workload.workload)
    if isinstance(workload, Kron):
        return Kron(*map(for_relative_error, workload.factors))
    if isinstance(workload, Stack):
        return Stack(*map(for_relative_error, workload.parts))
    if isinstance(workload, Permuted):
        return Permuted(for_relative_error(workload.workload), workload.order)
    if isinstance(workload, Marginals):
        sizes = workload.sizes
        subsets = [subset for subset, _ in workload.weights]
        shares = [math.prod(sizes[i] for i in range(len(sizes)) if i not in subset) ** -0.5 for subset in subsets]
        return Marginals(map(for_relative_error, workload.factors), zip(subsets, shares, strict=True))
    lengths = _squared_lengths(workload) ** 0.5
    return WeightedRows(np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0), workload)


def _squared_lengths(workload: Workload) -> Array:
    m, n = workload.shape
    if isinstance(workload, Contiguous):
        starts, ends = workload.intervals(np.arange(m))
        return (ends - starts).astype(float)
    step = max(1, ENTRIES // n)
    blocks = [np.arange(first, min(first + step, m)) for first in range(0, m, step)]
    return np.concatenate([(workload.rows(some).astype(float) ** 2).sum(axis=1) for some in blocks])

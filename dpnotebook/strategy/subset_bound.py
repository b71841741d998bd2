"""A lower bound for unions of products over any domain, proved subset of attributes by subset.

Any multipliers v >= 0 of the cells prove |F D^1/2|_*^2 / sum(v) for a workload with the rows F and D = diag(v), |.|_*
being the sum of singular values (see `gaussian`); and |G|_* is at least <G, Z> for every Z with |Z| <= 1. Here v is a
product, one v_i an attribute with the sum one, so that part j is the Kronecker product of G_ij = F_ij D_i^1/2. With
q_i = v_i^1/2, which is what the total of an attribute asks, and l_ij = G_ij q_i / |G_ij q_i|, each is split into
|G_ij q_i| l q' and R_ij = (I - l l') G_ij (I - q q'). What is asked of a subset S is the stack, over all parts whose
attributes hold S, of the products of R_ij over S and |G_ij q_i| over the others; stacks of different subsets have
orthogonal rows and columns, so that the polar factors of all of them together are one Z:

    |G|_* >= sum over S of |stack of S|_*.

For marginals that is the SVD bound (HDMM, Theorem 9), which is reached. Within a stack, parts that differ in one
attribute of S are taken together there; for the others X -> (tr sqrt X)^2 is superadditive on positive semidefinite
matrices.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.workload import Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import SparseTerm, sparse_terms

CELLS = 1024  # of an attribute whose singular values are found
SEARCHED = 256  # and for which multipliers are sought
PAIRS = 20_000  # of a part and a subset of its attributes: a second
TOTALS = (0.0, 1.0)  # how much the total counts beside an attribute's queries, where multipliers are sought
TOLERANCE = 1e-3
ROUNDING = 1e-8  # relative error allowed for in a bound that is computed in floating point
NOTHING = 1e-13  # of a workload's squared norm: less is rounding


@dataclass(frozen=True, eq=False)
class _AskedBeyond:
    """What a query factor asks of its attribute's total, squared, and the Gram matrix R'R of what it asks beyond.

    Eigenvalues below `floor` may be what rounding leaves of nothing; their roots would not be small.
    """

    total: float
    gram: Array
    floor: float

    @cached_property
    def nuclear(self) -> float:
        """The sum of the singular values of R."""
        return _nuclear(self.gram, self.floor)


def subset_bound(workload: Workload) -> float:
    """Return what |A|_2^2 |W A^+|_F^2, and so that of Laplace noise, cannot be below for any strategy A.

    Returns
    -------
    0 where the workload is no union of products over the same attributes, or too large.
    """
    found = sparse_terms(workload)
    if found is None:
        return 0.0
    sizes, parts = found
    widest = max((factor.shape[1] for part in parts for factor in part.factors), default=0)
    if widest > CELLS or sum(2 ** len(part.axes) for part in parts) > PAIRS:
        return 0.0
    with threads_for(widest):
        return max(_bound(parts, v) for v in _multipliers(sizes, parts)) * (1 - ROUNDING)


def _multipliers(sizes: tuple[int, ...], parts: Sequence[SparseTerm]) -> list[dict[int, Array]]:
    """Return multipliers of the cells of every attribute that is asked for, each adding up to one."""
    grams: dict[int, Array] = {}
    for axis, factor in {
        (axis, factor) for part in parts for axis, factor in zip(part.axes, part.factors, strict=True)
    }:
        gram = factor.gram().astype(float)
        grams[axis] = grams.get(axis, 0.0) + gram / np.trace(gram)
    found = [{axis: np.full(sizes[axis], 1 / sizes[axis]) for axis in grams}]
    for share in TOTALS:
        chosen = dict(found[0])
        for axis, gram in grams.items():
            if sizes[axis] <= SEARCHED:
                mixed = gram + share * np.trace(gram) / sizes[axis]
                v = gaussian_optimum(mixed, tolerance=TOLERANCE).v
                chosen[axis] = v / v.sum()
        found.append(chosen)
    return found


def _bound(parts: Sequence[SparseTerm], v: dict[int, Array]) -> float:
    asked: dict[tuple[int, Workload], _AskedBeyond] = {}
    stacks: dict[tuple[int, ...], list[tuple[float, tuple[_AskedBeyond, ...]]]] = defaultdict(list)
    for part in parts:
        kinds = []
        for axis, factor in zip(part.axes, part.factors, strict=True):
            if (axis, factor) not in asked:
                asked[axis, factor] = _asked(factor, v[axis])
            kinds.append(asked[axis, factor])
        places = range(len(kinds))
        for size in range(len(kinds) + 1):
            for subset in combinations(places, size):
                others = (kinds[i].total for i in places if i not in subset)
                square = float(part.weight) ** 2 * math.prod(others)
                stacks[tuple(part.axes[i] for i in subset)].append((square, tuple(kinds[i] for i in subset)))
    return float(sum(_stacked(stack) for stack in stacks.values()) ** 2)


def _stacked(stack: Sequence[tuple[float, tuple[_AskedBeyond, ...]]]) -> float:
    """Return at least the sum of the singular values of a stack of products, each with its squared weight."""
    if not stack[0][1]:
        return math.sqrt(sum(square for square, _ in stack))
    # Together in the attribute that is asked in most ways.
    place = max(range(len(stack[0][1])), key=lambda i: len({id(kinds[i]) for _, kinds in stack}))
    groups: dict[tuple[int, ...], list[tuple[float, tuple[_AskedBeyond, ...]]]] = defaultdict(list)
    for square, kinds in stack:
        groups[tuple(id(kind) for i, kind in enumerate(kinds) if i != place)].append((square, kinds))
    total = 0.0
    for group in groups.values():
        kinds = group[0][1]
        others = math.prod(kind.nuclear for i, kind in enumerate(kinds) if i != place)
        if len({id(one[place]) for _, one in group}) == 1:
            mine = math.sqrt(sum(square for square, _ in group)) * kinds[place].nuclear
        else:
            floor = sum(square * one[place].floor for square, one in group)
            mine = _nuclear(np.asarray(sum(square * one[place].gram for square, one in group)), floor)
        total += (mine * others) ** 2
    return math.sqrt(total)


def _asked(factor: Workload, v: Array) -> _AskedBeyond:
    q = np.sqrt(v)
    gram = factor.gram().astype(float) * q * q[:, None]  # G'G
    toward = gram @ q
    total = float(q @ toward)  # |G q|^2
    floor = NOTHING * float(np.trace(gram))
    if total > floor:
        gram = gram - np.outer(toward, toward) / total  # G'(I - l l')G, whose product with q is 0
    inner = gram - np.outer(gram @ q, q)
    return _AskedBeyond(total, inner - np.outer(q, q @ inner), floor)


def _nuclear(gram: Array, floor: float) -> float:
    values = np.linalg.eigvalsh((gram + gram.T) / 2)
    return float(np.sqrt(values[values > floor]).sum())

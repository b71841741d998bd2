"""Differences of workloads, with which disjunctions are written: "p or q" is everything but "neither p nor q".

Source: HDMM, appendix A (Theorems 15 and 16). The Gram matrix of A - B is A'A - A'B - B'A + B'B, each of which is a
product of small matrices where A and B are products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.workload.base import Array, Number, Workload, number, require_memory
from dpnotebook.workload.compose import Kron, Stack
from dpnotebook.workload.contiguous import Contiguous, Identity
from dpnotebook.workload.explicit import Explicit
from dpnotebook.workload.padded import Ones
from dpnotebook.workload.permuted import Permuted
from dpnotebook.workload.predicates import Predicates

CHUNK = 2**22  # entries of rows handled at a time


@dataclass(frozen=True, repr=False)
class Difference(Workload):
    """The queries of one workload minus those of another, row by row.

    It is one term of a union: strategies see it as one factor over all its cells, so it needs a domain whose cells can
    be held.

    Parameters
    ----------
    left, right
        Workloads of the same shape.

    Raises
    ------
    WorkloadError
        If the shapes differ, or the two are the same.

    Examples
    --------
    >>> from dpnotebook.workload import Difference, Identity, Ones
    >>> Difference(Ones(3, 3), Identity(3)).dense()
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 0]])
    """

    left: Workload
    right: Workload

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            if not isinstance(part, Workload):
                raise WorkloadError(f"a difference is one of workloads, not of {type(part).__name__}")
        if self.left.shape != self.right.shape:
            shapes = " and ".join(f"{m:,} queries over {n:,} cells" for m, n in (self.left.shape, self.right.shape))
            raise WorkloadError(f"a difference needs two workloads of the same shape, not {shapes}")
        if self.left == self.right:
            raise WorkloadError("the difference of a workload and itself asks nothing")

    @property
    def summands(self) -> tuple[tuple[Number, Workload], ...]:
        """The one workload, less the other."""
        return (1, self.left), (-1, self.right)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries, number of cells."""
        return self.left.shape

    @property
    def integer(self) -> bool:
        """Whether both parts have integer entries."""
        return self.left.integer and self.right.integer

    def apply(self, x: Array) -> Array:
        """Return the difference of the answers."""
        return self.left.apply(x) - self.right.apply(x)

    def apply_transposed(self, y: Array) -> Array:
        """Return the difference of the transposed products."""
        return self.left.apply_transposed(y) - self.right.apply_transposed(y)

    def rows(self, indices: ArrayLike) -> Array:
        """Return the difference of the given rows."""
        require_memory(np.size(indices) * self.shape[1], "these rows", advice=ADVICE)
        return self.left.rows(indices) - self.right.rows(indices)

    def column_norms(self, power: int = 1) -> Array:
        """Return the sum of |entry|^power of each column."""
        require_memory(self.shape[1], "the column norms of these queries", advice=ADVICE)
        if power == 2 or counts(self):
            both = cross_diagonal(self.left, self.right)
            return np.asarray(self.left.column_norms(2) - 2 * both + self.right.column_norms(2))
        total: Array | int = 0
        step = max(1, CHUNK // self.shape[1])
        for first in range(0, self.shape[0], step):
            some = self.rows(np.arange(first, min(self.shape[0], first + step)))
            total = total + (np.abs(some) ** power).sum(axis=0)
        return np.asarray(total)

    def max_column_norm(self, power: int = 1) -> Number:
        """Return the largest column norm; that of a disjunction follows from its factors, over any domain."""
        if counts(self) and _all_ones(self.left):
            return self.shape[0] - _least_column(self.right)
        return number(self.column_norms(power).max())

    def frobenius_squared(self) -> float:
        """Return the sum of squared entries, from the factors."""
        both = float(cross_sum(self.left, self.right))
        return self.left.frobenius_squared() - 2 * both + self.right.frobenius_squared()

    def quadratic(self, matrix: Array) -> Array:
        """Return w' M w for every row w."""
        found = []
        step = max(1, CHUNK // self.shape[1])
        for first in range(0, self.shape[0], step):
            some = self.rows(np.arange(first, min(self.shape[0], first + step))).astype(float)
            found.append(np.einsum("mi,...im->...m", some, matrix @ some.T, optimize=True))
        return np.concatenate(found, axis=-1)

    def _gram(self) -> Array:
        return cross_gram(self, self)

    @classmethod
    def _from_fields(cls, values: dict[str, Any]) -> Workload:
        return cls(Workload.from_json(values["left"]), Workload.from_json(values["right"]))

    def __repr__(self) -> str:
        return f"Difference({self.left!r}, {self.right!r})"


ADVICE = "a disjunction is answered over all cells of its attributes at once: ask it of fewer, or coarser, attributes"


def complement(workload: Workload) -> Workload:
    """Return the negation of every query of a counting workload: the cells that it leaves out (HDMM, Theorem 15).

    Raises
    ------
    WorkloadError
        If the coefficients are not all 0 or 1, or every query holds every cell.

    Examples
    --------
    >>> from dpnotebook.workload import Prefix, complement
    >>> complement(Prefix(3)).rows([0, 1])
    array([[0, 1, 1],
           [0, 0, 1]])
    """
    if not counts(workload):
        raise WorkloadError(f"only queries with coefficients 0 and 1 can be negated, not {shorten(workload)}")
    if isinstance(workload, Predicates):
        return workload.complement()
    if _all_ones(workload):
        raise WorkloadError("the negation of queries that hold every cell asks nothing")
    if isinstance(workload, Difference) and _all_ones(workload.left):
        return workload.right
    return Difference(Ones(workload.shape[1], workload.shape[0]), workload)


def disjunction(*factors: Workload) -> Workload:
    """Return every "this or that": for each combination of one query an attribute, the rows that satisfy any of them.

    Parameters
    ----------
    factors
        Counting queries (coefficients 0 and 1) of each attribute, over that attribute's cells.

    Returns
    -------
    The product of the numbers of queries, over the product of the cells, both in C order: a `Difference` of two
    products (HDMM, Theorem 16 and what follows it).

    Raises
    ------
    WorkloadError
        If there are fewer than two factors, one has other coefficients, or its queries hold every cell.

    Examples
    --------
    >>> from dpnotebook.workload import Identity, Prefix, disjunction
    >>> disjunction(Identity(2), Prefix(2)).rows([0])  # the first level of one, or of the other
    array([[1, 1, 1, 0]])
    """
    if len(factors) < 2:
        raise WorkloadError("a disjunction joins queries of two or more attributes")
    for factor in factors:
        if not isinstance(factor, Workload):
            raise WorkloadError(f"a disjunction is made of workloads, not of {type(factor).__name__}")
    negated = [complement(factor) for factor in factors]
    return Difference(Kron(*(Ones(f.shape[1], f.shape[0]) for f in factors)), Kron(*negated))


def counts(workload: Workload) -> bool:
    """Return whether all coefficients are known to be 0 or 1."""
    if isinstance(workload, Explicit):
        return bool(np.isin(workload.matrix, (0, 1)).all())
    if isinstance(workload, Kron):
        return all(map(counts, workload.factors))
    if isinstance(workload, Stack):
        return all(map(counts, workload.parts))
    if isinstance(workload, Permuted):
        return counts(workload.workload)
    if isinstance(workload, Difference):
        return _all_ones(workload.left) and counts(workload.right)
    return isinstance(workload, Contiguous | Predicates)


def _all_ones(workload: Workload) -> bool:
    if isinstance(workload, Kron):
        return all(map(_all_ones, workload.factors))
    return counts(workload) and workload.frobenius_squared() == float(math.prod(workload.shape))


def _least_column(workload: Workload) -> int:
    """Return the least column sum of a counting workload."""
    if isinstance(workload, Kron):
        return reduce(lambda found, factor: found * _least_column(factor), workload.factors, 1)
    return int(workload.column_norms(1).min())


# Products A'B of two workloads with the same number of rows, from their structure (HDMM, appendix A).
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

"""How the measurements of one attribute tell its total apart from the rest.

For measurements A of n cells, with X = A'A and J = 11', there is one vector z with 1'z = 1 and X z proportional to 1.
Cells are z (1'x) and the rest, and in coordinates of that form X and J are both diagonal. So a sum of products of X and
J over many attributes can be inverted one attribute at a time (HDMM, Theorem 9, for A = I; the same holds for any A).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpnotebook.inference.inverse import Inverse, inverse, sum_of_variances, variances
from dpnotebook.workload import AllRange, Centred, Hierarchy, Identity, Prefix, Stack, Toeplitz, Total, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous

ROUNDING = 1e-12  # of the lengths of two vectors: a smaller inner product is rounding


@dataclass(frozen=True, eq=False)
class AttributeSplit:
    """The split that the measurements A of one attribute make; M = (X + guard J)^+ is scale * solved.

    Parameters
    ----------
    operator
        A, shape (p, n).
    solved
        An inverse in a cheap form.
    scale, guard
        How M follows from it, and what it adds to X so that X + guard J sees the total.
    z
        M 1 / 1'M1, shape (n,).
    s
        z'Xz: the information that the measurements hold on the total; 0 for measurements of residuals.
    """

    operator: Workload
    solved: Inverse
    scale: float
    guard: float
    z: Array
    s: float

    def means(self, queries: Workload) -> Array:
        """Return W z, shape (m,): what of each answer follows from the total, for a total of one."""
        found = np.asarray(queries.apply(self.z[None, :, None]))[0, :, 0].copy()
        if self.s == 0:  # where nothing else tells of the total, only what is exactly zero needs nothing of it
            lengths = np.sqrt(variances(inverse(Identity(self.z.size)), queries) * (self.z @ self.z))
            found[np.abs(found) <= ROUNDING * lengths] = 0.0
        return found

    def squared_means(self, queries: Workload) -> float:
        """Return |W z|^2."""
        m, n = queries.shape
        if isinstance(queries, Total):
            return 1.0
        if isinstance(queries, Contiguous) and np.ptp(self.z) == 0:
            return float(queries.energy()(np.array([0]), np.array([n]))[0]) * float(self.z[0]) ** 2
        if m > 4 * n and self.s > 0:
            return float(self.z @ queries.gram() @ self.z)
        return float((self.means(queries) ** 2).sum())

    def parts(self, queries: Workload) -> tuple[Array, Array]:
        """Return w'Cw of every query, and the square of `means`; C = M - zz' / (s + guard) is the variance of the rest.

        Returns
        -------
        Each of shape (m,).
        """
        found, squares = self.scale * variances(self.solved, queries), self.means(queries) ** 2
        rest = found - squares / (self.s + self.guard)
        return np.where(rest < ROUNDING * found, 0.0, rest), squares  # infinite where not determined

    def total_variance(self, queries: Workload) -> float:
        """Return the sum of `variances`; infinite where the measurements do not support the queries."""
        if isinstance(queries, Total):
            return 0.0
        found = self.scale * sum_of_variances(self.solved, queries)
        rest = found - self.squared_means(queries) / (self.s + self.guard)
        return 0.0 if rest < ROUNDING * found else rest

    def spread(self, y: Array) -> Array:
        """Return C y along the middle axis, (a, n, b)."""
        along = np.einsum("i,aib->ab", self.z, y)[:, None, :]
        return np.asarray(self.scale * self.solved.apply(y) - self.z[None, :, None] * along / (self.s + self.guard))


@lru_cache(maxsize=64)
def attribute_split(operator: Workload) -> AttributeSplit:
    """Return how measurements of one attribute tell its total apart from the rest.

    Parameters
    ----------
    operator
        What is measured of the attribute, of any rank.
    """
    n = operator.shape[1]
    if isinstance(operator, Centred):  # X + n J = n^2 I
        return AttributeSplit(operator, inverse(Identity(n)), n**-2.0, float(n), np.full(n, 1 / n), 0.0)
    triangular = isinstance(operator, Toeplitz) and inverse(operator).rank == n
    if triangular or isinstance(operator, (Identity, Hierarchy, Prefix, AllRange)):
        guard, solved = 0, inverse(operator)
    else:
        # Measured besides with about the weight of the rest, the total makes X invertible where A misses nothing else.
        guard = max(1, round(math.sqrt(operator.frobenius_squared()) / n))
        solved = inverse(Stack(operator, guard * Total(n)))
    towards = solved.apply(np.ones((1, n, 1)))[0, :, 0]
    whole = float(towards.sum())
    z = towards / whole
    seen = operator.matvec(z)
    # Not 1 / whole - guard^2, which cancels; nothing but rounding is left of z where A has no information on the total.
    s = float(seen @ seen)
    return AttributeSplit(operator, solved, 1.0, float(guard**2), z, s if s > (ROUNDING * guard) ** 2 else 0.0)

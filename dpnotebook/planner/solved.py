"""Answers from an information matrix X and what it was made of, with certificates.

With any generalised inverse G of X, z = G q answers a query q by z'b with variance z'Xz, if the residual q - X z
vanishes: then z'b is the best linear unbiased answer (Gauss-Markov). The residual is the certificate: whatever rounding
did to G, an answer is used only if its own residual says that it is unbiased, and its variance is that of the very
weights it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.information import THIN, UNSEEN, Information

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from dpnotebook.planner.factored import Factored

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

RESIDUAL = 1e-8  # largest entry of q - X z, relative to q, of an answer that counts as determined
LOST = 1e-2  # a residual up to which rounding may be to blame: G is never that far off without having been seen to be
REFINEMENTS = 4  # of an answer: each takes back most of what rounding lost
REFINED = RESIDUAL / 100  # residual above which there is something to take back
MANY_ROWS = 200  # from which on it is looked whether each differs little from the one before
TOGETHER = 128  # rows of a covariance that are added up at once
SCREENED = 1e-2  # how much less a residual seen through a whole vector matters than one entry of it


class Combinations:
    """Combinations of values, which are found soon where each differs little from the one before: running totals do.

    Parameters
    ----------
    rows
        Shape (m, values).
    """

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    @cached_property
    def sizes(self) -> Floats:
        """The largest entry of each, shape (m,)."""
        return np.asarray(np.abs(self.rows).max(axis=1, initial=0.0))

    @cached_property
    def _squares(self) -> Floats:
        counts = bool(((self.rows == 0) | (self.rows == 1)).all())
        return self.rows if counts else self.rows**2

    def of_squares(self, values: Floats) -> Floats:
        """Return what values add up to, each times the square of its entry, shape (values,): shape (m,)."""
        return np.asarray(self._squares @ values)

    @cached_property
    def _steps(self) -> csr_array | None:
        """From each to the next, where little changes."""
        from scipy.sparse import csr_array

        if self.rows.shape[0] < MANY_ROWS:
            return None
        steps = np.diff(self.rows, axis=0, prepend=0.0)
        return None if np.count_nonzero(steps) > THIN * steps.size else csr_array(steps)

    def of(self, values: Floats) -> Floats:
        """Return them of values, shape (values, columns): shape (m, columns)."""
        if self._steps is None:
            return np.asarray(self.rows @ values)
        found = np.asarray(self._steps @ values)
        return np.cumsum(found, axis=0, out=found)

    def variances(self, covariance: Floats) -> Floats:
        """Return the variance of each, where values have this covariance, shape (m,)."""
        return np.asarray(np.einsum("ij,ij->i", self.of(covariance), self.rows))


class RunningTotals(Combinations):
    """Values added up from the first on: what is worked out of them needs no matrix.

    Parameters
    ----------
    count
        Number of values.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    @cached_property
    def rows(self) -> Floats:  # type: ignore[override]
        """Ones up to the diagonal, shape (count, count)."""
        return np.tri(self.count)

    @cached_property
    def sizes(self) -> Floats:
        """One of each."""
        return np.ones(self.count)

    def of_squares(self, values: Floats) -> Floats:
        """Return the running totals."""
        return np.cumsum(values)

    def of(self, values: Floats) -> Floats:
        """Return the running totals of each column."""
        return np.cumsum(values, axis=0)

    def variances(self, covariance: Floats) -> Floats:
        """Return the variance of each: by what a value has to do with those before it."""
        more = np.empty(self.count)
        for start in range(0, self.count, TOGETHER):
            rows = covariance[start : start + TOGETHER]
            before = rows[:, :start].sum(axis=1) + np.tril(rows[:, start : start + TOGETHER], -1).sum(axis=1)
            more[start : start + TOGETHER] = 2 * before + np.diagonal(rows, start)
        return np.cumsum(more)


@dataclass(frozen=True)
class Solved:
    """How some queries are answered.

    Parameters
    ----------
    coefficients
        z of every query, shape (queries, atoms): z'b answers it.
    covariance
        Of the answers, shape (queries, queries).
    residuals
        q - X z of every query, or its inner products with a few fixed vectors; shape (queries, any). What is left of a
        combination of queries is the same combination of these.
    drifted
        Whether G was added to since it was made: what is left may then be less after a new factorisation.
    """

    coefficients: Floats
    covariance: Floats
    residuals: Floats
    drifted: bool = False

    def determined(self, combinations: Combinations | None = None, within: float = RESIDUAL) -> NDArray[np.bool_]:
        """Return which combinations of the queries the measurements determine, shape (m,).

        The queries themselves when None; as far as their residuals say that are at most `within` of the largest entry,
        or of their standard error: what a residual adds to an answer is then as little beside its noise.
        """
        found, sizes = self.residuals, np.ones(1)
        if combinations is not None:
            found, sizes = combinations.of(found), combinations.sizes
        left = np.abs(found).max(axis=1, initial=0.0)
        good = np.asarray(left <= within * sizes)
        if not (good.all() or self.drifted) and within < UNSEEN:
            errors = np.sqrt(np.maximum(self._variances(combinations), 0.0))
            good |= left <= np.minimum(within * errors, UNSEEN * sizes)
        return good

    def variances(self, combinations: Combinations | None = None) -> Floats:
        """Return the variances of combinations of the queries, infinite where not determined, shape (m,)."""
        return np.where(self.determined(combinations), self._variances(combinations), np.inf)

    def _variances(self, combinations: Combinations | None) -> Floats:
        if combinations is None:
            return np.diagonal(self.covariance)
        return combinations.variances(self.covariance)


def solve(information: Information, queries: Floats) -> Solved:
    """Return how queries are answered, shape (queries, atoms), with the certificates of their residuals.

    Source: Gauss-Markov theorem.
    """
    return _solved(information, queries, queries @ information.inverse)


def solve_bins(information: Information, bins: Indices, count: int) -> Solved:
    """Return how disjoint bins of atoms are answered, as `solve` does; parameters as for `screened`."""
    coefficients = np.array(_summed(information.inverse, bins, count))  # the inverse may be updated in its place
    return _solved(information, (bins == np.arange(count)[:, None]).astype(float), coefficients)


def _solved(information: Information, queries: Floats, coefficients: Floats) -> Solved:
    z, told = refined(information, queries, coefficients)
    return Solved(z, told @ z.T, queries - told, information.updated)


def refined(information: Information | Factored, queries: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients z of queries q, and zX, with most of what rounding lost taken back.

    Parameters
    ----------
    information, queries
        What was measured and what is asked.
    coefficients
        Queries times the generalised inverse.
    """
    matrix, z = information.matrix, coefficients
    told = z @ matrix
    sizes = np.abs(queries).max(axis=1, initial=0.0)
    residual = np.abs(queries - told).max(axis=1, initial=0.0)
    most = UNSEEN if information.updated else LOST
    for _ in range(REFINEMENTS):  # each takes back most of what rounding lost in G
        open_ = (residual > REFINED * sizes) & (residual < most * sizes)
        if not open_.any():
            break
        z = z.copy() if z is coefficients else z
        z[open_] += information.applied(queries[open_] - told[open_])
        told[open_] = z[open_] @ matrix
        residual = np.abs(queries - told).max(axis=1, initial=0.0)
    return z, told


def screened(information: Information, bins: Indices, count: int) -> Solved:
    """Return how disjoint bins of atoms are answered, in far less time: for planning.

    The residuals are looked at through a few fixed vectors only. What is shown is computed by `solve`.

    Parameters
    ----------
    information
        What was measured.
    bins
        The bin of each atom, -1 for none, shape (atoms,).
    count
        Number of bins.
    """
    z = _summed(information.inverse, bins, count)
    probes, seen = information.probes
    left = _summed(probes, bins, count) - z @ seen
    worst = np.abs(left).max(axis=1, initial=0.0)
    lost = np.flatnonzero((worst * SCREENED > RESIDUAL) & (worst < LOST))
    if information.updated or not lost.size:
        return Solved(z, _summed(z.T, bins, count), left * SCREENED, information.updated)
    # Where some measurements are far more precise than others, G is large and what these tell is a difference in it.
    asked = (bins == lost[:, None]).astype(float)
    z = z.copy()
    z[lost], _ = refined(information, asked, z[lost])
    left = left.copy()
    left[lost] = asked @ probes - z[lost] @ seen
    return Solved(z, _summed(z.T, bins, count), left * SCREENED)


def sums_between(values: Floats, bins: Indices, count: int) -> Floats:
    """Return the sums of a symmetric matrix over bins of its rows and columns, -1 for none; shape (count, count)."""
    return np.array(_summed(_summed(values, bins, count).T, bins, count))


def _summed(values: Floats, bins: Indices, count: int) -> Floats:
    """Return the sums of rows by bin, shape (count, columns)."""
    from scipy.sparse import csr_array

    inside = np.flatnonzero(bins >= 0)
    if inside.size == count > 0:  # mostly each bin is one atom, and nothing is added up
        order = np.argsort(bins[inside])
        if (bins[inside[order]] == np.arange(count)).all():
            order = inside[order]
            if (order == np.arange(order[0], order[0] + count)).all():  # rows that follow each other: nothing is copied
                same = values[order[0] : order[0] + count]
                same.flags.writeable = False
                return same
            return np.take(values, order, axis=0)
    places = csr_array((np.ones(inside.size), (bins[inside], inside)), shape=(count, bins.size))
    return np.asarray(places @ np.ascontiguousarray(values))

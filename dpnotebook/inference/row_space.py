"""Least squares where fewer numbers were measured than there are cells: over a basis of what the queries span.

Of the queries Q as many rows B as are independent are a basis of their span, and Q = C B. What is unknown are the
values of B alone: their information matrix C'PC with the precisions P has full rank. A question q = c B is answered
with the weights w = c inv(C'PC) C'P, which is the best linear unbiased answer over all cells (Gauss-Markov), however
many these are: what is worked out grows with the numbers. Which rows are independent is decided by pivots; whether an
answer is unbiased by its own residual w Q - q.

Tables of single cells would be most of the numbers, and are not among them: cells that were measured by themselves are
taken out of the unknowns, and the noise of the other numbers is then one of what they count of these cells as well.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

DEPENDENT = 1e-9  # squared distance of a query of length 1 from the span of others, up to which it lies in there
RESIDUAL = 1e-8  # largest entry of w Q - q, relative to q, of an answer that counts as determined
REFINED = RESIDUAL / 100  # residual above which there is something to take back,
UNSEEN = 1e-4  # and above which nothing measured sees what is asked
REFINEMENTS = 2  # of an answer: each takes back most of what rounding lost
CANCELLED = 1e-4  # of a variance, that is found as a difference: less of it is not precise
MANY = 400  # single cells that are measured together: fewer are numbers like any other


@dataclass(frozen=True, eq=False)
class SolvedRows:
    """How some questions are answered.

    Parameters
    ----------
    weights
        What each measured number counts for, shape (questions, numbers).
    covariance
        Of the answers, shape (questions, questions); what is not determined means nothing.
    residuals
        What is left of each question, shape (questions, cells).
    determined
        Which are determined, shape (questions,).
    """

    weights: Floats
    covariance: Floats
    residuals: Floats
    determined: Mask

    def some(self, places: Indices) -> SolvedRows:
        """Return how some of the questions are answered."""
        covariance = self.covariance[np.ix_(places, places)]
        return SolvedRows(self.weights[places], covariance, self.residuals[places], self.determined[places])


class _Span:
    """A largest independent part of some rows, and the others as combinations of these; nothing is written to."""

    def __init__(self, columns: int) -> None:
        from scipy.sparse import csr_array

        self.basis = csr_array((0, columns))  # each of length 1
        self.factor: Floats = np.zeros((0, 0))  # of the products of the basis with itself: Cholesky's
        self.independent: Indices = np.zeros(0, dtype=np.intp)
        self.dependent: Indices = np.zeros(0, dtype=np.intp)
        self.combined: Floats = np.zeros((0, 0))  # the dependent rows over the basis
        self.lengths: Floats = np.zeros(0)

    def with_rows(self, rows: csr_array) -> _Span:
        """Return the span of these rows as well, shape (rows, columns)."""
        from scipy.linalg import solve_triangular
        from scipy.linalg.lapack import dpstrf
        from scipy.sparse import diags_array, vstack

        first, old, found = self.lengths.size, len(self.independent), copy.copy(self)
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        lengths[lengths == 0] = 1.0
        rows = (diags_array(1 / lengths) @ rows).tocsr()
        along = solve_triangular(self.factor, (self.basis @ rows.T).toarray(), lower=True)
        beside = (rows @ rows.T).toarray() - along.T @ along
        some = bool(np.diagonal(beside).max() > DEPENDENT)  # the first pivot is taken whatever it is
        factor, pivots, rank, _ = dpstrf(beside, tol=DEPENDENT, lower=1)
        rank = int(rank) if some else 0
        new, others = pivots[:rank] - 1, np.sort(pivots[rank:] - 1)
        found.factor = np.zeros((old + rank, old + rank))
        found.factor[:old, :old] = self.factor
        found.factor[old:, :old] = along[:, new].T
        found.factor[old:, old:] = np.tril(factor[:rank, :rank])
        found.basis = vstack([self.basis, rows[new]]).tocsr()
        found.independent = np.concatenate([self.independent, first + new])
        found.dependent = np.concatenate([self.dependent, first + others])
        found.combined = np.zeros((found.dependent.size, old + rank))
        found.combined[: len(self.combined), :old] = self.combined
        if others.size:
            found.combined[len(self.combined) :] = found.over((found.basis @ rows[others].T).toarray().T)
        found.lengths = np.concatenate([self.lengths, lengths])
        return found

    def over(self, products: Floats) -> Floats:
        """Return the combinations of the basis nearest to some rows, whose products with it are given."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self.factor, True), products.T, check_finite=False).T)

    def combinations(self) -> Floats:
        """Return all rows over the basis, shape (rows, basis)."""
        found = np.zeros((self.lengths.size, self.independent.size))
        found[self.independent, np.arange(self.independent.size)] = 1.0
        found[self.dependent] = self.combined
        return found * self.lengths[:, None]


class RowSpace:
    """What some queries over cells span.

    Parameters
    ----------
    cells
        Number of cells.
    """

    def __init__(self, cells: int) -> None:
        from scipy.sparse import csr_array

        self.rows = csr_array((0, cells))
        self.alone: Mask = np.zeros(0, dtype=bool)  # which of the rows count single cells that are taken out
        self.apart: Mask = np.zeros(cells, dtype=bool)  # which cells these are
        self._span = _Span(cells)

    @property
    def rank(self) -> int:
        """Number of independent queries over the cells that were not measured by themselves."""
        return int(self._span.independent.size)

    @property
    def numbers(self) -> int:
        """Number of queries, without those of single cells."""
        return int(self._span.lengths.size)

    def copy(self) -> RowSpace:
        """Return a copy that can be added to without changing this one."""
        return copy.copy(self)  # arrays are never written to

    def add(self, rows: csr_array) -> None:
        """Add queries, none of them 0, shape (queries, cells)."""
        from scipy.sparse import vstack

        # A few single cells that were not measured by themselves before are numbers like any other.
        single = rows.nnz == rows.shape[0] and (rows.shape[0] >= MANY or bool(self.apart[rows.indices].all()))
        self.rows = vstack([self.rows, rows]).tocsr()
        self.alone = np.concatenate([self.alone, np.full(rows.shape[0], single)])
        if not single:
            self._span = self._span.with_rows(rows[:, ~self.apart])
            return
        apart = self.apart.copy()
        apart[rows.indices] = True
        if (apart != self.apart).any():
            self.apart = apart
            others = self.rows[~self.alone][:, ~apart].tocsr()
            self._span = _Span(others.shape[1])
            if others.shape[0]:
                self._span = self._span.with_rows(others)

    def ready(self, precision: Floats) -> ReadyRows:
        """Return what is worked out once for all questions.

        Parameters
        ----------
        precision
            One over the variance of each measured number, shape (rows,).
        """
        return ReadyRows(self, self._span, precision)


class ReadyRows:
    """Measured numbers, ready for questions: see `RowSpace.ready`."""

    def __init__(self, space: RowSpace, span: _Span, precision: Floats) -> None:
        self._alone, self._apart, self._span = space.alone, space.apart, span
        others, single = space.rows[~space.alone].tocsr(), space.rows[space.alone]
        self._outside = others[:, ~space.apart].tocsr()
        self._cells = (np.cumsum(space.apart) - 1)[single.indices]
        said = precision[space.alone] * single.data
        of_cells: Floats = np.bincount(self._cells, said * single.data, int(space.apart.sum())).astype(float)
        self._said = said / of_cells[self._cells]  # what each number counts for in the mean of those of its cell
        self._noise = _Noise(precision[~space.alone], others[:, space.apart].tocsr(), of_cells)
        self._basis = _Basis(self._noise, span)

    def solved(self, questions: csr_array) -> SolvedRows:
        """Return how questions are answered, shape (questions, cells).

        Source: Gauss-Markov theorem.
        """
        noise, asked = self._noise, questions.toarray()
        outside, inside = asked[:, ~self._apart], asked[:, self._apart]
        sizes = np.abs(asked).max(axis=1, initial=0.0)
        sizes[sizes == 0] = 1.0
        weights = noise.shared(inside)
        left = outside - weights @ self._outside
        missed = np.abs(left).max(axis=1, initial=0.0) / sizes
        for step in range(1 + REFINEMENTS):
            if not ((missed > REFINED) & (missed < (UNSEEN if step else np.inf))).any():
                break
            weights = weights + self._basis.weights(self._span.over(left @ self._span.basis.T))
            left = outside - weights @ self._outside
            missed = np.abs(left).max(axis=1, initial=0.0) / sizes
        own = inside - weights @ noise.counted
        spread = np.concatenate([weights / np.sqrt(noise.precision), own / np.sqrt(noise.of_cells)], axis=1)
        found, residuals = np.zeros((len(asked), self._alone.size)), np.zeros_like(asked)
        found[:, ~self._alone], residuals[:, ~self._apart] = weights, left
        found[:, self._alone] = own[:, self._cells] * self._said
        return SolvedRows(found, spread @ spread.T, residuals, missed <= RESIDUAL)

    @property
    def complete(self) -> bool:
        """Whether every cell was measured by itself: then what follows is found without weights."""
        return bool(self._apart.all())

    def variances(self, questions: csr_array) -> Floats | None:
        """Return the variances of answers, where every cell was measured by itself, shape (questions,).

        None where what the other numbers say is nearly all that is known, of which rounding leaves too little.
        """
        alone: Floats = np.asarray(questions.multiply(questions) @ (1 / self._noise.of_cells))
        half = self._noise.seen(questions)
        found = alone - np.einsum("ij,ij->j", half, half)
        return None if (found < CANCELLED * alone).any() else found

    def covariance(self, questions: csr_array) -> Floats:
        """Return the covariances of answers, where every cell was measured by itself, shape (questions, questions)."""
        alone = (questions.multiply(1 / self._noise.of_cells) @ questions.T).toarray()
        half = self._noise.seen(questions)
        return np.asarray(alone - half.T @ half)

    def answers(self, questions: csr_array, values: Floats) -> Floats:
        """Return the answers that follow from measured numbers, of questions that are determined; without weights.

        What is said of the other cells need not be known one by one: a question is determined where all their values
        that agree with the numbers add up to the same.
        """
        noise, outside = self._noise, self._outside
        apart = np.bincount(self._cells, values[self._alone] * self._said, noise.of_cells.size)
        missed = values[~self._alone] - noise.counted @ apart
        others = more = self._basis.values(missed)
        for _ in range(REFINEMENTS):
            more = more - self._basis.values(outside @ more)
            others = others + more
        cells = np.empty(self._apart.size)
        cells[~self._apart] = others
        cells[self._apart] = (
            apart + (noise.inverse((missed - outside @ others)[None])[0] @ noise.counted) / noise.of_cells
        )
        return np.asarray(questions @ cells)


class _Noise:
    """The noise of numbers less what was measured of the cells that are apart, with covariance 1/P + Q inv(D) Q'.

    Parameters
    ----------
    precision
        P, shape (numbers,).
    counted
        Q: what each number counts of these cells, shape (numbers, cells apart).
    of_cells
        D: one over the variance of each of these.
    """

    def __init__(self, precision: Floats, counted: csr_array, of_cells: Floats) -> None:
        from scipy.linalg import cholesky

        self.precision, self.counted, self.of_cells = precision, counted, of_cells
        self._factor: Floats | None = None
        if counted.nnz:
            covariance = (counted.multiply(1 / of_cells) @ counted.T).toarray()
            covariance[np.diag_indices(precision.size)] += 1 / precision
            self._factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)

    def inverse(self, values: Floats) -> Floats:
        """Return values times the inverse of the covariance, shape (any, numbers)."""
        from scipy.linalg import cho_solve

        if self._factor is None:
            return values * self.precision
        return np.asarray(cho_solve((self._factor, True), values.T, check_finite=False).T)

    def whitened(self, values: Floats) -> Floats:
        """Return values of the numbers times an inverse root of the covariance, shape (numbers, any)."""
        from scipy.linalg import solve_triangular

        assert self._factor is not None
        return np.asarray(solve_triangular(self._factor, values, lower=True, check_finite=False))

    def seen(self, questions: csr_array) -> Floats:
        """Return what the numbers, whitened, see of the noise of what cells say of questions: (numbers, questions)."""
        if self._factor is None:
            return np.zeros((0, questions.shape[0]))
        return self.whitened((self.counted.multiply(1 / self.of_cells) @ questions.T).toarray())

    def shared(self, inside: Floats) -> Floats:
        """Return what the numbers count for in the best answers about the cells that are apart, others set aside."""
        if self._factor is None:
            return np.zeros((len(inside), self.precision.size))
        return self.inverse((inside / self.of_cells) @ self.counted.T)


class _Basis:
    """What numbers say of a basis of what they span."""

    def __init__(self, noise: _Noise, span: _Span) -> None:
        from scipy.linalg import cholesky

        self._noise, self._span = noise, span
        if noise.counted.nnz:
            half = noise.whitened(span.combinations())
            matrix = half.T @ half
        else:  # most are rows of the basis
            own = noise.precision * span.lengths**2
            some = span.combined * np.sqrt(own[span.dependent])[:, None]
            matrix = some.T @ some
            matrix[np.diag_indices(len(matrix))] += own[span.independent]
        self._factor = cholesky((matrix + matrix.T) / 2, lower=True, overwrite_a=True, check_finite=False)

    def weights(self, over: Floats) -> Floats:
        """Return what the numbers count for in the best estimates of combinations of the basis."""
        from scipy.linalg import cho_solve

        values, span = cho_solve((self._factor, True), over.T, check_finite=False).T, self._span
        found = np.zeros((len(over), span.lengths.size))
        found[:, span.independent] = values
        found[:, span.dependent] = values @ span.combined.T
        return self._noise.inverse(found * span.lengths)

    def values(self, missed: Floats) -> Floats:
        """Return values of the cells that are not apart, of which the numbers are as near as they can be to these."""
        from scipy.linalg import cho_solve

        span, seen = self._span, self._noise.inverse(missed[None])[0] * self._span.lengths
        found = cho_solve((self._factor, True), seen[span.independent] + seen[span.dependent] @ span.combined)
        return np.asarray(span.over(found[None])[0] @ span.basis)

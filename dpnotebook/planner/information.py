"""What noisy linear measurements say together: an information matrix over atoms, and a generalised inverse of it.

A measurement y = q x + noise of precision p adds p q'q to the information matrix X and p q'y to the vector b. With any
generalised inverse G of X, z = G q answers a query q by z'b with variance z'Xz, if the residual q - X z vanishes: then
z'b is the best linear unbiased answer (Gauss-Markov). The residual is the certificate: whatever rounding did to G, an
answer is used only if its own residual says that it is unbiased, and its variance is that of the very weights it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

RESIDUAL = 1e-8  # largest entry of q - X z, relative to q, of an answer that counts as determined
RANK = 1e-11  # least pivot, relative to the diagonal: only how G is made depends on it, not what counts as determined
UNSEEN = 1e-6  # a larger residual says that a new measurement sees what none before it saw
LOST = 1e-2  # a residual up to which rounding may be to blame: G is never that far off without having been seen to be
DRIFT = 1e-8  # a larger residual of what was just measured says that the updates have lost too many digits
FEW = 16  # measurements that update G; more are added by a new factorisation
SMALL = 0.05  # of the atoms: or so many, where a factorisation takes longer
REFINEMENTS = 4  # of an answer: each takes back most of what rounding lost
REFINED = RESIDUAL / 100  # residual above which there is something to take back
THIN = 1 / 16  # of the atoms: queries of fewer are multiplied by what they count alone, which takes less than BLAS does
MANY_ROWS = 200  # from which on it is looked whether each differs little from the one before
SHORT = 32  # rows of few atoms whose products are added at once
AT_ONCE = 128  # rows that are worked on at once, so that there is never one more matrix of all
SCREENED = 1e-2  # how much less a residual seen through a whole vector matters than one entry of it
# Probes are 1.5 + cos(i r) for these r: as good as random, and no row of small integers is orthogonal to all three.
ANGLES = (2.0, 3.0, 5.0)  # squares of r, in radians: roots of primes, so that the three never keep step
MIDDLE = 1.5  # above 1, so that no entry of a probe is near 0


class Information:
    """The state of least squares over atoms: X, b and a generalised inverse G of X.

    Parameters
    ----------
    atoms
        Number of unknown counts, at first.
    """

    def __init__(self, atoms: int) -> None:
        self.matrix: Floats = np.zeros((atoms, atoms))
        self.vector: Floats = np.zeros(atoms)
        self._inverse: Floats | None = np.zeros((atoms, atoms))
        self._probes: tuple[Floats, Floats] | None = None
        self._shared = False  # with a copy: then arrays are copied before one is written to
        self._seen = False  # whether anything was added: before that there is nothing to copy
        self.updated = False  # whether G was added to since it was made from X: then rounding adds up in it
        self.changes = 0  # how often this was added to or split

    @property
    def atoms(self) -> int:
        """Number of unknown counts."""
        return int(self.vector.size)

    @property
    def probes(self) -> tuple[Floats, Floats]:
        """A few fixed vectors and what X makes of them, shape (atoms, 3) each: through them residuals are screened."""
        if self._probes is None:
            angles = np.arange(1.0, self.atoms + 1)[:, None] * np.sqrt(ANGLES)
            vectors = MIDDLE + np.cos(angles)
            self._probes = vectors, self.matrix @ vectors
        return self._probes

    @property
    def inverse(self) -> Floats:
        """A generalised inverse of the information matrix, shape (atoms, atoms)."""
        if self._inverse is None:
            self._inverse, _ = generalised_inverse(self.matrix)
            self.updated = False
        return self._inverse

    def refactor(self) -> None:
        """Forget the generalised inverse, so that it is made anew from the information matrix."""
        self._inverse = None
        self.changes += 1

    def copy(self) -> Information:
        """Return a copy that can be added to without changing this one."""
        twin = Information(0)
        twin.matrix, twin.vector, twin._inverse = self.matrix, self.vector, self._inverse
        twin._probes, twin._seen, twin.changes = self._probes, self._seen, self.changes
        twin.updated = self.updated
        self._shared = twin._shared = True
        return twin

    def _own(self) -> None:
        """Make sure that no copy shares the arrays."""
        if self._shared:
            self.matrix, self.vector = self.matrix.copy(), self.vector.copy()
            self._inverse = None if self._inverse is None else self._inverse.copy()
            self._shared = False

    def split(self, parents: Indices) -> None:
        """Replace the atoms by finer ones.

        Parameters
        ----------
        parents
            The present atom in which each new one lies, shape (new atoms,); the first so many are the present ones.
        """
        old, new = self.atoms, parents[self.atoms :]
        self._probes = None
        self.changes += 1
        matrix = np.zeros((parents.size, parents.size))  # of pages that nobody wrote to, nothing is in memory
        if self._seen:
            matrix[:old, :old] = self.matrix
            matrix[old:, :old] = self.matrix[new]
            matrix[:, old:] = matrix[:, new]
        self.matrix, self.vector = matrix, self.vector[parents]
        if self._inverse is not None:
            # Nothing measured tells the parts of an atom apart: that the new ones are 0 is as good a guess as any.
            inverse = np.zeros((parents.size, parents.size))
            if self._seen:
                inverse[:old, :old] = self._inverse
            self._inverse = inverse
        self._shared = False

    def add(self, rows: Floats | csr_array, precision: Floats, weighted: Floats) -> None:
        """Add measurements, or more precision to earlier ones.

        Parameters
        ----------
        rows
            Queries over the atoms, shape (m, atoms), written out or not.
        precision
            By how much the precision of each rises, positive, shape (m,).
        weighted
            By how much precision times noisy answer rises, shape (m,).
        """
        self._own()
        self._probes = None
        self._seen = True
        self.changes += 1
        left = np.arange(rows.shape[0])
        if rows.shape[0] <= max(FEW, self.atoms * SMALL) and self._inverse is not None:
            rows = _written_out(rows)
            while left.size and self._inverse is not None:
                left = left[~self._add_some(rows[left], precision[left])]
        if left.size:
            self._inverse = None
            self._increase(rows[left], precision[left])
        self.vector += rows.T @ weighted

    def _increase(self, rows: Floats | csr_array, precision: Floats) -> None:
        """Add what measurements say to the information matrix, in its place."""
        from scipy.linalg.blas import dgemm
        from scipy.sparse import csr_array

        rows = csr_array(rows)
        thin = np.diff(rows.indptr) <= THIN * self.atoms
        short = np.flatnonzero(thin)
        for start in range(0, short.size, SHORT):
            few, own = rows[short[start : start + SHORT]], precision[short[start : start + SHORT]]
            more = ((few.T * own) @ few).tocoo()
            self.matrix[more.row, more.col] += more.data
        wide = np.flatnonzero(~thin)
        for start in range(0, wide.size, AT_ONCE):
            chosen = wide[start : start + AT_ONCE]
            w = rows[chosen].toarray() * np.sqrt(precision[chosen])[:, None]
            dgemm(1.0, w.T, w.T, beta=1.0, c=self.matrix.T, trans_b=1, overwrite_c=1)

    def _add_some(self, rows: Floats, precision: Floats) -> NDArray[np.bool_]:
        """Add all measurements of what is known already, or some that see something new; return which were added."""
        assert self._inverse is not None
        self.updated = True
        sizes = np.abs(rows).max(axis=1, initial=0.0)
        z = rows @ self._inverse
        residuals = rows - z @ self.matrix
        # Only G depends on this choice, and a poor G shows in the residuals of what it answers.
        added = np.abs(residuals).max(axis=1, initial=0.0) <= UNSEEN * sizes
        if added.any():
            self._add_known(rows[added], z[added] + residuals[added] @ self._inverse, precision[added])
        else:
            chosen, seen_at = _independent(residuals / sizes[:, None])
            added[chosen] = True
            self._add_new(rows[chosen], z[chosen], seen_at, precision[chosen])
        self._increase(rows[added], precision[added])
        if self._inverse is not None:
            off = rows[added] - (rows[added] @ self._inverse) @ self.matrix
            if (np.abs(off).max(axis=1, initial=0.0) > DRIFT * sizes[added]).any():
                self._inverse = None
        return np.asarray(added)

    def _add_known(self, rows: Floats, z: Floats, precision: Floats) -> None:
        """Update G for measurements in directions that were measured before: Woodbury's identity."""
        from scipy.linalg import LinAlgError, cholesky, solve_triangular
        from scipy.linalg.blas import dgemm

        assert self._inverse is not None
        try:
            factor = cholesky(np.diag(1 / precision) + rows @ z.T, lower=True)
        except LinAlgError:  # lost in rounding
            self._inverse = None
            return
        w = np.ascontiguousarray(solve_triangular(factor, z, lower=True))
        # In its place: past 1,000 atoms what takes time is going through memory.
        dgemm(-1.0, w.T, w.T, beta=1.0, c=self._inverse.T, trans_b=1, overwrite_c=1)

    def _add_new(self, rows: Floats, z: Floats, seen_at: Indices, precision: Floats) -> None:
        """Update G for measurements of directions that none has measured so far, each seen at a place of its own.

        The columns of F span what X does not see and the new rows Q do. With S = QF and T = I - F inv(S) Q, the matrix
        T G T' + F inv(S) inv(P) inv(S)' F' is a generalised inverse of X + Q'PQ, as XF = 0 and QT = 0.
        """
        from scipy.linalg.blas import dgemm

        assert self._inverse is not None
        free = -(self._inverse @ self.matrix[:, seen_at])
        free[seen_at, np.arange(seen_at.size)] += 1
        free -= self._inverse @ (self.matrix @ free)
        seen = np.linalg.inv(rows @ free)
        half = free @ (seen @ (z @ rows.T + np.diag(1 / precision)) @ seen.T / 2) - (seen @ z).T
        for one, other in ((free, half), (half, free)):  # in its place
            dgemm(1.0, one, other, beta=1.0, c=self._inverse.T, trans_b=1, overwrite_c=1)


def _written_out(rows: Floats | csr_array) -> Floats:
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def _independent(residuals: Floats) -> tuple[Indices, Indices]:
    """Return which measurements see new directions that the others chosen do not, and the atoms they see them at.

    Of as many of either as the residuals, shape (m, atoms), have rank: by pivots, so that these atoms tell them apart.
    """
    from scipy.linalg import qr

    triangle, order = qr(residuals.T, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(triangle))
    chosen = order[: max(int((pivots > UNSEEN * pivots[0]).sum()), 1)]
    _, places = qr(residuals[chosen], mode="r", pivoting=True)
    return chosen, places[: chosen.size]


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
    def squares(self) -> Floats:
        """The square of each entry, shape (m, values)."""
        counts = bool(((self.rows == 0) | (self.rows == 1)).all())
        return self.rows if counts else self.rows**2

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
        return np.asarray(np.einsum("ij,ij->i", combinations.of(self.covariance), combinations.rows))


def solve(information: Information, queries: Floats) -> Solved:
    """Return how queries are answered, shape (queries, atoms), with the certificates of their residuals.

    Source: Gauss-Markov theorem.
    """
    z, told = refined(information, queries, queries @ information.inverse)
    return Solved(z, told @ z.T, queries - told, information.updated)


def refined(information: Information, queries: Floats, coefficients: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients z of queries q, and zX, with most of what rounding lost taken back.

    Parameters
    ----------
    information, queries
        What was measured and what is asked.
    coefficients
        Queries times the generalised inverse.
    """
    inverse, matrix, z = information.inverse, information.matrix, coefficients
    told = z @ matrix
    sizes = np.abs(queries).max(axis=1, initial=0.0)
    residual = np.abs(queries - told).max(axis=1, initial=0.0)
    most = UNSEEN if information.updated else LOST
    for _ in range(REFINEMENTS):  # each takes back most of what rounding lost in G
        open_ = (residual > REFINED * sizes) & (residual < most * sizes)
        if not open_.any():
            break
        z = z.copy() if z is coefficients else z
        z[open_] += (queries[open_] - told[open_]) @ inverse
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
    if inside.size == count:  # mostly each bin is one atom, and nothing is added up
        order = np.argsort(bins[inside])
        if (bins[inside[order]] == np.arange(count)).all():
            order = inside[order]
            if order.size == len(values) and (order == np.arange(order.size)).all():  # all of them: nothing is copied
                same = values.view()
                same.flags.writeable = False
                return same
            return np.take(values, order, axis=0)
    places = csr_array((np.ones(inside.size), (bins[inside], inside)), shape=(count, bins.size))
    return np.asarray(places @ np.ascontiguousarray(values))


def generalised_inverse(matrix: Floats) -> tuple[Floats, int]:
    """Return a generalised inverse of a positive semidefinite matrix, and its rank.

    The inverse of a largest well-conditioned principal part, found by a pivoted Cholesky factorisation, with zeros
    around it.
    """
    from scipy.linalg.lapack import dpotri, dpstrf

    n = matrix.shape[0]
    scale = np.sqrt(np.diagonal(matrix))
    safe = np.where(scale > 0, scale, 1.0)
    scaled = np.divide(matrix.T, safe, order="F")  # in the order that it is in: it is symmetric
    scaled /= safe[:, None]
    factor, pivots, rank, _ = dpstrf(scaled, tol=RANK, lower=1, overwrite_a=1)
    del scaled
    kept = pivots[:rank] - 1
    if not rank:
        return np.zeros((n, n)), 0
    part, _ = dpotri(factor[:rank, :rank], lower=1, overwrite_c=1)
    del factor  # before there is another matrix of all
    found = np.zeros((n, n))
    for start in range(0, rank, AT_ONCE):  # in its place: the time goes into memory that is touched first
        end = start + AT_ONCE
        square = part[start:end, start:end]
        square[:] = np.tril(square) + np.tril(square, -1).T
        part[start:end, end:] = part[end:, start:end].T
    part /= safe[kept]
    part /= safe[kept, None]
    found[np.ix_(kept, kept)] = part.T
    return found, int(rank)

"""What noisy linear measurements say together: an information matrix over atoms, and a generalised inverse of it.

A measurement y = q x + noise of precision p adds p q'q to the information matrix X and p q'y to the vector b. What
questions are answered from them, and how much of that rounding may have spoilt, is told by `solved`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

RANK = 1e-11  # least pivot, relative to the diagonal: only how G is made depends on it, not what counts as determined
CLEAR = 1e-6  # least pivot where none are sought: no answer is believed without its residual
UNSEEN = 1e-6  # a larger residual says that a new measurement sees what none before it saw
DRIFT = 1e-8  # a larger residual of what was just measured says that the updates have lost too many digits
FEW = 16  # measurements that update G; more are added by a new factorisation
SMALL = 0.05  # of the atoms: or so many, where a factorisation takes longer
THIN = 1 / 16  # of the atoms: queries of fewer are multiplied by what they count alone, which takes less than BLAS does
DENSE = 1 / 32  # of the entries of a matrix: so many are added to it with all others
SHORT = 2**20  # products of entries of rows of few atoms that are added at once
AT_ONCE = 128  # rows that are worked on at once, so that there is never one more matrix of all
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
        self._together = False  # whether much of it came at once, which is of all cells: its rank is likely to be full
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
            self._inverse, _ = generalised_inverse(self.matrix, every=self._together)
            self.updated = False
        return self._inverse

    def applied(self, rows: Floats) -> Floats:
        """Return rows times the generalised inverse."""
        return np.asarray(rows @ self.inverse)

    def refactor(self) -> None:
        """Forget the generalised inverse, so that it is made anew from the information matrix."""
        self._inverse = None
        self.changes += 1

    def copy(self) -> Information:
        """Return a copy that can be added to without changing this one."""
        twin = Information(0)
        twin.matrix, twin.vector, twin._inverse = self.matrix, self.vector, self._inverse
        twin._probes, twin._seen, twin.changes = self._probes, self._seen, self.changes
        twin.updated, twin._together = self.updated, self._together
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

    def updates(self, rows: int) -> bool:
        """Return whether the generalised inverse is updated for so many measurements, and not made anew."""
        return rows <= max(FEW, self.atoms * SMALL) and self._inverse is not None

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
        if self.updates(rows.shape[0]):
            rows = _written_out(rows)
            while left.size and self._inverse is not None:
                left = left[~self._add_some(rows[left], precision[left])]
        if left.size:
            self._inverse = None
            self._increase(rows[left], precision[left])
        self.vector += rows.T @ weighted

    def add_together(self, matrix: Floats, vector: Floats) -> None:
        """Add many measurements, as what they say together to the matrix and to the vector."""
        if self._seen:
            matrix, vector = self.matrix + matrix, self.vector + vector
        self.matrix, self.vector, self._shared = matrix, vector, False
        self._probes = self._inverse = None
        self._seen = self._together = True
        self.changes += 1

    def _increase(self, rows: Floats | csr_array, precision: Floats) -> None:
        """Add what measurements say to the information matrix, in its place."""
        from scipy.linalg.blas import dgemm
        from scipy.sparse import csr_array

        rows = csr_array(rows)
        thin = np.diff(rows.indptr) <= THIN * self.atoms
        short = np.flatnonzero(thin)
        products = np.cumsum(np.diff(rows.indptr)[short].astype(np.int64) ** 2)
        for chosen in np.split(short, np.flatnonzero(np.diff(products // SHORT)) + 1):
            few = rows[chosen]
            more = (few.T * precision[chosen]) @ few
            if more.nnz > DENSE * self.matrix.size:  # one entry after the other takes longer than all of them
                self.matrix += more.toarray()
                continue
            more = more.tocoo()
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


def generalised_inverse(matrix: Floats, *, every: bool = False) -> tuple[Floats, int]:
    """Return a generalised inverse of a positive semidefinite matrix, and its rank.

    The inverse of a largest well-conditioned principal part, with zeros around it; parameters as for `factor_of`.
    """
    from scipy.linalg.lapack import dpotri

    n = matrix.shape[0]
    factor, kept, scale = factor_of(matrix, every=every)
    rank = kept.size
    if not rank:
        return np.zeros((n, n)), 0
    part, _ = dpotri(factor, lower=1, overwrite_c=1)
    del factor  # before there is another matrix of all
    for start in range(0, rank, AT_ONCE):  # in its place: the time goes into memory that is touched first
        end = start + AT_ONCE
        square = part[start:end, start:end]
        square[:] = np.tril(square) + np.tril(square, -1).T
        part[start:end, end:] = part[end:, start:end].T
    part /= scale
    part /= scale[:, None]
    if (kept == np.arange(rank)).all() and rank == n:
        return part.T, n
    found = np.zeros((n, n))
    found[np.ix_(kept, kept)] = part.T
    return found, int(rank)


def factor_of(matrix: Floats, *, every: bool = False) -> tuple[Floats, Indices, Floats]:
    """Return the lower Cholesky factor of a largest well-conditioned principal part of a positive semidefinite matrix.

    Parameters
    ----------
    matrix
        Which one, shape (n, n).
    every
        Whether the rank is likely to be full: then pivots, which take longer, are sought only where it is not.

    Returns
    -------
    The factor of what is over the scales of its rows and columns; which rows these are, and their scales.
    """
    from scipy.linalg.lapack import dpotrf, dpstrf

    scale = np.sqrt(np.diagonal(matrix))
    safe = np.where(scale > 0, scale, 1.0)
    if every:
        factor, failed = dpotrf(_scaled(matrix, safe), lower=1, overwrite_a=1, clean=0)
        if not failed and (np.diagonal(factor) ** 2 > CLEAR).all():
            return factor, np.arange(len(safe)), safe
    factor, pivots, rank, _ = dpstrf(_scaled(matrix, safe), tol=RANK, lower=1, overwrite_a=1)
    kept = pivots[:rank] - 1
    return factor[:rank, :rank], kept, safe[kept]


def _scaled(matrix: Floats, scale: Floats) -> Floats:
    """Return a matrix over the scales of its rows and columns, by columns."""
    found = np.divide(matrix.T, scale, order="F")  # in the order that it is in: it is symmetric
    found /= scale[:, None]
    return found

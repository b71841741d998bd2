"""Strategies with real entries made integer, so that integer noise on integer counts is exact.

How much a rounding costs is measured, never assumed: the error of the integer strategy is recomputed from its own
entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.dense import certified_inverse
from dpnotebook.inference.woodbury import WoodburyInverse
from dpnotebook.workload import Explicit, Identity, PIdentity, Stack, Toeplitz, Workload
from dpnotebook.workload.base import Array, whole

PRECISION = 16  # bits of a rounded operator: its squared error is then within some 10^-4 of that of the float one
PRECISE = 18  # bits of one from its Gram matrix that is not multiplied with others
MOST_BITS = 26  # the squares of more could pass 62 bits
COLUMN_SUM = 2**14  # of a rounded p-Identity: the cube of it, for three attributes, is far below 2^62
CLOSE = 1.003  # a rounding is accepted when it costs at most 0.3% of the squared error,
LEVEL = 0.98  # of the largest column norm: where all pass it there is no room worth filling
REGULAR = 1e-6  # least pivot of a triangular root of a gram matrix with ones on its diagonal
DEFICIENT = 1e-10  # of the largest eigenvalue: a smaller one is rounding
BITS = (8, 9, 10, 11, 12)  # and else the best of these is taken: log2 of the column norms before squaring


def rounded(operator: Workload | ArrayLike, *, bits: int = PRECISION) -> Workload:
    """Return an operator with integer entries close to one with real entries: what a strategy can measure exactly.

    Every entry is scaled so that the largest is 2^bits, and rounded, by at most half a unit. The scale changes nothing:
    noise grows with the sensitivity, which is computed from the integers. What rounding costs is the difference of
    `Strategy.objective` from what was meant: at 16 bits some 10^-4 of it, more where rows nearly depend on each other.

    Parameters
    ----------
    operator
        What is to be measured, shape (p, n): a matrix, or a workload. Integers stay as they are, `Toeplitz` workloads
        stay such, of any other the rows are written out.
    bits
        From 1 to 26. With more of them, true answers are larger integers: at 16 bits those over 10^9 rows fit well.

    Returns
    -------
    The integer operator. Where the rows do not span all cells, rounding tilts what they span, so that queries would no
    longer be determined: every cell is then counted too, with a small weight.

    Raises
    ------
    WorkloadError
        If it is no matrix of finite numbers, or bits are out of range.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> strategy.rounded([[1.0, 0.5], [0.0, 0.3]], bits=8).dense()
    array([[256, 128],
           [  0,  77]])
    """
    if not 1 <= whole(bits, "bits") <= MOST_BITS:
        raise WorkloadError(f"an operator is rounded to 1 to {MOST_BITS} bits, not {bits}")
    given = operator if isinstance(operator, Workload) else Explicit(operator)
    if given.integer:
        return given
    if isinstance(given, Toeplitz):
        return Toeplitz(_scaled(given.coefficients, bits))
    matrix = given.dense()
    entries = _scaled(matrix, bits)
    cells = entries.shape[1]
    if np.linalg.matrix_rank(matrix) == cells:
        return Explicit(entries)
    # Rounded rows are off by 1/12 an entry, squared: what balances the cost of that against the cells' own.
    weight = max(1, round((cells * float((entries.astype(float) ** 2).sum(axis=0).max()) / 12) ** 0.25))
    return Stack(Explicit(entries), weight * Identity(cells))


def _scaled(entries: Array, bits: int) -> Array:
    return np.rint(entries * (2.0**bits / float(np.abs(entries).max()))).astype(np.int64)


def rounded_p_identity(theta: Array, column_sum: int = COLUMN_SUM) -> PIdentity:
    """Return the p-Identity of Theta with integer entries, every column summing to exactly `column_sum`.

    Parameters
    ----------
    theta
        Non-negative, shape (p, n).
    column_sum
        L1 norm of every column.
    """
    extra = np.floor(theta * (column_sum / (1 + theta.sum(axis=0))) + 0.5).astype(np.int64)
    extra = extra[extra.any(axis=1)]
    diagonal = column_sum - extra.sum(axis=0)
    for cell in np.flatnonzero(diagonal < 1):  # the weight of a cell rounded to nothing: its largest entry gives way
        extra[extra[:, cell].argmax(), cell] -= 1 - diagonal[cell]
        diagonal[cell] = 1
    return PIdentity(diagonal, extra)


def rounded_gram(gram: Array, workload_gram: Array, objective: float, bits: int | None = None) -> Explicit:
    """Return an integer A with A'A nearly proportional to X, of full rank, so that it supports every workload.

    Where rounded rows would span nearly, but not quite, what they should, because X has a lower rank, the single cells
    are weighed too; and wherever columns differ, such rows fill them up to the largest, which costs nothing (the
    completion of columns of eigen-design, Program 2).

    Parameters
    ----------
    gram
        X = A'A, shape (n, n), with diagonal at most 1.
    workload_gram
        V = W'W, shape (n, n): what the rounding must not make worse.
    objective
        tr(X^+ V), against which the cost of rounding is measured.
    bits
        log2 of the column norms before squaring; the least, from 8 to 12, that costs at most 0.3% of the squared
        error, unless given.

    Raises
    ------
    WorkloadError
        If no such rounding has full rank.
    """
    root = _square_root(gram)
    best: Array | None = None
    least = np.inf
    for filled in (False, True) if len(root) == len(gram) else (True,):
        for scale in BITS if bits is None else (bits,):
            for fill in _fills(scale, len(gram)) if filled else (0,):
                matrix = _completed(np.rint(root * 2.0**scale), fill)
                error = _error(matrix, workload_gram)
                if error < least:
                    best, least = matrix, error
                if best is not None and least <= objective * CLOSE:
                    return Explicit(best.astype(np.int64))
    if best is None:
        raise WorkloadError("this strategy cannot be written with integers of that size; use more bits")
    return Explicit(best.astype(np.int64))


def _fills(bits: int, n: int) -> tuple[int, int]:
    """Return weights of the single cells to try: what balances its cost against that of rounding, and half of it.

    Rounded rows are off by 1/12 an entry, squared; answered through cells of weight k that costs about n / 12 k^2,
    while k^2 / 4^bits is added to the sensitivity.
    """
    balanced = max(2, round((n * 4.0**bits / 12) ** 0.25))
    return balanced, balanced // 2


def _completed(matrix: Array, fill: int) -> Array:
    """Return the matrix with rows of single cells that bring every column to the same norm, at least `fill` each."""
    norms = (matrix**2).sum(axis=0)
    target = norms.max() + fill**2
    if not fill and norms.min() > LEVEL * target:
        return matrix
    weights = np.floor(np.sqrt(target - norms))
    return np.vstack([matrix, np.diag(weights)[weights > 0]])


def l1_objective(operator: PIdentity, workload_gram: Array) -> float:
    """Return |A|_1^2 |W A^+|_F^2 of a p-Identity for the workload with this Gram matrix."""
    return float(operator.max_column_norm(1)) ** 2 * WoodburyInverse(operator).total_of_gram(workload_gram)


def _error(matrix: Array, workload_gram: Array) -> float:
    """Return |A|_2^2 |W A^+|_F^2, or infinity where A'A cannot be inverted with certainty."""
    found = certified_inverse(matrix.T @ matrix)
    return np.inf if found is None else float((matrix**2).sum(axis=0).max() * np.vdot(found, workload_gram))


def _square_root(gram: Array) -> Array:
    """Return A with A'A = X and as many rows as X has rank: triangular where that is all of them."""
    try:
        root = np.linalg.cholesky(gram).T
        if np.diagonal(root).min() > REGULAR:
            return np.asarray(root)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(gram)
    kept = values > DEFICIENT * values[-1]
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)

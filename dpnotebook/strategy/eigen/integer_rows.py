"""From weighted orthonormal queries to an integer strategy: completed columns, and a scale at which rounding is cheap.

Columns whose norm is below the sensitivity have room for a count of their own cell, at no cost in privacy (Li and
Miklau 2012, Program 2, steps 4 and 5). Rounding moves every entry by an error of variance 1/12 at most. For orthonormal
directions measured at the lengths l_i the expected error grows by the share sum(1 / l_i^2) / 12, to second order; and
the column that rounding lengthens most sets the sensitivity, at some 4 standard deviations of its length.
"""

from __future__ import annotations

import math

import numpy as np

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.workload import Explicit, Identity, Stack, WeightedRows, Workload
from dpnotebook.workload.base import Array

COST = 2.5e-4  # share of the squared error that each of the costs of rounding may add
SEARCHED = 256  # up to this many cells, the smallest scale that is good enough is searched for
SINGULAR = 1e-10  # rounding at a small scale can lose directions
SCALES = [2.0 ** (k / 2) for k in range(8, 60)]  # of the largest column norm, from 16 on: the first that is good enough
SPREAD = 4  # standard deviations by which rounding lengthens the longest of many columns


def completed_error(directions: Array, lengths: Array, gram: Array, noise: Noise) -> float:
    """Return the objective of diag(lengths) @ directions with completed columns, before rounding.

    Parameters
    ----------
    directions
        Orthonormal rows, shape (k, n), whose span holds the workload's queries.
    lengths
        Their weights, above 0, shape (k,).
    gram
        The workload's Gram matrix, shape (n, n).
    noise
        Which norm of a column is its sensitivity.
    """
    rows = directions * lengths[:, None]
    normal = rows.T @ rows
    if law_of(noise).euclidean:
        used = np.diagonal(normal).copy()
        room = used.max() - used  # step 4
    else:
        used = np.abs(rows).sum(axis=0)
        room = (used.max() - used) ** 2
    squared = law_of(noise).squared_sensitivity(float(used.max()))
    extra = COST * squared if _has_fewer_rows(directions) else 0.0
    normal[np.diag_indices_from(normal)] += room + extra
    return (squared + extra) * float(np.trace(np.linalg.solve(normal, gram)))


def integer_operator(directions: Array, lengths: Array, gram: Array, noise: Noise) -> Workload:
    """Return an integer strategy close to the completed diag(lengths) @ directions.

    Where there are fewer rows than cells every cell is counted with a small weight at least, because the span of
    rounded rows no longer holds the queries exactly.

    Parameters
    ----------
    directions, lengths, gram, noise
        As for `completed_error`.

    Returns
    -------
    The rounded rows and, where columns have room, counts of single cells, with the weight that still fits.
    """
    n = directions.shape[1]
    rows = directions * lengths[:, None]
    top = float(_norms(rows, noise).max())
    if n <= SEARCHED:
        ideal = completed_error(directions, lengths, gram, noise)
        for scale in SCALES:
            found = _rounded(rows / top, scale, noise)
            if _objective(found, gram, noise) <= ideal * (1 + 2 * COST):
                return found
    scale = math.sqrt(float(((top / lengths) ** 2).sum()) / 12 / COST)
    scale = max(scale, SPREAD / COST * (1 if law_of(noise).euclidean else math.sqrt(n / 12)))
    if _has_fewer_rows(directions):
        scale = max(scale, math.sqrt(n / 12) / COST)
    return _rounded(rows / top, scale, noise)


def _has_fewer_rows(directions: Array) -> bool:
    return bool(directions.shape[0] < directions.shape[1])


def _norms(rows: Array, noise: Noise) -> Array:
    return law_of(noise).roots(law_of(noise).powers(rows).sum(axis=0))


def _rounded(rows: Array, scale: float, noise: Noise) -> Workload:
    """Return rows of largest column norm 1 at a scale, rounded and completed."""
    whole = np.rint(rows * scale).astype(np.int64)
    whole = whole[whole.any(axis=1)]
    least = math.ceil(scale * math.sqrt(COST)) if _has_fewer_rows(rows) else 0
    if not law_of(noise).euclidean:
        used = np.abs(whole).sum(axis=0)
        room = used.max(initial=0) + least - used
    else:
        used = (whole**2).sum(axis=0)
        room = np.floor(np.sqrt(used.max(initial=0) + least**2 - used)).astype(np.int64)
    cells = Identity(rows.shape[1])
    if not len(whole):
        return cells
    if not (room**2).sum() > COST * (whole**2).sum():
        return Explicit(whole)
    return Stack(Explicit(whole), WeightedRows(room, cells))


def _objective(operator: Workload, gram: Array, noise: Noise) -> float:
    norm = law_of(noise).squared_sensitivity(float(operator.max_column_norm(law_of(noise).power)))
    values, vectors = np.linalg.eigh(operator.gram())
    if values[0] <= SINGULAR * values[-1]:
        return math.inf
    return norm * float(np.einsum("ji,jk,ki->i", vectors, gram, vectors, optimize=True) @ (1 / values))


def integer_matrix(matrix: Array, gram: Array, noise: Noise) -> Workload:
    """Return an integer strategy close to a matrix of full column rank, at the least scale where rounding is cheap.

    Parameters
    ----------
    matrix
        Shape (p, n).
    gram, noise
        As for `completed_error`.
    """
    top = float(_norms(matrix, noise).max())
    ideal = top**2 * float(np.trace(np.linalg.solve(matrix.T @ matrix, gram)))
    for scale in SCALES[::4]:
        found = _rounded(matrix / top, scale, noise)
        if _objective(found, gram, noise) <= ideal * (1 + 4 * COST):
            break
    return found

"""What a question over atoms would be answered with if a few more numbers were measured, without another block.

A block that has room for everything is a matrix of all its atoms, and a copy of it that is added to takes as long to
make as to go through, however little is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import RESIDUAL, SolvedRows
from dpnotebook.planner.information import refined
from dpnotebook.planner.least_squares_state import MOST_ATOMS, LeastSquaresState, Observation, Queries

Floats = NDArray[np.float64]

MOST_ROWS = 128  # asked and supposed together: of more a block is made
LEAST_ATOMS = 200  # a block of fewer is copied in no time


def variances_beside(block: LeastSquaresState, asked: Queries, supposed: Sequence[Observation]) -> Floats | None:
    """Return the variance of each answer if more were measured, infinite where it were not known, shape (answers,).

    Parameters
    ----------
    block
        Least squares over all that was measured.
    asked
        The question, over the cells of the block.
    supposed
        What would be said of them, by all measurements of the same queries together.

    Returns
    -------
    None where there are too many rows, or atoms, for this to be of use.
    """
    if block.atoms.count < LEAST_ATOMS or asked.count > MOST_ROWS:
        return None
    further, own = [], []
    for one in supposed:
        queries = block.queries(one.part)
        if queries is None or queries.count + asked.count > MOST_ROWS:
            return None
        known = block.sources.get(one.name)
        gained = one.precision - (0.0 if known is None else known.total)
        if gained <= 0:
            return None
        further.append(queries)
        own += [gained] * queries.count
    if not further or len(own) + asked.count > MOST_ROWS:
        return None
    atoms, parents = block.atoms, np.arange(block.atoms.count)
    for queries in (asked, *further):
        atoms, above = atoms.refined(queries.cells)
        parents = parents[above]
    if atoms.count > MOST_ATOMS:
        return None
    padded = [np.concatenate([one.columns, np.zeros((one.count, 1))], axis=1) for one in (asked, *further)]
    at = [one.cells[atoms.first] for one in (asked, *further)]
    rows = np.concatenate([columns[:, places] for columns, places in zip(padded, at, strict=True)])
    # Nothing tells the parts of an atom apart, so the inverse may be 0 for all but the first of them.
    old = rows[:, : block.atoms.count]
    coefficients, told = refined(block.information, old, old @ block.information.inverse)
    covariance, left = told @ coefficients.T, rows - told[:, parents]
    sizes = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    determined = np.abs(left).max(axis=1, initial=0.0) <= RESIDUAL * sizes
    first, second = slice(0, asked.count), slice(asked.count, None)
    found = beside(
        SolvedRows(coefficients[first], covariance[first, first], left[first], determined[first]),
        SolvedRows(coefficients[second], covariance[second, second], left[second], determined[second]),
        covariance[first, second],
        np.array(own),
        sizes[first],
    )[0]
    return np.where(found.determined, np.diagonal(found.covariance), np.inf)

"""Strategies for running counts of what arrives in parts: nothing that is measured reads a part before it is there.

The error of a strategy for Gaussian noise depends on X = A'A alone, and so does its sensitivity, the root of the
largest entry on the diagonal of X. X = L'L with L lower triangular is the same strategy in another form, in which row t
reads parts 1 to t; so the best strategy of all can be measured in the order of arrival, and the running count of part t
needs rows 1 to t only (matrix factorization for continual counting, as in Denisov et al. 2022 and Fichtenberger,
Henzinger and Upadhyay 2023). For Laplace noise the sum of absolute values counts, which another form changes: there it
is a tree, whose nodes are complete when their last part arrives (Dwork et al. 2010; Chan, Shi and Song 2011).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import GAUSSIAN, Noise, law_of
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.rounding import rounded
from dpnotebook.strategy.select import select
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.toeplitz import toeplitz
from dpnotebook.workload import Hierarchy, Prefix
from dpnotebook.workload.base import Array, whole

MOST_PARTS = 10_000  # that a table can have
OPTIMAL = 1_024  # parts up to which the optimum is worked out; beyond, the Toeplitz square root is within 5% of it
MOST_IN_TREE = 512  # parts for Laplace noise: every running count is solved for by itself
BRANCHING = (2, 3, 4, 5, 6, 8, 10, 12, 16)  # of the trees that are compared
BITS = 16  # of the rows: their squared error is then within some 10^-5 of that of the float ones


@lru_cache(maxsize=16)
def running_counts(parts: int, noise: Noise = "gaussian", objective: Objective = "worst") -> Strategy:
    """Return what to measure for the running counts of parts that arrive one after another.

    Parameters
    ----------
    parts
        How many will have arrived in the end.
    noise
        "gaussian" or "laplace".
    objective
        Whether the worst running count is to be as good as can be, or all of them together.

    Returns
    -------
    A strategy for `Prefix(parts)` whose rows are in the order in which they can be measured. For Gaussian noise it has
    the error of the best strategy up to 1,024 parts, and its t-th row reads parts 1 to t.

    Raises
    ------
    WorkloadError
        If there are too many parts, or none.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Prefix
    >>> found = strategy.running_counts(64, objective="total")
    >>> best = strategy.select(Prefix(64), noise="gaussian", objective="total")
    >>> round(found.objective / best.objective, 3)  # nothing is lost by the order
    1.0
    >>> found.operator.dense()[0, 1:].any()  # the first row reads the first part only
    np.False_
    """
    checked_objective(objective)
    if not 1 <= whole(parts, "the number of parts") <= MOST_PARTS:
        raise WorkloadError(f"running counts are over 1 to {MOST_PARTS:,} parts, not {parts:,}")
    if law_of(noise).euclidean:
        return _triangular(Prefix(parts), objective) if parts <= OPTIMAL else toeplitz(Prefix(parts))
    if parts > MOST_IN_TREE:
        raise WorkloadError(
            f"with Laplace noise running counts are planned for up to {MOST_IN_TREE} parts, not {parts:,}: put days "
            "together into weeks, or take a budget with delta, with which they also cost far less"
        )
    trees = [_in_order(Hierarchy(parts, branching)) for branching in BRANCHING if branching < max(parts, 3)]
    found = [Strategy(Prefix(parts), rounded(rows), noise, "tree in the order of arrival") for rows in trees]
    worth = np.max if objective == "worst" else np.sum
    return min(found, key=lambda one: one.norm**2 * float(worth(at_arrival(one))))


def at_arrival(strategy: Strategy) -> Array:
    """Return the variance that every running count has at most when its last part arrives.

    Parameters
    ----------
    strategy
        As `running_counts` returns it, measured with noise of variance 1 on every row.

    Returns
    -------
    Shape (parts,).
    """
    rows, last = strategy.operator.dense(), last_parts(strategy)
    if np.array_equal(last, np.arange(rows.shape[1])):  # P L^-1, P the running sums: row by row its squared length
        weights = solve_triangular(rows.T.astype(float), np.tri(len(rows)).T, lower=False).T
        return np.asarray((weights**2).sum(axis=1))
    return _of_forest((rows != 0).argmax(axis=1), last, rows.shape[1])


def _of_forest(first: NDArray[np.intp], last: NDArray[np.intp], cells: int) -> Array:
    """Return the variances of running counts from the nodes of trees: of each, how many complete ones it is a sum of.

    A node is as precise as its own measurement: what its children tell of it as well is no part of this, so that it may
    be measured the less for that.

    Parameters
    ----------
    first, last
        The parts from which and to which each node goes, in the order in which they are complete.
    cells
        How many parts there are.
    """
    found = np.empty(cells)
    largest: list[int] = []  # where each of the largest complete nodes begins
    for begins, ends in zip(first.tolist(), last.tolist(), strict=True):
        while largest and largest[-1] >= begins:
            largest.pop()
        largest.append(begins)
        found[ends] = len(largest)
    return found


def last_parts(strategy: Strategy) -> NDArray[np.intp]:
    """Return the last part that each row reads, from 0: when it can be measured; shape (rows,)."""
    read = strategy.operator.dense() != 0
    return np.asarray(read.shape[1] - 1 - read[:, ::-1].argmax(axis=1))


def _triangular(workload: Prefix, objective: Objective) -> Strategy:
    best = select(workload, noise=GAUSSIAN.name, objective=objective)
    rows = best.operator.dense().astype(float)
    gram = rows.T @ rows
    # With the order of the cells turned round, Cholesky's factor is the other triangle.
    root = np.linalg.cholesky(gram[::-1, ::-1] / np.diagonal(gram).max()).T[::-1, ::-1]
    name = f"{best.name}, in the order of arrival"
    chosen_for = best.chosen_for
    return Strategy(
        workload,
        rounded(np.tril(root), bits=BITS),
        GAUSSIAN.name,
        name,
        certificate=best.certificate,
        chosen_for=chosen_for,
    )


def _in_order(tree: Hierarchy) -> Array:
    """Return the nodes of a tree in the order in which they are complete, shape (nodes, cells)."""
    rows = np.unique(tree.dense(), axis=0)  # a node with one child is that child
    last = rows.shape[1] - 1 - rows[:, ::-1].argmax(axis=1)
    return np.asarray(rows[np.lexsort((rows.sum(axis=1), last))])

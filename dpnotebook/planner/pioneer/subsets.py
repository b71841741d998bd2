"""Ways to write a question as a sum of past queries (eq. 6), those of least variance first."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.pioneer.groups import Floats, Mask

STEPS = 200  # of the search: sums, complete or not, that are looked at
WORTH = 16  # times the variance a question needs: two answers of a rougher sum cost more to refine than the question


def subsets(
    rows: NDArray[np.bool_], variances: Floats, asked: Mask, variance: float, count: int
) -> list[tuple[int, ...]]:
    """Return sets of queries that select every atom of the question once, and nothing else.

    Parameters
    ----------
    rows
        What each query selects; shape (queries, atoms).
    variances
        Of the queries' answers.
    asked
        The question.
    variance
        What its answer may have.
    count
        Most sets to return.

    Returns
    -------
    list of tuple
        Positions of queries, the sets of least total variance first.

    Notes
    -----
    The search goes by increasing variance. What a set still lacks of the question has a first atom, and one query of
    every complete set has it. It ends after `STEPS`, by when it has found the most accurate of very many sets.

    Differences (coefficients of -1, eq. 5) are left to `choose`, which subtracts what sticks out of the question. To
    look for them here took 20 times as long and saved no more on the paper's workloads.
    """
    able = np.flatnonzero((variances <= WORTH * variance) & ~(rows & ~asked).any(axis=1))
    parts, errors = rows[able], variances[able]
    found: list[tuple[int, ...]] = []
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(STEPS):
        if not queue or len(found) == count:
            break
        total, used = heapq.heappop(queue)
        lacking = asked & ~parts[list(used)].any(axis=0)
        if not lacking.any():
            found.append(tuple(able[list(used)].tolist()))
            continue
        fitting = parts[:, lacking.argmax()] & ~(parts & ~lacking).any(axis=1)
        for query in np.flatnonzero(fitting).tolist():
            if total + errors[query] <= WORTH * variance:
                heapq.heappush(queue, (total + float(errors[query]), (*used, query)))
    return found

"""SQL of how much longer the vectors of units are by the weights of groups: of numbers of rows, over all groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import number, whole_sum
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import PrivateSelect

STEPS = 1 << 20  # of 1, which a unit adds at most to each of both sums
LONG = 8  # rows, from which on units count alike
MOST_ROWS = 10**5  # of a unit in a group, beyond which nothing is squared


def lengthened(select: PrivateSelect, run: Run) -> NDArray[np.int64]:
    """Return how much units count, and how much of the most their squared norms could grow these grow by weights.

    A unit counts as its squared norm does, up to that of `LONG` rows, of which it is a part; times the part by which it
    grows, of the square of the largest weight less 1, that is what it adds to the second sum. In `STEPS`, shape (2,).

    Parameters
    ----------
    select
        The private aggregation, with its weights.
    run
        Executes a query in DuckDB's SQL and gives its columns.
    """
    columns = run(lengthened_sql(select))
    return np.array([np.ma.filled(np.ma.asarray(columns[name]), 0)[0] for name in ("v0", "v1")], dtype=np.int64)


def lengthened_sql(select: PrivateSelect) -> str:
    """Return the query of `lengthened`: columns `v0`, `v1`."""
    assert select.weights is not None
    parts, rows = Parts(select, ""), Columns(select.single)
    parts.take([], [])
    count = rows.rows(None)
    parts.group(rows.listed)
    parts.weigh()
    size = f"CAST(least({count}, {MOST_ROWS}) AS DOUBLE)"  # sums of squares are whole numbers below 2^53
    squares = {"q": f"{size} * {size}", "p": f"{size} * {size} * (w * w)"}
    added = (f"sum({square}) AS {name}" for name, square in squares.items())
    parts.add("lengths", f"SELECT u, {', '.join(added)} FROM {parts.last} GROUP BY u")
    counted = f"least(q / {number(float(LONG**2))}, {number(1.0)})"
    grown = f"(p / q - {number(1.0)}) / {number(select.weights.others**2 - 1.0)}"
    each = {"v0": counted, "v1": f"{counted} * ({grown})"}
    scaled = {name: f"floor({value} * {number(float(STEPS))})" for name, value in each.items()}
    whole = (f"{steps.within(value, 0, STEPS)} AS {name}" for name, value in scaled.items())
    parts.add("counted", f"SELECT {', '.join(whole)} FROM {parts.last}")
    return parts.finished([f"{whole_sum(name)} AS {name}" for name in each], keys=False)

"""A relative error as an error in the answer's own units, from what past noisy answers or public knowledge say."""

from __future__ import annotations

import numpy as np

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.planner.marginal_measurement import LinearTarget
from dpnotebook.planner.table import TableSchema
from dpnotebook.query.question import Accuracy, Question

SURE = 2.0  # standard errors that an answer must be above nothing, to be a size that others can be compared with


def resolved(accuracy: Accuracy, question: Question, asked: LinearTarget | None, table: TableSchema) -> Accuracy:
    """Return a relative accuracy as one in the answer's own units.

    One answer is to be right within a share of itself; several, each within that share of their average, because
    answers near 0 cannot be had within a share of nothing.

    Parameters
    ----------
    accuracy
        With `relative`.
    question, table
        What is asked, of which table.
    asked
        What past answers say, if anything.

    Raises
    ------
    AccuracyError
        If neither past answers nor the public number of rows say about how large the answers are.
    """
    assert accuracy.relative is not None
    if asked is not None and asked.block.sources:
        values, variances, _ = asked.block.estimates(asked.queries)
        known = np.isfinite(variances)
        if known.any():
            size = float(np.abs(values[known]).mean()) * asked.step
            spread = float(np.sqrt(variances[known].mean())) * asked.step
            if size > SURE * spread:
                return accuracy.resolved(accuracy.relative * size)
            raise AccuracyError(
                f"the noisy answer so far, about {size:,.3g} give or take {spread:,.3g}, is too uncertain to plan "
                f"{accuracy.percent} of it; ask once with error={spread / 2:,.2g} or so"
            )
    counts = question.measures[0].kind in ("count", "cdf", "workload") and question.where.is_everything
    if table.rows is not None and counts and asked is not None:
        return accuracy.resolved(accuracy.relative * table.rows / asked.queries.count)
    rows = f", or say about how many rows there are with rows= when you protect {shorten(table.name)}" if counts else ""
    raise AccuracyError(
        f"error='{accuracy.percent}' is planned from a past noisy answer, and there is none to this question yet; ask "
        f"it once with error= or epsilon= (any accuracy will do){rows if table.rows is None else ''}"
    )

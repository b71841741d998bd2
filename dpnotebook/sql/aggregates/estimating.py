"""From noisy numbers to answers with their uncertainty."""

from __future__ import annotations

import math

import numpy as np

from dpnotebook.planner.answers import Estimates
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Integers
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring


def estimate(measuring: Measuring, noisy: Integers, confidence: float) -> list[Estimates]:
    """Return the answers of every aggregate, with standard errors and intervals.

    Parameters
    ----------
    measuring
        What was measured.
    noisy
        The noisy numbers of the groups that are shown, shape (groups, measured).
    confidence
        Probability with which an interval holds what would have been answered without noise. Of what bounds cut off it
        holds as much as is told, for means and variances; for others nothing.

    Returns
    -------
    One for each aggregate, of shape (groups,); arrays of quantiles (groups, quantiles). NaN where its bounds were not
    found.
    """
    numbers = np.asarray(noisy, dtype=np.int64).reshape(-1, measuring.measured)
    found = [_part(measuring, part, numbers, confidence) for part in measuring.parts]
    for kind in {part.kind for part in measuring.parts}:
        same = [i for i, part in enumerate(measuring.parts) if part.kind == kind and part.found]
        agreed = function_of(kind).together([measuring.parts[i] for i in same], [found[i] for i in same])
        for i, estimates in zip(same, agreed, strict=True):
            found[i] = estimates
    return found


def _part(measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
    if part.found:
        return function_of(part.kind).estimate(measuring, part, noisy, confidence)
    shape = (len(noisy), len(part.fractions)) if part.array else (len(noisy),)
    return Estimates(*(np.full(shape, math.nan) for _ in range(4)))

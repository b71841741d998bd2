"""From noisy numbers to answers with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Estimates
from dpnotebook.sql.aggregates.added_up import alike
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
        Probability with which an interval holds what would have been answered without noise, and as much of what
        bounds cut off as is told; quantiles nothing of that.

    Returns
    -------
    One for each aggregate, of shape (groups,); arrays of quantiles (groups, quantiles). NaN where its bounds were not
    found.
    """
    numbers = np.asarray(noisy, dtype=np.int64).reshape(-1, measuring.measured)
    if measuring.together:
        several = [(of, estimate(one, numbers[of], confidence)) for of, one in alike(measuring, len(numbers))]
        return [_in_order(len(numbers), [(of, found[i]) for of, found in several]) for i in range(len(measuring.parts))]
    found = [_part(measuring, part, numbers, confidence) for part in measuring.parts]
    for kind in {part.kind for part in measuring.parts}:
        same = [i for i, part in enumerate(measuring.parts) if part.kind == kind and part.found]
        agreed = function_of(kind).together([measuring.parts[i] for i in same], [found[i] for i in same])
        for i, estimates in zip(same, agreed, strict=True):
            found[i] = estimates
    return found


def _in_order(groups: int, several: Sequence[tuple[NDArray[np.intp], Estimates]]) -> Estimates:
    """Return the answers of all groups, given those of some and the numbers of these."""

    def together(name: str) -> NDArray[np.float64]:
        shape = (groups, *getattr(several[0][1], name).shape[1:])
        found = np.empty(shape)
        for of, one in several:
            found[of] = getattr(one, name)
        return found

    return Estimates(*map(together, ("value", "std_error", "lower", "upper")))


def _part(measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
    if part.found:
        return function_of(part.kind).estimate(measuring, part, noisy, confidence)
    shape = (len(noisy), len(part.fractions)) if part.array else (len(noisy),)
    return Estimates(*(np.full(shape, math.nan) for _ in range(4)))

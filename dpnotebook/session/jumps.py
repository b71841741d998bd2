"""Intervals of what jumps where noise decides an order: a running total of groups, two of which are nearly tied.

Redraws of such a number lie in parts that are far apart, one for each order. The quantiles of all of them may end
within a part whose order is the less likely, and true one: then the interval misses the number although its order is
plausible. So every part that a part of the redraws is in, which is not rare, is in the interval, as far as its own
quantiles: an order that is rarer is missed as seldom as that, and a number within its own part as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpnotebook.session.ordered import quantile_of_ordered

Floats = NDArray[np.float64]

FAR = 30.0  # times the mean distance of the redraws beyond a gap, that a gap is longer than: by chance once in 10^13


def ends_of_parts(ordered: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return between which ends all parts of redraws lie that are not rare, shape (rows,); NaN where there is one part.

    Parameters
    ----------
    ordered
        Redraws of each row, finite and ascending, shape (rows, draws).
    tail
        How likely a number may be beyond either end; half of that goes to parts that are rare, half to the ends of
        others.
    """
    ends = np.full((2, len(ordered)), np.nan)
    draws = ordered.shape[1]
    few = max(int(np.ceil(draws * tail / 2)), 2)  # draws of a part that is not rare, at least
    if draws < 4 * few:
        return ends[0], ends[1]
    for row in np.flatnonzero(ordered[:, -1] > ordered[:, 0]):
        parts = _parts(ordered[row], few)
        if len(parts) > 1:
            ends[0, row] = quantile_of_ordered(parts[0], tail / 2, "lower")
            ends[1, row] = quantile_of_ordered(parts[-1], 1 - tail / 2, "higher")
    return ends[0], ends[1]


def _parts(ordered: Floats, few: int) -> list[Floats]:
    """Return the parts that are far apart, of which each has not too few draws."""
    gaps = np.diff(ordered)
    # The mean distance of the draws on either side of each gap, of so many as the least part has.
    before, after = np.empty_like(gaps), np.empty_like(gaps)
    before[: few - 1], before[few - 1 :] = ordered[: few - 1] - ordered[0], ordered[few - 1 : -1] - ordered[:-few]
    after[-few + 1 :], after[: -few + 1] = ordered[-1] - ordered[-few + 1 :], ordered[few:] - ordered[1 : -few + 1]
    usual = np.maximum(before, after) / (few - 1)
    if not (gaps > FAR * usual).any():
        return [ordered]
    # Of what is on a grid, as whole numbers and their ratios are, many draws are the same, and all gaps may be alike.
    long = np.flatnonzero(gaps > FAR * np.maximum(usual, np.median(gaps[gaps > 0])))
    found = np.split(ordered, long + 1)
    return [part for part in found if part.size >= few] or [ordered]

"""From noisy numbers to answers with their uncertainty."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.accountant import Noise
from dpnotebook.privacy.noise import integer_variance
from dpnotebook.privacy.tails import checked_confidence, kappa, laplace_quantile
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.quantiles import quantiles
from dpnotebook.sql.aggregates.ratios import mean, variance


def estimate(measuring: Measuring, noisy: NDArray[np.int64], confidence: float) -> list[Estimates]:
    """Return the answers of every aggregate, with standard errors and intervals.

    Parameters
    ----------
    measuring
        What was measured.
    noisy
        The noisy numbers of the groups that are shown, shape (groups, measured).
    confidence
        Probability with which an interval holds what would have been answered without noise. What bounds cut off is
        not in it.

    Returns
    -------
    One for each aggregate, of shape (groups,); arrays of quantiles (groups, quantiles). NaN where its bounds were not
    found.
    """
    numbers = np.asarray(noisy, dtype=np.int64).reshape(-1, measuring.measured)
    return [_part(measuring, part, numbers, confidence) for part in measuring.parts]


def _part(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64], confidence: float) -> Estimates:
    if not part.found:
        shape = (len(noisy), len(part.fractions)) if part.array else (len(noisy),)
        return Estimates(*(np.full(shape, math.nan) for _ in range(4)))
    match part.kind:
        case "count" | "units" | "sum":
            return _total(measuring, part, noisy, confidence)
        case "average":
            return mean(measuring, part, noisy, confidence)
        case "variance" | "deviation":
            return variance(measuring, part, noisy, confidence)
        case "quantiles":
            return quantiles(measuring, part, noisy, confidence)


def _total(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64], confidence: float) -> Estimates:
    block = measuring.blocks[part.blocks[0]]
    value = noisy[:, measuring.place(part.blocks[0]).start].astype(np.float64) * float(part.step)
    std_error = math.sqrt(integer_variance(measuring.noise, block.scale)) * float(part.step)
    width = whole_width(measuring.noise, block.scale, confidence) * float(part.step)
    return Estimates(value, np.full(value.size, std_error), value - width, value + width)


def whole_width(noise: Noise, scale: Fraction, confidence: float) -> int:
    """Return the least k with P(|V| <= k) >= confidence, V integer noise."""
    if noise == "laplace":
        return laplace_quantile(scale, confidence)
    # |round(x)| <= k where |x| < k + 1/2.
    return max(0, math.ceil(kappa(checked_confidence(confidence), noise) * float(scale) - 0.5))

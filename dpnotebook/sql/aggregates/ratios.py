"""Means and variances from noisy sums and a noisy number of values.

Intervals hold for groups of any size: a ratio r is in the interval where the noisy sum less r times the noisy number
is no farther from zero than noise takes it (Fieller's theorem), which no linearisation stands behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.noise import integer_variance
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.strategy import Strategy

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Noisy number of values, sum of centred values and sum of their squares, in units of the half-width.

    Parameters
    ----------
    n, c, q
        Each of shape (groups,); q is empty for means.
    covariance
        Of their noise, the same in all groups; shape (2, 2) or (3, 3).
    """

    n: Floats
    c: Floats
    q: Floats
    covariance: Floats


def weights(measuring: Measuring, part: AggregateInput) -> tuple[Floats, Floats]:
    """Return how moments follow from the noisy numbers of an aggregate, and the variances of those.

    Returns
    -------
    Weights of shape (moments, numbers), moments being n, c and q in units of the half-width; variances (numbers,).
    """
    blocks = [measuring.blocks[i] for i in part.blocks]
    columns = sorted({column for block in blocks for column in block.columns}, key=lambda i: _statistic(measuring, i))
    rows, scales = [], []
    for block in blocks:
        assert not isinstance(block.combine, Strategy)
        for row in block.combine:
            entry = dict(zip(block.columns, row, strict=True))
            rows.append([float(entry.get(column, 0)) for column in columns])
            scales.append(integer_variance(measuring.noise, block.scale))
    half = float(part.step) * part.half
    worth = np.array([1.0, float(part.step) / half, float(part.square) / half**2])[: len(columns)]
    inverse = np.linalg.inv(np.array(rows) / worth)  # well conditioned once all is in units of the half-width
    return inverse, np.array(scales)


def moments(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64]) -> Moments:
    """Return the moments that noisy numbers say.

    Parameters
    ----------
    measuring, part
        What was measured, and the aggregate: a mean or a variance.
    noisy
        Noisy numbers of all blocks, shape (groups, measured).
    """
    numbers = np.concatenate([noisy[:, measuring.place(i)] for i in part.blocks], axis=1).astype(float)
    inverse, variances = weights(measuring, part)
    found = inverse @ numbers.T
    q = found[2] if len(found) > 2 else np.zeros(0)
    return Moments(found[0], found[1], q, (inverse * variances) @ inverse.T)


def mean(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64], confidence: float) -> Estimates:
    """Return means with intervals, shape (groups,)."""
    assert part.bounds is not None
    low, high = map(float, part.bounds)
    middle, half = (low + high) / 2, float(part.step) * part.half
    found = moments(measuring, part, noisy)
    limit = (high - low) / 2 / half  # of the mean, in units of the half-width, which was rounded up to whole steps
    reach = kappa(confidence, measuring.noise)
    known = found.n > 0
    ratio = np.where(known, found.c / np.where(known, found.n, 1.0), 0.0).clip(-limit, limit)
    lower, upper = fieller(found.c, found.n, found.covariance[[1, 0]][:, [1, 0]], reach, -limit, limit)
    weight = np.stack([-ratio, np.ones_like(ratio)])
    spread = np.sqrt(np.einsum("ig,ij,jg->g", weight, found.covariance[:2, :2], weight))
    # A mean between bounds errs by no more than any guess between them would.
    std_error = np.minimum(np.where(known, spread / np.where(known, found.n, 1.0), np.inf), limit)
    return Estimates(middle + half * ratio, half * std_error, middle + half * lower, middle + half * upper)


def variance(measuring: Measuring, part: AggregateInput, noisy: NDArray[np.int64], confidence: float) -> Estimates:
    """Return variances, or standard deviations, with intervals, shape (groups,).

    The variance is q / n - (c / n)^2. About the noisy mean m the sum of squares is q - 2 m c + m^2 n, and its ratio to
    n, for which the interval holds, is the variance but for the square of the error of m: by the farthest that m may
    err, the interval is made wider.
    """
    assert part.bounds is not None
    half = float(part.step) * part.half
    most = (float(part.bounds[1] - part.bounds[0]) / 2 / half) ** 2
    found = moments(measuring, part, noisy)
    reach = kappa(confidence, measuring.noise)
    known = found.n > 0
    n = np.where(known, found.n, 1.0)
    m = np.where(known, found.c / n, 0.0).clip(-1, 1)
    about = found.q - 2 * m * found.c + m * m * found.n
    value = np.where(known, about / n, 0.0).clip(0, most)
    lines = np.stack([m * m, -2 * m, np.ones_like(m)])  # of n, c and q
    of_about = np.einsum("ig,ij,jg->g", lines, found.covariance, lines)
    with_n = np.einsum("ig,i->g", lines, found.covariance[:, 0])
    covariance = np.array([[of_about, with_n], [with_n, np.full_like(m, found.covariance[0, 0])]])
    lower, upper = fieller(about, found.n, covariance, reach, 0.0, most)
    low_mean, high_mean = fieller(found.c, found.n, found.covariance[[1, 0]][:, [1, 0]], reach, -1.0, 1.0)
    slack = np.maximum(high_mean - m, m - low_mean) ** 2
    lower, upper = np.maximum(lower - slack, 0.0), np.minimum(upper + slack, most)
    spread = np.sqrt(np.maximum(of_about - 2 * value * with_n + value**2 * found.covariance[0, 0], 0.0))
    std_error = np.minimum(np.where(known, spread / n, np.inf), most)
    if not part.population:
        sample = np.maximum(n, 2) / (np.maximum(n, 2) - 1)
        value, lower, upper, std_error = (sample * each for each in (value, lower, upper, std_error))
    if part.kind == "deviation":
        # By the slope of the root, and by the root of the error where the variance is no more than that.
        std_error = std_error / np.sqrt(np.maximum(4 * value, std_error))
        value, lower, upper = np.sqrt(value), np.sqrt(lower), np.sqrt(upper)
        return Estimates(half * value, half * std_error, half * lower, half * upper)
    return Estimates(half**2 * value, half**2 * std_error, half**2 * lower, half**2 * upper)


def fieller(x: Floats, n: Floats, covariance: Floats, reach: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the ratios r between low and high with |x - r n| at most `reach` standard deviations of its noise.

    Parameters
    ----------
    x, n
        Noisy numerator and denominator, shape (groups,); the exact denominator is not negative.
    covariance
        Of their noise, shape (2, 2) or (2, 2, groups).
    reach
        How many standard deviations.
    low, high
        What the ratio lies between. Where n may be zero the interval is all of it.
    """
    square = reach * reach
    a = n * n - square * covariance[1, 1]
    b = x * n - square * covariance[0, 1]
    c = x * x - square * covariance[0, 0]
    known = (a > 0) & (n > 0)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    safe = np.where(known, a, 1.0)
    lower = np.where(known, (b - root) / safe, low).clip(low, high)
    upper = np.where(known, (b + root) / safe, high).clip(low, high)
    return lower, upper


def _statistic(measuring: Measuring, column: int) -> int:
    """Return the order of a column among moments: number, centred sum, squares."""
    start = 0
    for component in measuring.components:
        if start <= column < start + component.width:
            return {"values": 0, "average": 1, "centred": 1, "square": 2}[component.statistic]
        start += component.width
    raise ValueError(f"there is no column {column}")


def expected_mean(measuring: Measuring, part: AggregateInput, rows: float) -> float:
    """Return the standard error of a mean of `rows` values half-way between the middle and a bound."""
    inverse, variances = weights(measuring, part)
    covariance = (inverse * variances) @ inverse.T
    line = np.array([-0.5, 1.0])
    return float(part.step) * part.half * math.sqrt(line @ covariance @ line) / rows


def expected_variance(measuring: Measuring, part: AggregateInput, rows: float) -> float:
    """Return the standard error of a variance of `rows` values: a mean half-way to a bound, a spread of a quarter."""
    inverse, variances = weights(measuring, part)
    covariance = (inverse * variances) @ inverse.T
    m, v = 0.5, 0.25**2
    line = np.array([m * m - v, -2 * m, 1.0])
    half = float(part.step) * part.half
    error = math.sqrt(line @ covariance @ line) / rows
    if part.kind == "deviation":
        return half * error / (2 * math.sqrt(v))
    return half**2 * error

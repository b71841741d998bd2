"""Groups that the data itself names: how many noisy units make one safe to show.

A group of one unit must stay hidden but for a probability of delta, over all groups that the unit may have to itself.
Probabilities are those of integer noise, exactly: P(V >= m) = a^m / (1 + a) of discrete Laplace noise, a = exp(-1 / b),
and P(N(0, sigma^2) >= m - 1/2) of rounded Gaussian noise.

Source: Wilson et al., section 4.2.3 (minimum user threshold), with the exact law in place of the continuous one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.laws import Noise, law_of

# Under "l2" a unit in k groups weighs 1 / sqrt(k) in each, in whole parts of a 64th: in more than 64^2 groups it weighs
# nothing, which is what bounds the number of groups that it may have to itself.
PARTS = 64


@lru_cache(maxsize=1024)
def threshold(noise: Noise, scale: Fraction, groups: int, delta: Fraction) -> int:
    """Return the least tau such that groups of one unit reach it with a probability of at most delta, all together.

    Parameters
    ----------
    noise, scale
        The noise on the number of units.
    groups
        How many groups one unit may have to itself.
    delta
        Probability with which one of them may show, above 0 and below 1.

    Returns
    -------
    tau: a group is shown where its units and their noise are together at least tau.

    Raises
    ------
    AccuracyError
        If delta is not in its range.
    """
    return weighted_threshold(noise, scale, ((groups, 1),), delta)


@lru_cache(maxsize=1024)
def weighted_threshold(noise: Noise, scale: Fraction, spread: tuple[tuple[int, int], ...], delta: Fraction) -> int:
    """Return the least tau that holds for every way in which one unit may weigh in groups of its own.

    Parameters
    ----------
    noise, scale
        The noise on the weighted number of units.
    spread
        Pairs of a number of groups and the unit's weight in each of them.
    delta
        Probability with which one of its groups may show, above 0 and below 1.

    Raises
    ------
    AccuracyError
        If delta is not in its range.
    """
    if not 0 < delta < 1:
        raise AccuracyError("groups that are not declared need a delta above 0 and below 1")
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    taus = []
    for groups, weight in spread:
        if groups < 1 or weight < 1:
            raise ValueError("a unit weighs at least one step in at least one group")
        taus.append(weight + law_of(noise).least_beyond(scale, _one_of(log_delta, groups)))
    return max(taus)


@lru_cache(maxsize=1)
def clipped_spread() -> tuple[tuple[int, int], ...]:
    """Return in how many groups a unit of norm 1 may weigh how much, in parts of a 64th: most groups of each weight."""
    most = {math.floor(PARTS / math.sqrt(k) + 1e-9): k for k in range(1, PARTS**2 + 1)}
    return tuple((groups, weight) for weight, groups in most.items() if weight > 0)


def units_needed(noise: Noise, scale: Fraction, tau: int, probability: float = 0.95) -> int:
    """Return how many units a group needs to reach tau with some probability, at least one half."""
    return tau - 1 + law_of(noise).least_beyond(scale, math.log1p(-probability))


def _one_of(log_delta: float, groups: int) -> float:
    """Return the log of p with 1 - (1 - p)^groups = delta."""
    if log_delta < -30:  # delta / groups, and never more
        return log_delta - math.log(groups)
    return math.log(-math.expm1(math.log1p(-math.exp(log_delta)) / groups))

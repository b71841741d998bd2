"""How far discrete Laplace noise reaches: one draw exactly, and what sums of draws have at most."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.privacy.noise import checked_confidence, checked_scale

THIRD_ORDER = 0.95, 0.999  # confidences at which the third order was compared with exact quantiles
HALVINGS = 60  # of an interval: more than the 53 bits that a float has
WITHIN = 1 + 1e-12  # an error that is k steps but for floating point means k steps
SCALE_BITS = 40  # of a scale: short fractions in the ledger, and well above what floating point may have lost

Floats = NDArray[np.float64]


def laplace_quantile(scale: object, confidence: float) -> int:
    """Return the least k with P(|V| <= k) >= confidence, V discrete Laplace: P(|V| > k) = 2 a^(k + 1) / (1 + a)."""
    b, beta = float(checked_scale(scale)), 1 - checked_confidence(confidence)
    return max(0, math.ceil(b * (math.log(2 / beta) - math.log1p(math.exp(-1 / b))) - 1))


def laplace_scale_for(error: float, confidence: float) -> Fraction:
    """Return the largest b, rounded down, whose discrete Laplace noise has |V| <= error at this confidence.

    Parameters
    ----------
    error
        Half-width to keep, in steps of the noise; 0 or more.
    confidence
        Probability with which to keep it.

    Raises
    ------
    AccuracyError
        If the error or the confidence is out of its range.
    """
    if not (math.isfinite(error) and error >= 0):
        raise AccuracyError(f"error must be a finite number above 0, not {shorten(error)}")
    beta = 1 - checked_confidence(confidence)
    k = math.floor(error * WITHIN)

    def excess(x: float) -> float:  # log of P(|V| > k) / beta at b = 1 / x
        return math.log(2 / beta) - (k + 1) * x - math.log1p(math.exp(-x))

    low, high = math.log(1 / beta) / (k + 1), math.log(2 / beta) / (k + 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    mantissa, exponent = math.frexp(1 / high)
    return Fraction(math.floor(mantissa * 2**SCALE_BITS) - 1) * Fraction(2) ** (exponent - SCALE_BITS)


@lru_cache(maxsize=1024)
def sum_quantile(confidence: float) -> float:
    """Return the largest half-width, in standard deviations, of sums of fine Laplace noise other than the normal limit.

    Of a single draw it is ln(1 / beta) / sqrt 2; in between that and the limit (beta near 0.093), that of two equal
    draws; a search over weights and scales found no other sum above these three.
    """
    beta = 1 - checked_confidence(confidence)
    return max(math.log(1 / beta) / math.sqrt(2), _two_equal(beta))


def reach_of_sums(confidence: float, peaks: Floats) -> Floats:
    """Return half-widths, in standard deviations, that sums of fine Laplace noise have at most, by their fourth powers.

    To third order (Cornish and Fisher 1938) the quantile of a sum is z + (z^3 - 3 z) k / 24 for its excess kurtosis k,
    which is three times sum w^4 / (sum w^2)^2. From 95% to 99.9% no sum was found that is more than 0.07% above it, in
    a search over weights; at other confidences the largest of all sums is returned.

    Parameters
    ----------
    confidence
        That of the interval.
    peaks
        Of each sum, sum w^4 / (sum w^2)^2 of its weights, or more: 1 of a single draw.
    """
    from scipy.special import ndtri

    normal = float(ndtri(0.5 + checked_confidence(confidence) / 2))
    most = max(normal, sum_quantile(confidence))
    if not THIRD_ORDER[0] <= confidence <= THIRD_ORDER[1]:
        return np.full(peaks.shape, most)
    return np.minimum(normal + peaks * (normal**3 - 3 * normal) / 8, most)


def grid_excess(confidence: float, weight: float, scale: float) -> float:
    """Return by how much more than kappa standard deviations a sum of Laplace draws reaches at most: 1/2 step or so.

    At epsilons of 1 and more per draw it matters: kappa alone covers 93% in place of 95% at b = 1, and 76% in place of
    90% at b = 1/2. For a single draw the bound is a theorem, ln 2 - ln(1 + exp(-x)) <= x / 2 and 1 / sinh(y) >= 1 / y -
    y / 6 with x = 2 y = 1 / b; a search over mixtures found nothing above it.

    Parameters
    ----------
    confidence
        That of the interval.
    weight
        The largest weight of a draw.
    scale
        The least scale of a draw that has a weight.
    """
    return weight * (0.5 + math.log(1 / (1 - checked_confidence(confidence))) / (24 * scale))


def _two_equal(beta: float) -> float:
    """Return h / (2 b) with P(|L1 + L2| > h) = beta, L1 and L2 Laplace of scale b: exp(-x) (1 + x / 2), x = h / b."""
    low, high = 0.0, 2 * math.log(2 / beta)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(-middle) * (1 + middle / 2) > beta else (low, middle)
    return high / 2

"""How far noise reaches: half-widths of intervals of single draws and of weighted sums of draws.

Laplace noise is on the integers, and its half-widths are those of the discrete law. Gaussian noise is drawn on a grid
of 2^10 steps a sigma or finer, so its half-widths are those of the normal law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.privacy.accountant import Noise
from dpnotebook.privacy.laplace_sums import combined_quantiles
from dpnotebook.privacy.noise import checked_scale

Floats = NDArray[np.float64]

COMPUTED = 1.003  # by how much a half-width that is computed from a law may pass the exact one
MOST_CONFIDENCE = 1 - 1e-9  # beyond it 1 - confidence has too few digits left
HALVINGS = 60  # of an interval: more than the 53 bits that a float has
WITHIN = 1 + 1e-12  # an error that is k steps but for floating point means k steps
SCALE_BITS = 40  # of a scale: short fractions in the ledger, and well above what floating point may have lost


def half_widths(weights: ArrayLike, scale: object, noise: Noise, confidence: float, step: float = 1.0) -> Floats:
    """Return for each row w of weights the h with P(step |sum_j w_j V_j| <= h) >= confidence, V_j independent noise.

    Parameters
    ----------
    weights
        What each draw counts for in each answer, shape (answers, draws).
    scale
        Scale of the noise: b of the discrete Laplace law on the integers, or sigma of the Gaussian law. One for all
        draws, or a sequence of one a draw.
    noise
        Which law: "laplace" or "gaussian".
    confidence
        Probability that the interval covers, above 0 and at most 1 - 10^-9.
    step
        What one unit of the noise is worth.

    Returns
    -------
    float array of shape (answers,). One Laplace draw: its exact quantile. Several: by inversion of the characteristic
    function, within 0.3% of the exact quantile, or of two standard deviations where that is more (1.3% where scales
    are below a third of a step), and where the sum lives on a lattice the exact quantile itself.

    Raises
    ------
    AccuracyError
        If the scale or the confidence is out of its range.
    ValueError
        If the weights are not a finite matrix, or the scales are not one a draw.
    """
    size = np.abs(np.asarray(weights, dtype=float))
    if size.ndim != 2 or not np.all(np.isfinite(size)):
        raise ValueError("weights must be a matrix of finite numbers, one row per answer")
    confidence = checked_confidence(confidence)
    scales = _scales(scale, size.shape[1])
    largest = size.max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    relative = size / unit[:, None]
    # Many draws mostly have one scale between them, and a fraction takes long to hash.
    known = {id(each): each for each in scales}
    places = {key: place for place, key in enumerate(known)}
    which = np.array([places[id(each)] for each in scales], dtype=np.intp)
    widths = np.array([float(each) for each in known.values()])[which]
    if noise == "gaussian":
        width = kappa(confidence, "gaussian") * np.linalg.norm(relative * widths, axis=1)
    else:
        single = np.array([float(laplace_quantile(each, confidence)) for each in known.values()])[which]
        width = (relative * single).max(axis=1, initial=0.0)
        several = np.flatnonzero(np.count_nonzero(relative, axis=1) > 1)
        if several.size:
            width[several] = combined_quantiles(relative[several], widths, confidence)
    return np.asarray(width * unit * step)


def _scales(scale: object, draws: int) -> list[Fraction]:
    """Return the scale of every draw; equal ones are one object."""
    if not isinstance(scale, (Sequence, np.ndarray)) or isinstance(scale, str):
        return [checked_scale(scale)] * draws
    if len(scale) != draws:
        raise ValueError(f"there are {len(scale)} scales for {draws} draws; give one scale, or one a draw")
    known: dict[Fraction, Fraction] = {}
    return [known.setdefault(one, one) for one in map(checked_scale, scale)]


def laplace_quantile(scale: object, confidence: float) -> int:
    """Return the least k with P(|V| <= k) >= confidence, V discrete Laplace: P(|V| > k) = 2 a^(k + 1) / (1 + a)."""
    b, beta = float(checked_scale(scale)), 1 - checked_confidence(confidence)
    return max(0, math.ceil(b * (math.log(2 / beta) - math.log1p(math.exp(-1 / b))) - 1))


def whole_width(noise: Noise, scale: Fraction, confidence: float) -> int:
    """Return the least k with P(|V| <= k) >= confidence, V integer noise."""
    if noise == "laplace":
        return laplace_quantile(scale, confidence)
    # |round(x)| <= k where |x| < k + 1/2.
    return max(0, math.ceil(kappa(checked_confidence(confidence), noise) * float(scale) - 0.5))


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
def kappa(confidence: float, noise: Noise) -> float:
    """Return the largest half-width, in standard deviations, that any weighted sum of draws has at this confidence.

    For planning, when the weights are not known yet. Gaussian: the normal quantile. Laplace: the largest of a single
    draw's ln(1 / beta) / sqrt 2, the normal limit's quantile and, in between (beta near 0.093), that of two equal
    draws; a search over weights and scales found no other sum above them. It is a statement about fine noise: on the
    integers a half-width is a whole number of steps, which adds up to `grid_excess`.
    """
    from scipy.special import ndtri

    beta = 1 - checked_confidence(confidence)
    normal = -float(ndtri(beta / 2))
    return normal if noise == "gaussian" else max(normal, math.log(1 / beta) / math.sqrt(2), _two_equal(beta))


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


def farthest(std_error: float, noise: Noise, confidence: float, step: float, scale: float) -> float:
    """Return a half-width that no combination of draws of this standard error passes, whatever its weights up to one.

    Parameters
    ----------
    std_error
        Of the combination, in the answer's units.
    noise, confidence
        The law of the draws, and the probability to keep.
    step
        What one unit of the noise is worth in the answer's units.
    scale
        The least scale of a draw, in steps.
    """
    return float(farthest_of(np.array([std_error]), noise, confidence, step, scale)[0])


def farthest_of(std_errors: Floats, noise: Noise, confidence: float, step: float | Floats, scale: float) -> Floats:
    """Return `farthest` of each of several combinations, shape (answers,); `step` is one number, or one an answer.

    Where no draw counts, as for a group that a filter excludes, nothing reaches anywhere.
    """
    if noise == "gaussian":
        return std_errors * kappa(confidence, noise)
    reach = std_errors * (kappa(confidence, noise) * COMPUTED) + step * grid_excess(confidence, 1.0, scale)
    return np.where(std_errors == 0, 0.0, reach)


def spread_within(half_width: float, noise: Noise, confidence: float, step: float, scale: float) -> float:
    """Return the largest standard error whose `farthest` reach is at most `half_width`; 0 where there is none."""
    if noise == "gaussian":
        return half_width / kappa(confidence, noise)
    return max(half_width - grid_excess(confidence, step, scale), 0.0) / (kappa(confidence, noise) * COMPUTED)


def checked_confidence(confidence: object) -> float:
    """Return a confidence as a float.

    Raises
    ------
    AccuracyError
        If it is not a number above 0 and at most 1 - 10^-9.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float, np.floating, Fraction)):
        raise AccuracyError(f"confidence must be a number between 0 and 1, such as 0.95, not {shorten(confidence)}")
    value = float(confidence)
    if not 0 < value <= MOST_CONFIDENCE:
        hint = "; write 95% as 0.95" if 1 < value <= 100 else ""
        raise AccuracyError(f"confidence must lie between 0 and 0.999999999, not {shorten(confidence)}{hint}")
    return value


def _two_equal(beta: float) -> float:
    """Return h / (2 b) with P(|L1 + L2| > h) = beta, L1 and L2 Laplace of scale b: exp(-x) (1 + x / 2), x = h / b."""
    low, high = 0.0, 2 * math.log(2 / beta)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if math.exp(-middle) * (1 + middle / 2) > beta else (low, middle)
    return high / 2

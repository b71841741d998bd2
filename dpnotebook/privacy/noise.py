"""What is drawn, with the exact mass functions and variances; what the two laws decide besides is in `laws`.

Discrete Laplace makes integer counts purely private: P(V = k) = tanh(1 / 2b) exp(-|k| / b). Rounded Gaussian is the
Gaussian mechanism followed by rounding, hence exactly Gaussian-DP: P(V = k) = P(k - 1/2 < N(0, sigma^2) < k + 1/2).
"""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.errors import AccuracyError, shorten
from dpnotebook.privacy.randomness import Source, random_bytes
from dpnotebook.privacy.sampler import RoundedGaussian, discrete_laplace_sampler

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_SCALE = 2**53  # above it the noise and its sums would leave the 64-bit integers
LEAST_SCALE = Fraction(1, 2**53)  # below it there is no noise to speak of
MOST_CONFIDENCE = 1 - 1e-9  # beyond it 1 - confidence has too few digits left


def discrete_laplace(scale: object, size: int, source: Source | None = None) -> Integers:
    """Draw discrete Laplace noise: P(k) proportional to exp(-|k| / scale), exactly.

    Parameters
    ----------
    scale
        b = sensitivity / epsilon in steps, above 0 and at most 2^53; honoured exactly, which refinement rests on.
    size
        How many independent draws.
    source
        Where random bytes come from; the operating system when None.

    Returns
    -------
    int64 array of shape (size,).

    Raises
    ------
    AccuracyError
        If the scale or the size is out of its range.
    """
    return discrete_laplace_sampler(checked_scale(scale)).draw(_size(size), source or random_bytes)


def rounded_gaussian(sigma: object, size: int, source: Source | None = None) -> Integers:
    """Draw round(N(0, sigma^2)), exactly.

    Parameters
    ----------
    sigma
        Standard deviation before rounding in steps, above 0 and at most 2^53; honoured exactly.
    size
        How many independent draws.
    source
        Where random bytes come from; the operating system when None.

    Returns
    -------
    int64 array of shape (size,).

    Raises
    ------
    AccuracyError
        If sigma or the size is out of its range.
    """
    return RoundedGaussian(checked_scale(sigma)).draw(_size(size), source or random_bytes)


def laplace_variance(scale: object) -> float:
    """Return the variance of the discrete Laplace law: 2 a / (1 - a)^2, a = exp(-1 / scale)."""
    x = 1 / float(checked_scale(scale))
    return 2 * math.exp(-x) / math.expm1(-x) ** 2


def gaussian_variance(sigma: object) -> float:
    """Return the variance of round(N(0, sigma^2)): sigma^2 + 1/12 but for a term below exp(-2 pi^2 sigma^2)."""
    s = float(checked_scale(sigma))
    if s >= 2:  # the term is below 10^-33
        return s * s + 1 / 12
    from scipy.special import erfc

    k = np.arange(100)
    return float(np.sum((2 * k + 1) * erfc((k + 0.5) / (s * math.sqrt(2)))))


def laplace_log_mass(k: ArrayLike, scale: object) -> Floats:
    """Return log P(V = k) of the discrete Laplace law, shape of k."""
    b = float(checked_scale(scale))
    return np.asarray(math.log(math.tanh(1 / (2 * b))) - np.abs(np.asarray(k, dtype=float)) / b)


def laplace_mass(k: ArrayLike, scale: object) -> Floats:
    """Return P(V = k) of the discrete Laplace law, shape of k."""
    return np.exp(laplace_log_mass(k, scale))


def checked_scale(scale: object) -> Fraction:
    """Return a noise scale as the exact number it is.

    Raises
    ------
    AccuracyError
        If it is not a number from 2^-53 to 2^53.
    """
    if type(scale) is Fraction:  # what was measured has been checked before, and is looked at by every plan
        return _checked_fraction(scale.numerator, scale.denominator)
    try:
        if isinstance(scale, bool) or not isinstance(scale, (Real, Decimal)):
            raise TypeError  # noqa: TRY301 - one message for all that is not a number
        exact = Fraction(scale if isinstance(scale, (int, Fraction, Decimal)) else float(scale))
    except (TypeError, ValueError, OverflowError):
        raise AccuracyError(f"the scale of noise must be a finite number above 0, not {shorten(scale)}") from None
    return _within_range(exact, scale)


@lru_cache(maxsize=1 << 14)
def _checked_fraction(numerator: int, denominator: int) -> Fraction:
    exact = Fraction(numerator, denominator)
    return _within_range(exact, exact)


def _within_range(exact: Fraction, said: object) -> Fraction:
    """Return a scale that noise can have; `said` is how it was written."""
    if exact <= 0:
        raise AccuracyError(f"the scale of noise must be a finite number above 0, not {shorten(said)}")
    if exact > MOST_SCALE:
        raise AccuracyError(
            "this accuracy needs noise of more than 2^53 steps, more than whole numbers can carry; "
            "ask for a larger epsilon or a coarser granularity"
        )
    if exact < LEAST_SCALE:
        raise AccuracyError("this accuracy leaves no noise to speak of, and so no privacy; ask for a smaller epsilon")
    return exact


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


def _size(size: object) -> int:
    try:
        count = operator.index(size)  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if count < 0 or isinstance(size, bool):
        raise AccuracyError(f"the number of draws must be a whole number from 0, not {shorten(size)}")
    return count

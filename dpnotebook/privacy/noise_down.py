"""Lossless refinement of discrete Laplace noise: less noise on a number, for the price of the lesser noise alone.

With a = exp(-1 / b), discrete Laplace noise of scale b1 has the law of V2 + W, V2 of scale b2 < b1 and W independent of
it: zero with probability (a2 / a1) ((1 - a1) / (1 - a2))^2, else discrete Laplace of scale b1 again. So V2 can be drawn
given V1 = V2 + W, and the first answer is then the second with noise added: both together tell what the second tells.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.exact import Bounds, exp_minus
from dpnotebook.privacy.noise import checked_scale
from dpnotebook.privacy.randomness import Source, random_bytes
from dpnotebook.privacy.sampler import CHUNK, MOST_PLACES, Coin, Geometric

Integers = NDArray[np.int64]

# Scales are at most 2^53, so that what the probabilities are divided by is above 2^-53 = 10^-16 and loses no more.
_MORE_DIGITS = 20


class Refinement:
    """The law of V2 given V1: four coins and two geometric numbers, none of which depends on V1.

    Given V1 = v >= 0, the masses of V2 are, but for one factor, (a1 a2)^k at -k, (a2 / a1)^u at u from 0 to v,
    (a2 / a1)^v (a1 a2)^k at v + k, and what is left at v.

    Parameters
    ----------
    before, after
        The scales b1 > b2.
    """

    def __init__(self, before: Fraction, after: Fraction) -> None:
        first, second = 1 / before, 1 / after
        self.other_side = Coin(lambda digits: _other_side(first, second, digits))
        self.beyond = Coin(lambda digits: _beyond(first, second, digits))
        self.between = Geometric(second - first)
        self.outside = Geometric(first + second)

    def draw(self, noise: Integers, source: Source) -> Integers:
        """Return a draw of V2 for each V1, shape of `noise`, which has one axis and entries below 2^61 in size."""
        drawn = np.empty_like(noise)
        for start in range(0, noise.size, CHUNK):
            part = slice(start, start + CHUNK)
            drawn[part] = self._draw(noise[part], source)
        return drawn

    def _draw(self, noise: Integers, source: Source) -> Integers:
        size = np.abs(noise)
        found = np.where(self.other_side.toss(size.size, source), -1, size)  # -1: at least one step on the other side
        same = np.flatnonzero(found >= 0)
        place = self.between.draw(same.size, source)
        inside = place <= size[same]
        found[same[inside]] = place[inside]
        left = same[~inside]
        further = left[self.beyond.toss(left.size, source)]
        found[further] += 1
        outside = np.concatenate([np.flatnonzero(found == -1), further])
        found[outside] += self.outside.draw(outside.size, source) * np.where(found[outside] < 0, -1, 1)
        # Given V1 = 0 the law is symmetric, whichever side is called the other.
        return np.where(noise < 0, -found, found)


def refined_laplace(first: ArrayLike, before: object, after: object, source: Source | None = None) -> Integers:
    """Draw discrete Laplace noise of scale `after` given the noise of scale `before` that was drawn first, exactly.

    Let x be an integer, y1 = x + V1 recorded, V1 discrete Laplace of scale `before`. With V2 drawn here, y2 = x + V2
    has exactly the noise of scale `after`, and y1 and y2 together cost 1 / after, not 1 / before + 1 / after. Only the
    latest answer need be kept to refine further: given it, earlier ones say nothing more.

    Parameters
    ----------
    first
        V1 = y1 - x, integers of any shape. The law is right only if V1 was drawn at exactly the scale `before`, and x
        is the same number of the same data.
    before, after
        Scales of the discrete Laplace laws in steps, `after` less than `before`.
    source
        Where random bytes come from; the operating system when None.

    Returns
    -------
    int64 array V2, of the shape of `first`.

    Raises
    ------
    AccuracyError
        If a scale is out of its range, or `after` is not less than `before`.
    ValueError
        If `first` is not an array of integers below 2^61 in size.

    Source: the lossless gradual release of Laplace noise (Koufogiannis, Han and Pappas, "Gradual release of sensitive
    data under differential privacy", 2017), here for the discrete law; it does what Pioneer, section II-B (eq. 4), asks
    of its NoiseDown operator.
    """
    scales = checked_scale(before), checked_scale(after)
    if scales[1] >= scales[0]:
        raise AccuracyError(
            f"an answer with noise of scale {float(scales[0]):g} can only be refined to less noise, not to "
            f"{float(scales[1]):g}; the recorded answer is at least as accurate as what is asked"
        )
    noise = np.asarray(first)
    if not np.issubdtype(noise.dtype, np.integer):
        raise ValueError(f"noise to refine must be whole numbers, not {noise.dtype}")
    if noise.size and not -(1 << MOST_PLACES) < int(noise.min()) <= int(noise.max()) < 1 << MOST_PLACES:
        raise ValueError("noise to refine must be below 2^61 in size: was another answer subtracted?")
    flat = noise.astype(np.int64).reshape(-1)
    return _refinement(*scales).draw(flat, source or random_bytes).reshape(noise.shape)


@lru_cache(maxsize=256)
def _refinement(before: Fraction, after: Fraction) -> Refinement:
    return Refinement(before, after)


def _other_side(first: Fraction, second: Fraction, digits: int) -> Bounds:
    """a1 a2 (1 - a2 / a1) / (1 - a2^2), of a = exp(-rate)."""
    return _share(first + second, second - first, 2 * second, digits)


def _beyond(first: Fraction, second: Fraction, digits: int) -> Bounds:
    """a1^2 (1 - a2 / a1) / (1 - a1 a2), of a = exp(-rate)."""
    return _share(2 * first, second - first, first + second, digits)


def _share(factor: Fraction, part: Fraction, whole: Fraction, digits: int) -> Bounds:
    """exp(-factor) (1 - exp(-part)) / (1 - exp(-whole)): in (0, 1) where part <= whole."""
    (low, high), (less, more), (least, most) = (exp_minus(x, digits + _MORE_DIGITS) for x in (factor, part, whole))
    return low * max(1 - more, Fraction(0)) / (1 - least), high * (1 - less) / (1 - most)

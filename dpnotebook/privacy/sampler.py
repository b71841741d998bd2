"""Exact vectorised samplers of integer noise.

Every draw compares uniform random bits with a probability. The leading bits decide nearly all draws, in numpy; where
they tie with the threshold, further bits are drawn and compared with the probability computed to as many digits as
it takes. So the laws are exact whatever floating point does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.exact import Bounds, exp_minus, normal_beyond
from dpnotebook.privacy.randomness import LazyUniform, Source, signs, words

Integers = NDArray[np.int64]

CHUNK = 1 << 16  # draws at a time: the working arrays stay in the cache
MOST_PLACES = 61  # binary digits of a geometric number, so that sums stay 64-bit integers
_LEAD, _NEXT = 16, 64  # bits compared at once, and on a tie
_FINE = 20  # a Gaussian is inverted to blocks of sigma / 2^20 or more, where 53 bits leave few draws undecided
_NEAR = 2.0**-42  # 100 times what float64 and scipy.special.ndtri are off by (2e-15 sigma (1 + |z|), by 50 digits)
_TAIL = 1 << 43  # of 2^63: below it the known bits are too few for that margin
_NEAR_COIN = 2.0**-40  # a coin this near the float that decides it is decided again, with all its digits
_RARE_DIGITS = 12  # a geometric number has a digit beyond those drawn with a probability of exp(-12)


class Coin:
    """Heads with a probability known to any number of digits.

    Parameters
    ----------
    bounds
        Takes a number of decimal digits and returns bounds on the probability, about 10^-digits apart or less.

    Attributes
    ----------
    leading
        The first 80 bits of the probability, as a whole number.
    """

    def __init__(self, bounds: Callable[[int], Bounds]) -> None:
        self._bounds = bounds
        self.leading = _leading_bits(bounds, _LEAD + _NEXT)
        self._lead = np.uint16(self.leading >> _NEXT)
        self._next = np.uint64(self.leading & ((1 << _NEXT) - 1))

    def toss(self, count: int, source: Source) -> NDArray[np.bool_]:
        """Return `count` independent tosses, True for heads, shape (count,)."""
        lead = words(source, count, np.uint16)
        heads: NDArray[np.bool_] = lead < self._lead
        ties = np.flatnonzero(lead == self._lead)
        if ties.size:
            more = words(source, ties.size, np.uint64)
            heads[ties] = more < self._next
            for i in np.flatnonzero(more == self._next):
                heads[ties[i]] = LazyUniform(self.leading, _LEAD + _NEXT, source).below(self._bounds)
        return heads


class Geometric:
    """P(G = k) = (1 - r) r^k for k >= 0, r = exp(-rate).

    The binary digits of G are independent coins, heads with 1 / (1 + exp(2^j rate)), and what lies beyond the first
    J digits is 2^J times a geometric number again, nearly always 0. A number of 2^61 or more, which rates below
    10^-17 make likely, stays at least 2^61 but need not be G.
    """

    def __init__(self, rate: Fraction) -> None:
        self.cut = rate * 2**MOST_PLACES < _RARE_DIGITS
        self.places = MOST_PLACES if self.cut else max(0, math.ceil(math.log2(_RARE_DIGITS / rate)))
        self.digits = tuple(Coin(_digit(rate * 2**j)) for j in range(self.places))
        self.beyond = Coin(_power(rate * 2**self.places))

    def draw(self, count: int, source: Source) -> Integers:
        """Return `count` independent draws, shape (count,)."""
        drawn = np.zeros(count, dtype=np.int64)
        for place, coin in enumerate(self.digits):
            drawn |= coin.toss(count, source).astype(np.int64) << place
        more = np.flatnonzero(self.beyond.toss(count, source))
        while more.size:
            drawn[more] += 1 << self.places
            more = more[:0] if self.cut else more[self.beyond.toss(more.size, source)]
        return drawn


class DiscreteLaplace:
    """P(V = v) = tanh(1 / 2b) exp(-|v| / b): zero by one coin, else a fair sign and 1 + a geometric number.

    Parameters
    ----------
    scale
        b, positive.
    """

    def __init__(self, scale: Fraction) -> None:
        self.zero = Coin(_tanh_half(1 / scale))
        self.geometric = Geometric(1 / scale)

    def draw(self, size: int, source: Source) -> Integers:
        """Return `size` independent draws, shape (size,)."""
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, CHUNK):
            part = drawn[start : start + CHUNK]
            part[:] = self.geometric.draw(part.size, source) + 1
            part *= signs(source, part.size)
            part[self.zero.toss(part.size, source)] = 0
        return drawn


class RoundedGaussian:
    """round(N(0, sigma^2)): the normal quantile of a uniform number, found in blocks of integers, then within one.

    Blocks are single integers up to sigma = 2^20. Larger sigmas take blocks of 2^k integers, and a place in the block
    by rejection, which nearly always accepts because the density hardly changes over a block.

    Parameters
    ----------
    sigma
        Standard deviation before rounding, positive.
    """

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma
        self.shift = max(0, (sigma.numerator // sigma.denominator).bit_length() - _FINE - 1)
        self.block = 1 << self.shift

    def draw(self, size: int, source: Source) -> Integers:
        """Return `size` independent draws, shape (size,)."""
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, CHUNK):
            part = drawn[start : start + CHUNK]
            bits = words(source, part.size, np.uint64)
            part[:] = self.blocks(bits >> np.uint64(1), source)
            if self.shift:
                part[:] = self._within(part, source)
            part *= 1 - 2 * (bits & np.uint64(1)).astype(np.int64)
        return drawn

    def blocks(self, bits: NDArray[np.uint64], source: Source) -> Integers:
        """Return floor((|sigma Z| + 1/2) / block) where P(|Z| > z) is a uniform number of which 63 bits are known.

        Parameters
        ----------
        bits
            The leading 63 bits of uniform numbers, shape (count,).
        source
            Where further bits come from.
        """
        from scipy.special import ndtri

        sigma = float(self.sigma / self.block)
        z = -ndtri((bits + 0.5) * 2.0**-64)
        place = sigma * z + 0.5 / self.block
        found: Integers = np.floor(place).astype(np.int64)
        unsure = (np.abs(place - np.rint(place)) < _NEAR * (1 + sigma * (1 + z))) | (bits < _TAIL)
        for i in np.flatnonzero(unsure):
            found[i] = self._decide(LazyUniform(int(bits[i]), 63, source))
        return found

    def _decide(self, uniform: LazyUniform) -> int:
        from scipy.special import ndtri_exp

        while uniform.value < 1 << 60:  # enough leading bits for a first guess that is off by one at most
            uniform.extend()
        z = -ndtri_exp(math.log(uniform.value) - (uniform.bits + 1) * math.log(2))
        guess: int = max(0, math.floor(float(self.sigma / self.block) * z + 0.5 / self.block))
        while guess > 0 and not uniform.below(self._beyond(guess)):
            guess -= 1
        while uniform.below(self._beyond(guess + 1)):
            guess += 1
        return guess

    def _beyond(self, index: int) -> Callable[[int], Bounds]:
        q = (index * self.block - Fraction(1, 2)) / self.sigma
        return lambda digits: normal_beyond(q, digits)

    def _within(self, blocks: Integers, source: Source) -> Integers:
        found = blocks << self.shift
        sigma, half = float(self.sigma), 1 << (63 - self.shift)
        left = np.arange(blocks.size)
        while left.size:
            place, coin = words(source, left.size, np.uint64), words(source, left.size, np.uint64)
            # Distances from zero of the block's near edge and from that edge; block 0 begins at -1/2.
            first = blocks[left] == 0
            edge = np.where(first, 0.0, found[left] - 0.5)
            ahead = place * 2.0 ** (self.shift - 64) - np.where(first, 0.5, 0.0)
            drop = -np.expm1(-ahead * (2 * edge + ahead) / (2 * sigma * sigma))
            level = coin * 2.0**-64
            rejected = level < drop
            for i in np.flatnonzero(np.abs(level - drop) < _NEAR_COIN):
                rejected[i] = self._rejects(int(blocks[left[i]]), int(place[i]), LazyUniform(int(coin[i]), 64, source))
            rejected |= first & (place < half)
            kept = ~rejected
            found[left[kept]] += (place[kept] >> np.uint64(64 - self.shift)).astype(np.int64)
            left = left[rejected]
        return found

    def _rejects(self, block: int, place: int, coin: LazyUniform) -> bool:
        position = LazyUniform(place, 64, coin.source)
        edge = max(block * self.block - Fraction(1, 2), Fraction(0))

        def drop(place: int, digits: int) -> Bounds:
            x = block * self.block - Fraction(1, 2) + Fraction(place * self.block, 1 << position.bits)
            low, high = exp_minus(max(x * x - edge * edge, Fraction(0)) / (2 * self.sigma**2), digits)
            return 1 - high, 1 - low

        def bounds(digits: int) -> Bounds:
            while position.bits < 4 * digits:
                position.extend()
            return drop(position.value, digits)[0], drop(position.value + 1, digits)[1]

        return coin.below(bounds)


@lru_cache(maxsize=256)
def discrete_laplace_sampler(scale: Fraction) -> DiscreteLaplace:
    """Return the sampler of one scale; its thresholds are computed once."""
    return DiscreteLaplace(scale)


def _power(x: Fraction) -> Callable[[int], Bounds]:
    """exp(-x)."""
    return lambda digits: exp_minus(x, digits)


def _digit(x: Fraction) -> Callable[[int], Bounds]:
    """1 / (1 + exp(x)), which rises with exp(-x)."""

    def bounds(digits: int) -> Bounds:
        low, high = exp_minus(x, digits)
        return low / (1 + low), high / (1 + high)

    return bounds


def _tanh_half(x: Fraction) -> Callable[[int], Bounds]:
    """tanh(x / 2) = (1 - exp(-x)) / (1 + exp(-x)), which falls as exp(-x) rises."""

    def bounds(digits: int) -> Bounds:
        low, high = exp_minus(x, digits)
        return (1 - high) / (1 + high), (1 - low) / (1 + low)

    return bounds


def _leading_bits(bounds: Callable[[int], Bounds], count: int) -> int:
    """Return floor(p 2^count) of a probability strictly between 0 and 1."""
    digits, top = count * 3 // 10 + 10, 1 << count
    while True:
        low, high = (min(max(math.floor(bound * top), 0), top - 1) for bound in bounds(digits))
        if low == high:
            return low
        digits *= 2

"""Bounds on transcendental numbers to any number of digits, for decisions that floating point must not make.

Everything is positive decimal arithmetic with correctly rounded operations, so relative errors only add up and the
bounds are proofs, not estimates.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

Bounds = tuple[Fraction, Fraction]
GUARD, NORMAL_GUARD = 10, 12  # digits beyond those asked for, of which rounding may take some


def exp_minus(x: Fraction, digits: int) -> Bounds:
    """Return a lower and an upper bound on exp(-x), x >= 0, at most about 10^-digits apart."""
    if x > 3 * digits + 3:  # exp(-x) < 10^-digits
        return Fraction(0), Fraction(1, 10**digits)
    precision = digits + GUARD
    with decimal.localcontext(_context(precision)):
        value = (-_decimal(x)).exp()
    # The argument is off by a relative 2 ulp, hence the result by 2 x ulp, and exp by half of one.
    return _widen(value, Fraction(2 * math.ceil(x) + 2, 10 ** (precision - 1)))


def normal_beyond(q: Fraction, digits: int) -> Bounds:
    """Return bounds on P(|Z| > q) = erfc(q / sqrt 2), Z standard normal, q >= 0, at most about 10^-digits apart.

    Source: P(|Z| <= q) = sqrt(2 / pi) q exp(-q^2 / 2) sum over n of q^(2n) / (1 * 3 * ... * (2n + 1)).
    """
    if q * q > 5 * digits + 5:  # P(|Z| > q) <= exp(-q^2 / 2) < 10^-digits
        return Fraction(0), Fraction(1, 10**digits)
    precision = digits + NORMAL_GUARD
    with decimal.localcontext(_context(precision)):
        x = _decimal(q)
        square = x * x
        total = term = Decimal(1)
        n = 0
        while term > total.scaleb(-precision) or 2 * square > 2 * n + 3:  # past it terms halve: their sum is < term
            n += 1
            term = term * square / (2 * n + 1)
            total += term
        value = (2 / _pi(precision)).sqrt() * x * (-square / 2).exp() * total
    # Each term carries the rounding of at most 5 n + 2 operations, the rest fewer than q^2 + 20.
    low, high = _widen(value, Fraction(6 * n + math.ceil(q * q) + 30, 10 ** (precision - 1)))
    return 1 - high, 1 - low


@lru_cache(maxsize=64)
def _pi(precision: int) -> Decimal:
    """Return pi to a relative error below 10^(1 - precision). Source: Machin, 16 atan(1/5) - 4 atan(1/239)."""
    unit = 10 ** (precision + GUARD)

    def arctan_inverse(n: int) -> int:
        power, total, k = unit // n, 0, 0
        while power:
            total += power // (2 * k + 1) if k % 2 == 0 else -(power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    # Fewer than 2 k < 10^6 truncations below 1 each, times 20, in units of 10^-(precision + 10).
    with decimal.localcontext(_context(precision)):
        return Decimal(16 * arctan_inverse(5) - 4 * arctan_inverse(239)) / Decimal(unit)


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def _widen(value: Decimal, relative: Fraction) -> Bounds:
    exact = Fraction(value)
    return exact * (1 - relative), exact * (1 + relative)


def _context(precision: int) -> decimal.Context:
    return decimal.Context(
        prec=precision, rounding=decimal.ROUND_HALF_EVEN, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX
    )

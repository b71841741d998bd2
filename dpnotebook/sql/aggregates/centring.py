"""About what values count, and in which lengths, where the vectors of units are clipped for means and variances.

A unit's vector is its number of values and the sum of how far these are from a centre, in lengths of their own. Its
norm is bounded whatever these two are, so they need not be the middle and the half-width of any bounds: noise on a mean
is in proportion to the length, and to the norm, which is little more than the number of rows where values are about the
centre. With the mean of all values and their standard deviation it is as small, nearly, as with any others; with wide
bounds, such as those of what a few pay, it is ten times that.

For variances a further sum is that of squares, which have a middle and a spread of their own: they count from their
usual size, that of the variance, and in how far they are spread about it. Noise on a variance is in proportion to that.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpnotebook.sql.aggregates.builder import Bounds

PARTS = 64  # of a length, to which it and the centre are rounded: they need not be exact
LEAST_SPREAD = 0.25  # of the usual size of squares: if all are about as large, means still move the others a little
FARTHEST = 2.0**19  # times the spread of squares, at most, that one is from their usual size: no sum passes its digits
NARROWEST = 2.0**-12  # half-widths of bounds, at least, for squares: beside these nothing is told of closer values


def centred_by(values: Bounds) -> tuple[Fraction, Fraction]:
    """Return what values count from, and in which length; 1 where all are the same, and none is away from the middle.

    Parameters
    ----------
    values
        Bounds, of which it is the middle and half of the width, or as `with_centre` returns them.
    """
    low, high, *others = values
    if others:
        return others[0], others[1]
    return (low + high) / 2, (high - low) / 2 or Fraction(1)


def squares_by(values: Bounds) -> tuple[Fraction, Fraction]:
    """Return what squares of how far values are from their centre count from, and in which length, in squared lengths.

    Parameters
    ----------
    values
        As for `centred_by`, or as `with_squares` returns them; without what that adds squares count from 0.
    """
    return (Fraction(1), values[4]) if has_usual(values) else (Fraction(0), Fraction(1))


def has_usual(values: Bounds) -> bool:
    """Return whether squares count from their usual size, with bounds that `with_squares` returned."""
    return len(values) == 5


def longest_between(values: Bounds, squares: bool) -> float:
    """Return the norm of the vector of one value that is as far from the centre as bounds let it be.

    Parameters
    ----------
    values
        As for `centred_by`.
    squares
        Whether squares are a part of the vector.
    """
    low, high = values[:2]
    (centre, length), (usual, spread) = centred_by(values), squares_by(values)
    away = float(max(high - centre, centre - low) / length)
    squared = (away**2 - float(usual)) / float(spread) if squares else 0.0
    return math.hypot(1.0, away, squared)


def between_norms(values: Bounds, norm: float) -> tuple[float, float]:
    """Return between what the vector of one value has no more than a norm, as its square alone tells.

    Parameters
    ----------
    values
        Bounds, as `with_squares` returns them.
    norm
        The norm.
    """
    _, _, centre, length, spread = map(float, values)
    away = length * math.sqrt(1.0 + norm * spread)
    return centre - away, centre + away


def is_centred(values: Bounds) -> bool:
    """Return whether bounds were returned by `with_centre`, `with_squares` or `of_both`, with a centre."""
    return len(values) in (4, 5, 10)


def of_both(first: Bounds, other: Bounds) -> Bounds:
    """Return bounds of both columns of pairs, each as `with_squares` has them; about the middle where it has none.

    Products and squares count in the root of how far squares are spread: longer vectors, and less noise on them.
    """
    return (*_of_pairs(first), *_of_pairs(other))


def is_centred_pair(values: Bounds) -> bool:
    """Return whether bounds are those that `of_both` returned."""
    return len(values) == 10


def each_of(values: Bounds) -> tuple[Bounds, Bounds]:
    """Return what `of_both` was given for each column; also of bounds alone, one behind the other."""
    half = len(values) // 2
    return _with_middle(values[:half]), _with_middle(values[half:])


def of_products(values: Bounds) -> Fraction:
    """Return the length in which products of pairs count, in both lengths: about how far they are spread."""
    (*_, first), (*_, other) = each_of(values)
    return max(Fraction(math.isqrt(math.floor(first * other * PARTS**2)), PARTS), Fraction(1))


def longest_pair(values: Bounds, *, squares: bool) -> float:
    """Return the norm of the vector of one pair that is as far from the centre as bounds let it be."""
    away = [float(max(high - centre, centre - low) / length) for low, high, centre, length, _ in each_of(values)]
    squared = [(far**2 - 1.0) / float(one[4]) for far, one in zip(away, each_of(values), strict=True)] * squares
    return math.hypot(1.0, *away, away[0] * away[1] / float(of_products(values)), *squared)


def _of_pairs(values: Bounds) -> Bounds:
    *others, spread = _with_middle(values)
    root = Fraction(math.isqrt(math.floor(spread * PARTS**2)), PARTS)
    low, high, centre, length, *_ = others
    farthest = (max(high - centre, centre - low) / length) ** 2
    return (*others, max(root, Fraction(math.ceil(farthest * PARTS / Fraction(FARTHEST)), PARTS)))


def _with_middle(values: Bounds) -> Bounds:
    if len(values) == 5:
        return values
    low, high = values[:2]
    return low, high, (low + high) / 2, (high - low) / 2 or Fraction(1), Fraction(1)


def has_centre(bounds: Bounds) -> bool:
    """Return whether bounds of an average or a variance have a centre, with a norm behind them."""
    return is_centred(bounds[:-1])


def with_centre(bounds: Bounds, mean: float, deviation: float) -> Bounds:
    """Return bounds with a centre and a length behind them; the bounds alone where these are as good.

    Parameters
    ----------
    bounds
        What values lie between.
    mean, deviation
        Of the values, about.
    """
    low, high = bounds
    half = (high - low) / 2
    if not 0.0 < deviation < float(half):
        return bounds
    return low, high, *_rounded(bounds, mean, deviation)


def with_squares(bounds: Bounds, mean: float, deviation: float, spread: float) -> Bounds:
    """Return bounds with a centre, a length, and how far squares are spread behind them; the bounds alone if hidden.

    Parameters
    ----------
    bounds
        What values lie between.
    mean, deviation
        Of the values, about.
    spread
        Standard deviation of the squares of how far values are from their mean, in squared standard deviations.
    """
    low, high = bounds
    half = float(high - low) / 2
    if not NARROWEST * half <= deviation < math.inf or half <= 0.0:
        return bounds
    centre, length = _rounded(bounds, mean, min(deviation, half))
    farthest = float(max(high - centre, centre - low) / length) ** 2
    spread = max(spread, LEAST_SPREAD, farthest / FARTHEST)
    return low, high, centre, length, round(Fraction(spread) * PARTS) / Fraction(PARTS)


def not_too_far(bounds: Bounds) -> Bounds:
    """Return bounds that `with_squares` has, no farther from the centre than sums of squares have digits for."""
    low, high, centre, length, spread = bounds
    most = length * math.isqrt(math.floor(FARTHEST * float(spread)))
    return max(low, centre - most), min(high, centre + most), centre, length, spread


def rounded(mean: float, deviation: float) -> tuple[Fraction, Fraction]:
    """Return a centre and a length, rounded to a small part of it."""
    part = Fraction(2) ** math.floor(math.log2(deviation / PARTS))
    length, centre = (round(Fraction(one) / part) * part for one in (deviation, mean))
    return centre, length


def _rounded(bounds: Bounds, mean: float, deviation: float) -> tuple[Fraction, Fraction]:
    """Return a centre between bounds and a length, rounded to a small part of it."""
    centre, length = rounded(mean, deviation)
    return min(max(centre, bounds[0]), bounds[1]), length

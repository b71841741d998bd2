"""About what values count, and in which lengths, where the vectors of units are clipped for means.

A unit's vector is its number of values and the sum of how far these are from a centre, in lengths of their own. Its
norm is bounded whatever these two are, so they need not be the middle and the half-width of any bounds: noise on a mean
is in proportion to the length, and to the norm, which is little more than the number of rows where values are about the
centre. With the mean of all values and their standard deviation it is as small, nearly, as with any others; with wide
bounds, such as those of what a few pay, it is ten times that.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpnotebook.sql.aggregates.builder import Bounds

PARTS = 64  # of a length, to which it and the centre are rounded: they need not be exact


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


def has_centre(bounds: Bounds) -> bool:
    """Return whether bounds of an average, with a norm behind them, were returned by `with_centre`."""
    return len(bounds) == 5


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
    part = Fraction(2) ** math.floor(math.log2(deviation / PARTS))
    length, centre = (round(Fraction(one) / part) * part for one in (deviation, mean))
    return low, high, min(max(centre, low), high), length

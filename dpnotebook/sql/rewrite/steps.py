"""SQL that turns numbers of any kind into clamped whole steps, so that sums are exact and cannot fail.

Sums of floating-point numbers depend on the order of rows, which other units' rows can change; sums of integers do not.
So every value becomes a whole number before it is added to anything.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpnotebook.dialect.attributes import number

WIDEST = 59  # bits of a single value: it fits into 18 decimal digits, which every engine adds up without overflow
EVEN = 64  # bins from which on it pays to work out which one a number is in
ULPS = 64  # distances of floating-point numbers that are at least in such a bin
ABOVE = 20  # bits by which a value may pass its bounds before it counts as the most that fits

INFINITY = "CAST('Infinity' AS DOUBLE)"
ZERO = number(0.0)


def real(column: str) -> str:
    """Return a column as a number; NULL where it is none. NaN is greater than infinity in every engine."""
    value = f"TRY_CAST({column} AS DOUBLE)"
    return f"CASE WHEN {value} <= {INFINITY} THEN {value} END"


def clamped(value: str, low: Fraction | float, high: Fraction | float) -> str:
    """Return a number that is not NULL, clamped; infinities too."""
    return f"least(greatest({value}, {_double(low)}), {_double(high)})"


def whole(value: str, step: Fraction | float, middle: Fraction | float = 0) -> str:
    """Return the nearest whole number of steps that a bounded number is away from a middle.

    Adding before dividing: a tiny number divided could be too small for a number, which some engines do not forgive.
    """
    return f"floor(({value} + {_double(Fraction(step) / 2 - Fraction(middle))}) / {_double(step)})"


def integer(value: str) -> str:
    """Return a bounded number without fraction as an integer."""
    return f"CAST({value} AS BIGINT)"


def within(steps: str, least: int, most: int) -> str:
    """Return a number of steps, clamped to whole bounds, as an integer."""
    return integer(f"least(greatest({steps}, {_double(least)}), {_double(most)})")


def part_for(reach: Fraction) -> Fraction:
    """Return the power of two in which numbers are added up exactly, where bounds reach so far from zero.

    Numbers up to 2^20 times that are told apart; larger ones count as the most that fits.
    """
    if reach <= 0:
        return Fraction(1)
    bits = reach.numerator.bit_length() - reach.denominator.bit_length() + 1  # reach <= 2^bits
    return Fraction(2) ** (bits + ABOVE - WIDEST)


def addend(value: str, part: Fraction, middle: Fraction = Fraction(0)) -> str:
    """Return a number in whole parts, as an integer that can be added up without limit; NULL stays NULL."""
    most = part * (1 << WIDEST)
    near = clamped(value, middle - most, middle + most)
    return f"CASE WHEN {value} IS NOT NULL THEN {exact(integer(whole(near, part, middle)))} END"


def inside(low: Fraction, high: Fraction, step: Fraction, largest: int) -> tuple[int, int]:
    """Return the least and the most steps inside bounds, and never more than `largest`."""
    most = math.floor(high / step)
    least = min(math.ceil(low / step), most)
    return max(least, -largest), max(min(most, largest), -largest)


def bin_number(value: str, edges: tuple[float, ...], high: float | None = None) -> str:
    """Return the number of the bin of a number: bins are closed below, and what is outside is in the end bins.

    Parameters
    ----------
    value
        SQL of the number.
    edges
        Of the bins.
    high
        Up to where these divide what begins at the first one, before they were rounded; None where that is the last.
    """
    if (even := _evenly(edges, edges[-1] if high is None else high)) is not None:
        return _even_bin(value, *even, len(edges) - 1)
    return _search(value, [float(edge) for edge in edges[1:-1]], 0)


def equal_bin(value: str, low: float, high: float, bins: int) -> str:
    """Return the number of the bin of a number, of bins of equal width; what is outside is in the end bins."""
    width = (high - low) / bins
    place = f"floor(({clamped(value, low, high)} - {_double(low)}) / {_double(width)})"
    return within(place, 0, bins - 1)


def _evenly(edges: tuple[float, ...], high: float) -> tuple[float, float] | None:
    """Return the first edge of many bins and how far they reach from it, where all others follow from these exactly."""
    bins, low, span = len(edges) - 1, float(edges[0]), float(high) - float(edges[0])
    if bins < EVEN or not math.isfinite(span) or span / bins < ULPS * math.ulp(max(abs(low), abs(high))):
        return None
    return (low, span) if all(low + span * (i / bins) == edge for i, edge in enumerate(edges)) else None


def _even_bin(value: str, low: float, span: float, bins: int) -> str:
    """Return the number of the bin of a number: about the one it would be, off by one where an edge says so."""
    near = f"least(greatest({value}, {_double(low)}), {_double(low + span)})"
    place = f"floor(({near} - {_double(low)}) / {_double(span / bins)})"
    edge, after = (
        f"({_double(low)} + {_double(span)} * (({place} + {_double(more)}) / {_double(bins)}))" for more in (0, 1)
    )
    below, above = f"CAST({value} < {edge} AS INTEGER)", f"CAST({value} >= {after} AS INTEGER)"
    return within(f"{place} - {below} + {above}", 0, bins - 1)


def _search(value: str, edges: list[float], first: int) -> str:
    if not edges:
        return str(first)
    middle = len(edges) // 2
    below = _search(value, edges[:middle], first)
    above = _search(value, edges[middle + 1 :], first + middle + 1)
    return f"CASE WHEN {value} < {_double(edges[middle])} THEN {below} ELSE {above} END"


def exact(value: str) -> str:
    """Return an integer of up to 18 digits so that any number of them can be added up."""
    # Sums of BIGINT overflow on Spark after some rows; those of 18 digits have 28 digits everywhere.
    return f"CAST({value} AS DECIMAL(18, 0))"


def _double(value: Fraction | float) -> str:
    return number(float(value))

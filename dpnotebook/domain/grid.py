"""Edges of bins of equal width, computed in exact decimals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dpnotebook.domain.values import MAX_LEVELS, code, finite, whole
from dpnotebook.errors import DomainError, shorten


def even_edges(low: float, high: float, width: Any, count: Any) -> tuple[int | float, ...]:
    """Return the edges of bins of equal width."""
    if low >= high:
        raise DomainError(
            f"Bins from {shorten(low)} to {shorten(high)} have no width: the high end must be above the low end"
        )
    span = exact(high) - exact(low)
    if count is not None:
        bins = whole(count, "count=")
        if bins < 1:
            raise DomainError(f"count= is at least 1, not {bins}")
    else:
        step = exact(finite(width, "width="))
        if step <= 0:
            raise DomainError(f"width= is above 0, not {shorten(width)}")
        if span % step:
            raise DomainError(_uneven(low, high, span, step))
        bins = int(span / step)
    if bins > MAX_LEVELS:
        raise DomainError(f"that makes {bins:,} bins, and at most {MAX_LEVELS:,} are possible; use a greater width")
    return steps(low, high, bins)


def steps(low: float, high: float, count: int) -> tuple[int | float, ...]:
    """Return `count` + 1 evenly spaced edges, each the number nearest to its exact decimal value."""
    start, stop = exact(low), exact(high)
    below = math.lcm(start.denominator, stop.denominator) * count
    first, last = int(start * below), int(stop * below)
    step = (last - first) // count
    if all(value % below == 0 for value in (first, step)):
        return tuple(range(first // below, last // below + 1, step // below))
    return tuple(_tidy((first + i * step) / below) for i in range(count + 1))


def _uneven(low: float, high: float, span: Fraction, step: Fraction) -> str:
    """Say why a width does not divide a span, and which near ones do."""
    fewer = max(math.floor(span / step), 1)
    if span.denominator == step.denominator == 1:
        whole_span, whole_step = int(span), int(step)
        near = [d for d in _divisors(whole_span) if d <= whole_step][-1:]
        near += [d for d in _divisors(whole_span) if d > whole_step][:1]
        widths = [f"width={code(d)} ({whole_span // d:,} bins)" for d in near]
    else:
        counts = sorted({fewer, fewer + 1}, reverse=True)
        widths = [f"width={code(number(span / n))} ({n:,} bins)" for n in counts if exact(number(span / n)) == span / n]
        widths = widths or [f"count={n}" for n in counts]
    ends = [number(exact(low) + step * n) for n in (fewer, fewer + 1)]
    return (
        f"width={code(number(step))} does not divide the span from {code(low)} to {code(high)}; "
        f"{' or '.join(widths)} does, or end at {code(ends[0])} or {code(ends[1])}, or give edges=[...]"
    )


def _divisors(n: int) -> list[int]:
    # bounded work for absurd spans: divisors beyond 10^6 bins could not be used anyway
    small = [d for d in range(1, min(math.isqrt(n), MAX_LEVELS) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def exact(value: float) -> Fraction:
    """Return a number as the decimal it was written as: 0.1 is one tenth."""
    return Fraction(str(value))


def number(value: Fraction) -> int | float:
    """Return the int, or the float nearest to a fraction."""
    return value.numerator if value.denominator == 1 else _tidy(float(value))


def _tidy(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value

"""Numbers and sentences as people read them; never more favourable than the truth.

Errors and costs are rounded up, what is left is rounded down, and everything keeps three significant digits.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from fractions import Fraction

MOST_NAMED = 6  # releases by their numbers
BEST = 1.0005  # ratio to the least error that is possible, up to which it is that to the digits shown
DIGITS = 6  # of a number that is known exactly
MOST_DECIMALS = 12  # of a number beside its error


def rounded(number: float, digits: int = 3, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return `number` with `digits` significant digits, thousands separated, without trailing zeros."""
    number = float(number)
    if not math.isfinite(number):
        return "–" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    # Nine digits first: 0.30000000000000004 is 0.3 to the person who asked, not 0.301 after rounding up.
    exact = Decimal(f"{number:.9g}")
    if not exact:
        return "0"
    short = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    if short.adjusted() < -4:
        mantissa = f"{short.scaleb(-short.adjusted()):f}"
        return f"{_trim(mantissa)}e{short.adjusted()}"
    return _trim(f"{short:,f}")


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def cost(epsilon: float) -> str:
    """Return an epsilon that is paid, rounded up."""
    return rounded(epsilon, rounding=ROUND_CEILING)


def left(epsilon: float) -> str:
    """Return an epsilon that is left, rounded down, never below zero."""
    return rounded(max(0.0, epsilon), rounding=ROUND_FLOOR)


def error(half_width: float) -> str:
    """Return the half-width of an interval, rounded up."""
    return rounded(half_width, rounding=ROUND_CEILING)


def value(number: float, half_width: float = math.nan) -> str:
    """Return a noisy value with the digits that its error supports.

    Parameters
    ----------
    number
        The value, or one end of its interval.
    half_width
        Half the width of its interval; the place of its second significant digit is the last that is shown.

    Returns
    -------
    str
        For example `1,234` at ±31, `12.3` at ±4.5, `56,800` at ±4,200, whole numbers without decimals; `–` for a value
        that does not exist.
    """
    number = float(number)
    if not math.isfinite(number):
        return rounded(number)
    half_width = float(half_width)
    if not (math.isfinite(half_width) and half_width > 0):
        return rounded(number, DIGITS)
    place = max(-MOST_DECIMALS, second_place(half_width))
    text = f"{round(number, -place):,.{0 if number.is_integer() else max(0, -place)}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text  # no "-0"


def error_of(half_width: float) -> str:
    """Return the error of a value that stands beside it, rounded up to two significant digits: `4,200`, `0.45`."""
    return rounded(half_width, 2, ROUND_CEILING)


def second_place(half_width: float) -> int:
    """Return the power of ten of the second significant digit of `half_width`, as `error_of` writes it."""
    exact = Decimal(f"{half_width:.9g}")
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), rounding=ROUND_CEILING).adjusted() - 1


def share(confidence: float) -> str:
    """Return a confidence as a count of cases: 0.95 is `95 of 100`."""
    for whole in (100, 1_000, 10_000):
        cases = Fraction(repr(float(confidence))) * whole
        if cases.denominator == 1:
            return f"{cases} of {whole:,}"
    return f"{rounded(100 * confidence, DIGITS)}%"


def percent(confidence: float) -> str:
    """Return a confidence or a fraction as a percentage."""
    return f"{rounded(100 * float(confidence))}%"


def releases(numbers: tuple[int, ...]) -> str:
    """Return release numbers as words: `release #2`, `releases #2, #3 and #7`, `releases #1, #2, ... and 40 more`."""
    names = [f"#{number}" for number in numbers]
    if len(names) == 1:
        return f"release {names[0]}"
    if len(names) > MOST_NAMED:
        return f"releases {', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1:,} more"
    return f"releases {', '.join(names[:-1])} and {names[-1]}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 answer`, `12 answers`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def bar(spent: float, this: float = 0.0, width: int = 30) -> str:
    """Return a bar of block characters: what is spent, this query, and what is left.

    Parameters
    ----------
    spent, this
        Fractions of the budget; anything above zero gets at least one character.
    width
        Characters between the brackets.
    """
    first = _cells(spent, width)
    second = _cells(this, width)
    first = min(first, width - min(second, width))
    second = min(second, width - first)
    return "[" + "█" * first + "▒" * second + "·" * (width - first - second) + "]"


def _cells(fraction: float, width: int) -> int:
    return min(width, max(1, round(fraction * width))) if fraction > 0 else 0

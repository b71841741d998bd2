"""Bands of a column of numbers: runs of its levels, all of one width, or from one number up to the next."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.errors import DomainError, shorten

WIDTH, BEGINS = "band of ", "band from "  # how a question has them
NUMBER = r"-?\d+(?:\.\d+)?"
TEXT = re.compile(rf"{WIDTH}({NUMBER})|{BEGINS}({NUMBER}(?:, {NUMBER})*)")
MOST = 10_000  # bands of a column


def band_text(by: Any) -> str:
    """Return bands as questions have them: of a width, or from each of several numbers up to the next.

    Raises
    ------
    DomainError
        If that is neither a width above 0 nor numbers that increase.

    Examples
    --------
    >>> band_text(10), band_text([0, 18, 65])
    ('band of 10', 'band from 0, 18, 65')
    """
    if _is_number(by):
        if not by > 0:
            raise DomainError(f"bands are wider than 0, and not {shorten(by)} wide")
        return f"{WIDTH}{_written(by)}"
    given = list(by) if isinstance(by, Sequence | np.ndarray | range) and not isinstance(by, str) else []
    if not given or not all(map(_is_number, given)):
        raise DomainError(f"bands are a width, such as 10, or where they begin, such as [0, 18, 65]; not {shorten(by)}")
    if any(first >= second for first, second in itertools.pairwise(given)):
        raise DomainError(f"bands begin at numbers that increase, and not at {shorten(given)}")
    return f"{BEGINS}{', '.join(map(_written, given))}"


def given_bands(text: str | None) -> float | list[float] | str | None:
    """Return what `band_text` was given; any other text as it is."""
    found = None if text is None else TEXT.fullmatch(text)
    if found is None:
        return text
    width, begins = found.groups()
    return _read(width) if width else [_read(each) for each in begins.split(", ")]


def bands_between(text: str, low: float, high: float) -> tuple[list[str], NDArray[np.float64]]:
    """Return the labels of the bands of numbers from `low` to `high`, and where each but the first begins.

    Parameters
    ----------
    text
        As `band_text` has it.
    low, high
        The least and the greatest number of the column.

    Raises
    ------
    DomainError
        If there would be more than 10,000.
    """
    given = given_bands(text)
    if isinstance(given, list):
        begins = [each for each in given if low < each <= high]
    else:
        width = Fraction(str(given))
        first, last = math.floor(Fraction(str(low)) / width) + 1, math.floor(Fraction(str(high)) / width)
        if last - first >= MOST:
            raise DomainError(f"there would be {last - first + 2:,} bands, and at most {MOST:,} are possible")
        begins = [_plain(width * i) for i in range(first, last + 1)]
    ends = [low, *begins, high]
    labels = [f"[{_written(a)}, {_written(b)})" for a, b in itertools.pairwise(ends[:-1])]
    return [*labels, f"[{_written(ends[-2])}, {_written(high)}]"], np.array(begins, dtype=float)


def bands_of(begins: NDArray[np.float64], lows: ArrayLike) -> NDArray[np.intp]:
    """Return in which band each of several numbers is."""
    return np.searchsorted(begins, np.asarray(lows, dtype=float), side="right")


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return bool(number) and math.isfinite(value)


def _plain(value: Fraction) -> float:
    return int(value) if value.denominator == 1 else float(value)


def _read(text: str) -> float:
    return _plain(Fraction(text))


def _written(value: float) -> str:
    """Return a number without an exponent."""
    return f"{int(value)}" if value == int(value) else np.format_float_positional(float(value))

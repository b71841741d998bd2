"""Single values as users and columns write them: which are numbers, which are missing, which are refused."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DomainError, PredicateError, shorten

MAX_LEVELS = 10**6
MOST_SAID = 80  # characters of a unit or a label, which stands in titles and beside numbers
MAX_BOUND = 2**53 - 1  # whole numbers up to here are exact in a float, so every engine compares them alike

Mask = NDArray[np.bool_]


def plain(value: Any) -> Any:
    """Return a numpy scalar as the Python value it stands for; anything else as it is."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return value  # .item() would turn nanoseconds into a bare number
    return value.item() if isinstance(value, np.generic) else value


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if type(value) in (str, int, bool):
        return False
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def is_date(value: Any) -> bool:
    """Return whether a value is a date, a time or a duration."""
    kinds = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, kinds) or type(value).__name__ == "Period"


def is_number(value: Any) -> bool:
    """Return whether a value is a real number (True and False are not)."""
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def check_value(value: Any, name: str) -> None:
    """Refuse what no column can be compared with: missing values, dates, infinities, and what is no value at all."""
    if is_missing(value):
        raise PredicateError(f"nothing equals a missing value; write {name}.isna() or {name}.notna()")
    if is_date(value):
        raise PredicateError(
            f"{name} is compared with a date and holds none; a column of dates is declared as "
            "Dates('2023-01-01', '2024-12-31', by='month')"
        )
    if not (isinstance(value, str | bool) or is_number(value)):
        raise PredicateError(f"{name} is compared with a {type(value).__name__}; write a number, a text, True or False")
    if isinstance(value, float | Decimal) and value in (math.inf, -math.inf):
        raise PredicateError(f"{name} is compared with infinity; write a number")


def whole(value: Any, what: str) -> int:
    """Return a declared bound or count as a Python int.

    Raises
    ------
    DomainError
        If it is not a whole number of at most 2^53 - 1 in absolute value.
    """
    value = finite(value, what)
    if value != int(value):
        raise DomainError(f"{what} is a whole number, not {shorten(value)}; for fractions declare Bins")
    if abs(value) > MAX_BOUND:
        raise DomainError(f"{what} is at most 2^53 - 1 in absolute value, not {shorten(value)}")
    return int(value)


def finite(value: Any, what: str) -> int | float:
    """Return a declared number as a Python int where it is whole, as a float where it is not.

    Raises
    ------
    DomainError
        If it is not a finite number.
    """
    value = plain(value)
    if is_date(value):
        raise DomainError(
            f"{what} is a number, not a date; for dates declare Dates('2023-01-01', '2024-12-31', by='month')"
        )
    if not is_number(value):
        raise DomainError(f"{what} is a number, not {shorten(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DomainError(
            f"{what} is a finite number, not {shorten(value)}; write a bound you know from outside the data"
        )
    if isinstance(value, int):
        return value
    return int(number) if number.is_integer() and abs(number) <= MAX_BOUND else number


def check_writable(text: str) -> None:
    """Refuse a text that cannot be written as UTF-8, as no engine can have it.

    Raises
    ------
    DomainError
        If it has half a character in it.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DomainError(f"{shorten(text)} is no text that can be written: it has half a character in it") from None


def said(text: Any, what: str) -> str | None:
    """Return a text that people read, as it is, None where there is none; DomainError if it is no short line."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise DomainError(f"{what} is a text, such as unit='dollars' or label='Yearly income', not {shorten(text)}")
    check_writable(text)
    if not text.strip() or len(text) > MOST_SAID or not text.isprintable():
        raise DomainError(f"{what} is one line of at most {MOST_SAID} characters, not {shorten(text)}")
    return text


def choice(value: Any, what: str, allowed: Sequence[Any]) -> Any:
    """Return `value` if it is one of `allowed`; DomainError if not."""
    value = plain(value)
    for option in allowed:
        if type(value) is type(option) and value == option:
            return option
    raise DomainError(f"{what} is {' or '.join(map(repr, allowed))}, not {shorten(value)}")


def code(value: float) -> str:
    """Return a number as one would write it in Python: with underscores from 10_000 on, so that years have none."""
    return f"{value:_}" if abs(value) >= 10_000 else repr(value)


def numbers(data: NDArray[Any]) -> tuple[NDArray[Any], Mask]:
    """Return a column as int64 or float64, and which of its entries are numbers; the rest are 0."""
    if data.dtype.kind in "bi":
        return data.astype(np.int64, copy=False), np.ones(data.shape, dtype=bool)
    if data.dtype.kind == "u":
        return np.minimum(data, np.iinfo(np.int64).max).astype(np.int64), np.ones(data.shape, dtype=bool)
    if data.dtype.kind == "f":
        return data.astype(np.float64, copy=False), np.ones(data.shape, dtype=bool)
    if data.dtype.kind != "O":
        return np.zeros(data.shape), np.zeros(data.shape, dtype=bool)
    found = [_number(value) for value in data]
    valid = np.array([value is not None for value in found], dtype=bool)
    return np.array([0.0 if value is None else value for value in found], dtype=np.float64), valid


def _number(value: Any) -> float | None:
    value = plain(value)
    if not (is_number(value) or isinstance(value, bool)) or is_missing(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def column(values: Any) -> tuple[NDArray[Any], Mask]:
    """Return values as a one-dimensional array, and which of them are missing."""
    masked: Any = None
    if isinstance(values, np.ma.MaskedArray):
        values, masked = values.data, np.ma.getmaskarray(values)
    if hasattr(values, "__array__"):
        data = np.asarray(values)
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        # element by element: numpy would turn [1, "a"] and ["a", nan] into text
        data = np.fromiter(values, dtype=object)
    else:
        raise DomainError("a column of values is a sequence, an array or a Series")
    if data.ndim != 1:
        raise DomainError(f"a column of values has one dimension, not {data.ndim}")
    if data.dtype.kind == "f":
        missing = np.isnan(data)
    elif data.dtype.kind in "mM":
        missing = np.isnat(data)
    elif data.dtype.kind == "O":
        missing = np.fromiter((is_missing(value) for value in data), dtype=bool, count=len(data))
    else:
        missing = np.zeros(len(data), dtype=bool)
    return data, missing if masked is None else missing | masked

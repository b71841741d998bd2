"""The text of a Python value in a column of objects: the same for what is equal, whatever other values there are."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.domain.values import is_missing, plain

FARTHEST = 400  # digits of a number that is written out


def texts(values: Iterable[Any]) -> list[str | None]:
    """Return the text of each value, None where it is missing."""
    return [value if type(value) is str and value.isascii() else text_of(value) for value in values]


def text_of(value: Any) -> str | None:
    """Return the text of a value, and None for what is missing or is no single value.

    Numbers are written out, whole ones without a point: 1, 1.0 and Decimal("1.00") are "1". Lists are the texts of
    their elements; sets, dicts and objects of other kinds have no text that is the same every time, and are missing.
    """
    value = plain(value)
    if isinstance(value, str):
        return readable(str(value))
    if is_missing(value):
        return None
    if isinstance(value, bool):
        return str(bool(value))
    if isinstance(value, int | float | Decimal | Fraction | np.floating):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return _moment(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return str(bytes(value))
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return _listed(value)
    return None


def readable(text: str) -> str:
    """Return a text that can be written as UTF-8: halves of characters stand as their codes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def _number(value: Any) -> str:
    if isinstance(value, int):
        # Python writes no whole number of many thousand digits out.
        return str(int(value)) if value.bit_length() <= 10_000 else hex(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(float(value))
        if value.is_zero() or abs(value.adjusted()) > FARTHEST:
            return "0" if value.is_zero() else str(value)
        written = format(value, "f")
        return written.rstrip("0").rstrip(".") if "." in written else written
    if isinstance(value, Fraction):
        whole = [_number(part) for part in (value.numerator, value.denominator)]
        return whole[0] if value.denominator == 1 else "/".join(whole)
    number = float(value)
    return str(int(number)) if math.isfinite(number) and number.is_integer() else repr(number)


def _moment(value: datetime.datetime) -> str:
    """Return a time as its text, in UTC where it has a zone: equal moments have equal texts."""
    if value.tzinfo is None:
        return str(value)
    try:
        return str(value.astimezone(datetime.UTC))
    except (OverflowError, ValueError):
        return str(value)


def _listed(values: Iterable[Any]) -> str:
    """Return the texts of a list's elements, each in quotes."""
    found = [text_of(value) for value in values]
    written = ("NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in found)
    return f"[{', '.join(written)}]"

"""What differs between a golden file and what is found now: SQL as trees, floats to nine digits, all else exactly.

Libraries for linear algebra add up in orders of their own, another one on each kind of processor.
"""

import functools
import math
import re
from fractions import Fraction

import numpy as np
import sqlglot

from dpnotebook.workload.packing import unpacked

DIGITS = 9  # of floats, also where they are written as fractions or stand in a text with many decimals
SHOWN = 6  # of what is worked out each time it is shown, with as many digits as its noise leaves
LEAST = 1e-12  # what is 0 but for that
ROUNDED = 2e-4  # of the largest of an optimum's weights: two of 10^4 steps that each is rounded to
FRACTION = re.compile(r"-?\d+/\d+")
LONG = re.compile(r"(\d+\.\d{10,})")


def differences(golden, found, path="", digits=DIGITS):
    """Yield, for everything that differs, where it is, what was frozen, and what is found.

    Parameters
    ----------
    golden, found
        JSON values.
    path
        Where they are.
    digits
        How far floats must be the same; None: to the last bit, but for the frames of releases.
    """
    if _is_sql(golden) and _is_sql(found):
        if not _same_sql(golden, found):
            yield f"{path}/sql", golden["sql"], found["sql"]
    elif digits is not None and _is_packed(golden) and _is_packed(found):
        if not _same_weights(golden, found):
            yield f"{path}/zlib", golden["zlib"], found["zlib"]
    elif isinstance(golden, dict) and isinstance(found, dict):
        for key in [*golden, *(key for key in found if key not in golden)]:
            within = SHOWN if digits is None and key == "frame" else digits
            yield from differences(golden.get(key, "nothing"), found.get(key, "nothing"), f"{path}/{key}", within)
    elif isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        for place, pair in enumerate(zip(golden, found, strict=True)):
            yield from differences(*pair, f"{path}/{place}", digits)
    elif type(golden) is float and type(found) is float:
        if not _same_number(golden, found, digits):
            yield path, golden, found
    elif type(golden) is str and type(found) is str:
        if not _same_text(golden, found, digits):
            yield path, golden, found
    elif type(golden) is not type(found) or golden != found:
        yield path, golden, found


def first_difference(golden, found, name, digits=DIGITS):
    """Return the first difference in words, the two cut to where they begin to differ; None where there is none."""
    for path, before, after in differences(golden, found, name, digits):
        start = next((i for i, pair in enumerate(zip(str(before), str(after), strict=False)) if len({*pair}) > 1), 0)
        cut = [_cut(str(value), max(0, start - 60)) for value in (before, after)]
        return f"{path}\n  frozen: {cut[0]}\n  now:    {cut[1]}"
    return None


def _same_number(golden, found, digits):
    if golden == found or (golden != golden and found != found):
        return True
    return digits is not None and math.isclose(golden, found, rel_tol=10.0**-digits, abs_tol=LEAST)


def _same_text(golden, found, digits):
    """Return whether two texts are the same but for the last digits of fractions and of long decimals in them."""
    if golden == found or digits is None:
        return golden == found
    if FRACTION.fullmatch(golden) and FRACTION.fullmatch(found):
        return _same_number(float(Fraction(golden)), float(Fraction(found)), digits)
    before, after = LONG.split(golden), LONG.split(found)  # every second part is a number
    if len(before) != len(after) or before[::2] != after[::2]:
        return False
    return all(_same_number(float(a), float(b), digits) for a, b in zip(before[1::2], after[1::2], strict=True))


def _is_packed(value):
    return isinstance(value, dict) and value.keys() == {"dtype", "shape", "zlib"}


def _same_weights(golden, found):
    if golden == found:
        return True
    before, after = unpacked(golden), unpacked(found)
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    return bool(np.abs(before - after).max() <= ROUNDED * np.abs(before).max())


def _cut(text, start):
    return ("…" if start else "") + text[start : start + 240] + ("…" if len(text) > start + 240 else "")


def _is_sql(value):
    return isinstance(value, dict) and value.keys() == {"sql", "dialect"}


def _same_sql(golden, found):
    if golden == found:
        return True
    if golden["dialect"] != found["dialect"]:
        return False
    before, after = (_tree(value["sql"], value["dialect"]) for value in (golden, found))
    return before is not None and before == after


@functools.lru_cache(maxsize=1000)
def _tree(text, dialect):
    try:
        return sqlglot.parse_one(text, read=dialect)
    except sqlglot.errors.SqlglotError:
        return None

"""What differs between a golden file and what is found now: SQL as trees, floats to nine digits, all else exactly."""

import functools
import math

import sqlglot

DIGITS = 9  # libraries for linear algebra add up in orders of their own
LEAST = 1e-12  # what is 0 but for that


def differences(golden, found, path="", digits=DIGITS):
    """Yield, for everything that differs, where it is, what was frozen, and what is found.

    Parameters
    ----------
    golden, found
        JSON values.
    path
        Where they are.
    digits
        How far floats must be the same; None: to the last bit.
    """
    if _is_sql(golden) and _is_sql(found):
        if not _same_sql(golden, found):
            yield f"{path}/sql", golden["sql"], found["sql"]
    elif isinstance(golden, dict) and isinstance(found, dict):
        for key in [*golden, *(key for key in found if key not in golden)]:
            yield from differences(golden.get(key, "nothing"), found.get(key, "nothing"), f"{path}/{key}", digits)
    elif isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        for place, pair in enumerate(zip(golden, found, strict=True)):
            yield from differences(*pair, f"{path}/{place}", digits)
    elif type(golden) is float and type(found) is float:
        if not _same_number(golden, found, digits):
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

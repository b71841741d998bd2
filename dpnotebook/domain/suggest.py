"""A first draft of a domain, written by looking at the data, and therefore not private.

Levels and bounds that are read off the data reveal something of it: the oldest person, the rarest answer. The draft
saves typing; its author replaces what it says by what is known without the data.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Bins, Categories, Range
from dpnotebook.domain.values import MAX_BOUND, is_missing, is_number, plain
from dpnotebook.errors import DomainError

MAX_LISTED = 30
MAX_RANGE = 1000
STEPS = 20

NOTICE = (
    "# Not private: this draft was made by looking at the data, and its bounds and levels reveal some of it.\n"
    "# Replace them by what is known from outside the data (a code book, a law, common sense) before you protect it."
)


@dataclass(frozen=True)
class Suggestion:
    """A draft of a domain, to be pasted into a cell and corrected. Prints as code.

    Parameters
    ----------
    columns
        Column name and code of its declaration, for the columns that can be declared.
    skipped
        Column name and why it was left out, for the rest.
    """

    columns: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The notice, and a dict to paste."""
        lines = [f"    {name!r}: {code}," for name, code in self.columns]
        lines += [f"    # {name!r}: {reason}" for name, reason in self.skipped]
        return "\n".join([NOTICE, "domain = {", *lines, "}"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        notice = html.escape(NOTICE.replace("# ", "").replace("\n", " "))
        return f"<p><b>{notice}</b></p><pre>{html.escape(self.text)}</pre>"


def suggest_domain(frame: Any) -> Suggestion:
    """Return a draft of a domain for a frame; looking at the data for it is not private.

    Parameters
    ----------
    frame
        A pandas DataFrame, or anything with `columns` and `frame[name]`.

    Raises
    ------
    DomainError
        If it is no such thing.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpnotebook as dpn
    >>> dpn.suggest_domain(pd.DataFrame({"age": [31, 47, 64], "sex": ["F", "M", "F"]}))
    # Not private: this draft was made by looking at the data, and its bounds and levels reveal some of it.
    # Replace them by what is known from outside the data (a code book, a law, common sense) before you protect it.
    domain = {
        'age': dpn.Range(30, 64),
        'sex': ['F', 'M'],
    }
    """
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise DomainError(f"a domain is suggested for a DataFrame, not for a {type(frame).__name__}")
    columns: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            skipped.append((str(name), "the name is no text; rename the column"))
        elif names.count(name) > 1:
            skipped.append((name, "several columns have this name; rename them"))
        else:
            code, reason = _suggest(frame[name])
            if code:
                columns.append((name, code))
            else:
                skipped.append((name, reason))
    return Suggestion(tuple(columns), tuple(dict.fromkeys(skipped)))


def _suggest(column: Any) -> tuple[str, str]:
    """Return the code that declares a column, or "" and the reason why there is none."""
    dtype = getattr(column, "dtype", None)
    data = np.asarray(column)
    if data.dtype.kind in "mM" or any(word in str(dtype) for word in ("date", "time", "period")):
        return "", "dates are not supported; add a column of years, or of months as text"
    categories = getattr(dtype, "categories", None)
    if categories is not None and len(categories):
        return _listed(categories, any(map(is_missing, data.tolist())), ordered=bool(getattr(dtype, "ordered", False)))
    found, rows = _distinct(data)
    if not found:
        return "", "there are no values to look at; declare it from what you know"
    nullable = rows < len(data)
    kinds = {_kind(value) for value in found}
    if kinds == {"boolean"}:
        return ("dpn.Boolean(nullable=True)" if nullable else "bool"), ""
    names_rows = rows > MAX_LISTED and len(found) == rows
    if kinds == {"number"}:
        return _numeric(found, nullable, names_rows)
    if kinds != {"text"}:
        return "", "values that are not all text, all numbers or all true or false cannot be declared; convert them"
    if names_rows:
        return "", "every value is another one; if it says whose row it is, protect the table with unit= this column"
    if len(found) > MAX_LISTED:
        return "", f"{MAX_LISTED} texts and more; list those that matter: dpn.Categories([...], other='other')"
    return _listed(sorted(found), nullable)


def _distinct(data: NDArray[Any]) -> tuple[set[Any], int]:
    """Return the distinct values of a column, and how many rows are not missing."""
    if data.dtype.kind in "biuf":
        present = data[~np.isnan(data)] if data.dtype.kind == "f" else data
        return set(np.unique(present).tolist()), len(present)
    values = [plain(value) for value in data.tolist() if not is_missing(value)]
    # what has no hash, such as a list, is no level either; its type stands for it
    return {type(value) if value.__hash__ is None else value for value in values}, len(values)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "number" if is_number(value) else "odd"


def _listed(levels: Iterable[Any], nullable: bool, ordered: bool = False) -> tuple[str, str]:
    """Return the code for a list of levels."""
    try:
        attribute = Categories(levels, nullable=nullable, ordered=ordered)
    except DomainError as error:
        return "", str(error)
    if ordered:
        return f"dpn.{attribute!r}", ""
    return repr([*attribute.levels, *([None] if nullable else [])]), ""


def _numeric(found: set[Any], nullable: bool, names_rows: bool) -> tuple[str, str]:
    """Return the code for a column of numbers, with bounds rounded outwards."""
    finite = [value for value in found if isinstance(value, int) or math.isfinite(value)]
    if not finite or max(map(abs, finite)) > MAX_BOUND:
        return "", "some numbers are too large to be a quantity; if they are identifiers, turn them into text"
    low, high = Fraction(min(finite)), Fraction(max(finite))
    whole = all(value == int(value) for value in finite)
    step = _round_step((high - low) / STEPS)
    if whole:
        step = max(step, Fraction(1))
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    attribute: Range | Bins
    if whole and last - first <= MAX_RANGE:
        attribute = Range(int(first), int(last), nullable=nullable)
    else:
        last = last if last > first else first + step
        attribute = Bins(float(first), float(last), width=float(step), nullable=nullable)
    if whole and names_rows:
        reason = (
            "every value is another one; if it says whose row it is, protect the table with unit= this column; if not:"
        )
        return "", f"{reason} dpn.{attribute!r}"
    return f"dpn.{attribute!r}", ""


def _round_step(step: Fraction) -> Fraction:
    """Return the least of 1, 2, 5, 10, 20, ... (and their tenths) that is at least `step`; 1 for 0."""
    if step == 0:
        return Fraction(1)
    power = Fraction(10) ** (math.floor(math.log10(step)) - 1)
    return next(power * n for n in (1, 2, 5, 10, 20, 50, 100, 200) if power * n >= step)

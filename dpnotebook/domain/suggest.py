"""A first draft of a domain, written by looking at the data, and therefore not private.

Levels and bounds that are read off the data reveal something of it: the oldest person, the rarest answer. The draft
saves typing; its author replaces what it says by what is known without the data.
"""

from __future__ import annotations

import datetime
import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Bins, Categories, Dates, Range
from dpnotebook.domain.calendar import NoDate, Span, begin_of_span, end_of_span, span_of
from dpnotebook.domain.values import MAX_BOUND, is_missing, is_number, plain
from dpnotebook.errors import DomainError

MAX_LISTED = 30
MAX_RANGE = 1000
STEPS = 20
FEW_DAYS, MANY_DAYS = 92, 3660  # that are declared one by one, and by months

DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")
SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}( \d{1,2}:\d{2})?(:\d{2})?")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
CODE = re.compile(r"[+-]?0\d")  # begins with a zero: a number would lose it

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
            code, reason = _suggest(frame[name], name)
            if code:
                columns.append((name, code))
            else:
                skipped.append((name, reason))
    return Suggestion(tuple(columns), tuple(dict.fromkeys(skipped)))


def _suggest(column: Any, name: str) -> tuple[str, str]:
    """Return the code that declares a column, or "" and the reason why there is none."""
    dtype = getattr(column, "dtype", None)
    data = np.asarray(column)
    if data.dtype.kind == "m" or "duration" in str(dtype):
        return "", f"durations are declared as numbers: frame[{name!r}] = frame[{name!r}].dt.days"
    if "period" in str(dtype):
        return "", f"periods are declared as dates: frame[{name!r}] = frame[{name!r}].dt.to_timestamp()"
    if data.dtype.kind == "M" or any(word in str(dtype) for word in ("date", "timestamp")):
        return _dated(data)
    categories = getattr(dtype, "categories", None)
    if categories is not None and len(categories):
        return _listed(
            list(categories), any(map(is_missing, data.tolist())), ordered=bool(getattr(dtype, "ordered", False))
        )
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
    if kinds == {"date"}:
        return _dated(data)
    if kinds != {"text"}:
        return "", "values that are not all text, all numbers or all true or false cannot be declared; convert them"
    numbered = names_rows and all(map(str.isdigit, found))
    if not numbered and (cleaning := _cleaning(found, name)):
        return "", cleaning
    if names_rows:
        return "", "every value is another one; if it says whose row it is, protect the table with unit= this column"
    if len(found) > MAX_LISTED:
        return "", f"{MAX_LISTED} texts and more; list those that matter: dpn.Categories([...], other='other')"
    return _listed(sorted(found), nullable)


def _dated(data: NDArray[Any]) -> tuple[str, str]:
    """Return the code for a column of dates, its ends rounded outwards to whole spans."""
    days = []
    for value in data.astype("datetime64[us]") if data.dtype.kind == "M" else data.tolist():
        if not is_missing(value):
            try:
                days.append(span_of(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value)[0])
            except NoDate:
                return "", "some dates are not of the years 1 to 9999; convert or delete them"
    if not days:
        return "", "there are no values to look at; declare it from what you know"
    ends = np.array([min(days), max(days)]).astype("datetime64[D]")
    span = int((ends[1] - ends[0]).astype(int))
    by: Span = "day" if span <= FEW_DAYS else "month" if span <= MANY_DAYS else "year"
    first, last = begin_of_span(ends, by)
    code = Dates(str(first), str(end_of_span(last, by) - 1), by=by, nullable=len(days) < len(data))
    return f"dpn.{code!r}", ""


def _cleaning(texts: set[str], name: str) -> str:
    """Return the line that makes texts dates, numbers or spelt in one way; empty where they are as they should be."""
    here = f"frame[{name!r}]"
    stripped = {text.strip() for text in texts} - {""}
    if all(DATE.match(text) for text in stripped) and stripped:
        return f"dates kept as text: {here} = pd.to_datetime({here})"
    parts = [found.groups() for text in stripped if (found := SLASHED.fullmatch(text))]
    if (
        stripped
        and len(parts) == len(stripped)
        and len({(time is None, end is None) for _, _, time, end in parts}) == 1
    ):
        written = "%d/%m/%Y" if any(int(first) > 12 for first, *_ in parts) else "%m/%d/%Y"
        written += " %H:%M" * (parts[0][2] is not None) + ":%S" * (parts[0][3] is not None)
        return f"dates kept as text, if day and month are so: {here} = pd.to_datetime({here}, format={written!r})"
    if all(NUMBER.fullmatch(text) for text in stripped) and stripped and not any(CODE.match(t) for t in stripped):
        return f"numbers kept as text: {here} = pd.to_numeric({here})"
    folded = {text.strip().casefold() for text in texts}
    if len(folded) < len(texts):
        change = ".str.strip()" if len(stripped | ({""} & texts)) == len(folded) else ".str.strip().str.lower()"
        return f"one thing is written in several ways: {here} = {here}{change}"
    return ""


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
    return "number" if is_number(value) else "date" if isinstance(value, datetime.date) else "odd"


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

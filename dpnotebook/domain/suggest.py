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
from dpnotebook.domain.times import Times
from dpnotebook.domain.values import MAX_BOUND, is_missing, is_number, plain
from dpnotebook.errors import DomainError

MAX_LISTED = 30
MAX_RANGE = 1000
STEPS = 20
FEW_DAYS, MANY_DAYS = 92, 3660  # that are declared one by one, and by months

DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")
SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}( \d{1,2}:\d{2})?(:\d{2})?")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
SIGNS = re.compile(r"[\s,$€£¥%]+")  # around and within numbers: thousands, currencies, percents
COMMA = re.compile(r",\d{1,2}\D*$|,\d{4,}|\d,\d+,?\.")  # a comma that may stand for the point
POINTED = re.compile(r"[+-]?\d+(,\d{1,2})?")
FEW_WORDS = 5  # such as "unknown" among numbers
CODE = re.compile(r"[+-]?0\d")  # begins with a zero: a number would lose it

# What columns are called that say whose row it is; of others with such an end, if they have many values.
PERSONS = "patient|person|customer|client|subject|user|member|employee|student|pupil|household|respondent|account"
ENDS = "id|uid|uuid|guid|nr|no|num|number|key|code"
OF_PERSONS = re.compile(rf"(?:{PERSONS})s?(?:[ _.\-]?(?:{ENDS}))?|[pu]id|mrn|ssn|e-?mail|phone|iban", re.IGNORECASE)
OF_THINGS = re.compile(rf"(?i:.*[ _.\-](?:{ENDS})|id|uuid|guid)|.*[a-z](?:Id|ID|Nr|No|Number|Key)")
SHAPES = (
    re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    re.compile(r"[^@\s]+@[^@\s]+\.\w+"),
)
EVEN = 0.1  # how far numbers that were given out one after the other, or by chance, are from being spread evenly
LIST = "list those that matter: dpn.Categories([...], other='other')"
IF_NOT = f"if not, {LIST}"
WHOSE = "it seems to say whose row it is, so it is no attribute: protect the table with unit={!r}"

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
            if code and OF_PERSONS.fullmatch(name):
                code, reason = "", WHOSE.format(name)
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
        if _given_out(set(map(plain, categories)), name):
            return "", f"{WHOSE.format(name)}; {IF_NOT}"
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
        code, reason = _numeric(found, nullable, names_rows)
        return ("", _of_a_thing(name, code)) if code and _identifies(found, name) else (code, reason)
    if kinds == {"date"}:
        return _dated(data)
    if kinds == {"time"}:  # a day has 24 hours whatever is in the table
        return f"dpn.{Times(nullable=nullable)!r}", ""
    if kinds != {"text"}:
        return "", "values that are not all text, all numbers or all true or false cannot be declared; convert them"
    numbered = all(map(str.isdigit, found)) and (names_rows or _identifies(set(map(int, found)), name))
    coded = numbered or _are_codes(found, name)
    if not coded and (cleaning := _cleaning(found, name)):
        return "", cleaning
    if coded and not names_rows:
        return "", f"{WHOSE.format(name)}; {IF_NOT}"
    if names_rows:
        return "", "every value is another one; if it says whose row it is, protect the table with unit= this column"
    if len(found) > MAX_LISTED:
        return "", f"{MAX_LISTED} texts and more; {LIST}"
    return _listed(sorted(found), nullable)


def _of_a_thing(name: str, code: str) -> str:
    """Return why a column of many numbers is no attribute, and how it is declared if it is one all the same."""
    return f"{WHOSE.format(name)}; if not: {code}"


def _identifies(found: set[Any], name: str) -> bool:
    """Whether numbers seem to be given out to persons or things: whole, many, and spread evenly, or called so.

    What is measured or paid heaps up somewhere: numbers that are counted up, or drawn, do not.
    """
    if len(found) <= MAX_LISTED or any(value != math.floor(value) for value in found if math.isfinite(value)):
        return False
    if OF_THINGS.fullmatch(name):
        return True
    values = np.sort(np.array([value for value in found if math.isfinite(value)], dtype=float))
    span = values[-1] - values[0]
    if span <= MAX_RANGE or values[0] < 0 or (values % 10 == 0).mean() > 0.5:
        return False
    return bool(np.abs((values - values[0]) / span - np.linspace(0, 1, values.size)).max() < EVEN)


def _given_out(levels: set[Any], name: str) -> bool:
    """Whether the categories of a type seem to be given out to persons or things."""
    kinds = {_kind(level) for level in levels}
    return _identifies(levels, name) if kinds == {"number"} else kinds == {"text"} and _are_codes(levels, name)


def _are_codes(texts: set[str], name: str) -> bool:
    """Whether texts seem to be given out to persons or things: of one shape, with digits, and many."""
    if len(texts) <= MAX_LISTED:
        return False
    if OF_THINGS.fullmatch(name) or any(all(map(shape.fullmatch, texts)) for shape in SHAPES):
        return True
    shapes = {re.sub(r"\d", "0", re.sub(r"[^\W\d_]", "a", text.strip())) for text in texts}
    return len(shapes) == 1 and "a" in (only := shapes.pop()) and only.count("0") >= 3


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
    if stripped and not any(CODE.match(text) for text in stripped):
        numbers = {text for text in stripped if NUMBER.fullmatch(text)}
        if len(numbers) == len(stripped):
            return f"numbers kept as text: {here} = pd.to_numeric({here})"
        if all(NUMBER.fullmatch(SIGNS.sub("", text)) for text in stripped) and not any(map(COMMA.search, stripped)):
            signs = "[^0-9.eE+-]"
            return f"numbers kept as text: {here} = pd.to_numeric({here}.str.replace(r{signs!r}, '', regex=True))"
        if all(map(POINTED.fullmatch, stripped)):
            return f"numbers kept as text, with a comma: {here} = pd.to_numeric({here}.str.replace(',', '.'))"
        if len(numbers) > MAX_LISTED and len(stripped) - len(numbers) <= FEW_WORDS:
            return f"numbers kept as text, with words among them: {here} = pd.to_numeric({here}, errors='coerce')"
    folded = {text.strip().casefold() for text in texts}
    if len(folded) < len(texts):
        change = ".str.strip()" if len(stripped | ({""} & texts)) == len(folded) else ".str.strip().str.lower()"
        return f"one thing is written in several ways: {here} = {here}{change}"
    if stripped and any(text != text.strip() for text in texts):
        return f"there are spaces around some: {here} = {here}.str.strip()"
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
    if isinstance(value, datetime.time) and value.tzinfo is None:
        return "time"
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

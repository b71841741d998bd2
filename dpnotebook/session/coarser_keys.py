"""Keys that are coarser than what is declared: the months of a column declared by day, bands of one of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.domain import Bins, Dates, Domain, Range
from dpnotebook.domain.bands import band_text, given_bands
from dpnotebook.domain.calendar import SPANS, Moments, Span, begin_of_span, end_of_span, span_label
from dpnotebook.domain.spans import Spans
from dpnotebook.errors import DomainError, shorten
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.query.question import Question
from dpnotebook.workload import Identity, Kron, Predicates, Workload

if TYPE_CHECKING:
    import pandas as pd

FREQUENCIES = {"D": "day", "W": "week", "M": "month", "Q": "quarter", "Y": "year", "A": "year"}  # as pandas has them


def keys_of(keys: Any) -> tuple[list[Any], dict[str, str]]:
    """Return the names of keys, and the span of those that are grouped by one.

    Parameters
    ----------
    keys
        A name; a dict from names to spans of dates or bands of numbers, None where there is none; a `pandas.Grouper`;
        or a list of these.

    Raises
    ------
    DomainError
        If a Grouper has no key, or a frequency that is no span.
    """
    names: list[Any] = []
    spans: dict[str, str] = {}
    for key in keys if isinstance(keys, list | tuple) else [keys]:
        if isinstance(key, Mapping):
            names += key
            spans |= {name: by if isinstance(by, str) else band_text(by) for name, by in key.items() if by is not None}
        elif type(key).__name__ in ("Grouper", "TimeGrouper") and hasattr(key, "freq"):
            names.append(key.key)
            spans[key.key] = _span_of(key)
        else:
            names.append(key)
    return names, spans


def span_workload(domain: Domain, keys: Sequence[str], spans: Mapping[str, str], where: Predicate) -> Workload:
    """Return the counts of all combinations of spans and levels, over the cells of the keys that rows can be in.

    Raises
    ------
    DomainError
        If a key holds neither dates nor numbers, or its levels are in no single span.
    """
    factors: list[Workload] = []
    for name in keys:
        levels = np.asarray(allowed_levels(where, name, domain), dtype=np.intp)
        if name not in spans:
            factors.append(Identity(levels.size))
            continue
        factors.append(Predicates.of_groups(coarser_levels(domain, name, spans[name]).groups[levels]).simplest())
    return factors[0] if len(factors) == 1 else Kron(*factors)


def coarser_levels(domain: Domain, name: str, by: str) -> Spans:
    """Return each span of a column of dates, or band of one of numbers, and in which each level is.

    Raises
    ------
    DomainError
        If the column holds neither, or its levels are in no single span.
    """
    attribute = domain[name]
    if isinstance(attribute, Dates) and given_bands(by) != by:
        raise DomainError(
            f"{shorten(name)} holds dates, which are grouped by {', '.join(map(repr, SPANS))}, not by bands"
        )
    if not isinstance(attribute, Dates | Range | Bins):
        raise DomainError(
            f"{shorten(name)} is declared as {shorten(attribute)}, which has no {shorten(given_bands(by))}: Dates are "
            "grouped by a span, such as 'month', and Range or Bins by bands, such as 10 or [0, 18, 65]"
        )
    return attribute.coarser(by, name)


def key_labels(question: object, key: str, values: pd.Series[Any]) -> list[str | None]:
    """Return the dates of a key as people write them: "2023-05" for a month; None for those that are missing.

    Parameters
    ----------
    question
        What was asked; of a question, what is declared of the key says what its dates are the first days of.
    key, values
        The key, and its column in an answer, of dates.
    """
    days = values.to_numpy(dtype="datetime64[D]")
    by = _span_of_key(question, key) or _span_of_days(days[~np.isnat(days)])
    return [None if np.isnat(day) else span_label(day, end_of_span(day, by), by) for day in days]


def _span_of_key(question: object, key: str) -> Span | None:
    """Return what a key of a question has been grouped by; None of other questions, and of what is no span."""
    if not isinstance(question, Question) or key not in question.keys:
        return None
    attribute, by = question.where.domain.get(key), groups_of(question.measures[0].asked, question.keys).get(key)
    if not isinstance(attribute, Dates):
        return None
    return next((span for span in SPANS if span == (by or attribute.by)), None)


def _span_of_days(days: Moments) -> Span:
    """Return the longest span that begins on each of several days, which is theirs where nothing says it."""
    several = np.unique(days)
    longer: tuple[Span, ...] = ("year", "quarter", "month") if several.size > 1 else ()
    return next((by for by in longer if (begin_of_span(several, by) == several).all()), "day")


def _span_of(key: Any) -> str:
    """Return the span of a Grouper's frequency."""
    name = str(getattr(key.freq, "freqstr", key.freq))  # "2MS" where there are several
    frequency, _, anchor = name.partition("-")
    found = FREQUENCIES.get(frequency.removesuffix("S").removesuffix("E") if len(frequency) > 1 else frequency)
    fits = anchor in ("", "SUN" if found == "week" else "DEC" if not frequency.endswith("S") else "JAN")
    if key.key is None or found is None or not fits:
        raise DomainError(
            "a Grouper is Grouper(key='admitted', freq='MS'), by D, W, MS, QS or YS; or write "
            "groupby({'admitted': 'month'})"
        )
    return found

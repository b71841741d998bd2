"""The levels of a key as a plot needs them: what each is called, and where it lies on an axis that has an order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Dates
from dpnotebook.domain.calendar import NoDate, Span, begin_of_span, end_of_span, span_label, span_of
from dpnotebook.domain.dates import OF_EVERY
from dpnotebook.domain.values import is_missing
from dpnotebook.notebook.cards.release import label
from dpnotebook.query.coarser_groups import groups_of
from dpnotebook.query.question import Question

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

LEAST_PLACED = 3  # levels with a place, from which on an axis has an order to show

_SPAN = re.compile(r"^\[(-?[\d.,]+), (-?[\d.,]+)[\])]$")
_AT_MOST = re.compile(r"^<=? (-?[\d.,]+)$")
_FULL_DATE = re.compile(r"^(?:<= )?\d{4}-")


@dataclass(frozen=True)
class PlacedLevels:
    """The levels of one key, row by row.

    Parameters
    ----------
    title
        What the key is called on an axis.
    levels
        As they are in the frame.
    names
        As people read them: a month is "2023-05" and not its first day.
    where
        Where each lies on an ordered axis: numbers, or datetime64 of dates; NaN or NaT without a place. None where the
        key has no order, or too few levels have a place.
    span
        Of dates, what one level is.
    """

    title: str
    levels: list[Any]
    names: list[str]
    where: NDArray[Any] | None
    span: Span | None = None

    def picked(self, rows: Sequence[int]) -> PlacedLevels:
        """Return the levels of some rows."""
        index = np.asarray(rows, dtype=np.intp)
        return PlacedLevels(
            self.title,
            [self.levels[row] for row in rows],
            [self.names[row] for row in rows],
            None if self.where is None else self.where[index],
            self.span,
        )

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Which rows have a place on the axis."""
        if self.where is None:
            return np.zeros(len(self.levels), dtype=bool)
        missing = np.isnat if self.where.dtype.kind == "M" else np.isnan
        return np.asarray(~missing(self.where))


def key_levels(release: Release, key: str) -> PlacedLevels:
    """Return the levels of a key of a release.

    Parameters
    ----------
    release
        Whose frame.
    key
        The name of one of its key columns.
    """
    column = release.frame[key]
    levels = column.tolist()
    ordered = release.ordered[release.keys.index(key)]
    span = _span(release, key, levels)
    title = key_title(release, key)
    if span is None:
        return PlacedLevels(title, levels, [label(level) for level in levels], positions(levels) if ordered else None)
    days = np.array([_day(level) for level in levels], dtype="datetime64[D]")
    names = [_date_name(level, day, span) for level, day in zip(levels, days, strict=True)]
    enough = ordered and (~np.isnat(days)).sum() >= LEAST_PLACED
    return PlacedLevels(title, levels, names, days.astype("datetime64[us]") if enough else None, span)


def key_title(release: Release, key: str) -> str:
    """Return what a key of a release is called on axes and in tables: its label, where it has one."""
    question = release.question
    if isinstance(question, Question) and key in question.where.domain.names:
        return question.where.domain.label_of(key)
    return key


def positions(levels: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return where ordered levels lie on an axis; NaN for those without a place, None when fewer than three have one.

    Parameters
    ----------
    levels
        Numbers, spans such as `[0, 5,000)`, which lie at their middle, or ends such as `<= 30`, where counts reach to.
    """
    found = np.full(len(levels), np.nan)
    for i, level in enumerate(levels):
        if isinstance(level, (int, float, np.number)) and not isinstance(level, bool):
            found[i] = float(level)
        elif isinstance(level, str) and (span := _SPAN.match(level) or _AT_MOST.match(level)):
            found[i] = sum(float(end.replace(",", "")) for end in span.groups()) / len(span.groups())
    return found if np.isfinite(found).sum() >= LEAST_PLACED else None


def _span(release: Release, key: str, levels: Sequence[Any]) -> Span | None:
    """Return what one level of a key of dates is; None of keys of anything else, and of parts such as weekdays."""
    question = release.question
    if isinstance(question, Question):
        attribute = question.where.domain[key] if key in question.where.domain.names else None
        if attribute is not None:
            if not isinstance(attribute, Dates):
                return None
            by = groups_of(question.measures[0].asked, question.keys).get(key, attribute.by)
            return None if by in OF_EVERY else by  # type: ignore[return-value]
    moments = [level for level in levels if _is_moment(level)]
    if not moments or len(moments) + sum(map(is_missing, levels)) < len(levels):
        return None
    return _longest_span(np.unique(np.array(moments, dtype="datetime64[D]")))


def _longest_span(days: NDArray[np.datetime64]) -> Span:
    """Return the longest span that each of some days begins; of one alone it cannot be told, so that is a day."""
    if days.size < 2:
        return "day"
    spans: tuple[Span, ...] = ("year", "quarter", "month")
    found = next((by for by in spans if (begin_of_span(days, by) == days).all()), None)
    return found or ("week" if not (np.diff(days).astype(int) % 7).any() else "day")


def _is_moment(level: Any) -> bool:
    return (isinstance(level, np.datetime64) or hasattr(level, "isoformat")) and not is_missing(level)


def _day(level: Any) -> np.datetime64:
    """Return the first day of a level of dates; NaT of one that has none, as other and missing dates."""
    if isinstance(level, str):
        level = level.removeprefix("<= ")
        if not _FULL_DATE.match(level) and not level.isdigit():
            return np.datetime64("NaT")
    if level is None or is_missing(level):
        return np.datetime64("NaT")
    try:
        first: np.datetime64 = span_of(level)[0].astype("datetime64[D]")
    except NoDate:
        return np.datetime64("NaT")
    return first


def _date_name(level: Any, day: np.datetime64, span: Span) -> str:
    if isinstance(level, str) or np.isnat(day):
        return label(level)
    return span_label(day, end_of_span(day, span), span)

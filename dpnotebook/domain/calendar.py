"""Spans of time as people write them: '2023', '2023-Q2', '2023-05', '2023-05-17', or a moment of a day."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.values import is_missing, plain
from dpnotebook.errors import shorten

Span = Literal["day", "week", "month", "quarter", "year"]
Moments = NDArray[np.datetime64]

SPANS: tuple[Span, ...] = ("day", "week", "month", "quarter", "year")
MONTHS: dict[Span, int] = {"month": 1, "quarter": 3, "year": 12}
DAYS: dict[Span, int] = {"day": 1, "week": 7}
OF_A_SPAN: dict[str, tuple[Span, ...]] = {  # what is the same all through which spans
    "year": ("day", "month", "quarter", "year"),
    "quarter": ("day", "month", "quarter"),
    "month": ("day", "month"),
    "day": ("day",),
    "weekday": ("day",),
    "dayofweek": ("day",),
    "day_of_week": ("day",),
}
START, DAY = datetime.datetime.min, 86_400
OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
WRITTEN = re.compile(
    r"(?P<year>\d{4})(?:-?Q(?P<quarter>[1-4])|-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<time>[T ].+)?)?)?",
    re.IGNORECASE,
)
OTHER_ORDER = re.compile(r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}|\d{8}|\d{1,2}-\d{1,2}-\d{4}")


class NoDate(ValueError):
    """What is written is no span of time; says why, in a clause."""


def span_of(value: Any, zone: datetime.tzinfo | None = None) -> tuple[np.datetime64, np.datetime64]:
    """Return the first moment of what a value stands for, and the first after it; of a moment both are the same.

    A date stands for the whole day, '2023-05' for the month, '2023-05-01/2023-05-07' for all from its first to its
    last day. What is at midnight is a date.

    Parameters
    ----------
    value
        A text, a date or time of Python or numpy, a pandas Timestamp or Period, or the number of a year.
    zone
        The time zone that moments with a zone of their own are told in; None where there is none to tell them in.

    Raises
    ------
    NoDate
        If it is none of these.
    """
    value = plain(value)
    if is_missing(value):
        raise NoDate("a missing value is no date")
    if isinstance(value, str):
        return _span_of_text(value.strip(), zone)
    if isinstance(value, bool):
        raise NoDate(f"{value} is a truth value")
    if isinstance(value, int) and 1 <= value <= 9999:
        return _months(value, 1, 12)
    if type(value).__name__ == "Period" and hasattr(value, "end_time"):
        return _checked(np.datetime64(value.start_time, "us")), _checked(np.datetime64(value.end_time, "us") + 1)
    if isinstance(value, np.datetime64):
        return _of_moment(_checked(value.astype("datetime64[us]")))
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = _told_in(value, zone)
        return _of_moment(np.datetime64(value.replace(tzinfo=None), "us"))
    if isinstance(value, datetime.date):
        return _of_moment(np.datetime64(value, "us"))
    raise NoDate(f"{shorten(value)} is no date; write one as '2023-05-17'")


def starts_of_spans(first: datetime.date, last: datetime.date, by: Span) -> Moments:
    """Return the first day of each span from one day to another, and the day after the last; shape (spans + 1,).

    Weeks begin on the weekday of the first day; other spans as the calendar has them.

    Raises
    ------
    NoDate
        If the days are not where a span begins and where one ends.
    """
    begin: Any = np.datetime64(first, "D")
    end: Any = np.datetime64(last, "D") + 1
    if by in DAYS:
        days = int((end - begin).astype(int))
        if days % DAYS[by]:
            fits = begin + days // 7 * 7 - 1
            raise NoDate(f"{first} to {last} are {days:,} days, no whole weeks; end at {fits} or {fits + 7}")
        return np.arange(begin, end + 1, DAYS[by])
    step = MONTHS[by]
    for day, words, near in ((begin, "begins", 0), (end, "ends", -1)):
        floor = begin_of_span(np.array([day]), by)[0]
        if floor != day:
            raise NoDate(
                f"{day + near} is no day on which a {by} {words}; write {floor + near} or "
                f"{end_of_span(floor, by) + near}"
            )
    return np.arange(begin.astype("datetime64[M]"), end.astype("datetime64[M]") + 1, step).astype("datetime64[D]")


def begin_of_span(days: Moments, by: Span) -> Moments:
    """Return the first day of the calendar's span that each day is in; weeks begin on Mondays. datetime64[D]."""
    if by in DAYS:
        return days - (days.astype(np.int64) + 3) % 7 if by == "week" else days
    step = MONTHS[by]
    return (days.astype("datetime64[M]").astype(np.int64) // step * step).astype("datetime64[M]").astype(days.dtype)


def end_of_span(first: Any, by: Span) -> Any:
    """Return the day after the span that begins on a day."""
    return first + DAYS[by] if by in DAYS else (first.astype("datetime64[M]") + MONTHS[by]).astype("datetime64[D]")


def span_label(start: np.datetime64, stop: np.datetime64, by: Span) -> str:
    """Return a span as a text that `span_of` reads: '2023-05-17', '2023-05', '2023-Q2', '2023'."""
    match by:
        case "day":
            return str(start)
        case "month":
            return str(start.astype("datetime64[M]"))
        case "quarter":
            year, month = str(start.astype("datetime64[M]")).split("-")
            return f"{year}-Q{(int(month) + 2) // 3}"
        case "year":
            return str(start.astype("datetime64[Y]"))
    return f"{start}/{stop - 1}"


def part_of(part: str, days: Moments) -> NDArray[np.int64]:
    """Return a part of each day as pandas' `.dt` calls and numbers it: year, quarter, month, day, dayofweek (Monday 0).

    Parameters
    ----------
    part
        One of `OF_A_SPAN`.
    days
        datetime64[D].
    """
    months = days.astype("datetime64[M]")
    match part:
        case "year":
            found = days.astype("datetime64[Y]").astype(int) + 1970
        case "quarter":
            found = months.astype(int) % 12 // 3 + 1
        case "month":
            found = months.astype(int) % 12 + 1
        case "day":
            found = (days - months.astype("datetime64[D]")).astype(int) + 1
        case _:
            found = (days.astype(int) + 3) % 7
    return np.asarray(found, dtype=np.int64)


def time_zone(name: str) -> datetime.tzinfo:
    """Return a time zone: 'Europe/Paris', 'UTC', or 'UTC+02:00'.

    Raises
    ------
    NoDate
        If there is none of that name.
    """
    offset = OFFSET.fullmatch(name)
    if offset is not None:
        minutes = 60 * int(offset[2]) + int(offset[3] or 0)
        if minutes < 24 * 60:
            return datetime.timezone(datetime.timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise NoDate(f"there is no time zone {shorten(name)}; write one as 'Europe/Paris' or 'UTC'") from None


def clock_changes(first: datetime.date, last: datetime.date, zone: datetime.tzinfo) -> list[tuple[np.datetime64, int]]:
    """Return from which moment on, in UTC, the clocks of a time zone are how many seconds ahead of UTC.

    Parameters
    ----------
    first, last
        The days that it must be right for.
    zone
        The time zone; its clocks change at most once in 24 hours.

    Returns
    -------
    In order of the moments; what holds first holds of all that was before, too.
    """

    def ahead(second: int) -> int:
        moment = START + datetime.timedelta(seconds=second)
        return int((zone.fromutc(moment.replace(tzinfo=zone)).utcoffset() or datetime.timedelta()).total_seconds())

    # A day more on either side, as far as there are years: a zone's day begins on one of UTC's or the next.
    least, most = max(first.toordinal() - 2, 1), min(last.toordinal() + 2, datetime.date.max.toordinal() - 1)
    noons = [(day - 1) * DAY + DAY // 2 for day in range(least, most + 1)]
    found = [(noons[0], ahead(noons[0]))]
    for early, late in pairwise(noons):
        after = ahead(late)
        if after != found[-1][1]:
            while late - early > 1:
                middle = (early + late) // 2
                early, late = (early, middle) if ahead(middle) == after else (middle, late)
            found.append((late, after))
    return [(np.datetime64(START, "us") + np.timedelta64(second, "s"), offset) for second, offset in found]


def on_clocks(moments: Moments, changes: Sequence[tuple[np.datetime64, int]]) -> Moments:
    """Return moments of UTC as clocks show them that change so; see `clock_changes`. datetime64[us]."""
    if not changes:
        return moments
    since, ahead = zip(*changes, strict=True)
    place = np.searchsorted(np.array(since[1:], dtype="datetime64[us]"), moments, side="right")
    return np.asarray(moments + np.array(ahead, dtype="timedelta64[s]")[place])


def _span_of_text(text: str, zone: datetime.tzinfo | None) -> tuple[np.datetime64, np.datetime64]:
    if text.count("/") == 1 and "-" in text:
        first, last = (_span_of_text(part.strip(), zone) for part in text.split("/"))
        if first[0] == first[1] or last[0] == last[1] or first[0] >= last[1]:
            raise NoDate(f"{shorten(text)} goes from a first to a last day; write '2023-05-01/2023-05-07'")
        return first[0], last[1]
    found = WRITTEN.fullmatch(text)
    if found is None:
        if OTHER_ORDER.fullmatch(text):
            raise NoDate(f"{shorten(text)} can be read as more than one date; write year, month and day: '2023-05-17'")
        raise NoDate(f"{shorten(text)} is no date; write '2023-05-17', '2023-05', '2023-Q2' or '2023'")
    year = int(found["year"])
    try:
        if found["quarter"]:
            return _months(year, 3 * int(found["quarter"]) - 2, 3)
        if not found["month"]:
            return _months(year, 1, 12)
        if not found["day"]:
            return _months(year, int(found["month"]), 1)
        day = datetime.date(year, int(found["month"]), int(found["day"]))
        if not found["time"]:
            return _of_moment(np.datetime64(day, "us"))
        moment = datetime.datetime.fromisoformat(f"{day}T{found['time'][1:].strip()}")
    except ValueError:
        raise NoDate(f"{shorten(text)} is on no calendar; write a date such as '2023-05-17'") from None
    return span_of(moment, zone)


def _months(year: int, month: int, months: int) -> tuple[np.datetime64, np.datetime64]:
    first = np.datetime64(datetime.date(year, month, 1), "M")
    return first.astype("datetime64[us]"), (first + months).astype("datetime64[us]")


def _of_moment(moment: np.datetime64) -> tuple[np.datetime64, np.datetime64]:
    day = moment.astype("datetime64[D]")
    return (moment, (day + 1).astype("datetime64[us]")) if day == moment else (moment, moment)


def _told_in(moment: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    if zone is None:
        raise NoDate(f"{moment} has a time zone and the column has none; write the date without it")
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        raise NoDate(f"{moment} is on no calendar; write a date such as '2023-05-17'") from None


def _checked(moment: np.datetime64) -> np.datetime64:
    if not np.datetime64("0001-01-01", "us") <= moment <= np.datetime64("10000-01-01", "us"):
        raise NoDate("it is not of the years 1 to 9999")
    return moment

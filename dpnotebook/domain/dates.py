"""`Dates`: one level for each day, week, month, quarter or year."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import UNLISTED, Bounded, Codes
from dpnotebook.domain.calendar import (
    OF_A_SPAN,
    SPANS,
    Moments,
    NoDate,
    Span,
    begin_of_span,
    clock_changes,
    end_of_span,
    on_clocks,
    part_of,
    span_label,
    span_of,
    starts_of_spans,
    time_zone,
)
from dpnotebook.domain.spans import Spans, spans_with_others
from dpnotebook.domain.values import MAX_LEVELS, Mask, choice
from dpnotebook.errors import DomainError, PredicateError, shorten

DROP = "drop"
OUTSIDE = (DROP, "clamp", "other")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
YEAR_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
               "November", "December")  # fmt: skip
QUARTERS = ("Q1", "Q2", "Q3", "Q4")
IN_SQL = {  # what verbs have no word for
    "decade": "YEAR({0}) // 10 * 10",
    "age": "EXTRACT(YEAR FROM AGE(DATE '2025-01-01', {0}))",
    "hour": "HOUR({0})",
}
OF_EVERY = {"weekday": WEEKDAYS, "month of year": YEAR_MONTHS, "quarter of year": QUARTERS}


@dataclass(frozen=True, init=False, repr=False)
class Dates(Bounded):
    """Dates and times from one day to another, by day, week, month, quarter or year.

    A time counts on the day that the clock of its own place shows: of a column with a time zone, in that zone.

    Parameters
    ----------
    first, last
        The first and the last day, known from outside the data: a text such as "2023-01-01", "2023-01" or "2023", a
        date, or a Timestamp.
    by
        What one level is: "day", "week", "month", "quarter" or "year". Weeks begin on the weekday of `first`.
    outside
        "drop" leaves rows of other dates out of the table; "clamp" counts them at the first or last level; "other"
        counts them in a level of its own.
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    timezone
        The time zone whose days are meant, such as "Europe/Paris", of a column of moments. A pandas column with a time
        zone has its own unless another is given; columns without one have none, and of objects each moment has its own.
    label
        What people call the column, such as "Day of admission".

    Raises
    ------
    DomainError
        If these are no dates, or not the first and last day of whole weeks, months, quarters or years.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Dates("2023-01-01", "2024-12-31", by="month").size
    24
    >>> dpn.Dates("2023", "2023", by="quarter").labels
    ('2023-Q1', '2023-Q2', '2023-Q3', '2023-Q4')
    """

    first: datetime.date
    last: datetime.date
    by: Span
    outside: str
    nullable: bool
    timezone: str | None
    unit: str | None = field(default=None, compare=False, init=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "dates"
    holds = "date"

    def __init__(
        self,
        first: str | datetime.date,
        last: str | datetime.date,
        *,
        by: Span = "day",
        outside: str = DROP,
        nullable: bool = False,
        timezone: str | None = None,
        label: str | None = None,
    ) -> None:
        begin, end = _declared(first, "first")[0], _declared(last, "last")[1] - 1
        if begin > end:
            raise DomainError(f"Dates from {begin} to {end} are none: the first day comes after the last")
        object.__setattr__(self, "by", choice(by, "by=", SPANS))
        object.__setattr__(self, "first", begin.astype(object))
        object.__setattr__(self, "last", end.astype(object))
        object.__setattr__(self, "outside", choice(outside, "outside=", OUTSIDE))
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)))
        if timezone is not None and not isinstance(timezone, str):
            timezone = str(timezone)  # a ZoneInfo is written as its name
        object.__setattr__(self, "timezone", timezone)
        self._say(None, label)
        try:
            _ = self.zone, self.starts
        except NoDate as error:
            raise DomainError(str(error)) from None
        if self.regular > MAX_LEVELS:
            raise DomainError(f"that makes {self.regular:,} levels, and at most {MAX_LEVELS:,} are possible")

    @cached_property
    def starts(self) -> Moments:
        """The first day of each level, and the day after the last one; datetime64[D], shape (regular + 1,)."""
        starts = starts_of_spans(self.first, self.last, self.by)
        starts.setflags(write=False)
        return starts

    @cached_property
    def zone(self) -> datetime.tzinfo | None:
        """The time zone whose days are meant."""
        return None if self.timezone is None else time_zone(self.timezone)

    @cached_property
    def clock_changes(self) -> list[tuple[np.datetime64, int]]:
        """From which moment of UTC on clocks are how many seconds ahead of it; empty without a time zone."""
        return [] if self.zone is None else clock_changes(self.first, self.last, self.zone)

    @property
    def regular(self) -> int:
        """The number of days, weeks, months, quarters or years."""
        return len(self.starts) - 1

    @cached_property
    def levels(self) -> Sequence[str]:
        """The levels as texts: "2023-05-17", "2023-05", "2023-Q2", "2023", weeks by their first and last day."""
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        return tuple(span_label(start, stop, self.by) for start, stop in ends)

    def in_zone(self, timezone: str) -> Dates:
        """Return the same dates as days of a time zone."""
        options = {"outside": self.outside, "nullable": self.nullable, "label": self.label}
        return Dates(self.first, self.last, by=self.by, timezone=timezone, **options)  # type: ignore[arg-type]

    def by_span(self, by: Span) -> Dates | None:
        """Return the same dates by whole spans of the calendar; None where these are shorter than what is declared."""
        if SPANS.index(by) < SPANS.index(self.by) or (self.by == "week" and by != "week"):
            return None
        first, last = begin_of_span(self.starts[[0, -1]] - np.array([0, 1]), by)
        if by == self.by:
            return self if first == self.starts[0] else None
        end = (end_of_span(last, by) - 1).astype(object)
        return Dates(first.astype(object), end, by=by, outside=self.outside, nullable=self.nullable, label=self.label)

    def level_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last day of each level, numbered from 1970-01-01."""
        days = self.starts.astype("datetime64[D]").astype(np.int64)
        return days[:-1], days[1:] - 1

    def span(self, start: int, stop: int) -> str:
        """Return levels start to stop - 1 as text."""
        return self.levels[start] if stop == start + 1 else f"{self.levels[start]} to {self.levels[stop - 1]}"

    def levels_of_days(self, days: NDArray[np.int64], missing: Mask) -> Codes:
        """Return the level of days, numbered from 1970-01-01, and of missing ones; -1 for those without one."""
        codes = self._placed(self.starts.astype(np.int64), days)
        if self.other_index is not None:
            codes[codes == UNLISTED] = self.other_index
        codes[missing] = UNLISTED if self.null_index is None else self.null_index
        return codes

    def coarser(self, by: str, name: str = "the column") -> Spans:
        """Return longer spans, or parts of every week or year, in order.

        Other and missing dates are groups of their own, the last ones.

        Parameters
        ----------
        by
            "week" (from Monday to Sunday), "month", "quarter" or "year"; or "weekday", "month of year" or
            "quarter of year".
        name
            What to call the column in an error.

        Raises
        ------
        DomainError
            If there is no such span, or a level is in two of them.
        """
        days = self.starts[:-1]
        if by == self.by:
            return spans_with_others(self, self.levels, np.arange(self.regular))
        if by in OF_EVERY:
            part = by.removesuffix(" of year")
            if self.by in OF_A_SPAN[part]:
                places, groups = np.unique(part_of(part, days) - (part != "weekday"), return_inverse=True)
                return spans_with_others(self, [OF_EVERY[by][place] for place in places], groups)
        elif by in SPANS:
            firsts, ends = (begin_of_span(ends, by) for ends in (days, self.starts[1:] - 1))
            if (firsts == ends).all() and SPANS.index(by) > SPANS.index(self.by):
                begins, groups = np.unique(firsts, return_inverse=True)
                return spans_with_others(self, [span_label(day, end_of_span(day, by), by) for day in begins], groups)
        else:
            words = ", ".join(map(repr, (*SPANS, *OF_EVERY)))
            in_sql = f"; in SQL, GROUP BY {IN_SQL[by].format(name)}" if by in IN_SQL else ""
            raise DomainError(f"{name} is grouped by {words}, not by {shorten(by)}{in_sql}")
        raise DomainError(
            f"{name} is declared by {self.by}, so it cannot be grouped by {by}; declare Dates(..., by='day')"
        )

    def part(self, part: str, name: str = "the column") -> NDArray[np.int64]:
        """Return a part of each level's dates as pandas' `.dt` numbers it: year, quarter, month, day, dayofweek.

        Raises
        ------
        PredicateError
            If there is no such part, or a level has more than one.
        """
        if part in ("hour", "minute"):
            raise PredicateError(
                f"{name} is declared as days; its hours are those of another column: frame['hour'] = frame['{name}'], "
                "declared as Times(by='hour')"
            )
        if part not in OF_A_SPAN:
            raise PredicateError(f".dt.{part} is not supported; there are {', '.join(f'.dt.{p}' for p in OF_A_SPAN)}")
        if self.by not in OF_A_SPAN[part]:
            raise PredicateError(
                f"{name} is declared by {self.by}, so .dt.{part} is not known of it; declare Dates(..., by='day')"
            )
        return part_of(part, self.starts[:-1])

    def _check(self, value: Any, name: str) -> None:
        """Let everything through: what is no date is told when it is read."""

    def _find(self, value: Any, name: str) -> slice:
        start, stop = self._span_of(value, name)
        if start == stop:
            raise PredicateError(
                f"{shorten(str(value))} is a moment of a day, and {name} is declared by {self.by}; write a date, such "
                f"as '{start.astype('datetime64[D]')}'"
            )
        first, last = (self._place("==", moment, value, name) for moment in (start, stop))
        if first == last:
            raise PredicateError(f"{shorten(str(value))} is outside of {name}, which has {self.first} to {self.last}")
        return slice(first, last)

    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        start, stop = self._span_of(value, name)
        before = np.arange(self.regular) < self._place(op, start if op in ("<", ">=") else stop, value, name)
        return before if op in ("<", "<=") else ~before

    def _place(self, op: str, moment: np.datetime64, value: Any, name: str) -> int:
        """Return how many levels lie before a moment."""
        edges = self._edges
        place = int(np.searchsorted(edges, moment))
        if place > self.regular or place == 0 or edges[place] == moment:
            return min(place, self.regular)
        early, late = self.starts[place - 1], self.starts[place]
        if op == "==":
            label = self.levels[place - 1]
            raise PredicateError(
                f"{shorten(str(value))} is only a part of the {self.by} {label}, and {name} is declared by {self.by}; "
                f"write '{label}'"
            )
        sign = "<" if op in ("<", "<=") else ">="
        raise PredicateError(
            f"{name} {op} {shorten(str(value))} cuts the {self.by} {self.levels[place - 1]} in two; {name} is "
            f"declared by {self.by}: write {name} {sign} '{early}' or {name} {sign} '{late}'"
        )

    def _codes(self, data: NDArray[Any]) -> Codes:
        if data.dtype.kind == "M":
            return self._placed(self._edges, on_clocks(data.astype("datetime64[us]"), self.clock_changes))
        if data.dtype.kind != "O":
            return np.full(len(data), UNLISTED, dtype=np.int64)
        found = np.array([self._moment(value) for value in data.tolist()], dtype="datetime64[us]")
        codes = self._placed(self._edges, found)
        codes[np.isnat(found)] = UNLISTED
        return codes

    @cached_property
    def _edges(self) -> NDArray[Any]:
        """The first moment of each level, and the one after the last."""
        return self.starts.astype("datetime64[us]")

    def _placed(self, edges: NDArray[Any], moments: NDArray[Any]) -> Codes:
        """Return the level between whose edges each moment is."""
        codes = np.searchsorted(edges, moments, side="right") - 1
        if self.clamps:
            return np.clip(codes, 0, self.regular - 1).astype(np.int64)
        codes[codes >= self.regular] = UNLISTED
        return codes.astype(np.int64)

    def _moment(self, value: Any) -> Any:
        """Return a date or time of Python on the clock of the time zone, else its own; NaT for all else."""
        if self.zone is None and isinstance(value, datetime.datetime):
            value = value.replace(tzinfo=None)
        try:
            return span_of(value, self.zone)[0] if isinstance(value, datetime.date) else np.datetime64("NaT")
        except NoDate:
            return np.datetime64("NaT")

    def _span_of(self, value: Any, name: str) -> tuple[np.datetime64, np.datetime64]:
        try:
            return span_of(value, self.zone)
        except NoDate as error:
            raise PredicateError(f"{name} holds dates: {error}") from None

    def _regular_words(self, mask: Mask) -> list[str]:
        return [self.span(start, stop) for start, stop in self.runs(mask)]

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        return {
            "kind": self.kind,
            "first": str(self.first),
            "last": str(self.last),
            "by": self.by,
            "outside": self.outside,
            "nullable": self.nullable,
            "timezone": self.timezone,
            **self._said(),
        }

    def __repr__(self) -> str:
        options = [f"by={self.by!r}"] + [f"outside={self.outside!r}"] * (self.outside != DROP)
        options += ["nullable=True"] * self.nullable + [f"timezone={self.timezone!r}"] * (self.timezone is not None)
        options += self._written()
        return f"Dates({', '.join([repr(str(self.first)), repr(str(self.last)), *options])})"


def _declared(value: Any, what: str) -> tuple[np.datetime64, np.datetime64]:
    """Return the first day of what was declared, and the day after it."""
    if hasattr(value, "iloc") or isinstance(value, np.ndarray):
        raise DomainError(f"the {what} day of Dates is a date that you know without the data, not a column of it")
    try:
        start, stop = span_of(value)
    except NoDate as error:
        raise DomainError(f"the {what} day of Dates: {error}") from None
    if start == stop:
        raise DomainError(f"the {what} day of Dates is a day, and {shorten(str(value))} is a moment of one")
    return start.astype("datetime64[D]"), stop.astype("datetime64[D]")

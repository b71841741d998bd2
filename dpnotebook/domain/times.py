"""`Times`: one level for each hour of the day, or so many minutes of it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import OPERATORS, UNLISTED, Attribute, Codes
from dpnotebook.domain.calendar import Moments, NoDate, clock_changes, on_clocks, time_zone
from dpnotebook.domain.values import Mask, choice
from dpnotebook.errors import DomainError, PredicateError, shorten

DAY = 24 * 60  # minutes
SPAN = re.compile(r"(\d{1,4}) minutes")
WRITTEN = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?")
# Years whose clock changes are told apart; before and after them clocks are taken to be as at these ends.
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
PARTS = ("hour", "minute")


@dataclass(frozen=True, init=False, repr=False)
class Times(Attribute):
    """The time of day of moments, by hour or so many minutes, on the clock of their own place.

    Columns of times without a day, as databases' TIME and Python's `datetime.time` are, are declared alike.

    An hour of which a clock change makes two counts twice as long, and one that it leaves out has no rows. A frame that
    has the day and the hour of one column has it twice: `frame["hour"] = frame["seen"]`.

    Parameters
    ----------
    by
        What one level is: "hour", "minute", or a number of minutes that divides a day, such as "15 minutes".
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    timezone
        The time zone whose clocks are meant, such as "Europe/Paris", of a column of moments. A pandas column with a
        time zone has its own unless another is given; columns without one have none, and of objects each moment
        has its own.
    label
        What people call the column, such as "Hour of admission".

    Raises
    ------
    DomainError
        If there is no such span, or no such time zone.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Times(by="hour").labels[:3]
    ('00:00', '01:00', '02:00')
    >>> dpn.Times(by="15 minutes").size
    96
    """

    minutes: int
    nullable: bool
    timezone: str | None
    unit: str | None = field(default=None, compare=False, init=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "times"
    holds = "date"
    ordered = True
    other_label: ClassVar[None] = None

    def __init__(
        self,
        by: str = "hour",
        *,
        nullable: bool = False,
        timezone: str | None = None,
        label: str | None = None,
    ) -> None:
        object.__setattr__(self, "minutes", _minutes(by))
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)))
        if timezone is not None and not isinstance(timezone, str):
            timezone = str(timezone)  # a ZoneInfo is written as its name
        object.__setattr__(self, "timezone", timezone)
        self._say(None, label)
        try:
            _ = self.zone
        except NoDate as error:
            raise DomainError(str(error)) from None

    @property
    def by(self) -> str:
        """What one level is, as it is declared."""
        return {60: "hour", 1: "minute"}.get(self.minutes, f"{self.minutes} minutes")

    @cached_property
    def zone(self) -> datetime.tzinfo | None:
        """The time zone whose clocks are meant."""
        return None if self.timezone is None else time_zone(self.timezone)

    @property
    def clock_changes(self) -> list[tuple[np.datetime64, int]]:
        """From which moment of UTC on clocks are how many seconds ahead of it; empty without a time zone."""
        return [] if self.timezone is None else _changes(self.timezone)

    @property
    def regular(self) -> int:
        """The number of spans of a day."""
        return DAY // self.minutes

    @cached_property
    def levels(self) -> Sequence[str]:
        """When each span begins: "08:00"."""
        return tuple(f"{start // 60:02}:{start % 60:02}" for start in range(0, DAY, self.minutes))

    def in_zone(self, timezone: str) -> Times:
        """Return the same times on the clocks of a time zone."""
        return Times(by=self.by, nullable=self.nullable, timezone=timezone, label=self.label)

    def levels_of_minutes(self, minutes: NDArray[np.int64], missing: Mask) -> Codes:
        """Return the level of minutes of the day, and of missing ones; -1 for those without one."""
        codes = minutes // self.minutes
        codes[missing] = UNLISTED if self.null_index is None else self.null_index
        return codes

    def part(self, part: str, name: str = "the column") -> NDArray[np.int64]:
        """Return a part of each level's times as pandas' `.dt` numbers it: hour, or minute.

        Raises
        ------
        PredicateError
            If there is no such part, or a level has more than one.
        """
        starts = np.arange(0, DAY, self.minutes)
        if part not in PARTS:
            raise PredicateError(
                f"{name} is declared as times of day: there are .dt.hour and .dt.minute, no .dt.{part}"
            )
        if part == "minute" and self.minutes > 1:
            raise PredicateError(
                f"{name} is declared by {self.by}, so .dt.minute is not known of it; declare Times(by='minute')"
            )
        if 60 % self.minutes:
            raise PredicateError(f"{name} is declared by {self.by}, which are in two hours; declare Times(by='hour')")
        return starts // 60 if part == "hour" else starts % 60

    def _check(self, value: Any, name: str) -> None:
        """Let everything through: what is no time is told when it is read."""

    def _find(self, value: Any, name: str) -> slice:
        level, rest = divmod(self._second(value, name), 60 * self.minutes)
        if rest:
            raise PredicateError(
                f"{shorten(str(value))} is only a part of the {self.by} from {self.levels[level]}, and {name} is "
                f"declared by {self.by}; write '{self.levels[level]}'"
            )
        return slice(level, level + 1)

    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        level, rest = divmod(self._second(value, name), 60 * self.minutes)
        if not rest and (op in ("<", ">=") or self.minutes == 1):
            return np.asarray(OPERATORS[op](np.arange(self.regular), level))
        sign, after = "<" if op in ("<", "<=") else ">=", self.levels[(level + 1) % self.regular]
        raise PredicateError(
            f"{name} {op} {shorten(str(value))} cuts the {self.by} from {self.levels[level]} in two: write "
            f"{name} {sign} '{self.levels[level]}'" + (f" or {name} {sign} '{after}'" if after != "00:00" else "")
        )

    def _second(self, value: Any, name: str) -> int:
        """Return a time of day in seconds."""
        if isinstance(value, datetime.time) and value.tzinfo is None:
            return 3600 * value.hour + 60 * value.minute + value.second
        found = WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is not None:
            hour, minute, second = (int(part or 0) for part in found.groups())
            if hour < 24 and minute < 60 and second < 60:
                return 3600 * hour + 60 * minute + second
        raise PredicateError(
            f"{name} holds times of day, and {shorten(str(value))} is none; write one as '08:00', or "
            f"{name}.dt.hour == 8"
        )

    def _codes(self, data: NDArray[Any]) -> Codes:
        if data.dtype.kind == "M":
            moments = on_clocks(data.astype("datetime64[us]"), self.clock_changes)
            return self._placed(moments)
        if data.dtype.kind != "O":
            return np.full(len(data), UNLISTED, dtype=np.int64)
        return np.fromiter((self._code(value) for value in data.tolist()), dtype=np.int64, count=len(data))

    def _placed(self, moments: Moments) -> Codes:
        """Return the level of moments as clocks show them."""
        minutes = (moments - moments.astype("datetime64[D]")).astype("timedelta64[m]").astype(np.int64)
        return np.where(np.isnat(moments), UNLISTED, minutes // self.minutes)

    def _code(self, value: Any) -> int:
        """Return the level of a date or time of Python; -1 of all else."""
        if isinstance(value, datetime.datetime):
            if value.tzinfo is not None and self.zone is not None:  # else by the clock of its own place
                value = value.astimezone(self.zone)
        elif isinstance(value, datetime.date):  # a day begins at midnight
            return 0
        elif not isinstance(value, datetime.time):
            return UNLISTED
        return int(60 * value.hour + value.minute) // self.minutes

    def _regular_words(self, mask: Mask) -> list[str]:
        ends = [*self.levels, "24:00"]
        return [f"{ends[start]} to {ends[stop]}" for start, stop in self.runs(mask)]

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        return {"kind": self.kind, "by": self.by, "nullable": self.nullable, "timezone": self.timezone} | self._said()

    def __repr__(self) -> str:
        options = [f"by={self.by!r}"] + ["nullable=True"] * self.nullable
        options += [f"timezone={self.timezone!r}"] * (self.timezone is not None) + self._written()
        return f"Times({', '.join(options)})"


def _minutes(by: Any) -> int:
    """Return the minutes of a span of the day."""
    if isinstance(by, str) and by in ("hour", "minute"):
        return 60 if by == "hour" else 1
    found = SPAN.fullmatch(by) if isinstance(by, str) else None
    minutes = 0 if found is None else int(found[1])
    if not minutes or DAY % minutes:
        raise DomainError(f"by= is 'hour', 'minute', or minutes that divide a day: '15 minutes'; not {shorten(by)}")
    return minutes


@lru_cache(maxsize=32)
def _changes(timezone: str) -> list[tuple[np.datetime64, int]]:
    return clock_changes(FIRST, LAST, time_zone(timezone))

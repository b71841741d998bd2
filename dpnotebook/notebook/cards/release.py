"""The release card: noisy answers with their intervals, as a table with small pictures or as one large number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.cards.picked_lines import picked_note
from dpnotebook.notebook.cards.plan import WHOLE
from dpnotebook.notebook.html import box, escape, line, quiet, table
from dpnotebook.query.question import Question
from dpnotebook.session.answer_frame import PARTS, column_name

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.session.release import Release

ROWS = 20  # of a release that a card lists; all are in its frame
MIDDLE = 1e-6  # of the widest half-width: what a value is off the middle by is rounding
DIGITS = 6  # of bounds
EMPTY = "no group has enough people to be shown"
BOUNDED = "what a person adds is bounded first; intervals show the noise, not what the bounds leave out"
WORKED_OUT = "worked out from noisy answers; select the aggregates themselves to see their intervals"
PICTURES = 3  # columns with values, from which on pictures would not fit into a card
MISSING = "(missing)"
NOT_FOUND = "not found"
ANYTHING, NO_INTERVAL = "may be anything", "without an interval"


@dataclass(frozen=True)
class Series:
    """One measure of a release: what it is called, what it is counted in, its values and its intervals."""

    name: str
    words: str
    unit: str
    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    searched: bool = False  # whether a value that does not exist was not found
    dates: bool = False  # whether the values are days, numbered from 1970-01-01

    def said(self, number: float, half: float) -> str:
        """Return a value, or an end of an interval, with the digits that the interval supports."""
        if self.dates and math.isfinite(number):
            return str(np.datetime64(math.floor(number), "D"))
        return formatting.value(number, half)

    @property
    def half(self) -> NDArray[np.float64]:
        """Half the width of each interval."""
        return (self.upper - self.lower) / 2

    @property
    def symmetric(self) -> bool:
        """Whether every value lies in the middle of its interval."""
        known = np.isfinite(self.half)
        lower, upper, half = self.lower[known], self.upper[known], self.half[known]
        atol = MIDDLE * max(float(half.max(initial=0.0)), 1e-12)
        return not self.dates and bool(np.allclose((upper + lower) / 2, self.value[known], atol=atol))


def series_of(release: Release) -> Iterator[Series]:
    """Yield the measures of a release."""
    for measure in release.measures:
        columns = [measure.name, *(column_name(measure.name, part) for part in ("lower", "upper"))]
        dates = release.frame[measure.name].dtype.kind == "M"
        value, lower, upper = (_numbers(release.frame[column]) for column in columns)
        unit, words = release.unit_of(measure), release.words_of(measure)
        yield Series(measure.name, words, unit, value, lower, upper, bool(release.notes), dates)


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    """Return a column as numbers: dates as days from 1970-01-01."""
    if column.dtype.kind == "M":
        return np.asarray(column.to_numpy(dtype="datetime64[D]").astype(np.int64), dtype=np.float64)
    return np.asarray(column.to_numpy(dtype=float))


def label(level: Any) -> str:
    """Return the level of a key as people read it."""
    if level is None or (isinstance(level, float) and math.isnan(level)) or type(level).__name__ == "NaTType":
        return MISSING
    return str(level).removesuffix(" 00:00:00")  # days are days, also where they are kept as times


def beside(release: Release) -> tuple[str, ...]:
    """Return the columns without an interval: what a statement works out from the noisy answers, and arrays of them."""
    parts = {column_name(measure.name, part) for measure in release.measures for part in PARTS}
    arrays = {name for name in release.frame.columns if _of_lists(release.frame[name])}
    parts |= {column_name(name, part) for name in arrays for part in PARTS}
    taken = {*release.keys, *release.names, *parts}
    return tuple(str(name) for name in release.frame.columns if name not in taken)


def cell(value: Any) -> str:
    """Return a value without an interval as people read it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return ", ".join(map(cell, value))
    if isinstance(value, (float, np.floating)) and not math.isnan(value):
        return formatting.rounded(float(value), 4)
    return label(value)


def _of_lists(column: Any) -> bool:
    return len(column) > 0 and column.dtype == object and isinstance(column.iloc[0], (list, np.ndarray))


def scope(release: Release) -> str:
    """Return the tables and the predicate of a release."""
    tables = " and ".join(getattr(release.question, "tables", ())) or release.table
    return f"in {tables}" + (f" where {release.where}" if release.where else "")


def facts(release: Release) -> str:
    """Return number, price, and what the intervals mean, in one line."""
    delta = f", δ {formatting.rounded(release.delta)}" if release.delta else ""
    paid = "answered from the ledger, cost nothing" if not release.paid else ""
    if release.paid and release.paid < WHOLE * release.epsilon:
        paid = f"the session paid ε {formatting.cost(release.paid)}"
    alone = f"ε {formatting.cost(release.epsilon)}{delta}" if release.epsilon else ""
    named = f"release #{release.number}" if release.number else f"from {formatting.releases(release.sources)}"
    parts = (named, combined(release) if release.number else "", alone, paid, intervals(release))
    return " · ".join(part for part in parts if part)


def combined(release: Release) -> str:
    """Return the other releases that an answer is combined from; empty where it is from its own alone."""
    others = tuple(number for number in release.sources if number != release.number)
    if not others:
        return ""
    return f"combined {'with' if release.epsilon else 'from'} {formatting.releases(others)}"


def intervals(release: Release) -> str:
    """Return what the intervals cover, and what they do not; empty where nothing has one."""
    if not release.measures:
        return ""
    return f"{formatting.percent(release.confidence)} intervals from noise" + (
        ", all at once" if release.together else ""
    )


def release_html(release: Release) -> str:
    """Return a release as HTML that untrusted notebooks keep: one large number, or the first rows of a table."""
    found = list(series_of(release))
    parts = [f"<div><b>{escape(release.title)}</b> {quiet(escape(scope(release)))}</div>"]
    if not len(release.frame):
        parts += [] if release.notes else [line(escape(EMPTY))]
    elif _single(release, found):
        parts += [_large(series, release) for series in found]
    else:
        parts.append(_table(release, found))
        if len(release.frame) > ROWS:
            parts.append(line(quiet(f"… and {len(release.frame) - ROWS:,} more rows, in .frame")))
    parts += [line(f"⚠ {escape(note)}") for note in _warnings(release)]
    parts.append(line(quiet(escape(facts(release)))))
    parts += [line(quiet(escape(note))) for note in _notes(release)]
    return box(*parts)


def release_text(release: Release) -> str:
    """Return a release as aligned text: number, price, and the first rows with their intervals."""
    rows = [f"{release.title} {scope(release)}", f"  {facts(release)}"]
    found, others = list(series_of(release)), beside(release)
    if not len(release.frame):
        return "\n".join([*rows, *(f"  {note}" for note in release.notes or (EMPTY,))])
    if _single(release, found):
        rows += [f"  {series.words}: {_with_unit(series)}" for series in found]
        return "\n".join([*rows, *(f"  {note}" for note in _warnings(release))])
    head = [*release.keys, *(series.name for series in found), *others]
    levels = [release.labels(key) for key in release.keys]
    body = [
        [
            *(label(each[row]) for each in levels),
            *(_with_error(series, row) for series in found),
            *(cell(release.frame[name].iloc[row]) for name in others),
        ]
        for row in range(min(ROWS, len(release.frame)))
    ]
    widths = [max(len(str(row[column])) for row in [head, *body]) for column in range(len(head))]
    rows += [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *body]
    ]
    if len(release.frame) > ROWS:
        rows.append(f"  … and {len(release.frame) - ROWS:,} more rows, in .frame")
    return "\n".join([*rows, *(f"  {note}" for note in _warnings(release))])


def _warnings(release: Release) -> list[str]:
    """Return what a reader of the intervals has to know."""
    return [note for note in (*release.notes, picked_note(release)) if note]


def _single(release: Release, found: list[Series]) -> bool:
    return len(release.frame) == 1 and not release.keys and bool(found) and not beside(release)


def _large(series: Series, release: Release) -> str:
    value, lower, upper = float(series.value[0]), float(series.lower[0]), float(series.upper[0])
    half = float(series.half[0])
    name = f"{escape(series.words)}: " if len(release.measures) > 1 else ""
    if not _known(series, 0):
        return line(f'{name}<b style="font-size:24px">{NOT_FOUND}</b>', "margin:4px 0")
    if not math.isfinite(half):
        told = f'<b style="font-size:24px">{formatting.rounded(value)}</b> {quiet(_instead(value, half))}'
        return line(f"{name}{told}", "margin:4px 0")
    error = (
        f"±{formatting.error(half)}"
        if series.symmetric
        else f"{series.said(lower, half)} to {series.said(upper, half)}"
    )
    zero = lower - half <= 0 <= upper + half
    low, high = (min(lower - half, 0.0), max(upper + half, 0.0)) if zero else (lower - half, upper + half)
    picture = svg.interval(lower, value, upper, low, high, _alt(series, 0), zero=zero, width=220)
    return line(
        f'{name}<b style="font-size:24px">{series.said(value, half)}</b> '
        f'<span style="font-size:16px">{error}</span> {quiet("" if series.dates else escape(series.unit))} {picture}',
        "margin:4px 0",
    )


def _table(release: Release, found: list[Series]) -> str:
    shown = min(ROWS, len(release.frame))
    head, align = list(release.keys), "l" * len(release.keys)
    others = beside(release)
    pictures = len(found) + len(others) < PICTURES
    for series in found:
        name = series.unit if series.name == "value" else series.name
        head += [name, f"{formatting.percent(release.confidence)} interval" if not series.symmetric else "±"]
        head += [""] * pictures
        align += "rr" + "l" * pictures
    head += others
    align += "r" * len(others)
    axes, levels = [_axis(series, shown) for series in found], [release.labels(key) for key in release.keys]
    rows = []
    for row in range(shown):
        cells = [escape(label(each[row])) for each in levels]
        for series, (low, high, zero) in zip(found, axes, strict=True):
            value, lower, upper = (float(part[row]) for part in (series.value, series.lower, series.upper))
            if not _known(series, row):
                cells += [NOT_FOUND, "", ""][: 2 + pictures]
                continue
            half = float(series.half[row])
            if not math.isfinite(half):
                cells += [f"<b>{formatting.rounded(value)}</b>", _instead(value, half), ""][: 2 + pictures]
                continue
            error = f"{series.said(lower, half)} to {series.said(upper, half)}"
            cells += [
                f"<b>{series.said(value, half)}</b>",
                f"±{formatting.error(half)}"
                if series.symmetric
                else f'<span style="white-space:nowrap">{error}</span>',
            ]
            if pictures:
                cells.append(svg.interval(lower, value, upper, low, high, _alt(series, row), zero=zero, width=130))
        rows.append([*cells, *(escape(cell(release.frame[name].iloc[row])) for name in others)])
    return table(head, rows, align)


def _axis(series: Series, shown: int) -> tuple[float, float, bool]:
    """Return the ends of the axis that the shown rows share, and whether zero is on it."""
    low = min((end for end in series.lower[:shown].tolist() if math.isfinite(end)), default=0.0)
    high = max((end for end in series.upper[:shown].tolist() if math.isfinite(end)), default=0.0)
    near_zero = low <= 0 or low < 0.5 * high
    return (min(low, 0.0), max(high, 0.0), True) if near_zero else (low, high, False)


def _alt(series: Series, row: int) -> str:
    half = float(series.half[row])
    numbers = (series.said(float(part[row]), half) for part in (series.value, series.lower, series.upper))
    return "{}, interval {} to {}".format(*numbers)


def _with_unit(series: Series) -> str:
    unit = "" if series.dates else f" {series.unit}"  # a date is counted in nothing
    return f"{_with_error(series, 0)}{unit}" if _known(series, 0) else NOT_FOUND


def _known(series: Series, row: int) -> bool:
    return not (series.searched and math.isnan(series.value[row]) and math.isnan(series.half[row]))


def _with_error(series: Series, row: int) -> str:
    if not _known(series, row):
        return NOT_FOUND
    half = float(series.half[row])
    if not math.isfinite(half):
        number = float(series.value[row])
        said = _instead(number, half)
        return f"{cell(number)} ({said})" if said else formatting.rounded(number)
    value = series.said(float(series.value[row]), half)
    if series.symmetric:
        return f"{value} ±{formatting.error(half)}"
    lower, upper = (series.said(float(ends[row]), half) for ends in (series.lower, series.upper))
    return f"{value} ({lower} to {upper})"


def _instead(value: float, half: float) -> str:
    """Return what stands where there is no interval; nothing beside a value that does not exist."""
    if math.isinf(half):
        return ANYTHING
    return "" if math.isnan(value) else NO_INTERVAL


def _notes(release: Release) -> Iterator[str]:
    if not isinstance(release.question, Question):
        yield BOUNDED if release.measures else WORKED_OUT
        return
    domain = release.question.where.domain
    for measure in release.question.measures:
        if measure.column is not None and measure.kind in ("sum", "mean") and domain[measure.column].bounds is not None:
            low, high = (formatting.rounded(float(end), DIGITS) for end in (measure.summand.low, measure.summand.high))
            yield f"{measure.column} outside {low} to {high} counts as the nearest bound; intervals do not show that"

"""The release card: noisy answers with their intervals, as a table with small pictures or as one large number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook import currency, formatting, svg
from dpnotebook.notebook.cards import dots
from dpnotebook.notebook.cards.model import (
    Block,
    Card,
    Cell,
    Fold,
    Heading,
    Line,
    Picture,
    Span,
    Table,
    cell,
    line,
    quiet,
    strong,
)
from dpnotebook.notebook.cards.picked_lines import picked_note
from dpnotebook.notebook.cards.plan import WHOLE, budget_parts, how_and_code
from dpnotebook.notebook.cards.reuse_lines import SHARPER
from dpnotebook.notebook.cards.totals import MISSING, blanks
from dpnotebook.query.question import Question, clamping_words
from dpnotebook.session.answer_frame import PARTS, column_name

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.release import Release

ROWS = 20  # of a release that a card lists; all are in its frame
MIDDLE = 1e-6  # of the widest half-width: what a value is off the middle by is rounding
DIGITS = 6  # of bounds
FREE = "Answered from the ledger: costs nothing"
EMPTY = "no group has enough units to be shown"
BOUNDED = "what one unit adds is bounded first; intervals show the noise, not what the bounds leave out"
BOUNDED_AND_HELD = (
    "what one unit adds is bounded first; intervals show the noise, and what the bounds leave out where that is said"
)
WORKED_OUT = "worked out from noisy answers; select the aggregates themselves to see their intervals"
PICTURES = 3  # columns with values, from which on pictures would not fit into a card
NOT_FOUND, NULL = "not found", "NULL"
NO_VALUE = ("NaTType", "NAType")
ANYTHING, NO_INTERVAL = "may be anything", "without an interval"
CERTAIN = "no other"  # of a rank, say, whose interval is one number: ±0 would say that it is exact


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
    worked_out: bool = False  # whether the statement works them out: what does not exist then is its own NULL

    @property
    def absent(self) -> str:
        """What stands for a value that does not exist."""
        return NULL if self.worked_out else NOT_FOUND

    def said(self, number: float, half: float) -> str:
        """Return a value, or an end of an interval, with the digits that the interval supports."""
        if self.dates and math.isfinite(number):
            return str(np.datetime64(math.floor(number), "D"))
        return formatting.value(number, half)

    @property
    def half(self) -> NDArray[np.float64]:
        """Half the width of each interval."""
        return (self.upper - self.lower) / 2

    def open_ended(self, row: int) -> str:
        """Return what is said in place of an interval that has one end, or none; nothing where it has two."""
        lower, upper = float(self.lower[row]), float(self.upper[row])
        if math.isinf(lower) and math.isinf(upper):
            return ANYTHING
        if not (math.isinf(lower) or math.isinf(upper)):
            return ""
        end, most, rounding = (
            (lower, "at least", ROUND_FLOOR) if math.isinf(upper) else (upper, "at most", ROUND_CEILING)
        )
        return f"{most} {self.said(end, math.nan) if self.dates else formatting.rounded(end, rounding=rounding)}"

    @property
    def symmetric(self) -> bool:
        """Whether every value lies in the middle of its interval."""
        known = np.isfinite(self.half)
        lower, upper, half = self.lower[known], self.upper[known], self.half[known]
        atol = MIDDLE * max(float(half.max(initial=0.0)), 1e-12)
        one_end = np.isinf(self.lower) ^ np.isinf(self.upper)
        return (
            not self.dates
            and not one_end.any()
            and bool(np.allclose((upper + lower) / 2, self.value[known], atol=atol))
        )


def series_of(release: Release) -> Iterator[Series]:
    """Yield the measures of a release."""
    for measure in release.measures:
        columns = [measure.name, *(column_name(measure.name, part) for part in ("lower", "upper"))]
        dates = release.frame[measure.name].dtype.kind == "M"
        value, lower, upper = (_numbers(release.frame[column]) for column in columns)
        unit, words = release.unit_of(measure), release.words_of(measure)
        yield Series(
            measure.name, words, unit, value, lower, upper, bool(release.notes), dates, measure.kind == "derived"
        )


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    """Return a column as numbers: dates as days from 1970-01-01."""
    if column.dtype.kind == "M":
        return np.asarray(column.to_numpy(dtype="datetime64[D]").astype(np.int64), dtype=np.float64)
    return np.asarray(column.to_numpy(dtype=float))


def label(level: Any, blank: str = MISSING) -> str:
    """Return the level of a key as people read it; `blank` where it is NULL."""
    if level is None or (isinstance(level, float) and math.isnan(level)) or type(level).__name__ in NO_VALUE:
        return blank
    return str(level).removesuffix(" 00:00:00")  # days are days, also where they are kept as times


def beside(release: Release) -> tuple[str, ...]:
    """Return the columns without an interval: what a statement works out from the noisy answers, and arrays of them."""
    parts = {column_name(measure.name, part) for measure in release.measures for part in PARTS}
    arrays = {name for name in release.frame.columns if _of_lists(release.frame[name])}
    parts |= {column_name(name, part) for name in arrays for part in PARTS}
    taken = {*release.keys, *release.names, *parts}
    return tuple(str(name) for name in release.frame.columns if name not in taken)


def written(value: Any) -> str:
    """Return a value without an interval as people read it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return ", ".join(map(written, value))
    if isinstance(value, (float, np.floating)) and not math.isnan(value):
        return formatting.rounded(float(value), 4)
    return label(value)


def written_in(release: Release, name: str, row: int) -> str:
    """Return a value without an interval; of several in one, as quantiles are, each with its own."""
    value, ends = release.frame[name].iloc[row], [column_name(name, part) for part in ("lower", "upper")]
    if not isinstance(value, (list, np.ndarray)) or not set(ends) <= set(release.frame.columns):
        return written(value)
    lower, upper = (release.frame[end].iloc[row] for end in ends)
    each = zip(value, lower, upper, strict=True)
    return ", ".join(f"{formatting.value(one, (high - low) / 2)} ({_between(low, high)})" for one, low, high in each)


def _between(lower: float, upper: float) -> str:
    return " to ".join(formatting.value(end, (upper - lower) / 2) for end in (lower, upper))


def _lists_intervals(release: Release) -> bool:
    """Return whether a column holds several values in one, each with an interval."""
    return any(column_name(name, "lower") in release.frame.columns for name in beside(release))


def _of_lists(column: Any) -> bool:
    return len(column) > 0 and column.dtype == object and isinstance(column.iloc[0], (list, np.ndarray))


def scope(release: Release) -> str:
    """Return the tables and the predicate of a release."""
    tables = " and ".join(getattr(release.question, "tables", ())) or release.table
    return f"in {tables}" + (f" where {release.where}" if release.where else "")


def facts(release: Release, *, price: bool = True) -> str:
    """Return number, price unless that stands beside it, and what the intervals mean, in one line."""
    named = f"release #{release.number}" if release.number else f"from {formatting.releases(release.sources)}"
    parts = (
        named,
        combined(release) if release.number else "",
        measured_for(release) if price else "",
        intervals(release),
    )
    return " · ".join(part for part in parts if part)


def measured_for(release: Release) -> str:
    """Return what the answers were measured for; empty where nothing was measured for them alone."""
    if not release.epsilon:
        return ""
    delta = f", δ {formatting.rounded(release.delta)}" if release.delta else ""
    epsilon = f"ε {formatting.cost(release.epsilon)}{delta}"
    if release.budget is None:
        return epsilon
    return f"measured for {currency.percent(release.budget.share(release.epsilon))} of the budget ({epsilon})"


def combined(release: Release) -> str:
    """Return the other releases that an answer is combined from; empty where it is from its own alone."""
    others = tuple(number for number in release.sources if number != release.number)
    if not others:
        return ""
    return f"combined {'with' if release.epsilon else 'from'} {formatting.releases(others)}"


def intervals(release: Release) -> str:
    """Return what the intervals cover, and what they do not; empty where nothing has one."""
    if not (release.measures or _lists_intervals(release)):
        return ""
    return f"{formatting.percent(release.confidence)} intervals from noise" + (
        ", all at once" if release.together else ""
    )


def folded_release(release: Release) -> Fold:
    """Return an answer that unfolds below others."""
    return Fold(f"#{release.number} {release.title} {scope(release)}", tuple(_blocks(release, None)))


def release_card(release: Release, plan: Plan | None = None) -> Card:
    """Return the card of an answer.

    Parameters
    ----------
    release
        What was answered.
    plan
        How, where that is at hand: it unfolds.
    """
    return Card((Heading(release.title, scope(release)), *_blocks(release, plan)))


def _blocks(release: Release, plan: Plan | None) -> Iterator[Block]:
    found = [] if release.unread else list(series_of(release))
    if release.unread:
        yield line(release.unread)
    elif not len(release.frame):
        if not release.notes:
            yield line(EMPTY)
    elif _single(release, found):
        yield from (_large(series, release) for series in found)
    else:
        yield _table(release, found)
        if len(release.frame) > ROWS:
            yield line(quiet(f"… and {len(release.frame) - ROWS:,} more rows, in .frame"))
    for note in _warnings(release):
        yield line(note, mark="⚠")
    yield from _paid(release)
    yield line(quiet(facts(release, price=not release.budget or release.paid < WHOLE * release.epsilon)))
    if combined(release):
        yield line(quiet(SHARPER))
    yield from (line(quiet(note)) for note in _notes(release))
    if plan is not None:
        yield Fold("How it is computed, the code", how_and_code(plan))


def _paid(release: Release) -> Iterator[Block]:
    """Yield what became of the question: what this answer took of the budget, and what that leaves."""
    if release.budget is None:
        return
    if release.paid:
        yield Line(budget_parts(release.budget, release.paid, "paid"))
        return
    _, _, left = currency.percents(release.budget.spent_fraction, 0.0)
    yield line(strong(FREE), quiet(f"· left {left}"), mark="↻", stripe="free")


def _warnings(release: Release) -> list[str]:
    """Return what a reader of the intervals has to know."""
    return [note for note in (*release.notes, picked_note(release)) if note]


def _single(release: Release, found: list[Series]) -> bool:
    return len(release.frame) == 1 and not release.keys and bool(found) and not beside(release)


def _large(series: Series, release: Release) -> Line:
    """Return one answer in large digits, with its error and a picture of its interval."""
    value, lower, upper = (float(part[0]) for part in (series.value, series.lower, series.upper))
    half = float(series.half[0])
    name = f"{_called(series)}:" if len(release.measures) > 1 else ""
    if not _known(series, 0):
        return line(name, Span(series.absent, "huge"))
    if not math.isfinite(half):
        instead = _instead(series, 0)
        instead = f"({instead})" if np.isfinite([lower, upper]).any() else instead
        return line(name, Span(formatting.rounded(value), "huge"), quiet(instead))
    error = f"±{formatting.error_of(half)}" if series.symmetric else f"({_ends(series, 0)})"
    error = error if half > 0 or not series.worked_out else CERTAIN
    zero = lower - half <= 0 <= upper + half
    low, high = (min(lower - half, 0.0), max(upper + half, 0.0)) if zero else (lower - half, upper + half)
    alt = _alt(series, 0)
    pictures = [Picture(svg.interval(lower, value, upper, low, high, alt, zero=zero, width=220))]
    unit = "" if series.dates else series.unit  # a date is counted in nothing
    if (quantiles := None if series.dates else dots.of(release, series.name)) is not None:
        row = [float(one) for one in quantiles[0]]
        pictures = [Picture(svg.dots(row, min(low, *row), max(high, *row), dots.words(row, half), width=220))]
    return line(name, Span(series.said(value, half), "huge"), Span(error, "large"), quiet(unit), *pictures)


def _called(series: Series) -> str:
    """Return what one of several answers is called: by the name of its column, and what it is, as its plan does."""
    return series.words if series.name == series.words else f"{series.name} = {series.words}"


def _table(release: Release, found: list[Series]) -> Table:
    """Return the first rows of a release, each value with its interval."""
    shown = min(ROWS, len(release.frame))
    head, align = list(release.keys), "l" * len(release.keys)
    others = beside(release)
    pictures = len(found) + len(others) < PICTURES
    for series in found:
        name = series.unit if series.name == "value" and series.unit else series.name
        head += [name, f"{formatting.percent(release.confidence)} interval" if not series.symmetric else "±"]
        head += [""] * pictures
        align += "rr" + "l" * pictures
    drawn = [_pictures(release, series, shown) if pictures else None for series in found]
    levels, blank = [release.labels(key) for key in release.keys], blanks(release)
    rows = []
    for row in range(shown):
        cells = [cell(label(each[row], blank[row])) for each in levels]
        for series, images in zip(found, drawn, strict=True):
            cells += _answer(series, row, None if images is None else images[row])
        rows.append((*cells, *(cell(written_in(release, name, row)) for name in others)))
    return Table((*head, *others), align + "r" * len(others), tuple(rows))


def _answer(series: Series, row: int, image: str | None) -> list[Cell]:
    """Return the cells of one answer: value, error, and its picture where there is room for that."""
    empty = [] if image is None else [cell()]
    if not _known(series, row):
        return [cell(series.absent), cell(), *empty]
    value, half = float(series.value[row]), float(series.half[row])
    if not math.isfinite(half):
        return [cell(strong(formatting.rounded(value))), cell(_instead(series, row)), *empty]
    error = cell(f"±{formatting.error_of(half)}") if series.symmetric else cell(_ends(series, row), nowrap=True)
    error = error if half > 0 or not series.worked_out else cell(CERTAIN)
    return [cell(strong(series.said(value, half))), error, *([] if image is None else [cell(Picture(image))])]


def _pictures(release: Release, series: Series, shown: int) -> list[str]:
    """Return a picture of every shown row on one axis: its interval, or dots."""
    low, high, zero = _axis(series, shown)
    quantiles = None if series.dates else dots.of(release, series.name)
    if quantiles is not None and np.isfinite(quantiles[:shown]).all():
        low, high = min(low, float(quantiles[:shown].min())), max(high, float(quantiles[:shown].max()))
        return [
            svg.dots(row.tolist(), low, high, dots.words(row.tolist(), float(series.half[place])), width=130)
            for place, row in enumerate(quantiles[:shown])
        ]
    found = []
    for row in range(shown):
        lower, value, upper = (float(part[row]) for part in (series.lower, series.value, series.upper))
        known = all(map(math.isfinite, (lower, value, upper)))
        alt = _alt(series, row)
        found.append(svg.interval(lower, value, upper, low, high, alt, zero=zero, width=130) if known else "")
    return found


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


def _known(series: Series, row: int) -> bool:
    return not (series.searched and math.isnan(series.value[row]) and math.isnan(series.half[row]))


def _ends(series: Series, row: int) -> str:
    half = float(series.half[row])
    lower, upper = (series.said(float(ends[row]), half) for ends in (series.lower, series.upper))
    return f"{lower} to {upper}"


def _instead(series: Series, row: int) -> str:
    """Return what stands where there is no interval; nothing beside a value that does not exist."""
    return series.open_ended(row) or ("" if math.isnan(series.value[row]) else NO_INTERVAL)


def _notes(release: Release) -> Iterator[str]:
    if not isinstance(release.question, Question):
        from dpnotebook.sql.aggregates.taken import HELD

        bounded = BOUNDED_AND_HELD if any(HELD in note for note in release.notes) else BOUNDED
        yield bounded if release.measures or _lists_intervals(release) else WORKED_OUT
        return
    domain = release.question.where.domain
    for measure in release.question.measures:
        if measure.column is not None and measure.kind in ("sum", "mean") and domain[measure.column].bounds is not None:
            low, high = (formatting.rounded(float(end), DIGITS) for end in (measure.summand.low, measure.summand.high))
            if clamped := clamping_words(measure, release.question.rows_of(measure), (low, high)):
                yield f"{measure.column} {clamped}; intervals do not show that"

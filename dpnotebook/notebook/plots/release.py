"""Figures of releases: the answers with their intervals, in the words of the data.

Every figure is live where plotly is, and has a still picture and its numbers for wherever it is not. It has a small
layout of its own: the templates of plotly would add some 7 kB to every figure that a notebook saves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import ArgumentError, SQLError, WorkloadError, shorten
from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.release import EMPTY, Series, facts, scope, series_of
from dpnotebook.notebook.plots.date_values import value_axis
from dpnotebook.notebook.plots.levels import PlacedLevels, key_levels
from dpnotebook.notebook.plots.numbers import answer_table, said, warnings
from dpnotebook.notebook.plots.panels import panelled
from dpnotebook.notebook.plots.theme import COLOURS, SMALL, TEXT, TITLE, base_layout, plain
from dpnotebook.notebook.plots.traces import (
    MOST_POINTS,
    MOST_SIDE,
    band,
    bars,
    folded,
    group,
    heat_map,
    ordered_axis,
    picked,
    point,
)

if TYPE_CHECKING:
    from dpnotebook.notebook.plots.figure import NotebookFigure
    from dpnotebook.session.release import Release

KINDS = ("bar", "barh", "point", "line", "heatmap")
MOST_GROUPED = 6  # levels of a second key that are still told apart by colour
MOST_ASIDE = 4  # values without a place on the axis that are named
MOST_PANELS = 9  # levels of a second key, or measures, that have a panel each
MOST_BARS = 60  # of two keys together; more are a heat map
MOST_LEVELS = 40  # of a key without an order that are drawn: as many as can be read
LEAST_LINE = 8  # levels of an ordered first key from which several lines are drawn instead of bars
AMOUNTS = ("count", "cdf", "sum", "units", "values", "workload")  # measures of which 0 is nothing: bars begin there
LETTERS, SMALL_LETTERS = 74, 60  # of a line of a title, and of what is below it: a narrow page has room for these
DOT = " · "  # between two facts
SAID_ALT = 12  # values that the text for who does not see the picture names


def plot_release(release: Release, measure: str | None = None, kind: str | None = None) -> NotebookFigure:
    """Return a figure of a release, of the kind that fits its keys unless another is asked for.

    Amounts are bars from 0; means, quantiles and ratios are points; an ordered key makes a line with a band, dates a
    time axis; two keys make lines, grouped bars, panels or a heat map; several measures have a panel each.

    Parameters
    ----------
    release
        What to draw; nothing but its public frame is used.
    measure
        Which of its measures, by column name; all of them when None.
    kind
        "bar", "barh" (lying), "point", "line" or "heatmap"; what fits when None.

    Raises
    ------
    ArgumentError
        If it is no kind, or one that does not fit the keys.
    WorkloadError
        If the release has no such measure.
    SQLError
        If nothing in it has an interval, as where a statement works out something else from the answers, or it is
        empty.
    """
    from dpnotebook.notebook.plots.figure import SAID_ROWS, NotebookFigure

    if kind is not None and kind not in KINDS:
        raise ArgumentError(f"kind= is one of {', '.join(KINDS)}, not {shorten(kind)}; draw .frame yourself for others")
    series = _series(release, measure)
    keys = [key_levels(release, key) for key in release.keys]
    notes: list[str] = []
    drawn = []
    for one in series:
        figure = NotebookFigure()
        _draw(figure, one, is_amount(release, one), keys, kind, notes)
        drawn.append(figure)
    if len(drawn) == 1:
        figure = drawn[0]
    else:
        lying = any(getattr(trace, "orientation", None) == "h" for part in drawn for trace in part.data)
        figure = panelled(drawn, [one.words for one in series], columns=len(drawn) if lying and len(drawn) < 4 else 1)
    dress(figure, release.title, scope(release), [facts(release), *dict.fromkeys((*warnings(release), *notes))])
    return figure.described(_alt(release, series[0], keys), answer_table(release, SAID_ROWS))


def _series(release: Release, measure: str | None) -> list[Series]:
    """Return the measures that are drawn."""
    found = {series.name: series for series in series_of(release)}
    if not len(release.frame):
        raise SQLError(f"there is nothing to draw: {EMPTY}")
    if not found:
        raise SQLError(
            "none of the columns of this release has its interval beside it, so there is nothing to draw: select the "
            "aggregates as they are, or draw .frame yourself"
        )
    if measure is not None and measure not in found:
        raise WorkloadError(f"this release has no measure {shorten(measure)}; it has {', '.join(found)}")
    names = [measure] if measure is not None else list(found)[: MOST_PANELS if len(release.keys) <= 1 else 1]
    series = [drawable(found[name]) for name in names]
    if release.notes and all(np.isnan(one.value).all() for one in series):
        raise SQLError(f"there is nothing to draw: {release.notes[0]}")
    return series


def drawable(series: Series) -> Series:
    """Return a measure without the values that may be anything: a picture would show them as if they were known."""
    unknown = np.isinf(series.lower) & np.isinf(series.upper)
    return replace(series, value=np.where(unknown, np.nan, series.value)) if unknown.any() else series


def is_amount(release: Release, series: Series) -> bool:
    """Return whether a measure is an amount, of which 0 is nothing, and not a mean or a ratio."""
    kinds = {measure.name: measure.kind for measure in release.measures}
    return kinds[series.name] in AMOUNTS or (kinds[series.name] not in ("mean", "quantile") and series.unit == "rows")


def _draw(
    figure: NotebookFigure, series: Series, amount: bool, keys: list[PlacedLevels], kind: str | None, notes: list[str]
) -> None:
    """Draw one measure, and add to the notes what has no place in the picture."""
    if kind == "heatmap" and len(keys) < 2:
        raise ArgumentError("a heatmap is of two keys; this release has " + ("one" if keys else "none"))
    if not keys:
        point(figure, series)
    elif len(keys) == 1:
        _one_key(figure, series, amount, keys[0], kind, notes)
    else:
        _several_keys(figure, series, keys, kind, notes)


def _one_key(
    figure: NotebookFigure, series: Series, amount: bool, levels: PlacedLevels, kind: str | None, notes: list[str]
) -> None:
    """Draw a line with a band where the levels lie in an order, else bars or points."""
    if kind == "line" and levels.where is None:
        raise ArgumentError(f"{shorten(levels.title)} has no order that a line could follow: write kind='bar'")
    if levels.where is not None and kind in (None, "line"):
        band(figure, series, levels, COLOURS[0])
        figure.update_layout(
            xaxis=ordered_axis(levels),
            yaxis=value_axis(series, from_zero=amount),
        )
        _say_aside(series, levels.names, ~levels.placed | np.isnan(series.value), notes)
        if levels.placed.sum() > MOST_POINTS:
            notes.append(f"of {levels.placed.sum():,} values the least and the largest of every stretch are drawn")
        return
    if len(levels.names) > MOST_LEVELS:
        order = np.argsort(-np.nan_to_num(series.value, nan=-np.inf), kind="stable")[:MOST_LEVELS].tolist()
        notes.append(
            f"the {MOST_LEVELS} largest of {len(levels.names):,}; the largest of many look larger than they are: "
            "simultaneous() has intervals that allow for that"
        )
        levels, series = levels.picked(order), picked(series, order)
    lying = {"barh": True, "bar": False if len(levels.names) <= MOST_LEVELS // 2 else None}.get(kind or "")
    points = kind == "point" or (kind is None and not amount)
    bars(figure, series, levels, lying=lying, points=points)


def _say_aside(series: Series, names: Sequence[str], aside: NDArray[np.bool_], notes: list[str]) -> None:
    """Add to the notes what has no place on the axis."""
    rows = np.flatnonzero(aside).tolist()
    texts = said(picked(series, rows[:MOST_ASIDE]))
    if texts:
        more = f"; and {len(rows) - MOST_ASIDE:,} more" if len(rows) > MOST_ASIDE else ""
        told = (f"{names[row]}: {text}" for row, text in zip(rows, texts, strict=False))
        notes.append(f"not on the axis: {'; '.join(told)}{more}")


def _several_keys(
    figure: NotebookFigure, series: Series, keys: list[PlacedLevels], kind: str | None, notes: list[str]
) -> None:
    """Draw lines along a long ordered key, else grouped bars, else a heat map; the other keys are folded into one."""
    size = len(keys[0].levels)
    along = next((i for i, key in enumerate(keys) if _long_axis(key, 3 if kind == "line" else LEAST_LINE)), None)
    if along is not None and (kind in (None, "line")) and size / _distinct(keys[along]) <= MOST_PANELS:
        columns, parts = _parts(keys, along)
        few = len(parts) <= MOST_GROUPED or columns.where is None or kind == "line"
        few = few and (len(keys) == 2 or bool(keys[along].placed.all()) or kind == "line")
        if few and all(len(rows) == len(parts[0][1]) for _, rows in parts):
            _lines(figure, series, keys[along], parts, columns.title)
            _say_aside(series, folded(keys).names, ~keys[along].placed | np.isnan(series.value), notes)
            return
    if kind == "line":
        raise ArgumentError("none of the keys has an order and few enough others for lines: leave kind= out")
    # The key with most levels goes across when there are more than two.
    along = 0 if len(keys) == 2 else max(range(len(keys)), key=lambda i: _distinct(keys[i]))
    columns, parts = _parts(keys, along)
    full = len(parts) * _distinct(keys[along]) == size
    fits = full and len(parts) <= MOST_GROUPED and size <= MOST_BARS
    if kind in ("bar", "barh", "point") and not fits:
        raise ArgumentError(f"these are too many for grouped bars, of which {MOST_BARS} fit: leave kind= out")
    if kind == "heatmap" or not fits:
        _cells(figure, series, keys[along], columns, len(keys) > 2, notes)
        return
    for colour, (name, rows) in zip(COLOURS, parts, strict=False):
        group(figure, replace(picked(series, rows), name=name), keys[along].picked(rows), colour, points=series.dates)
    figure.update_layout(
        barmode="group",
        xaxis={"title": {"text": plain(keys[along].title)}, "type": "category", "showgrid": False},
        yaxis=value_axis(series, from_zero=True),
        legend_title={"text": plain(columns.title)},
    )


def _lines(
    figure: NotebookFigure, series: Series, along: PlacedLevels, parts: list[tuple[str, list[int]]], title: str
) -> None:
    """Draw a line a part: in one picture where few, else in a panel each, with one scale for all."""
    axes = {
        "xaxis": ordered_axis(along),
        "yaxis": value_axis(series, from_zero=True),
    }
    if len(parts) <= MOST_GROUPED:
        for colour, (name, rows) in zip(COLOURS, parts, strict=False):
            band(figure, picked(series, rows), along.picked(rows), colour, name, rows=len(parts))
        figure.update_layout(**axes, legend_title={"text": plain(title)})
        return
    from dpnotebook.notebook.plots.figure import NotebookFigure

    drawn = []
    for _, rows in parts:
        panel = NotebookFigure()
        band(panel, picked(series, rows), along.picked(rows), COLOURS[0], rows=len(parts))
        drawn.append(panel.update_layout(**axes))
    together = panelled(drawn, [f"{title}: {name}" for name, _ in parts], columns=3, alike=True)
    figure.add_traces(together.data)
    figure.update_layout(together.layout)


def _cells(
    figure: NotebookFigure, series: Series, along: PlacedLevels, others: PlacedLevels, across: bool, notes: list[str]
) -> None:
    rows, columns = (others, along) if across else (along, others)
    kept = [list(dict.fromkeys(key.names)) for key in (rows, columns)]
    places = [{name: place for place, name in enumerate(names)} for names in kept]
    cells = np.full((len(kept[0]), len(kept[1])), -1, dtype=np.intp)
    for i, (row, column) in enumerate(zip(rows.names, columns.names, strict=True)):
        cells[places[0][row], places[1][column]] = i
    sides = [PlacedLevels(key.title, names, names, None) for key, names in zip((rows, columns), kept, strict=True)]
    heat_map(figure, series, cells, *sides)
    if max(cells.shape) > MOST_SIDE:
        notes.append(f"{cells.shape[0]:,} by {cells.shape[1]:,} answers; each cell is the mean of several")


def _parts(keys: list[PlacedLevels], along: int) -> tuple[PlacedLevels, list[tuple[str, list[int]]]]:
    """Return the other keys as one, and the rows of each of its levels, in the order of the key that goes along."""
    others = folded([*keys[:along], *keys[along + 1 :]])
    order = {name: place for place, name in enumerate(dict.fromkeys(keys[along].names))}
    parts: dict[str, list[int]] = {}
    for row, name in enumerate(others.names):
        parts.setdefault(name, []).append(row)
    return others, [(name, sorted(rows, key=lambda row: order[keys[along].names[row]])) for name, rows in parts.items()]


def _distinct(key: PlacedLevels) -> int:
    return len(set(key.names))


def _long_axis(key: PlacedLevels, least: int) -> bool:
    return key.where is not None and np.unique(key.where[key.placed]).size > least


def _alt(release: Release, series: Series, keys: list[PlacedLevels]) -> str:
    """Return the picture in words: what it is of, and its first values."""
    rows, size = list(range(min(SAID_ALT, series.value.size))), series.value.size
    names = folded([key.picked(rows) for key in keys]).names if keys else [series.words]
    told = [f"{name} {text}" for name, text in zip(names, said(picked(series, rows)), strict=False)]
    more = f", and {size - SAID_ALT:,} more" if size > SAID_ALT else ""
    return f"{release.title} {scope(release)}, {formatting.plural(size, 'answer')}: {'; '.join(told)}{more}"


def dress(figure: NotebookFigure, title: str, where: str, notes: Sequence[str]) -> None:
    """Add title, axes, and a caption that says what the intervals are and where the numbers come from.

    Parameters
    ----------
    figure
        What is drawn.
    title, where
        What was asked, and of which rows.
    notes
        A line each.
    """
    drawn = {name: part for name, part in figure.layout.to_plotly_json().items() if name[1:].startswith("axis")}
    small = f"<span style='font-size:{TEXT}px'>"
    if len(title) + 0.8 * len(where) <= LETTERS:
        lines = [f"{plain(title)} {small}{plain(where)}</span>"]
    else:
        lines = [plain(part) for part in textwrap.wrap(title, LETTERS) or [""]]
        lines += [f"{small}{plain(part)}</span>" for part in textwrap.wrap(where, SMALL_LETTERS)]
    caption = [plain(part) for note in notes for part in _wrapped(note)]
    top = 14 + 1.35 * (TITLE * len(lines) + SMALL * len(caption))
    figure.update_layout(
        base_layout(**drawn),
        height=(figure.layout.height or 400) + round(top) - 60,
        margin={"l": 60, "r": 20, "t": round(top) + 22, "b": 60},
        title={
            "text": "<br>".join(lines),
            "subtitle": {"text": "<br>".join(caption), "font": {"size": SMALL}},
            "font": {"size": TITLE},
            "x": 0.01,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14},
        },
    )


def _wrapped(note: str) -> list[str]:
    """Return the lines of a caption: whole parts where that is possible, so that no fact is broken in two."""
    lines = [""]
    for part in note.split(DOT):
        joined = f"{lines[-1]}{DOT if lines[-1] else ''}{part}"
        if len(joined) <= SMALL_LETTERS:
            lines[-1] = joined
        else:
            lines += textwrap.wrap(part, SMALL_LETTERS)
    return [line for line in lines if line]

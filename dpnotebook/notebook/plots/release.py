"""Figures of releases: the answers with their intervals, in the words of the data.

Figures are plain `go.Figure` on white, readable in light and dark notebooks, with a small layout of their own: the
templates of plotly would add some 7 kB to every figure that a notebook saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.errors import SQLError, WorkloadError, shorten
from dpnotebook.notebook.cards.release import EMPTY, Series, facts, label, scope, series_of
from dpnotebook.notebook.plots.traces import COLOURS, band, bars, group, heat_map, plain, point, positions, said

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpnotebook.session.release import Release

INK, QUIET, GRID, LINE = "#24292f", "#57606a", "#e4e7eb", "#9aa0a8"
MOST_GROUPED = 6  # levels of a second key that are still told apart by colour
MOST_BARS = 60  # of two keys together; more are a heat map
LEAST_LINE = 8  # levels of an ordered first key from which several lines are drawn instead of bars


def plot_release(release: Release, measure: str | None = None) -> go.Figure:
    """Return a figure of a release: bars, a line with a band, grouped bars, a heat map, or a single point.

    Parameters
    ----------
    release
        What to draw; nothing but its public frame is used.
    measure
        Which of its measures, by column name; the first when None.

    Raises
    ------
    ValueError
        If the release has no such measure.
    SQLError
        If nothing in it has an interval, as where a statement works out something else from the answers, or it is
        empty.
    """
    import plotly.graph_objects as go

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
    series = _drawable(found[measure] if measure is not None else next(iter(found.values())))
    if release.notes and np.isnan(series.value).all():
        raise SQLError(f"there is nothing to draw: {release.notes[0]}")
    keys = [release.frame[key].tolist() for key in release.keys]
    figure, beside = go.Figure(), ""
    if not keys:
        point(figure, series)
    elif len(keys) == 1:
        beside = _one_key(figure, series, keys[0], release.keys[0], release.ordered[0])
    else:
        _several_keys(figure, series, keys, list(release.keys), release.ordered)
    _dress(figure, release, beside)
    return figure


def _drawable(series: Series) -> Series:
    """Return a measure without the values that may be anything: a picture would show them as if they were known."""
    unknown = np.isinf(series.half)
    value, lower, upper = (np.where(unknown, np.nan, part) for part in (series.value, series.lower, series.upper))
    return replace(series, value=value, lower=lower, upper=upper) if unknown.any() else series


def base_layout(**changes: Any) -> dict[str, Any]:
    """Return the layout that all figures share, a template included that adds nothing to their size.

    Parameters
    ----------
    changes
        `xaxis` and `yaxis` are laid over the shared axes, everything else is added.
    """
    axis = {"gridcolor": GRID, "zerolinecolor": LINE, "linecolor": LINE, "tickcolor": LINE, "ticks": "outside",
            "automargin": True, "separatethousands": True, "exponentformat": "none"}  # fmt: skip
    layout = {
        "template": "none",
        "font": {"color": INK, "size": 13, "family": "system-ui, -apple-system, Segoe UI, sans-serif"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "bargap": 0.25,
    }
    for name in ("xaxis", "yaxis"):
        changes[name] = {**axis, **changes.get(name, {})}
        if "title" in changes[name]:
            changes[name]["title"] = {"standoff": 12, **changes[name]["title"]}
    return {**layout, **changes}


def _one_key(figure: go.Figure, series: Series, levels: list[Any], name: str, ordered: bool) -> str:
    """Draw one key; return what has no place on an ordered axis: missing values and other levels."""
    where = positions(levels) if ordered else None
    if where is None:
        bars(figure, series, levels, name)
        return ""
    band(figure, series, where, [label(level) for level in levels], COLOURS[0])
    figure.update_layout(xaxis_title=plain(name), yaxis_title=plain(series.unit))
    texts = said(series)
    return "; ".join(f"{plain(label(levels[i]))}: {texts[i]}" for i in np.flatnonzero(np.isnan(where)))


def _several_keys(
    figure: go.Figure, series: Series, keys: list[list[Any]], names: list[str], ordered: Sequence[bool]
) -> None:
    """Draw lines along a long ordered key, else grouped bars, else a heat map; the other keys are folded into one."""
    along = next((i for i, levels in enumerate(keys) if ordered[i] and _long_axis(levels)), None)
    lines = along is not None and len(keys[0]) / len(set(keys[along])) <= MOST_GROUPED
    if not lines:
        # The key with most levels goes across when there are more than two.
        along = 0 if len(keys) == 2 else max(range(len(keys)), key=lambda i: len(set(keys[i])))
    assert along is not None
    first, title = keys[along], names[along]
    second, others = _folded([*keys[:along], *keys[along + 1 :]], [*names[:along], *names[along + 1 :]])
    rows, columns = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    place = {pair: i for i, pair in enumerate(zip(first, second, strict=True))}
    full = len(place) == len(rows) * len(columns)
    if not full or len(columns) > MOST_GROUPED or (len(place) > MOST_BARS and not lines):
        if len(keys) == 2:
            heat_map(figure, series, place, rows, columns, (title, others))
        else:
            heat_map(figure, series, {(b, a): i for (a, b), i in place.items()}, columns, rows, (others, title))
        return
    where = positions(rows) if lines else None
    for colour, column in zip(COLOURS, columns, strict=False):
        picked = np.array([place[row, column] for row in rows])
        part = replace(series, name=label(column), value=series.value[picked], lower=series.lower[picked],
                       upper=series.upper[picked])  # fmt: skip
        if where is not None:
            band(figure, part, where, [f"{label(row)}, {part.name}" for row in rows], colour, name=plain(part.name))
        else:
            group(figure, part, rows, colour)
    axis = {} if lines else {"type": "category", "showgrid": False}
    figure.update_layout(
        barmode="group",
        xaxis={"title": {"text": plain(title)}, **axis},
        yaxis_title=plain(series.unit),
        legend_title={"text": plain(others)},
    )


def _long_axis(levels: Sequence[Any]) -> bool:
    rows = list(dict.fromkeys(levels))
    where = positions(rows) if len(rows) > LEAST_LINE else None
    return where is not None and bool(np.isfinite(where).all())


def _folded(keys: list[list[Any]], names: list[str]) -> tuple[list[Any], str]:
    """Fold several keys into one."""
    if len(keys) == 1:
        return keys[0], names[0]
    return [" · ".join(label(level) for level in levels) for levels in zip(*keys, strict=True)], " · ".join(names)


def _dress(figure: go.Figure, release: Release, beside: str) -> None:
    """Add title, axes, and a caption that says what the intervals are and where the numbers come from."""
    drawn = {name: figure.layout[name].to_plotly_json() for name in ("xaxis", "yaxis")}
    caption = plain(facts(release)) + (f"<br>not on the axis: {beside}" if beside else "")
    figure.update_layout(
        base_layout(**drawn),
        height=figure.layout.height or 400,
        margin={"l": 60, "r": 20, "t": 104 if beside else 86, "b": 60},
        title={
            "text": f"{plain(release.title)} <span style='font-size:13px'>{plain(scope(release))}</span>",
            "subtitle": {"text": caption, "font": {"size": 12, "color": QUIET}},
            "font": {"size": 17},
            "x": 0.01,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14},
        },
    )

"""The parts that figures of releases are made of: bars, bands, heat maps and points, each with its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.release import NOT_FOUND, Series
from dpnotebook.notebook.plots.date_values import value_axis
from dpnotebook.notebook.plots.levels import PlacedLevels
from dpnotebook.notebook.plots.numbers import instead, said
from dpnotebook.notebook.plots.theme import COLOURS, INK, SHADES, SMALL, faint, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_CELLS_WITH_TEXT = 150  # of a heat map whose values are written into it
MOST_MARKERS = 60  # of a line; with more points it has none
MOST_POINTS = 600  # of a line: about one a pixel
UPRIGHT_BARS, UPRIGHT_LABEL = 12, 14  # more or longer than this, and bars lie down
BAR = 22  # pixels of a bar that lies, with what is between it and the next
MOST_SIDE = 120  # rows or columns of a heat map; of more, each cell is the mean of several
DATE_TICKS = {"year": "%Y", "month": "%b\n%Y", "day": "%d %b\n%Y", "week": "%d %b\n%Y"}


def bars(
    figure: go.Figure, series: Series, levels: PlacedLevels, *, lying: bool | None = None, points: bool = False
) -> None:
    """Draw bars from 0 with error bars, or points with them; lying down where there are many or their names are long.

    Parameters
    ----------
    figure
        To draw in.
    series, levels
        The values, and what each is called.
    lying
        Whether bars lie down; as fits when None.
    points
        Whether to draw points, of what is no amount that 0 is the least of.
    """
    names = [plain(name) for name in levels.names]
    if lying is None:
        lying = len(names) > UPRIGHT_BARS or max(map(len, levels.names), default=0) > UPRIGHT_LABEL
    across, up = ("y", "x") if lying else ("x", "y")
    shared = {
        across: names,
        up: series.value,
        f"error_{up}": error_bars(series),
        "customdata": [plain(text) for text in said(series)],
        "hovertemplate": f"%{{{across}}}: %{{customdata}}<extra></extra>",
        "showlegend": False,
    }
    if points:
        figure.add_scatter(**shared, mode="markers", marker={"size": 9, "color": COLOURS[0]})
    else:
        figure.add_bar(**shared, marker=filled(COLOURS[0]), **({"orientation": "h"} if lying else {}))
    _say_instead(figure, series, names, lying)
    names_axis, values_axis = (f"{side}axis" for side in (across, up))
    figure.update_layout(
        {
            names_axis: {"title": {"text": plain(levels.title)}, "type": "category", "showgrid": False},
            values_axis: value_axis(series, from_zero=not points),
        }
    )
    if lying:
        figure.update_layout(height=max(260, 130 + BAR * len(names)), yaxis_autorange="reversed")


def _say_instead(figure: go.Figure, series: Series, names: Sequence[str], lying: bool) -> None:
    """Write beside the names what is said of values that are not there, or may be anything."""
    texts = [instead(series, row) for row in range(len(names))]
    missing = [row for row, text in enumerate(texts) if text]
    if not missing:
        return
    base = 0.0 if figure.data[0].type == "bar" or not np.isfinite(series.value).any() else np.nanmin(series.value)
    where = {"y": [names[row] for row in missing], "x": [base] * len(missing)}
    figure.add_scatter(
        **(where if lying else {"x": where["y"], "y": where["x"]}),
        mode="text",
        text=[texts[row] for row in missing],
        textposition="middle right" if lying else "top center",
        textfont={"color": INK, "size": SMALL},
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )


def band(
    figure: go.Figure, series: Series, levels: PlacedLevels, colour: str, name: str = "", *, rows: int = 1
) -> None:
    """Draw a line through the values, and a band from the lower to the upper ends of their intervals.

    Parameters
    ----------
    figure
        To draw in.
    series, levels
        The values, and where each lies; those without a place are left out.
    colour
        Of the line, and of the band that lets the page through.
    name
        What the line is called in the legend; empty for no legend.
    rows
        How many lines share the figure.
    """
    assert levels.where is not None
    kept = np.flatnonzero(levels.placed)
    kept = kept[np.argsort(levels.where[kept], kind="stable")]
    kept = kept[thinned(series.value[kept], MOST_POINTS // rows)]
    x, known = levels.where[kept], np.isfinite(series.value[kept]) & np.isfinite(series.half[kept])
    x_of_band, y_of_band = _around(x, series.lower[kept], series.upper[kept], known)
    figure.add_scatter(
        x=_as_days(x_of_band),
        y=y_of_band,
        fill="toself",
        fillcolor=faint(colour),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name="interval",
        legendgroup=name,
        showlegend=False,
    )
    texts = said(picked(series, kept))
    figure.add_scatter(
        x=_as_days(x),
        y=series.value[kept],
        mode="lines+markers" if kept.size <= MOST_MARKERS // rows else "lines",
        line={"color": colour, "width": 2 if kept.size <= MOST_POINTS // 4 else 1},
        marker={"size": 5, "color": colour},
        customdata=[
            plain(f"{levels.names[i]}{f', {name}' if name else ''}: {text}")
            for i, text in zip(kept.tolist(), texts, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        name=plain(name) or "value",
        legendgroup=name,
        showlegend=bool(name),
    )


def _as_days(x: NDArray[Any]) -> Any:
    """Return places on an axis as short as they can be written: dates without the time of day."""
    if x.dtype.kind != "M":
        return x
    return [None if np.isnat(day) else str(day) for day in x.astype("datetime64[D]")]


def picked(series: Series, rows: Sequence[int] | NDArray[np.intp]) -> Series:
    """Return some of the values of a measure."""
    index = np.asarray(rows, dtype=np.intp)
    return replace(series, value=series.value[index], lower=series.lower[index], upper=series.upper[index])


def _around(x: NDArray[Any], lower: Any, upper: Any, known: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an outline around every run of known values, and a gap between two."""
    runs = [run for run in np.split(np.arange(x.size), np.flatnonzero(np.diff(known.astype(int))) + 1)
            if run.size and known[run[0]]]  # fmt: skip
    no_x = np.array([np.datetime64("NaT") if x.dtype.kind == "M" else np.nan], dtype=x.dtype)
    xs: list[Any] = []
    ys: list[Any] = []
    for number, run in enumerate(runs):
        if number:
            xs, ys = [*xs, no_x], [*ys, np.array([np.nan])]
        xs += [x[run], x[run][::-1]]
        ys += [upper[run], lower[run][::-1]]
    return (np.concatenate(xs), np.concatenate(ys)) if xs else (x[:0], np.zeros(0))


def thinned(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Return which values are drawn: all of few, and of many the least and the largest of every stretch."""
    if values.size <= most:
        return np.arange(values.size)
    kept: set[int] = {0, values.size - 1}
    for stretch in np.array_split(np.arange(values.size), most // 2):
        if np.isfinite(values[stretch]).any():
            kept |= {int(stretch[np.nanargmin(values[stretch])]), int(stretch[np.nanargmax(values[stretch])])}
        else:
            kept.add(int(stretch[0]))
    return np.array(sorted(kept), dtype=np.intp)


def ordered_axis(levels: PlacedLevels) -> dict[str, Any]:
    """Return the axis along which ordered levels lie; no line at 0, which is a level as any other."""
    return {"title": {"text": plain(levels.title)}, "zeroline": False, **_time_axis(levels)}


def _time_axis(levels: PlacedLevels) -> dict[str, Any]:
    """Return what an axis of dates needs: months named as months, not as their first days."""
    if levels.span is None or levels.where is None:
        return {}
    days = np.unique(levels.where[levels.placed])
    if levels.span == "quarter":  # that no format of plotly writes
        shown = days[:: -(-days.size // 8)].astype("datetime64[M]")
        names = [f"Q{int(str(month)[5:]) // 3 + 1}<br>{str(month)[:4]}" for month in shown]
        return {"type": "date", "tickvals": [f"{month}-01" for month in shown], "ticktext": names}
    if levels.span == "month" and days.size <= 24:
        return {"type": "date", "tickformat": DATE_TICKS["month"], "dtick": f"M{max(1, -(-days.size // 8))}",
                "tick0": str(days[0].astype("datetime64[D]"))}  # fmt: skip
    return {"type": "date", **({"tickformat": "%Y"} if levels.span == "year" else {})}


def group(figure: go.Figure, series: Series, levels: PlacedLevels, colour: str, *, points: bool = False) -> None:
    """Draw one colour of a grouped bar chart, or of grouped points; `series.name` is what the legend says."""
    names = [plain(name) for name in levels.names]
    shared = {
        "x": names,
        "y": series.value,
        "error_y": error_bars(series),
        "name": plain(series.name),
        "customdata": [
            plain(f"{name}, {series.name}: {text}") for name, text in zip(levels.names, said(series), strict=True)
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    if points:
        shared["error_y"] = error_bars(series, colour)
        figure.add_scatter(**shared, mode="markers", marker={"size": 9, "color": colour})
    else:
        figure.add_bar(**shared, marker=filled(colour))


def heat_map(
    figure: go.Figure, series: Series, cells: NDArray[np.intp], down: PlacedLevels, across: PlacedLevels
) -> None:
    """Draw a heat map; pointing at a cell shows its error.

    Parameters
    ----------
    figure
        To draw in.
    series
        The values.
    cells
        Which answer belongs to a cell, shape (rows, columns); -1 where there is none.
    down, across
        The levels of its rows and of its columns.
    """
    index, z = cells, np.where(cells >= 0, series.value[cells], np.nan)
    few = cells.size <= MOST_CELLS_WITH_TEXT
    rows, columns = list(down.names), list(across.names)
    hover = text = None
    if max(cells.shape) > MOST_SIDE:
        z, rows, columns = _means(z, rows, columns)
    else:
        texts = said(series)
        hover = [
            [plain(f"{row}, {column}: {texts[i]}") if i >= 0 else "" for i, column in zip(line, columns, strict=True)]
            for line, row in zip(index.tolist(), rows, strict=True)
        ]
        text = [[_in_cell(series, i) if i >= 0 else "" for i in line] for line in index.tolist()] if few else None
    figure.add_heatmap(
        x=[plain(column) for column in columns],
        y=[plain(row) for row in rows],
        z=z,
        text=text,
        texttemplate="%{text}" if few else None,
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>" if hover else "%{y}, %{x}: %{z:,.4~r}<extra></extra>",
        colorscale=SHADES,
        colorbar={**value_axis(series), "outlinewidth": 0, "thickness": 14},
        xgap=1 if few else 0,
        ygap=1 if few else 0,
        hoverongaps=hover is not None,
    )
    figure.update_layout(
        xaxis={"title": {"text": plain(across.title)}, "type": "category", "showgrid": False},
        yaxis={"title": {"text": plain(down.title)}, "type": "category", "showgrid": False, "autorange": "reversed"},
        height=min(1000, max(380, 230 + 24 * len(rows))),
    )


def _in_cell(series: Series, row: int) -> str:
    missing = instead(series, row)
    return (("–" if missing != NOT_FOUND else NOT_FOUND) if missing
            else formatting.value(float(series.value[row]), float(series.half[row])))  # fmt: skip


def _means(z: NDArray[np.float64], rows: list[str], columns: list[str]) -> tuple[NDArray[Any], list[str], list[str]]:
    """Return the mean of every block of cells, and what the blocks are called."""
    names: list[list[str]] = []
    for axis, side in enumerate((rows, columns)):
        step = -(-len(side) // MOST_SIDE)
        starts = np.arange(0, len(side), step)
        known = np.add.reduceat(np.isfinite(z).astype(float), starts, axis=axis)
        total = np.add.reduceat(np.nan_to_num(z), starts, axis=axis)
        z = np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0)
        names.append(
            [side[i] if step == 1 else f"{side[i]} to {side[min(i + step, len(side)) - 1]}" for i in starts.tolist()]
        )
    return z, names[0], names[1]


def point(figure: go.Figure, series: Series) -> None:
    """Draw one value with its interval, and where 0 is."""
    figure.add_scatter(
        x=series.value,
        y=[plain(series.words)],
        error_x=error_bars(series),
        mode="markers",
        marker={"size": 11, "color": COLOURS[0]},
        customdata=[plain(text) for text in said(series)],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    _say_instead(figure, series, [plain(series.words)], True)
    figure.update_layout(
        xaxis=value_axis(series),
        yaxis={"type": "category", "showgrid": False, "showticklabels": False},
        height=230,
    )


def error_bars(series: Series, colour: str = INK) -> dict[str, Any]:
    """Return plotly's error bars from the intervals, which need not be symmetric."""
    return {
        "type": "data",
        "symmetric": False,
        "array": series.upper - series.value,
        "arrayminus": series.value - series.lower,
        "color": colour,
        "thickness": 1.8,
        "width": 5,
    }


def filled(colour: str) -> dict[str, Any]:
    """Return the look of a bar: lighter inside, so that its error bar is seen across it."""
    return {"color": faint(colour, 0.35), "line": {"color": colour, "width": 1.2}}


def folded(keys: Sequence[PlacedLevels]) -> PlacedLevels:
    """Return several keys as one."""
    if len(keys) == 1:
        return keys[0]
    levels = [" · ".join(names) for names in zip(*(key.names for key in keys), strict=True)]
    return PlacedLevels(" · ".join(key.title for key in keys), list(levels), levels, None)

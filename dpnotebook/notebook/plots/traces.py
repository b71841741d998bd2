"""The parts that figures of releases are made of: bars, bands, heat maps and points, each with its intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.release import Series, label

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Tones with a contrast of 3:1 to white, and apart from one another for people who do not see red or green.
COLOURS = ("#0b62a4", "#c2680a", "#3f8f5f", "#8a4fa3", "#6b7280", "#b0364a")
ERROR = "#1b1f24"
MOST_CELLS_WITH_TEXT = 150  # of a heat map whose values are written into it
MOST_MARKERS = 60  # of a line; with more points it has none
UPRIGHT_BARS, UPRIGHT_LABEL = 12, 14  # more or longer than this, and bars lie down

_SPAN = re.compile(r"^\[(-?[\d.,]+), (-?[\d.,]+)[\])]$")
_AT_MOST = re.compile(r"^<=? (-?[\d.,]+)$")


def bars(figure: go.Figure, series: Series, levels: Sequence[Any], title: str) -> None:
    """Draw bars with error bars; lying down where there are many or their names are long."""
    names = [plain(label(level)) for level in levels]
    lying = len(names) > UPRIGHT_BARS or max(map(len, names), default=0) > UPRIGHT_LABEL
    where = {"y": names, "x": series.value, "orientation": "h"} if lying else {"x": names, "y": series.value}
    figure.add_bar(
        **where,
        **{"error_x" if lying else "error_y": error_bars(series)},
        marker=_filled(COLOURS[0]),
        customdata=said(series),
        hovertemplate=f"%{{{'y' if lying else 'x'}}}: %{{customdata}}<extra></extra>",
        showlegend=False,
    )
    names_axis, values_axis = ("yaxis", "xaxis") if lying else ("xaxis", "yaxis")
    figure.update_layout(
        {
            names_axis: {"title": {"text": plain(title)}, "type": "category", "showgrid": False},
            values_axis: {"title": {"text": plain(series.unit)}},
        }
    )
    if lying:
        figure.update_layout(height=max(360, 130 + 20 * len(names)), yaxis_autorange="reversed")


def band(
    figure: go.Figure, series: Series, where: NDArray[np.float64], names: Sequence[str], colour: str, name: str = ""
) -> None:
    """Draw a line through the values, and a band from the lower to the upper ends of their intervals.

    Parameters
    ----------
    where
        Place of every value on the axis; those that are NaN are left out.
    names
        What each value is called when somebody points at it.
    name
        What the line is called in the legend; empty for no legend.
    """
    kept = np.flatnonzero(np.isfinite(where))
    kept = kept[np.argsort(where[kept], kind="stable")]
    x = where[kept]
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([series.upper[kept], series.lower[kept][::-1]]),
        fill="toself",
        fillcolor=_faint(colour),
        line={"width": 0},
        hoverinfo="skip",
        name="interval",
        legendgroup=name,
        showlegend=False,
    )
    texts = said(series)
    figure.add_scatter(
        x=x,
        y=series.value[kept],
        mode="lines+markers" if kept.size <= MOST_MARKERS else "lines",
        line={"color": colour, "width": 2},
        marker={"size": 5, "color": colour},
        customdata=[f"{plain(names[i])}: {texts[i]}" for i in kept.tolist()],
        hovertemplate="%{customdata}<extra></extra>",
        name=name or "value",
        legendgroup=name,
        showlegend=bool(name),
    )


def group(figure: go.Figure, series: Series, levels: Sequence[Any], colour: str) -> None:
    """Draw one colour of a grouped bar chart; `series.name` is what the legend says."""
    texts = said(series)
    figure.add_bar(
        x=[plain(label(level)) for level in levels],
        y=series.value,
        error_y=error_bars(series),
        name=plain(series.name),
        marker=_filled(colour),
        customdata=[
            f"{plain(label(level))}, {plain(series.name)}: {text}" for level, text in zip(levels, texts, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def heat_map(
    figure: go.Figure,
    series: Series,
    place: dict[tuple[Any, Any], int],
    rows: Sequence[Any],
    columns: Sequence[Any],
    names: Sequence[str],
) -> None:
    """Draw a heat map; pointing at a cell shows its error.

    Parameters
    ----------
    place
        Which answer belongs to a (row, column).
    names
        Titles of the rows and of the columns.
    """
    texts = said(series)
    index = np.array([[place.get((row, column), -1) for column in columns] for row in rows])
    present = index >= 0
    few = index.size <= MOST_CELLS_WITH_TEXT
    cells = [(i, rows[r], columns[c]) for (r, c), i in np.ndenumerate(index)]
    hover = [f"{plain(label(row))}, {plain(label(column))}: {texts[i]}" if i >= 0 else "" for i, row, column in cells]
    inside = [formatting.value(series.value[i], series.half[i]) if i >= 0 else "" for i, _, _ in cells]
    figure.add_heatmap(
        x=[plain(label(column)) for column in columns],
        y=[plain(label(row)) for row in rows],
        z=np.where(present, series.value[index], np.nan),
        text=np.array(inside, dtype=object).reshape(index.shape) if few else None,
        texttemplate="%{text}" if few else None,
        customdata=np.array(hover, dtype=object).reshape(index.shape),
        hovertemplate="%{customdata}<extra></extra>",
        colorscale=[[0, "#f3f6fa"], [0.5, "#6ea6d0"], [1, "#0a3f6b"]],
        colorbar={"title": {"text": plain(series.unit)}, "outlinewidth": 0, "thickness": 14},
        xgap=1 if few else 0,
        ygap=1 if few else 0,
    )
    figure.update_layout(
        xaxis={"title": {"text": plain(names[1])}, "type": "category", "showgrid": False},
        yaxis={"title": {"text": plain(names[0])}, "type": "category", "showgrid": False, "autorange": "reversed"},
        height=min(1000, max(300, 170 + 24 * len(rows))),
    )


def point(figure: go.Figure, series: Series) -> None:
    """Draw one value with its interval."""
    figure.add_scatter(
        x=series.value,
        y=[plain(series.words)],
        error_x=error_bars(series),
        mode="markers",
        marker={"size": 11, "color": COLOURS[0]},
        customdata=said(series),
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    figure.update_layout(
        xaxis_title=plain(series.unit),
        yaxis={"type": "category", "showgrid": False, "showticklabels": False},
        height=230,
    )


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
    return found if np.isfinite(found).sum() >= 3 else None


def error_bars(series: Series) -> dict[str, Any]:
    """Return plotly's error bars from the intervals, which need not be symmetric."""
    return {
        "type": "data",
        "symmetric": False,
        "array": series.upper - series.value,
        "arrayminus": series.value - series.lower,
        "color": ERROR,
        "thickness": 1.8,
        "width": 5,
    }


def said(series: Series) -> list[str]:
    """Return each value with its error as text."""
    found = []
    for value, half, lower, upper in zip(series.value, series.half, series.lower, series.upper, strict=True):
        ends = f"({formatting.value(lower, half)} to {formatting.value(upper, half)})"
        error = f"±{formatting.error(half)}" if series.symmetric else ends
        found.append(f"{formatting.value(value, half)} {error} {plain(series.unit)}")
    return found


def plain(text: str) -> str:
    """Return text that plotly does not read as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _filled(colour: str) -> dict[str, Any]:
    # Lighter inside, so that an error bar is seen across it.
    return {"color": _faint(colour, 0.6), "line": {"color": colour, "width": 1}}


def _faint(colour: str, opacity: float = 0.22) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"

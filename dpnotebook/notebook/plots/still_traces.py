"""The traces of plotly that a still picture has: lines and bands, bars, and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpnotebook.notebook.plots.still_axes import StillAxis, colour, number, unpacked
from dpnotebook.notebook.plots.still_text import unmarked
from dpnotebook.notebook.plots.theme import INK, SMALL

# Of plotly, where a trace has none of its own.
COLOURWAY = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)
FEW = 20  # points that plotly marks unless told otherwise
MARKS = {"circle": "o", "square": "s", "diamond": "D", "cross": "P", "x": "X", "star": "*", "triangle-up": "^"}
DASHES = {"dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 4)), "solid": "-"}
ALIGNED = {"left": "right", "right": "left", "center": "center"}  # a text left of its point ends there
BAR_GAP = 0.2  # between two groups of bars, of plotly
CAP = 4  # pixels of half the end of an error bar
LIGHT = 0.55  # luminance of a cell from which its text is dark


def scatter(
    axes: Any, trace: Any, across: StillAxis, up: StillAxis, tone: str, beside: Sequence[Any] = (), gap: float = BAR_GAP
) -> None:
    """Draw a line, a band, points or texts; points of several traces stand beside one another where that is asked."""
    x, y = across.place(trace.x), up.place(trace.y)
    if beside and across.kind == "category":
        x = x + _aside(trace, beside, gap)
    tone = trace.line.color or trace.marker.color or tone
    mode = trace.mode or ("lines+markers" if x.size < FEW else "lines")
    name = trace.name if trace.name and trace.showlegend is not False else "_"
    if trace.fill == "toself":
        for part in np.split(np.arange(x.size), np.flatnonzero(np.isnan(x) | np.isnan(y))):
            part = part[np.isfinite(x[part]) & np.isfinite(y[part])]
            axes.fill(x[part], y[part], facecolor=colour(trace.fillcolor or tone), lw=0, zorder=2)
    elif trace.fill:
        step = "post" if trace.line.shape == "hv" else None
        axes.fill_between(x, y, 0, step=step, facecolor=colour(trace.fillcolor or tone), lw=0, zorder=2)
    if "text" in mode:
        _texts(axes, trace, x, y)
    lines = "lines" in mode and (trace.line.width is None or trace.line.width > 0) and trace.fill != "toself"
    marks = "markers" in mode
    if not lines and not marks:
        return
    _error_bars(axes, trace, x, y, tone)
    symbol = trace.marker.symbol or "circle"
    axes.plot(
        x,
        y,
        color=colour(tone),
        lw=trace.line.width or 2,
        ls=DASHES.get(trace.line.dash or "solid", "--") if lines else "none",
        drawstyle="steps-post" if trace.line.shape == "hv" else "default",
        marker=MARKS.get(symbol, "o") if marks else "none",
        ms=trace.marker.size if isinstance(trace.marker.size, int | float) else 6,
        mfc=colour(trace.marker.color or tone),
        mec="none",
        label=name,
        zorder=3,
    )


def bars(axes: Any, trace: Any, across: StillAxis, up: StillAxis, alike: Sequence[Any], layout: Any) -> None:
    """Draw bars from 0, beside those of other traces where they are grouped."""
    lying = trace.orientation == "h"
    names, values = (up, across) if lying else (across, up)
    where = names.place(trace.y if lying else trace.x)
    length = values.place(trace.x if lying else trace.y)
    step = 1.0 if names.kind == "category" or where.size < 2 else float(np.nanmin(np.diff(np.unique(where))))
    whole = step * (1 - (layout.bargap if layout.bargap is not None else BAR_GAP))
    thick = whole / len(alike)
    where = where + step * _aside(trace, alike, 1 - whole / step)
    tone = trace.marker.color or COLOURWAY[0]
    look = {
        "facecolor": colour(tone),
        "edgecolor": colour(trace.marker.line.color or "rgba(0,0,0,0)"),
        "lw": trace.marker.line.width or 0,
        "label": trace.name if trace.name and trace.showlegend is not False else "_",
        "zorder": 2,
    }
    if lying:
        axes.barh(where, np.nan_to_num(length), thick, **look)
        _error_bars(axes, trace, length, where, tone)
        axes.axvline(0, color=colour(INK), lw=1, zorder=2.5)
    else:
        axes.bar(where, np.nan_to_num(length), thick, **look)
        _error_bars(axes, trace, where, length, tone)
        axes.axhline(0, color=colour(INK), lw=1, zorder=2.5)


def _aside(trace: Any, alike: Sequence[Any], gap: float) -> float:
    """Return how far beside the middle of its group a trace stands, in distances of two groups."""
    place = next(i for i, one in enumerate(alike) if one is trace)
    return (1 - gap) * ((place + 0.5) / len(alike) - 0.5)


def heat_map(axes: Any, trace: Any, across: StillAxis, up: StillAxis) -> None:
    """Draw a heat map, with its scale beside it and its texts in it."""
    from matplotlib.colors import LinearSegmentedColormap

    z = np.asarray(unpacked(trace.z), dtype=float)
    rows, columns = z.shape
    scale = [(float(at), colour(tone)) for at, tone in trace.colorscale]
    shades = LinearSegmentedColormap.from_list("shades", scale)
    low = float(trace.zmin if trace.zmin is not None else np.nanmin(z) if np.isfinite(z).any() else 0)
    high = float(trace.zmax if trace.zmax is not None else np.nanmax(z) if np.isfinite(z).any() else 1)
    x0, dx = (-0.0, 1.0) if trace.x0 is None else (float(trace.x0), float(trace.dx or 1))
    y0, dy = (-0.0, 1.0) if trace.y0 is None else (float(trace.y0), float(trace.dy or 1))
    ends = (x0 - dx / 2, x0 + (columns - 0.5) * dx, y0 + (rows - 0.5) * dy, y0 - dy / 2)
    drawn = axes.imshow(
        np.ma.masked_invalid(z),
        cmap=shades,
        vmin=low,
        vmax=high if high > low else low + 1,
        aspect="auto",
        interpolation="none",
        extent=ends,
    )
    axes.set_ylim(ends[2], ends[3])
    scale_of = axes.inset_axes((1.02, 0.0, 0.025, 1.0))
    bar = axes.figure.colorbar(drawn, cax=scale_of)
    bar.outline.set_visible(False)
    scale_of.tick_params(colors=INK, labelsize=SMALL, length=3)
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    if trace.colorbar.tickvals is None:
        scale_of.yaxis.set_major_formatter(FuncFormatter(number))
    else:
        scale_of.yaxis.set_major_locator(FixedLocator(list(trace.colorbar.tickvals)))
        scale_of.yaxis.set_major_formatter(FixedFormatter([unmarked(text) for text in trace.colorbar.ticktext]))
    if trace.colorbar.title.text:
        scale_of.set_title(unmarked(trace.colorbar.title.text), size=SMALL, color=INK, loc="left", pad=6)
    if trace.text is not None:
        tones = shades((z - low) / ((high - low) or 1))
        for (row, column), text in np.ndenumerate(np.asarray(trace.text, dtype=object)):
            if not text:
                continue
            bright = float(tones[row, column][:3] @ (0.3, 0.59, 0.11)) if np.isfinite(z[row, column]) else LIGHT / 2
            tone = ("#1b1f24" if bright > LIGHT else "#ffffff") if np.isfinite(z[row, column]) else INK
            axes.text(column, row, unmarked(str(text)), ha="center", va="center", size=SMALL - 1, color=tone)


def _error_bars(axes: Any, trace: Any, x: Any, y: Any, tone: str) -> None:
    for side in ("x", "y"):
        error = getattr(trace, f"error_{side}", None)
        if error is None or error.array is None:
            continue
        above = np.asarray(unpacked(error.array), dtype=float)
        below = above if error.arrayminus is None else np.asarray(unpacked(error.arrayminus), dtype=float)
        known = np.isfinite(above) & np.isfinite(below) & np.isfinite(x) & np.isfinite(y)
        axes.errorbar(
            x[known],
            y[known],
            **{f"{side}err": np.maximum(np.stack([below[known], above[known]]), 0)},
            fmt="none",
            ecolor=colour(error.color or tone),
            elinewidth=error.thickness or 2,
            capsize=CAP if known.sum() <= 200 else 0,  # ends are seen where there is room for them
            capthick=error.thickness or 2,
            zorder=4,
        )


def _texts(axes: Any, trace: Any, x: Any, y: Any) -> None:
    texts = trace.text if isinstance(trace.text, list | tuple | np.ndarray) else [trace.text] * x.size
    upright, _, side = (trace.textposition or "middle center").partition(" ")
    for at, height, text in zip(x, y, texts, strict=True):
        axes.annotate(
            unmarked(str(text)),
            (at, height),
            xytext=({"left": -5, "right": 5}.get(side, 0), {"top": 4, "bottom": -4}.get(upright, 0)),
            textcoords="offset points",
            ha=ALIGNED.get(side, "center"),
            va={"top": "bottom", "bottom": "top"}.get(upright, "center"),
            size=trace.textfont.size or SMALL,
            color=colour(trace.textfont.color or INK),
            annotation_clip=False,
        )

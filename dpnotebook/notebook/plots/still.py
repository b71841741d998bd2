"""A figure as a still picture, drawn by matplotlib from the figure's own traces: what changes one changes both.

plotly writes pictures with a browser that it downloads. matplotlib needs none, and knows how dates and numbers stand
along an axis. It is imported when a picture is first drawn, its state and settings stay as they are: no pyplot, and
settings of our own for as long as a drawing takes. What figures of this package are made of is drawn: scatter, bar and
heat map, with error bars, bands, lines across, notes and legends; traces of other kinds are left out.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from dpnotebook.notebook.plots.still_axes import StillAxis, colour, still_axis
from dpnotebook.notebook.plots.still_text import lines_of, runs_of, unmarked
from dpnotebook.notebook.plots.still_traces import BAR_GAP, COLOURWAY, bars, heat_map, scatter
from dpnotebook.notebook.plots.theme import CLEAR, HEIGHT, INK, SMALL, TITLE, WIDTH

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

DOTS = 72  # an inch: what matplotlib calls a point is then a pixel
EDGE = 8  # pixels that nothing is drawn in
MARGIN = {"l": 80, "r": 80, "t": 100, "b": 80}  # plotly's own
SPACE = 0.3  # of the size of a text
SPACING = 1.35  # from line to line of a text, in sizes of its letters
LEAST_PANEL = 40  # pixels that are left to what is drawn, however long its labels
# No person's setting, and nothing that a text says (`$`), is to change a picture.
STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "dpnotebook",
    "svg.image_inline": True,
    "path.simplify": True,
    "path.simplify_threshold": 0.3,
    "axes.unicode_minus": True,
}


class Panel(NamedTuple):
    """A pair of axes: those of matplotlib, and what plotly says of each."""

    axes: Any
    across: StillAxis
    up: StillAxis


Panels = dict[tuple[str, str], Panel]

_lock = threading.RLock()  # settings of matplotlib are those of the process


@contextmanager
def still(shown: go.Figure) -> Iterator[Figure]:
    """Draw a figure; to be saved inside the context.

    Parameters
    ----------
    shown
        What to draw; its layout says how large.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font for measuring lacks: the reader's has them
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        layout = shown.layout
        width, height = int(layout.width or WIDTH), int(layout.height or HEIGHT)
        drawn = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS)
        FigureCanvasAgg(drawn)
        paper = layout.paper_bgcolor or "white"
        drawn.patch.set_facecolor("none" if paper == CLEAR else colour(paper))
        _fill(drawn, shown)
        yield drawn


def _fill(drawn: Figure, shown: go.Figure) -> None:
    layout = shown.layout
    panels = _panels(drawn, shown)
    for number, trace in enumerate(shown.data):
        place = (trace.xaxis or "x", trace.yaxis or "y") if trace.type in ("scatter", "bar", "heatmap") else None
        if place is None:
            continue
        axes, across, up = panels[place]
        tone = COLOURWAY[number % len(COLOURWAY)]
        alike = [one for one in shown.data if one.type == trace.type and (one.xaxis or "x", one.yaxis or "y") == place]
        if trace.type == "scatter":
            gap = layout.bargap if layout.bargap is not None else BAR_GAP
            scatter(axes, trace, across, up, tone, alike if layout.scattermode == "group" else (), gap)
        elif trace.type == "bar":
            bars(axes, trace, across, up, alike, layout)
        else:
            heat_map(axes, trace, across, up)
    for axes, across, up in panels.values():
        across.finish(axes)
        up.finish(axes)
    _same_ends(panels)
    _across(shown, panels)
    margins = {side: float(layout.margin[side] if layout.margin[side] is not None else MARGIN[side]) for side in "lrtb"}
    margins["t"] = max(margins["t"], _heading(drawn, shown) + EDGE)
    legend = _legend(shown, panels)
    _place(drawn, shown, panels, margins, legend)


def _panels(drawn: Figure, shown: go.Figure) -> Panels:
    """Return a pair of axes of matplotlib for every pair of axes that something is drawn on."""
    panels: Panels = {}
    for trace in shown.data:
        if trace.type not in ("scatter", "bar", "heatmap"):
            continue
        place = (trace.xaxis or "x", trace.yaxis or "y")
        if place in panels:
            continue
        axes = drawn.add_axes((0.1, 0.1, 0.8, 0.8))
        axes.patch.set_visible(False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        alike = [one for one in shown.data if (one.xaxis or "x", one.yaxis or "y") == place]
        panels[place] = Panel(
            axes,
            still_axis(shown.layout, "x", place[0], alike),
            still_axis(shown.layout, "y", place[1], alike),
        )
    return panels


def _same_ends(panels: Panels) -> None:
    """Let axes that match each other have the same ends."""
    for side in ("x", "y"):
        families: dict[str, list[tuple[Any, StillAxis]]] = {}
        for place, panel in panels.items():
            axis = panel.across if side == "x" else panel.up
            families.setdefault(axis.layout.matches or place[side == "y"], []).append((panel.axes, axis))
        for family in families.values():
            ends = [getattr(axes, f"get_{side}lim")() for axes, _ in family]
            if len(family) > 1 and not any(axis.reversed for _, axis in family):
                for axes, _ in family:
                    getattr(axes, f"set_{side}lim")(min(low for low, _ in ends), max(high for _, high in ends))


def _across(shown: go.Figure, panels: Panels) -> None:
    """Draw lines across a panel, and notes in it."""
    for shape in shown.layout.shapes:
        found = panels.get(((shape.xref or "x").split()[0], (shape.yref or "y").split()[0]))
        if found is None or shape.type != "line":
            continue
        axes, across, up = found
        look = {"color": colour(shape.line.color or INK), "lw": shape.line.width or 2,
                "ls": "--" if shape.line.dash else "-", "zorder": 1}  # fmt: skip
        if (shape.xref or "").endswith("domain"):
            axes.axhline(up.place([shape.y0])[0], **look)
        elif (shape.yref or "").endswith("domain"):
            axes.axvline(across.place([shape.x0])[0], **look)
    for note in shown.layout.annotations:
        found = panels.get(((note.xref or "x").split()[0], (note.yref or "y").split()[0]))
        if found is None:
            continue
        axes, across, up = found
        where = [
            note.x if (note.xref or "").endswith("domain") else across.place([note.x])[0],
            note.y if (note.yref or "").endswith("domain") else up.place([note.y])[0],
        ]
        sides = {"x": axes.transAxes if (note.xref or "").endswith("domain") else axes.transData,
                 "y": axes.transAxes if (note.yref or "").endswith("domain") else axes.transData}  # fmt: skip
        from matplotlib.transforms import blended_transform_factory

        axes.text(
            *where,
            unmarked(note.text),
            transform=blended_transform_factory(sides["x"], sides["y"]),
            ha=note.xanchor or "center",
            va={"middle": "center"}.get(note.yanchor, note.yanchor or "center"),
            size=note.font.size or SMALL,
            color=colour(note.font.color or INK),
            clip_on=False,
        )


def _heading(drawn: Figure, shown: go.Figure) -> float:
    """Draw title and subtitle from the top; return how many pixels they take."""
    title, (width, height) = shown.layout.title, drawn.get_size_inches() * DOTS
    if not title.text:
        return 0
    canvas: Any = drawn.canvas
    renderer = canvas.get_renderer()
    size = float(title.font.size or TITLE)
    tone = colour(title.font.color or shown.layout.font.color or INK)
    top = float(title.pad.t or 14)
    for line in lines_of(title.text):
        left, tallest = EDGE + 0.0, 0.0
        for text, own in runs_of(line, size):
            put = drawn.text(left / width, 1 - (top + size) / height, text, size=own, color=tone, va="baseline")
            left += put.get_window_extent(renderer).width + SPACE * own * text.endswith(" ")  # which have no extent
            tallest = max(tallest, own)
        top += SPACING * (tallest or size)
    small = float(title.subtitle.font.size or SMALL)
    for line in lines_of(title.subtitle.text or ""):
        drawn.text(EDGE / width, 1 - (top + small) / height, unmarked(line), size=small, color=tone, va="baseline")
        top += SPACING * small
    return top


def _legend(shown: go.Figure, panels: Panels) -> Any:
    """Draw a legend of all panels beside the first, or above it where it lies."""
    named: dict[str, Any] = {}
    for axes, _, _ in panels.values():
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    if not named or shown.layout.showlegend is False or (len(named) < 2 and not _asked(shown)):
        return None
    lying = shown.layout.legend.orientation == "h"
    axes = next(iter(panels.values()))[0] if lying else _rightmost(panels)
    where = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": len(named)} if lying else {
        "loc": "upper left", "bbox_to_anchor": (1.01, 1)}  # fmt: skip
    legend = axes.legend(
        list(named.values()),
        [unmarked(name) for name in named],
        title=unmarked(shown.layout.legend.title.text or "") or None,
        frameon=False,
        fontsize=SMALL,
        title_fontsize=SMALL,
        labelcolor=colour(shown.layout.font.color or INK),
        alignment="left",
        **where,
    )
    legend.get_title().set_color(colour(shown.layout.font.color or INK))
    return legend


def _asked(shown: go.Figure) -> bool:
    return any(trace.showlegend for trace in shown.data)


def _rightmost(panels: Panels) -> Any:
    """Return the panel at the top right."""
    return max(panels.values(), key=lambda panel: (panel.up.domain[1], panel.across.domain[1])).axes


def _place(
    drawn: Figure,
    shown: go.Figure,
    panels: Panels,
    margins: dict[str, float],
    legend: Any,
) -> None:
    """Put the panels where they belong, with room for their labels."""
    width, height = drawn.get_size_inches() * DOTS
    canvas: Any = drawn.canvas
    renderer = canvas.get_renderer()
    for again in range(3):
        across = max(LEAST_PANEL, width - margins["l"] - margins["r"])
        up = max(LEAST_PANEL, height - margins["t"] - margins["b"])
        for axes, x, y in panels.values():
            left = margins["l"] + across * x.domain[0]
            bottom = margins["b"] + up * y.domain[0]
            size = across * (x.domain[1] - x.domain[0]), up * (y.domain[1] - y.domain[0])
            axes.set_position((left / width, bottom / height, size[0] / width, size[1] / height))
            for bar in axes.child_axes:
                bar.set_in_layout(True)
        for axes, x, y in panels.values():
            x.thin(axes, renderer)
            y.thin(axes, renderer)
        if again == 2:
            break
        boxes = [axes.get_tightbbox(renderer) for axes, _, _ in panels.values()]
        margins["l"] += max(0.0, EDGE - min(box.x0 for box in boxes))
        margins["b"] += max(0.0, EDGE - min(box.y0 for box in boxes))
        margins["r"] += max(0.0, max(box.x1 for box in boxes) - (width - EDGE))

"""Figures of strategies: per-query errors and what is measured, to point at and to zoom into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.notebook.plots.strategy_pictures import ends, summary
from dpnotebook.notebook.plots.strategy_views import Bars, Curve, Grid, View, Words
from dpnotebook.notebook.plots.theme import COLOURS, base_layout, plain

if TYPE_CHECKING:
    from dpnotebook.notebook.plots.figure import NotebookFigure

UP, DOWN = COLOURS[0], COLOURS[1]  # what is larger than zero, what is smaller
UNITS = {"error": "RMSE", "weight": "weight", "percent": "% of the sensitivity"}


def figure(view: View) -> NotebookFigure | None:
    """Return a figure of a view; None for what is only said."""
    from dpnotebook.notebook.plots.figure import NotebookFigure

    if isinstance(view, Words):
        return None
    made = NotebookFigure()
    if isinstance(view, Grid):
        _grid(made, view)
    elif isinstance(view, Curve):
        _curve(made, view)
    else:
        _bars(made, view)
    made.update_layout(
        title={"text": plain(view.title), "font": {"size": 14}, "x": 0.01, "xanchor": "left", "y": 1,
               "yref": "container", "yanchor": "top", "pad": {"t": 12}},
        margin={"l": 60, "r": 20, "t": 44, "b": 52},
    )  # fmt: skip
    return made.described(f"{view.title}; {summary(view)}")


def _grid(made: NotebookFigure, view: Grid) -> None:
    low, high = ends(view)
    rows, columns = view.values.shape
    made.add_heatmap(
        z=view.values.astype(np.float32),
        x0=1,
        dx=view.step[1],
        y0=1,
        dy=view.step[0],
        zmin=low,
        zmax=high,
        colorscale=[[0, DOWN], [0.5, "#ffffff"], [1, UP]] if low < 0 else [[0, "#ffffff"], [1, UP]],
        colorbar={"title": {"text": UNITS[view.unit]}, "thickness": 14},
        hovertemplate=f"{view.y} %{{y}}, {view.x} %{{x}}: %{{z:.3~g}}<extra></extra>",
        hoverongaps=False,
    )
    made.update_layout(
        base_layout(
            xaxis={"title": {"text": plain(view.x)}, "showgrid": False, "zeroline": False},
            yaxis={"title": {"text": plain(view.y)}, "showgrid": False, "zeroline": False, "autorange": "reversed"},
        ),
        height=420 if rows >= 24 else 200 + 9 * rows,
        width=None if columns >= 24 else 640,
    )


def _curve(made: NotebookFigure, view: Curve) -> None:
    made.add_scatter(
        x=view.where.astype(np.int32) + 1,
        y=view.values.astype(np.float32),
        mode="lines" if view.where.size > 2 else "markers",
        line={"color": UP, "width": 2},
        hovertemplate="%{x}: %{y:.3~g}<extra></extra>",
    )
    made.update_layout(_axes({"text": plain(view.x)}, {"text": UNITS[view.unit]}), height=340)


def _bars(made: NotebookFigure, view: Bars) -> None:
    made.add_bar(
        x=view.values.astype(np.float32),
        y=[plain(name) for name in view.names],
        orientation="h",
        marker={"color": UP},
        hovertemplate="%{y}: %{x:.3~g}<extra></extra>",
    )
    axes = _axes({"text": UNITS[view.unit]}, {})
    axes["yaxis"] |= {"type": "category", "autorange": "reversed", "showgrid": False, "dtick": 1}
    made.update_layout(axes, height=130 + 20 * len(view.names))


def _axes(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return base_layout(
        xaxis={"title": x, "rangemode": "tozero"}, yaxis={"rangemode": "tozero", **({"title": y} if y else {})}
    )

"""Several figures as the panels of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook.plots.theme import INK, TEXT, plain

if TYPE_CHECKING:
    from dpnotebook.notebook.plots.figure import NotebookFigure

ROW = 210  # pixels of a row of panels
BETWEEN = 56  # pixels from one row to the next, for its title and the axis above
APART = 0.07  # of the width, between two columns


def panelled(
    figures: Sequence[NotebookFigure], titles: Sequence[str], *, columns: int, alike: bool = False
) -> NotebookFigure:
    """Return one figure with a panel for each of several.

    Parameters
    ----------
    figures
        Each with one pair of axes.
    titles
        What stands above each.
    columns
        Panels beside one another.
    alike
        Whether all have the same axes: only the outer ones are then named.
    """
    from dpnotebook.notebook.plots.figure import NotebookFigure

    rows, across = -(-len(figures) // columns), min(columns, len(figures))
    tallest = max(max(ROW, (figure.layout.height or 0) - 150) for figure in figures)
    height = rows * tallest + (rows - 1) * BETWEEN
    made = NotebookFigure()
    axes: dict[str, Any] = {}
    for number, (figure, title) in enumerate(zip(figures, titles, strict=True)):
        row, column = divmod(number, columns)
        name = "" if number == 0 else str(number + 1)
        top = 1 - row * (tallest + BETWEEN) / height
        wide = (1 - APART * (across - 1)) / across
        ends = {
            "x": [column * (wide + APART), column * (wide + APART) + wide],
            "y": [max(0.0, top - tallest / height), top],
        }
        for side, other in (("x", "y"), ("y", "x")):
            axis = figure.layout[f"{side}axis"].to_plotly_json()
            axis |= {"domain": ends[side], "anchor": f"{other}{name}"}
            outer = number + columns >= len(figures) if side == "x" else column == 0
            if alike:
                axis |= {"matches": side} if number else {}
                axis |= {} if outer else {"title": {"text": ""}, "showticklabels": side == "x"}
            elif side == "y" and column and figure.layout.yaxis.type == "category":
                axis |= {"showticklabels": False, "title": {"text": ""}}
            axes[f"{side}axis{name}"] = axis
        for trace in figure.data:
            made.add_trace(trace.update(xaxis=f"x{name}", yaxis=f"y{name}"))
        made.add_annotation(
            text=plain(title), x=0, y=1, xref=f"x{name} domain", yref=f"y{name} domain", xanchor="left",
            yanchor="bottom", showarrow=False, font={"size": TEXT, "color": INK}, yshift=2,
        )  # fmt: skip
    made.update_layout(axes, height=height + 170)
    return made

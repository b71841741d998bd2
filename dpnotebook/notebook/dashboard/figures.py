"""The two figures of the dashboard: spend over time, and spend by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import formatting
from dpnotebook.notebook.dashboard.spending import AttributeSpending, SpendingStep
from dpnotebook.notebook.plots.release import base_layout
from dpnotebook.notebook.plots.traces import COLOURS, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpnotebook.session.session import Session


def spend_figure(steps: Sequence[SpendingStep], session: Session) -> go.Figure:
    """Return the total spend after each release as a staircase below the line of the budget."""
    import plotly.graph_objects as go

    total = session.budget.epsilon
    numbers = [0, *(step.number for step in steps)]
    spent = [0.0, *(step.epsilon for step in steps)]
    said = [
        "nothing spent",
        *(f"#{step.number} {plain(step.question)}: ε {formatting.cost(step.epsilon)} in all" for step in steps),
    ]
    end = max(numbers[-1] * 1.05, numbers[-1] + 1)
    figure = go.Figure()
    figure.add_scatter(
        x=[*numbers, end],
        y=[*spent, spent[-1]],
        customdata=[*said, said[-1]],
        mode="lines",
        line={"shape": "hv", "width": 3, "color": COLOURS[1]},
        fill="tozeroy",
        fillcolor="rgba(194,104,10,0.18)",
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    figure.add_hline(y=total, line={"dash": "dash", "color": COLOURS[4]})
    figure.update_layout(
        base_layout(
            xaxis={
                "title": {"text": "after release #"},
                "range": [0, end],
                "tickformat": ",d",
                "dtick": -(-int(end) // 10),
            },
            yaxis={"title": {"text": "ε spent in all"}, "range": [0, 1.12 * total]},
        ),
        height=300,
        margin={"l": 60, "r": 20, "t": 24, "b": 52},
    )
    _note(figure, f"budget ε {formatting.rounded(total)}", end, total)
    return figure


def column_figure(columns: Sequence[AttributeSpending], session: Session) -> go.Figure:
    """Return the spend on the dearest level of each column, with a mark at its cheapest level."""
    import plotly.graph_objects as go

    several = len({column.table for column in columns}) > 1
    names = [plain(f"{column.table}.{column.attribute}" if several else column.attribute) for column in columns]
    figure = go.Figure()
    figure.add_bar(
        y=names,
        x=[column.most for column in columns],
        orientation="h",
        name="dearest level",
        marker_color=COLOURS[0],
        customdata=[formatting.cost(column.most) for column in columns],
        hovertemplate="%{y}: ε %{customdata} on its dearest level<extra></extra>",
    )
    figure.add_scatter(
        y=names,
        x=[column.least for column in columns],
        mode="markers",
        name="cheapest level",
        marker={"symbol": "diamond", "size": 9, "color": COLOURS[1], "line": {"color": "white", "width": 1}},
        customdata=[formatting.cost(column.least) for column in columns],
        hovertemplate="%{y}: ε %{customdata} on its cheapest level<extra></extra>",
    )
    total = session.budget.epsilon
    figure.add_vline(x=total, line={"dash": "dash", "color": COLOURS[4]})
    figure.update_layout(
        base_layout(
            xaxis={"title": {"text": "ε spent"}, "range": [0, 1.08 * total]},
            yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        ),
        height=max(220, 130 + 26 * len(names)),
        margin={"l": 60, "r": 20, "t": 40, "b": 52},
        bargap=0.35,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
    )
    return figure


def _note(figure: Any, text: str, x: float, y: float) -> None:
    figure.add_annotation(
        text=text, x=x, y=y, xanchor="right", yanchor="bottom", showarrow=False, font={"size": 12, "color": "#57606a"}
    )

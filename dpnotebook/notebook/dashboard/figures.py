"""The two figures of the dashboard: what was left after each release, and the spend by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.notebook import currency
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.dashboard.spending import AttributeSpending, SpendingStep
from dpnotebook.notebook.plots.theme import COLOURS, INK, base_layout, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpnotebook.session.session import Session

WHOLE = 100.0  # percent
MOST_STEPS = 200  # of the staircase: more are no wider than a pixel or two, and all of them are sent with every release
MOST_BARS = 40  # columns in a figure, the dearest; the table beside it has the others


def burn_down_figure(steps: Sequence[SpendingStep], session: Session) -> go.Figure:
    """Return what was left after each release, as a staircase that falls from the whole budget to nothing."""
    import plotly.graph_objects as go

    end = max(steps[-1].number * 1.05, steps[-1].number + 1) if steps else 1
    steps = _seen(steps)
    numbers = [0, *(step.number for step in steps)]
    left = [WHOLE, *(WHOLE - 100 * step.share for step in steps)]
    said = [
        "nothing spent",
        *(
            f"#{step.number} {plain(step.question)}: {currency.percents(step.share, 0.0)[2]} left, "
            f"{currency.short_price(step.share, step.epsilon)} spent in all"
            for step in steps
        ),
    ]
    figure = go.Figure()
    figure.add_scatter(
        x=[*numbers, end],
        y=[*left, left[-1]],
        customdata=[*said, said[-1]],
        mode="lines",
        line={"shape": "hv", "width": 3, "color": COLOURS[1]},
        fill="tozeroy",
        fillcolor="rgba(194,104,10,0.18)",
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    figure.add_hline(y=WHOLE, line={"dash": "dash", "color": COLOURS[4]})
    figure.update_layout(
        base_layout(
            xaxis={
                "title": {"text": "after release #"},
                "range": [0, end],
                "tickformat": ",d",
                "dtick": -(-int(end) // 10),
            },
            yaxis={"title": {"text": "left of the budget"}, "ticksuffix": "%", "range": [0, 1.12 * WHOLE]},
        ),
        height=300,
        margin={"l": 60, "r": 20, "t": 24, "b": 52},
    )
    _note(figure, f"budget {currency.written(session.budget.epsilon, session.budget.delta)}", end, WHOLE)
    return figure


def _seen(steps: Sequence[SpendingStep]) -> Sequence[SpendingStep]:
    """Return the steps that a figure has: all of few; of many the deepest ones, and others evenly between them."""
    if len(steps) <= MOST_STEPS:
        return steps
    totals = np.array([step.share for step in steps])
    deepest = np.argsort(-np.diff(totals, prepend=0.0), kind="stable")[: MOST_STEPS // 2]
    even = np.linspace(0, len(steps) - 1, MOST_STEPS // 2).round().astype(int)
    return [steps[place] for place in np.union1d(deepest, even)]


def column_figure(columns: Sequence[AttributeSpending], session: Session) -> go.Figure:
    """Return the spend on the dearest level of each column, with a mark at its cheapest level."""
    import plotly.graph_objects as go

    several = len({column.table for column in columns}) > 1
    state = budget_state(session)
    shown = sorted(columns, key=lambda column: -column.most)[:MOST_BARS] if len(columns) > MOST_BARS else columns
    names = [plain(f"{column.table}.{column.attribute}" if several else column.attribute) for column in shown]
    figure = go.Figure()
    figure.add_bar(
        y=names,
        x=[100 * state.share(column.most) for column in shown],
        orientation="h",
        name="dearest level",
        marker_color=COLOURS[0],
        customdata=[currency.cost_in(state, column.most) for column in shown],
        hovertemplate="%{y}: %{customdata} on its dearest level<extra></extra>",
    )
    figure.add_scatter(
        y=names,
        x=[100 * state.share(column.least) for column in shown],
        mode="markers",
        name="cheapest level",
        marker={"symbol": "diamond", "size": 9, "color": COLOURS[1], "line": {"color": "white", "width": 1}},
        customdata=[currency.cost_in(state, column.least) for column in shown],
        hovertemplate="%{y}: %{customdata} on its cheapest level<extra></extra>",
    )
    figure.add_vline(x=WHOLE, line={"dash": "dash", "color": COLOURS[4]})
    figure.update_layout(
        base_layout(
            xaxis={"title": {"text": "spent of the budget"}, "ticksuffix": "%", "range": [0, 1.08 * WHOLE]},
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
        text=text, x=x, y=y, xanchor="right", yanchor="bottom", showarrow=False, font={"size": 12, "color": INK}
    )

"""The live part of the dashboard: tabs with figures and releases, and a button to refresh them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, currency
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.dashboard.spending import AttributeSpending, SpendingStep, columns, timeline
from dpnotebook.notebook.dashboard.summary import history_html, summary_html
from dpnotebook.notebook.html import escape, line
from dpnotebook.notebook.plots.theme import COLOURS, base_layout, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from dpnotebook.session.session import Session


WHOLE = 100.0  # percent


class DashboardPanel:
    """The widgets of one dashboard.

    Parameters
    ----------
    session
        Whose budget to show.
    refresh
        What the refresh button calls.
    """

    def __init__(self, session: Session, refresh: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.session = session
        auto = widgets.Layout(width="auto")
        self.summary = widgets.HTML()
        self.spend_plot, self.column_plot = widgets.Output(), widgets.Output()
        self.history = widgets.HTML()
        self.choice = widgets.Dropdown(options=[], layout=widgets.Layout(width="auto", max_width="460px"))
        self.again_button = widgets.Button(description="Show again (free)", layout=auto)
        self.again = widgets.HTML()
        self.refresh_button = widgets.Button(description="Refresh", icon="refresh", layout=auto)
        self.status = widgets.HTML()
        releases = widgets.VBox([widgets.HBox([self.choice, self.again_button]), self.again, self.history])
        tabs = widgets.Tab([self.spend_plot, self.column_plot, releases])
        tabs.titles = ("Spend over time", "Spend by column", "Releases")
        self.tabs = widgets.VBox([tabs, widgets.HBox([self.refresh_button, self.status])])
        self.widget = widgets.VBox([self.summary, self.tabs])
        self.refresh_button.on_click(lambda _: refresh())
        self.again_button.on_click(lambda _: self.show_again())

    def draw(self) -> None:
        """Draw everything anew from the ledger."""
        history, spared, state = self.session.history(), self.session.saved, budget_state(self.session)
        self.summary.value = summary_html(self.session, spared)
        _put(self.spend_plot, spend_figure(timeline(self.session, history), self.session))
        _put(self.column_plot, column_figure(columns(self.session), self.session))
        self.history.value = history_html(history, state, how=spared.how)
        recorded = history[history["state"] == "recorded"].iloc[::-1]
        chosen = self.choice.value
        self.choice.options = [
            (
                f"#{entry['number']}  {entry['question']}  {currency.cost_in(state, entry['paid'])}",
                int(entry["number"]),
            )
            for entry in recorded.to_dict("records")
        ]
        numbers = [number for _, number in self.choice.options]
        if numbers:
            self.choice.value = chosen if chosen in numbers else numbers[0]
        self.again_button.disabled = not numbers

    def show_again(self) -> None:
        """Show the chosen release again; it comes from the ledger and costs nothing."""
        if self.choice.value is None:
            return
        try:
            self.again.value = cards.as_html(cards.release_card(self.session.release(self.choice.value)))
        except DPError as error:
            self.again.value = line(f"⚠ {escape(str(error))}")

    def say(self, text: str) -> None:
        """Say in one line what went wrong, or nothing."""
        self.status.value = line(f"⚠ {escape(text)}") if text else ""

    def still(self) -> None:
        """Take the controls away from what will not move any more."""
        for control in (self.refresh_button, self.again_button, self.choice):
            control.disabled = True


def _put(output: Any, figure: go.Figure) -> None:
    """Put a figure into an Output widget; by its trait, which works in every thread and captures nothing else."""
    data = {"application/vnd.plotly.v1+json": json.loads(figure.to_json()), "text/plain": "figure"}
    output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


# The two figures of the dashboard: spend over time, and spend by column.
def spend_figure(steps: Sequence[SpendingStep], session: Session) -> go.Figure:
    """Return the total spend after each release as a staircase below the line of the budget."""
    import plotly.graph_objects as go

    numbers = [0, *(step.number for step in steps)]
    spent = [0.0, *(100 * step.share for step in steps)]
    said = [
        "nothing spent",
        *(
            f"#{step.number} {plain(step.question)}: {currency.short_price(step.share, step.epsilon)} in all"
            for step in steps
        ),
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
    figure.add_hline(y=WHOLE, line={"dash": "dash", "color": COLOURS[4]})
    figure.update_layout(
        base_layout(
            xaxis={
                "title": {"text": "after release #"},
                "range": [0, end],
                "tickformat": ",d",
                "dtick": -(-int(end) // 10),
            },
            yaxis={"title": {"text": "spent of the budget"}, "ticksuffix": "%", "range": [0, 1.12 * WHOLE]},
        ),
        height=300,
        margin={"l": 60, "r": 20, "t": 24, "b": 52},
    )
    _note(figure, f"budget {currency.written(session.budget.epsilon, session.budget.delta)}", end, WHOLE)
    return figure


def column_figure(columns: Sequence[AttributeSpending], session: Session) -> go.Figure:
    """Return the spend on the dearest level of each column, with a mark at its cheapest level."""
    import plotly.graph_objects as go

    several = len({column.table for column in columns}) > 1
    state = budget_state(session)
    names = [plain(f"{column.table}.{column.attribute}" if several else column.attribute) for column in columns]
    figure = go.Figure()
    figure.add_bar(
        y=names,
        x=[100 * state.share(column.most) for column in columns],
        orientation="h",
        name="dearest level",
        marker_color=COLOURS[0],
        customdata=[currency.cost_in(state, column.most) for column in columns],
        hovertemplate="%{y}: %{customdata} on its dearest level<extra></extra>",
    )
    figure.add_scatter(
        y=names,
        x=[100 * state.share(column.least) for column in columns],
        mode="markers",
        name="cheapest level",
        marker={"symbol": "diamond", "size": 9, "color": COLOURS[1], "line": {"color": "white", "width": 1}},
        customdata=[currency.cost_in(state, column.least) for column in columns],
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
        text=text, x=x, y=y, xanchor="right", yanchor="bottom", showarrow=False, font={"size": 12, "color": "#57606a"}
    )

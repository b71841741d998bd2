"""The live part of the dashboard: tabs with figures and releases, and a button to refresh them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, formatting
from dpnotebook.notebook.dashboard.figures import column_figure, spend_figure
from dpnotebook.notebook.dashboard.spending import columns, saving, timeline
from dpnotebook.notebook.dashboard.summary import history_html, summary_html
from dpnotebook.notebook.html import escape, line

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from dpnotebook.session.session import Session


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
        history, spared = self.session.history(), saving(self.session)
        self.summary.value = summary_html(self.session, spared)
        _put(self.spend_plot, spend_figure(timeline(self.session, history), self.session))
        _put(self.column_plot, column_figure(columns(self.session), self.session))
        self.history.value = history_html(history, how=spared.how)
        recorded = history[history["state"] == "recorded"].iloc[::-1]
        chosen = self.choice.value
        self.choice.options = [
            (f"#{entry['number']}  {entry['question']}  ε {formatting.cost(entry['epsilon'])}", int(entry["number"]))
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
            self.again.value = cards.release_html(self.session.release(self.choice.value))
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

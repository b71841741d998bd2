"""The live part of the dashboard: tabs with figures, releases and offers, and a button to refresh them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.dashboard.figures import burn_down_figure, column_figure
from dpnotebook.notebook.dashboard.history import HistoryTab
from dpnotebook.notebook.dashboard.offers import OffersTab
from dpnotebook.notebook.dashboard.options import set_options
from dpnotebook.notebook.dashboard.spending import cells, columns, levels, timeline
from dpnotebook.notebook.dashboard.summary import cells_html, columns_html, levels_html, summary_html, timeline_html
from dpnotebook.notebook.html import at_most, escape, line
from dpnotebook.notebook.interactive import OURS, SAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from dpnotebook.session.session import Session

TITLES = ("Burn-down", "Spend by column", "Releases", "Offers")


class DashboardPanel:
    """The widgets of one dashboard. A tab is drawn when it is looked at: a release waits for no other.

    Parameters
    ----------
    session
        Whose budget to show.
    refresh, look
        What the refresh button calls, and what is called when another tab is looked at.
    """

    def __init__(self, session: Session, refresh: Callable[[], None], look: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.session = session
        auto = widgets.Layout(width="auto")
        self.summary = widgets.HTML()
        self.burn_down, self.column_plot = widgets.Output(), widgets.Output()
        self.column = widgets.Dropdown(
            options=[],
            description="levels of",
            layout=widgets.Layout(width="auto", max_width=at_most(420)),
            style={"description_width": "70px"},
        )
        self.levels, self.cells = widgets.HTML(), widgets.HTML()
        self.releases, self.offers = HistoryTab(session), OffersTab(session, refresh)
        self.refresh_button = widgets.Button(description="Refresh", icon="refresh", layout=auto)
        self.status = widgets.HTML()
        self.status.add_class(SAYS)
        spending = widgets.VBox([self.column_plot, self.column, self.levels, self.cells])
        self.pages = widgets.Tab([self.burn_down, spending, self.releases.widget, self.offers.widget], selected_index=0)
        self.pages.titles = TITLES
        self.tabs = widgets.VBox([self.pages, widgets.HBox([self.refresh_button, self.status])])
        self.widget = widgets.VBox([self.summary, self.tabs])
        self.widget.add_class(OURS)
        self._choosing = False
        self._pages = (self._draw_burn_down, self._draw_columns, self._draw_releases, self.offers.draw)
        self.pages.observe(lambda _: look(), "selected_index")
        self.refresh_button.on_click(lambda _: refresh())
        self.column.observe(lambda _: self._draw_levels(), "value")

    def draw(self) -> None:
        """Draw everything that is in sight anew from the ledger."""
        self.summary.value = summary_html(self.session)
        self.draw_page()

    def draw_page(self) -> None:
        """Draw the tab that is in sight."""
        self._pages[self.pages.selected_index or 0]()

    def say(self, text: str) -> None:
        """Say in one line what went wrong, or nothing."""
        self.status.value = line(f"⚠ {escape(text)}") if text else ""

    def still(self) -> None:
        """Take the controls away from what will not move any more."""
        for control in (self.refresh_button, self.column, *self.releases.controls, *self.offers.controls):
            control.disabled = True

    def _draw_burn_down(self) -> None:
        steps = timeline(self.session)
        _put(self.burn_down, burn_down_figure(steps, self.session), timeline_html(steps))

    def _draw_releases(self) -> None:
        self.releases.draw(self.session.history().to_dict("records"), self.session.saved.how)

    def _draw_columns(self) -> None:
        found, state = columns(self.session), budget_state(self.session)
        _put(self.column_plot, column_figure(found, self.session), columns_html(found, state))
        several = len({one.table for one in found}) > 1
        options = [
            (f"{one.attribute} in {one.table}" if several else one.attribute, (one.table, one.attribute))
            for one in found
        ]
        self._choosing = True
        try:
            set_options(self.column, options)
        finally:
            self._choosing = False
        self.cells.value = cells_html(cells(self.session), state)
        self._draw_levels()

    def _draw_levels(self) -> None:
        if self._choosing:
            return
        if self.column.value is None:
            self.levels.value = ""
            return
        table, attribute = self.column.value
        found = levels(self.session, table, attribute)
        self.levels.value = levels_html(found, attribute, budget_state(self.session))


def _put(output: Any, figure: go.Figure, html: str) -> None:
    """Put a figure into an Output widget, with a still picture for whoever has no plotly.

    By its trait, which works in every thread and captures nothing else.
    """
    data = {
        "application/vnd.plotly.v1+json": json.loads(figure.to_json()),
        "text/html": html,
        "text/plain": "figure",
    }
    output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

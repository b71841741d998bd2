"""The dashboard of a session: budget, spend over time and by column, releases to show again, what is left to buy."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, words
from dpnotebook.notebook.dashboard_html import dashboard_html, dashboard_text, history_html, summary_html
from dpnotebook.notebook.frontend import display_bundle, interactive, replace
from dpnotebook.notebook.html import escape, line, quiet
from dpnotebook.notebook.spending import columns, timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpnotebook.session import Session

_live: WeakKeyDictionary[Session, Dashboard] = WeakKeyDictionary()


def dashboard(session: Session) -> Dashboard:
    """Return a live dashboard; at the end of a cell it displays itself. A session has one: an older one stands still.

    Parameters
    ----------
    session
        Whose budget to show.
    """
    older = _live.pop(session, None)
    if older is not None:
        older.close()
    _live[session] = made = Dashboard(session)
    return made


class Dashboard:
    """The budget as static HTML that keeps itself up to date, and below it live tabs.

    Two outputs, so that a saved notebook shows the numbers also where widgets do not work. `widget` is all of it as
    one widget, for a layout of your own; `close()` makes everything static.

    Parameters
    ----------
    session
        Whose budget to show.
    """

    def __init__(self, session: Session) -> None:
        import ipywidgets as widgets

        self.session = session
        self._lock = threading.RLock()
        self._summary: Any = None
        self._panel_output: Any = None
        self.budget = widgets.HTML()
        self.spend_plot, self.column_plot = widgets.Output(), widgets.Output()
        self.history = widgets.HTML()
        self.choice = widgets.Dropdown(options=[], layout=widgets.Layout(width="auto", max_width="460px"))
        self.again_button = widgets.Button(description="Show again (free)", layout=widgets.Layout(width="auto"))
        self.again = widgets.HTML()
        self.refresh_button = widgets.Button(description="Refresh", icon="refresh", layout=widgets.Layout(width="auto"))
        self.status = widgets.HTML()
        releases = widgets.VBox([widgets.HBox([self.choice, self.again_button]), self.again, self.history])
        tabs = widgets.Tab([self.spend_plot, self.column_plot, releases])
        tabs.titles = ("Spend over time", "Spend by column", "Releases")
        self.panel = widgets.VBox([tabs, widgets.HBox([self.refresh_button, self.status])])
        self.widget = widgets.VBox([self.budget, self.panel])
        self.refresh_button.on_click(lambda _: self.refresh())
        self.again_button.on_click(lambda _: self.show_again())
        self.refresh()
        self._stop = session.on_change(self.refresh)

    def refresh(self) -> None:
        """Draw everything anew from the ledger; never raises, a release must not be lost to its picture."""
        with self._lock:
            try:
                self._draw()
                self.status.value = ""
            except DPError as error:
                self.status.value = line(f"⚠ {escape(str(error))}")
            except Exception as error:
                self.status.value = line(f"⚠ not up to date: {type(error).__name__}")

    def show_again(self) -> None:
        """Show the chosen release again; it comes from the ledger and costs nothing."""
        if self.choice.value is None:
            return
        try:
            self.again.value = cards.release_html(self.session.release(self.choice.value))
        except DPError as error:
            self.again.value = line(f"⚠ {escape(str(error))}")

    def close(self) -> None:
        """Stop following the session, and leave static HTML where the live tabs were."""
        self._stop()
        html, text = dashboard_html(self.session), dashboard_text(self.session)
        replace(self._summary, html, text)
        replace(
            self._panel_output, line(quiet("This dashboard stands still; session.dashboard() makes a live one.")), ""
        )
        for control in (self.refresh_button, self.again_button, self.choice):
            control.disabled = True

    def _draw(self) -> None:
        history = self.session.history()
        summary = summary_html(self.session)
        self.budget.value = summary
        replace(self._summary, summary, dashboard_text(self.session))
        from dpnotebook.notebook.dashboard_figures import column_figure, spend_figure

        _put(self.spend_plot, spend_figure(timeline(self.session, history), self.session))
        _put(self.column_plot, column_figure(columns(self.session), self.session))
        self.history.value = history_html(history)
        recorded = history[history["state"] == "recorded"].iloc[::-1]
        chosen = self.choice.value
        self.choice.options = [
            (f"#{entry['number']}  {entry['question']}  ε {words.cost(entry['epsilon'])}", int(entry["number"]))
            for entry in recorded.to_dict("records")
        ]
        if chosen in [number for _, number in self.choice.options]:
            self.choice.value = chosen
        self.again_button.disabled = not self.choice.options

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": dashboard_text(self.session), "text/html": dashboard_html(self.session)}

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        view = "application/vnd.jupyter.widget-view+json"
        text = dashboard_text(self.session)
        self._summary = display_bundle({"text/plain": text, "text/html": summary_html(self.session)}, updatable=True)
        bundle = {"text/plain": "[live tabs]", view: self.panel._repr_mimebundle_()[view]}
        self._panel_output = display_bundle(bundle, updatable=True)


def _put(output: Any, figure: go.Figure) -> None:
    """Put a figure into an Output widget; by its trait, which works in every thread and captures nothing else."""
    data = {"application/vnd.plotly.v1+json": json.loads(figure.to_json()), "text/plain": "figure"}
    output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

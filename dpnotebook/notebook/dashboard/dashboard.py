"""The dashboard of a session: budget, spend over time and by column, releases to show again, what is left to buy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dpnotebook.errors import DPError
from dpnotebook.notebook import models
from dpnotebook.notebook.dashboard.summary import dashboard_html, dashboard_text, rest_html, summary_html
from dpnotebook.notebook.dashboard.watch import LedgerWatch
from dpnotebook.notebook.html import details, line, quiet
from dpnotebook.notebook.interactive import display_bundle, display_widget, interactive, replace

if TYPE_CHECKING:
    from dpnotebook.notebook.dashboard.panel import DashboardPanel
    from dpnotebook.session.session import Session

GONE = "The live tabs went with their kernel: run the cell again to bring them back. What they showed is folded above."
WITHOUT_CONTROLS = "The same without controls: burn-down, spend by column, latest releases"
STANDS_STILL = "This dashboard stands still; session.dashboard() makes a live one."

_live: WeakKeyDictionary[Session, Dashboard] = WeakKeyDictionary()


def dashboard(session: Session) -> Dashboard:
    """Return a dashboard; at the end of a cell it displays itself. A session has one that is live: the latest.

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
    """The budget as static HTML that is kept up to date, and below it live tabs.

    These are two outputs, so that a saved notebook shows the numbers also where widgets do not work. Where nobody is
    there to use it, no widget is made and everything is static. `widget` is all of it as one widget, for a layout of
    your own; it follows every release until `close()`, within seconds also those of other kernels on the same ledger.

    Parameters
    ----------
    session
        Whose budget to show.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.RLock()
        self._panel: DashboardPanel | None = None
        self._summary: Any = None
        self._tabs: Any = None
        self._stops: list[Callable[[], None]] = []
        self._lent = False
        self._watch: LedgerWatch | None = None

    @property
    def panel(self) -> DashboardPanel:
        """The widgets by name; made when they are first asked for."""
        with self._lock:
            if self._panel is None:
                from dpnotebook.notebook.dashboard.panel import DashboardPanel

                self._panel = DashboardPanel(self.session, self.refresh, self._look)
                self._watch = LedgerWatch(self.session, self.refresh)
                self.refresh()
                self._stops = [
                    self._watch.stop,
                    self.session.on_change(self.refresh),
                    self.session.on_close(self.close),
                ]
            return self._panel

    @property
    def widget(self) -> Any:
        """The whole dashboard as one widget."""
        self._lent = True
        return self.panel.widget

    def refresh(self) -> None:
        """Draw everything anew from the ledger; never raises: a release must not be lost to its picture."""
        self._drawn(self._draw)

    def _draw(self, panel: DashboardPanel) -> None:
        if self._watch is not None:
            self._watch.saw()
        panel.draw()
        if self._summary is not None:
            replace(self._summary, panel.summary.value + self._folded(), dashboard_text(self.session))

    def _look(self) -> None:
        """Draw the tab that is looked at now; the rest is up to date."""
        self._drawn(lambda panel: panel.draw_page())

    def _drawn(self, draw: Callable[[DashboardPanel], None]) -> None:
        with self._lock:
            if self._panel is None:
                return
            try:
                draw(self._panel)
                self._panel.say("")
            except DPError as error:
                self._panel.say(str(error))
            except Exception as error:
                self._panel.say(f"not up to date: {type(error).__name__}")

    def _folded(self) -> str:
        """Return what the tabs show as static HTML that opens on a click: a saved notebook has it without them."""
        return details(WITHOUT_CONTROLS, rest_html(self.session, self.session.history(), self.session.saved))

    def close(self) -> None:
        """Stop following the session, and leave static HTML where the live tabs were."""
        with self._lock:
            if not self._stops or self._panel is None:
                return
            for stop in self._stops:
                stop()
            self._stops = []
            self._panel.still()
            self._panel.say(STANDS_STILL)
            replace(self._tabs, line(quiet(STANDS_STILL)), STANDS_STILL)
            if not self._lent:  # else it may stand in a layout of the user's
                models.close(self._panel.widget)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": dashboard_text(self.session), "text/html": dashboard_html(self.session)}

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        text = dashboard_text(self.session)
        html = summary_html(self.session) + self._folded()
        self._summary = display_bundle({"text/plain": text, "text/html": html}, updatable=True)
        self._tabs = display_widget(self.panel.tabs, line(quiet(GONE)), "[live tabs]")

"""The workbench: a question composed by mouse or keyboard, its card planned live, its answer in the card's place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dpnotebook.errors import DPError, NotProtected, shorten
from dpnotebook.notebook import cards, models
from dpnotebook.notebook.cards.plan import refusal
from dpnotebook.notebook.controls import DEAF, dearer
from dpnotebook.notebook.html import box, escape, line, quiet
from dpnotebook.notebook.interactive import GONE, display_bundle, display_widget, in_voila, interactive, replace
from dpnotebook.notebook.progress import Progress
from dpnotebook.notebook.workbench.button_words import said_of_run
from dpnotebook.notebook.workbench.latest import LatestWork
from dpnotebook.notebook.workbench.named import table_code

if TYPE_CHECKING:
    from dpnotebook.notebook.workbench.budget_planner import BudgetPlanner
    from dpnotebook.notebook.workbench.question_panel import QuestionPanel
    from dpnotebook.notebook.workbench.workload_builder import WorkloadBuilder
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release
    from dpnotebook.session.session import Session

SLOW = 0.5  # seconds after which planning shows that it works
LOST = f"{GONE} The cell is that with session.workbench(); nothing that was answered is lost."
CLOSED = "The session was closed, and the workbench with it."
ELSEWHERE = "The workbench of this session was opened again, further on."
SECTIONS = (("A question", "question"), ("The budget plan", "plan"), ("A workload", "workload"))

_live: WeakKeyDictionary[Session, Workbench] = WeakKeyDictionary()


def workbench(session: Session, table: str | None = None) -> Workbench:
    """Return a workbench; at the end of a cell it displays itself. A session has one that is live: the latest.

    Parameters
    ----------
    session
        Whose tables are asked, and whose budget pays.
    table
        Name of the table to begin with; the first one when None.

    Raises
    ------
    NotProtected
        If there is no such table, or none yet.
    """
    _ = session.ledger.head  # of a closed session it says so
    names = list(session.tables()["table"])
    if table is not None and table not in names:
        session.table(table)  # says what there is
    if not names:
        raise NotProtected("no table is protected in this session yet: session.protect(...) comes before the workbench")
    older = _live.pop(session, None)
    if older is not None:
        older.close(ELSEWHERE)
    _live[session] = made = Workbench(session, table or names[0])
    return made


class Workbench:
    """Questions by mouse and keyboard: what they would cost is seen while they are composed.

    Above are the controls and below them a card, as two outputs: the card is static HTML that is kept up to date, so
    that a saved notebook shows it also where widgets do not work. Where nobody is there to use it, no widget is made.
    `widget` is all of it as one widget, for a layout of your own and for Voila.

    Parameters
    ----------
    session
        Who pays.
    table
        Name of the table to begin with.
    """

    def __init__(self, session: Session, table: str) -> None:
        self.session = session
        self.release: Release | None = None
        self._table = table
        self._query: Query | None = None
        self._plan: Plan | None = None
        self._lock = threading.RLock()
        self._running = threading.Lock()
        self._deaf_until = 0.0
        self._closed = ""
        self._panel: QuestionPanel | None = None
        self._planner: BudgetPlanner | None = None
        self._builder: WorkloadBuilder | None = None
        self._stops: list[Callable[[], None]] = []
        self._controls: Any = None
        self._static: Any = None
        self._latest = LatestWork(self._replan)

    @property
    def table_names(self) -> list[str]:
        """The tables that can be asked."""
        return list(self.session.tables()["table"])

    def table(self, name: str) -> ProtectedTable:
        """Return a table by its name."""
        return self.session.table(name)

    @property
    def panel(self) -> QuestionPanel:
        """The controls of the question by name; made when they are first asked for."""
        with self._lock:
            if self._panel is None:
                self._make()
            assert self._panel is not None
            return self._panel

    @property
    def planner(self) -> BudgetPlanner:
        """The budget plan that questions are added to."""
        with self._lock:
            if self._planner is None:
                from dpnotebook.notebook.workbench.budget_planner import BudgetPlanner

                self._planner = BudgetPlanner(self.session)
            return self._planner

    @property
    def builder(self) -> WorkloadBuilder:
        """The workload builder, of the table that is asked."""
        with self._lock:
            if self._builder is None:
                from dpnotebook.notebook.workbench.workload_builder import WorkloadBuilder

                self._builder = WorkloadBuilder(self.session, self.panel.table.value)
            return self._builder

    @property
    def widget(self) -> Any:
        """All of it as one widget."""
        self.panel  # noqa: B018  # makes it
        return self._whole

    @property
    def query(self) -> Query | None:
        """The query that the controls say; None where they say none."""
        return self._query

    @property
    def plan(self) -> Plan | None:
        """Its plan, as it is shown."""
        return self._plan

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the card shows what the controls say; return whether it did in time."""
        return self._latest.wait(seconds)

    def changed(self) -> None:
        """Plan what the controls say now; they stay free meanwhile."""
        if not self._closed:
            self._latest.ask()

    def run(self) -> None:
        """Answer the question that is shown; one that has become dearer is shown again instead."""
        panel = self.panel
        # Two clicks can arrive before the first has been served, in ipykernel's subshells even at the same time.
        if self._closed or not self._running.acquire(blocking=False):
            return
        try:
            shown = self._plan
            self.wait()
            # The second half of a double click is no consent to a price that came up in between.
            if time.monotonic() < self._deaf_until or not self._plan_now() or self._plan is None or self._query is None:
                return
            if shown is None or dearer(self._plan, shown):
                self._deaf_until = time.monotonic() + DEAF
                panel.say("The price has changed since it was shown: press Run again to spend it.")
                return
            if not self._plan.affordable:
                panel.say(refusal(self._plan))
                return
            self._answer(self._query, self._plan)
        finally:
            self._running.release()

    def keep(self) -> None:
        """Put the question into the budget plan."""
        self.wait()
        if self._query is not None:
            self.planner.add(self._query)
            self.panel.say("")
            self._sections.value = "plan"

    def copy(self, language: str) -> None:
        """Show the question as text that asks the identical question: "pandas" or "SQL"."""
        panel = self.panel
        try:
            composed, table = panel.composed, panel.protected
            text = composed.pandas(table_code(table)) if language == "pandas" else composed.sql(table)
        except DPError as error:
            panel.say(str(error))
            return
        if text is None:
            panel.say("SQL has no statement for this very question, at this price: copy it as pandas.")
            return
        panel.say("")
        panel.show_code(text)

    def close(self, why: str = CLOSED) -> None:
        """Stop following the session, and leave static HTML where the controls were."""
        with self._lock:
            if self._closed:
                return
            self._closed = why
            for stop in self._stops:
                stop()
            if self._panel is None:
                return
            replace(self._controls, line(quiet(escape(why))), why)
            for part in (self._planner, self._builder):
                if part is not None:
                    part.close()
            models.close(self._whole)

    def _make(self) -> None:
        import ipywidgets as widgets

        from dpnotebook.notebook.workbench.question_panel import QuestionPanel

        self._panel = QuestionPanel(self, self._table)
        self._sections = widgets.ToggleButtons(
            options=SECTIONS,
            value="question",
            style={"button_width": "auto"},
            tooltips=[title for title, _ in SECTIONS],
        )
        self._section = widgets.VBox([self._panel.widget])
        self._controls_widget = widgets.VBox([self._sections, self._section])
        self._card = widgets.HTML()
        self._whole = widgets.VBox([self._controls_widget, self._card])
        self._sections.observe(self._other_section, "value")
        self._stops = [self.session.on_change(self._spent), self.session.on_close(self.close)]
        self._plan_now()

    def _other_section(self, change: Any) -> None:
        """Show other controls, and their card in the place of the one that is there."""
        part = {"plan": lambda: self.planner, "workload": lambda: self.builder}.get(change["new"], lambda: None)()
        for one in (self._planner, self._builder):
            if one is not None:
                one.show_in(self._static if one is part else None)
        self._card.layout.display = "" if part is None else "none"
        if part is not None:
            self._section.children = (part.widget if self._static is None else part.panel,)
            return
        self._section.children = (self.panel.widget,)
        if self._plan is not None:
            bundle = self._bundle()
            self._show(bundle)

    def _spent(self) -> None:
        # Called within somebody's run: it must neither wait for a lock nor raise.
        if not self._running.locked():
            self.changed()

    def _replan(self) -> None:
        """Plan again as the controls stand, in a thread: what fails there must not go unseen."""
        try:
            self._plan_now()
        except Exception as error:
            self.panel.say(f"not up to date: {type(error).__name__}")

    def _plan_now(self) -> bool:
        """Plan what the controls say and show it; return whether that was possible."""
        panel = self._panel
        if panel is None or self._closed:
            return False
        with self._lock:
            try:
                with Progress(self._show_progress, after=SLOW) as progress:
                    progress(None, "planning")
                    self._query = panel.composed.query(panel.protected)
                    self._plan = self._query.plan
            except DPError as error:
                self._query = self._plan = None
                panel.say(str(error))
                panel.run_button.description = "Run: not possible like this"
                return False
            self.release = None
            panel.say("")
            panel.run_button.description = said_of_run(self._plan)
            self._show(cards.as_bundle(cards.plan_card(self._plan)))
            return True

    def _answer(self, query: Query, plan: Plan) -> None:
        panel = self.panel
        spent = self.session.ledger.spent
        panel.say("")
        try:
            with Progress(self._show_progress) as progress:
                progress(None, "starting")
                self.release = query.run(progress=progress)
        except DPError as error:
            panel.say(f"{type(error).__name__}: {error}")
        except (Exception, KeyboardInterrupt) as error:
            # What an unexpected error says may come from the data: it is not shown.
            charged = self.session.ledger.spent > spent
            rest = "it was charged, and Run measures it for that" if charged else "nothing was spent"
            panel.say(f"{type(error).__name__}, and no answer: {rest}.")
        else:
            self._show(answered(self.release, plan))
            panel.run_button.description = "Answered: change the question to ask another"

    def _show(self, bundle: dict[str, str]) -> None:
        self._card.value = bundle["text/html"]
        if self._sections.value == "question":  # else the card of the other controls is there
            replace(self._static, bundle["text/html"], bundle["text/plain"])

    def _show_progress(self, html: str, _text: str) -> None:
        # From a thread that the planning waits for, and which holds the lock: `panel` would wait for that.
        if self._panel is not None:
            self._panel.progress.value = html

    def _bundle(self) -> dict[str, str]:
        """Return what is shown as text and HTML; where no widget was made, the plan of the question it begins with."""
        if self._plan is None:
            query = self.session.table(self._table).count(error=50)
            bundle = cards.as_bundle(cards.plan_card(query.plan))
        elif self.release is not None:
            bundle = answered(self.release, self._plan)
        else:
            bundle = cards.as_bundle(cards.plan_card(self._plan))
        return bundle

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        bundle = self._bundle()
        said = f"Workbench of {shorten(self._table)[1:-1]}: its controls need somebody at a notebook."
        return {
            "text/plain": f"{said}\n{bundle['text/plain']}",
            "text/html": box(line(quiet(escape(said)))) + bundle["text/html"],
        }

    def __repr__(self) -> str:
        return self._repr_mimebundle_()["text/plain"]

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        if in_voila():  # which keeps static outputs as they were
            display_widget(self.widget, line(quiet(escape(LOST))), LOST)
            return
        self.panel  # noqa: B018  # makes it
        self._controls = display_widget(self._controls_widget, line(quiet(escape(LOST))), "[controls]")
        self._static = display_bundle(self._bundle(), updatable=True)


def answered(release: Release, plan: Plan) -> dict[str, str]:
    """Return the card of an answer, with its picture and its numbers below it."""
    bundle = cards.as_bundle(cards.release_card(release, plan))
    try:
        picture = release.plot()
    except DPError:  # what has no interval, or no place on an axis, has its card
        return bundle
    return {"text/plain": bundle["text/plain"], "text/html": bundle["text/html"] + picture._repr_html_()}

"""The strategy explorer: pick queries, see how wrong every strategy would be, look at what it measures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

from dpnotebook.domain import Domain
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import AccuracyError, DPError, WorkloadError, shorten
from dpnotebook.notebook.explorer.choices import (
    OWN,
    ComparedWorkload,
    Privacy,
    attribute_names,
    checked,
    privacy,
    question,
)
from dpnotebook.notebook.explorer.comparison import Comparison
from dpnotebook.notebook.explorer.summary import FREE, ShownComparison, card_html, card_text
from dpnotebook.notebook.html import box, line, quiet
from dpnotebook.notebook.interactive import GONE, display_bundle, display_widget, interactive, replace
from dpnotebook.notebook.plots.strategy_views import View, measured, query_errors
from dpnotebook.progress import watched
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Workload

if TYPE_CHECKING:
    from dpnotebook.notebook.explorer.panel import ExplorerPanel
    from dpnotebook.planner.plan import BudgetState

STILL = "The live figures went with their kernel; their pictures are in the comparison above."


def explore(
    workload: Workload | WorkloadRequest | None = None,
    domain: Domain | Mapping[str, Any] | None = None,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
) -> Explorer:
    """Compare what could be measured to answer a workload; at the end of a cell it displays itself.

    Nothing is charged and no data is read: the error of a strategy follows from the queries and the noise alone.

    Parameters
    ----------
    workload
        What is to be answered: `dpn.workload.AllRange(256)`, or `dpn.marginals(2) + dpn.ranges("age")` with a domain.
        A few to choose from are on offer anyway.
    domain
        Declares the attributes that a workload names.
    epsilon, delta
        The privacy to begin with: Laplace noise without a delta, Gaussian noise with one.

    Raises
    ------
    WorkloadError
        If the workload is none, names attributes without a domain, or is too large to compare while somebody waits.
    AccuracyError
        If epsilon or delta is not in its range.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> explorer = dpn.explore(dpn.ranges("age"), {"age": dpn.Range(0, 63)}, epsilon=0.5)
    >>> explorer.question.workload
    AllRange(64)
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real | Decimal)):
            raise AccuracyError(f"{name} must be a number, such as 1, not {shorten(value)}")
    own = None if workload is None else _own(workload, domain)
    return Explorer(own, privacy("laplace" if delta is None else "gaussian", str(epsilon), str(delta)))


def _own(workload: Workload | WorkloadRequest, domain: Domain | Mapping[str, Any] | None) -> ComparedWorkload:
    title = repr(workload)
    if isinstance(workload, WorkloadRequest):
        if domain is None:
            raise WorkloadError(f"{title} names attributes: say which they are, such as explore(..., domain=...)")
        declared = domain if isinstance(domain, Domain) else Domain(domain)
        names = workload.attributes(declared)
        return ComparedWorkload(checked(workload.over(declared, names)), title, "workload", names)
    if not isinstance(workload, Workload):
        raise WorkloadError(
            "explore() takes a workload, such as dpn.workload.AllRange(256) or dpn.marginals(2), not "
            f"{shorten(workload)}"
        )
    return ComparedWorkload(checked(workload), title, "workload", attribute_names(workload))


class Explorer:
    """A comparison of strategies as static HTML that is kept up to date, between live controls and figures.

    These are separate outputs, so that a saved notebook shows the comparison also where widgets do not work. Where
    nobody is there to use it, no widget is made: the comparison is run, and everything is static. `widget` is all of it
    as one widget, for a layout of your own.

    Parameters
    ----------
    own
        The workload that the explorer was opened with, if there is one.
    start
        The privacy to begin with.
    budget
        Gives the budget of the session that would pay, as it is then; None where there is no session.
    """

    def __init__(
        self, own: ComparedWorkload | None, start: Privacy, budget: Callable[[], BudgetState] | None = None
    ) -> None:
        self.own, self.privacy, self.budget = own, start, budget
        self.question = own or question("ranges", "128", 2)
        self.comparison: Comparison | None = None
        self._lock = threading.RLock()
        self._panel: ExplorerPanel | None = None
        self._card: Any = None
        self._picked: str | None = None
        self._drawn: tuple[object, ...] = ()
        self._views: tuple[list[View], list[View]] = ([], [])

    @property
    def strategies(self) -> dict[str, Strategy]:
        """What was found so far, by name, the least error first."""
        return {each.name: strategy for each, strategy in self.comparison.ranked} if self.comparison else {}

    @property
    def chosen(self) -> Strategy | None:
        """The strategy that is looked at: the one that was picked, or else the best so far."""
        name = self._chosen
        return None if name is None or self.comparison is None else self.comparison.found[name]

    @property
    def panel(self) -> ExplorerPanel:
        """The widgets by name; made when they are first asked for."""
        with self._lock:
            if self._panel is None:
                from dpnotebook.notebook.explorer.panel import ExplorerPanel

                self._panel = ExplorerPanel(self)
                self.draw()
            return self._panel

    @property
    def widget(self) -> Any:
        """The whole explorer as one widget."""
        return self.panel.widget

    def run(self) -> Explorer:
        """Compare all strategies now, and return when that is done."""
        with self._lock:
            self._picked = None
        with watched() as report:
            made = Comparison(self.question.workload, self.privacy.noise, report=lambda _, *said: report(*said))
            self.comparison = made
            made.run()
        self.draw()
        return self

    def start(self) -> None:
        """Read the controls, and compare in a thread; what they do not allow is said below them."""
        panel = self.panel
        with self._lock:
            try:
                self.question = self.own if panel.kind.value == OWN and self.own else panel.question()
                self.privacy = panel.privacy()
            except DPError as error:
                panel.say(str(error))
                return
            if self.comparison is not None:
                self.comparison.cancel()
            panel.say("")
            self._picked = None
            made = Comparison(self.question.workload, self.privacy.noise, self._changed, self._progress)
            self.comparison = made
            panel.working(True)
            self.draw()
        made.start()

    def cancel(self) -> None:
        """Ask the comparison to stop; it does as soon as the strategy that is being made looks up."""
        if self.comparison is not None:
            self.comparison.cancel()

    def pick(self, name: str) -> None:
        """Look at one strategy that was found, by its name in `dpn.strategy`."""
        with self._lock:
            if name not in self.strategies:
                raise WorkloadError(
                    f"no strategy {shorten(name)} was found; there is {', '.join(self.strategies) or 'none yet'}"
                )
            self._picked = name
            self.draw()

    def price(self) -> None:
        """Show the same strategies at the epsilon and delta that the controls say; nothing is optimized anew."""
        with self._lock:
            panel = self.panel
            try:
                wanted = panel.privacy()
            except DPError as error:
                panel.say(str(error))
                return
            panel.say("")
            if self.comparison is None or wanted.noise == self.comparison.noise:
                self.privacy = wanted
                self.draw()

    def draw(self) -> None:
        """Draw everything anew."""
        with self._lock:
            if self.comparison is not None:
                self._look()
            if self._panel is None:
                return
            html, text = self._html(), self._text()
            self._panel.card.value = html
            replace(self._card, html, text)
            self._panel.offer(self.comparison.ranked if self.comparison else [], self._chosen)
            self._panel.show(*self._views)

    def _progress(self, comparison: Comparison, fraction: float | None, doing: str) -> None:
        if comparison is self.comparison and self._panel is not None:
            self._panel.watch(fraction, doing)

    def _changed(self, comparison: Comparison) -> None:
        # In the thread that works: a picture that fails must not end the work, and not go unseen.
        with self._lock:
            if comparison is not self.comparison or self._panel is None:
                return
            if comparison.state != "running":
                self._panel.working(False)
            try:
                self.draw()
            except Exception as error:
                self._panel.say(f"not up to date: {type(error).__name__}: {error}")

    def _look(self) -> None:
        """Work out what there is to see of the chosen strategy, unless that is known."""
        strategy = self.chosen
        key = (strategy, self.privacy)
        if strategy is None:
            self._views = ([], [])
        elif key != self._drawn:
            unit, names = self.privacy.unit_variance, self.question.names
            self._views = (query_errors(strategy, unit, names), measured(strategy, names))
        self._drawn = key

    @property
    def _chosen(self) -> str | None:
        names = list(self.strategies)
        return self._picked if self._picked in names else (names[0] if names else None)

    def _html(self) -> str:
        if self.comparison is None:
            return box("<b>Strategy explorer</b>", line(quiet(FREE)), line("Nothing is compared yet."))
        return card_html(self._made_card())

    def _text(self) -> str:
        if self.comparison is None:
            return f"Strategy explorer: nothing is compared yet. {FREE}"
        return card_text(self._made_card())

    def _made_card(self) -> ShownComparison:
        assert self.comparison is not None
        errors, matrices = self._views
        budget = None if self.budget is None else self.budget()
        return ShownComparison(self.question, self.privacy, self.comparison, self._chosen, (*errors, *matrices), budget)

    def __repr__(self) -> str:
        return self._text()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if self.comparison is None:
            self.run()
        return {"text/plain": self._text(), "text/html": self._html()}

    def _ipython_display_(self) -> None:
        if not interactive():
            display_bundle(self._repr_mimebundle_())
            return
        panel = self.panel
        display_widget(panel.controls, line(quiet(GONE)), "[controls]")
        self._card = display_bundle({"text/plain": self._text(), "text/html": self._html()}, updatable=True)
        display_widget(panel.closer, line(quiet(STILL)), "[figures]")

"""Live controls below a plan card: a slider for price or error, a button that says what it spends, and a way out.

They are an output of their own. Every use replaces them by nothing, so that a saved notebook opens as it was left; the
card above them becomes the answer, or says what became of it. Controls that are not used are replaced too once
nobody is likely to: when the question is shown anew, when its query is gone, when the session is closed, and when
many newer cards have theirs.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace as replaced
from typing import TYPE_CHECKING

from dpnotebook.errors import DPError
from dpnotebook.notebook import currency, formatting, models, svg
from dpnotebook.notebook.cards.picked_lines import code_afresh
from dpnotebook.notebook.cards.statement_lines import in_short, short_of_delta
from dpnotebook.notebook.html import at_most, escape, line, quiet
from dpnotebook.notebook.interactive import GONE, SAYS, display_widget, interactive, replace, shell
from dpnotebook.notebook.preview import PreviewCard, answered_elsewhere
from dpnotebook.notebook.progress import AFTER, Progress

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release

RUN, AFRESH = "Run", "Measure afresh"  # what the button says that it does

DEAF = 1.0  # seconds in which clicks do not count after the price has changed

MOST = 10  # cards with controls at a time: each is twenty models in the kernel and in the front end

# Strips that can be used, the oldest first.
_live: list[Strip] = []

# Ten in every factor of ten, in numbers that a person would type.
STOPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
CHEAPER = 5  # times less than the least price on offer is where the slider begins
SAME = 0.02  # relative difference of two stops that would be one to the hand
REACH = 10.0  # of the errors on offer: so many times less and more than the plan's own
LEAST = 1e-3  # where nothing has a price: what is free can still be asked anew, for this and more


def show(query: Query, controls: bool | None = None) -> Strip | None:
    """Display the plan card of a query, and live controls below it where somebody can use them.

    A query that the ledger can answer already is answered at once, in place of its plan: that is free. Where it may
    have been picked for what an earlier release showed, the controls are there to measure it anew.

    Parameters
    ----------
    query
        What to show; nothing is spent unless Run is pressed.
    controls
        Whether to add the controls; None asks the front end (see `frontend.interactive`).

    Returns
    -------
    Strip or None
        The controls, if there are any.
    """
    card = PreviewCard(replaced(query))
    plan = card.plan
    if plan.free:
        card.display_answer(query.run())
    else:
        card.display()
    if shell() is None or not (interactive() if controls is None else controls):
        return None
    if not plan.free:
        strip = Strip(card.query, card)
    elif plan.afresh is not None:
        strip = Strip(replaced(query, accuracy=plan.afresh.accuracy, fresh=True), card, verb=AFRESH)
    else:
        return None
    strip.display()
    weakref.finalize(query, _query_gone, weakref.ref(strip), _cell()).atexit = False
    return strip


def _cell() -> object:
    return getattr(shell(), "execution_count", None)


def _query_gone(reference: weakref.ref[Strip], cell: object) -> None:
    """Put controls away when their query is gone; one that a cell shows and does not keep can still be used."""
    strip = reference()
    if strip is not None and _cell() != cell:
        strip.put_away("Put away with its query: run the cell again to bring the controls back.")


class Strip:
    """The controls of one query.

    Parameters
    ----------
    query
        The query, at the accuracy that was asked for; the slider changes that.
    card
        The plan card above, redrawn as the slider moves; one that nobody sees where there is none.
    after
        Seconds before a progress bar appears.
    verb
        What the button says that it does.
    """

    def __init__(self, query: Query, card: PreviewCard | None = None, after: float = AFTER, *, verb: str = RUN) -> None:
        import ipywidgets as widgets

        self.query, self.verb = query, verb
        self.release: Release | None = None
        self.error: BaseException | None = None
        self._card, self._after, self._output = card or PreviewCard(query), after, None
        self._lock = threading.Lock()
        self._state, self._deaf_until = "ready", 0.0
        self._stop: Callable[[], None] = _nothing
        self._unclose: Callable[[], None] = _nothing
        self._asked = query.plan
        self._planned, self._plan = query, self._asked
        # Where past answers help, a price says little of what it buys: then the error is chosen, and the price follows.
        self._by_error = self._asked.combined and query.accuracy.epsilon is None
        self._own = self._asked.error if self._by_error else self._asked.epsilon
        auto = widgets.Layout(width="auto")
        self.slider = widgets.SelectionSlider(
            options=self._options(),
            value=self._own,
            description="error ±" if self._by_error else "cost",
            continuous_update=True,
            layout=widgets.Layout(width="330px", max_width=at_most(330)),
            style={"description_width": "50px"},
        )
        self.readout = widgets.HTML()
        self.run_button = widgets.Button(button_style="primary", layout=auto)
        self.other_button = widgets.Button(layout=widgets.Layout(width="auto"))  # its own: it is hidden by itself
        self.discard_button = widgets.Button(description="Discard", layout=auto)
        self.message = widgets.HTML()
        self.message.add_class(SAYS)
        self.progress = widgets.HTML()
        centred = widgets.Layout(align_items="center", flex_flow="wrap")
        choose = widgets.HBox([self.slider, self.readout], layout=centred)
        decide = widgets.HBox([self.run_button, self.other_button, self.discard_button], layout=centred)
        self.widget = widgets.VBox([choose, decide, self.progress, self.message])
        self.slider.observe(self._moved, "value")
        self.run_button.on_click(self._run)
        self.other_button.on_click(self._run_otherwise)
        self.discard_button.on_click(self._discard)
        self._refresh(redraw=False)

    def display(self) -> None:
        """Display the controls as an output that can be replaced."""
        self._output = display_widget(
            self.widget, line(quiet(escape(f"{GONE} {self._same()} does the same."))), self._waiting()
        )
        self.follow()

    def follow(self) -> None:
        """Keep up with what else the session answers, instead of an older strip of the same question."""
        session, key = self.query.session, self.query.question.key
        for older in list(_live):
            if older.query.session is session and older.query.question.key == key:
                older.put_away("Shown again since: the controls are there.")
        for older in _live[: max(0, len(_live) + 1 - MOST)]:
            older.put_away(f"Put away, as {MOST} newer cards have controls: run the cell again to bring them back.")
        _live.append(self)
        self._stop = session.on_change(self._session_changed)
        self._unclose = session.on_close(lambda: self.put_away("The session was closed."))

    def put_away(self, why: str) -> None:
        """Replace controls that were not used by a line of text, and close them; not while they are in use."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._state != "ready":
                return
            self._state = "put away"
        finally:
            self._lock.release()
        replace(self._output, line(quiet(escape(why))), why)
        self._close()

    @property
    def state(self) -> str:
        """One of ready, running, done, discarded, put away."""
        return self._state

    def _options(self) -> list[tuple[str, float]]:
        if self._by_error:
            return [(formatting.error(error), error) for error in errors(self._asked)]
        left, state = self.query.session.remaining.epsilon, self._asked.budget
        return [(currency.cost_in(state, epsilon), epsilon) for epsilon in stops(self._asked, left)]

    def _same(self) -> str:
        return f"{code_afresh(self._plan)}.run()" if self.query.fresh else "query.run()"

    def _waiting(self) -> str:
        return f"[{self.run_button.description}] [Discard]   ({self._same()} does the same)"

    def _query_now(self) -> Query:
        """Return the query as the slider has it; where it was not moved, exactly as it was asked."""
        chosen = self.slider.value
        if chosen == self._own:
            return self.query
        return self.query.at(error=chosen) if self._by_error else self.query.at(epsilon=chosen)

    def _moved(self, _change: object) -> None:
        with self._lock:
            if self._state == "ready":
                self._replan()

    def _session_changed(self) -> None:
        # Called within somebody's run: it must neither wait for a lock nor raise.
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._state != "ready":
                return
            planned = self._query_now()
            plan = planned.plan
            if not plan.free:
                self._planned, self._plan = planned, plan
                self._refresh()
                return
            self._state = "done"
        except Exception:
            return
        finally:
            self._lock.release()
        names = formatting.releases(plan.reused)
        status = answered_elsewhere(self.query) or f"answered by {names}: costs nothing"
        self._finish(lambda: self._card.became(status))

    def _replan(self, note: str = "") -> bool:
        """Plan again as the slider stands, and show it; return whether that was possible."""
        try:
            with self._watched() as progress:
                progress(None, "planning")
                self._planned = self._query_now()
                self._plan = self._planned.plan
        except DPError as error:
            self._say(f"{type(error).__name__}: {error}")
            self.run_button.disabled = True
            return False
        self._refresh()
        self._say(note)
        return True

    def _refresh(self, redraw: bool = True) -> None:
        plan = self._plan
        if plan.free:
            self.run_button.description = "Show the answer: costs nothing"
        elif plan.affordable:
            price = f"spend {_price(plan)}" if plan.cost.units else "costs nothing"
            self.run_button.description = f"{self.verb}: {price}{', with a purchase' if plan.bought else ''}"
        else:
            what = "delta for its threshold" if short_of_delta(plan) else f"budget for {_price(plan)}"
            self.run_button.description = "Not allowed by the policy" if plan.forbidden else f"Not enough {what}"
        self.run_button.disabled = not plan.affordable
        self._refresh_other(plan.otherwise)
        state = plan.budget
        left = currency.percents(state.spent_fraction, state.cost_fraction)[2]
        after = f"leaves {left}" if plan.affordable else ("not allowed" if plan.forbidden else "not enough budget")
        # On one scale for every stop, so that the interval is seen to shrink and grow.
        scale = max(2 * self._asked.error, 1e-300)
        error = formatting.error(plan.error)
        # An error that is not known beforehand has no picture.
        known = math.isfinite(plan.error) and math.isfinite(scale)
        picture = svg.interval(-plan.error, 0.0, plan.error, -scale, scale, f"plus or minus {error}") if known else ""
        self.readout.value = f"{picture} <b>{escape(in_short(plan))}</b> {quiet(f'· {escape(after)}')}"
        if redraw and self.verb == RUN:
            self._card.show(plan)

    def _refresh_other(self, other: Plan | None) -> None:
        """Show what deciding otherwise about a purchase costs, where there is the choice."""
        self.other_button.layout.display = "none" if other is None else None
        if other is not None:
            what = "With the purchase" if other.bought else "Answer this one alone"
            self.other_button.description = f"{what}: spend {_price(other)}"
            self.other_button.disabled = not other.affordable

    def _run(self, _button: object) -> None:
        self._start(self.query, self._plan)

    def _run_otherwise(self, _button: object) -> None:
        other = self._plan.otherwise
        if other is not None:
            self._start(self.query.with_purchase() if other.bought else self.query.without_purchase(), other)

    def _start(self, query: Query, shown: Plan) -> None:
        """Run a query whose plan was shown; one that has become dearer is shown again instead."""
        # Two clicks can arrive before the first has been served, in ipykernel's subshells even at the same time.
        with self._lock:
            # The second half of a double click is no consent to a price that came up in between.
            if self._state != "ready" or time.monotonic() < self._deaf_until:
                return
            self.query = query
            if not self._replan():
                return
            if dearer(self._plan, shown):
                self._deaf_until = time.monotonic() + DEAF
                self._say(f"The price has changed since it was shown: press {self.verb} again to spend it.")
                return
            if not self._plan.affordable:
                return
            self._state = "running"
        self._enable(False)
        self._say("")
        spent = self.query.session.ledger.spent
        self._card.running()
        try:
            with self._watched() as progress:
                progress(None, "starting")
                self.release = self._planned.run(progress=progress)
        except DPError as error:
            self._card.stopped(error, spent)
            self._failed(error, f"{type(error).__name__}: {error}")
        except (Exception, KeyboardInterrupt) as error:
            # What an unexpected error says may come from the data: it is kept for the owner, not shown.
            self._card.stopped(error, spent)
            self._failed(
                error, f"{type(error).__name__}, and no answer. session.history() says whether it was charged."
            )
        else:
            self._state = "done"
            release = self.release
            self._finish(lambda: self._card.answered(release))

    def _discard(self, _button: object) -> None:
        with self._lock:
            if self._state != "ready":
                return
            self._state = "discarded"
        if self.verb == AFRESH:  # the answer above stays
            self._finish(self._card.leave)
        else:
            self._finish(lambda: self._card.became("discarded: nothing was spent"))

    def _failed(self, error: BaseException, text: str) -> None:
        self.error = error
        self._state = "ready"
        self._enable(True)
        self._replan(text)

    def _finish(self, last: Callable[[], None]) -> None:
        """Say on the card what became of the question, and leave nothing of the controls."""
        self._card.plan = self._plan
        last()
        replace(self._output, "", "")
        self._close()

    def _close(self) -> None:
        self._stop()
        self._unclose()
        if self in _live:
            _live.remove(self)
        models.close(self.widget)

    def _enable(self, enabled: bool) -> None:
        for control in (self.slider, self.run_button, self.other_button, self.discard_button):
            control.disabled = not enabled

    def _say(self, text: str) -> None:
        self.message.value = line(f"⚠ {escape(text)}") if text else ""

    def _watched(self) -> Progress:
        def draw(html: str, _text: str) -> None:
            self.progress.value = html

        return Progress(draw, self._after)


def _price(plan: Plan) -> str:
    return currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon)


def dearer(plan: Plan, shown: Plan) -> bool:
    """Return whether a plan costs more than the one that was shown."""
    return plan.cost.units > shown.cost.units


def _nothing() -> None:
    """Do nothing."""


# Where the slider for epsilon or for the error stops: round numbers, evenly spaced on a logarithmic scale.
def stops(plan: Plan, left: float) -> list[float]:
    """Return the epsilons on the slider: round numbers around the plan's own, up to what the budget allows.

    Parameters
    ----------
    plan
        The plan as it was asked for; its own epsilon is a stop, affordable or not.
    left
        What a single further query could take; with parallel composition a query may take more than that.
    """
    own = plan.epsilon
    priced = [epsilon for epsilon in (own, *(other.epsilon for other in plan.alternatives)) if epsilon > 0]
    least = min(priced, default=LEAST) / CHEAPER
    affordable = [other.epsilon for other in plan.alternatives if other.affordable]
    most = max(*affordable, own, float(formatting.left(left).replace(",", "")), least)
    found = {most}
    for decade in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        found |= {float(f"{stop}e{decade}") for stop in STOPS}
    return sorted({own} | {epsilon for epsilon in found if least <= epsilon <= most and not _close(epsilon, own)})


def errors(plan: Plan) -> list[float]:
    """Return the errors on the slider: round numbers around the plan's own, which is one of them."""
    own, place = plan.error, math.floor(math.log10(plan.error))
    found = [float(f"{stop}e{power}") for power in range(place - 2, place + 3) for stop in STOPS]
    return sorted({own} | {error for error in found if own / REACH <= error <= own * REACH and not _close(error, own)})


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)

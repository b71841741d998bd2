"""What can be bought ahead: all answers of a workload within an error, at a price, by a button that buys once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dpnotebook.domain.named_workloads as workloads
from dpnotebook.errors import DPError
from dpnotebook.notebook import cards, currency, formatting
from dpnotebook.notebook.controls import DEAF, dearer
from dpnotebook.notebook.dashboard.options import set_options
from dpnotebook.notebook.dashboard.spending import MOST_LEVELS
from dpnotebook.notebook.html import at_most, escape, line
from dpnotebook.notebook.interactive import SAYS
from dpnotebook.notebook.progress import AFTER, Progress

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.offer import Offer
    from dpnotebook.session.session import Session

KNOWN = "Nothing to buy"  # of what was bought already, or follows from what is known
MOST_CROSSED = 8  # columns of a table of which all pairs are offered: more are dear, and nobody waits for their price
Key = tuple[str, str, str]  # a table, a kind of workload, and the column that it is about


def offered(session: Session) -> list[tuple[str, Key]]:
    """Return what the dashboard offers in words, each with its key: what resembles earlier questions comes first."""
    asked = {(charge.table, charge.kind) for charge in session.charges}
    found: list[tuple[str, Key]] = []
    for name in session.tables()["table"]:
        domain = session.table(name).table.domain
        for column in domain.names:
            if domain[column].ordered and 2 < domain[column].size <= MOST_LEVELS:
                found.append((f"all ranges of {column} in {name}", (name, "ranges", column)))
        if 2 <= len(domain.names) <= MOST_CROSSED:
            found.append((f"all tables of two columns of {name}", (name, "marginals", "")))
    return sorted(found, key=lambda one: (one[1][0], f"ranges of {one[1][2]}") not in asked)


def made(session: Session, key: Key) -> Offer:
    """Return the offer of a key, priced as the ledger stands."""
    table, kind, column = key
    workload = workloads.ranges(column) if kind == "ranges" else workloads.marginals(2)
    return session.prefetch(workload, table=table)


class OffersTab:
    """The widgets of what can be bought ahead.

    Parameters
    ----------
    session
        Who pays.
    refresh
        Draws the whole dashboard anew: what another kernel has bought is seen when this one is used.
    """

    def __init__(self, session: Session, refresh: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self.session, self._refresh = session, refresh
        self._lock = threading.Lock()
        self._deaf_until = 0.0
        self._offer: Offer | None = None
        self._offer_key: Key | None = None
        self._prices: Mapping[float, Plan] = {}
        self._drawing = False
        wide = {"description_width": "70px"}
        auto = widgets.Layout(width="auto", max_width=at_most(520))
        self.workload = widgets.Dropdown(options=[], description="answers", layout=auto, style=wide)
        self.within = widgets.Dropdown(options=[], description="within", layout=auto, style=wide)
        self.buy_button = widgets.Button(description="Buy", button_style="primary", layout=widgets.Layout(width="auto"))
        self.card = widgets.HTML()
        self.progress = widgets.HTML()
        self.message = widgets.HTML()
        self.message.add_class(SAYS)
        wrap = widgets.Layout(align_items="center", flex_flow="wrap")
        self.widget = widgets.VBox(
            [
                widgets.HBox([self.workload], layout=wrap),
                widgets.HBox([self.within, self.buy_button], layout=wrap),
                self.progress,
                self.message,
                self.card,
            ]
        )
        self.workload.observe(lambda _: self._if_used(self.draw), "value")
        self.within.observe(lambda _: self._if_used(self._say_price), "value")
        self.buy_button.on_click(lambda _: self.buy())

    @property
    def controls(self) -> tuple[Any, ...]:
        """What can be used."""
        return (self.workload, self.within, self.buy_button)

    def draw(self) -> None:
        """Price what is chosen as the ledger stands; nothing is spent by looking."""
        options = offered(self.session)
        self._drawing = True
        try:
            set_options(self.workload, options)
            key = self.workload.value
            try:
                with self._watched() as progress:
                    progress(None, "planning")
                    if self._offer is None or self._offer_key != key:
                        self._offer = None if key is None else made(self.session, key)
                        self._offer_key = key
                    self._price()
            except DPError as error:
                self._offer, self._prices = None, {}
                self.say(str(error), "⚠ ")
        finally:
            self._drawing = False
        self._say_price()

    def buy(self) -> None:
        """Buy what is chosen at the price that the button says; what is there already is not bought again."""
        # A second click may come while the first is served, in a thread of its own, or right after it.
        if not self._lock.acquire(blocking=False):
            return
        try:
            error = self.within.value
            if self._offer is None or error is None or time.monotonic() < self._deaf_until:
                return
            shown, query = self._prices[error], self._offer.query(error=error)
            plan, deaf = query.plan, False
            within = f"every answer within ±{formatting.error(error)} costs nothing now"
            if plan.free:
                said = f"{KNOWN}: {within}."
            elif dearer(plan, shown):
                deaf = True
                said = "The price has changed since it was shown: press Buy again to spend it."
            elif not plan.affordable:
                said = "Not enough of the budget is left for this; nothing was spent."
            else:
                with self._watched() as progress:
                    progress(None, "starting")
                    release = query.run(progress=progress)
                said = f"Bought: {within}. It is release #{release.number}, paid {_paid(plan)}."
            self._refresh()
            self.say(said)
            if deaf:  # from when the new price is seen: the second half of a double click is no consent to it
                self._deaf_until = time.monotonic() + DEAF
        except DPError as error:
            self.say(f"{type(error).__name__}: {error}", "⚠ ")
        except (Exception, KeyboardInterrupt) as error:
            # What an unexpected error says may come from the data: it is not shown.
            self.say(f"{type(error).__name__}: session.history() says whether it was charged.", "⚠ ")
        finally:
            self._lock.release()

    def say(self, text: str, mark: str = "") -> None:
        """Say something below the controls."""
        self.message.value = line(f"{mark}{escape(text)}") if text else ""

    def _price(self) -> None:
        offer = self._offer
        if offer is None:
            self._prices, self.card.value = {}, line("There is no ordered column to offer ranges of.")
            set_options(self.within, [])
            return
        self._prices = {error: query.plan for error, query in offer.listed.items()}
        options = [
            (f"±{formatting.error(error)} {offer.unit}: {_said(plan)}", error) for error, plan in self._prices.items()
        ]
        set_options(self.within, options)
        self.card.value = cards.as_html(cards.offer_card(offer))

    def _say_price(self) -> None:
        plan = self._prices.get(self.within.value)
        if plan is None:
            self.buy_button.description = "Buy"
        elif plan.free:
            self.buy_button.description = f"{KNOWN}: costs nothing"
        elif plan.affordable:
            self.buy_button.description = f"Buy: spend {_paid(plan)}"
        else:
            self.buy_button.description = f"Not enough budget for {_paid(plan)}"
        # Not disabled where it was just used: that would take the keyboard's focus away.
        self.buy_button.disabled = plan is None or not (plan.free or plan.affordable)

    def _if_used(self, then: Callable[[], None]) -> None:
        """Do something where a person changed a control."""
        if not self._drawing:
            self.say("")
            then()

    def _watched(self) -> Progress:
        def show(html: str, _text: str) -> None:
            self.progress.value = html

        return Progress(show, AFTER)


def _paid(plan: Plan) -> str:
    return currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon)


def _said(plan: Plan) -> str:
    return "costs nothing" if plan.free else _paid(plan) if plan.affordable else f"{_paid(plan)}, not enough budget"

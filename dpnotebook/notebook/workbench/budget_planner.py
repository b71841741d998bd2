"""The budget planner: the questions one expects, their errors, and the price of all as one purchase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpnotebook.errors import ArgumentError
from dpnotebook.notebook import cards, currency, models
from dpnotebook.notebook.html import at_most
from dpnotebook.notebook.workbench.live_part import LivePart, NotBought
from dpnotebook.session.joint_purchase import JointPurchase

if TYPE_CHECKING:
    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release
    from dpnotebook.session.session import Session

TITLE = 60  # characters of a question beside its error


class BudgetPlanner(LivePart):
    """The questions that are expected, and what they cost: one by one, and as one purchase.

    Parameters
    ----------
    session
        Who pays.
    queries
        What is expected, to begin with.
    """

    def __init__(self, session: Session, queries: tuple[Query, ...] = ()) -> None:
        super().__init__(session, "session.budget_planner(...)")
        self.queries: list[Query] = []
        self.releases: list[Release] = []
        self._known: tuple[tuple[Query, ...], str, JointPurchase] | None = None
        self._agreed: int | None = None
        self._answered: tuple[Query, ...] = ()
        self._mistyped: dict[int, str] = {}  # by place, what is wrong with the error in its field
        for query in queries:
            self.add(query)

    @property
    def purchase(self) -> JointPurchase:
        """What is expected as one purchase, as the ledger stands now."""
        queries, head = tuple(self.queries), self.session.ledger.head
        if self._known is None or self._known[0] != queries or self._known[1] != head:
            self._known = queries, head, JointPurchase(queries)
        return self._known[2]

    def add(self, query: Query) -> BudgetPlanner:
        """Expect one question more.

        Parameters
        ----------
        query
            With the accuracy that it needs.

        Raises
        ------
        ArgumentError
            If it is no query, or of another session.
        """
        JointPurchase((query,))  # says what is wrong with it
        if query.session is not self.session:
            raise ArgumentError("this question is of another session, which has a budget of its own")
        with self._lock:
            self.queries.append(query)
            if self._shown is not None:
                self._list()
        self.changed()
        return self

    def move(self, place: int, error: float | str) -> None:
        """Ask the question at a place, from 0, within another error."""
        with self._lock:
            self.queries[place] = self.queries[place].at(error=error)
        self.changed()

    def remove(self, place: int) -> None:
        """Expect the question at a place, from 0, no more."""
        with self._lock:
            del self.queries[place]
            if self._shown is not None:
                self._list()
        self.changed()

    def run(self) -> list[Release]:
        """Buy all as one purchase, and return the release of each; calling it is the consent to spend.

        Raises
        ------
        BudgetExceeded
            If it costs more than is left.
        """
        queries = tuple(self.queries)
        self.releases = self.purchase.run()
        self._answered = queries
        return self.releases

    def _make(self) -> list[Any]:
        import ipywidgets as widgets

        self.rows = widgets.VBox()
        self.errors: list[Any] = []
        self._list()
        return [self.rows]

    def _list(self) -> None:
        """Give every question a row: its error, and a way to take it away."""
        import ipywidgets as widgets

        before = self.rows.children
        self.errors, self._mistyped, rows = [], {}, []
        for place, query in enumerate(self.queries):
            plan = self.session.plan(query)
            where = f" where {plan.where}" if plan.where else ""
            title = f"{place + 1}. {plan.title}{where}"
            title = title if len(title) <= TITLE else title[: TITLE - 1] + "…"
            field = widgets.Text(
                query.accuracy.percent or f"{plan.error if query.accuracy.error is None else query.accuracy.error:.6g}",
                description=f"{title}, error at most ±",
                continuous_update=False,
                style={"description_width": "initial"},
                layout=widgets.Layout(width="560px", max_width=at_most(560)),
            )
            button = widgets.Button(description=f"Remove question {place + 1}", layout=widgets.Layout(width="auto"))
            field.observe(lambda change, place=place: self._typed(place, change["new"]), "value")
            button.on_click(lambda _, place=place: self.remove(place))
            self.errors.append(field)
            rows.append(widgets.HBox([field, button], layout=widgets.Layout(align_items="center", flex_flow="wrap")))
        self.rows.children = tuple(rows)
        models.close(*before)

    def _typed(self, place: int, said: str) -> None:
        from dpnotebook.errors import DPError
        from dpnotebook.notebook.workbench.composed import amount_of

        try:
            error = amount_of("error", said)
            self._mistyped.pop(place, None)
            self.move(place, error)
        except DPError as wrong:
            self._mistyped[place] = str(wrong)
            self.say(f"question {place + 1}: {wrong}")
            self.changed()

    def _check(self) -> None:
        for place, said in sorted(self._mistyped.items()):
            raise NotBought(f"question {place + 1}: {said}")

    def _card(self) -> tuple[cards.Card, str]:
        purchase = self.purchase
        self._agreed = purchase.units
        price = currency.short_price(purchase.share, purchase.epsilon)
        what = f"Run all: spend {price}" if purchase.units else "Run all: costs nothing"
        if not self.queries:
            what = "Run all: add a question first"
        elif not purchase.affordable:
            what = f"Not enough budget for {price}"
        card = cards.purchase_card(purchase)
        if self.queries and self._answered == tuple(self.queries):  # what was bought is shown where it was asked for
            what = "Answered: change a question to ask another"
            card = cards.Card((*card.blocks, *map(cards.folded_release, self.releases)))
        return card, what

    def _run(self) -> str:
        agreed, purchase = self._agreed, self.purchase
        if self.queries and self._answered == tuple(self.queries):
            return self._said()
        if not self.queries:
            raise NotBought("Add a question first.")
        if agreed is None or purchase.units > agreed:
            raise NotBought("The price has changed since it was shown: press Run all again to spend it.")
        if not purchase.affordable:
            raise NotBought("Not enough budget: nothing was spent.")
        self.run()
        return self._said()

    def _said(self) -> str:
        numbers = ", ".join(f"#{release.number}" for release in self.releases)
        return (
            f"Answered: releases {numbers}; the answers unfold below, and each question can be asked now for nothing."
        )

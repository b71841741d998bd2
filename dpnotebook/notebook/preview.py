"""The output in which a question is shown: its plan first, and in the same place what became of it.

Whoever answers the question, in this cell or another one, the card says so: a saved notebook says of every cell what
was spent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import cards, currency, formatting
from dpnotebook.notebook.cards.plan import PREVIEW
from dpnotebook.notebook.interactive import display_bundle, replace

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.query import Query
    from dpnotebook.session.release import Release

FOLLOWED = 50  # cards at a time that follow what their sessions answer: each keeps its plan
RUNNING = "being answered; session.history() says whether it was charged"
NOT_RUN = "not run: nothing was spent"

# Cards of questions that nobody has answered, the oldest first.
_open: list[PreviewCard] = []


class PreviewCard:
    """The card of one question.

    Parameters
    ----------
    query
        What is asked.
    handle
        Of its output; None where that cannot be replaced.
    """

    def __init__(self, query: Query, handle: Any = None) -> None:
        self.query, self.plan, self.status = query, query.plan, PREVIEW
        self._handle = handle
        self._answer: Release | None = None
        self._stops: list[Callable[[], None]] = []

    @property
    def in_place(self) -> bool:
        """Whether what becomes of it is seen here."""
        return self._handle is not None

    def display(self) -> None:
        """Show the plan as an output that can be replaced."""
        self._handle = display_bundle(cards.as_bundle(cards.plan_card(self.plan)), updatable=True)
        self.follow()

    def display_answer(self, release: Release) -> None:
        """Show an answer that the ledger had as such an output."""
        self._answer = release
        self._handle = display_bundle(cards.as_bundle(cards.release_card(release, self.plan)), updatable=True)

    def follow(self) -> None:
        """Say so when the question is answered elsewhere, until it is answered here or put away."""
        if self._handle is None:
            return
        for older in _open[: max(0, len(_open) + 1 - FOLLOWED)]:
            older.leave()
        _open.append(self)
        self._stops = [self.query.session.on_change(self._changed), self.query.session.on_close(self.leave)]

    def leave(self) -> None:
        """Stay as it is from now on."""
        for stop in self._stops:
            stop()
        self._stops = []
        if self in _open:
            _open.remove(self)

    def show(self, plan: Plan) -> None:
        """Show another plan of the question."""
        self.plan = plan
        self._replace(cards.plan_card(plan, self.status))

    def running(self) -> None:
        """Claim nothing from here on, whatever happens to the kernel."""
        self.leave()
        self._replace(cards.plan_card(self.plan, RUNNING))

    def answered(self, release: Release) -> None:
        """Show the answer, and what was paid for it."""
        self.leave()
        self._answer = release
        self._replace(cards.release_card(release, self.plan))

    def became(self, status: str) -> None:
        """Say what became of the question, which stays in sight."""
        self.leave()
        self.status = status
        self._replace(cards.plan_card(self.plan, status))

    def keep(self, release: Release, name: str) -> None:
        """Say what was paid for an answer that is kept under a name, and not shown."""
        paid = f"paid {_paid(release)}" if release.paid else "costs nothing"
        status = f"{paid}: release #{release.number}, kept as {name}"
        if self.in_place:
            self.became(status)
        else:
            display_bundle(cards.as_bundle(cards.plan_card(self.plan, status)))

    def stopped(self, error: BaseException, spent: int) -> None:
        """Say what an error left of it; an answer that was seen before stays.

        Parameters
        ----------
        error
            What happened; its text may come from the data, and is not shown.
        spent
            What the ledger said was spent before, in units.
        """
        charged = self.query.session.ledger.spent > spent
        rest = "it was charged, and running it again measures it for that" if charged else "nothing was spent"
        if self._answer is None or charged:
            self.became(f"not answered ({type(error).__name__}): {rest}")
        else:
            self.answered(self._answer)

    def _changed(self) -> None:
        # Called within somebody's run: it must neither wait for a lock nor raise.
        try:
            status = answered_elsewhere(self.query)
        except Exception:
            return
        if status:
            self.became(status)

    def _replace(self, card: cards.Card) -> None:
        bundle = cards.as_bundle(card)
        replace(self._handle, bundle["text/html"], bundle["text/plain"])


def _paid(release: Release) -> str:
    share = 0.0 if release.budget is None else release.budget.cost_fraction
    return currency.price(share, release.paid)


def answered_elsewhere(query: Query) -> str:
    """Return what release has just answered a question, and what that took; empty where none has."""
    ledger, question = query.session.ledger, query.question
    latest = ledger.latest(question.table, 1)
    if not latest or latest[0].question != question.key or not query.plan.free:
        return ""
    record = latest[0]
    taken = currency.price(record.units / ledger.accountant.total, ledger.accountant.epsilon(record.units))
    return f"answered by {formatting.releases((record.number,))}, which took {taken}"

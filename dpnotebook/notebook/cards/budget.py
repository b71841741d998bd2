"""The budget card of a session: what is spent, what is left, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpnotebook.notebook import currency, formatting, svg
from dpnotebook.notebook.cards.model import Block, Card, Heading, Picture, line, quiet
from dpnotebook.notebook.cards.plan import BAR
from dpnotebook.planner.plan import BudgetState

if TYPE_CHECKING:
    from dpnotebook.session.query import SessionProtocol
    from dpnotebook.session.session import Session

MOST_RAISES = 3  # of the budget that a card lists: the last ones
NO_SUM = "With delta these ε do not add up to the total; the percents do."


def budget_card(session: Session) -> Card:
    """Return the state of a session's budget."""
    return Card(tuple(_blocks(session)))


def budget_state(session: SessionProtocol) -> BudgetState:
    """Return the budget as it stands, with nothing asked."""
    return BudgetState.around(session.ledger.accountant, session.ledger.spent, 0)


def _blocks(session: Session) -> Iterator[Block]:
    state = budget_state(session)
    spent, _, left = currency.percents(state.spent_fraction, 0.0)
    whole = currency.written(session.budget.epsilon, session.budget.delta)
    releases = formatting.plural(session.ledger.releases, "release")
    yield Heading(f"{left} of the budget left", f"of {whole} · {releases}{_hidden(session)}", look="large")
    words = f"spent {spent} (ε {formatting.cost(state.spent)}) · left {left} (ε {formatting.left(state.left_after)})"
    picture = svg.budget_bar(state.spent_fraction, 0.0, alt=words, width=BAR, height=12)
    yield line(Picture(picture, formatting.bar(state.spent_fraction)), quiet(words))
    if raised := raised_line(session):
        yield line(quiet(raised))
    if session.policy is not None:
        left = currency.cost_in(state, session.remaining.epsilon)
        yield line(quiet(f"{session.policy}. Under it {left} can still be spent."))
    yield line(quiet(f"What it means: {currency.meaning(session.budget.epsilon, session.budget.delta)}."))
    if session.budget.law.needs_delta:
        yield line(quiet(NO_SUM))


def raised_line(session: Session) -> str:
    """Return what the budget was raised from, when and why, in one line; empty where it is what it was."""
    first, *raises = session.ledger.budgets()
    if not raises:
        return ""
    told = "; ".join(f"{one.time[:10]} to {one.budget}: {one.reason}" for one in raises[-MOST_RAISES:])
    earlier = f"{formatting.plural(len(raises) - MOST_RAISES, 'earlier raise')}; " if len(raises) > MOST_RAISES else ""
    return f"raised from {first.budget} · {earlier}{told}"


def _hidden(session: Session) -> str:
    """Return what thresholds have taken of delta; empty before the first."""
    spent, left = session.spent.threshold_delta, session.remaining.threshold_delta
    return (
        f" · hiding small groups took δ {formatting.cost(spent)}, {formatting.left(left)} is left for that"
        if spent
        else ""
    )

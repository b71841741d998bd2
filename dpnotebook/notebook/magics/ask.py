"""Asking before spending: what is stored is free and shown at once; anything else needs a yes, given or implied."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from dpnotebook.errors import NotConfirmed, shorten
from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.cards.statement_lines import in_short
from dpnotebook.notebook.preview import NOT_RUN, PreviewCard

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan
    from dpnotebook.session.query import Query, SessionProtocol
    from dpnotebook.session.release import Release

VARIABLE = "DPNOTEBOOK_CONFIRM"
WAYS = ("auto", "always", "never")
ROUNDING = 1 + 1e-9  # the same epsilon may come back from the accountant with another last digit
UNREADABLE = 3  # answers that are no answer before the question is dropped


def answer(query: Query, confirm: str, *, cards: bool = True) -> tuple[Release, PreviewCard | None]:
    """Return the release of a query, having asked first where that is due, and the card that showed its plan before.

    Parameters
    ----------
    query
        What is asked.
    confirm
        "auto" asks where the cost is above the session's `confirm_above`, "always" asks, "never" does not.
    cards
        Whether the plan is shown before anything is spent.

    Returns
    -------
    Release, PreviewCard or None
        The card says still that the question is being answered; there is none where the ledger has the answer.

    Raises
    ------
    NotConfirmed
        If the answer is no, or nobody can answer; nothing is spent.
    BudgetExceeded
        If the query costs more than is left; nothing is spent, and the text says what would fit.
    """
    plan, card = query.plan, None
    while not plan.free:
        if cards:
            card = _shown(query, card)
        if not plan.affordable or not _asks(confirm, plan, query.session):
            return _run(query, card), card
        try:
            chosen = _asked(query, plan)
        except NotConfirmed:
            if card is not None:
                card.became(NOT_RUN)
            raise
        latest = chosen.plan
        # What was agreed to is this question at this price; another kernel may have changed the price meanwhile.
        if chosen is query and latest.cost.units <= plan.cost.units:
            return _run(query, card), card
        query, plan = chosen, latest
    return query.run(), card


def _shown(query: Query, card: PreviewCard | None) -> PreviewCard:
    """Return the card that shows a query: the one that is there already, where it can be replaced."""
    if card is not None and card.in_place:
        card.query = query
        card.show(query.plan)
        return card
    card = PreviewCard(query)
    card.display()
    return card


def _run(query: Query, card: PreviewCard | None) -> Release:
    if card is None:
        return query.run()
    spent = query.session.ledger.spent
    card.running()
    try:
        return query.run()
    except BaseException as error:
        card.stopped(error, spent)
        raise


def way(yes: bool, always: bool, configured: str | None, session: SessionProtocol) -> str:
    """Return when to ask: as the cell says, else the environment, else the configuration, else the session."""
    if yes:
        return "never"
    if always:
        return "always"
    environment = os.environ.get(VARIABLE, "").strip().lower()
    if environment:
        if environment not in WAYS:
            raise NotConfirmed(
                f"the environment variable {VARIABLE} is auto, always or never, not {shorten(environment)}"
            )
        return environment
    return configured or session.confirm


def _asks(confirm: str, plan: Plan, session: SessionProtocol) -> bool:
    if confirm == "auto":
        most = plan.cost.epsilon if plan.rest is None else plan.rest.epsilon
        return most > session.confirm_above * ROUNDING
    return confirm == "always"


def _asked(query: Query, plan: Plan) -> Query:
    """Return the query that was agreed to, which is the same one after a yes; another one has to be shown first."""
    bought = ", and for later questions like it" if plan.bought else ""
    answer = in_short(plan) if plan.rest is None else plan.rest.asked
    question = f"Spend {_price(plan)} for {answer}{bought}? "
    hint = "[y]es / [n]o / another price, as 10% or ε: "
    for _ in range(UNREADABLE):
        reply = _input(question + hint).strip().lower()
        if reply in ("y", "yes"):
            return query
        if reply in ("", "n", "no"):
            raise NotConfirmed("not run, nothing was spent")
        epsilon = _epsilon(reply, query.session)
        if epsilon is None:
            question = f"{shorten(reply[:20])} is neither y nor n nor a price such as 10% or 0.2. "
            continue
        other = query.at(epsilon=epsilon)
        if other.plan.affordable:
            return other
        left = formatting.left(query.session.remaining.epsilon)
        question = f"{reply} is more than is left, about {_left(plan)} (ε {left}). "
    raise NotConfirmed("no answer that could be read; nothing was spent")


def _input(prompt: str) -> str:
    from IPython.core.error import StdinNotImplementedError

    try:
        return input(prompt)
    except KeyboardInterrupt:
        raise NotConfirmed("interrupted, nothing was spent") from None
    except (EOFError, StdinNotImplementedError):
        raise NotConfirmed(
            "this query has to be confirmed, and there is nobody to ask; nothing was spent. Add -y to its first line, "
            f"or make the session with confirm='never', or set {VARIABLE}=never in the environment"
        ) from None


def _price(plan: Plan) -> str:
    first = currency.price(plan.budget.cost_fraction, plan.cost.epsilon)
    if plan.rest is None:
        return first
    return f"{first} for a first look, then at most {currency.price(plan.rest.share, plan.rest.epsilon)} in all"


def _left(plan: Plan) -> str:
    return currency.percents(plan.budget.spent_fraction, 0.0)[2]


def _epsilon(text: str, session: SessionProtocol) -> float | None:
    """Return the epsilon that somebody typed, or that a percentage of the budget is; None where it is neither."""
    number = _number(text.removesuffix("%"))
    if number is None or not text.endswith("%"):
        return number
    accountant = session.ledger.accountant
    return accountant.epsilon(int(number / 100 * accountant.total)) or None


def _number(text: str) -> float | None:
    try:
        value = float(text.removeprefix("ε").removeprefix("=").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None

"""The card of questions that are bought together: what each would cost, and what all cost as one purchase."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.cards.model import Block, Card, Heading, Table, cell, line, quiet, strong
from dpnotebook.notebook.cards.plan import NOTHING_SPENT
from dpnotebook.notebook.cards.statement_lines import in_short

if TYPE_CHECKING:
    from dpnotebook.session.joint_purchase import JointPurchase

EMPTY = "No question is planned yet: add those that you expect, each with the error that you need."


def purchase_card(purchase: JointPurchase) -> Card:
    """Return the prices of questions, one by one and together, as the ledger stands now."""
    return Card(tuple(_blocks(purchase)))


def _blocks(purchase: JointPurchase) -> Iterator[Block]:
    count = len(purchase.queries)
    yield Heading("Budget plan", formatting.plural(count, "question"), NOTHING_SPENT)
    if not count:
        yield line(EMPTY)
        return
    state, rows, brief = purchase.budget, [], []
    for place, plan in enumerate(purchase.plans):
        where = f" where {plan.where}" if plan.where else ""
        asked = f"{plan.title} in {plan.table}{where}"
        error = f"±{formatting.error(plan.error)} {plan.unit}" if isfinite(plan.error) else in_short(plan, most=1)
        price = currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon)
        how = "together" if purchase.is_joined(place) else "free already" if plan.free else "by itself"
        numbers = [cell(text, nowrap=True) for text in (error.rstrip(), price)]
        rows.append((cell(str(place + 1)), cell(asked), *numbers, cell(how)))
        brief.append(price)
    yield Table(head=("", "question", "error", "by itself", "bought"), align="rlrrl", rows=tuple(rows))
    together = currency.price(purchase.share, purchase.epsilon)
    alone = currency.price(purchase.share_one_by_one, purchase.epsilon_one_by_one)
    yield line("All together cost", strong(together), name="together")
    yield line(f"One by one their prices add up to {alone}", quiet(_saving(purchase)), name="alone")
    left = currency.percents(state.spent_fraction, 0.0)[2]
    if purchase.affordable:
        left_after = currency.percents(state.spent_fraction, purchase.share)[2]
        yield line(quiet(f"{left} of the budget is left, and {left_after} after that."), name="budget")
    else:
        yield line(strong(f"Not enough budget: {left} is left. Larger errors cost less."), name="refused", mark="✕")


def _saving(purchase: JointPurchase) -> str:
    """Return what buying together saves; empty where that is nothing."""
    if purchase.units >= purchase.units_one_by_one:
        return ""
    return f"· together {formatting.percent(1 - purchase.units / purchase.units_one_by_one)} less"

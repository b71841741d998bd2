"""What the buttons of the workbench say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.notebook import currency
from dpnotebook.notebook.cards.statement_lines import short_of_delta

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan


def said_of_run(plan: Plan) -> str:
    """Return what the button says that it does: run, and for what."""
    if plan.free:
        return "Run: costs nothing"
    price = currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon)
    if not plan.affordable:
        return f"Not enough {'delta for its threshold' if short_of_delta(plan) else f'budget for {price}'}"
    return (
        f"Run: {f'spend {price}' if plan.cost.units else 'costs nothing'}{', with a purchase' if plan.bought else ''}"
    )

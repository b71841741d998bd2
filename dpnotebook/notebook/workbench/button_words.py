"""What the buttons of the workbench say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.notebook import currency
from dpnotebook.notebook.cards.statement_lines import short_of_delta
from dpnotebook.notebook.html import escape, line

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan


COPIES = "dpnotebook-copies"  # a class of buttons after which the labextension copies what `copied` has


def copied(text: str) -> str:
    """Return the HTML that hands a text to the clipboard where the labextension is, and says where it is elsewhere."""
    said = "<span>The text is in the box, to be copied from there.</span>"
    return (
        f'<div role="status" class="dpnotebook-clip">{line(said)}<pre style="display:none">{escape(text)}</pre></div>'
    )


def said_of_run(plan: Plan) -> str:
    """Return what the button says that it does: run, and for what."""
    if plan.free:
        return "Run: costs nothing"
    price = currency.short_price(plan.budget.cost_fraction, plan.cost.epsilon)
    if not plan.affordable:
        return f"Not enough {'delta for its threshold' if short_of_delta(plan) else f'budget for {price}'}"
    if plan.rest is not None:
        return (
            f"Run: spend {price} for a first look, at most {currency.short_price(plan.rest.share, plan.rest.epsilon)}"
        )
    return (
        f"Run: {f'spend {price}' if plan.cost.units else 'costs nothing'}{', with a purchase' if plan.bought else ''}"
    )

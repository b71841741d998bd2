"""What a plan takes from earlier releases, what it buys for later, and what that saves: lines of the plan card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpnotebook.notebook import currency
from dpnotebook.notebook.cards.model import Line, Mark, line, quiet, strong
from dpnotebook.notebook.formatting import plural, releases

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Action, Plan

# Kind of an action: its mark, and what its line is called in text. The mark is never alone: the text says the same.
MARKS: dict[str, tuple[Mark, str]] = {
    "free": ("↻", "reused"),
    "reuse": ("↻", "reused"),
    "refine": ("↓", "refined"),
    "measure": ("+", "measured"),
    "buy": ("■", "purchase"),
}
LEAST_SHARE = 0.01  # less saved than this is not worth a sentence
SHARPER = "Sharper because past answers are reused, not because less is protected."


def reuse_lines(plan: Plan) -> list[Line]:
    """Return the lines of a plan card that say what is reused, refined, measured, bought and saved."""
    if plan.free:
        return [line(strong(answered(plan)), name="reused", mark="↻", stripe="free")]
    found = [_action_line(plan, action) for action in shown(plan) if action.kind != "measure"]
    if text := compared(plan):
        found.append(line(quiet(text), name="compared"))
    if any(action.kind in ("reuse", "refine") for action in plan.actions):
        found.append(line(quiet(SHARPER), name="sharper"))
    if offer := offered(plan):
        found.append(line(strong("On offer:"), offer, name="on offer", mark="□", stripe="bought"))
    return found


def measured_lines(plan: Plan) -> list[Line]:
    """Return what is measured beside what is reused: it unfolds."""
    return [_action_line(plan, action) for action in shown(plan) if action.kind == "measure"]


def answered(plan: Plan) -> str:
    """Return what a free plan is answered from."""
    alone = plan.without_reuse
    instead = f", instead of {_price(plan, alone.epsilon)}" if alone is not None and alone.units else ""
    return f"Answered from {releases(plan.reused)}: costs nothing{instead}."


def shown(plan: Plan) -> tuple[Action, ...]:
    """Return what a plan does, where that takes from earlier or gives to later questions, or costs less for them."""
    if all(action.kind == "measure" for action in plan.actions) and saved_share(plan) < LEAST_SHARE:
        return ()
    refined = {number for action in plan.actions if action.kind == "refine" for number in action.releases}
    return tuple(action for action in plan.actions if action.kind != "reuse" or not refined.issuperset(action.releases))


def compared(plan: Plan) -> str:
    """Return the price beside that of the same answer measured alone; empty where there is nothing to tell."""
    alone, paid = plan.without_reuse, plan.cost
    if alone is None:
        return ""
    if plan.bought:
        answered_alone = alone if plan.otherwise is None else plan.otherwise.cost
        return f"This answer alone costs {_price(plan, answered_alone.epsilon)}{_code_alone(plan)}.{_pays(plan)}"
    share = saved_share(plan)
    if share < LEAST_SHARE:
        return ""
    return (
        f"Costs {_price(plan, paid.epsilon)} instead of {_price(plan, alone.epsilon)} for measuring it alone: "
        f"{math.floor(100 * share)}% saved."
    )


def offered(plan: Plan) -> str:
    """Return what could be bought with a question for later ones; empty where nothing is offered."""
    if plan.bought or plan.otherwise is None:
        return ""
    other = plan.otherwise
    bought = " and ".join(action.text for action in other.actions if action.kind == "buy")
    price = f"for {_price(plan, other.cost.epsilon)} in all, query.with_purchase()"
    return f"{price} {bought}.{_pays(other)}"


def _code_alone(plan: Plan) -> str:
    return "" if plan.otherwise is None else " (query.without_purchase())"


def _pays(plan: Plan) -> str:
    """Return what later questions cost with a purchase and without, and after how many of them it pays."""
    if plan.forecast is None:
        return ""
    forecast = plan.forecast
    text = f" Questions like this have cost {_price(plan, forecast.without)} each"
    if forecast.pays_after is None:
        return f"{text}."
    later = f"{text}; with the purchase, later ones should cost about {_price(plan, forecast.later)}"
    if not forecast.pays_after:
        return f"{later}."
    return f"{later}: it pays after {plural(forecast.pays_after, 'question')}."


def saved_share(plan: Plan) -> float:
    """Return how much less the plan takes of the budget than measuring alone, as a fraction; 0 where it takes more."""
    alone = plan.without_reuse
    return max(0.0, 1 - plan.cost.units / alone.units) if alone is not None and alone.units else 0.0


def _action_line(plan: Plan, action: Action) -> Line:
    mark, name = MARKS[action.kind]
    if action.kind == "buy":  # the budget's line has its price: by itself it may cost more than what is new of it
        return line(strong("A purchase:"), action.text, name=name, mark=mark, stripe="bought")
    price = f": {_price(plan, action.epsilon)}" if action.epsilon else ""
    instead = f" instead of {_price(plan, action.instead_of)}" if action.instead_of else ""
    return line(sentence(f"{action.text}{price}{instead}"), name=name, mark=mark, stripe="part")


def _price(plan: Plan, epsilon: float) -> str:
    return currency.cost_in(plan.budget, epsilon)


def sentence(text: str) -> str:
    """Return a text that begins like a sentence."""
    return text[:1].upper() + text[1:]

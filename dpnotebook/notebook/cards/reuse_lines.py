"""What a plan takes from earlier releases, what it buys for later, and what that saves: lines of the plan card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.html import escape, line, quiet

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Action, Plan

# Kind of an action: its mark, and what its line is called in text. The mark is never alone: the text says the same.
MARKS = {
    "free": ("↻", "reused"),
    "reuse": ("↻", "reused"),
    "refine": ("↓", "refined"),
    "measure": ("+", "measured"),
    "buy": ("■", "purchase"),
}
# Bars at the left of a line; the line says the same in words.
FREE, BOUGHT, PART = "#2e8b57", svg.BOUGHT, svg.LINE
LEAST_SHARE = 0.01  # less saved than this is not worth a sentence


def reuse_html(plan: Plan) -> list[str]:
    """Return the lines of a plan card that say what is reused, refined, measured, bought and saved."""
    if plan.free:
        return [_barred(f"↻ <b>{escape(answered(plan))}</b>", FREE)]
    found = [_barred(_action_html(action), BOUGHT if action.kind == "buy" else PART) for action in shown(plan)]
    if found and (text := compared(plan)):
        found.append(line(quiet(escape(text))))
    if offer := offered(plan):
        found.append(_barred(f"□ <b>On offer:</b> {escape(offer)}", BOUGHT))
    return found


def reuse_text(plan: Plan) -> list[tuple[str, str]]:
    """Return the same as pairs of a name and what it says."""
    if plan.free:
        said = answered(plan)
        return [("reused", said[:1].lower() + said[1:].removesuffix("."))]
    found = [(MARKS[action.kind][1], action.text) for action in shown(plan)]
    if found and (text := compared(plan)):
        found.append(("compared", text))
    if offer := offered(plan):
        found.append(("on offer", offer))
    return found


def answered(plan: Plan) -> str:
    """Return what a free plan is answered from."""
    alone = plan.without_reuse
    instead = f", instead of ε {formatting.cost(alone.epsilon)}" if alone is not None and alone.units else ""
    return f"Answered from {formatting.releases(plan.reused)}: costs nothing{instead}."


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
        return f"This answer alone costs ε {formatting.cost(answered_alone.epsilon)}{_code_alone(plan)}.{_pays(plan)}"
    share = saved_share(plan)
    if share < LEAST_SHARE:
        return ""
    return (
        f"Costs ε {formatting.cost(paid.epsilon)} instead of ε {formatting.cost(alone.epsilon)} "
        f"for measuring it alone: {math.floor(100 * share)}% saved."
    )


def offered(plan: Plan) -> str:
    """Return what could be bought with a question for later ones; empty where nothing is offered."""
    if plan.bought or plan.otherwise is None:
        return ""
    other = plan.otherwise
    bought = " and ".join(action.text for action in other.actions if action.kind == "buy")
    price = f"for ε {formatting.cost(other.cost.epsilon)} in all, query.with_purchase()"
    return f"{price} {bought}.{_pays(other)}"


def _code_alone(plan: Plan) -> str:
    return "" if plan.otherwise is None else " (query.without_purchase())"


def _pays(plan: Plan) -> str:
    """Return what later questions cost with a purchase and without, and after how many of them it pays."""
    if plan.forecast is None:
        return ""
    forecast = plan.forecast
    text = f" Questions like this have cost ε {formatting.cost(forecast.without)} each"
    if forecast.pays_after is None:
        return f"{text}."
    later = f"{text}; with the purchase, later ones should cost about ε {formatting.cost(forecast.later)}"
    if not forecast.pays_after:
        return f"{later}."
    return f"{later}: it pays after {formatting.plural(forecast.pays_after, 'question')}."


def saved_share(plan: Plan) -> float:
    """Return how much less the plan takes of the budget than measuring alone, as a fraction; 0 where it takes more."""
    alone = plan.without_reuse
    return max(0.0, 1 - plan.cost.units / alone.units) if alone is not None and alone.units else 0.0


def _action_html(action: Action) -> str:
    mark = MARKS[action.kind][0]
    text = escape(sentence(action.text))
    if action.kind == "buy":
        return f"{mark} <b>A purchase:</b> {escape(action.text)}"
    return f"{mark} {text}"


def _barred(content: str, colour: str) -> str:
    return line(content, f"border-left:3px solid {colour};padding-left:8px")


def sentence(text: str) -> str:
    """Return a text that begins like a sentence."""
    return text[:1].upper() + text[1:]

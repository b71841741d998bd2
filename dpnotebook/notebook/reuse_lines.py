"""What a plan takes from earlier releases, what it buys for later, and what that saves: lines of the plan card."""

from __future__ import annotations

import math
from typing import Any

from dpnotebook.notebook import words
from dpnotebook.notebook.html import escape, line, quiet

# Kind of an action: its mark, and what its line is called in text. The mark is never alone: the text says the same.
MARKS = {
    "free": ("↻", "reused"),
    "reuse": ("↻", "reused"),
    "refine": ("↓", "refined"),
    "measure": ("+", "measured"),
    "buy": ("■", "purchase"),
}
FREE = "#2e8b57"  # green, at least 4:1 to white and to near-black
LEAST_SHARE = 0.01  # less saved than this is not worth a sentence


def reuse_html(plan: Any) -> list[str]:
    """Return the lines of a plan card that say what is reused, refined, measured, bought and saved."""
    if plan.free:
        mark, said = f'<b style="color:{FREE}">↻</b>', escape(answered(plan))
        found = [line(f"{mark} <b>{said}</b>")]
        return found + [line(quiet(escape(_sentence(action.text)))) for action in getattr(plan, "actions", ())]
    found = [line(_action_html(action)) for action in shown(plan)]
    if found and (text := compared(plan)):
        found.append(line(quiet(escape(text))))
    return found


def reuse_text(plan: Any) -> list[tuple[str, str]]:
    """Return the same as pairs of a name and what it says."""
    if plan.free:
        said = answered(plan)
        return [("reused", said[:1].lower() + said[1:].removesuffix("."))] + [
            ("", each.text) for each in getattr(plan, "actions", ())
        ]
    found = [(MARKS[action.kind][1], action.text) for action in shown(plan)]
    if found and (text := compared(plan)):
        found.append(("compared", text))
    return found


def answered(plan: Any) -> str:
    """Return what a free plan is answered from."""
    alone = getattr(plan, "without_reuse", None)
    instead = 0.0 if alone is None else alone.epsilon
    text = f"Answered from {words.releases(plan.reused)}: costs nothing"
    return f"{text}, instead of ε {words.cost(instead)}." if instead > 0 else f"{text}."


def shown(plan: Any) -> tuple[Any, ...]:
    """Return what a plan does, where earlier or later questions have a part in it; measuring alone is every plan's."""
    return (
        getattr(plan, "actions", ()) if any(action.kind != "measure" for action in getattr(plan, "actions", ())) else ()
    )


def compared(plan: Any) -> str:
    """Return the price beside that of the same answer measured alone; empty where there is nothing to tell."""
    alone, paid = plan.without_reuse, plan.cost
    if plan.bought:
        if paid.units <= alone.units:
            return f"This answer alone would cost as much or more: ε {words.cost(alone.epsilon)}."
        return f"This answer alone would cost ε {words.cost(alone.epsilon)}: the rest is for what you ask next."
    share = saved_share(plan)
    if share < LEAST_SHARE:
        return ""
    return (
        f"Costs ε {words.cost(paid.epsilon)} instead of ε {words.cost(alone.epsilon)} for measuring it alone: "
        f"{math.floor(100 * share)}% saved."
    )


def saved_share(plan: Any) -> float:
    """Return how much less the plan takes of the budget than measuring alone, as a fraction; 0 where it takes more."""
    alone, paid = plan.without_reuse.units, plan.cost.units
    return max(0.0, 1 - paid / alone) if alone > 0 else 0.0


def _action_html(action: Any) -> str:
    mark = MARKS[action.kind][0]
    text = escape(_sentence(action.text))
    if action.kind == "buy":
        return f"{mark} <b>A purchase:</b> {escape(action.text)}"
    return f"{mark} {text}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]

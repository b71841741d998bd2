"""The plan card: what a query will cost and how wrong its answer will be, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.cards import statement_lines
from dpnotebook.notebook.cards.picked_lines import picked_html, picked_text
from dpnotebook.notebook.cards.reuse_lines import reuse_html, reuse_text, sentence, shown
from dpnotebook.notebook.html import box, details, escape, line, quiet, table

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Alternative, Plan

NOTHING_SPENT = "nothing has been spent"
ALIKE = 0.95  # of the largest standard error: where all pass it, there is no most certain answer to speak of
WHOLE = 0.999  # of a price: what is less is a saving, and not rounding


def plan_html(plan: Plan, status: str = NOTHING_SPENT) -> str:
    """Return the plan card as HTML that untrusted notebooks keep.

    Parameters
    ----------
    plan
        What was planned.
    status
        What has happened to it, after the word Preview; plain text.
    """
    parts = [
        f"<div><b>Preview</b> {quiet(f'· {escape(status)}')}</div>",
        line(f"<b>{escape(plan.title)}</b> {quiet(escape(_scope(plan)))}"),
    ]
    if statement_lines.several(plan):
        parts += statement_lines.errors_html(plan, _meaning(plan))
    else:
        large = f'<b style="font-size:20px">±{_error(plan.error, plan)}</b> {quiet(escape(_meaning(plan)))}'
        parts.append(line(large, "margin:4px 0 2px"))
    parts += [*reuse_html(plan), *picked_html(plan)]
    picture = svg.budget_bar(*_fractions(plan), alt=budget_line(plan), bought=plan.bought)
    parts += [line(picture, "margin:8px 0 2px"), _budget_html(plan)]
    if thresholds := statement_lines.threshold_line(plan):
        parts.append(line(quiet(escape(thresholds))))
    if len(_distinct(plan)) > 1 and np.isfinite(plan.error):
        parts.append(_alternatives_html(plan))
    if not plan.affordable:
        parts.append(line(f"✕ <b>{escape(_refusal(plan))}</b>"))
    if extra := _parallel(plan):
        parts.append(line(f"↻ {escape(extra)}"))
    if assumed := _assumed(plan):
        parts.append(line(quiet(escape(sentence(assumed)))))
    parts += [line(f"⚠ {escape(warning)}") for warning in plan.warnings]
    if plan.steps:
        items = "".join(f"<li>{escape(step)}</li>" for step in plan.steps)
        parts.append(details("How this is computed", f'<ol style="margin:4px 0 4px 20px">{items}</ol>'))
    parts.append(details("The same question as code", f'<pre style="margin:4px 0">{escape(plan.code)}</pre>'))
    if not plan.free:
        parts.append(line(quiet(escape(_risk(plan)))))
    return box(*parts)


def plan_text(plan: Plan, status: str = NOTHING_SPENT) -> str:
    """Return the plan card as aligned lines of text, with the budget as a bar of block characters."""
    rows = [f"Preview ({status})  {plan.title} {_scope(plan)}"]

    def add(name: str, content: str) -> None:
        rows.append(f"  {name:<9} {content}")

    if statement_lines.several(plan):
        for number, content in enumerate(statement_lines.errors_text(plan, _meaning(plan))):
            add("" if number else "errors", content)
    else:
        add("error", f"±{formatting.error(plan.error)} {plan.unit}: {_meaning(plan)}")
    for name, content in (*reuse_text(plan), *picked_text(plan)):
        add(name, content)
    add("budget", f"{formatting.bar(*_fractions(plan))} {budget_line(plan)}")
    if thresholds := statement_lines.threshold_line(plan):
        add("threshold", thresholds[:1].lower() + thresholds[1:])
    others = [_alternative_text(other) for other in _distinct(plan) if not other.chosen]
    if others and np.isfinite(plan.error):
        of = statement_lines.of_what(plan)
        add("instead", (f"{of} at " if of else "") + "   ".join(others))
    if not plan.affordable:
        add("refused", _refusal(plan))
    if extra := _parallel(plan):
        add("parallel", extra)
    if assumed := _assumed(plan):
        add("assumes", assumed.removeprefix("assuming "))
    for warning in plan.warnings:
        add("warning", warning)
    if not plan.free:
        add("risk", _risk(plan))
    return "\n".join(rows)


def budget_line(plan: Plan) -> str:
    """Return what is spent, what this query takes and what would remain, in one line."""
    spent, this, after = _amounts(plan)
    return f"spent {spent} · {_what(plan)} {this} · left after {after}"


def _amounts(plan: Plan) -> tuple[str, str, str]:
    state = plan.budget
    total = f"of {formatting.rounded(state.total)}"
    spent, this, after = (
        f"ε {formatting.cost(state.spent)}",
        "nothing" if not plan.cost.units else f"ε {formatting.cost(plan.cost.epsilon)}",
        f"ε {formatting.left(state.left_after)}",
    )
    if not plan.delta:
        return spent, this, f"{after} {total}"
    # Gaussian costs add up as mu^2, so the epsilons do not: the shares of the budget do.
    rest = max(0.0, 1 - state.spent_fraction - state.cost_fraction)
    return (
        f"{spent} ({formatting.percent(state.spent_fraction)})",
        this if not plan.cost.units else f"{this} ({formatting.percent(state.cost_fraction)})",
        f"{after} ({formatting.percent(rest)}) {total}, δ {formatting.rounded(state.delta)}",
    )


def _budget_html(plan: Plan) -> str:
    spent, this, after = (escape(text) for text in _amounts(plan))
    return f"<div>{quiet(f'spent {spent} ·')} <b>{_what(plan)} {this}</b> {quiet(f'· left after {after}')}</div>"


def _assumed(plan: Plan) -> str:
    """Return what the errors rest on, but for what stands beside each of them already."""
    notes = {part.note for part in plan.parts}
    return "" if len(notes) > 1 else plan.assumption


def _what(plan: Plan) -> str:
    return "this query with its purchase" if plan.bought else "this query"


def _fractions(plan: Plan) -> tuple[float, float]:
    return plan.budget.spent_fraction, plan.budget.cost_fraction


def _scope(plan: Plan) -> str:
    where = f" where {plan.where}" if plan.where else ""
    tables = " and ".join(getattr(getattr(plan, "question", None), "tables", ())) or plan.table
    return f"in {tables}{where}" + (f" · {formatting.plural(plan.answers, 'answer')}" if plan.answers > 1 else "")


def _error(error: float, plan: Plan) -> str:
    return f"{formatting.error(error)} {escape(plan.unit)}"


def _meaning(plan: Plan) -> str:
    exact = "count" if {plan.unit, *(part.unit for part in plan.parts)} == {"rows"} else "answer"
    if statement_lines.bounded(plan):  # what bounds leave out is a risk of its own, and is said as one
        exact = "answer over bounded contributions"
    text = f"{formatting.share(plan.confidence)} such answers fall this close to the exact {exact}"
    spread = np.asarray(plan.std_errors, dtype=float)
    if not plan.parts and spread.size > 1 and spread.min() < ALIKE * spread.max():
        best = plan.error * float(spread.min() / spread.max())
        text += f" (the least certain answer; about ±{formatting.error(best)} for the most certain)"
    return text


def _distinct(plan: Plan) -> list[Alternative]:
    """Return the alternatives, the cheapest first, and none that costs as much as another without being more accurate:
    where past answers help, several errors may be free, and one may come with a purchase.
    """
    found: list[Alternative] = []
    for other in sorted(plan.alternatives, key=lambda other: (other.epsilon, not other.chosen, other.error)):
        reached = min((one.error for one in found), default=np.inf)
        if other.chosen or (other.error < reached and formatting.error(other.error) != formatting.error(reached)):
            found.append(other)
    return found


def _alternatives_html(plan: Plan) -> str:
    found = _distinct(plan)
    high = max(other.error for other in found)
    rows, styles = [], []
    for other in found:
        error = formatting.error(other.error)
        picture = svg.interval(-other.error, 0.0, other.error, -high, high, f"plus or minus {error}")
        mark = "▶" if other.chosen else ""
        after = formatting.left(other.left_after) if other.affordable else "not enough budget"
        price = formatting.cost(other.epsilon) if other.epsilon else "free"
        rows.append((mark, price, f"±{error} {escape(plan.unit)}", picture, after))
        styles.append(";".join(["font-weight:600"] * other.chosen + ["opacity:0.55"] * (not other.affordable)))
    of = statement_lines.of_what(plan)
    title = (f"error of {of}" if of else "error") + f", {formatting.percent(plan.confidence)}"
    return table(("", "ε", title, "", "left after"), rows, "lrrlr", styles)


def _alternative_text(other: Alternative) -> str:
    price = f"ε {formatting.cost(other.epsilon)}" if other.epsilon else "free"
    text = f"{price}: ±{formatting.error(other.error)}"
    return text if other.affordable else f"{text} (not enough budget)"


def _refusal(plan: Plan) -> str:
    if short := statement_lines.short_of_delta(plan):
        return short
    state = plan.budget
    return (
        f"Not enough budget: this needs ε {formatting.cost(plan.cost.epsilon)}, and "
        f"ε {formatting.cost(state.spent)} of {formatting.rounded(state.total)} is spent"
    )


def _parallel(plan: Plan) -> str:
    if plan.free or shown(plan) or plan.cost.epsilon > WHOLE * plan.epsilon:
        return ""
    return (
        f"The query alone is ε {formatting.cost(plan.epsilon)}, but only "
        f"ε {formatting.cost(plan.cost.epsilon)} is new: other rows have paid more already"
    )


def _risk(plan: Plan) -> str:
    factor = formatting.odds(plan.epsilon)
    text = f"Worst case: this answer changes the odds of any statement about one person by a factor of {factor}"
    if chance := statement_lines.chance(plan):
        return f"{text}, but for a chance of {formatting.rounded(chance)}"
    whole = max(plan.budget.spent + plan.cost.epsilon, plan.epsilon)
    return text + (f"; all answers so far together, {formatting.odds(whole)}" if plan.budget.spent > 0 else "")

"""The plan card: what a question will cost and how wrong its answer will be, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpnotebook.notebook import currency, formatting, svg
from dpnotebook.notebook.cards import statement_lines
from dpnotebook.notebook.cards.model import (
    Block,
    Card,
    Code,
    Fold,
    Heading,
    Line,
    Picture,
    Span,
    Steps,
    Table,
    cell,
    line,
    quiet,
    strong,
)
from dpnotebook.notebook.cards.picked_lines import picked_lines
from dpnotebook.notebook.cards.reuse_lines import measured_lines, reuse_lines, sentence, shown
from dpnotebook.planner.explain import rows_beyond, rows_counted, rows_left_out

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Alternative, BudgetState, Plan

NOTHING_SPENT = "nothing is spent by looking"
PREVIEW = f"preview: {NOTHING_SPENT}"
ALIKE = 0.95  # of the largest standard error: where all pass it, there is no most certain answer to speak of
FITS = 1 + 1e-9  # of the budget: what is more by rounding is not
WHOLE = 0.999  # of a price: what is less is a saving, and not rounding
BAR = 180  # pixels of the budget's bar, which leaves room for its words beside it
UNFOLDS = "Other prices, what the budget means, how it is computed, the code"


def plan_card(plan: Plan, status: str = PREVIEW) -> Card:
    """Return the card of a plan.

    Parameters
    ----------
    plan
        What was planned.
    status
        What has become of it.
    """
    return Card((Heading(plan.title, _scope(plan), status), *_body(plan), Fold(UNFOLDS, tuple(_more(plan)))))


def how_and_code(plan: Plan) -> tuple[Block, ...]:
    """Return how an answer is computed, and the question as code: what unfolds below it."""
    steps = (Steps("How this is computed", plan.steps),) if plan.steps else ()
    return (*steps, Code("The same question as code", plan.code))


def budget_parts(state: BudgetState, price: float, what: str, *, bought: bool = False) -> tuple[Picture | Span, ...]:
    """Return the budget as a bar and in words: what was spent, what this takes, what is left.

    Parameters
    ----------
    state, price
        The budget around a question, and what that costs, as epsilon.
    what
        What this is called: "this question", or what was paid.
    bought
        Whether it also buys for later ones.
    """
    fractions = state.spent_fraction, state.cost_fraction
    before, this, left = currency.percents(*fractions)
    if sum(fractions) > FITS:  # then nothing of it would be taken
        before, _, left = currency.percents(state.spent_fraction, 0.0)
    taken = f"{what} {this} (ε {formatting.cost(price)})" if state.cost_fraction else f"{what} nothing"
    words = f"spent {before} · {taken} · left {left}"
    picture = svg.budget_bar(*fractions, alt=words, width=BAR, height=12, bought=bought)
    return (
        Picture(picture, formatting.bar(*fractions)),
        quiet(f"spent {before} ·"),
        strong(taken),
        quiet(f"· left {left}"),
    )


def _body(plan: Plan) -> Iterator[Block]:
    """Yield what is always seen: errors, what the budget has to do with it, and what would change one's mind."""
    if statement_lines.several(plan):
        yield from statement_lines.errors(plan, _meaning(plan))
    else:
        error = f"±{formatting.error(plan.error)} {plan.unit}".rstrip()
        if (least := _least(plan)) is not None:
            error = f"±{formatting.error(least)} to {error}"
        yield line(Span(error, "large"), quiet(f"· {_meaning(plan)}"), name="error")
        yield from statement_lines.derived(plan)
    yield from reuse_lines(plan)
    yield from picked_lines(plan)
    what = (
        "this question with its purchase" if plan.bought else "this question" if plan.rest is None else "a first look"
    )
    yield Line(budget_parts(plan.budget, plan.cost.epsilon, what, bought=plan.bought), "budget")
    if plan.rest is not None:
        yield line(rest_of(plan), name="rest")
    if not plan.affordable:
        yield line(strong(refusal(plan)), name="refused", mark="✕")
    for warning in plan.warnings:
        yield line(warning, name="warning", mark="⚠")


def rest_of(plan: Plan) -> str:
    """Return what may be paid after a first look, in words."""
    rest = plan.rest
    assert rest is not None
    known = currency.price_known(rest)
    kept = f"if {rest.asked} takes more, nothing more is spent and the price is said"
    return (
        f"{known[0].upper()}{known[1:]}. This is a first look, which answers roughly and tells it. Then the rest is "
        f"paid, at most {currency.price(rest.share, rest.epsilon)} in all; "
        f"{kept if rest.sure is None else f'{rest.asked} is kept'}"
    )


def _more(plan: Plan) -> Iterator[Block]:
    """Yield what unfolds."""
    found = distinct(plan)
    if len(found) > 1 and np.isfinite(plan.error):
        yield _prices(plan, found)
    yield from measured_lines(plan)
    if thresholds := statement_lines.threshold_line(plan):
        yield line(quiet(thresholds), name="threshold")
    if extra := _parallel(plan):
        yield line(quiet(extra), name="parallel")
    if assumed := _assumed(plan):
        yield line(quiet(sentence(assumed)), name="given")
    if counted := rows_counted(plan.question):
        yield line(quiet(sentence(counted)), name="missing")
    if beyond := rows_beyond(plan.question):
        yield line(quiet(sentence(beyond)), name="beyond")
    if missing := rows_left_out(plan.question):
        yield line(quiet(sentence(missing)), name="rows")
    state = plan.budget
    whole = currency.written(state.total, state.delta)
    yield line(quiet(f"The whole budget is {whole}: {currency.meaning(state.total, state.delta)}."))
    yield from how_and_code(plan)


def _prices(plan: Plan, found: list[Alternative]) -> Table:
    high = max(other.error for other in found)
    rows, brief = [], []
    for other in found:
        error, price, left = formatting.error(other.error), *_price(plan, other)
        picture = svg.interval(-other.error, 0.0, other.error, -high, high, f"plus or minus {error}")
        mark = "▶" if other.chosen else ""
        epsilon = formatting.cost(other.epsilon) if other.epsilon else "0"
        rows.append(
            (cell(mark), cell(price), cell(epsilon), cell(f"±{error} {plan.unit}"), cell(Picture(picture)), cell(left))
        )
        if not other.chosen:
            said = f"{price} (ε {epsilon})" if other.epsilon else price
            brief.append(f"{said}: ±{error}" + ("" if other.affordable else f" ({NOT_ENOUGH})"))
    of = statement_lines.of_what(plan)
    sure = _together(plan) or plan.confidence
    title = (f"error of {of}" if of else "error") + f", {formatting.percent(sure)}"
    return Table(
        head=("", "of the budget", "ε", title, "", "left after"),
        align="lrrrlr",
        rows=tuple(rows),
        strong=frozenset(place for place, other in enumerate(found) if other.chosen),
        faint=frozenset(place for place, other in enumerate(found) if not other.affordable),
        name="prices",
        brief=(f"{of} at " if of else "") + "   ".join(brief),
    )


NOT_ENOUGH = "not enough budget"


def _price(plan: Plan, other: Alternative) -> tuple[str, str]:
    """Return what an alternative takes of the budget, and what it would leave."""
    state = plan.budget
    if not other.affordable:
        return currency.percent(state.share(other.epsilon)), NOT_ENOUGH
    taken = state.cost_fraction
    if not other.chosen:  # what the session would pay may be less than what the question takes: others have paid more
        taken = max(0.0, 1 - state.spent_fraction - state.share(other.left_after)) if other.epsilon else 0.0
    _, this, left = currency.percents(state.spent_fraction, taken)
    return (this if taken > 0 else "free"), left


def _assumed(plan: Plan) -> str:
    """Return what the errors rest on, but for what stands beside each of them already."""
    notes = {part.note for part in plan.parts}
    return "" if len(notes) > 1 else plan.assumption


def _scope(plan: Plan) -> str:
    where = f" where {plan.where}" if plan.where else ""
    tables = " and ".join(getattr(getattr(plan, "question", None), "tables", ())) or plan.table
    return f"in {tables}{where}" + (f" · {formatting.plural(plan.answers, 'answer')}" if plan.answers > 1 else "")


def _together(plan: Plan) -> float | None:
    """Return how surely all intervals hold at once, where that was asked; a statement's plan has no such accuracy."""
    return getattr(getattr(plan, "accuracy", None), "together", None)


def _least(plan: Plan) -> float | None:
    """Return the least that the error may turn out to be, where that is not known; a statement's plan has no such."""
    return getattr(plan, "least_error", None)


def _meaning(plan: Plan) -> str:
    if _least(plan) is not None:
        return (
            f"for {formatting.share(plan.confidence)} such answers, as far as noise goes: the more columns have to do "
            "with each other, the more has to be measured"
        )
    exact = "count" if {plan.unit, *(part.unit for part in plan.parts)} == {"rows"} else "answer"
    if statement_lines.bounded(plan):  # what bounds leave out is a risk of its own, and is said as one
        exact = "answer over bounded contributions"
    over = f" over {plan.counted}" if plan.counted else ""
    if (joint := _together(plan)) is not None:
        text = (
            f"in {formatting.share(joint)} such tables all {plan.answers:,} answers fall this close to the exact "
            f"ones{over}"
        )
    else:
        text = f"{formatting.share(plan.confidence)} such answers fall this close to the exact {exact}{over}"
    spread = np.asarray(plan.std_errors, dtype=float)
    if not plan.parts and spread.size > 1 and spread.min() < ALIKE * spread.max():
        best = plan.error * float(spread.min() / spread.max())
        text += f" (the least certain answer; about ±{formatting.error(best)} for the most certain)"
    return text


def distinct(plan: Plan) -> list[Alternative]:
    """Return the alternatives, the cheapest first, and none that costs as much as another without being more accurate:
    where past answers help, several errors may be free, and one may come with a purchase.
    """
    found: list[Alternative] = []
    for other in sorted(plan.alternatives, key=lambda other: (other.epsilon, not other.chosen, other.error)):
        reached = min((one.error for one in found), default=math.inf)
        if other.chosen or (other.error < reached and formatting.error(other.error) != formatting.error(reached)):
            found.append(other)
    return found


def refusal(plan: Plan) -> str:
    """Return why the budget, or the policy of the session, does not allow a plan."""
    if plan.forbidden:
        return f"The policy does not allow it: {plan.forbidden}"
    if short := statement_lines.short_of_delta(plan):
        return short
    state = plan.budget
    needs = currency.price(state.cost_fraction, plan.cost.epsilon)
    return f"Not enough budget: this needs {needs}, and {currency.percents(state.spent_fraction, 0.0)[2]} is left"


def _parallel(plan: Plan) -> str:
    if plan.free or shown(plan) or plan.cost.epsilon > WHOLE * plan.epsilon:
        return ""
    state = plan.budget
    return (
        f"The question alone takes {currency.cost_in(state, plan.epsilon)}, but only "
        f"{currency.short_price(state.cost_fraction, plan.cost.epsilon)} is new: other rows have paid more already"
    )

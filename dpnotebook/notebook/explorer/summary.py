"""A comparison of strategies as text and static HTML: what a saved, exported or untrusted notebook shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpnotebook.notebook import currency, formatting
from dpnotebook.notebook.explorer.choices import ComparedWorkload, Privacy
from dpnotebook.notebook.formatting import BEST
from dpnotebook.notebook.html import box, details, escape, line, quiet, table
from dpnotebook.notebook.plots.strategy_pictures import pictures, ranking_bar
from dpnotebook.notebook.plots.strategy_views import View, described, query_weights
from dpnotebook.planner.plan import BudgetState
from dpnotebook.privacy.accountant import mu_of_budget
from dpnotebook.privacy.laws import law_of
from dpnotebook.strategy.catalogue import Candidate
from dpnotebook.strategy.strategy import Strategy

ROUNDING = 1 + 1e-9  # by which an error may pass the longest bar's, and be that
LONGEST = 3.0  # a bar is cut where it would be this many times as long as the shortest
MOST_VIEWS = 6  # pictures of the strategy that is looked at
FREE = "Nothing is charged and no data is read: errors follow from the queries and the noise."
MEANING = "RMSE: the root of the mean squared error over all answers"
WEIGHTED = ", each error times the weight of its query"


class Standing(Protocol):
    """What a card needs to know of a comparison."""

    state: str
    skipped: dict[str, str]
    among: list[Candidate]

    @property
    def ranked(self) -> list[tuple[Candidate, Strategy]]:
        """What was found, the least error first."""

    @property
    def waiting(self) -> list[Candidate]:
        """What has not been tried."""

    @property
    def bound(self) -> float | None:
        """What no objective can be below; None where nothing near is known."""


@dataclass(frozen=True)
class ShownComparison:
    """What is shown of a comparison.

    Parameters
    ----------
    question, privacy
        What is compared; the comparison may be with other amounts of the same noise.
    standing
        How far the comparison is.
    chosen
        Name of the candidate that is looked at, if there is one.
    views
        What there is to see of it.
    budget
        Of the session that would pay, where there is one.
    """

    question: ComparedWorkload
    privacy: Privacy
    standing: Standing
    chosen: str | None = None
    views: Sequence[View] = ()
    budget: BudgetState | None = None

    def rmse(self, objective: float) -> float:
        """Return the RMSE that belongs to an objective."""
        return math.sqrt(objective * self.privacy.unit_variance / self.question.workload.shape[0])

    @property
    def bound(self) -> float | None:
        """The RMSE that no choice of queries to measure can be below; None where nothing near is known."""
        bound = self.standing.bound
        return None if bound is None else self.rmse(bound)


def card_html(card: ShownComparison) -> str:
    """Return a comparison as HTML that untrusted notebooks keep."""
    ranked = card.standing.ranked
    head = f"<b>Strategies for {escape(card.question.title)}</b> {quiet(escape(under(card.privacy, card.budget)))}"
    parts = [head, line(quiet(FREE))]
    if ranked:
        parts += [_ranking(card, ranked), line(_best(card, ranked)), line(quiet(escape(_bound(card))))]
    if _progress(card):
        parts.append(line(quiet(escape(_progress(card)))))
    if card.standing.skipped:
        titles = {each.name: each.title for each in card.standing.among}
        reasons = "".join(
            line(f"{escape(titles[name])}: {quiet(escape(reason))}") for name, reason in card.standing.skipped.items()
        )
        parts.append(details(f"{formatting.plural(len(card.standing.skipped), 'candidate')} left out", reasons))
    chosen = next((pair for pair in ranked if pair[0].name == card.chosen), None)
    if chosen is not None:
        content = (
            line(facts(*chosen))
            + pictures(card.views[:MOST_VIEWS])
            + line(f"<pre>{escape(code(card, chosen[0]))}</pre>")
        )
        parts.append(details(f"A closer look at: {chosen[0].title}", content))
    return box(*parts)


def card_text(card: ShownComparison) -> str:
    """Return a comparison as text."""
    rows = [f"Strategies for {card.question.title}, {under(card.privacy, card.budget)}", f"  {FREE}"]
    ranked = card.standing.ranked
    for candidate, strategy in ranked:
        error = card.rmse(strategy.objective)
        mark = ">" if candidate.name == card.chosen else " "
        rows.append(f"{mark} {candidate.title:<24} RMSE {formatting.error(error):<10} {_times(card, error)}")
    if ranked:
        rows.append(f"  {_bound(card)}")
    if _progress(card):
        rows.append(f"  {_progress(card)}")
    return "\n".join(rows)


def under(privacy: Privacy, budget: BudgetState | None = None) -> str:
    """Return the privacy in words, led by what it would take of a budget of the same noise."""
    law = law_of(privacy.noise)
    delta = f", δ {formatting.cost(privacy.delta)}" if law.needs_delta else ""
    said = f"ε {formatting.cost(privacy.epsilon)}{delta}"
    if budget is None or bool(budget.stated_at) != law.needs_delta:
        return f"{law.title} noise, {said}"
    part = privacy.epsilon / budget.total
    if law.needs_delta:  # costs add up as mu^2, whichever delta each is said at
        part = (mu_of_budget(privacy.epsilon, privacy.delta) / mu_of_budget(budget.total, budget.stated_at)) ** 2
    left = currency.percents(budget.spent_fraction, 0.0)[2]
    return f"{law.title} noise, {currency.percent(part)} of the budget ({said}) · {left} left"


def facts(candidate: Candidate, strategy: Strategy) -> str:
    """Return what a strategy measures, in a line of HTML."""
    found = "" if strategy.name == candidate.title else f" · {strategy.name}"
    size = quiet(escape(f"· {described(strategy)}{found}"))
    return f"<b>{escape(candidate.title)}</b>: {escape(candidate.about)} {size}"


def code(card: ShownComparison, candidate: Candidate) -> str:
    """Return how to make a strategy without the explorer, and how to answer queries with it."""
    made, asked = candidate.code, card.question.code
    return (
        f'strategy = {made}({asked}, noise="{card.privacy.noise}")\n'
        f"df.dp.answer({asked}, strategy={made}, epsilon={card.privacy.epsilon:g})"
    )


def _ranking(card: ShownComparison, ranked: Sequence[tuple[Candidate, Strategy]]) -> str:
    errors = [card.rmse(strategy.objective) for _, strategy in ranked]
    longest = min(max(errors), LONGEST * errors[0])
    rows, styles = [], []
    for (candidate, _), error in zip(ranked, errors, strict=True):
        chosen = candidate.name == card.chosen
        alt = ", ".join(filter(None, (formatting.error(error), _times(card, error))))
        least = None if card.bound is None else card.bound / longest
        picture = ranking_bar(error / longest, least, error > longest * ROUNDING, alt)
        name = f"▶ {escape(candidate.title)}" if chosen else escape(candidate.title)
        rows.append((name, picture, formatting.error(error), escape(_times(card, error))))
        styles.append("font-weight:bold" if chosen else "")
    return table(("strategy", "", "RMSE", ""), rows, "llrl", styles)


def _best(card: ShownComparison, ranked: Sequence[tuple[Candidate, Strategy]]) -> str:
    (best, strategy), plain = ranked[0], next((pair[1] for pair in ranked if pair[0].name == "identity"), None)
    says = (
        f"{escape(best.title)} is the best so far"
        if card.standing.state == "running"
        else f"Best: {escape(best.title)}"
    )
    if plain is not None and plain.objective > strategy.objective:
        gain = math.sqrt(plain.objective / strategy.objective)
        says += f", with errors {formatting.rounded(gain)} times smaller than from the counts of every cell"
    return f"{says}."


def _bound(card: ShownComparison) -> str:
    weighted = not isinstance(query_weights(card.question.workload), float)
    least = (
        "How small an error could be is not known."
        if card.bound is None
        else f"No choice of queries to measure can be below {formatting.rounded(card.bound)} (dashed)."
    )
    return f"{least} {MEANING}{WEIGHTED if weighted else ''}."


def _times(card: ShownComparison, error: float) -> str:
    if card.bound is None:
        return ""
    ratio = error / card.bound
    return "the best possible" if ratio < BEST else f"{formatting.error(ratio)} × the bound"


def _progress(card: ShownComparison) -> str:
    waiting = card.standing.waiting
    if card.standing.state == "running" and waiting:
        return f"{len(card.standing.among) - len(waiting)} of {len(card.standing.among)} strategies compared"
    if card.standing.state == "cancelled":
        return f"Cancelled; not tried: {', '.join(each.title for each in waiting)}"
    return ""

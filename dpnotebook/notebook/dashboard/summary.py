"""The dashboard as text and static HTML: what a saved, exported or untrusted notebook shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpnotebook.notebook import cards, currency, formatting, svg
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.cards.reuse_lines import LEAST_SHARE, sentence
from dpnotebook.notebook.dashboard.spending import (
    AffordableError,
    AttributeSpending,
    SpendingStep,
    columns,
    offers,
    timeline,
)
from dpnotebook.notebook.html import box, escape, line, quiet, table
from dpnotebook.session.saving import Saving

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.planner.plan import BudgetState
    from dpnotebook.session.session import Session

ROWS = 10  # of the history that are listed: the last ones; session.history() has all
NOTHING_LEFT = "Nothing is left to spend: only questions that the ledger holds already can be answered."


def summary_html(session: Session, spared: Saving | None = None) -> str:
    """Return the budget, what reuse has spared of it, and what the rest of it could buy."""
    state = budget_state(session)
    budget = cards.as_html(cards.budget_card(session))
    return budget + saving_html(spared or session.saved, state) + offers_html(offers(session), state)


def dashboard_html(session: Session) -> str:
    """Return the whole dashboard as HTML that untrusted notebooks keep."""
    history, spared, state = session.history(), session.saved, budget_state(session)
    return "".join(
        [
            cards.as_html(cards.budget_card(session)),
            saving_html(spared, state),
            offers_html(offers(session), state),
            timeline_html(timeline(session, history)),
            columns_html(columns(session), state),
            history_html(history, state, how=spared.how),
        ]
    )


def dashboard_text(session: Session) -> str:
    """Return the dashboard as text: the budget, what the rest could buy, and the latest releases."""
    rows, spared, state = [cards.as_text(cards.budget_card(session))], session.saved, budget_state(session)
    if text := saving_line(spared, state):
        rows.append(f"  {text}")
    rows += [
        f"  left buys {offer.question} in {offer.table} within ±{formatting.error(offer.error)} {offer.unit}"
        for offer in offers(session)
    ]
    for entry in session.history().tail(ROWS).to_dict("records"):
        how = spared.how.get(int(entry["number"]), "")
        paid = currency.cost_in(state, entry["paid"])
        rows.append(f"  #{entry['number']:<4} {paid:<16} {how:<9}{entry['question']}")
    return "\n".join(rows)


def saving_html(found: Saving, state: BudgetState) -> str:
    """Return what reuse has spared; nothing where it has not."""
    text = saving_line(found, state)
    if not text:
        return ""
    picture = svg.bar(
        1 - found.share, f"{formatting.percent(1 - found.share)} of what measuring each question alone costs"
    )
    return box("<b>Saved by reuse</b>", line(picture), line(escape(sentence(text))))


def saving_line(found: Saving, state: BudgetState) -> str:
    """Return what reuse has spared in one sentence; empty where it has not."""
    if found.share < LEAST_SHARE:
        return ""
    counts = Counter(found.how.values())
    kinds = [f"{counts[kind]:,} {kind}" for kind in ("free", "refined", "reuse") if counts[kind]]
    if counts["purchase"]:
        kinds.append(formatting.plural(counts["purchase"], "purchase"))
    return (
        f"saved {math.floor(100 * found.share)}%: paid {currency.price(state.share(found.paid), found.paid)} "
        f"where measuring every question alone would have cost {currency.cost_in(state, found.alone)}"
        + (f" ({', '.join(kinds)})" if kinds else "")
    )


def offers_html(found: Sequence[AffordableError], state: BudgetState) -> str:
    """Return what the rest of the budget could buy as a table."""
    if not found:
        return box(quiet(NOTHING_LEFT))
    rows = [
        (
            f"{escape(offer.question)} {quiet(f'in {escape(offer.table)}')}",
            f"±{formatting.error(offer.error)} {escape(offer.unit)}",
            f"±{formatting.error(offer.error_at_half)} {escape(offer.unit)}",
        )
        for offer in found
    ]
    left, half = currency.percents(state.spent_fraction, 0.0)[2], found[0].epsilon / 2
    head = ("", f"with all {left}", f"with {currency.cost_in(state, half)}")
    return box("<b>What is left could buy</b>", table(head, rows, "lrr"))


def timeline_html(steps: Sequence[SpendingStep]) -> str:
    """Return the spend after each release as a picture."""
    if not steps:
        return ""
    last = steps[-1]
    alt = (
        f"After {formatting.plural(len(steps), 'release')} {formatting.percent(last.share)} of the budget is spent: "
        + ", ".join(f"#{step.number} {currency.percent(step.share)}" for step in steps[-ROWS:])
    )
    picture = svg.steps([step.share for step in steps], alt)
    caption = f"{formatting.percent(last.share)} of the budget after release #{last.number}; dashed: all of it"
    return box("<b>Spend over time</b>", line(picture), f"<div>{quiet(caption)}</div>")


def columns_html(found: Sequence[AttributeSpending], state: BudgetState) -> str:
    """Return the spend by column as a table with bars."""
    if not found:
        return ""
    rows = [
        (
            f"{escape(column.attribute)} {quiet(f'in {escape(column.table)}')}",
            svg.bar(state.share(column.most), f"{currency.percent(state.share(column.most))} of the budget"),
            currency.cost_in(state, column.most),
            currency.cost_in(state, column.least),
        )
        for column in found
    ]
    return box("<b>Spend by column</b>", table(("", "", "dearest level", "cheapest level"), rows, "llrr"))


def history_html(
    history: pd.DataFrame, state: BudgetState, rows: int = ROWS, how: Mapping[int, str] | None = None
) -> str:
    """Return the latest releases as a table, newest first, each with a word on what it took from others."""
    if not len(history):
        return box(quiet("No releases yet: nothing has been spent."))
    shown = history.tail(rows).iloc[::-1]
    cells = [
        (
            f"#{entry['number']}",
            escape(f"{entry['time']:%Y-%m-%d %H:%M}"),
            escape(entry["table"]),
            escape(entry["question"]),
            currency.percent(state.share(entry["paid"])),
            formatting.cost(entry["paid"]),
            (how or {}).get(int(entry["number"]), "") if entry["state"] == "recorded" else escape(entry["state"]),
        )
        for entry in shown.to_dict("records")
    ]
    more = f"{len(history) - rows:,} older in session.history()" if len(history) > rows else ""
    head = ("", "time", "table", "question", "paid", "ε", "")
    return box("<b>Releases</b>", table(head, cells, "llllrrl"), *([line(quiet(more))] if more else []))

"""The dashboard as text and static HTML: what a saved, exported or untrusted notebook shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.notebook import cards, currency, formatting, svg
from dpnotebook.notebook.cards.budget import budget_state
from dpnotebook.notebook.cards.reuse_lines import LEAST_SHARE, sentence
from dpnotebook.notebook.dashboard.spending import (
    LEAST,
    AffordableError,
    AskedPrice,
    AttributeSpending,
    CellSpending,
    LevelSpending,
    SpendingStep,
    asked_prices,
    cells,
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

MOST_COLUMNS = 40  # that are listed: the dearest
MOST_LEVELS_SHOWN = 20  # of a column: the dearest
ROWS = 10  # of the history that are listed: the last ones; session.history() has all
NOTHING_LEFT = "Nothing is left to spend: only questions that the ledger holds already can be answered."


def summary_html(session: Session, spared: Saving | None = None) -> str:
    """Return the budget, what reuse has spared of it, and what the rest of it could buy."""
    state = budget_state(session)
    budget = cards.as_html(cards.budget_card(session))
    return (
        budget
        + saving_html(spared or session.saved, state)
        + offers_html(offers(session), state)
        + asked_html(asked_prices(session), state)
    )


def rest_html(session: Session, history: pd.DataFrame, spared: Saving) -> str:
    """Return what the live tabs show, as HTML that is there without them."""
    state = budget_state(session)
    return (
        timeline_html(timeline(session))
        + columns_html(columns(session), state)
        + cells_html(cells(session), state)
        + history_html(history, state, how=spared.how)
    )


def dashboard_html(session: Session) -> str:
    """Return the whole dashboard as HTML that untrusted notebooks keep."""
    spared = session.saved
    return summary_html(session, spared) + rest_html(session, session.history(), spared)


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
        return box(quiet(NOTHING_LEFT)) if state.left_after < LEAST else ""
    rows = [
        (
            f"{escape(offer.question)} {quiet(f'in {escape(offer.table)}')}",
            f"±{formatting.error(offer.error)} {escape(offer.unit)}",
            f"±{formatting.error(offer.error_at_half)} {escape(offer.unit)}",
        )
        for offer in found
    ]
    left, half = currency.percents(state.spent_fraction, 0.0)[2], found[0].epsilon / 2
    head = ("question", f"with all {left}", f"with {currency.cost_in(state, half)}")
    return box("<b>What is left could buy</b>", table(head, rows, "lrr"))


def asked_html(found: Sequence[AskedPrice], state: BudgetState) -> str:
    """Return how often what was asked could still be asked, each as accurately as it was."""
    if not found:
        return ""
    rows = [
        (
            f"{escape(one.question)} {quiet(f'in {escape(one.table)}')}",
            escape(one.accuracy),
            f'<span style="white-space:nowrap">{currency.cost_in(state, one.epsilon)}</span>',
            f"{one.times:,} more" if one.times else "none",
        )
        for one in found
    ]
    head = ("asked before", "how accurately", "measured alone", "left pays for")
    said = "questions like these about something new; the same ones again cost nothing"
    return box("<b>At the errors used so far</b>", table(head, rows, "llrr"), line(quiet(said)))


def timeline_html(steps: Sequence[SpendingStep]) -> str:
    """Return what was left after each release as a picture."""
    if not steps:
        return ""
    last = steps[-1]
    left = currency.percents(last.share, 0.0)[2]
    alt = f"After {formatting.plural(len(steps), 'release')} {left} of the budget is left: " + ", ".join(
        f"#{step.number} {currency.percents(step.share, 0.0)[2]}" for step in steps[-ROWS:]
    )
    picture = svg.burn_down([1 - step.share for step in steps], alt, width=360)
    caption = f"{left} of the budget is left after release #{last.number}; dashed: all of it"
    return box("<b>Burn-down: what was left after each release</b>", line(picture), f"<div>{quiet(caption)}</div>")


def columns_html(found: Sequence[AttributeSpending], state: BudgetState) -> str:
    """Return the spend by column as a table with bars."""
    if not found:
        return ""
    several = len(found) > MOST_COLUMNS
    shown = sorted(found, key=lambda column: -column.most)[:MOST_COLUMNS] if several else found
    rows = [
        (
            f"{escape(column.attribute)} {quiet(f'in {escape(column.table)}')}",
            svg.bar(state.share(column.most), f"{currency.percent(state.share(column.most))} of the budget"),
            currency.cost_in(state, column.most),
            currency.cost_in(state, column.least),
        )
        for column in shown
    ]
    more = [line(quiet(f"{len(found) - len(shown):,} cheaper columns in session.spend_by_column()"))] if several else []
    head = ("column", "spent", "dearest level", "cheapest level")
    return box("<b>Spend by column</b>", table(head, rows, "llrr"), *more)


def cells_html(found: Sequence[CellSpending], state: BudgetState) -> str:
    """Return the dearest cells as a table: what the next question about them adds to decides what it costs."""
    if not found:
        return ""
    several = len({one.table for one in found}) > 1
    rows = [
        (
            escape(one.words or "every cell") + (f" {quiet(f'in {escape(one.table)}')}" if several else ""),
            f"{one.cells:,}" if one.words else "all",
            svg.bar(state.share(one.epsilon), f"{currency.percent(state.share(one.epsilon))} of the budget"),
            currency.cost_in(state, one.epsilon),
        )
        for one in found
    ]
    said = "cells that were charged alike are one row; the budget has paid for the dearest of each table"
    return box("<b>The dearest cells</b>", table(("who", "cells", "spent", "paid"), rows, "lrlr"), line(quiet(said)))


def levels_html(found: Sequence[LevelSpending], column: str, state: BudgetState) -> str:
    """Return the spend on the levels of one column, on the dearest cell of each: those that have paid most."""
    shown = found[:MOST_LEVELS_SHOWN]
    rows = [
        (
            escape(one.level),
            svg.bar(state.share(one.epsilon), f"{currency.percent(state.share(one.epsilon))} of the budget"),
            currency.cost_in(state, one.epsilon),
        )
        for one in shown
    ]
    rest = found[len(shown) :]
    more = []
    if rest:
        at_most = currency.cost_in(state, rest[0].epsilon)
        more.append(line(quiet(f"and {formatting.plural(len(rest), 'level')} with {at_most} or less")))
    return table((column, "spent", "dearest cell"), rows, "llr") + "".join(more)


def history_html(
    history: pd.DataFrame, state: BudgetState, rows: int = ROWS, how: Mapping[int, str] | None = None
) -> str:
    """Return the latest releases as a table, newest first, each with a word on what it took from others."""
    if not len(history):
        return box(quiet("No releases yet: nothing has been spent."))
    shown = history.tail(rows).iloc[::-1].to_dict("records")
    more = f"{len(history) - rows:,} older in session.history()" if len(history) > rows else ""
    return box("<b>Releases</b>", releases_table(shown, state, how), *([line(quiet(more))] if more else []))


def releases_table(shown: Sequence[Mapping[str, Any]], state: BudgetState, how: Mapping[int, str] | None = None) -> str:
    """Return releases, the rows of `session.history()`, as a table, with what each paid and would have alone."""
    cells = [
        (
            f"#{entry['number']}",
            escape(f"{entry['time']:%Y-%m-%d %H:%M}"),
            f"{escape(entry['question'])} {quiet('in ' + escape(entry['table']))}",
            currency.cost_in(state, entry["paid"]),
            currency.percent(state.share(entry["alone"])),
            (how or {}).get(int(entry["number"]), "") if entry["state"] == "recorded" else escape(entry["state"]),
        )
        for entry in shown
    ]
    return table(("release", "time", "question", "paid", "alone", "how"), cells, "lllrrl")

"""The budget card of a session: what is spent, what is left, and how many answers it bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting, svg
from dpnotebook.notebook.html import box, escape, line, quiet

if TYPE_CHECKING:
    from dpnotebook.session.session import Session

MOST_RAISES = 3  # of the budget that a card lists: the last ones


def budget_html(session: Session) -> str:
    """Return the state of a session's budget as HTML that untrusted notebooks keep."""
    text = budget_line(session)
    left = f"ε {formatting.left(session.remaining.epsilon)} left"
    return box(
        f'<div><b style="font-size:20px">{left}</b> {quiet(_of(session))}</div>',
        line(svg.budget_bar(spent_fraction(session), 0.0, alt=text), "margin:8px 0 2px"),
        f"<div>{quiet(text)}</div>",
        *([f"<div>{quiet(escape(raised))}</div>"] if (raised := raised_line(session)) else []),
        *([line(quiet(NO_SUM))] if session.budget.law.needs_delta else []),
    )


def budget_text(session: Session) -> str:
    """Return the state of a session's budget as text, with a bar of block characters."""
    raised = f"\n  {text}" if (text := raised_line(session)) else ""
    return f"Budget  {formatting.bar(spent_fraction(session))}  {budget_line(session)}{raised}"


def budget_line(session: Session) -> str:
    """Return what is spent and what is left, and by how many releases, in one line."""
    releases = formatting.plural(session.ledger.releases, "release")
    spent = f"ε {formatting.cost(session.spent.epsilon)}"
    if session.budget.law.needs_delta:
        spent += f" ({formatting.percent(spent_fraction(session))})"
    hidden = _hidden(session)
    return f"spent {spent} · left ε {formatting.left(session.remaining.epsilon)} {_of(session)} · {releases}{hidden}"


def raised_line(session: Session) -> str:
    """Return what the budget was raised from, when and why, in one line; empty where it is what it was."""
    first, *raises = session.ledger.budgets()
    if not raises:
        return ""
    told = "; ".join(f"{one.time[:10]} to {one.budget}: {one.reason}" for one in raises[-MOST_RAISES:])
    earlier = f"{formatting.plural(len(raises) - MOST_RAISES, 'earlier raise')}; " if len(raises) > MOST_RAISES else ""
    return f"raised from {first.budget} · {earlier}{told}"


NO_SUM = "Gaussian costs add up as μ², so these ε do not add up to the total; the shares of the bar do."


def spent_fraction(session: Session) -> float:
    """Return the share of the budget that is spent, in the notion that is enforced (epsilon, or mu^2)."""
    return float(session.ledger.spent / session.ledger.accountant.total)


def _hidden(session: Session) -> str:
    """Return what thresholds have taken of delta; empty before the first."""
    spent, left = session.spent.threshold_delta, session.remaining.threshold_delta
    return (
        f" · hiding small groups took δ {formatting.cost(spent)}, {formatting.left(left)} is left for that"
        if spent
        else ""
    )


def _of(session: Session) -> str:
    delta = f", δ {formatting.rounded(session.budget.delta)}" if session.budget.delta else ""
    return f"of {formatting.rounded(session.budget.epsilon)}{delta}"

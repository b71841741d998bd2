"""How queries, plans, releases, sessions, offers and strategies are shown: registered here, so that nothing below knows
Jupyter.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from dpnotebook.planner.plan import Plan
from dpnotebook.progress import Progress, show_with, unwatched
from dpnotebook.session.joint_purchase import JointPurchase
from dpnotebook.session.offer import Offer
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session
from dpnotebook.strategy import Strategy
from dpnotebook.views import register_view


def attach() -> None:
    """Register what shows the objects of the lower layers, and give long work a progress bar."""
    register_view("card", _card)
    register_view("query", _query)
    for name in ("plot", "markdown", "latex", "html"):
        register_view(name, partial(_release_view, name))
    register_view("strategy", _plot_strategy)
    register_view("dashboard", _dashboard)
    register_view("report", _report)
    register_view("workbench", _workbench)
    register_view("budget planner", _budget_planner)
    show_with(_watched)


def _card(shown: Any) -> dict[str, str]:
    """Return the card of something as a MIME bundle."""
    from dpnotebook.notebook import cards

    match shown:
        case Plan():
            card = cards.plan_card(shown)
        case Query():
            card = cards.plan_card(shown.plan)
        case Release():
            card = cards.release_card(shown)
        case Offer():
            card = cards.offer_card(shown)
        case JointPurchase():
            card = cards.purchase_card(shown)
        case Strategy():
            card = cards.strategy_card(shown)
        case Session():
            card = cards.budget_card(shown)
        case _:
            raise TypeError(f"a {type(shown).__name__} has no card")
    return cards.as_bundle(card)


def _query(query: Query) -> None:
    from dpnotebook.notebook import controls

    controls.show(query)


def _release_view(name: str, release: Release, **options: Any) -> Any:
    from dpnotebook.notebook import tables
    from dpnotebook.notebook.plots.numbers import answer_table
    from dpnotebook.notebook.plots.release import plot_release

    if name == "plot":
        return plot_release(release, **options)
    write = {"markdown": tables.table_markdown, "latex": tables.table_latex, "html": tables.table_html}[name]
    return write(answer_table(release))


def _plot_strategy(strategy: Strategy, *arguments: Any, **options: Any) -> Any:
    from dpnotebook.notebook.cards.strategy import plot_strategy

    return plot_strategy(strategy, *arguments, **options)


def _dashboard(session: Session) -> Any:
    from dpnotebook.notebook.dashboard.dashboard import dashboard

    return dashboard(session)


def _report(session: Session, *arguments: Any, **options: Any) -> Any:
    from dpnotebook.notebook.report.publish import publish

    return publish(session, *arguments, **options)


def _workbench(session: Session, table: str | None) -> Any:
    from dpnotebook.notebook.workbench.workbench import workbench

    return workbench(session, table)


def _budget_planner(session: Session, queries: tuple[Query, ...]) -> Any:
    from dpnotebook.notebook.workbench.budget_planner import BudgetPlanner

    return BudgetPlanner(session, queries)


def _watched() -> AbstractContextManager[Progress]:
    from dpnotebook.notebook import interactive, progress

    return progress.watched() if interactive.shell() is not None else unwatched()

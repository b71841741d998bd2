"""How queries, plans, releases and sessions look: text and HTML, attached here so that nothing below knows Jupyter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from dpnotebook.errors import DPError
from dpnotebook.planner.plan import Plan
from dpnotebook.progress import Progress, show_with, unwatched
from dpnotebook.session.offer import Offer
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.session.session import Session
from dpnotebook.session.views import register_view
from dpnotebook.strategy import Strategy


def attach() -> None:
    """Give the objects of the lower layers a text form and a rich form, and long work a progress bar."""
    _show(Plan, lambda plan: plan, "plan")
    _show(Query, lambda query: query.plan, "plan")
    _show(Release, lambda release: release, "release")
    _show(Offer, _listed, "offer")
    _show(Strategy, lambda strategy: strategy, "strategy")
    _show(Session, lambda session: session, "budget")
    Query._ipython_display_ = _show_with_controls  # type: ignore[attr-defined]
    Strategy.plot = _plot_strategy  # type: ignore[attr-defined]
    for name in ("plot", "markdown", "latex", "html"):
        register_view(name, partial(_release_view, name))
    register_view("dashboard", _dashboard)
    show_with(_watched)


def _release_view(name: str, release: Release, **options: Any) -> Any:
    from dpnotebook.notebook.plots.views import VIEWS

    return VIEWS[name](release, **options)


def _dashboard(session: Session) -> Any:
    from dpnotebook.notebook.dashboard.dashboard import dashboard

    return dashboard(session)


def _show_with_controls(shown: Query) -> None:
    from dpnotebook.notebook import controls

    controls.show(shown)


def _listed(offer: Offer) -> Any:
    from dpnotebook.notebook.cards.offer import listed

    return listed(offer)


def _plot_strategy(self: Strategy, *args: Any, **options: Any) -> Any:
    """Return a plotly figure of what is measured, or of the error of every answer; see `plot_strategy`."""
    from dpnotebook.notebook.cards.strategy import plot_strategy

    return plot_strategy(self, *args, **options)


def _watched() -> AbstractContextManager[Progress]:
    from dpnotebook.notebook import interactive, progress

    return progress.watched() if interactive.shell() is not None else unwatched()


def _show(kind: type, what: Callable[[Any], Any], card: str) -> None:
    def text(self: Any) -> str:
        from dpnotebook.notebook import cards

        try:
            return str(getattr(cards, f"{card}_text")(what(self)))
        except DPError as error:  # as of a closed session: a repr is also read by whoever looks for the reason
            return f"<{type(self).__name__}: {error}>"

    def bundle(self: Any, include: object = None, exclude: object = None) -> dict[str, str]:
        from dpnotebook.notebook import cards

        shown = what(self)
        return {
            "text/plain": str(getattr(cards, f"{card}_text")(shown)),
            "text/html": str(getattr(cards, f"{card}_html")(shown)),
        }

    kind.__repr__ = text  # type: ignore[method-assign,assignment]
    kind._repr_mimebundle_ = bundle  # type: ignore[attr-defined]

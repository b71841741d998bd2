"""Which way a statement is answered, as the ledger stands: by the planner, by itself, or by what was paid before."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnotebook.errors import DPError

if TYPE_CHECKING:
    from dpnotebook.query.question import Accuracy
    from dpnotebook.session.query import Query


class Route:
    """Which way a statement is answered, decided anew whenever the ledger is another.

    So a query that is kept costs and answers what the same statement would that is written now.

    Parameters
    ----------
    decide
        Gives the query that answers the statement, for the accuracy and the freshness of a query, and with its route.
    state
        Gives in which state the ledger is.
    """

    def __init__(self, decide: Callable[[Accuracy, bool, Route | None], Query], state: Callable[[], Hashable]) -> None:
        self._decide, self._state = decide, state
        self._written: Hashable = None
        self._latest: tuple[Hashable, Query, Query] | None = None

    def first(self, accuracy: Accuracy, fresh: bool) -> Query:
        """Return the query as it is written."""
        self._written = self._state()
        return self._decide(accuracy, fresh, self)  # the very query whose plan was looked at, so that it is made once

    def __call__(self, query: Query) -> Query:
        """Return the query that answers another one now: itself where nothing has changed."""
        state, latest = self._state(), self._latest
        if state == self._written:
            return query
        if latest is not None and latest[0] == state and latest[1] is query:
            return latest[2]
        try:
            now = self._decide(query.accuracy, query.fresh, None)
        except DPError:
            return query  # it is told where that is planned
        same = type(now.question) is type(query.question) and now.question.key == query.question.key
        same = same and now.look is None and query.look is None
        # Without the route: what it leads to holds for this state only, and must not be held by what holds it.
        routed = (
            query if same else replace(query, question=now.question, statement=now.statement, look=now.look, route=None)
        )
        self._latest = state, query, routed
        return routed

"""A story: what is asked, one after the other, of one session; and all stories by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dpnotebook as dpn

PURE, GAUSSIAN = dpn.Budget(60.0), dpn.Budget(60.0, 1e-5)
THRESHOLDS = dpn.Budget(60.0, 1e-5, noise="laplace")


@dataclass(frozen=True)
class Story:
    """Questions to one session, in order.

    Parameters
    ----------
    name
        Of its golden file.
    budget
        Of the session.
    protect
        Protects tables in a session and returns the one that is asked.
    steps
        By name: takes the session and the table, and returns a query to be planned and run, or anything to be shown.
    alone
        Whether each step has a session of its own.
    planner
        Of the session.
    dialects
        Whether what DuckDB is asked is frozen in the words of PostgreSQL and Spark as well.
    html
        Whether cards are kept as HTML, and not as a digest of it.
    """

    name: str
    budget: dpn.Budget
    protect: Callable[[dpn.Session], Any]
    steps: dict[str, Callable[[dpn.Session, Any], Any]] = field(repr=False)
    alone: bool = False
    planner: str = "optimal"
    dialects: bool = False
    html: bool = False


def all_stories():
    """Return every story by its name."""
    from golden import history, refused, statements, strategies, verbs

    found = [*verbs.STORIES, *history.STORIES, *statements.STORIES, *strategies.STORIES, *refused.STORIES]
    return {story.name: story for story in found}

"""What a strategy makes least: the squared errors of all answers together, or the error of the worst answer."""

from __future__ import annotations

from typing import Literal

from dpnotebook.errors import AccuracyError, shorten

Objective = Literal["total", "worst"]


def checked_objective(objective: object) -> Objective:
    """Return the objective.

    Raises
    ------
    AccuracyError
        If there is no such objective.
    """
    if isinstance(objective, str) and objective == "worst":
        return "worst"
    if isinstance(objective, str) and objective == "total":
        return "total"
    raise AccuracyError(
        'objective= is "total" (the squared errors of all answers together) or "worst" (the error of the worst), '
        f"not {shorten(objective)}"
    )

"""What the answers of a plan will be worth: worked out as they are when they are recorded, but without noise.

Bounds by which ways to answer are compared are never too small, and up to a fifth too wide for sums of Laplace noise:
a sum of many draws does not reach as far as one draw of its variance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpnotebook.planner.answers import Estimates, Floats, QuantileAnswers
from dpnotebook.planner.combining import OverAll, Promise, combined
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.problem import Option, PlanningProblem
from dpnotebook.planner.supposed import Supposed
from dpnotebook.query.question import Accuracy


def delivered(problem: PlanningProblem, option: Option, accuracy: Accuracy) -> tuple[Floats, float, Floats] | None:
    """Return how wrong the answers will be if a way is taken.

    Parameters
    ----------
    problem
        The question and what is known.
    option
        What is measured, with bounds on the errors.
    accuracy
        What was asked for.

    Returns
    -------
    Standard errors, of what a card tells; the half-width of the worst answer; half-widths of all, shape (answers,).
    None where no answer follows that is as good as was asked.
    """
    law, confidence, linear = problem.law, accuracy.confidence, problem.linear

    def own() -> Estimates | None:
        scale = next((item.scale for item in option.items if item.strategy is not None), None)
        return None if scale is None else linear.with_errors(np.zeros(linear.factors.size), law, scale, confidence)

    also, asked = _asked(problem, option)
    said = float(option.std_errors.max(initial=0.0)), option.half_width
    weighted = accuracy.error if accuracy.by_part else None
    for promise in (Promise.of(problem.question, said, weighted), Promise.of(problem.question, weighted=weighted)):
        found = combined(
            problem.history, problem.question, confidence, promise, also, own, alone=option.own, asked=asked
        )
        if found is not None:
            errors, widths = found.estimates.std_error, (found.estimates.upper - found.estimates.lower) / 2
            told = problem.answer.worst(errors) if isinstance(problem.answer, QuantileAnswers) else errors
            return told, float(np.max(widths, initial=0.0)), widths
    return None


def _asked(problem: PlanningProblem, option: Option) -> tuple[Supposed, OverAll | None]:
    """Return what is supposed to be measured, and the question over all; without another block if it can."""
    also, quick = problem.quickly_beside(option.items)
    if quick is not None:
        return also, quick
    also, found = problem.beside(option.items, over_atoms=False)
    if option.items and isinstance(found, InClosedForm):
        found = replace(found, supposed=True)
    return also, found

"""Where the slider for epsilon or for the error stops: round numbers, evenly spaced on a logarithmic scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting

if TYPE_CHECKING:
    from dpnotebook.planner.plan import Plan

# Ten in every factor of ten, in numbers that a person would type.
STOPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
REACH = 10.0  # of the errors on offer: so many times less and more than the plan's own
LEAST = 1e-3  # where nothing has a price: what is free can still be asked anew, for this and more


def stops(plan: Plan, left: float) -> list[float]:
    """Return the epsilons on the slider: round numbers around the plan's own, up to what the budget allows.

    Parameters
    ----------
    plan
        The plan as it was asked for; its own epsilon is a stop, affordable or not.
    left
        What a single further query could take; with parallel composition a query may take more than that.
    """
    own = plan.epsilon
    priced = [epsilon for epsilon in (own, *(other.epsilon for other in plan.alternatives)) if epsilon > 0]
    least = min(priced, default=LEAST) / 5
    affordable = [other.epsilon for other in plan.alternatives if other.affordable]
    most = max(*affordable, own, float(formatting.left(left).replace(",", "")), least)
    found = {most}
    for decade in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        found |= {float(f"{stop}e{decade}") for stop in STOPS}
    return sorted({own} | {epsilon for epsilon in found if least <= epsilon <= most and not _close(epsilon, own)})


def errors(plan: Plan) -> list[float]:
    """Return the errors on the slider: round numbers around the plan's own, which is one of them."""
    own, place = plan.error, math.floor(math.log10(plan.error))
    found = [float(f"{stop}e{power}") for power in range(place - 2, place + 3) for stop in STOPS]
    return sorted({own} | {error for error in found if own / REACH <= error <= own * REACH and not _close(error, own)})


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.02)

"""Among strategies, the one whose worst answer is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy.product import BETTER
from dpnotebook.strategy.strategy import Strategy


def best_worst(strategies: Iterable[Strategy]) -> Strategy:
    """Return the first strategy that has no worse worst answer than any other, with the largest bound of all."""
    best: Strategy | None = None
    bound = 0.0
    for found in strategies:
        if found.chosen_for == "worst":
            bound = max(bound, found.certificate)
        if best is None or found.worst < best.worst * BETTER:
            best = found
    if best is None:
        raise WorkloadError("no strategy that is known here answers this workload")
    return replace(best, certificate=max(bound, best.worst_bound), chosen_for="worst")


def if_possible(make: Callable[[], Strategy]) -> Iterator[Strategy]:
    """Yield what is made for the worst answer, or nothing where the workload is too large for it."""
    try:
        strategy = make()
        if math.isfinite(strategy.worst):
            yield strategy
    except WorkloadError:
        return

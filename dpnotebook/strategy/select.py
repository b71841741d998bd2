"""Choose what to measure for a workload: the strategy of least expected error among those that apply."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from dpnotebook.inference.inverse import is_direct
from dpnotebook.privacy.accountant import Noise
from dpnotebook.strategy.baselines import identity, operator_name, same_attributes
from dpnotebook.strategy.product import BETTER, library_choice, product_operator
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.union import union_operator
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import Term, terms


@lru_cache(maxsize=256)
def select(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the best strategy known here for a workload; the answer is kept, so asking again is free.

    In each attribute the identity, the queries themselves and every hierarchy compete by exact expected error. A union
    of several products is answered by one product strategy, or by one a part with the budget split between them, with
    least squares over all of them where the domain is small enough for its error to be known.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" for a pure budget, "gaussian" for one with a delta.
    """
    best: Strategy | None = None
    for candidate in _candidates(workload, noise):
        if best is None or candidate.objective < best.objective * BETTER:
            best = candidate
    assert best is not None
    return best


def _candidates(workload: Workload, noise: Noise) -> Iterator[Strategy]:
    parts = terms(workload)
    if same_attributes(parts):
        operator = product_operator(parts, library_choice(noise))
        yield Strategy(workload, operator, noise, operator_name(operator, workload))
    else:
        yield identity(workload, noise)
    if len(parts) == 1:
        return
    operators = [_part_operator(part, noise) for part in parts]
    union = union_operator(parts, operators, noise)
    direct = is_direct(workload) and is_direct(union)
    yield Strategy(workload, union, noise, "one strategy a part", split=not direct)
    if is_direct(workload) and workload.integer:
        yield Strategy(workload, workload, noise, "workload itself")


def _part_operator(part: Term, noise: Noise) -> Workload:
    return select(part.product, noise).operator

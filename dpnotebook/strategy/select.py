"""Choose what to measure for a workload: the strategy of least expected error among those that apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct
from dpnotebook.privacy.accountant import Noise
from dpnotebook.progress import Progress, silent, watched
from dpnotebook.strategy.baselines import identity, operator_name, same_attributes
from dpnotebook.strategy.explicit import NEARLY, Effort, explicit_choice, opt_0
from dpnotebook.strategy.product import BETTER, product_operator
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.union import union_operator
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import Term, terms

OPTIMISED_CELLS = 4096  # of a workload over one attribute: minutes for Laplace noise


@lru_cache(maxsize=256)
def select(workload: Workload, noise: Noise = "laplace", effort: Effort = "full") -> Strategy:
    """Return the best strategy known here for a workload; the answer is kept, so asking again is free.

    In each attribute the identity, the queries themselves, every hierarchy and the optimised strategies of OPT_0
    compete by exact expected error. A union of several products is answered by one product strategy, or by one a part
    with the budget split between them, with least squares over all of them where the domain is small enough for its
    error to be known.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" for a pure budget, "gaussian" for one with a delta.
    effort
        "full": as good as is known here; a workload over one attribute of 1,024 cells takes seconds, of 4,096 minutes.
        "quick": without optimisation, for an answer at once.

    Raises
    ------
    WorkloadError
        If noise or effort is not one of these.
    """
    if effort not in ("quick", "full"):
        raise WorkloadError(f'the effort of select is "quick" or "full", not {effort!r}')
    if effort == "quick":
        return _best(_candidates(workload, noise, effort, silent))
    with watched() as report:
        return _best(_candidates(workload, noise, effort, report))


def _best(candidates: Iterator[Strategy]) -> Strategy:
    best: Strategy | None = None
    certificate = 0.0
    for candidate in candidates:
        certificate = max(certificate, candidate.certificate)
        if best is None or candidate.objective < best.objective * BETTER:
            best = candidate
    assert best is not None
    return best if best.certificate == certificate else replace(best, certificate=certificate)


def _candidates(workload: Workload, noise: Noise, effort: Effort, report: Progress) -> Iterator[Strategy]:
    parts = terms(workload)
    if same_attributes(parts):
        # One attribute alone is optimised below, at full precision.
        inner: Effort = effort if len(parts[0].sizes) > 1 else "quick"
        operator = product_operator(parts, explicit_choice(noise, inner, report))
        simple = Strategy(workload, operator, noise, operator_name(operator, workload))
    else:
        simple = identity(workload, noise)
    yield simple
    n = workload.shape[1]
    alone = all(len(part.sizes) == 1 for part in parts) and 1 < n <= OPTIMISED_CELLS
    if effort == "full" and alone and simple.objective > simple.bound * NEARLY:
        yield opt_0(workload, noise, report=report)
    if len(parts) == 1:
        return
    operators = [_part_operator(part, noise, effort, report) for part in parts]
    union = union_operator(parts, operators, noise)
    direct = is_direct(workload) and is_direct(union)
    yield Strategy(workload, union, noise, "one strategy a part", split=not direct)
    if is_direct(workload) and workload.integer:
        yield Strategy(workload, workload, noise, "workload itself")


def _part_operator(part: Term, noise: Noise, effort: Effort, report: Progress) -> Workload:
    return product_operator([part], explicit_choice(noise, effort, report))

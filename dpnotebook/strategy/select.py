"""Choose what to measure for a workload: the strategy of least error, of all answers or the worst, among all."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.privacy.laws import LAWS, Noise
from dpnotebook.progress import silent, watched
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.catalogue import candidates_of_this_package, made
from dpnotebook.strategy.explicit import Effort
from dpnotebook.strategy.hdmm import ANSWERS, best_of, tried
from dpnotebook.strategy.registry import REGISTERED, registered_strategies
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.worst_case import all_alike, tried_for_worst
from dpnotebook.workload import AllRange, Permuted, Prefix, Workload
from dpnotebook.workload.terms import sparse_terms, terms

# Times a bound: no strategy of others is looked at. That of the worst answer is proved to half a percent.
CERTAIN, CERTAIN_WORST = 1.0001, 1.01
FEW_CELLS, SEARCHED = 64, 256  # cells of ranges, and of other queries, up to which the searches of others take seconds

WRITTEN = 2**24  # entries of queries of reordered cells, which others would measure in the order that they have
# Tried already, or like COA another way to the same optimum.
ALONG = 100_000  # levels of an attribute, up to which those of others that look at every branching are tried
OWN = ("opt_0", "opt_product", "opt_union", "opt_marginals", "opt_residual", "coa")
# These measure as many numbers as there are cells, or more: too many of them are left out, whatever their error.
WHOLE = ("identity", "h2", "hb", "wavelet", "hierarchical", "toeplitz", "greedy_h")


def select(
    workload: Workload, noise: Noise = "laplace", effort: Effort = "full", *, objective: Objective = "total"
) -> Strategy:
    """Return the best strategy known here, or registered, for a workload; it is kept, so asking again is free.

    In each attribute the identity, the queries themselves, every hierarchy and the optimised strategies of OPT_0
    compete by exact expected error. Several attributes are measured by one product, by one strategy for each part of a
    union, by weighted marginals, or by residuals of subsets of the attributes, whichever is best (`opt_hdmm`).

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" for a pure budget, "gaussian" for one with a delta.
    effort
        "full": as good as is known here; a workload over one attribute of 1,024 cells takes seconds, of 4,096 minutes.
        "quick": in a moment; optimised too where an attribute has up to 512 cells, or running counts for Laplace noise
        up to 2,048. Registered strategies are not tried, because nobody knows how long they take.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight, which is what an error that is promised for every answer costs.

    Raises
    ------
    WorkloadError
        If noise or effort is not one of these.
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> found = strategy.select(AllRange(64), "laplace", "quick")
    >>> found.rmse(epsilon=1.0) < strategy.hb(AllRange(64)).rmse(epsilon=1.0)
    True
    >>> worst = strategy.select(AllRange(64), "laplace", "quick", objective="worst")
    >>> worst.worst_error(epsilon=1.0) < found.worst_error(epsilon=1.0)
    True
    """
    worst = checked_objective(objective) == "worst"
    own = select_own(workload, noise, effort, "worst") if worst else select_own(workload, noise, effort)
    if effort != "full" or not REGISTERED:
        return own
    others = registered_strategies(workload, noise)
    return best_worst([own, *others]) if worst else best_of([own, *others])


@lru_cache(maxsize=256)
def select_own(
    workload: Workload, noise: Noise = "laplace", effort: Effort = "full", objective: Objective = "total"
) -> Strategy:
    """Return the best strategy of this package for a workload: what verbs plan with, whatever is registered.

    Parameters
    ----------
    workload, noise, effort, objective
        As for `select`.
    """
    if noise not in tuple(LAWS):
        raise WorkloadError(f'the noise of a strategy is "laplace" or "gaussian", not {shorten(noise)}')
    if effort not in ("quick", "full"):
        raise WorkloadError(f'the effort of select is "quick" or "full", not {shorten(effort)}')
    found = sparse_terms(workload)
    threads = threads_for(workload.shape[1] if found is None else max(found[0]))
    with threads, nullcontext(silent) if effort == "quick" else watched() as report:
        if objective == "total":
            best = best_of(tried(workload, noise, effort, 0, report))
            near = best.objective <= best.bound * CERTAIN
            return best if near or effort == "quick" else best_of([best, *_competitors(workload, noise)])
        total = select_own(workload, noise, effort)
        if all_alike(workload):
            return total
        best = best_worst([total, *tried_for_worst(workload, total, effort, report)])
        near = best.worst <= best.worst_bound * CERTAIN_WORST
        return best if near or effort == "quick" else best_worst([best, *_competitors(workload, noise)])


@lru_cache(maxsize=64)
def _competitors(workload: Workload, noise: Noise) -> tuple[Strategy, ...]:
    """Return the strategies of others that suit the workload, for where nothing proves that they cannot be better.

    Their searches are for queries of no common form: of running counts and ranges ours are far ahead.
    """
    products = sparse_terms(workload)
    if max(workload.shape[1:] if products is None else products[0]) > ALONG:
        return ()
    parts = terms(workload) if products is None else products[1]  # marginals of many attributes are not expanded
    factors = [factor for part in parts for factor in part.factors]
    if any(isinstance(one, Permuted) and one.shape[0] * one.shape[1] > WRITTEN for one in factors):
        return ()
    inner = workload.workload if isinstance(workload, Permuted) else workload
    searched = workload.shape[1] <= (FEW_CELLS if isinstance(inner, Prefix | AllRange) else SEARCHED)
    countable = products is None or math.prod(products[0]) <= ANSWERS
    found = []
    with watched() as report:
        for candidate in candidates_of_this_package(workload, noise):
            if (candidate.optimized and not searched) or candidate.name in OWN:
                continue
            if candidate.name in WHOLE and not countable:
                continue
            try:
                found.append(made(candidate, workload, noise, report=report))
            except WorkloadError:
                continue
    return tuple(found)

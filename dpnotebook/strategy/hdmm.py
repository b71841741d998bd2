"""OPT_HDMM: every optimization operator that suits a workload, and the strategy of least expected error among theirs.

Source: HDMM, section 9: which operator is best depends on the workload, and choosing costs no privacy: all are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct
from dpnotebook.privacy.accountant import Noise
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.baselines import identity
from dpnotebook.strategy.lattice import is_lattice
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.product import Choice, library_choice
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import sparse_terms

SIMPLER = 0.999  # a strategy that comes later in the list must have less than this share of an earlier one's objective
MANY_PARTS = 1000  # products of a union that are answered one by one
ANSWERS = 2**28  # noisy answers that fit in memory: 2 GiB


def opt_hdmm(workload: Workload, noise: Noise = "laplace", *, restarts: int = 0, report: Progress = silent) -> Strategy:
    """Return the best strategy of all operators that suit the workload.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".
    restarts
        Random starts of every operator besides its own.
    report
        Told of progress; may raise to stop.

    Returns
    -------
    The strategy of least expected error; among those within 0.05% of each other the simplest. Its name says what it
    measures, and `compare` gives all that were tried.
    """
    return best_of(compare(workload, noise, restarts=restarts, report=report))


def compare(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    choose: Choice | None = None,
    restarts: int = 0,
    report: Progress = silent,
) -> list[Strategy]:
    """Return the strategy of every operator that suits the workload, least expected error first.

    Parameters
    ----------
    workload, noise, restarts, report
        As for `opt_hdmm`.
    choose
        How an attribute's operator is chosen; OPT_0 and all that have a name, unless given.
    """
    found = list(tried(workload, noise, choose or library_choice(noise), restarts, report))
    return sorted(found, key=lambda strategy: strategy.objective)


def tried(workload: Workload, noise: Noise, choose: Choice, restarts: int, report: Progress) -> Iterator[Strategy]:
    """Yield the strategy of every operator that suits the workload, simple ones first."""
    found = sparse_terms(workload)
    if found is None:
        yield identity(workload, noise)
    parts = 2 if found is None else len(found[1])
    if found is not None:
        yield from _made(lambda: opt_product(workload, noise, choose=choose, restarts=restarts, report=report))
    if 1 < parts <= MANY_PARTS:
        yield from _made(lambda: opt_union(workload, noise, choose=choose, report=report))
        if is_direct(workload) and workload.integer:
            yield Strategy(workload, workload, noise, "workload itself")
    if found is not None and len(found[0]) > 1 and is_lattice(found[1]):
        if noise == "gaussian":
            yield from _made(lambda: opt_residual(workload, report=report))
        else:
            yield from _made(lambda: opt_marginals(workload, noise, choose=choose, restarts=restarts, report=report))


def best_of(strategies: list[Strategy]) -> Strategy:
    """Return the strategy of least error; where others are as good but for rounding, the one that measures least.

    Strategies with more noisy answers than fit in memory are left out, unless there is no other.
    """
    possible = [strategy for strategy in strategies if strategy.operator.shape[0] <= ANSWERS] or strategies
    least = min(strategy.objective for strategy in possible)
    close = [strategy for strategy in possible if strategy.objective * SIMPLER <= least]
    return min(close, key=lambda strategy: strategy.operator.shape[0])


def _made(make: Callable[[], Strategy]) -> Iterator[Strategy]:
    """Yield what an operator makes, nothing where it cannot be made or does not answer the workload."""
    try:
        strategy = make()
        if strategy.objective < float("inf"):
            yield strategy
    except WorkloadError:
        return

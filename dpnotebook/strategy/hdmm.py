"""OPT_HDMM: every optimization operator that suits a workload, and the strategy of least expected error among theirs.

Source: HDMM, section 9: which operator is best depends on the workload, and choosing costs no privacy: all are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.baselines import identity, operator_name
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.competitors.lrm import lrm
from dpnotebook.strategy.explicit import (
    FACTOR_CELLS,
    FLAT_CELLS,
    NEARLY,
    Effort,
    explicit_choice,
    opt_0,
    optimised,
    product_certificate,
)
from dpnotebook.strategy.lattice import is_lattice
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.product import BETTER, Choice
from dpnotebook.strategy.registry import registered_strategies
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.worst_case import all_alike, tried_for_worst
from dpnotebook.workload import Identity, Stack, Workload
from dpnotebook.workload.terms import SparseTerm, sparse_terms, terms

FEW_QUERIES = 8  # times fewer queries than cells: there, low rank wins
LOW_RANK_CELLS = 128  # and takes seconds
MANY_PARTS = 200  # products of a union that are answered one by one
QUICK_PARTS = 50  # where there is no time
QUICK_CELLS, QUICK_PRODUCT_CELLS = 128, 64  # of an attribute whose residual is optimised where there is no time
LARGEST_NORM = {"laplace": 2**46, "gaussian": 2**60}  # noise has fewer than 2^53 steps from epsilon = 0.01 on
ANSWERS = 2**28  # noisy answers that fit in memory: 2 GiB
MOMENT_CELLS = 256  # up to which the optimum for Gaussian noise is found in tenths of a second
NEAREST = 1.00002  # times the bound: what rounding the optimum to integers costs, and no search gets below
REACHED = 1 + 1e-9  # times the bound: nothing can be better
OPTIMISED_CELLS = 4096  # of a workload over one attribute: minutes for Laplace noise


def opt_hdmm(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    restarts: int = 0,
    objective: Objective = "total",
    report: Progress = silent,
) -> Strategy:
    """Return the best strategy of all operators that suit the workload.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".
    restarts
        Random starts of every operator besides its own.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight.
    report
        Told of progress; may raise to stop.

    Returns
    -------
    The strategy of least expected error. Its name says what it measures; `compare` gives all that were tried.

    Raises
    ------
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> found = strategy.opt_hdmm(marginals((2, 5, 50), 2), "gaussian")
    >>> found.name, round(found.optimality, 3)
    ('residuals of 7 subsets of the attributes', 1.0)
    """
    worst = checked_objective(objective) == "worst"
    total = best_of(tried(workload, noise, "full", restarts, report))
    if not worst or all_alike(workload):
        return total
    return best_worst([total, *tried_for_worst(workload, total, "full", report)])


def compare(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    restarts: int = 0,
    objective: Objective = "total",
    report: Progress = silent,
) -> list[Strategy]:
    """Return the strategy of every operator that suits the workload, and of all registered, least expected error first.

    Parameters
    ----------
    workload, noise, restarts, objective, report
        As for `opt_hdmm`; for the worst answer, those that are made for it are among them.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> for found in strategy.compare(marginals((2, 5, 50), 2), "gaussian"):
    ...     print(f"{found.rmse(epsilon=1.0, delta=1e-6):6.2f}  {found.name}")
      5.86  residuals of 7 subsets of the attributes
      5.91  one strategy a part
      6.67  identity and total x identity and total x identity and total
      6.72  workload itself
    """
    worst = checked_objective(objective) == "worst"
    own = list(tried(workload, noise, "full", restarts, report))
    found = [*own, *registered_strategies(workload, noise)]
    if not worst:
        return sorted(found, key=lambda strategy: strategy.objective)
    if not all_alike(workload):
        found += tried_for_worst(workload, best_of(own), "full", report)
    return sorted(found, key=lambda strategy: strategy.worst)


def best_of(strategies: Iterable[Strategy]) -> Strategy:
    """Return the first strategy that no other is better than, with the largest certificate of all.

    Strategies with more noisy answers than fit in memory, or so large a sensitivity that noise would not fit in whole
    numbers, are left out, unless there is no other. A strategy that meets the bound ends the search.
    """
    best: Strategy | None = None
    certificate = 0.0
    for found in strategies:
        certificate = max(certificate, found.certificate)
        fits, fitted = _fits(found), best is not None and _fits(best)
        if best is None or (fits and not fitted) or (fits == fitted and found.objective < best.objective * BETTER):
            best = found
        if fits and best.objective <= best.bound * REACHED:
            break
    if best is None:
        raise WorkloadError("no strategy that is known here answers this workload")
    return best if best.certificate == certificate else replace(best, certificate=certificate)


def _fits(strategy: Strategy) -> bool:
    return strategy.operator.shape[0] <= ANSWERS and strategy.norm <= LARGEST_NORM[strategy.noise]


def tried(
    workload: Workload, noise: Noise, effort: Effort, restarts: int = 0, report: Progress = silent
) -> Iterator[Strategy]:
    """Yield the strategy of every operator that suits the workload, simple ones first, and last what takes all cells.

    Parameters
    ----------
    workload, noise, restarts, report
        As for `opt_hdmm`.
    effort
        "quick": nothing that takes more than a moment. "full": as good as is known here.
    """
    least = bound = 0.0
    for found in _by_form(workload, noise, effort, restarts, report):
        least = found.objective if not least else min(least, found.objective)
        bound = max(bound, found.bound)
        yield found
    several = len(terms(workload)[0].sizes) > 1 or sparse_terms(workload) is None
    union = len(terms(workload)) > 1  # a product is measured by the best of its factors
    if several and union and workload.shape[1] <= FLAT_CELLS[noise, effort] and least > bound * NEARLY:
        yield from _possible(lambda: flat(workload, noise, effort, restarts, report))


def flat(workload: Workload, noise: Noise, effort: Effort, restarts: int = 0, report: Progress = silent) -> Strategy:
    """Return what a search over all cells at once finds, whatever attributes they are made of."""
    if effort == "full":
        return opt_0(workload, noise, restarts=restarts, report=report)
    operator, certificate = optimised(((1.0, workload),), workload.gram().astype(float), noise, effort, report)
    return Strategy(workload, operator, noise, operator_name(operator, workload), certificate=certificate)


def _by_form(workload: Workload, noise: Noise, effort: Effort, restarts: int, report: Progress) -> Iterator[Strategy]:
    found = sparse_terms(workload)
    choose = explicit_choice(noise, effort, report)
    if found is None:
        yield identity(workload, noise)
        yield from _union(workload, noise, len(terms(workload)), effort, choose, report)
        return
    sizes, parts = found
    if len(sizes) == 1:
        yield from _alone(workload, noise, effort, restarts, report)
        yield from _union(workload, noise, len(parts), effort, choose, report)
        return
    marginal = is_lattice(parts)
    begin: Sequence[Workload] = ()
    used = {axis for part in parts for axis in part.axes}
    widest = _widest(parts)
    limit = FACTOR_CELLS if effort == "full" else QUICK_CELLS if len(parts) > 1 else QUICK_PRODUCT_CELLS
    residual = marginal and law_of(noise).euclidean and widest <= limit
    weighted = marginal and not law_of(noise).euclidean
    small = math.prod(sizes[axis] for axis in used) <= ANSWERS
    if len(parts) == 1 or small or not (residual or weighted):
        simple = opt_product(workload, noise, choose=choose, restarts=restarts, report=report)
        begin = terms(simple.operator)[0].factors
        yield _certified(simple, effort, report)
    if effort == "full" or not (residual or weighted):
        yield from _union(workload, noise, len(parts), effort, choose, report)
    if residual:
        yield from _possible(lambda: opt_residual(workload, report=report))
    if weighted:
        # Operators of one product for all, where some part is over all attributes, are another beginning.
        operators = []
        if begin and max(len(part.axes) for part in parts) == len(used):
            operators = [begin[axis] if axis in used else Identity(n) for axis, n in enumerate(sizes)]
        # One product has its operators already: what remains are the weights.
        given = operators if len(parts) == 1 and widest else None
        yield from _possible(
            lambda: opt_marginals(
                workload, noise, factors=given, choose=choose, begin=operators, restarts=restarts, report=report
            )
        )


def _possible(make: Callable[[], Strategy]) -> Iterator[Strategy]:
    """Yield what an operator makes, or nothing where the workload is too large for it."""
    try:
        strategy = make()
        if strategy.objective < float("inf"):
            yield strategy
    except WorkloadError:
        return


def _alone(workload: Workload, noise: Noise, effort: Effort, restarts: int, report: Progress) -> Iterator[Strategy]:
    """Yield strategies for queries of one attribute."""
    simple = opt_product(workload, noise, choose=explicit_choice(noise, "quick", report), report=report)
    simple = _certified(simple, "quick", report)
    yield simple
    enough = NEAREST if law_of(noise).euclidean and workload.shape[1] <= MOMENT_CELLS else NEARLY
    if effort == "full" and 1 < workload.shape[1] <= OPTIMISED_CELLS and simple.objective > simple.bound * enough:
        yield opt_0(workload, noise, restarts=restarts, report=report)
        queries, cells = workload.shape
        if not law_of(noise).euclidean and queries * FEW_QUERIES <= cells <= LOW_RANK_CELLS:
            yield from _possible(lambda: lrm(workload, noise, report=report))


def _certified(strategy: Strategy, effort: Effort, report: Progress) -> Strategy:
    """Return the strategy with the bound that the optima of its attributes prove, for Gaussian noise."""
    if not strategy.law.euclidean:
        return strategy
    return replace(strategy, certificate=product_certificate(strategy.workload, effort, report))


def _union(
    workload: Workload, noise: Noise, parts: int, effort: Effort, choose: Choice, report: Progress
) -> Iterator[Strategy]:
    """Yield what measures the parts of a union one by one."""
    if 1 < parts <= (MANY_PARTS if effort == "full" else QUICK_PARTS):
        yield from _possible(lambda: opt_union(workload, noise, choose=choose, report=report))
        if is_direct(workload) and workload.integer:
            yield from _possible(lambda: Strategy(workload, workload, noise, "workload itself"))


def _widest(parts: Sequence[SparseTerm]) -> int:
    """Return the largest number of cells of an attribute that is asked for more than its levels and their total."""
    factors = [factor for part in parts for factor in part.factors]
    return max((factor.shape[1] for factor in factors if not isinstance(factor, Identity | Stack)), default=0)

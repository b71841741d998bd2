"""OPT_0: the best strategy for workloads over one attribute, from the Gram matrix alone.

Source: HDMM, section 4.3 (p-Identity strategies, for Laplace noise); for Gaussian noise, the optimum of the convex
problem of section 4.2 with its certificate (see `gaussian`). Strategies are rounded to integers and compared by their
exact error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.dense import UNSUPPORTED, DenseInverse
from dpnotebook.inference.inverse import total_variance
from dpnotebook.inference.woodbury import WoodburyInverse
from dpnotebook.privacy.laws import LAWS, Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.bounds import gram_bound, svd_bound
from dpnotebook.strategy.gaussian import gaussian_optimum, proved_bound
from dpnotebook.strategy.kept_optima import FoundOperator, kept
from dpnotebook.strategy.laplace import p_identity
from dpnotebook.strategy.merged_cells import merged
from dpnotebook.strategy.ordering import cells_in_order, permuted_operator, reordered
from dpnotebook.strategy.product import BETTER, Choice, library_choice, squared_sensitivity
from dpnotebook.strategy.rounding import PRECISE, l1_objective, rounded_gram, rounded_p_identity
from dpnotebook.strategy.running_laplace import is_running, running_counts
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.two_weights import two_weights
from dpnotebook.strategy.worst_explicit import worst_operator
from dpnotebook.workload import Explicit, Identity, PIdentity, Total, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import terms

Effort = Literal["quick", "full"]
Union = tuple[tuple[float, Workload], ...]  # squared weights and factors of one attribute

LARGEST = {"laplace": 8192, "gaussian": 4096}  # cells
QUICK_CELLS = 512  # of an attribute that is optimised while somebody waits for a plan
FACTOR_CELLS = 1024  # of an attribute of a product, which is optimised again and again
# Of several attributes together, over which all that could be measured is searched: half a minute, or a moment.
FLAT_CELLS: dict[tuple[Noise, Effort], int] = {
    ("gaussian", "full"): 2048,
    ("laplace", "full"): 1024,
    ("gaussian", "quick"): 256,
    ("laplace", "quick"): 256,
}
# Of the gap between a Gaussian strategy and its bound; over more than 1,024 cells an iteration takes half a minute.
TOLERANCE, ROUGH_TOLERANCE, QUICK_TOLERANCE = 2e-6, 3e-5, 1e-4
NEARLY = 1.001  # what is this near the SVD bound needs no optimisation
KEPT = 64  # optimised operators that are remembered

_found: dict[tuple[Union, Noise, Effort], tuple[Explicit | PIdentity, float]] = {}


def opt_0(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    p: int | None = None,
    restarts: int = 0,
    objective: Objective = "total",
    report: Progress = silent,
) -> Strategy:
    """Return an optimised strategy for a workload over one attribute.

    Parameters
    ----------
    workload
        What is to be answered, over up to 8,192 cells (Laplace noise) or 4,096 (Gaussian noise).
    noise
        "laplace": the best p-Identity strategy that descents from a few starts find. "gaussian": the optimum over all
        strategies, to 0.001% after rounding (0.003% beyond 1,024 cells), with its proof as the certificate.
    p
        Rows of the p-Identity besides the identity: n/16, or a few where n is small, unless given. Laplace noise only.
    restarts
        Descents from random starts as well, for Laplace noise and the total.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight; for Gaussian noise within 0.1% of the bound that is proved, 0.3% beyond 256 cells.
    report
        Called with the progress; it may raise to cancel.

    Raises
    ------
    WorkloadError
        If there are too many cells, or p or restarts is out of range; for the worst answer, if there are too many
        answers to weigh one by one.
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> found = strategy.opt_0(AllRange(64), "gaussian")
    >>> round(found.rmse(epsilon=1.0, delta=1e-6), 2)
    9.73
    >>> found.optimality < 1.0001  # with its proof
    True
    >>> worst = strategy.opt_0(AllRange(64), "gaussian", objective="worst")
    >>> worst.worst_error(epsilon=1.0, delta=1e-6) < found.worst_error(epsilon=1.0, delta=1e-6)
    True
    """
    worst = checked_objective(objective) == "worst"
    if noise not in tuple(LAWS):
        raise WorkloadError(f'the noise of a strategy is "laplace" or "gaussian", not {shorten(noise)}')
    n = workload.shape[1]
    if n > LARGEST[noise]:
        raise WorkloadError(
            f"optimising a strategy takes a dense {n:,} x {n:,} matrix again and again; up to {LARGEST[noise]:,} cells "
            "are possible. Use strategy.hierarchical(workload) or wider bins, or state attributes as factors of a Kron"
        )
    order = cells_in_order([workload])
    inner = workload if order is None else reordered(workload, order)
    # First, as it may be refused: what is best for all answers takes minutes where cells are many.
    made = worst_operator(inner, noise, bits=PRECISE, p=p, report=report) if worst else None
    gram = inner.gram().astype(float)
    if law_of(noise).euclidean:
        tolerance, name = TOLERANCE if n <= FACTOR_CELLS else ROUGH_TOLERANCE, "optimum for Gaussian noise"
        found = _kept(("whole",), gram, noise, lambda: _best_for_gaussian(gram, tolerance, PRECISE, report))
    else:

        def descend() -> FoundOperator:
            return FoundOperator(_best_for_laplace(gram, p, restarts, report))

        with threads_for(n):  # random starts are nobody else's
            found = descend() if restarts else _kept(("whole", str(p)), gram, noise, descend)
        name = _name(found.operator)

    def strategy(operator: Explicit | PIdentity, name: str, bound: float, chosen_for: Objective) -> Strategy:
        placed = operator if order is None else permuted_operator(operator, np.argsort(order))
        return Strategy(workload, placed, noise, name, certificate=bound, chosen_for=chosen_for)

    total = strategy(found.operator, name, found.bound, "total")
    if made is None:
        return total
    operator, bound = made
    name = "optimum of the worst answer for Gaussian noise" if law_of(noise).euclidean else _name(operator)
    return best_worst([total, strategy(operator, name, bound, "worst")])


def _name(operator: PIdentity | Explicit) -> str:
    if isinstance(operator, PIdentity):
        return f"p-Identity with {operator.extra.shape[0]:,} rows"
    return f"p-Identity over merged cells, {operator.shape[0]:,} rows"


def explicit_choice(noise: Noise, effort: Effort = "full", report: Progress = silent) -> Choice:
    """Return the choice, for one attribute of a product, of the best of the library's operators and OPT_0.

    Parameters
    ----------
    noise
        "laplace" or "gaussian".
    effort
        "full": OPT_0 for up to 1,024 cells. "quick": for one query factor over up to 512 cells, running counts for
        Laplace noise up to 2,048, and not to the end. Two weights where all factors are totals and identities, either
        way.
    report
        Called with the progress.
    """
    library = library_choice(noise)

    def choose(union: Sequence[tuple[float, Workload]]) -> Workload:
        if effort == "quick" and len(union) == 1 and is_running(union[0][1], noise):
            return running_counts(union[0][1].shape[1])  # no tree is near it
        simple = library(union)
        largest = max(weight for weight, _ in union)
        key = tuple((weight / largest, factor) for weight, factor in union)
        least = choice_error(simple, key, noise)
        for candidate in _candidates(key, noise, effort, least, report):
            error = choice_error(candidate, key, noise)
            if error < least * BETTER:
                simple, least = candidate, error
        return simple

    return choose


def product_certificate(workload: Workload, effort: Effort = "full", report: Progress = silent) -> float:
    """Return what no strategy's objective can be below with Gaussian noise, for a workload that is one product.

    The dual values of the factors multiply (their multipliers v make a Kronecker product), as their optima do: the
    product of optimal factors is optimal.

    Parameters
    ----------
    workload
        What is to be answered.
    effort
        As for `explicit_choice`.
    report
        Called with the progress.

    Returns
    -------
    |A|_2^2 |W A^+|_F^2 is at least this for every A; 0 for a union, where nothing follows from its parts, and where
    finding it would take longer than the effort allows.
    """
    parts = terms(workload)
    if len(parts) != 1:
        return 0.0
    bound = float(parts[0].weight) ** 2
    for factor in parts[0].factors:
        n = factor.shape[1]
        if isinstance(factor, Identity | Total) or n == 1 or (effort == "full" and n > FACTOR_CELLS):
            bound *= svd_bound(factor)  # of the first two, the optimum
        elif n > _cells(effort):
            return 0.0
        else:
            bound *= optimised(((1.0, factor),), factor.gram().astype(float), "gaussian", effort, report)[1]
    return bound


def choice_error(operator: Workload, union: Sequence[tuple[float, Workload]], noise: Noise) -> float:
    """Return |A|^2 |W A^+|_F^2 of an operator for a union of (squared weight, factor)."""
    variance = sum(weight * total_variance(operator, factor) for weight, factor in union)
    return squared_sensitivity(operator, noise) * variance


def _candidates(union: Union, noise: Noise, effort: Effort, least: float, report: Progress) -> list[Workload]:
    n = union[0][1].shape[1]
    flat = [(weight * float(term.weight) ** 2, term.factors) for weight, factor in union for term in terms(factor)]
    if all(len(factors) == 1 for _, factors in flat):
        simple = two_weights([(weight, factors[0]) for weight, factors in flat], noise)
        if simple is not None:
            return [simple]
    if not 1 < n <= _cells(effort) or (effort == "quick" and len(union) > 1):
        return []
    order = cells_in_order([factor for _, factor in union])
    union = tuple((weight, reordered(factor, order)) for weight, factor in union)
    gram = np.asarray(sum(weight * factor.gram().astype(float) for weight, factor in union))
    if least <= gram_bound(gram) * NEARLY:
        return []
    operator = optimised(union, gram, noise, effort, report)[0]
    return [operator if order is None else permuted_operator(operator, np.argsort(order))]


def _cells(effort: Effort) -> int:
    return FACTOR_CELLS if effort == "full" else QUICK_CELLS


def optimised(
    union: Union, gram: Array, noise: Noise, effort: Effort, report: Progress
) -> tuple[Explicit | PIdentity, float]:
    """Return the optimised operator for a union, and a lower bound on every operator's error (0 for Laplace noise)."""
    key = (union, noise, effort)
    if key not in _found:
        # A union comes again and again with other weights, while the rest of a strategy is chosen.
        single = len(union) > 1

        def search() -> FoundOperator:
            if law_of(noise).euclidean:
                return _best_for_gaussian(gram, TOLERANCE if effort == "full" else QUICK_TOLERANCE, None, report)
            if effort == "quick":
                (descent,) = p_identity(gram, quick=True, report=report)
                return FoundOperator(rounded_p_identity(descent.theta))
            return FoundOperator(_best_for_laplace(gram, None, 0, report, single=single))

        found = _kept(("factor", noise, effort, str(single)), gram, noise, search)
        _found[key] = found.operator, found.bound
        while len(_found) > KEPT:
            _found.pop(next(iter(_found)))
    return _found[key]


def _kept(asked: Sequence[str], gram: Array, noise: Noise, search: Callable[[], FoundOperator]) -> FoundOperator:
    """Return what a search for the workload with this Gram matrix finds, or found in another session."""

    def holds(found: FoundOperator) -> bool:
        law = law_of(noise)
        norm = float(found.operator.max_column_norm(law.power))
        objective = law.squared_sensitivity(norm) * _variance(found.operator, gram)
        if not law.euclidean:
            return math.isfinite(objective) and not found.bound
        # The multipliers prove a bound; what was kept is that bound, less what rounding may be.
        proved = proved_bound(gram, *found.proof)
        return found.bound <= min(proved, objective) and math.isfinite(objective)

    whole = np.ascontiguousarray(gram)
    with threads_for(len(gram)):
        return kept((*asked, str(whole.shape), whole.tobytes()), len(gram), search, holds)


def _variance(operator: Explicit | PIdentity, gram: Array) -> float:
    """Return |W A^+|_F^2 for the workload with this Gram matrix; infinite where A does not support it."""
    if isinstance(operator, PIdentity):
        return WoodburyInverse(operator).total_of_gram(gram)
    found = DenseInverse(operator)
    if found.outside is not None and np.vdot(gram, found.outside) > UNSUPPORTED * np.trace(gram):
        return math.inf
    return float(np.vdot(gram, found.matrix))


def _best_for_gaussian(gram: Array, tolerance: float, bits: int | None, report: Progress) -> FoundOperator:
    optimum = gaussian_optimum(gram, tolerance=tolerance, report=report)
    operator = rounded_gram(optimum.gram, gram, optimum.objective, bits)
    return FoundOperator(operator, optimum.lower, (optimum.v,))


def _best_for_laplace(
    gram: Array, p: int | None, restarts: int, report: Progress, *, single: bool = False
) -> PIdentity | Explicit:
    """Return the operator whose error is least after rounding: p-Identities, over merged cells where there are any."""
    smaller = merged(gram)
    found: list[tuple[float, PIdentity | Explicit]] = []
    if all(form.total for form in smaller):  # else one form is the same workload over fewer cells
        operator = _best_p_identity(gram, p, restarts, report, single)
        found.append((l1_objective(operator, gram), operator))
    for form in smaller:
        rows = None if p is None else min(p, len(form.gram))
        inner = _best_p_identity(form.gram, rows, restarts, report, single)
        matrix = inner.dense() @ form.signs
        norm, loss = float(inner.max_column_norm(1)), WoodburyInverse(inner).total_of_gram(form.gram)
        if form.total:
            weight = max(1, round(norm * (form.total / (loss * norm**2)) ** (1 / 3)))
            matrix = np.vstack([np.full((1, matrix.shape[1]), weight), matrix])
            norm, loss = norm + weight, loss + form.total / weight**2
        found.append((norm**2 * loss, Explicit(matrix)))
    return min(found, key=lambda pair: pair[0])[1]


def _best_p_identity(gram: Array, p: int | None, restarts: int, report: Progress, single: bool = False) -> PIdentity:
    descents = p_identity(gram, p, restarts=restarts, single=single, report=report)
    found = [rounded_p_identity(descent.theta) for descent in descents]
    return min(found, key=lambda operator: l1_objective(operator, gram))

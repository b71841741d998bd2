"""OPT_M: measured subsets of the attributes, each with its own weight, for Laplace noise.

With one operator A_i an attribute, the measurements of subset b are the product of A_i over b. The paper's A_i is the
identity (Definitions 20 and 22); but its algebra holds for any A_i of full rank (see `inference.attribute_split`), so
where an attribute's queries have an order, A_i is the best known operator for them, chosen in turn with the weights.

Source: HDMM, section 8 (Theorem 11 and Definition 22).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.attribute_split import attribute_split
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.baselines import marginals_name
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.lattice import Lattice, Subset, lattice
from dpnotebook.strategy.product import Choice, library_choice
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.splits import symmetric_form
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.subset_search import Problem, SubsetShares, search
from dpnotebook.strategy.whole_weights import weighted_subsets, whole_weights
from dpnotebook.strategy.worst_subsets import weighted_for_worst, worst_marginals
from dpnotebook.workload import Identity, Marginals, Total, Workload
from dpnotebook.workload.base import Array

CLOSE = 1 + 2e-6  # integer weights are accepted when the error is within this factor of what real ones give
FINER = 1.1  # by which the scale of the integers grows until they are close
ROUNDS = 4  # of choosing operators, each with the shares of the one before
SETTLED = 1e-3  # relative gain of a round of operators below which they are kept
PRICES = (0.25, 1.0, 4.0)  # of an attribute's total, in terms of what it is worth at the moment
ALIKE = 0.1  # relative difference of weights up to which attributes are as good as asked alike
STARTS = (0.0, 1 / 3)  # powers of the losses that the first shares are proportional to
LEAST_START = 1e-3  # of a random share, so that no needed subset begins with nothing
ASKED = 1e-15  # of the largest loss: what is asked less of is asked by rounding
LEAST_PRICE = 0.05  # of what an attribute's total is worth: what its price cannot fall below
QUICK = 200  # subsets up to which a search takes a moment
SEARCHED = 1500  # subsets up to which the search over them takes seconds


@dataclass(frozen=True)
class Measured:
    """What an operator of one attribute, scaled to unit sensitivity, tells of its total and of its queries.

    Parameters
    ----------
    operator
        A, integer, of full rank.
    information
        s = z'A'Az / |A|^2.
    alpha, beta
        |W z|^2 and the variance of the rest, of every query factor, shape (factors,).
    """

    operator: Workload
    information: float
    alpha: Array
    beta: Array

    @property
    def norm(self) -> int:
        """|A|, the L1 sensitivity."""
        return int(self.operator.max_column_norm(1))


def opt_marginals(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    factors: Sequence[Workload] | None = None,
    choose: Choice | None = None,
    begin: Sequence[Workload] = (),
    restarts: int = 0,
    objective: Objective = "total",
    rng: np.random.Generator | None = None,
    report: Progress = silent,
) -> Strategy:
    """Return the best strategy of weighted marginals that is found.

    Parameters
    ----------
    workload
        A union of products over the same attributes.
    noise
        "laplace"; for "gaussian" the optimum has a closed form, which is returned (`opt_residual`).
    factors
        The operator of each attribute, of full rank; chosen unless given. Identity in all is the paper's OPT_M.
    choose
        How operators are chosen; among those with a name unless said.
    begin
        Operators of full rank, one an attribute, to begin with besides identities: those of a product strategy.
    restarts
        Further searches, from random starts.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight.
    rng
        Where random starts come from.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If the workload's products are over different attributes, or factors are not over their cells.
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> found = strategy.opt_marginals(marginals((2, 5, 50, 100), 2))
    >>> [subset for subset, _ in found.operator.weights]  # three marginals are enough for all six
    [(2, 3), (0, 1, 2), (0, 1, 3)]
    """
    if law_of(noise).euclidean:
        return opt_residual(workload, objective=objective, report=report)
    worst = checked_objective(objective) == "worst"
    found = lattice(workload)
    if factors is not None and tuple(factor.shape[1] for factor in factors) != found.sizes:
        raise WorkloadError(f"one operator for each of the attributes of {found.sizes} cells is needed")
    rng = rng or np.random.default_rng()
    results = []
    for operators in [factors] if factors is not None else [[Identity(n) for n in found.sizes], begin]:
        if not operators:
            continue
        measured = [_measured(found, i, operator) for i, operator in enumerate(operators)]
        if min(one.information for one in measured) <= 0 or not np.isfinite(_together(measured)[1]).all():
            continue
        best = _weighted(found, measured, report)
        for _ in range(restarts):
            best = min(best, _weighted(found, measured, report, rng), key=lambda shares: shares.error)
        if factors is None:
            measured, best = _with_operators(found, measured, best, choose or library_choice(noise), report)
        results.append((measured, best))
    if not results:
        raise WorkloadError("operators of marginals must tell the total of their attribute and all that is asked")
    measured, best = min(results, key=lambda result: result[1].error)
    problem, _ = _problem(found, measured)
    weights = _integer_weights(problem, best, [one.norm for one in measured])
    used = {i for subset, _ in weights for i in subset}
    operators = [one.operator if i in used else Identity(one.operator.shape[1]) for i, one in enumerate(measured)]
    operator = Marginals(operators, weights)
    total = Strategy(workload, operator, noise, marginals_name(operator))
    if not worst:
        return total
    if factors is None:
        return best_worst([total, *weighted_for_worst(workload, total, report)])
    return best_worst([total, worst_marginals(workload, noise, factors, begin=weights, report=report)])


def _weighted(
    found: Lattice, measured: Sequence[Measured], report: Progress, rng: np.random.Generator | None = None
) -> SubsetShares:
    """Return subsets and shares for these operators, from the subsets that the workload asks of."""
    problem, losses = _problem(found, measured)
    best: SubsetShares | None = None
    several = STARTS if rng is None and len(problem.needed) <= QUICK else STARTS[:1]
    for power in several:
        shares = losses**power if rng is None else rng.random(losses.size) ** 3 + LEAST_START
        trial = problem.settle(problem.needed, shares / shares.sum())
        if len(problem.needed) <= SEARCHED:
            trial = search(problem, trial, report)
        if best is None or trial.error < best.error:
            best = trial
    assert best is not None
    return best


def _with_operators(
    found: Lattice, measured: list[Measured], shares: SubsetShares, choose: Choice, report: Progress
) -> tuple[list[Measured], SubsetShares]:
    """Return better operators where queries are not symmetric in the cells, and shares for them."""
    axes = [i for i, kinds in enumerate(found.kinds) if not all(symmetric_form(kind) for kind in kinds)]
    for round_ in range(ROUNDS if axes else 0):
        before, given = shares.error, list(measured)
        in_vain: dict[int, list[list[tuple[Workload, float]]]] = defaultdict(list)  # by the cells of an attribute
        for axis in axes:
            union, price = _prices(found, measured, shares, axis)
            union = [(weight, kind) for weight, kind in union if weight > 0]
            if not union or price <= 0:
                continue
            n = found.sizes[axis]
            asked = [(kind, weight / price) for weight, kind in union]
            if any(_nearly(asked, other) for other in in_vain[n]):
                continue  # another attribute like this one found nothing better
            better = False
            for factor in PRICES if round_ == 0 else (1.0,):
                report(None, f"marginals: operator of attribute {axis + 1}")
                trial = list(measured)
                operator = choose([*union, (factor * price, Total(n))])
                trial[axis] = _measured(found, axis, operator)
                if trial[axis].information <= 0 or not np.isfinite(trial[axis].beta).all():
                    continue
                problem, _ = _problem(found, trial)
                settled = problem.settle(shares.subsets, shares.shares)
                if settled.error < shares.error:
                    measured, shares, better = trial, settled, True
            if not better:
                in_vain[n].append(asked)
        if all(one is other for one, other in zip(measured, given, strict=True)):
            break  # these were searched for already
        if len(found.subsets) > QUICK and shares.error > before * (1 - SETTLED):
            break  # nor is there more to be found for others that are hardly better
        if len(found.subsets) <= SEARCHED:
            problem, _ = _problem(found, measured)
            again = search(problem, shares, report)  # of many, a search from the beginning takes seconds for nothing
            few = len(problem.needed) <= QUICK
            shares = min(_weighted(found, measured, report), again, key=lambda one: one.error) if few else again
        if shares.error > before * (1 - SETTLED):
            break
    return measured, shares


def _nearly(one: Sequence[tuple[Workload, float]], other: Sequence[tuple[Workload, float]]) -> bool:
    """Return whether two attributes are asked the same, with nearly the same weights."""
    same = [kind for kind, _ in one] == [kind for kind, _ in other]
    return same and all(abs(a - b) <= ALIKE * b for (_, a), (_, b) in zip(one, other, strict=True))


def _measured(found: Lattice, axis: int, operator: Workload) -> Measured:
    split, norm = attribute_split(operator), float(operator.max_column_norm(1))
    alpha = np.array([split.squared_means(kind) for kind in found.kinds[axis]])
    beta = np.array([split.total_variance(kind) for kind in found.kinds[axis]]) * norm**2
    return Measured(operator, split.s / norm**2, alpha, beta)


def _problem(found: Lattice, measured: Sequence[Measured]) -> tuple[Problem, Array]:
    """Return the problem of subsets and shares, and the plain losses of what it needs."""
    asked, losses = _asked(found, measured)
    needed = found.flags[asked]
    information = np.array([one.information for one in measured])
    scaled = losses * np.where(needed, information, 1.0).prod(axis=1)
    return Problem(needed, scaled, information), losses


def _asked(found: Lattice, measured: Sequence[Measured]) -> tuple[NDArray[np.int64], Array]:
    """Return which subsets are needed, as numbers, and their losses."""
    losses = found.losses(*_together(measured))
    asked = np.flatnonzero(losses > ASKED * losses.max())
    return asked, losses[asked]


def _prices(
    found: Lattice, measured: Sequence[Measured], shares: SubsetShares, axis: int
) -> tuple[list[tuple[float, Workload]], float]:
    """Return what to optimise an attribute's operator for: its query factors and its total, with their weights.

    The error is linear in the variances beta of the rest and, to first order, in 1/s, the variance of the total.
    """
    problem, _ = _problem(found, measured)
    information = problem.information
    scale = np.where(problem.needed, information, 1.0).prod(axis=1)
    told = problem.told(shares.subsets) * shares.shares**2
    covers = problem.covers(shares.subsets)
    p = covers @ told / scale
    through = covers @ (told * shares.subsets[:, axis]) / scale
    slopes = np.zeros(len(found.subsets))
    slopes[_asked(found, measured)[0]] = 1 / p
    _, of_beta = found.sensitivities(*_together(measured), slopes)
    first = sum(len(kinds) for kinds in found.kinds[:axis])
    mine = slice(first, first + len(found.kinds[axis]))
    outside = ~problem.needed[:, axis]
    worth = float((problem.losses / scale * through / p**2)[outside].sum()) * information[axis]
    alpha = measured[axis].alpha
    # tr(V M) = beta + alpha / s is what the choice sees, so what it counts of 1/s is taken off its price.
    price = max(worth - float(of_beta[mine] @ alpha), LEAST_PRICE * worth)
    return list(zip(of_beta[mine].tolist(), found.kinds[axis], strict=True)), price


def _together(measured: Sequence[Measured]) -> tuple[Array, Array]:
    return np.concatenate([one.alpha for one in measured]), np.concatenate([one.beta for one in measured])


def _integer_weights(problem: Problem, shares: SubsetShares, norms: Sequence[int]) -> list[tuple[Subset, int]]:
    """Return integer weights of the subsets, near to what their shares of the sensitivity say."""
    products = np.where(shares.subsets, np.array(norms, dtype=float), 1.0).prod(axis=1)
    whole = whole_weights(
        shares.shares / products,
        lambda weights: float(weights @ products),
        lambda weights: problem.exact(SubsetShares(shares.subsets, weights * products, 0.0)),
        shares.error * CLOSE,
        FINER,
    )
    return weighted_subsets(shares.subsets, whole)

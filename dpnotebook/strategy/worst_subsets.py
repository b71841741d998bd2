"""Measured subsets of the attributes, weighted so that the worst answer is as good as can be.

With operators of unit sensitivity, and p_S what is told of a subset S of the attributes (see `lattice`), the variance
of an answer is the sum over S of c_S / p_S. Answers of one product differ only by what each factor's query takes of
the attribute's total (alpha) and of the rest (beta), and the variance rises with both: only queries matter that no
other surpasses in the two.

Gaussian noise: with residuals p_S is a share of the squared norm, and the least worst variance is a convex program.
Its dual has one weight q of each answer: the sum over S of sqrt L_S, L_S = sum of q c_S, squared, is a lower bound for
every q that adds up to one, and shares proportional to sqrt L_S belong to it. q <- q (variance)^2 never lowers the
bound (Jensen's inequality, of the square roots), and longer steps are taken while they help.
Laplace noise: sensitivities add up, and several measured subsets tell of S, so the problem is not convex. A norm of the
variances that goes to their maximum is made least, and subsets are exchanged by the search of OPT_M with those weights.

Source: ResidualPlanner's convex program for the largest variance; HDMM, section 8, for Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.attribute_split import attribute_split
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.baselines import marginals_name
from dpnotebook.strategy.best_worst import if_possible
from dpnotebook.strategy.lattice import Group, Lattice, Subset, lattice
from dpnotebook.strategy.splits import symmetric_form
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.subset_search import Problem, Rows, search
from dpnotebook.strategy.whole_weights import weighted_subsets, whole_weights
from dpnotebook.workload import Identity, Marginals, Workload
from dpnotebook.workload.base import Array, Number
from dpnotebook.workload.terms import SparseTerm, sparse_terms

CLOSE = 1.0002  # integer weights are accepted when the worst variance is within this factor of what real ones give
FINER = 1.1  # by which the scale of the integers grows until they are close
GAP = 2e-4  # between the worst variance and its bound at which the weights of answers are settled
STEPS = 2000  # of settling them, at most
WORK = 2**28  # entries of the table of answers and subsets that are gone through
GROWTH = 1.3  # of a step that raised the bound
LEAST_STEP = 1e-3
ROUNDING = 1e-10  # of sums in floating point, allowed for in a bound
SURPASSED = 1 + 1e-9  # a query is that no other passes in alpha and beta by more than rounding
QUERIES = 2**20  # of one factor that are looked at one by one
ANSWERS = 2**21  # that differ
POWERS = (4.0, 32.0, 256.0)  # of the norms of the variances, up to one that is their maximum
DESCENT = 100  # steps for each
DROPPED = 1e-4  # of the largest share: a measurement that is tried without
LEAST_SHARE = 1e-9  # of the largest: what is less is none
FORGOTTEN = 1e-6  # of the weight of the worst answer: what others count at least while subsets are looked for
SEARCHED = 200  # subsets up to which others are looked for
FEW = 64  # from two beginnings
SEARCHES = 3  # times at most, each with the weights of the one before
GAIN = 1e-4  # relative gain for which another is made


@dataclass(frozen=True)
class AnswerClasses:
    """The answers that can be the worst, and what their variances are made of.

    Parameters
    ----------
    found
        The subsets of the attributes.
    coefficients
        c_S for operators of unit sensitivity, sparse, shape (answers, subsets).
    norms
        Sensitivity (Laplace) or its square (Gaussian) of each attribute's operator, shape (attributes,).
    information
        What a measurement of unit sensitivity of each attribute tells of its total, shape (attributes,).
    symmetric
        Whether all queries of a product are alike, in every product.
    """

    found: Lattice
    coefficients: Any
    norms: Array
    information: Array
    symmetric: bool

    @property
    def subsets(self) -> Rows:
        """The subsets as rows, shape (subsets, attributes)."""
        return _rows(self.found.subsets, len(self.found.sizes))


def worst_marginals(
    workload: Workload,
    noise: Noise,
    operators: Sequence[Workload],
    *,
    begin: Sequence[tuple[Subset, Number]] = (),
    report: Progress = silent,
) -> Strategy:
    """Return the subsets of the attributes to measure, with the weights that make the worst answer best.

    Parameters
    ----------
    workload
        A union of products over the same attributes.
    noise
        "gaussian": over all weights of residuals it is the optimum, and over all strategies for marginals, with its
        proof. "laplace": the best that is found.
    operators
        What is measured of each attribute: operators of residuals for Gaussian noise.
    begin
        Weighted subsets that are good for the total, for Laplace noise: another beginning.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If the workload's products are over different attributes, there are too many subsets, or the operators do not
        determine the answers.

    Examples
    --------
    >>> from dpnotebook.strategy import opt_residual
    >>> from dpnotebook.strategy.worst_subsets import worst_marginals
    >>> from dpnotebook.workload import marginals
    >>> workload = marginals((100, 2, 8, 40), upto=2)
    >>> total = opt_residual(workload)
    >>> found = worst_marginals(workload, "gaussian", total.operator.factors)
    >>> round(total.worst / found.worst, 1), found.optimality < 1.001
    (16.4, True)
    """
    answers = answer_classes(workload, noise, operators)
    report(None, "the worst answer: weights of subsets")
    if law_of(noise).euclidean:
        pairs, lower = _gaussian_weights(answers)
        subsets = f"{len(pairs):,} subset{'s' if len(pairs) > 1 else ''} of the attributes"
        name, certificate = f"residuals of {subsets}", lower if answers.symmetric else 0.0
    else:
        pairs, name, certificate = _laplace_weights(answers, begin, report), "", 0.0
    used = {i for subset, _ in pairs for i in subset}
    chosen = [one if i in used else Identity(one.shape[1]) for i, one in enumerate(operators)]
    operator = Marginals(chosen, pairs)
    strategy = Strategy(
        workload, operator, noise, name or marginals_name(operator), certificate=certificate, chosen_for="worst"
    )
    if not math.isfinite(strategy.worst):
        raise WorkloadError("operators of marginals must tell the total of their attribute and all that is asked")
    return strategy


def weighted_for_worst(workload: Workload, total: Strategy, report: Progress = silent) -> Iterator[Strategy]:
    """Yield weighted marginals for the worst answer with Laplace noise: of cells, and of what is good for the total.

    Parameters
    ----------
    workload
        A union of products over the same attributes.
    total
        The strategy that is best for all answers together: where it is weighted marginals, another beginning.
    report
        Told of progress; may raise to stop.
    """
    sizes, parts = sparse_terms(workload) or ((), [])
    plain: list[Workload] = [Identity(n) for n in sizes]
    best = as_marginals(total.operator)
    symmetric = only_cells(parts) or (best is not None and list(best.factors) == plain)  # for what is measured
    begin = best.weights if symmetric and best is not None else ()
    yield from if_possible(lambda: worst_marginals(workload, total.noise, plain, begin=begin, report=report))
    if not symmetric and best is not None:  # else no operators but plain ones were good for the total
        chosen = best
        yield from if_possible(
            lambda: worst_marginals(workload, total.noise, chosen.factors, begin=chosen.weights, report=report)
        )


def only_cells(parts: Sequence[SparseTerm]) -> bool:
    """Return whether all that is asked are counts of levels, and their totals."""
    return all(isinstance(factor, Identity) for part in parts for factor in part.factors)


def answer_classes(workload: Workload, noise: Noise, operators: Sequence[Workload]) -> AnswerClasses:
    """Return the answers that can be the worst, for the operators of each attribute."""
    found = lattice(workload, repeats="count once")
    if tuple(operator.shape[1] for operator in operators) != found.sizes:
        raise WorkloadError(f"one operator for each of the attributes of {found.sizes} cells is needed")
    norms = np.array([float(one.max_column_norm(law_of(noise).power)) for one in operators])
    squares = law_of(noise).squared_sensitivity(norms)
    information = np.ones(len(operators))
    alphas, betas = [], []
    for axis, (operator, kinds) in enumerate(zip(operators, found.kinds, strict=True)):
        split = attribute_split(operator)
        information[axis] = split.s / squares[axis]
        for kind in kinds:
            if kind.shape[0] > QUERIES:
                raise WorkloadError(f"{kind.shape[0]:,} queries of one attribute are too many to look at one by one")
            rest, alpha = split.parts(kind)
            beta = rest * squares[axis]
            if not np.isfinite(beta).all():
                raise WorkloadError("operators of marginals must tell all that is asked of their attribute")
            kept = _unsurpassed(alpha, beta)
            alphas.append(alpha[kept])
            betas.append(beta[kept])
    counts = np.array([len(alpha) for alpha in alphas], dtype=np.int64)
    if (counts > 1).any():
        found = _by_query(found, counts)
    none = np.zeros(0)
    table = found.coefficients(np.concatenate([none, *alphas]), np.concatenate([none, *betas]))
    symmetric = all(symmetric_form(kind) for kinds in found.kinds for kind in kinds)
    return AnswerClasses(found, table, norms, information, symmetric)


def _unsurpassed(alpha: Array, beta: Array) -> Array:
    """Return the queries that no other surpasses in both, one of each that are alike."""
    order = np.lexsort((-beta, -alpha))
    highest = np.concatenate(([-np.inf], np.maximum.accumulate(beta[order])[:-1]))
    return np.asarray(order[beta[order] > np.maximum(highest * SURPASSED, highest)])


def _by_query(found: Lattice, counts: Array) -> Lattice:
    """Return the lattice with a product for each combination of queries of its factors, which are numbered anew."""
    firsts = np.concatenate(([0], np.cumsum(counts)))[:-1]
    groups = []
    for group in found.groups:
        squares, axes, factors = group.squares, group.axes, group.factors
        for position in range(axes.shape[1]):
            repeats = counts[factors[:, position]]
            if int(repeats.sum()) > ANSWERS:
                raise WorkloadError("the answers of this workload that differ are too many to weigh one by one")
            number = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            squares, axes, factors = (np.repeat(each, repeats, axis=0) for each in (squares, axes, factors))
            factors[:, position] = firsts[factors[:, position]] + number
        groups.append(Group(squares, axes, factors))
    return Lattice(found.sizes, found.kinds, tuple(groups))


# Gaussian noise: residuals.
def _gaussian_weights(answers: AnswerClasses) -> tuple[list[tuple[Subset, int]], float]:
    """Return small integer weights of the subsets, and what no weights can be below."""
    table = answers.coefficients
    asked = np.asarray(table.sum(axis=0)).ravel() > 0
    table = table[:, np.flatnonzero(asked)].tocsr()
    shares, worst, lower = least_worst(table)
    squares = np.where(answers.subsets[asked], answers.norms, 1.0).prod(axis=1)
    whole = whole_weights(
        np.sqrt(shares / squares),
        lambda weights: float(weights**2 @ squares),
        lambda weights: float(weights**2 @ squares) * float((table @ (1 / squares / weights**2)).max()),
        worst * CLOSE,
        FINER,
    )
    subsets = [subset for subset, one in zip(answers.found.subsets, asked, strict=True) if one]
    return list(zip(subsets, whole.tolist(), strict=True)), lower * (1 - ROUNDING)


def least_worst(table: Any) -> tuple[Array, float, float]:
    """Return shares v >= 0 that add up to one and make the largest of sum_S c_S / v_S least, with proof.

    Parameters
    ----------
    table
        c, sparse, shape (answers, subsets), at least 0 and no column all 0.

    Returns
    -------
    The shares, their worst variance, and what it cannot be below.
    """
    q = np.full(table.shape[0], 1 / table.shape[0])
    turned = table.T.tocsr()

    def at(q: Array) -> tuple[float, Array, Array]:
        roots = np.sqrt(turned @ q)
        total = float(roots.sum())
        shares = np.maximum(roots / total, np.finfo(float).tiny)
        return total**2, shares, table @ (1 / shares)

    lower, shares, variances = at(q)
    best, worst, step = shares, float(variances.max()), 2.0
    for _ in range(max(20, min(STEPS, WORK // max(1, table.nnz)))):
        if worst <= lower * (1 + GAP):
            break
        while True:
            trial = q * (variances / lower) ** step
            trial /= trial.sum()
            value, trial_shares, trial_variances = at(trial)
            if value >= lower or step < LEAST_STEP:
                break
            step /= 2
        if value < lower:
            break
        q, lower, shares, variances = trial, value, trial_shares, trial_variances
        step *= GROWTH
        if float(variances.max()) < worst:
            best, worst = shares, float(variances.max())
    return best, worst, lower


# Laplace noise: weighted marginals.
def _laplace_weights(
    answers: AnswerClasses, begin: Sequence[tuple[Subset, Number]], report: Progress
) -> list[tuple[Subset, int]]:
    """Return small integer weights of the subsets to measure."""
    if answers.information.min() <= 0:
        raise WorkloadError("operators of marginals must tell the total of their attribute")
    table = answers.coefficients
    asked = np.flatnonzero(np.asarray(table.sum(axis=0)).ravel() > 0)
    needed = answers.subsets[asked]
    scaled = table[:, asked] @ _diagonal(np.where(needed, answers.information, 1.0).prod(axis=1))
    groups = answers.found.groups
    products = {tuple(axes) for group in groups for axes in group.axes.tolist()}
    starts = [(needed, np.ones(len(needed))), (_rows(sorted(products), needed.shape[1]), np.ones(len(products)))]
    if begin:
        chosen = _rows([subset for subset, _ in begin], needed.shape[1])
        of_begin = np.where(chosen, answers.norms, 1.0).prod(axis=1)
        starts.append((chosen, np.array([float(weight) for _, weight in begin]) * of_begin))
    problem = Problem(needed, np.asarray(scaled.sum(axis=0)).ravel(), answers.information)
    found = [_descend(problem, scaled, subsets, shares / shares.sum()) for subsets, shares in starts]
    found.sort(key=_by_worst)
    many = 0 if len(needed) > SEARCHED else 1 if len(needed) > FEW else 2
    kept = min((_searched(problem, scaled, one, report) for one in found[:many]), key=_by_worst, default=found[0])
    of_products = np.where(kept.subsets, answers.norms, 1.0).prod(axis=1)
    whole = whole_weights(
        kept.shares / of_products,
        lambda weights: float(weights @ of_products),
        lambda weights: _worst(problem, scaled, kept.subsets, weights * of_products),
        kept.worst * CLOSE,
        FINER,
    )
    return weighted_subsets(kept.subsets, whole)


@dataclass(frozen=True)
class _Shares:
    """Measured subsets with their shares of the sensitivity, the worst variance, and the losses that count for it."""

    subsets: Rows
    shares: Array
    worst: float
    losses: Array


def _by_worst(shares: _Shares) -> float:
    return shares.worst


def _searched(problem: Problem, table: Any, found: _Shares, report: Progress) -> _Shares:
    """Return the shares after subsets were exchanged, as long as that makes the worst answer better."""
    for _ in range(SEARCHES):
        weighted = Problem(problem.needed, found.losses, problem.information)
        moved = search(weighted, weighted.settle(found.subsets, found.shares), report)
        other = _descend(problem, table, moved.subsets, moved.shares)
        if not other.worst < found.worst * (1 - GAIN):
            break
        found = other
    return found


def _rows(subsets: Sequence[Subset], attributes: int) -> Rows:
    rows = np.zeros((len(subsets), attributes), dtype=bool)
    for row, subset in zip(rows, subsets, strict=True):
        row[list(subset)] = True
    return rows


def _diagonal(values: Array) -> Any:
    from scipy.sparse import diags_array

    return diags_array(values)


def _worst(problem: Problem, table: Any, subsets: Rows, shares: Array) -> float:
    q = problem.covers(subsets) @ (problem.told(subsets) * shares**2)
    return float(shares.sum() ** 2 * (table @ (1 / q)).max())


def _descend(problem: Problem, table: Any, subsets: Rows, shares: Array) -> _Shares:
    """Return the best shares that a descent from those given finds, without the subsets that are not worth theirs."""
    found = _descent(problem, table, subsets, shares)
    kept = found.shares > DROPPED * found.shares.max()
    if not kept.all() and (problem.covers(found.subsets[kept]).sum(axis=1) > 0).all():
        fewer = _descent(problem, table, found.subsets[kept], found.shares[kept])
        if fewer.worst < found.worst * (1 + GAIN):
            return fewer
    return found


def _descent(problem: Problem, table: Any, subsets: Rows, shares: Array) -> _Shares:
    from scipy.optimize import minimize

    covers, told = problem.covers(subsets), problem.told(subsets)
    turned, down = table.T.tocsr(), covers.T.tocsr()

    def evaluate(logs: Array, power: float) -> tuple[float, Array]:
        u = np.maximum(np.exp(logs - logs.max()), LEAST_SHARE)
        q = covers @ (told * u**2)
        each = np.log(table @ (1 / q))
        top = float(each.max())
        weights = np.exp(power * (each - top))
        value = 2 * math.log(u.sum()) + top + math.log(weights.sum()) / power
        losses = turned @ (weights / weights.sum() / np.exp(each))
        slope = 2 * u / u.sum() - 2 * told * u**2 * (down @ (losses / q**2))
        return value, slope

    logs = np.log(shares)
    steps = max(5, min(DESCENT, WORK // 16 // max(1, table.nnz)))
    for power in POWERS:
        found = minimize(evaluate, logs, args=(power,), jac=True, method="L-BFGS-B", options={"maxiter": steps})
        logs = found.x
    u = np.maximum(np.exp(logs - logs.max()), LEAST_SHARE)
    u /= u.sum()
    q = covers @ (told * u**2)
    each = table @ (1 / q)
    weights = np.maximum((each / each.max()) ** POWERS[-2], FORGOTTEN) / each
    return _Shares(subsets, u, float(each.max()), np.asarray(turned @ weights))

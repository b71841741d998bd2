"""Two of HDMM's optimization operators: one product for a whole workload (OPT_x), one for each of its parts (OPT_+).

Source: HDMM, Definitions 17, 18 and 19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct, once_a_pair, total_variance
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.baselines import operator_name, same_attributes
from dpnotebook.strategy.best_worst import best_worst
from dpnotebook.strategy.blocks import stacked
from dpnotebook.strategy.explicit import explicit_choice
from dpnotebook.strategy.product import Choice, kept_choice, product_operator, squared_sensitivity
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.worst_products import worst_product, worst_product_of_parts, worst_union
from dpnotebook.workload import Identity, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import Term, terms

CLOSE = 1.001  # integer weights are accepted when the error is within 0.1% of what real weights would give
LARGEST_STEP = 256  # small integers up to which every scale is tried, and beyond which scales grow by FINER
FINER = 1.25
LARGEST_NORM = 2.0**60  # what is measured and its noise stay within 64 bits


def opt_product(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    choose: Choice | None = None,
    restarts: int = 0,
    objective: Objective = "total",
    rng: np.random.Generator | None = None,
    report: Progress = silent,
) -> Strategy:
    """Return one product strategy for the whole workload (OPT_x).

    Parameters
    ----------
    workload
        A union of products over the same attributes.
    noise
        "laplace" or "gaussian".
    choose
        How an attribute's operator is chosen; among OPT_0 and those with a name unless given.
    restarts
        Further rounds, that begin with other weights of the workload's parts.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight.
    rng
        Where those weights come from.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If the workload's products are over different attributes.
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Identity, Kron, Prefix
    >>> found = strategy.opt_product(Kron(Prefix(16), Identity(2)))
    >>> found.optimality < strategy.identity(Kron(Prefix(16), Identity(2))).optimality
    True
    """
    worst = checked_objective(objective) == "worst"
    parts = terms(workload)
    if not same_attributes(parts):
        raise WorkloadError("one product strategy needs parts over the same attributes")
    inner = choose or explicit_choice(noise, report=report)
    count = 0

    def told(union: Sequence[tuple[float, Workload]]) -> Workload:
        nonlocal count
        count += 1
        report(None, f"product strategy: operator {count}")
        return inner(union)

    best: Strategy | None = None
    rng = rng or np.random.default_rng()
    for attempt in range(1 + restarts):
        emphasis = None if attempt == 0 else np.exp(rng.normal(size=len(parts)))
        operator = product_operator(parts, told, emphasis)
        found = Strategy(workload, operator, noise, operator_name(operator, workload))
        if best is None or found.objective < best.objective:
            best = found
    assert best is not None
    if not worst:
        return best
    if len(parts) == 1:
        return best_worst([best, worst_product(workload, noise, "full", report)])
    begins = (terms(best.operator)[0].factors, [Identity(n) for n in parts[0].sizes])
    return best_worst([best, *(worst_product_of_parts(workload, noise, "full", begin, report) for begin in begins)])


def opt_union(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    choose: Choice | None = None,
    objective: Objective = "total",
    report: Progress = silent,
) -> Strategy:
    """Return one product strategy a part of the workload, with the weights that split the budget best (OPT_+).

    Where the domain is small, every answer is then least squares over all measurements.

    Parameters
    ----------
    workload
        A union of products, over any attributes.
    noise
        "laplace" or "gaussian".
    choose
        How an attribute's operator is chosen; among OPT_0 and those with a name unless given.
    objective
        "total": the least sum of the squared errors of all answers. "worst": the least error of the worst answer, each
        times its weight.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    AccuracyError
        If there is no such objective.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Kron, Prefix, Total
    >>> margins = Kron(Prefix(16), Total(16)) + Kron(Total(16), Prefix(16))
    >>> strategy.opt_union(margins).objective < strategy.opt_product(margins).objective
    True
    """
    if checked_objective(objective) == "worst":
        total = opt_union(workload, noise, choose=choose, report=report)
        return best_worst([total, worst_union(workload, noise, "full", report)])
    parts = terms(workload)
    inner = kept_choice(choose or explicit_choice(noise, report=report))
    operators = []
    for i, part in enumerate(parts):
        report(i / len(parts), f"a strategy for part {i + 1:,} of {len(parts):,}")
        operators.append(product_operator([part], inner))
    operator = union_operator(parts, operators, noise)
    if len(parts) == 1:
        return Strategy(workload, operator, noise, operator_name(operator, workload))
    direct = is_direct(workload) and is_direct(operator)
    return Strategy(workload, operator, noise, "one strategy a part", split=not direct)


# Strategies for a union of products: one product strategy a part, and how much to measure each.
#
# Source: HDMM, Definition 19 (OPT_+). With E_j the error of part j alone and c_j its share of the budget, the total
# sum E_j / c_j^2 is least, where the shares (Laplace) or their squares (Gaussian) sum to one, for c_j proportional to
# E_j^(1/3) or E_j^(1/4).
def union_operator(parts: Sequence[Term], operators: Sequence[Workload], noise: Noise) -> Workload:
    """Return the operators stacked with the integer weights that split the budget best.

    Parameters
    ----------
    parts
        The parts of the workload.
    operators
        The product operator that answers each.
    noise
        "laplace": weights add up in the sensitivity; "gaussian": their squares do.
    """
    of_pair = once_a_pair(total_variance)
    errors = np.array(
        [float(p.weight) ** 2 * _product_variance(p, a, of_pair) for p, a in zip(parts, operators, strict=True)]
    )
    squares = np.array([squared_sensitivity(operator, noise) for operator in operators])
    return stacked(operators, [int(weight) for weight in integer_weights(errors, squares, noise)])


def integer_weights(errors: Array, squares: Array, noise: Noise) -> Array:
    """Return small integers k that nearly minimise |stack of k_j A_j|^2 * sum of errors_j / k_j^2.

    Parameters
    ----------
    errors
        |W_j A_j^+|_F^2 of each part, shape (parts,).
    squares
        |A_j|^2 of each part, shape (parts,).
    noise
        How sensitivities add up.
    """
    shares = law_of(noise).best_weights(errors * squares) / np.sqrt(squares)  # Definition 19
    best = _split_error(shares, errors, squares, noise)
    found, least = np.ones(len(errors)), np.inf
    for scale in _scales(shares):
        weights = np.maximum(1, np.rint(shares * scale))
        if least < np.inf and _norm(weights, squares, noise) > LARGEST_NORM:
            break
        error = _split_error(weights, errors, squares, noise)
        if error < least:
            found, least = weights, error
        if least <= best * CLOSE:
            break
    if _norm(found, squares, noise) > 4 * LARGEST_NORM:
        raise WorkloadError("the weights of these strategies, one a part, do not fit in 64 bits")
    whole = found.astype(np.int64)
    return np.asarray(whole // np.gcd.reduce(whole))


def _scales(shares: Array) -> Iterator[float]:
    """Yield what to multiply the shares by: small integers first, then such as leave no share at one."""
    yield from (step / shares.max() for step in range(1, LARGEST_STEP + 1))
    scale = LARGEST_STEP / shares.max()
    while scale * shares.min() < LARGEST_STEP:
        scale *= FINER
        yield scale


def _norm(weights: Array, squares: Array, noise: Noise) -> float:
    """Return the L1 norm of the stack for Laplace noise, the squared L2 norm for Gaussian noise."""
    return float(law_of(noise).powers(np.sqrt(squares) * weights).sum())


def _split_error(weights: Array, errors: Array, squares: Array, noise: Noise) -> float:
    sensitivity = np.sqrt(squares) * weights
    law = law_of(noise)
    norm = law.squared_sensitivity(law.powers(sensitivity).sum())
    return float(norm * (errors / weights**2).sum())


def _product_variance(part: Term, operator: Workload, of_pair: Callable[[Workload, Workload], float]) -> float:
    measured = terms(operator)[0].factors
    return float(np.prod([of_pair(a, w) for a, w in zip(measured, part.factors, strict=True)]))

"""Two of HDMM's optimization operators: one product for a whole workload (OPT_x), one for each of its parts (OPT_+).

Source: HDMM, Definitions 17, 18 and 19.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import is_direct
from dpnotebook.privacy.accountant import Noise
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.baselines import operator_name, same_attributes
from dpnotebook.strategy.explicit import explicit_choice
from dpnotebook.strategy.product import Choice, product_operator
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.union import union_operator
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import terms


def opt_product(
    workload: Workload,
    noise: Noise = "laplace",
    *,
    choose: Choice | None = None,
    restarts: int = 0,
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
    rng
        Where those weights come from.
    report
        Told of progress; may raise to stop.

    Raises
    ------
    WorkloadError
        If the workload's products are over different attributes.
    """
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
    return best


def opt_union(
    workload: Workload, noise: Noise = "laplace", *, choose: Choice | None = None, report: Progress = silent
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
    report
        Told of progress; may raise to stop.
    """
    parts = terms(workload)
    inner = choose or explicit_choice(noise, report=report)
    operators = []
    for i, part in enumerate(parts):
        report(i / len(parts), f"a strategy for part {i + 1:,} of {len(parts):,}")
        operators.append(product_operator([part], inner))
    operator = union_operator(parts, operators, noise)
    if len(parts) == 1:
        return Strategy(workload, operator, noise, operator_name(operator, workload))
    direct = is_direct(workload) and is_direct(operator)
    return Strategy(workload, operator, noise, "one strategy a part", split=not direct)

"""Strategies found from a Gram matrix: attribute by attribute where the workload is a product."""

from __future__ import annotations

from collections.abc import Callable

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Kron, Workload
from dpnotebook.workload.terms import terms


def factor_by_factor(workload: Workload, design: Callable[[Workload], Workload], what: str, cells: int) -> Workload:
    """Return the operator that `design` makes of a workload; of each of its factors, if it is a single product.

    Parameters
    ----------
    workload
        What is to be answered.
    design
        Returns an operator for a workload over up to `cells` cells.
    what, cells
        Name of the strategy, and the most cells that it can be found for.

    Raises
    ------
    WorkloadError
        If there are more cells.
    """
    parts = terms(workload)
    factors = parts[0].factors if len(parts) == 1 else (workload,)
    most = max(factor.shape[1] for factor in factors)
    if most > cells:
        raise WorkloadError(f"{what} over {most:,} cells at once would take too long (the limit is {cells:,})")
    operators = [design(factor) for factor in factors]
    return operators[0] if len(operators) == 1 else Kron(*operators)

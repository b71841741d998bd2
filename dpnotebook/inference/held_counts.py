"""How much a large count holds on to its least-squares value while others are moved so that none is negative.

What is cut off below 0 has to be taken from somewhere if totals are to stay. Taken from all counts alike it ruins the
large ones: there are few of them, and each loses several standard errors. But a count that lies far above its noise is
known not to be 0, and that others are not negative tells little of it. So it weighs more, and small counts give way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.inference.inverse import inverse, is_direct, variances
from dpnotebook.inference.least_squares import least_squares
from dpnotebook.inference.marginal_algebra import as_marginals, marginal_algebra
from dpnotebook.workload import Identity, Marginals, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.marginals import largest_subsets
from dpnotebook.workload.terms import terms

SMALL = 0.5  # standard errors: a count below may well be 0
LARGE = 8.0  # standard errors: a count above is surely not, and is moved as little as any
STIFF = 30.0  # times its own precision, by which a large count is held: 1/31 of what a small one gives way


@dataclass(frozen=True, eq=False)
class HeldCounts:
    """Least-squares counts, and how much each holds on to its value.

    Parameters
    ----------
    counted
        Which counts they are, of the cells.
    values
        The counts.
    stiffness
        Weight of the squared distance from each value, for measurements of unit variance; of the same shape.
    """

    counted: Workload
    values: Array
    stiffness: Array


def stiffness(values: Array, factors: Array, noise_std: float) -> Array:
    """Return how much counts are held.

    Parameters
    ----------
    values
        Least-squares counts.
    factors
        Their variances, for measurements of unit variance; infinite where one is not determined.
    noise_std
        Standard deviation of the noise of a measurement.
    """
    above = np.clip((values / (np.sqrt(factors) * noise_std) - SMALL) / (LARGE - SMALL), 0.0, 1.0)
    return np.asarray(STIFF * above**2 / factors)


def held_counts(operator: Workload, measured: Array, noise_std: float) -> HeldCounts | None:
    """Return the counts that are held: those of the largest marginals, or of all cells; None if it takes long to tell.

    Parameters
    ----------
    operator
        What was measured, shape (p, n).
    measured
        Noisy answers, shape (p,).
    noise_std
        Standard deviation of the noise of each.
    """
    marginals, products = as_marginals(operator), terms(operator)
    if marginals is not None:
        largest = largest_subsets([subset for subset, _ in marginals.weights])
        counted = Marginals([Identity(n) for n in marginals.sizes], [(subset, 1) for subset in largest])
        known = marginal_algebra(counted, marginals)
        assert known is not None
        values, factors = known.answers(measured), known.variances()
        return HeldCounts(counted, values, stiffness(values, factors, noise_std))
    if len(products) == 1:
        factors = np.ones(1)
        for factor in products[0].factors:
            factors = np.kron(factors, variances(inverse(factor), Identity(factor.shape[1])))
        factors = factors / float(products[0].weight) ** 2
    elif is_direct(operator):
        factors = variances(inverse(operator), Identity(operator.shape[1]))
    else:
        return None
    values = least_squares(operator, measured)
    return HeldCounts(Identity(values.size), values, stiffness(values, factors, noise_std))

"""The Toeplitz square root for running counts: better than every tree, for Gaussian noise.

The matrix P of running counts has the generating function 1 / (1 - x), and C that of 1 / sqrt(1 - x): both are
lower-triangular Toeplitz matrices, and C C = P. What is measured is C, and running counts are C times that. The k-th
coefficient is below 1 / sqrt(pi k), so that no running count has an error above 1 + (0.5772 + ln n) / pi for noise that
has variance 1 at sensitivity 1 (Fichtenberger, Henzinger and Upadhyay 2023), and the mean squared error is the least
possible to its leading constant (Henzinger, Upadhyay and Upadhyay 2023).
"""

from __future__ import annotations

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.strategy.competitors.trees import per_attribute
from dpnotebook.strategy.rounding import PRECISION, rounded
from dpnotebook.strategy.running import square_root
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Kron, Toeplitz, Total, Workload


def toeplitz(workload: Workload, noise: Noise = "gaussian", *, bits: int = PRECISION) -> Strategy:
    """Return the Toeplitz square root in every attribute that is asked in order, and the cells in the others.

    Parameters
    ----------
    workload
        What is to be answered; the strategy is made for running counts (`Prefix`).
    noise
        "gaussian": for Laplace noise, trees have far smaller errors.
    bits
        The first coefficient is 2^bits and all others are rounded to integers of that unit (`rounded`). At 16, that
        costs less than 10^-5 of the squared error up to a million cells.

    Raises
    ------
    WorkloadError
        If the noise is not Gaussian, bits are out of range, or parts of the workload are products over different
        attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Prefix
    >>> found = strategy.toeplitz(Prefix(16384))
    >>> round(found.optimality, 3)  # times the least error that any strategy could have
    1.053
    >>> round(strategy.hierarchical(Prefix(16384), "gaussian").optimality, 3)
    1.279
    """
    if not law_of(noise).euclidean:
        raise WorkloadError("the Toeplitz square root is for Gaussian noise; for Laplace noise take hierarchical")
    parts = per_attribute(workload, "a Toeplitz square root")
    factors: list[Workload] = []
    for axis, size in enumerate(parts[0].sizes):
        ordered = any(not isinstance(part.factors[axis], Identity | Total) for part in parts)
        factors.append(rounded(Toeplitz(square_root(size)), bits=bits) if ordered else Identity(size))
    return Strategy(workload, factors[0] if len(factors) == 1 else Kron(*factors), noise, "Toeplitz square root")

"""p-Identities for running counts over hundreds of cells, for Laplace noise, in a moment.

What long searches find there has one form: narrow rows side by side, each over some 36 cells, and two or three that are
wide. A descent that begins with it, and leaves all other entries at nothing, ends within 1% of their error. Its steps
need no matrix over the cells: with s the column sums of [I; Theta], C the running sums along the rows of Theta diag(s)
and R = (I + Theta Theta')^-1, the j-th count has the variance sum_(i <= j) s_i^2 - C_j' R C_j (Woodbury, for the
p-Identities of HDMM, Definition 13), and the gradient follows as for any workload (`loss_and_gradient`).
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.query.objective import Objective
from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.descent import BoundedDescent
from dpnotebook.strategy.kept_optima import FoundOperator, kept
from dpnotebook.strategy.laplace import LARGEST, loss_and_gradient, semiseparable
from dpnotebook.strategy.rounding import rounded_p_identity
from dpnotebook.workload import PIdentity, Prefix, Workload
from dpnotebook.workload.base import Array

FEWEST, MOST = 257, 2048  # cells: over fewer any search is a matter of moments, over more this one is not
PERIOD, ROWS = 18, 56  # cells for each row, and how many rows there are at most
WIDE, SOME = 300, 2  # cells for each wide row, and how many of these at least
NARROW, BROAD, WIDER = 0.7, 1.0, 1.2  # entries of narrow and of wide rows at first, and how far narrow ones overlap
REACH = 2.0  # times the distance of two narrow rows, beyond which their entries stay at nothing
# Norms of the variances, ever nearer to the largest, and steps along each; along their mean for the total.
STEPS: dict[Objective, tuple[tuple[float, int], ...]] = {
    "total": ((1.0, 30),),
    "worst": ((8.0, 15), (32.0, 10), (128.0, 15), (512.0, 10)),
}


def is_running(workload: Workload, noise: Noise) -> bool:
    """Return whether a workload is of running counts, for noise and over cells for which the best are found here."""
    return isinstance(workload, Prefix) and not law_of(noise).euclidean and FEWEST <= workload.n <= MOST


@lru_cache(maxsize=64)
def running_counts(n: int, objective: Objective = "total") -> PIdentity:
    """Return what `running_p_identity` finds, or found in another session."""
    workload = Prefix(n)

    def holds(found: FoundOperator) -> bool:
        p_identity = isinstance(found.operator, PIdentity) and not found.bound
        return p_identity and bool(np.isfinite(variances(inverse(found.operator), workload)).all())

    def search() -> FoundOperator:
        return FoundOperator(running_p_identity(n, objective))

    operator = kept(("running counts", "laplace", objective, str(n)), n, search, holds).operator
    assert isinstance(operator, PIdentity)
    return operator


def running_p_identity(n: int, objective: Objective = "total") -> PIdentity:
    """Return a p-Identity for running counts, in integers.

    Parameters
    ----------
    n
        Cells, hundreds: the form is that of optima there.
    objective
        Whether the sum of all variances is to be small, or the largest.

    Examples
    --------
    >>> from dpnotebook.strategy.rounding import l1_objective
    >>> from dpnotebook.workload import Prefix
    >>> found = running_p_identity(400)
    >>> round((l1_objective(found, Prefix(400).gram()) / 400) ** 0.5, 1)  # the Laplace scale of one count alone is 1
    5.7
    """
    wide = max(SOME, round(n / WIDE))
    narrow = min(n // PERIOD, ROWS) - wide
    theta = np.vstack([NARROW * _rows(narrow, n, WIDER), BROAD * _rows(wide, n)])
    free = np.vstack([_rows(narrow, n, REACH) > 0, np.ones((wide, n), dtype=bool)])
    with threads_for(n):
        for power, steps in STEPS[objective]:
            descent = BoundedDescent(partial(_free_loss, free, power), theta[free], LARGEST)
            descent.go(steps, 0.0)
            theta[free] = descent.point
    return rounded_p_identity(theta)


def running_variances(theta: Array) -> Array:
    """Return the variances of the running counts from the p-Identity of Theta, shape (n,), for columns that sum to 1.

    Parameters
    ----------
    theta
        Shape (p, n).
    """
    sums = 1 + theta.sum(axis=0)
    inner = theta @ theta.T
    inner[np.diag_indices_from(inner)] += 1
    counts = np.cumsum(theta * sums, axis=1)
    return np.asarray(np.cumsum(sums * sums) - np.einsum("ij,ij->j", counts, np.linalg.inv(inner) @ counts))


def loss_of_norm(theta: Array, power: float) -> tuple[float, Array]:
    """Return the logarithm of a norm of the variances of the running counts, and its gradient, shape (p, n).

    Parameters
    ----------
    theta
        Shape (p, n).
    power
        Of the norm: 1 for the sum.
    """
    variances = running_variances(theta)
    top = float(variances.max())
    weights = (variances / top) ** (power - 1)
    size = float((weights * variances).sum())
    # Cells i and j are both in every count from the later one on.
    later = np.cumsum(weights[::-1])[::-1]
    _, gradient = loss_and_gradient(theta, semiseparable(np.ones_like(later), later), later)
    return float(np.log(top) + np.log(size / top) / power), gradient / size


def _free_loss(free: Array, power: float, entries: Array) -> tuple[float, Array]:
    theta = np.zeros(free.shape)
    theta[free] = entries
    loss, gradient = loss_of_norm(theta, power)
    return loss, gradient[free]


def _rows(count: int, n: int, reach: float = 1.0) -> Array:
    """Return rows that rise to 1 and fall to 0 around evenly spaced centres, over so many of their distances."""
    centres = (np.arange(count) + 0.5) * n / count
    distance = np.abs(np.arange(n) + 0.5 - centres[:, None]) * count / n
    return np.maximum(0.0, 1 - distance / reach)

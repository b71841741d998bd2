"""The best strategy for totals and single cells: the identity and the total, each with one weight.

Source: HDMM, section 9 (p = 1) and Table 3 (row OPT_x): for a workload made of Total and Identity alone a p-Identity
with one constant row is as expressive as is useful; with Gaussian noise it is the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.workload import Identity, PIdentity, Total, Workload
from dpnotebook.workload.base import Array

LARGEST = 64  # of the integer weights
CLOSE = 1.0005  # they are accepted when the error is within 0.05% of the best that such weights reach


def two_weights(union: Sequence[tuple[float, Workload]], noise: Noise) -> PIdentity | None:
    """Return the identity and the total with the best integer weights for a union of totals and identities.

    Parameters
    ----------
    union
        Pairs of a squared weight and a factor over n cells.
    noise
        "laplace" or "gaussian".

    Returns
    -------
    None where other factors are asked for too, or the identity alone is as good.
    """
    n = union[0][1].shape[1]
    cells = sum(weight for weight, factor in union if isinstance(factor, Identity))
    totals = sum(weight for weight, factor in union if isinstance(factor, Total))
    if n == 1 or not cells or not totals or not all(isinstance(factor, Identity | Total) for _, factor in union):
        return None
    identity, total = np.meshgrid(np.arange(1, LARGEST + 1), np.arange(1, LARGEST + 1), indexing="ij")
    errors = _errors(identity.astype(float), total.astype(float), n, cells, totals, noise)
    if errors.min() >= n * (cells + totals):  # the identity alone, without a total
        return None
    good = np.flatnonzero(errors <= errors.min() * CLOSE)
    best = int(good[np.argmin((identity + total).flat[good])])
    divisor = math.gcd(a := int(identity.flat[best]), b := int(total.flat[best]))
    return PIdentity(np.full(n, a // divisor), np.full((1, n), b // divisor))


def _errors(identity: Array, total: Array, n: int, cells: float, totals: float, noise: Noise) -> Array:
    """Return |A|^2 |W A^+|_F^2: A'A = a^2 I + b^2 J has eigenvalue a^2 off the constant vector, a^2 + n b^2 on it."""
    law = law_of(noise)
    norm = law.squared_sensitivity(law.powers(identity) + law.powers(total))
    apart, together = identity**2, identity**2 + n * total**2
    return np.asarray(norm * (cells * ((n - 1) / apart + 1 / together) + totals * n / together))

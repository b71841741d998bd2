"""Strategies for a union of products: one product strategy a part, and how much to measure each.

Source: HDMM, Definition 19 (OPT_+). With E_j the error of part j alone and c_j its share of the budget, the total
sum E_j / c_j^2 is least, where the shares (Laplace) or their squares (Gaussian) sum to one, for c_j proportional to
E_j^(1/3) or E_j^(1/4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import total_variance
from dpnotebook.privacy.accountant import Noise
from dpnotebook.strategy.blocks import stacked
from dpnotebook.strategy.product import squared_sensitivity
from dpnotebook.workload import Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import Term, terms

CLOSE = 1.001  # integer weights are accepted when the error is within 0.1% of what real weights would give
LARGEST_STEP = 256
LARGEST_NORM = 2.0**60  # what is measured and its noise stay within 64 bits


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
    errors = np.array([float(p.weight) ** 2 * _product_variance(p, a) for p, a in zip(parts, operators, strict=True)])
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
    shares = (errors * squares) ** (1 / 3 if noise == "laplace" else 1 / 4) / np.sqrt(squares)
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
        scale *= 1.25
        yield scale


def _norm(weights: Array, squares: Array, noise: Noise) -> float:
    """Return the L1 norm of the stack for Laplace noise, the squared L2 norm for Gaussian noise."""
    return float(np.sqrt(squares) @ weights) if noise == "laplace" else float(squares @ weights**2)


def _split_error(weights: Array, errors: Array, squares: Array, noise: Noise) -> float:
    sensitivity = np.sqrt(squares) * weights
    norm = sensitivity.sum() ** 2 if noise == "laplace" else (sensitivity**2).sum()
    return float(norm * (errors / weights**2).sum())


def _product_variance(part: Term, operator: Workload) -> float:
    measured = terms(operator)[0].factors
    return float(np.prod([total_variance(a, w) for a, w in zip(measured, part.factors, strict=True)]))

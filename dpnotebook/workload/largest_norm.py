"""The largest column norm of a union of products, without forming the cells of its domain."""

from __future__ import annotations

import math

import numpy as np

from dpnotebook.workload.base import LARGEST_NORM, Array, Number, Product, number

CANDIDATES = 2**17  # column norms that are compared while looking for the largest sum


def largest_norm(products: tuple[Product, ...], power: int) -> Number | None:
    """Return the largest column sum of |entry|^power of a union of products over the same attributes.

    None if they are over different attributes, or too many cells could be the one with the largest sum.

    Parameters
    ----------
    products
        Of the union.
    power
        1 for the L1 norm, 2 for the square of the L2 norm.
    """
    if len({tuple(factor.shape[1] for factor in factors) for _, factors in products}) > 1:
        return None
    largest = [math.prod(factor.max_column_norm(power) for factor in factors) for _, factors in products]
    total = sum(abs(weight) ** power * norm for (weight, _), norm in zip(products, largest, strict=True))
    if total >= LARGEST_NORM:  # never less than what is looked for
        return None
    sums = np.array([[abs(weight) ** power] for weight, _ in products])
    for axis in range(len(products[0][1])):
        norms = _largest_columns(np.array([factors[axis].column_norms(power) for _, factors in products]))
        if sums.size * norms.shape[1] > CANDIDATES:
            return None
        sums = _largest_columns((sums[:, :, None] * norms[:, None, :]).reshape(len(products), -1))
    return number(sums.sum(axis=0).max())


def _largest_columns(columns: Array) -> Array:
    """Return the columns that no other column equals or exceeds in every entry: only they can have the largest sum."""
    kept = columns[:, :0]
    for column in columns[:, np.argsort(-columns.sum(axis=0, dtype=float), kind="stable")].T:
        if not (kept >= column[:, None]).all(axis=0).any():
            kept = np.column_stack((kept, column))
    return kept

"""The best weights for a basis that is known to suit a workload, such as wavelets or Fourier coefficients.

Source: Li and Miklau 2012, section 3.5: for Laplace noise no basis is good for every workload, but the convex program
still finds the best weights of one; section 5.3 compares bases for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.inverse import DENSE_CELLS, total_variance
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.competitors.fourier import coefficient_subsets
from dpnotebook.strategy.competitors.trees import per_attribute
from dpnotebook.strategy.eigen.weighting import weigh_queries
from dpnotebook.strategy.product import squared_sensitivity
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Fourier, Identity, Kron, Marginals, Wavelet, WeightedRows, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import SparseTerm, sparse_terms

COST = 1e-4  # share of the squared error that rounding the weights may add
NEGLIGIBLE = 1e-12  # a query that tells the workload less than this share of its squared size is not needed
SCALES = [2.0 ** (k / 4) for k in range(0, 120)]  # of the least weight: the first that is good enough
DEPENDENT = 1e-9  # squared share of a query outside of those before it, below which it follows from them

_BASES: dict[str, Callable[[int], Workload]] = {"wavelet": Wavelet, "fourier": Fourier}


def weighted_basis(
    workload: Workload,
    basis: Literal["wavelet", "fourier"] | Sequence[Workload] = "wavelet",
    noise: Noise = "laplace",
    *,
    tolerance: float = 1e-4,
    report: Progress = silent,
) -> Strategy:
    """Return the strategy that measures each query of a basis with its best weight, if any answer needs it.

    A single product is weighed attribute by attribute: the program and its optimum are products too.

    Parameters
    ----------
    workload
        What is to be answered: products of factors of up to 4,096 cells each, or a union over up to 4,096 cells.
    basis
        "wavelet" (Haar), "fourier" (Walsh, over the bits of each attribute), or a basis for each attribute: an integer
        workload whose queries determine all cells; those that follow from earlier ones get no weight.
    noise
        "laplace" or "gaussian".
    tolerance
        How far the weights may be from the best ones, as a share of the squared error.
    report
        Called with the progress.

    Raises
    ------
    WorkloadError
        If there are too many cells, the basis is not one, or parts of the workload are over different attributes.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> weighted = strategy.weighted_basis(AllRange(64), "wavelet")
    >>> weighted.objective < strategy.wavelet(AllRange(64)).objective
    True
    """
    if basis == "fourier" and (found := _weighted_coefficients(workload, noise)):
        return Strategy(workload, found, noise, "weighted fourier")
    parts = per_attribute(workload, "a weighted basis")
    bases = _bases(basis, parts[0].sizes)
    name = f"weighted {basis}" if isinstance(basis, str) else "weighted basis"
    if len(parts) == 1:
        pairs = list(zip(parts[0].factors, bases, strict=True))
    else:
        pairs = [(workload, bases[0] if len(bases) == 1 else Kron(*bases))]
    operators = [_weighted(factor, one, noise, tolerance, report) for factor, one in pairs]
    return Strategy(workload, operators[0] if len(operators) == 1 else Kron(*operators), noise, name)


def _bases(basis: str | Sequence[Workload], sizes: tuple[int, ...]) -> list[Workload]:
    if isinstance(basis, str):
        if basis not in _BASES:
            raise WorkloadError(f'a basis is "wavelet", "fourier", or one workload an attribute, not {shorten(basis)}')
        return [_BASES[basis](size) for size in sizes]
    found = list(basis)
    if tuple(one.shape[1] for one in found) != sizes or not all(one.integer for one in found):
        raise WorkloadError(f"a basis has one integer workload for each attribute, over {sizes} cells")
    return found


def _weighted_coefficients(workload: Workload, noise: Noise) -> Workload | None:
    """Return the weighted Fourier coefficients of marginals over bits, one weight a subset; None for other workloads.

    Coefficients of one subset cost alike and every cell uses all of them alike, so that the program is solved by
    weights in proportion to the cube root (Laplace) or the fourth root (Gaussian) of the cost.
    """
    asked = sparse_terms(workload)
    if asked is None or not _are_marginals_over_bits(*asked):
        return None
    sizes, terms = asked
    costs = dict.fromkeys(coefficient_subsets(terms, sizes), 0.0)
    for term in terms:
        axes = [axis for axis in term.axes if sizes[axis] > 1]
        cost = float(term.weight) ** 2 / math.prod(float(sizes[axis]) for axis in axes)
        for size in range(len(axes) + 1):
            for subset in combinations(axes, size):
                costs[subset] += cost
    values = np.array(list(costs.values()))
    counts = np.array([math.prod(sizes[axis] - 1.0 for axis in subset) for subset in costs])
    law = law_of(noise)
    weights = law.best_weights(values)
    norm = law.squared_sensitivity(float(counts @ law.powers(weights)))
    best = norm * float(counts @ (values / weights**2))
    whole = _integer_weights(weights, counts * values, counts[:, None], noise, best)
    factors = [Fourier(size, constant=False) if size > 1 else Identity(1) for size in sizes]
    return Marginals(factors, zip(costs, map(int, whole), strict=True))


def _are_marginals_over_bits(sizes: tuple[int, ...], terms: list[SparseTerm]) -> bool:
    bits = all(size & (size - 1) == 0 for size in sizes)
    return bits and all(isinstance(factor, Identity) for term in terms for factor in term.factors)


def _weighted(workload: Workload, basis: Workload, noise: Noise, tolerance: float, report: Progress) -> Workload:
    n = basis.shape[1]
    if n > DENSE_CELLS:
        raise WorkloadError(f"weights for a basis over {n:,} cells at once are not possible (limit {DENSE_CELLS:,})")
    rows = basis.dense().astype(float)
    kept = _independent(rows)
    report(None, "weighing the queries of the basis")
    costs = np.zeros(len(rows))
    costs[kept] = _costs(rows[kept], workload.gram().astype(float))
    law = law_of(noise)
    usage = law.powers(rows)
    found = weigh_queries(costs, usage, law.exponent, tolerance=tolerance, report=report)
    weights = law.roots(found.amounts)
    weighted = WeightedRows(_integer_weights(weights, costs, usage, noise, found.objective), basis)
    if len(kept) < len(rows) and _error(basis, workload, noise) < _error(weighted, workload, noise):
        return basis  # more queries than cells, all alike, tell more than the best weights of an independent part
    return weighted


def _error(operator: Workload, workload: Workload, noise: Noise) -> float:
    return squared_sensitivity(operator, noise) * total_variance(operator, workload)


def _independent(rows: Array) -> Array:
    """Return which rows to use: all of a square basis; of more rows than cells, those that repeat none before them."""
    if len(rows) == rows.shape[1]:
        return np.arange(len(rows))
    kept: list[int] = []
    space = np.zeros((0, rows.shape[1]))
    for i, row in enumerate(rows):
        rest = row - space.T @ (space @ row)
        rest -= space.T @ (space @ rest)
        if rest @ rest > DEPENDENT * (row @ row):
            kept.append(i)
            space = np.vstack((space, rest / np.linalg.norm(rest)))
    if len(kept) < rows.shape[1]:
        raise WorkloadError(f"these {len(rows):,} queries are no basis: they determine {len(kept):,} of the cells")
    return np.array(kept)


def _costs(rows: Array, gram: Array) -> Array:
    """Return the squared norms of the columns of W Q^-1, exactly 0 where they are nothing but rounding."""
    normal = rows @ rows.T
    squares = np.diagonal(normal)
    if not np.count_nonzero(normal - np.diag(squares)):
        costs = np.einsum("ij,ij->i", rows @ gram, rows) / squares**2
    else:
        try:
            inverse = np.linalg.inv(rows)
        except np.linalg.LinAlgError:
            raise WorkloadError("these queries are no basis: some of them follow from others") from None
        costs = np.einsum("ji,ji->i", inverse, gram @ inverse)
    return np.where(costs * squares > NEGLIGIBLE * np.trace(gram), costs, 0.0)


def _integer_weights(weights: Array, costs: Array, usage: Array, noise: Noise, best: float) -> Array:
    """Return the smallest integers in about these proportions whose error is within COST of the best."""
    needed = weights > 0
    unit = weights / weights[needed].min()
    for scale in SCALES:
        whole = np.where(needed, np.maximum(1, np.rint(scale * unit)), 0)
        norm = law_of(noise).squared_sensitivity(float((law_of(noise).powers(whole) @ usage).max()))
        if norm * float((costs[needed] / whole[needed] ** 2).sum()) <= best * (1 + COST):
            break
    return np.asarray(whole.astype(np.int64))

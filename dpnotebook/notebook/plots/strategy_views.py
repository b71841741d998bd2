"""What there is to see of a strategy: how wrong each answer will be, and what is measured; numbers, not yet drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.notebook import formatting
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import AllRange, Centred, Identity, Marginals, Permuted, Prefix, Total, Weighted, Workload
from dpnotebook.workload.terms import SparseTerm, sparse_terms, terms

MOST_QUERIES = 2_000_000  # whose errors are computed one by one
MOST_CELLS = 256  # of a factor that is drawn as a matrix
MOST_ROWS = 320  # of a matrix or a heat map that is drawn
MOST_POINTS = 1024  # of a curve
MOST_BARS = 24  # parts that are drawn: those of the largest errors or shares

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """A heat map: `values` is (rows, columns), NaN where there is nothing; the first row is at the top."""

    title: str
    values: Floats
    x: str
    y: str
    unit: str
    step: tuple[int, int] = (1, 1)  # rows and columns of the original for one that is drawn


@dataclass(frozen=True)
class Curve:
    """A line over the numbers of queries, `where` of shape (points,) and `values` likewise."""

    title: str
    where: Floats
    values: Floats
    x: str
    unit: str


@dataclass(frozen=True)
class Bars:
    """A bar a name."""

    title: str
    names: tuple[str, ...]
    values: Floats
    unit: str


@dataclass(frozen=True)
class Words:
    """Something that is said, not drawn."""

    title: str


View = Grid | Curve | Bars | Words


def query_errors(strategy: Strategy, unit_variance: float, names: Sequence[str]) -> list[View]:
    """Return the root mean squared error of every answer of a strategy, without weights, as what it is best seen as.

    Parameters
    ----------
    strategy
        How the answers come about.
    unit_variance
        Variance of the noise on one measurement of sensitivity one.
    names
        What to call the attributes.
    """
    m = strategy.workload.shape[0]
    if m > MOST_QUERIES:
        return [Words(f"{m:,} answers: too many to compute the error of each; on average they are as the bar says")]
    scale = strategy.law.squared_sensitivity(strategy.norm)
    errors = np.sqrt(strategy.error_factors() * scale * unit_variance) / query_weights(strategy.workload)
    asked = _inner(strategy.workload)
    if isinstance(asked, AllRange):
        return [_ranges(errors, asked.n)]
    products = sparse_terms(strategy.workload)
    if products is not None and len(products[1]) > 1:
        return [_by_product(errors, products[1], names), _sorted(errors)]
    factors = terms(strategy.workload)[0].factors
    if len(factors) == 2 and max(factor.shape[0] for factor in factors) <= MOST_ROWS:
        table = errors.reshape(factors[0].shape[0], factors[1].shape[0])
        return [Grid("error of each answer", table, f"query of {names[1]}", f"query of {names[0]}", "error")]
    if len(factors) == 1:
        title = "cumulative count up to cell" if isinstance(asked, Prefix) else "query"
        where = _spread(m, MOST_POINTS)
        return [Curve("error of each answer", where.astype(float), errors[where], title, "error")]
    return [_sorted(errors)]


def query_weights(workload: Workload) -> Floats | float:
    """Return the weight of every query, shape (m,); of what a person is told, the error is free of it."""
    products = sparse_terms(workload)
    parts = terms(workload) if products is None else products[1]
    if all(part.weight == 1 for part in parts):
        return 1.0
    counts = [part.queries if isinstance(part, SparseTerm) else part.product.shape[0] for part in parts]
    return np.repeat([float(part.weight) for part in parts], counts)


def measured(strategy: Strategy, names: Sequence[str]) -> list[View]:
    """Return what a strategy measures: matrices of factors, and how the sensitivity is shared by its parts.

    Parameters
    ----------
    strategy
        What is measured.
    names
        What to call the attributes.
    """
    operator = strategy.operator
    found = as_marginals(operator)
    if found is not None and len(found.factors) > 1:
        return [_subset_shares(found, strategy, names), *_factors(found.factors, names, strategy)]
    parts = terms(operator)
    if len(parts) == 1 and len(parts[0].factors) > 1:
        return list(_factors(parts[0].factors, names, strategy))
    if all(len(part.factors) == 1 for part in parts):
        return [_matrix(operator, "what is measured: a row a measurement", "cell", strategy)]
    shares = [
        float(part.weight) ** strategy.law.power * part.product.max_column_norm(strategy.law.power) for part in parts
    ]
    label = [_product_name(part.factors, names) for part in parts]
    return [_bars("share of the sensitivity that each part takes", label, np.array(shares, dtype=float))]


def _inner(workload: Workload) -> Workload:
    while isinstance(workload, Weighted | Permuted):
        workload = workload.workload
    return workload


def _ranges(errors: Floats, n: int) -> Grid:
    """Return the error of every range by its first (down) and its last cell (across)."""
    table = np.full((n, n), np.nan)
    table[np.triu_indices(n)] = errors
    step = -(-n // MOST_CELLS)
    if step > 1:  # the mean of each block of ranges
        side = -(-n // step)
        padded = np.full((side * step, side * step), np.nan)
        padded[:n, :n] = table
        blocks = padded.reshape(side, step, side, step)
        count = np.isfinite(blocks).sum(axis=(1, 3))
        total = np.nansum(blocks, axis=(1, 3))
        table = np.divide(total, count, out=np.full((side, side), np.nan), where=count > 0)
    return Grid("error of each range", table, "last cell", "first cell", "error", (step, step))


def _by_product(errors: Floats, parts: Sequence[SparseTerm], names: Sequence[str]) -> Bars:
    """Return the root mean squared error of the answers of each product."""
    ends = np.cumsum([part.queries for part in parts])
    sums = np.add.reduceat(errors**2, np.concatenate([[0], ends[:-1]]))
    means = np.sqrt(sums / np.diff(ends, prepend=0))
    order = np.argsort(-means, kind="stable")[:MOST_BARS]
    label = tuple(_part_name(parts[i], parts, names) for i in order)
    title = (
        "error of each part" if len(parts) <= MOST_BARS else f"error of the {MOST_BARS} worst of {len(parts):,} parts"
    )
    return Bars(title, label, means[order], "error")


def _sorted(errors: Floats) -> Curve:
    where = _spread(errors.size, MOST_POINTS)
    return Curve("all answers, from the least to the largest error", where.astype(float), np.sort(errors)[where],
                 "answers", "error")  # fmt: skip


def _subset_shares(found: Marginals, strategy: Strategy, names: Sequence[str]) -> Bars:
    power = strategy.law.power
    norms = [float(factor.max_column_norm(power)) for factor in found.factors]
    shares = [float(weight) ** power * math.prod(norms[i] for i in subset) for subset, weight in found.weights]
    label = [_subset_name(subset, names) for subset, _ in found.weights]
    return _bars("share of the sensitivity that each set of attributes takes", label, np.array(shares))


def _bars(title: str, label: Sequence[str], shares: Floats) -> Bars:
    """Return the largest shares as bars, the others as one."""
    shares = shares / shares.sum()
    order = np.argsort(-shares, kind="stable")
    shown, rest = order[:MOST_BARS], order[MOST_BARS:]
    values, kept = shares[shown], [label[i] for i in shown]
    if rest.size:
        values, kept = np.append(values, shares[rest].sum()), [*kept, f"{rest.size:,} others"]
    return Bars(title, tuple(kept), 100 * values, "percent")


def _factors(factors: Sequence[Workload], names: Sequence[str], strategy: Strategy) -> Iterator[View]:
    """Yield each distinct factor once, with the attributes that it is measured in."""
    places: dict[Workload, list[str]] = {}
    for name, factor in zip(names, factors, strict=True):
        places.setdefault(factor, []).append(name)
    plain: dict[str, list[str]] = {}
    for factor, where in places.items():
        if isinstance(factor, Total) and factor.n > 1:
            plain.setdefault("the total", []).extend(where)
        elif isinstance(factor, Identity | Centred | Total):
            what = "each cell against the mean of all" if isinstance(factor, Centred) else "each cell"
            plain.setdefault(what, []).extend(where)
        else:
            yield _matrix(factor, f"what is measured of {', '.join(where)}", "cell", strategy)
    if plain:
        yield Words("; ".join(f"{', '.join(where)}: {what}" for what, where in plain.items()))


def _matrix(operator: Workload, title: str, x: str, strategy: Strategy) -> View:
    """Return an operator as a matrix, in shares of the sensitivity, or what to say of one that is too large."""
    rows, n = operator.shape
    if n > MOST_CELLS:
        return Words(f"{title}: {rows:,} × {n:,}, drawn for up to {MOST_CELLS} cells")
    where = _spread(rows, MOST_ROWS)
    norm = float(operator.max_column_norm(strategy.law.power)) ** (1 / strategy.law.power)
    values = operator.rows(where).astype(float) / norm
    if where.size < rows:
        title += f" ({where.size} of {rows:,} rows)"
    return Grid(title, values, x, "measurement", "weight", (max(1, rows // where.size), 1))


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Return the numbers from 0 to count - 1, or so many of them evenly spaced."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.int64)


def _subset_name(axes: Sequence[int], names: Sequence[str]) -> str:
    return " × ".join(names[i] for i in axes) or "total"


def _part_name(part: SparseTerm, parts: Sequence[SparseTerm], names: Sequence[str]) -> str:
    """Return the attributes of a part; and what is asked of them, where that tells it from another part."""
    name = _subset_name(part.axes, names)
    if len(parts) > len({other.axes for other in parts}):
        name += f" ({' × '.join(factor.kind for factor in part.factors) or 'Total'})"
    return name


def _product_name(factors: Sequence[Workload], names: Sequence[str]) -> str:
    if len(factors) != len(names):
        return " × ".join(factor.kind for factor in factors)
    return _subset_name([i for i, factor in enumerate(factors) if not isinstance(factor, Total)], names)


def described(strategy: Strategy) -> str:
    """Return the size of what is measured, in words."""
    rows = strategy.operator.shape[0]
    return f"{formatting.plural(rows, 'measurement')}, sensitivity {formatting.rounded(strategy.sensitivity, 6)}"

"""From noisy measurements to counts that data could have: none below 0, and in agreement wherever they overlap.

Least squares is unbiased, and so says -3 where there is next to nothing. What is known of counts, that they are not
negative, is the other half of the information: nothing is spent for it, and on sparse data it halves the error. The
price is a bias: counts near 0 come out too high, others too low by as much (HDMM, section 10.1). Where the noise is
known these are the small ones: large counts are held to their values (`held_counts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.consistent import nearest_marginals
from dpnotebook.inference.held_counts import held_counts
from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.inference.least_squares import solver
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.inference.simplex import DENSE_CELLS, nearest_cells
from dpnotebook.progress import Progress, silent
from dpnotebook.workload import Identity, Total, Workload
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.compose import apply_factors
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import sparse_terms, terms

CELLS = 2**18  # most cells that are estimated one by one


@dataclass(frozen=True, eq=False)
class Counts:
    """Non-negative counts over some subsets of attributes, which agree wherever they overlap.

    Parameters
    ----------
    sizes
        Cells of each attribute.
    total
        All rows.
    tables
        Counts of every combination of the cells of some attributes, by the (ascending) positions of the attributes.
    further
        Gives the counts over attributes that are in no table together; None if nothing is known of them.

    Examples
    --------
    >>> from dpnotebook.inference import nonnegative
    >>> from dpnotebook.workload import Identity, Total
    >>> counts = nonnegative(Identity(3), [10, -2, 1])
    >>> counts.answers(Total(3))
    array([9.])
    """

    sizes: tuple[int, ...]
    total: float
    tables: Mapping[Subset, Array]
    further: Callable[[Subset], Array] | None = None

    def marginal(self, axes: Sequence[int]) -> Array:
        """Return the counts over some attributes, each axis of the result one of them.

        Parameters
        ----------
        axes
            Positions of attributes, ascending.

        Raises
        ------
        WorkloadError
            If these are no ascending positions of attributes, or nothing was measured of them together.
        """
        wanted = tuple(axes)
        if any(not 0 <= i < len(self.sizes) for i in wanted) or list(wanted) != sorted(set(wanted)):
            raise WorkloadError(
                f"{shorten(wanted)} are not ascending positions of attributes, 0 to {len(self.sizes) - 1}"
            )
        inside = [subset for subset in self.tables if set(wanted) <= set(subset)]
        if inside:
            subset = min(inside, key=lambda found: self.tables[found].size)
            gone = tuple(k for k, i in enumerate(subset) if i not in wanted)
            return np.asarray(self.tables[subset].sum(axis=gone))
        if self.further is None:
            raise WorkloadError(
                f"nothing was measured of the attributes {shorten(wanted)} together, so nothing follows of them"
            )
        return self.further(wanted)

    def answers(self, workload: Workload) -> Array:
        """Return the answers of a workload, shape (m,); sums of counts, so none is negative that counts rows.

        Raises
        ------
        WorkloadError
            If the workload is over other attributes, or about some of which nothing was measured together.
        """
        found = sparse_terms(workload)
        if (found is None or found[0] != self.sizes) and workload.shape[1] == math.prod(self.sizes):
            whole = tuple(range(len(self.sizes)))
            if whole in self.tables:
                return np.asarray(workload.matvec(self.tables[whole].reshape(-1)))
        if found is None or found[0] != self.sizes:
            raise WorkloadError(
                f"{shorten(workload)} is over other attributes than the measurements, of {self.sizes} cells"
            )
        answered = []
        for term in found[1]:
            require_memory(term.queries, "these answers")
            counts = self.marginal(term.axes)
            steps = [(k, factor.apply) for k, factor in enumerate(term.factors)]
            answered.append(
                term.weight * apply_factors(counts.reshape(1, -1, 1), list(counts.shape), steps).reshape(-1)
            )
        return np.concatenate(answered)


def nonnegative(
    operator: Workload,
    noisy: ArrayLike,
    total: float | None = None,
    report: Progress = silent,
    noise_std: float | None = None,
) -> Counts:
    """Return the non-negative counts nearest to noisy measurements, given how many rows there are in all.

    These are the cells x >= 0 of sum `total` that minimise |A x - y|. Where marginals of a larger domain were measured
    no cells are formed: of the marginals that are non-negative and agree wherever they overlap, these are the nearest
    to the least-squares ones, each part weighted by its precision. Both are convex problems, solved until the error of
    stopping is far below the noise. See also `graphical_model`.

    With `noise_std`, a count that lies above its own noise is held to its least-squares value besides: from half a
    standard error on, and from 8 on 30 times as strongly as what was measured of it alone. Then what is cut off below
    0 is taken from small counts, and large ones keep their values.

    Parameters
    ----------
    operator
        What was measured, shape (p, n): every row with the same noise variance.
    noisy
        Noisy answers, shape (p,).
    total
        Number of rows, where it is public; else what the measurements say of it. Left free, every count near 0 would
        add a little to it.
    report
        Told how far it is.
    noise_std
        Standard deviation of the noise of each measurement, where it is known.

    Raises
    ------
    WorkloadError
        If there is not one finite number for every measurement, the measurements do not tell the total and none is
        given, `noise_std` is no positive number, or the cells are too many and what was measured are no marginals.

    Examples
    --------
    >>> from dpnotebook.inference import nonnegative
    >>> from dpnotebook.workload import Identity
    >>> nonnegative(Identity(3), [10, -2, 1]).answers(Identity(3)).round(2)  # the nearest counts of the same total
    array([9., 0., 0.])
    """
    measured = checked(operator, noisy)
    rows = best_total(operator, measured) if total is None else given_total(total)
    if noise_std is not None and not 0 < noise_std < math.inf:
        raise WorkloadError(f"noise_std= is a standard deviation, a positive number; not {shorten(noise_std)}")
    found = sparse_terms(operator)
    sizes = (operator.shape[1],) if found is None else found[0]
    marginals = as_marginals(operator) if operator.shape[1] > DENSE_CELLS else None
    if marginals is not None:
        return Counts(sizes, rows, nearest_marginals(marginals, measured, rows, report, noise_std))
    if operator.shape[1] > CELLS:
        raise WorkloadError(
            f"non-negative counts of {operator.shape[1]:,} cells need measurements of marginals, with one kind of "
            f"queries an attribute; from others, such as {shorten(operator)}, at most {CELLS:,} cells are estimated"
        )
    held = None if noise_std is None else held_counts(operator, measured, noise_std)
    cells = nearest_cells(operator, measured, rows, report, held)
    return Counts(sizes, rows, {tuple(range(len(sizes))): cells.reshape(sizes)})


def checked(operator: Workload, noisy: ArrayLike) -> Array:
    """Return the noisy answers as floats, or raise WorkloadError if they are not those of the operator."""
    measured = np.asarray(noisy)
    p = operator.shape[0]
    if measured.shape != (p,) or measured.dtype.kind not in "biuf" or not np.isfinite(measured).all():
        raise WorkloadError(f"reconstruction needs one finite number for each of {p:,} measurements")
    return measured.astype(float)


def given_total(total: float) -> float:
    """Return a total that was given, or raise WorkloadError if it is no number of rows."""
    if isinstance(total, bool) or not isinstance(total, Real) or not 0 <= float(total) < math.inf:
        raise WorkloadError(f"total= is the number of rows, a finite number of at least 0; not {shorten(total)}")
    return float(total)


def best_total(operator: Workload, measured: Array) -> float:
    """Return the number of rows that the measurements tell, at least 0.

    Each product tells a total of its own; these are weighted by their precision, which for marginals is least squares.
    """
    found = sparse_terms(operator)
    products = found[1] if found else terms(operator)
    value = precision = 0.0
    first = 0
    for term in products:
        queries = math.prod(factor.shape[0] for factor in term.factors)
        told, variance = _product_total(term.factors, measured[first : first + queries])
        first += queries
        if variance < math.inf:
            value += float(term.weight) * told / variance
            precision += float(term.weight) ** 2 / variance
    if precision == 0:
        raise WorkloadError("the measurements do not tell how many rows there are: give total=")
    return max(0.0, value / precision)


def _product_total(factors: Sequence[Workload], noisy: Array) -> tuple[float, float]:
    """Return the best total from the noisy answers of one product, and its variance."""
    variance = math.prod(float(variances(inverse(w), Total(w.shape[1]))[0]) for w in factors)
    if variance == math.inf:
        return 0.0, variance
    steps = [(axis, solver(w)) for axis, w in enumerate(factors) if not isinstance(w, Identity)]
    cells = apply_factors(noisy.reshape(1, -1, 1), [w.shape[0] for w in factors], steps)
    return float(cells.sum()), variance

"""What the noisy numbers of a recorded measurement say about a few attributes, one part for each product of its union.

A measurement of marginals over many attributes says something about any few of them: each of its products is about its
own attributes only, and what it sums to over others follows by adding its noisy numbers up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.information import ANGLES
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Coarse, Identity, Kron, PIdentity, Prefix, Workload
from dpnotebook.workload.terms import sparse_terms

MOST_PRODUCTS = 1_000  # of a union that are all looked at
PROBES = 2**20  # numbers by which columns are told apart
WHOLE = 2**53  # up to it floats are exact on whole numbers
TOTAL = 1e-10  # by which a combination of answers may miss the total of a cell: rounding
LARGEST_FACTOR = 250_000  # entries of a factor whose total is looked for

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProductTerm:
    """Noisy answers of `operator` over the histogram of `axes`, of equal and independent noise.

    Parameters
    ----------
    axes
        The sides of the histogram.
    where
        Which rows take part.
    operator
        Queries over the cells of the histogram, shape (queries, cells).
    weight
        By what the queries are multiplied.
    columns
        Which numbers of the measurement the noisy answers are, shape (queries,); for sums of several numbers shape
        (queries, numbers).
    totals
        What each number of a sum counts for; None where every answer is one number.
    """

    axes: tuple[Axis, ...]
    where: Predicate
    operator: Workload
    weight: float
    columns: NDArray[np.intp]
    totals: Floats | None = None

    @property
    def attributes(self) -> frozenset[str]:
        """What its queries tell apart."""
        return frozenset(axis.attribute for axis in self.axes) | frozenset(self.where.attributes)

    @cached_property
    def is_counts(self) -> bool:
        """Whether its answers are disjoint counts, one a cell of the histogram."""
        return self.weight == 1 and is_identity(self.operator)

    @cached_property
    def form(self) -> str:
        """A text that is equal for parts with the same sides, of rows that are told by the same attributes."""
        return f"{[(axis.attribute, axis.levels) for axis in self.axes]} {self.where.attributes}"

    @cached_property
    def run(self) -> slice | None:
        """The places of its numbers among those of its measurement, where they follow each other: mostly they do."""
        if not self.columns.size or (np.diff(self.columns) != 1).any():
            return None
        return slice(int(self.columns[0]), int(self.columns[-1]) + 1)

    @cached_property
    def spread(self) -> float:
        """Variance of each answer, for numbers of unit variance."""
        return 1.0 if self.totals is None else float(self.totals @ self.totals)

    def answers(self, noisy: NDArray[Any]) -> Floats:
        """Return the noisy answers from all numbers of the measurement, shape (queries,)."""
        if self.totals is None:
            taken = noisy[self.columns if self.run is None else self.run]  # mostly all of them: a view
            return taken.astype(float, copy=False)
        return noisy[self.columns].astype(float, copy=False) @ self.totals


def parts_of(measurement: Measurement, domain: Domain, names: Collection[str]) -> Iterator[tuple[int, ProductTerm]]:
    """Yield the parts of a measurement of one component, one a product of its union, with their numbers.

    Parameters
    ----------
    measurement, domain
        What was asked, of which declared domain.
    names
        The attributes of interest. Of a union of very many products only those over nothing else are given.
    """
    axes, sizes = measurement.axes, tuple(axis.size for axis in measurement.axes)
    found = sparse_terms(measurement.operator)
    everything = np.arange(measurement.operator.shape[0])
    if found is None or found[0] != sizes:
        yield 0, ProductTerm(axes, measurement.where, measurement.operator, 1.0, everything)
        return
    few = len(found[1]) <= MOST_PRODUCTS
    inside = {place for place, axis in enumerate(axes) if axis.attribute in names}
    first = 0
    for index, term in enumerate(found[1]):
        columns = everything[first : first + term.queries]
        first += term.queries
        if not few and not inside.issuperset(term.axes):
            continue
        where, kept = measurement.where, []
        for place, axis in enumerate(axes):
            if place in term.axes:
                kept.append(axis)
            elif axis.size < domain[axis.attribute].size:
                mask = np.zeros(domain[axis.attribute].size, dtype=bool)
                mask[list(axis.levels)] = True
                where = where & Predicate.box(where.domain, {axis.attribute: mask})
        yield index, ProductTerm(tuple(kept), where, product_of(term.factors), float(term.weight), columns)


def projected(part: ProductTerm, names: Sequence[str], domain: Domain) -> ProductTerm | None:
    """Return what a part says about some attributes only, or None where it says nothing that is known how to find.

    Parameters
    ----------
    part
        Noisy answers over more attributes.
    names
        The attributes that are left.
    domain
        The table's declared domain.
    """
    if part.attributes <= set(names):
        return part
    if not set(part.where.attributes) <= set(names) or part.totals is not None:
        return None
    factors = part.operator.factors if isinstance(part.operator, Kron) else (part.operator,)
    if len(factors) != len(part.axes):
        return None
    columns = part.columns.reshape([factor.shape[0] for factor in factors])
    totals: NDArray[Any] = np.ones(1)
    kept, order, last = [], [], []
    for place, (axis, factor) in enumerate(zip(part.axes, factors, strict=True)):
        if axis.attribute in names:
            kept.append(place)
            order.append(place)
            continue
        summing = _total_of(factor) if axis.size == domain[axis.attribute].size else None
        if summing is None:
            return None
        totals = np.multiply.outer(totals, summing).ravel()
        last.append(place)
    columns = columns.transpose(order + last).reshape(-1, totals.size)
    used = np.flatnonzero(totals)
    return ProductTerm(
        tuple(part.axes[place] for place in kept),
        part.where,
        product_of([factors[place] for place in kept]),
        part.weight,
        columns[:, used],
        totals[used],
    )


def product_of(factors: Sequence[Workload]) -> Workload:
    """Return the product of operators, one an axis: of no axis the count of the one cell there is."""
    if not factors:
        return Identity(1)
    return factors[0] if len(factors) == 1 else Kron(*factors)


@lru_cache(maxsize=256)
def _total_of(factor: Workload) -> Floats | None:
    """Return the least combination of the answers of a factor that is the total of its cells; None without one."""
    if isinstance(factor, Identity):
        return np.ones(factor.shape[0])
    if factor.shape[0] * factor.shape[1] > LARGEST_FACTOR:
        return None
    matrix = np.asarray(factor.dense(), dtype=float)
    combination: Floats = np.linalg.lstsq(matrix.T, np.ones(matrix.shape[1]), rcond=None)[0]
    told = combination @ matrix
    return combination if np.allclose(told, 1.0, rtol=0, atol=TOTAL) else None


def is_identity(operator: Workload) -> bool:
    """Return whether every query is the count of one cell, in order."""
    # Thousands of times a plan, and of an abstract class `isinstance` takes far longer.
    if type(operator) is Identity:
        return True
    if type(operator) is Kron:
        return all(map(is_identity, operator.factors))
    return isinstance(operator, Identity)


def unique_columns(operator: Workload, limit: int) -> tuple[Floats, NDArray[np.intp]] | None:
    """Return the distinct non-zero columns of an operator, and which of them each cell has, -1 for none.

    Parameters
    ----------
    operator
        Shape (queries, cells).
    limit
        Most entries to look at, of the operator and of a matrix over the classes; None is returned for more.

    Returns
    -------
    Shape (queries, classes) and shape (cells,).
    """
    m, n = operator.shape
    if is_identity(operator):
        return (np.eye(n), np.arange(n)) if n * n <= limit else None
    if isinstance(operator, Coarse):
        inner = unique_columns(operator.workload, limit)
        return None if inner is None else (inner[0], np.append(inner[1], -1)[operator.run_of])
    if m * n > limit:
        return None
    dense = np.asarray(operator.dense(), dtype=float)
    if isinstance(operator, Prefix | PIdentity):  # each cell begins, or is, a query of its own
        return dense, np.arange(n)
    if m == 1:
        values, which = np.unique(dense[0], return_inverse=True)
        classes: Floats = values[None, :]
    else:
        classes, which = _distinct(dense)
    zero = ~classes.any(axis=0)
    number = np.cumsum(~zero) - 1
    number[zero] = -1
    if int((~zero).sum()) ** 2 > limit:  # as of a sum over all levels of a wide column
        return None
    return classes[:, ~zero], number[which.reshape(-1)]


def _distinct(matrix: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct columns of a matrix in the order in which they come first, and which of them each is.

    Columns of whole numbers are told apart by their products with a few fixed vectors, which are exact.
    """
    largest = float(np.abs(matrix).max(initial=0.0)) * matrix.shape[0]
    if largest * PROBES < WHOLE and np.array_equal(matrix, np.rint(matrix)):
        rows = np.arange(1, matrix.shape[0] + 1)[:, None]
        probes = np.floor(PROBES * (rows * np.sqrt(ANGLES) % 1.0))
        _, first, which = np.unique(probes.T @ matrix, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        which = np.argsort(order)[which.reshape(-1)]
        classes = matrix[:, first[order]]
        if np.array_equal(classes[:, which], matrix):
            return classes, which
    classes, which = np.unique(matrix, axis=1, return_inverse=True)
    return classes, which.reshape(-1)


def read_axes(values: Sequence[Sequence[Any]]) -> tuple[Axis, ...]:
    """Return the axes that `measurement_to_json` wrote: of each its attribute and the runs of its levels."""
    return tuple(
        Axis(name, tuple(level for start, end in runs for level in range(start, end))) for name, runs in values
    )


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as JSON values; `measurement_from_json` reads them."""
    return {
        "operator": measurement.operator.to_json(),
        "axes": [[axis.attribute, axis.runs] for axis in measurement.axes],
        "where": measurement.where.to_json(),
        "summand": measurement.summand.to_json(),
    }


def measurement_from_json(values: Mapping[str, Any], domain: Domain) -> Measurement:
    """Return the measurement that `measurement_to_json` wrote, of a table with this domain."""
    from dpnotebook.query.question import Summand

    return Measurement(
        Workload.from_json(values["operator"]),
        read_axes(values["axes"]),
        Predicate.from_json(values["where"], domain),
        Summand.from_json(values["summand"]),
    )

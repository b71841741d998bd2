"""How a question is asked of the histogram of a source: a union of products, box by box of its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.errors import WorkloadError
from dpnotebook.inference.marginal_algebra import MarginalAlgebra, marginal_algebra, variances_of_sums
from dpnotebook.planner.answers import Floats
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.sources import MOST_SUMMED, Determined, MeasuredHistogram
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.planner.value_ends import ENDS
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis
from dpnotebook.strategy.blocks import blocks
from dpnotebook.strategy.strategy import Reconstruction
from dpnotebook.workload import Explicit, Identity, Prefix, Stack, Total, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.runs import placed
from dpnotebook.workload.terms import SparseTerm

MOST_ENTRIES = 4 * 10**6  # of queries that are written out
MOST_BOXES = 64  # of a condition that is no product, whose parts are answered together
Mask = NDArray[np.bool_]
Boxes = Sequence[Mapping[str, Mask]]


class AskedProducts:
    """A question as a union of products, and how it is asked of the histogram of a source."""

    def __init__(self, part: ProductTerm, terms: Sequence[SparseTerm], domain: Domain) -> None:
        self.part, self.terms, self.domain = part, terms, domain
        self.where = part.where
        self.queries = sum(term.queries for term in terms)
        self.names = [axis.attribute for axis in part.axes]

    @cached_property
    def boxes(self) -> Boxes:
        """Disjoint boxes that hold the rows that take part."""
        return [{}] if self.where.is_everything else self.where.products()

    @property
    def alike(self) -> NDArray[np.intp]:
        """For each answer one whose noise has the same law where marginals are known: by symmetry in the levels."""
        found, first = [], 0
        for term in self.terms:
            numbers = np.arange(first, first + term.queries).reshape([factor.shape[0] for factor in term.factors])
            for axis, factor in enumerate(term.factors):
                if len(self.boxes) == 1 and isinstance(factor, Identity):
                    numbers = np.broadcast_to(numbers.take([0], axis), numbers.shape)
            found.append(numbers.ravel())
            first += term.queries
        return np.concatenate(found)

    def may_lie_in(self, rows: Predicate) -> bool:
        """Return whether all rows of the question may be among these, by what they are told apart by."""
        if rows.is_everything or rows.key == self.where.key:
            return True
        if not set(rows.attributes) <= set(self.where.attributes):
            return False
        boxes = rows.products()
        return len(boxes) == 1 and not any((self._taking[name] & ~mask).any() for name, mask in boxes[0].items())

    @cached_property
    def _taking(self) -> Mapping[str, Mask]:
        """The levels that rows of the question can have, of what these are told apart by."""
        found = {name: np.zeros(self.domain[name].size, dtype=bool) for name in self.where.attributes}
        for name, mask in found.items():
            mask[list(self.where.levels_of(name))] = True
        return found

    def may_be_told(self, axes: Sequence[Axis], rows: Predicate) -> bool:
        """Return whether a histogram may determine the answers, by what it tells apart."""
        told = {axis.attribute for axis in axes}
        if any(self.domain[name] == ENDS and name not in self.names for name in told):  # a sum tells no count
            return False
        if rows.key != self.where.key and not set(self.where.attributes) <= told | set(rows.attributes):
            return False
        return set(self.names) <= told and self.may_lie_in(rows)

    def least_variance(self, precision: float, marginals: Sequence[tuple[Subset, float, slice]]) -> float:
        """Return what no answer that is made of some marginals can have less variance than.

        Of an answer q and any direction d no unbiased estimate has less than (qd)^2 / (d'Xd), X being the information
        (Gauss-Markov): here d are the cells at one level of what is asked apart, and at every level of all else.

        Parameters
        ----------
        precision
            Of each number.
        marginals
            Each with its attributes, its weight, and its numbers.
        """
        told = sum(
            weight**2 / math.prod(self._summed.get(place, 1) for place in subset) for subset, weight, _ in marginals
        )
        return self._least_count**2 / (told * precision) if told > 0 else math.inf

    @cached_property
    def _summed(self) -> dict[int, int]:
        """By place in the domain, how many levels each attribute has over all of which every answer adds up."""
        apart = {*self.names, *self.where.attributes}
        return {place: self.domain[name].size for place, name in enumerate(self.domain.names) if name not in apart}

    @cached_property
    def _least_count(self) -> float:
        """What every answer takes at least one cell times; 0 where that is not known."""
        plain = all(isinstance(factor, Identity | Prefix | Total) for term in self.terms for factor in term.factors)
        return min((term.weight for term in self.terms), default=0.0) if plain else 0.0

    def of(self, source: MeasuredHistogram) -> Determined | None:
        """Return what a source says of the answers; None where it determines none of them."""
        if not set(self.names) <= {axis.attribute for axis in source.axes}:
            return None
        try:
            parts = self._over(source)
            if parts is None:
                return None
            found = [_reconstruction(workload, source.operator) for workload in parts]
            if len(found) == 1:
                variances = found[0].variances() * source.variance
                return Determined(source, found[0], variances) if np.isfinite(variances).any() else None
            if self.queries * len(found) * source.operator.shape[0] > MOST_SUMMED:
                return None
            algebras = [one for one in found if isinstance(one, MarginalAlgebra)]
            if len(algebras) == len(found):
                return Determined(source, _SumsOverBoxes(algebras), variances_of_sums(algebras) * source.variance)
            rows = np.arange(self.queries)
            weights = sum((one.weights(rows) for one in found), np.zeros((1, 1)))
            return Determined(source, _Weights(weights), (weights**2).sum(axis=1) * source.variance)
        except WorkloadError:  # not determined, or only by least squares over more cells than there is room for
            return None

    def _over(self, source: MeasuredHistogram) -> list[Workload] | None:
        """Return the question over the histogram of a source, one workload for each box of its rows."""
        if source.where.key == self.where.key:
            found = [self._box(source, None)]
        else:
            rows = [{}] if source.where.is_everything else source.where.products()
            if len(rows) != 1 or not 1 <= len(self.boxes) <= MOST_BOXES:
                return None
            told = {axis.attribute for axis in source.axes}
            if not all(_inside(box, rows[0], told) for box in self.boxes):
                return None
            found = [self._box(source, box) for box in self.boxes]
        workloads = [workload for workload in found if workload is not None]
        return workloads if len(workloads) == len(found) else None

    def _box(self, source: MeasuredHistogram, box: Mapping[str, Mask] | None) -> Workload | None:
        """Return the queries inside a box of rows over the histogram of a source; inside of all its rows for None."""
        places = [self.names.index(axis.attribute) if axis.attribute in self.names else -1 for axis in source.axes]
        parts: list[Workload] = []
        known: dict[tuple[str, int | None], Workload | None] = {}  # many parts ask the same of an attribute
        for term in self.terms:
            asked = [place for place in places if place in term.axes]
            if asked != sorted(asked):  # rows would be in another order
                return None
            own, factors = dict(zip(term.axes, map(id, term.factors), strict=True)), []
            for axis, place in zip(source.axes, places, strict=True):
                key = axis.attribute, own.get(place)
                if key not in known:
                    known[key] = self._factor(axis, place, term, None if box is None else box.get(axis.attribute))
                factor = known[key]
                if factor is None:
                    return None
                factors.append(factor)
            parts.append(product_of(factors))
        return parts[0] if len(parts) == 1 else Stack(*parts)

    def _factor(self, axis: Axis, place: int, term: SparseTerm, mask: Mask | None) -> Workload | None:
        """Return what is asked along one side of a histogram, over its levels."""
        levels = np.asarray(axis.levels)
        if place < 0:
            if mask is None:  # rows at other levels take part as well, and were not counted
                everywhere = allowed_levels(self.where, axis.attribute, self.domain)
                return Total(levels.size) if axis.levels == everywhere else None
            return _on(Total(int(mask.sum())), np.flatnonzero(mask), levels)
        own = np.asarray(self.part.axes[place].levels)
        inner = term.factors[term.axes.index(place)] if place in term.axes else Total(own.size)
        keep = np.ones(own.size, dtype=bool) if mask is None else mask[own]
        return _on(inner, own, levels, None if keep.all() else keep)


def _inside(box: Mapping[str, Mask], rows: Mapping[str, Mask], told: set[str]) -> bool:
    """Return whether a box is among some rows, and told apart from the others of them by the given attributes."""
    if any(name not in box or (mask < box[name]).any() for name, mask in rows.items()):
        return False
    return all(name in told or (name in rows and (rows[name] == mask).all()) for name, mask in box.items())


def _on(inner: Workload, own: NDArray[np.intp], levels: NDArray[np.intp], keep: Mask | None = None) -> Workload | None:
    """Return queries over some levels as queries over all of a histogram's, 0 where they are not or not kept."""
    if own.size == levels.size and keep is None:
        return inner if (own == levels).all() else None
    at = np.searchsorted(levels, own)
    if not own.size or at[-1] >= levels.size or (levels[at] != own).any():
        return None
    if keep is None and isinstance(inner, Contiguous) and at[-1] - at[0] == at.size - 1:
        return placed(inner, int(at[0]), levels.size)
    queries = inner.shape[0]
    if queries * levels.size > MOST_ENTRIES:
        return None
    rows = np.zeros((queries, levels.size))
    rows[:, at] = inner.rows(np.arange(queries)) * (1 if keep is None else keep)
    return Explicit(rows)


def _reconstruction(workload: Workload, operator: Workload) -> Reconstruction:
    return marginal_algebra(workload, operator) or blocks(workload, operator, False)


@dataclass(frozen=True, eq=False)
class _SumsOverBoxes:
    """Answers as sums of those of each box of rows, from marginals: what these count for is written out if asked for.

    Parameters
    ----------
    boxes
        The same questions of each box.
    """

    boxes: Sequence[MarginalAlgebra]

    def total_variance(self) -> float:
        """Return the sum of `variances`."""
        return float(self.variances().sum())

    def variances(self) -> Floats:
        """Return the variance of each answer for measurements of unit variance."""
        return np.asarray(variances_of_sums(self.boxes))

    def weights(self, rows: NDArray[Any]) -> Floats:
        """Return what measurements count for in some answers, shape (rows, measurements)."""
        return np.asarray(sum((one.weights(rows) for one in self.boxes), np.zeros((1, 1))))

    def answers(self, noisy: Floats) -> Floats:
        """Return the answers that follow from noisy measurements."""
        return np.asarray(sum((one.answers(noisy) for one in self.boxes), np.zeros(1)))


@dataclass(frozen=True, eq=False)
class _Weights:
    """Answers as combinations of the measurements that are written out, shape (answers, measurements)."""

    matrix: Floats

    def total_variance(self) -> float:
        """Return the sum of `variances`."""
        return float((self.matrix**2).sum())

    def variances(self) -> Floats:
        """Return the variance of each answer for measurements of unit variance."""
        return np.asarray((self.matrix**2).sum(axis=1))

    def weights(self, rows: NDArray[Any]) -> Floats:
        """Return some of the combinations."""
        return np.asarray(self.matrix[rows])

    def answers(self, noisy: Floats) -> Floats:
        """Return the answers that follow from noisy measurements."""
        return np.asarray(self.matrix @ noisy)

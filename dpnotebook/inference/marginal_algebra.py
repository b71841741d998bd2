"""Least squares from measured subsets of attributes, over domains of any size.

In the coordinates of `attribute_split` the normal matrix of weighted marginals is diagonal, one entry a subset S of
attributes: p_S = sum over measured b containing S of theta_b^2 times the product of s_i over i in b but not in S.
So what varies within S alone has its own best estimate, and these are independent: an answer is a sum of one part for
every S among its attributes, and its variance the sum of theirs (HDMM, Theorems 8 and 9, for Identity factors: p_S are
the eigenvalues).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.attribute_split import AttributeSplit, attribute_split
from dpnotebook.workload import Identity, Marginals, Workload
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.compose import apply_factors, row_products
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm, sparse_terms


@dataclass(frozen=True, eq=False)
class MarginalAlgebra:
    """Answers of a union of products from measured marginals.

    Parameters
    ----------
    operator
        What was measured.
    terms
        The queries: products over the same attributes.
    """

    operator: Marginals
    terms: tuple[SparseTerm, ...]

    def total_variance(self) -> float:
        """Return the sum of `variances` from traces alone; infinite if something is not determined."""
        total = 0.0
        for term in self.terms:
            pairs = [self._traces(axis, factor) for axis, factor in zip(term.axes, term.factors, strict=True)]
            weight = float(term.weight) ** 2
            for subset, inside in _parts(term.axes):
                share = weight
                for (beta, alpha), within in zip(pairs, inside, strict=True):
                    share *= beta if within else alpha
                if share > 0:  # not where it is infinity times nothing
                    precision = self.precisions[subset]
                    total += share / precision if precision > 0 else math.inf
        return total

    def variances(self) -> Array:
        """Return the variance of each answer for measurements of unit variance, shape (queries,)."""
        found = np.empty(sum(term.queries for term in self.terms))
        first = 0
        for term in self.terms:
            found[first : first + term.queries] = self._term_variances(term)
            first += term.queries
        return found

    def variances_of_terms(self) -> Array:
        """Return the largest variance among the answers of each term, shape (terms,)."""
        return np.array([float(np.max(self._term_variances(term))) for term in self.terms])

    def weights(self, rows: Array) -> Array:
        """Return the coefficients of the measurements in the given answers, shape (rows, measurements)."""
        out = np.zeros((rows.size, self.operator.shape[0]))
        first = 0
        for term in self.terms:
            mine = np.flatnonzero((first <= rows) & (rows < first + term.queries))
            if mine.size:
                out[mine] = self._term_weights(term, rows[mine] - first)
            first += term.queries
        return out

    def answers(self, noisy: Array) -> Array:
        """Return the answers from all measurements, shape (queries,)."""
        return self.answers_of(self.estimates(noisy))

    def answers_of(self, estimates: Mapping[Subset, Array]) -> Array:
        """Return the answers that follow from estimates of the parts (see `estimates`), shape (queries,)."""
        found = []
        for term in self.terms:
            shape = [factor.shape[0] for factor in term.factors]
            total = np.zeros(shape)
            for subset, inside in _parts(term.axes):
                estimate = estimates.get(subset)
                if estimate is None:
                    continue
                factors = [w for w, chosen in zip(term.factors, inside, strict=True) if chosen]
                sizes = [w.shape[1] for w in factors]
                steps = [(k, w.apply) for k, w in enumerate(factors)]
                part = apply_factors(estimate.reshape(1, -1, 1), sizes, steps)
                part = part.reshape([m if chosen else 1 for m, chosen in zip(shape, inside, strict=True)])
                for k, (axis, chosen) in enumerate(zip(term.axes, inside, strict=True)):
                    if not chosen:
                        along = [1] * len(shape)
                        along[k] = shape[k]
                        part = part * self.splits[axis].means(term.factors[k]).reshape(along)
                total += part
            found.append(float(term.weight) * total.reshape(-1))
        return np.concatenate(found)

    @cached_property
    def splits(self) -> tuple[AttributeSplit, ...]:
        """The split of every attribute."""
        return tuple(attribute_split(factor) for factor in self.operator.factors)

    @cached_property
    def precisions(self) -> dict[Subset, float]:
        """p_S of every subset that the queries are about, 0 where nothing measured tells of it."""
        asked = self._asked
        found = dict.fromkeys(asked, 0.0)
        for measured, weight in self.operator.weights:
            for subset, share in self._told(measured):
                found[subset] += float(weight) ** 2 * share
        return found

    @cached_property
    def _asked(self) -> dict[Subset, None]:
        asked: dict[Subset, None] = {}
        for axes in dict.fromkeys(term.axes for term in self.terms):
            for size in range(len(axes) + 1):
                asked.update(dict.fromkeys(combinations(axes, size)))
        return asked

    def _told(self, measured: Subset) -> Iterator[tuple[Subset, float]]:
        """Yield each subset asked about that this measurement tells of, with the product of s over what is left out."""
        seen = [i for i in measured if self.splits[i].s > 0]
        if 2 ** len(seen) <= len(self._asked):
            for size in range(len(seen) + 1):
                for left in combinations(seen, size):
                    subset = tuple(i for i in measured if i not in left)
                    if subset in self._asked:
                        yield subset, math.prod(self.splits[i].s for i in left)
            return
        members, loose = set(measured), set(seen)
        for subset in self._asked:
            if members.issuperset(subset) and loose.issuperset(left_out := members.difference(subset)):
                yield subset, math.prod(self.splits[i].s for i in left_out)

    def _traces(self, axis: int, factor: Workload) -> tuple[float, float]:
        known = self._known_traces.get((axis, factor))
        if known is None:
            split = self.splits[axis]
            known = self._known_traces[axis, factor] = (split.total_variance(factor), split.squared_means(factor))
        return known

    @cached_property
    def _known_traces(self) -> dict[tuple[int, Workload], tuple[float, float]]:
        return {}

    def _seen(self, axis: int) -> Array:
        known = self._known_seen.get(axis)
        if known is None:
            known = np.asarray(self.operator.factors[axis].matvec(self.splits[axis].z))
            self._known_seen[axis] = known
        return known

    @cached_property
    def _known_seen(self) -> dict[int, Array]:
        return {}

    def _measured(self) -> Iterator[tuple[Subset, float, slice]]:
        first = 0
        for subset, weight in self.operator.weights:
            count = math.prod(self.operator.factors[i].shape[0] for i in subset)
            yield subset, float(weight), slice(first, first + count)
            first += count

    def estimates(self, noisy: Array) -> dict[Subset, Array]:
        """Return, for every subset asked about, the best estimate of the part of the cells that varies within it.

        Each is an array over the cells of the subset's attributes, flat.
        """
        sums: dict[Subset, Array] = {}
        for measured, weight, where in self._measured():
            told = list(self._told(measured))
            if not told:
                continue
            table = weight * noisy[where].astype(float).reshape([self.operator.factors[i].shape[0] for i in measured])
            for subset, _ in told:
                part: Array = table
                # What A says of z, and not z of A'y: the latter cancels where measurements hold little of the total.
                for k in reversed(range(len(measured))):
                    if measured[k] not in subset:
                        part = np.tensordot(part, self._seen(measured[k]), axes=([k], [0]))
                steps = [(k, self.operator.factors[i].apply_transposed) for k, i in enumerate(subset)]
                cells = apply_factors(part.reshape(1, -1, 1), list(part.shape), steps).reshape(-1)
                sums[subset] = sums[subset] + cells if subset in sums else cells
        for subset, part in sums.items():
            steps = [(k, self.splits[i].spread) for k, i in enumerate(subset)]
            spread = apply_factors(part.reshape(1, -1, 1), [self.operator.sizes[i] for i in subset], steps)
            sums[subset] = spread.reshape(-1) / self.precisions[subset]
        return sums

    def _term_variances(self, term: SparseTerm) -> Array | float:
        """Return the variance of each answer of a term, shape (queries,), or that of all."""
        told = [self._told_apart(axis, factor) for axis, factor in zip(term.axes, term.factors, strict=True)]
        if all(rest.size == 1 for rest, _ in told):  # as the counts of one marginal, whose levels have no order
            return self._single_variance(term, told)
        sizes = [factor.shape[0] for factor in term.factors]
        told = [tuple(np.broadcast_to(one, size) for one in pair) for pair, size in zip(told, sizes, strict=True)]
        total = np.zeros(term.queries)
        for subset, inside in _parts(term.axes):
            part: Array = np.ones(1)
            for (rest, squares), chosen in zip(told, inside, strict=True):
                part = np.kron(part, rest if chosen else squares)
            part[np.isnan(part)] = 0.0  # what is not determined does not matter where it is not asked for
            precision = self.precisions[subset]
            total += part / precision if precision > 0 else np.where(part > 0, np.inf, 0.0)
        return np.asarray(float(term.weight) ** 2 * total)

    def _single_variance(self, term: SparseTerm, told: Sequence[tuple[Array, ...]]) -> float:
        """Return the variance of every answer of a term whose queries are all alike."""
        pairs = [(float(rest[0]), float(squares[0])) for rest, squares in told]
        total = 0.0
        for subset, inside in _parts(term.axes):
            part = math.prod(rest if chosen else squares for (rest, squares), chosen in zip(pairs, inside, strict=True))
            if part > 0:  # not where it is infinity times nothing
                precision = self.precisions[subset]
                total += part / precision if precision > 0 else math.inf
        return float(term.weight) ** 2 * total

    def _told_apart(self, axis: int, factor: Workload) -> tuple[Array, ...]:
        """Return `AttributeSplit.parts`, each of shape (1,) where the queries are all alike."""
        known = self._known_parts.get((axis, factor))
        if known is None:
            rest, squares = self.splits[axis].parts(factor)
            alike = rest.size and (rest == rest[0]).all() and (squares == squares[0]).all()
            known = self._known_parts[axis, factor] = (rest[:1], squares[:1]) if alike else (rest, squares)
        return known

    @cached_property
    def _known_parts(self) -> dict[tuple[int, Workload], tuple[Array, ...]]:
        return {}

    def _term_weights(self, term: SparseTerm, rows: Array) -> Array:
        where = np.unravel_index(rows, [factor.shape[0] for factor in term.factors]) if term.axes else ()
        wanted = {i: w.rows(index).astype(float) for i, w, index in zip(term.axes, term.factors, where, strict=True)}
        means = {i: queries @ self.splits[i].z for i, queries in wanted.items()}
        if not np.isfinite(np.broadcast_to(self._term_variances(term), term.queries)[rows]).all():
            raise WorkloadError("the measurements do not determine every answer")
        out = np.zeros((rows.size, self.operator.shape[0]))
        within: dict[int, Array] = {}  # what each measured level of an attribute counts for in its queries
        for i, queries in wanted.items():
            split = self.splits[i]
            within[i] = split.operator.apply(split.spread(queries.T[None]))[0].T
        for measured, weight, columns in self._measured():
            require_memory(rows.size * (columns.stop - columns.start), "these weights")
            members, loose = set(measured), {i for i in measured if self.splits[i].s > 0}
            for subset, _ in _parts(term.axes):
                if not (members.issuperset(subset) and loose.issuperset(members.difference(subset))):
                    continue  # this measurement tells nothing of it
                blocks = [np.full((rows.size, 1), float(term.weight) * weight / self.precisions[subset])]
                for i in term.axes:
                    if i not in subset:
                        blocks[0] = blocks[0] * means[i][:, None]
                blocks += [within[i] if i in subset else self._seen(i)[None] for i in measured]
                out[:, columns] += row_products(blocks)
        return out


def variances_of_sums(summed: Sequence[MarginalAlgebra]) -> Array:
    """Return the variances of sums of answers, one of each, for measurements of unit variance, shape (queries,).

    What varies within different subsets of attributes is independent: of two answers what they share is found subset by
    subset, and what the measurements count for in them is never written out.

    Parameters
    ----------
    summed
        From the same measurements, of as many terms with as many queries each.

    Raises
    ------
    WorkloadError
        If some of the answers are not determined.
    """
    if not all(np.isfinite(one.variances()).all() for one in summed):
        raise WorkloadError("the measurements do not determine every answer")
    found = []
    for terms in zip(*(one.terms for one in summed), strict=True):
        sides = [_Sides.of(one, term) for one, term in zip(summed, terms, strict=True)]
        total = np.zeros(terms[0].queries)
        for place, own in enumerate(sides):
            total += own.shared(own) + 2 * sum(own.shared(other) for other in sides[place + 1 :])
        found.append(total)
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class _Sides:
    """The queries of a term along each attribute, one row a query.

    Parameters
    ----------
    term, precisions
        The term; p_S of each subset of its attributes.
    rows
        The queries along each attribute, shape (queries, levels).
    spread
        Their products with C, the covariance of what varies within the attribute.
    means
        What of each query follows from the total, shape (queries,).
    """

    term: SparseTerm
    precisions: Mapping[Subset, float]
    rows: Mapping[int, Array]
    spread: Mapping[int, Array]
    means: Mapping[int, Array]

    @classmethod
    def of(cls, algebra: MarginalAlgebra, term: SparseTerm) -> _Sides:
        """Return the sides of a term of an algebra."""
        shape = [factor.shape[0] for factor in term.factors]
        where = np.unravel_index(np.arange(term.queries), shape) if term.axes else ()
        rows = {i: w.rows(index).astype(float) for i, w, index in zip(term.axes, term.factors, where, strict=True)}
        spread = {i: algebra.splits[i].spread(own.T[None])[0].T for i, own in rows.items()}
        means = {i: own @ algebra.splits[i].z for i, own in rows.items()}
        return cls(term, algebra.precisions, rows, spread, means)

    def shared(self, other: _Sides) -> Array:
        """Return the covariance of each query with that of another term, shape (queries,)."""
        both = tuple(i for i in self.term.axes if i in other.term.axes)
        apart = np.full(self.term.queries, float(self.term.weight) * float(other.term.weight))
        for i in self.term.axes:
            apart = apart if i in both else apart * self.means[i]
        for i in other.term.axes:
            apart = apart if i in both else apart * other.means[i]
        within = {i: np.einsum("ij,ij->i", self.rows[i], other.spread[i]) for i in both}
        total = np.zeros(self.term.queries)
        for subset, _ in _parts(both):
            part = apart
            for i in both:
                part = part * (within[i] if i in subset else self.means[i] * other.means[i])
            if part.any():
                total += part / self.precisions[subset]
        return total


def _parts(axes: Subset) -> Iterator[tuple[Subset, tuple[bool, ...]]]:
    """Yield every subset of the axes, and which of them are in it."""
    for chosen, inside in _patterns(len(axes)):
        yield tuple([axes[k] for k in chosen]), inside


@lru_cache(maxsize=32)
def _patterns(count: int) -> tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]:
    chosen = [subset for size in range(count + 1) for subset in combinations(range(count), size)]
    return tuple((subset, tuple(k in subset for k in range(count))) for subset in chosen)


def marginal_algebra(workload: Workload, operator: Workload) -> MarginalAlgebra | None:
    """Return how a workload is answered from measured marginals; None if the two are not of that form.

    Parameters
    ----------
    workload
        A union of products.
    operator
        `Marginals`, or a union of products with one kind of factor an attribute, each over a subset of its own.
    """
    measured = as_marginals(operator)
    asked = sparse_terms(workload)
    if measured is None or asked is None or asked[0] != measured.sizes:
        return None
    return MarginalAlgebra(measured, tuple(asked[1]))


def as_marginals(operator: Workload) -> Marginals | None:
    """Return a union of products as marginals with the same rows in the same order, if it is one."""
    if isinstance(operator, Marginals):
        return operator
    found = sparse_terms(operator)
    if found is None or len(found[1]) < 2:
        return None
    sizes, terms = found
    kinds: list[Workload | None] = [None] * len(sizes)
    weights: dict[Subset, int | float] = {}
    for term in terms:
        if term.axes in weights:
            return None
        weights[term.axes] = term.weight
        for axis, factor in zip(term.axes, term.factors, strict=True):
            if kinds[axis] not in (None, factor):
                return None
            kinds[axis] = factor
    return Marginals((kind or Identity(size) for kind, size in zip(kinds, sizes, strict=True)), weights)

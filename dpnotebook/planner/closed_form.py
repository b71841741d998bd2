"""What recorded measurements say of a question in closed form, over domains of any size.

Marginals of the same rows are combined in the residual basis, whatever their noise is; of any other measurement its own
least squares is taken. These sources are independent, so that their answers are combined by their precisions, answer
by answer. Least squares over atoms is never worse: this is for where there are too many of them.

MeasuredHistogram: HDMM, section 10 and Theorem 9; Gauss-Markov theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.errors import WorkloadError
from dpnotebook.inference.marginal_algebra import marginal_algebra
from dpnotebook.planner.answers import Floats
from dpnotebook.planner.exchangeable import ByClasses
from dpnotebook.planner.information import ANGLES, MIDDLE
from dpnotebook.planner.known_part import NEGLIGIBLE, Key
from dpnotebook.planner.over_rows import ByRows
from dpnotebook.planner.product_terms import ProductTerm, is_identity, product_of
from dpnotebook.planner.repeats import Repeats
from dpnotebook.planner.to_linear import MAX_CELLS, allowed_levels
from dpnotebook.planner.value_ends import ENDS
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.strategy.blocks import blocks
from dpnotebook.strategy.strategy import Reconstruction
from dpnotebook.workload import Explicit, Identity, Marginals, Stack, Total, Workload
from dpnotebook.workload.contiguous import Contiguous
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.runs import placed
from dpnotebook.workload.terms import SparseTerm, sparse_terms

MOST_ENTRIES = 4 * 10**6  # of queries that are written out
MOST_BOXES = 64  # of a condition that is no product, whose parts are answered together
MOST_SUMMED = 2 * 10**7  # weights of noisy numbers in all boxes of all answers
MOST_JOINT = 4 * 10**6  # of measurements over several histograms, of which hardly any weight is 0
MOST_OTHERS = 64  # measurements that are no marginals, of which each is looked at
NAMED = 0.01  # a release that has less of the variance, relative to the one that has most, is not named
MOST_LOOKED = 1  # answers whose sources are looked for: all of a question are answered alike
MOST_MIXED = 16  # of measurements over several histograms; of more, those of a mixture of all
ROUNDING = 1e-12  # by which a weight may miss a whole number
SAFE = 2.0  # times a bound on weights, which may be computed in another order

Mask = NDArray[np.bool_]
Boxes = Sequence[Mapping[str, Mask]]


@dataclass(frozen=True)
class Draws:
    """Where the numbers of recorded measurements of the same queries are among those of a source.

    Parameters
    ----------
    precisions
        The measurements of the same queries, with one over the variance of the numbers of each.
    columns
        Their places in the source.
    share
        What each counts for in the number of the source, times its precision.
    numbers
        Which numbers of a measurement they are.
    """

    precisions: Mapping[Key, float]
    columns: slice
    share: float
    numbers: slice


@dataclass(frozen=True, eq=False)
class MeasuredHistogram:
    """Measurements over one histogram, as one measurement with equal noise on every number.

    Parameters
    ----------
    where
        The rows that were counted.
    axes
        The sides of the histogram.
    operator
        The queries over its cells.
    noisy
        The numbers, shape (queries,).
    variance
        Of each number.
    draws
        Which recorded numbers they are made of.
    """

    where: Predicate
    axes: tuple[Axis, ...]
    operator: Workload
    noisy: Floats
    variance: float
    draws: tuple[Draws, ...]

    @property
    def marginals(self) -> bool:
        """Whether these are marginals."""
        return isinstance(self.operator, Marginals)


@dataclass(frozen=True, eq=False)
class JointNumbers:
    """Numbers of measurements over several histograms that are one source, of unit variance each.

    Parameters
    ----------
    noisy, draws
        As in `MeasuredHistogram`.
    """

    noisy: Floats
    draws: tuple[Draws, ...]


class _Histogram:
    """The histogram of some rows over all attributes, with the levels that these rows have.

    Parameters
    ----------
    where, domain
        The rows, of which declared domain.
    """

    def __init__(self, where: Predicate, domain: Domain) -> None:
        self.where, self.domain = where, domain

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """All attributes with the levels that these rows have."""
        return tuple(Axis(name, allowed_levels(self.where, name, self.domain)) for name in self.domain.names)

    @cached_property
    def sides(self) -> Sequence[Identity]:
        """The counts of each level of them."""
        return [Identity(axis.size) for axis in self.axes]


@dataclass(eq=False)
class _Marginals:
    """Marginals of the same rows: their measurements, with the weight of each subset and its numbers.

    Parameters
    ----------
    of
        What they are marginals of.
    place
        How many others were known when the first of them came.
    known
        The measurements by their queries.
    """

    of: _Histogram
    place: int
    known: dict[str, tuple[Repeats, list[tuple[Subset, float, slice]]]] = field(default_factory=dict)

    def source(self) -> MeasuredHistogram:
        """Return them as one weighted measurement of marginals, of unit variance: precisions add up."""
        precision: dict[Subset, float] = {}
        numbers: dict[Subset, Floats] = {}
        for known, parts in self.known.values():
            for subset, weight, columns in parts:
                own = known.weighted[columns] * weight
                numbers[subset] = numbers[subset] + own if subset in numbers else own
                precision[subset] = precision.get(subset, 0.0) + weight**2 * known.precision
        weights = {subset: math.sqrt(each) for subset, each in precision.items()}
        places: dict[Subset, slice] = {}
        first = 0
        for subset in weights:
            places[subset] = slice(first, first + numbers[subset].size)
            first += numbers[subset].size
        draws = [
            Draws(known.now, places[subset], weight / weights[subset], columns)
            for known, parts in self.known.values()
            for subset, weight, columns in parts
        ]
        operator = Marginals(self.of.sides, weights)
        noisy = np.concatenate([numbers[subset] / weights[subset] for subset in weights])
        return MeasuredHistogram(self.of.where, self.of.axes, operator, noisy, 1.0, tuple(draws))


class ClosedForm:
    """Recorded measurements of one summand, by what they have in common.

    Parameters
    ----------
    domain
        The table's declared domain.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._marginals: dict[str, _Marginals] = {}
        self._telling: dict[str, int] = {}  # those that may tell of a part of their rows, and their places among all
        self._others: dict[str, Repeats] = {}
        self._sources: dict[tuple[bool, str], MeasuredHistogram] = {}

    def copy(self) -> ClosedForm:
        """Return a copy that can be added to without changing this one."""
        twin = ClosedForm(self.domain)
        twin._marginals = {key: replace(one, known=dict(one.known)) for key, one in self._marginals.items()}
        twin._telling, twin._others, twin._sources = dict(self._telling), dict(self._others), dict(self._sources)
        return twin

    def put(self, known: Repeats) -> None:
        """Add measurements of the same queries, in the place of what was known of these before."""
        measurement = known.measurement
        parts = _as_marginals(measurement, self.domain)
        if parts is None:
            at = False, measurement.key
            before = self._others.get(measurement.key)
            if before is not None and before.since != known.since:
                del self._others[measurement.key]  # the latest come last
            self._others[measurement.key] = known
        else:
            at = True, measurement.where.key
            rows = measurement.where
            if rows.key not in self._marginals:
                self._marginals[rows.key] = _Marginals(_Histogram(rows, self.domain), len(self._marginals))
            group = self._marginals[rows.key]
            group.known[measurement.key] = known, parts
            # A single count tells nothing of a part of its rows, and there may be many.
            if rows.key not in self._telling and (rows.is_everything or any(subset for subset, _, _ in parts)):
                self._telling[rows.key] = group.place
        self._sources.pop(at, None)

    @property
    def whole(self) -> bool:
        """Whether all that was measured is one source, so that this is least squares over everything."""
        return len(self._marginals) == 1 and not self._others

    def known(self, part: ProductTerm, step: float, least_scale: float) -> InClosedForm | None:
        """Return what is known about a question; None where it has no such form, or nothing is known.

        Parameters
        ----------
        part
            The question.
        step
            What one integer is worth in the answer's units.
        least_scale
            The least scale of noise that anything was measured with.
        """
        found = sparse_terms(part.operator)
        if found is None or found[0] != tuple(axis.size for axis in part.axes):
            if part.axes or part.operator.shape != (1, 1):
                return None
            found = (), [SparseTerm(1, (), ())]
        asked = _Asked(part, found[1], self.domain)
        if asked.queries > MAX_CELLS:
            return None
        told = [one for source in self._candidates(asked) if (one := asked.of(source)) is not None]
        symmetric = all(isinstance(one.source, MeasuredHistogram) and one.source.marginals for one in told)
        alike = asked.alike if symmetric else np.arange(asked.queries)
        return InClosedForm(tuple(told), step, least_scale, self.whole, alike) if told else None

    def _candidates(self, asked: _Asked) -> Iterator[MeasuredHistogram]:
        """Yield the sources whose rows may hold all those of a question, the latest first."""
        of = self._marginals.get(asked.where.key)
        found = {} if of is None else {asked.where.key: of.place}
        for key, place in self._telling.items():
            if key not in found and asked.may_lie_in(self._marginals[key].of.where):
                found[key] = place
        for key in sorted(found, key=found.__getitem__):
            yield self._source((True, key))
        others = [
            key
            for key, known in reversed(self._others.items())
            if asked.may_be_told(known.measurement.axes, known.measurement.where)
        ]
        for key in others[:MOST_OTHERS]:
            yield self._source((False, key))

    def _source(self, at: tuple[bool, str]) -> MeasuredHistogram:
        if at not in self._sources:
            marginals, name = at
            if marginals:
                self._sources[at] = self._marginals[name].source()
            else:
                self._sources[at] = _together(self._others[name])
        return self._sources[at]


def in_classes(found: ByClasses | ByRows, step: float, least_scale: float, reach: float) -> InClosedForm:
    """Return a question with what is known by classes of levels, or over measured numbers.

    Parameters
    ----------
    found
        How it follows from what was measured.
    step, least_scale, reach
        As for `InClosedForm`.
    """
    draws = []
    for known, columns in found.sources():
        everything = slice(0, known.weighted.size)
        draws.append(Draws(known.now, columns, 1 / math.sqrt(known.precision), everything))
    source = JointNumbers(found.numbers, tuple(draws))
    one = Determined(source, found, found.variances())
    return InClosedForm((one,), step, least_scale, found.every, found.alike, reach)


def _as_marginals(measurement: Measurement, domain: Domain) -> list[tuple[Subset, float, slice]] | None:
    """Return a measurement as marginals of its rows: of each its attributes, its weight and its numbers."""
    found = sparse_terms(measurement.operator)
    sizes = tuple(axis.size for axis in measurement.axes)
    places = [domain.names.index(axis.attribute) for axis in measurement.axes]
    if not sizes and measurement.operator.shape == (1, 1):
        found = (), [SparseTerm(1, (), ())] if is_identity(measurement.operator) else []
    if found is None or found[0] != sizes or not found[1] or places != sorted(set(places)):
        return None
    if any(axis.levels != allowed_levels(measurement.where, axis.attribute, domain) for axis in measurement.axes):
        return None
    parts, first = [], 0
    for term in found[1]:
        if not all(isinstance(factor, Identity) for factor in term.factors):
            return None
        subset = tuple(places[axis] for axis in term.axes)
        parts.append((subset, float(term.weight), slice(first, first + term.queries)))
        first += term.queries
    return parts


def _together(known: Repeats) -> MeasuredHistogram:
    """Return measurements of the same queries as one, of all their precision."""
    first, precision = known.measurement, known.precision
    everything = slice(0, first.operator.shape[0])
    draws = Draws(known.now, everything, 1 / precision, everything)
    noisy = known.weighted / precision
    return MeasuredHistogram(first.where, first.axes, first.operator, noisy, 1 / precision, (draws,))


class _Asked:
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
        return rows.key == self.where.key or set(rows.attributes) <= set(self.where.attributes)

    def may_be_told(self, axes: Sequence[Axis], rows: Predicate) -> bool:
        """Return whether a histogram may determine the answers, by what it tells apart."""
        told = {axis.attribute for axis in axes}
        if any(self.domain[name] == ENDS and name not in self.names for name in told):  # a sum tells no count
            return False
        if rows.key != self.where.key and not set(self.where.attributes) <= told | set(rows.attributes):
            return False
        return set(self.names) <= told and self.may_lie_in(rows)

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


@dataclass(frozen=True, eq=False)
class Determined:
    """What one source says of the answers.

    Parameters
    ----------
    source
        The measurements.
    reconstruction
        How answers follow from them.
    variances
        Of every answer, infinite where it is not determined; shape (answers,).
    """

    source: MeasuredHistogram | JointNumbers
    reconstruction: Reconstruction
    variances: Floats


def _in_turn(one: Determined, row: int) -> Iterator[Floats]:
    """Yield what the numbers of each measurement of a source count for in an answer, as far as it is looked at."""
    if isinstance(one.reconstruction, ByClasses):
        yield from one.reconstruction.in_turn(row)
        return
    weights = one.reconstruction.weights(np.array([row]))[0]
    yield from (weights[draws.columns] for draws in one.source.draws)


@dataclass(frozen=True, eq=False)
class InClosedForm:
    """A question, and what independent sources say of it, in integers of its summand.

    Parameters
    ----------
    found
        What each source says, at least one.
    step
        What one integer is worth in the answer's units.
    least_scale
        The least scale of noise that anything was measured with.
    whole
        Whether there is nothing else: then this is least squares over everything.
    alike
        For each answer one whose noise has the same law, shape (answers,).
    reach
        The most that a draw of noise can count for in an answer, in steps.
    supposed
        Whether some of it is only supposed: then there are no answers yet.
    """

    found: tuple[Determined, ...]
    step: float
    least_scale: float
    whole: bool
    alike: NDArray[np.intp]
    reach: float = 1.0
    supposed: bool = False

    told = True  # something that was measured bears on the answers

    @property
    def partial(self) -> bool:
        """Whether less is known here than was measured: what only differences of sources would tell is left out."""
        return not self.whole

    @property
    def count(self) -> int:
        """Number of answers."""
        return int(self.variances.size)

    @cached_property
    def variances(self) -> Floats:
        """Variance of the best answer to each, infinite where there is none; shape (answers,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / sum((1 / one.variances for one in self.found), np.zeros(1)))

    @property
    def products(self) -> bool:
        """Whether this is by classes of levels, and everything that was measured are products."""
        one = self.found[0].reconstruction
        return isinstance(one, ByClasses) and one.products

    @property
    def joint(self) -> bool:
        """Whether all is one source of measurements over several histograms, of which it is known what they share."""
        return len(self.found) == 1 and isinstance(self.found[0].source, JointNumbers)

    def jointly(self) -> tuple[Floats, Floats] | None:
        """Return covariances and residuals of all answers, as for `joint_measurement.together`; None if not known."""
        one = self.found[0].reconstruction
        return one.jointly() if self.joint and isinstance(one, ByClasses | ByRows) else None

    def certain(self) -> InClosedForm:
        """Return this: variances are those of the very weights that answers will be made with."""
        return self

    def estimates(self) -> tuple[Floats, Floats]:
        """Return the best answers, 0 while they are only supposed, and their variances, each of shape (answers,)."""
        return np.zeros(self.count) if self.supposed else self._values, self.variances

    @cached_property
    def _values(self) -> Floats:
        values = np.zeros(self.count)
        for one in self.found:
            known = np.isfinite(one.variances)
            answers = one.reconstruction.answers(one.source.noisy)
            values[known] += (answers * self.shares(one))[known]
        return values

    def shares(self, one: Determined) -> Floats:
        """Return what a source counts for in each answer, shape (answers,)."""
        known = np.isfinite(one.variances) & (one.variances > 0)  # what counts nothing is 0, whatever was measured
        return np.where(known, self.variances, 0.0) / np.where(known, one.variances, 1.0)

    def _weights(self, one: Determined, rows: NDArray[np.intp]) -> Floats:
        """Return what each number of a source counts for in some answers of its own, shape (rows, numbers)."""
        key = id(one), rows.tobytes()
        if key not in self._kept:
            self._kept.clear()  # the latest is asked for twice, for its noise and for the releases that it is of
            self._kept[key] = one.reconstruction.weights(rows)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[tuple[int, bytes], Floats]:
        return {}

    def draws(self, rows: NDArray[np.intp], most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and the measurement it is of.

        Parameters
        ----------
        rows
            Which answers.
        most
            Draws; None is returned where there are more.

        Returns
        -------
        Shape (rows, draws), and one key a draw.
        """
        columns: list[Floats] = [np.zeros((rows.size, 0))]
        keys: list[Key] = []
        for one in self.found:
            shares = self.shares(one)[rows]
            mine = np.flatnonzero(shares)
            if not mine.size:
                continue
            if rows.size * one.source.noisy.size > (MOST_JOINT if self.joint else MOST_SUMMED):
                return None
            in_turn = mine.size > MOST_MIXED or isinstance(one.reconstruction, ByClasses)
            if self.joint and in_turn and self._many(one, rows[mine], most):
                return None
            weights = self._weights(one, rows[mine]) * shares[mine, None]
            if mine.size < rows.size:
                some, weights = weights, np.zeros((rows.size, one.source.noisy.size))
                weights[mine] = some
            sizes = np.abs(weights).max(axis=0)
            # A weight that is a whole number but for rounding is one: nothing is left of those near 0.
            least = max(NEGLIGIBLE * float(sizes.max(initial=1e-300)), ROUNDING)
            for draws in one.source.draws:
                each = draws.share * np.array([*draws.precisions.values()])
                kept = np.abs(each)[:, None] * sizes[draws.columns] > least
                counts = np.count_nonzero(kept, axis=1)
                if len(keys) + int(counts.sum()) > most:
                    return None
                which, numbers = np.nonzero(kept)
                own = weights[:, draws.columns][:, numbers] * each[which]
                near = np.rint(own)
                own = np.where(np.abs(own - near) < ROUNDING, near, own)  # a number that is shown as it was drawn
                columns.append(own)
                for key, count in zip(draws.precisions, counts.tolist(), strict=True):
                    keys.extend([key] * count)
        return np.concatenate(columns, axis=1), keys

    def _many(self, one: Determined, rows: NDArray[np.intp], most: int) -> bool:
        """Return whether the first of some answers of a joint source is of more draws already.

        Its numbers have unit variance: no weight is above the standard error of its answer, by which `draws` leaves out
        what is negligible beside the largest weight of all the answers.
        """
        if (id(one), rows.tobytes()) in self._kept:
            return False
        least = max(NEGLIGIBLE * SAFE * math.sqrt(float(one.variances[rows].max())), ROUNDING)
        share, found, seen = float(self.shares(one)[rows[0]]), 0, []
        for draws, weights in zip(one.source.draws, _in_turn(one, int(rows[0])), strict=True):
            each, own = np.abs(draws.share * np.array([*draws.precisions.values()])), np.abs(weights * share)
            found += int(np.count_nonzero(each[:, None] * own > least))
            if found > most:
                return True
            seen.append(weights)
        if rows.size == 1:
            self._kept.clear()
            self._kept[id(one), rows.tobytes()] = np.concatenate(seen)[None]
        return False

    def sources(self) -> tuple[int, ...]:
        """Return the numbers of the releases that the best answers use, ascending."""
        return self._sources

    @cached_property
    def _sources(self) -> tuple[int, ...]:
        known = np.isfinite(self.variances)
        rows = np.flatnonzero(known)[: MOST_MIXED if self.joint else MOST_LOOKED]
        found: list[tuple[float, Draws]] = []
        for one in self.found:
            mine = rows[np.isfinite(one.variances[rows])]
            if not mine.size:
                continue
            if isinstance(one.reconstruction, ByClasses | ByRows) and known.sum() > MOST_MIXED:
                probe = MIDDLE + np.cos(np.arange(self.count) * math.sqrt(ANGLES[0]))
                weights = np.abs(one.reconstruction.mixed(np.where(known, probe, 0.0)))
            else:
                weights = np.abs(self._weights(one, mine) * self.shares(one)[mine][:, None])
            for draws in one.source.draws:
                largest = float(weights[:, draws.columns].max(initial=0.0)) * draws.share
                found.append((largest**2, draws))  # of each draw: its weight squared, over its precision
        most = [size * max(draws.precisions.values(), default=0.0) for size, draws in found]
        least = NAMED * max(most, default=0.0)
        named: set[int] = set()
        for (size, draws), largest in zip(found, most, strict=True):
            if largest > least:
                named.update(key[0] for key, own in draws.precisions.items() if size * own > least and key[0])
        return tuple(sorted(named))

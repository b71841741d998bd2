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

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.planner.answers import Floats
from dpnotebook.planner.asked_histogram import AskedProducts
from dpnotebook.planner.block_queries import same_queries
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.known_part import Key
from dpnotebook.planner.product_terms import ProductTerm, is_identity
from dpnotebook.planner.repeats import Repeats
from dpnotebook.planner.sources import Determined, Draws, MeasuredHistogram
from dpnotebook.planner.to_linear import MAX_CELLS, allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity, Marginals
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm, sparse_terms

MOST_OTHERS = 64  # measurements that are no marginals, of which each is looked at


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


@dataclass(eq=False)
class _Latest:
    """What sources say of the latest question, which is looked at several times in a plan.

    Parameters
    ----------
    asked
        The question.
    told
        What each source says of it, by its number; with the source itself, so that no other has that number.
    by_themselves
        The same of measurements of the same queries alone, by their rows and queries; with their precisions, of which
        there is a new copy whenever something is added.
    holding
        By rows, whether all those of the question may be among them.
    """

    asked: AskedProducts
    told: dict[int, tuple[MeasuredHistogram, Determined | None]] = field(default_factory=dict)
    by_themselves: dict[tuple[str, str], tuple[Mapping[Key, float], Determined | None]] = field(default_factory=dict)
    holding: dict[str, bool] = field(default_factory=dict)


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
        self._shared: set[str] = set()  # of these, what a copy has too: it is copied before something is added
        # Those that may tell of a part of their rows, by what these are told by, and their places among all.
        self._telling: dict[frozenset[str], dict[str, int]] = {}
        self._others: dict[str, Repeats] = {}
        self._sources: dict[tuple[bool, str], MeasuredHistogram] = {}
        # What each source says of the latest question, which copies share: beside a proposal most say what they did.
        self._latest: list[_Latest] = []

    def copy(self) -> ClosedForm:
        """Return a copy that can be added to without changing this one."""
        twin = ClosedForm(self.domain)
        twin._marginals = dict(self._marginals)
        self._shared, twin._shared = set(self._marginals), set(self._marginals)
        twin._telling = {names: dict(places) for names, places in self._telling.items()}
        twin._others, twin._sources, twin._latest = dict(self._others), dict(self._sources), self._latest
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
            if rows.key in self._shared:
                self._shared.remove(rows.key)
                group = self._marginals[rows.key] = replace(group, known=dict(group.known))
            group.known[measurement.key] = known, parts
            # A single count tells nothing of a part of its rows, and there may be many.
            if rows.is_everything or any(subset for subset, _, _ in parts):
                self._telling.setdefault(frozenset(rows.attributes), {}).setdefault(rows.key, group.place)
        self._sources.pop(at, None)

    @property
    def whole(self) -> bool:
        """Whether all that was measured is one source, so that this is least squares over everything."""
        return len(self._marginals) == 1 and not self._others

    @property
    def alone(self) -> bool:
        """Whether all that was measured are the same queries, no marginals: then their own least squares are all."""
        return len(self._others) == 1 and not self._marginals

    def each(
        self, part: ProductTerm, step: float, least_scale: float, most: float = math.inf
    ) -> Iterator[InClosedForm]:
        """Yield what marginals say of a question that were measured by the same queries, without those by others.

        Together they have less variance, and at some confidence longer intervals: single draws have shorter ones than
        sums of draws. Arguments as for `known`; of such as leave every answer a variance above `most` nothing comes.
        """
        asked = self._asked(part)
        if asked is None:
            return
        for key in self._may_hold(asked):
            group = self._marginals[key]
            for name, known in group.known.items() if len(group.known) > 1 else ():
                if asked.least_variance(known[0].precision, known[1]) > most:
                    continue
                if (one := self._by_itself(asked, group, name)) is not None:
                    yield InClosedForm((one,), step, least_scale, False, asked.alike)

    def _asked(self, part: ProductTerm) -> AskedProducts | None:
        """Return a question as products; None where it has no such form. The latest is kept."""
        if self._latest and same_queries(self._latest[0].asked.part, part):
            return self._latest[0].asked
        found = sparse_terms(part.operator)
        if found is None or found[0] != tuple(axis.size for axis in part.axes):
            if part.axes or part.operator.shape != (1, 1):
                return None
            found = (), [SparseTerm(1, (), ())]
        asked = AskedProducts(part, found[1], self.domain)
        if asked.queries > MAX_CELLS:
            return None
        self._latest[:] = [_Latest(asked)]
        return asked

    def _told(self, asked: AskedProducts, source: MeasuredHistogram) -> Determined | None:
        """Return what a source says of a question, as `AskedProducts.of`: of the latest it is worked out once."""
        kept = self._of(asked).told
        if id(source) not in kept:
            kept[id(source)] = source, asked.of(source)
        return kept[id(source)][1]

    def _of(self, asked: AskedProducts) -> _Latest:
        """Return what is kept of a question: of another one than the latest nothing."""
        latest = self._latest[0] if self._latest else None
        return latest if latest is not None and latest.asked is asked else _Latest(asked)

    def _by_itself(self, asked: AskedProducts, group: _Marginals, name: str) -> Determined | None:
        """Return what marginals say of a question measured by the same queries, worked out once as `_told`."""
        kept, at, now = self._of(asked).by_themselves, (group.of.where.key, name), group.known[name][0].now
        if at not in kept or kept[at][0] is not now:
            kept[at] = now, asked.of(replace(group, known={name: group.known[name]}).source())
        return kept[at][1]

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
        asked = self._asked(part)
        if asked is None:
            return None
        told = [one for source in self._candidates(asked) if (one := self._told(asked, source)) is not None]
        symmetric = all(isinstance(one.source, MeasuredHistogram) and one.source.marginals for one in told)
        alike = asked.alike if symmetric else np.arange(asked.queries)
        return InClosedForm(tuple(told), step, least_scale, self.whole, alike) if told else None

    def _candidates(self, asked: AskedProducts) -> Iterator[MeasuredHistogram]:
        """Yield the sources whose rows may hold all those of a question, the latest first."""
        for key in self._may_hold(asked):
            yield self._source((True, key))
        others = [
            key
            for key, known in reversed(self._others.items())
            if asked.may_be_told(known.measurement.axes, known.measurement.where)
        ]
        for key in others[:MOST_OTHERS]:
            yield self._source((False, key))

    def _may_hold(self, asked: AskedProducts) -> list[str]:
        """Return the rows of marginals that may hold all those of a question, in the order in which they came."""
        of, own = self._marginals.get(asked.where.key), frozenset(asked.where.attributes)
        holding = self._of(asked).holding
        found = {} if of is None else {asked.where.key: of.place}
        for names, places in self._telling.items():
            for key, place in places.items() if names <= own else ():
                if key not in holding:
                    holding[key] = asked.may_lie_in(self._marginals[key].of.where)
                if holding[key]:
                    found[key] = place
        return sorted(found, key=found.__getitem__)

    def _source(self, at: tuple[bool, str]) -> MeasuredHistogram:
        if at not in self._sources:
            marginals, name = at
            if marginals:
                self._sources[at] = self._marginals[name].source()
            else:
                self._sources[at] = _together(self._others[name])
        return self._sources[at]


def _as_marginals(measurement: Measurement, domain: Domain) -> list[tuple[Subset, float, slice]] | None:
    """Return a measurement as marginals of its rows: of each its attributes, its weight and its numbers."""
    found = sparse_terms(measurement.operator)
    sizes = tuple(axis.size for axis in measurement.axes)
    places = [domain.names.index(axis.attribute) for axis in measurement.axes]
    if not domain.names:  # nothing is declared: all rows are one cell, and there is no attribute to sum over
        return None
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

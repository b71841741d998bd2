"""Measurements of the same queries, added up once, when they are recorded.

Of repeats whose noise is independent, their precisions added up, and their precisions times numbers, are all that least
squares needs (Gauss-Markov): ten thousand measurements of one histogram take no more than one.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.planner.answers import Floats
from dpnotebook.planner.items import Item
from dpnotebook.planner.known_part import Key, Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.product_terms import ProductTerm, is_identity, parts_of, projected
from dpnotebook.planner.value_ends import at_levels, summand_of
from dpnotebook.query.measurement import Measurement

FEW_NUMBERS = 1_024  # of a measurement: where they go is kept,
MOST_KEPT = 8  # for so many sets of attributes
FEW = 32  # different queries that are supposed, each of which a block has by itself


@dataclass(eq=False)
class Repeats:
    """Measurements of the same queries: together as much as one, of all their precision.

    Parameters
    ----------
    measurement
        What was asked.
    since
        How many measurements, of any queries, there were before the first of these.
    weighted
        Precision times number, added up, shape (queries,).
    precision
        One over the variance of each number, added up.
    precisions
        The same of each measurement; without those that others refine.
    latest
        The release of the latest of them, and minus its place there; of a measurement that refines another, the other.
    rank
        Which of many come first: those of many numbers, then the latest.
    sided
        What `level_classes` made of them, by the attributes over which: the latest few.
    """

    measurement: Measurement
    since: int
    weighted: Floats = field(repr=False)
    precision: float = 0.0
    precisions: dict[Key, float] = field(default_factory=dict, repr=False)
    latest: tuple[int, int] = (-1, 0)
    rank: tuple[bool, int, int] = field(default=(True, 1, 0), init=False, repr=False)
    sided: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False)
    _seen: dict[frozenset[str], Sequence[tuple[int, ProductTerm]]] = field(default_factory=dict, repr=False)
    _told: dict[frozenset[str], Sequence[Observation]] = field(default_factory=dict, init=False, repr=False)
    _now: dict[Key, float] | None = field(default=None, init=False, repr=False)

    @cached_property
    def rows(self) -> frozenset[str]:
        """The attributes by which the rows that take part are told: over others than all of these nothing is said."""
        return frozenset(self.measurement.where.attributes)

    @cached_property
    def is_counts(self) -> bool:
        """Whether each query is the count of one cell."""
        return is_identity(self.measurement.operator)

    @property
    def now(self) -> Mapping[Key, float]:
        """The precision of each as it is now: what is added later does not show in it. One copy for all who ask."""
        if self._now is None:
            self._now = dict(self.precisions)
        return self._now

    def add(self, item: Item, first: Key) -> None:
        """Add a measurement; `first` is the key of the first of those that it refines, its own if there are none."""
        own = 1 / item.variance
        self.weighted += own * item.unit * item.numbers[0]
        self.precision += own
        self.precisions[item.key] = own
        self._changed()
        self.latest = max(self.latest, (first[0], -first[1]))
        self.rank = self.measurement.answers == 1, -self.latest[0], -self.latest[1]

    def remove(self, item: Item) -> None:
        """Take a measurement out, of which another one holds all that it said."""
        own = self.precisions.pop(item.key)
        self._changed()
        self.weighted -= own * item.unit * item.numbers[0]
        self.precision -= own

    def _changed(self) -> None:
        self._now = None
        self._told.clear()

    def copy(self) -> Repeats:
        """Return a copy that can be added to without changing this one."""
        twin = Repeats(
            self.measurement,
            self.since,
            self.weighted.copy(),
            self.precision,
            dict(self.precisions),
            self.latest,
            self._seen,
        )
        twin.rank = self.rank
        return twin

    def told(self, names: Sequence[str], domain: Domain, *, sums: bool = False) -> Sequence[Observation]:
        """Return what they say about some attributes, as `told` does: blocks of the same ones share it."""
        own = self.measurement.attributes.intersection(names)
        if not sums and own in self._told:
            return self._told[own]
        found, key = [], self.measurement.key
        for index, small in self.seen_in(names, domain, sums=sums):
            precision, weighted = self.precision / small.spread, small.answers(self.weighted) / small.spread
            found.append(Observation(key, index, small, precision, weighted, self.now))
        if not sums and self._seen.get(own) is not None:  # only as long as where its numbers go is kept
            self._told[own] = found
            while len(self._told) > MOST_KEPT:
                del self._told[next(iter(self._told))]
        return found

    def seen_in(self, names: Sequence[str], domain: Domain, *, sums: bool = False) -> Sequence[tuple[int, ProductTerm]]:
        """Return the parts of the measurement as they are seen over some attributes, with their numbers.

        Parameters
        ----------
        names, domain, sums
            As for `told`.
        """
        own = self.measurement.attributes.intersection(names)
        if own in self._seen and not sums:
            return self._seen[own]
        found = []
        for index, part in parts_of(self.measurement, domain, names):
            small = projected(at_levels(part, names, domain) if sums else part, names, domain)
            if small is not None:
                found.append((index, small))
        if not sums and self.weighted.size <= FEW_NUMBERS:
            self._seen[own] = found
            while len(self._seen) > MOST_KEPT:
                del self._seen[next(iter(self._seen))]
        return found


ranked = attrgetter("rank")


class RecordedRepeats:
    """What was measured of one summand, by what was asked, in the order in which that was asked first.

    Parameters
    ----------
    items
        The measurements, in the order of recording.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: dict[Key, Item] = {}
        self.by_queries: dict[str, Repeats] = {}
        self._order: list[str] = []
        self._places: dict[str, int] = {}  # among all, in the order in which they were asked first
        self._asked_of: dict[frozenset[str], list[str]] = {}  # by what their rows are told by, in that order
        self._by_rows: tuple[int, dict[frozenset[str], list[Repeats]]] = -1, {}
        for item in items:
            self.add(item)

    @property
    def count(self) -> int:
        """How many measurements were added."""
        return len(self._order)

    def add(self, item: Item) -> None:
        """Add a measurement, of a release after those of all others; one that refines another takes its place."""
        self.items[item.key] = item
        name = item.measurement.key
        known = self.by_queries.get(name)
        if known is not None and len(known.precisions) == 1 and item.refines in known.precisions:
            del self.by_queries[name]  # as if only the refined one had ever been measured
            known = None
        if known is None:
            known = self.by_queries[name] = self._none_of(item)
        self._put(item, known)
        self._order.append(name)
        if name not in self._places:
            self._places[name] = len(self._places)
            self._asked_of.setdefault(known.rows, []).append(name)

    def of_rows(self, names: Collection[str]) -> dict[frozenset[str], list[Repeats]]:
        """Return what was measured of rows told by some attributes, by these: each in the order of `Repeats.rank`."""
        if self._by_rows[0] != self.count:  # as few are of the same attributes as there are sets of these
            by_rows: dict[frozenset[str], list[Repeats]] = {}
            for each in sorted(self.by_queries.values(), key=ranked):
                by_rows.setdefault(each.rows, []).append(each)
            self._by_rows = self.count, by_rows
        among = frozenset(names)
        return {rows: some for rows, some in self._by_rows[1].items() if rows <= among}

    def changed(self, position: int) -> list[Repeats]:
        """Return what the measurements after so many first ones are of."""
        return [self.by_queries[name] for name in dict.fromkeys(self._order[position:])]

    def of_some(self, names: Collection[str]) -> list[Repeats]:
        """Return what was measured of rows told by some attributes, in the order in which it was asked first."""
        among = frozenset(names)
        asked = itertools.chain.from_iterable(some for rows, some in self._asked_of.items() if rows <= among)
        return [self.by_queries[name] for name in sorted(asked, key=self._places.__getitem__)]

    def supposed(self, items: Iterable[Item]) -> dict[str, Repeats]:
        """Return what further measurements would change, as it would be with them; by what was asked."""
        found: dict[str, Repeats] = {}
        for item in items:
            name = item.measurement.key
            if name not in found:
                found[name] = self.by_queries[name].copy() if name in self.by_queries else self._none_of(item)
            self._put(item, found[name])
        return found

    def _none_of(self, item: Item) -> Repeats:
        return Repeats(item.measurement, self.count, np.zeros(item.numbers.shape[1]))

    def _put(self, item: Item, known: Repeats) -> None:
        if item.refines in known.precisions:
            known.remove(self.items[item.refines])
        first = item
        while first.refines in self.items:
            first = self.items[first.refines]
        known.add(item, first.key)


class SupposedRepeats:
    """What further measurements of one summand say, ready for many blocks.

    Of many, those that tell no attribute of a block apart say of it how many rows there are, and nothing else: they are
    added up before they are put in, so that as many columns as are measured together take time in proportion.

    Parameters
    ----------
    recorded
        What was measured.
    items
        What comes beside it.
    """

    def __init__(self, recorded: RecordedRepeats, items: Sequence[Item]) -> None:
        self.by_queries = recorded.supposed(items)
        self._near: dict[str, set[str]] = {}
        for item in items:
            for name in item.attributes:
                self._near.setdefault(name, set()).add(item.measurement.key)
        self._places = {name: place for place, name in enumerate(self.by_queries)}
        self._rows: list[_Alike] | None = None

    def told(self, block: LeastSquaresState) -> Iterator[Observation]:
        """Yield what they say about the attributes of a block."""
        if len(self.by_queries) <= FEW:
            for known in self.by_queries.values():
                yield from told(known, block.names, block.domain, sums=block.sums)
            return
        ends = [name for name in self._near if block.sums and getattr(summand_of(name), "column", None) in block.names]
        near = set[str]().union(*(self._near.get(name, ()) for name in (*block.names, *ends)))
        for name in sorted(near, key=self._places.__getitem__):
            yield from told(self.by_queries[name], block.names, block.domain, sums=block.sums)
        for alike in self._rows_by_form(block.domain):
            yield from alike.without(near, block)

    def _rows_by_form(self, domain: Domain) -> list[_Alike]:
        """Return what is said of all rows, by how it is made of noisy numbers."""
        if self._rows is None:
            found: dict[tuple[Any, ...], list[tuple[str, Observation]]] = {}
            for name, known in self.by_queries.items():
                for one in told(known, (), domain):
                    found.setdefault(_form(one), []).append((name, one))
            self._rows = [_Alike(each) for each in found.values()]
        return self._rows


class _Alike:
    """Counts of all rows that are made of noisy numbers in the same way.

    Parameters
    ----------
    each
        What each says, with the queries it is of.
    """

    def __init__(self, each: Sequence[tuple[str, Observation]]) -> None:
        self._each = each
        self._names = {one.name for _, one in each}
        self._asked = [one.asked for _, one in each]
        self._places: dict[str, list[int]] = {}
        for place, (name, _) in enumerate(each):
            self._places.setdefault(name, []).append(place)
        self._precisions = [one.precision for _, one in each]
        self._weighted = np.array([one.weighted for _, one in each])
        self._repeats = {key: precision for _, one in each for key, precision in one.repeats.items()}

    def without(self, near: Collection[str], block: LeastSquaresState) -> Iterator[Observation]:
        """Yield what they say to a block, without those of some queries: added up, but for what it has already."""
        left_out = {place for name in near for place in self._places.get(name, ())}
        if self._names.isdisjoint(block.sources):
            if len(left_out) < len(self._each):
                yield self._added_up(left_out)
            return
        others = [one for place, (_, one) in enumerate(self._each) if place not in left_out]
        # Of what the block has already it is known how much that said before.
        yield from (one for one in others if one.name in block.sources)
        left_out.update(place for place, (_, one) in enumerate(self._each) if one.name in block.sources)
        if len(left_out) < len(self._each):
            yield self._added_up(left_out)

    def _added_up(self, left_out: Collection[int]) -> Observation:
        """Return all but some as if these had asked the same."""
        kept = [place for place in range(len(self._each)) if place not in left_out]
        first = self._each[kept[0]][1]
        if len(kept) == 1:
            return first
        repeats = dict(self._repeats)
        for place in left_out:
            for key in self._each[place][1].repeats:
                del repeats[key]
        return replace(
            first,
            asked="\n".join([self._asked[place] for place in kept]),
            precision=sum([self._precisions[place] for place in kept]),
            weighted=np.sum(self._weighted[kept], axis=0),
            repeats=repeats,
        )


def _form(one: Observation) -> tuple[Any, ...]:
    """Return what is equal for counts of all rows that are made of noisy numbers in the same way."""
    part = one.part
    totals = b"" if part.totals is None else part.totals.tobytes()
    return one.index, part.weight, part.columns.shape, part.columns.tobytes(), totals


def told(known: Repeats, names: Sequence[str], domain: Domain, *, sums: bool = False) -> Sequence[Observation]:
    """Return what measurements of the same queries say about some attributes.

    Parameters
    ----------
    known, names, domain
        The measurements, and the attributes of a domain.
    sums
        Whether sums of values are seen as counts of the levels of their column.
    """
    if known.measurement.summand.components != 1:
        return []
    return known.told(names, domain, sums=sums)


def taken(block: LeastSquaresState, changed: Iterable[Repeats]) -> bool:
    """Put into a block what was measured since it was last up to date.

    Returns
    -------
    bool
        Whether there was room for all that it says; where there was not, the block is of no more use.
    """
    names = frozenset(block.names)
    telling = (known for known in changed if known.rows <= names)
    return block.add_all(one for known in telling for one in told(known, block.names, block.domain, sums=block.sums))

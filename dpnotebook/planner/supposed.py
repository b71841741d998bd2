"""Measurements that are to be recorded next, made out once for all the questions that are asked beside them.

A question of many measures is looked at one measure at a time, each beside all that is measured for it: what a
measurement is about, and how it is seen as counts, is the same for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import overload

from dpnotebook.planner.items import Item
from dpnotebook.planner.known_part import Key
from dpnotebook.planner.value_ends import COUNT, as_counts, counts_levels, ends_name
from dpnotebook.query.question import Summand


class Telling:
    """Those of some measurements that say something of one summand, or of counts.

    Parameters
    ----------
    items
        The measurements, as of that summand.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items

    @cached_property
    def supposed(self) -> bool:
        """Whether they have not been made: then their numbers say nothing yet."""
        return any(not number for number, _ in (item.key for item in self.items))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """What any of them tells something about."""
        return frozenset(self.by_attribute)

    @cached_property
    def by_attribute(self) -> dict[str, list[Item]]:
        """Those that tell something about each attribute."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            for name in item.attributes:
                found.setdefault(name, []).append(item)
        return found


class Supposed(Sequence[Item]):
    """Measurements that are to be recorded next, or are supposed to be.

    Parameters
    ----------
    items
        The measurements, in the order of recording.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = tuple(items)
        self._telling: dict[Summand, Telling] = {}

    @classmethod
    def of(cls, items: Sequence[Item]) -> Supposed:
        """Return measurements as such; themselves where they are."""
        return items if isinstance(items, cls) else cls(items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self._items[place]

    def telling(self, summand: Summand) -> Telling:
        """Return those that say something about sums of a summand, or about counts."""
        found = self._telling.get(summand)
        if found is None:
            found = self._telling[summand] = Telling(
                [seen for item in self._items if (seen := counts_of(item)) is not None]
                if summand == COUNT
                else [item for item in self._items if item.measurement.summand == summand]
            )
        return found

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """The scale of the noise of each."""
        return tuple(float(item.scale) for item in self._items)

    @cached_property
    def scale_of(self) -> dict[Key, Fraction]:
        """The scale of the noise of each, by its key; equal ones are one object, as fractions take long to compare."""
        known: dict[Fraction, Fraction] = {}
        return {item.key: known.setdefault(item.scale, item.scale) for item in self._items}

    @cached_property
    def releases(self) -> tuple[int, ...]:
        """The numbers of the releases that they are of."""
        return tuple(dict.fromkeys(item.key[0] for item in self._items))

    @cached_property
    def summed(self) -> frozenset[str]:
        """The attributes of the ends of the values that they add up, as `ends_name` has them."""
        asked = [item.measurement for item in self._items]
        return frozenset(ends_name(one.summand, one.where) for one in asked if one.summand != COUNT)

    @cached_property
    def counts(self) -> bool:
        """Whether something is counted."""
        return any(map(_is_count, self._items))

    @cached_property
    def counted(self) -> frozenset[str | None]:
        """What the counts depend on, and the groups of means; None among it where counts are of no column."""
        found: set[str | None] = set()
        for item in self._items:
            summand = item.measurement.summand
            if (count := _is_count(item)) or summand.ends:  # the two sums of a mean tell how many rows a group has
                found.update(item.attributes)
            if count:
                found.add(summand.column)
        return frozenset(found)


def counts_of(item: Item) -> Item | None:
    """Return a measurement as one of counts; None where sums cannot be told as such."""
    return item if item.measurement.summand == COUNT else as_counts(item)


def _is_count(item: Item) -> bool:
    return item.measurement.summand == COUNT or counts_levels(item.measurement)

"""Everything that was measured of one table, ready to answer what is asked next: a function of the ledger."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.inference.answers import Floats, noise_variance
from dpnotebook.measurement import Measurement
from dpnotebook.privacy.accountant import Noise
from dpnotebook.question import Summand
from dpnotebook.reuse.block import MOST_ATOMS, MOST_CELLS, Block, Told
from dpnotebook.reuse.parts import measurement_to_json, parts_of, projected
from dpnotebook.reuse.plan import Planned
from dpnotebook.reuse.recorded import planned_from_json

Key = tuple[int, int]


RECENT = 64  # questions from which it is guessed what comes


@dataclass(frozen=True)
class Price:
    """What a strategy was found to cost, and what had been paid one by one when that was worked out, in units."""

    rise: int
    reactive: int


class Release(Protocol):
    """A recorded release, as the history sees it."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned, as `plan_to_json` wrote it."""

    @property
    def units(self) -> int:
        """What it cost."""

    @property
    def answers(self) -> Sequence[NDArray[np.int64]]:
        """The noisy numbers, one array a measurement."""


@dataclass(frozen=True)
class Measured:
    """A release that is about to be recorded."""

    number: int
    plan: Mapping[str, Any]
    units: int
    answers: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, eq=False)
class Item:
    """One recorded measurement with its noisy numbers.

    Parameters
    ----------
    key
        The release, and the place in it.
    measurement
        What was asked.
    scale
        The scale of its noise.
    variance
        Variance of each number.
    noisy
        The numbers, shape (components, queries).
    refines
        The measurement that this one is a more accurate version of.
    group
        As in `Planned`.
    """

    key: Key
    measurement: Measurement
    scale: Fraction
    variance: float
    noisy: Floats = field(repr=False)
    refines: Key | None = None
    group: str | None = None


class History:
    """What was measured of one table, and least squares over it.

    Parameters
    ----------
    domain, noise
        The table's declared domain, and the law of the noise of its session.
    """

    def __init__(self, domain: Domain, noise: Noise) -> None:
        self.domain = domain
        self.noise: Noise = noise
        self.releases: dict[int, Release] = {}
        self.items: dict[Key, Item] = {}
        self.refined: set[Key] = set()
        self.refining: frozenset[Key] = frozenset()  # by charges that wait for their answers: not to be refined again
        self.version = 0
        self.latest_plans: Callable[[int], Sequence[Mapping[str, Any]]] = lambda count: ()  # of free questions too
        self._recent: tuple[int, Sequence[Mapping[str, Any]]] = -1, ()
        self._alone: tuple[int, int] = -1, 0
        self.least_scale = math.inf  # of all noise
        self.reactive = 0  # units paid since a strategy was last bought
        self.dearest = 0  # units paid at once for the dearest purchase
        self.prices: dict[str, Price] = {}
        self.other_prices: dict[float, dict[str, Price]] = {}  # of the same at other errors, by how much larger
        self._order: list[Key] = []
        self._by_identity: dict[str, list[Key]] = {}
        self._attributes: dict[Summand, set[str]] = {}
        self._blocks: dict[tuple[Summand, tuple[str, ...]], tuple[Block, int]] = {}
        self._too_many: set[tuple[Summand, tuple[str, ...]]] = set()

    def take(self, releases: Iterable[Release], version: int = 0) -> None:
        """Add releases that were recorded.

        Parameters
        ----------
        releases
            In the order of recording; what is here already is passed over.
        version
            Of the ledger, up to which everything is here afterwards.
        """
        for release in releases:
            if release.number in self.releases or "measures" not in release.plan:  # statements have a law of their own
                continue
            self.releases[release.number] = release
            self.reactive += release.units
            if "buy" in release.plan.get("actions", ()):
                self.reactive, self.prices, self.other_prices = 0, {}, {}
                self.dearest = max(self.dearest, release.units)
            for index, planned in enumerate(planned_from_json(release.plan, self.domain)):
                self._take(planned, (release.number, index), release.answers[index])
        self.version = max(self.version, version)

    def _take(self, planned: Planned, key: Key, answers: NDArray[np.int64]) -> None:
        noisy = np.ldexp(answers.astype(float), -planned.bits)
        variance = noise_variance(self.noise, planned.scale)
        item = Item(key, planned.measurement, planned.scale, variance, noisy, planned.refines, planned.group)
        self.items[key] = item
        self.least_scale = min(self.least_scale, float(planned.scale))
        self._order.append(key)
        self._by_identity.setdefault(identity(item.measurement), []).append(key)
        told = self._attributes.setdefault(item.measurement.summand, set())
        told.update(axis.attribute for axis in item.measurement.axes)
        told.update(item.measurement.where.attributes)
        if item.refines is not None:
            self.refined.add(item.refines)

    @property
    def recent(self) -> Sequence[Mapping[str, Any]]:
        """Plans of the latest questions, free ones too, oldest first."""
        if self._recent[0] != self.version:
            self._recent = self.version, self.latest_plans(RECENT)
        return self._recent[1]

    @property
    def alone_total(self) -> int:
        """What all questions so far would have cost one by one, in units."""
        version, total = self._alone
        if version != self.version:
            plans = self.latest_plans(RECENT if version < 0 else 1)
            total = max([total, *(int(plan.get("alone_total", 0)) for plan in plans)])
            self._alone = self.version, total
        return total

    def answers(self, number: int) -> Sequence[NDArray[np.int64]]:
        """Return the noisy numbers of a release as they were taken in."""
        return self.releases[number].answers

    def latest(self, measurement: Measurement) -> Item | None:
        """Return the most accurate recorded measurement of these very queries, if there is one."""
        keys = self._by_identity.get(identity(measurement), ())
        found = [self.items[key] for key in keys if key not in self.refined and key not in self.refining]
        return min(found, key=lambda item: item.variance, default=None)

    def block(self, attributes: Iterable[str], summand: Summand) -> Block | None:
        """Return least squares over what was measured of some attributes, or None where they have too many cells.

        Parameters
        ----------
        attributes
            What a question tells apart.
        summand
            What each row adds; measurements of another one say nothing.
        """
        asked = self._ordered(attributes)
        everything = self._ordered({*asked, *self._attributes.get(summand, ())})
        for names in dict.fromkeys([everything, asked]):
            if (summand, names) in self._too_many:
                continue
            if math.prod(self.domain[name].size for name in names) > MOST_CELLS:
                self._too_many.add((summand, names))
                continue
            block, complete = self._up_to_date(summand, names)
            if complete or names == asked:
                return block
            self._too_many.add((summand, names))
            del self._blocks[summand, names]
        return None

    def along(self, attribute: str, summand: Summand) -> Block | None:
        """Return least squares over what was measured of one attribute, or None where it has too many levels."""
        if self.domain[attribute].size > MOST_CELLS:
            return None
        return self._up_to_date(summand, (attribute,))[0]

    def _up_to_date(self, summand: Summand, names: tuple[str, ...]) -> tuple[Block, bool]:
        """Return a block with all that was measured, and whether there was room for it."""
        block, position = self._blocks.get((summand, names), (None, 0))
        block = block or Block(self.domain, names)
        new = [self.items[key] for key in self._order[position:] if self.items[key].measurement.summand == summand]
        fresh = []
        for item in new:
            if item.refines is not None and block.holds(item.refines):
                told = self._told(item, names)
                block.refine(item.refines, item.key, 1 / item.variance, {one[1]: one[4] for one in told})
            elif item.key not in self.refined:
                fresh.append(item)
        parts = [part for item in fresh for part in self._told(item, names)]
        complete = block.add(parts) == len(parts)
        if not complete and position:
            block = self._most_useful(summand, names)
        self._blocks[summand, names] = block, len(self._order)
        return block, complete

    def _most_useful(self, summand: Summand, names: tuple[str, ...]) -> Block:
        """Return a block of what fits: measurements of many queries first, then the latest single ones.

        Less is known than was measured, which is sound; a quarter of the room is left for what comes.
        """
        kept = [item for item in self.items.values() if item.key not in self.refined]
        kept = [item for item in kept if item.measurement.summand == summand]
        kept.sort(key=lambda item: (item.measurement.answers == 1, -item.key[0]))
        block = Block(self.domain, names)
        block.add([part for item in kept for part in self._told(item, names)], 3 * MOST_ATOMS // 4)
        return block

    def _told(self, item: Item, names: tuple[str, ...]) -> list[Told]:
        if item.measurement.summand.components != 1:
            return []
        found = []
        for index, part in parts_of(item.measurement, self.domain, names):
            small = projected(part, names, self.domain)
            if small is not None:
                precision = 1 / (item.variance * small.spread)
                found.append((item.key, index, small, precision, small.answers(item.noisy[0])))
        return found

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self.domain.names if name in wanted)


def identity(measurement: Measurement) -> str:
    """Return a text that is equal for measurements of the same queries."""
    values = measurement_to_json(measurement)
    values["where"] = measurement.where.key
    return json.dumps(values, sort_keys=True)

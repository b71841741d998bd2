"""Collects what is measured for private aggregates: sums of clamped integers, at which steps, with how much noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpnotebook.privacy.accountant import UNITS, Accountant
from dpnotebook.sql.aggregates.measuring import AggregateInput, Matrix, Measuring, NoisyNumbers
from dpnotebook.sql.aggregates.partitions import PARTS
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component
from dpnotebook.sql.select import Aggregate, Contribution
from dpnotebook.strategy import Strategy

Bounds = tuple[Fraction, ...]  # lower and upper; of pairs of columns one behind the other

WHOLE = 31  # bits of the largest integer: sums over 10^9 units stay 64-bit integers
FINE = 26  # bits of a value that is no whole number: rounding it is invisible beside any noise


class Builder:
    """Collects components and blocks; equal components are added up once.

    Parameters
    ----------
    contribution
        How what a unit adds is bounded, where nothing else is said.
    accountant
        What costs are, and the law of the noise.
    groups
        How many groups there are at most, as their levels are declared; 0 where nobody knows.

    Attributes
    ----------
    contribution
        How what a unit adds is bounded to what is measured next.
    read_off
        The aggregates that are read off what is measured next, beside its own, and what each of them paid of its cost.
    """

    def __init__(self, contribution: Contribution, accountant: Accountant, groups: int = 0) -> None:
        self.contribution, self.law = contribution, accountant.law
        self._groups = groups
        self._usual = contribution
        self.blocks: list[NoisyNumbers] = []
        self.read_off: tuple[tuple[Aggregate, int], ...] = ()
        self._accountant = accountant
        self._components: list[Component] = []
        self._starts: dict[Component, int] = {}
        self._width = 0

    def measuring(self, parts: tuple[AggregateInput, ...], grouped: bool) -> Measuring:
        """Return what is measured for aggregates, without a threshold."""
        return Measuring(
            self.law.name, self._usual, tuple(self._components), tuple(self.blocks), parts, grouped=grouped
        )

    @property
    def one(self) -> int:
        """How many steps one unit is worth where units are counted."""
        return PARTS if self.contribution.kind == "l2" else 1

    @property
    def rows(self) -> int:
        """The most rows of a unit that add to a group at once, where single rows are looked at."""
        return 1 if self.contribution.kind == "rows" else ROWS_SAMPLED

    def units(self, cost: int, marked: int | None = None) -> int:
        """Return the number of the block that counts units, or those that have something in an input."""
        return self.plain(Component("units", marked, Fraction(0), Fraction(1), Fraction(1, self.one), self.one), cost)

    def plain(self, component: Component, cost: int) -> int:
        """Measure one component as it is, and return the number of its block."""
        norm = component.norm(self.contribution, self.law.power)
        if component.once and self._groups and self.contribution.kind == "rows":
            norm = min(norm, self._groups)  # however many rows of a unit count, it adds 1 to each group at most
        self.blocks.append(NoisyNumbers((self.column(component),), ((1,),), self._accountant.scale(cost, norm)))
        return len(self.blocks) - 1

    def block(self, columns: tuple[int, ...], matrix: Matrix, largest: int, cost: int) -> int:
        """Measure combinations of which one unit (under "rows": one row) changes at most `largest` in a group."""
        most, power = self.contribution.most, self.law.power
        norm = most * largest**power if self.contribution.kind == "groups" else (most * largest) ** power
        self.blocks.append(NoisyNumbers(columns, matrix, self._accountant.scale(cost, norm)))
        return len(self.blocks) - 1

    def vector(self, components: tuple[Component, ...], cost: int) -> int:
        """Measure parts of one vector that is clipped to a norm as they are, and return the number of the block."""
        columns = tuple(self.column(component) for component in components)
        each: Matrix = tuple(tuple(int(i == j) for j in range(len(columns))) for i in range(len(columns)))
        self.blocks.append(NoisyNumbers(columns, each, self._accountant.scale(cost, components[0].largest ** 2)))
        return len(self.blocks) - 1

    def strategy(self, component: Component, strategy: Strategy, cost: int) -> int:
        """Measure the integers of a component by a strategy, and return the number of the block; equal ones are one."""
        start = self.column(component)
        norm = component.norm(self.contribution, self.law.power) * strategy.norm
        columns = tuple(range(start, start + component.width))
        block = NoisyNumbers(columns, strategy, self._accountant.scale(cost, norm))
        if block not in self.blocks:
            self.blocks.append(block)
        return self.blocks.index(block)

    def column(self, component: Component) -> int:
        """Return the first column of a component; equal ones are the same."""
        if self.contribution != self._usual:
            component = replace(component, contribution=self.contribution)
        if component not in self._starts:
            self._starts[component] = self._width
            self._components.append(component)
            self._width += component.width
        return self._starts[component]

    def centred(self, bounds: Bounds, cost: int) -> tuple[Fraction, int]:
        """Return the step of values about the middle of their bounds, and the half-width in steps."""
        away = (bounds[1] - bounds[0]) / 2
        step = self.step(away, FINE, cost)
        return step, max(1, math.ceil(away / step))

    def step(self, most: Fraction, bits: int, cost: int) -> Fraction:
        """Return the step of numbers up to `most`: fine, but not so fine that noise would leave the integers."""
        return _dyadic(most, self.bits(bits, cost))

    def bits(self, most: int, cost: int) -> int:
        """Return how many bits numbers may have, so that their noise does not leave the integers; at most `most`."""
        # Never below the norm of a component whose largest is 1.
        norm = 1 if self.contribution.kind == "l2" else self.contribution.most * ROWS_SAMPLED
        noise = math.log2(Fraction(UNITS * norm**self.law.power, cost)) / self.law.power
        return max(0, min(most, 48 - math.ceil(noise)))


def _dyadic(most: Fraction, bits: int) -> Fraction:
    """Return the least power of two of which `most` holds at most 2^bits."""
    if most <= 0:
        return Fraction(1)
    exponent = most.numerator.bit_length() - most.denominator.bit_length() - bits - 1
    step = Fraction(2) ** exponent
    while most / step > 1 << bits:
        step *= 2
    return step

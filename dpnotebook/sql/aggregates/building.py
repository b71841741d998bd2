"""Private aggregates as sums of clamped integers: which ones each needs, at which steps and with how much noise.

Sources: Wilson et al., section 4.2.3 (bounded-contribution aggregation); means as a noisy centred sum over a noisy
count are Algorithm 2.4 of Li et al.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dpnotebook.errors import SQLError
from dpnotebook.privacy.accountant import UNITS, Accountant, Noise
from dpnotebook.privacy.noise import checked_scale
from dpnotebook.sql.aggregates.bins import bins, cumulative
from dpnotebook.sql.aggregates.budget_split import Shares, found_with, needs_bounds
from dpnotebook.sql.aggregates.measuring import AggregateInput, Matrix, Measuring, NoisyNumbers
from dpnotebook.sql.aggregates.partitions import PARTS, clipped_spread, threshold, weighted_threshold
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component, Statistic
from dpnotebook.sql.statement import Aggregate, Contribution, PrivateSelect

Bounds = tuple[Fraction, Fraction]

WHOLE = 31  # bits of the largest integer: sums over 10^9 units stay 64-bit integers
FINE = 26  # bits of a value that is no whole number: rounding it is invisible beside any noise
COUNT_BITS = 10  # bits below one of counts that are divided by
MEAN_SHARE = Fraction(3, 5)  # of a mean's cost in mu^2, for its sum: the best where means are 2/3 of the way to a bound
UNKNOWN = (Fraction(0), Fraction(1))  # stands for bounds that are not known; no answer is worked out with it


def measuring(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    delta: Fraction = Fraction(0),
    found: Mapping[int, Bounds | None] | None = None,
) -> Measuring:
    """Return what is measured for a private aggregation, and with how much noise.

    Parameters
    ----------
    select
        What is asked.
    shares
        What each of its parts may cost.
    accountant
        What the costs are, and the law of the noise.
    delta
        Probability with which a unit's own group may show; used where groups are not declared.
    found
        Bounds that were found from the data, by the number of the aggregate; None where they were sought in vain.

    Raises
    ------
    SQLError
        If an aggregate cannot be measured as its contribution is bounded, or a threshold has no delta.
    AccuracyError
        If the noise would be out of its range.
    """
    found = found or {}
    builder = _Builder(select.contribution, accountant)
    parts = []
    for i, aggregate in enumerate(select.aggregates):
        _check_contribution(aggregate, select.contribution, accountant.noise)
        bounds = found.get(i) if needs_bounds(select, i) else aggregate.bounds
        part = builder.part(aggregate, bounds or UNKNOWN, _cost(select, shares, i))
        if bounds is None and needs_bounds(select, i):  # counts of rows and of units have none
            sought = accountant.scale(shares.auto[found_with(select, i)], 1)
            part = replace(part, found=False) if i in found else replace(part, bounds=None, sought=sought)
        parts.append(part)
    for block in builder.blocks:
        checked_scale(block.scale)
    if select.selection != "threshold":
        return builder.measuring(tuple(parts), bool(select.keys))
    if delta <= 0:
        raise SQLError(
            "the groups of this query are not declared, and showing only those of enough units needs a delta: "
            "give the session a Budget(epsilon, delta), or declare the levels of the keys"
        )
    counted = builder.units(shares.selection) if shares.serving is None else parts[shares.serving].blocks[0]
    scale, kind, most = builder.blocks[counted].scale, select.contribution.kind, select.contribution.most
    if kind == "l2":
        tau = weighted_threshold(accountant.noise, scale, clipped_spread(), delta)
    else:
        tau = threshold(accountant.noise, scale, most, delta)
    one = PARTS if kind == "l2" else 1
    return replace(
        builder.measuring(tuple(parts), True), counted=counted, tau=tau, min_units=max(select.min_units, 1), one=one
    )


def _cost(select: PrivateSelect, shares: Shares, index: int) -> int:
    """Return what an aggregate may cost; quantiles of the same values are read off one measurement and share it."""
    aggregate = select.aggregates[index]
    if aggregate.kind != "quantiles":
        return shares.main[index]
    return sum(shares.main[i] for i, other in enumerate(select.aggregates) if _same_bins(aggregate, other))


def _same_bins(one: Aggregate, other: Aggregate) -> bool:
    if one is other:
        return True
    plain = one.kind == other.kind == "quantiles"
    return plain and (one.input, one.bounds, one.edges) == (other.input, other.bounds, other.edges)


def _check_contribution(aggregate: Aggregate, contribution: Contribution, noise: Noise) -> None:
    if contribution.kind == "l2" and noise == "laplace":
        raise SQLError(
            'contribution="l2" clips vectors by their Euclidean length, which Gaussian noise hides: '
            "it needs a Budget(epsilon, delta) with Gaussian noise"
        )
    if contribution.kind == "l2" and aggregate.kind not in ("count", "units", "sum"):
        words = aggregate.words or aggregate.name
        raise SQLError(
            f'contribution="l2" bounds counts and sums, and {words} is neither; '
            "ask for it in a statement of its own, with max_groups_contributed"
        )


class _Builder:
    """Collects components and blocks; equal components are added up once."""

    def __init__(self, contribution: Contribution, accountant: Accountant) -> None:
        self.contribution, self.accountant = contribution, accountant
        self.power = 1 if accountant.noise == "laplace" else 2
        self.components: list[Component] = []
        self.starts: dict[Component, int] = {}
        self.width = 0
        self.blocks: list[NoisyNumbers] = []

    def measuring(self, parts: tuple[AggregateInput, ...], grouped: bool) -> Measuring:
        return Measuring(
            self.accountant.noise,
            self.contribution,
            tuple(self.components),
            tuple(self.blocks),
            parts,
            grouped=grouped,
        )

    def part(self, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Return what an aggregate is worked out from."""
        part = AggregateInput(
            aggregate.kind, (), bounds, fractions=aggregate.fractions, array=aggregate.array,
            population=aggregate.population,
        )  # fmt: skip
        match aggregate.kind:
            case "units":
                return replace(part, blocks=(self.units(cost),), step=Fraction(1, self._one))
            case "count" | "sum":
                component = self._added(aggregate, bounds, cost)
                return replace(part, blocks=(self._plain(component, cost),), step=component.step)
            case "average":
                return self._mean(part, aggregate.input, bounds, cost)
            case "variance" | "deviation":
                return self._variance(part, aggregate.input, bounds, cost)
            case "quantiles":
                return self._quantiles(part, aggregate, bounds, cost)

    def units(self, cost: int) -> int:
        """Return the number of the block that counts units."""
        one = self._one
        component = Component("units", None, Fraction(0), Fraction(1), Fraction(1, one), one)
        return self._plain(component, cost)

    @property
    def _one(self) -> int:
        return PARTS if self.contribution.kind == "l2" else 1

    def _added(self, aggregate: Aggregate, bounds: Bounds, cost: int) -> Component:
        """Return the component of a count or a sum."""
        statistic: Statistic = "count" if aggregate.kind == "count" else "sum"
        kind = self.contribution.kind
        if statistic == "count" and kind == "rows":
            return Component(statistic, aggregate.input, Fraction(0), Fraction(1), Fraction(1), 1)
        low, high = bounds
        if kind == "l2":
            low, most = Fraction(0), max(high, Fraction(0))
            step = self._step(most, WHOLE, cost)
        else:
            # A count is never negative, so that its lower bound never makes it one.
            most = abs(high) if statistic == "count" else max(abs(low), abs(high))
            whole = statistic == "count" or (aggregate.integer and low.denominator == high.denominator == 1)
            step = max(Fraction(1), self._step(most, WHOLE, cost)) if whole else self._step(most, FINE, cost)
        return Component(statistic, aggregate.input, low, high, step, max(1, math.floor(most / step)))

    def _mean(self, part: AggregateInput, column: int | None, bounds: Bounds, cost: int) -> AggregateInput:
        groups = self.contribution.kind == "groups"
        step, half = self._centred(bounds, FINE, cost)
        middle: Statistic = "average" if groups else "centred"
        c = self._column(Component(middle, column, *bounds, step, half))
        n = self._column(Component("values", column, *bounds, Fraction(1), 1))
        if self.power == 1:
            # What values lie above the lower bound and below the upper one: together the same for every value, so
            # that the pair has the sensitivity of the span alone, where half the cost for each would double it.
            pair: Matrix = ((1, half), (-1, half))
            blocks: tuple[int, ...] = (self._block((c, n), pair, 2 * half, cost),)
        else:
            of_sum = int(cost * MEAN_SHARE)
            one = 1 << COUNT_BITS
            blocks = (
                self._block((c,), ((1,),), half, of_sum),
                self._block((n,), ((one,),), one, cost - of_sum),
            )
        return replace(part, blocks=blocks, step=step, half=half)

    def _variance(self, part: AggregateInput, column: int | None, bounds: Bounds, cost: int) -> AggregateInput:
        rows = 1 if self.contribution.kind == "rows" else ROWS_SAMPLED
        step, half = self._centred(bounds, FINE, cost)
        unit = half * step * step  # squares are up to `half` of it
        n = self._column(Component("values", column, *bounds, Fraction(1), rows))
        c = self._column(Component("centred", column, *bounds, step, rows * half))
        q = self._column(Component("square", column, *bounds, unit, rows * half))
        if self.power == 1:
            # (1 - p)^2, 2 p (1 - p) and p^2, p the place of a value between its bounds: never negative and together
            # the same for every value, but for what rounding values and squares by 1/2 each does.
            matrix: Matrix = ((half, -2, 1), (2 * half, 0, -2), (half, 2, 1))
            blocks: tuple[int, ...] = (self._block((n, c, q), matrix, rows * (4 * half + 4), cost),)
        else:
            one, third = 1 << COUNT_BITS, cost // 3
            # Squares are centred too: between -half and half after doubling.
            blocks = (
                self._block((n,), ((one,),), rows * one, third),
                self._block((c,), ((1,),), rows * half, third),
                self._block((n, q), ((-half, 2),), rows * half, third),
            )
        return replace(part, blocks=blocks, step=step, half=half, square=unit)

    def _quantiles(self, part: AggregateInput, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        rows = 1 if self.contribution.kind == "rows" else ROWS_SAMPLED
        edges, points = bins(bounds, aggregate.integer, aggregate.edges)
        component = Component("bins", aggregate.input, *bounds, Fraction(1), rows, edges)
        strategy = cumulative(component.width, self.accountant.noise)
        start = self._column(component)
        columns = tuple(range(start, start + component.width))
        norm = component.norm(self.contribution, self.power) * strategy.norm
        block = NoisyNumbers(columns, strategy, self.accountant.scale(cost, norm))
        if block not in self.blocks:
            self.blocks.append(block)
        return replace(part, blocks=(self.blocks.index(block),), edges=edges, points=points)

    def _centred(self, bounds: Bounds, bits: int, cost: int) -> tuple[Fraction, int]:
        """Return the step of values about the middle of their bounds, and the half-width in steps."""
        away = (bounds[1] - bounds[0]) / 2
        step = self._step(away, bits, cost)
        return step, max(1, math.ceil(away / step))

    def _step(self, most: Fraction, bits: int, cost: int) -> Fraction:
        """Return the step of numbers up to `most`: fine, but not so fine that noise would leave the integers."""
        rate = Fraction(UNITS * self._worst, cost)
        noise_bits = math.log2(rate) / (1 if self.power == 1 else 2)
        return _dyadic(most, max(0, min(bits, 48 - math.ceil(noise_bits))))

    @property
    def _worst(self) -> int:
        """A number never below the norm of a component whose largest is 1."""
        most = 1 if self.contribution.kind == "l2" else self.contribution.most * ROWS_SAMPLED
        return most**self.power

    def _plain(self, component: Component, cost: int) -> int:
        """Measure one component as it is."""
        norm = component.norm(self.contribution, self.power)
        self.blocks.append(NoisyNumbers((self._column(component),), ((1,),), self.accountant.scale(cost, norm)))
        return len(self.blocks) - 1

    def _block(self, columns: tuple[int, ...], matrix: Matrix, largest: int, cost: int) -> int:
        """Measure combinations of which one unit (under "rows": one row) changes at most `largest` in a group."""
        most = self.contribution.most
        norm = most * largest**self.power if self.contribution.kind == "groups" else (most * largest) ** self.power
        self.blocks.append(NoisyNumbers(columns, matrix, self.accountant.scale(cost, norm)))
        return len(self.blocks) - 1

    def _column(self, component: Component) -> int:
        """Return the first column of a component; equal ones are the same."""
        if component not in self.starts:
            self.starts[component] = self.width
            self.components.append(component)
            self.width += component.width
        return self.starts[component]


def _dyadic(most: Fraction, bits: int) -> Fraction:
    """Return the least power of two of which `most` holds at most 2^bits."""
    if most <= 0:
        return Fraction(1)
    exponent = most.numerator.bit_length() - most.denominator.bit_length() - bits - 1
    step = Fraction(2) ** exponent
    while most / step > 1 << bits:
        step *= 2
    return step

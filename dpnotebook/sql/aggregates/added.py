"""Counts of rows, numbers of units, and sums: what units add is clamped, or clipped to a norm, and added up.

Source: Wilson et al., section 4.2.3 (bounded-contribution aggregation).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.dialect.attributes import number
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import FINE, WHOLE, Bounds, Builder
from dpnotebook.sql.aggregates.function import (
    FINEST,
    LARGEST,
    AggregateFunction,
    Expectation,
    Integers,
    KnownGroups,
    Limits,
    Parts,
    Statistic,
    input_of,
    two_part_total,
)
from dpnotebook.sql.aggregates.layers import Combination, foretold, layers_of, noise_of, numbers_of
from dpnotebook.sql.aggregates.lost_parts import lost_of, reach_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.ratios import Average, of_mean, reads_mean
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import EACH_ONCE, Call, Spelling
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import FINER, Columns, nearest
from dpnotebook.sql.select import Aggregate, Contribution

Floats = NDArray[np.float64]

ROUNDED = 12**-0.5  # standard deviation of what rounding to whole numbers does
ROUGH = 3.0  # standard error from which on counts of vectors that are scaled down are shown as whole numbers


class Presence(Statistic):
    """That a unit is in a group, or has a row there that has something in a column."""

    name, present = "units", True

    def of_row(self, component: Component) -> str:
        """Return 1, or 0 where the column is NULL; a unit with several rows in a group is counted once."""
        return "1" if component.input is None else _one_if(f"p{component.input} IS NOT NULL")

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return 1, or 0 where the column is NULL in all rows of the unit."""
        return "1" if component.input is None else _one_if(f"{_rows(component, columns)} > 0")

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the norm: in one group a unit weighs 1, in more of them less."""
        return number(float(component.largest * component.step / part))

    def alike(self, component: Component) -> bool:
        """Return True."""
        return True


class PresenceInGroups(Statistic):
    """That a unit is in a group, or has a row there that has something in a column, in each of them."""

    name, present = "groups", True

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return 1, or 0 where the column is NULL in all rows of the unit."""
        one = number(float(1 / part))
        return one if component.input is None else f"{one} * {_one_if(f'{_rows(component, columns)} > 0')}"

    def alike(self, component: Component) -> bool:
        """Return whether every unit is in a group that has rows there."""
        return component.input is None


class RowCount(Statistic):
    """The number of rows, or of those that have something in a column."""

    name, present = "count", True

    def of_row(self, component: Component) -> str:
        """Return 1, or 0 where the column is NULL."""
        return "1" if component.input is None else _one_if(f"p{component.input} IS NOT NULL")

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return the clamped number of rows, in steps."""
        low, high, step = component.low, component.high, component.step
        ends = steps.inside(low, high, step, component.largest)
        rows = f"CAST({_rows(component, columns)} AS DOUBLE)"
        return steps.within(steps.whole(steps.clamped(rows, low, high), step), *ends)

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the number of rows."""
        return steps.whole(f"CAST({_rows(component, columns)} AS DOUBLE)", part)


class ClampedSum(Statistic):
    """The sum of a unit's values in a group, clamped; or of values that are clamped, where rows are bounded."""

    name, summed = "sum", True

    def of_row(self, component: Component) -> str:
        """Return the clamped value, in steps."""
        y = f"y{component.input}"
        bounded = steps.clamped(y, component.low, component.high)
        ends = steps.inside(component.low, component.high, component.step, component.largest)
        return f"CASE WHEN {y} IS NULL THEN 0 ELSE {steps.within(steps.whole(bounded, component.step), *ends)} END"

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return the clamped sum, in steps; it is added up in finer ones."""
        i, low, high, step = component.input, component.low, component.high, component.step
        assert i is not None
        ends = steps.inside(low, high, step, component.largest)
        part = parts[i] if parts[i] * FINER <= step else steps.part_for(max(abs(low), abs(high)))
        total = columns.total(steps.addend(f"y{i}", part))
        value = steps.within(nearest(f"CAST({total} AS DOUBLE)", part / step), *ends)
        return f"CASE WHEN {total} IS NULL THEN 0 ELSE {value} END"

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum: of what is kept of all values, whatever they are clipped to, where that tells such parts."""
        value = f"y{component.input}"
        if not 2.0**FINEST <= part <= 2.0 ** (LARGEST - steps.WIDEST):
            return f"coalesce(CAST({columns.total(steps.addend(value, part))} AS DOUBLE), {steps.ZERO})"
        most = part * (1 << steps.WIDEST)
        total = f"coalesce({two_part_total(value, columns)}, {steps.ZERO})"
        return steps.whole(steps.clamped(total, -most, most), part)


def _one_if(condition: str) -> str:
    """Return SQL that is 1 where a condition holds, else 0."""
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


def _rows(component: Component, columns: Columns) -> str:
    return columns.rows(None if component.input is None else f"p{component.input}")


class Added(AggregateFunction):
    """A count, or a sum: its answer is one noisy number.

    Attributes
    ----------
    summed
        Whether it adds up values, and does not count.
    """

    adds = clipped = True
    summed: ClassVar[bool] = False

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return the noisy numbers, or what those of a mean say, with intervals of noise and of what bounds take."""
        value = self.numbers(measuring, part, noisy)
        std_error, width = self._errors(measuring, part, confidence)
        std_errors, widths = (np.full(value.size, one) for one in (std_error, width))
        if part.layers:
            how, layers, noise = (
                Combination(*part.layers),
                numbers_of(measuring, part, noisy),
                noise_of(measuring, part),
            )
            std_errors = how.errors(layers[0], *noise)
            widths = how.half_widths(*layers, *noise, kappa(confidence, measuring.noise))
        times = measuring.weights_of(value.size)
        if part.points:
            rounded = reads_mean(measuring, part) | (std_errors > ROUGH * times)
            value = np.where(rounded, times * np.rint(value / times), value)
        below = above = widths
        if part.lost:
            below, above = lost_of(part).reach(value, std_errors, widths, confidence, measuring.noise)
        return Estimates(*(each / times for each in (value, std_errors, value - below, value + above)))

    def numbers(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> Floats:
        """Return noisy counts or sums: those that were measured, or what the numbers of a mean say."""
        if not reads_mean(measuring, part):
            return _numbers(measuring, part, noisy)
        lines, _ = of_mean(measuring, part, self.summed)
        return np.asarray(np.concatenate([noisy[:, measuring.place(i)] for i in part.blocks], axis=1) @ lines)

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return the errors of the noise, and half the length of intervals that reach for what bounds take."""
        std_error, width = self._errors(measuring, part, confidence, known)
        times = np.array([min(measuring.weighing, default=1.0)]) if known is None else known.weights(measuring)
        if part.lost and known is not None:
            sizes = self.sizes(known) * times
            ends = lost_of(part).reach(sizes, std_error, np.full(sizes.shape, width), confidence, measuring.noise)
        else:
            down, up = np.array(part.moves)[:, None]
            ends = reach_of(np.array([width]), (down, up), confidence, measuring.noise)
        errors = std_error / np.unique(times) if (times == times[0]).all() else std_error / times
        return Expectation(errors, float((np.mean(ends, axis=0) / times).max()))

    def sizes(self, known: KnownGroups) -> Floats:
        """Return about how large the answers of groups are that are known; NaN of sums where no means are."""
        return known.sizes * (known.means if self.summed else 1.0)

    def _errors(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None = None
    ) -> tuple[float, float]:
        """Return the standard error of an answer, and the half-width of its interval."""
        if reads_mean(measuring, part):
            _, std_error = of_mean(measuring, part, self.summed)
            width = kappa(confidence, measuring.noise) * std_error
            if not part.points:
                return std_error, width
            return math.hypot(std_error, ROUNDED), max(math.ceil(width - 0.5), 1.0)
        if (layers := layers_of(part.bounds)) is not None and len(part.blocks) > 1:
            noise = noise_of(measuring, part)
            how = (
                Combination(*part.layers)
                if part.layers
                else foretold(layers, noise[1], None if known is None else known.sizes * known.weights(measuring))
            )
            std_error = float(how.errors(None, *noise)[0])
            return std_error, how.wider * kappa(confidence, measuring.noise) * std_error
        scale, step = measuring.blocks[part.blocks[0]].scale, float(part.step)
        width = measuring.law.half_width(scale, confidence) * step
        return math.sqrt(measuring.law.variance(scale)) * step, width


class CountUnits(Added):
    """COUNT(DISTINCT unit): how many units are in a group, or have a row there that fulfils a condition."""

    kind = "units"
    word, counted_in = "count", "units"
    statistics = (Presence(), PresenceInGroups())
    of = "units"
    shown = "units"

    def needs_bounds(self, contribution: Contribution) -> bool:
        """Return whether all of a unit is clipped: it is in one group or in many."""
        return contribution.kind == "l2"

    def counts_units(self, aggregate: Aggregate, contribution: Contribution) -> bool:
        """Return whether a unit counts as one in a group, whatever its rows are."""
        return contribution.kind != "l2" and aggregate.input is None

    def vector(self, aggregate: Aggregate, values: Bounds | None, columns: Columns) -> list[str]:
        """Return 1, or 0 where no row of the unit fulfils the condition."""
        one = number(1.0)
        if aggregate.input is None:
            return [one]
        rows = columns.rows(f"p{aggregate.input}")
        return [f"{one} * {_one_if(f'{rows} > 0')}"]

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return the norm of a unit that is in as many groups as it has rows."""
        return Fraction(0), Fraction(math.isqrt(rows - 1) + 1)

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return COUNT(DISTINCT unit)."""
        return exp.Count(this=exp.Distinct(expressions=[*arguments]), big_int=True)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Count units."""
        if builder.contribution.kind == "l2":
            blocks, step = _vector("groups", aggregate, bounds, builder, cost)
            return replace(input_of(aggregate, bounds), blocks=blocks, step=step, points=True)
        block = builder.units(cost, aggregate.input)
        return replace(input_of(aggregate, bounds), blocks=(block,), step=Fraction(1, builder.one))


class Count(Added):
    """COUNT(*) and COUNT(column): how many rows there are, or how many that have something in a column."""

    kind = "count"
    spellings: ClassVar = {"COUNT": Spelling(), "ANON_COUNT": Spelling()}
    said, word, counted_in = ("COUNT",), "count", "rows"
    statistics = (RowCount(),)
    of = "values"
    distinct = "units"
    star = whole_bounds = equal_bounds = True
    shown = linear = "count"

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups:
        """Return the counts."""
        return KnownGroups.of(self.numbers(measuring, part, noisy) / measuring.weights_of(len(noisy)))

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return COUNT."""
        return exp.Count(this=arguments[0], big_int=True)

    def missing(self, name: str) -> str:
        """Return how all rows are counted."""
        return "write COUNT(*) for the number of rows"

    def wrong_bounds(self, name: str, per: str) -> str | None:
        """Return how a count is bounded, where bounds of a row are written: each counts as one."""
        if per == "row":
            return "COUNT is bounded by group: write contribution_bounds_per_group => (0, 5)"
        return None

    def needs_bounds(self, contribution: Contribution) -> bool:
        """Return whether a unit may have several rows: where rows are bounded, each counts as one."""
        return contribution.kind != "rows"

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return that a unit has one row, or as many as are declared."""
        if limits.single or limits.rows or not self.needs_bounds(limits.contribution):
            return Fraction(0), Fraction(1)
        return (Fraction(0), Fraction(limits.max_rows)) if limits.plain and limits.max_rows is not None else None

    def whole(self, aggregate: Aggregate) -> bool:
        """Return True."""
        return True

    def measured_with(self, aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
        """Return whether the other one is a mean of rows, which counts those that have a value, and so the others."""
        return _with_mean(aggregate, other, contribution) and aggregate.input in (None, other.input)

    def read_off(self, part: AggregateInput, aggregate: Aggregate) -> AggregateInput:
        """Return what a count is worked out from: whatever bounds values have, each counts as one."""
        every = aggregate.input is None
        one = replace(super().read_off(part, aggregate), bounds=EACH_ONCE, points=True, every_row=every)
        return replace(one, sought=None, usual=None, inside=False)

    def counts_units(self, aggregate: Aggregate, contribution: Contribution) -> bool:
        """Return whether every unit counts once where it has rows."""
        if aggregate.input is not None:
            return False
        if contribution.kind == "groups":
            return aggregate.bounds == EACH_ONCE
        return contribution.kind == "rows" and contribution.most == 1

    def row_magnitude(self, aggregate: Aggregate) -> str:
        """Return 1."""
        return number(1.0) if aggregate.input is None else f"CAST(p{aggregate.input} AS DOUBLE)"

    def group_magnitude(self, aggregate: Aggregate, columns: Columns) -> str:
        """Return the number of a unit's rows."""
        rows = columns.rows(None if aggregate.input is None else f"p{aggregate.input}")
        return f"CAST({rows} AS DOUBLE)"

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return the number of rows."""
        return Fraction(0), Fraction(rows)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add up the numbers of rows."""
        if builder.contribution.kind == "l2":
            blocks, step = _vector("count", aggregate, bounds, builder, cost)
            return replace(input_of(aggregate, bounds), blocks=blocks, step=step, points=True)
        low, high = bounds
        if builder.contribution.kind == "rows":
            component = row_count(aggregate.input)
        else:  # a count is never negative, so that its lower bound never makes it one
            step = max(Fraction(1), builder.step(abs(high), WHOLE, cost))
            component = Component("count", aggregate.input, low, high, step, max(1, math.floor(abs(high) / step)))
        return replace(input_of(aggregate, bounds), blocks=(builder.plain(component, cost),), step=component.step)

    def clips(self, part: AggregateInput) -> bool:
        """Return whether rows are meant to count, and not only that a unit has some."""
        return part.bounds != EACH_ONCE


class Sum(Added):
    """SUM of a column."""

    kind = "sum"
    spellings: ClassVar = {"SUM": Spelling(), "ANON_SUM": Spelling()}
    said, nodes, word = ("SUM",), (exp.Sum,), "sum"
    statistics = (ClampedSum(),)
    equal_bounds = summed = True
    linear = "sum"

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return what so many values as a unit has at most come to."""
        assert values is not None
        low, high = values
        kind, times = limits.contribution.kind, 1 if limits.single else limits.max_rows
        if kind == "rows" or (kind == "groups" and limits.single):
            return values
        if times is None:
            return None
        if kind == "groups":
            return min(Fraction(0), low) * times, max(Fraction(0), high) * times
        return Fraction(0), max(abs(low), abs(high)) * times

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return what so many values come to, where their bounds are known."""
        return None if values is None else (Fraction(0), max(map(abs, values)) * rows)

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds of values take from each of them, of which the sum is."""
        return cut, "value, on average"

    def measured_with(self, aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
        """Return whether the other one is a mean of the same rows, of which values are kept between the same bounds."""
        mine, theirs = ((one.input, one.bounds, one.values, one.within) for one in (aggregate, other))
        return _with_mean(aggregate, other, contribution) and mine == theirs

    def read_off(self, part: AggregateInput, aggregate: Aggregate) -> AggregateInput:
        """Return what a sum is worked out from: its noise is no whole number then."""
        return replace(super().read_off(part, aggregate), points=aggregate.integer)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add up the sums of units; whole numbers in whole steps."""
        if builder.contribution.kind == "l2":
            blocks, step = _vector("sum", aggregate, bounds, builder, cost)
            return replace(input_of(aggregate, bounds), blocks=blocks, step=step)
        low, high = bounds
        most = max(abs(low), abs(high))
        whole = aggregate.integer and low.denominator == high.denominator == 1
        step = max(Fraction(1), builder.step(most, WHOLE, cost)) if whole else builder.step(most, FINE, cost)
        component = Component("sum", aggregate.input, low, high, step, max(1, math.floor(most / step)))
        return replace(input_of(aggregate, bounds), blocks=(builder.plain(component, cost),), step=component.step)

    def clips(self, part: AggregateInput) -> bool:
        """Return True."""
        return True


def row_count(column: int | None) -> Component:
    """Return the number of rows, or of those that have something in a column, where single rows are bounded."""
    return Component("count", column, Fraction(0), Fraction(1), Fraction(1), 1)


def _with_mean(aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
    """Return whether the other one is the mean of rows, each of which counts by itself: of their number and sum.

    Not where a statement says what either of them costs.
    """
    return contribution.kind == "rows" and other.kind == Average.kind and aggregate.epsilon is other.epsilon is None


def _vector(
    statistic: str, aggregate: Aggregate, bounds: Bounds, builder: Builder, cost: int
) -> tuple[tuple[int, ...], Fraction]:
    """Measure vectors over all groups that are clipped to a norm, in one or two layers; return the blocks, and a step.

    Where there are two, the first of them is of the short norm, and the step is its.
    """
    if (layers := layers_of(bounds)) is None:
        component = _clipped(statistic, aggregate, bounds[1], builder, cost)
        return (builder.plain(component, cost),), component.step
    beyond = int(cost * layers.share)
    first = _clipped(statistic, aggregate, layers.inner, builder, cost - beyond)
    second = _clipped(statistic, aggregate, layers.outer - layers.inner, builder, beyond)
    second = replace(second, beyond=max(1, math.ceil(layers.inner / second.step)))
    return (builder.plain(first, cost - beyond), builder.plain(second, beyond)), first.step


def _clipped(statistic: str, aggregate: Aggregate, norm: Fraction, builder: Builder, cost: int) -> Component:
    """Return the component of vectors over all groups that are clipped to a norm."""
    most = max(norm, Fraction(0))
    step = builder.step(most, WHOLE, cost)
    return Component(statistic, aggregate.input, Fraction(0), norm, step, max(1, math.floor(most / step)))


def _numbers(measuring: Measuring, part: AggregateInput, noisy: Integers) -> Floats:
    """Return noisy counts or sums, both layers of them where there are two."""
    if part.layers:
        how = Combination(*part.layers)
        first, second = numbers_of(measuring, part, noisy)
        return how.first * first + how.second * second
    return np.asarray(noisy[:, measuring.place(part.blocks[0]).start].astype(np.float64) * float(part.step))

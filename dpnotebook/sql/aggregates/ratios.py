"""Means, variances and standard deviations, from noisy sums and a noisy number of values.

Intervals hold for groups of any size: a ratio r is in the interval where the noisy sum less r times the noisy number
is no farther from zero than noise takes it (Fieller's theorem), which no linearisation stands behind.

Sources: Wilson et al., section 4.2.3 (bounded-contribution aggregation); means as a noisy centred sum over a noisy
count are Algorithm 2.4 of Li et al.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.dialect.attributes import number
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import FINE, WHOLE, Bounds, Builder
from dpnotebook.sql.aggregates.centring import centred_by, has_centre, squares_by
from dpnotebook.sql.aggregates.function import (
    NO_UNITS,
    USUAL_ROWS,
    AggregateFunction,
    Expectation,
    Integers,
    KnownGroups,
    Parts,
    Statistic,
    input_of,
)
from dpnotebook.sql.aggregates.measuring import AggregateInput, Matrix, Measuring
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component
from dpnotebook.sql.parse.calls import Spelling
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import FINER, Columns, nearest
from dpnotebook.sql.select import Aggregate, Contribution, is_column
from dpnotebook.strategy import Strategy
from dpnotebook.views import digits

Floats = NDArray[np.float64]

SPREADS = ("variance", "deviation")  # kinds of what is worked out from one measurement
COUNT_BITS = 10  # bits below one of counts that are divided by
MEAN_AT = 2 / 3  # of the way from the middle to a bound: where means mostly are, as most columns are skewed
CENTRED_AT = 1 / 3  # the same of means of groups, where the middle and the half-width are those of all values
MEAN_SHARE = Fraction(3, 5)  # of a mean's cost in mu^2, for its sum: the best for means there
# Of that cost, for the number of values or rows where others are read off it: what these paid, so that they err no more
# than by themselves; sums the less the more of it there is.
LEAST_BESIDE, MOST_BESIDE = Fraction(1, 2), Fraction(3, 4)
PLACES = 400  # of equal probability, at which a function of noise is looked at
# Of moments, by the statistics that they are sums of; a sum is one of values that are not centred.
MOMENTS = (
    ("values", "count", "missing", "weights", "unit rows"),
    ("average", "centred", "sum", "weighted", "unit away"),
    ("square",),
)
ORDER = {name: order for order, names in enumerate(MOMENTS) for name in names}


class ValueCount(Statistic):
    """The number of values of a unit in a group: of those that are drawn, or whether there is one, for averages."""

    name = "values"

    def of_row(self, component: Component) -> str:
        """Return 1, or 0 where there is no value."""
        return f"CASE WHEN {component.column} IS NOT NULL THEN 1 ELSE 0 END"

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return the number of values, at most as many as count."""
        return f"least({columns.rows(component.column)}, {component.largest})"

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the number of values."""
        return steps.whole(f"CAST({columns.rows(component.column)} AS DOUBLE)", part)


class MissingCount(Statistic):
    """The number of rows without a value, where single rows are bounded."""

    name = "missing"

    def of_row(self, component: Component) -> str:
        """Return 1 where there is no value, or 0."""
        return f"CASE WHEN {component.column} IS NULL THEN 1 ELSE 0 END"


class ClampedMean(Statistic):
    """The mean of a unit's values in a group, clamped, less the middle of its bounds."""

    name, summed = "average", True

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return the clamped mean, in steps from the middle."""
        i, low, high, step = component.input, component.low, component.high, component.step
        assert i is not None
        middle, most = (low + high) / 2, component.largest
        part, centre = parts[i], Fraction(0)
        if part * FINER > step:  # the middle, or a sum of the same input, is too far away for steps so small
            part, centre = steps.part_for((high - low) / 2), middle
        total = columns.total(steps.addend(f"y{i}", part, centre))
        mean = f"CAST({total} AS DOUBLE) / {columns.rows(f'y{i}')}"
        value = steps.within(nearest(mean, part / step, (centre - middle) / step), -most, most)
        return f"CASE WHEN {total} IS NULL THEN 0 ELSE {value} END"


class OfValues(Statistic):
    """A sum over single values, of those that are drawn."""

    drawn = True

    def of_value(self, component: Component, most: int) -> str:
        """Return what one value adds, as an integer of at most `most`; the value is not NULL."""
        raise NotImplementedError

    def of_row(self, component: Component) -> str:
        """Return what a row's value adds."""
        return f"CASE WHEN {component.column} IS NULL THEN 0 ELSE {self.of_value(component, component.largest)} END"

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return what the values that are drawn add."""
        each = self.of_value(component, component.largest // ROWS_SAMPLED)
        drawn = f"{component.column} IS NOT NULL AND {component.turn} BETWEEN 1 AND {ROWS_SAMPLED}"
        return f"CAST(coalesce({columns.total(f'CASE WHEN {drawn} THEN {each} END')}, 0) AS BIGINT)"


class CentredValue(OfValues):
    """Values, clamped, less the middle of their bounds."""

    name = "centred"

    def of_value(self, component: Component, most: int) -> str:
        """Return the clamped value, in steps from the middle."""
        bounded, middle = _bounded(component)
        return steps.within(steps.whole(bounded, component.step, middle), -most, most)

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum of all values, each clamped."""
        low, high = component.low, component.high
        middle = (low + high) / 2 if component.centre is None else component.centre
        total = centred_total(component.column, low, high, middle, part, columns)
        return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO})"


def centred_total(
    column: str, low: Fraction, high: Fraction, centre: Fraction, part: Fraction, columns: Columns
) -> str:
    """Return the name of the sum of clamped values less a centre between their bounds, in whole parts."""
    away = steps.whole(steps.clamped(column, low, high), part, centre)
    return columns.total(f"CASE WHEN {column} IS NOT NULL THEN {steps.exact(steps.integer(away))} END")


def squared_total(
    column: str, low: Fraction, high: Fraction, centre: Fraction, usual: Fraction, part: Fraction, columns: Columns
) -> str:
    """Return the name of the sum of squares of clamped values less a centre, less what is usual, in whole parts."""
    least = number(float(part) ** 0.5 / 4)  # what rounds to zero anyway is not squared
    away = f"greatest(abs({steps.clamped(column, low, high)} - {number(float(centre))}), {least})"
    whole = steps.exact(steps.integer(steps.whole(f"{away} * {away}", part, usual)))
    return columns.total(f"CASE WHEN {column} IS NOT NULL THEN {whole} END")


class SquaredValue(OfValues):
    """Squares of values, clamped, less the middle of their bounds."""

    name = "square"

    def of_value(self, component: Component, most: int) -> str:
        """Return the square of how far the clamped value is from the middle."""
        bounded, middle = _bounded(component)
        # What rounds to zero anyway is not squared: it could be too small for a number.
        least = Fraction(float(component.step) ** 0.5) / 4
        away = f"greatest(abs({bounded} - {number(float(middle))}), {number(float(least))})"
        return steps.within(steps.whole(f"{away} * {away}", component.step), 0, most)

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum of the squares of all values, each less what is usual."""
        low, high = component.low, component.high
        centre = (low + high) / 2 if component.centre is None else component.centre
        total = squared_total(component.column, low, high, centre, component.usual, part, columns)
        return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO})"


def _bounded(component: Component) -> tuple[str, Fraction]:
    """Return a clamped value, and the middle of its bounds."""
    low, high = component.low, component.high
    return steps.clamped(component.column, low, high), (low + high) / 2


@dataclass(frozen=True)
class Moments:
    """Noisy number of values, and noisy sums of what follows from each.

    Parameters
    ----------
    sums
        In units of half-widths, shape (moments, groups).
    covariance
        Of their noise, the same in all groups; shape (moments, moments).
    """

    sums: Floats
    covariance: Floats

    @property
    def of_mean(self) -> Moments:
        """Those that a mean is worked out from: the number of values, and their sum."""
        return Moments(self.sums[:2], self.covariance[:2, :2])


def moments(measuring: Measuring, part: AggregateInput, noisy: Integers, worth: Mapping[int, float]) -> Moments:
    """Return the moments that noisy numbers say.

    Parameters
    ----------
    measuring, part
        What was measured, and the aggregate.
    noisy
        Noisy numbers of all blocks, shape (groups, measured).
    worth
        What an integer is worth, for each column in the order of the moments.
    """
    numbers = np.concatenate([noisy[:, measuring.place(i)] for i in part.blocks], axis=1).astype(float)
    inverse, covariance = weights(measuring, part, worth)
    return Moments(inverse @ numbers.T, covariance)


def weights(measuring: Measuring, part: AggregateInput, worth: Mapping[int, float]) -> tuple[Floats, Floats]:
    """Return how moments follow from the noisy numbers of an aggregate, and the covariance of their noise.

    Parameters
    ----------
    measuring, part, worth
        As for `moments`.

    Returns
    -------
    Weights of shape (moments, numbers), and covariances of shape (moments, moments).
    """
    rows, variances = [], []
    for block in (measuring.blocks[i] for i in part.blocks):
        assert not isinstance(block.combine, Strategy)
        for row in block.combine:
            entry = dict(zip(block.columns, row, strict=True))
            rows.append([float(entry.get(column, 0)) for column in worth])
            variances.append(measuring.law.variance(block.scale))
    # Well conditioned in units of the half-width.
    inverse = np.asarray(np.linalg.inv(np.array(rows) / list(worth.values())), dtype=float)
    for place, column in enumerate(worth):
        if measuring.component(column).statistic == "sum":
            inverse[place] -= _middle(part) / _half(part) * inverse[0]
        elif usual := measuring.component(column).usual:
            inverse[place] += float(usual) / _half(part) ** 2 * inverse[0]
    return inverse, np.asarray((inverse * np.array(variances)) @ inverse.T)


def reads_mean(measuring: Measuring, part: AggregateInput) -> bool:
    """Return whether what an aggregate is worked out from was measured for a mean or a variance."""
    block = measuring.blocks[part.blocks[0]]
    return measuring.component(block.columns[0]).statistic in ("values", "average", "centred")


def of_mean(measuring: Measuring, part: AggregateInput, summed: bool) -> tuple[Floats, float]:
    """Return how the number of values, or of all rows, or a sum follows from what was measured for a mean.

    Parameters
    ----------
    measuring, part
        What was measured, and the mean that it was measured for.
    summed
        Whether the sum of the values is asked, and not their number.

    Returns
    -------
    The weights of the noisy numbers of its blocks, and the standard error.
    """
    lines, covariance = weights(measuring, part, _worth(measuring, part))
    of_moments = np.zeros(len(covariance))
    of_moments[:2] = (_middle(part), _half(part)) if summed else (1.0, 0.0)
    of_moments[2:] = float(part.every_row)
    return of_moments @ lines, math.sqrt(float(of_moments @ covariance @ of_moments))


def fieller(x: Floats, n: Floats, covariance: Floats, reach: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the ratios r between low and high with |x - r n| at most `reach` standard deviations of its noise.

    Parameters
    ----------
    x, n
        Noisy numerator and denominator, shape (groups,); the exact denominator is not negative.
    covariance
        Of their noise, shape (2, 2) or (2, 2, groups).
    reach
        How many standard deviations.
    low, high
        What the ratio lies between. Where n may be zero the interval is all of it.
    """
    square = reach * reach
    a = n * n - square * covariance[1, 1]
    b = x * n - square * covariance[0, 1]
    c = x * x - square * covariance[0, 0]
    known = (a > 0) & (n > 0)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    safe = np.where(known, a, 1.0)
    lower = np.where(known, (b - root) / safe, low).clip(low, high)
    upper = np.where(known, (b + root) / safe, high).clip(low, high)
    return lower, upper


def _longer(
    values: Floats,
    lower: Floats,
    upper: Floats,
    moves: tuple[Floats, Floats],
    low: float,
    high: float,
    *,
    beyond: bool,
) -> tuple[Floats, Floats]:
    """Return intervals that hold as well what moves answers beside the noise, between the least and the most.

    What moves them is how far intervals reach down for it, and how far up; if that is told apart, also beyond these.
    """
    if not np.any(moves):
        return lower, upper
    both = zip((values - lower, upper - values), moves, strict=True)
    below, above = (np.hypot(np.maximum(part, 0.0), moved) for part, moved in both)
    # Values that bounds cut off may have made an answer more than any between bounds is.
    down, up = moves if beyond else (0.0, 0.0)
    return (values - below).clip(low - down, high), (values + above).clip(low, high + up)


def moves_of(part: AggregateInput, counted: Floats) -> tuple[Floats, Floats]:
    """Return how far, in standard deviations, bounds, norms and which rows count may have moved answers: down and up.

    Parameters
    ----------
    part
        What answers are worked out from.
    counted
        How many values count in each group.
    """
    of_rows = np.sqrt(part.drawn / np.maximum(counted, 1.0))
    down, up = (np.hypot(moved, of_rows) for moved in part.moves)
    return down, up


def _reaching(part: AggregateInput, times: float, counted: Floats) -> tuple[Floats, Floats]:
    """Return how far intervals reach down and up for that, at so many standard deviations."""
    down, up = moves_of(part, counted)
    return times * down, times * up


class Ratio(AggregateFunction):
    """A mean, or what is made of means: its errors depend on how many values a group has.

    Where all of a unit is clipped to a norm its number of values, their centred sum and that of their squares are parts
    of one vector: a unit that weighs less does so in all of them.
    """

    errors_of: ClassVar[str] = "averages and variances"
    clipped = centres = sized = True

    def vector(self, aggregate: Aggregate, values: Bounds | None, columns: Columns) -> list[str]:
        """Return the number of values, their centred sum in half-widths, and that of their squares as these count."""
        assert values is not None
        low, high = values[:2]
        centre, half = centred_by(values)
        column = f"y{aggregate.input}"
        part = small_part(half)
        found = [
            f"CAST({columns.rows(column)} AS DOUBLE)",
            times(centred_total(column, low, high, centre, part, columns), part / half),
        ]
        if self.squares:
            usual, length = (one * half * half for one in squares_by(values))
            part = small_part(length)
            found.append(times(squared_total(column, low, high, centre, usual, part, columns), part / length))
        return found

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return the bounds of the values, and the norm of so many at a bound."""
        most = math.sqrt(3 if self.squares else 2) * rows
        return None if values is None else (*values, Fraction(math.ceil(most * 2**FINE), 2**FINE))

    def build_vector(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the parts of the vector of each unit, whose norm is the last of the bounds."""
        (low, high), norm = bounds[:2], bounds[-1]
        (centre, half), step = centred_by(bounds[:-1]), builder.step(norm, WHOLE, cost)
        largest, together = max(1, math.floor(norm / step)), len(builder.blocks)
        usual, length = (one * half * half for one in squares_by(bounds[:-1]))
        parts = [("values", Fraction(1)), ("centred", half), *([("square", length)] if self.squares else [])]
        elsewhere = centre if has_centre(bounds) else None
        components = tuple(
            Component(
                name,
                aggregate.input,
                low,
                high,
                step * worth,
                largest,
                together=together,
                centre=elsewhere if name != "values" else None,
                usual=usual if name == "square" else Fraction(0),
            )
            for name, worth in parts
        )
        return replace(input_of(aggregate, bounds), blocks=(builder.vector(components, cost),), step=half, half=1)

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return the errors in groups of so many values, at most half of what the answer lies between."""
        about = known or KnownGroups.of(np.array([USUAL_ROWS]))
        sizes, most, reach = about.sizes, self.most(part), kappa(confidence, measuring.noise)
        counted = np.maximum(about.sizes * about.counting, 1.0) * about.weights(measuring)
        errors = self.errors(measuring, part, replace(about, sizes=counted))
        moved = self.moved(part, about, reach)
        values = self.values(measuring)
        if sizes.size == 1:
            note = f"errors of {self.errors_of} are those of a group of {sizes[0]:,.0f} {values}"
        else:
            best = min(float(np.hypot(reach * errors, moved).min()), most)
            note = (
                f"errors of {self.errors_of} are those of the smallest group, of about {sizes.min():,.0f} {values}; in "
                f"the largest, of about {sizes.max():,.0f}, ±{digits(best)}"
            )
        note += self.assumed(part, about) if known is not None else ""
        return Expectation(np.minimum(errors, most), min(float(np.hypot(reach * errors, moved).max()), most), note)

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups | None:
        """Return the noisy numbers of values, their means, and their variances where squares are added up too."""
        assert part.bounds is not None
        half = _half(part)
        n, c, *others = moments(measuring, part, noisy, _worth(measuring, part)).sums
        squares = others if self.squares else []
        times = measuring.weights_of(len(noisy))
        n = np.maximum(n, times)
        mean = (c / n).clip(*_ends(part))
        variance = (squares[0] / n - mean**2).clip(0, _largest_variance(part)) * half**2 if squares else None
        return KnownGroups.of(n / times, _middle(part) + half * mean, variance)

    def moved(self, part: AggregateInput, known: KnownGroups, reach: float) -> Floats:
        """Return by how much bounds and norms are taken to move answers, for intervals that reach so far: (groups,).

        Where they reach farther in one direction it is what half their length is about.
        """
        down, up = moves_of(part, known.sizes * known.counting)
        return np.asarray(reach * (down + up) / 2)

    def redrawn(self, values: Floats, moved: Floats) -> Floats:
        """Return answers that were moved by so much."""
        return values + moved

    def assumed(self, part: AggregateInput, known: KnownGroups) -> str:
        """Return what is assumed of values besides how many they are, in words; empty where that is nothing."""
        return ""

    def values(self, measuring: Measuring) -> str:
        """Return what the values are that a mean is of."""
        return "values"

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return the standard errors of answers in groups, of values of a usual kind where it is not known of which."""
        raise NotImplementedError

    def most(self, part: AggregateInput) -> float:
        """Return half of the width of what an answer lies between."""
        raise NotImplementedError


class Mean(Ratio):
    """A mean: of the noisy sum of what values are away from a centre, and the noisy number or weight of these."""

    def whole(self, aggregate: Aggregate) -> bool:
        """Return False: averages of whole numbers are none."""
        return False

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return the noisy sum over the noisy number, with the interval of Fieller's theorem."""
        assert part.bounds is not None
        half = _half(part)
        found = moments(measuring, part, noisy, _worth(measuring, part)).of_mean
        n, c = found.sums
        # Of the mean, in units of the half-width, which was rounded up to whole steps.
        low, high = ((float(bound) - _middle(part)) / half for bound in part.bounds[:2])
        reach = kappa(confidence, measuring.noise)
        known = n > 0
        ratio = np.where(known, c / np.where(known, n, 1.0), 0.0).clip(low, high)
        lower, upper = fieller(c, n, found.covariance[[1, 0]][:, [1, 0]], reach, low, high)
        weight = np.stack([-ratio, np.ones_like(ratio)])
        spread = np.sqrt(np.einsum("ig,ij,jg->g", weight, found.covariance, weight))
        # A mean between bounds errs by no more than any guess between them would.
        std_error = np.minimum(np.where(known, spread / np.where(known, n, 1.0), np.inf), (high - low) / 2)
        lower, upper = _longer(
            ratio, lower, upper, _reaching(part, reach / half, n), low, high, beyond=part.moved_down is not None
        )
        middle = _middle(part)
        return Estimates(middle + half * ratio, half * std_error, middle + half * lower, middle + half * upper)

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return them; where means are not known, they are off by a fifth at most."""
        _, covariance = weights(measuring, part, _worth(measuring, part))
        mean = _places(part, known.means, MEAN_AT if part.bounds is None or not has_centre(part.bounds) else CENTRED_AT)
        error = _of_lines(np.stack([-mean, np.ones_like(mean)]), covariance[:2, :2]) / known.sizes
        low, high = _ends(part)
        return _half(part) * _moved(mean, error, lambda one: one.clip(low, high))

    def most(self, part: AggregateInput) -> float:
        """Return half of the width of the bounds."""
        assert part.bounds is not None
        return float(part.bounds[1] - part.bounds[0]) / 2


class Average(Mean):
    """AVG: where groups are bounded, of the clamped averages of units."""

    kind = "average"
    spellings: ClassVar = {"AVG": Spelling(), "MEAN": Spelling(), "ANON_AVG": Spelling()}
    said, nodes, word = ("AVG",), (exp.Avg,), "avg"
    statistics = (ValueCount(), MissingCount(), ClampedMean(), CentredValue())
    shown = linear = "mean"
    averages = counts_and_sums = True

    def group_magnitude(self, aggregate: Aggregate, columns: Columns) -> str:
        """Return the average of a unit's values."""
        total = super().group_magnitude(aggregate, columns)
        return f"{total} / nullif({columns.rows(f'y{aggregate.input}')}, 0)"

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add a centred sum, and the number of values; with that of rows without one if all rows are counted too."""
        if builder.contribution.kind == "l2":
            return self.build_vector(builder, aggregate, bounds, cost)
        groups = builder.contribution.kind == "groups"
        low, high = bounds
        step, half = builder.centred(bounds, cost)
        c = builder.column(Component("average" if groups else "centred", aggregate.input, low, high, step, half))
        n = builder.column(Component("values", aggregate.input, low, high, Fraction(1), 1))
        counted = [share for one, share in builder.read_off if one.kind != "sum"]
        if every_row := any(one.input is None for one, _ in builder.read_off):
            m = builder.column(Component("missing", aggregate.input, low, high, Fraction(1), 1))
        if not builder.law.euclidean:
            # What values lie above the lower bound and below the upper one: together the same for every value, so
            # that the pair has the sensitivity of the span alone, where half the cost for each would double it. A row
            # has a value or none: counting these with as much noise costs nothing more.
            pair: Matrix = ((1, half), (-1, half))
            if every_row:
                pair = (*((*row, 0) for row in pair), (0, 0, 2 * half))
            blocks: tuple[int, ...] = (builder.block((c, n, m) if every_row else (c, n), pair, 2 * half, cost),)
        elif every_row:
            # What is counted beside rows without a value is all rows, or those with one where the others paid as much:
            # a row without a value spends no more than one with a value then, or as much by that count alone.
            apart = len(builder.read_off) > 1 and cost >= 3 * max(counted)
            of_count = LEAST_BESIDE if apart else _of_count(counted, cost)
            away = half * max(1, (1 << COUNT_BITS) // half)
            one = math.isqrt(math.floor(away**2 * of_count / (1 - of_count)))
            most = math.isqrt(away**2 + one**2 - 1) + 1
            rows: Matrix = ((away // half, 0, 0), (0, one, 0 if apart else one), (0, 0, most if apart else away))
            blocks = (builder.block((c, n, m), rows, most, cost),)
        else:
            of_sum = int(cost * (1 - _of_count(counted, cost) if builder.read_off else MEAN_SHARE))
            one = 1 << COUNT_BITS
            blocks = (
                builder.block((c,), ((1,),), half, of_sum),
                builder.block((n,), ((one,),), one, cost - of_sum),
            )
        return replace(input_of(aggregate, bounds), blocks=blocks, step=step, half=half)

    def values(self, measuring: Measuring) -> str:
        """Return whether the average is one of units or of values."""
        return "units" if measuring.contribution.kind == "groups" else "values"


def _of_count(counted: Sequence[int], cost: int) -> Fraction:
    """Return which part of a cost is for the number of values, or of all rows, given what counts paid of it."""
    return min(max(Fraction(max(counted, default=0), cost), LEAST_BESIDE), MOST_BESIDE)


class Variance(Ratio):
    """VAR_POP and VAR_SAMP, of single values."""

    kind = "variance"
    spellings: ClassVar = {
        **dict.fromkeys(("VAR", "VARIANCE", "VAR_SAMP"), Spelling(population=False)),
        **dict.fromkeys(("VAR_POP", "ANON_VAR", "ANON_VAR_POP"), Spelling()),
    }
    said, word = ("VAR_POP",), "var"
    nodes: ClassVar[tuple[type[exp.Expr], ...]] = (exp.Variance, exp.VariancePop)
    statistics = (ValueCount(), CentredValue(), SquaredValue())
    rowwise = squares = counts_and_sums = True

    def measured_with(self, aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
        """Return whether the other one is a variance, or the root of one, of the same values."""
        mine, theirs = ((one.input, one.bounds, one.values, one.within) for one in (aggregate, other))
        return other.kind in SPREADS and mine == theirs

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the number of values, their centred sum, and that of their squares."""
        if builder.contribution.kind == "l2":
            return self.build_vector(builder, aggregate, bounds, cost)
        rows, column, (low, high) = builder.rows, aggregate.input, bounds
        step, half = builder.centred(bounds, cost)
        unit = half * step * step  # squares are up to `half` of it
        n = builder.column(Component("values", column, low, high, Fraction(1), rows))
        c = builder.column(Component("centred", column, low, high, step, rows * half))
        q = builder.column(Component("square", column, low, high, unit, rows * half))
        if not builder.law.euclidean:
            # (1 - p)^2, 2 p (1 - p) and p^2, p the place of a value between its bounds: never negative and together
            # the same for every value, but for what rounding values and squares by 1/2 each does.
            matrix: Matrix = ((half, -2, 1), (2 * half, 0, -2), (half, 2, 1))
            blocks: tuple[int, ...] = (builder.block((n, c, q), matrix, rows * (4 * half + 4), cost),)
        else:
            one, third = 1 << COUNT_BITS, cost // 3
            # Squares are centred too: between -half and half after doubling.
            blocks = (
                builder.block((n,), ((one,),), rows * one, third),
                builder.block((c,), ((1,),), rows * half, third),
                builder.block((n, q), ((-half, 2),), rows * half, third),
            )
        return replace(input_of(aggregate, bounds), blocks=blocks, step=step, half=half, square=unit)

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return variances with intervals.

        The variance is q / n - (c / n)^2. About the noisy mean m the sum of squares is q - 2 m c + m^2 n, and its ratio
        to n, for which the interval holds, is the variance but for the square of the error of m: by the farthest that m
        may err, the interval is made wider.
        """
        half = _half(part)
        return scaled(half**2, *self.variances(measuring, part, noisy, confidence))

    def variances(
        self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return variances, standard errors and intervals in units of the squared half-width."""
        assert part.bounds is not None
        most = (float(part.bounds[1] - part.bounds[0]) / 2 / _half(part)) ** 2
        found = moments(measuring, part, noisy, _worth(measuring, part))
        count, c, q = found.sums
        reach = kappa(confidence, measuring.noise)
        known, (low, high) = count > 0, _ends(part)
        n = np.where(known, count, 1.0)
        m = np.where(known, c / n, 0.0).clip(low, high)
        about = q - 2 * m * c + m * m * count
        value = np.where(known, about / n, 0.0).clip(0, most)
        lines = np.stack([m * m, -2 * m, np.ones_like(m)])  # of n, c and q
        of_about = np.einsum("ig,ij,jg->g", lines, found.covariance, lines)
        with_n = np.einsum("ig,i->g", lines, found.covariance[:, 0])
        covariance = np.array([[of_about, with_n], [with_n, np.full_like(m, found.covariance[0, 0])]])
        lower, upper = fieller(about, count, covariance, reach, 0.0, most)
        low_mean, high_mean = fieller(c, count, found.covariance[[1, 0]][:, [1, 0]], reach, low, high)
        slack = np.maximum(high_mean - m, m - low_mean) ** 2
        lower, upper = np.maximum(lower - slack, 0.0), np.minimum(upper + slack, most)
        moves = _reaching(part, reach / _half(part) ** 2, count)
        lower, upper = _longer(value, lower, upper, moves, 0.0, most, beyond=part.moved_down is not None)
        lower = np.maximum(lower, 0.0)
        spread = np.sqrt(np.maximum(of_about - 2 * value * with_n + value**2 * found.covariance[0, 0], 0.0))
        std_error = np.minimum(np.where(known, spread / n, np.inf), most)
        if part.population:
            return value, std_error, lower, upper
        rows = np.maximum(n / measuring.weights_of(n.size), 2)
        sample = rows / (rows - 1)
        return sample * value, sample * std_error, sample * lower, sample * upper

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of values whose mean is half-way to a bound, and whose spread is a quarter of the way."""
        most = _largest_variance(part)
        return _half(part) ** 2 * _moved(*self.of_variances(measuring, part, known), lambda one: one.clip(0.0, most))

    def of_variances(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> tuple[Floats, Floats]:
        """Return variances that are known or usual, and their errors, in units of the squared half-width."""
        _, covariance = weights(measuring, part, _worth(measuring, part))
        centred = part.bounds is not None and has_centre(part.bounds)
        usual_mean, usual_spread = (CENTRED_AT, 1.0) if centred else (USUAL_MEAN, USUAL_SPREAD)
        mean = _places(part, known.means, usual_mean)
        told = known.variances / _half(part) ** 2
        variance = np.where(np.isnan(told), usual_spread**2, told.clip(0, _largest_variance(part)))
        lines = np.stack([mean**2 - variance, -2 * mean, np.ones_like(mean)])
        return variance, _of_lines(lines, covariance) / known.sizes

    def assumed(self, part: AggregateInput, known: KnownGroups) -> str:
        """Return which standard deviation values are taken to have where no release tells."""
        if not np.isnan(known.variances).any() or part.bounds is None or has_centre(part.bounds):
            return ""
        usual = digits(USUAL_SPREAD * _half(part))
        return f"; of values whose standard deviation is about {usual}, which nothing tells yet"

    def most(self, part: AggregateInput) -> float:
        """Return the largest variance there is between the bounds."""
        assert part.bounds is not None
        return float(part.bounds[1] - part.bounds[0]) ** 2 / 4

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds of values take from a variance."""
        return cut, "variance"

    def unit(self, aggregate: Aggregate, units: Mapping[str, str] = NO_UNITS) -> str:
        """Return the square of the column's units."""
        unit, own = units.get(aggregate.argument), is_column(aggregate.argument)
        return f"{unit} squared" if unit is not None else f"square of {aggregate.argument}'s units" if own else ""


USUAL_MEAN, USUAL_SPREAD = 0.5, 0.25  # of values of which errors are foretold, in half-widths from the middle


class Deviation(Variance):
    """STDDEV_POP and STDDEV_SAMP: roots of variances."""

    kind = "deviation"
    spellings: ClassVar = {
        **dict.fromkeys(("STDDEV", "STDDEV_SAMP"), Spelling(population=False)),
        **dict.fromkeys(("STDDEV_POP", "ANON_STDDEV", "ANON_STDDEV_POP"), Spelling()),
    }
    said, nodes, word = ("STDDEV_POP",), (exp.StddevSamp, exp.StddevPop), "stddev"

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return the roots of variances and of their intervals."""
        value, std_error, lower, upper = self.variances(measuring, part, noisy, confidence)
        # By the slope of the root, and by the root of the error where the variance is no more than that.
        std_error = std_error / np.sqrt(np.maximum(np.maximum(4 * value, std_error), np.finfo(float).tiny))
        return scaled(_half(part), np.sqrt(value), std_error, np.sqrt(lower), np.sqrt(upper))

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of the roots of variances."""
        return _half(part) * _moved(*self.of_variances(measuring, part, known), lambda one: np.sqrt(one.clip(0.0)))

    def moved(self, part: AggregateInput, known: KnownGroups, reach: float) -> Floats:
        """Return by how much bounds and norms may move standard deviations.

        Where none is known they are usual: as far as a half-width, or what stands for it.
        """
        variances = np.where(np.isnan(known.variances), _half(part) ** 2, known.variances)
        down, up = moves_of(part, known.sizes * known.counting)
        down, up = (np.sqrt(np.maximum(variances + reach * moved, 0.0)) for moved in (-down, up))
        return np.asarray((up - down) / 2)

    def redrawn(self, values: Floats, moved: Floats) -> Floats:
        """Return them by what their variances are moved."""
        return np.asarray(np.sqrt(np.maximum(values**2 + moved, 0.0)))

    def most(self, part: AggregateInput) -> float:
        """Return the largest standard deviation there is between the bounds."""
        assert part.bounds is not None
        return float(part.bounds[1] - part.bounds[0]) / 2

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds of values take from a standard deviation; from a variance where its size is not known."""
        return (cut, "variance") if math.isnan(cut.answer) else (cut.of_root(), "standard deviation")

    def unit(self, aggregate: Aggregate, units: Mapping[str, str] = NO_UNITS) -> str:
        """Return the column's units."""
        return Ratio.unit(self, aggregate, units)


def moved_by(part: AggregateInput, drawn: Floats) -> Floats:
    """Return by how much bounds and norms may have moved answers, given draws of variance 1: as intervals reach."""
    down, up = part.moves
    return np.asarray(np.where(drawn > 0.0, up * drawn, down * drawn))


def _moved(values: Floats, errors: Floats, function: Callable[[Floats], Floats]) -> Floats:
    """Return the root mean square by which a function moves where normal noise moves what it is of, shape (groups,).

    Where noise is large, a mean is clipped at its bounds and a root cannot fall below 0: slopes do not tell that.
    """
    from scipy.special import ndtri

    places = ndtri((np.arange(PLACES) + 0.5) / PLACES)
    away = function(values + errors * places[:, None]) - function(values)
    return np.asarray(np.sqrt((away**2).mean(axis=0)))


def _places(part: AggregateInput, means: Floats, usual: float) -> Floats:
    """Return how far means are from the middle of the bounds, in half-widths; a usual number where that is unknown."""
    assert part.bounds is not None
    away = (means - _middle(part)) / _half(part)
    return np.where(np.isnan(away), usual, away.clip(*_ends(part)))


def _of_lines(lines: Floats, covariance: Floats) -> Floats:
    """Return the standard errors of combinations of moments, shape (moments, groups)."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("ig,ij,jg->g", lines, covariance, lines), 0.0)))


def small_part(width: Fraction) -> Fraction:
    """Return a power of two that is a small part of a width."""
    return Fraction(2) ** (width.numerator.bit_length() - width.denominator.bit_length() - FINE)


def times(total: str, worth: Fraction) -> str:
    """Return SQL of a sum times what one of it is worth; 0 where there is none."""
    return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO}) * {number(float(worth))}"


def _half(part: AggregateInput) -> float:
    """Return the half-width of bounds, rounded up to whole steps."""
    return float(part.step) * part.half


def _middle(part: AggregateInput) -> float:
    """Return the middle of bounds, or what stands for it."""
    assert part.bounds is not None
    return float(centred_by(part.bounds[:-1])[0] if has_centre(part.bounds) else (part.bounds[0] + part.bounds[1]) / 2)


def _ends(part: AggregateInput) -> tuple[float, float]:
    """Return what means are between, in half-widths from the middle."""
    assert part.bounds is not None
    if not has_centre(part.bounds):
        return -1.0, 1.0
    low, high = ((float(bound) - _middle(part)) / _half(part) for bound in part.bounds[:2])
    return low, high


def _largest_variance(part: AggregateInput) -> float:
    """Return the largest variance there is between bounds, in squared half-widths, or in what stands for these."""
    low, high = _ends(part)
    return ((high - low) / 2) ** 2


def _worth(measuring: Measuring, part: AggregateInput) -> dict[int, float]:
    """Return what an integer is worth: of the number of values, of centred values, of their squares."""
    half = _half(part)
    components = {i: measuring.component(i) for block in part.blocks for i in measuring.blocks[block].columns}
    order = {i: ORDER[component.statistic] for i, component in components.items()}
    ordered = sorted(components, key=lambda i: (components[i].statistic == "missing", order[i]))
    return {i: float(components[i].step) / half ** order[i] for i in ordered}


def scaled(factor: float | Floats, *columns: Floats) -> Estimates:
    """Return estimates in other units."""
    return Estimates(*(factor * column for column in columns))

"""Covariances and correlations of two columns, from noisy sums over pairs of values.

A pair counts where both columns have a value. With a and b the values of a pair, in half-widths from the middles of
their bounds, the sums of 1, a, b and a b are measured, for correlations those of a^2 and b^2 as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from sqlglot import exp

from dpnotebook.dialect.attributes import number
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import FINE, WHOLE, Bounds, Builder
from dpnotebook.sql.aggregates.centring import each_of, is_centred_pair, of_products
from dpnotebook.sql.aggregates.function import NO_UNITS, Integers, KnownGroups, input_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Matrix, Measuring
from dpnotebook.sql.aggregates.pair_bounds import GAUSSIAN_SHARES, SQUARES_SHARE
from dpnotebook.sql.aggregates.ratios import (
    CENTRED_AT,
    COUNT_BITS,
    USUAL_MEAN,
    USUAL_SPREAD,
    CentredValue,
    Floats,
    Moments,
    OfValues,
    Ratio,
    SquaredValue,
    ValueCount,
    centred_total,
    fieller,
    moments,
    scaled,
    small_part,
    squared_total,
    times,
    weights,
)
from dpnotebook.sql.aggregates.taken import REACH, Taken
from dpnotebook.sql.bounded_sums import Component, Partner, value_column
from dpnotebook.sql.parse.calls import Call, Spelling
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.select import Aggregate
from dpnotebook.views import digits

# (1 + a) (1 + b), (1 + a) (1 - b), ...: never negative, and together the same for every pair.
CORNERS = tuple((1, s, t, s * t) for s in (1, -1) for t in (1, -1))
# Of a usual column, in standard deviations about its mean: its bounds, how far squares are spread, and how long the
# vector of a pair mostly is.
USUAL_ENDS, USUAL_SQUARES, USUAL_LENGTH = Fraction(4), Fraction(3, 2), Fraction(5, 2)
TINY = -200  # exponent of factors that are none
NEXT_TO_NONE = 1e-150  # of what may be kept: charges of before may tell of 0
USUALLY = 0.5  # a correlation, where nothing is known of it
NORMAL_FOURTH = 3.0


class PairTaken(NamedTuple):
    """What bounds take from both columns of pairs.

    Parameters
    ----------
    kept, joint, spread, heavy
        As `Taken` has them.
    """

    kept: float = 1.0
    joint: float = 0.0
    spread: float = 0.0
    heavy: float = NORMAL_FOURTH

    @classmethod
    def of(cls, taken: Taken) -> PairTaken:
        """Return it as it is told; bounds of which nothing is told take nothing."""
        told = zip((taken.kept, taken.joint, taken.spread, taken.heavy), cls(), strict=True)
        return cls(*(one if math.isfinite(one) else usual for one, usual in told))

    def reaches(self, correlations: Floats, *, squares: bool) -> tuple[Floats, Floats]:
        """Return how far correlations may be too large, and too small, by what bounds cut off of both columns.

        What is cut off goes together no more unlike the rest than that lets it: -1 and 1 are as far as it goes.

        Parameters
        ----------
        correlations
            Of the values as they count.
        squares
            Whether it is a correlation that is asked, and not a covariance, in both standard deviations.
        """
        away = 1.0 - np.abs(correlations)
        least, most = ((correlations + side * away).clip(-1.0, 1.0) * self.joint for side in (-1.0, 1.0))
        less = correlations * (1.0 - self.kept) if squares else 0.0
        scale = 1.0 if squares else 1.0 / max(self.kept, NEXT_TO_NONE)
        return np.maximum(less - least, 0.0) * scale, np.maximum(most - less, 0.0) * scale

    def by_rows(self, correlations: Floats, *, squares: bool) -> Floats:
        """Return the standard deviation by which one pair moves an answer, as elliptical distributions have it."""
        heavy = max(self.heavy / NORMAL_FOURTH, 1.0)
        if squares:
            return np.asarray((1.0 - correlations**2) * math.sqrt(heavy))
        return np.asarray(np.sqrt(heavy * (1.0 + 2.0 * correlations**2) - correlations**2))


def moved_as(correlations: Floats) -> Floats:
    """Return how far a correlation moves where the mean of the products moves by 1, as which units count changes.

    Squares move with products: by linearisation, with both columns normal.
    """
    return np.asarray((1.0 - correlations**2) / np.sqrt(1.0 + correlations**2))


class PairProduct(OfValues):
    """Products of the values of a pair, each clamped, less the middle of its bounds."""

    name = "product"

    def of_value(self, component: Component, most: int) -> str:
        """Return the product, in steps; factors are whole steps first, so that nothing is too small for a number."""
        assert component.input is not None
        assert component.other is not None
        other, factors = component.other, []
        of_other = value_column(other.input, component.input)
        for column, low, high in (component.column, component.low, component.high), (of_other, other.low, other.high):
            away = steps.whole(steps.clamped(column, low, high), _step(low, high, most), (low + high) / 2)
            factors.append(steps.clamped(away, -most, most))
        product = f"{factors[0]} * {factors[1]}"
        return steps.within(steps.whole(product, most), -most, most)

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum of the products of all pairs, each value clamped, less its centre."""
        assert component.input is not None
        assert component.other is not None
        assert component.centre is not None
        other, centre = component.other, component.other.centre
        assert centre is not None
        first = component.column, component.low, component.high, component.centre
        second = value_column(other.input, component.input), other.low, other.high, centre
        total = _total_of_products(first, second, part, columns)
        return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO})"


def _total_of_products(
    first: tuple[str, Fraction, Fraction, Fraction],
    second: tuple[str, Fraction, Fraction, Fraction],
    part: Fraction,
    columns: Columns,
) -> str:
    """Return the name of the sum of products of clamped values less their centres, in whole parts."""
    # What rounds to zero anyway is not multiplied: it could be too small for a number.
    away = (f"({steps.clamped(y, low, high)} - {number(float(centre))})" for y, low, high, centre in (first, second))
    factors = [f"CASE WHEN abs({one}) >= {number(2.0**TINY)} THEN {one} ELSE {steps.ZERO} END" for one in away]
    whole = steps.exact(steps.integer(steps.whole(f"({factors[0]}) * ({factors[1]})", part)))
    return columns.total(f"CASE WHEN {first[0]} IS NOT NULL THEN {whole} END")


class OfPairs(Ratio):
    """What is worked out from the moments of pairs."""

    statistics = (ValueCount(), CentredValue(), SquaredValue(), PairProduct())
    operands = 2
    rowwise = paired = True
    errors_of = "covariances and correlations"
    least = 2 * sum(GAUSSIAN_SHARES)

    def below(self, call: Call) -> bool:
        """Return False: engines have other ways to add up the products of a unit's rows."""
        return False

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the number of pairs, both centred sums, the sum of products, and those of squares."""
        if builder.contribution.kind == "l2":
            return self.build_vector(builder, aggregate, bounds, cost)
        rows, half, one = builder.rows, 1 << builder.bits(FINE, cost), 1 << COUNT_BITS
        x, y = (
            Partner(operand.input or 0, low, high)
            for operand, low, high in zip(aggregate.operands, bounds[::2], bounds[1::2], strict=True)
        )
        step_x, step_y = _step(x.low, x.high, half), _step(y.low, y.high, half)

        def column(statistic: str, of: Partner, other: Partner, step: Fraction, largest: int) -> int:
            component = Component(statistic, of.input, of.low, of.high, step, rows * largest, other=other)
            return builder.column(component)

        n = column("values", x, y, Fraction(1), 1)
        a, b = column("centred", x, y, step_x, half), column("centred", y, x, step_y, half)
        p = column("product", x, y, step_x * step_y * half, half)
        squared: list[int] = []
        if self.squares:
            squared = [column("square", x, y, step_x**2 * half, half), column("square", y, x, step_y**2 * half, half)]
        centred: Matrix = ((-half, 2),)  # squares, between -half and half
        if not builder.law.euclidean:
            # Products are rounded by 1/2 each at most, in all four numbers.
            corners = tuple((half * row[0], *row[1:]) for row in CORNERS)
            part = int(cost * SQUARES_SHARE)
            rest = cost - part * len(squared)
            blocks = [builder.block((n, a, b, p), corners, rows * (4 * half + 2), rest)]
            blocks += [builder.block((n, q), centred, rows * half, part) for q in squared]
        else:
            whole = sum(GAUSSIAN_SHARES[: 4 + len(squared)])
            costs = [cost * share // whole for share in GAUSSIAN_SHARES]
            blocks = [builder.block((n,), ((one,),), rows * one, costs[0])]
            blocks += [
                builder.block((each,), ((1,),), rows * half, part)
                for each, part in zip((a, b, p), costs[1:4], strict=True)
            ]
            blocks += [
                builder.block((n, q), centred, rows * half, part) for q, part in zip(squared, costs[4:], strict=False)
            ]
        return replace(input_of(aggregate, bounds), blocks=tuple(blocks), half=half)

    def usual_bounds(self, aggregate: Aggregate) -> Bounds | None:
        """Return None: a covariance is as large as its columns' values."""
        return None

    def correlations(self, part: AggregateInput, values: Floats) -> Floats:
        """Return about the correlation that each answer means."""
        return values

    def unit_of(self, part: AggregateInput) -> float:
        """Return what a correlation of 1 would be."""
        return 1.0

    def reaches(self, part: AggregateInput, values: Floats, counted: Floats) -> tuple[Floats, Floats, Floats]:
        """Return how far bounds may have moved answers, as standard deviations, down and up, and which rows count.

        Parameters
        ----------
        part
            What answers are worked out from.
        values
            The answers.
        counted
            How many pairs count in each group.
        """
        told, r = PairTaken(*part.pair), self.correlations(part, values)
        sides = (self.unit_of(part) * side / REACH for side in told.reaches(r, squares=self.squares))
        moves = [one * moved_as(r) if self.squares else one for one in part.moves]
        down, up = (np.hypot(side, moved) for side, moved in zip(sides, moves, strict=True))
        rows = self.unit_of(part) * told.by_rows(r, squares=self.squares)
        return down, up, rows * np.sqrt(part.drawn / np.maximum(counted, 1.0))

    def farther(self, part: AggregateInput, found: Estimates, counted: Floats, reach: float) -> Estimates:
        """Return answers with intervals that hold as well what bounds and drawn rows may have moved."""
        if not part.reaches_farther:
            return found
        down, up, rows = self.reaches(part, found.value, counted)
        below = np.hypot(np.maximum(found.value - found.lower, 0.0), reach * np.hypot(down, rows))
        above = np.hypot(np.maximum(found.upper - found.value, 0.0), reach * np.hypot(up, rows))
        return replace(found, lower=found.value - below, upper=found.value + above)

    def moved(self, part: AggregateInput, known: KnownGroups, reach: float) -> Floats:
        """Return by how much bounds and rows may move answers, of a usual correlation."""
        counted = np.maximum(known.sizes * known.counting, 1.0)
        down, up, rows = self.reaches(part, np.full(counted.shape, USUALLY * self.unit_of(part)), counted)
        return np.asarray(reach * np.hypot((down + up) / 2, rows))

    def redrawn_pairs(
        self, part: AggregateInput, values: Floats, counted: Floats, bounds: Floats, rows: Floats
    ) -> Floats:
        """Return redraws of answers, spread as intervals are, given draws of variance 1 of what bounds and rows do."""
        down, up, of_rows = self.reaches(part, values, counted)
        return np.asarray(values + np.where(bounds > 0.0, up, down) * bounds + of_rows * rows)

    def columns_between(self, part: AggregateInput) -> list[Bounds]:
        """Return the bounds of both columns."""
        return [one[:2] for one in each_of(_values(part))]

    def counting_less(self, norm: float) -> str:
        """Return which units weigh less where vectors are clipped to a norm, in words."""
        rows = "1 row" if f"{norm:.3g}" == "1" else f"{digits(norm)} rows"
        return f"units with more than about {rows}, or pairs far from the others, count less than they would"

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds take from an answer."""
        return cut, self.kind

    def vector(self, aggregate: Aggregate, values: Bounds | None, columns: Columns) -> list[str]:
        """Return the number of pairs, both centred sums in lengths, those of squares, and that of products."""
        assert values is not None
        assert aggregate.other is not None
        first, second = aggregate.input or 0, aggregate.other.input or 0
        names = value_column(first, second), value_column(second, first)
        both = [(name, low, high, centre) for name, (low, high, centre, *_) in zip(names, each_of(values), strict=True)]
        lengths = [one[3] for one in each_of(values)]
        found = [f"CAST({columns.rows(names[0])} AS DOUBLE)"]
        for of, length in zip(both, lengths, strict=True):
            part = small_part(length)
            found.append(times(centred_total(*of, part, columns), part / length))
        for of, length, one in zip(both, lengths, each_of(values), strict=True):
            if self.squares:
                worth = one[4] * length**2
                part = small_part(worth)
                found.append(times(squared_total(*of, length**2, part, columns), part / worth))
        worth = of_products(values) * lengths[0] * lengths[1]
        part = small_part(worth)
        return [*found, times(_total_of_products(both[0], both[1], part, columns), part / worth)]

    def build_vector(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the parts of the vector of each unit, whose norm is the last of the bounds."""
        assert aggregate.other is not None
        values, norm = bounds[:-1], bounds[-1]
        step, together = builder.step(norm, WHOLE, cost), len(builder.blocks)
        largest = max(1, math.floor(norm / step))
        x, y = each_of(values)
        inputs = aggregate.input or 0, aggregate.other.input or 0

        def component(statistic: str, place: int, worth: Fraction, usual: Fraction = Fraction(0)) -> Component:
            (low, high, centre, *_), (least, most, other, *_) = (x, y) if place == 0 else (y, x)
            partner = Partner(inputs[1 - place], least, most, other)
            between = inputs[place], low, high, step * worth, largest
            return Component(statistic, *between, other=partner, together=together, centre=centre, usual=usual)

        squares = [
            component("square", place, one[4] * one[3] ** 2, one[3] ** 2)
            for place, one in enumerate((x, y))
            if self.squares
        ]
        parts = (
            component("values", 0, Fraction(1)),
            component("centred", 0, x[3]),
            component("centred", 1, y[3]),
            *squares,
            component("product", 0, of_products(values) * x[3] * y[3]),
        )
        return replace(input_of(aggregate, bounds), blocks=(builder.vector(parts, cost),), step=step)

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return what both columns are centred by, and the norm of so many usual rows; None where that is not known."""
        return (*values, USUAL_LENGTH * rows) if values is not None and is_centred_pair(values) else None

    def column(self, aggregate: Aggregate) -> str:
        """Return what its answers are counted in."""
        return self.unit(aggregate)

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups:
        """Return the noisy numbers of pairs, and their sums."""
        sums = _moments(measuring, part, noisy).sums / measuring.weights_of(len(noisy))
        return replace(KnownGroups.of(np.maximum(sums[0], 1.0)), pairs=sums, between=_values(part))

    def as_known(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Moments | None:
        """Return the sums of known pairs, with the noise that is planned; None where they are not known."""
        _, covariance = _weights(measuring, part)
        if known.pairs is None or len(known.pairs) < len(covariance) or known.between != _values(part):
            return None
        return Moments(known.pairs[: len(covariance)], covariance)

    def values(self, measuring: Measuring) -> str:
        """Return "pairs"."""
        return "pairs"


class Covariance(OfPairs):
    """COVAR_POP and COVAR_SAMP."""

    kind = "covariance"
    spellings: ClassVar = {
        "COVAR_SAMP": Spelling(population=False),
        **dict.fromkeys(("COVAR_POP", "ANON_COVAR_POP"), Spelling()),
    }
    said, nodes, word = ("COVAR_POP",), (exp.CovarSamp, exp.CovarPop), "covar"

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return covariances with intervals.

        About the noisy means, the sum of products over the number of pairs is the covariance but for the product of the
        errors of the means; by the farthest that these may err, the interval is made wider.
        """
        found = _moments(measuring, part, noisy)
        reach = kappa(confidence, measuring.noise)
        n, means, slack = _means(found, reach, _ends(part))
        line = _lines(*means)[0][:4]
        about, number = _quadratic(found, line), np.zeros_like(line)
        number[0] = 1
        known = found.sums[0] > 0
        most = self.most(part) / _lengths(part)
        value = np.where(known, about / n, 0.0).clip(-most, most)
        covariance = _covariance(found, line, number)
        lower, upper = fieller(about, found.sums[0], covariance, reach, -most, most)
        lower, upper = (lower - slack[0] * slack[1]).clip(-most), (upper + slack[0] * slack[1]).clip(None, most)
        spread = _spread(found, line - value * number)
        std_error = np.minimum(np.where(known, spread / n, np.inf), most)
        rows = np.maximum(n / measuring.weights_of(n.size), 2)
        sample = 1.0 if part.population else rows / (rows - 1)
        return self.farther(part, scaled(_lengths(part) * sample, value, std_error, lower, upper), n, reach)

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of known pairs; or of such that vary independently, about means half-way to a bound."""
        found = self.as_known(measuring, part, known)
        if found is not None:
            return _lengths(part) * _covariance_error(found, part)
        return _lengths(part) * _usual_error(measuring, part) / known.sizes

    def correlations(self, part: AggregateInput, values: Floats) -> Floats:
        """Return about the correlation that each covariance means; none where nothing is known of the columns."""
        return np.asarray((values / self.unit_of(part)).clip(-1.0, 1.0))

    def unit_of(self, part: AggregateInput) -> float:
        """Return the product of both standard deviations; of usual columns where nothing is known of them."""
        return PairTaken(*part.pair).spread or _usual_spread(part) ** 2 * _lengths(part)

    def most(self, part: AggregateInput) -> float:
        """Return the largest covariance there is between the bounds."""
        (low, high, *_), (least, most, *_) = each_of(_values(part))
        return float(high - low) / 2 * (float(most - least) / 2)

    def unit(self, aggregate: Aggregate, units: Mapping[str, str] = NO_UNITS) -> str:
        """Return the product of both columns' units."""
        other = "" if aggregate.other is None else aggregate.other.words
        return f"{units.get(aggregate.argument, aggregate.argument)} times {units.get(other, other)}"


class Correlation(OfPairs):
    """CORR: the covariance over the product of the standard deviations."""

    kind = "correlation"
    spellings: ClassVar = dict.fromkeys(("CORR", "ANON_CORR"), Spelling())
    said, nodes, word, counted_in = ("CORR",), (exp.Corr,), "corr", "correlation"
    squares = True

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return correlations with intervals.

        With c, x and y the sums of products and of squares about the noisy means, and s a number near sqrt(y / x), the
        interval is that of c over (s x + y / s) / 2, which is sqrt(x y) at the exact s and means. By as much as s and
        the means may be off it is made wider. Where noise hides that a column varies, it is all from -1 to 1.
        """
        found = _moments(measuring, part, noisy)
        reach = kappa(confidence, measuring.noise)
        n, means, slack = _means(found, reach, _ends(part))
        lines = _lines(*means)
        c, x, y = (_quadratic(found, line) for line in lines)
        # The squares of either column, at their least and most; their sum about the exact mean is a little less.
        most_pairs = n + reach * math.sqrt(found.covariance[0, 0])
        errors = [reach * _spread(found, line) for line in lines[1:]]
        less_x, less_y = (error + most_pairs * off**2 for error, off in zip(errors, slack, strict=True))
        known = (found.sums[0] > 0) & (x > 0) & (y > 0)
        sure = known & (x > less_x) & (y > less_y)
        x, y = np.where(known, x, 1.0), np.where(known, y, 1.0)
        s = np.sqrt(y / x)
        line = (lines[1] * s + lines[2] / s) / 2
        size = np.sqrt(x * y)
        value = np.where(known, c / size, 0.0).clip(-1, 1)
        lower, upper = fieller(c, size, _covariance(found, lines[0], line), reach, -1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            off = most_pairs * (slack[0] ** 2 * s + slack[1] ** 2 / s) / 2 / (size - reach * _spread(found, line))
            ends = lower - off, upper + off
            lower = np.minimum(ends[0], ends[0] / (1 - off))
            upper = np.maximum(ends[1], ends[1] / (1 - off))
            # log(s) may be off by so much; (s x + y / s) / 2 is larger than sqrt(x y) by the hyperbolic cosine of that.
            up_x, up_y = (np.log1p(error / each) for error, each in zip(errors, (x, y), strict=True))
            down_x, down_y = (-np.log1p(-less / each) for less, each in zip((less_x, less_y), (x, y), strict=True))
            wider = np.cosh(np.maximum(up_y + down_x, up_x + down_y) / 2)
        sure &= (off >= 0) & (off < 1) & np.isfinite(wider)
        lower = np.where(sure, np.minimum(lower, lower * wider), -1.0).clip(-1, 1)
        upper = np.where(sure, np.maximum(upper, upper * wider), 1.0).clip(-1, 1)
        std_error = np.where(known, np.minimum(_spread(found, lines[0] - value * line) / size, 1.0), 1.0)
        answers = self.farther(part, Estimates(value.clip(lower, upper), std_error, lower, upper), n, reach)
        return replace(answers, lower=answers.lower.clip(-1), upper=answers.upper.clip(None, 1))

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of known pairs; or of independent ones of a usual spread, about means half-way to a bound."""
        found = self.as_known(measuring, part, known)
        if found is not None:
            return _correlation_error(found, part)
        return _usual_error(measuring, part) / _usual_spread(part) ** 2 / known.sizes

    def most(self, part: AggregateInput) -> float:
        """Return 1."""
        return 1.0

    def usual_bounds(self, aggregate: Aggregate) -> Bounds | None:
        """Return bounds of usual columns: whatever these are, a correlation is between -1 and 1."""
        return (Fraction(0), Fraction(1)) * 2

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return bounds of usual columns, and the norm of so many rows that are about as long as most."""
        usual = (-USUAL_ENDS, USUAL_ENDS, Fraction(0), Fraction(1), USUAL_SQUARES) * 2
        return super().usual_norm(values if values is not None and is_centred_pair(values) else usual, rows)

    def redrawn_pairs(
        self, part: AggregateInput, values: Floats, counted: Floats, bounds: Floats, rows: Floats
    ) -> Floats:
        """Return redraws of correlations."""
        return super().redrawn_pairs(part, values, counted, bounds, rows).clip(-1.0, 1.0)


def _step(low: Fraction, high: Fraction, half: int) -> Fraction:
    """Return the step of which so many reach from the middle to a bound."""
    return (high - low) / 2 / half or Fraction(1)


def _worth(measuring: Measuring, part: AggregateInput) -> dict[int, float]:
    """Return what an integer is worth: of the number of pairs one, of all others so many are a half-width."""
    columns = dict.fromkeys(column for i in part.blocks for column in measuring.blocks[i].columns)
    return {column: 1.0 / part.half if place else 1.0 for place, column in enumerate(columns)}


def _values(part: AggregateInput) -> Bounds:
    """Return the bounds of both columns, without a norm."""
    assert part.bounds is not None
    return part.bounds[:-1] if _is_vector(part) else part.bounds


def _is_vector(part: AggregateInput) -> bool:
    return part.bounds is not None and len(part.bounds) % 2 == 1


def _lengths(part: AggregateInput) -> float:
    """Return the product of what both columns are counted in."""
    x, y = each_of(_values(part))
    return float(x[3]) * float(y[3])


def _ends(part: AggregateInput) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return what both means lie between, in what they are counted in."""
    (least, most), (low, high) = (
        (float((low - centre) / length), float((high - centre) / length))
        for low, high, centre, length, _ in each_of(_values(part))
    )
    return (least, most), (low, high)


def _usual_spread(part: AggregateInput) -> float:
    """Return how far a usual column is spread, in what it is counted in."""
    return 1.0 if _is_vector(part) and part.bounds is not None and len(part.bounds) > 5 else USUAL_SPREAD


def _weights(measuring: Measuring, part: AggregateInput) -> tuple[Floats, Floats]:
    """Return how moments follow from noisy numbers, and the covariance of their noise; see `ratios.weights`."""
    if not _is_vector(part):
        return weights(measuring, part, _worth(measuring, part))
    block, (x, y) = measuring.blocks[part.blocks[0]], each_of(_values(part))
    squares = len(block.columns) == 6
    step, product = float(part.step), float(of_products(_values(part)))
    # In the order 1, a, b, a b and the squares, of which the products are the last that is measured.
    order = [0, 1, 2, 5, 3, 4] if squares else [0, 1, 2, 3]
    worth = [1.0, 1.0, 1.0, product, float(x[4]), float(y[4])][: len(order)]
    inverse = np.zeros((len(order), len(order)))
    inverse[np.arange(len(order)), order] = step * np.array(worth)
    inverse[4:, 0] += step  # squares count from their usual size
    return inverse, np.asarray(inverse @ inverse.T * measuring.law.variance(block.scale))


def _moments(measuring: Measuring, part: AggregateInput, noisy: Integers) -> Moments:
    """Return the moments that noisy numbers say, of 1, a, b, a b and the squares."""
    if not _is_vector(part):
        return moments(measuring, part, noisy, _worth(measuring, part))
    inverse, covariance = _weights(measuring, part)
    return Moments(inverse @ noisy[:, measuring.place(part.blocks[0])].astype(float).T, covariance)


def _means(
    found: Moments, reach: float, ends: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[Floats, tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return the number of pairs (1 where it may be none), both noisy means, and how far they may err."""
    n = np.where(found.sums[0] > 0, found.sums[0], 1.0)
    means, slack = [], []
    for i, (least, most) in enumerate(ends, 1):
        mean = np.where(found.sums[0] > 0, found.sums[i] / n, 0.0).clip(least, most)
        low, high = fieller(found.sums[i], found.sums[0], found.covariance[[i, 0]][:, [i, 0]], reach, least, most)
        means.append(mean)
        slack.append(np.maximum(high - mean, mean - low))
    return n, (means[0], means[1]), (slack[0], slack[1])


def _lines(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Return how products, and squares of either column, about means follow from the moments; shape (6, groups)."""
    zero, one = np.zeros_like(a), np.ones_like(a)
    return (
        np.stack([a * b, -b, -a, one, zero, zero]),
        np.stack([a * a, -2 * a, zero, zero, one, zero]),
        np.stack([b * b, zero, -2 * b, zero, zero, one]),
    )


def _quadratic(found: Moments, line: Floats) -> Floats:
    return np.asarray(np.einsum("ig,ig->g", line, found.sums))


def _spread(found: Moments, line: Floats) -> Floats:
    """Return the standard error of a combination of moments."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("ig,ij,jg->g", line, found.covariance, line), 0.0)))


def _covariance(found: Moments, first: Floats, second: Floats) -> Floats:
    """Return the covariance of the noise of two combinations of moments, shape (2, 2, groups)."""
    both = np.stack([first, second])
    return np.asarray(np.einsum("aig,ij,bjg->abg", both, found.covariance, both))


def _covariance_error(found: Moments, part: AggregateInput) -> Floats:
    """Return the standard errors of covariances, in both half-widths, to first order."""
    n, means, _ = _means(found, 0.0, _ends(part))
    line = _lines(*means)[0][: len(found.covariance)]
    number = np.zeros_like(line)
    number[0] = 1
    return np.asarray(_spread(found, line - _quadratic(found, line) / n * number) / n)


def _correlation_error(found: Moments, part: AggregateInput) -> Floats:
    """Return the standard errors of correlations to first order; 1 where noise hides that a column varies."""
    _, means, _ = _means(found, 0.0, _ends(part))
    lines = _lines(*means)
    c, x, y = (_quadratic(found, line) for line in lines)
    known = (x > 0) & (y > 0)
    x, y = np.where(known, x, 1.0), np.where(known, y, 1.0)
    s, size = np.sqrt(y / x), np.sqrt(x * y)
    line = (lines[1] * s + lines[2] / s) / 2
    return np.where(known, np.minimum(_spread(found, lines[0] - (c / size).clip(-1, 1) * line) / size, 1.0), 1.0)


def _usual_error(measuring: Measuring, part: AggregateInput) -> float:
    """Return the standard error of the sum of products about usual means, in units of both half-widths."""
    _, covariance = _weights(measuring, part)
    mean = np.full(1, CENTRED_AT if _usual_spread(part) == 1.0 else USUAL_MEAN)
    line = _lines(mean, mean)[0][: len(covariance), 0]
    return math.sqrt(line @ covariance @ line)

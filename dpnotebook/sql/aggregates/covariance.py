"""Covariances and correlations of two columns, from noisy sums over pairs of values.

A pair counts where both columns have a value. With a and b the values of a pair, in half-widths from the middles of
their bounds, the sums of 1, a, b and a b are measured, for correlations those of a^2 and b^2 as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from sqlglot import exp

from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import FINE, Bounds, Builder
from dpnotebook.sql.aggregates.function import NO_UNITS, Integers, KnownGroups, input_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Matrix, Measuring
from dpnotebook.sql.aggregates.ratios import (
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
    fieller,
    moments,
    scaled,
    weights,
)
from dpnotebook.sql.bounded_sums import Component, Partner, value_column
from dpnotebook.sql.parse.calls import Call, Spelling
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.select import Aggregate

# (1 + a) (1 + b), (1 + a) (1 - b), ...: never negative, and together the same for every pair.
CORNERS = tuple((1, s, t, s * t) for s in (1, -1) for t in (1, -1))
# Of mu^2, for 1, a, b, a b and the squares: the best for covariances where means are half-way to a bound.
GAUSSIAN_SHARES = (1, 2, 2, 4, 2, 2)
SQUARES_SHARE = Fraction(1, 6)  # of epsilon, for each sum of squares: then all sums of a correlation err about the same


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


class OfPairs(Ratio):
    """What is worked out from the moments of pairs."""

    statistics = (ValueCount(), CentredValue(), SquaredValue(), PairProduct())
    operands = 2
    rowwise = True
    errors_of = "covariances and correlations"
    least = 2 * sum(GAUSSIAN_SHARES)
    clipped = centres = False

    def below(self, call: Call) -> bool:
        """Return False: engines have other ways to add up the products of a unit's rows."""
        return False

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the number of pairs, both centred sums, the sum of products, and those of squares."""
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

    def column(self, aggregate: Aggregate) -> str:
        """Return what its answers are counted in."""
        return self.unit(aggregate)

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups:
        """Return the noisy numbers of pairs, and their sums."""
        sums = moments(measuring, part, noisy, _worth(measuring, part)).sums
        between = () if part.bounds is None else part.bounds
        return replace(KnownGroups.of(np.maximum(sums[0], 1.0)), pairs=sums, between=between)

    def as_known(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Moments | None:
        """Return the sums of known pairs, with the noise that is planned; None where they are not known."""
        _, covariance = weights(measuring, part, _worth(measuring, part))
        if known.pairs is None or len(known.pairs) < len(covariance) or known.between != part.bounds:
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
        found = moments(measuring, part, noisy, _worth(measuring, part))
        reach = kappa(confidence, measuring.noise)
        n, means, slack = _means(found, reach)
        line = _lines(*means)[0][:4]
        about, number = _quadratic(found, line), np.zeros_like(line)
        number[0] = 1
        known = found.sums[0] > 0
        value = np.where(known, about / n, 0.0).clip(-1, 1)
        covariance = _covariance(found, line, number)
        lower, upper = fieller(about, found.sums[0], covariance, reach, -1.0, 1.0)
        lower, upper = (lower - slack[0] * slack[1]).clip(-1), (upper + slack[0] * slack[1]).clip(None, 1)
        spread = _spread(found, line - value * number)
        std_error = np.minimum(np.where(known, spread / n, np.inf), 1.0)
        sample = 1.0 if part.population else np.maximum(n, 2) / (np.maximum(n, 2) - 1)
        return scaled(self.most(part) * sample, value, std_error, lower, upper)

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of known pairs; or of such that vary independently, about means half-way to a bound."""
        found = self.as_known(measuring, part, known)
        if found is not None:
            return self.most(part) * _covariance_error(found)
        return self.most(part) * _usual_error(measuring, part) / known.sizes

    def most(self, part: AggregateInput) -> float:
        """Return the largest covariance there is between the bounds."""
        assert part.bounds is not None
        (low, high), (least, most) = part.bounds[:2], part.bounds[2:]
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
        found = moments(measuring, part, noisy, _worth(measuring, part))
        reach = kappa(confidence, measuring.noise)
        n, means, slack = _means(found, reach)
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
        return Estimates(value.clip(lower, upper), std_error, lower, upper)

    def errors(self, measuring: Measuring, part: AggregateInput, known: KnownGroups) -> Floats:
        """Return those of known pairs; or of independent ones of a usual spread, about means half-way to a bound."""
        found = self.as_known(measuring, part, known)
        if found is not None:
            return _correlation_error(found)
        return _usual_error(measuring, part) / USUAL_SPREAD**2 / known.sizes

    def most(self, part: AggregateInput) -> float:
        """Return 1."""
        return 1.0


def _step(low: Fraction, high: Fraction, half: int) -> Fraction:
    """Return the step of which so many reach from the middle to a bound."""
    return (high - low) / 2 / half or Fraction(1)


def _worth(measuring: Measuring, part: AggregateInput) -> dict[int, float]:
    """Return what an integer is worth: of the number of pairs one, of all others so many are a half-width."""
    columns = dict.fromkeys(column for i in part.blocks for column in measuring.blocks[i].columns)
    return {column: 1.0 / part.half if place else 1.0 for place, column in enumerate(columns)}


def _means(found: Moments, reach: float) -> tuple[Floats, tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return the number of pairs (1 where it may be none), both noisy means, and how far they may err."""
    n = np.where(found.sums[0] > 0, found.sums[0], 1.0)
    means, slack = [], []
    for i in (1, 2):
        mean = np.where(found.sums[0] > 0, found.sums[i] / n, 0.0).clip(-1, 1)
        low, high = fieller(found.sums[i], found.sums[0], found.covariance[[i, 0]][:, [i, 0]], reach, -1.0, 1.0)
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


def _covariance_error(found: Moments) -> Floats:
    """Return the standard errors of covariances, in both half-widths, to first order."""
    n, means, _ = _means(found, 0.0)
    line = _lines(*means)[0][: len(found.covariance)]
    number = np.zeros_like(line)
    number[0] = 1
    return np.asarray(_spread(found, line - (_quadratic(found, line) / n).clip(-1, 1) * number) / n)


def _correlation_error(found: Moments) -> Floats:
    """Return the standard errors of correlations to first order; 1 where noise hides that a column varies."""
    _, means, _ = _means(found, 0.0)
    lines = _lines(*means)
    c, x, y = (_quadratic(found, line) for line in lines)
    known = (x > 0) & (y > 0)
    x, y = np.where(known, x, 1.0), np.where(known, y, 1.0)
    s, size = np.sqrt(y / x), np.sqrt(x * y)
    line = (lines[1] * s + lines[2] / s) / 2
    return np.where(known, np.minimum(_spread(found, lines[0] - (c / size).clip(-1, 1) * line) / size, 1.0), 1.0)


def _usual_error(measuring: Measuring, part: AggregateInput) -> float:
    """Return the standard error of the sum of products about usual means, in units of both half-widths."""
    _, covariance = weights(measuring, part, _worth(measuring, part))
    mean = np.full(1, USUAL_MEAN)
    line = _lines(mean, mean)[0][: len(covariance), 0]
    return math.sqrt(line @ covariance @ line)

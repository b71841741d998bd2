"""Least, greatest and middle values, and other quantiles: read off noisy cumulative counts of bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.privacy.noise import MOST_CONFIDENCE
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import Bounds, Builder
from dpnotebook.sql.aggregates.function import (
    USUAL_ROWS,
    AggregateFunction,
    Expectation,
    Integers,
    KnownGroups,
    Statistic,
    input_of,
)
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import Call, Spelling
from dpnotebook.sql.select import Aggregate
from dpnotebook.strategy import Strategy, hierarchical
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Prefix

Floats = NDArray[np.float64]

BINS = 512  # of a range of values; within a bin they are taken to be spread evenly
OPTIMISED = 128  # bins up to which a strategy is optimised, which takes a moment
BRANCHINGS: dict[Noise, tuple[int, ...]] = {"gaussian": (2, 3, 4), "laplace": (8, 12, 15)}  # the best are near these
NOTICED = 2.5  # standard errors: so many values beyond it make a least or greatest value stand out
TINY = 1e-300
TOLD = 0.95  # a quantile is hidden where noise of this probability reaches too far, however sure intervals are to be
LEAST_ERROR = 1e-3  # of the largest error: counts known better than that weigh as if they were not
# Of a usual column, quantiles are read off noisy counts so often, to see how far they are off: that tells a standard
# error to 5%, as half of the draws mirror the others and Laplace noise has longer tails; and for so many values, in
# errors of a cumulative count. These are close where few values are beyond a high quantile: how far it is moved then,
# for noise to tell it from the end, first grows and then falls.
TRIED: dict[Noise, int] = {"gaussian": 200, "laplace": 800}
SIZES = (*(4.0 * 2.0 ** (k / 2) for k in range(8)), *(4.0**k for k in range(4, 8)))
FILLED = (0.1, 0.8)  # of the bins, that values of a usual column are in, least and most: anywhere among them
GOLDEN = 0.618034  # its multiples, without their whole parts, are spread evenly, whatever comes in the order of tries
SCALE = 1_000.0  # of the noise there, in steps: fine enough to be a continuous law

# Quantiles with names of their own.
NAMED: dict[tuple[float, ...], str] = {(0.0,): "min", (1.0,): "max", (0.5,): "median"}
FRACTION, PARTS = Spelling(second="fraction"), Spelling(second="parts")


class Binned(Statistic):
    """How many values are in each bin: these have a query of their own."""

    name = "bins"


class Quantiles(AggregateFunction):
    """MIN, MAX, MEDIAN, percentiles, and arrays of quantiles."""

    kind = "quantiles"
    spellings: ClassVar = {
        **{f"{private}MIN": Spelling(fractions=(0.0,)) for private in ("", "ANON_")},
        **{f"{private}MAX": Spelling(fractions=(1.0,)) for private in ("", "ANON_")},
        **{f"{private}MEDIAN": Spelling(fractions=(0.5,)) for private in ("", "ANON_")},
        **dict.fromkeys(
            ("NTILE", "PERCENTILE_CONT", "QUANTILE_CONT", "APPROX_QUANTILE", "ANON_NTILE", "ANON_PERCENTILE_CONT"),
            FRACTION,
        ),
        **dict.fromkeys(("APPROX_QUANTILES", "ANON_QUANTILES"), PARTS),
    }
    said = ("MIN", "MAX", "MEDIAN", "PERCENTILE_CONT", "APPROX_QUANTILES")
    statistics = (Binned(),)
    rowwise = levelled = sized = True
    shown, counted_in, linear = "quantile", "values of rank", "quantile"

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return MIN, MAX, PERCENTILE_CONT or APPROX_QUANTILES."""
        argument = arguments[0]
        if call.array:
            return exp.ApproxQuantiles(this=argument, expression=exp.Literal.number(len(call.fractions) - 1))
        fraction = call.fractions[0]
        if fraction in (0.0, 1.0):
            return exp.Max(this=argument) if fraction else exp.Min(this=argument)
        return exp.PercentileCont(this=argument, expression=exp.Literal.number(fraction))

    def over_release(self, node: exp.Expr, call: Call) -> exp.Expr:
        """Return percentiles, and arrays of them, by DuckDB's name."""
        if isinstance(node, exp.PercentileCont):
            return exp.Anonymous(this="QUANTILE_CONT", expressions=[node.this.copy(), node.expression.copy()])
        if isinstance(node, exp.ApproxQuantiles):
            fractions = exp.Array(expressions=[exp.Literal.number(repr(fraction)) for fraction in call.fractions])
            return exp.Anonymous(this="QUANTILE_CONT", expressions=[node.this.copy(), fractions])
        return node

    def word_of(self, call: Call) -> str:
        """Return what the quantile is called."""
        return "quantiles" if call.array else NAMED.get(call.fractions, "quantile")

    def below(self, call: Call) -> bool:
        """Return whether it is a least or a greatest value."""
        return call.fractions in ((0.0,), (1.0,))

    def measured_with(self, aggregate: Aggregate, other: Aggregate) -> bool:
        """Return whether the other one is of the same bins."""
        if other.kind != self.kind:
            return False
        return (aggregate.input, aggregate.bounds, aggregate.edges) == (other.input, other.bounds, other.edges)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Count values by bin, and measure cumulative counts."""
        edges, points = bins(bounds, aggregate.integer, aggregate.edges)
        component = Component("bins", aggregate.input, bounds[0], bounds[1], Fraction(1), builder.rows, edges)
        block = builder.strategy(component, cumulative(component.width, builder.law.name), cost)
        return replace(input_of(aggregate, bounds), blocks=(block,), edges=edges, points=points)

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return quantiles with intervals.

        The cumulative count of a quantile p of N values passes p N. Near the ends, where p N is less than noise can
        tell from nothing, it is taken to pass what noise can tell: the least and the greatest value are those with
        about that many values beyond them. Intervals reach to the ends of the bins they touch, and to the bound where
        nothing says otherwise. Where noise reaches farther than half of the values, there is no answer (NaN).
        """
        block = measuring.blocks[part.blocks[0]]
        strategy = block.combine
        assert isinstance(strategy, Strategy)
        weights = cumulative_weights(strategy)
        numbers = noisy[:, measuring.place(part.blocks[0])].astype(float)
        counts = numbers @ weights.T
        spread = math.sqrt(measuring.law.variance(block.scale))
        reach = _reach(confidence, measuring.noise)
        told = kappa(min(confidence, TOLD), measuring.noise)
        below, above = _levels(part)
        columns = []
        for fraction in part.fractions:
            errors = spread * excess_errors(strategy, fraction)
            excess = _rising(counts - fraction * counts[:, -1:], errors)
            total = np.maximum(counts[:, -1], 0.0)
            gains = _gains(strategy, fraction, measuring.noise, total / max(float(np.median(errors)), TINY))
            value, std_error = _crossings(excess, total, errors, gains, fraction, below, above)
            lower, upper = _interval(excess, errors, reach, below, above)
            hidden = told * np.median(errors) > counts[:, -1] / 2
            value, std_error = (np.where(hidden, math.nan, one) for one in (value.clip(lower, upper), std_error))
            columns.append(np.stack([value, std_error, lower, upper]))
        stacked = np.stack(columns, axis=-1)  # (value, error, lower, upper) by groups by fractions
        if not part.array:
            stacked = stacked[..., 0]
        return Estimates(*stacked)

    def together(self, parts: Sequence[AggregateInput], estimates: Sequence[Estimates]) -> list[Estimates]:
        """Return quantiles of the same values in the order of their fractions: the least first, then the median.

        Source: Chernozhukov, Fernandez-Val and Galichon, "Quantile and Probability Curves Without Crossing" (2010):
        put in order, they are nowhere farther from the truth, and neither are their intervals.
        """
        found = list(estimates)
        for block in {part.blocks for part in parts if part.blocks}:
            same = [i for i, part in enumerate(parts) if part.blocks == block]
            fractions = [fraction for i in same for fraction in parts[i].fractions]
            order = np.argsort(fractions, kind="stable")
            for name in ("lower", "upper", "value") if len(order) > 1 else ():
                for i, column in zip(same, _in_order([getattr(found[i], name) for i in same], order), strict=True):
                    found[i] = replace(found[i], **{name: column})
            for i in same:  # of those that noise hides, intervals alone were put in order
                found[i] = replace(found[i], value=found[i].value.clip(found[i].lower, found[i].upper))
        return found

    def usual_bounds(self, aggregate: Aggregate) -> Bounds:
        """Return those of as many bins as there are of any bounds: errors in ranks hardly depend on others."""
        return Fraction(0), Fraction(BINS - 1) if aggregate.integer else Fraction(1)

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups:
        """Return the last cumulative counts."""
        strategy = measuring.blocks[part.blocks[0]].combine
        assert isinstance(strategy, Strategy)
        return KnownGroups.of(np.asarray(noisy[:, measuring.place(part.blocks[0])] @ cumulative_weights(strategy)[-1]))

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return how many values of rank the worst quantile is off, in groups of so many values."""
        block = measuring.blocks[part.blocks[0]]
        assert isinstance(block.combine, Strategy)
        spread, strategy = math.sqrt(measuring.law.variance(block.scale)), block.combine
        sizes = np.array([USUAL_ROWS]) if known is None else known.sizes
        errors, width = np.zeros(sizes.size), 0.0
        for fraction in part.fractions:
            middle = spread * float(np.median(excess_errors(strategy, fraction)))
            off = middle * _off(strategy, fraction, measuring.noise, sizes / max(middle, TINY))
            errors = np.maximum(errors, np.sqrt((off**2).mean(axis=1)))
            width = max(width, *(_half_width(one, confidence, measuring.noise) for one in off))
        return Expectation(errors, width, "errors of quantiles are in values of rank")


def bins(bounds: Bounds, integer: bool, declared: Sequence[float] | None) -> tuple[tuple[float, ...], bool]:
    """Return the edges of bins over a range of values, and whether each bin is one whole number.

    Parameters
    ----------
    bounds
        Lower and upper bound of values.
    integer
        Whether values are whole numbers.
    declared
        Edges of the declared levels of the column, increasing; used where they are few enough.
    """
    low, high = float(bounds[0]), float(bounds[1])
    first, last = math.ceil(bounds[0]), math.floor(bounds[1])
    if integer and 0 <= last - first < BINS and -(2**53) < first <= last < 2**53:
        return tuple(float(first + i) for i in range(last - first + 2)), True
    inside = [float(edge) for edge in declared or () if low < edge < high]
    if 0 < len(inside) < BINS:
        return (low, *inside, high), False
    edges = tuple(np.unique(low + (high - low) * (np.arange(BINS + 1) / BINS)).tolist())
    return (edges if len(edges) > 1 else (low, math.nextafter(low, math.inf))), False


@lru_cache(maxsize=64)
def cumulative(count: int, noise: Noise) -> Strategy:
    """Return what is measured of bins in order to know how many values lie below each edge."""
    if count <= OPTIMISED:
        return select_own(Prefix(count), noise=noise, effort="quick")
    trees = (hierarchical(Prefix(count), noise, branching=branching) for branching in BRANCHINGS[noise])
    return min(trees, key=lambda tree: tree.objective)


@lru_cache(maxsize=16)
def cumulative_weights(strategy: Strategy) -> Floats:
    """Return how the cumulative counts follow from what is measured, shape (bins, measured)."""
    return np.asarray(strategy.answer_weights(np.arange(strategy.workload.shape[0])))


@lru_cache(maxsize=256)
def excess_errors(strategy: Strategy, fraction: float) -> Floats:
    """Return the errors of cumulative counts less a fraction of all, for noise of variance 1, shape (bins,)."""
    weights = cumulative_weights(strategy)
    return np.asarray(np.linalg.norm(weights - fraction * weights[-1], axis=1))


@lru_cache(maxsize=256)
def ranks_off(strategy: Strategy, fraction: float, noise: Noise, size: float) -> Floats:
    """Return by how many values of rank quantiles of a usual column are off, ascending; shape (tries,).

    Its values are spread evenly over a part of the bins, as bounds are wider than most of what is between them: another
    part in each try, as errors depend on that. That counts rise takes out a part of their noise, more where values are
    few: no formula says how much, so it is tried.

    Parameters
    ----------
    strategy, fraction, noise
        How the bins are measured, which quantile is read off, and the law of the noise.
    size
        How many values there are, in median errors of the counts less that fraction of all; so is the answer.
    """
    weights, errors = cumulative_weights(strategy), excess_errors(strategy, fraction)
    middle = max(float(np.median(errors)), TINY)
    bins_, scale = len(errors), SCALE
    drawn = redrawn_noise(noise, scale, TRIED[noise], weights.shape[1], b"ranks") / math.sqrt(
        law_of(noise).variance(scale)
    )
    values = size * middle
    first, full = _usual_columns(bins_, TRIED[noise])
    counts = values * ((np.arange(1, bins_ + 1) - first[:, None]) / full[:, None]).clip(0.0, 1.0) + drawn @ weights.T
    excess = _rising(counts - fraction * counts[:, -1:], errors)
    places = np.arange(bins_, dtype=float)
    rank = _ranks(np.maximum(counts[:, -1], 0.0), errors, fraction)
    found = _crossing(excess - (rank - fraction * counts[:, -1])[:, None], -rank, places, places + 1)
    found = found.clip(*_interval(excess, errors, _reach(TOLD, noise), places, places + 1))
    ranks = ((found - first) / full).clip(0.0, 1.0) * values
    return np.asarray(np.sort(np.abs(ranks - fraction * values)) / middle)


def _usual_columns(bins_: int, times: int) -> tuple[Floats, Floats]:
    """Return where the values of a usual column begin in each try, and over how many bins they are spread."""
    tries, (least, most) = np.arange(times, dtype=float), FILLED
    full = bins_ * (least + (most - least) * (tries * GOLDEN % 1.0))
    return np.asarray((bins_ - full) * (tries + 0.5) / times), np.asarray(full)


def _off(strategy: Strategy, fraction: float, noise: Noise, sizes: Floats) -> Floats:
    """Return `ranks_off` for numbers of values of groups, between those that are tried; shape (groups, tries)."""
    places = np.interp(np.log(np.maximum(sizes, TINY)), np.log(SIZES), np.arange(len(SIZES)))
    first = np.minimum(places.astype(int), len(SIZES) - 2)
    tried = {one: ranks_off(strategy, fraction, noise, SIZES[one]) for one in {*first.tolist(), *(first + 1).tolist()}}
    lower, upper = (
        np.array([tried[one] for one in ends.tolist()]).reshape(-1, TRIED[noise]) for ends in (first, first + 1)
    )
    share = (places - first)[:, None]
    return np.asarray((1 - share) * lower + share * upper)


def _gains(strategy: Strategy, fraction: float, noise: Noise, sizes: Floats) -> Floats:
    """Return what part of its error is left in a cumulative count, near a quantile, as counts rise; shape (groups,)."""
    if fraction in (0.0, 1.0):  # these are read off where noise can tell them from nothing, and err as that count does
        return np.ones(sizes.size)
    errors = excess_errors(strategy, fraction)
    first, full = _usual_columns(len(errors), TRIED[noise])
    places = (first + full * fraction).astype(int)
    here = math.sqrt(float((errors[places] ** 2).mean()))
    off = _off(strategy, fraction, noise, sizes)
    return np.asarray(np.minimum(np.sqrt((off**2).mean(axis=1)) * float(np.median(errors)) / max(here, TINY), 1.0))


def _half_width(off: Floats, confidence: float, noise: Noise) -> float:
    """Return how far off answers are with a confidence; of one too rare to be tried, as much farther as noise is."""
    tried = min(confidence, 1 - 10 / TRIED[noise])
    farther = max(kappa(confidence, noise) / kappa(tried, noise), 1.0)
    return float(np.quantile(off, tried)) * farther


def _levels(part: AggregateInput) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each bin."""
    edges = np.array(part.edges)
    if part.points:
        return edges[:-1], edges[:-1]
    return edges[:-1], edges[1:]


def _rising(counts: Floats, errors: Floats) -> Floats:
    """Return the nearest counts that never fall, what is known better weighing more, shape (groups, bins)."""
    from scipy.optimize import isotonic_regression

    weights = np.maximum(errors / (errors.max() or 1.0), LEAST_ERROR) ** -2.0
    return np.array([isotonic_regression(group, weights=weights).x for group in counts]).reshape(counts.shape)


def _in_order(columns: Sequence[Floats], order: NDArray[np.int64]) -> list[Floats]:
    """Return answers of one quantile or several, shape (groups,) or (groups, quantiles), put in an order."""
    wide = [column if column.ndim > 1 else column[:, None] for column in columns]
    together = np.concatenate(wide, axis=1)
    hidden = np.isnan(together)
    for pattern in np.unique(hidden, axis=0):  # those that noise does not hide, among themselves
        rows = np.flatnonzero((hidden == pattern).all(axis=1))
        kept = order[~pattern[order]]
        together[np.ix_(rows, kept)] = np.sort(together[np.ix_(rows, kept)], axis=1)
    ends = np.cumsum([column.shape[1] for column in wide])[:-1]
    return [part.reshape(column.shape) for part, column in zip(np.split(together, ends, axis=1), columns, strict=True)]


def _ranks(total: Floats, errors: Floats, fraction: float) -> Floats:
    """Return of how many values a quantile is the last: a fraction of all, or what noise can tell from nothing."""
    least = np.minimum(NOTICED * np.median(errors), total / 2)
    return np.asarray((fraction * total).clip(least, total - least))


def _crossings(
    excess: Floats, total: Floats, errors: Floats, gains: Floats, fraction: float, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return where counts pass a fraction of all, and the standard error of that."""
    rank = _ranks(total, errors, fraction)
    beyond = excess - (rank - fraction * total)[:, None]
    value = _crossing(beyond, -rank, below, above)
    spread = _spread(beyond, gains[:, None] * errors, value, below, above)
    if fraction in (0.0, 1.0):
        return value, spread
    # A rank that was moved, for noise to tell it from the ends, errs by how far it was moved as well.
    return value, np.hypot(spread, value - _crossing(excess, -fraction * total, below, above))


def _spread(excess: Floats, errors: Floats, value: Floats, below: Floats, above: Floats) -> Floats:
    """Return the root mean square distance of where counts may cross from where they do, shape (groups,).

    That they cross before the end of a bin is as likely as noise leaves their excess there above zero, given the errors
    of each group, shape (groups, bins); within a bin all places are alike, and a whole number is as wrong as rounding.
    """
    from scipy.special import ndtr

    crossed = np.maximum.accumulate(ndtr(excess / np.maximum(errors, TINY)), axis=1)
    crossed[:, -1] = 1.0
    likely = np.diff(crossed, axis=1, prepend=0.0)
    middle, width = (below + above) / 2, np.where(above > below, above - below, 1.0)
    return np.asarray(np.sqrt((likely * ((middle - value[:, None]) ** 2 + width**2 / 12)).sum(axis=1)))


def _reach(confidence: float, noise: Noise) -> float:
    """Return how many standard errors of counts the band is wide in which they cross, on either side.

    Noise may pass a band in more than one of many bins, most easily in empty ones before the least value, which counts
    that rise leave too high: so bands fail a quarter as often as the interval may. Simulation finds 93% for bands of
    97.5% where all values are in the middle of the range, and never less than 95% for these.
    """
    return kappa(min((3 + confidence) / 4, MOST_CONFIDENCE), noise)


def _interval(excess: Floats, errors: Floats, reach: float, below: Floats, above: Floats) -> tuple[Floats, Floats]:
    """Return between which ends of bins counts cross, so many standard errors from what they are."""
    return below[_first(excess + reach * errors)], above[_first(excess - reach * errors)]


def _first(excess: Floats) -> NDArray[np.int64]:
    """Return the first bin where it is not below zero, or the last one, shape (groups,)."""
    reached = excess >= 0
    return np.asarray(np.where(reached.any(axis=1), reached.argmax(axis=1), excess.shape[1] - 1))


def _crossing(excess: Floats, start: Floats, below: Floats, above: Floats) -> Floats:
    """Return where an excess that is `start` before the first bin reaches zero, values being spread evenly in bins."""
    level, row = _first(excess), np.arange(len(excess))
    before = np.where(level > 0, excess[row, np.maximum(level - 1, 0)], np.minimum(excess[:, 0], start))
    rise = excess[row, level] - before
    share = np.where(rise > 0, -before / np.where(rise > 0, rise, 1.0), 1.0).clip(0.0, 1.0)
    return np.asarray(below[level] + (above[level] - below[level]) * share)

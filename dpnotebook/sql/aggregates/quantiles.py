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

from dpnotebook.planner.answers import Estimates
from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.builder import Bounds, Builder
from dpnotebook.sql.aggregates.counted_rows import QUANTILES
from dpnotebook.sql.aggregates.crossings import (
    TINY,
    band,
    crossed_at,
    crossed_between,
    cumulative_weights,
    excess_errors,
    rank_read,
    rising,
)
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
from dpnotebook.sql.aggregates.quantile_tries import left_of_errors, off_at_most, off_by
from dpnotebook.sql.aggregates.weights_moved import ALONG
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import Call, Spelling
from dpnotebook.sql.select import Aggregate, Contribution
from dpnotebook.strategy import Strategy, hierarchical
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Prefix

Floats = NDArray[np.float64]

BINS = 512  # of a range of values; within a bin they are taken to be spread evenly
OPTIMISED = 128  # bins up to which a strategy is optimised, which takes a moment
BRANCHINGS: dict[Noise, tuple[int, ...]] = {"gaussian": (2, 3, 4), "laplace": (8, 12, 15)}  # the best are near these
MOST_BINNED = 100  # groups whose bins are looked at before a statement runs: somebody waits
NEAR_END = 0.02  # of the values: so many may lie beyond either of the bounds that were found, mostly fewer
TOLD = 0.95  # a quantile is hidden where noise of this probability reaches too far, however sure intervals are to be

# Quantiles with names of their own.
NAMED: dict[tuple[float, ...], str] = {(0.0,): "min", (1.0,): "max", (0.5,): "median"}
OF_RANK = "values of rank"  # what their errors are counted in where nothing tells how close together values lie
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
    errors_of = QUANTILES
    shown, counted_in, linear = "quantile", OF_RANK, "quantile"

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

    def measured_with(self, aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
        """Return whether the other one is of the same bins."""
        if other.kind != self.kind:
            return False
        return (aggregate.input, aggregate.bounds, aggregate.edges) == (other.input, other.bounds, other.edges)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Count values by bin, and measure cumulative counts."""
        edges, points = bins(bounds, aggregate.integer, aggregate.edges)
        component = Component("bins", aggregate.input, bounds[0], bounds[1], Fraction(1), builder.rows, edges)
        block = builder.strategy(component, cumulative(component.width, builder.law.name), cost)
        part = replace(input_of(aggregate, bounds), blocks=(block,), edges=edges, points=points)
        if aggregate.bounds is not None:
            return part
        low, high = aggregate.within or (-math.inf, math.inf)
        return replace(part, reach=(float(low), float(high)))

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return quantiles with intervals.

        The cumulative count of a quantile p of N values passes p N. Near the ends, where p N is less than noise can
        tell from nothing, it is taken to pass what noise can tell: the least and the greatest value are those with
        about that many values beyond them. Intervals reach to the ends of the bins they touch, and to the bound where
        nothing says otherwise; where bounds were found from the data, the least and the greatest value may lie
        anywhere beyond them. Where noise reaches farther than half of the values, there is no answer (NaN).
        """
        block = measuring.blocks[part.blocks[0]]
        strategy = block.combine
        assert isinstance(strategy, Strategy)
        weights = cumulative_weights(strategy)
        numbers = noisy[:, measuring.place(part.blocks[0])].astype(float)
        counts = numbers @ weights.T
        spread = math.sqrt(measuring.law.variance(block.scale))
        reach = band(confidence, measuring.noise)
        told = kappa(min(confidence, TOLD), measuring.noise)
        below, above = _levels(part)
        columns = []
        for fraction in part.fractions:
            errors = spread * excess_errors(strategy, fraction)
            excess = rising(counts - fraction * counts[:, -1:], errors)
            total = np.maximum(counts[:, -1], 0.0)
            gains = left_of_errors(strategy, fraction, measuring.noise, total / max(float(np.median(errors)), TINY))
            value, std_error = _crossings(excess, total, errors, gains, fraction, below, above)
            lower, upper = _ends(part, fraction, excess, total, errors, reach)
            ends = _farther(part, fraction, lower, upper)
            hidden = told * np.median(errors) > counts[:, -1] / 2
            value, std_error = (np.where(hidden, math.nan, one) for one in (value.clip(lower, upper), std_error))
            columns.append(np.stack([value, std_error, *ends]))
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
        """Return the last cumulative counts, and how many values are in each bin, none of them negative."""
        strategy = measuring.blocks[part.blocks[0]].combine
        assert isinstance(strategy, Strategy)
        counts = noisy[:, measuring.place(part.blocks[0])] @ cumulative_weights(strategy).T
        known = KnownGroups.of(np.asarray(counts[:, -1], dtype=np.float64))
        if len(counts) > MOST_BINNED:
            return known
        below = np.maximum(rising(counts, excess_errors(strategy, 0.0)), 0.0)
        return replace(known, binned=np.diff(below, axis=1, prepend=0.0).T, edges=part.edges)

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return how many values of rank the worst quantile is off, in groups of so many values.

        Of a usual column where it is shown how far it is off in values.
        """
        block = measuring.blocks[part.blocks[0]]
        assert isinstance(block.combine, Strategy)
        spread, strategy = math.sqrt(measuring.law.variance(block.scale)), block.combine
        sizes = np.array([USUAL_ROWS]) if known is None else known.sizes
        shares = None if known is None else _shares(known, part)
        shown = None if shares is None else self._in_values(measuring, part, confidence, sizes[:, None] * shares)
        tried_on = None if shown is not None else shares
        errors, width = np.zeros(sizes.size), 0.0
        for fraction in part.fractions:
            middle = spread * float(np.median(excess_errors(strategy, fraction)))
            values = sizes / max(middle, TINY)
            counts = None if tried_on is None else tried_on * values[:, None]
            off = middle * off_by(strategy, fraction, measuring.noise, values, counts)
            errors = np.maximum(errors, np.sqrt((off**2).mean(axis=1)))
            shifted = max(_ranks_shifted(part, fraction)) * sizes
            least = (off_at_most(one, confidence, measuring.noise) for one in off)
            width = max(width, *(math.hypot(one, other) for one, other in zip(least, shifted, strict=True)))
        return Expectation(errors, width, f"errors of quantiles are in {OF_RANK}", shown)

    def _in_values(
        self, measuring: Measuring, part: AggregateInput, confidence: float, counts: Floats
    ) -> Expectation | None:
        """Return how far quantiles are off in what their values are counted in, where cumulative counts are known.

        None of the least and the greatest value where these may lie anywhere beyond the bounds that were found.

        Parameters
        ----------
        measuring, part, confidence
            As for `expected`.
        counts
            How many values are at or below each bin, shape (groups, bins).
        """
        block = measuring.blocks[part.blocks[0]]
        assert isinstance(block.combine, Strategy)
        spread, strategy = math.sqrt(measuring.law.variance(block.scale)), block.combine
        (below, above), total = _levels(part), counts[:, -1]
        worst, width = np.zeros(len(counts)), 0.0
        for fraction in part.fractions:
            errors = spread * excess_errors(strategy, fraction)
            gains = left_of_errors(strategy, fraction, measuring.noise, total / max(float(np.median(errors)), TINY))
            excess = counts - fraction * total[:, None]
            _, off = _crossings(excess, total, errors, gains, fraction, below, above)
            ends = _ends(part, fraction, excess, total, errors, band(confidence, measuring.noise))
            lower, upper = _farther(part, fraction, *ends) if fraction in (0.0, 1.0) else ends
            hidden = kappa(min(confidence, TOLD), measuring.noise) * np.median(errors) > total / 2
            widths = np.where(hidden, above[-1] - below[0], (upper - lower) / 2)
            worst, width = np.maximum(worst, off), max(width, float(widths.max()))
        return Expectation(worst, width) if math.isfinite(width) else None


def _shares(known: KnownGroups, part: AggregateInput) -> Floats | None:
    """Return which part of the values of known groups lies at or below each bin, shape (groups, bins).

    None where that is not known. Bounds that are still to be found will be about those that were found before.
    """
    if known.binned is None or (total := known.binned.sum(axis=0)).min() <= 0:
        return None
    below = np.cumsum(known.binned / total, axis=0).T
    if part.found and part.edges != known.edges:
        before = np.pad(below, ((0, 0), (1, 0)))
        below = np.stack([np.interp(part.edges[1:], known.edges, one) for one in before])
        below[:, -1] = 1.0  # what lies beyond the bounds counts as the nearest
    return below if below.shape[1] == len(part.edges) - 1 else None


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


def _ends(
    part: AggregateInput, fraction: float, excess: Floats, total: Floats, errors: Floats, reach: float
) -> tuple[Floats, Floats]:
    """Return between which ends of bins a quantile lies, of groups whose counts are so far above a fraction of all."""
    below, above = _levels(part)
    if not part.shifted:
        return crossed_between(excess, errors, reach, below, above)
    # Among all rows more may lie below the value, or above it, than among those that count.
    sides = (np.hypot(reach * errors, (total * one)[:, None]) for one in _ranks_shifted(part, fraction))
    lower, upper = (crossed_between(excess, side, 1.0, below, above)[i] for i, side in enumerate(sides))
    return lower, upper


def _farther(part: AggregateInput, fraction: float, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return intervals that reach as far as values may, where they touch bounds that were found from the data."""
    if not part.reach:
        return lower, upper
    below, above = _levels(part)
    if fraction <= NEAR_END:
        lower = np.where((lower <= below[0]) | (fraction == 0.0), part.reach[0], lower)
    if fraction >= 1.0 - NEAR_END:
        upper = np.where((upper >= above[-1]) | (fraction == 1.0), part.reach[1], upper)
    return lower, upper


@lru_cache(maxsize=64)
def cumulative(count: int, noise: Noise) -> Strategy:
    """Return what is measured of bins in order to know how many values lie below each edge."""
    if count <= OPTIMISED:
        return select_own(Prefix(count), noise=noise, effort="quick")
    trees = (hierarchical(Prefix(count), noise, branching=branching) for branching in BRANCHINGS[noise])
    return min(trees, key=lambda tree: tree.objective)


def _ranks_shifted(part: AggregateInput, fraction: float) -> tuple[float, float]:
    """Return which part of all values may lie below a quantile beside those that do by the rows that count, and above.

    At most it is what weight is of other units, where all their values are at one end; of a high quantile few more can
    be above.
    """
    shifted = ALONG * part.shifted
    return shifted * min(1.0, 2.0 * (1.0 - fraction)), shifted * min(1.0, 2.0 * fraction)


def _levels(part: AggregateInput) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each bin."""
    edges = np.array(part.edges)
    if part.points:
        return edges[:-1], edges[:-1]
    return edges[:-1], edges[1:]


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


def _crossings(
    excess: Floats, total: Floats, errors: Floats, gains: Floats, fraction: float, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return where counts pass a fraction of all, and the standard error of that."""
    rank = rank_read(total, errors, fraction)
    beyond = excess - (rank - fraction * total)[:, None]
    value = crossed_at(beyond, -rank, below, above)
    spread = _spread(beyond, gains[:, None] * errors, value, below, above)
    if fraction in (0.0, 1.0):
        return value, spread
    # A rank that was moved, for noise to tell it from the ends, errs by how far it was moved as well.
    return value, np.hypot(spread, value - crossed_at(excess, -fraction * total, below, above))


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

"""From noisy measurements to answers: what to measure for a measure, how wrong it will be, what the answers are.

Each kind of measure has one small class here with the same four methods (the `Answers` protocol), used both before
anything is measured (`expected`, `scale_for`) and after (`estimate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import AccuracyError
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.privacy.laplace_tails import laplace_scale_for, reach_of_sums
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Accuracy, Summand
from dpnotebook.strategy import Strategy
from dpnotebook.workload import Identity
from dpnotebook.workload.terms import row_weights, sparse_terms

# Exact intervals need the weight of every noisy number in every answer; past this many weights the worst case of
# equal variance is reported instead, or a bound by the fourth powers of these weights, where they are not too many.
WEIGHTS_LIMIT = 2_000_000
POWERS_LIMIT = 50_000_000  # weights, 2 s of processor time: looked at once a strategy
CHUNK = 256  # answers whose weights are in memory together, at most
MEANT = 6  # digits of an answer below its standard error
EXACT = 9  # digits of a standard error, and of the reach of an interval
MOST_DECIMALS = 300  # of an answer that is written: floats have none beyond 10^-308
DIGITS = 14  # that floating point keeps through sums
COARSE = 8  # scale of noise below which single steps decide which answer reaches farthest
FINE = Fraction(2**12)  # scale of noise at which they are compared otherwise
NEARLY = 0.99  # of the widest interval at that scale, from which on others are looked at too
BELOW = 1 - 1e-9  # of a scale that an error leads to, so that floating point does not pass the error again
WELL_BELOW = 1 - 1e-5  # of one that did pass it, by what working out a quantile is off
ENOUGH_WIDER = 1.001  # times the scale of noise: less is not worth another look
WIDENED = 3  # times at most
FEW = 16  # of the least steps: who took more is on a lattice, and it is looked for where that ends
LEAST_STEP = 1 - 1e-6  # by which a scale is lowered at least at first
ONE = 1e-9  # from 1, a variance factor that is one noisy number's but for rounding

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """The error that a noise scale will give.

    Parameters
    ----------
    std_errors
        Standard error of every answer, shape (answers,).
    reach
        Half-width of the interval, worst answer; or what works it out, which takes long of sums of Laplace noise.
    """

    std_errors: Floats
    reach: float | Callable[[], float]

    @cached_property
    def half_width(self) -> float:
        """Half-width of the interval, worst answer."""
        return self.reach() if callable(self.reach) else self.reach


@dataclass(frozen=True)
class Estimates:
    """Answers with their uncertainty, each of shape (answers,)."""

    value: Floats
    std_error: Floats
    lower: Floats
    upper: Floats

    @property
    def finite(self) -> bool:
        """Whether all of these numbers are."""
        return all(bool(np.isfinite(numbers).all()) for numbers in vars(self).values())

    def times(self, weights: Floats) -> Estimates:
        """Return the estimates of each answer times its weight."""
        return Estimates(*(numbers * weights for numbers in vars(self).values()))


def written(value: Floats, std_error: Floats, width: Floats) -> Estimates:
    """Return answers without the digits that noise drowns or floating point makes up: they differ between computers.

    Parameters
    ----------
    value, std_error, width
        The answers, their standard errors and the half-widths of their intervals, each of shape (answers,).
    """
    known = np.isfinite(std_error) & (std_error > 0)
    digits = np.zeros(std_error.size, dtype=np.int64)
    digits[known] = np.floor(np.log10(std_error[known])).astype(np.int64)
    value, std_error, width = value.astype(float), std_error.astype(float), width.astype(float)
    value[~known] = np.round(value[~known], EXACT)
    largest = float(np.abs(value[known]).max(initial=0.0))
    most = max(0, DIGITS - 1 - math.floor(math.log10(largest))) if 0 < largest < math.inf else MOST_DECIMALS
    for each in np.unique(digits[known]).tolist():
        rows = np.flatnonzero(known & (digits == each))
        value[rows] = np.round(value[rows], min(MEANT - each, most, MOST_DECIMALS)) + 0.0  # no -0.0
        std_error[rows] = np.round(std_error[rows], min(EXACT - each, MOST_DECIMALS))
        width[rows] = np.round(width[rows], min(EXACT - each, MOST_DECIMALS))
    return Estimates(value, std_error, value - width, value + width)


class Answers(Protocol):
    """What the planner and the session need to know of one measure."""

    @property
    def measurement(self) -> Measurement:
        """What must be measured."""

    @property
    def strategy(self) -> Strategy:
        """The measured queries together with the workload that is answered from them."""

    def expected(self, law: Law, scale: Fraction, confidence: float) -> Expected:
        """Return the error that noise of this scale will give."""

    def scale_for(self, accuracy: Accuracy, law: Law) -> Fraction:
        """Return the largest noise scale that keeps the promise of `accuracy` (an error or a variance)."""

    def estimate(self, noisy: Floats, law: Law, scale: Fraction, confidence: float) -> Estimates:
        """Return answers from the noisy numbers of the measurement, shape (components, queries)."""


@dataclass(frozen=True)
class LinearAnswers:
    """Answers that are linear in the histogram: counts, sums, cumulative counts, whole workloads.

    Parameters
    ----------
    measurement
        What is measured.
    strategy
        The measured queries together with the workload that is answered from them.
    step
        What one integer of the measurement is worth in the answer's units.
    by_weight
        Whether answers are told times their weights: an error that holds for these is that much smaller without.
    """

    measurement: Measurement
    strategy: Strategy
    step: float = 1.0
    by_weight: bool = False

    def expected(self, law: Law, scale: Fraction, confidence: float) -> Expected:
        """Return the error that noise of this scale will give."""
        std_errors = self.std_errors(law, scale)

        def reach() -> float:
            if self.direct:
                return float(half_widths(self.units[:1, None], scale, law.name, confidence)[0])
            rows = self._farthest(law, scale, confidence)
            return float(self._widths(law, scale, confidence, std_errors, rows).max(initial=0.0))

        return Expected(std_errors, reach)

    def scale_for(self, accuracy: Accuracy, law: Law) -> Fraction:
        """Return the largest noise scale that keeps the promise of `accuracy`."""
        if accuracy.by_part and not self.by_weight:
            return replace(self, by_weight=True).scale_for(accuracy, law)
        worst = float(np.max(self.factors * self.units**2))
        if accuracy.error is not None and self.direct and law.on_integers:
            return laplace_scale_for(accuracy.error / float(self.units[0]), accuracy.confidence)
        if accuracy.error is not None:
            variance = (accuracy.error / law.kappa(accuracy.confidence)) ** 2
        else:
            assert accuracy.variance is not None
            variance = accuracy.variance
        scale = scale_of_variance(law, variance / worst)
        if accuracy.error is not None:
            scale, reach = self._lowered(scale, accuracy.error, accuracy.confidence, law)
            # And sums of many fine steps do not reach as far. A quantile that is worked out is off by a millionth, so
            # that the next scale is looked for from the one that was tried last, whether it was good or not.
            tried = scale
            for _ in range(WIDENED):
                below = BELOW if reach <= accuracy.error else WELL_BELOW
                wider = _positive_scale(float(tried) * (accuracy.error / reach if reach > 0 else 1.0) * below)
                if law.stable or wider < scale * ENOUGH_WIDER:
                    break
                tried, reach = wider, self.expected(law, wider, accuracy.confidence).half_width
                if reach <= accuracy.error:
                    scale = wider
        return scale

    def _lowered(self, scale: Fraction, error: float, confidence: float, law: Law) -> tuple[Fraction, float]:
        """Return a noise scale, at most the given one, that keeps an error, and how far answers reach with it.

        Sums of few coarse steps can reach a little further than any continuous law of their variance. On a lattice they
        reach as far until there is much less noise: so each step is longer than all before it, and the last is halved.
        """

        def reach_of(tried: Fraction) -> float:
            return self.expected(law, tried, confidence).half_width

        failed, step = scale, LEAST_STEP
        while (reach := reach_of(scale)) > error:
            failed, scale = scale, _positive_scale(float(scale) * min(error / reach * BELOW, step))
            step *= step
        while step < LEAST_STEP**FEW and failed > scale * ENOUGH_WIDER:
            middle = _positive_scale(math.sqrt(float(failed) * float(scale)))
            if (between := reach_of(middle)) > error:
                failed = middle
            else:
                scale, reach = middle, between
        return scale, reach

    def estimate(self, noisy: Floats, law: Law, scale: Fraction, confidence: float) -> Estimates:
        """Return the least-squares answers with their intervals."""
        return self.with_errors(self.strategy.answers(noisy[0]) * self.units, law, scale, confidence)

    def with_errors(self, value: Floats, law: Law, scale: Fraction, confidence: float) -> Estimates:
        """Return answers with the standard errors and intervals that noise of this scale gives them."""
        std_error = self.std_errors(law, scale)
        if self.direct:  # the very numbers that were drawn: the same on every computer
            width = half_widths(self.units[:1, None], scale, law.name, confidence)[0]
            return Estimates(value, std_error, value - width, value + width)
        return written(value, std_error, self._widths(law, scale, confidence, std_error))

    @cached_property
    def factors(self) -> Floats:
        """Variance of every answer for noise of unit variance, shape (answers,)."""
        return np.asarray(self.strategy.error_factors(), dtype=np.float64)

    @cached_property
    def units(self) -> Floats:
        """What one of each answer of the strategy is worth, shape (answers,).

        A weight says how accurate an answer must be; what a person is told is the answer without it.
        """
        weights = row_weights(self.strategy.workload)
        return np.full(weights.size, self.step) if self.by_weight else self.step / weights

    @cached_property
    def direct(self) -> bool:
        """Whether every answer is one noisy number: then W A^+ is a projection with ones on its diagonal."""
        same = self.strategy.workload == self.strategy.operator and np.ptp(self.units) == 0
        return bool(same and np.allclose(self.factors, 1.0, rtol=0, atol=ONE))

    def std_errors(self, law: Law, scale: Fraction) -> Floats:
        """Return the standard error of every answer, shape (answers,)."""
        return np.asarray(np.sqrt(self.factors * law.count_variance(scale)) * self.units)

    def _farthest(self, law: Law, scale: Fraction, confidence: float) -> tuple[int, ...] | None:
        """Return the answers whose interval may be the widest; None for all.

        Of two sums of Laplace noise the one of fewer draws reaches farther than the other of a little more variance.
        """
        if law.stable:
            return (int(np.argmax(self.factors * self.units**2)),)
        if self._many or scale < COARSE:
            return None
        rows = self._laws[0]
        widths = _combined(self.strategy, tuple(rows.tolist()), FINE, confidence) * self.units[rows]
        return tuple(rows[widths >= widths.max(initial=0.0) * NEARLY].tolist())

    @property
    def _many(self) -> bool:
        return bool(self._laws[0].size * self.strategy.operator.shape[0] > WEIGHTS_LIMIT)

    @cached_property
    def _laws(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """An answer for each law of noise, ascending, and for each answer the place of its law among them."""
        rows, place = np.unique(self.alike, return_inverse=True)
        return rows, place

    @cached_property
    def alike(self) -> NDArray[np.int64]:
        """For each answer the first whose noise has the same law, shape (answers,)."""
        if self.factors.size != self.strategy.workload.shape[0]:  # one number a marginal
            return np.arange(self.factors.size)
        return _alike(self.strategy)

    def _widths(
        self, law: Law, scale: Fraction, confidence: float, std_errors: Floats, rows: tuple[int, ...] | None = None
    ) -> Floats:
        """Return half-widths of all answers, or of some, whose standard errors are among those given."""
        chosen = slice(None) if rows is None else list(rows)
        if law.stable:
            return std_errors[chosen] * law.kappa(confidence)
        if self._many:
            largest = np.minimum(np.sqrt(self.factors), 1.0) * self.units  # what a draw counts for at most
            each = self.factors.size == self.strategy.workload.shape[0]  # and not one number a marginal
            peaks = _peaks(self.strategy, confidence) if each else None
            return law.farthest(std_errors, confidence, largest, float(scale), peaks)[chosen]
        if rows is None:
            alike, place = self._laws
            return _combined(self.strategy, tuple(alike.tolist()), scale, confidence)[place] * self.units
        return _combined(self.strategy, rows, scale, confidence) * self.units[chosen]


def _alike(strategy: Strategy) -> NDArray[np.int64]:
    """Return for each answer the first whose noise has the same law, shape (answers,).

    The counts of one marginal are alike where the levels of its attributes are measured alike: these could change their
    places, whatever is measured along other attributes.
    """
    asked, measured = sparse_terms(strategy.workload), as_marginals(strategy.operator)
    rows = np.arange(strategy.workload.shape[0])
    if asked is None or measured is None or asked[0] != measured.sizes:
        return rows
    used = {axis for subset, _ in measured.weights for axis in subset}
    even = [axis not in used or isinstance(factor, Identity) for axis, factor in enumerate(measured.factors)]
    first = 0
    for term in asked[1]:
        pairs = zip(term.axes, term.factors, strict=True)
        if all(even[axis] and isinstance(factor, Identity) for axis, factor in pairs):
            rows[first : first + term.queries] = first
        first += term.queries
    return rows


@lru_cache(maxsize=32)
def _peaks(strategy: Strategy, confidence: float) -> Floats:
    """Return how far the weights of answers are from even, sum w^4 / (sum w^2)^2; 1 of those that nobody looked at.

    These cannot be the widest, told with their weights or without: their standard errors are smaller by more than the
    laws of sums can differ. Or there are too many weights.
    """
    weighted = np.sqrt(np.asarray(strategy.error_factors(), dtype=np.float64))
    least, most = reach_of_sums(confidence, np.array([0.0, 1.0]))
    wide = [each * most >= each.max() * least for each in (weighted, weighted / np.abs(row_weights(strategy.workload)))]
    found, alike = np.ones(weighted.size), _alike(strategy)
    rows = np.unique(alike[np.logical_or(*wide)])
    if least < most and rows.size * strategy.operator.shape[0] <= POWERS_LIMIT:
        for some in np.array_split(rows, math.ceil(rows.size / CHUNK)):
            squares = strategy.answer_weights(some) ** 2
            found[some] = np.einsum("ij,ij->i", squares, squares) / squares.sum(axis=1) ** 2
    found = found[alike]
    found.setflags(write=False)
    return found


@lru_cache(maxsize=32)
def _combined(strategy: Strategy, only: tuple[int, ...], scale: Fraction, confidence: float) -> Floats:
    """Return half-widths of combinations of Laplace noise; a query and its release ask for the same again and again."""
    found = np.asarray(half_widths(_weights(strategy, only), scale, "laplace", confidence))
    found.setflags(write=False)
    return found


@lru_cache(maxsize=4)
def _weights(strategy: Strategy, only: tuple[int, ...]) -> Floats:
    """Return how answers combine measurements: the same at every price of a card, and never over WEIGHTS_LIMIT."""
    return strategy.answer_weights(np.array(only))


@dataclass(frozen=True)
class MeanAnswers:
    """Means from two sums: of what each value lies above the lower bound, and of what it lies below the upper one.

    Every row adds the same to both together, so the pair has the sensitivity of the span alone and gives the number of
    rows as well: at equal epsilon half the variance of a noisy centred sum over a noisy count that share the budget.

    Parameters
    ----------
    measurement
        The pair of sums, by group.
    strategy
        One query a group, for each of the two sums.
    rows
        Rows that the expected error assumes in each group.
    value
        Mean that the expected error assumes; None assumes the worst.
    """

    measurement: Measurement
    strategy: Strategy
    rows: float
    value: float | None = None

    def expected(self, law: Law, scale: Fraction, confidence: float) -> Expected:
        """Return the error that noise of this scale will give in a group of `rows` rows."""
        weights = self.assumed_weights
        std_error = math.sqrt(law.count_variance(scale) * float((weights**2).sum()))
        groups = int(self.strategy.workload.shape[0])
        width = _single(tuple(weights.tolist()), scale, law, confidence)
        return Expected(np.full(groups, std_error), width)

    @property
    def share(self) -> float | None:
        """Where between its bounds the mean is expected, in [0, 1]; None for the worst."""
        if self.value is None:
            return None
        summand = self.measurement.summand
        return min(max((self.value - float(summand.low)) / float(summand.high - summand.low), 0.0), 1.0)

    @property
    def unit(self) -> float:
        """What one integer of a sum is worth in the mean of a group as it is assumed to be, at most."""
        return float(self.measurement.summand.step) / self.rows

    @property
    def assumed_weights(self) -> Floats:
        """What one integer of either sum is worth in the mean of a group as it is assumed to be, shape (2,)."""
        share = self.share or 0.0
        return np.array([1 - share, share]) * self.unit

    def scale_for(self, accuracy: Accuracy, law: Law) -> Fraction:
        """Return the largest noise scale that keeps the promise of `accuracy` in a group of `rows` rows."""
        if accuracy.error is not None:
            if law.on_integers:
                return laplace_scale_for(accuracy.error / self.unit, accuracy.confidence)
            return _positive_scale(accuracy.error / law.kappa(accuracy.confidence) / self.unit)
        assert accuracy.variance is not None
        return scale_of_variance(law, accuracy.variance / self.unit**2)

    def estimate(self, noisy: Floats, law: Law, scale: Fraction, confidence: float) -> Estimates:
        """Return the ratio of the two sums, with intervals by linearisation.

        A group whose noisy number of rows is within three standard errors of nothing gets the bounds as its interval.
        """
        variance = law.count_variance(scale)
        return mean_of(
            self.measurement.summand,
            noisy,
            lambda weights: np.asarray(np.sqrt(variance * (weights**2).sum(axis=1))),
            lambda weights: half_widths(weights, scale, law.name, confidence),
        )


def mean_of(
    summand: Summand, noisy: Floats, std_errors: Callable[[Floats], Floats], widths: Callable[[Floats], Floats]
) -> Estimates:
    """Return the ratio of two sums, as `MeanAnswers` says.

    Parameters
    ----------
    summand
        What a row adds to either.
    noisy
        The two sums, shape (2, groups).
    std_errors, widths
        Give standard errors and half-widths from what one integer of either sum is worth in each mean, shape
        (groups, 2).
    """
    low, high, span = float(summand.low), float(summand.high), float(summand.high - summand.low)
    above, below = noisy
    both = above + below
    weights, known = weights_of(summand, noisy, std_errors)
    value = np.where(known, low + span * above / np.where(known, both, 1.0), (low + high) / 2)
    std_error = np.where(known, std_errors(weights), span / 2)
    width = np.asarray(widths(weights))
    lower = np.where(known, np.clip(value - width, low, high), low)
    upper = np.where(known, np.clip(value + width, low, high), high)
    return Estimates(np.clip(value, low, high), std_error, lower, upper)


def weights_of(
    summand: Summand, noisy: Floats, std_errors: Callable[[Floats], Floats]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what one integer of either sum is worth in each mean, and which groups surely have rows.

    Parameters
    ----------
    summand, noisy, std_errors
        As in `mean_of`.
    """
    above, below = noisy
    both = above + below
    known = np.asarray(both > 3 * std_errors(np.ones((both.size, 2))))
    safe = np.where(known, both, 1.0)
    return np.column_stack([below, -above]) * (float(summand.high - summand.low) / safe**2)[:, None], known


@lru_cache(maxsize=256)
def _single(weights: tuple[float, ...], scale: Fraction, law: Law, confidence: float) -> float:
    return float(half_widths(np.array([weights]), scale, law.name, confidence)[0])


@dataclass(frozen=True)
class QuantileAnswers:
    """Quantiles read off a noisy cumulative count; expected errors are in rows of rank.

    Within a bin, rows are taken to be spread evenly; the interval reaches to the ends of the bins it touches, so it
    does not rest on that.

    Parameters
    ----------
    ranks
        The cumulative counts, groups by levels, last axis the ranked column.
    quantiles
        Fractions of rows below the answers; each group has one for each.
    levels
        Least and greatest value of every level of the ranked column, in order; shape (levels, 2).
    """

    ranks: LinearAnswers
    quantiles: tuple[float, ...]
    levels: tuple[tuple[float, float], ...]

    @property
    def measurement(self) -> Measurement:
        """The measurement of the cumulative counts."""
        return self.ranks.measurement

    @property
    def strategy(self) -> Strategy:
        """The strategy for the cumulative counts."""
        return self.ranks.strategy

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.ranks.strategy.workload.shape[0]) // len(self.levels)

    def expected(self, law: Law, scale: Fraction, confidence: float) -> Expected:
        """Return the expected error in rows of rank."""
        expected = self.ranks.expected(law, scale, confidence)
        return Expected(self.worst(expected.std_errors), lambda: expected.half_width)

    def worst(self, std_errors: Floats) -> Floats:
        """Return the largest of some errors of the cumulative counts for each answer, shape (groups * quantiles,)."""
        return np.repeat(std_errors.reshape(self.groups, len(self.levels)).max(axis=1), len(self.quantiles))

    def scale_for(self, accuracy: Accuracy, law: Law) -> Fraction:
        """Return the largest noise scale that keeps ranks within `accuracy`, in rows."""
        return self.ranks.scale_for(accuracy, law)

    def estimate(self, noisy: Floats, law: Law, scale: Fraction, confidence: float) -> Estimates:
        """Return the level at which the cumulative count passes the quantile, and where its band does."""
        return self.read(self.ranks.estimate(noisy, law, scale, confidence))

    def read(self, ranks: Estimates) -> Estimates:
        """Return the quantiles that estimated cumulative counts say, shape (groups * levels,)."""
        shape = (self.groups, len(self.levels))
        columns = [
            self._crossings(*group, quantile)
            for group in zip(
                ranks.value.reshape(shape),
                ranks.std_error.reshape(shape),
                (ranks.upper - ranks.value).reshape(shape),
                strict=True,
            )
            for quantile in self.quantiles
        ]
        value, below, above, lower, upper, least = np.array(columns).T
        if len(self.quantiles) > 1:  # quantiles rise, and so do the ends of wide intervals: these are made wider
            order = np.argsort(self.quantiles)
            low, high = (ends.reshape(self.groups, -1)[:, order] for ends in (lower, upper))
            low, high = np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1], np.maximum.accumulate(high, axis=1)
            back = np.argsort(order)
            lower, upper = low[:, back].ravel(), high[:, back].ravel()
        return Estimates(value, np.maximum((above - below) / 2, least), lower, upper)

    @cached_property
    def _least_errors(self) -> Floats:
        """Standard error of a place within each level, or of rounding to levels that are points."""
        lows, highs = np.array(self.levels).T
        widths = np.where(highs > lows, highs - lows, np.diff(lows, append=lows[-1] + 1.0))
        return np.asarray(widths / math.sqrt(12))

    def _crossings(self, counts: Floats, spread: Floats, width: Floats, quantile: float) -> list[float]:
        """Where the count of rows passes its target: as estimated, one standard error and one interval either way."""
        from scipy.optimize import isotonic_regression

        rising = isotonic_regression(counts).x
        rank = quantile * max(rising[-1], 0.0)
        excess = rising - rank
        # The target is noisy too. Counts below a level and in all are positively correlated, so this is an upper bound.
        target = quantile * spread[-1]
        spread, width = (np.hypot(band, quantile * band[-1]) for band in (spread, width))
        return [
            self._crossing(excess, -rank),
            self._crossing(excess + spread, target - rank),
            self._crossing(excess - spread, -target - rank),
            self.levels[_first_above(excess + width)][0],
            self.levels[_first_above(excess - width)][1],
            self._least_errors[_first_above(excess)],
        ]

    def _crossing(self, excess: Floats, start: float) -> float:
        """Where a rising excess passes 0, which is `start` below the first level, where no row is."""
        level = _first_above(excess)
        low, high = self.levels[level]
        before = excess[level - 1] if level else min(start, excess[0], 0.0)
        rise = excess[level] - before
        share = -before / rise if rise > 0 else 1.0
        return low + (high - low) * min(max(share, 0.0), 1.0)


def _first_above(excess: Floats) -> int:
    above = np.flatnonzero(excess >= 0)
    return int(above[0]) if above.size else excess.size - 1


def scale_of_variance(law: Law, variance: float) -> Fraction:
    """Return the noise scale of a variance, in squared integers.

    Raises
    ------
    AccuracyError
        If no scale has it.
    """
    return _positive_scale(law.scale_of_variance(variance))


def _positive_scale(scale: float) -> Fraction:
    if not (math.isfinite(scale) and scale > 0):
        raise AccuracyError("no amount of noise gives this accuracy; ask for a larger error=, or a smaller epsilon=")
    return Fraction(scale)

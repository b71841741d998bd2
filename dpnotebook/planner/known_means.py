"""Means from all that was recorded of what they are made of: means, sums and counts, roll-ups and histograms.

A mean is read off two sums (see `MeanAnswers`), and both are linear in counts (see `value_ends`): least squares says
what is known of the two together, and their ratio is the mean. What is missing is measured as the same two sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner import explain
from dpnotebook.planner.answers import Estimates, Floats, MeanAnswers, mean_of, weights_of
from dpnotebook.planner.combining import MOST_EXACT, draws_of
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import Item, item_of
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.marginal_measurement import (
    SLACK,
    LinearForm,
    LinearTarget,
    known_in,
    least_scale,
    part_of,
    sums_as_counts,
    target_of,
)
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.plan_json import estimates_to_json
from dpnotebook.planner.pricing import Pricing, cost_of, more_precise, units_of
from dpnotebook.planner.problem import Option
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.question import Accuracy, Question, Summand

MEANT = 6  # digits of a mean below its standard error
MOST_DECIMALS = 12
HALVINGS = 60  # of the precision that is missing
ATTEMPTS = 8  # to keep an error with noise whose sums reach farther than was thought
CLOSER = 0.99  # of the error that is asked for, that is tried when one was missed


@dataclass(frozen=True, eq=False)
class SumsTogether:
    """What counts say of two sums of which nothing was measured: what they add up to, and neither by itself.

    Parameters
    ----------
    counts
        How many rows of each group have a value, over what was recorded.
    steps
        What a row adds to both sums together.
    """

    counts: LinearTarget
    steps: int
    reach = 1.0

    @cached_property
    def variances(self) -> Floats:
        """Variances of both sums and what they add up to, group by group; shape (3 groups,)."""
        both = self.counts.variances * float(self.steps) ** 2
        either = np.where(both > 0, np.inf, 0.0)  # of a group that nobody can be in all is known
        return np.stack([either, either, both], axis=1).ravel()

    def estimates(self) -> tuple[Floats, Floats]:
        """Return the answers, of which those of no finite variance mean nothing, and their variances."""
        found = np.zeros((self.counts.count, 3))
        found[:, 2] = self.counts.estimates()[0] * self.steps
        return found.ravel(), self.variances

    def sources(self) -> tuple[int, ...]:
        """Return the numbers of the releases that tell it, ascending."""
        return self.counts.sources()


@dataclass(frozen=True, eq=False)
class KnownMeans:
    """What is known of the two sums of some means.

    Parameters
    ----------
    history
        Everything recorded.
    summand
        What a row adds to either.
    asked
        The sums over what was recorded.
    order
        Where the first sums, the second, and what they add up to are among its answers, shape (3, groups).
    also
        Measurements that are supposed beside what was recorded.
    """

    history: History
    summand: Summand
    asked: LinearTarget | SumsTogether
    order: NDArray[np.intp]
    also: Sequence[Item] = ()

    @cached_property
    def covariances(self) -> Floats:
        """Variance of either sum and their covariance, infinite where one is not known; shape (3, groups)."""
        tied, told = self._tied, []
        if isinstance(tied, InClosedForm):
            for one, other in zip(tied.found, self.asked.found, strict=True):  # type: ignore[union-attr]
                shares = tied.shares(one)
                told.append(np.where(shares > 0, shares**2 * np.where(shares > 0, other.variances, 0.0), 0.0))
            variances = np.where(np.isfinite(tied.variances), sum(told, np.zeros(1)), np.inf)
        else:
            variances = tied.estimates()[1]
        known = np.isfinite(variances[self.order]).all(axis=0)
        one, other, both = np.where(known, variances[self.order], 0.0)
        most = np.sqrt(one * other)
        covariance = np.clip((both - one - other) / 2, -most, most)
        return np.stack([np.where(known, one, np.inf), np.where(known, other, np.inf), covariance])

    @cached_property
    def _tied(self) -> LinearTarget | SumsTogether:
        """The sums over what was recorded, both from the same sources with the same shares."""
        if not isinstance(self.asked, InClosedForm):
            return self.asked
        found = []
        for one in self.asked.found:
            variances = one.variances.copy()
            variances[self.order] = one.variances[self.order].sum(axis=0)
            found.append(replace(one, variances=variances))
        return replace(self.asked, found=tuple(found))

    def sums(self) -> LinearTarget:
        """Return the sums that the means are read off, of means that are known."""
        assert not isinstance(self._tied, SumsTogether)
        return self._tied

    @property
    def known(self) -> bool:
        """Whether every mean is."""
        return bool(np.isfinite(self.covariances).all())

    def worst(self, share: float | None) -> Floats:
        """Return the variance of each mean in squared integers of a sum, times squared rows, shape (groups,).

        Parameters
        ----------
        share
            Where between its bounds each mean is expected, in [0, 1]; None for the worst, which is at a bound.
        """
        return _worst(self.covariances, share)

    def width(self, share: float | None, confidence: float) -> float:
        """Return the half-width of the worst mean as `worst` has it, in integers of a sum, times rows."""
        return float(self.widths(share, confidence).max(initial=0.0))

    def widths(self, share: float | None, confidence: float) -> Floats:
        """Return the half-width of each mean as `worst` has it, in integers of a sum, times rows, shape (groups,)."""
        ends = (0.0, 1.0) if share is None else (share,)
        return np.asarray(np.max([self._widths_at(at, confidence) for at in ends], axis=0))

    def _widths_at(self, share: float, confidence: float) -> Floats:
        weights = np.tile([1 - share, -share], (self.order.shape[1], 1))
        return self._widths(confidence, np.sqrt(self.worst(share)), weights)

    def sources(self) -> tuple[int, ...]:
        """Return the numbers of the releases that the means are made of, ascending."""
        return self._tied.sources()

    def estimates(self, confidence: float) -> Estimates:
        """Return the means with their intervals."""
        noisy = self._tied.estimates()[0][self.order[:2]]

        def widths(weights: Floats) -> Floats:
            return self._widths(confidence, self._std_errors(weights), weights)

        return mean_of(self.summand, noisy, self._std_errors, widths)

    def weights(self, answer: MeanAnswers) -> Floats:
        """Return what an integer of either sum is worth in each mean, shape (groups, 2).

        As the means are known to be; as they are assumed to be where a group may as well have no rows.
        """
        noisy = self._tied.estimates()[0][self.order[:2]]
        found, clear = weights_of(self.summand, noisy, self._std_errors)
        return np.where(clear[:, None], found, answer.assumed_weights)

    def std_errors_of(self, weights: Floats) -> Floats:
        """Return the standard error of each mean in which the sums are worth so much, shape (groups,)."""
        return self._std_errors(weights)

    def width_of(self, weights: Floats, confidence: float) -> float:
        """Return the half-width of the worst mean in which the sums are worth so much."""
        return float(self._widths(confidence, self._std_errors(weights), weights).max(initial=0.0))

    def details(self, confidence: float) -> dict[str, Any] | None:
        """Return the means as what the ledger keeps; None where one is not known."""
        if not self.known:
            return None
        found = self.estimates(confidence)
        if not found.finite:
            return None
        # At another confidence no law of noise reaches further than one of draws that count for a whole error each.
        told = {"step": float(found.std_error.max(initial=0.0)), "scale": 1.0}
        return {"estimates": estimates_to_json(_rounded(found), confidence, self.sources()) | told}

    def _std_errors(self, weights: Floats) -> Floats:
        """Return standard errors of combinations of the two sums, shape (groups, 2) to (groups,)."""
        one, other, covariance = self.covariances
        first, second = weights.T
        return np.asarray(
            np.sqrt(np.maximum(first**2 * one + second**2 * other + 2 * first * second * covariance, 0.0))
        )

    def _widths(self, confidence: float, std_errors: Floats, weights: Floats) -> Floats:
        """Return half-widths of means in which an integer of either sum is worth so much, shape (groups, 2)."""
        law, groups = self.history.law, self.order.shape[1]
        largest = np.abs(weights).max(axis=1) * self._reach
        bound = law.farthest(std_errors, confidence, largest, least_scale(self.history, self.also))
        if self.history.law.stable or groups > MOST_EXACT or isinstance(self._tied, SumsTogether):
            return bound
        found = draws_of(self._tied, self.order[:2].ravel(), self.history, self.also)
        if found is None:
            return bound
        draws, scales = found
        combined = draws[:groups] * weights[:, [0]] + draws[groups:] * weights[:, [1]]
        return np.minimum(bound, half_widths(combined, scales, law.name, confidence))

    @cached_property
    def _reach(self) -> float:
        """The most that a draw counts for in a sum: more than one, where rows were counted."""
        used = {*self.sources(), *Supposed.of(self.also).releases}
        counts = (key for key, item in self.history.items.items() if item.measurement.summand == COUNT)
        return self.asked.reach if any(key[0] in used for key in counts) else 1.0


def _worst(covariances: Floats, share: float | None) -> Floats:
    """Return `KnownMeans.worst` of variances and covariances of two sums, shape (3, groups)."""
    one, other, covariance = covariances
    if share is None:
        return np.asarray(np.maximum(one, other))
    return np.asarray((1 - share) ** 2 * one + share**2 * other - 2 * share * (1 - share) * covariance)


def known_means(question: Question, history: History, also: Sequence[Item] = ()) -> KnownMeans | None:
    """Return what is known of means; None of other questions, and where nothing is known.

    Parameters
    ----------
    question, history
        What is asked, and what was recorded.
    also
        What is to be recorded next, or is supposed to be.
    """
    measure = question.measures[0]
    if measure.kind != "mean" or len(question.measures) != 1:
        return None
    best: KnownMeans | None = None
    groups, summand = part_of(question, history.domain), measure.summand
    for counts in sums_as_counts(groups, summand, history, also):
        asked: LinearTarget | SumsTogether | None
        if counts.reach_of_sums == 0 and not history.summed(summand, groups.where, also):
            rows = ProductTerm(groups.axes, counts.part.where, groups.operator, 1.0, groups.columns)
            told = known_in(LinearForm(rows, COUNT, 1.0), history, also)
            asked = None if told is None or not told.told else SumsTogether(told, summand.steps)
        else:
            asked = known_in(LinearForm(counts.part, COUNT, 1.0, counts.reach, counts.reach_of_sums), history, also)
            asked = None if asked is None or not asked.told else asked
        if asked is None:
            continue
        found = KnownMeans(history, measure.summand, asked, counts.order, also)
        if best is None or _told(found) < _told(best):
            best = found
    return best


def _told(means: KnownMeans) -> tuple[int, float]:
    """Return how many means are not known, and the largest variance of the others: less is better."""
    variances = means.worst(None)
    known = np.isfinite(variances)
    return int((~known).sum()), float(variances[known].max(initial=0.0))


def with_known(
    means: KnownMeans,
    question: Question,
    answer: MeanAnswers,
    alone: Option,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
) -> Option | None:
    """Return the cheapest way to answer beside what is known; None where that is to measure it alone.

    Parameters
    ----------
    means, question
        What is asked, and what is known of it.
    answer, alone
        How the means would be answered by themselves.
    accuracy
        An epsilon, an error or a variance.
    table, ledger
        What is public about the table; the record of past answers.
    """
    law, share = ledger.accountant.law, answer.share
    unit = answer.unit
    if accuracy.epsilon is not None:
        target = law.count_variance(alone.items[0].scale)
    else:
        target = target_of(accuracy, unit, law, means.history.least_scale)
    price = ledger.price(cost_of(alone.items, table, ledger.accountant))
    told = means.estimates(accuracy.confidence) if means.known else None
    if told is not None and told.finite:
        # Where the means lie and how many rows they have was assumed; what was released tells both.
        delivered = float(((told.upper - told.lower) / 2).max(initial=0.0))
        if accuracy.error is not None:
            enough = delivered <= accuracy.error * (1 + 10.0**-MEANT)
        else:
            enough = float(means.worst(share).max(initial=0.0)) <= target * SLACK
        as_foretold = (
            accuracy.error is not None and means.width(share, accuracy.confidence) * unit <= accuracy.error * SLACK
        )
        if enough or (as_foretold and _recorded(means, answer)):
            found = _option(means, (), delivered, answer, alone, accuracy, table, ledger)
            return replace(found, std_errors=told.std_error)
    weights = means.weights(answer) if means.known else None
    pricing = Pricing(table, ledger.accountant, means.history)
    for _ in range(ATTEMPTS):
        if target <= 0:
            return None
        planned = more_precise(answer.measurement, _missing(means, share, target), pricing, answer.strategy)
        dearer = ledger.price(cost_of([planned], table, ledger.accountant)) >= price
        if dearer and (accuracy.error is None or weights is None):
            return None
        # No question costs more than it would alone: it is told what that gives in groups of the size that they have.
        items = alone.items if dearer else (planned,)
        supposed = [item_of(one, (0, place), None, law) for place, one in enumerate(items)]
        after = known_means(question, means.history, supposed)
        if after is None or not after.known:
            return None
        if not dearer and float(after.worst(share).max(initial=0.0)) > target * SLACK:
            return None
        width = after.width(share, accuracy.confidence) * unit
        if weights is not None:
            width = max(width, after.width_of(weights, accuracy.confidence))
        if dearer or accuracy.error is None or width <= accuracy.error * SLACK:
            found = _option(after, items, width, answer, alone, accuracy, table, ledger)
            return found if weights is None else replace(found, std_errors=after.std_errors_of(weights))
        target *= min((accuracy.error / width) ** 2, CLOSER)
    return None


def _recorded(means: KnownMeans, answer: MeanAnswers) -> bool:
    """Return whether exactly these sums were measured before.

    To ask again as precisely costs nothing, whether or not the groups turned out as large as was assumed.
    """
    asked = answer.measurement
    recorded = (item.measurement for item in means.history.items.values())
    return any(one.summand == asked.summand and one.key == asked.key for one in recorded)


def _option(
    means: KnownMeans,
    items: tuple[Planned, ...],
    width: float,
    answer: MeanAnswers,
    alone: Option,
    accuracy: Accuracy,
    table: TableSchema,
    ledger: LedgerView,
) -> Option:
    """Return a way to answer with its expected errors, what it reuses, and all of it in words."""
    accountant = ledger.accountant
    reused = tuple(number for number in means.sources() if number)
    words = partial(explain.described, items, reused, answer, table, accountant, width, accuracy.confidence)
    return replace(
        alone,
        items=items,
        units=units_of(items, table, accountant) if items else 0,
        as_good_as=0 if accuracy.epsilon is None else alone.units,
        std_errors=np.sqrt(means.worst(answer.share)) * answer.unit,
        reach=width,
        words=words,
        reused=reused,
        combined=True,
    )


def _missing(means: KnownMeans, share: float | None, target: float) -> float:
    """Return the least precision of both sums that gives every mean a variance, beside what is known of that group.

    Least squares over all groups together is never worse.
    """
    information, nobody = _information(means), means.worst(None) == 0  # of whom all is known
    information = np.where(nobody, 0.0, information)
    exact = np.isinf(information).any(axis=0)  # one of the sums is known, as where no value is below the upper bound
    finite = np.where(exact, 0.0, information)
    low, high = 0.0, 1 / target
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        one, other, off = finite[0] + middle, finite[1] + middle, finite[2]
        determinant = one * other - off**2
        after = np.stack([other, one, -off]) / np.where(determinant > 0, determinant, np.nan)
        apart = np.append(1 / (information[:2] + middle), np.zeros((1, exact.size)), axis=0)
        after = np.where(exact, apart, after)
        enough = (_worst(after, share) <= target) | nobody
        low, high = (low, middle) if enough.all() else (middle, high)
    return high


def _information(means: KnownMeans) -> Floats:
    """Return the information about the two sums of each group, its diagonal and what is off it, shape (3, groups)."""
    one, other, covariance = means.covariances
    known = np.isfinite(one)
    determinant = np.where(known, one, 1.0) * np.where(known, other, 1.0) - covariance**2
    sound = known & (determinant > 0)
    determinant = np.where(sound, determinant, 1.0)
    found = np.where(sound, np.stack([other, one, -covariance]) / determinant, 0.0)
    with np.errstate(divide="ignore"):
        first, second, both = 1 / means.asked.variances[means.order]
    less = np.where(both > 0, np.stack([both, both, both]), np.stack([first, second, np.zeros(first.size)]))
    return np.where(sound, found, less)


def _rounded(means: Estimates) -> Estimates:
    """Return means without the digits that noise drowns: they differ between computers."""
    error = np.where(means.std_error > 0, means.std_error, 1.0)
    factor = 10.0 ** np.clip(MEANT - np.floor(np.log10(error)), 0, MOST_DECIMALS)
    return Estimates(*(np.rint(numbers * factor) / factor for numbers in vars(means).values()))

"""Which marginals to measure for the group-bys that are likely to come, and how precisely.

What comes next is not known. The rule here weighs the price of more precise marginals against what group-bys such as
were asked so far, and group-bys in general, would cost one by one, as many more of them as there were already: a
sequence that has gone on for long goes on for long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpnotebook.planner.group_forecast import LATEST, Outlook, likely
from dpnotebook.planner.group_spaces import Floats, Subset, marginal_information, shares, subsets
from dpnotebook.privacy.laws import Noise, law_of

HORIZON = 10  # questions that are expected before any was asked; each that was asked adds one
# What is measured for one of them serves the next, so that together they cost less than one by one.
WORTH: dict[Noise, float] = {"laplace": 0.5, "gaussian": 0.7}
RAISES = 16  # steps by which the rate of a marginal may rise,
SHORTEST, LONGEST = 0.02, 0.8  # as shares of the largest rate that is ever useful, in a geometric sequence
VARIANCES = 6  # quantiles of the accuracies that were asked
ROUNDS = 40  # of raising one marginal: an end where gains stay above the least
HALVINGS = 12  # of the interval in which a rate lies: to 1 / 4,096 of it
ENOUGH = 1.01  # for levels that are known less well than others
LEAST_GAIN = 1e-2  # of the expected cost, below which nothing more is bought
NOTHING = 1e-12  # relative: what rounding leaves of nothing
ROUNDING = 1 + 1e-9  # by which a price may pass the credit


@dataclass(frozen=True)
class Raise:
    """A marginal to measure, or to measure more precisely.

    Parameters
    ----------
    subset
        The attributes, ascending; the sum over all others is taken.
    precision
        How much more precise each of its counts becomes: one over a variance.
    """

    subset: Subset
    precision: float


def group_strategy(outlook: Outlook, noise: Noise, alone: float, credit: float = math.inf) -> tuple[Raise, ...]:
    """Return the marginals that are worth measuring now, for this question and those that are likely to come.

    Parameters
    ----------
    outlook
        What is known and what is expected.
    noise
        "laplace": a cost is epsilon. "gaussian": it is mu^2. Both for one row a unit, on counts.
    alone
        What the present question costs without a purchase.
    credit
        What may be paid now, the rest of the question included.

    Returns
    -------
    tuple of Raise
        Empty where nothing is worth buying. All cells are charged alike: the total rises by exactly the sum of the
        rises of the rates.
    """
    best = _Prices(outlook, noise, alone, credit)
    rates, least = best.start, float(best.expected(best.start[None])[0])
    first = least
    for _ in range(ROUNDS):
        trials = best.trials(rates)
        totals = best.expected(trials)
        place = int(totals.argmin())
        if totals[place] >= least - LEAST_GAIN * first:
            break
        rates, least = trials[place], float(totals[place])
    raised = best.precision(rates)
    all_ = subsets(len(outlook.sizes))
    return tuple(Raise(all_[i], float(raised[i])) for i in np.flatnonzero(raised > NOTHING))


def price(outlook: Outlook, raises: Sequence[Raise], noise: Noise) -> float:
    """Return by how much more precise marginals raise the spend of every cell, in epsilon or mu^2."""
    all_ = subsets(len(outlook.sizes))
    before = outlook.bought
    added = np.zeros(len(all_))
    for one in raises:
        added[all_.index(one.subset)] += one.precision
    return float((law_of(noise).cost(before + added) - law_of(noise).cost(before)).sum())


def still_paid(outlook: Outlook, raises: Sequence[Raise], noise: Noise) -> float:
    """Return which share of what likely group-bys cost one by one they still cost with more precise marginals."""
    prices, all_ = _Prices(outlook, noise, 0.0, math.inf), subsets(len(outlook.sizes))
    after = outlook.bought.copy()
    for one in raises:
        after[all_.index(one.subset)] += one.precision
    before, later = prices.later(np.stack([prices.start, prices.law.cost(after)]))
    return float(later / before) if before > 0 else 0.0


class _Prices:
    """The expected cost of everything, as a function of the rates of the marginals, shape (trials, 2^d)."""

    def __init__(self, outlook: Outlook, noise: Noise, alone: float, credit: float) -> None:
        self.law, self.alone, self.credit = law_of(noise), alone, credit
        self.bought, self.start = outlook.bought, self.law.cost(outlook.bought)
        self.known = np.maximum(outlook.known, NOTHING)
        self.each = marginal_information(outlook.sizes)
        self.now, self.wanted = shares(outlook.asked[-1].widths, outlook.sizes), outlook.asked[-1].variance
        self.next, self.weights = likely(outlook)
        variances = np.array([question.variance for question in outlook.asked[-LATEST:]])
        if variances.size > VARIANCES:
            variances = np.quantile(variances, (np.arange(VARIANCES) + 0.5) / VARIANCES)
        self.precisions = 1 / variances
        self.count = WORTH[noise] * (HORIZON + len(outlook.asked))
        self.missing = float(self.law.cost(self._short(self.known[None], self.now, 1 / self.wanted))[0])
        # Every count by itself, precisely enough for the sum of all of them.
        least = min(question.variance for question in outlook.asked[-LATEST:])
        self.top = float(self.law.cost(np.array(math.prod(outlook.sizes) / least)))

    def precision(self, rates: Floats) -> Floats:
        """Return how much more precise the marginals are at these rates."""
        after = self.law.precision(rates)
        return np.asarray(np.where(rates > self.start, after - self.bought, 0.0))

    def trials(self, rates: Floats) -> Floats:
        """Return rates of which one is changed: by steps, by what the credit allows, by what the question needs."""
        steps = np.concatenate([[0.0], np.geomspace(SHORTEST, LONGEST, RAISES) * self.top])
        left = self.credit - float((rates - self.start).sum())
        if math.isfinite(left):
            steps = np.concatenate([steps, [max(left - self.alone, 0.0), max(left, 0.0)]])
        found = np.repeat(rates[None], steps.size * rates.size, axis=0)
        for i in range(rates.size):
            found[i * steps.size : (i + 1) * steps.size, i] = self.start[i] + steps
        # Costs of Gaussian noise add up over parts, so that what is still needed can as well be measured by itself.
        return found if self.law.euclidean else np.concatenate([found, self._enough(rates)])

    def _enough(self, rates: Floats) -> Floats:
        """Return rates of which one is just so high that the present question needs nothing else."""
        low, high = np.diag(rates * 0 + self.start), np.diag(self.start + 2 * self.top)
        others = np.repeat(rates[None], rates.size, axis=0)
        np.fill_diagonal(others, 0.0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            told = self.known + self.precision(others + middle) @ self.each
            short = (self._short(told, self.now, 1 / self.wanted) > 0)[:, None]
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return others + high * ENOUGH

    def expected(self, rates: Floats) -> Floats:
        """Return the price of these rates, of the present question then, and of those that are likely to come."""
        paid = (rates - self.start).sum(axis=1)
        told = self.known + self.precision(rates) @ self.each
        later = self.count * self.later(rates)
        rest = np.full(paid.size, self.alone)
        if self.missing > 0:
            rest *= self.law.cost(self._short(told, self.now, 1 / self.wanted)) / self.missing
        return np.where((paid > 0) & (paid + rest > self.credit * ROUNDING), np.inf, paid + rest + later)

    def later(self, rates: Floats) -> Floats:
        """Return what one that is likely to come costs at these rates, in the mean."""
        told = self.known + self.precision(rates) @ self.each
        missing = self.precisions - 1 / (self.next @ (1 / told.T)).T[..., None]
        return np.asarray(self.law.cost(np.maximum(missing, 0.0)).mean(axis=-1) @ self.weights)

    @staticmethod
    def _short(told: Floats, question: Floats, precision: float) -> Floats:
        return np.asarray(np.maximum(precision - 1 / ((1 / told) @ question), 0.0))

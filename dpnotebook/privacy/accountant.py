"""Two ways to add up privacy loss: pure epsilon, and mu^2 of Gaussian differential privacy.

Costs are integers, in units of 10^-12 epsilon (pure) or 10^-12 mu^2 (Gaussian), so that sums are exact, ten queries
at 0.1 fit a budget of 1, and every process that reads the ledger computes the same total.

Thresholds, which hide groups of few units, cost delta beside that. It adds up by itself, in a part of the budget's
delta that is set apart from the start: what is left for mu^2 never depends on how many thresholds there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Protocol

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.budget import Budget, positive
from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE, Law, Noise

UNITS = 10**12  # of a cost, to epsilon = 1 or mu^2 = 1: costs add up in whole numbers
LEAST_UNITS = 1000  # of a cost: mu is then above 3e-5, where floating point is off by less than SAFE
SAFE = 1 - 1e-9  # of mu^2, what is spent of it: floating point is off by less than 4e-11, measured against 80 digits
SCALE_BITS = 42  # of sigma: 40 beyond its leading one, a short fraction that is hardly larger
TINIEST = 1e-320  # of a difference of tails that floating point has lost: its logarithm stays finite
HALVINGS = 200  # of an interval: it ends earlier, where no float lies between its ends
DELTA_UNITS = 10**24  # the delta of thresholds adds up in whole units of 10^-24


class Accountant(Protocol):
    """What a session, the planner and the ledger need to know about the notion of privacy they enforce."""

    @property
    def law(self) -> Law:
        """The law of the noise."""

    @property
    def noise(self) -> Noise:
        """The name of that law."""

    @property
    def total(self) -> int:
        """The whole budget, in units."""

    @property
    def delta(self) -> float:
        """The delta at which epsilon is reported: without what is kept for thresholds."""

    @property
    def threshold_delta(self) -> Fraction:
        """The most delta that all thresholds together may cost, beside `delta`."""

    def units(self, epsilon: object) -> int:
        """Return the cost, in units, of a query that alone is (epsilon, delta)-private."""

    def least_units(self, epsilon: object) -> int:
        """Return the least cost that was ever that of `epsilon`: delta may have been another when it was asked."""

    def epsilon(self, units: int) -> float:
        """Return the epsilon, at this accountant's delta, of a total cost in units."""

    def scale(self, units: int, norm: int) -> Fraction:
        """Return the least noise scale that keeps a cell of column norm `norm` at a cost of at most `units`."""

    def rate(self, scale: Fraction) -> Fraction:
        """Return the cost, in units, of one unit of column norm at this noise scale."""

    def per_unit(self, rows: int) -> int:
        """Return the factor on a row's cost when a privacy unit has up to `rows` rows."""


@dataclass(frozen=True)
class PureAccountant:
    """Pure epsilon-DP with discrete Laplace noise; column norms are L1 norms and costs are epsilon."""

    law: ClassVar[Law] = LAPLACE
    noise: ClassVar[Noise] = LAPLACE.name

    budget_epsilon: Fraction
    delta: float = 0.0
    threshold_delta: Fraction = Fraction(0)

    @cached_property
    def total(self) -> int:
        """The whole budget, in units of 10^-12 epsilon."""
        return math.floor(self.budget_epsilon * UNITS)

    def units(self, epsilon: object) -> int:
        """Return epsilon in units.

        Raises
        ------
        AccuracyError
            If epsilon is not a finite number of at least 10^-9.
        """
        return _at_least(math.floor(positive(epsilon, "epsilon") * UNITS), epsilon)

    def least_units(self, epsilon: object) -> int:
        """Return `units`, which depend on no delta."""
        return self.units(epsilon)

    def epsilon(self, units: int) -> float:
        """Return `units` as epsilon."""
        return units / UNITS

    def scale(self, units: int, norm: int) -> Fraction:
        """Return b = norm / epsilon."""
        return Fraction(_positive(norm) * UNITS, _positive(units))

    def rate(self, scale: Fraction) -> Fraction:
        """Return the units that one unit of L1 column norm costs: 1 / b."""
        return Fraction(UNITS) / scale

    def per_unit(self, rows: int) -> int:
        """Return `rows`: L1 distances add up."""
        return rows


@dataclass(frozen=True)
class GaussianAccountant:
    """Gaussian DP with rounded Gaussian noise; column norms are squared L2 norms and costs are mu^2.

    `before` are the deltas at which epsilons were said until the budget was raised.
    """

    law: ClassVar[Law] = GAUSSIAN
    noise: ClassVar[Noise] = GAUSSIAN.name

    budget_epsilon: Fraction
    delta: float
    threshold_delta: Fraction = Fraction(0)
    before: tuple[float, ...] = ()

    @cached_property
    def total(self) -> int:
        """The whole budget, in units of 10^-12 mu^2, rounded down."""
        return _gaussian_units(float(self.budget_epsilon), self.delta)

    def units(self, epsilon: object) -> int:
        """Return the units of a query that alone is (epsilon, delta)-DP.

        Raises
        ------
        AccuracyError
            If epsilon is not a finite number above 0, or too small to measure anything.
        """
        return _at_least(_gaussian_units(float(positive(epsilon, "epsilon")), self.delta), epsilon)

    def least_units(self, epsilon: object) -> int:
        """Return the least units of `epsilon` at this delta and at those of before."""
        said = float(positive(epsilon, "epsilon"))
        return min([self.units(epsilon), *(_gaussian_units(said, delta) for delta in self.before)])

    def epsilon(self, units: int) -> float:
        """Return the epsilon at which a mechanism of this mu^2 is (epsilon, delta)-DP."""
        return epsilon_of_mu(math.sqrt(units / UNITS), self.delta) if units > 0 else 0.0

    def scale(self, units: int, norm: int) -> Fraction:
        """Return sigma = sqrt(norm / mu^2), rounded up to 40 bits beyond its leading one."""
        variance = Fraction(_positive(norm) * UNITS, _positive(units))
        shift = 2 * max(0, SCALE_BITS - (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2)
        root = math.isqrt(math.ceil(variance * (1 << shift)) - 1) + 1
        return Fraction(root, 1 << (shift // 2))

    def rate(self, scale: Fraction) -> Fraction:
        """Return the units that one unit of squared L2 column norm costs: 1 / sigma^2."""
        return Fraction(UNITS) / (scale * scale)

    def per_unit(self, rows: int) -> int:
        """Return `rows`^2: L2 distances add up, costs are their squares."""
        return rows * rows


def accountant_for(budget: Budget) -> Accountant:
    """Return the accountant that enforces `budget`: pure or Gaussian, as its noise is."""
    epsilon, kept = positive(budget.epsilon, "the budget's epsilon"), budget.for_thresholds
    if not budget.law.needs_delta:
        return PureAccountant(epsilon, threshold_delta=kept)
    rest = Fraction(repr(budget.delta)) - kept
    delta = float(rest)
    if delta != budget.delta and Fraction(delta) > rest:  # a sum of the two parts never passes the whole
        delta = math.nextafter(delta, 0.0)
    return GaussianAccountant(epsilon, delta, threshold_delta=kept)


def whole_delta(delta: Fraction) -> Fraction:
    """Return the largest multiple of 10^-24 that is at most `delta`: what adds up without being rounded up."""
    return Fraction(math.floor(delta * DELTA_UNITS), DELTA_UNITS)


def with_thresholds(accountant: Accountant, thresholds: Fraction) -> float:
    """Return the delta that is promised where thresholds cost `thresholds`: that and the accountant's own."""
    return float(Fraction(repr(accountant.delta)) + thresholds)


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Return the least delta at which a mu-GDP mechanism is (epsilon, delta)-DP.

    Source: HDMM, Prop. 2 (the analytic Gaussian mechanism): Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).
    """
    return math.exp(_log_delta(mu, epsilon)) if mu > 0 else 0.0


def mu_of_budget(epsilon: float, delta: float) -> float:
    """Return the largest mu whose mechanisms are (epsilon, delta)-DP, rounded down; inverse of `delta_of_mu`."""
    target = math.log(delta)
    low, high = 0.0, 1.0
    while _log_delta(high, epsilon) < target:
        low, high = high, 2 * high
    return _bisect(lambda mu: mu == 0 or _log_delta(mu, epsilon) <= target, low, high)[0]


@lru_cache(maxsize=4096)
def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the least epsilon at which mu-GDP is (epsilon, delta)-DP, rounded up; inverse of `delta_of_mu`."""
    target = math.log(delta)
    if mu <= 0 or _log_delta(mu, 0.0) <= target:
        return 0.0
    high = 1.0
    while _log_delta(mu, high) > target:
        high *= 2
    return _bisect(lambda epsilon: _log_delta(mu, epsilon) > target, 0.0, high)[1]


@lru_cache(maxsize=4096)
def _gaussian_units(epsilon: float, delta: float) -> int:
    return math.floor(mu_of_budget(epsilon, delta) ** 2 * SAFE * UNITS)


def _at_least(units: int, epsilon: object) -> int:
    if units < LEAST_UNITS:
        small = float(positive(epsilon, "epsilon"))
        raise AccuracyError(f"epsilon = {small:g} is too small to measure anything; write 1e-6 or more")
    return units


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError(f"costs and column norms are whole numbers from 1, not {number}")
    return number


def _log_delta(mu: float, epsilon: float) -> float:
    from scipy.special import erfcx, log_ndtr

    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu  # HDMM, Proposition 2, for mu = 1 / sigma
    if a < 0:  # both terms are tails: subtract them at a common scale, or nothing is left of them
        return math.log(0.5) - a * a / 2 + math.log(max(erfcx(-a / math.sqrt(2)) - erfcx(-b / math.sqrt(2)), TINIEST))
    upper, lower = float(log_ndtr(a)), epsilon + float(log_ndtr(b))
    return upper + math.log(max(-math.expm1(min(lower - upper, 0.0)), TINIEST))


def _bisect(holds_below: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if holds_below(middle):
            low = middle
        else:
            high = middle
    return low, high

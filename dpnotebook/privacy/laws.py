"""The laws of noise, an object each: all in which Laplace and Gaussian noise differ is asked of it.

What differs follows from few facts. Laplace noise hides the L1 norm of a change and costs epsilon, Gaussian noise the
L2 norm and costs mu^2: the sensitivities, the prices of a variance and the weights of the best strategies are written
here once, by the power of the norm. A weighted sum of Gaussian draws is Gaussian again (it is a stable law), of Laplace
draws it is not: that decides how far sums reach. Laplace noise of a smaller scale can be drawn beside what was drawn
before, and is kept on the integers; Gaussian noise does without the first, and is drawn on a fine grid.

Names of laws, as budgets, strategies and ledgers write them, are looked up by `law_of`; nothing else compares them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.laplace_sums import combined_quantiles
from dpnotebook.privacy.laplace_tails import grid_excess, laplace_quantile, reach_of_sums, sum_quantile
from dpnotebook.privacy.noise import (
    checked_confidence,
    checked_scale,
    discrete_laplace,
    gaussian_variance,
    laplace_variance,
    rounded_gaussian,
)
from dpnotebook.privacy.randomness import Source

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Noise = Literal["laplace", "gaussian"]  # the name of a law, in budgets, strategies and ledgers
Number = TypeVar("Number", int, float, NDArray[Any])  # what a formula takes, and gives
Amount = TypeVar("Amount", float, NDArray[np.float64])

COMPUTED = 1.003  # by how much a half-width that is computed from a law may pass the exact one
# Gaussian noise of at least 2^GRID_BITS steps, so that rounding it to the grid costs nothing.
GRID_BITS = 10
SAFE_LOG = 1e-10  # log-probabilities are off by less; so much is given away, that a claim about them holds


class Law(ABC):
    """A law of noise: what it hides, what it costs, how it is drawn, and how far it reaches.

    Attributes
    ----------
    name
        As users, strategies and ledgers write it.
    title
        As it stands in a sentence.
    drawn
        What is drawn, in the words of the explanation of a plan.
    power
        p of the Lp norm that it hides. A column norm is a sum of |entry|^p, and costs grow with 1 / error^p.
    stable
        Whether a weighted sum of draws has the same law, so that its variance alone says how far it reaches.
    refines
        Whether a measurement can be made more precise for the difference of the prices.
    needs_delta
        Whether a budget for it has a delta of which noise needs a part.
    on_integers
        Whether noise of counts is kept on the integers; otherwise it is drawn on a grid so fine that nothing is lost.
    tail_ratio
        How many times as wide normal noise is that is no less likely to be far out, down to 1e-10.
    """

    name: ClassVar[Noise]
    title: ClassVar[str]
    drawn: ClassVar[str]
    power: ClassVar[Literal[1, 2]]
    stable: ClassVar[bool]
    refines: ClassVar[bool]
    needs_delta: ClassVar[bool]
    on_integers: ClassVar[bool]
    tail_ratio: ClassVar[float]

    def __repr__(self) -> str:
        return f"{self.title} noise"

    # What it hides and what it costs.
    @property
    def euclidean(self) -> bool:
        """Whether it hides the Euclidean length of a change, for which optima have closed forms."""
        return self.power == 2

    @property
    def exponent(self) -> int:
        """What a column norm is raised to for the squared sensitivity: (sum of |entry|^p)^(2 / p)."""
        return 2 // self.power

    def squared_sensitivity(self, norm: Number) -> Number:
        """Return the squared sensitivity of a column norm; it multiplies the variance of what has norm one."""
        found: Number = norm**self.exponent
        return found

    @abstractmethod
    def sensitivity(self, norm: int) -> float:
        """Return the sensitivity of a column norm: (sum of |entry|^p)^(1 / p)."""

    @abstractmethod
    def powers(self, entries: NDArray[Any]) -> NDArray[Any]:
        """Return |entry|^p of every entry, what column norms are sums of; shape of entries."""

    @abstractmethod
    def roots(self, powers: Floats) -> Floats:
        """Return the entries of which `powers` are |entry|^p; shape of powers."""

    def best_weights(self, errors: Floats) -> Floats:
        """Return weights w of least total error sum(errors / w^2) for their column norm sum(w^p), up to a factor.

        Source: HDMM, Definition 19, for Laplace noise; Li and Miklau, Program 1, where all columns are alike.
        """
        return np.asarray(errors ** (1 / (2 + self.power)))

    @abstractmethod
    def cost(self, precision: Amount) -> Amount:
        """Return what a precision 1 / variance of the continuous law costs at column norm one: epsilon, or mu^2."""

    @abstractmethod
    def precision(self, cost: Amount) -> Amount:
        """Return the precision 1 / variance of the continuous law at this cost; the inverse of `cost`."""

    @abstractmethod
    def variance_of_rate(self, rate: Amount) -> Amount:
        """Return the variance of the continuous law that costs 1 / rate: of scale b = rate, or sigma^2 = rate."""

    # How it is drawn.
    @abstractmethod
    def draw(self, scale: object, size: int, source: Source | None = None) -> Integers:
        """Return integer noise, shape (size,); see `discrete_laplace` and `rounded_gaussian`."""

    @abstractmethod
    def variance(self, scale: object) -> float:
        """Return the variance of integer noise."""

    @abstractmethod
    def grid_bits(self, scale: Fraction) -> int:
        """Return the number of bits below the integers on which noise of counts is drawn."""

    @abstractmethod
    def count_variance(self, scale: Fraction) -> float:
        """Return the variance of one noisy count, whose noise is drawn on its grid."""

    @abstractmethod
    def scale_of_variance(self, variance: float) -> float:
        """Return the noise scale of this variance of a count; infinite where no scale has it."""

    # How far it reaches.
    @abstractmethod
    def half_width(self, scale: Fraction, confidence: float) -> int:
        """Return the least k with P(|V| <= k) >= confidence, V integer noise."""

    @abstractmethod
    def kappa(self, confidence: float) -> float:
        """Return the largest half-width, in standard deviations, of weighted sums of draws; see `tails.kappa`."""

    @abstractmethod
    def half_widths_of_sums(
        self, weights: Floats, scales: Sequence[Fraction], of: Indices, confidence: float
    ) -> Floats:
        """Return half-widths of weighted sums of draws, shape (sums,); see `tails.half_widths`.

        Parameters
        ----------
        weights
            What each draw counts for, from 0 to 1, shape (sums, draws).
        scales
            The scales that there are.
        of
            Which of them each draw has, shape (draws,).
        confidence
            Probability that the interval covers.
        """

    @abstractmethod
    def farthest(
        self,
        std_errors: Floats,
        confidence: float,
        step: float | Floats,
        scale: float,
        peaks: Floats | None = None,
    ) -> Floats:
        """Return how far combinations of these standard errors reach at most; see `tails.farthest`.

        With `peaks`, the sums of fourth powers of their weights over the squared sums of squares (`reach_of_sums`).
        """

    @abstractmethod
    def spread_within(self, half_width: float, confidence: float, step: float, scale: float) -> float:
        """Return the largest standard error whose `farthest` is at most `half_width`; 0 where there is none."""

    @abstractmethod
    def log_tail(self, scale: Fraction, least: ArrayLike) -> Floats:
        """Return log P(V >= m) of integer noise, shape of m."""

    @abstractmethod
    def log_tail_of_run(self, scale: Fraction, least: int, width: int) -> float:
        """Return a bound on log P(V_1 + ... + V_width >= least), 2 or 3 draws of integer noise."""

    def least_beyond(self, scale: Fraction, log_probability: float) -> int:
        """Return the least m with log P(V >= m) <= log_probability, never too small by floating point."""
        near = math.floor(self._near_tail(float(checked_scale(scale)), log_probability)) + np.arange(-2, 4)
        holds = self.log_tail(scale, near) <= log_probability - SAFE_LOG * max(1.0, abs(log_probability) * 1e-3)
        return int(near[np.flatnonzero(holds)[0]]) if holds.any() else int(near[-1]) + 1

    @abstractmethod
    def _near_tail(self, scale: float, log_probability: float) -> float:
        """Return a number within two of the least m with log P(V >= m) <= log_probability."""


class LaplaceLaw(Law):
    """Discrete Laplace noise, for pure epsilon-DP: P(V = k) = tanh(1 / 2b) exp(-|k| / b)."""

    name = "laplace"
    title = "Laplace"
    drawn = "discrete Laplace"
    power = 1
    stable = False
    refines = True
    needs_delta = False
    on_integers = True  # where the variance is least for its epsilon
    tail_ratio = 2.5  # ln(1 / 2p) / sqrt(2) over the normal quantile of p, for p = 1e-10

    def sensitivity(self, norm: int) -> float:
        """Return the L1 norm as it is."""
        return norm

    def powers(self, entries: NDArray[Any]) -> NDArray[Any]:
        """Return |entry|."""
        return np.asarray(np.abs(entries))

    def roots(self, powers: Floats) -> Floats:
        """Return them as they are."""
        return powers

    def cost(self, precision: Amount) -> Amount:
        """Return epsilon = sqrt(2 p), as Laplace noise has variance 2 / epsilon^2."""
        found: Amount = np.sqrt(2 * precision)
        return found

    def precision(self, cost: Amount) -> Amount:
        """Return epsilon^2 / 2 (HDMM, Proposition 3)."""
        return cost**2 / 2

    def variance_of_rate(self, rate: Amount) -> Amount:
        """Return 2 b^2; the discrete law of the same cost always has a little less."""
        return 2 * rate**2

    def draw(self, scale: object, size: int, source: Source | None = None) -> Integers:
        """Return discrete Laplace noise."""
        return discrete_laplace(scale, size, source)

    def variance(self, scale: object) -> float:
        """Return 2 a / (1 - a)^2, a = exp(-1 / b)."""
        return laplace_variance(scale)

    def grid_bits(self, scale: Fraction) -> int:
        """Return 0: it stays on the integers, where its variance is least for its epsilon."""
        return 0

    def count_variance(self, scale: Fraction) -> float:
        """Return that of integer noise."""
        return laplace_variance(scale)

    def scale_of_variance(self, variance: float) -> float:
        """Return b of the discrete law: 2 a / (1 - a)^2, a = exp(-1 / b), solved for b."""
        root = math.sqrt(2 * variance + 1)
        ratio = 2 * variance / (root + 1) ** 2
        log_ratio = math.log1p(-2 / (root + 1)) if variance > 1 else math.log(ratio) if ratio > 0 else -math.inf
        return -1 / log_ratio if log_ratio else math.inf

    def half_width(self, scale: Fraction, confidence: float) -> int:
        """Return the quantile of the discrete law."""
        return laplace_quantile(scale, confidence)

    def kappa(self, confidence: float) -> float:
        """Return the largest of the normal limit's and of those of few draws."""
        return max(_normal_quantile(confidence), sum_quantile(confidence))

    def half_widths_of_sums(
        self, weights: Floats, scales: Sequence[Fraction], of: Indices, confidence: float
    ) -> Floats:
        """Return exact quantiles of single draws, and computed ones of sums."""
        draws, width = np.count_nonzero(weights, axis=1), np.zeros(len(weights))
        for row in np.flatnonzero(draws == 1):
            draw = np.argmax(weights[row])
            width[row] = weights[row, draw] * laplace_quantile(scales[of[draw]], confidence)
        several = np.flatnonzero(draws > 1)
        if several.size:
            width[several] = combined_quantiles(weights[several], _floats(scales)[of], confidence)
        return np.asarray(width)

    def farthest(
        self,
        std_errors: Floats,
        confidence: float,
        step: float | Floats,
        scale: float,
        peaks: Floats | None = None,
    ) -> Floats:
        """Return kappa standard errors, or less where weights are known to be many, and what whole numbers add."""
        times = self.kappa(confidence) if peaks is None else reach_of_sums(confidence, peaks)
        reach = std_errors * (times * COMPUTED) + step * grid_excess(confidence, 1.0, scale)
        return np.where(std_errors == 0, 0.0, reach)

    def spread_within(self, half_width: float, confidence: float, step: float, scale: float) -> float:
        """Return what the half-width leaves beside what whole numbers add, over kappa."""
        return max(half_width - grid_excess(confidence, step, scale), 0.0) / (self.kappa(confidence) * COMPUTED)

    def log_tail(self, scale: Fraction, least: ArrayLike) -> Floats:
        """Return log of a^m / (1 + a) for m above 0, a = exp(-1 / b), and that of the rest below."""
        m, s = np.asarray(least, dtype=float), float(checked_scale(scale))
        far = np.where(m > 0, m, 1 - m)
        beyond = -far / s - math.log1p(math.exp(-1 / s))
        return np.where(m > 0, beyond, np.log1p(-np.exp(np.minimum(beyond, -1e-300))))

    def log_tail_of_run(self, scale: Fraction, least: int, width: int) -> float:
        """Return that of continuous noise, e^-y times a polynomial in y, 1 a draw farther out.

        A discrete Laplace value is at most 1 above a continuous one, by the two tails.
        """
        y = (least - width) / float(scale)
        if y <= 0:
            return 0.0
        polynomial = (2 + y) / 4 if width == 2 else (8 + 5 * y + y * y) / 16
        return math.log(polynomial) - y

    def _near_tail(self, scale: float, log_probability: float) -> float:
        if log_probability < -math.log(2):
            return -scale * (log_probability + math.log1p(math.exp(-1 / scale)))
        # P(V >= m) = 1 - a^(1 - m) / (1 + a)
        return 1 + scale * (math.log(-math.expm1(log_probability)) + math.log1p(math.exp(-1 / scale)))


class GaussianLaw(Law):
    """Rounded Gaussian noise, for Gaussian differential privacy: the Gaussian mechanism, rounded to its grid."""

    name = "gaussian"
    title = "Gaussian"
    drawn = "Gaussian"
    power = 2
    stable = True
    refines = False  # another measurement beside the first is as good
    needs_delta = True
    on_integers = False
    tail_ratio = 1.0

    def sensitivity(self, norm: int) -> float:
        """Return the L2 norm of a squared one."""
        return math.sqrt(norm)

    def powers(self, entries: NDArray[Any]) -> NDArray[Any]:
        """Return entry^2."""
        return np.asarray(entries**2)

    def roots(self, powers: Floats) -> Floats:
        """Return square roots."""
        return np.sqrt(powers)

    def cost(self, precision: Amount) -> Amount:
        """Return mu^2, which is the precision."""
        return precision

    def precision(self, cost: Amount) -> Amount:
        """Return mu^2, as Gaussian noise has variance 1 / mu^2 (HDMM, Proposition 2)."""
        return cost

    def variance_of_rate(self, rate: Amount) -> Amount:
        """Return sigma^2, which is the rate."""
        return rate

    def draw(self, scale: object, size: int, source: Source | None = None) -> Integers:
        """Return rounded Gaussian noise."""
        return rounded_gaussian(scale, size, source)

    def variance(self, scale: object) -> float:
        """Return that of round(N(0, sigma^2))."""
        return gaussian_variance(scale)

    def grid_bits(self, scale: Fraction) -> int:
        """Return what makes sigma at least 2^GRID_BITS steps."""
        return max(0, GRID_BITS - math.floor(math.log2(scale)))

    def count_variance(self, scale: Fraction) -> float:
        """Return sigma^2 and that of rounding to the grid."""
        return float(scale) ** 2 + 4.0 ** -self.grid_bits(scale) / 12

    def scale_of_variance(self, variance: float) -> float:
        """Return sigma."""
        return math.sqrt(variance)

    def half_width(self, scale: Fraction, confidence: float) -> int:
        """Return the least k + 1/2 that the normal quantile does not pass: |round(x)| <= k where |x| < k + 1/2."""
        return max(0, math.ceil(self.kappa(confidence) * float(scale) - 0.5))

    def kappa(self, confidence: float) -> float:
        """Return the normal quantile."""
        return _normal_quantile(confidence)

    def half_widths_of_sums(
        self, weights: Floats, scales: Sequence[Fraction], of: Indices, confidence: float
    ) -> Floats:
        """Return normal quantiles of the standard deviations of the sums."""
        return np.asarray(self.kappa(confidence) * np.linalg.norm(weights * _floats(scales)[of], axis=1))

    def farthest(
        self,
        std_errors: Floats,
        confidence: float,
        step: float | Floats,
        scale: float,
        peaks: Floats | None = None,
    ) -> Floats:
        """Return kappa standard errors."""
        return std_errors * self.kappa(confidence)

    def spread_within(self, half_width: float, confidence: float, step: float, scale: float) -> float:
        """Return the half-width over kappa."""
        return half_width / self.kappa(confidence)

    def log_tail(self, scale: Fraction, least: ArrayLike) -> Floats:
        """Return that of the normal law from m - 1/2 on."""
        from scipy.special import log_ndtr

        m, s = np.asarray(least, dtype=float), float(checked_scale(scale))
        return np.asarray(log_ndtr(-(m - 0.5) / s))

    def log_tail_of_run(self, scale: Fraction, least: int, width: int) -> float:
        """Return that of their normal sum, 1/2 a draw farther out: so far rounding moves a value at most."""
        from scipy.special import log_ndtr

        return float(log_ndtr(-(least - width / 2) / (float(scale) * math.sqrt(width))))

    def _near_tail(self, scale: float, log_probability: float) -> float:
        from scipy.special import ndtri_exp

        return -scale * float(ndtri_exp(min(log_probability, -1e-300))) + 0.5


LAPLACE: Law = LaplaceLaw()
GAUSSIAN: Law = GaussianLaw()
LAWS: dict[Noise, Law] = {law.name: law for law in (LAPLACE, GAUSSIAN)}


def law_of(noise: Noise) -> Law:
    """Return the law of this name."""
    return LAWS[noise]


def draw_integers(noise: Noise, scale: object, size: int, source: Source | None = None) -> Integers:
    """Draw integer noise of a law and a scale, as `discrete_laplace` and `rounded_gaussian`; shape (size,)."""
    return LAWS[noise].draw(scale, size, source)


@lru_cache(maxsize=1024)
def _normal_quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return -float(ndtri((1 - checked_confidence(confidence)) / 2))


def _floats(scales: Sequence[Fraction]) -> Floats:
    return np.array([float(each) for each in scales])

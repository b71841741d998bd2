"""A strategy: what is measured in order to answer a workload, and how wrong the answers will be."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import AccuracyError, WorkloadError, shorten
from dpnotebook.inference.marginal_algebra import marginal_algebra
from dpnotebook.privacy.accountant import mu_of_budget
from dpnotebook.privacy.budget import positive
from dpnotebook.privacy.laws import LAWS, Law, Noise, law_of
from dpnotebook.query.objective import Objective, checked_objective
from dpnotebook.strategy.blocks import Blocks, blocks
from dpnotebook.strategy.bounds import is_near, svd_bound
from dpnotebook.views import ShowsCard, view
from dpnotebook.workload import Workload
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.trusted import trusted

FAR = 4.0  # times a bound: an error this far above one that nobody proved to be near is compared with nothing


@dataclass(frozen=True, repr=False)
class Strategy(ShowsCard):
    """Measure `operator` with equal noise on every row, answer `workload` by least squares.

    Expected errors are exact and independent of the data: |A|^2 |W A^+|_F^2 times the variance of noise for
    sensitivity one (HDMM, Proposition 4), with |A| the largest L1 (Laplace) or L2 (Gaussian) norm of a column.

    Parameters
    ----------
    workload
        What is to be answered, shape (m, n).
    operator
        What is measured, shape (p, n), with integer entries. One of a class that is not of this package is written out
        as a matrix, whose norms are computed from its entries.
    noise
        "laplace" or "gaussian".
    name
        What to call it in a plan.
    split
        Whether each part of the workload is answered from its own part of the operator alone (HDMM, section 10, case
        3), which needs no least squares over all cells at once; answers of different parts then need not agree.
    certificate
        What an optimizer proved that no strategy's objective can be below, for this noise; of the worst answer where
        it was chosen for that.
    chosen_for
        Whether it was chosen for the total or for the worst answer.

    Raises
    ------
    WorkloadError
        If the two are not over the same cells, the operator is not integer, or parts do not correspond.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import Hierarchy, Prefix
    >>> tree = strategy.Strategy(Prefix(64), Hierarchy(64, 4), "laplace", "a tree of fours")
    >>> tree.sensitivity  # a row is counted once a level
    4
    >>> round(tree.rmse(epsilon=1.0), 2), round(tree.lower_bound(epsilon=1.0), 2)
    (7.31, 2.89)
    >>> tree.answers(Hierarchy(64, 4).matvec([1] * 64))[:3]  # of exact counts, exact answers
    array([1., 2., 3.])
    """

    workload: Workload
    operator: Workload
    noise: Noise
    name: str
    split: bool = False
    certificate: float = 0.0
    chosen_for: Objective = "total"

    def __post_init__(self) -> None:
        if self.noise not in tuple(LAWS):
            raise WorkloadError(f'the noise of a strategy is "laplace" or "gaussian", not {shorten(self.noise)}')
        object.__setattr__(self, "operator", trusted(self.operator))
        if self.workload.shape[1] != self.operator.shape[1]:
            asked, measured = self.workload.shape[1], self.operator.shape[1]
            raise WorkloadError(f"queries over {asked:,} cells cannot be answered from measurements of {measured:,}")
        if not self.operator.integer:
            raise WorkloadError("what is measured must have integer coefficients, so that integer noise is exact")
        _ = self._reconstruction

    @property
    def law(self) -> Law:
        """The law of the noise that it is for."""
        return law_of(self.noise)

    @property
    def norm(self) -> int:
        """Largest column sum of |entry| (Laplace) or entry^2 (Gaussian): the `norm` of `Accountant.scale`."""
        return int(self.operator.max_column_norm(self.law.power))

    @property
    def sensitivity(self) -> float:
        """L1 (Laplace) or L2 (Gaussian) sensitivity of what is measured."""
        return self.law.sensitivity(self.norm)

    @cached_property
    def objective(self) -> float:
        """Return |A|^2 |W A^+|_F^2 (HDMM, eq. 1); infinite if the strategy does not support the workload."""
        return self._scaled(self._reconstruction.total_variance())

    @cached_property
    def worst(self) -> float:
        """Return |A|^2 max_i |w_i A^+|^2: the objective of the worst answer; infinite if one is not determined.

        As for the total, an answer of weight w counts w^2 times.
        """
        return self._scaled(float(self.error_factors().max(initial=0.0)))

    @cached_property
    def bound(self) -> float:
        """A lower bound on the objective of every strategy for this workload: `svd_bound`, or what was certified."""
        return max(svd_bound(self.workload), self.certificate if self.chosen_for == "total" else 0.0)

    @cached_property
    def worst_bound(self) -> float:
        """A lower bound on `worst` of every strategy for this workload: the worst answer is never below the mean."""
        return max(self.bound / self.workload.shape[0], self.certificate if self.chosen_for == "worst" else 0.0)

    def _scaled(self, variance: float) -> float:
        """Return a variance times the squared sensitivity, which of products of many attributes no float may hold."""
        try:
            return self._squared_sensitivity * variance
        except OverflowError:
            pass
        if not sys.float_info.min <= variance < math.inf:
            return math.inf
        try:
            return float(self._squared_sensitivity * Fraction(variance))
        except OverflowError:
            return math.inf

    @property
    def _squared_sensitivity(self) -> int:
        return self.law.squared_sensitivity(self.norm)

    def total_squared_error(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the expected sum over all answers of the squared error.

        Parameters
        ----------
        epsilon, delta
            Privacy of the release; Laplace noise has delta = 0 and variance 2 (|A| / epsilon)^2, Gaussian noise the
            least sigma that is (epsilon, delta)-private.

        Raises
        ------
        AccuracyError
            If epsilon or delta is not in its range, or delta does not fit the noise.
        """
        return self.objective * unit_variance(self.noise, epsilon, delta)

    def plot(
        self,
        what: Literal["measured", "errors"] = "measured",
        *,
        part: int = 0,
        epsilon: float = 1.0,
        delta: float | None = None,
    ) -> Any:
        """Return a plotly figure of what is measured, or of the error of every answer.

        Parameters
        ----------
        what
            "measured": a heat map of the measurements of an attribute, or how the sensitivity is shared by sets of
            attributes. "errors": the root mean squared error of every answer.
        part
            Which of its figures, where there are several.
        epsilon, delta
            Privacy that the errors are for; delta for Gaussian noise only, 1e-6 unless given.

        Raises
        ------
        WorkloadError
            If there is no such figure.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> figure = dpn.strategy.h2(dpn.workload.Prefix(8)).plot("errors", epsilon=0.5)
        >>> type(figure).__name__
        'Figure'
        """
        return view("strategy", self, what, part=part, epsilon=epsilon, delta=delta)

    def rmse(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the root of the mean over all answers of the expected squared error."""
        return math.sqrt(self.total_squared_error(epsilon, delta) / self.workload.shape[0])

    def lower_bound(self, epsilon: float, delta: float = 0.0) -> float | None:
        """Return what `rmse` cannot be below, for any strategy; None where nothing near it is known.

        It is what an optimizer proved, or the SVD bound (HDMM, Proposition 5), or a bound over subsets of the
        attributes. For Laplace noise the same bounds hold, but are far below what anybody reaches where many answers
        share the noise: they count as known where they are within a factor of 4.
        """
        if not is_known(self.workload, self.noise, self.objective, self.bound, self.certificate):
            return None
        return math.sqrt(self.bound * unit_variance(self.noise, epsilon, delta) / self.workload.shape[0])

    def worst_error(self, epsilon: float, delta: float = 0.0) -> float:
        """Return the root of the expected squared error of the worst answer."""
        return math.sqrt(self.worst * unit_variance(self.noise, epsilon, delta))

    @property
    def optimality(self) -> float | None:
        """How many times its lower bound `rmse` is, or `worst_error` where it was chosen for that.

        1 is proof that no strategy is better. None where no bound is known that is near (see `lower_bound`).
        """
        worst = self.chosen_for == "worst"
        value, bound = (self.worst, self.worst_bound) if worst else (self.objective, self.bound)
        known = is_known(self.workload, self.noise, value, bound, self.certificate, worst=worst)
        return math.sqrt(value / bound) if known else None

    def error_factors(self) -> Array:
        """Return the variance of each answer for measurements of unit variance, shape (m,).

        The variance of answer i is entry i times the variance of the noise on one measurement. Infinite where the
        strategy does not determine the answer. Computed through factors; nothing of size m x m is formed.
        """
        require_memory(self.workload.shape[0], f"the variances of {self.workload.shape[0]:,} answers")
        return _error_factors(self)

    def answer_weights(self, rows: ArrayLike) -> Array:
        """Return how the given answers combine the measurements: rows of W A^+, shape (len(rows), p).

        Parameters
        ----------
        rows
            Indices of answers, from 0 to m - 1.

        Raises
        ------
        WorkloadError
            If an index is out of range, an answer is not determined, or the weights do not fit in memory.
        """
        index = np.asarray(rows, dtype=np.int64).reshape(-1)
        m, p = self.workload.shape[0], self.operator.shape[0]
        if index.size and not (index.min() >= 0 and index.max() < m):
            raise WorkloadError(f"the answers of this workload are numbered 0 to {m - 1:,}")
        require_memory(index.size * p, f"the weights of {index.size:,} answers over {p:,} measurements")
        return self._reconstruction.weights(index)

    def answers(self, noisy: ArrayLike) -> Array:
        """Return the answers that the noisy measurements imply, shape (m,).

        They are W A^+ y (HDMM, Definition 10): `error_factors` and `answer_weights` describe exactly these. Products
        are never expanded to all cells.

        Parameters
        ----------
        noisy
            Noisy answers of the operator, shape (p,).

        Raises
        ------
        WorkloadError
            If there is not one finite number for every measurement.
        """
        measured = np.asarray(noisy)
        p = self.operator.shape[0]
        if measured.shape != (p,) or measured.dtype.kind not in "biuf" or not np.isfinite(measured).all():
            raise WorkloadError(f"reconstruction needs one finite number for each of {p:,} measurements")
        require_memory(self.workload.shape[0], f"{self.workload.shape[0]:,} answers")
        return self._reconstruction.answers(measured)

    def answers_of_draws(self, noisy: Array) -> Array:
        """Return `answers` of several draws of the measurements, shape (draws, p), as shape (draws, m)."""
        if isinstance(self._reconstruction, Blocks):
            return self._reconstruction.answers(noisy)
        return np.stack([self._reconstruction.answers(one) for one in noisy])

    def to_json(self) -> dict[str, Any]:
        """Return the strategy as JSON values."""
        values = {
            "workload": self.workload.to_json(),
            "operator": self.operator.to_json(),
            "noise": self.noise,
            "name": self.name,
            "split": self.split,
            "certificate": self.certificate,
        }
        return values if self.chosen_for == "total" else values | {"chosen_for": self.chosen_for}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Strategy:
        """Return the strategy that `to_json` wrote."""
        try:
            rest = {name: value[name] for name in ("noise", "name", "split")}
            rest["certificate"] = value.get("certificate", 0.0)  # plans recorded by 0.1 have none
            rest["chosen_for"] = checked_objective(value.get("chosen_for", "total"))
            return cls(Workload.from_json(value["workload"]), Workload.from_json(value["operator"]), **rest)
        except (KeyError, TypeError, AccuracyError):
            raise WorkloadError("these JSON values do not describe a strategy") from None

    @cached_property
    def _reconstruction(self) -> Reconstruction:
        algebra = None if self.split else marginal_algebra(self.workload, self.operator)
        return algebra or blocks(self.workload, self.operator, self.split)


def is_known(
    workload: Workload, noise: Noise, least: float, bound: float, certificate: float = 0.0, *, worst: bool = False
) -> bool:
    """Return whether a lower bound says something of the best strategy there is.

    Parameters
    ----------
    workload, noise
        What is to be answered, and with which noise.
    least
        The least objective that is known.
    bound
        What none can be below.
    certificate
        What an optimizer proved; 0 where none did.
    worst
        Whether it is about the worst answer.
    """
    if least <= FAR**2 * bound:
        return True
    return law_of(noise).euclidean and (certificate > 0 or (not worst and is_near(workload)))


@lru_cache(maxsize=4)
def _error_factors(strategy: Strategy) -> Array:
    """Return the variances of a strategy's answers; they are compared, then planned with, then shown."""
    found = np.asarray(strategy._reconstruction.variances())
    found.setflags(write=False)
    return found


class Reconstruction(Protocol):
    """How answers follow from the measurements of a strategy."""

    def total_variance(self) -> float:
        """Return the sum of `variances`; infinite if an answer is not determined."""

    def variances(self) -> Array:
        """Return the variance of each answer for measurements of unit variance, shape (m,)."""

    def weights(self, rows: Array) -> Array:
        """Return the coefficients of the measurements in the given answers, shape (rows, p)."""

    def answers(self, noisy: Array) -> Array:
        """Return the answers that follow from noisy measurements, shape (m,)."""


def unit_variance(noise: Noise, epsilon: float, delta: float = 0.0) -> float:
    """Return the variance of the noise on one measurement of sensitivity one.

    Parameters
    ----------
    noise
        "laplace": 2 / epsilon^2. "gaussian": 1 / mu^2 of the analytic Gaussian mechanism (HDMM, Proposition 2).
    epsilon, delta
        Privacy of the release.

    Raises
    ------
    AccuracyError
        If epsilon or delta is not in its range, or delta does not fit the noise.
    """
    law, cost = law_of(noise), float(positive(epsilon, "epsilon"))
    if not law.needs_delta:
        if delta:
            raise AccuracyError("Laplace noise is private without a delta; leave delta out or select Gaussian noise")
        return 1 / law.precision(cost)
    if not 0 < float(positive(delta, "the delta of Gaussian noise")) < 1:
        raise AccuracyError(f"the delta of Gaussian noise must be between 0 and 1, not {shorten(delta)}")
    return 1 / law.precision(mu_of_budget(cost, float(delta)) ** 2)

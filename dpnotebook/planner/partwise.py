"""Marginals of so many counts that none is worked out before somebody reads it: one table of counts at a time.

All counts of a table have the same error, by symmetry in the levels, so that a plan has one number a table. What is
charged, measured and recorded is the same as for fewer answers; the answers of a table follow from the record alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DomainError, WorkloadError
from dpnotebook.inference.marginal_algebra import MarginalAlgebra, as_marginals
from dpnotebook.planner.answers import Estimates, Floats, LinearAnswers, written
from dpnotebook.privacy.laws import Law, law_of
from dpnotebook.privacy.tails import half_widths
from dpnotebook.query.question import Question
from dpnotebook.strategy import Strategy, opt_marginals, opt_residual
from dpnotebook.workload import Centred, Identity, Marginals, Workload
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm, sparse_terms

MAX_ANSWERS = 2 * 10**6  # that are worked out at once: more are no table that a person reads
MOST_NUMBERS = 12 * 10**7  # that are recorded at once: SQLite keeps a thousand million bytes in one place
BYTES = 40  # of memory for each recorded number at most: 32 to 34 were measured, more where noise is of many digits


@dataclass(frozen=True)
class PartwiseAnswers(LinearAnswers):
    """Counts of many marginals; errors, factors and units have one number a marginal, shape (marginals,)."""

    @cached_property
    def parts(self) -> tuple[SparseTerm, ...]:
        """The marginals that are asked for."""
        return marginals_of(self.strategy.workload) or ()

    @cached_property
    def factors(self) -> Floats:
        """Variance of the counts of every marginal, times their weights, for noise of unit variance."""
        return MarginalAlgebra(self._measured, self.parts).variances_of_terms()

    @cached_property
    def units(self) -> Floats:
        """What one of each answer of the strategy is worth."""
        weights = np.array([float(term.weight) for term in self.parts])
        return np.full(weights.size, self.step) if self.by_weight else self.step / weights

    @property
    def _many(self) -> bool:
        return True

    @cached_property
    def _measured(self) -> Marginals:
        found = as_marginals(self.strategy.operator)
        assert found is not None
        return found

    def holds(self, axes: Subset) -> bool:
        """Return whether a marginal is one of those that are asked for, or sums of one."""
        return any(set(axes) <= set(term.axes) for term in self.parts)

    def estimate_of(
        self, axes: Subset, noisy: NDArray[np.int64], bits: int, law: Law, scale: Fraction, confidence: float
    ) -> Estimates:
        """Return the counts of one marginal with their intervals, from all that was measured.

        Parameters
        ----------
        axes
            Its attributes: ascending places.
        noisy, bits
            The recorded numbers, shape (numbers,), which are those that were drawn times 2^bits.
        law, scale, confidence
            As for `estimate`.

        Raises
        ------
        WorkloadError
            If it has too many counts.
        """
        term = SparseTerm(1, axes, tuple(Identity(self._measured.sizes[i]) for i in axes))
        if term.queries > MAX_ANSWERS:
            raise WorkloadError(
                f"this table has {term.queries:,} counts, and at most {MAX_ANSWERS:,} are worked out at once"
            )
        algebra = MarginalAlgebra(self._measured, (term,))
        value = np.ldexp(algebra.answers(noisy), -bits) * self.step
        factor = algebra.variances_of_terms()
        std_error = np.sqrt(factor * law.count_variance(scale)) * self.step
        if self.direct and any(term.axes == axes for term in self.parts):
            width = half_widths(self.units[:1, None], scale, law.name, confidence)
        elif law.stable:
            width = std_error * law.kappa(confidence)
        else:
            width = law.farthest(std_error, confidence, np.minimum(np.sqrt(factor), 1.0) * self.step, float(scale))
        each = np.ones(value.size)
        if self.direct:
            return Estimates(value, std_error * each, value - width, value + width)
        return written(value, std_error * each, width * each)


def read_by_part(question: Question) -> bool:
    """Return whether a question has more answers than are worked out at once."""
    return any(measure.workload is not None and _many(measure.workload) for measure in question.measures)


def _many(workload: Workload) -> bool:
    return workload.shape[0] > MAX_ANSWERS


def marginals_of(workload: Workload) -> tuple[SparseTerm, ...] | None:
    """Return the marginals that a workload consists of; None where it has other queries too."""
    found = sparse_terms(workload)
    if found is None or not all(isinstance(factor, Identity) for term in found[1] for factor in term.factors):
        return None
    return tuple(found[1])


def check_parts(workload: Workload, sizes: Sequence[int], words: str) -> None:
    """Raise DomainError if so many answers cannot be read part by part.

    Parameters
    ----------
    workload, sizes
        The queries, and the levels of each attribute.
    words
        The question, as a person would say it.
    """
    found = sparse_terms(workload)
    if marginals_of(workload) is None or found is None or found[0] != tuple(sizes):
        raise DomainError(
            f"{words} has {workload.shape[0]:,} answers; at most {MAX_ANSWERS:,} can be given, unless they are of "
            "marginals, which are read table by table. Ask for fewer attributes together, or restrict them with where="
        )
    check_numbers(workload.shape[0], words)


def check_numbers(numbers: int, words: str) -> None:
    """Raise DomainError if more numbers would be recorded than there is room for."""
    if numbers > MOST_NUMBERS:
        raise DomainError(
            f"{words} needs {numbers:,} noisy numbers, {8 * numbers / 2**30:,.1f} GiB; a ledger holds at most "
            f"{MOST_NUMBERS:,} of one question. Ask for fewer attributes together, or restrict them with where="
        )


def is_by_table(strategy: Strategy) -> bool:
    """Return whether a strategy measures marginals, or what they add to smaller ones: levels could change places."""
    measured = as_marginals(strategy.operator)
    return measured is not None and all(isinstance(factor, Identity | Centred) for factor in measured.factors)


def by_table(strategy: Strategy, words: str, *, given: bool) -> Strategy:
    """Return a strategy whose answers can be read table by table: itself, or the best one of marginals.

    Parameters
    ----------
    strategy
        The best that was found, or the one that was given.
    words
        The question, as a person would say it.
    given
        Whether it was given: then there is no other.

    Raises
    ------
    DomainError
        If a given one is not of that form.
    """
    if is_by_table(strategy):
        return strategy
    if given:
        raise DomainError(
            f"{words} has {strategy.workload.shape[0]:,} answers, which are read table by table: that takes a strategy "
            "of marginals; leave strategy= out"
        )
    if law_of(strategy.noise).euclidean:
        return opt_residual(strategy.workload, objective=strategy.chosen_for)
    return opt_marginals(strategy.workload, objective=strategy.chosen_for)

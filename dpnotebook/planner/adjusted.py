"""Released counts, adjusted so that none is negative and all agree; nothing is measured and nothing is spent for it."""

from __future__ import annotations

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.nonnegative import nonnegative
from dpnotebook.planner.answers import Answers, Estimates, Floats, LinearAnswers
from dpnotebook.progress import Progress, silent
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import sparse_terms


def nonnegative_estimates(
    answers: Answers,
    noisy: Floats,
    estimates: Estimates,
    noise_std: float,
    total: float | None = None,
    report: Progress = silent,
) -> Estimates:
    """Return the answers of the non-negative counts nearest to what was measured, large counts held to their values.

    An interval goes on holding the exact answer as often as promised: it is that of the unbiased answer, cut off at 0
    where no answer can be below, and widened to the new answer where that is outside. The standard error of the new
    answer depends on the data and is not known: it is NaN.

    Parameters
    ----------
    answers
        Of one measure, which counts rows.
    noisy
        What was measured for it, shape (1, queries).
    estimates
        The unbiased answers.
    noise_std
        Standard deviation of the noise of a measured number.
    total
        Number of rows that take part, where it is public; else what the measurements say of it.
    report
        Told how far it is.

    Raises
    ------
    WorkloadError
        If the measure is not linear in counts of rows, or the counts are too many (see `nonnegative`).
    """
    if not isinstance(answers, LinearAnswers) or answers.measurement.summand.column is not None:
        raise WorkloadError(
            "only counts of rows are known not to be negative: sums, means and quantiles stay as they are"
        )
    workload = answers.strategy.workload
    counts = nonnegative(answers.strategy.operator, noisy[0], total, report, noise_std)
    value = counts.answers(workload) * answers.units
    floor = 0.0 if _counts_rows(workload) else -np.inf
    return Estimates(
        value,
        np.full(value.size, np.nan),
        np.minimum(np.maximum(estimates.lower, floor), value),
        np.maximum(estimates.upper, value),
    )


def _counts_rows(workload: Workload) -> bool:
    """Return whether no coefficient is negative: then a column sums to its norm."""
    found = sparse_terms(workload)
    factors = [workload] if found is None else [factor for term in found[1] for factor in term.factors]
    return all(
        np.array_equal(factor.column_norms(1), factor.rmatvec(np.ones(factor.shape[0], dtype=np.int64)))
        for factor in dict.fromkeys(factors)
    )

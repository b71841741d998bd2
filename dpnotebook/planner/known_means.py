"""Means from what was recorded of the two sums that they are made of: rows of a table of means, and roll-ups of it.

A mean is read off two sums (see `MeanAnswers`), both measured by the same queries: each is known in closed form as a
count is, and their ratio is the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpnotebook.planner import explain
from dpnotebook.planner.answers import Estimates, Floats, MeanAnswers, mean_of, noise_variance
from dpnotebook.planner.closed_form import InClosedForm
from dpnotebook.planner.combining import MOST_DRAWS, MOST_EXACT
from dpnotebook.planner.history import History
from dpnotebook.planner.marginal_measurement import SLACK, part_of
from dpnotebook.planner.plan_json import estimates_to_json
from dpnotebook.planner.problem import LedgerView, Option
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.tails import farthest_of, half_widths
from dpnotebook.query.question import Accuracy, Question, Summand

MEANT = 6  # digits of a mean below its standard error
MOST_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class KnownMeans:
    """What is known of the two sums of some means.

    Parameters
    ----------
    history
        Everything recorded.
    summand
        What a row adds to either.
    sums
        Of what each value lies above the lower bound, and of what it lies below the upper one.
    """

    history: History
    summand: Summand
    sums: tuple[InClosedForm, InClosedForm]

    @property
    def variances(self) -> Floats:
        """Variance of either sum, shape (groups,)."""
        return self.sums[0].variances

    def free(
        self, answer: MeanAnswers, alone: Option, accuracy: Accuracy, table: TableSchema, ledger: LedgerView
    ) -> Option | None:
        """Return the way that measures nothing; None where what is known is not enough.

        Parameters
        ----------
        answer, alone
            How the means would be answered by themselves.
        accuracy
            An epsilon, an error or a variance.
        table, ledger
            What is public about the table; the record of past answers.
        """
        accountant, weights = ledger.accountant, answer.assumed_weights
        if not np.isfinite(self.variances).all():
            return None
        std_errors = np.sqrt(self.variances * float((weights**2).sum()))
        every = np.tile(weights, (std_errors.size, 1))
        width = float(self._widths(accuracy.confidence, std_errors, every).max(initial=0.0))
        if accuracy.epsilon is not None:
            enough = float(self.variances.max()) <= noise_variance(accountant.noise, alone.items[0].scale) * SLACK
        elif accuracy.error is not None:
            enough = width <= accuracy.error * SLACK
        else:
            assert accuracy.variance is not None
            enough = float(std_errors.max()) ** 2 <= accuracy.variance * SLACK
        if not enough:
            return None
        reused = self.sums[0].sources()
        actions, steps = explain.described((), reused, answer, table, accountant, width, accuracy.confidence)
        return replace(
            alone,
            items=(),
            units=0,
            as_good_as=0 if accuracy.epsilon is None else alone.units,
            std_errors=std_errors,
            half_width=width,
            steps=steps,
            reused=reused,
            actions=actions,
            combined=True,
        )

    def estimates(self, confidence: float) -> Estimates:
        """Return the means with their intervals."""
        noisy = np.stack([one.estimates()[0] for one in self.sums])

        def widths(weights: Floats) -> Floats:
            return self._widths(confidence, np.sqrt(self.variances * (weights**2).sum(axis=1)), weights)

        return mean_of(self.summand, noisy, self.variances, widths)

    def details(self, confidence: float) -> dict[str, Any] | None:
        """Return the means as what the ledger keeps; None where one is not known."""
        if not np.isfinite(self.variances).all():
            return None
        found = self.estimates(confidence)
        if not found.finite:
            return None
        # At another confidence no law of noise reaches further than one of draws that count for a whole error each.
        told = {"step": float(found.std_error.max(initial=0.0)), "scale": 1.0}
        return {"estimates": estimates_to_json(_rounded(found), confidence, self.sums[0].sources()) | told}

    def _widths(self, confidence: float, std_errors: Floats, weights: Floats) -> Floats:
        """Return half-widths of means in which an integer of either sum is worth so much, shape (groups, 2)."""
        noise = self.history.noise
        largest = np.abs(weights).max(axis=1)
        bound = farthest_of(std_errors, noise, confidence, largest, self.history.least_scale)
        if noise == "gaussian" or std_errors.size > MOST_EXACT:
            return bound
        rows = np.arange(std_errors.size)
        found = [one.draws(rows, MOST_DRAWS) for one in self.sums]
        tables, scales = [], []
        for place, each in enumerate(found):
            if each is None:
                return bound
            tables.append(each[0] * weights[:, [place]])
            scales += [self.history.items[key].scale for key in each[1]]
        return np.minimum(bound, half_widths(np.concatenate(tables, axis=1), scales, noise, confidence))


def _rounded(means: Estimates) -> Estimates:
    """Return means without the digits that noise drowns: they differ between computers."""
    error = np.where(means.std_error > 0, means.std_error, 1.0)
    factor = 10.0 ** np.clip(MEANT - np.floor(np.log10(error)), 0, MOST_DECIMALS)
    return Estimates(*(np.rint(numbers * factor) / factor for numbers in vars(means).values()))


def known_means(question: Question, history: History) -> KnownMeans | None:
    """Return what is known of means; None of other questions, and where nothing is known.

    Parameters
    ----------
    question, history
        What is asked, and what was recorded.
    """
    measure = question.measures[0]
    if measure.kind != "mean" or len(question.measures) != 1:
        return None
    part = part_of(question, history.domain)
    found = [
        history.closed_form(measure.summand, component=component).known(part, 1.0, history.least_scale)
        for component in range(measure.summand.components)
    ]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    return KnownMeans(history, measure.summand, (found[0], found[1]))

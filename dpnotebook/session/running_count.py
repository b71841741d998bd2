"""The number of rows so far of a table that grows, at every part up to a horizon, for the price of a few counts.

Counting every part by itself adds up noise; counting all rows anew with every part adds up prices. A factorization of
the running sums does with the logarithm of both (`strategy.running_counts`): one weighted sum of the parts is measured
when a part arrives, by an ordinary query, and what was recorded of all of them tells the running counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.parts import PART, with_parts
from dpnotebook.errors import AccuracyError, DomainError, shorten
from dpnotebook.planner import marginal_measurement
from dpnotebook.planner.answers import scale_of_variance
from dpnotebook.planner.pricing import least_units, scale_for_units
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.budget import Amount
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Accuracy
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.release import Release
from dpnotebook.session.verbs import parsed
from dpnotebook.strategy import Strategy
from dpnotebook.strategy.arrival import at_arrival, last_parts, running_counts
from dpnotebook.workload import Explicit
from dpnotebook.workload.base import whole

FINE = 4  # times the least scale of noise: sums of as fine draws have no tails of single steps
ROUNDED = Fraction(1001, 1000)  # by which the prices of all steps together may pass their sum: each is rounded up
LOOSER = (1 + 1e-9, 1.02, 1.1, 1.5, 3.0)  # times its error that a result is asked for within: the first that is free


@dataclass(frozen=True, repr=False)
class RunningCount:
    """How many rows there are so far, at every part of a table that grows.

    It is run whenever a part has arrived, and pays for what that part adds; of no row it takes more than `cost` by the
    end. It keeps nothing of its own: what was measured is in the ledger, so in another kernel, or asked twice, it goes
    on where it was.

    Parameters
    ----------
    session
        Who pays.
    rows
        The table, all its parts that are here.
    horizon
        How many parts there will be.
    accuracy
        The error of every running count, or the epsilon that all of them may cost in the end.
    where
        Which rows count, as pandas-query text; None for all.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> import pandas as pd
    >>> from dpnotebook.testing import exact_session
    >>> session = exact_session(dpn.Budget(epsilon=1.0, delta=1e-6))
    >>> _ = session.protect(pd.DataFrame({"ward": ["A", "B"]}), "visits", domain={"ward": ["A", "B"]})
    >>> so_far = session.running_count("visits", horizon=24, error=50)
    >>> so_far.run().value
    2.0
    >>> _ = session.extend("visits", pd.DataFrame({"ward": ["A", "A", "B"]}))
    >>> so_far.run().frame[["part", "value"]]
       part  value
    0     1    2.0
    1     2    5.0
    >>> session.spent.epsilon <= so_far.cost.epsilon  # of all 24 parts
    True
    """

    session: SessionProtocol
    rows: ProtectedTable
    horizon: int
    accuracy: Accuracy
    where: str | None = None

    def __repr__(self) -> str:
        where = "" if self.where is None else f" where {self.where}"
        keep = f"; keep ε {self.to_come.epsilon:.3g} for the parts to come" if self.parts < self.horizon else ""
        return (
            f"running count of {self.table.name}{where}: {self.parts} of {self.horizon} parts have arrived\n"
            f"  error  ±{self.error:,.3g} rows or less at every part\n"
            f"  cost   ε {self.cost.epsilon:.3g} by the end, of any row; .run() pays for the parts that have arrived"
            f"{keep}"
        )

    @property
    def table(self) -> TableSchema:
        """What is public about the table."""
        return self.rows.table

    @property
    def parts(self) -> int:
        """How many parts have arrived."""
        return max(self.table.parts - len(self.table.elsewhere), 1)

    @property
    def cost(self) -> Amount:
        """What any row will have paid once the horizon is reached, whatever the number of parts by then."""
        accountant = self.session.ledger.accountant
        return Amount(accountant.epsilon(self._units), accountant.delta)

    @property
    def to_come(self) -> Amount:
        """What a row that is here will still pay, at most, for steps that read it when later parts arrive.

        A step is charged when it is measured, and not before: what other questions take meanwhile is not there for it.
        """
        accountant = self.session.ledger.accountant
        rows = self.strategy.operator.dense()[last_parts(self.strategy) >= self.parts, : self.parts]
        paid_later = (np.abs(rows.astype(float)) ** accountant.law.power).sum(axis=0).max(initial=0.0)
        units = math.ceil(self._units * paid_later / float(self.strategy.norm))
        return Amount(accountant.epsilon(units), accountant.delta)

    @property
    def error(self) -> float:
        """Half-width of the interval of the worst running count when its last part arrives, at most."""
        law = self.session.ledger.accountant.law
        std_error = math.sqrt(self.variance * float(at_arrival(self.strategy).max()))
        return float(law.farthest(np.array([std_error]), self.accuracy.confidence, 1.0, float(self._scale))[0])

    @property
    def strategy(self) -> Strategy:
        """What is measured by the end, row by row in the order of arrival."""
        objective = self.accuracy.objective or "worst"
        return running_counts(self.horizon, self.session.ledger.accountant.noise, objective)

    @property
    def variance(self) -> float:
        """Variance of every weighted sum that is measured."""
        return self.session.ledger.accountant.law.count_variance(self._scale)

    @property
    def steps(self) -> tuple[Query, ...]:
        """What is measured of the parts that have arrived, each a query of its own: what was measured is free."""
        return tuple(self._steps())

    @property
    def result(self) -> Query:
        """The running counts of the parts that have arrived, which follow from the steps once these have been run.

        Where other answers told a part of what the steps would have measured, their errors may have to do with each
        other: an error that was asked for is kept all the same, and something may be missing for it.
        """
        if self.accuracy.error is not None:
            return self._within(self.accuracy.error)
        found = (self._within(self.error * factor) for factor in LOOSER)
        return next((query for query in found if query.plan.free), self._within(self.error * LOOSER[-1]))

    def run(self) -> Release:
        """Measure what the parts that arrived since the last time add, and return all running counts so far.

        Raises
        ------
        BudgetExceeded
            If a step costs more than is left; what was measured before it stays.
        """
        accountant = self.session.ledger.accountant
        steps = [query.run() for query in self.steps]
        result = self.result.run()
        units = sum(accountant.units(release.paid) for release in (*steps, result) if release.paid)
        return replace(result, paid=accountant.epsilon(units))

    def _within(self, error: float) -> Query:
        confidence = self.accuracy.confidence
        if not self.table.parts:
            return self.rows.count(where=self.where, error=error, confidence=confidence)
        return self.rows.cdf(PART, where=self.where, error=error, confidence=confidence)

    def _steps(self) -> Iterator[Query]:
        operator, last = self.strategy.operator.dense(), last_parts(self.strategy)
        for part in range(self.parts):
            for weights in operator[last == part]:
                yield self._step(weights, int((weights != 0).argmax()), part)

    def _step(self, weights: NDArray[np.int64], first: int, last: int) -> Query:
        """Return the query of a weighted sum of parts, from the first to the last that it reads, numbered from 0."""
        read = weights[first : last + 1]
        among = f"{first + 1} <= {PART} <= {last + 1}" if self.table.parts else ""  # one part cannot be told from all
        where = " and ".join(filter(None, [f"({self.where})" if self.where else "", among])) or None
        if (read == read[0]).all():
            return self.rows.count(where=where, variance=self.variance / float(read[0]) ** 2)
        return self.rows.answer(Explicit(read[None, :]), PART, where=where, variance=self.variance)

    @cached_property
    def _whole(self) -> tuple[Measurement, TableSchema]:
        """All that is measured by the end, as if all parts were there, and the table that it would be of."""
        domain = with_parts(self.table.columns, self.horizon)
        then = replace(self.table, domain=domain, parts=self.horizon, asked=None)
        axes = (Axis(PART, tuple(range(self.horizon))),)
        return Measurement(self.strategy.operator, axes, parsed(self.where, domain)), then

    @cached_property
    def _units(self) -> int:
        accountant = self.session.ledger.accountant
        if self.accuracy.epsilon is not None:
            return accountant.units(self.accuracy.epsilon)
        law = accountant.law
        target = marginal_measurement.target_of(self.accuracy, 1.0, law, marginal_measurement.LEAST_SCALE * FINE)
        if target <= 0:
            raise AccuracyError(
                f"{self.accuracy.text} is finer than sums of whole numbers can promise; write 1 or more"
            )
        scale = scale_of_variance(law, target / float(at_arrival(self.strategy).max()))
        return math.ceil(least_units(self._whole[0], scale, self._whole[1], accountant) * ROUNDED)

    @cached_property
    def _scale(self) -> Fraction:
        units = math.floor(self._units / ROUNDED)
        return scale_for_units(self._whole[0], units, self._whole[1], self.session.ledger.accountant)


def running_count(
    session: SessionProtocol, rows: ProtectedTable, horizon: int, accuracy: Accuracy, where: str | None
) -> RunningCount:
    """Return the running counts of a table, after a look at whether they can be had.

    Raises
    ------
    DomainError
        If a unit may be in several parts, or more parts are here than the horizon.
    AccuracyError
        If all of them would cost more than the whole budget.
    """
    table = rows.table
    if table.adds:
        raise DomainError(
            f"one {table.one} may be in several parts of {shorten(table.name)}, and what parts cost adds up: running "
            "counts are for rows, or for units that one_part=True says are in one part"
        )
    found = RunningCount(session, rows, whole(horizon, "horizon"), accuracy, where)
    if found.parts > found.horizon:
        raise DomainError(
            f"{shorten(table.name)} has {found.parts} parts already: write a horizon= of at least so many, and of all "
            "that will come"
        )
    whole_budget = session.ledger.accountant.total
    if found._units > whole_budget:
        raise AccuracyError(
            f"running counts of {found.horizon} parts within ±{found.error:,.3g} cost ε = {found.cost.epsilon:.4g} in "
            "the end, more than the whole budget; write a larger error=, or epsilon="
        )
    parsed(where, table.domain)
    return found

"""The number of rows so far of a table that grows, at every part up to a horizon, for the price of a few counts.

Counting every part by itself adds up noise; counting all rows anew with every part adds up prices. A factorization of
the running sums does with the logarithm of both (`strategy.running_counts`): one weighted sum of the parts is measured
when a part arrives, and what was recorded of all of them tells the running counts. A part pays once, when it is first
read, for all the steps up to the horizon that will read it (`prepaid_steps`): nothing that is asked meanwhile takes
what they need.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpnotebook.domain.parts import PART, with_parts
from dpnotebook.errors import AccuracyError, DomainError, shorten
from dpnotebook.planner import marginal_measurement
from dpnotebook.planner.answers import scale_of_variance
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.prepaid import PrepaidStep
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
from dpnotebook.views import digits
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
        return (
            f"running count of {self.table.name}{where}: {self.parts} of {self.horizon} parts have arrived\n"
            f"  error  ±{digits(self.error)} rows or less at every part\n"
            f"  cost   ε {self.cost.epsilon:.3g} of any row, once: a part pays for all later steps when first read"
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
        return tuple(self._step(row) for row in np.flatnonzero(last_parts(self.strategy) < self.parts).tolist())

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

        Each new part is charged before the first noise of it is drawn, for all steps that will ever read it.

        Raises
        ------
        BudgetExceeded
            If a new part costs more than is left; what was measured before it stays.
        """
        accountant = self.session.ledger.accountant
        steps = [query.run() for query in self._missing()]
        result = self.result.run()
        units = sum(accountant.units(release.paid) for release in (*steps, result) if release.paid)
        return replace(result, paid=accountant.epsilon(units))

    def _within(self, error: float) -> Query:
        confidence = self.accuracy.confidence
        if not self.table.parts:
            return self.rows.count(where=self.where, error=error, confidence=confidence)
        return self.rows.cdf(PART, where=self.where, error=error, confidence=confidence)

    def _missing(self) -> list[Query]:
        """Return the steps that have no answer yet: they are recorded in their order, so those after the last."""
        steps, ledger = list(self.steps), self.session.ledger
        known, unknown = 0, len(steps)
        while known < unknown:
            middle = (known + unknown) // 2
            step = steps[middle].prepaid
            assert step is not None
            known, unknown = (middle + 1, unknown) if ledger.records(self.table.name, step.key) else (known, middle)
        return steps[known:]

    def _step(self, row: int) -> Query:
        """Return the query of a row of the strategy: a weighted sum of parts, from the first to the last that it reads.

        It pays for the parts that it is the first to read, in all rows.
        """
        operator, table, law = self.strategy.operator.dense(), self.table, self.session.ledger.accountant.law
        (read,) = np.nonzero(operator[row])
        weights, among = operator[row, read[0] : read[-1] + 1], f"{read[0] + 1} <= {PART} <= {read[-1] + 1}"
        where = " and ".join(filter(None, [f"({self.where})" if self.where else "", among if table.parts else ""]))
        axes: tuple[Axis, ...] = ()
        if table.parts:
            summed = Explicit(weights[None, :])
            itself = Strategy(summed, summed, law.name, "the sum itself")
            query = self.rows.answer(summed, PART, where=where, variance=self.variance, strategy=itself)
            scale = self._scale
        else:  # one part cannot be told from all
            weight = int(weights[0])
            query = self.rows.count(where=where or None, variance=self.variance / weight**2)
            scale = self._scale / weight
        new = read[(operator[:row, read] == 0).all(axis=0)]
        if table.parts:
            axes = (Axis(PART, tuple(new.tolist())),)
        later = operator[:, new][operator[:, new].any(axis=1)]
        pays = Measurement(Explicit(later), axes, parsed(self.where, table.domain)) if new.size else None
        step = PrepaidStep(
            key=f"{self._key} {row + 1}",
            before=f"{self._key} {row}" if row else None,
            scale=scale,
            pays=() if pays is None else (Planned(pays, self._scale, law.grid_bits(self._scale)),),
        )
        return replace(query, prepaid=step, purchases="never")

    @cached_property
    def _key(self) -> str:
        """What is measured, of which cells, with how much noise: what steps must have in common to be paid together."""
        told = hashlib.sha256(np.ascontiguousarray(self.strategy.operator.dense()).tobytes())
        columns = json.dumps(self.table.columns.to_json(), sort_keys=True)
        for part in (self.horizon, self.session.ledger.accountant.noise, self._scale, self._whole[0].where, columns):
            told.update(f"\n{part}".encode())
        return f"running count {told.hexdigest()}"

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
            f"running counts of {found.horizon} parts within ±{digits(found.error)} cost ε = {found.cost.epsilon:.4g} "
            "in the end, more than the whole budget; write a larger error=, or epsilon="
        )
    parsed(where, table.domain)
    return found

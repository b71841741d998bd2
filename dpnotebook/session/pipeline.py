"""What is asked, from its plan to its answer: plan, charge, measure, record, reveal, in this order for everything."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import BudgetExceeded, DPError, EngineError, LedgerError, PolicyError
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.ledger.checks import said_of_budget
from dpnotebook.ledger.forks import lock
from dpnotebook.ledger.ledger import Outpaced
from dpnotebook.ledger.moment import Moment
from dpnotebook.planner.plan import Alternative, BudgetState, Plan
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.progress import Progress
from dpnotebook.query.question import Question
from dpnotebook.session.policy import Policy
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.release import Release
from dpnotebook.session.value_counts import SHOWN, ShownCounts
from dpnotebook.views import digits

if TYPE_CHECKING:
    from dpnotebook.sql.statement import Statement

PLANNED_AGAIN = 3  # times, where another kernel was answered meanwhile; then what is planned is paid for, as it fits
PLANS_KEPT = 8  # of the queries that were looked at last: a card, its slider's neighbours, an offer
SAME_PRICE = 1 + 1e-9  # times a limit: what is more by less was rounded

Integers = NDArray[np.int64]
Measured = tuple[Sequence[Integers], dict[str, Any]]


class Mechanism(Protocol):
    """One kind of what can be asked: what is particular to it in each of the five steps.

    `Questions` are of declared columns and go to the planner, `AdaptiveMarginals` are those for which it is
    chosen on the way what is measured; `Statements` are all other SQL.
    """

    def check(self, asked: Any) -> None:
        """Make sure that all that is asked about is there, can be read, and is what it was when it was protected."""

    def plan(self, query: Query, moment: Moment) -> Plan:
        """Return the plan of a query as the ledger stood; reads no data."""

    def follows(self, plan: Plan) -> dict[str, Any] | None:
        """Return the answer of a free plan, as the ledger keeps it; None where it does not follow from what it has."""

    def plan_json(self, plan: Plan) -> dict[str, Any]:
        """Return what the ledger keeps of a plan: all that is needed to measure for its charge."""

    def measure(self, charge: Charge, randomness: Randomness, report: Progress) -> Measured:
        """Return noisy numbers for what was charged, one array a measurement, and what is recorded beside them."""

    def reveal(self, record: Record, query: Query, paid: int) -> Release:
        """Return what a record answers to a query, of which this run cost `paid` units."""

    def asked_in(self, charge: Charge) -> Question | Statement:
        """Return what was charged for."""

    def check_same(self, charge: Charge) -> None:
        """Make sure that what was read is what it was when it was charged for, where the ledger alone cannot tell."""

    def again(self, session: SessionProtocol, record: Record) -> Release:
        """Return what a record answered, at no cost."""


class Pipeline:
    """The five steps, over the ledger that pays; one question at a time.

    Parameters
    ----------
    ledger
        Who pays, and where everything is recorded.
    policy
        What the owner of the tables allows; None where only the budget bounds questions.
    """

    def __init__(self, ledger: Ledger, policy: Policy | None = None, analyst: str | None = None) -> None:
        self.ledger, self.policy, self.analyst = ledger, policy, analyst
        self._running = lock()
        self._plans: list[_KeptPlan] = []  # the latest first

    def run(self, mechanism: Mechanism, query: Query, report: Progress) -> Release:
        """Return the answer of a query, from the ledger where it has one, and paid for where not; see `Query.run`."""
        with self._running:
            mechanism.check(query.question)
            if query.guard is not None:
                query.guard()
            for _ in range(PLANNED_AGAIN):
                with contextlib.suppress(Outpaced):
                    return self._answered(mechanism, query, report)
            return self._answered(mechanism, query, report, at_any_version=True)

    def _answered(
        self, mechanism: Mechanism, query: Query, report: Progress, *, at_any_version: bool = False
    ) -> Release:
        """Return the answer of a query, planned at a version of its table, and charged for at that version only.

        So two kernels that ask the same at the same moment pay once: the second finds what the first was charged for.
        """
        moment = self.ledger.moment(query.question.table)
        if self._finish_interrupted(mechanism, query, moment, report):
            moment = self.ledger.moment(query.question.table)
        report(0.0, "planning")
        plan = self.plan(mechanism, query, moment)
        if plan.forbidden:
            self.ledger.refuse(plan.table, plan.key, self._told(mechanism, plan, query), plan.units, plan.forbidden)
            raise self._forbidden(mechanism, plan, query)
        record, paid = self._known(mechanism, plan, query, report), 0
        if record is None:
            report(0.1, "charging the ledger")
            # A step that was paid for before is measured once: what is planned of it holds at this version only.
            version = None if at_any_version and not plan.prepaid else moment.version
            charge = self._charge(mechanism, plan, query, version)
            record, paid = self.measure(mechanism, charge, report), charge.units
            report(1.0, "done")
        return self._around(mechanism.reveal(record, query, paid), paid)

    def _around(self, release: Release, paid: int) -> Release:
        """Return a release with the budget before and after it, of which this run of it took `paid`."""
        origin = self.ledger.identity
        return replace(
            release, origin=origin, budget=BudgetState.around(self.ledger.accountant, self.ledger.spent - paid, paid)
        )

    def again(self, mechanism: Mechanism, session: SessionProtocol, record: Record) -> Release:
        """Return what a record answered, at no cost."""
        return self._around(mechanism.again(session, record), 0)

    def plan(self, mechanism: Mechanism, query: Query, moment: Moment | None = None) -> Plan:
        """Return the plan of a query: the one that was shown, as long as the ledger is as it was then.

        Parameters
        ----------
        mechanism, query
            What is planned.
        moment
            What the ledger says; it is read when None, once a plan.
        """
        if moment is None:
            moment = self.ledger.moment(query.question.table)
        state = moment.head, moment.waiting
        known = next((one for one in self._plans if one.state == state and one.is_of(query)), None)
        if known is not None and self._holds(mechanism, known.plan):
            return known.plan
        plan = self._judged(mechanism, query, moment)
        # Of queries that are gone none is kept: those of a cell that is being typed must not crowd out what is shown.
        shown = [one for one in self._plans if one.query() is not None]
        self._plans = [_KeptPlan(state, weakref.ref(query), plan), *shown[: PLANS_KEPT - 1]]
        return plan

    def _judged(self, mechanism: Mechanism, query: Query, moment: Moment) -> Plan:
        """Return the plan of a query with what the policy says of it; alone, where only a purchase is too much."""
        plan = mechanism.plan(query, moment)
        if self.policy is None:
            return plan
        forbidden = self.policy.refusal(plan, self.ledger)
        if forbidden and plan.bought:
            alone = self._judged(mechanism, replace(query, purchases="never"), moment)
            if not alone.forbidden:
                return alone
        return replace(
            plan,
            forbidden=forbidden,
            affordable=plan.affordable and not forbidden,
            comparisons=replace(
                plan.comparisons,
                prices=lambda: self._allowed(plan.alternatives),
                otherwise=lambda: None if plan.otherwise is None else self._with_refusal(plan.otherwise),
            ),
        )

    def _with_refusal(self, other: Plan) -> Plan:
        """Return how a question would be answered otherwise, with what the policy says of that."""
        assert self.policy is not None
        forbidden = self.policy.refusal(other, self.ledger)
        return replace(other, forbidden=forbidden, affordable=other.affordable and not forbidden)

    def _allowed(self, alternatives: Sequence[Alternative]) -> tuple[Alternative, ...]:
        """Return other prices of a question, with whether the policy allows them."""
        most = None if self.policy is None else self.policy.question
        return tuple(
            replace(one, affordable=one.affordable and (most is None or one.epsilon <= most * SAME_PRICE))
            for one in alternatives
        )

    def _forbidden(self, mechanism: Mechanism, plan: Plan, query: Query) -> PolicyError:
        """Return why a question is not asked, with the error that it could have."""
        assert self.policy is not None
        text, most = f"{plan.forbidden}; nothing was spent", self.policy.question
        if most is not None and not plan.free and plan.units > self.ledger.accountant.units(most):
            with contextlib.suppress(DPError):
                other = self._at(mechanism, query, most)
                if math.isfinite(other.error) and not self.policy.refusal(other, self.ledger):
                    text += f". With epsilon={most:g} the error would be ±{digits(other.error, 4)} {plan.unit}"
        return PolicyError(text)

    def _at(self, mechanism: Mechanism, query: Query, epsilon: float) -> Plan:
        """Return the plan of a query at another price, as the ledger stands."""
        return mechanism.plan(query.at(epsilon=epsilon), self.ledger.moment(query.question.table))

    def forget_plans(self) -> None:
        """Plan everything anew: a table was declared otherwise, or is another."""
        self._plans = []

    def measure(self, mechanism: Mechanism, charge: Charge, report: Progress) -> Record:
        """Measure what was charged for and record it, or fail in the one way that tells nothing.

        Whatever goes wrong between the charge and the record may depend on the rows and on the noise, so nothing of it
        is passed on: not its kind, not its words, not its context. The noise stays as it is, so that trying again tells
        no more. What the ledger says of its own file is about neither.

        Returns
        -------
        Record
            The only answer that may be shown: the first that was recorded of this charge.

        Raises
        ------
        EngineError
            If it failed, whatever the reason.
        LedgerError
            If what is random about it is gone, and nobody recorded it meanwhile.
        """
        randomness, said, stopped = self.ledger.randomness(charge), "", False
        if randomness is None:
            return self.ledger.get(charge.number)  # another kernel was faster
        try:
            return self._recorded(mechanism, charge, randomness, report)
        except LedgerError as failure:
            said = f" The ledger says: {failure}"
        except KeyboardInterrupt:
            stopped = True
        except Exception:
            said = ""
        if stopped:
            raise KeyboardInterrupt
        raise EngineError(  # out here neither has a context
            f"Release {charge.number} was charged, but answering it failed and nothing of it was shown. Run it again, "
            f"or session.retry({charge.number}), for the same charge.{said}"
        )

    def _recorded(self, mechanism: Mechanism, charge: Charge, randomness: Randomness, report: Progress) -> Record:
        noisy, details = mechanism.measure(charge, randomness, report)
        report(0.9, "recording")
        return self.ledger.record(charge.number, noisy, details)

    def finish(self, mechanism: Mechanism, charge: Charge, report: Progress) -> Record:
        """Measure and record what was charged when that was interrupted, of tables that are still the same.

        Raises
        ------
        NotProtected
            If a table is not protected in the session.
        FrameChanged
            If a table is another than it was.
        EngineError
            If it fails again.
        """
        mechanism.check(mechanism.asked_in(charge))
        mechanism.check_same(charge)
        return self.measure(mechanism, charge, report)

    def retry(self, mechanism: Mechanism, charge: Charge, report: Progress) -> Record:
        """Finish a charge, while nothing else runs; see `Session.retry`."""
        with self._running:
            return self.finish(mechanism, charge, report)

    def _finish_interrupted(self, mechanism: Mechanism, query: Query, moment: Moment, report: Progress) -> bool:
        """Measure what was paid for when the very same query was interrupted; return whether there was any."""
        key = query.question.key if query.prepaid is None else query.prepaid.key
        waiting = [one for one in (() if query.fresh else moment.pending()) if one.question == key]
        for charge in waiting:
            self.finish(mechanism, charge, report)
        return bool(waiting)

    def _known(self, mechanism: Mechanism, plan: Plan, query: Query, report: Progress) -> Record | None:
        """Return the record of an answer that costs nothing; None where something has to be measured."""
        if plan.recorded is not None:
            for charge in self.ledger.pending(plan.table):
                if charge.number == plan.recorded:
                    return self.finish(mechanism, charge, report)
            record = self.ledger.get(plan.recorded)
            mechanism.check_same(record)
            return record
        if not plan.free:
            return None
        details = mechanism.follows(plan)
        if details is None:
            raise LedgerError("another kernel changed just now what this follows from; run it again")
        return self.ledger.note(plan.table, plan.question.key, self._told(mechanism, plan, query), details)

    def _told(self, mechanism: Mechanism, plan: Plan, query: Query) -> dict[str, Any]:
        """Return what the ledger keeps of a plan, with who asked and the digest of the policy that allowed it."""
        told = mechanism.plan_json(plan)
        if isinstance(query.shown, ShownCounts):
            told = told | {SHOWN: query.shown.to_json()}
        if self.analyst is not None:
            told = told | {"analyst": self.analyst}
        return told if self.policy is None else told | {"policy": self.policy.digest}

    def _charge(self, mechanism: Mechanism, plan: Plan, query: Query, version: int | None) -> Charge:
        """Pay for a plan; a refusal says what would still fit."""
        told = self._told(mechanism, plan, query)
        try:
            return self.ledger.charge(
                plan.table, plan.key, told, plan.cells, plan.refines, plan.threshold_delta, version
            )
        except BudgetExceeded as refusal:
            if refusal.requested_delta is not None:  # of thresholds: another epsilon does not help
                raise
            raise self._explained(refusal, mechanism, plan, query) from None

    def _explained(self, refusal: BudgetExceeded, mechanism: Mechanism, plan: Plan, query: Query) -> BudgetExceeded:
        accountant = self.ledger.accountant
        needs, _ = said_of_budget(refusal.requested_units, accountant)
        rest, left = said_of_budget(self.ledger.remaining, accountant)
        fits = float(f"{left * 0.9995:.3g}")
        text = (
            f"this query needs {needs:.4g}% of the budget (ε {plan.cost.epsilon:.4g}), but {rest:.4g}% (ε {left:.4g}) "
            "is left; nothing was spent"
        )
        if fits > 1e-6:
            error = self._at(mechanism, query, fits).error
            if math.isfinite(error):  # not while it depends on bounds that are found from the data
                text += f". With epsilon={fits:g} the error would be ±{digits(error, 4)} {plan.unit}"
        explained = BudgetExceeded(text)
        explained.__dict__.update(refusal.__dict__)
        return explained

    @staticmethod
    def _holds(mechanism: Mechanism, plan: Plan) -> bool:
        """Whether what a plan gives for nothing still follows."""
        return not plan.free or plan.recorded is not None or mechanism.follows(plan) is not None


@dataclass(frozen=True)
class _KeptPlan:
    """A plan that was made: in which state of the ledger, and for which query."""

    state: tuple[str, tuple[int, ...]]
    query: weakref.ref[Query]  # not held: what shows a query goes with it
    plan: Plan

    def is_of(self, query: Query) -> bool:
        """Whether it is that of another query too: of the very same question, at the same accuracy."""
        own = self.query()
        return (
            own is not None
            and own.question is query.question
            and own.strategy is query.strategy
            and own.statement is query.statement
            and own.prepaid == query.prepaid
            and (own.accuracy, own.fresh, own.assumption, own.purchases)
            == (query.accuracy, query.fresh, query.assumption, query.purchases)
        )

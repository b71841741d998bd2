"""Marginals answered adaptively: what is measured is chosen, round by round, from what came out before.

One charge pays for all rounds, one record keeps them, and the noise of every round comes from the key of the charge.
So an answer that was interrupted half-way is charged whole, and trying again draws the same noise, makes the same
choices and goes on to the same end: nothing is drawn twice for one price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.engine.scans import exact_answers
from dpnotebook.errors import LedgerError, WorkloadError
from dpnotebook.ledger import Charge, Record
from dpnotebook.ledger.moment import Moment
from dpnotebook.planner import explain
from dpnotebook.planner.adaptive_plan import (
    AdaptiveTable,
    adaptive_details,
    adaptive_estimates,
    adaptive_plan,
    adaptive_to_json,
    part_of,
)
from dpnotebook.planner.adaptive_rounds import Rounds, RoundShares
from dpnotebook.planner.plan import Plan, Planned
from dpnotebook.planner.plan_json import planned_from_json, with_chosen
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.progress import Progress
from dpnotebook.query.question import Accuracy, Question, written_confidence
from dpnotebook.session.answer_frame import answer_frame
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.questions import Questions
from dpnotebook.session.release import Release
from dpnotebook.session.small_groups import without_small_groups
from dpnotebook.session.tables import with_tables
from dpnotebook.workload import Identity, Marginals
from dpnotebook.workload.marginals import Subset

if TYPE_CHECKING:
    import pandas as pd

NOTE = (
    "measured adaptively: {measured} of {candidates} combinations of columns were counted; the others follow from "
    "smaller ones and have no interval, for how far they are off nobody measured"
)
EVERYTHING = "all combinations of columns were counted at once: with these rows and cells, choosing would only cost"

Integers = NDArray[np.int64]


class AdaptiveMarginals:
    """The mechanism of adaptive answers: see `Mechanism`.

    Parameters
    ----------
    questions
        The mechanism of other questions, whose history, tables and noise these share.
    table
        Finds a protected table by its name.
    """

    def __init__(self, questions: Questions, table: Callable[[str], ProtectedTable]) -> None:
        self.questions, self._table = questions, table

    def check(self, question: Question) -> None:
        """Raise FrameChanged if the rows are not those that were protected."""
        self.questions.check(question)

    def plan(self, query: Query, moment: Moment) -> Plan:
        """Return the plan of a query as the ledger stood; reads no data."""
        question = query.question
        assert isinstance(question, Question)
        self.questions.check_domain(question)
        table = self._table(question.table).table
        known = len(self.questions.histories.of(table, moment).releases)
        return adaptive_plan(question, query.accuracy, table, moment, fresh=query.fresh, known=known)

    def follows(self, plan: Plan) -> dict[str, Any] | None:
        """Return None: only the very answer that was recorded is free."""
        return None

    def plan_json(self, plan: Plan) -> dict[str, Any]:
        """Return what the ledger keeps of a plan."""
        return adaptive_to_json(plan)

    def measure(
        self, charge: Charge, randomness: Randomness, report: Progress
    ) -> tuple[list[Integers], dict[str, Any]]:
        """Choose, measure and fit until the price is used up; see `Rounds`.

        Parameters
        ----------
        charge
            What was paid for: all rounds.
        randomness
            Of the charge: trying again draws the same noise, and so makes the same choices.
        report
            Told how far it is.

        Returns
        -------
        The noisy numbers of every measurement and behind them the noisy scores of every round; what was chosen.
        """
        return _Run(self, charge, randomness, report).all()

    def reveal(self, record: Record, query: Query, paid: int) -> Release:
        """Return what a record answers to a query, of which this run cost `paid` units."""
        question = query.question
        assert isinstance(question, Question)
        accountant, domain = self.questions.ledger.accountant, self.questions.domain_of(record)
        found = _revealed(record, question, domain, accountant, query.accuracy.confidence)
        found = replace(found, paid=accountant.epsilon(paid))
        if self.questions.minimum is not None:
            found = without_small_groups(found, self.questions.minimum)
        return found if query.shown is None else query.shown(found)

    def asked_in(self, charge: Charge) -> Question:
        """Return the question that was charged for."""
        return self.questions.asked_in(charge)

    def check_same(self, charge: Charge) -> None:
        """Nothing is left to check: a table that the ledger knows by another fingerprint cannot be protected."""

    def again(self, session: SessionProtocol, record: Record) -> Release:
        """Return what a record answered, at no cost."""
        confidence, _ = written_confidence(record.plan["accuracy"])
        query = Query(session, self.asked_in(record), Accuracy(epsilon=1.0, confidence=confidence))
        return self.reveal(record, query, paid=0)


def _as_it_is(frame: pd.DataFrame, total: float | None, report: Progress) -> pd.DataFrame:
    """Return a frame whose counts are none below 0 already."""
    if total is not None:
        raise WorkloadError("these counts were fitted to what was measured when they were: total= comes too late")
    return frame


def _revealed(record: Record, question: Question, domain: Domain, accountant: Accountant, confidence: float) -> Release:
    """Return what a record answers, as if this had cost nothing."""
    items = planned_from_json(with_chosen(record.plan, record.details), domain)
    scale = min(float(item.scale) for item in items)
    estimates = adaptive_estimates(record.details, accountant.noise, confidence, scale)
    frame, ordered = answer_frame(question, domain, [estimates])
    rounds = record.details["rounds"]
    note = EVERYTHING
    if rounds:
        note = NOTE.format(
            measured=sum(len(one["chosen"]) for one in rounds), candidates=sum(len(one["candidates"]) for one in rounds)
        )
    release = Release(
        frame=frame,
        question=question,
        number=record.number,
        epsilon=accountant.epsilon(record.plan["units"]),
        delta=accountant.delta,
        paid=0.0,
        confidence=confidence,
        unit=explain.unit(question.measures[0], question),
        ordered=ordered,
        adjusted=partial(_as_it_is, frame),
        sources=(record.number,),
        notes=(note,),
        again=partial(_revealed, record, question, domain, accountant),
    )
    return with_tables(release, question, domain)


class _Run:
    """All rounds of one charge."""

    def __init__(self, mechanism: AdaptiveMarginals, charge: Charge, randomness: Randomness, report: Progress) -> None:
        self.questions, self.charge, self.randomness, self.report = mechanism.questions, charge, randomness, report
        self.protected = mechanism._table(charge.table)
        self.accountant = self.questions.ledger.accountant
        self.domain = self.protected.table.domain
        self.told = AdaptiveTable(mechanism.asked_in(charge), self.protected.table, self.accountant)
        self.rounds: Rounds = self.told.rounds()
        self.left = int(charge.plan["units"])
        self.noisy: list[Integers] = []
        self.scores: list[Integers] = []
        self.chosen: list[Planned] = []
        self.kept: list[dict[str, Any]] = []

    def all(self) -> tuple[list[Integers], dict[str, Any]]:
        """Go through all rounds; see `AdaptiveMarginals.measure`."""
        units, shares = self.left, RoundShares.of(self.rounds.law)
        (first,) = planned_from_json(self.charge.plan, self.domain)
        whole = self.rounds.at_once
        self.pay(units if whole else part_of(units, shares.columns))
        self.report(0.2, "counting everything at once" if whole else "counting columns")
        self.measure(first)
        candidates, order = [] if whole else self.rounds.candidates(2), 2
        if candidates and self.rounds.takes_everything(self.left):
            item = self.told.planned(self.rounds.everything(self.left), self.left)
            self.pay(self.left)
            self.chosen.append(item)
            self.measure(item)
            candidates = []
        while candidates:
            self.report(0.2 + 0.6 * (order - 1) / self.rounds.order, f"choosing among {len(candidates):,} combinations")
            chosen = self.choose(candidates, order, part_of(units, shares.scores))
            further = self.rounds.further(chosen, order + 1)
            share = self.left if not further else part_of(units, shares.between)
            self.pay(share)
            item = self.told.planned(self.rounds.take(chosen, share), share)
            self.chosen.append(item)
            self.measure(item)
            candidates, order = further, order + 1
        self.report(0.8, "fitting counts to all that was measured")
        answers = self.rounds.answers()
        return [*self.noisy, *self.scores], adaptive_details(self.chosen, self.kept, answers)

    def pay(self, units: int) -> None:
        """Take units from what is left of the charge.

        Raises
        ------
        LedgerError
            If there are not so many.
        """
        if units > self.left:
            raise LedgerError("the price of this answer is too small for all of its rounds")
        self.left -= units

    def measure(self, item: Planned) -> None:
        """Add the noisy answers of a measurement."""
        engine, operator = self.protected.engine, item.measurement.operator
        assert isinstance(operator, Marginals)
        exact = exact_answers(item.measurement, self.domain, engine)
        noisy = self.with_noise(item, exact, "noise", len(self.noisy))
        self.noisy.append(noisy)
        told = np.ldexp(noisy[0].astype(np.float64), -item.bits)
        self.rounds.add(operator, told, self.accountant.law.variance(item.scale))

    def choose(self, candidates: Sequence[Subset], order: int, units: int) -> list[Subset]:
        """Return which candidates are measured next, by their noisy scores."""
        self.pay(units)
        item = self.told.scored(len(candidates), units)
        exact = exact_scores(self.counts(candidates), self.rounds.predictions(candidates))
        noisy = self.with_noise(item, exact, "scores", order)
        self.scores.append(noisy)
        std = math.sqrt(self.accountant.law.variance(item.scale))
        chosen = self.rounds.choose(candidates, np.ldexp(noisy.astype(np.float64), -item.bits), std, self.left)
        self.kept.append(
            {
                "candidates": [list(one) for one in candidates],
                "chosen": [list(one) for one in chosen],
                "scale": str(item.scale),
                "bits": item.bits,
            }
        )
        return chosen

    def counts(self, candidates: Sequence[Subset]) -> list[Integers]:
        """Return the exact counts of candidates, flat: seen by nothing but their scores."""
        plain = Marginals([Identity(n) for n in self.rounds.sizes], dict.fromkeys(candidates, 1))
        engine, measurement = self.protected.engine, self.told.measurement(plain)
        exact = exact_answers(measurement, self.domain, engine)[0]
        ends = np.cumsum([int(np.prod([self.rounds.sizes[i] for i in one])) for one in candidates])
        return np.split(exact, ends[:-1])

    def with_noise(self, item: Planned, exact: Integers, *purpose: str | int) -> Integers:
        """Return exact numbers with the noise of a measurement, on its grid."""
        noise = self.questions.draw(item, self.accountant.noise, self.randomness.source(*purpose))
        return (exact << item.bits) + noise.reshape(exact.shape)


def exact_scores(counts: Sequence[Integers], predictions: Sequence[Integers]) -> Integers:
    """Return how far counts are from predictions of them, the sum over cells, shape (tables,).

    Each is a whole number that a row changes by at most 1; see `dpnotebook.planner.adaptive_rounds`.

    Parameters
    ----------
    counts, predictions
        Whole numbers, flat, one array a table: the exact counts, and what public numbers say of them.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotebook.session.adaptive import exact_scores
    >>> exact_scores([np.array([3, 0, 5])], [np.array([2, 2, 4])])
    array([4])
    """
    return np.array([np.abs(one - other).sum() for one, other in zip(counts, predictions, strict=True)], dtype=np.int64)

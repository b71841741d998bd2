"""What was recorded of the tables of a session, kept up to date: planning with it, and answering from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.answering import Draw, Redraw, measure
from dpnotebook.forks import in_child, lock
from dpnotebook.inference.answers import Estimates
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.progress import Progress
from dpnotebook.protected import ProtectedTable
from dpnotebook.question import Question
from dpnotebook.reuse.combining import combined_details, determined, linear_of
from dpnotebook.reuse.history import History, Measured
from dpnotebook.reuse.plan import Plan
from dpnotebook.reuse.planner import make_plan
from dpnotebook.reuse.recorded import plan_from_json
from dpnotebook.reuse.table import Table
from dpnotebook.strategy.blas import threads_for

if TYPE_CHECKING:
    from dpnotebook.query import Query

Integers = NDArray[np.int64]


class Histories:
    """Least squares over everything recorded, one history a table; safe to use from several threads.

    Parameters
    ----------
    ledger
        Where everything is recorded, by this process and by others.
    planner
        "optimal", "pioneer" or "naive".
    """

    def __init__(self, ledger: Ledger, planner: str) -> None:
        self.ledger = ledger
        self.planner = planner
        self._known: dict[str, History] = {}
        self._lock = lock()  # held while a history is read or moved on
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget what another thread of the parent may have left half-way; the ledger has it all."""
        self._known.clear()

    def plan(self, query: Query, table: Table, *, alternatives: bool = True) -> Plan:
        """Return the plan of a query as the ledger stands; see `make_plan`."""
        question = query.question
        assert isinstance(question, Question)
        asked = [measure.workload for measure in question.measures if measure.workload is not None]
        with self._lock, threads_for(max((workload.shape[1] for workload in asked), default=0)):
            return make_plan(
                question,
                query.accuracy,
                table,
                self.ledger,
                history=self._history(table) if self.planner != "naive" else None,
                planner=self.planner,
                fresh=query.fresh,
                assumption=query.assumption,
                strategy=query.strategy,
                alternatives=alternatives,
            )

    def free(self, question: Question, confidence: float, table: Table) -> dict[str, Any] | None:
        """Return the answers that follow from what is recorded, as the ledger keeps them; None where they do not."""
        with self._lock, threads_for(0):
            history = self._history(table)
            return combined_details(history, question, confidence) if determined(history, question) else None

    def finish(self, protected: ProtectedTable, charge: Charge, draw: Draw, redraw: Redraw, report: Progress) -> Record:
        """Measure and record what was charged and not recorded: nobody has seen an answer for that charge.

        Parameters
        ----------
        protected, charge
            What is measured, and what was paid for.
        draw, redraw, report
            As for `measure`.
        """
        table = protected.table
        confidence: float = charge.plan.get("combined", 0.0)  # 0 where the answer is that of its own measurement

        def combine(noisy: Sequence[Integers]) -> dict[str, Any]:
            with self._lock, threads_for(0):
                history = self._history(table)
                history.take([Measured(charge.number, charge.plan, charge.units, tuple(noisy))])
                question = Question.from_json(charge.plan["question"], table.domain)
                return combined_details(history, question, confidence, self._own(charge, noisy, table))

        using = combine if confidence else None
        try:
            record = measure(self.ledger, protected, charge, draw, report, using, redraw)
        except BaseException:
            self._known.pop(table.name, None)
            raise
        if confidence and not all(map(np.array_equal, record.answers, self._known[table.name].answers(charge.number))):
            self._known.pop(table.name, None)  # another kernel was first: what it recorded counts
        return record

    def _history(self, table: Table) -> History:
        """Return what was recorded of a table, up to date."""
        history = self._known.get(table.name)
        if history is None:
            history = self._known[table.name] = History(table.domain, self.ledger.accountant.noise)
            history.latest_plans = lambda count: [
                record.plan for record in self.ledger.latest(table.name, count) if "measures" in record.plan
            ]
        version, news = self.ledger.news(table.name, history.version)
        history.take(news, version)
        history.refining = self.ledger.refining(table.name)
        return history

    def _own(self, charge: Charge, noisy: Sequence[Integers], table: Table) -> Estimates | None:
        """Return what a measurement says by itself, where the promise rests on that."""
        if not charge.plan.get("own"):
            return None
        recorded = plan_from_json(charge.plan, table.domain)
        linear = linear_of(recorded.answers[0])
        if linear is None:
            return None
        item = recorded.planned[0]
        values = np.ldexp(noisy[0].astype(np.float64), -item.bits)
        return linear.estimate(values, self.ledger.accountant.noise, item.scale, charge.plan["combined"])

"""What was recorded of the tables of a session, kept up to date: planning with it, and answering from it."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.extension import Extension, extension
from dpnotebook.errors import DPError, EngineError
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.ledger.collecting import collecting_later
from dpnotebook.ledger.forks import in_child, lock
from dpnotebook.ledger.moment import Moment
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.combining import Promise, linear_of
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.partwise import PartwiseAnswers
from dpnotebook.planner.picked import Picked, picked_from
from dpnotebook.planner.plan import Alternative, Comparisons, Plan
from dpnotebook.planner.plan_json import combined_from_json, plan_from_json, planned_from_json
from dpnotebook.planner.planner import make_plan
from dpnotebook.planner.redraws import RedrawnAnswers, redrawn
from dpnotebook.planner.several import details_of
from dpnotebook.planner.ski_rental import Purchases
from dpnotebook.planner.table import TableSchema
from dpnotebook.query.question import Question
from dpnotebook.session.domains import lost_words
from dpnotebook.strategy.blas import threads_for

if TYPE_CHECKING:
    from dpnotebook.session.query import Query

FEW_RELEASES = 100  # that are put together anew for one answer without a look at which of them matter
LOOKED_AT = 100  # of the releases that answer a question: the latest, which people have in mind
READ_AT_ONCE = 1_000  # releases that are in memory as the ledger has them, before what matters of them is kept
CHECKED = 0.95  # confidence at which answers of single measurements are looked at: shown at any that is asked

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Histories:
    """Least squares over everything recorded, one history a table; safe to use from several threads.

    Parameters
    ----------
    ledger
        Where everything is recorded, by this process and by others.
    planner
        "optimal", "pioneer" or "naive".
    purchases
        "auto", "offer" or "never", where a query does not say.
    """

    def __init__(self, ledger: Ledger, planner: str, purchases: Purchases) -> None:
        self.ledger = ledger
        self.planner = planner
        self.purchases: Purchases = purchases
        self._known: dict[str, History] = {}
        self._free: dict[str, tuple[tuple[Any, ...], dict[str, Any] | None]] = {}  # the latest, by table
        self._questions: dict[int, tuple[Mapping[str, Any], int, Sequence[int]]] = {}  # of releases, as `_asked` says
        self._told: dict[int, tuple[str, int]] = {}  # of releases that were taken, by what `_told_once` has questions
        self._told_once: dict[tuple[str, int], bytes] = {}  # nothing that Python looks through time and again
        self._domains: dict[str, dict[int, Domain]] = {}  # by table, and by the entry that said them
        self._lock = lock()  # held while a history is read or moved on
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget what another thread of the parent may have left half-way; the ledger has it all."""
        self._known.clear()
        self._free.clear()

    def forget(self, name: str) -> None:
        """Read what was recorded of a table anew: it was protected again, perhaps with another domain."""
        with self._lock:
            self._known.pop(name, None)
            self._free.pop(name, None)
            self._domains.pop(name, None)

    def of(self, table: TableSchema, moment: Moment | None = None) -> History:
        """Return what was recorded of a table, up to date, or to a moment at least."""
        with self._lock:
            return self._history(table, moment)

    def domain_of(self, table: TableSchema, since: int) -> Domain:
        """Return the domain of a table that an entry of the ledger said, by this kernel or another."""
        known = self._domains.setdefault(table.name, {})
        if since not in known:
            known |= {one.since: Domain.from_json(one.domain) for one in self.ledger.domains(table.name)}
        found = known.get(since, table.domain)
        return table.domain if found == table.domain else found

    def plan(self, query: Query, table: TableSchema, moment: Moment) -> Plan:
        """Return the plan of a query as the ledger stood, that running it keeps; see `make_plan`."""
        plan = self._plan(query, table, moment)
        if plan.free and plan.recorded is None and self.free(plan, table, moment) is None:
            # What planning screens in passing did not stand the whole test: it is measured, and costs what it says.
            return self._plan(replace(query, fresh=True), table, moment)
        if plan.measurements and (lost := lost_words(self.of(table, moment))):
            plan = replace(plan, steps=(*plan.steps, lost))
        plan = replace(plan, picked=self.picked(plan.question, plan.reused, table) if plan.reused else None)
        return replace(plan, comparisons=self._compared(plan, replace(query), table, moment))

    def _compared(self, plan: Plan, query: Query, table: TableSchema, moment: Moment) -> Comparisons:
        """Return what a plan can be compared with: other prices, another purchase, measuring anew what may be picked.

        All is worked out as the ledger stood when it was planned, or where more was recorded since, as it stands when
        somebody looks. The query is a twin of the planned one, which the plan must not keep alive.
        """
        history = self.of(table, moment)
        version = history.version

        def prices() -> Iterable[Alternative]:
            with self._lock, _threads(query):
                if history.version == version:
                    return plan.comparisons.prices()
            if self._known.get(table.name) is not history:  # the table was declared otherwise since
                return ()
            return self.plan(query, table, self.ledger.moment(table.name)).alternatives

        def otherwise() -> Plan | None:
            if plan.bought:
                return self._plan(replace(query, purchases="never"), table, moment)
            if plan.kind is not None and not plan.free and self._purchases(query, table) == "offer":
                offered = self._plan(replace(query, purchases="auto"), table, moment)
                return offered if offered.bought else None
            return None

        def afresh() -> Plan | None:
            with suppress(DPError):  # as where no noise is fine enough
                if plan.picked is not None:
                    return self._plan(replace(query, accuracy=plan.accuracy, fresh=True), table, moment)
            return None

        return Comparisons(prices, otherwise, afresh)

    def picked(self, question: Question, releases: Sequence[int], table: TableSchema) -> Picked | None:
        """Return which of the releases that answer a question it may have been picked from; see `picked_from`."""
        if not question.where.attributes:  # nothing is cut out
            return None
        numbers = list(releases[-LOOKED_AT:])
        if len(numbers) == 1:  # it was asked before: what its answer followed from then
            numbers += [number for number in self._asked(numbers[0])[2] if number != numbers[0]][-LOOKED_AT:]
        first: dict[Any, int] = {}  # of those that were asked the same; every one of others
        for number in numbers:
            first.setdefault(self._told.get(number, number), number)
        asked = ((number, *self._question_of(number)) for number in first.values())
        return picked_from(question, ((number, told, self.domain_of(table, since)) for number, told, since in asked))

    def _question_of(self, number: int) -> tuple[Mapping[str, Any], int]:
        """Return what a release was asked, and the entry that said its domain: read from the ledger where need be."""
        name = self._told.get(number)
        if name is None:
            return self._asked(number)[:2]
        return marshal.loads(self._told_once[name]), name[1]  # noqa: S302 - written below, in this process

    def _asked(self, number: int) -> tuple[Mapping[str, Any], int, Sequence[int]]:
        """Return what a release was asked, the entry that said its domain, and which releases its answer follows from.

        The question is as the ledger keeps it.
        """
        if number in self._questions:
            return self._questions[number]
        record = self.ledger.charged(number)
        question, since = record.plan["question"], record.since
        if not isinstance(record, Record):
            return question, since, ()
        self._questions[number] = question, since, record.details.get("estimates", {}).get("sources", ())
        return self._questions[number]

    def _plan(self, query: Query, table: TableSchema, moment: Moment) -> Plan:
        assert isinstance(query.question, Question)
        with self._lock, _threads(query):
            return make_plan(
                query.question,
                query.accuracy,
                table,
                moment,
                history=self._history(table, moment) if self.planner != "naive" else None,
                planner=self.planner,
                fresh=query.fresh,
                assumption=query.assumption,
                strategy=query.strategy,
                purchases=self._purchases(query, table),
            )

    def _purchases(self, query: Query, table: TableSchema) -> Purchases:
        """Return what happens to purchases; none is made for parts that are not here, or where parts add up."""
        return "never" if table.elsewhere or table.adds else query.purchases or self.purchases

    def free(self, plan: Plan, table: TableSchema, moment: Moment | None = None) -> dict[str, Any] | None:
        """Return the answers that follow from what is recorded, as the ledger keeps them; None where they do not."""
        with self._lock, threads_for(0):
            weighted = plan.accuracy.error if plan.accuracy.by_part else None
            promise = Promise.of(plan.question, (plan.std_error, plan.error), weighted)
            version = self.ledger.version(table.name) if moment is None else moment.version
            asked = (version, plan.question.key, plan.confidence, promise)
            known = self._free.get(table.name)
            if known is None or known[0] != asked:  # once for a look at a plan and the run after it
                history = self._history(table, moment)
                known = asked, details_of(plan.question, history, plan.confidence, promise)
                self._free[table.name] = known
            return known[1]

    def details(self, charge: Charge, noisy: Sequence[Integers], table: TableSchema) -> dict[str, Any]:
        """Return what belongs to noisy numbers, after a look at the answers that will be shown of them.

        Raises
        ------
        EngineError
            If no answer follows from what was measured: a matter of what was planned, whatever was measured.
        """
        with self._lock, threads_for(0):
            if "combined" in charge.plan:
                found = self._combined(charge, noisy, table)
            else:  # the answer is that of its own measurement
                found = {} if all(one.finite for one in self._own(charge, noisy, table)) else None
        if found is None:
            raise EngineError(f"release {charge.number} cannot be worked out from what was measured")
        return found

    def redrawn(
        self,
        record: Record,
        question: Question,
        recorded: Sequence[Estimates],
        table: TableSchema,
        draws: int,
        needed: Collection[str] | None = None,
    ) -> RedrawnAnswers | None:
        """Return what the recorded answers to each measure may have been.

        Parameters
        ----------
        record, question
            What is redrawn, as it was asked.
        recorded
            The answers as they are shown.
        table, draws
            The table, and how often.
        needed
            Names of the measures that are redrawn; all when None.

        Returns
        -------
        None where it cannot be told how noise entered the answers.
        """
        if self.domain_of(table, record.since) != table.domain:
            return None
        plan, law = record.plan, self.ledger.accountant.law
        planned = planned_from_json(plan, table.domain)
        also = [
            item_of(item, (record.number, place), numbers, law)
            for place, (item, numbers) in enumerate(zip(planned, record.answers, strict=True))
        ]
        combined = combined_from_json(record.details, plan, law.name, CHECKED) is not None
        with self._lock, threads_for(0):
            answers = plan_from_json(plan, table.domain, question).answers if plan["measures"] else ()
            for before in self._recorded_before(record, table) if combined else [()]:
                history = History(table.domain, law.name, self._earlier(table))
                history.take(before)
                found = redrawn(question, answers, history, also, recorded, draws, needed, combined=combined)
                if found is not None:
                    return found
        return None

    def _recorded_before(self, record: Record, table: TableSchema) -> Iterator[Sequence[Record]]:
        """Yield what an answer may have been worked out from, besides what was measured for it."""
        if len(self._history(table).releases) > FEW_RELEASES:  # those that it is named to rest on mostly tell all
            named = sorted(set(record.details["estimates"]["sources"]) - {record.number})
            yield [self.ledger.get(number) for number in named]
        past = [one for one in self.ledger.news(table.name)[1] if "measures" in one.plan and one.number < record.number]
        known = record.plan.get("known", len(past))
        if known < len(past):
            yield past[:known]
        yield past

    def _combined(self, charge: Charge, noisy: Sequence[Integers], table: TableSchema) -> dict[str, Any] | None:
        """Return the answers from everything recorded, checked against what their plan said; None without any."""
        plan, planned = charge.plan, planned_from_json(charge.plan, table.domain)
        question, confidence = Question.from_json(plan["question"], table.domain), plan["combined"]
        promise = Promise.of(question, plan.get("promised", ()), plan.get("weighted"))
        # Where other kernels recorded since it was planned, there may be less room for what it was planned with. What a
        # forecast was a little better than, is still within what was asked for.
        attempts: list[tuple[Callable[[], History], Promise]] = [
            (lambda: self._history(table), promise),
            (lambda: self._as_planned(table, plan), promise),
            (lambda: self._history(table), Promise.of(question, weighted=plan.get("weighted"))),
            (lambda: self._history(table), Promise()),
        ]
        if len(question.measures) > 1 and plan.get("own"):  # afresh: of what is measured now only
            attempts = [(lambda: History(table.domain, self.ledger.accountant.noise), promise)]

        def own() -> Estimates | None:
            if not plan["measures"]:  # only what was missing beside others was measured
                return None
            return next(iter(self._own(charge, noisy, table, linear=True)), None)

        for known, least in attempts:
            history = known()
            also = [
                item_of(item, (charge.number, place), numbers, history.law)
                for place, (item, numbers) in enumerate(zip(planned, noisy, strict=True))
                if charge.number not in history.releases
            ]
            found = details_of(question, history, confidence, least, also, own=own, alone=bool(plan.get("own")))
            if found is not None:
                return found
        return None

    def _as_planned(self, table: TableSchema, plan: Mapping[str, Any]) -> History:
        """Return what was recorded of a table when a plan was made."""
        history = History(table.domain, self.ledger.accountant.noise, self._earlier(table))
        past = [record for record in self.ledger.news(table.name)[1] if "measures" in record.plan]
        history.take(past[: plan.get("known", len(past))])
        return history

    def _history(self, table: TableSchema, moment: Moment | None = None) -> History:
        """Return what was recorded of a table, up to date, or to a moment at least: then nothing may be read."""
        history = self._known.get(table.name)
        if history is None:
            earlier = self._earlier(table)
            history = self._known[table.name] = History(table.domain, self.ledger.accountant.noise, earlier)

            def latest_plans(count: int, *, earlier: bool = True) -> Sequence[Mapping[str, Any]]:
                found = self.ledger.latest(table.name, count)
                found = tuple(record for record in found if earlier or record.since not in history.earlier)
                return [record.plan for record in found if "measures" in record.plan]

            history.latest_plans = latest_plans
        if moment is None or moment.version != history.version:
            with collecting_later():
                self._take_news(table, history)
        refining = moment.refining if moment is not None else self.ledger.refining(table.name)
        history.refining = refining | history.not_refined
        return history

    def _take_news(self, table: TableSchema, history: History) -> None:
        """Bring what was recorded of a table up to date."""
        news: Sequence[Record] | None = None
        while news is None or len(news) == READ_AT_ONCE:
            version, news = self.ledger.news(table.name, history.version, READ_AT_ONCE)
            history.take(news, version)
            for record in news:
                if "question" not in record.plan:  # statements, whose answers nothing is picked from
                    continue
                self._told[record.number] = name = record.question, record.since
                if name not in self._told_once:
                    self._told_once[name] = marshal.dumps(record.plan["question"])

    def _earlier(self, table: TableSchema) -> dict[int, Extension | None]:
        """Return what became of each domain that a table had before; see `History`."""
        found: dict[int, Extension | None] = {}
        later: Extension | None = extension(table.domain, table.domain)
        after = table.domain
        for domain in reversed(self.ledger.domains(table.name)[:-1]):
            before = Domain.from_json(domain.domain)
            later = extension(before, after).then(later) if later is not None and domain.same_rows else None
            found[domain.since], after = later, before
        return found

    def lost_by(self, table: TableSchema, found: Extension, same_rows: bool) -> tuple[int, int]:
        """Return how many answers of a table could not be used any more once its domain was extended, and its answers.

        Parameters
        ----------
        table
            With the domain that the ledger knows.
        found, same_rows
            The extension, and whether all rows that count now count under it, with the same sample of every unit's.
        """
        noise, earlier = self.ledger.accountant.noise, self._earlier(table)
        later = {since: one.then(found) if one is not None and same_rows else None for since, one in earlier.items()}
        later[self.ledger.domains(table.name)[-1].since] = found if same_rows else None
        now, then = History(table.domain, noise, earlier), History(found.after, noise, later)
        past = [record for record in self.ledger.news(table.name)[1] if "measures" in record.plan and record.answers]
        now.take(past)
        then.take(past)
        return len(set(then.lost) - set(now.lost)), len(past) - len(now.lost)

    def _own(
        self, charge: Charge, noisy: Sequence[Integers], table: TableSchema, *, linear: bool = False
    ) -> Iterator[Estimates]:
        """Yield what a measurement says by itself of each of its measures, or of what these are linear in."""
        recorded = plan_from_json(charge.plan, table.domain)
        confidence = charge.plan.get("combined", CHECKED)
        # What was bought beside comes after.
        for answer, item, numbers in zip(recorded.answers, recorded.planned, noisy, strict=False):
            chosen = linear_of(answer) if linear else answer
            if isinstance(chosen, PartwiseAnswers):  # sums of whole numbers, worked out when somebody reads them
                continue
            if chosen is not None:
                values = np.ldexp(numbers.astype(np.float64), -item.bits)
                yield chosen.estimate(values, self.ledger.accountant.law, item.scale, confidence)


def _threads(query: Query) -> AbstractContextManager[object]:
    """Return the setting of threads in which a query is planned."""
    assert isinstance(query.question, Question)
    asked = [measure.workload for measure in query.question.measures if measure.workload is not None]
    return threads_for(max((workload.shape[1] for workload in asked), default=0))

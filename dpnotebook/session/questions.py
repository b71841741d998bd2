"""Questions of declared columns: the planner plans them, and counts of the domain's cells answer them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.extension import Extension
from dpnotebook.engine.scans import all_exact_answers
from dpnotebook.errors import DomainError, NotProtected, WorkloadError, shorten
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.ledger.checks import free_name
from dpnotebook.ledger.moment import Moment
from dpnotebook.planner import explain
from dpnotebook.planner.adjusted import nonnegative_estimates
from dpnotebook.planner.answers import Estimates
from dpnotebook.planner.partwise import PartwiseAnswers
from dpnotebook.planner.plan import KEPT, Plan, Planned
from dpnotebook.planner.plan_json import combined_from_json, plan_from_json, plan_to_json, planned_from_json
from dpnotebook.planner.prepaid import PrepaidStep, prepaid_plan
from dpnotebook.planner.ski_rental import Purchases
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import Assumption, answer_axes, as_asked, parts_read
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Noise, draw_integers
from dpnotebook.privacy.noise_down import refined_laplace
from dpnotebook.privacy.randomness import Randomness, Source
from dpnotebook.progress import Progress
from dpnotebook.query.question import Accuracy, Measure, Question, written_confidence
from dpnotebook.session.answer_frame import DERIVED, answer_frame, column_name, days_of, is_of_dates, shares
from dpnotebook.session.closer_by_itself import LEAST_ROWS
from dpnotebook.session.closer_hints import closer_by_epsilon, closer_in_sql, closer_inside, closer_with_fewer_rows
from dpnotebook.session.domains import extended_words, losing_words
from dpnotebook.session.histories import Histories
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.redraws import RedrawnColumns
from dpnotebook.session.release import Release
from dpnotebook.session.released_span import ReleasedSpan, released_span
from dpnotebook.session.room import check_room
from dpnotebook.session.small_groups import without_small_groups
from dpnotebook.session.tables import release_by_table, with_tables
from dpnotebook.session.value_counts import SHOWN, ShownCounts
from dpnotebook.views import digits

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.sql.statement import Statement

NOT_SHOWN = "intervals show the noise, not what that leaves out"
APART = 1009.0  # what hypothetical answers differ by, so that none is another one, or nothing
LINEAR = "the statement asks for declared columns of one table, so the planner answers it, with all that is recorded"

Integers = NDArray[np.int64]
Draw = Callable[[Planned, Noise, Source], Integers]
Redraw = Callable[[Planned, Integers, Source], Integers]


def draw_noise(item: Planned, noise: Noise, source: Source) -> Integers:
    """Return exact integer noise for every answer of a planned measurement, on its grid; shape (answers,)."""
    return draw_integers(noise, item.scale * 2**item.bits, item.measurement.answers, source)


def redraw_noise(item: Planned, first: Integers, source: Source) -> Integers:
    """Return the noise of a refinement, given that of the answers it refines, shape (answers,)."""
    assert item.before is not None
    return refined_laplace(first, item.before, item.scale, source)


def _of_aggregates(query: Query) -> Accuracy:
    """Return the accuracy of what a question measures: where a statement shows multiples of it, theirs is asked for."""
    from dpnotebook.session.shown_errors import of_aggregates, worked_out

    accuracy = query.accuracy
    if query.statement is None or query.statement.outer is None or accuracy.error is None:
        return accuracy
    multiples = worked_out(query.statement)
    return (of_aggregates(multiples, accuracy) if multiples else None) or accuracy


def _holds_for(query: Query) -> str:
    """Return for what an error holds, where the statement works out something else than multiples of that."""
    from dpnotebook.session.shown_errors import worked_out

    if query.statement is None or query.accuracy.error is None or None not in worked_out(query.statement):
        return ""
    return (
        f"{query.accuracy.text} holds for {query.question.words}: what the statement works out from that may err more, "
        "as its intervals say"
    )


def _missed(query: Query, release: Release) -> Iterator[str]:
    """Yield which columns that are worked out err more than was asked for, and what to ask for instead."""
    error = query.accuracy.error
    assert error is not None
    for column in release.worked_out:
        if column.kind == DERIVED:
            lower, upper = (release.frame[column_name(column.name, end)] for end in ("lower", "upper"))
            width = float((upper - lower).max() / 2)
            if width > KEPT * error and math.isfinite(width):
                yield (
                    f"{column.name} is told to ±{digits(width, 4)}: {query.accuracy.text} holds for "
                    f"{query.question.words}. If it is a sum or a difference of these, "
                    f"error={error * error / width:.3g} keeps it"
                )


class Questions:
    """The mechanism of questions: see `Mechanism`.

    Parameters
    ----------
    ledger
        Where everything is recorded.
    planner, purchases
        As in `Session`.
    table
        Finds a protected table by its name.
    worked_out
        Turns the answer of a question into what the SQL that it came from calls it, and works out from it.
    weights
        Tells what each number of an answer counts for there, where that is linear.
    """

    def __init__(
        self,
        ledger: Ledger,
        planner: str,
        purchases: Purchases,
        table: Callable[[str], ProtectedTable],
        worked_out: Callable[[Release, Statement], Release],
        weights: Callable[[pd.DataFrame, Sequence[str], Statement], NDArray[np.float64] | None],
    ) -> None:
        self.ledger = ledger
        self.histories = Histories(ledger, planner, purchases)
        self.draw: Draw = draw_noise
        self.redraw: Redraw = redraw_noise
        self.minimum: int | None = None  # the smallest noisy count of a group that is shown
        self._table, self._worked_out, self._weights = table, worked_out, weights
        self._known_times: dict[tuple[str, str | None], float | None] = {}
        self._spans: dict[int, ReleasedSpan | None] = {}  # of histograms that were released, by their number

    def check(self, question: Question) -> None:
        """Make sure that a question is about the domain that its table has, here and elsewhere, and about its rows.

        Raises
        ------
        DomainError, LedgerConflict
            If the domain was changed since the question was written, or by another kernel.
        FrameChanged
            If the rows are not those that were protected.
        """
        self.check_domain(question)
        self.ledger.check_domain(question.table)
        self._table(question.table).check_unchanged()
        check_room(question)

    def check_domain(self, question: Question) -> None:
        """Raise DomainError if the domain of its table was changed here since a question was written."""
        if question.where.domain != self._table(question.table).table.domain:
            raise DomainError(
                f"this query was written for the domain that {shorten(question.table)} had before it was protected "
                "again; nothing was spent. Write it again"
            )

    def plan(self, query: Query, moment: Moment) -> Plan:
        """Return the plan of a query as the ledger stood; reads no data."""
        assert isinstance(query.question, Question)
        self.check_domain(query.question)
        table = self._table(query.question.table).table
        asked = query if query.prepaid is None else replace(query, fresh=True)
        accuracy, holds_for, kept = _of_aggregates(query), _holds_for(query), ""
        if accuracy.error is not None and holds_for and (times := self._times(query, table)) is not None:
            accuracy, holds_for = replace(accuracy, error=accuracy.error / times), ""
            kept = f"measured so closely that what the statement works out keeps {query.accuracy.text}"
        plan = self.histories.plan(replace(asked, accuracy=accuracy), table, moment)
        plan = replace(plan, assumption="; ".join(filter(None, (plan.assumption, kept)))) if kept else plan
        if plan.accuracy.text != query.accuracy.text and not plan.asked_as:
            plan = replace(plan, code=explain.code(query.question, query.accuracy))
        if table.elsewhere:
            check_parts(plan, table)
        if table.adds and (words := adding_words(plan, table)):
            plan = replace(plan, steps=(*plan.steps, words))
        if query.prepaid is not None:
            plan = self._prepaid(plan, query.prepaid, table, moment)
        steps, law = plan.steps, self.ledger.accountant.law
        fewer = ""
        if query.statement is None:
            closer = closer_in_sql(query.question, table, law)
        else:
            if table.contribution_bound >= LEAST_ROWS:
                plan = replace(plan, of_statement=query.accuracy.epsilon)
            closer = closer_by_epsilon(query.accuracy, table.contribution_bound, table.one, law)
            fewer, steps = closer_with_fewer_rows(query.question, table, law), (LINEAR, *steps)
        errors = dict.fromkeys((measure.name for measure in query.question.measures), plan.error)
        errors |= {part.name: part.half_width for part in plan.parts}
        inside = "" if plan.free else closer_inside(query.question, table, errors, partial(self._span, table, moment))
        said = [holds_for] if plan.free else [closer, fewer, inside, holds_for]
        warnings = (*plan.warnings, *filter(None, said))
        return replace(plan, counted=table.counted, steps=steps, warnings=warnings)

    def _times(self, query: Query, table: TableSchema) -> float | None:
        """Return how many times as far as a number of its question the worst number is off that a statement shows.

        Numbers err apart, and no one more than another: so it is where groups are disjoint, and of a fresh measurement.
        None where what is shown is not linear in them.
        """
        question, statement = query.question, query.statement
        assert isinstance(question, Question)
        assert statement is not None
        plain = all(one.kind in ("count", "sum", "mean") and one.workload is None for one in question.measures)
        if not plain:
            return None
        key = question.key, statement.outer
        if key not in self._known_times or statement.public:  # a public table may be another one by now
            axes = answer_axes(question.measures[0], question, table.domain)
            values = APART * np.arange(1.0, math.prod(axis.size for axis in axes) + 1)
            one = Estimates(values, np.ones_like(values), values - 1, values + 1)
            frame, _ = answer_frame(question, table.domain, [one] * len(question.measures))
            keys = list(frame.columns[: frame.columns.get_loc(question.measures[0].name)])
            weights = self._weights(frame, keys, statement)
            worst = 0.0 if weights is None else float(np.sqrt((weights**2).sum(axis=1)).max(initial=0.0))
            self._known_times[key] = worst or None
        return self._known_times[key]

    def _span(self, table: TableSchema, moment: Moment, column: str) -> ReleasedSpan | None:
        """Return between which values most of a column lie, as the latest release of its histogram tells."""
        question = Question(table.name, (Measure("count"),), (column,), Predicate.everything(table.domain))
        records = [one for one in moment.records(question.key) if self.domain_of(one) == table.domain]
        if not records or self.minimum is not None:  # small counts are withheld in every form
            return None
        number, attribute = records[-1].number, table.domain[column]
        if number not in self._spans:
            accountant = self.ledger.accountant
            frame = _reveal(records[-1], question, 0.95, Assumption(), table.domain, accountant, _not_redrawn).frame
            counts, errors = (frame[name].to_numpy(dtype=float) for name in ("value", "std_error"))
            regular = slice(attribute.regular)
            self._spans[number] = released_span(number, counts[regular], errors[regular], attribute)
        return self._spans[number]

    def _prepaid(self, plan: Plan, step: PrepaidStep, table: TableSchema, moment: Moment) -> Plan:
        recorded = [one.number for one in self.ledger.records(table.name, step.key)]
        waiting = [one.number for one in moment.pending() if one.question == step.key]
        return prepaid_plan(
            plan,
            step,
            table,
            moment,
            charged=self.ledger.charges_of(table.name, step.key),
            answered=[*recorded, *waiting],
            follows=step.before is None or bool(self.ledger.records(table.name, step.before)),
        )

    def losing_words(self, table: TableSchema, found: Extension, same_rows: bool) -> str:
        """Return what a table would lose by an extension of its domain, and what to write; empty where nothing.

        Parameters
        ----------
        table
            With the domain that the ledger knows.
        found, same_rows
            As for `Histories.lost_by`.
        """
        since = self.ledger.domains(table.name)[-1].since
        lost, releases = self.histories.lost_by(table, found, same_rows)
        records = self.ledger.records(table.name)
        others = sum("measures" not in one.plan and one.since == since for one in records)
        if not lost and not others:
            return ""
        free = free_name(table.name, self.ledger.tables())
        return losing_words(table.name, found, lost, releases, others, free)

    def extended_words(self, table: TableSchema, found: Extension) -> str:
        """Return what to tell whoever extended the domain of a table."""
        history = self.histories.of(table)
        records = [one for one in self.ledger.records(table.name) if one.since in history.earlier]
        own = [one.number for one in records if "measures" in one.plan and one.answers]
        others = [one.number for one in records if "measures" not in one.plan]
        return extended_words(table.name, found, len(own), history, len(others))

    def follows(self, plan: Plan) -> dict[str, Any] | None:
        """Return the answers that follow from what is recorded, as the ledger keeps them; None where they do not."""
        return self.histories.free(plan, self._table(plan.table).table)

    def plan_json(self, plan: Plan) -> dict[str, Any]:
        """Return what the ledger keeps of a plan."""
        return plan_to_json(plan)

    def measure(
        self, charge: Charge, randomness: Randomness, report: Progress
    ) -> tuple[list[Integers], dict[str, Any]]:
        """Return exact answers plus noise, and what follows from them together with everything recorded.

        Parameters
        ----------
        charge
            What was paid for.
        randomness
            Of the charge: trying again draws the same noise.
        report
            Told how far it is.
        """
        protected = self._table(charge.table)
        domain, noisy = protected.table.domain, []
        measurements = planned_from_json(charge.plan, domain)
        answers = all_exact_answers([item.measurement for item in measurements], domain, protected.engine)
        for i, item in enumerate(measurements):
            report(0.2 + 0.6 * i / len(measurements), f"asking {protected.table.name}")
            exact = next(answers)
            noisy.append(self._noisy(item, exact << item.bits, randomness.source("noise", i)))
        return noisy, self.histories.details(charge, noisy, protected.table)

    def _noisy(self, item: Planned, exact: Integers, source: Source) -> Integers:
        if item.refines is None:
            return exact + self.draw(item, self.ledger.accountant.noise, source).reshape(exact.shape)
        release, place = item.refines
        first = self.ledger.get(release).answers[place] - exact
        return exact + self.redraw(item, first.ravel(), source).reshape(exact.shape)

    def reveal(self, record: Record, query: Query, paid: int) -> Release:
        """Return what a record answers to a query.

        Parameters
        ----------
        record
            From the ledger.
        query
            Names of the measures, order of the keys, confidence.
        paid
            What this run of it cost, in units.
        """
        table, domain = self._table(record.table).table, self.domain_of(record)
        assert isinstance(query.question, Question)
        redraws = partial(self._redraws, record, query.question)
        shown = _reveal(
            record, query.question, query.accuracy.confidence, query.assumption, domain, self.ledger.accountant, redraws
        )
        others = [number for number in shown.sources if number != record.number]
        picked = self.histories.picked(query.question, others, table)
        release = replace(shown, paid=self.ledger.accountant.epsilon(paid), picked=picked)
        if table.counted:
            release = replace(release, notes=(*release.notes, f"{table.counted} count; {NOT_SHOWN}"))
        if (joint := query.accuracy.together) is not None:
            release = replace(release, confidence=joint, together=True, picked=None, again=None)
        if self.minimum is not None:
            release = without_small_groups(release, self.minimum)
        for said in filter(None, (explain.rows_counted(query.question), explain.rows_beyond(query.question))):
            release = replace(release, notes=(*release.notes, said))
        if query.statement is not None:  # which in SQL would count them
            if missing := explain.rows_left_out(query.question):
                release = replace(release, notes=(*release.notes, missing))
            shown = self._worked_out(release, query.statement)
            return replace(shown, notes=(*shown.notes, *_missed(query, shown))) if _holds_for(query) else shown
        return release if query.shown is None else query.shown(release)

    def _redraws(
        self,
        record: Record,
        question: Question,
        recorded: Sequence[Estimates],
        draws: int,
        needed: Collection[str] | None = None,
    ) -> RedrawnColumns:
        """Return what the recorded answers may have been, by column of the release, shape (draws, rows).

        Of all measures, or of those that are needed.

        Raises
        ------
        WorkloadError
            If it cannot be told how noise entered them.
        """
        table, domain = self._table(record.table).table, self.domain_of(record)
        found = self.histories.redrawn(record, question, recorded, table, draws, needed)
        if found is None:
            raise WorkloadError(
                f"release {record.number} is combined from so much that it cannot be told how the noise of each part "
                "enters it, so it cannot be redrawn; ask with fresh=True for an answer of its own"
            )
        columns = RedrawnColumns({}, found.noise, found.scales, self.ledger.accountant.noise, measured=True)
        for measure, values in zip(question.measures, found.values, strict=True):
            if values is None:
                continue
            order = as_asked(np.arange(values.shape[1], dtype=np.float64), measure, question, domain)
            rows = values[:, order.astype(np.intp)]
            columns[measure.name] = days_of(rows) if is_of_dates(measure, domain) else rows
            if measure.kind == "cdf":
                columns[column_name(measure.name, "share")] = shares(rows, measure, question, domain)
        return columns

    def asked_in(self, charge: Charge) -> Question:
        """Return the question that was charged for."""
        return Question.from_json(charge.plan["question"], self.domain_of(charge))

    def domain_of(self, charge: Charge) -> Domain:
        """Return the domain that a table had when a question of it was charged, which is the one that it is about."""
        return self.histories.domain_of(self._table(charge.table).table, charge.since)

    def check_same(self, charge: Charge) -> None:
        """Nothing is left to check: a table that the ledger knows by another fingerprint cannot be protected."""

    def again(self, session: SessionProtocol, record: Record) -> Release:
        """Return what a record answered, at no cost: with the intervals that were asked for."""
        confidence, together = written_confidence(record.plan["accuracy"])
        shown = ShownCounts.from_json(record.plan.get(SHOWN))
        query = Query(session, self.asked_in(record), Accuracy(epsilon=1.0, confidence=confidence), shown=shown)
        return self.reveal(record, query.simultaneous() if together else query, paid=0)


def adding_words(plan: Plan, table: TableSchema) -> str:
    """Return what a plan says of parts that units may be in together; empty where it reads one at most."""
    if (parts := len(_parts_of(plan))) < 2:
        return ""
    most = f"up to {table.contribution_bound} rows of one {table.one}"
    return f"reads {parts} parts, each with {most}: what they cost adds up"


def check_parts(plan: Plan, table: TableSchema) -> None:
    """Raise NotProtected if a plan measures what is in parts of a table that are not protected in the session."""
    if missing := sorted(_parts_of(plan) & set(table.elsewhere)):
        raise NotProtected(
            f"part {missing[0]} of {shorten(table.name)} is not protected in this session, and this needs it; nothing "
            f"was spent. session.extend({shorten(table.name, 120)}, ...) adds it, as when it came first"
        )


def _parts_of(plan: Plan) -> set[int]:
    """Return which parts of its table a plan reads, numbered from 1."""
    return {part + 1 for item in plan.measurements for part in parts_read(item.measurement)}


def _not_redrawn(recorded: Sequence[Estimates], draws: int) -> dict[str, NDArray[Any]]:
    raise NotImplementedError  # of a release that nobody looks at


def _hidden(frame: pd.DataFrame, question: Question) -> Iterator[str]:
    """Yield which quantiles noise hides, as they may be anything that they are asked among."""
    for measure in question.measures:
        answers = int(frame[measure.name].isna().sum()) if measure.kind == "quantile" else 0
        if answers:
            where = f" in {answers:,} of {len(frame):,} groups, as they have" if len(frame) > 1 else ", as there are"
            yield f"{question.words_of(measure)}: noise hides it{where} too few values"


def _reveal(
    record: Record,
    question: Question,
    confidence: float,
    assumption: Assumption,
    domain: Domain,
    accountant: Accountant,
    redraws: Callable[[Sequence[Estimates], int], dict[str, NDArray[Any]]],
) -> Release:
    """Return what a record answers, as if this had cost nothing."""
    combined = combined_from_json(record.details, record.plan, accountant.noise, confidence)
    shown: Sequence[Estimates] = combined or []
    adjusted = None
    if combined is None or record.plan["measures"]:
        recorded = plan_from_json(record.plan, domain, question, assumption)
        first = recorded.answers[0]
        if isinstance(first, PartwiseAnswers):
            return release_by_table(record, question, domain, first, recorded.planned[0], accountant, confidence)
        measured = [
            np.ldexp(noisy.astype(np.float64), -item.bits)
            for item, noisy in zip(recorded.planned, record.answers, strict=False)  # what was bought beside comes after
        ]
        estimates = [
            answer.estimate(noisy, accountant.law, item.scale, confidence)
            for answer, item, noisy in zip(recorded.answers, recorded.planned, measured, strict=True)
        ]
        shown = shown or estimates

        def adjusted(total: float | None, report: Progress) -> pd.DataFrame:
            found = [
                nonnegative_estimates(
                    answer, noisy, estimate, math.sqrt(accountant.law.count_variance(item.scale)), total, report
                )
                for answer, item, noisy, estimate in zip(
                    recorded.answers, recorded.planned, measured, estimates, strict=True
                )
            ]
            return answer_frame(question, domain, found)[0]

    frame, ordered = answer_frame(question, domain, shown)
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
        adjusted=adjusted,
        sources=(record.number,) if combined is None else tuple(record.details["estimates"]["sources"]),
        notes=tuple(_hidden(frame, question)),
        redraws=partial(redraws, shown),
        again=lambda other: _reveal(record, question, other, assumption, domain, accountant, redraws),
    )
    return with_tables(release, question, domain)

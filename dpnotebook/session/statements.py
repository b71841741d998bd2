"""Statements of SQL: what they mean, and the mechanism of those that the planner does not answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import DPError, EngineError, FrameChanged, NotProtected, SQLError, shorten
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.ledger.moment import Moment
from dpnotebook.planner.plan import Plan, PlannedMeasure
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.progress import Progress
from dpnotebook.query.question import Accuracy, Question
from dpnotebook.session.closer_by_itself import LEAST_ROWS, counts_tell_rates, much_closer
from dpnotebook.session.closer_hints import closer_by_epsilon
from dpnotebook.session.first_look import LOOK, with_look
from dpnotebook.session.pipeline import Measured
from dpnotebook.session.query import Query, SessionProtocol, is_free
from dpnotebook.session.readings import Readings, bounded_by
from dpnotebook.session.relations import Relations
from dpnotebook.session.release import Release
from dpnotebook.session.route import Route
from dpnotebook.sql.ownership.reader import ValueBounds
from dpnotebook.sql.statement import Statement

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.planner.history import History
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.sql.aggregates.function import KnownGroups
    from dpnotebook.sql.aggregates.noising import Draw
    from dpnotebook.sql.plan import StatementPlan
    from dpnotebook.sql.prices import StatementBooks
    from dpnotebook.sql.select import PrivateSelect

NOT_WORKED_OUT = "these are the groups as they were measured, and not what the statement works out from them"
# sqlglot takes a third of a second to import: what needs it is imported where the first statement is asked.


def _reads_what_is_here(statement: Statement, table: ProtectedTable) -> bool:
    """Whether the rows of a statement are in parts of a table that are protected in the session."""
    if statement.parts is None or statement.parts[0] != table.table.parts:
        return False
    return max(statement.parts[1], default=0) <= len(table.parts)


def _called(keys: Sequence[str], statement: Statement) -> dict[str, str]:
    """Return what a statement calls keys of the planner's answer that it gives other names."""
    from dpnotebook.sql.linear.questions import new_names

    known = {name.casefold(): name for name in keys}  # those that are worked out have their names
    return {known[old.casefold()]: new for old, new in new_names(statement).items() if old.casefold() in known}


def incomplete_table(protected: ProtectedTable) -> NotProtected:
    """Return the error of a statement that needs parts of a table that are not protected in the session."""
    name, parts = protected.table.name, protected.table.parts
    return NotProtected(
        f"{len(protected.parts)} of {parts} parts of {shorten(name)} are protected in this session. This statement is "
        "measured over all of them, or is answered from what the ledger has of it; nothing was spent. "
        f"session.extend({shorten(name, 120)}, ...) adds the others"
    )


def _drawn(select: PrivateSelect) -> int:
    """Return how many rows of each unit count because its table says so; 0 where something else bounds a unit."""
    return 0 if select.written or select.contribution.kind != "rows" else select.contribution.most


def _not_worked_out(number: int) -> EngineError:
    return EngineError(
        f"Release {number} is recorded, but what the statement works out from it cannot be worked out from its "
        f"numbers: one may be too large for a type that it is cast to. session.release({number}) shows them"
    )


class Statements:
    """The mechanism of statements over the protected and the public tables of a session: see `Mechanism`.

    Parameters
    ----------
    ledger
        Where everything is recorded.
    table
        Finds a protected table by its name.
    history
        Returns what was recorded of a table's declared columns, up to a moment.
    """

    def __init__(
        self,
        ledger: Ledger,
        table: Callable[[str], ProtectedTable],
        history: Callable[[TableSchema, Moment], History],
    ) -> None:
        self.ledger = ledger
        self.relations = Relations(ledger.key)
        self.draw: Draw | None = None  # noise; the exact laws unless a test says otherwise
        self.hide = True
        self.minimum: int | None = None  # the smallest noisy count of a group that is shown
        self.most: float | None = None  # the epsilon that one question may take
        self._table, self._history = table, history

    def query(
        self,
        session: SessionProtocol,
        text: str,
        given: Mapping[str, Any],
        confidence: float,
        parameters: Mapping[str, Any],
        fresh: bool,
        contribution: str | None,
        bounds: ValueBounds | None = None,
    ) -> Query:
        """Return the query that a statement asks: one for the planner where its columns are declared, else its own.

        Parameters
        ----------
        session
            Who is asked.
        text, parameters
            The SQL, and the values of `:name` in it.
        given
            epsilon, error and variance, of which exactly one is not None unless the statement says its epsilon.
        confidence, fresh
            As for a query.
        contribution
            "l2" to bound the whole vector of a unit at once, "rows" to sample its rows; None for what suits best.
        bounds
            "auto" to find narrower bounds of values than those that are declared, "declared" to clamp to these; None
            for what suits best.

        Raises
        ------
        SQLError, NotProtected, AccuracyError
            If it cannot be answered, or not like this.
        """
        from dpnotebook.sql.analysis.analyse import analyse
        from dpnotebook.sql.dry_run import check_outer
        from dpnotebook.sql.prices import at_epsilon, conflicting

        if contribution not in (None, "l2", "rows"):
            raise SQLError(f"contribution= is 'l2', 'rows' or left out, not {shorten(contribution)}")
        if bounds not in (None, "auto", "declared"):
            raise SQLError(
                f"bounds= is 'auto', 'declared' or left out, not {shorten(bounds)}; bounds of one's own are written in "
                "the statement, as in AVG(x, contribution_bounds_per_row => (0, 100))"
            )
        usual = bounded_by(contribution, self.ledger)
        lists = not self.ledger.threshold_delta
        statement = analyse(text, self.relations.known, parameters, usual, bounds, lists=lists)
        check_outer(statement, self.relations.known)
        statement, own = at_epsilon(statement, self.ledger.accountant)
        if own is not None:
            conflicting(own, given)
            accuracy = Accuracy(epsilon=own, confidence=confidence)
        else:
            accuracy = Accuracy(**given, confidence=confidence)

        def decided(accuracy: Accuracy, fresh: bool, route: Route | None) -> Query:
            known = self.relations.known  # as it is then
            readings = Readings(self.ledger, known, text, parameters, contribution, bounds, accuracy, fresh)
            found = self._decided(session, readings, statement, route)
            if accuracy.relative is not None and isinstance(found.question, Statement):
                units = self.ledger.accountant.total // LOOK  # as it is read for an epsilon it may have been answered
                looked = decided(Accuracy(self.ledger.accountant.epsilon(units)), fresh=False, route=None)
                for asked in (found.question, looked.question):
                    resolved = self._resolved(asked, accuracy) if isinstance(asked, Statement) else None
                    if resolved is not None:
                        return decided(resolved, fresh, route)
                return found
            public = any(select.public and select.keys for select in statement.selects)
            if fresh or not (public or statement.usual) or is_free(found):
                return found
            earlier = self._paid_earlier(session, readings, statement, route)
            return found if earlier is None else earlier

        def looking(accuracy: Accuracy, fresh: bool, route: Route | None) -> Query:
            return with_look(
                decided(accuracy, fresh, route), lambda other: decided(other, fresh=False, route=None), self.most
            )

        return Route(looking, partial(self._stands, statement.table)).first(accuracy, fresh)

    def _resolved(self, statement: Statement, accuracy: Accuracy) -> Accuracy | None:
        """Return a relative accuracy as one in the answer's own units, as the best release of a statement tells.

        None where no release does. Of several groups it is a share of what they are on average, as for verbs.
        """
        from dpnotebook.session.shown_errors import size_shown
        from dpnotebook.sql.reuse.known import most_accurate

        assert accuracy.relative is not None
        if (known := most_accurate(statement, self.ledger.moment(statement.table))) is None:
            return None
        told = replace(self.ledger.get(known.number), numbers=(known.numbers,), details={"selects": [known.details]})
        size = size_shown(self._revealed(told, statement, accuracy.confidence))
        return accuracy.resolved(float(f"{accuracy.relative * size:.4g}")) if math.isfinite(size) and size > 0 else None

    def _paid_earlier(
        self, session: SessionProtocol, readings: Readings, statement: Statement, route: Route | None
    ) -> Query | None:
        """Return a statement as an earlier version read it, where that was paid for and stays free; None where not.

        Earlier versions did not know the groups of public columns, or of several together, and measured aggregates as
        they were written.
        """
        wanted = bounded_by(readings.contribution, self.ledger)
        not_together = {name: replace(one, groups=None) for name, one in readings.relations.items()}
        not_any = {name: replace(one, levels=None) for name, one in not_together.items()}
        keys = {statement.key}
        ways = (not_together, not_any) if any(one.together for one in statement.selects) else (not_any,)
        before_them = [(replace(readings, relations=known), statement.rates) for known in ways]
        before_them += [(replace(readings, usual=False), True)] if statement.usual else []
        for then, rates in before_them:
            try:
                before = then.read(wanted, readings.bounds, rates)
            except SQLError:  # of what was not answered then
                continue
            if before.key in keys:
                continue
            keys.add(before.key)
            earlier = self._decided(session, then, before, route)
            if is_free(earlier):
                return earlier
        return None

    def _stands(self, table: str) -> tuple[str, tuple[int, ...]]:
        """Return in which state the ledger is."""
        moment = self.ledger.moment(table)
        return moment.head, moment.waiting

    def _decided(
        self, session: SessionProtocol, readings: Readings, statement: Statement, route: Route | None
    ) -> Query:
        """Return the query that answers a statement as the ledger stands; see `query`."""
        from dpnotebook.sql.linear.questions import linear_question
        from dpnotebook.sql.reuse.known import may_be_answered

        if statement.rates:  # the planner tells them from counts, which serve later questions; so may what is known
            counts = readings.of_counts()
            answer = self._decided(session, readings, counts, route)
            of_counts = not isinstance(answer.question, Statement) and readings.accuracy.epsilon is not None
            if of_counts or counts_tell_rates(answer, readings.is_paid(counts)):
                return answer

        contribution, parameters = readings.contribution, readings.parameters
        tables: dict[str, TableSchema] = {name: protected.table for name, protected in self.relations.protected.items()}
        bounded = all(tables[name].unit is None or tables[name].max_rows is not None for name in statement.tables)
        dates = self.relations.known[statement.table].dates
        question = linear_question(statement, tables, parameters, dates) if contribution != "l2" and bounded else None
        ask = partial(Query, session, accuracy=readings.accuracy, fresh=readings.fresh, route=route)
        planned = None if question is None else ask(question, statement=statement)
        if planned is None and contribution != "l2" and bounded:
            joined = self._without_public_joins(statement, tables, parameters, ask)
            hidden = not self.ledger.threshold_delta and any(
                key.levels is None for select in statement.selects for key in select.keys
            )
            if joined is not None and (hidden or is_free(joined)):
                return joined
        if planned is not None:
            few_rows = tables[statement.table].contribution_bound < LEAST_ROWS
            if contribution is not None or few_rows:
                assert question is not None
                # What was paid for beside an average, or by itself in earlier versions, stays free.
                if is_free(planned) or not may_be_answered(statement, self.ledger.moment(statement.table)):
                    return planned
                paid = ask(self._of_parts(statement, tables, parameters))
                return paid if is_free(paid) else planned

        found = readings.suited(statement, bounded)
        together = readings.together(statement, found, bounded, planned is not None)
        if together is not None and (readings.fresh or not is_free(ask(found))):
            found = together
        by_itself = ask(self._of_parts(found, tables, parameters))
        if planned is None or question is None:
            return by_itself
        answered = not readings.fresh and self._was_answered(question, readings.accuracy)
        return by_itself if much_closer(by_itself, planned, answered) else planned

    def _was_answered(self, question: Question, accuracy: Accuracy) -> bool:
        """Return whether the planner answered a statement that asks the same, at as much epsilon or more."""
        if accuracy.epsilon is None:
            return False
        told = (record.plan.get("of_statement") for record in self.ledger.moment(question.table).records(question.key))
        return any(epsilon is not None and epsilon >= accuracy.epsilon for epsilon in told)

    def _without_public_joins(
        self,
        statement: Statement,
        tables: Mapping[str, TableSchema],
        parameters: Mapping[str, Any],
        ask: Callable[..., Query],
    ) -> Query | None:
        """Return the question that a statement asks whose public tables say only what follows from declared levels."""
        from dpnotebook.sql.analysis.analyse import analyse
        from dpnotebook.sql.linear.public_joins import without_public_joins
        from dpnotebook.sql.linear.questions import check_whole, linear_question
        from dpnotebook.sql.parse.statement_parser import read_surface

        public = any(select.public for select in statement.selects)
        if not public or len(statement.tables) != 1 or statement.table not in tables:
            return None
        surface, domain = read_surface(statement.text, parameters), tables[statement.table].domain
        try:
            text = without_public_joins(
                surface.tree, statement.table, domain, self.relations.known, self.relations.few_rows
            )
            if text is None:
                return None
            check_whole(surface)
            usual, lists = bounded_by(None, self.ledger), not self.ledger.threshold_delta
            found = analyse(text, self.relations.known, {}, usual, None, lists=lists)
            question = linear_question(found, tables, {}, self.relations.known[statement.table].dates)
        except DPError:  # it is said where the statement is measured by itself
            return None
        return None if question is None else ask(question, statement=found)

    @staticmethod
    def _of_parts(statement: Statement, tables: Mapping[str, TableSchema], parameters: Mapping[str, Any]) -> Statement:
        """Return a statement with the parts that it reads of a table that grew, where only their rows pay for it."""
        from dpnotebook.sql.linear.parts import parts_of_rows

        table = tables[statement.table]
        if not table.parts or table.adds:  # where parts add up, a unit pays for a statement once
            return statement
        parts = parts_of_rows(statement, table, parameters)
        return statement if parts is None else replace(statement, parts=(table.parts, parts))

    def check(self, statement: Statement) -> None:
        """Make sure that all tables are there as they were, and that the queries can run.

        Raises
        ------
        NotProtected
            If a table is not protected in the session.
        FrameChanged, EngineError
            If the tables cannot be read any more, or not together.
        LedgerConflict
            If another kernel changed the domain of one.
        """
        for name in statement.tables:
            self._table(name)
            self.ledger.check_domain(name)
        self.relations.check_readable(statement)

    def plan(self, query: Query, moment: Moment) -> StatementPlan:
        """Return the plan of a query for a statement, as the ledger stood; reads no data."""
        from dpnotebook.sql.plan import make_statement_plan

        assert isinstance(query.question, Statement)
        asked, tables = query.question, [self._table(name) for name in query.question.tables]
        incomplete = [one for one in tables if not one.complete and not _reads_what_is_here(asked, one)]
        # What was recorded while the table had the parts that are here, or since it had those that the statement reads.
        parts: Container[int] | None = range(max(asked.parts[1]), asked.parts[0] + 1) if asked.parts else None
        if incomplete:
            parts = (len(incomplete[0].parts),) if len(tables) == 1 else ()
        told = moment if parts is None else self.ledger.moment(asked.table, parts=parts)
        books = told.remembering()  # while it is planned, and no longer

        def at(accuracy: Accuracy) -> StatementPlan:
            found = make_statement_plan(
                asked,
                accuracy,
                self.relations.known,
                books,
                fresh=query.fresh,
                rows=query.assumption.rows,
                declared=partial(self._declared_groups, asked, tables, moment),
            )
            if asked.outer is None or not found.measurings:
                return found
            return replace(found, derived=lru_cache(maxsize=1)(partial(self._foretold, found, asked, told)))

        plan = at(query.accuracy) if query.accuracy.error is None else self._of_shown(asked, query.accuracy, at, books)
        if incomplete and plan.recorded is None:
            raise incomplete_table(incomplete[0])
        drawn = max((_drawn(select) for select in asked.selects), default=0)
        closer = closer_by_epsilon(query.accuracy, drawn, tables[0].table.one, self.ledger.accountant.law)
        if closer and not plan.free:
            plan = replace(plan, warnings=(*plan.warnings, closer))
        return plan

    def _of_shown(
        self,
        statement: Statement,
        accuracy: Accuracy,
        at: Callable[[Accuracy], StatementPlan],
        books: StatementBooks,
    ) -> StatementPlan:
        """Return the plan of a statement for an error: that of the columns that it shows."""
        from dpnotebook.session.foretold import delivered
        from dpnotebook.session.shown_errors import foretold_plan, of_aggregates, worked_out
        from dpnotebook.sql.reuse.known import most_accurate

        multiples = worked_out(statement)
        if not multiples:
            return at(accuracy)
        if (own := of_aggregates(multiples, accuracy)) is not None:
            plan = at(own)
        else:
            told = None
            if (known := most_accurate(statement, books)) is not None:
                revealed = partial(self._revealed, statement=statement, confidence=accuracy.confidence)
                told = delivered(known, self.ledger.get(known.number), revealed), known.units
            plan = foretold_plan(accuracy, at, told, self.ledger.accountant)
        return replace(plan, accuracy=accuracy, code=statement.code(accuracy.text))

    def _declared_groups(
        self, statement: Statement, tables: Sequence[ProtectedTable], moment: Moment
    ) -> KnownGroups | None:
        """Return how large the groups of a statement are, as what is known of its table's declared columns tells."""
        from dpnotebook.planner.expected_rows import rows_of_groups
        from dpnotebook.sql.aggregates.function import KnownGroups
        from dpnotebook.sql.linear.questions import question_of_groups

        (first, *others) = tables
        if others or (first.table.unit is not None and first.table.max_rows is None):
            return None
        counts = question_of_groups(statement, first.table, self.relations.known[first.table.name].dates)
        told = None if counts is None else rows_of_groups(counts, self._history(first.table, moment))
        if told is None:
            return None
        return replace(KnownGroups.of(told.rows), source=f"groups {told.words}")

    def _foretold(self, plan: StatementPlan, statement: Statement, books: StatementBooks) -> tuple[PlannedMeasure, ...]:
        """Return the errors of what a statement works out, where a release has its aggregates."""
        from dpnotebook.session.foretold import foretold
        from dpnotebook.sql.reuse.known import most_accurate

        known = most_accurate(statement, books)
        if known is None:
            return ()

        def revealed(record: Record) -> Release:
            return self._revealed(record, statement, plan.confidence)

        return foretold(plan, known, self.ledger.get(known.number), revealed)

    def follows(self, plan: Plan) -> dict[str, Any] | None:
        """Return None: a statement's answer follows from nothing but its own."""
        return None

    def plan_json(self, plan: Plan) -> dict[str, Any]:
        """Return what the ledger keeps of a plan, with the fingerprints of what it reads."""
        from dpnotebook.session.statement_answers import statement_plan_to_json
        from dpnotebook.sql.plan import StatementPlan

        assert isinstance(plan, StatementPlan)
        assert isinstance(plan.question, Statement)
        if plan.sharper is None:
            self._check_profiles(plan.question)
            return statement_plan_to_json(plan, plan.question, self.relations.digests(plan.question))
        self.check_same(self.ledger.get(plan.sharper.known.number))
        measured = plan.sharper.statement
        return statement_plan_to_json(plan, measured, self.relations.digests(measured))

    def _check_profiles(self, statement: Statement) -> None:
        """Make sure, before a charge, that the norms and values it goes by were found in the rows that are here now."""
        from dpnotebook.sql.profile import profiled
        from dpnotebook.sql.rows_profile import known_rows

        books = self.ledger.moment(statement.table)
        for select in statement.selects:
            rows = known_rows(select, books)
            for record in [*profiled(select, books), *([] if rows is None else [self.ledger.get(rows.number)])]:
                self.relations.check_profile(record)

    def measure(self, charge: Charge, randomness: Randomness, report: Progress) -> Measured:
        """Return noisy numbers of the groups that may be shown, and their keys and bounds."""
        from dpnotebook.session.statement_answers import measure_statement

        workspace, accountant = self.relations.workspace, self.ledger.accountant
        return measure_statement(
            charge,
            randomness,
            accountant,
            workspace.run,
            report,
            draw=self.draw,
            hide=self.hide,
            kept=self.relations.sample_secret,
            earlier=self.ledger.get,
            keep=workspace.keeping,
        )

    def reveal(self, record: Record, query: Query, paid: int) -> Release:
        """Return what a record answers to a statement."""
        from dpnotebook.sql.reuse.known import as_recorded
        from dpnotebook.sql.reuse.outlines import SHARPER

        assert isinstance(query.question, Statement)
        picked = None
        sharper = SHARPER in record.plan  # measured as the release was asked that it made sharper
        if record.question != query.question.key or (sharper and self.asked_in(record).key != query.question.key):
            answers, details, picked = as_recorded(query.question, record)
            record = replace(record, numbers=answers, details=details)
        found = self._revealed(record, query.question, query.accuracy.confidence)
        release = replace(found, paid=self.ledger.accountant.epsilon(paid), picked=picked)
        return release if query.shown is None else query.shown(release)

    def _revealed(self, record: Record, statement: Statement, confidence: float) -> Release:
        """Return what a record of a statement answers, as if that had cost nothing."""
        from dpnotebook.session.small_groups import record_without_small_groups
        from dpnotebook.session.statement_releases import reveal_statement

        notes: tuple[str, ...] = ()
        if self.minimum is not None:
            record, notes = record_without_small_groups(record, statement, self.minimum)
        public, outer = partial(self._public, record.number, statement), partial(self._outer, record.number)
        earlier, accountant = self.ledger.get, self.ledger.accountant
        return reveal_statement(record, statement, confidence, accountant, public, outer, notes, earlier)

    def asked_in(self, charge: Charge) -> Statement:
        """Return the statement that was charged for."""
        from dpnotebook.session.statement_answers import recorded_statement
        from dpnotebook.sql.analysis.analyse import units_of

        statement = recorded_statement(charge)
        return replace(statement, units=units_of(statement, self.relations.known))

    def check_same(self, charge: Charge) -> None:
        """Raise FrameChanged if a table is another than when it was charged for, NotProtected if parts are not here."""
        for table in () if isinstance(charge, Record) else map(self._table, self.asked_in(charge).tables):
            if not table.complete:
                raise incomplete_table(table)
        asked = self.asked_in(charge)
        try:
            self.relations.check_same(charge, asked)
        except FrameChanged:
            self._check_profiles(asked)  # asked anew it would go by them again, so that is no way out
            raise

    def again(self, session: SessionProtocol, record: Record) -> Release:
        """Return what a record answered, at no cost; the plain answer where nothing can be worked out from it."""
        statement, confidence = self.asked_in(record), record.plan["confidence"]
        try:
            return self._revealed(record, statement, confidence)
        except EngineError:
            plain = self._revealed(record, replace(statement, outer=None), confidence)
        lacking = (
            f"the public table {', '.join(gone)} is not here" if (gone := self.relations.not_here(statement)) else ""
        )
        why = lacking or "that fails with these numbers"
        return replace(plain, notes=(*plain.notes, f"{NOT_WORKED_OUT}: {why}"))

    def worked_out(self, release: Release, statement: Statement) -> Release:
        """Return a release of the planner as a statement calls its keys, with what it works out from it."""
        from dpnotebook.session.derived_intervals import Derivation
        from dpnotebook.session.redraws import Redrawn, followed

        names = _called(release.keys, statement)
        if not names and statement.outer is None:
            return release
        again = release.again
        renamed = replace(
            release,
            frame=release.frame.rename(columns=names),
            again=None if again is None else lambda other: self.worked_out(again(other), statement),
        )
        if statement.outer is None:
            return renamed
        shown = list(renamed.keys)

        def redraw(draws: int, needed: Collection[str] | None = None) -> list[Redrawn]:
            assert release.redraws is not None
            law = self.ledger.accountant.noise
            read = None if needed is None else {old for old in release.frame.columns if names.get(old, old) in needed}
            drawn = release.redraws(draws, needed=read)
            known = followed(drawn)
            nothing = np.zeros((draws, len(release.frame), 0)), ()
            noise, scales = (known[0].noise, known[0].scales) if known else nothing
            return [Redrawn(renamed.frame, drawn, noise, scales, law)]

        public, outer = partial(self._public, release.number, statement), partial(self._outer, release.number)
        derivation = Derivation(statement, [renamed.frame], redraw, public, outer)
        found = derivation.worked_out(release.confidence)
        return replace(
            renamed,
            frame=found.frame,
            ordered=release.ordered if list(found.frame.columns[: len(shown)]) == shown else (),
            adjusted=None,
            worked_out=found.measures,
            notes=(*release.notes, *found.notes),
            redraws=derivation.samples,
        )

    def weights(self, frame: pd.DataFrame, keys: Sequence[str], statement: Statement) -> NDArray[np.float64] | None:
        """Return what each number of the planner's answer counts for in what a statement shows.

        Parameters
        ----------
        frame, keys
            An answer, whatever its numbers are, and its keys.
        statement
            What works something out.

        Returns
        -------
        Of shape (answers, numbers); None where what is worked out is not linear, or that cannot be told.
        """
        from dpnotebook.session.derived_intervals import Derivation

        def never(draws: int, needed: Collection[str] | None = None) -> NoReturn:
            raise AssertionError("nothing is redrawn")

        public, outer = partial(self._public, 0, statement), partial(self._outer, 0)
        renamed = frame.rename(columns=_called(keys, statement))
        try:
            return Derivation(statement, [renamed], never, public, outer).weights()
        except DPError:  # it is said where the answer is there
            return None

    def _public(self, number: int, statement: Statement) -> dict[str, pd.DataFrame]:
        """Return the public tables that a statement works with; raises EngineError if one cannot be read."""
        if self.relations.not_here(statement):
            raise _not_worked_out(number)
        try:
            return {name: self.relations.workspace.frame(name) for name in statement.public}
        except DPError:
            pass
        raise _not_worked_out(number)

    def _outer(self, number: int, query: str, frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Return what a statement works out from a release; one constant error where its numbers make that fail.

        Raises
        ------
        EngineError
            If it fails.
        """
        from dpnotebook.engine.post_processing import outer

        try:
            return outer(query, frames)
        except DPError:
            pass
        raise _not_worked_out(number)

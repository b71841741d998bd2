"""The statements of a session: what they mean, what they cost, and running them over all of its tables at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dpnotebook.engine.same import is_same
from dpnotebook.engine.source import Source, TableSource, fingerprint_like
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import DomainError, DPError, EngineError, FrameChanged, shorten
from dpnotebook.ledger import Charge, Ledger, Record
from dpnotebook.planner.table import TableSchema
from dpnotebook.progress import Progress
from dpnotebook.query.question import Accuracy
from dpnotebook.session.protected import ProtectedTable
from dpnotebook.session.query import Query
from dpnotebook.session.release import Release
from dpnotebook.sql.statement import Relation, Statement

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.sql.aggregates.noising import Draw
    from dpnotebook.sql.plan import StatementPlan


class Statements:
    """SQL over the protected and the public tables of a session, beside what the planner answers by itself.

    Parameters
    ----------
    ledger
        Who pays, and where everything is recorded.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.workspace = Workspace()
        self.draw: Draw | None = None  # noise; the exact laws unless a test says otherwise
        self.hide = True
        self._relations: dict[str, Relation] = {}
        self._protected: dict[str, ProtectedTable] = {}
        self._public: dict[str, tuple[Source, str | None]] = {}

    def check_secret(self, protected: ProtectedTable) -> None:
        """Make sure that the rows of a table are not shown as they are.

        Raises
        ------
        DomainError
            If they are registered as public under another name.
        """
        for name, (source, _) in self._public.items():
            if name != protected.table.name and is_same(source, protected.whole):
                raise DomainError(
                    f"these are the rows of {shorten(name)}, which is registered as public in this session and shown "
                    "as it is"
                )

    def protect(self, protected: ProtectedTable) -> None:
        """Let statements name a protected table."""
        table = protected.table
        self.workspace.add(table.name, protected.whole, table.unit, private=True)
        self._public.pop(table.name, None)
        self._protected[table.name] = protected
        self._relations[table.name] = Relation(
            table.name,
            self.workspace.kinds(table.name),
            unit=table.unit,
            max_rows=table.max_rows,
            domain=table.domain,
            rows=table.rows,
            elements=self.workspace.elements(table.name),
            population=table.population,
            rounded=self.workspace.rounded(table.name),
        )

    def register(self, name: str, source: Source) -> None:
        """Let statements name a public table.

        Raises
        ------
        DomainError
            If a protected table has this name.
        """
        if name in self._protected:
            raise DomainError(f"{shorten(name)} is a protected table; register the public one under another name")
        for known, protected in self._protected.items():
            if is_same(source, protected.whole):
                raise DomainError(
                    f"these are the rows of {shorten(known)}, which is protected, and what is registered is shown "
                    "as it is; register a table in which nothing is about a person"
                )
        self.workspace.add(name, source, None, private=False)
        fleeting = isinstance(source, TableSource) and source.fleeting
        self._public[name] = source, source.fingerprint(source.columns, self.ledger.key) if fleeting else None
        self._relations[name] = Relation(
            name,
            self.workspace.kinds(name),
            private=False,
            elements=self.workspace.elements(name),
            rounded=self.workspace.rounded(name),
        )

    def query(
        self,
        session: Any,
        text: str,
        given: Mapping[str, Any],
        confidence: float,
        parameters: Mapping[str, Any],
        fresh: bool,
        contribution: str | None,
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
            "l2" to bound the whole vector of a unit at once.

        Raises
        ------
        SQLError, NotProtected, AccuracyError
            If it cannot be answered, or not like this.
        """
        from dpnotebook.sql.analysis.analyse import analyse  # sqlglot takes a third of a second to import
        from dpnotebook.sql.dry_run import check_outer
        from dpnotebook.sql.linear.questions import linear_question
        from dpnotebook.sql.prices import at_epsilon, conflicting

        statement = analyse(text, self._relations, parameters, contribution)
        check_outer(statement, self._relations)
        statement, own = at_epsilon(statement, self.ledger.accountant)
        if own is not None:
            conflicting(own, given)
            accuracy = Accuracy(epsilon=own, confidence=confidence)
        else:
            accuracy = Accuracy(**given, confidence=confidence)
        tables: dict[str, TableSchema] = {name: protected.table for name, protected in self._protected.items()}
        question = linear_question(statement, tables, parameters) if contribution is None else None
        if question is None:
            return Query(session, statement, accuracy, fresh)
        return Query(session, question, accuracy, fresh, statement=statement)

    def plan(self, query: Query, *, alternatives: bool = True) -> StatementPlan:
        """Return the plan of a query for a statement, as the ledger stands; reads no data."""
        from dpnotebook.sql.plan import make_statement_plan

        assert isinstance(query.question, Statement)
        return make_statement_plan(
            query.question,
            query.accuracy,
            self._relations,
            self.ledger,
            fresh=query.fresh,
            rows=query.assumption.rows,
            alternatives=alternatives,
        )

    def run(self, query: Query, report: Progress) -> Release:
        """Plan, charge, measure, record, reveal.

        Raises
        ------
        BudgetExceeded
            If it costs more than is left; nothing is spent.
        FrameChanged, EngineError
            If the tables cannot be read any more, or not together; nothing is spent.
        """
        from dpnotebook.session.statement_answers import statement_plan_to_json

        statement = query.question
        assert isinstance(statement, Statement)
        self._check_readable(statement)
        for charge in () if query.fresh else self.ledger.pending(statement.table):  # measuring was interrupted
            if charge.question == statement.key:
                self.finish(query.session, charge, report)
        report(0.0, "planning")
        plan = self.plan(query, alternatives=False)
        if plan.recorded is not None:
            record = self.ledger.get(plan.recorded)
            self._check_same(record, statement)
            return self.reveal(record, query, paid=0)
        report(0.1, "charging the ledger")
        told = statement_plan_to_json(plan, statement, self._fingerprints(statement))
        charge = self.ledger.charge(statement.table, statement.key, told, plan.cells, delta=plan.threshold_delta)
        record = self._measure(charge, report)
        report(1.0, "done")
        return self.reveal(record, query, paid=charge.units)

    def reveal(self, record: Record, query: Query, paid: int) -> Release:
        """Return what a record answers to a statement."""
        from dpnotebook.session.statement_answers import reveal_statement

        return reveal_statement(record, query, self.ledger.accountant, paid, partial(self._outer, record.number))

    def finish(self, session: Any, charge: Charge, report: Progress) -> Record:
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
        from dpnotebook.session.statement_answers import recorded_statement

        statement = recorded_statement(charge)
        for name in statement.tables:
            session.table(name)
        self._check_readable(statement)
        self._check_same(charge, statement)
        return self._measure(charge, report)

    def again(self, session: Any, record: Record) -> Release:
        """Return what a record answered, at no cost; the plain answer where nothing can be worked out from it."""
        from dpnotebook.session.statement_answers import recorded_statement

        query = Query(session, recorded_statement(record), Accuracy(1.0, confidence=record.plan["confidence"]))
        try:
            return self.reveal(record, query, paid=0)
        except EngineError:
            assert isinstance(query.question, Statement)
            return self.reveal(record, replace(query, question=replace(query.question, outer=None)), paid=0)

    def worked_out(self, release: Release, statement: Statement) -> Release:
        """Return a release of the planner as a statement calls its keys, with what it works out from it."""
        from dpnotebook.sql.linear.questions import new_names

        columns = {name.casefold(): name for name in release.frame.columns}
        names = {columns[old.casefold()]: new for old, new in new_names(statement).items()}
        if not names and statement.outer is None:
            return release
        frame = release.frame.rename(columns=names)
        keys = list(frame.columns[: len(release.ordered)])
        if statement.outer is not None:
            frame = self._outer(release.number, statement.outer, {"release_0": frame}, statement.public)
        ordered = release.ordered if list(frame.columns[: len(keys)]) == keys else ()
        return replace(release, frame=frame, ordered=ordered, adjusted=None)

    @property
    def relations(self) -> Mapping[str, Relation]:
        """What is public about every table that statements may name."""
        return dict(self._relations)

    def close(self) -> None:
        """Let go of all tables."""
        self.workspace.close()
        self._relations.clear()
        self._protected.clear()
        self._public.clear()

    def _measure(self, charge: Charge, report: Progress) -> Record:
        from dpnotebook.session.statement_answers import measure_statement

        return measure_statement(self.ledger, charge, self.workspace.run, draw=self.draw, hide=self.hide, report=report)

    def _check_readable(self, statement: Statement) -> None:
        """Make sure, before anything is charged, that all tables are there as they were and the queries can run."""
        from dpnotebook.sql.rewrite.contribution_bounding import inputs_sql

        self.workspace.check(
            [*statement.tables, *(name for select in statement.selects for name in select.public)],
            [text for select in statement.selects for text in (inputs_sql(select), select.rows)],
        )

    def _outer(
        self, number: int, query: str, frames: Mapping[str, pd.DataFrame], public: Sequence[str]
    ) -> pd.DataFrame:
        """Return what a statement works out from a release; one constant error where its numbers make that fail.

        Raises
        ------
        EngineError
            If it fails.
        """
        from dpnotebook.engine.post_processing import outer

        known = dict(frames)
        try:
            for name in public:
                known[name] = self.workspace.frame(name)
            return outer(query, known)
        except DPError:
            pass
        raise EngineError(
            f"Release {number} is recorded, but what the statement works out from it cannot be worked out from its "
            f"numbers: one may be too large for a type that it is cast to. session.release({number}) shows them"
        )

    def _fingerprints(self, statement: Statement) -> dict[str, str]:
        """Return what tells whether columns that the ledger does not know of, and public tables, are still the same."""
        found = {name: self._protected[name].undeclared for name in statement.tables}
        public = {name for select in statement.selects for name in select.public}
        for name in sorted(public):
            source, digest = self._public[name]
            if digest is None:
                digest = source.fingerprint(source.columns, self.ledger.key)
                self._public[name] = source, digest
            found[name] = digest
        return found

    def _fingerprint_like(self, name: str, digest: str) -> str | None:
        """Return the fingerprint as the version that made a recorded one would have made it."""
        if name in self._protected:
            return self._protected[name].undeclared_like(digest)
        if name in self._public:
            source, _ = self._public[name]
            return fingerprint_like(digest, source, source.columns, self.ledger.key)
        return None

    def _check_same(self, charge: Charge, statement: Statement) -> None:
        """Raise FrameChanged if a table is another than when it was charged for a statement."""
        now, told = self._fingerprints(statement), charge.details if isinstance(charge, Record) else charge.plan
        for name, digest in told["fingerprints"].items():
            if now.get(name) != digest and self._fingerprint_like(name, digest) != digest:
                what = "the public table" if name in self._public else "a column that is not declared of"
                raise FrameChanged(
                    f"{what} {name} was another when release {charge.number} was charged for this statement; nothing "
                    "was spent. fresh=True asks about what is there now, and costs what the plan says then"
                )

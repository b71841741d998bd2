"""A session: protected tables, one budget, one ledger; and the order plan, charge, measure, record, reveal."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.domain.values import plain
from dpnotebook.engine.source import source_of
from dpnotebook.engine.time_zones import with_time_zones
from dpnotebook.errors import (
    AccuracyError,
    ArgumentError,
    DomainError,
    EngineError,
    LedgerError,
    LedgerMismatch,
    NotProtected,
    PolicyError,
    SQLError,
    holds_data,
    instead_of_data,
    shorten,
)
from dpnotebook.ledger import Audit, Charge, Record
from dpnotebook.ledger.budgets import checked_reason
from dpnotebook.ledger.exposure import warn
from dpnotebook.ledger.forks import in_child
from dpnotebook.ledger.replay import parts_of, same_sample
from dpnotebook.ledger.store import MEMORY
from dpnotebook.planner.plan import Plan
from dpnotebook.planner.ski_rental import PURCHASES, Purchases
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.accountant import with_thresholds
from dpnotebook.privacy.budget import Amount, Budget, positive
from dpnotebook.privacy.unit import Unit, column_and_population
from dpnotebook.progress import Progress, told, watched
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy
from dpnotebook.session import first_look
from dpnotebook.session.adaptive import AdaptiveMarginals
from dpnotebook.session.charges import ChargeLog, ChargeSummary, budgets_frame, history_frame, refusals_frame
from dpnotebook.session.domains import Redeclared, corrected_words, handed_on, order_words, redeclared
from dpnotebook.session.growing import (
    already_words,
    check_all_parts,
    check_columns,
    check_new_rows,
    check_part,
    check_parts_are,
    given_parts,
    grown,
    place_of,
)
from dpnotebook.session.instead import refuse_of_session
from dpnotebook.session.kept_here import KeptHere
from dpnotebook.session.listing import Listing
from dpnotebook.session.offer import Offer, checked_errors, errors_for, offer_code
from dpnotebook.session.pipeline import Mechanism, Pipeline
from dpnotebook.session.policy import Policy, ledger_of, opened_under, read_policy
from dpnotebook.session.profiles import profiles
from dpnotebook.session.protected import ProtectedTable, frames
from dpnotebook.session.protected_rows import ProtectedRows
from dpnotebook.session.query import Query
from dpnotebook.session.questions import Questions
from dpnotebook.session.reader import code_of, mechanism_of, release_number
from dpnotebook.session.release import Release
from dpnotebook.session.running_count import RunningCount, running_count
from dpnotebook.session.saving import Saving, saving
from dpnotebook.session.statements import Statements
from dpnotebook.session.synthetic import SyntheticRows, synthesized
from dpnotebook.sql.statement import Relation, Statement
from dpnotebook.views import ShowsCard, view
from dpnotebook.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

Confirm = Literal["auto", "always", "never"]
PLANNERS = ("optimal", "pioneer", "naive")

MOST_NAME = 100
MOST_ROWS = 10**6

_latest: Session | None = None


class Session(KeptHere, ShowsCard):
    """The budget for a set of tables, and everything that was ever answered from it.

    Parameters
    ----------
    budget
        The most that all answers together may reveal about one privacy unit. A ledger that is there already keeps its
        own, which may have been raised since; this must be one that it has had.
    ledger
        Path of the file that records every charge and every answer; ":memory:" keeps it for this process only.
    planner
        "optimal": combines everything recorded, measures what is missing, and buys a strategy where that pays.
        "pioneer": the plans of Pioneer (Peng et al.), for counts in a pure session. "naive": measures every new
        question by itself. Ledgers are the same for all.
    confirm
        When a magic asks before it spends: "auto" above `confirm_above`, "always", or "never".
    confirm_above
        Epsilon above which "auto" asks; 5% of the budget when None.
    timeout
        Seconds to wait for another process that holds the ledger.
    purchases
        What happens when questions of a kind have cost so much that a strategy for those to come pays: "auto" buys it
        with the question that is asked, as its card says before; "offer" only says so on the card; "never" does not
        look for one. After every question, all of a kind together have cost at most twice what each would have cost
        without a purchase, beside what was known when it was asked, whatever is asked after a purchase too.
    policy
        What the owner of the tables allows; `Session.from_policy` reads it from a file. A ledger that is under a policy
        is opened with that alone.
    analyst
        Who asks here, for the history: a name that everybody who uses the ledger sees, and that nobody checks.

    Raises
    ------
    AccuracyError
        If the budget or `confirm_above` is not a number in its range.
    LedgerError
        If the ledger cannot be used; the subclass and the text say why.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpnotebook as dpn
    >>> patients = pd.DataFrame({"age": [31, 47, 64], "sex": ["F", "M", "F"]})
    >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger")
    >>> table = session.protect(patients, "patients", domain={"age": dpn.Range(0, 115), "sex": ["F", "M"]})
    >>> query = patients.dp.count(where="age >= 65", error=10)
    >>> round(query.plan.cost.epsilon, 3), session.spent.epsilon  # a plan spends nothing
    (0.284, 0.0)
    >>> release = query.run()
    >>> session.spent.epsilon == release.paid
    True
    >>> session.close()
    """

    def __init__(
        self,
        budget: Budget,
        ledger: str | Path = ":memory:",
        planner: str = "optimal",
        confirm: Confirm = "auto",
        confirm_above: float | None = None,
        timeout: float = 60.0,
        *,
        purchases: Purchases = "auto",
        policy: Policy | None = None,
        analyst: str | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise AccuracyError(f"budget= takes a Budget, such as dpn.Budget(epsilon=1.0), not {shorten(budget)}")
        if planner not in PLANNERS:
            raise ArgumentError(f"planner must be one of {', '.join(map(repr, PLANNERS))}, not {shorten(planner)}")
        if planner == "pioneer" and budget.law.needs_delta:
            raise AccuracyError(
                "planner='pioneer' plans for Laplace noise, as its paper does: give a budget without delta, or use "
                "planner='optimal'"
            )
        if confirm not in ("auto", "always", "never"):
            raise ArgumentError(f"confirm must be 'auto', 'always' or 'never', not {shorten(confirm)}")
        purchases, analyst = _checked_purchases(purchases), _checked_analyst(analyst)
        self.planner = planner
        self.confirm: Confirm = confirm
        self._confirm_above = None if confirm_above is None else float(positive(confirm_above, "confirm_above"))
        self.policy = policy
        self.ledger = opened_under(policy, ledger, budget, timeout)
        self._charges = ChargeLog(self.ledger)
        self._tables: dict[str, ProtectedTable] = {}
        self._declared: dict[str, Domain] = {}  # as it was said here, in whatever order
        self._pipeline = Pipeline(self.ledger, policy, analyst)
        self._statements = Statements(
            self.ledger, self.table, lambda table, moment: self._questions.histories.of(table, moment)
        )
        self._questions = Questions(
            self.ledger, planner, purchases, self.table, self._statements.worked_out, self._statements.weights
        )
        self._questions.minimum = self._statements.minimum = None if policy is None else policy.minimum
        self._statements.most = None if policy is None else policy.question
        self._adaptive = AdaptiveMarginals(self._questions, self.table)
        self._callbacks: list[Callable[[], None]] = []
        self._endings: list[Callable[[], None]] = []
        self._closed = False
        in_child(self._forget_parent)
        global _latest
        _latest = self

    @classmethod
    def from_policy(
        cls,
        path: str | PathLike[str],
        ledger: str | Path | None = None,
        *,
        reason: str | None = None,
        **options: Any,
    ) -> Session:
        """Return a session whose budget and limits a policy file says; every route to an answer keeps to it.

        The file is TOML. It says nothing of who asks: a kernel on somebody's own machine can prove no identity.

            ledger = "clinic.ledger"  # beside this file; or say it where the session is opened

            [budget]
            epsilon = 2.0
            delta = 1e-6              # left out: Laplace noise

            [limits]
            question = 0.2            # the most epsilon that one question is measured with
            all = 1.5                 # the most that all answers together take of the budget

            [groups]
            minimum = 20              # groups with a smaller noisy count are withheld

        A question above a limit is refused before anything is spent, whether it is asked by `df.dp`, in SQL, by a
        magic, bought ahead or counted as parts arrive; where only a purchase beside it is too much, it is answered
        alone. Groups are withheld by their noisy counts, of privacy units where those are counted and of rows where
        not, which tells nothing but what was released. Sums, means and quantiles stay or go with the count beside
        them, and without one in the same question they are refused. `synthesize`, which draws groups of any size, is
        refused where there is a smallest one.

        The first session puts the ledger under its policy, as an entry of its own; from then on every charge has its
        digest, and the ledger is opened with this policy alone.

        Parameters
        ----------
        path
            Of the file.
        ledger
            Path of the ledger, where the file does not say it.
        reason
            Why the policy is another than the one that the ledger is under; stays in the ledger.
        options
            What else `Session` takes: planner, confirm, confirm_above, timeout, purchases, analyst.

        Raises
        ------
        PolicyError
            If the file cannot be read, has a key that there is not, or contradicts itself; the text names the key and
            its line.
        LedgerMismatch
            If the ledger has another budget, or is under another policy and no reason is given.

        Examples
        --------
        >>> from pathlib import Path
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients
        >>> _ = Path("clinic.toml").write_text('''
        ... [budget]
        ... epsilon = 2.0
        ... [limits]
        ... question = 0.2
        ... ''')
        >>> session = dpn.Session.from_policy("clinic.toml")
        >>> patients = session.protect(example_patients(), "patients", domain={"age": dpn.Range(0, 99)})
        >>> patients.count(epsilon=0.5).run()
        Traceback (most recent call last):
            ...
        dpnotebook.errors.PolicyError: this question needs ε = 0.5, and one may take ε = 0.2 at most ...
        >>> session.spent.epsilon
        0.0
        """
        policy = read_policy(path)
        if unknown := sorted(set(options) - {"planner", "confirm", "confirm_above", "timeout", "purchases", "analyst"}):
            raise ArgumentError(f"from_policy() takes no {shorten(unknown[0])[1:-1]}=; the policy says the rest")
        policy = replace(policy, reason="" if reason is None else checked_reason(reason))
        place = ledger_of(policy, ledger)
        return cls(policy.budget, place, policy=policy, **options)

    def _elsewhere(self) -> str:
        """Return what to write instead of pickling it."""
        return "Open the ledger there, with dpn.Session(...), and protect the tables"

    def _forget_parent(self) -> None:
        """Forget, in a forked child, who is told of releases: widgets are the parent's."""
        self._callbacks.clear()
        self._endings.clear()

    def protect(
        self,
        data: Any,
        name: str,
        *,
        domain: Mapping[str, Any] | Domain | None = None,
        unit: str | Unit | None = None,
        max_rows: int | None = None,
        rows: float | None = None,
        nullable: bool | Iterable[str] = False,
        lose_answers: bool = False,
    ) -> ProtectedTable:
        """Put a table under this session's budget; from here on it is asked through `df.dp`, SQL or what is returned.

        As long as nothing was charged for it, its domain can be corrected: protect it again, with another one. After
        that it can be extended: by new columns, by levels that are added or split off from the others, by finer bins
        and wider bounds. What was spent stays, whole, in each part of what is split. Answers stay answers about the
        rows that they were about, and are used where these are still counted: new columns must have a level for every
        value (`other=` and `nullable=True`), and with `unit` no rows may come in. An extension that would lose answers
        is refused before it changes anything, unless `lose_answers=True` agrees to that. Other kernels that have the
        table open are refused then, until they do the same. The order of columns, and of levels that are not
        `ordered=True`, is what was declared first.

        Parameters
        ----------
        data
            A pandas or polars DataFrame, or a table of pyarrow; the path of a Parquet file; (database, table) with a
            DuckDB file or connection, the address "postgresql://..." or a Spark session; or a Spark DataFrame, which
            must give the same rows whenever it is asked. A frame, a table of a DuckDB connection and a view are copied
            as they are now; files are read in place, and refused once they were changed. The same rows are the same
            table in any of these, in any order and beside further columns. What a column holds follows
            from its dtype or type, never from its values: columns of objects are texts, and read as numbers or truth
            values where `domain` says so. A list of these: a table in parts, in the order in which they came; see
            `extend`.
        name
            What to call it in SQL and in the ledger.
        domain
            What public knowledge says of the columns: Range, Bins, a list of levels, bool. These can be asked about
            through `df.dp` and are planned for; SQL reaches the others too, at a higher price. None: what the ledger
            knows of the table, its unit too, so that a table that was handed on need not be declared again; no column
            of one that it does not know.
        unit
            The column that says whose row it is; None when each row is a person of its own. Tables about the same
            people say so by `Unit("patient", column="patient_id")`, with the same name: only these are put together by
            outer joins, UNION, INTERSECT and EXCEPT. The name goes into the ledger, for everyone who uses it.
        max_rows
            With `unit`: most rows of one unit that count; more are sampled away, once, here. None: what the ledger
            knows, or nothing. Then statements find by themselves how much one unit adds, and counts, sums, means and
            quantiles of `df.dp` are such statements; other questions of it need to be told. It can be said later,
            until something was charged.
        rows
            About how many rows there are, in each part, if that is public; used for the expected error of means only.
        nullable
            Of which declared columns missing values have a level of their own, beside those that `domain` says so of:
            a list of names, or True for all. Rows without a value in any other declared column are left out, of every
            count. In a condition of `df.dp` it differs from every value, as NaN does: `sex != 'F'` and `not smoker`
            count it, and cards say so.
        lose_answers
            Whether a domain may be extended although answers that were paid for cannot be used under it.

        Raises
        ------
        DomainError
            If the domain cannot be, the table does not hold what it says, or its rows are registered as public.
        LedgerMismatch
            If the ledger knows this name as another table, or as one of another population; or with another domain
            that does not extend it when something was charged for it already, or would lose answers.
        LedgerConflict
            If another kernel changed the domain at the same moment, or what was charged is not answered yet.

        Warns
        -----
        LedgerWarning
            If another ledger in the same folder knows a table of this name, domain or population: neither counts what
            the other spends. Also if the domain was corrected or extended: of what changed, and which
            answers are kept.

        Examples
        --------
        >>> import pandas as pd
        >>> import dpnotebook as dpn
        >>> visits = pd.DataFrame({"patient_id": [1, 1, 2], "cost": [80, 120, 4000]})
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
        >>> cost = dpn.Bins(0, 5000, width=100)
        >>> session.protect(visits, "visits", unit="patient_id", max_rows=8, domain={"cost": cost})
        <protected table 'visits': cost; privacy unit: one patient_id, up to 8 rows;
         rows with no cost are left out; nullable=True counts missing values>
        """
        if holds_data(unit):  # only then: naming the columns of a query that is not run yet can take long
            said = instead_of_data(unit, [str(column) for column in getattr(data, "columns", ())])
            raise DomainError(f"unit= is the column that says whose row it is; {said}")
        if domain is None:
            domain, unit = handed_on(self.ledger, name, unit)
        table = _checked_table(name, domain, unit, max_rows, rows, nullable)
        parts = given_parts(data)
        table = replace(table, domain=with_time_zones(table.domain, parts[0]))
        self.ledger.warn_of_others(name, table.domain.to_json(), table.population)
        with watched() as report:
            report(None, f"reading {name}")
            written, declared = table.domain, redeclared(self.ledger, table, self._declared.get(name))
            known, table = declared.known, declared.table
            if table.population is None:  # what was said once of whose rows they are holds for everyone
                table = replace(table, population=known.get("population"))
            fingerprint = known.get("fingerprint") if declared.same else None
            together = declared.extends is not None and table.parts > 0
            if together:
                check_all_parts(table, len(parts))
            rows_of_parts = self._rows(table, parts if together else parts[:1], [fingerprint])
            protected = ProtectedTable(self, table, rows_of_parts)
            self._statements.relations.check_secret(protected)
            corrected = self._told_ledger(protected, parts, declared, report, lose_answers)
            self._statements.relations.protect(protected)
            self._tables[name] = protected
            self._declared[name] = written
            self._pipeline.forget_plans()
            self._questions.histories.forget(name)
            for part, one in enumerate(parts[: len(rows_of_parts)]):
                frames.bind(one, protected, part)
            self._finish_pending(name, report)
            if declared.reordered:
                words = order_words(name, table.domain, declared.reordered)
                warn(words, about=f"{self.ledger.path} {name} order")
            if corrected and not declared.same:
                words = corrected_words(name, Domain.from_json(known["domain"]), table.domain)
                warn(words, about=f"{self.ledger.path} {name} {self.ledger.head}")
            elif declared.extends is not None:
                words = self._questions.extended_words(table, declared.extends)
                warn(words, about=f"{self.ledger.path} {name} {self.ledger.head}")
        for number, one in enumerate(parts[len(rows_of_parts) :], start=len(rows_of_parts) + 1):
            one_part = table.unit is not None and not known.get("adds", True)
            self._add(name, one, one_part=one_part, part=number)
        return protected

    def _rows(self, table: TableSchema, parts: Sequence[Any], known: Sequence[str | None] = ()) -> list[ProtectedRows]:
        """Return the rows of all parts of a table, whose fingerprints the ledger may know."""
        found: list[ProtectedRows] = []
        for part, fingerprint in zip_longest(parts, known[: len(parts)]):
            found.append(ProtectedRows(table, part, self.ledger.key, fingerprint, () if table.adds else found))
        return found

    def _told_ledger(
        self, protected: ProtectedTable, parts: Sequence[Any], declared: Redeclared, report: Progress, lose: bool
    ) -> bool:
        """Register a table, or check that it is the one that the ledger knows; return whether that corrected it."""
        name = protected.table.name
        if declared.refusal:
            raise LedgerMismatch(declared.refusal)
        # Of another domain the old table is asked no more, whatever happens between the ledger's entry and the new one.
        before = None if declared.same else self._tables.pop(name, None)
        try:
            if declared.extends is None:
                return self._registered(protected)
            self._extend(protected, parts, declared, report, lose)
        except LedgerError:
            if before is not None:
                self._tables[name] = before
            raise
        return False

    def _extend(
        self, protected: ProtectedTable, parts: Sequence[Any], declared: Redeclared, report: Progress, lose: bool
    ) -> None:
        """Extend the domain of a table, after a look with the old one whether it is the same, and nothing waits."""
        assert declared.extends is not None
        found = declared.extends
        name, known = protected.table.name, parts_of(declared.known)
        table = replace(protected.table, domain=found.before, asked=None)
        old = ProtectedTable(self, table, self._rows(table, parts[: len(protected.parts)], known))
        try:
            self._registered(old)
            check_parts_are(name, old.parts, known)
            self._tables[name] = old
            self._finish_pending(name, report)
        finally:
            self._tables.pop(name, None)
            old.engine.close()
        fingerprints = [rows.fingerprint for rows in protected.parts]
        same_rows = same_sample(declared.known, found, fingerprints) and not found.leaves_rows_out
        if not lose and (losing := self._questions.losing_words(table, found, same_rows)):
            raise LedgerMismatch(losing)
        self.ledger.extend(
            name,
            fingerprint=protected.fingerprint,
            domain=protected.table.domain.to_json(),
            since=declared.since,
            parts=fingerprints if table.parts else (),
        )

    def _registered(self, protected: ProtectedTable) -> bool:
        table = protected.table
        return self.ledger.register(
            table.name,
            fingerprint=protected.fingerprint,
            domain=table.domain.to_json(),
            unit=table.unit,
            max_rows=table.max_rows if table.unit is not None else None,
            population=table.population,
        )

    def extend(self, name: str, data: Any, *, one_part: bool = False, part: int | None = None) -> ProtectedTable:
        """Add a part to a protected table: the rows of another month, another batch.

        Rows never change parts, so what is asked of one part costs nothing in the others: as long as every part is
        asked the same, all together cost what one does. Questions of `session.table(name)`, and SQL, are about all
        parts that are here; answers to what was asked before a part came are used for the parts that they are about.
        `df.dp` of a frame is about the part that the frame was added as. Conditions and keys can name the attribute
        `part`, whose levels are 1, 2, 3, in the order in which parts were added.

        In another kernel protect the first part again, and extend it by the others in the same order: until then the
        table is asked about the parts that are here. Rows that are a part already are not added a second time, unless
        `part=` says that they are. Other kernels that have the table open are refused until they protect it again.

        Parameters
        ----------
        name
            Of a table that is protected in this session.
        data
            The rows, with the same columns, as for `protect`: a frame, a Parquet file, or a table in DuckDB.
        one_part
            Of a table with `unit`: whether each unit is in one part only. If True, rows of units that an earlier part
            has are left out, and neither an error nor a count says how many; where units come back, that leaves much
            out. If False, each part has up to `max_rows` rows of a unit, drawn for itself; what parts cost adds up, and
            a question over several of them costs as much as over that many times `max_rows` rows. It is said with the
            first part that is added and holds for all.
        part
            Which part it is, numbered from 2; the next one, or the one that has these very rows, unless given. Given,
            rows that are in an earlier part too are taken for others that happen to be the same.

        Raises
        ------
        NotProtected
            If there is no such table here.
        DomainError
            If the data does not hold what the domain declares, or has a column called "part", or `one_part` was said
            otherwise before; if rows are units and many of these are in an earlier part as well.
        LedgerMismatch
            If the ledger knows other rows as this part.
        LedgerConflict
            If another kernel declared other columns meanwhile, or changed the table at the same moment, or what was
            charged is not answered yet.

        Warns
        -----
        LedgerWarning
            If the rows are a part already.

        Examples
        --------
        >>> import pandas as pd
        >>> from dpnotebook.testing import exact_session
        >>> import dpnotebook as dpn
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> visits = session.protect(pd.DataFrame({"ward": ["A", "B"]}), "visits", domain={"ward": ["A", "B"]})
        >>> visits.count(epsilon=0.25).run().value
        2.0
        >>> session.extend("visits", pd.DataFrame({"ward": ["A", "A", "B"]}))
        <protected table 'visits': ward; 2 of 2 parts; privacy unit: one row;
         rows with no ward, or with an undeclared ward, are left out; nullable=True counts missing values>
        >>> visits.groupby("part").count(epsilon=0.25).run().frame[["part", "value"]]
           part  value
        0     1    2.0
        1     2    3.0
        >>> session.spent.epsilon  # of each row: the first answer, or the second
        0.25
        """
        return self._add(name, data, one_part=one_part, part=part, alike=part is not None)

    def _add(self, name: str, data: Any, *, one_part: bool, part: int | None, alike: bool = False) -> ProtectedTable:
        """Add a part; `alike` says that its rows are others where they are the same as those of an earlier one."""
        protected = self.table(name)
        with watched() as report:
            report(None, f"reading {name}")
            since = self.ledger.domains(name)[-1].since  # before it is compared: what changes later is seen by that
            registered = self.ledger.tables()[name]
            check_columns(protected.table, registered)
            schema = grown(protected.table, registered, len(protected.parts), one_part=one_part)
            known, earlier = parts_of(registered), () if schema.adds else protected.parts
            rows = ProtectedRows(schema, data, self.ledger.key, earlier=earlier)
            there = place_of(rows, protected.parts, part)
            if there is not None:
                if part is None and not frames.is_part(data, protected, there):
                    warn(already_words(name, there, len(protected.parts)), about=f"{self.ledger.path} {name} {there}")
                frames.bind(data, protected, there)
                return protected
            place = len(protected.parts)
            check_part(name, rows, place, known)
            if place >= len(known) and schema.unit is None and not alike:
                check_new_rows(rows, protected.parts)
            candidate = ProtectedTable(self, schema, [*protected.parts, rows])
            self._statements.relations.check_secret(candidate)
            self._finish_pending(name, report)
            self._statements.relations.protect(candidate)
            try:
                if place < len(known):
                    self._registered(candidate)
                else:
                    self.ledger.grow(name, fingerprint=rows.fingerprint, since=since, adds=schema.adds)
            except BaseException:  # statements must not read what the ledger does not know of
                self._statements.relations.protect(protected)
                raise
            protected.hold(schema, candidate.parts)
            self._pipeline.forget_plans()
            self._questions.histories.forget(name)
            frames.bind(data, protected, place)
            self._finish_pending(name, report)
        self._changed()
        return protected

    def _finish_pending(self, name: str, report: Progress) -> None:
        """Measure what a process was charged for that died before it recorded an answer."""
        for charge in self.ledger.pending(name):
            if "measures" in charge.plan:  # a statement may need other tables: it is measured when asked again
                with contextlib.suppress(EngineError):  # listed in the history, to be tried again
                    self._pipeline.measure(self._mechanism_of(charge), charge, report)

    def register(self, data: Any, name: str, *, public: bool = False) -> None:
        """Let statements use a public table: joined with protected ones, or as the list of all groups.

        Parameters
        ----------
        data
            A pandas or polars DataFrame, or a table of pyarrow; the path of a Parquet file; (database, table) with a
            DuckDB file or connection, the address "postgresql://..." or a Spark session; or a Spark DataFrame, which
            must give the same rows whenever it is asked. The values of a frame, or of a table in a connection of
            DuckDB, are copied, and are known groups; other tables are read where they are when something is measured.
        name
            What to call it in SQL.
        public
            Must be True: said by whoever knows that nothing in it is about a privacy unit.

        Raises
        ------
        DomainError
            If it is not said to be public, a protected table has the name or these rows, or the data cannot be read.

        Examples
        --------
        >>> import pandas as pd
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
        >>> session.register(pd.DataFrame({"ward": ["A", "B"], "beds": [12, 30]}), "wards", public=True)
        >>> list(session.relations)
        ['wards']
        """
        _check_table_name(name)
        if public is not True:
            raise DomainError(
                "what is registered is used as it is, without protection: write session.register(data, "
                f"{shorten(name, 120)}, public=True) if nothing in it is about a person, or session.protect(...) if "
                "something is"
            )
        self._statements.relations.register(name, source_of(data))
        self._pipeline.forget_plans()

    def table(self, name: str) -> ProtectedTable:
        """Return a protected table by name.

        Raises
        ------
        NotProtected
            If there is none of that name.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> session.table("patients").count(where="age < 18", error=25).run().value
        180.0
        """
        try:
            return self._tables[name]
        except KeyError:
            if self._closed:
                raise NotProtected(
                    "this session was closed; open another on its ledger, which has every answer"
                ) from None
            known = ", ".join(self._tables) or "none so far"
            said = f"no table {shorten(name)} is protected in this session (protected: {known})"
            if isinstance(name, str) and name in self.ledger.tables():
                said += f". The ledger has what was answered of it: session.protect(data, {shorten(name)}) is enough"
                if self.ledger.path != MEMORY:
                    said += (
                        f", and dpn.audit_ledger({self.ledger.path!r}).release(number) shows answers without the data"
                    )
            raise NotProtected(said) from None

    def tables(self) -> pd.DataFrame:
        """Return what is protected: name, attributes, cells, unit, population, max_rows, parts.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> example_session().tables()[["table", "cells", "unit"]]
              table  cells unit
        0  patients   2000  row
        """
        import pandas as pd

        rows = [
            {
                "table": name,
                "attributes": ", ".join(protected.table.domain.names),
                "cells": protected.table.domain.size,
                "unit": protected.table.unit or "row",
                "population": protected.table.whose,
                "max_rows": protected.table.max_rows,
                "parts": len(protected.parts),
            }
            for name, protected in self._tables.items()
        ]
        columns = ["table", "attributes", "cells", "unit", "population", "max_rows", "parts"]
        return pd.DataFrame(rows, columns=columns).astype({"max_rows": "Int64"})

    @property
    def relations(self) -> Mapping[str, Relation]:
        """What is public about every table that SQL can name, protected or registered: its columns, its unit."""
        return dict(self._statements.relations.known)

    def sql(
        self,
        statement: str,
        *,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        parameters: Mapping[str, Any] | None = None,
        fresh: bool = False,
        contribution: Literal["l2", "rows"] | None = None,
        bounds: Literal["auto", "declared"] | None = None,
    ) -> Query:
        """Return a query for a SQL statement: aggregates over protected tables, and what is worked out from them.

        A plain aggregation over the declared columns of one table goes to the planner, which answers from everything
        recorded. Anything else (joins, columns that were not declared, BigQuery's WITH DIFFERENTIAL_PRIVACY) is
        bounded for each privacy unit and measured by itself; the plan says which.

        Parameters
        ----------
        statement
            The SQL.
        epsilon, error, variance, confidence
            Exactly one of the first three, unless the statement says its epsilon in OPTIONS; error may be relative to
            the answers, such as "5%", where the planner answers. It is that of the columns that are shown. Where what
            it takes is not known, a first look tells, and running it pays for both, at most what its card says.
        parameters
            Values for `:name` in the statement.
        fresh
            Measure anew although the ledger has an answer.
        contribution
            How what a privacy unit adds is bounded. "l2": all that it adds to all groups together, by one L2 norm,
            which needs a budget with Gaussian noise. "rows": by a sample of at most `max_rows` of its rows. None: by a
            norm where that suits everything that is asked, for it errs least, and by rows elsewhere. Without delta
            there are no norms: as many rows of each count as are found privately to suit what is counted or summed.
        bounds
            To what values of declared columns are clamped, where the statement writes no bounds. "auto": to narrower
            ones, which are found privately, with a tenth of the price; noise is in proportion to them. "declared": to
            what is declared. None: to what is declared where the planner answers, and elsewhere to narrower ones of
            amounts, which are mostly declared far wider than where they lie.

        Raises
        ------
        SQLError
            If the statement is not one that can be answered.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> asked = "SELECT sex, COUNT(*) AS n FROM patients WHERE age >= :least GROUP BY sex"
        >>> session.sql(asked, parameters={"least": 65}, error=25).run().frame[["sex", "n"]]
          sex      n
        0   F  210.0
        1   M  140.0
        """
        if parameters is not None and not isinstance(parameters, Mapping):
            raise SQLError(f"parameters= is a dict of what each :name stands for, not {shorten(parameters)}")
        if not isinstance(fresh, bool):
            raise AccuracyError(f"fresh= is True or False, not {shorten(fresh)}")
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        return self._statements.query(self, statement, given, confidence, parameters or {}, fresh, contribution, bounds)

    def prefetch(
        self,
        workload: Workload | WorkloadRequest,
        on: str | Sequence[str] | None = None,
        *,
        table: str | None = None,
        where: str | None = None,
        errors: Sequence[float] | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
    ) -> Offer:
        """Return what all answers of a workload would cost at several accuracies; nothing is spent by looking.

        Once bought, an answer of the workload that is asked for at the error that was bought, or a larger one, costs
        nothing, and so does what follows from these answers as accurately as it is asked for. A session buys by itself
        where that is likely to pay; this buys ahead.

        Parameters
        ----------
        workload, on, where
            As for `df.dp.answer`: for example `dpn.ranges("age")`.
        table
            Which protected table; the only one, unless given.
        errors
            Half-widths of the interval of the worst answer to price; those that some shares of the budget buy, if None.
        confidence
            Probability that an interval holds the exact answer.
        objective
            As for `df.dp.answer`: unless given, what is bought within an error is planned for the worst answer.

        Raises
        ------
        NotProtected
            If there is no such table, or several and none is named.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> offer = session.prefetch(dpn.ranges("age"), errors=[100, 200])
        >>> offer.prices["affordable"].tolist(), session.spent.epsilon
        ([True, True], 0.0)
        """
        table = self._only_table(table)
        if isinstance(workload, WorkloadRequest) and workload.targets:
            raise AccuracyError(
                "an offer lists what several errors cost, and these parts have theirs already: "
                f"session.table({shorten(table)}).answer(...) asks for them, and what it answers is kept as well"
            )
        asked = self.table(table).answer(
            workload, on, where=where, epsilon=self.budget.epsilon, confidence=confidence, objective=objective
        )
        listed = errors_for(asked, self.budget.epsilon) if errors is None else checked_errors(errors)
        named = table if len(self._tables) > 1 else None
        return Offer(asked, listed, offer_code(workload, on, named, where, errors, objective))

    def running_count(
        self,
        name: str,
        *,
        horizon: int,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
    ) -> RunningCount:
        """Return the number of rows so far, at every part of a table that grows, up to a horizon.

        Ask it again, and run it, whenever `extend` has added a part. A part pays once, when it is first read, for all
        steps up to the horizon that will read it: no more than `cost`, which grows with the logarithm of the horizon
        only. What other questions take meanwhile is not missing later. Nothing is kept of it but what the ledger has.

        Parameters
        ----------
        name
            Of a protected table whose rows, or units, are in one part each.
        horizon
            How many parts there will be in the end, those that are here included.
        where
            Which rows count, as pandas-query text.
        epsilon
            What all of it may cost in the end.
        error
            Half-width of the interval of every running count.
        confidence, objective
            As for every verb.

        Raises
        ------
        DomainError
            If a unit may be in several parts, or more parts are here than the horizon says.
        AccuracyError
            If not exactly one of epsilon and error is given, or the whole budget does not pay for it.
        PolicyError
            If all of it costs more by the end than the policy of the session allows for one question.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> session = example_session(dpn.Budget(epsilon=1.0, delta=1e-6))
        >>> costs = [session.running_count("patients", horizon=n, error=50).cost.epsilon for n in (12, 24, 48)]
        >>> [round(cost, 2) for cost in costs]
        [0.25, 0.28, 0.31]
        """
        accuracy = Accuracy(epsilon, error, confidence=confidence, objective=objective)
        if accuracy.relative is not None:
            raise AccuracyError("the error of running counts is in rows: write error=50, say")
        found = running_count(self, self.table(name), horizon, accuracy, where)
        if self.policy is not None and (forbidden := self.policy.refusal_of_price(found.cost.epsilon)):
            raise PolicyError(f"{forbidden}; nothing was spent")
        return found

    def synthesize(
        self, rows: int | None = None, *, table: str | None = None, random_state: int | None = None
    ) -> SyntheticRows:
        """Return synthetic rows, drawn from a model of everything that was released of a table; costs nothing.

        They can be handed on as what was released can, for trying out code and for plots: they are rows of no person,
        and know of the table what the released counts tell, noise included. `margins` says how far they are from these.
        Conclusions are drawn from the releases, which have intervals; the rows have none.

        Parameters
        ----------
        rows
            How many; about as many as the table has, if None.
        table
            Which protected table; the only one, unless given.
        random_state
            Of the drawing: the same rows for the same number and the same releases. Fresh rows, if None.

        Raises
        ------
        WorkloadError
            If no counts of the table were released yet.
        NotProtected
            If there is no such table, or several and none is named.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> _ = session.table("patients").crosstab("sex", "income", epsilon=0.5).run()
        >>> rows = session.synthesize(1000, random_state=1)
        >>> rows.frame.groupby("sex").size().round(-2).to_dict()  # 600 and 400
        {'F': 600, 'M': 400}
        """
        protected = self.table(self._only_table(table))
        if self.policy is not None and self.policy.minimum is not None:
            raise PolicyError(
                f"synthetic rows have groups of any size, and those below {self.policy.minimum:,} are withheld "
                f"({self.policy.place('groups.minimum')})"
            )
        if random_state is not None and (isinstance(random_state, bool) or not isinstance(random_state, int)):
            raise ArgumentError(f"random_state= is a whole number or None, not {shorten(random_state)}")
        history = self._questions.histories.of(protected.table)
        with watched() as report:
            generator = np.random.default_rng(random_state)
            return synthesized(protected.table.name, protected.table.domain, history, rows, generator, report)

    def _only_table(self, name: str | None) -> str:
        """Return the name of a table: the one that was said, or the only one there is."""
        if name is not None:
            return name
        if len(self._tables) != 1:
            raise NotProtected(f"say which table with table=: {', '.join(map(repr, self._tables)) or 'none so far'}")
        return next(iter(self._tables))

    def plan(self, query: Query) -> Plan:
        """Return the plan of a query; reads the ledger, never the data.

        Parameters
        ----------
        query
            A query of this session.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> query = session.table("patients").count(error=25)
        >>> session.plan(query).error <= 25  # `query.plan` is the same
        True
        """
        return self._plan(query)

    def run(self, query: Query, progress: Progress | None = None) -> Release:
        """Plan, charge, measure, record, reveal; see `Query.run`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> session.run(session.table("patients").count(error=25)).value
        1000.0
        """
        self._mechanism(query)  # a closed session answers nothing, however it is asked
        routed = query.routed()
        if routed.look is not None:
            return first_look.answered(routed, lambda step: self._run(step.routed(), progress))
        return first_look.with_reach(routed, self._run(routed, progress))

    def release(self, number: int) -> Release:
        """Return a recorded release again, at no cost.

        Parameters
        ----------
        number
            As `history()` lists it.

        Raises
        ------
        LedgerError
            If there is no such release.
        NotProtected
            If its table is not protected in this session.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> first = session.table("patients").count(error=25).run()
        >>> session.release(first.number).value
        1000.0
        """
        record = self.ledger.get(release_number(number))
        return self._pipeline.again(self._mechanism_of(record), self, record)

    def code(self, number: int) -> str:
        """Return the Python that asks for a release: run again, it is answered from the ledger and costs nothing.

        Parameters
        ----------
        number
            As `history()` lists it.

        Raises
        ------
        LedgerError
            If there is no such release.
        NotProtected
            If its table is not protected in this session.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> first = session.table("patients").count(where="age >= 65", error=25).run()
        >>> session.code(first.number)
        "patients.dp.count(where='age >= 65', error=25)"
        """
        charge = self.ledger.charged(release_number(number))
        return code_of(charge, self._mechanism_of(charge).asked_in(charge), self.ledger.accountant)

    def retry(self, number: int) -> Release:
        """Measure what was charged for when that was interrupted or failed, for the same charge and with its noise.

        Running the same query again does this too.

        Parameters
        ----------
        number
            As `history()` lists it, in the state "charged". One that is recorded is returned as it is.

        Raises
        ------
        LedgerError
            If there is no such release, or what is random about it is gone (it is listed as "lost"): ask again.
        NotProtected
            If its table is not protected in this session.
        FrameChanged
            If a table that it reads is another than it was.
        EngineError
            If it fails again.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> first = session.table("patients").count(error=25).run()
        >>> again = session.retry(first.number)  # nothing was interrupted: it is as it was
        >>> again.value, again.paid
        (1000.0, 0.0)
        """
        charge = self.ledger.charged(release_number(number))
        mechanism = self._mechanism_of(charge)
        if isinstance(charge, Record):
            return self._pipeline.again(mechanism, self, charge)
        with watched() as report:
            record = self._pipeline.retry(mechanism, charge, report)
        self._changed()
        return self._pipeline.again(mechanism, self, record)

    @property
    def most_at_once(self) -> float | None:
        """The epsilon that one question may take, as the policy says; None where only the budget bounds it."""
        return None if self.policy is None else self.policy.question

    @property
    def spent(self) -> Amount:
        """What has been spent, as (epsilon, delta)."""
        return self._amount(self.ledger.spent, self.ledger.delta_spent)

    @property
    def remaining(self) -> Amount:
        """What a single further query could still take, as (epsilon, delta)."""
        return self._amount(self.ledger.remaining, self.ledger.delta_remaining)

    @property
    def budget(self) -> Budget:
        """The budget that holds: what the ledger was made for, or what its owner raised it to last."""
        return self.ledger.budget

    @property
    def purchases(self) -> Purchases:
        """What happens when a strategy for questions to come pays: "auto", "offer" or "never"; it may be changed.

        Plans that were shown before are made again.

        Raises
        ------
        ArgumentError
            If it is set to anything else.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(dpn.Budget(epsilon=1.0), ":memory:")
        >>> session.purchases = "offer"
        >>> session.purchases
        'offer'
        """
        return self._questions.histories.purchases

    @purchases.setter
    def purchases(self, purchases: Purchases) -> None:
        self._questions.histories.purchases = _checked_purchases(purchases)
        self._pipeline.forget_plans()

    @property
    def confirm_above(self) -> float:
        """Epsilon above which a magic asks before it spends; 5% of the budget unless it was said."""
        return 0.05 * self.budget.epsilon if self._confirm_above is None else self._confirm_above

    def raise_budget(self, budget: Budget, *, reason: str) -> Budget:
        """Raise the budget to a new whole, for all that was and will be answered together.

        This is a decision of whoever answers for the data, not of an analyst: it is an entry of the ledger that stays,
        with its reason, and the new whole is what is enforced and shown from then on, in every kernel. Nothing that was
        spent is forgotten. Thresholds spend delta of their own: where they are used, raise that as well.

        Parameters
        ----------
        budget
            The new whole: in epsilon, delta and threshold_delta no less than the present one, and of the same noise.
        reason
            Why, in a sentence.

        Returns
        -------
        Budget
            The budget that holds now.

        Raises
        ------
        AccuracyError
            If it is less in any respect, or no reason is given.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
        >>> session.raise_budget(dpn.Budget(epsilon=1.5), reason="the ethics board agreed to a follow-up")
        Budget(epsilon=1.5, delta=0.0)
        >>> session.remaining.epsilon
        1.5
        """
        whole = self.ledger.raise_budget(budget, reason=reason)
        self._changed()
        return whole

    def renew_budget(self, budget: Budget, *, reason: str) -> Budget:
        """Put another budget on top of the present one, for example for the second year of a study.

        What holds then is what both compose to: the sum of pure epsilons; for Gaussian noise the sum of mu^2, said as
        the epsilon that it is at the delta of the present budget; and the sum of what both keep for thresholds. As for
        `raise_budget`, it is an entry of the ledger that stays.

        Parameters
        ----------
        budget
            What is added, of the same noise.
        reason
            Why, in a sentence.

        Returns
        -------
        Budget
            The whole that holds now.

        Raises
        ------
        AccuracyError
            If the noise is another, or no reason is given.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
        >>> session.renew_budget(dpn.Budget(epsilon=1.0), reason="the second year of the study").epsilon
        2.0
        """
        whole = self.ledger.renew_budget(budget, reason=reason)
        self._changed()
        return whole

    def budgets(self) -> pd.DataFrame:
        """Return what the ledger was made for and every raise of it: time, epsilon, delta, added, reason.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
        >>> _ = session.raise_budget(dpn.Budget(epsilon=1.5), reason="a follow-up")
        >>> session.budgets()["epsilon"].tolist()
        [1.0, 1.5]
        """
        return budgets_frame(self.ledger.budgets())

    def history(self) -> pd.DataFrame:
        """Return every charge of the ledger: number, time, table, question, percent, epsilon, paid, alone, how, state.

        `percent` is what was paid of the whole budget, and adds up. `epsilon` is what was measured, `paid` by what the
        total rose, and `alone` what the question would have cost had nothing been asked before. `how` says what was
        done beside measuring: "free", "reuse", "refined" (an earlier answer, for the difference in price) or "purchase"
        (a strategy for later questions too). `time` has its zone, UTC, which an Excel file cannot hold:
        `history.assign(time=history["time"].dt.tz_localize(None)).to_excel("asked.xlsx")`, or `to_csv`. Where the
        budget keeps delta for thresholds, there is also the delta that each took of it; where SQL was asked, the text
        of each `statement`, of which `question` says what it measures; where sessions say their `analyst`, who asked
        first; where a policy holds, the digest of the one that allowed each.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> release = session.table("patients").count(where="age >= 65", epsilon=0.25).run()
        >>> session.history()[["number", "table", "question", "percent", "state"]]
           number     table               question  percent     state
        0       1  patients  COUNT where age >= 65     25.0  recorded
        """
        charges, accountant = self._charges.charges(), self.ledger.accountant
        return history_frame(charges, accountant, policy=self.policy is not None)

    def refusals(self) -> pd.DataFrame:
        """Return the questions that were refused when they were run: who asked what, when, at which price, and why not.

        `percent` is what it would have cost of the whole budget, as that is now, and `left` what was left of it then,
        both NaN where the delta of a threshold was too much. `analyst` is as sessions say it, and empty where they do
        not. What was refused before it had a price, as a statement with an unknown column, is not here; neither are
        cards of what would be too much, which nobody ran.

        It is a log beside the ledger's chain, which `audit` does not prove, and what earlier versions refused has no
        words in it.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> query = session.table("patients").count(epsilon=5.0)
        >>> try:
        ...     query.run()
        ... except dpn.BudgetExceeded:
        ...     print(session.refusals()[["question", "percent", "left", "why"]])
          question  percent   left                              why
        0    COUNT    500.0  100.0  more than is left of the budget
        """
        return refusals_frame(self.ledger.refusals(), self.ledger.accountant)

    def profile(self) -> pd.DataFrame:
        """Return what statements have found of how much each privacy unit adds; reads the ledger alone, at no cost.

        A statement over units with several rows first finds, with a part of its epsilon, how long the vectors of units
        are: all that one adds, over all groups. Later statements like it use that for nothing; here it is read. Without
        delta it finds how many rows they have, which all statements over the same rows use (`of` is "rows of one unit",
        `half` and `most` are rows; of units in groups, "groups of one unit").

        Returns
        -------
        A row for each aggregate that it was found for: the number of the `release`, its `table` and `statement`, the
        aggregate (`of`), how many `groups` there were, about how many `units`, the lengths that `half` and `most` (95%)
        of them do not pass, up to the next step of sqrt(2), and between which values (`low`, `high`) most rows are that
        an average is of. NaN where noise hides it.

        Examples
        --------
        >>> import dpnotebook as dpn, pandas as pd
        >>> stays = pd.DataFrame({"patient": [i // 4 for i in range(8000)], "ward": [i % 2 for i in range(8000)]})
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=2.0, delta=1e-6), confirm="never")
        >>> _ = session.protect(stays, "stays", unit="patient", max_rows=10)
        >>> release = session.sql("SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward", epsilon=1).run()
        >>> session.profile()[["release", "of", "groups", "half", "most"]].round(2)  # two rows in either ward
           release        of  groups  half  most
        0        1  COUNT(*)       2  2.83  2.83
        """
        return profiles(self.ledger, self._tables)

    @property
    def saved(self) -> Saving:
        """What reuse has spared: what was paid, what measuring every question alone would have cost, and how.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> release = session.table("patients").histogram("age", error=30).run()
        >>> release = session.table("patients").count(where="age >= 65", error=200).run()
        >>> session.saved.how
        {2: 'free'}
        >>> 0 < session.saved.share < 1
        True
        """
        return saving(self._charges.charges(), self.ledger.accountant)

    @property
    def charges(self) -> Sequence[ChargeSummary]:
        """Every charge of the ledger in short, in order: what views are made of, each with its units as integers.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> release = session.table("patients").count(where="age >= 65", epsilon=0.25).run()
        >>> [(charge.number, charge.words, charge.state) for charge in session.charges]
        [(1, 'COUNT where age >= 65', 'recorded')]
        """
        return self._charges.charges()

    def spend_by_column(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Return, per table and attribute, the epsilon spent on the dearest cell of each level.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> release = session.table("patients").count(where="sex == 'F'", epsilon=0.25).run()
        >>> session.spend_by_column()["patients", "sex"]  # of F and of M
        array([0.25, 0.  ])
        """
        found = {}
        for name, protected in self._tables.items():
            spend = self.ledger.spend(name)
            for attribute in protected.table.domain.names:
                units = spend.by_attribute(attribute)
                found[name, attribute] = np.array([self.ledger.accountant.epsilon(int(u)) for u in units])
        return found

    def audit(self, expected: str | None = None) -> Audit:
        """Check that nothing in the ledger was removed or changed.

        Parameters
        ----------
        expected
            The head of an earlier audit, noted elsewhere: proves that everything up to then is still there.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> noted = session.audit().head
        >>> release = session.table("patients").count(error=25).run()
        >>> session.audit(noted).ok
        True
        """
        return self.ledger.audit(expected)

    def dashboard(self) -> Any:
        """Return a widget: what is left, spend over time, history, spend by column, what can still be afforded.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> dashboard = example_session().dashboard()  # at the end of a cell it shows itself
        >>> type(dashboard).__name__
        'Dashboard'
        """
        return view("dashboard", self)

    def publish(
        self,
        path: str | PathLike[str],
        releases: Release | int | Sequence[Release | int] | None = None,
        *,
        title: str | None = None,
        curator: str | None = None,
        curator_type: str | None = None,
        description: str | None = None,
        intended_use: str | None = None,
        region: str | None = None,
        sector: str | None = None,
        justification: str | None = None,
        published: str | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write a folder to hand on: a report of releases that opens anywhere, their numbers, and a registry entry.

        `report.html` says the guarantee in words and in odds, shows every release as a picture and as a table, and
        says how it was made and how it is cited; it asks nothing of any other machine. Beside it, and in it, are a CSV
        file a release, `releases.json`, and `registry.yaml`: an entry in the form of the public registry of
        differential-privacy deployments. Nothing but what was released is in any of them.

        The folder is written whole or not at all.

        Parameters
        ----------
        path
            Of the folder.
        releases
            What to publish: releases of this session, comparisons of them, or numbers as `history()` lists them; all
            that were recorded, if None.
        title
            Of the report, and of the data product.
        curator, curator_type
            Who publishes it, and what that is, such as "Government" or "Nonprofit".
        description, intended_use, region, sector
            What it is, what it is for, and what the data is about, such as "France" and "Healthcare".
        justification
            Why budget and bounds are what they are.
        published
            The day, as "2025-03-01"; today, if None.
        overwrite
            Whether a report that is there is replaced. Anything else that is there stays in any case.

        Returns
        -------
        Path
            Of the folder.

        Raises
        ------
        ArgumentError
            If a release is of another session or its frame was changed, something is there, or it cannot be written.
        LedgerError
            If a number is that of no recorded release.
        NotProtected
            If the table of a release is not protected in this session.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> sexes = session.table("patients").histogram("sex", epsilon=0.5).run()
        >>> folder = session.publish("patients-report", [sexes], title="Patients by sex", curator="The clinic")
        >>> sorted(file.name for file in folder.iterdir())
        ['registry.yaml', 'release-1.csv', 'releases.json', 'report.html']
        """
        said = {
            "title": title,
            "curator": curator,
            "curator_type": curator_type,
            "description": description,
            "intended_use": intended_use,
            "region": region,
            "sector": sector,
            "justification": justification,
            "published": published,
        }
        written: Path = view("report", self, path, releases, overwrite=overwrite, **said)
        return written

    def workbench(self, table: str | None = None) -> Any:
        """Return a widget in which questions are composed by mouse or keyboard, with what they would cost.

        Table, verb, filters over the declared domain, groups and accuracy are chosen; the card below is planned anew at
        every move, which reads no data and spends nothing. Run answers what is shown. The question can be copied as
        pandas or SQL, and put into a budget plan. Every session has one that is live: the latest.

        Parameters
        ----------
        table
            Name of the table to begin with; the first one when None.

        Raises
        ------
        NotProtected
            If there is no such table, or none yet.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> workbench = example_session().workbench("patients")  # at the end of a cell it shows itself
        >>> type(workbench).__name__
        'Workbench'
        """
        return view("workbench", self, table)

    def budget_planner(self, *queries: Query) -> Any:
        """Return a widget that prices the questions you expect, as one purchase and one by one.

        Parameters
        ----------
        queries
            What is expected, each with its own accuracy; more can be added, by `add` or in the workbench.

        Returns
        -------
        A planner: `purchase` has the prices, `run()` buys all and returns the release of each. At the end of a cell it
        shows itself, with controls for the errors.

        Raises
        ------
        ArgumentError
            If one is no query, or of another session.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> patients = session.table("patients")
        >>> by_sex, by_both = patients.histogram("sex", error=20), patients.crosstab("sex", "income", error=40)
        >>> planner = session.budget_planner(patients.count(error=20), by_sex, by_both)
        >>> purchase = planner.purchase
        >>> purchase.epsilon < purchase.epsilon_one_by_one
        True
        >>> [len(release.frame) for release in planner.run()]
        [1, 2, 20]
        """
        return view("budget planner", self, queries)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after every release; return a function that stops it.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> stop = session.on_change(lambda: print("spent:", round(session.spent.epsilon, 3)))
        >>> release = session.table("patients").count(epsilon=0.25).run()
        spent: 0.25
        >>> stop()
        """
        return _listed(callback, self._callbacks)

    def on_close(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the session is closed; return a function that stops it.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> session = example_session()
        >>> stop = session.on_close(lambda: print("closed"))
        >>> session.close()
        closed
        """
        return _listed(callback, self._endings)

    if not TYPE_CHECKING:  # a type checker knows what is here
        tables = Listing(tables, "session.table")

        def __getattr__(self, name: str) -> NoReturn:
            refuse_of_session(name, vars(self).get("_tables", ()), dir(type(self)))

        def __getitem__(self, key: object) -> NoReturn:
            refuse_of_session(key if isinstance(key, str) else "table", self._tables, dir(type(self)))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledger; the session cannot be asked any more. Leaving a `with` block does the same.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger")
        >>> session.close()
        >>> with dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger") as again:
        ...     again.spent.epsilon  # it is all in the file
        0.0
        """
        _call(self._endings)
        self._endings.clear()
        self._callbacks.clear()
        global _latest
        if _latest is self:
            _latest = None
        for protected in self._tables.values():
            protected.engine.close()
        self._statements.relations.close()
        self._tables.clear()
        self._closed = True
        self.ledger.close()

    def _amount(self, units: int, thresholds: Fraction) -> Amount:
        accountant = self.ledger.accountant
        return Amount(accountant.epsilon(units), with_thresholds(accountant, thresholds), float(thresholds))

    def _run(self, query: Query, progress: Progress | None) -> Release:
        """Run a query as it is understood."""
        release = self._pipeline.run(self._mechanism(query), query, told(progress))
        self._changed()
        return release

    def _plan(self, query: Query) -> Plan:
        mechanism = self._mechanism(query)
        routed = query.routed()
        if (look := routed.look) is not None:
            return first_look.said_of_rest(self._plan(look.first), look, routed.accuracy, self.ledger)
        return self._pipeline.plan(mechanism if routed is query else self._mechanism(routed), routed)

    def _mechanism(self, query: Query) -> Mechanism:
        """Return what answers a query.

        Raises
        ------
        NotProtected
            If a table is not there, as after this session was closed.
        """
        asked = query.question
        for name in asked.tables if isinstance(asked, Statement) else (asked.table,):
            self.table(name)
        if isinstance(asked, Statement):
            return self._statements
        return self._adaptive if asked.adaptive else self._questions

    def _mechanism_of(self, charge: Charge) -> Mechanism:
        """Return what answers what was charged for."""
        self.table(charge.table)
        return mechanism_of(charge, self._questions, self._statements, self._adaptive)

    def _changed(self) -> None:
        _call(self._callbacks)


def active_session() -> Session:
    """Return the session that was made last.

    Raises
    ------
    NotProtected
        If there is none.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
    >>> dpn.active_session() is session
    True
    """
    if _latest is None:
        raise NotProtected("there is no session yet: write session = dpn.Session(budget=dpn.Budget(epsilon=1.0))")
    return _latest


def _listed(callback: Callable[[], None], callbacks: list[Callable[[], None]]) -> Callable[[], None]:
    callbacks.append(callback)

    def stop() -> None:
        if callback in callbacks:
            callbacks.remove(callback)

    return stop


def _call(callbacks: list[Callable[[], None]]) -> None:
    for callback in list(callbacks):
        try:
            callback()
        except Exception:  # what watches a release must not lose it
            logging.getLogger(__name__).exception("a callback of a session failed")


def _check_table_name(name: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise DomainError(f"a table needs a name, such as 'patients', not {shorten(name)}")
    if len(name) > MOST_NAME or not name.isprintable():
        raise DomainError(f"the name of a table is one line of at most {MOST_NAME} characters")


def _checked_table(
    name: str,
    domain: Mapping[str, Any] | Domain | None,
    unit: str | Unit | None,
    max_rows: int | None,
    rows: float | None,
    nullable: bool | Iterable[str],
) -> TableSchema:
    _check_table_name(name)
    column, population = column_and_population(unit)
    declared = Domain.nothing() if domain is None else domain if isinstance(domain, Domain) else Domain(domain)
    declared = _with_missing(declared, nullable)
    if column is None and max_rows is not None:
        raise DomainError("max_rows= bounds the rows of a unit: say which column identifies it with unit=")
    most = 1 if column is None else plain(max_rows)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_ROWS):
        one = shorten(population or column)[1:-1]
        raise DomainError(
            f"max_rows= is how many rows of one {one} may count at most: max_rows=8, for example "
            f"(got {shorten(max_rows)}). Fewer rows need less noise, more rows lose less data"
        )
    known = None if rows is None else float(positive(rows, "rows"))
    return TableSchema(name, declared, column, most, known, population)


def _with_missing(declared: Domain, nullable: bool | Iterable[str]) -> Domain:
    try:
        return declared.with_missing(nullable)
    except (DomainError, TypeError) as error:
        got = f"(got {shorten(nullable)})" + (f": {error}" if isinstance(error, DomainError) else "")
        raise DomainError(
            f"nullable= is True, or a list of declared columns whose missing values count {got}"
        ) from None


def _checked_analyst(analyst: str | None) -> str | None:
    if analyst is not None and not (isinstance(analyst, str) and analyst.strip()):
        raise ArgumentError(f"analyst= is who asks, such as 'anna', and not {shorten(analyst)}")
    if analyst is not None and (len(analyst) > MOST_NAME or not analyst.isprintable()):
        raise ArgumentError(f"analyst= is one line of at most {MOST_NAME} characters")
    return analyst


def _checked_purchases(purchases: Purchases) -> Purchases:
    if purchases not in PURCHASES:
        raise ArgumentError(f"purchases must be 'auto', 'offer' or 'never', not {shorten(purchases)}")
    return purchases

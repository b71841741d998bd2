"""The releases of a ledger's file, opened by whoever has neither its tables nor its budget.

A record has the noisy answers, and the ledger what is declared of each table: a release follows from these alone, as in
a session. Nothing is asked, and the file stays as it is.
"""

from __future__ import annotations

from numbers import Integral
from os import PathLike, fspath
from typing import TYPE_CHECKING, cast

from dpnotebook.domain import Domain
from dpnotebook.errors import LedgerError, NotProtected, shorten
from dpnotebook.ledger import Charge, Ledger
from dpnotebook.ledger.replay import parts_of
from dpnotebook.planner.explain import code_as
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.query.question import Question
from dpnotebook.session.adaptive import AdaptiveMarginals
from dpnotebook.session.pipeline import Mechanism, Pipeline
from dpnotebook.session.policy import minimum_of
from dpnotebook.session.protected import DeclaredTable, ProtectedTable
from dpnotebook.session.query import SessionProtocol
from dpnotebook.session.questions import Questions
from dpnotebook.session.statements import Statements
from dpnotebook.session.value_counts import SHOWN, ShownCounts
from dpnotebook.sql.statement import Statement

if TYPE_CHECKING:
    from dpnotebook.session.release import Release


class LedgerReader:
    """What a ledger's file has of answers.

    Parameters
    ----------
    path
        The file.
    entries, head
        How many entries there were when it was audited, and the hash of the last of them: they must still be there.

    Raises
    ------
    LedgerCorrupt
        If they are not.
    LedgerError
        If the file cannot be read.
    """

    def __init__(self, path: str | PathLike[str], entries: int, head: str) -> None:
        self.ledger = Ledger(fspath(path), None, only_read=True, seen=(entries, bytes.fromhex(head)))
        self._statements = Statements(
            self.ledger, self.table, lambda table, moment: self._questions.histories.of(table, moment)
        )
        self._questions = Questions(
            self.ledger, "optimal", "never", self.table, self._statements.worked_out, self._statements.weights
        )
        self._questions.minimum = self._statements.minimum = minimum_of(self.ledger.policies())
        self._adaptive = AdaptiveMarginals(self._questions, self.table)
        self._pipeline = Pipeline(self.ledger)
        self._session = cast(SessionProtocol, self)  # which no query here is ever run in
        self._tables = {name: self._declared(name) for name in self.ledger.tables()}
        for table in self._tables.values():
            self._statements.relations.declare(table.table)

    def release(self, number: int) -> Release:
        """Return a recorded release; see `Session.release`."""
        record = self.ledger.get(number)
        mechanism = mechanism_of(record, self._questions, self._statements, self._adaptive)
        return self._pipeline.again(mechanism, self._session, record)

    def code(self, number: int) -> str:
        """Return the Python that asks for a release; see `Session.code`."""
        charge = self.ledger.charged(number)
        mechanism = mechanism_of(charge, self._questions, self._statements, self._adaptive)
        return code_of(charge, mechanism.asked_in(charge), self.ledger.accountant)

    def table(self, name: str) -> ProtectedTable:
        """Return what is declared of a table; raises NotProtected if the ledger does not know it."""
        if name not in self._tables:
            raise NotProtected(f"the ledger knows no table {shorten(name)}")
        return self._tables[name]

    def _declared(self, name: str) -> DeclaredTable:
        known = self.ledger.tables()[name]
        grown = "parts" in known
        schema = TableSchema(
            name,
            Domain.from_json(known["domain"]),
            known["unit"],
            1 if known["unit"] is None else known["max_rows"],
            population=known.get("population"),
            parts=len(parts_of(known)) if grown else 0,
            adds=bool(known.get("adds", False)),
        )
        return DeclaredTable(self._session, schema, ())


def mechanism_of(
    charge: Charge, questions: Questions, statements: Statements, adaptive: AdaptiveMarginals
) -> Mechanism:
    """Return which mechanism answers what was charged for."""
    if "statement" in charge.plan:
        return statements
    return adaptive if "adaptive" in charge.plan else questions


def code_of(charge: Charge, asked: Question | Statement, accountant: Accountant) -> str:
    """Return the Python that asks for what was charged for; see `Session.code`."""
    if not isinstance(asked, Statement):
        shown = ShownCounts.from_json(charge.plan.get(SHOWN))
        verb = None if shown is None else (shown.verb, *shown.arguments(asked.keys))
        return code_as(asked, str(charge.plan["accuracy"]), verb)
    own = "epsilon" in asked.text.casefold()  # in its OPTIONS
    return asked.code("" if own else f"epsilon={accountant.epsilon(charge.plan['units']):.6g}")


def release_number(number: object, listed: str = "session.history()") -> int:
    """Return the number of a release; raises LedgerError where it is none, with what lists them."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise LedgerError(f"releases are numbered 1, 2, 3, as {listed} lists them; not {shorten(number)}")
    return int(number)

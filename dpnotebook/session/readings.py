"""The ways in which the text of a statement can be read, one of which is asked: bounded by norms, by rows, by a few.

Which one suits depends on what the ledger knows. A statement that was paid for in one reading stays free: asked again,
it is read like that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dpnotebook.domain.values import plain
from dpnotebook.errors import SQLError

if TYPE_CHECKING:
    from dpnotebook.ledger import Ledger
    from dpnotebook.query.question import Accuracy
    from dpnotebook.sql.ownership.reader import ValueBounds
    from dpnotebook.sql.statement import Relation, Statement

# sqlglot takes a third of a second to import: what needs it is imported where the first statement is asked.


def bounded_by(contribution: str | None, ledger: Ledger) -> str | None:
    """Return how a unit is to be bounded, where nobody says: by norms, which need Gaussian noise, or by rows."""
    if contribution is not None:
        return contribution
    if ledger.accountant.law.euclidean:
        return "planned"
    return None if ledger.threshold_delta else "counted"  # which groups are shown depends on the rows declared


@dataclass(frozen=True, eq=False)
class Readings:
    """How a text may be read as a statement, and what decides on it.

    Parameters
    ----------
    ledger
        What is known, and what was paid for.
    relations
        The protected and the public tables, by name.
    text, parameters
        The SQL, and the values of `:name` in it.
    contribution, bounds
        How a unit and its values are to be bounded; None for what suits best.
    accuracy, fresh
        As for a query.
    usual
        Whether aggregates that can be written in several ways are written in one; False as earlier versions read them.
    """

    ledger: Ledger
    relations: Mapping[str, Relation]
    text: str
    parameters: Mapping[str, Any]
    contribution: str | None
    bounds: ValueBounds | None
    accuracy: Accuracy
    fresh: bool
    usual: bool = True

    def read(
        self, contribution: str | None, bounds: ValueBounds | None, rates: bool, grouped: str | None = None
    ) -> Statement:
        """Return the statement as it is read in one way; see `analyse`.

        Raises
        ------
        SQLError
            If it cannot be answered in that way.
        """
        from dpnotebook.sql.analysis.analyse import analyse
        from dpnotebook.sql.prices import at_epsilon

        ways = (contribution, bounds, rates, grouped, self.usual)
        found = analyse(self.text, self.relations, self.parameters, *ways, lists=not self.ledger.threshold_delta)
        return at_epsilon(found, self.ledger.accountant)[0]

    def of_counts(self) -> Statement:
        """Return the statement with its rates worked out from the counts that they are of."""
        return self.read(bounded_by(self.contribution, self.ledger), self.bounds, rates=False)

    def suited(self, statement: Statement, bounded: bool) -> Statement:
        """Return a statement read in the way that suits what is known and what was paid for.

        Parameters
        ----------
        statement
            As it was read first.
        bounded
            Whether all its tables are declared with the most rows that a unit may have.
        """
        from dpnotebook.sql.analysis.contributions import needs_few
        from dpnotebook.sql.values_profile import finds_values, with_one_value

        usual = bounded_by(self.contribution, self.ledger)
        wanted = self.contribution if bounded or all(map(needs_few, statement.selects)) else "as it is"

        def read(bounds: ValueBounds | None, contribution: str | None) -> Statement:
            return self.read(contribution, bounds, statement.rates, statement.grouped)

        found = self._with_suited_norms(statement, partial(read, self.bounds), wanted)
        if self.bounds is None and any(one.within for select in found.selects for one in select.aggregates):
            clamped = partial(read, "declared")
            found = self._inside_or(lambda: self._with_suited_norms(clamped(usual), clamped, wanted), found)
        if self.accuracy.epsilon is not None and finds_values(found):
            found = self._paid_or(partial(with_one_value, found), found)
        given = {
            "contribution": self.contribution,
            "bounds": self.bounds,
            "parameters": self._bound(),
        }
        return replace(found, options={name: said for name, said in given.items() if said is not None})

    def _bound(self) -> dict[str, Any] | None:
        """Return the values of the parameters that stand in the text, as a ledger keeps them.

        None where there are none, or one is no simple value. What else has a name in a notebook is nobody's business.
        """
        from dpnotebook.sql.parse.statement_parser import parameters_in

        if not self.parameters:
            return None
        found = {name: plain(self.parameters[name]) for name in parameters_in(self.text)}
        return found if found and all(map(_is_simple, found.values())) else None

    def together(self, statement: Statement, alone: Statement, bounded: bool, planned: bool) -> Statement | None:
        """Return a statement whose aggregates are measured together: of disjoint rows by groups, or as units add up.

        Parameters
        ----------
        statement
            As it was read first.
        alone
            As it suits where each aggregate is measured for itself.
        bounded
            As for `suited`.
        planned
            Whether the planner may answer it.

        Returns
        -------
        Statement | None
            None where there is nothing to be measured together, and where it was paid for as it suits alone.
        """
        from dpnotebook.sql.analysis.unit_sums import adds_up_rows
        from dpnotebook.sql.dry_run import check_outer

        if not self.fresh and self.is_paid(alone):
            return None
        ways = ["columns", "conditions"] if statement.can_group else []
        by_rows = not self.ledger.accountant.law.euclidean and self.contribution is None and not planned
        ways += ["units"] if by_rows and all(map(adds_up_rows, alone.selects)) else []
        for way in ways:
            found = self.read(bounded_by(self.contribution, self.ledger), self.bounds, statement.rates, way)
            if found.grouped and all(select.selection == "all" for select in found.selects):
                check_outer(found, self.relations)
                found = self.suited(found, bounded)
                return found if self.accuracy.epsilon is not None or self._is_cheaper(found, alone) else None
        return None

    def _is_cheaper(self, statement: Statement, other: Statement) -> bool:
        """Return whether a release keeps an error for a statement, or it takes less than it does for another one.

        What an error takes is found by a first look, which has a price and so measures as much together as it can.
        """
        from dpnotebook.sql.plan import least_units

        books = self.ledger.moment(statement.table)
        if self._keeps(statement):
            return True
        return least_units(statement, self.accuracy, books) < least_units(other, self.accuracy, books)

    def is_paid(self, statement: Statement) -> bool:
        """Return whether the epsilon that is asked for was paid for a statement before."""
        from dpnotebook.sql.prices import split

        books, accountant = self.ledger.moment(statement.table), self.ledger.accountant
        if self.accuracy.epsilon is None or not (records := books.records(statement.key)):
            return False
        enough = sum(split(statement.selects, accountant.least_units(self.accuracy.epsilon), accountant))
        return any(int(record.plan["units"]) >= enough for record in records)

    def _with_suited_norms(
        self, statement: Statement, read: Callable[[str | None], Statement], contribution: str | None
    ) -> Statement:
        """Return a statement that is bounded by norms or by rows, as suits what is known and what was paid for.

        Parameters
        ----------
        statement
            What is asked, by norms where these suit it.
        read
            Reads it as it is with a contribution.
        contribution
            Which one was asked for; "as it is" where nothing else can be.
        """
        from dpnotebook.sql.profile import with_usual_norms

        if contribution in (None, "as it is") and any(select.apart is not None for select in statement.selects):
            return self._apart_or(read, statement, contribution)
        clipped = any(select.contribution.kind == "l2" for select in statement.selects)
        if contribution is None and any(select.rows_if_hidden for select in statement.selects):
            return self._rows_or(lambda: self._few_or_all(read(None), read), statement)
        if contribution in (None, "l2") and clipped:
            other = partial(read, None) if contribution is None else partial(with_usual_norms, statement)
            return self._norms_or(other, statement)
        return self._few_or_all(statement, read) if contribution is None else statement

    def _apart_or(
        self, read: Callable[[str | None], Statement], apart: Statement, contribution: str | None
    ) -> Statement:
        """Return a statement that bounds some aggregates by norms and others by rows; all alike if that was paid for.

        With an error nothing was paid for alike: no error held for both, as those of quantiles were in ranks.
        """

        def alike() -> Statement:
            try:
                return self._with_suited_norms(read("alike"), read, contribution)
            except SQLError:  # of what nobody has said how many rows of a unit count, which norms need not know
                return apart

        return self._paid_or(alike, apart) if self.accuracy.epsilon is not None else apart

    def _few_or_all(self, few: Statement, read: Callable[[str | None], Statement]) -> Statement:
        """Return a statement that draws a few rows of each unit, or all rows where an earlier version paid for that."""
        from dpnotebook.sql.analysis.contributions import draws_few

        if self.fresh or not any(map(draws_few, few.selects)):
            return few
        earlier = read("rows")
        return earlier if self.is_paid(earlier) else few

    def _inside_or(self, clamped: Callable[[], Statement], inside: Statement) -> Statement:
        """Return a statement that finds bounds inside the declared ones, or one that clamps values to these.

        It clamps where that was paid for; and for an error as long as the bounds inside are not known, since an error
        cannot be planned before they are.
        """
        from dpnotebook.sql.profile import all_ranges_known

        books = self.ledger.moment(inside.table)
        if self.accuracy.epsilon is None:
            return inside if all(all_ranges_known(select, books) for select in inside.selects) else clamped()
        return self._paid_or(clamped, inside)

    def _rows_or(self, other: Callable[[], Statement], counted: Statement) -> Statement:
        """Return a statement that finds how many rows of a unit count, or one in which as many count as are declared.

        As many as are declared count where that was paid for; and for an error as long as it is not known how many
        should, since an error cannot be planned before that is. Not where nobody declared that: intervals say nothing
        of what a usual number of rows leaves out.
        """
        from dpnotebook.sql.analysis.contributions import MOST_ROWS
        from dpnotebook.sql.rows_profile import known_rows

        books = self.ledger.moment(counted.table)
        if self.accuracy.epsilon is None:
            known = all(known_rows(one, books) is not None for one in counted.selects if one.rows_if_hidden)
            if known:
                return counted
            drawn = other()
            undeclared = any(one.most_counted >= MOST_ROWS for one in counted.selects if one.rows_if_hidden)
            return counted if undeclared and not self._keeps(drawn) else drawn
        return self._paid_or(other, counted)

    def _keeps(self, statement: Statement) -> bool:
        """Return whether a release keeps the error for a statement that is asked for."""
        from dpnotebook.sql.reuse.known import best_known

        return not self.fresh and best_known(statement, self.accuracy, self.ledger.moment(statement.table)) is not None

    def _norms_or(self, other: Callable[[], Statement], clipped: Statement) -> Statement:
        """Return a statement whose norms are found, or one with the bounds that earlier versions had.

        The latter is asked where it was paid for; and for an error as long as norms are not known, since an error
        cannot be planned before they are. Where norms of more rows are known, it is the one that costs less.
        """
        from dpnotebook.sql.plan import least_units
        from dpnotebook.sql.profile import all_norms_known
        from dpnotebook.sql.reuse.known import best_known

        books = self.ledger.moment(clipped.table)
        if self.accuracy.epsilon is None:
            if all(all_norms_known(select, books) for select in clipped.selects):
                return clipped
            if not self.fresh and best_known(clipped, self.accuracy, books):
                return clipped
            if not all(all_norms_known(select, books, wider=True) for select in clipped.selects):
                return other()
            return min((other(), clipped), key=lambda one: least_units(one, self.accuracy, books))
        return self._paid_or(other, clipped)

    def _paid_or(self, other: Callable[[], Statement], statement: Statement) -> Statement:
        """Return a statement, or another one that was paid for, which is read only where the first never was."""
        if self.fresh or self.ledger.moment(statement.table).records(statement.key):
            return statement
        earlier = other()
        return earlier if self.is_paid(earlier) else statement


def _is_simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))

"""The ledger of a session: charge, then measure, then record, then reveal."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from operator import index
from pathlib import Path
from typing import Any, TypeVar

from dpnotebook.domain.parts import with_parts, without_parts
from dpnotebook.errors import BudgetExceeded, LedgerConflict, LedgerError
from dpnotebook.ledger import snapshot
from dpnotebook.ledger.budgets import BudgetRaise, checked_budget, checked_reason, raised, renewed
from dpnotebook.ledger.checks import (
    check_answered,
    check_cost,
    check_domain,
    check_refines,
    check_same_population,
    check_same_table,
    may_be_corrected,
    refused,
    refused_delta,
)
from dpnotebook.ledger.moment import Moment
from dpnotebook.ledger.nearby import warn_of_others
from dpnotebook.ledger.opened import Opened
from dpnotebook.ledger.policies import RecordedPolicy, check_same_policy, digest_of
from dpnotebook.ledger.random_states import RandomStates
from dpnotebook.ledger.reading import (
    hash_of,
    read_charge,
    read_history,
    read_record,
    read_records,
    read_refusals,
)
from dpnotebook.ledger.releases import Charge, Record, charge_from, pack, record_from, unpack
from dpnotebook.ledger.replay import SNAPSHOT_WORK, Earlier, Replay, TableEntries, parts_of, same_sample
from dpnotebook.ledger.store import MEMORY
from dpnotebook.ledger.writing import append, charge_values, write_refusal, write_snapshot
from dpnotebook.privacy.accountant import DELTA_UNITS, Accountant, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.privacy.spend import CellCost, Spend, runs

NO_ROOM = "more than is left of the budget"
NO_DELTA = "more δ than is left for thresholds"
MOST_TOLD = 16_384  # of what functions tell of records, so many are kept
Told = TypeVar("Told")


class Outpaced(LedgerConflict):
    """Another kernel was answered about a table between a plan and its charge: what is to be measured may be there."""


class Ledger(Opened):
    """The durable record of what was charged to a budget and what was answered for it.

    Any number of processes and threads may use one file at a time; together they are never granted more than the
    budget. Nothing is ever changed or removed, and every entry is chained to the one before it by a hash.

    Parameters
    ----------
    path
        The file; made if there is none. ":memory:" keeps the ledger in this process only.
    budget
        What all answers together may cost. An existing ledger must have been made for the same one, or raised to it.
        None of one that is only read, which has its own.
    timeout
        Seconds to wait while another process writes.
    only_read
        Whether whatever would write to it raises LedgerReadOnly.
    seen
        The number and the hash of an entry that must be there.

    Raises
    ------
    LedgerMismatch
        If the file was made for another budget.
    LedgerCorrupt
        If the file is no ledger, is damaged, or its entries do not follow from one another.
    LedgerReadOnly, LedgerLocked, LedgerFull, LedgerError
        If the file cannot be used for another reason; the text says which and what to do.
    """

    def __init__(
        self,
        path: str | Path,
        budget: Budget | None,
        *,
        timeout: float = 60.0,
        only_read: bool = False,
        seen: tuple[int, bytes] | None = None,
    ) -> None:
        super().__init__(path, budget, timeout=timeout, only_read=only_read, seen=seen)
        self._random_states = RandomStates(None if self.path == MEMORY else self.path)
        self.policy: str | None = None  # the digest of the one that is followed here
        self._said: dict[str, int] = {}  # by table, the entry that said the domain that it has here
        self._told: OrderedDict[tuple[Callable[[Record], Any], int], Any] = OrderedDict()  # see `told`
        if not only_read:
            self._forget_random_states()

    def register(
        self,
        name: str,
        *,
        fingerprint: str,
        domain: dict[str, Any],
        unit: str | None,
        max_rows: int | None,
        population: str | None = None,
    ) -> bool:
        """Make a table known, or check that it is the one that is known by this name.

        A table that was registered without a population can be given one later, by an entry of its own: that changes
        no spend, and what was charged before covers the units of every population that the table may be of. A
        population that was named stays. As long as nothing was charged that a table has a part in, its domain can be
        corrected, and it can be said how many rows of a unit count where that was not, by an entry of its own too:
        there is no answer that another domain could make wrong.

        Parameters
        ----------
        name
            What the table is called.
        fingerprint
            Keyed digest of its data.
        domain
            The declared domain, as `Domain.to_json` gives it.
        unit, max_rows
            The column that identifies a privacy unit and the most rows of one that count, None where nobody has said
            how many; both None where each row is a unit.
        population
            The population that units belong to, where it is named; None: that of this table alone, or the one that
            the ledger knows.

        Returns
        -------
        bool
            Whether this corrected what was declared.

        Raises
        ------
        LedgerMismatch
            If another snapshot, unit or population is known by this name, or another domain and something was charged.
        """
        values = {"name": name, "fingerprint": fingerprint, "domain": domain, "unit": unit, "max_rows": max_rows}
        if population is not None:
            values["population"] = population
        with self._reading() as (_, view):
            if self._knows(view, values) and not self._names(view, values):
                self._said[name] = view.tables[name].since
                return False
        from dpnotebook.domain import Domain

        # Pairs, because the order of attributes is the order of the axes of the spend.
        sizes = [[attribute, size] for attribute, size in Domain.from_json(domain).sizes.items()]
        with self._writing() as (connection, view):
            corrects = name in view.tables and not self._knows(view, values)
            if name not in view.tables:
                since = append(connection, view, "register", values | {"sizes": sizes}).number
            elif corrects:
                named = {part: value for part, value in view.tables[name].registered.items() if part == "population"}
                since = append(connection, view, "correct", named | values | {"sizes": sizes}).number
            else:
                since = view.tables[name].since
                if self._names(view, values):
                    append(connection, view, "population", {"name": name, "population": population})
        self._said[name] = since
        return corrects

    def extend(
        self, name: str, *, fingerprint: str, domain: dict[str, Any], since: int, parts: Sequence[str] = ()
    ) -> None:
        """Give a table an extended domain, under which its spend is kept whole; see `dpnotebook.ledger.extension`.

        Parameters
        ----------
        name
            Of a table that is known.
        fingerprint, domain
            As for `register`, of the same data.
        since
            The entry that said the domain which is extended.
        parts
            Of a table that grew: the digests of the rows of all its parts, in order, of which `fingerprint` is the
            first.

        Raises
        ------
        DomainError
            If the domain is no extension of the one that is known.
        LedgerConflict
            If another kernel changed the domain meanwhile, or something was charged and is not answered yet.
        """
        from dpnotebook.domain import Domain
        from dpnotebook.domain.extension import extension

        with self._writing() as (connection, view):
            table = view.table(name)
            check_domain(name, since, table.since)
            self._check_answered(connection, view, name)
            known, after = table.registered, Domain.from_json(domain)
            if len(parts) != len(known.get("parts", ())):
                raise ValueError("the domain of a table is extended for all parts of it")
            found = extension(Domain.from_json(known["domain"]), after)
            values = {"name": name, "fingerprint": fingerprint, "domain": domain} | {
                "unit": known["unit"],
                "max_rows": known["max_rows"],
                "sizes": [[attribute, size] for attribute, size in after.sizes.items()],
                "levels": {attribute: runs(levels) for attribute, levels in found.levels.items()},
                "same_sample": same_sample(known, found, parts or [fingerprint]),
                "leaves_rows_out": found.leaves_rows_out,
            }
            values |= {"parts": list(parts)} if parts else {}
            values["cells"] = snapshot.digest(view.after_extension(name, values)[0])
            entry = append(connection, view, "extend", values)
        self._said[name] = entry.number

    def grow(self, name: str, *, fingerprint: str, since: int, adds: bool) -> None:
        """Add a part to a table, whose cells start with no spend; see `dpnotebook.ledger.extension`.

        Parameters
        ----------
        name
            Of a table that is known.
        fingerprint
            Keyed digest of the rows of the part.
        since
            The entry that said what the table was before.
        adds
            Whether units may be in several parts, so that what parts cost adds up.

        Raises
        ------
        LedgerConflict
            If another kernel changed the table meanwhile, or something was charged and is not answered yet.
        """
        from dpnotebook.domain import Domain

        with self._writing() as (connection, view):
            table = view.table(name)
            check_domain(name, since, table.since)
            self._check_answered(connection, view, name)
            known, parts = table.registered, parts_of(table.registered)
            declared = Domain.from_json(known["domain"])
            domain = with_parts(without_parts(declared) if "parts" in known else declared, len(parts) + 1)
            values = {"name": name, "fingerprint": fingerprint, "domain": domain.to_json()} | {
                "unit": known["unit"],
                "max_rows": known["max_rows"],
                "sizes": [[attribute, size] for attribute, size in domain.sizes.items()],
                "adds": adds,
            }
            values["cells"] = snapshot.digest(view.after_growth(name, values))
            entry = append(connection, view, "grow", values)
        self._said[name] = entry.number

    def domains(self, table: str) -> tuple[Earlier, ...]:
        """Return the domains that a table has had in the order of its extensions, the present one last."""
        with self._reading() as (_, view):
            known = view.table(table)
            return (*known.earlier, Earlier(known.since, known.registered["domain"], same_rows=True))

    def unused(self, table: str) -> bool:
        """Return whether nothing was ever charged or answered that a table has a part in."""
        with self._reading() as (_, view):
            return view.unused(table)

    def warn_of_others(self, name: str, domain: dict[str, Any], population: str | None = None) -> None:
        """Warn of other ledgers in the folder that know a table, or more of this ledger than it does; see `nearby`.

        Parameters
        ----------
        name, domain, population
            As for `register`.

        Warns
        -----
        LedgerWarning
            Of each such file, once.
        """
        if self.path == MEMORY:
            return

        def hash_at(number: int) -> bytes | None:
            with self._reading() as (connection, _):
                return hash_of(connection, number)

        with self._reading() as (_, view):
            last = view.entries
        warn_of_others(self.path, last, hash_at, {"name": name, "domain": domain, "population": population})

    def raise_budget(self, budget: Budget, *, reason: str) -> Budget:
        """Raise the budget to a new whole; see `Session.raise_budget`."""
        why = checked_reason(reason)
        with self._writing() as (connection, view):
            whole = raised(self.budget, checked_budget(budget))
            self._append_budget(connection, view, whole, None, why)
        return self.budgets()[-1].budget

    def renew_budget(self, budget: Budget, *, reason: str) -> Budget:
        """Put another budget on top of the present one; see `Session.renew_budget`."""
        why = checked_reason(reason)
        with self._writing() as (connection, view):
            whole = checked_budget(renewed(self.budget, checked_budget(budget)))
            self._append_budget(connection, view, whole, budget, why)
        return self.budgets()[-1].budget

    @cached_property
    def identity(self) -> str:
        """Sixteen hex digits that tell this ledger, and copies of it, from every other one; they are public."""
        with self._reading() as (_, view):
            return str(view.opening["key"])[:16]

    def policies(self) -> tuple[RecordedPolicy, ...]:
        """Return the policies that the ledger has been put under, in order; the last one holds."""
        with self._reading() as (_, view):
            return tuple(view.policies)

    def follow_policy(self, said: dict[str, Any], most: int | None, *, before: int = 0, reason: str = "") -> None:
        """Put the ledger under a policy, unless it is under this one already, and follow it here.

        Parameters
        ----------
        said
            What it says, as JSON values.
        most
            Units that all answers together may take; None where the budget alone bounds them.
        before
            How many policies the caller knows that the ledger was under.
        reason
            Why it is changed; empty of the first.

        Raises
        ------
        LedgerConflict
            If another kernel put it under another policy meanwhile.
        """
        digest = digest_of(said)
        with self._writing() as (connection, view):
            if not view.policies or view.policies[-1].digest != digest:
                if len(view.policies) != before:
                    check_same_policy(view.policies, digest)
                append(connection, view, "policy", {"policy": said, "digest": digest, "most": most, "reason": reason})
        self.policy = digest

    def budgets(self) -> tuple[BudgetRaise, ...]:
        """Return the budget that the ledger was made for, and every one that it was raised to, in order."""
        with self._reading() as (_, view):
            return tuple(
                BudgetRaise(
                    Budget.from_json(values["budget"]),
                    None if values["added"] is None else Budget.from_json(values["added"]),
                    values["reason"],
                    values["time"],
                    values["entry"],
                )
                for values in view.budgets
            )

    def charge(
        self,
        table: str,
        question: str,
        plan: dict[str, Any],
        cost: CellCost,
        refines: Iterable[tuple[int, int]] = (),
        delta: Fraction = Fraction(0),
        version: int | None = None,
    ) -> Charge:
        """Pay for a question, before its data is touched: read, check and append in one transaction.

        Parameters
        ----------
        table
            A registered table.
        question
            The question in its canonical form.
        plan
            JSON values to find again.
        cost
            What it costs in each cell of the table.
        refines
            The recorded measurements of the table whose noisy answers are drawn on from: of each, the number of its
            release and its place in it, from 0. What was paid for them is part of the price.
        delta
            What its thresholds cost, on top; multiples of 10^-24 add up exactly, others are rounded up to one.
        version
            That of the table when the question was planned; where it is another by now, nothing is paid.

        Returns
        -------
        Charge
            With the units by which the session's total rose.

        Raises
        ------
        BudgetExceeded
            If the total would pass the budget, or the delta what is kept for thresholds; nothing is left of the
            question but a line in a log.
        LedgerConflict
            If a measurement that it refines was refined by another charge meanwhile, or cannot be; nothing is spent.
        Outpaced
            If something was charged or recorded of the table since that version; nothing is spent.
        NotProtected
            If the ledger knows no such table.
        """
        terms, refines = cost.to_json(), [(index(number), index(place)) for number, place in refines]
        parts, random_state = math.ceil(delta * DELTA_UNITS), None
        if parts < 0:
            raise ValueError(f"a threshold costs no less than nothing, not {delta}")
        try:
            with self._writing() as (connection, view):
                check_same_policy(view.policies, self.policy)
                state = view.table(table)
                check_domain(table, self._said.get(table), state.since)
                if version is not None and state.version != version:
                    raise Outpaced("another kernel has just been answered about this table; run it again")  # noqa: TRY301
                check_cost(cost, state.spend.sizes)
                check_refines(view.refusal(table, refines))
                after, units = snapshot.plus(state.spend, cost)
                if view.spent + units > self._most(view):
                    raise _Refused(units, max(0, self._most(view) - view.spent))  # noqa: TRY301 - leaves the transaction first
                kept = math.floor(self.threshold_delta * DELTA_UNITS)
                if parts and view.delta + parts > kept:
                    left = Fraction(max(0, kept - view.delta), DELTA_UNITS)
                    raise _Refused(Fraction(parts, DELTA_UNITS), left)  # noqa: TRY301
                values = charge_values(view, table, question, plan)
                if terms:
                    values |= {"cost": terms, "units": units, "spent": view.spent + units}
                    values["cells"] = snapshot.digest(after)
                if parts:
                    values |= {"delta": parts, "delta_spent": view.delta + parts}
                if refines:
                    values["refines"] = refines
                values["random_state"] = random_state = self._random_states.make()
                entry, since = append(connection, view, "charge", values, units=units), state.since
                view.computed(entry, after)
                if state.work >= SNAPSHOT_WORK:
                    write_snapshot(connection, table, values["number"], after)
                    state.work = 0
        except _Refused as no:
            with contextlib.suppress(LedgerError), self._store.writing() as connection:
                write_refusal(connection, table, question, no.requested, no.remaining, plan | {"why": no.why})
            raise no.told(self.budget, self.accountant) from None
        except BaseException:
            if random_state is not None:
                self._random_states.forget(random_state)
            raise
        return charge_from(entry.values, entry.time, since)

    def record(self, number: int, answers: Sequence[Any], details: dict[str, Any]) -> Record:
        """Record the noisy answers of a charge; only what this returns may be shown.

        Parameters
        ----------
        number
            Of the charge.
        answers
            int64 arrays, one a measurement.
        details
            JSON values that belong to them.

        Returns
        -------
        Record
            The first that was recorded of this charge: where there was one, the given answers are thrown away.
        """
        blob, about = pack(answers)
        values = {"charge": number, "answers": about, "details": details}
        with self._writing() as (connection, view):
            line = view.line(number)
            if line.record is not None:
                return read_record(connection, line)
            check_domain(line.table, self._said.get(line.table), line.since)
            charge = read_charge(connection, line)
            entry = append(connection, view, "record", values, blob=blob)
        if charge.random_state is not None:
            self._random_states.forget(charge.random_state)
        return record_from(charge, unpack(blob, about), entry.values["details"])

    def note(self, table: str, question: str, plan: dict[str, Any], details: dict[str, Any]) -> Record:
        """Record, in one transaction, an answer that follows from what was recorded before, and so costs nothing.

        Parameters
        ----------
        table
            A registered table.
        question
            The question in its canonical form.
        plan
            JSON values to find again.
        details
            The answer, as JSON values.

        Returns
        -------
        Record
            Of 0 units, with no noisy answers of its own.

        Raises
        ------
        NotProtected
            If the ledger knows no such table.
        """
        blob, about = pack(())
        with self._writing() as (connection, view):
            check_same_policy(view.policies, self.policy)
            since = view.table(table).since
            check_domain(table, self._said.get(table), since)
            charge = append(connection, view, "charge", charge_values(view, table, question, plan))
            values = {"charge": charge.values["number"], "answers": about, "details": details}
            entry = append(connection, view, "record", values, blob=blob, after=charge)
        return record_from(charge_from(charge.values, charge.time, since), (), entry.values["details"])

    def check_domain(self, table: str) -> None:
        """Check that a table still has the domain that it was protected with here.

        Raises
        ------
        LedgerConflict
            If another kernel changed it meanwhile.
        """
        with self._reading() as (_, view):
            check_domain(table, self._said.get(table), view.table(table).since)

    def version(self, table: str) -> int:
        """Return a number that rises whenever something is charged or recorded of a table; see `news`."""
        with self._reading() as (_, view):
            return view.table(table).version

    def news(self, table: str, since: int = 0, most: int | None = None) -> tuple[int, tuple[Record, ...]]:
        """Return the version of a table and what was measured of it since an earlier one, in the order of recording.

        What was free is left out: it has no noisy answers. Charges are not always recorded in the order of their
        numbers, because of several kernels the one that charged first may count longer; what reads the ledger bit by
        bit asks here, and misses none.

        Of more than `most` the first so many are given, with the version up to which these are all.
        """
        with self._reading() as (connection, view):
            numbers, version = view.measured(table, since), view.table(table).version
            lines = [view.lines[number - 1] for number in numbers[:most]]
            if len(lines) < len(numbers):
                version = lines[-1].record or version
            return version, tuple(read_records(connection, lines))

    def refining(self, table: str) -> frozenset[tuple[int, int]]:
        """Return the measurements of a table that are refined by charges whose answers were not recorded yet.

        Nothing else may refine them meanwhile, see `charge`. Of each, the number of its release and its place in it.
        """
        with self._reading() as (_, view):
            return self._refining(view.table(table))

    def pending(self, table: str) -> tuple[Charge, ...]:
        """Return the charges of a table that are paid for and still to be measured, with the noise they were made with.

        Those whose random state is gone are lost: they can never be measured.
        """
        with self._reading() as (connection, view):
            lines = [view.lines[number - 1] for number in view.pending(table)]
            found = [read_charge(connection, line) for line in lines if line.since == view.table(table).since]
        return tuple(charge for charge in found if self.randomness(charge) is not None)

    def randomness(self, charge: Charge) -> Randomness | None:
        """Return all that is random about the answer to a charge, while it is not recorded; None where it is gone."""
        return self._random_states.find(charge.random_state)

    def records(
        self,
        table: str,
        question: str | None = None,
        *,
        after: int = 0,
        but: Container[int] = (),
        since: Container[int] | None = None,
    ) -> tuple[Record, ...]:
        """Return the recorded answers of a table in order.

        Of one question only, after a number only, without those of some numbers, or charged under the domains that some
        entries said, if given.
        """
        with self._reading() as (connection, view):
            lines = [view.lines[number - 1] for number in view.numbers(table, question, after) if number not in but]
            lines = [line for line in lines if line.record is not None and (since is None or line.since in since)]
            return tuple(read_record(connection, line) for line in lines)

    def charges_of(self, table: str, question: str) -> tuple[int, ...]:
        """Return the numbers of all charges of a question, whatever became of them."""
        with self._reading() as (_, view):
            return tuple(view.numbers(table, question))

    def told(
        self, table: str, question: str, tells: Callable[[Record], Told], *, since: Container[int] | None = None
    ) -> tuple[Told, ...]:
        """Return what a function tells of each recorded answer to a question, in order.

        Entries never change: what it told of the latest that were looked at is kept, and their records are not read
        again.

        Parameters
        ----------
        table, question, since
            As for `records`.
        tells
            The function, of nothing but the record. What it tells is kept, so it should be small.
        """
        with self._reading() as (connection, view):
            lines = [view.lines[number - 1] for number in view.numbers(table, question)]
            found = []
            for line in lines:
                if line.record is None or not (since is None or line.since in since):
                    continue
                key = tells, line.record
                if key in self._told:
                    self._told.move_to_end(key)
                else:
                    self._told[key] = tells(read_record(connection, line))
                found.append(self._told[key])
            while len(self._told) > MOST_TOLD:
                self._told.popitem(last=False)
        return tuple(found)

    def latest(self, table: str, count: int) -> tuple[Record, ...]:
        """Return the latest recorded answers of a table, at most `count`, in order."""
        with self._reading() as (connection, view):
            lines = [view.lines[number - 1] for number in view.numbers(table)[-count:]]
            return tuple(read_record(connection, line) for line in lines if line.record is not None)

    def get(self, number: int) -> Record:
        """Return the record of a charge.

        Raises
        ------
        LedgerError
            If there is no such charge, or its answer was not recorded; the text says whether it still can be.
        """
        found = self.charged(number)
        if isinstance(found, Record):
            return found
        if self.randomness(found) is not None:
            raise LedgerError(
                f"release {number} was charged but its answer was not recorded yet: session.retry({number}) measures it"
            )
        raise LedgerError(
            f"release {number} was charged, but what is random about its answer is gone, so that it can never be "
            "measured. Ask again: that pays again"
        )

    def charged(self, number: int) -> Charge | Record:
        """Return a charge by its number: its record where its answer was recorded.

        Raises
        ------
        LedgerError
            If there is no such charge.
        """
        with self._reading() as (connection, view):
            line = view.line(number)
            return read_charge(connection, line) if line.record is None else read_record(connection, line)

    def moment(self, table: str, *, parts: Container[int] | None = None) -> Moment:
        """Return what the ledger says of a table now, for a plan: what it answers does not change meanwhile.

        Parameters
        ----------
        table
            Its name.
        parts
            Of a table that grew: how many parts it may have had when what is recorded was asked; as now, if None.
        """
        with self._reading() as (_, view):
            known = view.table(table)
            check_domain(table, self._said.get(table), known.since)
            since = {known.since} if parts is None else known.since_parts(parts)
            return Moment(
                view.head.hex(),
                known.version,
                tuple(
                    number
                    for number in known.pending
                    if view.lines[number - 1].since == known.since and self._can_be_measured(view, number)
                ),
                self._refining(known),
                self.accountant,
                view.spent,
                self.threshold_delta,
                max(Fraction(0), self.threshold_delta - Fraction(view.delta, DELTA_UNITS)),
                known.spend.read_only(),
                partial(self.records, table, since=since),
                partial(self.pending, table),
                partial(self.told, table, since=since),
                self.get,
            )

    def price(self, table: str, cost: CellCost) -> int:
        """Return by how many units a cost would raise the session's total; appends nothing."""
        return self.moment(table).price(cost)

    def spend(self, table: str) -> Spend:
        """Return what was spent on each cell of a table; adding to it changes nothing here, its array is read-only."""
        return self.moment(table).spend

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the registered tables by name: fingerprint, domain, unit, max_rows, and population if it is named."""
        with self._reading() as (_, view):
            return {name: dict(table.registered) for name, table in view.tables.items()}

    def history(self, after: int = 0, among: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Return every charge after a number in order: number, time, table, question, plan, units and state.

        Before them are the charges `among`, which whoever has read all up to that number wants to see once more.

        The state is "recorded"; "charged" while the answer is missing and can still be measured for that charge; "lost"
        where it cannot, because the random state of the charge is gone.
        """
        with self._reading() as (connection, view):
            rows = read_history(connection, view, after, among)
            states = {number: token for token, number in view.random_states.items()}
        for row in rows:
            if row["state"] == "charged" and self._random_states.find(states.get(row["number"])) is None:
                row["state"] = "lost"
        return rows

    def refuse(self, table: str, question: str, plan: Mapping[str, Any], units: int, why: str) -> None:
        """Log that a question was refused before anything was charged, as a policy does; a ledger that is full is left.

        Parameters
        ----------
        table, question, plan
            As for `charge`.
        units
            What it would have cost.
        why
            In words.
        """
        with contextlib.suppress(LedgerError), self._writing() as (connection, view):
            left = max(0, self._most(view) - view.spent)
            write_refusal(connection, table, question, units, left, {**plan, "why": why})

    def refusals(self) -> list[dict[str, Any]]:
        """Return the log of what was refused: time, table, question, requested and remaining units, and its words.

        The log stands beside the chain: it is not audited.
        """
        with self._reading() as (connection, _):
            return read_refusals(connection)

    def _forget_random_states(self) -> None:
        """Destroy random states that no charge waits for: of answers that were recorded, of charges never made."""
        if not self._random_states.tokens():
            return
        with contextlib.suppress(LedgerError), self._writing() as (_, view):  # nobody is making a charge meanwhile
            for token in self._random_states.tokens():
                if token not in view.random_states:
                    self._random_states.forget(token)

    @staticmethod
    def _append_budget(
        connection: sqlite3.Connection, view: Replay, whole: Budget, added: Budget | None, reason: str
    ) -> None:
        values: dict[str, Any] = {"budget": whole.to_json(), "total": accountant_for(whole).total, "reason": reason}
        append(connection, view, "budget", values | {"added": None if added is None else added.to_json()})

    def _waiting(self, view: Replay) -> list[int]:
        """Return the charges without a recorded answer that can still be measured, of all tables."""
        pending = [number for table in view.tables.values() for number in table.pending]
        return [number for number in pending if self._can_be_measured(view, number)]

    def _can_be_measured(self, view: Replay, number: int) -> bool:
        """Whether what is random about the answer to a charge is still there."""
        return self._random_states.find(view.lines[number - 1].random_state) is not None

    @staticmethod
    def _refining(table: TableEntries) -> frozenset[tuple[int, int]]:
        return frozenset(place for places in table.pending.values() for place in places)

    def _check_answered(self, connection: sqlite3.Connection, view: Replay, table: str) -> None:
        """Raise LedgerConflict if something that reads a table can still be measured."""
        check_answered(
            table, [number for number in self._waiting(view) if self._reads(connection, view, number, table)]
        )

    @staticmethod
    def _reads(connection: sqlite3.Connection, view: Replay, number: int, table: str) -> bool:
        """Whether a charge is of a table, or of a statement that reads it beside another one."""
        charge = read_charge(connection, view.lines[number - 1])
        return table == charge.table or table in charge.plan.get("columns", ())

    def _knows(self, view: Replay, values: dict[str, Any]) -> bool:
        """Whether a table is registered as it is; a domain that may be corrected is not known yet."""
        if values["name"] not in view.tables:
            return False
        known = view.tables[values["name"]].registered
        check_same_population(self.path, known, values)
        if may_be_corrected(known, values) and view.unused(values["name"]):
            return False
        check_same_table(self.path, known, values, view.tables)
        return True

    def _names(self, view: Replay, values: dict[str, Any]) -> bool:
        """Whether a known table is given a population that it has not had."""
        known = view.tables[values["name"]].registered
        return values.get("population") is not None and known.get("population") is None


class _Refused(Exception):
    """Leaves the transaction of a charge that does not fit."""

    def __init__(self, requested: int | Fraction, remaining: int | Fraction) -> None:
        super().__init__(requested, remaining)
        self.requested, self.remaining = requested, remaining

    @property
    def why(self) -> str:
        """What the log says."""
        return NO_DELTA if isinstance(self.requested, Fraction) else NO_ROOM

    def told(self, budget: Budget, accountant: Accountant) -> BudgetExceeded:
        if isinstance(self.requested, Fraction) and isinstance(self.remaining, Fraction):
            return refused_delta(self.requested, self.remaining, budget)
        return refused(int(self.requested), int(self.remaining), budget, accountant)

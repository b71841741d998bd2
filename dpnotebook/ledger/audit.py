"""The audit: everything recomputed from the entries, every problem named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from dpnotebook.errors import LedgerCorrupt, LedgerError, shorten
from dpnotebook.ledger import snapshot
from dpnotebook.ledger.chain import Broken, entry_from_row, faults
from dpnotebook.ledger.reading import COLUMNS, key_of, read_history, snapshots
from dpnotebook.ledger.releases import unpack
from dpnotebook.ledger.replay import Replay
from dpnotebook.ledger.store import Store
from dpnotebook.privacy.accountant import DELTA_UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import Spend

MOST_PROBLEMS = 20


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit of a ledger found.

    Parameters
    ----------
    ok
        Whether the entries follow from one another and everything else in the file from them.
    entries
        How many entries there are.
    releases, pending
        How many charges there are, and how many of them have no recorded answer.
    spent, delta
        What they cost, in units, recomputed; and what their thresholds cost of delta.
    head
        The hash of the last entry: note it elsewhere, and a later audit can prove that nothing before it was changed.
    problems
        What is wrong, in words.
    compared
        Whether a head that was noted elsewhere was among the hashes; None if none was given.
    summary
        Budget and spend in words.
    """

    ok: bool
    entries: int
    releases: int
    pending: int
    spent: int
    delta: Fraction
    head: str
    problems: tuple[str, ...]
    compared: bool | None
    summary: str

    def __str__(self) -> str:
        lines = [f"ledger {'ok' if self.ok else 'NOT OK'}: {self.summary}"]
        lines += [f"  - {problem}" for problem in self.problems]
        if self.compared:
            lines.append("nothing up to the noted head was removed or changed since it was noted")
        elif self.compared is None and self.ok:
            lines.append("note the head elsewhere: with it, audit(expected=head) proves later that nothing was changed")
        return "\n".join([*lines, f"head {self.head}"])

    __repr__ = __str__


def audit_file(path: str | Path, expected: str | None = None, *, timeout: float = 60.0) -> Audit:
    """Audit a ledger file without its budget, also one that is too damaged to be opened for use.

    Parameters
    ----------
    path
        The file; it is not changed.
    expected
        A head that was noted earlier.
    timeout
        Seconds to wait for another process.

    Raises
    ------
    LedgerCorrupt
        If the file is no ledger at all.
    LedgerError
        If it cannot be read, or what was given is no path or head.
    """
    store = Store(path, timeout, None)
    try:
        return examine(store, expected)
    finally:
        store.close()


@dataclass(frozen=True)
class Reading:
    """What a ledger's file says of itself.

    Parameters
    ----------
    audit
        What an audit of it found.
    budgets
        What it was made for, and every raise of it; empty where no entry could be read.
    charges
        Every charge in order, as `Ledger.history` gives it; empty where the audit found something wrong.
    path
        Of the file.
    """

    audit: Audit
    budgets: tuple[Budget, ...]
    charges: tuple[dict[str, Any], ...]
    path: str


def read_file(path: str | PathLike[str], expected: str | None = None, *, timeout: float = 60.0) -> Reading:
    """Read and audit a ledger file without its budget, in one state of it; see `audit_file`."""
    store = Store(path, timeout, None)
    noted = None if expected is None else _head(expected)
    try:
        found, charges = _looked_at(store, charges=True)
    finally:
        store.close()
    budgets = tuple(Budget.from_json(one["budget"]) for one in found.view.budgets)
    return Reading(found.audit(noted), budgets, charges, store.path)


def examine(store: Store, expected: str | None = None) -> Audit:
    """Return what an audit of an open store finds; see `Audit`."""
    noted = None if expected is None else _head(expected)
    return _looked_at(store)[0].audit(noted)


def _looked_at(store: Store, *, charges: bool = False) -> tuple[_Found, tuple[dict[str, Any], ...]]:
    """Return what is found in a store, and its charges in that state, if they are asked for and nothing is wrong."""
    found = _Found()
    try:
        with store.reading() as connection:
            found.look(connection)
            if charges and not found.problems:
                return found, tuple(read_history(connection, found.view))
    except LedgerCorrupt as error:
        found.problems.append(str(error))
    return found, ()


def examine_connection(connection: sqlite3.Connection) -> Audit:
    """Return what an audit of a database finds, all of whose texts are read as bytes."""
    found = _Found()
    found.look(connection)
    return found.audit(None)


class _Found:
    """What an audit has seen so far."""

    def __init__(self) -> None:
        self.view = Replay()
        self.problems: list[str] = []
        self.hashes: set[bytes] = set()

    def look(self, connection: sqlite3.Connection) -> None:
        """Replay every entry and note what is wrong, up to a number of problems."""
        try:
            (charges,) = connection.execute("SELECT count(*) FROM entry WHERE kind = 'charge'").fetchone()
            self.view = Replay(charges=charges)
        except sqlite3.DatabaseError:  # what follows says what it is
            pass
        for problem in _problems(connection, self.view, self.hashes):
            self.problems.append(problem)
            if len(self.problems) == MOST_PROBLEMS:
                self.problems.append("and perhaps more")
                break

    def audit(self, noted: str | None) -> Audit:
        """Return what was found, compared with a head that was noted elsewhere if there is one."""
        view, problems = self.view, self.problems
        compared = None if noted is None else bytes.fromhex(noted) in self.hashes
        if compared is False:
            problems.append("the noted head is not among its entries: what came before it was removed or changed")
        pending = sum(line.record is None for line in view.lines)
        return Audit(
            ok=not problems,
            entries=view.entries,
            releases=len(view.lines),
            pending=pending,
            spent=view.spent,
            delta=Fraction(view.delta, DELTA_UNITS),
            head=view.head.hex(),
            problems=tuple(problems),
            compared=compared,
            summary=_summary(view, pending),
        )


def _head(expected: object) -> str:
    head = expected.strip().lower() if isinstance(expected, str) else ""
    if len(head) != 64 or not set(head) <= set("0123456789abcdef"):
        raise LedgerError(
            "expected= is a head that was noted before: the 64 digits and letters after 'head' in an audit"
        )
    return head


def _problems(connection: sqlite3.Connection, view: Replay, hashes: set[bytes]) -> Iterator[str]:
    """Replay every entry into `view`, collect every hash, and yield what is wrong."""
    for (line,) in connection.execute("PRAGMA integrity_check(5)"):
        if line != b"ok":
            yield f"the database is damaged: {line.decode(errors='replace')}"
    kept: dict[str, tuple[int, bytes]] = {}
    try:
        kept = snapshots(connection)
    except Broken as error:
        yield str(error)
    for *row, answers in connection.execute(f"SELECT {COLUMNS}, answers FROM entry ORDER BY number"):
        try:
            entry = entry_from_row(tuple(row))
        except Broken as error:
            yield str(error)
            continue
        hashes.add(entry.hash)
        yield from faults(entry, view.entries + 1, view.head)
        try:
            values = view.take(entry)
            if entry.kind == "record":
                _check_answers(entry.number, answers, values.get("answers"))
        except Broken as error:
            yield str(error)
        if entry.kind == "charge" and view.lines:
            name = view.lines[-1].table
            if name in kept and kept[name][0] == len(view.lines):
                yield from _snapshot_faults(name, kept.pop(name)[1], view.tables[name].spend)
    yield from (f"there is a snapshot of the spend of {shorten(name)} that belongs to no charge" for name in kept)
    for name, table in view.tables.items():
        if not table.checked and snapshot.digest(table.spend) != table.digest:
            yield f"the spend of {shorten(name)} is not what was written with its last charge"
    yield from _beside(connection, view)


def _snapshot_faults(name: str, packed: bytes, spend: Spend) -> Iterator[str]:
    try:
        same = snapshot.digest(snapshot.unpack(packed, spend.sizes, spend.limit)) == snapshot.digest(spend)
    except Broken:
        same = False
    if not same:
        yield f"the snapshot of the spend of {shorten(name)} does not follow from the entries"


def _check_answers(number: int, answers: object, about: object) -> None:
    try:
        unpack(answers, about)
    except Broken as error:
        raise Broken(f"entry {number}: {error}") from None


def _beside(connection: sqlite3.Connection, view: Replay) -> Iterator[str]:
    """Yield what does not follow from the entries: totals, key, budget."""
    states = connection.execute("SELECT entries, spent, head FROM state").fetchall()
    if states != [(view.entries, view.spent, view.head)]:
        yield "the totals do not follow from the entries: some were added, removed or changed"
    try:
        if states:
            key_of(connection, view)
    except Broken as error:
        yield str(error)
    budget, _ = _budget(view)
    if view.overdrawn:
        yield "more was spent than the budget allows"
    if budget is not None and Fraction(view.delta, DELTA_UNITS) > budget.for_thresholds:
        yield "thresholds cost more delta than is kept for them"


def _budget(view: Replay) -> tuple[Budget | None, int]:
    if not view.budgets:
        return None, 0
    return Budget.from_json(view.budgets[-1]["budget"]), int(view.budgets[-1]["total"])


def _summary(view: Replay, pending: int) -> str:
    budget, total = _budget(view)
    if budget is None:
        return "no entry could be read"
    accountant = accountant_for(budget)
    waiting = f", {pending} without a recorded answer" if pending else ""
    raised = f", raised from {Budget.from_json(view.opening['budget'])}" if len(view.budgets) > 1 else ""
    spent = f"ε = {accountant.epsilon(view.spent):.6g}"
    if view.delta:
        spent += f" and, on thresholds, δ = {view.delta / DELTA_UNITS:.3g}"
    return (
        f"{view.entries} entries, {len(view.lines)} releases{waiting}; spent {spent} "
        f"of the budget of {budget}{raised} ({view.spent / total:.1%})"
    )

"""An open ledger: its file, its budget, and what its entries add up to so far."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from dpnotebook.errors import LedgerError, LedgerReadOnly
from dpnotebook.ledger.audit import Audit, examine, examine_connection
from dpnotebook.ledger.budgets import accountant_of, check_same_budget, checked_budget
from dpnotebook.ledger.chain import Broken
from dpnotebook.ledger.failures import corrupt, translated, translated_system
from dpnotebook.ledger.files import check_folder, create, place_of
from dpnotebook.ledger.forks import lock
from dpnotebook.ledger.reading import hash_of, key_of, replay
from dpnotebook.ledger.replay import Replay
from dpnotebook.ledger.store import MEMORY, Store
from dpnotebook.ledger.writing import write_opening
from dpnotebook.privacy.accountant import DELTA_UNITS, accountant_for, whole_delta
from dpnotebook.privacy.budget import Budget


class Opened:
    """A ledger's file, and the view of its entries, brought up to date in every transaction; see `Ledger`.

    One that is only read has its own budget, and nothing is ever written to it.
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
        self._followed = 0  # how many budgets of the ledger are followed
        self._lock = lock()  # held while the view is read or moved on
        self._view: Replay | None = None
        self._seen = seen  # an entry that must be there: its number and its hash
        self._only_read = only_read
        fill = None
        if not only_read:
            self.budget = checked_budget(budget)
            self.accountant = accountant_for(self.budget)
            fill = partial(write_opening, budget=self.budget, accountant=self.accountant)
        self._store = Store(path, timeout, fill)
        self.path = self._store.path
        try:
            with self._reading() as (connection, view):
                self._key = key_of(connection, view)
                if not only_read:
                    known = [Budget.from_json(one["budget"]) for one in view.budgets]
                    check_same_budget(self.path, known, checked_budget(budget))
        except BaseException:
            self._store.close()
            raise

    def __repr__(self) -> str:
        return f"<Ledger {self.path}: budget {self.budget}>"

    @property
    def key(self) -> bytes:
        """32 secret random bytes that were made with the file; fingerprints and samples are keyed with them."""
        return self._key

    @property
    def total(self) -> int:
        """The whole budget, in units."""
        return self._limit

    @property
    def spent(self) -> int:
        """What was spent, in units: the sum over tables of what the dearest cell of each was charged."""
        with self._reading() as (_, view):
            return view.spent

    @property
    def releases(self) -> int:
        """How many charges there were."""
        with self._reading() as (_, view):
            return len(view.lines)

    @property
    def remaining(self) -> int:
        """What is left of the budget, in units, or of what a policy allows of it."""
        with self._reading() as (_, view):
            return max(0, self._most(view) - view.spent)

    @property
    def threshold_delta(self) -> Fraction:
        """The most delta that all thresholds together may cost; fixed when the ledger was made, but for raises."""
        return whole_delta(self.accountant.threshold_delta)

    @property
    def delta_spent(self) -> Fraction:
        """What thresholds have cost of delta: their sum over all charges."""
        with self._reading() as (_, view):
            return Fraction(view.delta, DELTA_UNITS)

    @property
    def delta_remaining(self) -> Fraction:
        """What is left of the delta that is kept for thresholds."""
        return max(Fraction(0), self.threshold_delta - self.delta_spent)

    @property
    def head(self) -> str:
        """The hash of the last entry, as hex digits; noted elsewhere, it lets `audit` prove that nothing was lost."""
        with self._reading() as (_, view):
            return view.head.hex()

    def audit(self, expected: str | None = None) -> Audit:
        """Recompute everything from the entries and compare.

        Parameters
        ----------
        expected
            A `head` that was noted earlier, elsewhere: proves that nothing up to it was removed or changed since.

        Returns
        -------
        Audit
            Whether all is as it should be, and what is not.
        """
        return examine(self._store, expected)

    def backup(self, path: str | Path) -> Audit:
        """Write a copy of the ledger to a new file, which only its owner may read.

        The copy is consistent, also while other kernels write, is audited, and is on the disk when this returns. The
        ledger's own file can be copied by other means as well, but such a copy may be torn, and is refused then.

        To restore a copy, close every kernel that uses the ledger, move what is left of the ledger away, and copy the
        backup to its path. What was charged after the backup was made is forgotten then: the budget is enforced as if
        those answers had never been given, so the promise no longer covers whoever saw them. Keep the head of the
        latest audit elsewhere; `audit(expected=head)` tells whether a copy knows everything up to it. Never use a
        ledger and its copy side by side: each would spend the whole budget. A charge whose answer was not recorded yet
        is lost in the copy, because its noise is kept beside the ledger alone: asked again, it is paid for again.

        Parameters
        ----------
        path
            Of a file that does not exist yet; on any disk, also of another machine.

        Returns
        -------
        Audit
            Of the copy. Its head is that of the ledger.

        Raises
        ------
        LedgerError
            If the file exists or cannot be written; nothing is left of it then.
        LedgerCorrupt
            If the ledger itself is damaged.
        """
        return back_up(self._store, path)

    def close(self) -> None:
        """Close the ledger; it cannot be used afterwards."""
        self._store.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, Replay]]:
        with self._store.reading() as connection, self._lock, self._damage_named():
            yield connection, self._synced(connection)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, Replay]]:
        if self._only_read:
            raise LedgerReadOnly(f"{self.path} was opened to be read: nothing is asked, and nothing is written to it")
        # The lock of the file first, then that of the view: readers need not wait while a writer waits its turn.
        with self._store.writing() as connection, self._lock, self._damage_named():
            yield connection, self._synced(connection)

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except Broken as error:
            raise corrupt(self._store.path, str(error)) from None

    def _synced(self, connection: sqlite3.Connection) -> Replay:
        """Return the view after the entries that any process has appended since it was last looked at."""
        view, self._view = self._view, None  # an interrupt or a broken entry leaves none: the next look starts anew
        view = replay(connection, view)
        if self._seen is not None and hash_of(connection, self._seen[0]) != self._seen[1]:
            raise Broken("it is another copy than the one that was in use: entries that were there are gone")
        self._view, self._seen = view, (view.entries, view.head)
        if len(view.budgets) != self._followed:
            self._follow(view.budgets)
        return view

    def _most(self, view: Replay) -> int:
        """Return what all answers together may take, in units: the budget, or what a policy allows of it."""
        allowed = view.policies[-1].most if view.policies else None
        return self._limit if allowed is None else min(self._limit, allowed)

    def _follow(self, budgets: list[dict[str, Any]]) -> None:
        """Enforce the last of the ledger's budgets."""
        # What is kept for thresholds is what was kept when the ledger was made, which may have been nothing.
        known = [Budget.from_json(one["budget"]) for one in budgets]
        self.accountant = accountant_of(known)
        # mu^2 of a budget is computed in floating point: a later library may round its last digits otherwise.
        self._limit = min(int(budgets[-1]["total"]), self.accountant.total)
        self.budget, self._followed = known[-1], len(budgets)


# A copy of a ledger that is whole: made by SQLite's backup, audited, and on the disk before it has its name.
def back_up(store: Store, path: object) -> Audit:
    """Write a copy of a ledger to a new file; see `Ledger.backup`."""
    place = place_of(path)
    if place == MEMORY:
        raise LedgerError("a backup is a file: write its path, such as 'clinic-backup.ledger'")
    target = Path(os.path.realpath(place))
    audits: list[Audit] = []

    def build(draft: Path) -> None:
        with store.reading() as source, contextlib.closing(_file_of_ours(draft)) as copy:
            source.backup(copy)
        with contextlib.closing(_file_of_ours(draft, "&immutable=1")) as copy:
            audits.append(examine_connection(copy))
        handle = os.open(draft, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if not audits[0].ok:
            raise corrupt(store.path, f"no backup was made of it; {audits[0].problems[0]}")

    try:
        check_folder(target)
        if os.path.lexists(target) or not create(target, build):
            raise LedgerError(
                f"{target} is there already, and a backup overwrites nothing. Write another name, such as "
                f"{target.stem}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}{target.suffix}"
            )
    except sqlite3.Error as error:
        raise translated(error, str(target), store.timeout) from error
    except OSError as error:
        raise translated_system(error, str(target)) from error
    return audits[0]


def _file_of_ours(path: Path, more: str = "") -> sqlite3.Connection:
    # Nobody else knows the file yet, so it needs no locks: it may lie where there are none, on a network.
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw&nolock=1{more}", uri=True, isolation_level=None)
    connection.text_factory = bytes
    connection.execute("PRAGMA journal_mode = OFF")
    return connection

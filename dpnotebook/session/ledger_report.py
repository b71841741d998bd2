"""A ledger's file, looked at by whoever has neither its budget nor data: what was asked and spent, and if it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

from dpnotebook.errors import LedgerCorrupt
from dpnotebook.ledger.audit import Audit, Reading, read_file
from dpnotebook.ledger.budgets import accountant_of
from dpnotebook.privacy.accountant import Accountant, with_thresholds
from dpnotebook.privacy.budget import Amount, Budget
from dpnotebook.session.charges import budgets_frame, charge_summary, history_frame, refusals_frame
from dpnotebook.session.reader import LedgerReader, release_number

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.session.release import Release


@dataclass(frozen=True, repr=False)
class LedgerReport:
    """What a ledger's file says, and whether it holds.

    Parameters
    ----------
    audit
        What was found when everything was worked out again from its entries: `ok`, `problems`, `head`.
    reading
        What else was read.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_patients
    >>> with dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger") as session:
    ...     patients = session.protect(example_patients(), "patients", domain={"age": dpn.Range(0, 99)})
    ...     release = patients.count(epsilon=0.25).run()
    >>> report = dpn.audit_ledger("clinic.ledger")
    >>> report.ok, report.budget, report.spent.epsilon
    (True, Budget(epsilon=1.0, delta=0.0), 0.25)
    >>> report.history()[["number", "table", "question", "percent", "state"]]
       number     table question  percent     state
    0       1  patients    COUNT     25.0  recorded
    """

    audit: Audit
    reading: Reading

    @property
    def ok(self) -> bool:
        """Whether no entry was removed or changed, and the total follows from them and is within the budget."""
        return self.audit.ok

    @property
    def budget(self) -> Budget:
        """The budget, after all raises; raises LedgerCorrupt where no entry could be read."""
        return self._budgets[-1]

    @property
    def spent(self) -> Amount:
        """What all answers together cost, worked out from the entries."""
        return _amount(self._accountant, self.audit.spent, self.audit.delta)

    def history(self) -> pd.DataFrame:
        """Return every charge, as `Session.history` does; "charged" is what has no recorded answer.

        Raises
        ------
        LedgerCorrupt
            If something is wrong with the ledger: no entry can be relied on then.
        """
        self._check()
        return history_frame([*map(charge_summary, self.reading.charges)], self._accountant)

    def release(self, number: int) -> Release:
        """Return a recorded release: its estimates, intervals and notes, as the session shows them that paid for it.

        It is worked out from the ledger alone, which keeps noisy answers and what is declared: the table is not
        needed, nothing is asked of it, and nothing is spent. What a statement works out from public tables, which the
        ledger does not keep, is not in it: the release has what was measured then, and says so.

        Parameters
        ----------
        number
            As `history()` lists it.

        Raises
        ------
        LedgerCorrupt
            If something is wrong with the ledger.
        LedgerError
            If there is no such release, its answer was not recorded, or the file cannot be read any more.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients
        >>> with dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger") as session:
        ...     patients = session.protect(example_patients(), "patients", domain={"age": dpn.Range(0, 99)})
        ...     answer = patients.count(epsilon=0.25).run()
        >>> release = dpn.audit_ledger("clinic.ledger").release(1)
        >>> release.value == answer.value, release.interval == answer.interval
        (True, True)
        """
        return self._reader.release(release_number(number, "history()"))

    def code(self, number: int) -> str:
        """Return the Python that asked for a release, SQL with all of its text; see `Session.code`.

        Parameters
        ----------
        number
            As `history()` lists it.

        Raises
        ------
        LedgerCorrupt
            If something is wrong with the ledger.
        LedgerError
            If there is no such release, or the file cannot be read any more.
        """
        return self._reader.code(release_number(number, "history()"))

    def budgets(self) -> pd.DataFrame:
        """Return what the ledger was made for and every raise of it, as `Session.budgets` does.

        Raises
        ------
        LedgerCorrupt
            If something is wrong with the ledger.
        LedgerError
            If the file cannot be read any more.
        """
        return budgets_frame(self._reader.ledger.budgets())

    @property
    def remaining(self) -> Amount:
        """What a single further question could still take, of the budget or of what a policy allows of it."""
        ledger = self._reader.ledger
        return _amount(ledger.accountant, ledger.remaining, ledger.delta_remaining)

    def refusals(self) -> pd.DataFrame:
        """Return the questions that were refused when they were run, as `Session.refusals` does.

        Raises
        ------
        LedgerCorrupt
            If something is wrong with the ledger.
        LedgerError
            If the file cannot be read any more.
        """
        return refusals_frame(self._reader.ledger.refusals(), self._accountant)

    @cached_property
    def _reader(self) -> LedgerReader:
        self._check()
        return LedgerReader(self.reading.path, self.audit.entries, self.audit.head)

    def _check(self) -> None:
        if not self.ok:
            raise LedgerCorrupt(f"the ledger is not as it was written: {self.audit.problems[0]}")

    @property
    def _budgets(self) -> Sequence[Budget]:
        if not self.reading.budgets:
            raise LedgerCorrupt(f"no entry of the ledger could be read: {self.audit.problems[0]}")
        return self.reading.budgets

    @property
    def _accountant(self) -> Accountant:
        return accountant_of(self._budgets)

    def __repr__(self) -> str:
        return repr(self.audit)


def _amount(accountant: Accountant, units: int, thresholds: Fraction) -> Amount:
    return Amount(accountant.epsilon(units), with_thresholds(accountant, thresholds), float(thresholds))


def audit_ledger(path: str | PathLike[str], expected: str | None = None) -> LedgerReport:
    """Look at a ledger's file, changing nothing: what was asked and spent, and the proof that the total holds.

    It needs neither the budget nor the data, and everything is worked out anew from the entries. What was answered can
    be read too: `history()` lists the releases, and `release(number)` opens one.

    Parameters
    ----------
    path
        The file.
    expected
        The head of an earlier audit, noted elsewhere: proves that everything up to then is still there.

    Returns
    -------
    LedgerReport
        `ok`, `budget`, `spent`, `remaining`, `history()`, `release(number)`, `code(number)`, `refusals()`, `budgets()`
        and `audit`; it prints as what the audit found.

    Raises
    ------
    LedgerCorrupt
        If the file is no ledger at all.
    LedgerError
        If it cannot be read, or what was given is no path or head.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger").close()
    >>> dpn.audit_ledger("clinic.ledger")
    ledger ok: 1 entries, 0 releases; spent ε = 0 of the budget of ε = 1 (0.0%)
    note the head elsewhere: with it, audit(expected=head) proves later that nothing was changed
    head ...
    """
    found = read_file(path, expected)
    return LedgerReport(found.audit, found)

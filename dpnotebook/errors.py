"""What can go wrong, in the words of the person it happens to.

Every error that a user can cause is a `DPError`: a real exception (Run All stops, `except` works) that a notebook
shows in one or two lines, without a traceback through this package.
"""

from __future__ import annotations

from fractions import Fraction


class DPError(Exception):
    """Base of all errors that dpnotebook raises on purpose; nothing was spent unless the text says so."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines IPython shows instead of a traceback."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self}"]


class DomainError(DPError, ValueError):
    """A domain that cannot be: empty, overlapping, not finite, or not what the table holds."""


class PredicateError(DPError, ValueError):
    """A `where=` text that is not a predicate over declared attributes."""


class AccuracyError(DPError, ValueError):
    """Both or none of `epsilon=`, `error=`, `variance=`, or a value that no mechanism can reach."""


class WorkloadError(DPError, ValueError):
    """A workload or strategy that is ill-formed, of the wrong shape, or too large to hold."""


class SQLError(DPError, ValueError):
    """A SQL statement that cannot be answered privately; the text points at the token."""


class NotProtected(DPError, LookupError):
    """A frame, table or session that dpnotebook does not know."""


class FrameChanged(DPError, RuntimeError):
    """A protected frame that was modified after it was protected."""


class EngineError(DPError):
    """Counting stopped after a query was charged; asking again measures it for that charge."""


class QueryFailed(EngineError):
    """A database that stopped with an error; what it said is not repeated, because it may hold values."""


class BudgetExceeded(DPError):
    """A query that costs more than what is left of the budget.

    Its `requested_units` and `remaining_units` say by how much, in the accountant's units; where it is the delta of
    thresholds that does not suffice, `requested_delta` and `remaining_delta` do.
    """

    requested_units: int = 0
    remaining_units: int = 0
    requested_delta: Fraction | None = None
    remaining_delta: Fraction | None = None


class NotConfirmed(DPError):
    """A query that needs a yes and got none."""


class Cancelled(DPError):
    """Work that was stopped before its end; nothing was changed and nothing was spent."""


class TourError(DPError):
    """A tour that cannot be put into its folder, opened, or run to its end."""


class LedgerError(DPError):
    """A ledger that cannot be used; subclasses say why."""


class LedgerLocked(LedgerError):
    """Another process holds the ledger."""


class LedgerCorrupt(LedgerError):
    """The ledger file is not a ledger, is damaged, or its records do not follow from one another."""


class LedgerReadOnly(LedgerError):
    """The ledger file or its folder cannot be written."""


class LedgerFull(LedgerError):
    """No room on the disk to write a record."""


class LedgerConflict(LedgerError):
    """Another kernel has meanwhile refined an answer that this query would refine: run the query again."""


class LedgerMismatch(LedgerError):
    """The ledger was made for another budget, or knows this table name as another snapshot."""


class LedgerWarning(UserWarning):
    """Something about a ledger that its owner should know: who else can reach it, or what it does not count."""

"""What can go wrong, in the words of the person it happens to.

Every error that a user can cause is a `DPError`: a real exception (Run All stops, `except` works) that a notebook
shows in one or two lines, without a traceback through this package.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import sys
from collections.abc import Callable, Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_SAID = 600  # characters of a message, however long what it speaks of is
LIBRARIES = ("pandas", "numpy", "polars", "pyarrow", "pyspark")  # whose objects with a length hold data
MOST_NAMED = 5  # elements of a list or a dict that a message shows


class DPError(Exception):
    """Base of all errors that dpnotebook raises on purpose; nothing was spent unless the text says so.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> try:
    ...     dpn.Range(10, 0)
    ... except dpn.DPError as error:  # every error of this package
    ...     print(error)
    Range(10, 0) is empty: its low end is above its high end
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(brief(text))

    def _render_traceback_(self) -> list[str]:
        """Return the lines IPython shows instead of a traceback."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self}"]


class ArgumentError(DPError, TypeError, ValueError):
    """An argument that is none of what the function takes.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Session(budget=dpn.Budget(epsilon=1.0), planner="best")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.ArgumentError: planner must be one of 'optimal', 'pioneer', 'naive', not 'best'
    """


class DomainError(DPError, ValueError):
    """A domain that cannot be: empty, overlapping, not finite, or not what the table holds.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Range(10, 0)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.DomainError: Range(10, 0) is empty: its low end is above its high end
    """


class UnknownVerb(DPError, AttributeError):
    """A method or an attribute that is not there: what pandas has and a private table has not, or a misspelt name.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().table("patients").average("age", epsilon=0.1)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.UnknownVerb: average is called mean here: mean('age', epsilon=0.1)
    """


class PredicateError(DPError, ValueError):
    """A `where=` text that is not a predicate over declared attributes.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().table("patients").count(where="agee >= 65", error=25)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.PredicateError: there is no declared column 'agee'; did you mean 'age'?
    """


class AccuracyError(DPError, ValueError):
    """Both or none of `epsilon=`, `error=`, `variance=`, or a value that no mechanism can reach.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().table("patients").count(where="age >= 65")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.AccuracyError: say how accurate the answer must be, or what it may cost: exactly one of ...
    """


class WorkloadError(DPError, ValueError):
    """A workload or strategy that is ill-formed, of the wrong shape, or too large to hold.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.workload.Prefix(3).matvec([1, 2])
    Traceback (most recent call last):
        ...
    dpnotebook.errors.WorkloadError: Prefix(3) takes one number a cell, 3 in all; got shape (2,)
    """


class PolicyError(DPError, ValueError):
    """A policy file that contradicts itself, or a question that the policy of the session does not allow.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dpnotebook as dpn
    >>> _ = Path("clinic.toml").write_text("[budget]\\nepsilon = 1.0\\n[limits]\\nquestion = 2.0")
    >>> dpn.Session.from_policy("clinic.toml")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.PolicyError: clinic.toml, line 4: limits.question allows ε = 2, more than the budget's 1
    """


class SQLError(DPError, ValueError):
    """A SQL statement that cannot be answered privately; the text points at the token.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().sql("SELECT age FROM patients", epsilon=0.1)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.SQLError: rows cannot be shown; add COUNT(*), SUM(column) or AVG(column) (line 1, column 8)...
    """


class NotProtected(DPError, LookupError):
    """A frame, table or session that dpnotebook does not know.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().table("visits")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.NotProtected: no table 'visits' is protected in this session (protected: patients)
    """


class FrameChanged(DPError, RuntimeError):
    """A protected frame that was modified after it was protected.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_patients, exact_session
    >>> patients = example_patients()
    >>> session = exact_session(dpn.Budget(epsilon=1.0))
    >>> table = session.protect(patients, "patients", domain={"age": dpn.Range(0, 99)})
    >>> patients.loc[0, "age"] = 50
    >>> patients.dp.count(error=25)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.FrameChanged: 'age' was changed after 'patients' was protected; nothing was spent. To ask ...
    """


class EngineError(DPError):
    """Counting stopped after a query was charged; asking again measures it for that charge.

    Examples
    --------
    Where counting fails, what was charged is measured by asking again, or by its number:

    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> session = example_session()
    >>> query = session.table("patients").count(error=25)
    >>> try:
    ...     release = query.run()
    ... except dpn.EngineError:
    ...     release = query.run()  # for the same charge
    >>> release.value
    1000.0
    """


class QueryFailed(EngineError):
    """A database that stopped with an error; what it said is not repeated, because it may hold values."""


class BudgetExceeded(DPError):
    """A query that costs more than what is left of the budget.

    Its `requested_units` and `remaining_units` say by how much, in the accountant's units; where it is the delta of
    thresholds that does not suffice, `requested_delta` and `remaining_delta` do.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> session = example_session(dpn.Budget(epsilon=0.1))
    >>> session.table("patients").count(error=5).run()
    Traceback (most recent call last):
        ...
    dpnotebook.errors.BudgetExceeded: this query needs 538.2% of the budget (ε 0.5382), but 100% (ε 0.1) is left; ...
    """

    requested_units: int = 0
    remaining_units: int = 0
    requested_delta: Fraction | None = None
    remaining_delta: Fraction | None = None


class NotConfirmed(DPError):
    """A query that needs a yes and got none.

    Examples
    --------
    >>> from IPython.core.interactiveshell import InteractiveShell
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> session = example_session(confirm="always")
    >>> shell = InteractiveShell()
    >>> dpn.load_ipython_extension(shell)
    >>> shell.run_cell_magic("dpsql", "-e 0.1", "SELECT COUNT(*) AS n FROM patients")  # nobody is there to say yes
    Traceback (most recent call last):
        ...
    dpnotebook.errors.NotConfirmed: this query has to be confirmed, and there is nobody to ask; nothing was spent. ...
    >>> session.spent.epsilon
    0.0
    """


class Cancelled(DPError):
    """Work that was stopped before its end; nothing was changed and nothing was spent.

    Examples
    --------
    What is given as `progress` may stop the work:

    >>> import dpnotebook as dpn
    >>> def stop(fraction, doing):
    ...     raise dpn.Cancelled("enough")
    >>> dpn.strategy.opt_0(dpn.workload.Prefix(64), report=stop)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.Cancelled: enough
    """


class TourError(DPError):
    """A tour that cannot be put into its folder, opened, or run to its end."""


class LedgerError(DPError):
    """A ledger that cannot be used; subclasses say why.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> example_session().release(7)
    Traceback (most recent call last):
        ...
    dpnotebook.errors.LedgerError: there is no release 7 in the ledger; it has 0
    """


class LedgerLocked(LedgerError):
    """Another process holds the ledger.

    Examples
    --------
    >>> import sqlite3
    >>> import dpnotebook as dpn
    >>> session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger", timeout=0.1)
    >>> other = sqlite3.connect("clinic.ledger", isolation_level=None)
    >>> _ = other.execute("BEGIN IMMEDIATE")  # somebody else writes, for longer than we wait
    >>> session.raise_budget(dpn.Budget(epsilon=1.5), reason="a follow-up")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.LedgerLocked: ...clinic.ledger has been held by another process for 0.1 s; nothing was ...
    >>> other.close()
    """


class LedgerCorrupt(LedgerError):
    """The ledger file is not a ledger, is damaged, or its records do not follow from one another.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dpnotebook as dpn
    >>> notes = Path("notes.txt")
    >>> notes.touch(0o600)
    >>> _ = notes.write_text("no ledger at all")
    >>> dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="notes.txt")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.LedgerCorrupt: ...notes.txt is not a sound ledger: file is not a database. Nothing was asked ...
    """


class LedgerReadOnly(LedgerError):
    """The ledger file or its folder cannot be written.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> try:
    ...     session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger")
    ... except dpn.LedgerReadOnly as error:  # as in a folder of somebody else's: it says what to do
    ...     print(error)
    >>> session.spent.epsilon
    0.0
    """


class LedgerFull(LedgerError):
    """No room on the disk to write a record.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> query = example_session().table("patients").count(error=25)
    >>> try:
    ...     release = query.run()
    ... except dpn.LedgerFull as error:  # nothing was recorded, and so nothing was shown
    ...     print("make room on the disk, then run it again:", error)
    >>> release.value
    1000.0
    """


class LedgerConflict(LedgerError):
    """Another kernel has meanwhile refined an answer that this query would refine: run the query again.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> query = example_session().table("patients").count(error=25)
    >>> try:
    ...     release = query.run()
    ... except dpn.LedgerConflict:  # nothing was spent
    ...     release = query.run()  # planned anew, with what the other kernel knows now
    >>> release.value
    1000.0
    """


class LedgerMismatch(LedgerError):
    """The ledger was made for another budget, or knows this table name as another snapshot.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger="clinic.ledger").close()
    >>> dpn.Session(budget=dpn.Budget(epsilon=2.0), ledger="clinic.ledger")
    Traceback (most recent call last):
        ...
    dpnotebook.errors.LedgerMismatch: ...clinic.ledger was made for a budget of ε = 1, not ε = 2. Open the ledger ...
    """


class LedgerWarning(UserWarning):
    """Something about a ledger that its owner should know: who else can reach it, or what it does not count.

    Examples
    --------
    >>> import warnings
    >>> import dpnotebook as dpn
    >>> from dpnotebook.testing import example_session
    >>> first = example_session(ledger="clinic.ledger")
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     second = example_session(ledger="again.ledger")  # neither counts what the other spends
    >>> any(issubclass(one.category, dpn.LedgerWarning) for one in said)
    True
    >>> first.close()
    >>> second.close()
    """


def brief(text: str) -> str:
    """Return a message of at most 600 characters: its start, and the advice at its end."""
    return text if len(text) <= MOST_SAID else f"{text[: MOST_SAID - 201]} … {text[-198:]}"


def shorten(value: Any, limit: int = 60) -> str:
    """Return what a message calls something that was passed, on one line of at most `limit` characters; never fails.

    Plain values are written as in Python. Of anything else it says what kind of thing it is, and runs none of its
    code: a column of data must not show its values, and what is wrong may be the very object.

    Parameters
    ----------
    value
        What was passed.
    limit
        The longest text.
    """
    try:
        text = _named(value, 2)
    except Exception:  # such as a whole number of more digits than Python prints
        text = f"a {_kind(value)}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def some_of(names: Collection[str], most: int = 20) -> str:
    """Return names one after the other, and of many how many others there are: a message stays one that is read."""
    first = ", ".join(itertools.islice(names, most))
    return first if len(names) <= most else f"{first} and {len(names) - most:,} more"


def holds_data(value: Any) -> bool:
    """Return whether something is a column, an array or a frame, whose values no message may show."""
    kind = type(value)
    if not isinstance(kind.__module__, str) or isinstance(value, (str, bytes)):
        return False
    return kind.__module__.split(".")[0] in LIBRARIES and hasattr(kind, "__len__")


def is_column_of_data(value: Any) -> bool:
    """Return whether something is a column or a frame, rather than an array that somebody may have written."""
    return holds_data(value) and (hasattr(value, "iloc") or not hasattr(value, "ndim"))


def instead_of_data(value: Any, names: Collection[str]) -> str:
    """Return what to write instead of a column or a frame that stands where a name belongs; empty for anything else.

    Parameters
    ----------
    value
        What was passed.
    names
        Names of columns that are public: another one may be a value, as that of a row is.
    """
    if not holds_data(value):
        return ""
    name = getattr(value, "name", None)
    if isinstance(name, str) and name in names:
        of_pandas_cut = type(getattr(getattr(value, "dtype", None), "categories", None)).__name__ == "IntervalIndex"
        bands = f"; bands of it are groupby({{{name!r}: [0, 18, 65]}}), or of a width, {{{name!r}: 10}}"
        return f"{shorten(value)} holds values: write its name, {shorten(name)}{bands * of_pandas_cut}"
    return f"{shorten(value)} holds values: write the name of a column"


def bare(
    function: Callable[P, R], wrong: Callable[[tuple[Any, ...], dict[str, Any]], DPError | None] | None = None
) -> Callable[P, R]:
    """Let an error of ours leave a public function without what led to it: no context, no cause, no inner frames.

    Debuggers, verbose tracebacks and `sys.last_value` show what those hold, and they may hold rows and exact counts.

    Parameters
    ----------
    function
        What is public.
    wrong
        Given the arguments of a call that failed with an error that is none of ours, returns what is raised instead;
        None to leave the error as it is.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DPError as error:
            failure = error.with_traceback(None)
        except Warning:  # warnings are errors where somebody has said so
            raise
        except Exception:
            said = None if wrong is None else wrong(args, kwargs)
            if said is None:
                raise
            failure = said
        del args, kwargs  # of this frame too: the rows may have been passed
        failure.__cause__ = failure.__context__ = None
        try:
            raise failure
        finally:
            del failure

    return called


def _named(value: Any, depth: int) -> str:
    if value is None or isinstance(value, (bool, type(Ellipsis))):
        return repr(value)
    if isinstance(value, str):
        return str.__repr__(str.__getitem__(value, slice(200)))
    if isinstance(value, int):
        return int.__repr__(value) if value.bit_length() < 1000 else f"a number of {value.bit_length():,} bits"
    if isinstance(value, float):
        return float.__repr__(value)
    if type(value) in (complex, bytes, Decimal, Fraction, range, datetime.date, datetime.datetime, datetime.timedelta):
        return repr(value[:200] if isinstance(value, bytes) else value)
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return _several(value, depth)
    if isinstance(value, type):
        return f"the type {_kind(value, value)}"
    kind, module = _kind(value), str(type(value).__module__)
    if kind in ("NAType", "NaTType"):
        return "a missing value"
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and depth:
        return _named(value.item(), depth - 1)
    if numpy is not None and type(value) is numpy.ndarray:
        return f"an array of shape {value.shape}"
    if module.startswith(("dpnotebook.domain.", "dpnotebook.workload.", "dpnotebook.privacy.")):
        return " ".join(repr(value).split())
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def _several(value: Any, depth: int) -> str:
    kind: Any = next(one for one in (list, tuple, set, frozenset, dict) if isinstance(value, one))
    if not depth or type(value) is not kind:
        return f"a {_kind(value)} of {kind.__len__(value):,}"
    if not value:
        return repr(value)
    shown = []
    for element in itertools.islice(value, MOST_NAMED):
        text = _named(element, depth - 1)
        shown.append(f"{text}: {_named(value[element], depth - 1)}" if kind is dict else text)
    inner = ", ".join(shown) + (", …" if len(value) > len(shown) else "," if kind is tuple and len(value) == 1 else "")
    start, end = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
    return f"{start}{inner}{end}"


def _kind(value: Any, kind: Any = None) -> str:
    try:
        name = type.__dict__["__name__"].__get__(type(value) if kind is None else kind)
        return "".join(filter(str.isprintable, name))[:40] or "thing"
    except Exception:
        return "thing"

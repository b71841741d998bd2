"""What a ledger checks before it writes, and how it says what does not fit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.domain.schema import without_words
from dpnotebook.errors import BudgetExceeded, LedgerConflict, LedgerMismatch, shorten
from dpnotebook.ledger.chain import to_bytes
from dpnotebook.ledger.snapshot import LARGEST
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost


def check_cost(cost: CellCost, sizes: Mapping[str, int]) -> None:
    """Check that a cost is one of a table whose attributes have these sizes.

    Raises
    ------
    ValueError
        If it names another attribute, has another number of levels, is negative anywhere, or is too large to add up.
    """
    for term in cost.terms:
        if term.rate <= 0:
            raise ValueError(f"a cost must have a positive rate, not {term.rate}")
        for name, norms in term.norms.items():
            if name not in sizes or norms.shape != (sizes[name],):
                raise ValueError(f"a cost over {norms.size} levels of {shorten(name)} does not belong to this table")
            if not np.issubdtype(norms.dtype, np.integer) or norms.min(initial=0) < 0:
                raise ValueError(f"the column norms of {shorten(name)} must be non-negative integers")
        if math.prod(int(norms.max(initial=0)) for norms in term.norms.values()) >= LARGEST:
            raise ValueError("column norms of 2^62 and more cannot be added up; measure on a coarser grid")


def check_refines(refusal: str) -> None:
    """Check that a charge may refine what it says.

    Parameters
    ----------
    refusal
        Why it may not, as `View.refusal` says it; empty if it may.

    Raises
    ------
    LedgerConflict
        If there is a reason.
    """
    if refusal:
        raise LedgerConflict(
            f"{refusal}: perhaps another kernel was faster. What was planned can no longer be measured for its price; "
            f"nothing was spent. Run the query again"
        )


def check_same_table(path: str, known: Mapping[str, Any], values: Mapping[str, Any], names: Collection[str]) -> None:
    """Check that a table is the one that was registered by its name.

    Parameters
    ----------
    path
        Of the ledger.
    known, values
        What was registered, and what is to be; fingerprint, domain, unit and max_rows count.
    names
        Of all registered tables.

    Raises
    ------
    LedgerMismatch
        If anything differs; the text names what, and a name that is free.
    """
    words = {"fingerprint": "its data", "domain": "its domain", "unit": "its unit", "max_rows": "its max_rows"}
    other = [word for part, word in words.items() if not _alike(part, known, values)]
    if other:
        name = values["name"]
        free = free_name(name, names)
        raise LedgerMismatch(
            f"the ledger {path} knows another table by the name {shorten(name)}: {' and '.join(other)} differ from "
            "what was "
            f"protected before. What was answered of that one is not used for this one: protect it by another name, "
            f"such as {shorten(free, 120)}. It starts without answers, and what both cost adds up{_of_parts(known)}"
        )


def _alike(part: str, known: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a part of what is known of a table is the same; units and labels make no other domain."""
    one, other = known[part], values[part]
    if part == "domain":
        one, other = without_words(one), without_words(other)
    return to_bytes(one) == to_bytes(other)


def _of_parts(known: Mapping[str, Any]) -> str:
    """Return what to say of a table that grew, whose first part alone is protected first."""
    if "parts" not in known:
        return ""
    return (
        f". If these are its rows: there it came in {len(known['parts'])} parts. Give all of them as a list, in "
        "order; or the first of them, and then session.extend(...) the others"
    )


def free_name(name: str, names: Collection[str]) -> str:
    """Return a name like this one that no table has."""
    return next(f"{name}_{n}" for n in range(2, len(names) + 3) if f"{name}_{n}" not in names)


def may_be_corrected(known: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether what differs of a table is what was declared of it, which nothing rests on before a charge.

    That is its domain, and how many rows of a unit count, where nobody had said that.

    Parameters
    ----------
    known, values
        As for `check_same_table`. Of another domain, or sample, the data have another fingerprint; of the same they
        must not.
    """
    domain, unit, max_rows = (_alike(part, known, values) for part in ("domain", "unit", "max_rows"))
    said = unit and known["unit"] is not None and known["max_rows"] is None
    return unit and (said if not max_rows else not domain)


def check_domain(table: str, said: int | None, since: int) -> None:
    """Check that a table has the domain that it was protected with here.

    Parameters
    ----------
    table
        Its name.
    said, since
        The entry of the ledger that said the domain here, None if none did; and the one that counts.

    Raises
    ------
    LedgerConflict
        If another kernel changed the domain meanwhile.
    """
    if said not in (None, since):
        raise changed_elsewhere(table)


def changed_elsewhere(table: str) -> LedgerConflict:
    """Return the error that a table has another domain by now than it was protected with here."""
    return LedgerConflict(
        f"the domain of {shorten(table)} was changed by another kernel after it was protected here; nothing was "
        "spent. Protect it again: without domain= it has the one that it has there"
    )


def check_answered(table: str, waiting: Collection[int]) -> None:
    """Check that nothing that reads a table is charged for and still to be measured under the domain that it has.

    Parameters
    ----------
    table
        Its name.
    waiting
        The numbers of such charges.

    Raises
    ------
    LedgerConflict
        If something is.
    """
    if waiting:
        number = min(waiting)
        raise LedgerConflict(
            f"release {number}, which reads {shorten(table)}, was charged and is not answered yet: the domain can be "
            f"extended after that; nothing was spent. Another kernel may be at it. If not, protect the table with the "
            f"domain that it had, and session.retry({number}) answers it"
        )


def check_same_population(path: str, known: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Check that a table is not said to be about other units than before: answers may rest on what was said.

    Parameters
    ----------
    path
        Of the ledger.
    known, values
        What is registered, and what is to be: the population is one that was named, or missing.

    Raises
    ------
    LedgerMismatch
        If both name one, and not the same.
    """
    before, now = known.get("population"), values.get("population")
    if before is not None and now is not None and before != now:
        raise LedgerMismatch(
            f"the ledger {path} knows the units of {shorten(values['name'])} as the population {shorten(before)}, "
            "which cannot "
            f"change, because answers may rest on it: write unit=dpn.Unit({shorten(before, 120)}, "
            f"column={shorten(values['unit'], 120)})"
        )


def refused_delta(requested: Fraction, remaining: Fraction, budget: Budget) -> BudgetExceeded:
    """Return the error for a threshold that costs more delta than is left of what is kept for thresholds.

    Parameters
    ----------
    requested, remaining
        What it costs, and what is left.
    budget
        What the ledger was made for.
    """
    kept = budget.for_thresholds
    if not kept:
        text = (
            f"groups that are not declared are hidden by a threshold, which costs δ = {float(requested):.3g}, but in "
            f"this ledger nothing is kept for thresholds; its budget is {budget}. Nothing was spent. Declare the "
            f"levels of what is grouped by, or make a ledger with delta: Budget(epsilon={budget.epsilon:g}, delta=1e-6)"
        )
    else:
        digits = next((n for n in range(3, 17) if f"{float(requested):.{n}g}" != f"{float(remaining):.{n}g}"), 17)
        text = (
            f"the threshold of this query would cost δ = {float(requested):.{digits}g}, but of the δ = "
            f"{float(kept):g} that the budget keeps for thresholds only {float(remaining):.{digits}g} is left. "
            f"Nothing was spent. Ask with OPTIONS(delta = ...) of less, or group by what has declared levels"
        )
    error = BudgetExceeded(text)
    error.requested_delta, error.remaining_delta = requested, remaining
    return error


def said_of_budget(units: int, accountant: Accountant) -> tuple[float, float]:
    """Return a cost as percent of the budget, which adds up, and as epsilon, which with delta does not."""
    return 100 * units / accountant.total, accountant.epsilon(min(units, LARGEST))


def refused(requested: int, remaining: int, budget: Budget, accountant: Accountant) -> BudgetExceeded:
    """Return the error for a cost that does not fit what is left of the budget.

    Parameters
    ----------
    requested, remaining
        By how much the total would rise, and what is left of the budget, in units.
    budget, accountant
        The budget, and how its units are said as epsilon.
    """
    asked, left = said_of_budget(requested, accountant), said_of_budget(remaining, accountant)
    digits = next((n for n in range(3, 17) if f"{asked[0]:.{n}g}" != f"{left[0]:.{n}g}"), 17)
    at = f" at δ = {budget.delta:g}" if budget.delta else ""
    error = BudgetExceeded(
        f"this query would cost {asked[0]:.{digits}g}% of the budget (ε {asked[1]:.{digits}g}{at}), but only "
        f"{left[0]:.{digits}g}% (ε {left[1]:.{digits}g}) is left: {asked[0] - left[0]:.3g}% too little. "
        "Nothing was spent"
    )
    error.requested_units, error.remaining_units = requested, remaining
    return error

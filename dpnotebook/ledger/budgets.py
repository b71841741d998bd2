"""Budgets that an owner raised: each is an entry of the chain, with its reason, and the last is the one that holds.

A raise is a decision of the owner's, no property of a mechanism: the promise that holds for all answers together,
those of before included, is the one of the composed total, which is what is enforced and shown from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

from dpnotebook.errors import AccuracyError, LedgerMismatch
from dpnotebook.ledger.snapshot import LARGEST
from dpnotebook.privacy.accountant import UNITS, Accountant, GaussianAccountant, accountant_for, epsilon_of_mu
from dpnotebook.privacy.budget import Budget

LONGEST_REASON = 1_000
_DIGITS = 12  # of an epsilon that two Gaussian budgets compose to


@dataclass(frozen=True)
class BudgetRaise:
    """One budget of a ledger: the first, or what an owner raised it to.

    Parameters
    ----------
    budget
        The whole that holds from then on.
    added
        What was put on top of the budget before; None for the first one, and where the new whole was named.
    reason
        Why, in the owner's words; empty for the first one.
    time
        When, ISO 8601 in UTC.
    entry
        The number of the entry in the chain.
    """

    budget: Budget
    added: Budget | None
    reason: str
    time: str
    entry: int


def checked_budget(budget: object) -> Budget:
    """Return a budget that a ledger can be made for.

    Raises
    ------
    AccuracyError
        If it is none, or protects nobody.
    """
    if not isinstance(budget, Budget):
        kind = type(budget).__name__
        raise AccuracyError(f"a ledger is made for a Budget, such as dpn.Budget(epsilon=1.0); not {kind}")
    if accountant_for(budget).total >= LARGEST:
        raise AccuracyError(f"a budget of {budget} protects nobody; write an epsilon below a thousand")
    return budget


def checked_reason(reason: object) -> str:
    """Return why a budget is raised, as it is recorded.

    Raises
    ------
    AccuracyError
        If it is no text, an empty or an endless one.
    """
    text = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not 0 < len(text) <= LONGEST_REASON or not text.isprintable():
        raise AccuracyError(
            "say why the budget is raised, in a sentence that stays in the ledger: "
            'reason="second year of the study, approved by the board"'
        )
    return text


def raised(present: Budget, to: Budget) -> Budget:
    """Return a new whole that an owner names, which may be less than the present one in no respect.

    Raises
    ------
    AccuracyError
        If it is less, of other noise, or the same.
    """
    _check_noise(present, to)
    before, after = accountant_for(present), accountant_for(to)
    pairs: list[tuple[Any, Any]] = [
        (present.epsilon, to.epsilon),
        (present.delta, to.delta),
        (present.for_thresholds, to.for_thresholds),
        (before.total, after.total),
    ]
    if any(new < old for old, new in pairs) or all(new == old for old, new in pairs):
        raise AccuracyError(
            f"a budget is only ever raised: {to!r} is no more than the present {present!r} in epsilon, delta and "
            f"threshold_delta. Name the new whole, or add to the present one with renew_budget"
        )
    return to


def renewed(present: Budget, added: Budget) -> Budget:
    """Return the whole that two budgets compose to.

    Pure epsilons add up, and so do the deltas of thresholds. Gaussian budgets compose in mu^2 (Dong et al., Gaussian
    Differential Privacy, Corollary 3.3): the whole is said at the delta of the present budget, so that an epsilon that
    was asked for before means the same as it did.

    Raises
    ------
    AccuracyError
        If the noise is another.
    """
    _check_noise(present, added)
    kept = present.for_thresholds + added.for_thresholds
    if not present.law.needs_delta:
        epsilon = float(_decimal(present.epsilon) + _decimal(added.epsilon))
        return Budget(epsilon, float(kept), noise=present.noise) if kept else Budget(epsilon)
    before = accountant_for(present)
    units = before.total + accountant_for(added).total
    least = epsilon_of_mu(math.sqrt(units / UNITS), before.delta)
    digits = Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(least))  # so that no more is granted
    delta = float(_decimal(present.delta) - present.for_thresholds + kept)
    whole = Budget.from_json(Budget(float(digits), delta, present.noise, float(kept)).to_json())
    if accountant_for(whole).total <= before.total:
        raise AccuracyError(f"{added!r} adds nothing to {present!r} that could be measured with")
    return whole


def accountant_of(budgets: Sequence[Budget]) -> Accountant:
    """Return the accountant of the last of some budgets, which knows at what deltas an epsilon was said before."""
    accountant = accountant_for(budgets[-1])
    if isinstance(accountant, GaussianAccountant):
        before = {accountant_for(budget).delta for budget in budgets} - {accountant.delta}
        return replace(accountant, before=tuple(sorted(before)))
    return accountant


def check_same_budget(path: str, budgets: Sequence[Budget], budget: Budget) -> None:
    """Check that a ledger was made for this budget, or raised to it.

    Raises
    ------
    LedgerMismatch
        If it was made for another one.
    """
    if any(budget.agrees(known) for known in budgets):
        return
    since = f" and has been raised to {budgets[-1]}" if len(budgets) > 1 else ""
    raise LedgerMismatch(
        f"{path} was made for a budget of {budgets[0]}{since}, not {budget}. Open the ledger with {budgets[-1]!r}; its "
        f"owner can raise it then, with session.raise_budget(...). A ledger at another path would not know what was "
        f"spent here"
    )


def check_entry(budgets: Sequence[Mapping[str, Any]], values: Mapping[str, Any], noise: str) -> None:
    """Check what an entry that raises a budget says, after those before it.

    Raises
    ------
    ValueError
        If it lowers anything.
    """
    before, after = Budget.from_json(budgets[-1]["budget"]), Budget.from_json(values["budget"])
    least = int(budgets[-1]["total"])
    if type(values["total"]) is not int or not least <= values["total"] < LARGEST or after.noise != noise:
        raise ValueError("it is no raise")
    if after.for_thresholds < before.for_thresholds or checked_reason(values["reason"]) != values["reason"]:
        raise ValueError("it is no raise with a reason")
    if values["added"] is not None:
        Budget.from_json(values["added"])


def _check_noise(present: Budget, other: Budget) -> None:
    if present.noise != other.noise:
        noise = "" if present.law.needs_delta else f", noise={present.noise!r}"
        delta = other.delta or present.delta
        raise AccuracyError(
            f"a ledger keeps the noise that it began with, here {present.noise}, because what was answered adds up by "
            f"it. Write Budget(epsilon={other.epsilon!r}, delta={delta!r}{noise})"
        )


def _decimal(number: float) -> Fraction:
    return Fraction(repr(number))

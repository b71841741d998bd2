"""What a session says of every charge of its ledger, read once: a ledger only grows, and views ask at every release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from sys import intern
from typing import TYPE_CHECKING, Any

from dpnotebook.ledger.forks import lock
from dpnotebook.ledger.reading import statement_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from dpnotebook.ledger import Ledger
    from dpnotebook.ledger.budgets import BudgetRaise
    from dpnotebook.privacy.accountant import Accountant


# What one word says of a release: the first of these kinds of action that it took.
HOW = {"buy": "purchase", "refine": "refined", "free": "free", "reuse": "reuse"}
REFUSALS = ["time", "table", "question", "accuracy", "percent", "left", "analyst", "why"]
COLUMNS = ["number", "time", "table", "question", "percent", "epsilon", "paid", "alone", "how"]


@dataclass(frozen=True, slots=True)
class ChargeSummary:
    """One charge in short: its whole plan is not kept, which takes several times the memory.

    Parameters
    ----------
    number, time, table, units, delta, state
        As `Ledger.history` has them.
    question
        A digest: equal where the question is.
    words, statement, kind, accuracy, analyst, policy
        Of its plan; empty where that has none. The statement is the text of what was asked in SQL.
    measured, alone
        What was measured, and what that would have cost had nothing been asked before, in units.
    how
        In one word what was done beside measuring; empty where nothing was.
    """

    number: int
    time: str
    table: str
    question: bytes
    words: str
    statement: str
    kind: str
    accuracy: str
    units: int
    measured: int
    alone: int
    delta: Fraction
    how: str
    analyst: str
    policy: str
    state: str


class ChargeLog:
    """The charges of a ledger in short, in order; safe to use from several threads.

    Parameters
    ----------
    ledger
        To which this and other processes append.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._lock = lock()
        self._charges: list[ChargeSummary] = []
        self._open: set[int] = set()  # whose answer was missing when they were read: that can change

    def charges(self) -> Sequence[ChargeSummary]:
        """Return every charge as the ledger stands; only those are read that are new or were not recorded yet."""
        with self._lock:
            known = len(self._charges)
            for entry in self.ledger.history(after=known, among=sorted(self._open)):
                self._take(charge_summary(entry))
            return tuple(self._charges)

    def _take(self, charge: ChargeSummary) -> None:
        if charge.number > len(self._charges):
            self._charges.append(charge)
        else:
            self._charges[charge.number - 1] = charge
        (self._open.discard if charge.state == "recorded" else self._open.add)(charge.number)


def charge_summary(entry: Mapping[str, Any]) -> ChargeSummary:
    """Return a charge of `Ledger.history` in short."""
    plan = entry["plan"]
    return ChargeSummary(
        number=entry["number"],
        time=entry["time"],
        table=intern(entry["table"]),
        question=blake2b(entry["question"].encode(), digest_size=16).digest(),
        words=intern(plan.get("words", "")),
        statement=intern(statement_text(plan)),
        kind=intern(plan.get("kind") or ""),
        accuracy=intern(plan.get("accuracy", "")),
        units=int(entry["units"]),
        measured=int(plan["units"]),
        alone=alone(entry),
        delta=entry["delta"],
        how=how(plan),
        analyst=intern(plan.get("analyst", "")),
        policy=intern(plan.get("policy", "")),
        state=entry["state"],
    )


def how(plan: Mapping[str, Any]) -> str:
    """Return in one word what a recorded plan did beside measuring; empty where it did nothing else."""
    return next((word for kind, word in HOW.items() if kind in plan.get("actions", ())), "")


def alone(entry: Mapping[str, Any]) -> int:
    """Return what a charge of the ledger would have cost had its question been measured alone, in units."""
    return int(entry["plan"].get("alone", entry["units"]))


def budgets_frame(budgets: Sequence[BudgetRaise]) -> pd.DataFrame:
    """Return what a ledger was made for and every raise of it as a frame; see `Session.budgets`."""
    import pandas as pd

    rows = [
        {
            "time": pd.Timestamp(one.time),
            "epsilon": one.budget.epsilon,
            "delta": one.budget.delta,
            "added": "" if one.added is None else str(one.added),
            "reason": one.reason,
        }
        for one in budgets
    ]
    return pd.DataFrame(rows)


def refusals_frame(refused: Sequence[Mapping[str, Any]], accountant: Accountant) -> pd.DataFrame:
    """Return refused questions as a frame; see `Session.refusals`.

    Parameters
    ----------
    refused
        As `Ledger.refusals` has them.
    accountant
        Of the ledger.
    """
    import pandas as pd

    def percent(units: int | Fraction) -> float:
        return math.nan if isinstance(units, Fraction) else 100 * units / accountant.total

    def price(units: int | Fraction) -> str:
        return "" if isinstance(units, Fraction) else f"epsilon={accountant.epsilon(units):.4g}"

    rows = [
        {
            "time": pd.Timestamp(one["time"]),
            "table": one["table"],
            "question": one["statement"] or one["words"],
            "accuracy": one["accuracy"] or price(one["requested"]),
            "percent": percent(one["requested"]),
            "left": percent(one["remaining"]),
            "analyst": one["analyst"],
            "why": one["why"],
        }
        for one in refused
    ]
    return pd.DataFrame(rows, columns=REFUSALS)


def history_frame(charges: Sequence[ChargeSummary], accountant: Accountant, *, policy: bool = False) -> pd.DataFrame:
    """Return charges as a frame; see `Session.history`.

    Parameters
    ----------
    charges
        In order.
    accountant
        Of the ledger.
    policy
        Whether there is one: then its column is there without a charge too.
    """
    import pandas as pd

    epsilon = accountant.epsilon
    rows = [
        {
            "number": charge.number,
            "time": pd.Timestamp(charge.time),
            "table": charge.table,
            "question": charge.words,
            "percent": 100 * charge.units / accountant.total,
            "epsilon": epsilon(charge.measured),
            "paid": epsilon(charge.units),
            "alone": epsilon(charge.alone),
            "how": charge.how,
            "delta": float(charge.delta),
            "statement": charge.statement,
            "analyst": charge.analyst,
            "policy": charge.policy[:12],
            "state": charge.state,
        }
        for charge in charges
    ]
    kept = ["delta"] if accountant.threshold_delta else []
    kept += ["statement"] if any(row["statement"] for row in rows) else []
    kept += ["analyst"] if any(row["analyst"] for row in rows) else []
    kept += ["policy"] if policy or any(row["policy"] for row in rows) else []
    return pd.DataFrame(rows, columns=[*COLUMNS, *kept, "state"])

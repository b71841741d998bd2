"""What a session says of every charge of its ledger, read once: a ledger only grows, and views ask at every release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from sys import intern
from typing import TYPE_CHECKING, Any

from dpnotebook.ledger.forks import lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpnotebook.ledger import Ledger


# What one word says of a release: the first of these kinds of action that it took.
HOW = {"buy": "purchase", "refine": "refined", "free": "free", "reuse": "reuse"}


@dataclass(frozen=True, slots=True)
class ChargeSummary:
    """One charge in short: its whole plan is not kept, which takes several times the memory.

    Parameters
    ----------
    number, time, table, units, delta, state
        As `Ledger.history` has them.
    question
        A digest: equal where the question is.
    words, kind, accuracy, analyst, policy
        Of its plan; empty where that has none.
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
                self._take(_summary(entry))
            return tuple(self._charges)

    def _take(self, charge: ChargeSummary) -> None:
        if charge.number > len(self._charges):
            self._charges.append(charge)
        else:
            self._charges[charge.number - 1] = charge
        (self._open.discard if charge.state == "recorded" else self._open.add)(charge.number)


def _summary(entry: Mapping[str, Any]) -> ChargeSummary:
    plan = entry["plan"]
    return ChargeSummary(
        number=entry["number"],
        time=entry["time"],
        table=intern(entry["table"]),
        question=blake2b(entry["question"].encode(), digest_size=16).digest(),
        words=intern(plan.get("words", "")),
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

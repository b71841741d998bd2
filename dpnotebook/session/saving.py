"""What reuse has spared a session, from the plans that the ledger keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpnotebook.privacy.accountant import Accountant

# What one word says of a release: the first of these kinds of action that it took.
HOW = {"buy": "purchase", "refine": "refined", "free": "free", "reuse": "reuse"}


@dataclass(frozen=True)
class Saving:
    """What reuse has spared a session.

    Parameters
    ----------
    paid, alone
        What was spent, and what it would have been had every question been measured alone, each as epsilon.
    share
        How much less was spent, as a fraction of what measuring alone would have taken; 0 where it was not less.
    how
        For every release with a part in it: "free", "refined", "reuse" or "purchase", by its number.
    """

    paid: float
    alone: float
    share: float
    how: Mapping[int, str]


def how(plan: Mapping[str, Any]) -> str:
    """Return in one word what a recorded plan did beside measuring; empty where it did nothing else."""
    return next((word for kind, word in HOW.items() if kind in plan.get("actions", ())), "")


def alone(entry: Mapping[str, Any]) -> int:
    """Return what a charge of the ledger would have cost had its question been measured alone, in units."""
    return int(entry["plan"].get("alone", entry["units"]))


def saving(entries: Iterable[Mapping[str, Any]], accountant: Accountant) -> Saving:
    """Return what reuse has spared, from the charges of a ledger.

    A question that was asked again is not counted: it was no charge.
    """
    paid, whole, words = 0, 0, {}
    for entry in entries:
        paid += int(entry["units"])
        whole += alone(entry)
        if word := how(entry["plan"]):
            words[int(entry["number"])] = word
    epsilon = accountant.epsilon
    return Saving(epsilon(paid), epsilon(whole), max(0.0, 1 - paid / whole) if whole else 0.0, words)

"""What a ledger says of one table at one moment: planning asks many things of it, and the answers must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from dpnotebook.ledger.checks import check_cost
from dpnotebook.ledger.releases import Charge, Record
from dpnotebook.ledger.snapshot import LARGEST
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.spend import CellCost, Spend


@dataclass(frozen=True)
class Moment:
    """What a ledger says, read once.

    Parameters
    ----------
    head, version
        The hash of the last entry, and the number of the last one that is about the table; see `Ledger.news`.
    waiting
        The numbers of the table's charges that can still be measured.
    refining
        What these refine; see `Ledger.refining`.
    accountant
        Of the budget that holds.
    spent
        Units spent so far, over all tables.
    threshold_delta, delta_remaining
        The delta that is kept for thresholds, and what is left of it.
    spend
        What every cell of the table has cost; read-only.
    records
        Finds recorded answers; by question, and but for some numbers, if these are given.
    charges
        Lists what was charged and can still be measured, of the table.
    told
        Finds what a function tells of the recorded answers to a question; see `Ledger.told`.
    get
        Finds the record of a number.
    """

    head: str
    version: int
    waiting: tuple[int, ...]
    refining: frozenset[tuple[int, int]]
    accountant: Accountant
    spent: int
    threshold_delta: Fraction
    delta_remaining: Fraction
    spend: Spend
    records: Callable[..., Sequence[Record]]
    charges: Callable[[], Sequence[Charge]]
    told: Callable[..., Sequence[Any]]
    get: Callable[[int], Record]

    def pending(self) -> Sequence[Charge]:
        """Return what was charged and can still be measured, of the table."""
        return self.charges() if self.waiting else ()

    def price(self, cost: CellCost) -> int:
        """Return by how many units a cost would raise the session's total."""
        check_cost(cost, self.spend.sizes)
        # What no budget pays need not fit 64 bits.
        return cost.bound if cost.bound >= LARGEST else self.spend.increase(cost)

    def remembering(self) -> Moment:
        """Return the same, but each record is read once: one that lists many groups is asked for at every price."""
        by_question = cache(self.records)

        def records(question: str | None = None, **but: Any) -> Sequence[Record]:
            return by_question(question) if question is not None and not but else self.records(question, **but)

        return replace(self, records=records, get=cache(self.get))

"""What a plan asks a ledger: what was spent and recorded, and by how much a further measurement raises the total."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

from dpnotebook.planner.history import RecordedRelease
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.spend import CellCost, Spend


class Charged(Protocol):
    """A charge whose answer is still to be measured."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""

    @property
    def question(self) -> str:
        """The key of its question."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned, as `plan_to_json` wrote it."""


class LedgerView(Protocol):
    """What a ledger says of a table at one moment."""

    @property
    def accountant(self) -> Accountant:
        """Of the budget that holds."""

    @property
    def spent(self) -> int:
        """Units spent so far."""

    @property
    def spend(self) -> Spend:
        """What every cell of the table has cost."""

    def price(self, cost: CellCost) -> int:
        """Return by how many units the total would rise."""

    def records(self, question: str | None = None, *, but: Container[int] = ()) -> Sequence[RecordedRelease]:
        """Return the recorded answers to a question, but for those of some numbers."""

    def pending(self) -> Sequence[Charged]:
        """Return what was charged and is still to be measured."""

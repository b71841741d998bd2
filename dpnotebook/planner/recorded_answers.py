"""Recorded answers by their question, each kept once: one that was asked ten thousand times takes no more than one."""

from __future__ import annotations

import marshal
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpnotebook.planner.answers import Expected

# Of a plan, which its accuracy depends on, or how that was asked for.
KEPT = ("units", "noise", "measures", "as_good_as", "combined", "promised", "relative", "assumed")


@dataclass(eq=False, slots=True)  # never changed, but a frozen one takes three times as long to make
class Answered:
    """What a plan needs to know of a recorded answer.

    Parameters
    ----------
    number
        Of its release.
    kept
        What the ledger keeps of its plan, as far as its accuracy depends on it: as bytes, since Python looks through
        all lists and dicts time and again, of ten thousand releases for longer than a plan takes.
    details
        What belongs to it.
    expected
        How wrong each of its measures is, by what that depends on; filled as it is asked for.
    """

    number: int
    kept: bytes
    details: Mapping[str, Any]
    expected: dict[Hashable, list[Expected]] = field(default_factory=dict)

    @property
    def plan(self) -> Mapping[str, Any]:
        """What the ledger keeps of its plan, as far as its accuracy depends on it."""
        found: Mapping[str, Any] = marshal.loads(self.kept)  # noqa: S302 - written above, in this process
        return found


class AnsweredQuestions:
    """Recorded answers by the key of their question."""

    def __init__(self) -> None:
        self._found: dict[str, dict[bytes, Answered]] = {}

    def take(self, number: int, question: str, plan: Mapping[str, Any], details: Mapping[str, Any]) -> None:
        """Add a recorded answer, of a later release than those before; as good as an earlier one, it replaces that."""
        told = {name: details[name] for name in ("estimates", "others") if name in details}
        kept = {name: plan[name] for name in KEPT if name in plan}
        written = marshal.dumps(kept, 2)  # as `_told_apart` in `plan_json`
        alike = b"release %d" % number if told else written
        known = self._found.setdefault(question, {})
        before = known.get(alike)
        known[alike] = (
            Answered(number, written, told)
            if before is None
            else Answered(number, before.kept, before.details, before.expected)
        )

    def of(self, question: str) -> Collection[Answered]:
        """Return the recorded answers to a question; of those that are as good as each other only the latest."""
        return self._found.get(question, {}).values()

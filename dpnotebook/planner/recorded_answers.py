"""Recorded answers by their question, each kept once: one that was asked ten thousand times takes no more than one."""

from __future__ import annotations

import json
import marshal
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpnotebook.planner.answers import Expected

# Of a plan, which its accuracy depends on, or how that was asked for.
KEPT = ("units", "noise", "measures", "as_good_as", "combined", "promised", "relative", "assumed")


@dataclass(frozen=True, eq=False)
class Answered:
    """What a plan needs to know of a recorded answer.

    Parameters
    ----------
    number
        Of its release.
    kept
        What the ledger keeps of its plan, as far as its accuracy depends on it: as text, since Python looks through
        all lists and dicts time and again, of ten thousand releases for longer than a plan takes.
    details
        What belongs to it.
    expected
        How wrong each of its measures is, by what that depends on; filled as it is asked for.
    """

    number: int
    kept: str
    details: Mapping[str, Any]
    expected: dict[Hashable, list[Expected]] = field(default_factory=dict)

    @property
    def plan(self) -> Mapping[str, Any]:
        """What the ledger keeps of its plan, as far as its accuracy depends on it."""
        found: Mapping[str, Any] = json.loads(self.kept)
        return found


class AnsweredQuestions:
    """Recorded answers by the key of their question."""

    def __init__(self) -> None:
        self._found: dict[str, dict[bytes, Answered]] = {}

    def take(self, number: int, question: str, plan: Mapping[str, Any], details: Mapping[str, Any]) -> None:
        """Add a recorded answer, of a later release than those before; as good as an earlier one, it replaces that."""
        told = {name: details[name] for name in ("estimates", "others") if name in details}
        kept = {name: plan[name] for name in KEPT if name in plan}
        alike = b"release %d" % number if told else marshal.dumps(kept, 2)  # as `_told_apart` in `plan_json`
        before = self._found.setdefault(question, {}).get(alike)
        expected = {} if before is None else before.expected
        self._found[question][alike] = Answered(
            number, json.dumps(kept) if before is None else before.kept, told, expected
        )

    def of(self, question: str) -> Collection[Answered]:
        """Return the recorded answers to a question; of those that are as good as each other only the latest."""
        return self._found.get(question, {}).values()

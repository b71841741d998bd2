"""Keys that a statement works out from declared columns: what they are called, and what their groups are.

`CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS who` groups levels of `age`. Its question is about `age`, whose
measures have a workload of one query a group; this says what a person calls these groups, and is no part of what is
asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WrittenKey:
    """One such key.

    Parameters
    ----------
    name
        What it is called.
    columns
        The declared columns that it depends on, in the domain's order.
    labels
        Its value in each group, in the order of the groups; None for NULL.
    moments
        Whether these are moments, as texts.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str | int | bool | None, ...]
    moments: bool = False


@dataclass(frozen=True)
class WrittenKeys:
    """The keys of a question that are worked out, and the statement that says so.

    Parameters
    ----------
    statement
        Its text.
    keys
        Those keys, no two of which share a column. One of several columns is the only key of its question.
    """

    statement: str
    keys: tuple[WrittenKey, ...]

    def of(self, column: str) -> WrittenKey | None:
        """Return the key that depends on a column; None where there is none."""
        return next((key for key in self.keys if column in key.columns), None)

    @property
    def joint(self) -> WrittenKey | None:
        """The key of several columns, whose groups are of their cells; None where all are of one."""
        return next((key for key in self.keys if len(key.columns) > 1), None)

    def code(self, accuracy: str) -> str:
        """Return the Python that asks it, given how accurately that is in Python."""
        return f"session.sql({', '.join(filter(None, [repr(self.statement.strip()), accuracy]))})"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values from which `from_json` makes the same."""
        keys = [
            {"name": key.name, "columns": list(key.columns), "labels": list(key.labels)}
            | ({"moments": True} if key.moments else {})
            for key in self.keys
        ]
        return {"statement": self.statement, "keys": keys}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WrittenKeys:
        """Return what `to_json` wrote."""
        keys = [
            WrittenKey(key["name"], tuple(key["columns"]), tuple(key["labels"]), key.get("moments", False))
            for key in values["keys"]
        ]
        return cls(values["statement"], tuple(keys))

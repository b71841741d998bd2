"""Conditions as small trees, shared by everything that writes predicates: `where=` texts, SQL, and tests.

A tree is a question about columns, without a domain; `Predicate.of` gives it one.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compare:
    """`attribute op value`, with op one of ==, !=, <, <=, >, >=."""

    attribute: str
    op: str
    value: Any

    def __str__(self) -> str:
        if self.op == "==" and self.value is True:
            return column_text(self.attribute)  # a column of truth values is a condition by itself
        return f"{column_text(self.attribute)} {self.op} {value_text(self.value)}"


@dataclass(frozen=True, init=False)
class OneOf:
    """`attribute` equals one of `values`; None among them stands for a missing value."""

    attribute: str
    values: tuple[Any, ...]

    def __init__(self, attribute: str, values: Iterable[Any]) -> None:
        object.__setattr__(self, "attribute", attribute)
        object.__setattr__(self, "values", tuple(values))

    def __str__(self) -> str:
        return f"{column_text(self.attribute)} in [{', '.join(map(value_text, self.values))}]"


@dataclass(frozen=True)
class IsNull:
    """The value of `attribute` is missing."""

    attribute: str

    def __str__(self) -> str:
        return f"{column_text(self.attribute)}.isna()"


@dataclass(frozen=True, init=False)
class _Junction:
    parts: tuple[Expression, ...]

    def __init__(self, *parts: Expression) -> None:
        # a chain of a thousand "or" is one wide node, not a thousand deep
        flat: list[Expression] = []
        for part in parts:
            flat.extend(part.parts if type(part) is type(self) else (part,))
        object.__setattr__(self, "parts", tuple(flat))


class And(_Junction):
    """Every one of `parts`; all rows if there is none."""

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts) or "everything"


class Or(_Junction):
    """At least one of `parts`; no row if there is none."""

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts) or "nothing"


@dataclass(frozen=True)
class Not:
    """Not `part`."""

    part: Expression

    def __str__(self) -> str:
        match self.part:
            case IsNull(name):
                return f"{column_text(name)}.notna()"
            case OneOf(name, values):
                return f"{column_text(name)} not in [{', '.join(map(value_text, values))}]"
            case Compare(name, "==", value) if value is True:
                return f"not {column_text(name)}"
        return f"not ({self.part})"


Expression = Compare | OneOf | IsNull | And | Or | Not


def column_text(name: str) -> str:
    """Return a column name as it is written in a `where=` text."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`"


def value_text(value: Any) -> str:
    """Return a value as it is written in a `where=` text."""
    return repr(value)

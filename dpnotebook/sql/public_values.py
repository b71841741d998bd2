"""The values of a column of a public table, as levels of what is grouped by."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from dpnotebook.dialect.types import Kind

KINDS_OF_VALUES: dict[type, Kind] = {str: "text", int: "integer", bool: "boolean", datetime.datetime: "time"}


@dataclass(frozen=True)
class PublicValues:
    """The values of a column of a public table, as levels of a key.

    Parameters
    ----------
    levels
        The values.
    nullable
        Whether rows may have none.
    """

    levels: tuple[Any, ...]
    nullable: bool

    @property
    def regular(self) -> int:
        """The number of values."""
        return len(self.levels)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values, and None for nothing."""
        return (*self.levels, None) if self.nullable else self.levels

    @property
    def kind(self) -> Kind:
        """What the values are."""
        return KINDS_OF_VALUES[type(self.levels[0])]

    @property
    def null_index(self) -> int | None:
        """The level of nothing."""
        return self.regular if self.nullable else None

"""What is public about a protected table: all that planning may know of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.domain.parts import PART, without_parts
from dpnotebook.errors import DomainError, shorten
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate


@dataclass(frozen=True)
class TableSchema:
    """What is public about a protected table.

    Parameters
    ----------
    name, domain
        What it is called, and its declared attributes.
    unit, max_rows
        The column that identifies a privacy unit (None: each row is one), and the most rows of a unit that count; None
        where nobody has said how many.
    rows
        About how many rows it has, or each part of it, where the owner has said so; never read from the data.
    population
        The population that its units belong to; None: one of this table alone.
    parts
        Of how many parts it is, which the last attribute of its domain tells apart; 0: it did not grow.
    asked
        Which of them questions are about, numbered from 1; None: all.
    adds
        Whether a unit may have so many rows in each part, so that what parts cost adds up.
    """

    name: str
    domain: Domain
    unit: str | None = None
    max_rows: int | None = 1
    rows: float | None = None
    population: str | None = None
    parts: int = 0
    asked: tuple[int, ...] | None = None
    adds: bool = False

    @cached_property
    def contribution_bound(self) -> int:
        """The most rows of a unit that count.

        Raises
        ------
        DomainError
            If nobody has said how many.
        """
        if self.max_rows is None:
            raise DomainError(unbounded(self.name, self.one))
        return self.max_rows

    @property
    def counted(self) -> str:
        """Which rows count where a unit may have more of them than it is declared to have; empty where each counts."""
        several = self.unit is not None and self.max_rows is not None and self.max_rows > 1
        return f"at most {self.max_rows:,} rows of each {self.one}" if several else ""

    @cached_property
    def columns(self) -> Domain:
        """The domain of its columns: without the attribute that tells parts apart."""
        return without_parts(self.domain) if self.parts else self.domain

    def rows_of(self, where: Predicate) -> float | None:
        """Return about how many rows the parts have that a condition lets in, where that was said."""
        if self.rows is None or not self.parts:
            return self.rows
        return self.rows * len(allowed_levels(where, PART, self.domain))

    @property
    def elsewhere(self) -> tuple[int, ...]:
        """Which parts questions are not about, numbered from 1."""
        asked = range(1, self.parts + 1) if self.asked is None else self.asked
        return tuple(part for part in range(1, self.parts + 1) if part not in asked)

    def within(self, where: Predicate) -> Predicate:
        """Return which rows of the parts that questions are about satisfy a condition.

        Raises
        ------
        DomainError
            If none can.
        """
        if not self.elsewhere:
            return where
        here = ~np.isin(np.arange(1, self.parts + 1), self.elsewhere)
        found = where & Predicate.box(self.domain, {PART: here})
        if found.is_empty:
            asked = self.asked or ()
            few = f"part{'s' * (len(asked) > 1)} {', '.join(map(str, asked))} of {self.parts}"
            raise DomainError(
                f"this asks about other parts than {few} of {shorten(self.name)}, which is all that is asked here. "
                f"session.table({shorten(self.name, 120)}) asks about every part that session.extend(...) added"
            )
        return found

    @property
    def one(self) -> str:
        """What one unit is called: by its population, else by its column."""
        return self.population or self.unit or "row"

    @property
    def whose(self) -> str:
        """Which population it is, in words."""
        return self.population or (f"rows of {self.name}" if self.unit is None else f"{self.unit} of {self.name}")


def unbounded(table: str, one: str) -> str:
    """Return what to tell who asks what needs a bound on the rows of a unit, which nobody has given."""
    return (
        f"how many rows of one {one} count in {table} has not been said, and this needs it: "
        f"session.protect(..., {shorten(table, 120)}, max_rows=1) says so where everyone has one row, and max_rows=8 "
        "where hardly anybody has more, for example. Plain counts, sums, means and medians find it by themselves, but "
        "not counts by times of day, shares below each level or medians of dates"
    )

"""What is public about a protected table: all that planning may know of it."""

from __future__ import annotations

from dataclasses import dataclass

from dpnotebook.domain import Domain


@dataclass(frozen=True)
class TableSchema:
    """What is public about a protected table.

    Parameters
    ----------
    name, domain
        What it is called, and its declared attributes.
    unit, max_rows
        The column that identifies a privacy unit (None: each row is one), and the most rows of a unit that count.
    rows
        About how many rows it has, where the owner has said so; never read from the data.
    population
        The population that its units belong to; None: one of this table alone.
    """

    name: str
    domain: Domain
    unit: str | None = None
    max_rows: int = 1
    rows: float | None = None
    population: str | None = None

    @property
    def one(self) -> str:
        """What one unit is called: by its population, else by its column."""
        return self.population or self.unit or "row"

    @property
    def whose(self) -> str:
        """Which population it is, in words."""
        return self.population or (f"rows of {self.name}" if self.unit is None else f"{self.unit} of {self.name}")

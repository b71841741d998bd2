"""Privacy units: whose rows a table holds, and of which population they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpnotebook.errors import DomainError, shorten

MOST_NAME = 100  # characters of a name, which stands in errors, cards and the ledger
EXAMPLE = 'dpn.Unit("patient", column="patient_id")'


@dataclass(frozen=True)
class Unit:
    """Whose row it is: the column that says it, and the population that its values belong to.

    Tables that are protected with the same population are about the same units: equal values mean the same one, and
    neighbours differ by all rows of one of them in all of these tables. A table that is protected with the name of a
    column alone has a population of its own, whatever other tables call theirs.

    Parameters
    ----------
    population
        What one of them is called, such as "patient": one line of at most 100 characters.
    column
        The column that identifies them in this table.

    Raises
    ------
    DomainError
        If one of them is no name.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Unit("patient", column="patient_id")
    Unit('patient', column='patient_id')
    """

    population: str = ""
    column: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        for what, value in (("population", self.population), ("column", self.column)):
            if not isinstance(value, str):
                raise DomainError(f"the {what} of a unit is a name, as in {EXAMPLE}, not a {_kind(value)}")
            if not value:
                missing = "its population" if what == "population" else "the column that identifies it"
                raise DomainError(f"a unit needs {missing}: {EXAMPLE}")
            object.__setattr__(self, what, str(value))
        if not self.population.isprintable() or len(self.population) > MOST_NAME:
            raise DomainError(f"the name of a population is one line of at most {MOST_NAME} characters: {EXAMPLE}")
        if self.population != self.population.strip():
            raise DomainError(f"the name of a population has no spaces around it: {shorten(self.population)}")

    def __repr__(self) -> str:
        return f"Unit({self.population!r}, column={self.column!r})"


def column_and_population(unit: Any) -> tuple[str | None, str | None]:
    """Return what `unit=` says: the column, None where each row is a unit; and the named population, None without one.

    Raises
    ------
    DomainError
        If it is neither the name of a column nor a `Unit`.
    """
    if isinstance(unit, Unit):
        return unit.column, unit.population
    if unit is None:
        return None, None
    if not isinstance(unit, str) or not unit:
        said = shorten(unit) if type(unit) in (str, int, float, bool) else f"a {_kind(unit)}"
        if isinstance(unit, (list, tuple)):
            said += ". Of several columns make one, in the frame or in a view, such as clinic || '-' || number"
        raise DomainError(f"unit= is the column that says whose row it is, or {EXAMPLE}, not {said}")
    return str(unit), None


def _kind(value: object) -> str:
    """Return the type of a value that does not belong here, and never the value."""
    module, name = type(value).__module__, type(value).__name__[:MOST_NAME]
    return name if not isinstance(module, str) or module == "builtins" else f"{module.partition('.')[0]}.{name}"

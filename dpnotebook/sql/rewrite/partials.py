"""SQL of what is added up over the rows of each unit in each group."""

from __future__ import annotations

from fractions import Fraction

from dpnotebook.dialect.attributes import number

FINER = 16  # a part of a step is at most this fraction of it, or rounding of many rows could be seen


class Columns:
    """Columns that are added up over the rows of each unit in each group, each once.

    Parameters
    ----------
    single
        Whether no unit has more than one row: nothing is added up then.
    """

    def __init__(self, single: bool) -> None:
        self.single = single
        self._names: dict[str, str] = {}

    @property
    def listed(self) -> dict[str, str]:
        """SQL over `y{i}` (a number or NULL), `p{i}` (1 or NULL) and `turn{i}` of rows, by name."""
        return {name: sql for sql, name in self._names.items()}

    def rows(self, column: str | None) -> str:
        """Return the name of the number of rows: all, or those with a value in a column."""
        if column is None:
            return self._name("1" if self.single else "count(*)")
        return self._name(f"CASE WHEN {column} IS NOT NULL THEN 1 ELSE 0 END" if self.single else f"count({column})")

    def total(self, addends: str) -> str:
        """Return the name of the sum of addends; NULL where there is none."""
        return self._name(addends if self.single else f"sum({addends})")

    def largest(self, values: str) -> str:
        """Return the name of the largest value; NULL where there is none."""
        return self._name(values if self.single else f"max({values})")

    def _name(self, sql: str) -> str:
        return self._names.setdefault(sql, f"s{len(self._names)}")


def nearest(value: str, ratio: Fraction, shift: Fraction = Fraction(0)) -> str:
    """Return the nearest whole number to a number times a ratio, plus a shift."""
    return f"floor({value} * {number(float(ratio))} + {number(float(shift + Fraction(1, 2)))})"

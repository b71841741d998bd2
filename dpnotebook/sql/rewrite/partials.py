"""SQL of what one unit adds to one group, component by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpnotebook.dialect.attributes import number
from dpnotebook.errors import shorten
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component
from dpnotebook.sql.rewrite import steps

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


def of_row(component: Component) -> str:
    """Return what one row adds to a component, as an integer, for bounded rows."""
    y = f"y{component.input}"
    match component.statistic:
        case "count":
            return "1" if component.input is None else f"CASE WHEN p{component.input} IS NOT NULL THEN 1 ELSE 0 END"
        case "values":
            return f"CASE WHEN {y} IS NOT NULL THEN 1 ELSE 0 END"
        case "sum":
            bounded = steps.clamped(y, component.low, component.high)
            ends = steps.inside(component.low, component.high, component.step, component.largest)
            return f"CASE WHEN {y} IS NULL THEN 0 ELSE {steps.within(steps.whole(bounded, component.step), *ends)} END"
        case "centred" | "square":
            return f"CASE WHEN {y} IS NULL THEN 0 ELSE {_of_value(component, component.largest)} END"
    raise ValueError(f"{shorten(component.statistic)} has no meaning where single rows are bounded")


def of_group(component: Component, columns: Columns, parts: Mapping[int, Fraction]) -> str:
    """Return what a unit adds to a group, as an integer, where groups are bounded.

    Parameters
    ----------
    component
        What is added up.
    columns
        What is added up over the rows of the unit in the group; more is added to it.
    parts
        In what the numbers of each input are added up.
    """
    i, low, high, step = component.input, component.low, component.high, component.step
    ends = steps.inside(low, high, step, component.largest)
    match component.statistic:
        case "units":
            return "1"
        case "count":
            rows = f"CAST({columns.rows(None if i is None else f'p{i}')} AS DOUBLE)"
            return steps.within(steps.whole(steps.clamped(rows, low, high), step), *ends)
        case "values":
            return f"least({columns.rows(f'y{i}')}, {component.largest})"
        case "sum":
            assert i is not None
            part = parts[i] if parts[i] * FINER <= step else steps.part_for(max(abs(low), abs(high)))
            total = columns.total(steps.addend(f"y{i}", part))
            value = steps.within(_nearest(f"CAST({total} AS DOUBLE)", part / step), *ends)
            return f"CASE WHEN {total} IS NULL THEN 0 ELSE {value} END"
        case "average":
            assert i is not None
            middle, most = (low + high) / 2, component.largest
            part, centre = parts[i], Fraction(0)
            if part * FINER > step:  # the middle, or a sum of the same input, is too far away for steps so small
                part, centre = steps.part_for((high - low) / 2), middle
            total = columns.total(steps.addend(f"y{i}", part, centre))
            mean = f"CAST({total} AS DOUBLE) / {columns.rows(f'y{i}')}"
            value = steps.within(_nearest(mean, part / step, (centre - middle) / step), -most, most)
            return f"CASE WHEN {total} IS NULL THEN 0 ELSE {value} END"
        case "centred" | "square":
            each = _of_value(component, component.largest // ROWS_SAMPLED)
            drawn = f"CASE WHEN y{i} IS NOT NULL AND turn{i} BETWEEN 1 AND {ROWS_SAMPLED} THEN {each} END"
            return f"CAST(coalesce({columns.total(drawn)}, 0) AS BIGINT)"
    raise ValueError(f"{shorten(component.statistic)} has no meaning where groups are bounded")


def parts_of(components: Sequence[Component]) -> dict[int, Fraction]:
    """Return in what the numbers of each input are added up, so that sums and averages of it share one sum."""
    reach: dict[int, Fraction] = {}
    for component in components:
        if component.statistic in ("sum", "average") and component.input is not None:
            most = max(abs(component.low), abs(component.high))
            reach[component.input] = max(reach.get(component.input, Fraction(0)), most)
    return {i: steps.part_for(most) for i, most in reach.items()}


def _of_value(component: Component, most: int) -> str:
    """Return what one value adds to a centred statistic, as an integer of at most `most`."""
    y, middle = f"y{component.input}", (component.low + component.high) / 2
    bounded = steps.clamped(y, component.low, component.high)
    if component.statistic == "centred":
        return steps.within(steps.whole(bounded, component.step, middle), -most, most)
    away = f"abs({bounded} - {number(float(middle))})"
    # What rounds to zero anyway is not squared: it could be too small for a number.
    least = Fraction(float(component.step) ** 0.5) / 4
    away = f"greatest({away}, {number(float(least))})"
    return steps.within(steps.whole(f"{away} * {away}", component.step), 0, most)


def _nearest(value: str, ratio: Fraction, shift: Fraction = Fraction(0)) -> str:
    """Return the nearest whole number to a number times a ratio, plus a shift."""
    return f"floor({value} * {number(float(ratio))} + {number(float(shift + Fraction(1, 2)))})"

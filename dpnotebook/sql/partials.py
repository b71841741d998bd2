"""SQL of what one unit adds to one group, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpnotebook.engine.sql import number
from dpnotebook.sql import steps
from dpnotebook.sql.components import ROWS_SAMPLED, Component
from dpnotebook.sql.parts import Parts

SAFE = 1 << 24  # steps up to which a clipped vector of whole numbers cannot exceed its norm by rounding
SCALED = 19  # bits of the bound of a norm, when squares are added up as integers
LONGEST = 10**9 - 1  # largest entry of a vector then: its square has 18 digits


@dataclass(frozen=True)
class Partial:
    """How one component is worked out.

    Parameters
    ----------
    columns
        What is added up over the unit's rows in a group, by name: SQL over `y{i}` (a number or NULL), `p{i}` (1 or
        NULL) and `turn{i}` (the row's number among those of the group that were drawn).
    value
        The integer made of these columns, as SQL.
    """

    columns: Mapping[str, str]
    value: str


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
    raise ValueError(f"{component.statistic!r} has no meaning where single rows are bounded")


def of_group(component: Component, name: str, single: bool = False) -> Partial:
    """Return what a unit adds to a group, where groups are bounded.

    Parameters
    ----------
    component
        What is added up.
    name
        What its columns are called.
    single
        Whether no unit has more than one row: nothing is added up then.
    """
    i, low, high, step = component.input, component.low, component.high, component.step
    ends = steps.inside(low, high, step, component.largest)
    match component.statistic:
        case "units":
            return Partial({}, "1")
        case "count":
            rows = f"CAST({name} AS DOUBLE)"
            value = steps.within(steps.whole(steps.clamped(rows, low, high), step), *ends)
            return Partial({name: counted(i, single)}, value)
        case "values":
            return Partial({name: present(f"y{i}", single)}, f"least({name}, {component.largest})")
        case "sum":
            column = added(steps.addend(f"y{i}", step, component.largest), single)
            value = steps.within(_rounded(f"CAST({name} AS DOUBLE)", component.largest), *ends)
            return Partial({name: column}, f"CASE WHEN {name} IS NULL THEN 0 ELSE {value} END")
        case "average":
            middle = (low + high) / 2
            column = added(steps.addend(f"y{i}", step, component.largest, middle), single)
            mean = f"CAST({name} AS DOUBLE) / {name}n"
            value = steps.within(_rounded(mean, component.largest), -component.largest, component.largest)
            columns = {name: column, f"{name}n": present(f"y{i}", single)}
            return Partial(columns, f"CASE WHEN {name} IS NULL THEN 0 ELSE {value} END")
        case "centred" | "square":
            each = _of_value(component, component.largest // ROWS_SAMPLED)
            drawn = f"CASE WHEN y{i} IS NOT NULL AND turn{i} BETWEEN 1 AND {ROWS_SAMPLED} THEN {each} END"
            column = added(drawn, single)
            return Partial({name: column}, f"CAST(coalesce({name}, 0) AS BIGINT)")
    raise ValueError(f"{component.statistic!r} has no meaning where groups are bounded")


def of_vector(component: Component, name: str, single: bool = False) -> Partial:
    """Return what a unit has in a group, before its vector over all groups is clipped, in parts of a step.

    Parameters
    ----------
    component, name, single
        As for `of_group`.
    """
    i = component.input
    match component.statistic:
        case "units":
            return Partial({}, str(component.largest << steps.finer(component.largest)))
        case "count":
            return Partial({name: counted(i, single)}, _parts(f"CAST({name} AS DOUBLE)", component))
        case "sum":
            column = added(steps.addend(f"y{i}", component.step, component.largest), single)
            return Partial({name: column}, f"coalesce(CAST({name} AS DOUBLE), {number(0.0)})")
    raise ValueError(f"{component.statistic!r} is no vector that can be clipped to a norm")


def group(parts: Parts, columns: Mapping[str, str]) -> None:
    """Turn rows into one of each unit and group; where no unit has two rows, they are that already."""
    listed = [f"{column} AS {name}" for name, column in columns.items()]
    if parts.select.single:
        parts.choose("added", listed)
    else:
        parts.group("added", listed)
    parts.keep_listed(list(columns))


def counted(column: int | None, single: bool) -> str:
    """Return how many rows of a unit are in a group: all, or those where an input is not NULL."""
    if column is None:
        return "1" if single else "count(*)"
    return present(f"p{column}", single)


def present(column: str, single: bool) -> str:
    """Return how many rows of a unit in a group have a value in a column."""
    return f"CASE WHEN {column} IS NOT NULL THEN 1 ELSE 0 END" if single else f"count({column})"


def added(addends: str, single: bool) -> str:
    """Return the sum of addends over the rows of a unit in a group; NULL where all are."""
    return addends if single else f"sum({addends})"


def _parts(value: str, component: Component) -> str:
    part = component.step / 2 ** steps.finer(component.largest)
    return steps.whole(value, part)


def squares(component: Component, name: str) -> str:
    """Return the square of what a unit has in a group, as an integer that can be added up without limit."""
    size = steps.within(f"ceil(abs({name}) / {number(float(_coarse(component)))})", 0, LONGEST)
    return f"CAST({size} * {size} AS DECIMAL(18, 0))"


def clipped(component: Component, name: str, squared: str) -> str:
    """Return a unit's entry of its vector over groups, scaled down to the norm, cut off to whole steps.

    The result's squares never add up to more than `largest` squared: squares of whole numbers do not, where floating
    point is off by less than one; larger ones are scaled by a little less.
    """
    coarse = _coarse(component)
    bound = (component.largest << steps.finer(component.largest)) // coarse
    safe = 1.0 if component.largest <= SAFE else 1.0 - 2.0**-40
    most = number(float(LONGEST * coarse))
    entry = f"least(greatest({name}, -{most}), {most})"
    norm = f"sqrt(CAST({squared} AS DOUBLE))"
    factor = f"CASE WHEN {squared} <= {bound * bound} THEN {number(1.0)} ELSE {number(bound * safe)} / {norm} END"
    part = number(float(1 << steps.finer(component.largest)))
    scaled = f"{entry} * ({factor}) / {part}"
    cut = f"CASE WHEN {name} < 0 THEN ceil({scaled}) ELSE floor({scaled}) END"
    return steps.within(cut, -component.largest, component.largest)


def _coarse(component: Component) -> int:
    """Return what the entries of a vector are divided by, so that squares fit, and still tell a norm to 2^-18."""
    bits = (component.largest << steps.finer(component.largest)).bit_length()
    return 1 << max(0, bits - SCALED)


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


def _rounded(value: str, largest: int) -> str:
    """Return the nearest whole number of steps to a number of their parts."""
    return f"floor({value} / {number(float(1 << steps.finer(largest)))} + {number(0.5)})"

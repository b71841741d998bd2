"""SQL fragments for declared attributes: quoting, the level of a value, the rows that a predicate selects.

Everything here is composed from quoted identifiers, escaped literals and numbers of our own; no user text is pasted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute, Bins, Boolean, Categories, Dates, Domain, Range, Times
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Summand, levels_in

FLOATING = ("FLOAT", "DOUBLE")
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
HIDDEN = "dpnotebook secret "  # in front of a text that is one


DAYS_OF = {"day": 1, "week": 7}  # spans of equally many days
MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}  # and of equally many months
FEW_SPANS = 24  # whose places are looked for one by one
MANY_RUNS = 8  # of days: more, as all Sundays are, are told by their numbers
MOST = 1 << 62  # of a sum: noise can be added to it


def identifier(name: str) -> str:
    """Return a column or table name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """Return a level as a SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.datetime):
        return moment(np.datetime64(value))
    return number(value)


def secret(value: str) -> str:
    """Return a text as SQL that other databases are not sent as part of a statement, which they write into logs."""
    return f"substr({literal(HIDDEN + value)}, {len(HIDDEN) + 1})"


def number(value: Any) -> str:
    """Return a number as a SQL literal of an exact type: an integer, or a double (never a decimal)."""
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def moment(value: np.datetime64) -> str:
    """Return a moment as a SQL literal of a time without a time zone."""
    return f"TIMESTAMP '{str(value.astype('datetime64[us]')).replace('T', ' ')}'"


def whole_sum(column: str) -> str:
    """Return the sum of whole numbers as a BIGINT, 0 of none; what cannot fit is the most that does, never an error."""
    return f"CAST(least(greatest(coalesce(sum({column}), 0), {-MOST}), {MOST}) AS BIGINT)"


def is_null(column: str, kind: str) -> str:
    """Return the condition that a value is missing: NULL, or NaN in a floating-point column."""
    return f"({column} IS NULL OR isnan({column}))" if kind in FLOATING else f"({column} IS NULL)"


def in_domain(attribute: Attribute, column: str, kind: str) -> str | None:
    """Return the condition that a value has a level, or None when every value has one."""
    conditions = []
    if not attribute.nullable:
        conditions.append(f"NOT {is_null(column, kind)}")
    if isinstance(attribute, Dates) and attribute.other_index is None and not attribute.clamps:
        conditions.append(f"({is_null(column, kind)} OR {_within(attribute, column, kind)})")
    if isinstance(attribute, Categories) and attribute.other_index is None:
        levels = ", ".join(literal(label) for label in attribute.labels[: attribute.regular])
        conditions.append(f"({is_null(column, kind)} OR {column} IN ({levels}))")
    return " AND ".join(conditions) or None


class EngineColumn(NamedTuple):
    """A column as the engine sees it: its SQL, its type, and which values are of the declared kind (None: all)."""

    sql: str
    kind: str
    valid: str | None = None


def selects(where: Predicate, domain: Domain, columns: Mapping[str, EngineColumn]) -> str | None:
    """Return the condition that a row satisfies a predicate, or None when every row does."""
    if where.is_everything:
        return None
    boxes = []
    for box in where.products():
        conditions = [_in_mask(domain[name], *columns[name][:2], np.asarray(mask)) for name, mask in box.items()]
        boxes.append("(" + " AND ".join(conditions) + ")")
    return "(" + (" OR ".join(boxes) or "FALSE") + ")"


def day_number(attribute: Dates, column: str) -> str:
    """Return an expression for the day of a moment on the clocks of its time zone, numbered from 1970-01-01."""

    def day(time: str) -> str:
        return f"datediff('day', TIMESTAMP '1970-01-01 00:00:00', {time})"

    return _on_clocks(attribute, column, day)


def minute_number(attribute: Times, column: str) -> str:
    """Return an expression for the minute of its day of a moment, on the clocks of its time zone."""

    def minute(time: str) -> str:
        return f"CAST(EXTRACT(HOUR FROM {time}) * 60 + EXTRACT(MINUTE FROM {time}) AS BIGINT)"

    return _on_clocks(attribute, column, minute)


def time_of_text(column: str) -> str:
    """Return an expression for the moment of a day in 1970 that a text such as 08:30:05 is; NULL of other texts."""
    return f"TRY_CAST('1970-01-01 ' || {column} AS TIMESTAMP)"


def _on_clocks(attribute: Dates | Times, column: str, part: Callable[[str], str]) -> str:
    """Return an expression for a part of moments as clocks show them."""
    changes = attribute.clock_changes
    found = [part(f"({column} + INTERVAL '{ahead}' SECOND)") for _, ahead in changes] or [part(column)]
    return _bin_search(column, [moment(change) for change, _ in changes[1:]], found)


def span_number(attribute: Dates, column: str) -> str:
    """Return an expression for the level of a time within its dates, or nearest to it.

    Of many it is counted how many have passed: what looks for the place among them grows with their number, and for
    the days of ten years, or the months of ninety, takes seconds to read.
    """
    if attribute.regular > FEW_SPANS:
        second = attribute.starts[1].astype("datetime64[D]").item()
        if attribute.by in DAYS_OF:
            return counted_spans(str(second), DAYS_OF[attribute.by], attribute.regular, column)
        months = second.year * 12 + second.month
        return counted_months(months, MONTHS_OF[attribute.by], attribute.regular, column)
    return _bin_search(column, [moment(start) for start in attribute.starts[1:-1]], range(attribute.regular))


def counted_spans(second: str, days: int, spans: int, column: str) -> str:
    """Return an expression for the number of the span that a time is in, or nearest to.

    Parameters
    ----------
    second
        The first day of the second span, as the first one can be shorter.
    days
        How long spans are.
    spans
        How many there are.
    column
        SQL of the time.
    """
    passed = f"DATE_DIFF('DAY', CAST('{second}' AS DATE), CAST({column} AS DATE))"
    number = passed if days == 1 else f"CAST(FLOOR(CAST({passed} AS DOUBLE) / {days}) AS BIGINT)"
    return f"LEAST(GREATEST({number} + 1, 0), {spans - 1})"


def counted_months(second: int, months: int, spans: int, column: str) -> str:
    """Return an expression for the number of the span of whole months that a time is in, or nearest to.

    Parameters
    ----------
    second
        The first month of the second span: twelve times its year, and its number there from 1 on.
    months
        How many each span has.
    spans
        How many there are.
    column
        SQL of the time.
    """
    passed = f"EXTRACT(YEAR FROM {column}) * 12 + EXTRACT(MONTH FROM {column}) - {second}"
    number = f"CAST({passed} AS BIGINT)"
    if months > 1:
        number = f"CAST(FLOOR(CAST({passed} AS DOUBLE) / {months}) AS BIGINT)"
    return f"LEAST(GREATEST({number} + 1, 0), {spans - 1})"


def level_number(attribute: Range | Bins, column: str, kind: str) -> str:
    """Return an expression for the level of a number in a Range or Bins: its index, with other and null as declared."""
    if isinstance(attribute, Range):
        whole = column if kind in INTEGERS else f"floor({column})"
        inside = f"CAST(least(greatest({whole}, {attribute.low}), {attribute.high}) AS BIGINT) - {attribute.low}"
    else:
        inside = _bin_search(column, [number(float(edge)) for edge in attribute.edges][1:-1], range(attribute.regular))
    if attribute.other_index is not None:
        outside = f"NOT {_within(attribute, column, kind)}"
        inside = f"CASE WHEN {outside} THEN {attribute.other_index} ELSE {inside} END"
    if attribute.nullable:
        return f"CASE WHEN {is_null(column, kind)} THEN {attribute.null_index} ELSE {inside} END"
    return inside


def contributions(summand: Summand, attribute: Attribute, column: str, kind: str) -> list[str]:
    """Return an expression for each component that a row adds: a whole number of steps, 0 for a row without value."""
    if summand.holds:
        masks = [levels_in(runs, attribute.size) for runs in (summand.holds, summand.fails)[: summand.components]]
        return [f"CASE WHEN {_in_mask(attribute, column, kind, mask)} THEN 1 ELSE 0 END" for mask in masks]
    absent = is_null(column, kind)
    if attribute.holds == "boolean":
        values = (f"{column}", f"NOT {column}")[: summand.components]
        return [f"CASE WHEN {absent} THEN 0 WHEN {value} THEN 1 ELSE 0 END" for value in values]
    low, step = number(float(summand.low)), number(float(summand.step))
    # A Range holds whole numbers: 33.7 is 33 here as it is in a histogram, or its level's norm would not bound it.
    whole = f"floor({column})" if isinstance(attribute, Range) and kind not in INTEGERS else column
    value = f"least(greatest(CAST({whole} AS DOUBLE), {low}), {number(float(summand.high))})"
    if summand.ends:
        up = f"least(greatest(CAST(floor(({value} - {low}) / {step} + 0.5) AS BIGINT), 0), {summand.steps})"
        parts = [up, f"{summand.steps} - {up}"]
    else:
        least, most = round(summand.low / summand.step), round(summand.high / summand.step)
        parts = [f"least(greatest(CAST(floor({value} / {step} + 0.5) AS BIGINT), {least}), {most})"]
    if attribute.other_index is not None:
        assert isinstance(attribute, (Range, Bins))
        absent = f"({absent} OR NOT {_within(attribute, column, kind)})"
    return [f"CASE WHEN {absent} THEN 0 ELSE {part} END" for part in parts]


def _within(attribute: Range | Bins | Dates, column: str, kind: str) -> str:
    if isinstance(attribute, Dates):
        value, (first, after) = _dated(attribute, column), _ends(attribute, 0, attribute.regular)
        return f"({value} >= {first} AND {value} < {after})"
    low, high = attribute.bounds
    if isinstance(attribute, Range):
        # A Range counts whole numbers: 115.9 is 115, so it is inside 0..115.
        return f"({column} >= {number(low)} AND {column} < {number(int(high) + 1)})"
    return f"({column} >= {number(low)} AND {column} <= {number(high)})"


def _bin_search(column: str, edges: Sequence[str], found: Sequence[Any]) -> str:
    """Binary search by comparisons, so that a level here is exactly what a comparison in a filter says.

    Parameters
    ----------
    column
        SQL of a value.
    edges
        SQL of values, ascending.
    found
        What is found below the first edge, and from each edge on.
    """
    if not edges:
        return str(found[0])
    middle = len(edges) // 2
    below = _bin_search(column, edges[:middle], found[: middle + 1])
    above = _bin_search(column, edges[middle + 1 :], found[middle + 1 :])
    return f"CASE WHEN {column} < {edges[middle]} THEN {below} ELSE {above} END"


def _in_mask(attribute: Attribute, column: str, kind: str, mask: NDArray[np.bool_]) -> str:
    """Return the condition that a value's level is in a mask."""
    conditions = []
    if isinstance(attribute, (Range, Bins, Dates)):
        runs = _runs(mask[: attribute.regular])
        if isinstance(attribute, Dates) and len(runs) > MANY_RUNS:
            apart = [run for run in runs if attribute.clamps and (run[0] == 0 or run[1] == attribute.regular)]
            conditions = [_in_days(attribute, column, [run for run in runs if run not in apart])]
            runs = apart
        conditions += [_in_run(attribute, column, kind, start, stop) for start, stop in runs]
    elif isinstance(attribute, Times):
        minute, step = minute_number(attribute, column), attribute.minutes
        minutes = (str(m) for start, stop in _runs(mask[: attribute.regular]) for m in range(start * step, stop * step))
        if listed := ", ".join(minutes):
            conditions.append(f"{minute} IN ({listed})")
    else:
        conditions = _in_categories(attribute, column, mask)
    if attribute.other_index is not None and mask[attribute.other_index]:
        conditions.append(_is_other(attribute, column, kind))
    present = " OR ".join(conditions) or "FALSE"
    if attribute.null_index is not None and mask[attribute.null_index]:
        return f"({is_null(column, kind)} OR {present})"
    return f"({present})"


def _in_run(attribute: Range | Bins | Dates, column: str, kind: str, start: int, stop: int) -> str:
    """Return the condition that a value's level is one of start..stop-1, clamped values included where declared."""
    low, high = _ends(attribute, start, stop)
    if isinstance(attribute, Dates):
        column = _dated(attribute, column)
    last = stop == attribute.regular
    conditions = []
    if not (attribute.clamps and start == 0):
        conditions.append(f"{column} >= {low}")
    if not (attribute.clamps and last):
        closed = last and isinstance(attribute, Bins)
        conditions.append(f"{column} {'<=' if closed else '<'} {high}")
    else:  # NaN compares greater than everything in DuckDB
        conditions.append(f"NOT {is_null(column, kind)}")
    return "(" + " AND ".join(conditions) + ")"


def _in_days(attribute: Dates, column: str, runs: Sequence[tuple[int, int]]) -> str:
    """Return the condition that a value is on a day of some runs of levels; which day that is is worked out once."""
    starts = attribute.starts.astype(np.int64)
    days = (str(day) for start, stop in runs for day in range(starts[start], starts[stop]))
    return f"{day_number(attribute, column)} IN ({', '.join(days)})"


def _ends(attribute: Range | Bins | Dates, start: int, stop: int) -> tuple[str, str]:
    """Return where levels start to stop - 1 begin, and where what follows them does."""
    if isinstance(attribute, Range):
        return number(attribute.low + start), number(attribute.low + stop)
    if isinstance(attribute, Bins):
        return number(attribute.edges[start]), number(attribute.edges[stop])
    first, after = attribute.starts[start], attribute.starts[stop]
    if attribute.zone is None:
        return moment(first), moment(after)
    return number(first.astype(np.int64)), number(after.astype(np.int64))


def _dated(attribute: Dates, column: str) -> str:
    """Return what a filter compares: the time, or on which day of its place a moment is, as it is grouped by.

    A day need not be one stretch of moments: where clocks are set back over midnight, they show two days twice.
    """
    return column if attribute.zone is None else day_number(attribute, column)


def _in_categories(attribute: Attribute, column: str, mask: NDArray[np.bool_]) -> list[str]:
    if isinstance(attribute, Boolean):
        return [
            column if label else f"NOT {column}" for label, wanted in zip((False, True), mask, strict=False) if wanted
        ]
    assert isinstance(attribute, Categories)  # of another kind, a label need not be the value
    levels = [literal(attribute.labels[level]) for level in np.flatnonzero(mask[: attribute.regular])]
    return [f"{column} IN ({', '.join(levels)})"] if levels else []


def _is_other(attribute: Attribute, column: str, kind: str) -> str:
    if isinstance(attribute, (Range, Bins, Dates)):
        return f"(NOT {is_null(column, kind)} AND NOT {_within(attribute, column, kind)})"
    assert isinstance(attribute, Categories)
    levels = ", ".join(literal(label) for label in attribute.labels[: attribute.regular])
    return f"{column} NOT IN ({levels})"


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.r_[False, mask, False].astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]

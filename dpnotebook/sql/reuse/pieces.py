"""Conditions on the column that a key is worked out from, piece by piece of its values: days of months, ages of bands.

DATE_TRUNC('month', ts) and ts >= '2025-03-01' are the same for all moments of a day, but for where a condition says a
moment: so one of them for each day, and what is on both sides of such moments, tell of which months the condition is
true. So do whole numbers between the ends of a Range, and the edges of bins. DuckDB works out the key and the
conditions for these values. What it does not tell for certain, it does not tell: no row is read.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.engine.sealed import without_files
from dpnotebook.sql.reuse.breaks import Breaks, Value, column_of, with_breaks
from dpnotebook.sql.reuse.levels import NotTold, Told
from dpnotebook.sql.reuse.rows import RowsText, read_rows

YEARS_AROUND = datetime.timedelta(days=7 * 366)  # in which every day of the year comes, and every week
LONGEST_SPAN = datetime.timedelta(days=400)
INSTANT = datetime.timedelta(microseconds=1)
MOST = 20_000  # values: they are worked out in milliseconds
VALUE = "v"


@dataclass(frozen=True)
class PieceLevels:
    """The groups of a key, each as the numbers of the pieces that its rows have values in.

    Parameters
    ----------
    values
        By level, the pieces that it has.
    absent
        The pieces whose rows are in no group, each by itself.
    holds
        By the SQL of a condition on the column, whether it is true, by piece; None where it is NULL.
    """

    values: tuple[tuple[int, ...], ...]
    absent: tuple[tuple[int, ...], ...]
    holds: Mapping[str, Sequence[bool | None]]

    def told(self, condition: exp.Expr) -> Told:
        """Return what tells whether a condition on the column is true of rows in some pieces.

        Raises
        ------
        NotTold
            If it is no such condition; and by what is returned, if it is true in some of these pieces only.
        """
        holds = self.holds.get(condition.sql(DIALECT))
        if holds is None:
            raise NotTold

        def told(pieces: Any) -> bool | None:
            if pieces is None:  # no value is in no piece of its own
                return None
            found = {holds[piece] is True for piece in pieces}
            if len(found) != 1:
                raise NotTold
            return found.pop()

        return told

    def has_all(self, conditions: Sequence[Told]) -> bool:
        """Return whether every row is in a group of which some conditions are true together."""
        return all(any(told(piece) is not True for told in conditions) for piece in self.absent)

    def may_hold(self, conditions: Iterable[exp.Expr]) -> list[bool]:
        """Return of each level whether rows can have it of which conditions on the column are true together."""
        told = [holds for one in conditions if (holds := self.holds.get(one.sql(DIALECT))) is not None]

        def may(pieces: tuple[int, ...]) -> bool:  # of a level without pieces nothing is known
            return not pieces or any(all(holds[piece] is True for holds in told) for piece in pieces)

        return [may(pieces) for pieces in self.values]


def piece_levels(
    text: str, number: int, levels: int, conditions: Iterable[exp.Expr], dates: Collection[str] = ()
) -> PieceLevels:
    """Return the groups of a key piece by piece, and which conditions are true there.

    Parameters
    ----------
    text, number
        SQL of rows, and which of their keys it is.
    levels
        How many levels it has.
    conditions
        Those that are not told of the column alone are left out.
    dates
        SQL of columns that hold dates, which have no hours.

    Raises
    ------
    NotTold
        If the key is worked out from several columns, or changes within what is told apart, or no condition is told.
    """
    texts = tuple(sorted({one.sql(DIALECT) for one in conditions}))
    found = _piece_levels(text, number, levels, texts, tuple(dates))
    if found is None:
        raise NotTold
    return found


@functools.lru_cache(maxsize=64)
def _piece_levels(
    text: str, number: int, levels: int, conditions: tuple[str, ...], dates: tuple[str, ...]
) -> PieceLevels | None:
    rows = read_rows(text)
    assert rows is not None
    key, place_of = _number_of_level(rows, rows.keys[number])
    try:
        column = column_of(key)
        key, breaks = with_breaks(key, column)
        told: dict[str, exp.Expr] = {}
        for condition in conditions:
            with contextlib.suppress(NotTold):
                told[condition], more = with_breaks(sqlglot.parse_one(condition, read=DIALECT), column)
                breaks.add(more)
        if not told:
            return None
        worked_out = _worked_out([key, *told.values()], column, _values(breaks, column in dates))
    except NotTold:
        return None
    places: list[list[int]] = [[] for _ in range(levels)]
    absent = []
    for piece, (value, *_) in enumerate(worked_out):
        place = place_of(value)
        if place is None:
            absent.append((piece,))
        elif 0 <= place < levels:
            places[place].append(piece)
    holds = {one: [row[i] for row in worked_out] for i, one in enumerate(told, start=1)}
    return PieceLevels(tuple(map(tuple, places)), tuple(absent), holds)


def _number_of_level(rows: RowsText, key: exp.Expr) -> tuple[exp.Expr, Callable[[Any], int | None]]:
    """Return what a key is worked out as, and what gives the number of the level of that."""
    default = key.args.get("default") if isinstance(key, exp.Case) else None
    listed = default.this if isinstance(default, exp.Coalesce) else None
    if not isinstance(listed, exp.Column) or listed.table not in rows.lists:
        return key, lambda value: value
    (first,) = key.args["ifs"]
    missing, other = _whole(first.args["true"]), _whole(key.args["default"].expressions[0])
    places = {value: place for place, value in rows.lists[listed.table] or ()}
    return first.this.this, lambda value: missing if value is None else places.get(value, other)


def _whole(node: exp.Expr) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) else None


def _values(breaks: Breaks, by_dates: bool) -> list[Value]:
    """Return one value of every piece between the places where something can change, and these places.

    Parameters
    ----------
    breaks
        Where something can change.
    by_dates
        Whether all values are dates: the first moments of days.
    """
    if breaks.numbers and (breaks.moments or breaks.by_days):
        raise NotTold
    if breaks.numbers or breaks.by_wholes or breaks.rounded:
        return _numbers(breaks)
    around = YEARS_AROUND if breaks.periodic else LONGEST_SPAN
    moments = breaks.moments or {datetime.datetime(2000, 1, 1)}
    try:
        first, last = min(moments) - around, max(moments) + around
    except OverflowError:
        raise NotTold from None
    if (last - first).days > MOST:
        raise NotTold
    midnight = datetime.datetime(first.year, first.month, first.day)
    days = {midnight + datetime.timedelta(days=day) for day in range((last - midnight).days + 1)}
    if by_dates:
        return sorted(days)
    found = {moment + step for moment in moments for step in (-INSTANT, 0 * INSTANT, INSTANT)} | {first, last}
    return sorted(found | days if breaks.by_days else found)


def _numbers(breaks: Breaks) -> list[Value]:
    if not breaks.numbers:
        raise NotTold
    first, last = math.floor(min(breaks.numbers)) - 1, math.ceil(max(breaks.numbers)) + 1
    if last - first > MOST:
        raise NotTold
    if breaks.by_wholes and not breaks.rounded and all(float(value).is_integer() for value in breaks.numbers):
        return list(range(first, last + 1))
    wholes = range(first, last + 1) if breaks.by_wholes or breaks.rounded else (first, last)
    edges = sorted({*breaks.numbers, *wholes})
    return sorted({*edges, *((low + high) / 2 for low, high in pairwise(edges))})


def _worked_out(nodes: Sequence[exp.Expr], column: str, values: Sequence[Value]) -> list[tuple[Any, ...]]:
    """Return what expressions over a column are for values of it, and, last, for none."""
    import duckdb

    kind = "TIMESTAMP" if isinstance(values[0], datetime.datetime) else "DOUBLE"
    if all(isinstance(value, int) for value in values):
        kind = "BIGINT"
    for place in [place for node in nodes for place in node.find_all(exp.Column)]:
        place.replace(exp.column(VALUE))
    asked = ", ".join(node.sql(DIALECT) for node in nodes)
    query = f"SELECT {asked} FROM (SELECT unnest(CAST(? AS {kind}[])) AS {VALUE})"
    try:
        with without_files() as connection:
            return connection.execute(query, [[*values, None]]).fetchall()
    except duckdb.Error:
        raise NotTold from None

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
from dpnotebook.sql.reuse.level_lists import Literal
from dpnotebook.sql.reuse.levels import NotTold, Told
from dpnotebook.sql.reuse.rows import read_rows

YEARS_AROUND = datetime.timedelta(days=7 * 366)  # in which every day of the year comes, and every week
LONGEST_SPAN = datetime.timedelta(days=400)
INSTANT = datetime.timedelta(microseconds=1)
MOST = 20_000  # values: they are worked out in milliseconds
VALUE = "v"
Numbers = tuple[int, ...]
Levels = tuple[tuple[int, int], ...]  # the number of a key, and how many levels it has


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
    try:
        key = _key(text, number)
        breaks = key.breaks()
        told: dict[str, str] = {}
        for condition in conditions:
            with contextlib.suppress(NotTold):
                told[condition], more = _condition(condition, key.column)
                breaks.add(more)
        if not told:
            return None
        worked_out = _worked_out([key.sql, *told.values()], _values(breaks, key.column in dates))
    except NotTold:
        return None
    place_of = key.place
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


@dataclass(frozen=True)
class _Key:
    """What a key is worked out as over values of its column, where that can change, and the level of what comes out."""

    sql: str
    column: str
    changes: Breaks
    place: Callable[[Any], int | None]

    def breaks(self) -> Breaks:
        """Return where it can change, to which more can be added."""
        found = Breaks()
        found.add(self.changes)
        return found


def _key(text: str, number: int) -> _Key:
    """Return what a key of rows is worked out as.

    Raises
    ------
    NotTold
        If it is worked out from several columns, or nobody knows where it can change.
    """
    rows = read_rows(text)
    assert rows is not None
    key = rows.keys[number]
    levels = _list_of(key)
    if levels not in rows.lists:
        return _told_key(rows.key_texts[number])
    return _told_key(key.sql(DIALECT), rows.lists[levels] or ())


def _list_of(key: exp.Expr) -> str:
    """Return the name of the list that the levels of a key are looked up in; empty where there is none."""
    default = key.args.get("default") if isinstance(key, exp.Case) else None
    listed = default.this if isinstance(default, exp.Coalesce) else None
    return str(listed.table) if isinstance(listed, exp.Column) else ""


@functools.lru_cache(maxsize=512)
def _told_key(text: str, listed: tuple[tuple[int, Literal], ...] | None = None) -> _Key:
    """Return what the SQL of a key is worked out as, and the level of that, which may be looked up in a list."""
    key = sqlglot.parse_one(text, read=DIALECT)
    if listed is None:
        column = column_of(key)
        key, changes = with_breaks(key, column)
        return _Key(_over_values(key), column, changes, lambda value: value)
    (first,) = key.args["ifs"]
    missing, other = _whole(first.args["true"]), _whole(key.args["default"].expressions[0])
    places = {value: place for place, value in listed}
    key = first.this.this
    column = column_of(key)
    key, changes = with_breaks(key, column, tuple(places))
    return _Key(
        _over_values(key), column, changes, lambda value: missing if value is None else places.get(value, other)
    )


@functools.lru_cache(maxsize=1024)
def _condition(text: str, column: str) -> tuple[str, Breaks]:
    """Return SQL of a condition over values of a column, and where it can change.

    Raises
    ------
    NotTold
        If it is of another column, or nobody knows where it can change.
    """
    node, breaks = with_breaks(sqlglot.parse_one(text, read=DIALECT), column)
    return _over_values(node), breaks


def _over_values(node: exp.Expr) -> str:
    """Return SQL of an expression whose only column has values that are tried."""
    for place in list(node.find_all(exp.Column)):
        place.replace(exp.column(VALUE))
    return node.sql(DIALECT)


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


def _worked_out(asked: Sequence[str], values: Sequence[Value]) -> list[tuple[Any, ...]]:
    """Return what expressions are for values of their column, and, last, for none."""
    import duckdb

    kind = "TIMESTAMP" if isinstance(values[0], datetime.datetime) else "DOUBLE"
    if all(isinstance(value, int) for value in values):
        kind = "BIGINT"
    query = f"SELECT {', '.join(asked)} FROM (SELECT unnest(CAST(? AS {kind}[])) AS {VALUE})"
    try:
        with without_files() as connection:
            return connection.execute(query, [[*values, None]]).fetchall()
    except duckdb.Error:
        raise NotTold from None


@functools.lru_cache(maxsize=1024)
def coarser(
    asked: str, keys: Levels, released: str, finer: Levels, column: str, by_dates: bool
) -> Mapping[Numbers, Numbers | None] | None:
    """Return of which groups the rows of finer groups are, both worked out from one column, by the numbers of levels.

    Parameters
    ----------
    asked, keys
        SQL of the rows of a private aggregation, and by the number of each of its keys of the column how many levels it
        has.
    released, finer
        The same of the one that was released.
    column, by_dates
        SQL of the column, and whether it holds dates, which have no hours.

    Returns
    -------
    None of those whose rows are in no group that is asked; None at all where that is not told, as where rows of a group
    that is asked are in none that was released, or a released one has rows of several.
    """
    if math.prod(levels for _, levels in keys) > math.prod(levels for _, levels in finer):
        return None  # some of them would be of no released group
    try:
        both = [(_key(text, i), levels) for text, of in ((asked, keys), (released, finer)) for i, levels in of]
        wanted, measured = (_conditions_on(column, text) for text in (asked, released))
        breaks = Breaks()
        for key, _ in both:
            breaks.add(key.changes)
        holds: dict[str, str] = {}
        for text in dict.fromkeys((*wanted, *measured)):
            try:
                holds[text], more = _condition(text, column)
            except NotTold:
                if (text in wanted) != (text in measured):
                    raise
                continue  # what both have leaves out the same rows
            breaks.add(more)
        worked_out = _worked_out([*(key.sql for key, _ in both), *holds.values()], _values(breaks, by_dates))
        places = [[key.place(row[i]) for row in worked_out] for i, (key, _) in enumerate(both)]
        if any(set(of) - {None} != set(range(levels)) for of, (_, levels) in zip(places, both, strict=True)):
            return None  # there may be values that were not tried
        true = [all(part) for part in _true_of(worked_out, len(both), holds, wanted)]
        there = [all(part) for part in _true_of(worked_out, len(both), holds, measured)]
        groups = list(zip(*places, strict=True))
        return _parts([group[: len(keys)] for group in groups], true, [group[len(keys) :] for group in groups], there)
    except NotTold:
        return None


def _true_of(
    worked_out: Sequence[tuple[Any, ...]], start: int, told: Collection[str], conditions: Collection[str]
) -> list[list[bool]]:
    """Return of each piece which of some conditions are true; those that are told stand behind the keys."""
    places = [start + i for i, text in enumerate(told) if text in conditions]
    return [[row[place] is True for place in places] for row in worked_out]


def _parts(
    coarse: Sequence[tuple[int | None, ...]],
    asked: Sequence[bool],
    fine: Sequence[tuple[int | None, ...]],
    measured: Sequence[bool],
) -> dict[Numbers, Numbers | None]:
    """Return of which coarse group the rows of each fine one are, given both of each piece, and which of these count.

    Raises
    ------
    NotTold
        If rows of a coarse group are in no fine one, or rows of a fine one are in several, or in part in none.
    """
    found: dict[Any, Any] = {}
    for group, is_asked, part, is_there in zip(coarse, asked, fine, measured, strict=True):
        of = group if is_asked and None not in group else None
        if not is_there or None in part:
            if of is not None:
                raise NotTold
        elif found.setdefault(part, of) != of:
            raise NotTold
    return found


def _conditions_on(column: str, text: str) -> list[str]:
    """Return those conditions of rows that are on one column alone."""
    rows = read_rows(text)
    assert rows is not None
    return [one for one, node in rows.conditions.items() if rows.is_of(node, column)]

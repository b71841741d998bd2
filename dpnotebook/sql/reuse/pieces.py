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
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.safe.typed import FIRST, LAST
from dpnotebook.dialect.text import DIALECT
from dpnotebook.engine.sealed import without_files
from dpnotebook.sql.level_values import SPANS_OF_DAYS
from dpnotebook.sql.reuse.levels import NotTold, Told
from dpnotebook.sql.reuse.rows import RowsText, literal, read_rows

Moment: TypeAlias = datetime.datetime
Value: TypeAlias = Moment | float

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
PERIODIC = {"QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DAYOFYEAR", "DOW", "DAYOFWEEK", "ISODOW"}
YEARS_AROUND = datetime.timedelta(days=7 * 366)  # in which every day of the year comes, and every week
LONGEST_SPAN = datetime.timedelta(days=400)
NUMERIC = exp.DataType.NUMERIC_TYPES
INSTANT = datetime.timedelta(microseconds=1)
MOST = 20_000  # values: they are worked out in milliseconds
VALUE = "v"


@dataclass(frozen=True)
class PieceLevels:
    """The groups of a key, each as the numbers of the pieces that its rows have values in.

    Parameters
    ----------
    column
        SQL of the column that the key is worked out from.
    values
        By level, the pieces that it has.
    absent
        The pieces whose rows are in no group, each by itself.
    holds
        By the SQL of a condition on the column, whether it is true, by piece; None where it is NULL.
    """

    column: str
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


@dataclass
class _Breaks:
    """Where expressions over a column can change.

    Parameters
    ----------
    moments, numbers
        What its values are compared with.
    by_days, by_wholes
        Whether they also change with each day, or with each whole number between the ends that bound these.
    periodic
        Whether they come again year by year.
    """

    moments: set[Moment] = field(default_factory=set)
    numbers: set[float] = field(default_factory=set)
    by_days: bool = False
    by_wholes: bool = False
    periodic: bool = False

    def add(self, other: _Breaks) -> None:
        """Add where other expressions can change."""
        self.moments |= other.moments
        self.numbers |= other.numbers
        self.by_days |= other.by_days
        self.by_wholes |= other.by_wholes
        self.periodic |= other.periodic


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
        If the key is worked out from several columns, or changes within what is told apart.
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
        column = _column(key)
        key, breaks = _with_breaks(key, column)
        told: dict[str, exp.Expr] = {}
        for condition in conditions:
            with contextlib.suppress(NotTold):
                told[condition], more = _with_breaks(sqlglot.parse_one(condition, read=DIALECT), column)
                breaks.add(more)
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
    return PieceLevels(column, tuple(map(tuple, places)), tuple(absent), holds)


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


def _column(node: exp.Expr) -> str:
    """Return SQL of the one column that an expression is of."""
    found = {column.sql(DIALECT) for column in node.find_all(exp.Column)}
    if len(found) != 1 or node.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        raise NotTold
    return found.pop()


def _with_breaks(node: exp.Expr, column: str) -> tuple[exp.Expr, _Breaks]:
    """Return an expression over a column without what keeps moments in the calendar, and where it can change."""
    if _column(node) != column:
        raise NotTold
    holder = exp.Paren(this=node.copy())
    while (case := next(filter(_keeps_in_calendar, holder.find_all(exp.Case)), None)) is not None:
        case.replace(case.args["ifs"][0].args["true"].copy())
    breaks = _Breaks()
    for place in holder.find_all(exp.Column):
        breaks.add(_breaks_above(place))
    return holder, breaks


def _keeps_in_calendar(case: exp.Case) -> bool:
    """Return whether a CASE gives what it asks about, and nothing for moments that no calendar has."""
    branches = case.args["ifs"]
    if case.this is not None or case.args.get("default") is not None or len(branches) != 1:
        return False
    inside, given = branches[0].this, branches[0].args["true"]
    if not isinstance(inside, exp.Between) or inside.this != given:
        return False
    ends = _constants([inside.args["low"], inside.args["high"]])
    return ends == [datetime.datetime.combine(end, datetime.time()) for end in (FIRST, LAST)]


def _breaks_above(place: exp.Expr) -> _Breaks:
    """Return where what stands around a column can change."""
    node, above, by_days, by_wholes = place, place.parent, False, False
    while above is not None:
        if isinstance(above, exp.Floor):
            by_wholes = True
        elif (isinstance(above, exp.Cast) and above.is_type("date")) or isinstance(above, exp.Date) or _is_span(above):
            by_days = True
        elif not isinstance(above, exp.Paren) and not (isinstance(above, exp.Cast) and above.is_type(*NUMERIC)):
            break
        node, above = above, above.parent
    if isinstance(above, exp.Extract):
        return _breaks_of_part(above)
    if isinstance(above, exp.DateDiff) and by_days:
        return _breaks_of_counted_spans(above)
    if isinstance(above, exp.Is) and isinstance(above.expression, exp.Null):
        return _Breaks(by_days=by_days, by_wholes=by_wholes)
    if isinstance(above, exp.Case) and _is_clamp(above, place):
        return _Breaks(by_wholes=True)
    kept = isinstance(above, exp.Least | exp.Greatest)
    found = _ends(node, above) if kept else _constants(_compared(node, above))
    if not found:
        raise NotTold
    moments = {value for value in found if isinstance(value, datetime.datetime)}
    numbers = {value for value in found if not isinstance(value, datetime.datetime)}
    return _Breaks(moments, numbers, by_days, by_wholes or kept)


def _ends(node: exp.Expr, above: exp.Expr | None) -> list[Value]:
    """Return the two ends that a value is kept between."""
    kinds, found = set(), []
    while isinstance(above, exp.Least | exp.Greatest):
        kinds.add(type(above))
        found += _constants(_compared(node, above))
        node, above = above, above.parent
    if len(kinds) < 2:
        raise NotTold
    return found


def _is_span(node: exp.Expr | None) -> bool:
    """Return whether it is the first moment of a span of whole days."""
    unit = node.args.get("unit") if isinstance(node, exp.TimestampTrunc | exp.DateTrunc) else None
    return unit is not None and unit.name.upper() in SPANS_OF_DAYS


def _breaks_of_part(part: exp.Extract) -> _Breaks:
    """Return where what is said of a part of moments, as the month, can change."""
    name, above = part.this.name.upper(), part.parent
    if name in PERIODIC:
        return _Breaks(by_days=True, periodic=True)
    node: exp.Expr = part
    while isinstance(above, exp.Paren | exp.Floor | exp.Cast):
        node, above = above, above.parent
    if name != "YEAR":
        raise NotTold
    if isinstance(above, exp.Is):
        return _Breaks(by_days=True)
    kept = isinstance(above, exp.Least | exp.Greatest)
    years = _ends(node, above) if kept else _constants(_compared(node, above))
    whole = [year for year in years if isinstance(year, int) and 1 <= year < datetime.MAXYEAR]
    if not years or len(whole) < len(years):
        raise NotTold
    return _Breaks({datetime.datetime(year + after, 1, 1) for year in whole for after in (0, 1)}, by_days=True)


def _breaks_of_counted_spans(passed: exp.DateDiff) -> _Breaks:
    """Return where the number of a day, or of a week, can change that is counted from a first one up to a last."""
    (first,) = _constants([passed.expression])
    days, last = 1, 0
    ends: set[type[exp.Expr]] = set()
    above = passed.parent
    while isinstance(above, exp.Paren | exp.Cast | exp.Floor | exp.Add | exp.Div | exp.Least | exp.Greatest):
        others = [*above.expressions, above.args.get("expression")]
        numbers = [literal(one) for one in others if isinstance(one, exp.Literal)]
        if isinstance(above, exp.Div | exp.Least) and type(numbers[0]) is int:
            days, last = (numbers[0], last) if isinstance(above, exp.Div) else (days, numbers[0])
        ends.add(type(above))
        above = above.parent
    if not {exp.Least, exp.Greatest} <= ends or not isinstance(first, datetime.datetime):
        raise NotTold
    return _Breaks({first, first + datetime.timedelta(days=days * (last + 1))}, by_days=True)


def _is_clamp(case: exp.Case, place: exp.Expr) -> bool:
    """Return whether a CASE gives a column between two ends, and these for what is beyond them."""
    branches = [branch.this for branch in case.args["ifs"]]
    if case.this is not None or [type(branch) for branch in branches] != [exp.LT, exp.GT]:
        return False
    columns = [column for branch in branches for column in branch.find_all(exp.Column)]
    return len(columns) == 2 and all(column == place for column in columns)


def _compared(node: exp.Expr, above: exp.Expr | None) -> list[exp.Expr]:
    """Return what a node is compared with; nothing where it is not compared."""
    if isinstance(above, COMPARISONS):
        return [above.expression if above.this is node else above.this]
    if isinstance(above, exp.Between) and above.this is node:
        return [above.args["low"], above.args["high"]]
    if isinstance(above, exp.In) and above.this is node and not above.args.get("query"):
        return list(above.expressions)
    if isinstance(above, exp.Least | exp.Greatest):
        return [one for one in (above.this, *above.expressions) if one is not node]
    return []


def _constants(nodes: Iterable[exp.Expr]) -> list[Value]:
    """Return the moments and numbers that are written out.

    Raises
    ------
    NotTold
        If there is something else.
    """
    found: list[Value] = []
    for node in nodes:
        inner, of_number = node, False
        while isinstance(inner, exp.Paren | exp.Cast):
            of_number |= isinstance(inner, exp.Cast) and inner.is_type(*NUMERIC)
            inner = inner.this
        value = literal(inner) if isinstance(inner, exp.Literal | exp.Neg) else None
        if of_number and isinstance(value, str):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(value)
        elif node.find(exp.Column, exp.Query, exp.Boolean) is None:
            found.append(_moment(node.sql(DIALECT), value))
        else:
            raise NotTold
    return found


def _moment(written: str, text: object) -> Moment:
    """Return the moment that is written out, as a text or worked out from one."""
    import duckdb

    if isinstance(text, str):
        return _read(text)
    try:
        with without_files() as connection:
            found = connection.execute(f"SELECT CAST({written} AS TIMESTAMP)").fetchall()[0][0]
    except duckdb.Error:  # it is said where the statement itself is read
        raise NotTold from None
    if not isinstance(found, datetime.datetime):
        raise NotTold
    return found


def _read(text: str) -> Moment:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise NotTold from None
    if found.tzinfo is not None:
        raise NotTold
    return found


def _values(breaks: _Breaks, by_dates: bool) -> list[Value]:
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
    if breaks.numbers or breaks.by_wholes:
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


def _numbers(breaks: _Breaks) -> list[Value]:
    if not breaks.numbers:
        raise NotTold
    first, last = math.floor(min(breaks.numbers)) - 1, math.ceil(max(breaks.numbers)) + 1
    if last - first > MOST:
        raise NotTold
    if breaks.by_wholes:
        return list(range(first, last + 1))
    edges = sorted(breaks.numbers | {first, last})
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

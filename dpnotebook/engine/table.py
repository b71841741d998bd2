"""True answers of the planner's measurements: histograms of declared attributes, wherever the rows are."""

from __future__ import annotations

import atexit
import hashlib
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import (
    FLOATING,
    INTEGERS,
    EngineColumn,
    contributions,
    day_number,
    in_domain,
    is_null,
    level_number,
    minute_number,
    secret,
    selects,
    time_of_text,
    whole_sum,
)
from dpnotebook.dialect.canonical import in_row
from dpnotebook.dialect.types import OF_THE_DAY, ZONED, check_unit, kind_of
from dpnotebook.domain import Attribute, Bins, Boolean, Dates, Domain, Range, Times
from dpnotebook.engine.base import Source
from dpnotebook.engine.executor import Executor
from dpnotebook.engine.frame_source import FrameSource
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.row_digest import FORMLESS, PlainRows
from dpnotebook.engine.time_zones import check_time_zone
from dpnotebook.errors import DomainError, EngineError, shorten
from dpnotebook.ledger.forks import in_child, lock
from dpnotebook.query.measurement import Axis, Measurement, flat_size
from dpnotebook.query.question import Summand

ENCODED = 2**28  # bytes of the levels of all rows that are held at once: 250 million of up to 256 levels
UNTYPED = ('"NULL"', "NULL")  # of a column all of whose values are missing
TO_DATES = "; make it dates first: frame[{0}] = pd.to_datetime(frame[{0}])"
TO_TIMES = "; make it times first: frame[{0}] = pd.to_datetime(frame[{0}], format='%H:%M')"
HELD = {"number": "numbers", "text": "text", "boolean": "booleans", "date": "dates"}  # what columns hold
AS_DATES = ": declare it as Dates('2023-01-01', '2024-12-31', by='month')"

_engines: weakref.WeakSet[TableEngine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let go of every connection in time: DuckDB reports those that outlive the interpreter as leaks."""
    for engine in list(_engines):
        engine.close()


class TableEngine:
    """The rows of one protected table, bounded to `max_rows` rows a privacy unit.

    A row takes part if every declared attribute has a level for it. Units are bounded once, here, by a sample that is
    uniform over each unit's rows and depends on nothing but those rows and the ledger's key: it is the same in every
    session, and nobody else's rows change it.

    Parameters
    ----------
    source
        Where the rows are.
    domain
        The declared attributes.
    unit
        The column that identifies a privacy unit; None: every row is one.
    max_rows
        Most rows of a unit that take part; without it, with a `unit`, nothing can be counted here.
    key
        The ledger's secret.
    as_written
        Whether the sample is drawn by how the database writes values, as earlier versions did: a ledger's tables keep
        the sample that was paid for. Otherwise it is by their canonical texts, the same whatever holds the rows.

    Raises
    ------
    DomainError
        If a declared column is of another type than declared, or the unit has no canonical form.
    """

    def __init__(
        self,
        source: Source,
        domain: Domain,
        unit: str | None,
        max_rows: int | None,
        key: bytes,
        *,
        as_written: bool = False,
    ) -> None:
        self.domain = domain
        self._as_written = as_written
        self._sums: tuple[int, int] | None = None
        self._drawn: tuple[int, int] | None = None
        self._source, self._unit, self._max_rows, self._ledger_key = source, unit, max_rows, key
        self._lock = lock()
        self._executor: Executor | None = None
        self._open()
        in_child(self._forget_parent)

    def _forget_parent(self) -> None:
        """Forget the parent's connection: this process opens its own when it counts."""
        self._left, self._executor = self._executor is not None, None

    def _open(self) -> None:
        """Connect, check what is declared, and bound the units; again after a database went away."""
        domain, unit = self.domain, self._unit
        self._left = False
        self._executor, relation = self._source.connect(unit)
        _engines.add(self)
        names = list(dict.fromkeys([*domain, *([unit] if unit else [])]))
        times = [name for name, attribute in domain.items() if isinstance(attribute, Times)]
        self._rows = PlainRows(self._executor, relation, self._source, names, unit, times)
        self._relation = self._rows.sql
        self._filter: str | None = None
        self.columns = {name: EngineColumn(f"c{i}", self._rows.kinds[i]) for i, name in enumerate(names)}
        if unit is not None:
            check_unit(unit, kind_of(self._rows.types[names.index(unit)], unit=True))
        zoned = self._source.zoned
        for name, attribute in domain.items():
            if isinstance(attribute, Dates | Times):
                stored = self._rows.types[names.index(name)]
                if stored not in UNTYPED:
                    check_time_zone(name, attribute, name in zoned or stored in ZONED)
                if isinstance(attribute, Times) and stored in OF_THE_DAY:  # which are texts to every engine
                    self.columns[name] = EngineColumn(time_of_text(self.columns[name].sql), "TIMESTAMP")
            self.columns[name] = _checked(name, attribute, self.columns[name])
        self._filter = self._domain_filter()
        if self._sums is None and not self._as_written:
            self._sums = self._summed("rows")
        self._bounded = unit is None
        if domain and (unit is None or self._max_rows is not None):
            self._bound()  # otherwise it is SQL that is asked, which bounds by itself

    def _bound(self) -> None:
        if not self._bounded:
            assert self._unit is not None
            assert self._max_rows is not None
            self._bound_units(self.columns[self._unit], self._max_rows, self._ledger_key)
            self._bounded = True

    @property
    def fingerprint(self) -> str:
        """A keyed digest of the unit and the declared columns of all rows, and of the sample of them that counts.

        With another sample it is another table: nobody's rows are in two samples and paid for as if in one.
        """
        return FORMLESS + keyed(self._ledger_key, "table", *self.columns, repr(self._sums), repr(self._drawn))

    def totals(self, measurement: Measurement) -> NDArray[np.int64]:
        """Return what the rows add up to in every cell of a measurement's histogram.

        Returns
        -------
        numpy.ndarray
            int64, shape (components, cells), cells in C order over the axes.
        """
        return self.totals_of([measurement])[0]

    def totals_of(self, measurements: Sequence[Measurement]) -> list[NDArray[np.int64]]:
        """Return the totals of measurements of the same rows and axes, read at once; see `totals`."""
        self._bound()
        first = measurements[0]
        sums = [self._sums_of(one.summand) for one in measurements]
        keys = [self._key(axis) for axis in first.axes]
        named = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        named += [f"{part} AS s{i}" for i, part in enumerate(part for parts in sums for part in parts)]
        rows = self._where(selects(first.where, self.domain, self.columns))
        query = f"SELECT {', '.join(named)} FROM {self._relation} AS r{rows}"
        if keys:
            query += " GROUP BY " + ", ".join(f"k{i}" for i in range(len(keys)))
        found = self._columns(query)
        cells = np.zeros(len(next(iter(found.values()))), dtype=np.int64)
        kept = np.ones(cells.size, dtype=bool)
        for i, axis in enumerate(first.axes):
            position = self._positions(axis, found[f"k{i}"])
            kept &= position >= 0
            cells = cells * axis.size + position
        every, place = [], 0
        for parts in sums:
            totals = np.zeros((len(parts), flat_size(first.axes)), dtype=np.int64)
            for component in totals:
                values = np.ma.filled(np.ma.asarray(found[f"s{place}"]), 0).astype(np.int64)
                np.add.at(component, cells[kept], values[kept])
                place += 1
            every.append(totals)
        return every

    def totals_apart(self, measurements: Sequence[Measurement]) -> list[NDArray[np.int64]]:
        """Return how many of the same rows have each level of one axis, for several such measurements, in one scan."""
        self._bound()
        axes = [one.axes[0] for one in measurements]
        keys = [f"k{i}" for i in range(len(axes))]
        rows = self._where(selects(measurements[0].where, self.domain, self.columns))
        named = ", ".join(f"{self._key(axis)} AS {key}" for axis, key in zip(axes, keys, strict=True))
        # A key is missing in the groups of the others, as where a value is missing: GROUPING tells the two apart.
        told = ", ".join(f"{key}, GROUPING({key}) AS not_{key}" for key in keys)
        sets = ", ".join(f"({key})" for key in keys)
        found = self._columns(
            f"SELECT {told}, count(*) AS n FROM (SELECT {named} FROM {self._relation} AS r{rows}) AS keyed "
            f"GROUP BY GROUPING SETS ({sets})"
        )
        number = np.ma.filled(np.ma.asarray(found["n"]), 0).astype(np.int64)
        every = []
        for axis, key in zip(axes, keys, strict=True):
            own = np.flatnonzero(np.ma.filled(np.ma.asarray(found[f"not_{key}"]), 1) == 0)
            position = self._positions(axis, found[key][own])
            totals = np.zeros((1, axis.size), dtype=np.int64)
            np.add.at(totals[0], position[position >= 0], number[own][position >= 0])
            every.append(totals)
        return every

    def levels(self, measurement: Measurement) -> list[NDArray[Any]] | None:
        """Return which level of each axis every row is in that takes part in a measurement.

        Returns
        -------
        One array of the smallest unsigned integers an axis, shape (rows,). None where that would take more than
        `ENCODED` bytes, something else than rows is counted, or the rows are not in memory already.
        """
        self._bound()
        axes, selected = measurement.axes, selects(measurement.where, self.domain, self.columns)
        if not isinstance(self._source, FrameSource) or not axes or measurement.summand.column is not None:
            return None
        rows = f"FROM {self._relation} AS r"
        where = self._where(selected)
        number = int(self._columns(f"SELECT count(*) AS n {rows}{where}")["n"][0])
        if number * len(axes) > ENCODED:
            return None
        assert self._executor is not None
        keys, joins, found = [], "", {}
        for i, axis in enumerate(axes):
            key, values, attribute = self._key(axis), f"levels_of_axis_{i}", self.domain[axis.attribute]
            if isinstance(attribute, (Range, Bins, Dates)):
                small = not isinstance(attribute, Dates) and attribute.size < 2**15
                keys.append(f"CAST({key} AS {'SMALLINT' if small else 'BIGINT'}) AS k{i}")
                continue
            # What is distinct to GROUP BY is so to this join, so that levels are looked up as after grouping.
            distinct = f"SELECT row_number() OVER () - 1 AS p, k FROM (SELECT DISTINCT {key} AS k {rows})"
            self._executor.keep(values, distinct)
            known = self._columns(f"SELECT p, k FROM {values}")
            place = np.empty(len(known["p"]), dtype=np.int64)
            place[np.ma.getdata(known["p"])] = self._positions(axis, known["k"])
            found[i] = place
            keys.append(f"{values}.p AS k{i}")
            joins += f" LEFT JOIN {values} ON {key} IS NOT DISTINCT FROM {values}.k"
        read = self._columns(f"SELECT {', '.join(keys)} {rows}{joins}{where}")
        kept = np.ones(number, dtype=bool)
        levels: list[NDArray[Any]] = []
        for i, axis in enumerate(axes):
            codes = read.pop(f"k{i}")
            place = found[i][np.ma.getdata(codes)] if i in found else self._positions(axis, codes)
            kept &= place >= 0
            levels.append(np.maximum(place, 0).astype(np.min_scalar_type(max(axis.size - 1, 0))))
        return levels if kept.all() else [one[kept] for one in levels]

    def close(self) -> None:
        """Close the connection; nothing can be counted any more. Closing again does nothing."""
        with self._lock:
            if self._executor is not None:
                self._executor.close()
                self._executor = None

    def _sums_of(self, summand: Summand) -> list[str]:
        """Return SQL of what rows add up to, one a component."""
        if summand.column is None:
            return ["count(*)"]
        attribute, column = self.domain[summand.column], self.columns[summand.column]
        return [whole_sum(part) for part in contributions(summand, attribute, column.sql, column.kind)]

    def _key(self, axis: Axis) -> str:
        attribute, column = self.domain[axis.attribute], self.columns[axis.attribute]
        if isinstance(attribute, Dates):
            return day_number(attribute, column.sql)  # looked up after grouping, as categories are
        if isinstance(attribute, Times):
            return minute_number(attribute, column.sql)
        if isinstance(attribute, (Range, Bins)):
            return level_number(attribute, column.sql, column.kind)
        return column.sql  # a category is looked up after grouping: there are few groups and many rows

    def _positions(self, axis: Axis, found: NDArray[Any]) -> NDArray[Any]:
        attribute = self.domain[axis.attribute]
        if isinstance(attribute, Dates):
            days = np.ma.asarray(found)
            levels = attribute.levels_of_days(np.ma.filled(days, 0).astype(np.int64), np.ma.getmaskarray(days))
        elif isinstance(attribute, Times):
            minutes = np.ma.asarray(found)
            numbers = np.ma.filled(minutes, 0).astype(np.int64)
            levels = attribute.levels_of_minutes(numbers, np.ma.getmaskarray(minutes))
        elif isinstance(attribute, (Range, Bins)):
            codes = np.ma.asarray(found)
            levels = np.ma.filled(codes if codes.dtype.kind == "i" else codes.astype(np.int64), -1)
        else:
            values = np.ma.getdata(found).astype(object)
            values[np.ma.getmaskarray(found)] = None
            levels = attribute.encode(values)
        # As small as levels fit into: rows are looked up by the million.
        position = np.full(attribute.size + 1, -1, dtype=np.int16 if attribute.size < 2**15 else np.int64)
        position[list(axis.levels)] = np.arange(axis.size)
        return position[levels]

    def _domain_filter(self) -> str | None:
        """Return the condition that a row has a level in every attribute; None when all rows do, which is usual."""
        found = [
            condition
            for name, attribute in self.domain.items()
            for column in [self.columns[name]]
            for condition in (column.valid, in_domain(attribute, column.sql, column.kind))
        ]
        conditions = [condition for condition in found if condition is not None]
        if not conditions:
            return None
        every = " AND ".join(f"coalesce({condition}, FALSE)" for condition in conditions)
        outside = self._any(f"SELECT 1 AS one FROM {self._relation} AS r WHERE NOT ({every}) LIMIT 1")
        return every if outside else None

    def _bound_units(self, unit: EngineColumn, max_rows: int, key: bytes) -> None:
        salt = secret(hashlib.blake2b(b"sample", key=key, digest_size=16).hexdigest())
        parts = [f"c{i}" for i in range(len(self.columns))]
        texts = [f"CAST(r{i} AS VARCHAR)" for i in range(len(parts))] if self._as_written else self._rows.texts
        shown = "".join(f", {text} AS p{i}" for i, text in enumerate(texts))
        row = ", ".join(in_row(f"p{i}") for i in range(len(texts)))
        owned = " AND ".join(part for part in (f"NOT {is_null(unit.sql, unit.kind)}", self._filter) if part)
        rows = f"(SELECT * FROM {self._relation} AS r WHERE {owned}) AS r"
        # Few units have more rows than count, usually, and only theirs are put in an order: that takes the time.
        many = f"SELECT {unit.sql} AS many FROM {rows} GROUP BY {unit.sql} HAVING count(*) > {int(max_rows)}"
        if not self._any(f"SELECT 1 AS one FROM ({many}) AS m LIMIT 1"):
            self._filter = owned
            return
        # Equal rows of a unit are numbered, so that each of them has its own chance to be drawn.
        twin = f"row_number() OVER (PARTITION BY {', '.join(parts)})"
        numbered = f"SELECT r.*, {twin} AS twin{shown} FROM {rows} JOIN ({many}) AS m ON {unit.sql} = many"
        order = f"md5(concat({salt}, {row}, '#', twin))"
        drawn = (
            f"SELECT *, row_number() OVER (PARTITION BY {unit.sql} ORDER BY {order}) AS place FROM ({numbered}) AS n"
        )
        columns = ", ".join(parts)
        some = f"SELECT {columns} FROM ({drawn}) AS d WHERE place <= {int(max_rows)}"
        others = f"SELECT {columns} FROM {rows} LEFT JOIN ({many}) AS m ON {unit.sql} = many WHERE many IS NULL"
        assert self._executor is not None
        self._relation, self._filter = self._executor.keep("bounded", f"{some} UNION ALL {others}"), None
        if self._drawn is None and not self._as_written:
            self._drawn = self._summed("sample", self._relation)

    def _summed(self, what: str, relation: str | None = None) -> tuple[int, int]:
        with self._lock:
            found = self._rows.sums(self._ledger_key, what, relation)
            self._source.check_still()
            return found

    def _where(self, condition: str | None) -> str:
        conditions = [part for part in (condition, self._filter) if part]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _any(self, query: str) -> bool:
        return len(self._columns(query)["one"]) > 0

    def _columns(self, query: str) -> dict[str, NDArray[Any]]:
        with self._lock:
            if self._left:
                self._open()
            if self._executor is None:
                raise EngineError("the table's connection was closed; protect the table again in a new session")
            if self._executor.broken:
                self._executor.close()
                self._open()  # before the charge, the source has made sure that the rows are the same
            found = self._executor.columns(query)
            self._source.check_still()
            return found


def _checked(name: str, attribute: Attribute, column: EngineColumn) -> EngineColumn:
    """Check that a column holds what is declared, and return how to read it."""
    holds, wanted = _holds(column.kind), HELD[attribute.holds]
    if isinstance(attribute, Times) and column.kind == "DATE":
        raise DomainError(f"{shorten(name)} holds days, which have no time of day; declare it as Dates(...)")
    if isinstance(attribute, Boolean) and holds == "numbers":  # 0 and 1; other numbers are no truth values
        valid = f"({is_null(column.sql, column.kind)} OR {column.sql} IN (0, 1))"
        return EngineColumn(f"(CASE {column.sql} WHEN 0 THEN FALSE WHEN 1 THEN TRUE END)", "BOOLEAN", valid)
    if holds == "nothing":  # every value is missing
        kind = {"numbers": "DOUBLE", "booleans": "BOOLEAN", "text": "VARCHAR", "dates": "TIMESTAMP"}[wanted]
        return EngineColumn(f"CAST({column.sql} AS {kind})", kind)
    if holds != wanted:
        to_them = TO_TIMES if isinstance(attribute, Times) else TO_DATES
        hint = to_them.format(shorten(name)) if (wanted, holds) == ("dates", "text") else ""
        hint = hint or (AS_DATES if holds == "dates" else "")
        raise DomainError(
            f"{shorten(name)} is declared as {shorten(attribute)}, which is for {wanted}, but the column holds "
            f"{holds}{hint}"
        )
    if column.kind == "DATE":
        return EngineColumn(f"CAST({column.sql} AS TIMESTAMP)", "TIMESTAMP")
    return EngineColumn(f"CAST({column.sql} AS VARCHAR)", "VARCHAR") if column.kind.startswith("ENUM") else column


def _holds(kind: str) -> str:
    if kind in INTEGERS or kind in FLOATING or kind.startswith("DECIMAL"):
        return "numbers"
    if kind == "VARCHAR" or kind.startswith("ENUM"):
        return "text"
    if kind in UNTYPED:
        return "nothing"
    if kind_of(kind) == "time":
        return "dates"
    # Of a nested type no more than its head: the rest can hold names that were values.
    return "booleans" if kind == "BOOLEAN" else kind.split("(")[0].split(" ")[0]

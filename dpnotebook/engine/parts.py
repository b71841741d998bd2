"""A table that grew by parts: where its rows are, and true answers from each part in its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.types import check_unit, kind_of
from dpnotebook.domain.parts import PART
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.executor import DuckDBExecutor
from dpnotebook.engine.frame_source import FrameSource
from dpnotebook.engine.frame_transfer import carried
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.row_digest import PlainRows
from dpnotebook.engine.table import TableEngine
from dpnotebook.errors import DomainError, EngineError, shorten
from dpnotebook.planner.to_linear import parts_read
from dpnotebook.query.measurement import Measurement

if TYPE_CHECKING:
    import pandas as pd

NUMBER = "__number"  # of a row, beside its unit
MOST_COMPARED = 1_000_000  # rows of a part, about: of larger ones those whose digests are multiples of a number
FEWEST_SHARED = 10  # rows in two parts that are no chance
TIMES_CHANCE = 10.0  # so many times the share of rows that are alike in a part is no chance between two of them


@dataclass(frozen=True, eq=False)
class PartsSource(Source):
    """The rows of several parts, which statements read as one table with a column that says which part a row is in.

    Parameters
    ----------
    each
        Where the rows of each are, from the first; all can be read by one connection of ours.
    """

    each: tuple[Source, ...]

    @property
    def parts(self) -> tuple[Source, ...]:
        """Where the rows of each are."""
        return self.each

    @property
    def place(self) -> tuple[str, Any]:
        """Where it can be read."""
        return DUCKDB

    @property
    def columns(self) -> Sequence[str]:
        """The columns that all parts have, and that of the parts."""
        others = [set(part.columns) for part in self.parts[1:]]
        return [*(name for name in self.parts[0].columns if all(name in names for names in others)), PART]

    @property
    def clocks(self) -> Mapping[str, str]:
        """The time zones of columns of moments, as the first part has them: what was asked of it keeps its meaning."""
        return self.each[0].clocks

    def connect(self, unit: str | None = None) -> tuple[DuckDBExecutor, str]:
        """Parts are read one by one, or together in a workspace."""
        raise NotImplementedError

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Each part has a fingerprint of its own."""
        raise NotImplementedError

    def shows(self, protected: Source) -> bool:
        """Return whether one of the parts does."""
        return any(part.shows(protected) for part in self.parts)

    def check_unchanged(self) -> None:
        """Raise FrameChanged if the rows of a part can no longer be read as they were."""
        for part in self.parts:
            part.check_unchanged()


def check_together(source: Source) -> None:
    """Raise DomainError if rows cannot be put together with those of other parts."""
    if source.place != DUCKDB:
        raise DomainError(
            "parts of a table are frames, Parquet files or tables in DuckDB, not tables in PostgreSQL or Spark: there, "
            "a table of its own for each part is protected under a name of its own, and what they cost adds up"
        )


def without_units(source: Source, unit: str, earlier: Sequence[Source]) -> FrameSource:
    """Return a snapshot of the rows whose unit has none in earlier parts.

    Parameters
    ----------
    source
        Where the rows are.
    unit
        The column that identifies units.
    earlier
        Where the rows of the earlier parts are.

    Raises
    ------
    DomainError
        If units are of another kind there.
    """
    import pandas as pd

    frame, types = _frame_of(source, unit)
    numbered = pd.DataFrame({unit: frame[unit].reset_index(drop=True), NUMBER: np.arange(len(frame))})
    own = FrameSource(numbered, FrameColumns(numbered, {unit: types[unit]} if unit in types else None))
    kind, texts, numbers = _units(own, unit, [NUMBER])
    known: set[str] = set()
    for part in earlier:
        other, found, _ = _units(part, unit)
        if other != kind:
            raise DomainError(
                f"{shorten(unit)} does not hold the same kind of values in all parts, so that it cannot be told who is "
                "in two of them; convert it"
            )
        known.update(found)
    new = np.array([text not in known for text in texts], dtype=bool)
    kept = frame.iloc[np.sort(numbers[new])]
    return FrameSource(source.frame if isinstance(source, FrameSource) else kept, FrameColumns(kept, types))


class RowDigests:
    """Digests of the rows of a part, which are compared with those of other parts, and kept nowhere else.

    Parameters
    ----------
    source
        Where the rows are.
    """

    def __init__(self, source: Source) -> None:
        self.columns = tuple(source.columns)
        self._source = source
        self._found: dict[tuple[str, ...], tuple[NDArray[np.uint64], int]] = {}

    def share(self, earlier: RowDigests) -> bool:
        """Return whether far more rows are in an earlier part too than are alike within either.

        By chance about as many rows have their like in another part as in their own.

        Parameters
        ----------
        earlier
            Those of that part.
        """
        theirs = set(earlier.columns)
        columns = tuple(name for name in self.columns if name in theirs)
        try:
            found = [each.of(columns) for each in (self, earlier)]
        except DomainError:  # a column of a frame that nothing can read
            return False
        every = max(multiples for _, multiples in found)
        both = [digests[digests % every == 0] for digests, _ in found]
        distinct = [np.unique(digests) for digests in both]
        shared = len(np.intersect1d(distinct[0], distinct[1], assume_unique=True))
        if shared < FEWEST_SHARED:
            return False
        alike = max((len(rows) - len(one) + 1) / len(rows) for rows, one in zip(both, distinct, strict=True))
        return shared / min(map(len, distinct)) > TIMES_CHANCE * alike

    def of(self, columns: tuple[str, ...]) -> tuple[NDArray[np.uint64], int]:
        """Return digests by some columns, of very many rows those that are multiples of a power of two, and that.

        Raises
        ------
        DomainError
            If a column holds what nothing can read.
        """
        if columns not in self._found:
            with self._source.reading(columns, None) as (executor, relation):
                rows = PlainRows(executor, relation, self._source, columns, None)
                if not rows.canonical:
                    raise DomainError("some columns hold no single values")
                texts, read = rows.parted()
                count = int(executor.columns(f"SELECT COUNT(*) AS n FROM {relation}")["n"][0])
                every = 1 << (count // MOST_COMPARED).bit_length()
                hashed = f"SELECT hash(concat({', '.join(texts)})) AS h FROM {read}"
                found = executor.columns(f"SELECT h FROM ({hashed}) AS digests WHERE h % {every} = 0")
            self._found[columns] = np.asarray(found["h"], dtype=np.uint64), every
        return self._found[columns]


def _frame_of(source: Source, unit: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows as a frame, and the types of columns that came from DuckDB."""
    frame = source.as_given()
    if frame is not None and source.rows is not None:
        return frame, dict(source.rows.types)
    with source.reading(list(source.columns), unit) as (executor, relation):
        assert isinstance(executor, DuckDBExecutor)
        return carried(executor, relation)


def _units(source: Source, unit: str, beside: Sequence[str] = ()) -> tuple[bool, list[str], NDArray[np.int64]]:
    """Return whether units are texts, and of each row that has one its text and its number."""
    with source.reading([unit, *beside], unit) as (executor, relation):
        rows = PlainRows(executor, relation, source, [unit, *beside], unit)
        check_unit(unit, kind_of(rows.types[0], unit=True))
        shown = "c1 AS n" if beside else "0 AS n"
        query = f"SELECT {rows.texts[0]} AS t, {shown} FROM {rows.sql} AS r WHERE c0 IS NOT NULL"
        found = executor.columns(query)
        return rows.kinds[0] == "VARCHAR", list(found["t"]), np.asarray(found["n"], dtype=np.int64)


class PartsEngine:
    """The rows of a protected table, part by part; see `TableEngine`.

    Parameters
    ----------
    engines
        Of the parts that are here, from the first.
    """

    def __init__(self, engines: Sequence[TableEngine]) -> None:
        self._engines = tuple(engines)

    def totals(self, measurement: Measurement) -> NDArray[np.int64]:
        """Return what the rows add up to in every cell of a measurement's histogram; see `TableEngine.totals`.

        Raises
        ------
        EngineError
            If it needs a part that is not here.
        """
        parts = parts_read(measurement)
        if any(part >= len(self._engines) for part in parts):
            raise EngineError(f"part {parts[-1] + 1} of the table is not protected in this session")
        names = [axis.attribute for axis in measurement.axes]
        place = names.index(PART) if PART in names else None
        others = tuple(axis for axis in measurement.axes if axis.attribute != PART)
        sizes = [axis.size for axis in measurement.axes]
        totals = np.zeros((measurement.summand.components, *sizes), dtype=np.int64)
        for part in parts:
            inside = replace(measurement, axes=others, where=measurement.where.given(PART, part))
            found = self._engines[part].totals(inside)
            if place is None:
                totals += found.reshape(totals.shape)
            else:
                shown = np.moveaxis(totals, place + 1, 0)[measurement.axes[place].levels.index(part)]
                shown[...] = found.reshape(shown.shape)
        return totals.reshape(totals.shape[0], math.prod(sizes))

    def totals_of(self, measurements: Sequence[Measurement]) -> list[NDArray[np.int64]]:
        """Return the totals of measurements of the same rows and axes; see `TableEngine.totals_of`."""
        return [self.totals(one) for one in measurements]

    def totals_apart(self, measurements: Sequence[Measurement]) -> list[NDArray[np.int64]]:
        """Return how many rows have each level of one axis, for several; see `TableEngine.totals_apart`."""
        return [self.totals(one) for one in measurements]

    def levels(self, measurement: Measurement) -> None:
        """Return nothing: parts are counted where they are; see `TableEngine.levels`."""

    def close(self) -> None:
        """Close the connections of all parts."""
        for engine in self._engines:
            engine.close()

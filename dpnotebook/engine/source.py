"""The engines, and which of them has the rows of what is given.

An engine is a class of `Engine`, with a `Source` (`engine/base.py`) and a `Home` (`engine/homes.py`), and its place in
`ENGINES`. Nothing else tells engines apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpnotebook.engine.arrow import frame_of, is_arrow
from dpnotebook.engine.base import DUCKDB, Source
from dpnotebook.engine.duckdb_home import DuckDBHome
from dpnotebook.engine.duckdb_source import duckdb_source
from dpnotebook.engine.files import existing
from dpnotebook.engine.frame_source import FrameSource
from dpnotebook.engine.frames import FrameColumns
from dpnotebook.engine.homes import Held, Home
from dpnotebook.engine.parquet_source import ParquetSource
from dpnotebook.errors import DomainError

if TYPE_CHECKING:
    import pandas as pd

Carry = Callable[[Held], "pd.DataFrame"]  # fetches a public table from another database


class Engine(ABC):
    """A kind of place that rows can be in.

    Attributes
    ----------
    place
        The first half of `Source.place` of its rows.
    title
        What it is called in errors.
    """

    place: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def source(self, data: Any) -> Source | None:
        """Return where the rows of `data` are; None if that is nothing of this engine.

        Raises
        ------
        DomainError
            If it is, and cannot be protected.
        """

    @abstractmethod
    def home(self, database: Any, tables: Sequence[Held], carry: Carry) -> Home:
        """Return a connection in which tables have their names.

        Parameters
        ----------
        database
            The second half of the place of the tables that it is for.
        tables
            All that statements may name.
        carry
            Fetches a public table from another database.
        """


class InDuckDB(Engine):
    """What one connection of ours to DuckDB can read, side by side."""

    place = DUCKDB[0]
    title = "DuckDB"

    def home(self, database: Any, tables: Sequence[Held], carry: Carry) -> Home:
        """Return a sealed connection that sees all of it."""
        return DuckDBHome(tables, carry)


class FrameEngine(InDuckDB):
    """Frames of pandas, and tables in Arrow's form, of pyarrow, polars and others."""

    def source(self, data: Any) -> Source | None:
        """Return a snapshot of a frame."""
        import pandas as pd

        if isinstance(data, FrameSource):
            return data
        if is_arrow(data) and not _is_spark(data):
            data = frame_of(data)
        if not isinstance(data, pd.DataFrame):
            if type(data).__module__.startswith("polars.") and hasattr(data, "collect"):
                raise DomainError(f"a {type(data).__name__} of polars has no rows yet: give .collect() of it")
            return None
        if not data.columns.is_unique:
            raise DomainError("the frame has two columns of the same name; give them different names first")
        return FrameSource(data.copy(deep=False), FrameColumns(data))


class ParquetEngine(InDuckDB):
    """Parquet files, given as their path."""

    def source(self, data: Any) -> Source | None:
        """Return a file as it is now."""
        return ParquetSource.of(existing(Path(data))) if isinstance(data, (str, Path)) else None


class PostgresEngine(Engine):
    """Tables and views in PostgreSQL, given as ("postgresql://...", table)."""

    place = "postgres"
    title = "PostgreSQL"

    def source(self, data: Any) -> Source | None:
        """Return a table as a connection sees it now."""
        database, table = _pair(data)
        if not isinstance(database, str) or not database.startswith(("postgresql://", "postgres://")):
            return None
        from dpnotebook.engine.postgres_source import PostgresSource

        return PostgresSource(database, table)

    def home(self, database: Any, tables: Sequence[Held], carry: Carry) -> Home:
        """Return a connection that sees those of its own database."""
        from dpnotebook.engine.postgres_home import PostgresHome

        return PostgresHome(database, [one for one in tables if one.source.place == (self.place, database)], carry)


class SparkEngine(Engine):
    """Spark DataFrames, and tables, given as (session, table)."""

    place = "spark"
    title = "Spark"

    def source(self, data: Any) -> Source | None:
        """Return a frame, or a table of a session."""
        database, table = _pair(data)
        if not _is_spark(data) and not _is_spark(database):
            return None
        from dpnotebook.engine.spark_source import SparkSource

        return SparkSource.of(data) if _is_spark(data) else SparkSource.of(database, table)

    def home(self, database: Any, tables: Sequence[Held], carry: Carry) -> Home:
        """Return the user's session."""
        from dpnotebook.engine.spark_home import SparkHome

        return SparkHome(database, carry)


class DuckDBEngine(InDuckDB):
    """Tables and views in DuckDB, given as (file, table) or (connection, table)."""

    def source(self, data: Any) -> Source | None:
        """Return a table in a file or a connection."""
        database, table = _pair(data)
        if isinstance(database, (str, Path)):
            database = existing(Path(database))
        return duckdb_source(database, table) if isinstance(database, Path) or hasattr(database, "cursor") else None


ENGINES: tuple[Engine, ...] = (FrameEngine(), SparkEngine(), ParquetEngine(), PostgresEngine(), DuckDBEngine())


def source_of(data: Any) -> Source:
    """Return where the rows of `data` are.

    Parameters
    ----------
    data
        A pandas DataFrame; a table in Arrow's form, of pyarrow or polars; the path of a Parquet file; (database, table)
        with the path of a DuckDB file, an open DuckDB connection, the address "postgresql://..." of a PostgreSQL
        database, or a Spark session; or a Spark DataFrame.

    Raises
    ------
    DomainError
        If it is none of these, or the file or table is not there.
    """
    found = next((found for engine in ENGINES if (found := engine.source(data)) is not None), None)
    if found is None:
        raise DomainError(
            f"cannot protect a {type(data).__name__}: give a pandas or polars DataFrame, the path of a Parquet file, "
            "(database, table) with a DuckDB file or connection, or tables in PostgreSQL or Spark"
        )
    return found


def engine_of(place: tuple[str, Any]) -> Engine:
    """Return the engine of a source's place."""
    return next(engine for engine in ENGINES if engine.place == place[0])


def _pair(data: Any) -> tuple[Any, str]:
    """Return (database, table) where that is what is given; (None, "") otherwise."""
    return data if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], str) else (None, "")


def _is_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.")

"""Tables in Spark, asked where they are.

A Spark table is a recipe, not a snapshot: it must give the same rows whenever it is asked, as files that stay as they
are do. Spark is told, for our queries only, to give NULL where it would stop, and to take times as UTC.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpnotebook.engine.dialects import translated
from dpnotebook.engine.executor import failed
from dpnotebook.engine.found import arrays
from dpnotebook.engine.kinds import kind_of
from dpnotebook.engine.source import keyed
from dpnotebook.engine.sql import literal
from dpnotebook.errors import DomainError, EngineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
_TYPES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
}
_numbers = itertools.count()


@contextlib.contextmanager
def told(session: SparkSession) -> Iterator[None]:
    """Set what our queries need, and put it back."""
    before = {name: session.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep pyspark from writing what Spark says of a failure: it may hold values."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class SparkExecutor:
    """A Spark session, with names of ours for its tables.

    Parameters
    ----------
    session
        The user's.
    """

    dialect = "spark"
    broken = False

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._names: dict[str, str] = {}
        self._kept: list[DataFrame] = []

    def columns(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        described, rows = self.read(translated(query, "spark", self._names))
        return arrays([name for name, _ in described], [kind_of(kind) for _, kind in described], rows)

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        text = translated(query, "spark", self._names)
        with self._careful():
            return _described(self.session.sql(text))

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query, in memory where there is room and else on the disks of the cluster."""
        text = translated(query, "spark", self._names)
        with self._careful():
            frame = self.session.sql(text).persist()
            self.show(name, frame)
            frame.count()
        self._kept.append(frame)
        return name

    def show(self, name: str, frame: DataFrame) -> None:
        """Give a frame a name in our queries; the session sees another one, which is nobody else's."""
        hidden = self._names.get(name) or f"dpnotebook_{os.getpid()}_{next(_numbers)}"
        with self._careful():
            frame.createOrReplaceTempView(hidden)
        self._names[name] = hidden

    def hidden(self, name: str) -> str:
        """Return what the session calls a table of ours."""
        return self._names[name]

    def made(self, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
        """Return a frame of public rows."""
        with self._careful():
            return self.session.createDataFrame(list(rows), schema)

    def read(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Return names and types of the columns of a query in Spark's words, and its rows."""
        with self._careful():
            frame = self.session.sql(text)
            return _described(frame), [tuple(row) for row in _without_zones(frame).collect()]

    def close(self) -> None:
        """Drop our names; the session is the user's and goes on."""
        with contextlib.suppress(Exception):  # it may have been stopped
            for frame in self._kept:
                frame.unpersist()
            for hidden in self._names.values():
                self.session.catalog.dropTempView(hidden)
        self._names.clear()
        self._kept.clear()

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with told(self.session), _quiet():
                yield
        except (PySparkException, Py4JError, OSError, AttributeError) as failure:
            raise failed("Spark", failure) from None


class SparkSource:
    """A Spark DataFrame.

    Parameters
    ----------
    frame
        It gives the same rows whenever it is asked.
    name
        What it is called in messages.
    """

    def __init__(self, frame: DataFrame, name: str) -> None:
        self.frame, self._name = frame, name

    @classmethod
    def of(cls, data: Any, table: str | None = None) -> SparkSource:
        """Return a frame, or a table of a session.

        Raises
        ------
        DomainError
            If it is neither, or the session has no such table.
        """
        from pyspark.errors import PySparkException

        if table is None:
            if not hasattr(data, "createOrReplaceTempView") or not hasattr(data, "columns"):
                raise DomainError(
                    f"cannot protect a {type(data).__name__}: give a Spark DataFrame, or (session, table)"
                )
            return cls(data, "the Spark DataFrame")
        try:
            found = data.table(table)
            _ = found.columns
        except PySparkException:
            raise DomainError(f"there is no table or view {table!r} in that Spark session") from None
        return cls(found, table)

    def __repr__(self) -> str:
        return f"<{self._name} in Spark>"

    @property
    def place(self) -> tuple[str, Any]:
        """Which session it is in."""
        return "spark", self.frame.sparkSession

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""
        return list(self.frame.columns)

    def connect(self) -> tuple[SparkExecutor, str]:
        """Return the session and the name of the table in it."""
        executor = SparkExecutor(self.frame.sparkSession)
        executor.show("__rows", self.plain(None, False))
        return executor, "__rows"

    def plain(self, unit: str | None, numbered: bool) -> DataFrame:
        """Return the frame with its values made plain.

        Parameters
        ----------
        unit
            The column that identifies units; a decimal stays exact there.
        numbered
            Whether to number the rows.
        """
        from pyspark.sql import functions

        from dpnotebook.sql.statement import ROW_UNIT

        try:
            with told(self.frame.sparkSession), _quiet():
                columns = []
                for field in self.frame.schema.fields:
                    plain = _plain(_quoted(field.name), field.dataType.simpleString(), field.name == unit)
                    columns.append(functions.expr(plain).alias(field.name))
                if numbered:
                    columns.append(functions.monotonically_increasing_id().alias(ROW_UNIT))
                return self.frame.select(*columns)
        except Exception as failure:
            raise failed("Spark", failure) from None

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        salt = hmac.new(key, b"rows", "sha256").hexdigest()
        return keyed(key, "spark", *columns, repr(self.digest(columns, salt)).encode())

    def digest(self, columns: Sequence[str], salt: str) -> list[str]:
        """Return the number of rows and sums of their hashes."""
        executor, relation = self.connect()
        try:
            texts = [f"CAST({_quoted(name)} AS STRING)" for name in columns]
            parts = [f"coalesce(concat(length({text}), ':', {text}), 'null')" for text in texts]
            halves = [f"sum(CAST(conv(substr(h, {start}, 15), 16, 10) AS DECIMAL(20, 0)))" for start in (1, 17)]
            hashed = f"SELECT md5(concat({', '.join([literal(salt), *parts])})) AS h FROM {executor.hidden(relation)}"
            _, rows = executor.read(f"SELECT count(*), {', '.join(halves)} FROM ({hashed}) AS hashed")
        finally:
            executor.close()
        return [str(value) for value in rows[0]]

    def check_unchanged(self) -> None:
        """Raise EngineError if the session was stopped."""
        context: Any = getattr(self.frame.sparkSession, "_sc", None)
        if context is not None and getattr(context, "_jsc", 1) is None:
            raise EngineError(f"the Spark session of {self._name} was stopped; nothing was spent")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _without_zones(frame: DataFrame) -> DataFrame:
    """Return a frame whose times have no time zone: Python cannot read those of the first day of the year 1."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import TimestampType

    fields = frame.schema.fields
    if not any(isinstance(field.dataType, TimestampType) for field in fields):
        return frame
    columns = [(col("`" + field.name.replace("`", "``") + "`"), field) for field in fields]
    return frame.select(
        *(
            column.cast("timestamp_ntz").alias(field.name) if isinstance(field.dataType, TimestampType) else column
            for column, field in columns
        )
    )


def _described(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, _type(field.dataType.simpleString())) for field in frame.schema.fields]


def _type(name: str) -> str:
    if name.startswith("decimal"):
        return "BIGINT" if name.endswith(",0)") else "DOUBLE"  # sums of whole steps have 28 digits at most
    return _TYPES.get(name, name.split("<")[0].upper())


def _plain(column: str, kind: str, unit: bool) -> str:
    """Return an expression for a column that means here what it means in DuckDB."""
    if kind in ("float", "double"):
        return f"nullif({column}, CAST('NaN' AS {kind}))"
    if kind.startswith("decimal"):
        return f"CAST({column} AS {'STRING' if unit else 'DOUBLE'})"
    if kind == "date":  # others cannot be fetched
        return f"CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {column} END"
    if kind.startswith("timestamp"):
        time, first, last = f"CAST({column} AS TIMESTAMP_NTZ)", "0001-01-01", "9999-12-31 23:59:59.999999"
        return f"CASE WHEN {time} BETWEEN TIMESTAMP_NTZ '{first}' AND TIMESTAMP_NTZ '{last}' THEN {time} END"
    return f"CAST({column} AS STRING)" if kind.startswith(("char", "varchar")) else column

"""A Spark session that is told, for our queries only, to give NULL where it would stop, and to take times as UTC."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.dialect.translate import translated
from dpnotebook.dialect.types import kind_of
from dpnotebook.engine.column_arrays import arrays
from dpnotebook.engine.executor import failed, md5_total, md5_words

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
def quiet() -> Iterator[None]:
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
        self._secrets: dict[str, str] = {}  # what they are called

    def columns(self, query: str) -> dict[str, NDArray[Any]]:
        """Return the columns of a query, masked where NULL."""
        with contextlib.ExitStack() as held:
            held.callback(self._forget_secrets)
            # Spark works out a part anew for each that reads it, and sums may differ then.
            while (first := first_held(query, name := f"held {next(_numbers)}")) is not None:
                part, query = first
                held.enter_context(self._held(name, part))
            described, rows = self.read(translated(query, "spark", self._names, self.hide))
        return arrays([name for name, _ in described], [kind_of(kind) for _, kind in described], rows)

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query."""
        text = translated(query, "spark", self._names, self.hide)
        with self._careful():
            return _described(self.session.sql(text))

    def md5_sums(self, text: str, rows: str) -> tuple[int, int]:
        """Return the number of rows and the sum of the MD5 of a text of each."""
        words = ", ".join(md5_words("CAST(conv({}, 16, 10) AS DECIMAL(20, 0))"))
        try:
            hashed = translated(f"SELECT md5({text}) AS h FROM {rows}", "spark", self._names, self.hide)
            _, found = self.read(f"SELECT count(*), {words} FROM ({hashed}) AS hashed")
        finally:
            self._forget_secrets()
        return md5_total(found[0])

    def keep(self, name: str, query: str) -> str:
        """Keep the rows of a query, in memory where there is room and else on the disks of the cluster.

        What is lost there is not worked out again; and Spark forgets how they were made, or each query that reads them
        would be planned with all of that in it.
        """
        text = translated(query, "spark", self._names, self.hide)
        with self._careful():
            frame = self.session.sql(text).localCheckpoint(eager=True)
        self._kept.append(frame)
        self.show(name, frame)
        return name

    @contextlib.contextmanager
    def _held(self, name: str, query: str) -> Iterator[None]:
        """Keep the rows of a query for as long as this lasts."""
        self.keep(name, query)
        frame = self._kept.pop()
        try:
            yield
        finally:
            with self._careful():
                self.session.catalog.dropTempView(self._names.pop(name))
                let_go(frame)

    def show(self, name: str, frame: DataFrame) -> None:
        """Give a frame a name in our queries; the session sees another one, which is nobody else's."""
        hidden = self._names.get(name) or f"dpnotebook_{os.getpid()}_{next(_numbers)}"
        with self._careful():
            frame.createOrReplaceTempView(hidden)
        self._names[name] = hidden

    def hide(self, values: Sequence[str]) -> list[str]:
        """Return SQL for secrets, which stand in no plan: lists of what runs and event logs show those."""
        if not values:
            return []
        if list(self._secrets) != list(values):
            self._forget_secrets()
            for value in values:
                name = f"secret {next(_numbers)}"
                self.show(name, self.made([(value,)], "value string"))
                self._secrets[value] = name
        return [f"(SELECT value FROM {self.hidden(self._secrets[value])})" for value in values]

    def _forget_secrets(self) -> None:
        if self._secrets:
            with self._careful():
                for name in self._secrets.values():
                    self.session.catalog.dropTempView(self._names.pop(name))
            self._secrets.clear()

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
                let_go(frame)
            for hidden in self._names.values():
                self.session.catalog.dropTempView(hidden)
        self._names.clear()
        self._kept.clear()

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with told(self.session), quiet():
                yield
        except (PySparkException, Py4JError, OSError, AttributeError) as failure:
            raise failed("Spark", failure) from None


def let_go(frame: DataFrame) -> None:
    """Give back the room that kept rows take; without this, Spark does when it next looks for frames nobody holds."""
    with contextlib.suppress(Exception):
        frame._jdf.queryExecution().logical().rdd().unpersist(False)


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


# Queries with a part that must be worked out once: Spark works it out anew for each part that reads it.
def first_held(query: str, name: str) -> tuple[str, str] | None:
    """Return the first part of a query that is to be worked out once, and the query with a table in its place.

    Parameters
    ----------
    query
        DuckDB's SQL; parts before the one that is MATERIALIZED are not read by those after it.
    name
        What the table will be called.

    Returns
    -------
    Two queries of DuckDB's SQL; None where no part is to be worked out once.
    """
    if " AS MATERIALIZED " not in query:
        return None
    tree: Any = sqlglot.parse_one(query, read="duckdb")
    parts = tree.ctes
    number = next((i for i, part in enumerate(parts) if part.args.get("materialized")), None)
    if number is None:
        return None
    held = parts[number]
    inner = held.this.copy()
    before = parts[:number]
    if before:
        inner = exp.select("*").from_(held.alias)
        held.set("materialized", None)
        inner.set("with_", exp.With(expressions=[part.copy() for part in [*before, held]]))
    for part in parts[: number + 1]:
        part.pop()
    if not tree.ctes:
        tree.set("with_", None)
    for table in tree.find_all(exp.Table):
        if table.name == held.alias and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(name, quoted=True))
    return inner.sql("duckdb"), tree.sql("duckdb")

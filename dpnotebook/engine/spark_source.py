"""A table in Spark as something to protect.

It is a recipe, not a snapshot: it must give the same rows whenever it is asked, as files that stay as they are do.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpnotebook.engine.executor import failed
from dpnotebook.engine.source import keyed
from dpnotebook.engine.spark import SparkExecutor, quiet, told
from dpnotebook.engine.sql import literal
from dpnotebook.errors import DomainError, EngineError, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        self.frame, self._name, self._process = frame, name, os.getpid()

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
            raise DomainError(f"there is no table or view {shorten(table)} in that Spark session") from None
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
            with told(self.frame.sparkSession), quiet():
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
        """Raise EngineError if the session was stopped, or is another process's."""
        if os.getpid() != self._process:
            raise EngineError(
                f"the Spark session of {self._name} belongs to the process that this one was forked from; make a "
                "session of its own here. Nothing was spent"
            )
        context: Any = getattr(self.frame.sparkSession, "_sc", None)
        if context is not None and getattr(context, "_jsc", 1) is None:
            raise EngineError(f"the Spark session of {self._name} was stopped; nothing was spent")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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

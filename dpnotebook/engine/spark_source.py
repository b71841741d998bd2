"""A table in Spark as something to protect.

A frame is a recipe: files may be written anew, random numbers drawn again, rows put in another order. So its rows are
worked out once, when they are first needed, and kept by Spark, in memory and on its disks. Where it loses a part of
them it stops, and does not work it out again.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from dpnotebook.dialect.types import ROW_UNIT, Kind
from dpnotebook.engine.base import Source
from dpnotebook.engine.executor import failed
from dpnotebook.engine.keyed import keyed
from dpnotebook.engine.spark import SparkExecutor, quiet, told
from dpnotebook.engine.spark_types import SparkColumn
from dpnotebook.errors import DomainError, DPError, EngineError, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkSource(Source):
    """A Spark DataFrame, its rows as they are when it is first read.

    Parameters
    ----------
    frame
        The recipe.
    name
        What it is called in messages.

    Raises
    ------
    DomainError
        If it never ends, or two columns have one name.
    """

    def __init__(self, frame: DataFrame, name: str) -> None:
        self.frame, self._name, self._process = frame, name, os.getpid()
        if frame.isStreaming:
            raise DomainError(f"{name} is a stream, which has no fixed rows; write them into a table, and protect that")
        fields = frame.schema.fields
        if len({field.name for field in fields}) < len(fields):
            raise DomainError(f"{name} has two columns of the same name; give them different names first")
        self._columns = [SparkColumn(field.name, f"c{i}", field.dataType) for i, field in enumerate(fields)]
        self._kept: DataFrame | None = None

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
        return [column.name for column in self._columns]

    def kinds(self, unit: str | None) -> dict[str, Kind]:
        """Return what each column holds, in order."""
        return {column.name: column.kind(column.name == unit) for column in self._columns}

    @property
    def decimals(self) -> frozenset[str]:
        """Columns of decimals that are read as such: no floating-point number need hold them."""
        return frozenset(column.name for column in self._columns if column.decimal)

    @property
    def zoned(self) -> frozenset[str]:
        """Columns of moments, whose day depends on the place."""
        return frozenset(column.name for column in self._columns if column.zoned)

    def connect(self, unit: str | None = None) -> tuple[SparkExecutor, str]:
        """Return the session and the name of the table in it.

        Parameters
        ----------
        unit
            The column that identifies units.
        """
        executor = SparkExecutor(self.frame.sparkSession)
        executor.show("__rows", self.plain(unit, raw=True))
        return executor, "__rows"

    def plain(self, unit: str | None, *, raw: bool = False, numbered: bool = False) -> DataFrame:
        """Return the rows as canonical scalars.

        Parameters
        ----------
        unit
            The column that identifies units; a decimal stays exact there.
        raw
            Whether what is no scalar is shown as it is, and not as a text.
        numbered
            Whether to number the rows.

        Raises
        ------
        DomainError
            If a column cannot be the unit.
        """
        from pyspark.sql import functions

        kept, columns = self._rows(), []
        with self._careful(), told(self.frame.sparkSession):
            for column in self._columns:
                mine = column.name == unit
                shown = functions.expr(column.raw() if raw and not mine else column.plain(mine)).alias(column.name)
                if column.kind() != "other" or _has_text(partial(kept.select, shown)):
                    columns.append(shown)
            if numbered:
                columns.append(functions.monotonically_increasing_id().alias(ROW_UNIT))
            return kept.select(*columns)

    def _rows(self) -> DataFrame:
        """Return the rows, worked out once, as the user's own settings say; columns have numbers for names."""
        if self._kept is None:
            with self._careful():
                named = self.frame.toDF(*(column.place for column in self._columns))
                self._kept = named.localCheckpoint(eager=True)
        return self._kept

    @contextmanager
    def _careful(self) -> Iterator[None]:
        try:
            with quiet():
                yield
        except DPError:
            raise
        except Exception as failure:
            raise failed("Spark", failure) from None

    def fingerprint(self, columns: Sequence[str], key: bytes) -> str:
        """Return a keyed digest of the multiset of rows: a sum of keyed hashes, whatever the order of the rows."""
        salt = hmac.new(key, b"rows", "sha256").hexdigest()
        return keyed(key, "spark", *columns, repr(self.digest(columns, salt)).encode())

    def digest(self, columns: Sequence[str], salt: str) -> list[str]:
        """Return the number of rows and sums of their hashes."""
        known = {column.name: column for column in self._columns}
        executor = SparkExecutor(self.frame.sparkSession)
        try:
            executor.show("__kept", self._rows())
            texts = [f"CAST({known[name].digested()} AS STRING)" for name in columns]
            parts = [f"coalesce(concat(length({text}), ':', {text}), 'null')" for text in texts]
            halves = [f"sum(CAST(conv(substr(h, {start}, 15), 16, 10) AS DECIMAL(20, 0)))" for start in (1, 17)]
            row = ", ".join([*executor.hide([salt]), *parts])
            hashed = f"SELECT md5(concat({row})) AS h FROM {executor.hidden('__kept')}"
            _, rows = executor.read(f"SELECT count(*), {', '.join(halves)} FROM ({hashed}) AS hashed")
        finally:
            executor.close()
        return [str(value) for value in rows[0]]

    def shows(self, protected: Source) -> bool:
        """Return whether it is a protected frame, or is worked out from it."""
        if not isinstance(protected, SparkSource):
            return False
        frames = [getattr(source.frame, "_jdf", None) for source in (self, protected)]
        if frames[0] is None or frames[1] is None or self.frame.sparkSession is not protected.frame.sparkSession:
            return self.frame is protected.frame
        wanted, waiting = frames[1].queryExecution().analyzed(), [frames[0].queryExecution().analyzed()]
        while waiting:
            plan = waiting.pop()
            if plan.sameResult(wanted):
                return True
            waiting += [plan.children().apply(i) for i in range(plan.children().size())]
        return False

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


def _has_text(column: Callable[[], DataFrame]) -> bool:
    """Whether Spark knows how to write the values of a type."""
    from pyspark.errors import AnalysisException

    try:
        _ = column().schema
    except AnalysisException:
        return False
    return True

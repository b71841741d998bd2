"""The columns of a pandas frame, copied once, as DuckDB can read them; what they hold follows from their dtypes alone.

No value decides what a column is: objects are texts, all numbers are numbers, and what a domain declares of a column
of objects says how its texts are read. Columns of objects are converted when they are first named.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.dialect.attributes import identifier, time_of_text
from dpnotebook.dialect.types import OF_A_DAY, Kind, kind_of
from dpnotebook.domain.values import is_missing, plain
from dpnotebook.engine.frame_transfer import restored
from dpnotebook.engine.time_zones import is_known
from dpnotebook.errors import DomainError, shorten

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


_NULLABLE = {"b": "boolean", "i": "Int64", "u": "UInt64"}
_FAILURES = (TypeError, ValueError, OverflowError, ArithmeticError, ImportError)

KINDS_DECLARED: dict[str, Kind] = {
    "number": "number",
    "boolean": "boolean",
    **dict.fromkeys(("date", "moment", "time"), "time"),
}
BY_OWN_CLOCKS = ("date", "time")  # what is told by clocks, where no time zone is declared to tell it in
OFFSET = "([0-9])[+-][0-9]{2}:[0-9]{2}$"  # from UTC, at the end of a text
COMPLEX = (np.dtype("c8"), np.dtype("c16"))
FARTHEST = 400  # digits of a number that is written out
MANY_ROWS = 20_000  # from which on it pays to find out which texts a column has
FIRST_ROWS, FEW_TEXTS = 10_000, 1_000  # rows that are looked at first, and texts that are few


@dataclass(frozen=True)
class Registered:
    """Columns that a connection sees as c0, c1, ...: their names, and the SQL of the relation."""

    names: tuple[str, ...]
    sql: str


class FrameColumns:
    """A snapshot of a frame: whatever becomes of the frame and of the memory that it shares, the rows stay.

    Parameters
    ----------
    frame
        The frame; columns whose name is no text that can be written cannot be asked about.
    types
        Types of DuckDB, by name, of columns that came from there (see `carrying`).
    """

    def __init__(self, frame: pd.DataFrame, types: Mapping[str, str] | None = None) -> None:
        self.types = dict(types or {})
        self.declared: dict[str, str] = {}
        self._columns = {name: _copied(frame[name]) for name in frame.columns if _can_be_named(name)}
        self._rows = len(frame)
        self._ready: dict[str, pd.Series[Any]] = {}
        self._by_clocks: dict[str, pd.Series[Any]] = {}
        self._numbered: dict[str, pd.Series[Any]] = {}
        self._waiting: dict[str, Callable[[pd.Series[Any]], pd.Series[Any]]] = {}
        for name, column in self._columns.items():
            convert = _conversion(column.dtype)
            if convert is None:
                self._ready[name] = column
            else:
                self._waiting[name] = convert

    @property
    def names(self) -> list[str]:
        """Names of all columns, in order."""
        return list(self._columns)

    def declare(self, holds: Mapping[str, str]) -> None:
        """Note what is declared of columns, as for `read_as`: it is how objects are read."""
        found = {name: what for name, what in holds.items() if name in self._columns and self._untyped(name)}
        self.declared |= found
        for name in found:
            self._numbered.pop(name, None)
            self._by_clocks.pop(name, None)

    def frame(self, names: Iterable[str]) -> pd.DataFrame:
        """Return some columns as they are in the frame."""
        import pandas as pd

        return pd.DataFrame({name: self._columns[name] for name in names}, copy=False)

    def convert(self, names: Iterable[str]) -> None:
        """Make columns readable.

        Raises
        ------
        DomainError
            If one cannot be.
        """
        for name in names:
            if name in self._waiting:
                try:
                    self._ready[name] = self._waiting[name](self._columns[name])
                except _FAILURES:
                    raise DomainError(self.unreadable(name)) from None
                del self._waiting[name]

    def unreadable(self, name: str) -> str:
        """Return what to say of a column that DuckDB cannot read."""
        held = str(self._columns[name].dtype).split("<")[0]  # the rest of a nested type is names, which were values
        return f"{shorten(name)} holds values of type {held} that cannot be read; convert it to numbers or text"

    def readable(self) -> list[str]:
        """Return the names of the columns that can be read so far."""
        return [name for name in self._columns if name in self._ready]

    def read(self, name: str) -> pd.Series[Any] | None:
        """Return a column as it is read, whether it is readable yet or not; None if it cannot be."""
        try:
            return self._ready[name] if name in self._ready else _ready(self._columns[name])
        except _FAILURES:
            return None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._rows

    def ready(self, name: str) -> pd.Series[Any]:
        """Return a column that is readable, as it is read where it is declared."""
        undeclared = name in self.untyped
        if self.declared.get(name) not in BY_OWN_CLOCKS and not undeclared:
            return self._ready[name]
        if name not in self._by_clocks:
            zoned = any(map(_has_zone, self._columns[name].to_numpy(dtype=object)))
            own = _by_own_clocks(self._columns[name], known=undeclared) if zoned else self._ready[name]
            self._by_clocks[name] = own
        return self._by_clocks[name]

    def register(self, connection: duckdb.DuckDBPyConnection, name: str, wanted: Sequence[str]) -> Registered:
        """Let a connection see columns that are readable; those that DuckDB cannot read after all are left out.

        Parameters
        ----------
        connection
            Of DuckDB.
        name
            What it will call them.
        wanted
            The columns.
        """
        if not self._registers(connection, name, wanted):
            for column in wanted:
                if not self._registers(connection, name, [column]):
                    del self._ready[column]
                    self._waiting[column] = _refused
            wanted = [column for column in wanted if column in self._ready]
            self._registers(connection, name, wanted)
        # Names that differ only in case are one column to SQL, hence the numbers.
        shown = [f"{self._read(column, f'c{i}')} AS c{i}" for i, column in enumerate(wanted)]
        return Registered(tuple(wanted), f"(SELECT {', '.join(shown) or 'c0'} FROM {identifier(name)})")

    def _registers(self, connection: duckdb.DuckDBPyConnection, name: str, wanted: Sequence[str]) -> bool:
        import duckdb
        import pandas as pd

        frame = pd.DataFrame({f"c{i}": column for i, column in enumerate(self._sent(wanted))}, copy=False)
        if not wanted:  # DuckDB reads no frame without a column, and there are still rows to count
            frame = pd.DataFrame({"c0": np.zeros(self._rows, dtype=np.int8)})
        try:
            connection.register(name, frame)
        except (duckdb.Error, TypeError, ValueError, OverflowError):
            return False
        return True

    def _sent(self, wanted: Sequence[str]) -> list[pd.Series[Any]]:
        """Return columns as DuckDB gets them: of few texts their numbers, which are grouped and compared sooner."""
        import pandas as pd

        if any(isinstance(self._ready[name].dtype, pd.CategoricalDtype) for name in wanted):
            return [self.ready(name) for name in wanted]  # beside such numbers these were texts
        for name in wanted:
            if name not in self._numbered:
                self._numbered[name] = _few_numbered(self.ready(name))
        return [self._numbered[name] for name in wanted]

    def kind(self, name: str, type_name: str | None, unit: bool = False) -> Kind:
        """Return what a column holds, from the type that DuckDB reads it as; None where it is not read yet."""
        if name in self.types:
            return kind_of(self.types[name], unit)
        if name in self.declared:
            return KINDS_DECLARED.get(self.declared[name], "text")
        if type_name is None:
            return _kind(self._columns[name].dtype)
        kind = kind_of(type_name, unit)
        return "number" if kind == "integer" else kind  # a missing value makes whole numbers floats

    @property
    def untyped(self) -> frozenset[str]:
        """Columns of objects of which nothing is declared."""
        return frozenset(name for name in self._columns if self._untyped(name) and name not in self.declared)

    @property
    def forms(self) -> dict[str, str]:
        """Columns of objects that are declared as times of a day, which are read as those of one day."""
        return {name: OF_A_DAY for name, held in self.declared.items() if held == "time"}

    def _untyped(self, name: str) -> bool:
        return name not in self.types and _is_untyped(self._columns[name].dtype)

    def _read(self, name: str, column: str) -> str:
        if name in self.types:
            return restored(column, self.types[name])
        return read_as(column, self.declared[name]) if name in self.declared else column


def read_as(column: str, holds: str) -> str:
    """Return SQL of texts read as numbers or truth values, NULL where a text is none; others stay as they are.

    Parameters
    ----------
    column
        SQL of the texts of values of any kind, as `text_of` writes them.
    holds
        "number", "boolean", "date", "moment", "time" (of a day, or of a date) or "text".
    """
    if holds == "time":
        of_a_date = read_as(column, "date")
        return f"coalesce({of_a_date}, {time_of_text(column)})"
    if holds == "moment":  # there is nothing to tell in a time zone where none is written
        return f"CASE WHEN regexp_matches({column}, '{OFFSET}') THEN TRY_CAST({column} AS TIMESTAMPTZ) END"
    if holds == "date":  # by the clock that it was written by
        return f"TRY_CAST(regexp_replace({column}, '{OFFSET}', '\\1') AS TIMESTAMP)"
    if holds == "number":
        other = f"nullif(TRY_CAST({column} AS DOUBLE), CAST('NaN' AS DOUBLE))"
        return f"CASE {column} WHEN 'True' THEN 1.0::DOUBLE WHEN 'False' THEN 0.0::DOUBLE ELSE {other} END"
    if holds == "boolean":
        true, false = (f"lower({column}) IN ('{word}', '{digit}')" for word, digit in (("true", "1"), ("false", "0")))
        return f"CASE WHEN {true} THEN TRUE WHEN {false} THEN FALSE END"
    return column


def _can_be_named(name: object) -> bool:
    return isinstance(name, str) and readable(name) == name and "\0" not in name


def _copied(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with memory of its own."""
    import pandas as pd

    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        native = values.dtype.newbyteorder("=")
        copy = np.array(values, dtype=native, order="C", copy=True)
        return pd.Series(copy, dtype=native, name=column.name, copy=False)
    array: Any = column.array
    if type(array) is pd.arrays.ArrowExtensionArray:
        array = pd.arrays.ArrowExtensionArray(_rewritten(array._pa_array))
    elif type(array) is pd.arrays.ArrowStringArray:
        array = pd.arrays.ArrowStringArray(_rewritten(array._pa_array), dtype=array.dtype)
    else:
        array = array.copy()
    return pd.Series(array, name=column.name, copy=False)


def _rewritten(column: Any) -> Any:
    """Return a column of Arrow with memory of its own: Arrow never writes, but may share memory with who does."""
    import pyarrow as pa

    table, written = pa.table({"column": column}), pa.BufferOutputStream()
    with pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(written.getvalue()).read_all()["column"]


def _is_untyped(dtype: Any) -> bool:
    """Whether a column is of objects, or of categories that are objects, or of nothing."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _is_untyped(dtype.categories.dtype)
    return dtype == np.dtype(object) or str(dtype) == "null[pyarrow]"


def _kind(dtype: Any) -> Kind:
    """Return what a column holds that must be converted before it is read."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if _is_untyped(dtype) or isinstance(dtype, pd.StringDtype) or _is_arrow_text(dtype):
        return "text"
    if not isinstance(dtype, np.dtype) or dtype in (np.dtype("longdouble"), np.dtype("clongdouble")):
        return "other"
    found: dict[str, Kind] = {"b": "boolean", **dict.fromkeys("iufc", "number"), "M": "time"}
    return found.get(dtype.kind, "other")


def _conversion(dtype: Any) -> Callable[[pd.Series[Any]], pd.Series[Any]] | None:
    """Return what makes a column of a dtype readable; None where it is as it is."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categories
    if isinstance(dtype, pd.SparseDtype):
        return _from_sparse
    if isinstance(dtype, np.dtype):
        if dtype in COMPLEX:
            return _from_complex
        if dtype.kind in "biumM" or dtype in (np.dtype("f4"), np.dtype("f8")):
            return None
        return _from_half if dtype == np.float16 else _from_objects if dtype.kind == "O" else _refused
    if isinstance(dtype, pd.StringDtype):
        return _from_objects if dtype.storage == "python" else _decoded
    if _is_arrow_text(dtype):
        return _decoded
    return _refused if isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype)) else None


def _is_arrow_text(dtype: Any) -> bool:
    return str(dtype) in ("string[pyarrow]", "large_string[pyarrow]")


def _refused(column: pd.Series[Any]) -> pd.Series[Any]:
    raise TypeError


def _from_half(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(np.float32)


def _from_complex(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the real numbers among complex ones: one value made all others of the column complex, too."""
    import pandas as pd

    values = column.to_numpy()
    return pd.Series(np.where(values.imag == 0, values.real, np.nan).astype(np.float64))


def _from_objects(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(texts(column.to_numpy(dtype=object)), dtype="str")


def _by_own_clocks(column: pd.Series[Any], known: bool) -> pd.Series[Any]:
    """Return the texts of objects, of moments as the clock of their own place shows them.

    A column of moments of one place has that clock too, and one time without a zone makes it a column of objects.

    Parameters
    ----------
    column
        Of objects.
    known
        Whether moments of places without a known name stay UTC's, as those of an undeclared column of moments are.
    """
    import pandas as pd

    values = column.astype(object)
    return _from_objects(pd.Series([_on_own_clock(value, known) for value in values], dtype=object))


def _on_own_clock(value: Any, known: bool) -> Any:
    if not _has_zone(value) or (known and not is_known(str(value.tzinfo))):
        return value
    return value.replace(tzinfo=None)


def _has_zone(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _from_sparse(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    return _ready(pd.Series(column.sparse.to_dense().array))


def _from_categories(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values of categories: what the categories are decides how they are read, not which occur."""
    import pandas as pd

    categories: Any = column.cat.categories
    codes = np.asarray(column.cat.codes)
    values = _ready(pd.Series(categories.array))
    if isinstance(values.dtype, pd.StringDtype):  # one of two texts that are equal stands for both
        places, names = pd.factorize(values, use_na_sentinel=True)
        codes = np.where(codes < 0, -1, places[codes])
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(names)))
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biu":  # which have no missing value of their own
        values = values.astype(_NULLABLE[values.dtype.kind])
    if not len(values):
        values = values.reindex([0])  # a missing value, which there is to take
        codes = np.zeros(len(codes), dtype=np.intp)
    return pd.Series(pd.api.extensions.take(values.array, codes, allow_fill=True))


def _ready(column: pd.Series[Any]) -> pd.Series[Any]:
    convert = _conversion(column.dtype)
    return column if convert is None else convert(column)


def _decoded(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return texts of Arrow, after making sure that they are UTF-8: not every library that makes them does."""
    import pandas as pd
    import pyarrow as pa

    array = column.array._pa_array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return pd.Series([None if b is None else b.decode(errors="backslashreplace") for b in raw], dtype="str")
    return column


def _few_numbered(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of few different texts as the number of each and a dictionary of them; others as they are."""
    import pandas as pd

    arrow = getattr(column.array, "_pa_array", None)
    texts = isinstance(column.dtype, pd.StringDtype) or _is_arrow_text(column.dtype)
    if not texts or arrow is None or len(column) < MANY_ROWS:
        return column
    if len(arrow.slice(0, FIRST_ROWS).unique()) > FEW_TEXTS:
        return column
    numbered = arrow.combine_chunks().dictionary_encode()
    most = max((len(chunk.dictionary) for chunk in getattr(numbered, "chunks", [numbered])), default=0)
    return column if most > FEW_TEXTS else pd.Series(pd.arrays.ArrowExtensionArray(numbered), name=column.name)


# The text of a Python value in a column of objects: the same for what is equal, whatever other values there are.
def texts(values: Iterable[Any]) -> list[str | None]:
    """Return the text of each value, None where it is missing."""
    return [value if type(value) is str and value.isascii() else text_of(value) for value in values]


def text_of(value: Any) -> str | None:
    """Return the text of a value, and None for what is missing or is no single value.

    Numbers are written out, whole ones without a point: 1, 1.0 and Decimal("1.00") are "1". UUIDs are
    written out, and lists are the texts of their elements; sets, dicts and objects of other kinds have no text that is
    the same every time, and are missing.
    """
    value = plain(value)
    if isinstance(value, str):
        return readable(str(value))
    if is_missing(value):
        return None
    if isinstance(value, bool):
        return str(bool(value))
    if isinstance(value, int | float | Decimal | Fraction | np.floating):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return _moment(value)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return str(bytes(value))
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return _listed(value)
    return None


def readable(text: str) -> str:
    """Return a text that can be written as UTF-8: halves of characters stand as their codes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def _number(value: Any) -> str:
    if isinstance(value, int):
        # Python writes no whole number of many thousand digits out.
        return str(int(value)) if value.bit_length() <= 10_000 else hex(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(float(value))
        if value.is_zero() or abs(value.adjusted()) > FARTHEST:
            return "0" if value.is_zero() else str(value)
        written = format(value, "f")
        return written.rstrip("0").rstrip(".") if "." in written else written
    if isinstance(value, Fraction):
        whole = [_number(part) for part in (value.numerator, value.denominator)]
        return whole[0] if value.denominator == 1 else "/".join(whole)
    number = float(value)
    return str(int(number)) if math.isfinite(number) and number.is_integer() else repr(number)


def _moment(value: datetime.datetime) -> str:
    """Return a time as its text, in UTC where it has a zone: equal moments have equal texts."""
    if value.tzinfo is None:
        return str(value)
    try:
        return str(value.astimezone(datetime.UTC))
    except (OverflowError, ValueError):
        return str(value)


def _listed(values: Iterable[Any]) -> str:
    """Return the texts of a list's elements, each in quotes."""
    found = [text_of(value) for value in values]
    written = ("NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in found)
    return f"[{', '.join(written)}]"

"""A keyed digest of the rows of a DuckDB table, whatever their order, at the cost of reading them.

It identifies a snapshot: whether the rows of today are those that were protected. Every value becomes 64 bits that
depend on nothing but its type's class and its value, every row 128 bits, and rows are added up: a table is told from
another by chance errors of 2^-64 and less. The mixing is keyed, but it is no cryptographic hash: who chooses the data
and knows the key could make two tables alike. That key never leaves the owner's ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.engine.executor import DuckDBExecutor

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

VECTORS = 64  # of 2,048 rows: what is read at a time fits a processor's cache
SAMPLE, FEW = 100_000, 1_000
WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS"}
_LOW = 2**64 - 1

SPLITMIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Bits = NDArray[np.uint64]


def row_sums(
    executor: DuckDBExecutor, relation: str, columns: Sequence[tuple[str, str]], key: bytes
) -> tuple[int, int, int]:
    """Return the number of rows and two sums, modulo 2^64, of their keyed hashes.

    Parameters
    ----------
    executor
        Can read the relation.
    relation
        The SQL of it.
    columns
        Names and types, as DuckDB calls them, of what counts.
    key
        32 bytes.

    Raises
    ------
    EngineError
        If DuckDB fails.
    """
    query = _query(executor, relation, columns, key)
    rows, first, second = executor.reduced(query, lambda result: _sums(result, len(columns), key))
    return rows, first & _LOW, second & _LOW


def _sums(result: duckdb.DuckDBPyConnection, columns: int, key: bytes) -> tuple[int, int, int]:
    constants = mixing_constants(key, 2 * len(result.description) + 3)
    rows, first, second = 0, 0, 0
    while len(chunk := result.fetch_df_chunk(VECTORS)):
        bits = [chunk[name].to_numpy().view(np.uint64) for name in chunk.columns]
        hashed = np.full(len(chunk), constants[0])
        for i, values in enumerate(bits):
            if i < columns or values.any():  # seldom is anything NULL
                stir(hashed, values, *constants[2 * i + 3 : 2 * i + 5])
        rows += len(chunk)
        again = hashed.copy()
        first += int(stir(hashed, constants[1], *SPLITMIX).sum(dtype=np.uint64))
        second += int(stir(again, constants[2], *SPLITMIX).sum(dtype=np.uint64))
    return rows, first, second


def _query(executor: DuckDBExecutor, relation: str, columns: Sequence[tuple[str, str]], key: bytes) -> str:
    """Return a query for 64 bits a value, never NULL, and which of them are NULL.

    Where there are few different texts, the hash of each is worked out once and joined, which is cheaper.
    """
    salt = literal(hashlib.blake2b(b"text", key=key, digest_size=16).hexdigest())
    numbers = {name: _number(f"t.{identifier(name)}", kind) for name, kind in columns}
    texts = [name for name, number in numbers.items() if number is None]
    few = few_texts(executor, relation, texts)
    tables, joins, shown = [], [], []
    for i, (name, _) in enumerate(columns):
        number, text = numbers[name], f"t.{identifier(name)}::VARCHAR"
        if number is None and name in few:
            distinct = f"SELECT DISTINCT encode({text}) AS b FROM {relation} AS t"
            tables.append(f"d{i} AS MATERIALIZED (SELECT b, {text_bits(f'{salt}::BLOB || b')} AS h FROM ({distinct}))")
            joins.append(f" LEFT JOIN d{i} ON encode({text}) = d{i}.b")
            number = f"coalesce(d{i}.h, 0)::UBIGINT"
        elif number is None:
            number = f"coalesce({text_bits(f'{salt} || {text}')}, 0)::UBIGINT"
        shown.append(number)
    for start in range(0, len(columns), 62):
        bits = enumerate(columns[start : start + 62])
        shown.append(" + ".join(f"(t.{identifier(name)} IS NULL)::BIGINT * {1 << bit}" for bit, (name, _) in bits))
    listed = ", ".join(f"{number} AS c{i}" for i, number in enumerate(shown)) or "0::BIGINT AS c0"
    return f"{'WITH ' if tables else ''}{', '.join(tables)} SELECT {listed} FROM {relation} AS t{''.join(joins)}"


def few_texts(executor: DuckDBExecutor, relation: str, texts: Sequence[str]) -> set[str]:
    """Return which columns of text seem to have few values, judged by their first rows."""
    if not texts:
        return set()
    counts = ", ".join(f"approx_count_distinct({identifier(name)}::VARCHAR) AS c{i}" for i, name in enumerate(texts))
    listed = ", ".join(map(identifier, texts))
    query = f"SELECT {counts} FROM (SELECT {listed} FROM {relation} LIMIT {SAMPLE})"
    found = executor.columns(query).values()
    return {name for name, count in zip(texts, found, strict=True) if count[0] <= FEW}


def _number(column: str, kind: str) -> str | None:
    """Return an expression of type BIGINT or DOUBLE, never NULL, for a value of a type; None where it is text."""
    if kind in WHOLE:
        return f"coalesce({column}::BIGINT, 0)"
    if kind in ("FLOAT", "DOUBLE"):
        return f"coalesce({column}::DOUBLE, 0)"
    if kind == "DATE":
        return f"coalesce({column} - DATE '1970-01-01', 0)::BIGINT"
    if kind in _TIMES:
        late = f"{column} > '1970-01-01'::{kind}"
        ends = f"CASE WHEN {late} THEN {2**63 - 1} ELSE ({-(2**63)})::BIGINT END"
        return f"CASE WHEN isfinite({column}) THEN epoch_us({column}) ELSE {ends} END"
    return None


def text_bits(text: str) -> str:
    """Return SQL of the 64 lower bits of the MD5 of a text or bytes; NULL stays NULL."""
    return f"(md5_number({text}) & {_LOW}::UHUGEINT)::UBIGINT"


def mixing_constants(key: bytes, count: int) -> Bits:
    """Return odd 64-bit numbers that only who has the key can know."""
    found = [hashlib.blake2b(b"%d" % i, key=key, digest_size=8).digest() for i in range(count)]
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64) | np.uint64(1)


def stir(hashed: Bits, values: Bits | np.uint64, first: np.uint64, second: np.uint64) -> Bits:
    """Bring values into hashes, in place: one to one in each, by multiplications and shifts.

    The constants of Steele et al., SplitMix64 (OOPSLA 2014), make it the middle of that generator's finalizer.
    """
    hashed ^= values
    for factor, shift in ((first, np.uint64(27)), (second, np.uint64(31))):
        hashed *= factor
        hashed ^= hashed >> shift
    return hashed


# A keyed digest of columns of a frame, value by value in their order: equal only where everything that is read is.
#
# A charge that was not answered is answered later with the noise that it had, so nothing that a statement can read may
# change unnoticed. Hashes of pandas do not do: they take 1 and True in a column of objects for one, whole numbers of
# Arrow beside a missing one for floating-point numbers, and a structure for nothing.
def digest_column(name: str, column: pd.Series[Any] | None, key: bytes) -> bytes:
    """Return a keyed digest of a column.

    Parameters
    ----------
    name
        Of the column.
    column
        As it is read (see `FrameColumns.read`); None if it cannot be.
    key
        Up to 64 bytes.
    """
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in (name.encode(), *([] if column is None else _parts(column))):
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _parts(column: pd.Series[Any]) -> Iterable[bytes | NDArray[Any]]:
    """Return what a column is made of, as bytes and arrays of numbers."""
    import pandas as pd

    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow(column.array)
    if isinstance(dtype, pd.StringDtype | pd.CategoricalDtype) or dtype == np.dtype(object):
        return _texts(column)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return [f"M {dtype.unit}".encode(), column.dt.tz_convert(None).to_numpy().view(np.int64)]
    if isinstance(dtype, np.dtype):
        return _numbers(column.to_numpy(), None)
    missing = column.isna().to_numpy()
    return _numbers(column.fillna(False if dtype.kind == "b" else 0).to_numpy(dtype=dtype.numpy_dtype), missing)


def _numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None) -> Iterable[bytes | NDArray[Any]]:
    """Return whole numbers of any width as one, other numbers and times as they are, and where one is missing."""
    kind, where = values.dtype.kind, b"" if missing is None or not missing.any() else np.packbits(missing)
    if kind in "mM":
        return [f"{kind} {np.datetime_data(values.dtype)[0]}".encode(), values.view(np.int64)]
    if kind == "u" and values.dtype.itemsize == 8 and (values >> np.uint64(63)).any():
        return [b"u", values, where]
    if kind in "iu":
        return [b"i", values.astype(np.int64, copy=False), where]
    return [f"{kind}{values.dtype.itemsize}".encode(), values, where]


def _texts(values: pd.Series[Any]) -> Iterable[bytes | NDArray[Any]]:
    """Return which text stands in each row, by number, and the texts in the order in which they come."""
    import pandas as pd

    codes, found = pd.factorize(values, use_na_sentinel=True)
    encoded = [str(text).encode(errors="surrogatepass") for text in np.asarray(found, dtype=object)]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return [b"t", np.asarray(codes, dtype=np.int64), lengths, b"".join(encoded)]


def _arrow(column: Any) -> Iterable[bytes | NDArray[Any]]:
    """Return values of Arrow: numbers, truth values and texts as of any other column, the rest by their types."""
    import pandas as pd
    import pyarrow as pa

    array = pa.chunked_array(column.__arrow_array__()).combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind, missing = array.type, array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(pd.Series(array.to_numpy(zero_copy_only=False)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or kind in (pa.float32(), pa.float64()):
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0)
        return _numbers(filled.to_numpy(zero_copy_only=False), missing)
    try:
        written = "\n".join(map(repr, array.to_pylist())).encode(errors="surrogatepass")
    except (ValueError, OverflowError):  # Python's calendar ends with the year 9999
        written = pa.record_batch([array], names=["c"]).serialize().to_pybytes()
    return [str(kind).encode(), written]

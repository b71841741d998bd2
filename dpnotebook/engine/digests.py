"""A keyed digest of the rows of a DuckDB table, whatever their order, at the cost of reading them.

It identifies a snapshot: whether the rows of today are those that were protected. Every value becomes 64 bits that
depend on nothing but its type's class and its value, every row 128 bits, and rows are added up: a table is told from
another by chance errors of 2^-64 and less. The mixing is keyed, but it is no cryptographic hash: who chooses the data
and knows the key could make two tables alike. That key never leaves the owner's ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.engine.executor import DuckDBExecutor

if TYPE_CHECKING:
    import duckdb

VECTORS = 64  # of 2,048 rows: what is read at a time fits a processor's cache
SAMPLE, FEW = 100_000, 1_000
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS"}
_LOW = 2**64 - 1

_SPLITMIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

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
    constants = _constants(key, 2 * len(result.description) + 3)
    rows, first, second = 0, 0, 0
    while len(chunk := result.fetch_df_chunk(VECTORS)):
        bits = [chunk[name].to_numpy().view(np.uint64) for name in chunk.columns]
        hashed = np.full(len(chunk), constants[0])
        for i, values in enumerate(bits):
            if i < columns or values.any():  # seldom is anything NULL
                _stir(hashed, values, *constants[2 * i + 3 : 2 * i + 5])
        rows += len(chunk)
        again = hashed.copy()
        first += int(_stir(hashed, constants[1], *_SPLITMIX).sum(dtype=np.uint64))
        second += int(_stir(again, constants[2], *_SPLITMIX).sum(dtype=np.uint64))
    return rows, first, second


def _query(executor: DuckDBExecutor, relation: str, columns: Sequence[tuple[str, str]], key: bytes) -> str:
    """Return a query for 64 bits a value, never NULL, and which of them are NULL.

    Where there are few different texts, the hash of each is worked out once and joined, which is cheaper.
    """
    salt = literal(hashlib.blake2b(b"text", key=key, digest_size=16).hexdigest())
    numbers = {name: _number(f"t.{identifier(name)}", kind) for name, kind in columns}
    texts = [name for name, number in numbers.items() if number is None]
    few = _few(executor, relation, texts)
    tables, joins, shown = [], [], []
    for i, (name, _) in enumerate(columns):
        number, text = numbers[name], f"t.{identifier(name)}::VARCHAR"
        if number is None and name in few:
            distinct = f"SELECT DISTINCT encode({text}) AS b FROM {relation} AS t"
            tables.append(f"d{i} AS MATERIALIZED (SELECT b, {_hash(f'{salt}::BLOB || b')} AS h FROM ({distinct}))")
            joins.append(f" LEFT JOIN d{i} ON encode({text}) = d{i}.b")
            number = f"coalesce(d{i}.h, 0)::UBIGINT"
        elif number is None:
            number = f"coalesce({_hash(f'{salt} || {text}')}, 0)::UBIGINT"
        shown.append(number)
    for start in range(0, len(columns), 62):
        bits = enumerate(columns[start : start + 62])
        shown.append(" + ".join(f"(t.{identifier(name)} IS NULL)::BIGINT * {1 << bit}" for bit, (name, _) in bits))
    listed = ", ".join(f"{number} AS c{i}" for i, number in enumerate(shown)) or "0::BIGINT AS c0"
    return f"{'WITH ' if tables else ''}{', '.join(tables)} SELECT {listed} FROM {relation} AS t{''.join(joins)}"


def _few(executor: DuckDBExecutor, relation: str, texts: Sequence[str]) -> set[str]:
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
    if kind in _INTEGERS:
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


def _hash(text: str) -> str:
    return f"(md5_number({text}) & {_LOW}::UHUGEINT)::UBIGINT"


def _constants(key: bytes, count: int) -> Bits:
    """Return odd 64-bit numbers that only who has the key can know."""
    found = [hashlib.blake2b(b"%d" % i, key=key, digest_size=8).digest() for i in range(count)]
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64) | np.uint64(1)


def _stir(hashed: Bits, values: Bits | np.uint64, first: np.uint64, second: np.uint64) -> Bits:
    """Bring values into hashes, in place: one to one in each, by multiplications and shifts.

    The constants of Steele et al., SplitMix64 (OOPSLA 2014), make it the middle of that generator's finalizer.
    """
    hashed ^= values
    for factor, shift in ((first, np.uint64(27)), (second, np.uint64(31))):
        hashed *= factor
        hashed ^= hashed >> shift
    return hashed

"""A keyed digest of rows that outlives their form, from typed values: at the cost of reading them, in DuckDB.

What `row_digest` does with the texts of values, and nearly seven times as fast: every value becomes 64 bits that depend
on it alone, not on the width of its type or on whether whole numbers came as floating-point ones; a row mixes these to
128 bits, and rows are added up beside their number. Of texts and times the bits are those of a keyed MD5. By chance two
tables are alike once in some 2^64. It is no protection from somebody who has the key and chooses the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.dialect.attributes import FLOATING, identifier, literal
from dpnotebook.dialect.canonical import EXACT, TAGS
from dpnotebook.dialect.types import kind_of
from dpnotebook.engine.digests import SPLITMIX, VECTORS, WHOLE, few_texts, mixing_constants, stir, text_bits
from dpnotebook.engine.executor import DuckDBExecutor, Executor

Bits = NDArray[np.uint64]

LOW = 2**64 - 1
MASKED = 62  # columns of which one number says what is missing
SALTS = {"text": "t", "time": "m"}


def typed_sums(executor: Executor, relation: str, columns: Sequence[tuple[str, str]], key: bytes) -> tuple[int, ...]:
    """Return the number of rows and two sums, modulo 2^64, of their keyed hashes.

    Parameters
    ----------
    executor, relation
        What can be read, and the SQL of it. Databases elsewhere send all values here, which takes long.
    columns
        Names and types, as DuckDB calls them, of plain values (see `row_digest.PlainRows`); decimals of databases
        elsewhere have none.
    key
        32 bytes.

    Raises
    ------
    EngineError
        If the database fails.
    """
    own = hashlib.blake2b(b"typed rows", key=key, digest_size=32).digest()
    sums = _HashedRows(columns, own)
    if isinstance(executor, DuckDBExecutor):

        def read(result: Any) -> None:
            while len(chunk := result.fetch_df_chunk(VECTORS)):
                sums.add([chunk[name].to_numpy() for name in chunk.columns])

        executor.reduced(_query(executor, relation, columns, own), read)
    else:
        found = executor.columns(_query_elsewhere(relation, columns))
        sums.add([sums.hashed_texts(i, values) for i, values in enumerate(found.values())])
    return sums.rows, *sums.found


class _HashedRows:
    """Two sums of hashes of rows, and how many there were.

    Parameters
    ----------
    columns, key
        As for `typed_sums`.
    """

    def __init__(self, columns: Sequence[tuple[str, str]], key: bytes) -> None:
        self.rows, self.found = 0, [0, 0]
        self._columns, self._key = columns, key
        own = 3 + len(columns) // MASKED + 1
        constants = mixing_constants(key, own + 2 * len(columns))
        self._constants, self._pairs = constants[:own], constants[own:].reshape(-1, 2)
        tags = "".join(TAGS[kind_of(kind)] for _, kind in columns)
        start = hashlib.blake2b(b"columns " + tags.encode(), key=key, digest_size=8).digest()
        self._start = np.frombuffer(start, dtype="<u8").astype(np.uint64)[0]

    def add(self, values: Sequence[NDArray[Any]]) -> None:
        """Add rows: an array for each column, none of it missing, and behind these which values are missing."""
        fraction, *last = self._constants[:3]
        hashed = np.full(len(values[0]), self._start)
        # Whatever is read at a time: where nothing is missing, nothing is brought in.
        for missing, constant in zip(values[len(self._columns) :], self._constants[3:], strict=False):
            hashed ^= missing.view(np.uint64) * constant
        for column, pair in zip(values, self._pairs, strict=False):
            stir(hashed, _bits(column, fraction), *pair)
        self.rows += len(hashed)
        for place, constant in enumerate(last):
            self.found[place] += int(stir(hashed.copy(), constant, *SPLITMIX).sum(dtype=np.uint64))
            self.found[place] &= LOW

    def hashed_texts(self, place: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return the bits of texts of a column, as DuckDB works them out; other values as they are."""
        if place >= len(self._columns) or _is_number(self._columns[place][1]):
            return np.ma.getdata(values)
        salt = _salt(self._columns[place][1], self._key).encode()
        texts, places = np.unique(np.ma.filled(np.ma.asarray(values), "").astype(str), return_inverse=True)
        digests = b"".join(hashlib.md5(salt + text.encode(), usedforsecurity=False).digest()[:8] for text in texts)
        bits = np.frombuffer(digests, dtype="<u8").astype(np.uint64)[places]
        return np.where(np.ma.getmaskarray(values), np.uint64(0), bits)  # missing is no text


def _bits(values: NDArray[Any], fraction: np.uint64) -> Bits:
    """Return 64 bits of each number: whole ones have those of integers, in whatever type they come."""
    if values.dtype.kind != "f":
        return values.view(np.uint64) if values.dtype.itemsize == 8 else values.astype(np.int64).view(np.uint64)
    values = values.astype(np.float64, copy=False)
    whole = (np.abs(values) < EXACT["DOUBLE"]) & (values == np.floor(values))
    bits: Bits = values.view(np.uint64) ^ fraction
    if whole.any():
        bits = np.where(whole, np.where(whole, values, 0.0).astype(np.int64).view(np.uint64), bits)
    return bits


def _query(executor: DuckDBExecutor, relation: str, columns: Sequence[tuple[str, str]], key: bytes) -> str:
    """Return a query for a number, or the bits of a text, of every value, and which are missing."""
    texts = [name for name, kind in columns if not _is_number(kind)]
    few, tables, joins, shown = few_texts(executor, relation, texts), [], [], []
    for i, (name, kind) in enumerate(columns):
        column = f"t.{identifier(name)}"
        if _is_number(kind):
            shown.append(_plain(column, kind))
            continue
        text, salt = f"{column}::VARCHAR", literal(_salt(kind, key))
        if name in few:  # the bits of each text are worked out once and joined, which is cheaper
            distinct = f"SELECT DISTINCT encode({text}) AS b FROM {relation} AS t"
            tables.append(f"d{i} AS MATERIALIZED (SELECT b, {text_bits(f'{salt}::BLOB || b')} AS h FROM ({distinct}))")
            joins.append(f" LEFT JOIN d{i} ON encode({text}) = d{i}.b")
            shown.append(f"coalesce(d{i}.h, 0)::UBIGINT")
        else:
            shown.append(f"coalesce({text_bits(f'{salt} || {text}')}, 0)::UBIGINT")
    listed = ", ".join(f"{value} AS v{i}" for i, value in enumerate([*shown, *_missing(columns)]))
    return f"{'WITH ' if tables else ''}{', '.join(tables)} SELECT {listed} FROM {relation} AS t{''.join(joins)}"


def _query_elsewhere(relation: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return a query for all values; texts and times as texts, which are hashed here."""
    shown = []
    for name, kind in columns:
        column = f"t.{identifier(name)}"
        shown.append(_plain(column, kind) if _is_number(kind) else f"CAST({column} AS VARCHAR)")
    listed = ", ".join(f"{value} AS v{i}" for i, value in enumerate([*shown, *_missing(columns)]))
    return f"SELECT {listed} FROM {relation} AS t"


def _plain(column: str, kind: str) -> str:
    if kind == "BOOLEAN":
        return f"CASE WHEN {column} THEN 1 ELSE 0 END"
    return f"coalesce(CAST({column} AS {'DOUBLE' if kind in FLOATING else 'BIGINT'}), 0)"


def _missing(columns: Sequence[tuple[str, str]]) -> list[str]:
    """Return SQL of numbers whose bits say which values are missing."""
    found = []
    for start in range(0, len(columns), MASKED):
        names = [name for name, _ in columns[start : start + MASKED]]
        one = [f"CASE WHEN t.{identifier(name)} IS NULL THEN {1 << bit} ELSE 0 END" for bit, name in enumerate(names)]
        found.append(f"CAST({' + '.join(one)} AS BIGINT)")
    return found


def _is_number(kind: str) -> bool:
    return kind in WHOLE or kind in FLOATING


def _salt(kind: str, key: bytes) -> str:
    """Return what stands in front of a text: the key, and what kind of value it is."""
    return hashlib.blake2b(SALTS.get(kind_of(kind), "n").encode(), key=key, digest_size=16).hexdigest()

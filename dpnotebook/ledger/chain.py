"""Entries of the ledger and the hash that chains each to the one before it.

The hash covers the entry's number, kind, time, payload and the hash of its predecessor; the payload names the digest
of the noisy answers that belong to it. So an entry can be neither changed, removed nor moved without changing every
hash after it, and whoever noted a later hash elsewhere can prove it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

GENESIS = bytes(32)
FIRST = len(b"dpnotebook ledger entry 1").to_bytes(8, "big") + b"dpnotebook ledger entry 1"  # of what is hashed
SHORT = 4_096  # bytes of a part, whose length is written out once
LENGTHS = tuple(size.to_bytes(8, "big") for size in range(SHORT))


class Broken(Exception):
    """Something in the file that does not follow from the chain; the ledger turns it into a `LedgerCorrupt`."""


@dataclass(eq=False, slots=True)  # never changed, but a frozen one takes three times as long to make
class Entry:
    """One line of the ledger.

    Parameters
    ----------
    number
        1, 2, 3, ... without a gap.
    kind
        One of `KINDS`.
    time
        When it was written, ISO 8601 in UTC.
    payload
        JSON, in the very bytes that were hashed.
    prev, hash
        SHA-256 of the entry before, and of this one; 32 bytes each.
    size
        How many bytes of noisy answers lie beside the entry; None where there are none.
    """

    number: int
    kind: str
    time: str
    payload: bytes
    prev: bytes
    hash: bytes
    size: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The payload as JSON values."""
        try:
            values = read_json(self.payload.decode())  # of bytes it would first be found out how they are written
        except ValueError as error:
            raise Broken(f"entry {self.number} cannot be read: {error}") from None
        if not isinstance(values, dict):
            raise Broken(f"entry {self.number} cannot be read")
        return values


_decoder = json.JSONDecoder()  # made once


def read_json(text: str) -> Any:
    """Return the JSON values of a text; as `to_bytes` writes them, in less time than `json.loads` takes around that."""
    if text[:1] == "{":
        values, end = _decoder.raw_decode(text)
        if end == len(text):
            return values
    return json.loads(text)


def entry_after(number: int, prev: bytes, kind: str, payload: bytes) -> Entry:
    """Return a new entry that follows the one numbered `number` with hash `prev`."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Entry(number + 1, kind, time, payload, prev, entry_hash(number + 1, kind, time, payload, prev))


def entry_hash(number: int, kind: str, time: str, payload: bytes, prev: bytes) -> bytes:
    """Return the SHA-256 of an entry: every part preceded by its length, so that no two entries read alike."""
    a, b, c = b"%d" % number, kind.encode(), time.encode()
    parts = (FIRST, _length(a), a, _length(b), b, _length(c), c, _length(payload), payload, _length(prev), prev)
    return hashlib.sha256(b"".join(parts)).digest()


def _length(part: bytes) -> bytes:
    size = len(part)
    return LENGTHS[size] if size < SHORT else size.to_bytes(8, "big")


def entry_from_row(row: tuple[Any, ...]) -> Entry:
    """Return the entry in a row (number, kind, time, payload, prev, hash, size) of byte strings as SQLite gives it.

    Raises
    ------
    Broken
        If a value is not of the type that was written.
    """
    number, kind, time, payload, prev, hashed, size = row
    if not (type(kind) is type(time) is type(payload) is type(prev) is type(hashed) is bytes):
        raise Broken(f"entry {number} cannot be read: a part of it is missing or of another type")
    try:
        return Entry(number, kind.decode("ascii"), time.decode("ascii"), payload, prev, hashed, size)
    except UnicodeDecodeError:
        raise Broken(f"entry {number} cannot be read") from None


def faults(entry: Entry, number: int, prev: bytes) -> Iterator[str]:
    """Yield what is wrong with an entry that should be the one numbered `number`, after the hash `prev`."""
    if entry.number != number:
        yield f"entry {number} is missing"
    if entry.prev != prev:
        yield f"entry {entry.number} does not follow from the entry before it"
    if not intact(entry):
        yield f"entry {entry.number} was changed after it was written"


def intact(entry: Entry) -> bool:
    """Return whether an entry is what was hashed when it was written."""
    return entry_hash(entry.number, entry.kind, entry.time, entry.payload, entry.prev) == entry.hash


def to_bytes(values: Any) -> bytes:
    """Return JSON values as the bytes that are hashed and stored.

    Raises
    ------
    TypeError, ValueError
        If something is no JSON value; NaN and infinity are none.
    """
    return json.dumps(values, allow_nan=False, separators=(",", ":")).encode()

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import LedgerCorrupt
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.chain import GENESIS, Broken, entry_after, entry_from_row, entry_hash, faults, intact, to_bytes
from dpnotebook.privacy.budget import Budget


def test_hash_is_the_documented_one():
    parts = [b"dpnotebook ledger entry 1", b"7", b"charge", b"2030-01-01", b"{}", GENESIS]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert entry_hash(7, "charge", "2030-01-01", b"{}", GENESIS) == hashlib.sha256(text).digest()


def test_every_bit_of_an_entry_is_under_its_hash():
    entry = entry_after(4, bytes(range(32)), "charge", b'{"units":300}')
    assert intact(entry)
    changed = [replace(entry, number=6), replace(entry, kind="record"), replace(entry, time=entry.time + "0")]
    for name in ("payload", "prev", "hash"):
        value = getattr(entry, name)
        for bit in range(8 * len(value)):
            flipped = bytearray(value)
            flipped[bit // 8] ^= 1 << bit % 8
            changed.append(replace(entry, **{name: bytes(flipped)}))
    assert len(changed) > 500
    assert not any(intact(other) for other in changed)


@settings(deadline=None)
@given(st.text(max_size=5), st.text(max_size=5), st.binary(max_size=5), st.integers(1, 4))
def test_moving_bytes_between_parts_changes_the_hash(kind, time, payload, shift):
    moved = (kind + time[:shift], time[shift:])
    if moved != (kind, time):
        assert entry_hash(1, kind, time, payload, GENESIS) != entry_hash(1, *moved, payload, GENESIS)


def test_faults_name_what_is_wrong():
    first = entry_after(0, GENESIS, "open", b"{}")
    second = entry_after(1, first.hash, "charge", b"{}")
    assert list(faults(second, 2, first.hash)) == []
    assert list(faults(second, 1, first.hash)) == ["entry 1 is missing"]
    assert list(faults(second, 2, GENESIS)) == ["entry 2 does not follow from the entry before it"]
    changed = replace(second, payload=b"[]")
    assert list(faults(changed, 2, first.hash)) == ["entry 2 was changed after it was written"]


@pytest.mark.parametrize(
    "row",
    [
        (3, None, b"t", b"{}", GENESIS, GENESIS, None),
        (3, b"open", b"t", 17, GENESIS, GENESIS, None),
        (3, b"\xff", b"t", b"{}", GENESIS, GENESIS, None),
    ],
)
def test_a_row_of_other_types_is_broken(row):
    with pytest.raises(Broken, match="entry 3 cannot be read"):
        entry_from_row(row)


def test_only_json_is_stored():
    assert to_bytes({"b": [1, "ε"], "a": None}) == b'{"b":[1,"\\u03b5"],"a":null}'
    with pytest.raises(ValueError, match="Out of range float"):
        to_bytes({"error": float("inf")})
    with pytest.raises(TypeError):
        to_bytes({"cost": {1, 2}})


@pytest.mark.parametrize("change", ["time = '2030-01-01T00:00:00.000+00:00'", "prev = zeroblob(32)"])
def test_an_entry_that_was_changed_is_not_replayed(ledger, path, kit, change):
    """Also where everything that is added up stays the same."""
    kit.answer(ledger, 0.1)
    ledger.close()
    with kit.raw(path) as connection:
        connection.execute(f"UPDATE entry SET {change} WHERE number = 3")
    with pytest.raises(LedgerCorrupt, match="entry 3"):
        Ledger(path, Budget(1.0))

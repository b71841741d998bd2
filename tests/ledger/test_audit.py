import contextlib
import random
import shutil
import sqlite3

import numpy as np
import pytest

from dpnotebook.errors import DPError, LedgerCorrupt, LedgerError
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.privacy.budget import Budget

PARTS = ("kind", "time", "payload", "prev", "hash")


@pytest.fixture
def used(path, kit):
    """Return the path of a closed ledger: open, register, three releases and a pending charge; 9 entries."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.1, age=[1, 2])
        kit.answer(ledger, 0.2, values=np.arange(50), sex=[1])
        kit.answer(ledger, 0.1)
        ledger.charge("people", "pending", {}, kit.cost(0.1))
    return path


def refused(path):
    """Return whether the ledger cannot be opened."""
    try:
        Ledger(path, Budget(1.0)).close()
    except LedgerCorrupt:
        return True
    return False


def test_a_sound_ledger(used):
    audit = audit_file(used)
    assert audit.ok
    assert (audit.entries, audit.releases, audit.pending, audit.spent) == (9, 4, 1, 5 * 10**11)
    assert (audit.problems, audit.compared) == ((), None)
    assert str(audit) == (
        "ledger ok: 9 entries, 4 releases, 1 without a recorded answer; spent ε = 0.5 of the budget of ε = 1 (50.0%)\n"
        "note the head elsewhere: with it, audit(expected=head) proves later that nothing was changed\n"
        f"head {audit.head}"
    )


def test_an_audit_changes_nothing(used):
    before = used.read_bytes()
    assert audit_file(used).ok
    assert used.read_bytes() == before
    assert [file.name for file in used.parent.iterdir() if "-random-" not in file.name] == [used.name]


def test_every_byte_of_every_entry_counts(used, kit):
    """Change a byte in every part of every entry: the audit names the entry, and the ledger does not open."""
    source = random.Random(4)
    with contextlib.closing(sqlite3.connect(used)) as connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM entry")]
    assert len(numbers) == 9
    for number in numbers:
        for part in PARTS:
            with kit.raw(used) as connection:
                select = f"SELECT CAST({part} AS BLOB) FROM entry WHERE number = ?"
                (value,) = connection.execute(select, (number,)).fetchone()
                for place in source.sample(range(len(value)), min(3, len(value))):
                    changed = bytearray(value)
                    changed[place] ^= 1 << source.randrange(7)
                    kept = bytes(changed) if part in ("payload", "prev", "hash") else bytes(changed).decode()
                    connection.execute(f"UPDATE entry SET {part} = ? WHERE number = ?", (kept, number))
            audit = audit_file(used)
            assert not audit.ok
            assert any(f"entry {number} " in problem for problem in audit.problems), (number, part, audit.problems)
            assert refused(used)
            with kit.raw(used) as connection:
                before = value if part in ("payload", "prev", "hash") else value.decode()
                connection.execute(f"UPDATE entry SET {part} = ? WHERE number = ?", (before, number))
    assert audit_file(used).ok
    assert not refused(used)


def test_every_byte_of_recorded_answers_counts(used, kit):
    with contextlib.closing(sqlite3.connect(used)) as connection:
        rows = connection.execute("SELECT number, answers FROM entry WHERE answers IS NOT NULL").fetchall()
    assert [number for number, _ in rows] == [4, 6, 8]
    for number, blob in rows:
        for place in range(0, len(blob), 5):
            changed = bytearray(blob)
            changed[place] ^= 1
            with kit.raw(used) as connection:
                connection.execute("UPDATE entry SET answers = ? WHERE number = ?", (bytes(changed), number))
            (problem,) = audit_file(used).problems
            assert problem == f"entry {number}: recorded answers were changed after they were written"
            with contextlib.closing(Ledger(used, Budget(1.0))) as ledger, pytest.raises(LedgerCorrupt, match="changed"):
                ledger.records("people")
        for other in (None, blob[:-1], blob + b"x"):
            with kit.raw(used) as connection:
                connection.execute("UPDATE entry SET answers = ? WHERE number = ?", (other, number))
            assert refused(used)
            assert not audit_file(used).ok
        with kit.raw(used) as connection:
            connection.execute("UPDATE entry SET answers = ? WHERE number = ?", (blob, number))
    with kit.raw(used) as connection:
        connection.execute("UPDATE entry SET answers = ? WHERE number = 3", (b"x",))
    assert refused(used)
    assert not audit_file(used).ok


@pytest.mark.parametrize("number", range(1, 10))
def test_a_deleted_entry_is_missed(used, kit, number):
    with kit.raw(used) as connection:
        connection.execute("DELETE FROM entry WHERE number = ?", (number,))
    audit = audit_file(used)
    assert not audit.ok
    if number < 9:
        assert f"entry {number} is missing" in audit.problems
    assert any("totals do not follow" in problem for problem in audit.problems) or number < 9
    assert refused(used)


def test_an_added_entry_is_noticed(used, kit):
    with kit.raw(used) as connection:
        connection.execute("INSERT INTO entry SELECT 10, kind, time, payload, prev, hash, answers FROM entry LIMIT 1")
    assert not audit_file(used).ok
    assert refused(used)


def test_swapped_entries_are_noticed(used, kit):
    with kit.raw(used) as connection:
        connection.execute("UPDATE entry SET number = 100 WHERE number = 3")
        connection.execute("UPDATE entry SET number = 3 WHERE number = 5")
        connection.execute("UPDATE entry SET number = 5 WHERE number = 100")
    assert not audit_file(used).ok
    assert refused(used)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("spent = 0", "totals"),
        ("spent = spent - 1", "totals"),
        ("entries = 8", "totals"),
        ("entries = 10", "totals"),
        ("head = zeroblob(32)", "totals"),
        ("head = NULL", None),
        ("spent = 'x'", "totals"),
        ("key = zeroblob(32)", "key was changed"),
        ("key = 5", "key was changed"),
    ],
)
def test_the_state_beside_the_entries_counts(used, kit, change, what):
    with kit.raw(used) as connection:
        if what is None:
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(f"UPDATE state SET {change}")
            return
        connection.execute(f"UPDATE state SET {change}")
    (problem,) = audit_file(used).problems
    assert what in problem
    assert refused(used)


def test_a_missing_state_counts(used, kit):
    with kit.raw(used) as connection:
        connection.execute("DELETE FROM state")
    assert not audit_file(used).ok
    assert refused(used)


def test_a_forged_cost_does_not_add_up(used, kit):
    """A cost lowered and every hash made anew: what the cells were charged no longer gives the totals."""
    with kit.raw(used) as connection:
        connection.execute(
            'UPDATE entry SET payload = CAST(replace(CAST(payload AS TEXT), \'"rate":"200000000000"\', '
            '\'"rate":"100000000000"\') AS BLOB) WHERE number = 5'
        )
        kit.rehash(connection, 5)
    audit = audit_file(used)
    assert any("release 2 does not add up" in problem for problem in audit.problems)
    assert refused(used)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (b"[[1,0]]", "release 5 refines what it must not: release 1 was refined by release 4"),
        (b"[[4,0]]", "release 5 refines what it must not: release 4 was charged but its answer was not recorded yet"),
        (b"[[9,0]]", "release 5 refines what it must not: there is no release 9"),
        (b"[[3,0],[3,0]]", "release 5 refines what it must not: release 3 is named twice"),
        (b"[[3,1]]", "release 5 refines what it must not: release 3 has no measurement 1"),
    ],
)
def test_a_forged_refinement_is_told(path, kit, other, what):
    """Another release named as refined and every hash made anew: one release would be refined twice, or none."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for _ in range(3):
            kit.answer(ledger, 0.1)
        for number in (1, 2):
            ledger.charge("people", "q", {}, kit.cost(0.1), [(number, 0)])
    with kit.raw(path) as connection:
        (payload,) = connection.execute("SELECT payload FROM entry WHERE number = 10").fetchone()
        forged = payload.replace(b'"refines":[[2,0]]', b'"refines":' + other)
        assert forged != payload
        connection.execute("UPDATE entry SET payload = ? WHERE number = 10", (forged,))
        kit.rehash(connection, 10)
    assert audit_file(path).problems == (what,)
    with pytest.raises(LedgerCorrupt, match=what.replace("[", r"\[")):
        Ledger(path, Budget(1.0))


def test_more_than_the_budget_is_reported(used, kit):
    with kit.raw(used) as connection:
        connection.execute(
            "UPDATE entry SET payload = CAST(replace(CAST(payload AS TEXT), '\"total\":1000000000000', "
            "'\"total\":499999999999') AS BLOB) WHERE number = 1"
        )
        kit.rehash(connection, 1)
    assert audit_file(used).problems == ("more was spent than the budget allows",)
    with contextlib.closing(Ledger(used, Budget(1.0))) as ledger:
        assert (ledger.total, ledger.spent, ledger.remaining) == (499_999_999_999, 5 * 10**11, 0)


def test_a_consistent_forgery_is_told_by_a_noted_head(used, kit):
    """Whoever can write the file can forge all of it; the head that was noted elsewhere shows it."""
    with contextlib.closing(Ledger(used, Budget(1.0))) as ledger:
        head = ledger.head
        kit.answer(ledger, 0.1)
        assert ledger.audit(expected=head).ok
        assert ledger.audit(expected=f" {head.upper()}\n").compared is True
        assert "nothing up to the noted head was removed or changed" in str(ledger.audit(expected=head))
    with kit.raw(used) as connection:
        connection.execute("UPDATE entry SET time = '2000-01-01' WHERE number = 4")
        kit.rehash(connection, 4)
    assert audit_file(used).ok
    forged = audit_file(used, expected=head)
    assert not forged.ok
    assert forged.compared is False
    assert "the noted head is not among its entries" in str(forged)


def test_an_earlier_copy_is_told_by_a_noted_head(used, kit, tmp_path):
    shutil.copy(used, tmp_path / "backup")
    early = audit_file(used).head
    with contextlib.closing(Ledger(used, Budget(1.0))) as ledger:
        kit.answer(ledger, 0.3)
        head = ledger.head
    shutil.copy(tmp_path / "backup", used)
    assert audit_file(used).ok
    assert audit_file(used, expected=early).ok
    audit = audit_file(used, expected=head)
    assert not audit.ok
    assert str(audit).startswith("ledger NOT OK: ")


def test_a_log_line_is_no_part_of_the_chain(used, kit):
    with kit.raw(used) as connection:
        connection.execute("INSERT INTO refusal VALUES ('t', 'n', 'q', '1', '0')")
    assert audit_file(used).ok


def test_a_damaged_database_is_reported(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for n in range(60):
            kit.answer(ledger, 0.01, np.random.default_rng(n).integers(0, 10**6, 300))
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 4096] = bytes(4096)
    path.write_bytes(whole)
    audit = audit_file(path)
    assert not audit.ok
    assert any("damaged" in problem or "malformed" in problem for problem in audit.problems)


def test_the_ledger_itself_refuses_to_change_entries(used):
    with contextlib.closing(Ledger(used, Budget(1.0))) as ledger:
        for statement in ("DELETE FROM entry", "UPDATE entry SET time = ''"):
            with pytest.raises(DPError, match="entries are never"), ledger._store.writing() as connection:
                connection.execute(statement)
        assert ledger.audit().ok


def test_there_is_nothing_to_audit(tmp_path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        audit_file(tmp_path / "none.ledger")
    with pytest.raises(LedgerError, match="no file to open"):
        audit_file(":memory:")
    assert list(tmp_path.iterdir()) == []


def test_problems_are_cut_off(used, kit):
    with kit.raw(used) as connection:
        connection.execute("UPDATE entry SET prev = zeroblob(32), payload = zeroblob(3), kind = 'none'")
    audit = audit_file(used)
    assert audit.problems[-1] == "and perhaps more"
    assert len(audit.problems) == 21

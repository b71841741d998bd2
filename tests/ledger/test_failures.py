import contextlib
import errno
import os
import random
import sqlite3
import subprocess

import numpy as np
import pytest

from dpnotebook.errors import DPError, LedgerCorrupt, LedgerError, LedgerFull, LedgerLocked, LedgerReadOnly
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.chain import Broken
from dpnotebook.ledger.failures import translated, translated_system
from dpnotebook.ledger.releases import unpack
from dpnotebook.privacy.budget import Budget


def error_of(code):
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, LedgerLocked),
        (sqlite3.SQLITE_BUSY_RECOVERY, LedgerLocked),
        (sqlite3.SQLITE_FULL, LedgerFull),
        (sqlite3.SQLITE_READONLY_DIRECTORY, LedgerReadOnly),
        (sqlite3.SQLITE_CANTOPEN, LedgerReadOnly),
        (sqlite3.SQLITE_NOTADB, LedgerCorrupt),
        (sqlite3.SQLITE_CORRUPT, LedgerCorrupt),
        (sqlite3.SQLITE_IOERR, LedgerError),
    ],
)
def test_every_error_of_sqlite_is_one_of_ours(code, kind):
    error = translated(error_of(code), "/tmp/a.ledger", 2.5)
    assert type(error) is kind
    assert isinstance(error, DPError)
    assert "/tmp/a.ledger" in str(error)


def test_an_error_without_a_code_is_a_ledger_error():
    assert type(translated(sqlite3.ProgrammingError("closed"), "x", 1)) is LedgerError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, LedgerFull),
        (errno.EROFS, LedgerReadOnly),
        (errno.EACCES, LedgerReadOnly),
        (errno.EIO, LedgerError),
    ],
)
def test_every_error_of_the_system_is_one_of_ours(code, kind):
    assert type(translated_system(OSError(code, os.strerror(code)), "x")) is kind


def test_a_locked_ledger_says_so_after_the_timeout(path, kit):
    Ledger(path, Budget(1.0)).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        ledger = Ledger(path, Budget(1.0), timeout=0.2)
        kit.register(ledger)
        kit.answer(ledger)
        pending = ledger.charge("people", "p", {}, kit.cost(0.1))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerLocked, match=r"clinic\.ledger.*another process for 0\.2 s.*Run this again"):
            ledger.charge("people", "q2", {}, kit.cost(0.1))
        with pytest.raises(LedgerLocked):
            ledger.record(pending.number, [np.arange(3)], {})
        with pytest.raises(LedgerLocked):
            kit.register(ledger, "another")
        # Reading does not wait for a writer, and neither does opening what is there, but while it commits.
        assert Ledger(path, Budget(1.0), timeout=0.2).spent == ledger.spent == ledger.accountant.units(0.2)
        assert len(ledger.records("people")) == 1
        holder.execute("ROLLBACK")
        holder.execute("BEGIN EXCLUSIVE")
        for use in (lambda: ledger.spent, lambda: Ledger(path, Budget(1.0), timeout=0.2)):
            with pytest.raises(LedgerLocked, match=r"another process for 0\.2 s"):
                use()
        holder.execute("ROLLBACK")
        assert ledger.record(pending.number, [np.arange(3)], {}).number == 2
        assert kit.answer(ledger).number == 3
        assert ledger.audit().ok


def test_a_writer_waits_for_its_turn(path, kit):
    ledger = Ledger(path, Budget(1.0), timeout=20)
    kit.register(ledger)
    holder = subprocess.Popen(
        [
            "/usr/bin/env",
            "python3",
            "-c",
            "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); time.sleep(0.7); "
            "c.execute('INSERT INTO refusal VALUES (1, 2, 3, 4, 5)'); c.execute('COMMIT')",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        kit.answer(ledger)
    assert len(ledger.refusals()) == 1  # the other's transaction came first
    assert ledger.audit().ok


def test_a_file_that_is_no_database_is_left_alone(path):
    path.write_bytes(b"age,sex\n" * 1000)
    for use in (lambda: Ledger(path, Budget(1.0)), lambda: audit_file(path)):
        with pytest.raises(LedgerCorrupt, match=r"clinic\.ledger is not a sound ledger: file is not a database"):
            use()
    assert path.read_bytes() == b"age,sex\n" * 1000


def test_a_database_of_another_program_is_left_alone(path):
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE entry (number)")
        other.commit()
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match="database of another program"):
        Ledger(path, Budget(1.0))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_ledger_of_a_later_format_is_left_alone(path, kit):
    Ledger(path, Budget(1.0)).close()
    with kit.raw(path) as connection:
        connection.execute("PRAGMA user_version = 4")
    with pytest.raises(LedgerError, match="another version of dpnotebook"):
        Ledger(path, Budget(1.0))


def test_a_trigger_that_somebody_added_is_found(path):
    Ledger(path, Budget(1.0)).close()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TRIGGER forget AFTER INSERT ON entry BEGIN DELETE FROM refusal; END")
    with pytest.raises(LedgerCorrupt, match="tables are not those of a ledger"):
        Ledger(path, Budget(1.0))


@pytest.mark.parametrize("keep", [0, 1, 99, 511, 4096, 0.3, 0.6, 0.95])
def test_a_truncated_file_is_corrupt(path, kit, keep):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for n in range(20):
            kit.answer(ledger, 0.01, np.random.default_rng(n).integers(0, 10**6, 300))
    size = path.stat().st_size
    os.truncate(path, keep if isinstance(keep, int) else int(keep * size))
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt):
        Ledger(path, Budget(1.0))
    assert path.read_bytes() == before


def test_a_damaged_byte_never_changes_what_is_read(path, kit):
    """Any byte of the file is flipped: it is refused, or nothing that was promised differs."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for n in range(6):
            kit.answer(ledger, 0.05, np.random.default_rng(n).integers(0, 10**6, 200), age=range(n, 10))
        whole, promised = path.read_bytes(), None
    whole = path.read_bytes()

    def read():
        with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
            answers = [[array.tolist() for array in record.answers] for record in ledger.records("people")]
            return ledger.spent, ledger.head, ledger.key, answers, ledger.audit().ok

    promised = read()
    random.seed(20)
    refused = 0
    written = [place for place, byte in enumerate(whole) if byte]  # most pages of a small database are empty
    for place in random.sample(written, 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << random.randrange(8))]) + whole[place + 1 :])
        try:
            found = read()
        except LedgerError:
            refused += 1
        else:
            assert found[:4] == promised[:4]
    assert refused > 100


@pytest.mark.parametrize("text", [b"7 00", b"\xff", b"delta 1/0"])
def test_a_damaged_log_of_refusals_is_told(path, kit, text):
    """It is beside the chain: nothing that was promised follows from it."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        with pytest.raises(DPError):
            kit.answer(ledger, 50)
        assert [row["table"] for row in ledger.refusals()] == ["people"]
        with kit.raw(path) as connection:
            connection.execute("UPDATE refusal SET requested = CAST(? AS TEXT)", (text,))
        with pytest.raises(LedgerCorrupt, match="log of refused charges"):
            ledger.refusals()
        assert ledger.audit().ok


@pytest.mark.parametrize("about", [None, {}, {"sha256": "x"}, [], {"shapes": [3], "sha256": "x", "bytes": 1}])
def test_what_is_said_of_answers_is_checked_before_it_is_used(about):
    with pytest.raises(Broken):
        unpack(b"x", about)


@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_is_told_of_a_ledger_that_is_there_and_of_one_to_be_made(tmp_path, there):
    path = tmp_path / "clinic.ledger"
    if there:
        path.write_bytes(b"")
    said = str(translated_system(OSError(errno.ENOSPC, "No space left"), str(path)))
    assert f"no room on the disk to {'write to' if there else 'make'} {path}" in said


def limit_pages(ledger, pages):
    ledger._store._handle().connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_loses_nothing(path, kit):
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    first = kit.answer(ledger, 0.1)
    pages = ledger._store._handle().connection.execute("PRAGMA page_count").fetchone()[0]
    limit_pages(ledger, pages)
    noise = np.random.default_rng(1).integers(-(2**60), 2**60, 20_000)

    def fill():
        for n in range(50):
            charge = ledger.charge("people", f"q{n}", {}, kit.cost(0.001))
            ledger.record(charge.number, [noise], {})

    with pytest.raises(LedgerFull, match=r"no room on the disk.*clinic\.ledger.*Make room"):
        fill()
    rows = ledger.history()
    assert ledger.spent == sum(row["units"] for row in rows) == ledger.accountant.units(0.1) + (len(rows) - 1) * 10**9
    assert ledger.audit().ok
    assert ledger.get(first.number).answers[0].tolist() == [1, 2, 3]
    with pytest.raises(LedgerFull):
        ledger.charge("people", "x" * 100_000, {}, kit.cost(0.001))
    limit_pages(ledger, 10**6)
    for charge in ledger.pending("people"):
        np.testing.assert_array_equal(ledger.record(charge.number, [noise], {}).answers[0], noise)
    assert ledger.pending("people") == ()
    assert kit.answer(ledger, 0.1).units == ledger.accountant.units(0.1)
    assert ledger.audit().ok


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("only root in a real system can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def test_a_disk_that_is_really_full_loses_nothing(small_disk, kit):
    path = small_disk / "a.ledger"
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    done = []

    def fill():
        for n in range(1000):
            noise = np.random.default_rng(n).integers(-(2**60), 2**60, 2000)
            charge = ledger.charge("people", f"q{n}", {}, kit.cost(0.001))
            done.append((ledger.record(charge.number, [noise], {}).number, noise))

    with pytest.raises(LedgerFull):
        fill()
    assert len(done) > 10
    for number, noise in done:
        np.testing.assert_array_equal(ledger.get(number).answers[0], noise)
    assert ledger.audit().ok
    granted = len(ledger.history())
    assert ledger.spent == granted * ledger.accountant.units(0.001)
    assert granted - len(done) == len(ledger.pending("people")) <= 1
    with pytest.raises(LedgerFull):
        Ledger(small_disk / "b.ledger", Budget(1.0))
    known = {"a.ledger"}
    others = {file.name for file in small_disk.iterdir()} - known
    assert len(others) == len(ledger.pending("people"))  # the random state of what was charged last
    assert all(name.startswith("a.ledger-random-") for name in others)
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    assert kit.answer(ledger, 0.1).number == granted + 1
    assert ledger.audit().ok
    ledger.close()

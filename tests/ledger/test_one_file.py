"""The ledger is one file: a copy of it, or the loss of what lies beside it, never forgets a spend."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpnotebook.errors import LedgerCorrupt, LedgerError, LedgerLocked
from dpnotebook.ledger import Ledger, audit_file, journals
from dpnotebook.ledger import ledger as ledger_module
from dpnotebook.ledger.journals import EARLIER, FORMAT, WIDE
from dpnotebook.ledger.store import Store
from dpnotebook.privacy.budget import Budget

WORKER = Path(__file__).with_name("worker.py")
PAGE = 4096


def files(path):
    """Return the files that SQLite has to do with: random states are meant to be lost with a copy."""
    return sorted(file.name for file in path.parent.iterdir() if "-random-" not in file.name)


def version(path):
    return int.from_bytes(path.read_bytes()[60:64], "big")


def journal_mode(path):
    """Return the journal that the file's header names: 1 a rollback journal, 2 a write-ahead log."""
    return path.read_bytes()[18]


def test_a_copy_of_the_file_has_every_charge_that_was_granted(path, tmp_path, kit):
    ledger, copy = Ledger(path, Budget(1.0)), tmp_path / "copy"
    kit.register(ledger)
    for n in range(1, 6):
        charge = ledger.charge("people", f"q{n}", {}, kit.cost(0.1))
        assert files(path) == [path.name]  # there is nothing else to lose, though the ledger is in use
        shutil.copy(path, copy)
        with contextlib.closing(Ledger(copy, Budget(1.0))) as copied:
            assert (copied.spent, copied.head) == (ledger.spent, ledger.head)
            assert copied.history()[n - 1]["units"] == charge.units
        ledger.record(charge.number, [np.array([n])], {})
        shutil.copy(path, copy)
        with contextlib.closing(Ledger(copy, Budget(1.0))) as copied:
            assert copied.get(n).answers[0].tolist() == [n]
        copy.unlink()
    ledger.close()


def test_a_notebook_that_copies_its_ledger_loses_nothing(path, kit):
    """To read the file in its own process drops SQLite's locks on it; with a log, what follows went into a dead one."""
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    kit.answer(ledger, 0.1)
    path.read_bytes()
    look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT spent FROM state').fetchone()[0])"
    assert int(kit.script(look, path)) == 10**11  # and the other kernel closes the ledger as the last one, it believes
    kit.answer(ledger, 0.1)
    assert int(kit.script(look, path)) == ledger.spent == 2 * 10**11


def pages(data):
    return [data[start : start + PAGE] for start in range(0, len(data), PAGE)]


@pytest.mark.parametrize("apart", [1, 2])
def test_every_mixture_of_old_and_new_pages_is_refused_or_whole(path, tmp_path, kit, monkeypatch, apart):
    """What a copy that runs beside writers can catch: of each page the state before or after, in any combination."""
    monkeypatch.setattr(ledger_module, "SNAPSHOT_WORK", 3 << 15)  # snapshots are replaced, and their pages used again
    source, ledger, seen = np.random.default_rng(apart), Ledger(path, Budget(10.0)), []
    kit.register(ledger)
    for n in range(12):
        kit.answer(ledger, 0.1, source.integers(0, 2**40, 400), question="q" * 300, age=[n % 10])
        seen.append((path.read_bytes(), ledger.spent, ledger.head, len(ledger.history())))
    ledger.close()
    outcomes = {"refused": 0, "opened": 0}
    mixed = tmp_path / "mixed.ledger"
    for before, after in zip(seen[8:], seen[8 + apart :], strict=False):
        old, new = pages(before[0]), pages(after[0])
        old += [bytes(PAGE)] * (len(new) - len(old))
        changed = [i for i in range(len(new)) if old[i] != new[i]]
        combinations = list(itertools.product((old, new), repeat=len(changed)))
        random.seed(len(combinations))
        for chosen in random.sample(combinations, min(64, len(combinations))):
            whole = list(old)
            for i, which in zip(changed, chosen, strict=True):
                whole[i] = which[i]
            mixed.write_bytes(b"".join(whole))
            try:
                found = Ledger(mixed, Budget(10.0))
            except LedgerCorrupt:
                outcomes["refused"] += 1
                continue
            with contextlib.closing(found):
                outcomes["opened"] += 1
                assert (found.spent, found.head, len(found.history())) in (before[1:], after[1:])
                assert found.audit().ok
                kit.answer(found, 0.01)
                assert found.audit().ok
    assert outcomes["refused"] > 100
    assert outcomes["opened"] > 0


def test_copies_at_random_moments_while_others_write_and_are_killed(path, tmp_path, kit):
    """A slow copy of the file alone: what was acknowledged before it began is in it, or it is refused."""
    source, acknowledged, copies = random.Random(11), {}, []

    def start():
        command = [sys.executable, WORKER, "used", str(path), str(source.random())]
        writer = subprocess.Popen(command, env=kit.environment(), stdout=subprocess.PIPE)
        os.set_blocking(writer.stdout.fileno(), False)
        return writer

    def listen(writer):
        lines = (getattr(writer, "rest", b"") + (writer.stdout.read() or b"")).split(b"\n")
        writer.rest = lines.pop()
        for word, number, units in (line.split() for line in lines):
            if word == b"charged":
                acknowledged[int(number)] = int(units)

    writers = [start(), start()]
    try:
        while len(acknowledged) < 20:
            time.sleep(0.01)
            for writer in writers:
                listen(writer)
        for turn in range(30):
            time.sleep(source.uniform(0, 0.02))
            if turn % 10 == 9:
                writer = writers.pop(0)
                writer.send_signal(signal.SIGKILL)
                writer.wait()
                listen(writer)
                writer.stdout.close()
                writers.append(start())
            for writer in writers:
                listen(writer)
            promised, copy = dict(acknowledged), tmp_path / f"{turn}.copy"
            block, pause = source.choice([512, PAGE, 1 << 16, 1 << 24]), source.choice([0, 0, 0.0005])
            with path.open("rb") as file, copy.open("wb") as out:
                while part := file.read(block):
                    out.write(part)
                    time.sleep(pause)
            copies.append((copy, promised))
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    opened = 0
    for copy, promised in copies:
        try:
            ledger = Ledger(copy, Budget(10**4))
        except LedgerCorrupt:
            continue
        with contextlib.closing(ledger):
            opened += 1
            units = {row["number"]: row["units"] for row in ledger.history()}
            assert {number: units[number] for number in promised} == promised
            assert ledger.spent >= sum(promised.values())
            assert ledger.audit().ok
    assert opened >= 5


def test_a_reader_that_holds_the_file_lets_nothing_be_half_written(path, kit):
    ledger = Ledger(path, Budget(1.0), timeout=0.2)
    kit.register(ledger)
    before = kit.answer(ledger, 0.1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchone()
        with pytest.raises(LedgerLocked, match="nothing was written"):
            ledger.charge("people", "q", {}, kit.cost(0.1))
        assert (ledger.spent, ledger.pending("people")) == (before.units, ())  # reading goes on
        reader.execute("COMMIT")
    assert kit.answer(ledger, 0.1).number == 2
    assert ledger.audit().ok


def of_an_earlier_version(path):
    """Make a ledger what earlier versions kept: in a write-ahead log; return a connection that keeps it open."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA user_version = {EARLIER}")
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def lengthened(path, tmp_path, kit):
    """Make a ledger of an earlier version whose last two entries, 0.1 and its answer, are in its log alone."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.2)
    longer = tmp_path / "longer.ledger"
    shutil.copy(path, longer)
    with contextlib.closing(Ledger(longer, Budget(1.0))) as ledger:
        kit.answer(ledger, 0.1)
    connection = of_an_earlier_version(path)
    connection.execute("ATTACH ? AS longer", [str(longer)])
    connection.execute("BEGIN")
    for name in ("entry", "snapshot"):
        connection.execute(f"INSERT OR IGNORE INTO {name} SELECT * FROM longer.{name}")
    connection.execute("UPDATE state SET (entries, spent, head) = (SELECT entries, spent, head FROM longer.state)")
    connection.execute("COMMIT")
    connection.execute("DETACH longer")
    longer.unlink()
    return connection


def test_a_ledger_of_an_earlier_version_becomes_one_file(path, tmp_path, kit):
    kept = tmp_path / "kept"
    kept.mkdir()
    with contextlib.closing(lengthened(path, tmp_path, kit)):
        for suffix in ("", "-wal"):  # as a kernel that was killed leaves them
            shutil.copy(f"{path}{suffix}", kept / f"{path.name}{suffix}")
    path = kept / path.name
    assert (version(path), journal_mode(path)) == (EARLIER, 2)
    assert audit_file(path).spent == 3 * 10**11
    assert (version(path), journal_mode(path)) == (EARLIER, 2)  # an audit changes nothing
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 3 * 10**11
        assert (version(path), journal_mode(path), files(path)) == (FORMAT, 1, [path.name])
        kit.answer(ledger, 0.1)
        assert ledger.audit().ok


def test_a_ledger_of_wide_numbers_is_read_and_is_refused_by_versions_that_know_no_others(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.2)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {WIDE}")
    assert audit_file(path).ok
    assert version(path) == WIDE  # an audit changes nothing
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 2 * 10**11
        assert version(path) == FORMAT


def test_a_kernel_of_an_earlier_version_must_end_first(path, tmp_path, kit):
    with contextlib.closing(lengthened(path, tmp_path, kit)):
        with pytest.raises(LedgerLocked, match="kernel with an earlier version of dpnotebook; nothing was written"):
            Ledger(path, Budget(1.0), timeout=0.3)
        assert version(path) == EARLIER
    assert Ledger(path, Budget(1.0)).spent == 3 * 10**11


def test_a_program_that_turns_the_log_on_is_undone_at_the_next_charge(ledger, path, kit):
    kit.answer(ledger, 0.1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        other.execute("INSERT INTO refusal VALUES ('', '', '', '0', '0')")
    assert journal_mode(path) == 2
    kit.answer(ledger, 0.1)
    assert (journal_mode(path), files(path)) == (1, [path.name])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    with contextlib.closing(Ledger(path, Budget(1.0))) as again:
        assert journal_mode(path) == 1
        kit.answer(again, 0.1)
    assert ledger.spent == 3 * 10**11
    assert ledger.audit().ok


@pytest.mark.parametrize("live", [False, True])
def test_a_log_that_lies_beside_another_copy_is_not_played_back(path, tmp_path, kit, live):
    """SQLite would show the ledger as it was when the log was written: without what was charged since."""
    with contextlib.closing(lengthened(path, tmp_path, kit)):
        log = Path(f"{path}-wal").read_bytes()
    ledger = Ledger(path, Budget(1.0))
    for _ in range(3):
        kit.answer(ledger, 0.1)
    if not live:
        ledger.close()
    before = path.read_bytes()
    Path(f"{path}-wal").write_bytes(log)
    for use in ([lambda: ledger.spent, lambda: kit.answer(ledger, 0.1)] if live else []) + [
        lambda: Ledger(path, Budget(1.0)),
        lambda: audit_file(path),
    ]:
        with pytest.raises(LedgerCorrupt, match=r"-wal lies beside it and does not belong to it.*move .*-wal away"):
            use()
    assert path.read_bytes() == before
    Path(f"{path}-wal").unlink()
    with contextlib.closing(Ledger(path, Budget(1.0))) as again:
        assert again.spent == 6 * 10**11


def in_child(work):
    """Run `work` in a forked child, to the end or to where it kills itself."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def be_killed_before_the_commit(path, kit):
    """Charge, and die when all is ready; pages are written before that, because there is no room to keep them."""
    ledger = Ledger(path, Budget(1.0))
    ledger._store._handle().connection.execute("PRAGMA cache_size = 1")
    patiently = Store._patiently

    def die(self, connection, statement):
        if statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        patiently(self, connection, statement)

    Store._patiently = die
    ledger.charge("people", "q" * 30_000, {}, kit.cost(0.1))


@pytest.fixture
def half_written(path, kit):
    """Return a ledger of 0.2 that was being written to when its kernel was killed, and what it was before."""
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.2)
    before = path.read_bytes()
    assert in_child(lambda: be_killed_before_the_commit(path, kit)) == signal.SIGKILL
    assert files(path) == [path.name, f"{path.name}-journal"]
    assert path.read_bytes() != before
    return before


def test_what_was_half_written_is_undone(path, kit, half_written):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert files(path) == [path.name]
        assert (ledger.spent, len(ledger.history())) == (2 * 10**11, 1)
        assert ledger.audit().ok


def test_without_its_journal_what_was_half_written_is_refused_or_not_there(path, half_written):
    Path(f"{path}-journal").unlink()
    with contextlib.suppress(LedgerCorrupt), contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert (ledger.spent, len(ledger.history())) == (2 * 10**11, 1)
        assert ledger.audit().ok


def test_a_journal_that_lies_beside_another_copy_is_not_played_back(path, kit, half_written):
    """It would undo what the copy holds, or part of it."""
    journal = Path(f"{path}-journal").read_bytes()
    Path(f"{path}-journal").unlink()
    path.write_bytes(half_written)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        for _ in range(3):
            kit.answer(ledger, 0.1)
    later = path.read_bytes()
    Path(f"{path}-journal").write_bytes(journal)
    for use in (lambda: Ledger(path, Budget(1.0)), lambda: audit_file(path)):
        with pytest.raises(LedgerCorrupt, match=r"-journal lies beside it and does not belong to it.*move .*-journal"):
            use()
    assert path.read_bytes() == later
    assert Path(f"{path}-journal").read_bytes() == journal
    Path(f"{path}-journal").unlink()
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 5 * 10**11


def test_a_journal_beside_the_very_state_that_it_restores_does_no_harm(path, half_written):
    path.write_bytes(half_written)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 2 * 10**11


@pytest.mark.parametrize("journal", [b"", b"x", bytes(512), bytes.fromhex("d9d505f920a163d7") + bytes(600)])
def test_a_journal_that_holds_nothing_is_no_matter(path, kit, journal):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.2)
    Path(f"{path}-journal").write_bytes(journal)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 2 * 10**11
        kit.answer(ledger, 0.1)
    assert files(path) == [path.name]


def test_a_file_that_is_replaced_in_the_middle_of_a_charge_is_noticed(ledger, path, tmp_path, kit):
    kit.answer(ledger, 0.1)
    other = shutil.copy(path, tmp_path / "other")
    with pytest.raises(LedgerCorrupt, match="moved, deleted or replaced while it was written to"), ledger._writing():
        os.replace(other, path)
    with pytest.raises(LedgerError, match="moved, deleted or replaced"):
        ledger.spent  # noqa: B018


def test_a_file_whose_length_changes_is_read_again(path, monkeypatch):
    """Another process commits while one looks at what lies beside the ledger."""
    with contextlib.closing(Ledger(path, Budget(1.0))):
        pass
    read, seen = journals.as_it_lies, []

    class Growing:
        def serialize(self):
            raise sqlite3.OperationalError("unable to serialize 'main'")

    @contextlib.contextmanager
    def as_it_lies(place):
        seen.append(place)
        with read(place) as connection:
            yield Growing() if len(seen) < 3 else connection

    monkeypatch.setattr(journals, "as_it_lies", as_it_lies)
    Path(f"{path}-journal").write_bytes(b"\0" * 512)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.spent == 0
    assert len(seen) > 2


def test_a_commit_that_was_killed_before_all_pages_were_there_is_taken_back(path, kit, monkeypatch):
    """The first page says how many there are, and is written before those that are new: SQLite reads no such file."""
    monkeypatch.setattr(journals, "_LIVE", 0.05)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        ledger.charge("people", "q", {}, kit.cost(0.1))
        spent, head = ledger.spent, ledger.head
    before, beside = path.read_bytes(), path.with_name(f"{path.name}-journal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 2")  # so that what is changed does not wait in memory
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE more (text)")
        connection.executemany("INSERT INTO more VALUES (?)", [("x" * PAGE,)] * 40)
        journal = beside.read_bytes()
        connection.execute("COMMIT")
    path.write_bytes(path.read_bytes()[: len(before)])
    beside.write_bytes(journal)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert (ledger.spent, ledger.head) == (spent, head)
    assert audit_file(path).ok
    assert path.stat().st_size == len(before)


def test_a_file_that_is_not_there_is_told_as_sqlite_tells_it(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "_LIVE", 0.0)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        journals._header(str(tmp_path / "none.ledger"))

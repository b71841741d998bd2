"""Copies of a ledger that are made by the ledger itself."""

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import LedgerCorrupt, LedgerError, LedgerFull, LedgerReadOnly
from dpnotebook.ledger import Ledger, audit_file, files, opened
from dpnotebook.privacy.budget import Budget

WORKER = Path(__file__).with_name("worker.py")


def listed(folder):
    return sorted(file.name for file in folder.iterdir() if "-random-" not in file.name)


def same(one, other):
    assert (one.spent, one.head, one.key) == (other.spent, other.head, other.key)
    histories = [[row | {"state": ""} for row in ledger.history()] for ledger in (one, other)]
    assert histories[0] == histories[1]
    assert [[array.tolist() for array in record.answers] for record in one.records("people")] == [
        [array.tolist() for array in record.answers] for record in other.records("people")
    ]


def test_a_backup_is_the_ledger(either, tmp_path, kit):
    kit.answer(either, 0.1)
    either.charge("people", "pending", {}, kit.cost(0.2))
    before = os.umask(0)
    try:
        audit = either.backup(tmp_path / "copy.ledger")
    finally:
        os.umask(before)
    assert audit.ok
    assert audit.head == either.head == audit_file(tmp_path / "copy.ledger").head
    assert (audit.releases, audit.pending, audit.spent) == (2, 1, 3 * 10**11)
    assert stat.S_IMODE((tmp_path / "copy.ledger").stat().st_mode) == 0o600
    with contextlib.closing(Ledger(tmp_path / "copy.ledger", Budget(1.0))) as copy:
        same(copy, either)
        assert [row["state"] for row in copy.history()] == ["recorded", "lost"]  # a charge is measured from one file
        kit.answer(copy, 0.1)
        assert copy.audit(expected=audit.head).ok
    kit.answer(either, 0.1)
    assert either.audit(expected=audit.head).ok


def test_a_session_is_backed_up_and_restored(path, tmp_path):
    rows = pd.DataFrame({"age": [n % 50 for n in range(100)]})
    with contextlib.closing(dpn.Session(dpn.Budget(epsilon=1.0), ledger=path)) as session:
        session.protect(rows, "people", domain={"age": dpn.Range(0, 49)})
        first = rows.dp.histogram("age", epsilon=0.25).run()
        head = session.ledger.backup(f"{tmp_path}/copy.ledger").head
        rows.dp.count(where="age < 5", fresh=True, epsilon=0.25).run()
        later = session.ledger.head
    path.unlink()
    shutil.copy(tmp_path / "copy.ledger", path)
    with contextlib.closing(dpn.Session(dpn.Budget(epsilon=1.0), ledger=path)) as session:
        session.protect(rows, "people", domain={"age": dpn.Range(0, 49)})
        again = rows.dp.histogram("age", epsilon=0.25).run()
        assert again.paid == 0
        pd.testing.assert_frame_equal(again.frame, first.frame)
        assert session.spent.epsilon == 0.25
        assert session.audit(expected=head).ok
        assert not session.audit(expected=later).ok  # what was forgotten shows, to who noted the head


@pytest.mark.parametrize("what", ["ledger", "other", "empty", "folder", "link", "dangling"])
def test_nothing_is_overwritten(ledger, path, tmp_path, kit, what):
    kit.answer(ledger, 0.1)
    target = path if what == "ledger" else tmp_path / "there"
    if what in ("other", "link"):
        (tmp_path / "there").write_text("precious")
    if what == "empty":
        target.touch()
    if what == "folder":
        target.mkdir()
    if what == "link":
        target = tmp_path / "link"
        target.symlink_to(tmp_path / "there")
    if what == "dangling":  # the file that it names is made: there is nothing to overwrite
        target = tmp_path / "link"
        target.symlink_to(tmp_path / "there")
        assert ledger.backup(target).head == audit_file(tmp_path / "there").head
        return
    before = listed(tmp_path)
    with pytest.raises(LedgerError, match=r"is there already, and a backup overwrites nothing. Write another name"):
        ledger.backup(target)
    assert listed(tmp_path) == before
    assert what not in ("other", "link") or (tmp_path / "there").read_text() == "precious"
    assert ledger.audit().ok


def test_of_two_backups_to_one_name_one_is_told(ledger, tmp_path, monkeypatch):
    target = tmp_path / "copy.ledger"
    published = files._publish

    def late(draft, path):
        path.write_text("another's")
        published(draft, path)

    monkeypatch.setattr(files, "_publish", late)
    with pytest.raises(LedgerError, match="is there already"):
        ledger.backup(target)
    assert target.read_text() == "another's"
    assert listed(tmp_path) == ["clinic.ledger", "copy.ledger"]


@pytest.mark.parametrize("place", [5, None, b"copy", "", ":memory:", "file:copy", "no/folder/copy", "a\0b", ["copy"]])
def test_what_is_no_place_for_a_backup(ledger, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError):
        ledger.backup(place)
    assert listed(tmp_path) == ["clinic.ledger"]


def test_a_backup_may_lie_on_another_machine(ledger, tmp_path, monkeypatch, kit):
    kit.answer(ledger, 0.1)
    (tmp_path / "far").mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"h:/x {tmp_path / 'far'} nfs rw 0 0\n")
    monkeypatch.setattr(files, "MOUNTS", str(mounts))
    assert ledger.backup(tmp_path / "far" / "copy").head == ledger.head
    with pytest.raises(LedgerError, match="network file system"):
        Ledger(tmp_path / "far" / "copy", Budget(1.0))


def test_a_damaged_ledger_is_not_backed_up(ledger, path, tmp_path, kit):
    for _ in range(3):
        kit.answer(ledger, 0.1)
    with kit.raw(path) as connection:
        connection.execute("UPDATE entry SET answers = x'00' WHERE number = 4")
    with pytest.raises(LedgerCorrupt, match="no backup was made of it"):
        ledger.backup(tmp_path / "copy.ledger")
    assert listed(tmp_path) == [path.name]


def test_a_closed_ledger_and_a_backup_that_fails(ledger, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(opened.os, "fsync", full)
        with pytest.raises(LedgerFull):
            ledger.backup(tmp_path / "copy.ledger")
    with monkeypatch.context() as failing:
        failing.setattr(files.os, "open", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "Read-only")))
        with pytest.raises(LedgerReadOnly):
            ledger.backup(tmp_path / "copy.ledger")
    assert listed(tmp_path) == ["clinic.ledger"]
    ledger.close()
    with pytest.raises(LedgerError, match="was closed"):
        ledger.backup(tmp_path / "copy.ledger")


def test_backups_while_others_write(path, tmp_path, kit):
    """Each has everything that was acknowledged before it began, and is sound."""
    writers = [
        subprocess.Popen([sys.executable, WORKER, "used", str(path), str(n)], env=kit.environment(), stdout=-1)
        for n in range(2)
    ]
    try:
        for writer in writers:
            writer.stdout.readline()
        with contextlib.closing(Ledger(path, Budget(10**4))) as ledger:
            kit.register(ledger)
            for turn in range(8):
                before = len(ledger.history())
                audit = ledger.backup(tmp_path / f"{turn}.copy")
                assert audit.ok
                with contextlib.closing(Ledger(tmp_path / f"{turn}.copy", Budget(10**4))) as copy:
                    assert copy.head == audit.head
                    history = copy.history()
                    assert len(history) == audit.releases >= before
                    same = [(row["number"], row["question"], row["units"]) for row in ledger.history()[: len(history)]]
                    assert [(row["number"], row["question"], row["units"]) for row in history] == same
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()

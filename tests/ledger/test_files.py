import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from dpnotebook.errors import LedgerCorrupt, LedgerError
from dpnotebook.ledger import Ledger, files
from dpnotebook.ledger.files import check_place, create, network_file_system
from dpnotebook.privacy.budget import Budget

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/ana/disk ext4 rw 0 0
me@host: /mnt/far\040away fuse.sshfs rw 0 0
overlay /var/pod fuse.fuse-overlayfs rw 0 0
//nas/x /mnt/nas cifs rw 0 0
/dev/sdc1 /twice nfs rw 0 0
/dev/sdc2 /twice xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/srv/a.ledger", None),
        ("/home/ana/a.ledger", "nfs4"),
        ("/homely/a.ledger", None),
        ("/home/ana/disk/a.ledger", None),
        ("/mnt/far away/a.ledger", "fuse.sshfs"),
        ("/var/pod/a.ledger", None),
        ("/mnt/nas/deep/er/a.ledger", "cifs"),
        ("/twice/a.ledger", None),
    ],
)
def test_network_file_systems_are_told_by_the_mount_table(place, kind):
    assert network_file_system(Path(place), MOUNTS) == kind


def test_a_link_onto_a_network_is_followed(tmp_path):
    real = tmp_path / "far"
    real.mkdir()
    (tmp_path / "near").symlink_to(real)
    assert network_file_system(tmp_path / "near" / "a.ledger", f"h:/x {real} nfs rw 0 0\n") == "nfs"


def test_a_ledger_on_a_network_is_refused(path, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"h:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(files, "MOUNTS", str(mounts))
    with pytest.raises(LedgerError, match=r"network file system \(nfs\).*local disk"):
        Ledger(path, Budget(1.0))
    assert not path.exists()


def test_without_a_mount_table_all_is_local(path, monkeypatch):
    monkeypatch.setattr(files, "MOUNTS", "/no/such/file")
    assert network_file_system(path) is None


def test_only_the_owner_may_read_the_ledger(path, kit):
    before = os.umask(0)
    try:
        ledger = Ledger(path, Budget(1.0))
        kit.register(ledger)
    finally:
        os.umask(before)
    with ledger._store.writing() as connection:
        connection.execute("INSERT INTO refusal VALUES ('', '', '', '0', '0')")
        assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}-journal"}
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert set(modes.values()) == {0o600}


def test_nothing_else_is_left_in_the_folder(path):
    Ledger(path, Budget(1.0)).close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_of_many_creators_one_wins_and_none_sees_half_a_file(path):
    seen, barrier = [], threading.Barrier(8)

    def make(n):
        barrier.wait()
        create(path, lambda draft: draft.write_text(f"{n}" * 10_000))
        seen.append(path.read_text())

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert len(seen[0]) == 10_000


def test_without_hard_links_a_file_is_still_made_once(path, monkeypatch):
    def no_links(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    create(path, lambda draft: draft.write_text("first"))
    create(path, lambda draft: draft.write_text("second"))
    assert path.read_text() == "first"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_cannot_be_a_ledger_is_refused(tmp_path):
    with pytest.raises(LedgerError, match=r"no folder.*create it"):
        check_place(tmp_path / "no" / "a.ledger")
    with pytest.raises(LedgerError, match="is a folder; write the name of a file in it"):
        check_place(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="not a file"):
        check_place(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    with pytest.raises(LedgerCorrupt, match="is empty: a ledger never is"):
        check_place(tmp_path / "empty")


def test_the_remains_of_a_deleted_ledger_are_not_played_into_a_new_one(path):
    Path(f"{path}-wal").write_bytes(b"x")
    with pytest.raises(LedgerCorrupt, match=r"missing but clinic\.ledger-wal is still there"):
        Ledger(path, Budget(1.0))
    assert not path.exists()


DROPPED = """
import os, sys
from dpnotebook.errors import LedgerReadOnly
from dpnotebook.ledger import Ledger
from dpnotebook.privacy.budget import Budget
import dpnotebook.domain
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        Ledger(path, Budget(1.0))
    except LedgerReadOnly as error:
        print(error)
    else:
        print("opened", path)
"""


def test_a_ledger_that_another_process_makes_meanwhile_is_there(path, monkeypatch):
    """It is missing when one looks for it, and has a journal when one looks for that."""
    path.touch()
    Path(f"{path}-journal").touch()
    monkeypatch.setattr(files, "_is_there", lambda _: False)
    files.check_place(path)
    path.unlink()
    with pytest.raises(LedgerCorrupt, match=r"clinic\.ledger-journal is still there"):
        files.check_place(path)


def test_read_only_files_and_folders(kit):
    # Under /tmp itself: pytest's own folders are closed to the user that the script becomes.
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        top = Path(top)
        top.chmod(0o755)
        for name in ("open", "closed", "secret"):
            (top / name).mkdir()
            Ledger(top / name / "a.ledger", Budget(1.0)).close()
        (top / "open").chmod(0o777)
        (top / "open" / "a.ledger").chmod(0o444)
        (top / "closed" / "a.ledger").chmod(0o666)
        (top / "closed").chmod(0o555)
        (top / "secret").chmod(0o000)
        places = [top / name / "a.ledger" for name in ("open", "closed", "secret")] + [top / "closed" / "new.ledger"]
        try:
            lines = kit.script(DROPPED, *places).splitlines()
        finally:
            for name in ("closed", "secret"):
                (top / name).chmod(0o755)
    assert len(lines) == 4
    assert "a.ledger is read-only for you" in lines[0]
    assert "closed' is read-only for you" in lines[1]
    assert "secret/a.ledger cannot be read and written by you: Permission denied" in lines[2]
    assert "closed' is read-only for you" in lines[3]

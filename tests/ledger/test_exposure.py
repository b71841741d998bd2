"""Who else can reach the ledger's file, and what is no path of one."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError, LedgerCorrupt, LedgerError, LedgerWarning
from dpnotebook.ledger import Ledger, audit_file, exposure, files
from dpnotebook.privacy.budget import Budget


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr(exposure, "_said", set())


@pytest.fixture
def made(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.1)
    return path


def opened(path):
    """Open a ledger; return what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
            assert ledger.spent == 10**11
    return said


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777, 0o622])
def test_a_file_that_everybody_may_write_to_is_refused_with_the_line_that_mends_it(made, mode):
    made.chmod(mode)
    before = made.read_bytes()
    with pytest.raises(LedgerError, match=r"everybody on this machine may write to .*Run: chmod 600") as caught:
        Ledger(made, Budget(1.0))
    assert made.read_bytes() == before
    line = str(caught.value).partition("Run: ")[2].partition(" (")[0]
    subprocess.run(line, shell=True, check=True)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert opened(made) == []
    assert audit_file(made).ok


def test_the_line_that_mends_it_can_be_pasted_for_any_name(tmp_path):
    path = tmp_path / "Ana's $HOME; clinic *[1].ledger"
    Ledger(path, Budget(1.0)).close()
    path.chmod(0o666)
    with pytest.raises(LedgerError) as caught:
        Ledger(path, Budget(1.0))
    subprocess.run(str(caught.value).partition("Run: ")[2].partition(" (")[0], shell=True, check=True)
    Ledger(path, Budget(1.0)).close()


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        (0o600, []),
        (0o400 | 0o200, []),
        (0o640, []),
        (0o644, ["everybody on this machine can read"]),
        (0o660, ["the group of"]),
        (0o664, ["everybody on this machine can read", "the group of"]),
    ],
)
def test_who_may_read_or_write_is_warned_of_once(made, mode, what):
    made.chmod(mode)
    said = opened(made)
    assert [warning.category for warning in said] == [LedgerWarning] * len(what)
    for warning, words in zip(said, what, strict=True):
        assert words in str(warning.message)
        assert f"chmod 600 {made}" in str(warning.message)
        assert len(str(warning.message)) < 160 + len(str(made)) * 2
    assert opened(made) == []


def test_a_warning_points_at_the_users_own_line(made):
    made.chmod(0o644)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dpn.Session(dpn.Budget(epsilon=1.0), ledger=made).close()
    assert [(warning.filename, warning.category) for warning in said] == [(__file__, dpn.LedgerWarning)]


def test_a_warning_that_is_an_error_leaves_the_ledger_closed_and_whole(made):
    made.chmod(0o644)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # it was not said, so it is said again
            with pytest.raises(LedgerWarning):
                Ledger(made, Budget(1.0))
    assert audit_file(made).ok


@pytest.mark.parametrize(("mode", "warned"), [(0o777, True), (0o1777, False), (0o775, False), (0o755, False)])
def test_a_folder_in_which_everybody_may_replace_it(tmp_path, kit, mode, warned):
    """The folder itself or one above it, unless only owners may remove their files there."""
    inner = tmp_path / "shared" / "study"
    inner.mkdir(parents=True)
    path = inner / "a.ledger"
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.1)
    for folder in (inner, inner.parent):
        folder.chmod(mode)
        said = [str(warning.message) for warning in opened(path)]
        assert len(said) == warned
        assert all(f"may replace {path}" in text and text.endswith(f"chmod o-w {folder}") for text in said)
        folder.chmod(0o755)


def test_a_new_ledger_is_its_owners_alone(path):
    Ledger(path, Budget(1.0)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_name_is_refused(made, tmp_path):
    other = tmp_path / "other.ledger"
    os.link(made, other)
    for name in (made, other):
        with pytest.raises(LedgerError, match=r"has a second name \(a hard link\)"):
            Ledger(name, Budget(1.0))
    other.unlink()
    assert opened(made) == []


def test_a_name_that_is_left_from_the_making_of_the_file_is_removed(made):
    """Its maker was killed after the file had its name and before the draft had lost its own."""
    draft = made.with_name(f".{made.name}.0123456789abcdef.new")
    os.link(made, draft)
    stranger = made.with_name(f".{made.name}.fedcba9876543210.new")  # that of another maker, at work
    stranger.write_text("draft")
    assert opened(made) == []
    assert (draft.exists(), stranger.exists()) == (False, True)


def test_a_link_to_the_file_is_followed(made, tmp_path, kit):
    link = tmp_path / "link.ledger"
    link.symlink_to(made)
    with contextlib.closing(Ledger(link, Budget(1.0))) as one, contextlib.closing(Ledger(made, Budget(1.0))) as other:
        assert one.path == other.path == str(made)
        kit.answer(one, 0.1)
        kit.answer(other, 0.1)
        assert one.spent == other.spent == 3 * 10**11
        assert one.audit().ok
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later.ledger")
    Ledger(dangling, Budget(1.0)).close()
    assert (tmp_path / "later.ledger").exists()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(LedgerError):
        Ledger(loop, Budget(1.0))


def test_where_there_are_no_such_permissions_nothing_is_checked(made, monkeypatch):
    made.chmod(0o666)
    monkeypatch.setattr(exposure, "POSIX", False)
    assert opened(made) == []


AS_ANOTHER = """
import os, sys, warnings
import dpnotebook.domain
from dpnotebook.ledger import Ledger
from dpnotebook.privacy.budget import Budget
os.setgroups([]); os.setgid(1234); os.setuid(4321)
warnings.simplefilter("always")
for path in sys.argv[1:]:
    try:
        print("opened", Ledger(path, Budget(1.0)).spent)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become somebody else")
def test_the_ledger_of_another_user(tmp_path, kit):
    """Shared by its group it is used with a warning; otherwise it cannot be."""
    top = Path("/tmp") / f"of_another_{os.getpid()}"
    top.mkdir()
    try:
        shared, own = top / "shared.ledger", top / "own.ledger"
        for path in (shared, own):
            Ledger(path, Budget(1.0)).close()
        os.chown(shared, 0, 1234)
        os.chown(top, 0, 1234)
        shared.chmod(0o660)
        top.chmod(0o770)
        said = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER, shared, own],
            env=kit.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        shutil.rmtree(top)
    first, second = said.stdout.splitlines()
    assert first == "opened 0"
    assert second.startswith("LedgerReadOnly")
    assert said.stderr.count("LedgerWarning") == 1
    assert "the group of" in said.stderr


class Odd(os.PathLike):
    def __init__(self, value):
        self.value = value

    def __fspath__(self):
        return self.value


NO_PATHS = [
    *(5, 5.0, None, True, b"clinic.ledger", [], {}, object(), np.array(["a"]), pd.Series(["a"] * 9999), Decimal(1)),
    *("", "  ", "a\0b.ledger", "file:a.ledger", "file:///tmp/a.ledger", "sqlite:///a.ledger", "https://host/a.ledger"),
    *("s3://bucket/a.ledger", "\ud800.ledger", "x" * 300, "x/" * 3000, Odd(b"a.ledger"), "no/such/folder/a.ledger"),
    *(Path("."), "/", Budget(1.0)),
]


@pytest.mark.parametrize("place", NO_PATHS, ids=lambda place: ascii(place)[:20])
def test_what_is_no_path_is_told_shortly(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for use in (
        lambda: Ledger(place, Budget(1.0)),
        lambda: dpn.Session(dpn.Budget(epsilon=1.0), ledger=place),
        lambda: audit_file(place),
    ):
        with pytest.raises(LedgerError) as caught:
            use()
        assert len(str(caught.value)) < 300 + (len(place) if isinstance(place, str) and "folder" not in place else 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [str, Path, Odd])
def test_every_way_to_write_a_path(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for text, where in (("a.ledger", "a.ledger"), ("~/b.ledger", "home/b.ledger"), ("./c d é.ledger", "c d é.ledger")):
        with contextlib.closing(Ledger(write(text), Budget(1.0))) as ledger:
            assert ledger.path == str(tmp_path / where)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.ledger", "c d é.ledger", "home"]


@pytest.mark.parametrize("timeout", ["1", None, True, -1, float("nan"), float("inf"), 1e9, 1j, [1], np.array([1, 2])])
def test_what_is_no_time_to_wait(path, timeout):
    with pytest.raises(LedgerError, match="timeout= is a number of seconds"):
        Ledger(path, Budget(1.0), timeout=timeout)
    assert not path.exists()


@pytest.mark.parametrize("timeout", [0, 1, 0.5, np.float32(0.5), np.int64(2)])
def test_what_is_a_time_to_wait(path, timeout):
    Ledger(path, Budget(1.0), timeout=timeout).close()


@pytest.mark.parametrize("budget", [1.0, None, "1", {"epsilon": 1.0}])
def test_what_is_no_budget(path, budget):
    with pytest.raises(DPError, match="Budget"):
        Ledger(path, budget)
    assert not path.exists()


NO_HEADS = [5, b"0" * 64, "", "abc", "0" * 63, "g" * 64, "0" * 65, ["0" * 64], object(), pd.Series(["0" * 64]), 0.5]


@pytest.mark.parametrize("head", NO_HEADS, ids=lambda head: ascii(head)[:20])
def test_what_is_no_head_is_no_alarm(made, head):
    """A slip of the pen must not say that entries were removed."""
    with contextlib.closing(Ledger(made, Budget(1.0))) as ledger:
        session = dpn.Session(dpn.Budget(epsilon=1.0), ledger=made)
        for audit in (ledger.audit, session.audit, lambda head: audit_file(made, head)):
            with pytest.raises(LedgerError, match="expected= is a head that was noted before"):
                audit(head)
        session.close()
        assert ledger.audit("0" * 64).compared is False


@pytest.mark.parametrize("number", ["1", None, 1.0, True, [1], 0, -1, 2, 10**30])
def test_what_is_no_release(made, number):
    with contextlib.closing(Ledger(made, Budget(1.0))) as ledger:
        for use in (ledger.get, lambda number: ledger.record(number, [np.array([1])], {})):
            with pytest.raises(LedgerError, match="there is no release"):
                use(number)


def test_a_ledger_that_is_moved_away_while_it_is_open(made, tmp_path, kit):
    ledger = Ledger(made, Budget(1.0))
    made.rename(tmp_path / "moved")
    for use in (lambda: ledger.spent, lambda: kit.answer(ledger, 0.1), ledger.audit):
        with contextlib.suppress(LedgerCorrupt):
            assert not use().ok
    (tmp_path / "moved").rename(made)
    assert ledger.spent == 10**11
    shutil.copy(made, tmp_path / "copy")
    (tmp_path / "copy").replace(made)
    with pytest.raises(LedgerCorrupt, match="moved, deleted or replaced"):
        kit.answer(ledger, 0.1)
    ledger.close()
    assert opened(made) == []


AUDITED = """
import os, sys
import dpnotebook.domain
from dpnotebook.ledger import audit_file
os.setgroups([]); os.setgid(1234); os.setuid(4321)
for path in sys.argv[1:]:
    try:
        print(audit_file(path).ok)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can become somebody else")
def test_who_may_only_read_a_ledger_can_audit_it(kit):
    top = Path("/tmp") / f"audited_{os.getpid()}"
    top.mkdir()
    try:
        for name in ("read.ledger", "closed.ledger"):
            with contextlib.closing(Ledger(top / name, Budget(1.0))) as ledger:
                kit.register(ledger)
                kit.answer(ledger, 0.1)
        (top / "read.ledger").chmod(0o644)
        top.chmod(0o755)
        before = sorted(file.name for file in top.iterdir())
        said = kit.script(AUDITED, top / "read.ledger", top / "closed.ledger").splitlines()
        assert sorted(file.name for file in top.iterdir()) == before
    finally:
        shutil.rmtree(top)
    assert said[0] == "True"
    assert said[1].startswith("LedgerReadOnly")


def test_a_backup_on_another_machine_can_be_audited(made, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"h:/x {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(files, "MOUNTS", str(mounts))
    assert audit_file(made).ok
    with pytest.raises(LedgerError, match="network file system"):
        Ledger(made, Budget(1.0))

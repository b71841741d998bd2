"""The random state of a charge: there until its answer is recorded, readable by its owner alone, and nowhere else."""

import contextlib
import os
import shutil
import sqlite3
import stat

import numpy as np
import pytest

from dpnotebook.errors import LedgerError
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.random_states import RandomStates
from dpnotebook.privacy.budget import Budget


@pytest.fixture
def ledger(path, kit):
    with contextlib.closing(Ledger(path, Budget(10.0))) as opened:
        kit.register(opened)
        yield opened


def states(path):
    return sorted(path.parent.glob(f"{path.name}-random-*"))


def test_it_lies_beside_the_ledger_until_the_answer_is_recorded(ledger, path, kit):
    charge = ledger.charge("people", "q", {}, kit.cost(0.1))
    (state,) = states(path)
    assert state.name == f"{path.name}-random-{charge.random_state}"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    first, again = ledger.randomness(charge), ledger.randomness(charge)
    assert first.key == again.key
    assert ledger.pending("people")[0].random_state == charge.random_state
    ledger.record(charge.number, [np.array([1])], {})
    assert states(path) == []
    assert ledger.randomness(charge) is None
    assert ledger.pending("people") == ()


def test_every_charge_has_its_own(ledger, kit):
    charges = [ledger.charge("people", "q", {}, kit.cost(0.01)) for _ in range(20)]
    assert len({ledger.randomness(charge).key for charge in charges}) == 20
    assert len({charge.random_state for charge in charges}) == 20


def test_nothing_of_it_is_ever_in_the_ledger(ledger, path, kit, tmp_path):
    """Not in the file, not in what SQLite keeps beside it, not in a backup: neither now nor after the record."""
    charge = ledger.charge("people", "q", {}, kit.cost(0.1))
    key = ledger.randomness(charge).key
    copy = tmp_path / "backup.sqlite"

    def kept():
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        files = [path, copy, *path.parent.glob(f"{path.name}-wal"), *path.parent.glob(f"{path.name}-journal")]
        return b"".join(file.read_bytes() for file in files)

    for _ in range(2):
        assert key not in kept()
        assert key.hex().encode() not in kept()
        assert key[:8] not in kept()
        ledger.record(charge.number, [np.array([1])], {})


def test_what_is_refused_or_free_has_none(ledger, path, kit):
    with pytest.raises(Exception, match="Nothing was spent"):
        ledger.charge("people", "q", {}, kit.cost(100))
    ledger.note("people", "free", {}, {})
    assert states(path) == []


def test_a_charge_that_could_not_be_written_leaves_none(ledger, path, kit, monkeypatch):
    def fails(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("dpnotebook.ledger.ledger.append", fails)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge("people", "q", {}, kit.cost(0.1))
    assert states(path) == []
    assert ledger.history() == []


def test_where_it_is_gone_the_charge_is_lost(ledger, path, kit):
    charge = ledger.charge("people", "q", {}, kit.cost(0.1))
    assert ledger.history()[0]["state"] == "charged"
    states(path)[0].unlink()
    assert ledger.history()[0]["state"] == "lost"
    assert ledger.pending("people") == ()
    with pytest.raises(LedgerError, match="can never be measured"):
        ledger.get(charge.number)
    assert ledger.spent == charge.units  # what was charged stays charged
    assert ledger.audit().ok


@pytest.mark.parametrize(
    "harm", [lambda held: b"", lambda held: bytes(len(held)), lambda held: held[:-1], lambda held: b"x" + held[1:]]
)
def test_what_a_disk_lost_never_becomes_noise(ledger, path, kit, harm):
    """A file that power left empty, or full of zeros, or half written, is no random state."""
    charge = ledger.charge("people", "q", {}, kit.cost(0.1))
    state = states(path)[0]
    state.write_bytes(harm(state.read_bytes()))
    assert ledger.randomness(charge) is None


def test_the_state_of_one_charge_is_none_of_another(ledger, path, kit):
    charges = [ledger.charge("people", "q", {}, kit.cost(0.1)) for _ in range(2)]
    first, second = (path.with_name(f"{path.name}-random-{charge.random_state}") for charge in charges)
    shutil.copy(first, second)
    assert ledger.randomness(charges[0]) is not None
    assert ledger.randomness(charges[1]) is None


def test_what_was_left_behind_is_destroyed_when_the_ledger_is_opened(path, kit):
    """A kernel that died after the record, or before the charge, leaves a state that nothing waits for."""
    with contextlib.closing(Ledger(path, Budget(10.0))) as ledger:
        kit.register(ledger)
        waiting, recorded = (ledger.charge("people", "q", {}, kit.cost(0.1)) for _ in range(2))
        left = path.with_name(f"{path.name}-random-{recorded.random_state}")
        held = left.read_bytes()
        ledger.record(recorded.number, [np.array([1])], {})
        left.write_bytes(held)
        orphan = RandomStates(str(path)).make()
        other = path.with_name(f"{path.name}-random-notes")
        other.write_text("not ours")
    assert len(states(path)) == 4
    with contextlib.closing(Ledger(path, Budget(10.0))) as ledger:
        assert set(states(path)) == {path.with_name(f"{path.name}-random-{waiting.random_state}"), other}
        assert ledger.pending("people")[0].number == waiting.number
        assert RandomStates(str(path)).find(orphan) is None


def test_its_bytes_are_overwritten_before_it_is_removed(path):
    found = RandomStates(str(path))
    token = found.make()
    file = path.with_name(f"{path.name}-random-{token}")
    os.link(file, path.with_name("another name of it"))
    found.forget(token)
    assert not file.exists()
    assert set(path.with_name("another name of it").read_bytes()) == {0}


def test_a_name_from_a_ledger_reaches_no_other_file(path, kit):
    found = RandomStates(str(path))
    path.with_name(f"{path.name}-random-x").write_bytes(bytes(64))
    for token in ("../secret", "x", "", "A" * 32, "0" * 33, None):
        assert found.find(token) is None


def test_a_link_in_its_place_is_not_written_through(path, monkeypatch):
    target = path.with_name("target")
    target.write_bytes(b"precious")
    monkeypatch.setattr("dpnotebook.ledger.random_states.secrets.token_hex", lambda size: "0" * 32)
    path.with_name(f"{path.name}-random-{'0' * 32}").symlink_to(target)
    with pytest.raises(LedgerError):
        RandomStates(str(path)).make()
    assert target.read_bytes() == b"precious"


def test_in_memory_it_stays_in_memory(kit):
    with contextlib.closing(Ledger(":memory:", Budget(10.0))) as ledger:
        kit.register(ledger)
        charge = ledger.charge("people", "q", {}, kit.cost(0.1))
        assert ledger.randomness(charge).key == ledger.randomness(charge).key
        assert [waiting.number for waiting in ledger.pending("people")] == [charge.number]
        ledger.record(charge.number, [np.array([1])], {})
        assert ledger.randomness(charge) is None


def test_a_moved_ledger_takes_its_states_along_or_loses_them(path, kit, tmp_path):
    with contextlib.closing(Ledger(path, Budget(10.0))) as ledger:
        kit.register(ledger)
        ledger.charge("people", "q", {}, kit.cost(0.1))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(path, moved / path.name)
    with contextlib.closing(Ledger(moved / path.name, Budget(10.0))) as ledger:
        assert [row["state"] for row in ledger.history()] == ["lost"]
    shutil.copy(states(path)[0], moved)
    with contextlib.closing(Ledger(moved / path.name, Budget(10.0))) as ledger:
        assert [row["state"] for row in ledger.history()] == ["charged"]

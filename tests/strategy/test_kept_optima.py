"""Optima kept between sessions: the same plans with and without, and nothing is believed that does not hold."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpnotebook.strategy import explicit, kept_optima
from dpnotebook.strategy.kept_optima import FoundOperator, kept
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import Explicit, Identity, Kron, PIdentity, Prefix, Total, WidthRange

WORKLOADS = [Prefix(96), WidthRange(80, 30), Kron(Prefix(70), Identity(2)) + Kron(Total(70), Identity(2))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "optima"
    monkeypatch.setenv("DPNOTEBOOK_CACHE", str(place))
    forget()
    yield place
    forget()


def forget():
    select_own.cache_clear()
    explicit._found.clear()


def plans():
    forget()
    return [
        select_own(workload, noise, "full", objective).to_json()
        for workload in WORKLOADS
        for noise in ("laplace", "gaussian")
        for objective in ("total", "worst")
    ]


def no_search(*_, **__):
    raise AssertionError("this was found before")


def test_plans_are_the_same_without_with_and_from_what_was_kept(folder, monkeypatch):
    written = plans()
    assert len(list(folder.glob("*.npz"))) >= len(WORKLOADS) * 2
    for name in ("p_identity", "gaussian_optimum"):
        monkeypatch.setattr(explicit, name, no_search)
    assert plans() == written
    monkeypatch.undo()
    os.environ["DPNOTEBOOK_CACHE"] = "off"
    assert plans() == written


def test_the_folder_and_its_files_are_private(folder):
    select_own(Prefix(96), "gaussian")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_folder_that_others_may_write_to_is_not_used(folder):
    folder.mkdir()
    folder.chmod(0o777)
    select_own(Prefix(96), "gaussian")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("said", ["off", "", "0", "None"])
def test_it_can_be_switched_off(said, tmp_path, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_CACHE", said)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    forget()
    select_own(Prefix(97), "gaussian", "quick")
    assert not list(tmp_path.iterdir())


def found(value=3):
    return FoundOperator(PIdentity(np.full(64, value), np.ones((1, 64), dtype=int)), 0.5, (np.ones(64),))


def test_what_is_damaged_or_does_not_hold_is_searched_for_again(folder):
    first = kept(["one"], 64, found, lambda _: True)
    assert kept(["one"], 64, no_search, lambda _: True) == first
    (path,) = folder.glob("*.npz")
    whole = path.read_bytes()
    for damaged in (b"", b"PK", whole[:-40], whole[:300] + b"x" + whole[301:], os.urandom(500)):
        path.write_bytes(damaged)
        assert kept(["one"], 64, found, lambda _: True) == first
        assert path.read_bytes() != damaged  # written anew
    assert kept(["one"], 64, lambda: found(4), lambda _: False) == found(4)
    path.write_bytes(whole)
    assert kept(["one"], 64, lambda: found(5), lambda one: one.operator.diagonal[0] == 5) == found(5)


def test_another_question_or_version_is_another_file(folder, monkeypatch):
    kept(["one"], 64, found, lambda _: True)
    assert kept(["two"], 64, lambda: found(7), lambda _: True) == found(7)
    monkeypatch.setattr(kept_optima, "version", lambda name: "0.0")
    assert kept(["one"], 64, lambda: found(8), lambda _: True) == found(8)


def test_pickles_are_never_read(folder):
    kept(["one"], 64, found, lambda _: True)
    (path,) = folder.glob("*.npz")
    np.savez(path, digest=np.array("x"), matrix=np.array([print], dtype=object), allow_pickle=True)
    assert kept(["one"], 64, lambda: found(9), lambda _: True) == found(9)


def test_a_bound_is_proved_again(folder, monkeypatch):
    honest = select_own(Prefix(96), "gaussian", "full")
    claimed = kept_optima._write

    def boast(path, key, made):
        claimed(path, key, FoundOperator(made.operator, made.bound * 1.01, made.proof))

    for path in folder.iterdir():
        path.unlink()
    monkeypatch.setattr(kept_optima, "_write", boast)
    forget()
    select_own(Prefix(96), "gaussian", "full")
    monkeypatch.undo()
    monkeypatch.setenv("DPNOTEBOOK_CACHE", str(folder))
    forget()
    assert select_own(Prefix(96), "gaussian", "full").certificate == honest.certificate


def test_what_was_not_used_for_longest_makes_room(folder, monkeypatch):
    monkeypatch.setattr(kept_optima, "LARGEST_FOLDER", 6000)
    for number in range(20):
        kept([str(number)], 64, found, lambda _: True)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert sizes
    assert sum(sizes) <= 6000


def test_kernels_write_at_the_same_time(folder):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: kept(["one"], 64, found, lambda _: True), range(40)))
    assert all(result == found() for result in results)
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("DPNOTEBOOK_CACHE", str(file / "below"))
    assert kept(["one"], 64, found, lambda _: True) == found()


def test_a_second_session_finds_it(folder):
    code = (
        "from dpnotebook.strategy.select import select_own; from dpnotebook.workload import Prefix; import json;"
        "print(json.dumps(select_own(Prefix(96), 'gaussian', 'full').to_json()))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] != b""


def test_explicit_operators_are_kept_too(folder):
    made = FoundOperator(Explicit(np.arange(128).reshape(2, 64)))
    assert kept(["matrix"], 64, lambda: made, lambda _: True) == made
    assert kept(["matrix"], 64, no_search, lambda _: True) == made

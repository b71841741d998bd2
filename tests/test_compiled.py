"""One worker at a time reads a file of tests, where what it compiles is kept."""

import subprocess
import sys

import pytest
from compiled import by_one_worker

ASK = """
import fcntl, sys
with open(sys.argv[1], "rb") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waits")
    else:
        print("reads")
"""


def another(path):
    return subprocess.run([sys.executable, "-c", ASK, path], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("worker", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_others_wait_for_the_worker_that_compiles(worker, kept, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw7")
    monkeypatch.setattr(sys, "dont_write_bytecode", not kept)
    path = tmp_path / "test_any.py"
    path.write_text("tests = 1\n")
    with by_one_worker(path):
        assert another(path) == ("waits" if worker and kept else "reads")
    assert another(path) == "reads"
    assert path.read_text() == "tests = 1\n"

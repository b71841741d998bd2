"""A small table, costs on it, and a ledger that can be tampered with."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.chain import GENESIS, entry_from_row, entry_hash
from dpnotebook.ledger.reading import COLUMNS
from dpnotebook.ledger.store import SCHEMA
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

SIZES = {"age": 10, "sex": 2}
MEMORY = "/dev/shm"  # what a killed process wrote is there as well; only a power failure would tell it from a disk
DOMAIN = Domain({"age": Range(0, 9), "sex": ["F", "M"]}).to_json()


def cost(epsilon, **levels):
    """Return the cost of asking the rows with these levels (all where none are named) at a pure epsilon."""
    norms = {}
    for name, chosen in levels.items():
        norms[name] = np.zeros(SIZES[name], dtype=np.int64)
        norms[name][list(chosen)] = 1
    return CellCost((CostTerm(Fraction(str(epsilon)) * UNITS, norms),))


def register(ledger, name="people", **other):
    """Register the table, or one that differs."""
    ledger.register(name, **{"fingerprint": "f1", "domain": DOMAIN, "unit": None, "max_rows": None} | other)


def answer(ledger, epsilon=0.1, values=(1, 2, 3), table="people", question="q", **levels):
    """Charge a question and record its answer."""
    charge = ledger.charge(table, question, {"note": "plan"}, cost(epsilon, **levels))
    return ledger.record(charge.number, [np.array(values)], {"bits": 0})


@contextlib.contextmanager
def raw(path):
    """Give a plain connection that may do what the ledger never does: change and remove entries."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = [statement for statement in SCHEMA if "TRIGGER" in statement]
        for statement in triggers:
            connection.execute(f"DROP TRIGGER {statement.split()[2]}")
        yield connection
        for statement in triggers:
            connection.execute(statement)


def rehash(connection, start):
    """Do what a forger would: make every hash from an entry on follow again."""
    before = connection.execute("SELECT hash FROM entry WHERE number = ?", (start - 1,)).fetchone()
    head = before[0] if before else GENESIS
    connection.text_factory = bytes
    connection.execute("BEGIN")
    for row in connection.execute(
        f"SELECT {COLUMNS} FROM entry WHERE number >= ? ORDER BY number", (start,)
    ).fetchall():
        entry = entry_from_row(row)
        hashed = entry_hash(entry.number, entry.kind, entry.time, entry.payload, head)
        connection.execute("UPDATE entry SET prev = ?, hash = ? WHERE number = ?", (head, hashed, entry.number))
        head = hashed
    connection.execute("UPDATE state SET head = ?", (head,))
    connection.execute("COMMIT")


def script(text, *arguments, **options):
    """Run Python text in another process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment():
    root = Path(__file__).parents[2]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def kit():
    return SimpleNamespace(
        cost=cost,
        register=register,
        answer=answer,
        raw=raw,
        rehash=rehash,
        script=script,
        environment=environment,
        domain=DOMAIN,
    )


def roomy(folder):
    """Return whether there is a folder with room for the ledgers of a test."""
    return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free > 1 << 26


@pytest.fixture
def tmp_path(tmp_path_factory):
    """Return a folder in memory where there is one: most of the time of these tests was waiting for a disk."""
    if not roomy(MEMORY):
        yield tmp_path_factory.mktemp("ledger")
        return
    with tempfile.TemporaryDirectory(prefix="dpnotebook-test-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


@pytest.fixture
def ledger(path):
    """Return a ledger of ε = 1 in a file, with one table."""
    ledger = Ledger(path, Budget(1.0))
    register(ledger)
    yield ledger
    ledger.close()


@pytest.fixture(params=["file", "memory"])
def either(request, path):
    """Return a ledger of ε = 1 with one table, in a file and in memory."""
    ledger = Ledger(path if request.param == "file" else ":memory:", Budget(1.0))
    register(ledger)
    yield ledger
    ledger.close()

"""Several processes on one ledger, and what is left when they are killed."""

import hashlib
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpnotebook.ledger import Ledger
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget

WORKER = Path(__file__).with_name("worker.py")
ROUNDS, MOST = 20, 300  # of killing: at least, and at most until everything that may be left behind was seen
WANTED = {"pending": 4, "shown": 40, "refined": 8, "free": 8, "waiting": 1}


def brute_force(charges):
    """Return the total of some charges, cell by cell with Python's own integers."""
    cells = np.zeros((10, 2), dtype=object)
    for charge in charges:
        for term in charge.cost.terms:
            assert term.rate.denominator == 1
            box = np.ones((10, 2), dtype=object)
            for axis, name in enumerate(("age", "sex")):
                if name in term.norms:
                    norms = [int(norm) for norm in term.norms[name]]
                    box = box * np.array(norms, dtype=object).reshape((-1, 1) if axis == 0 else (1, -1))
            cells = cells + box * int(term.rate)
    return int(cells.max())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["equal", "random"])
def test_eight_processes_never_overspend(path, kit, kind):
    done = subprocess.run(
        [sys.executable, WORKER, "hammer", path, "8", kind],
        env=kit.environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sorted(seed for seed, *_ in lines) == list(range(8))
    granted = {number: seed for seed, *numbers in lines for number in numbers}
    ledger = Ledger(path, Budget(1.0))
    records = ledger.records("people")
    assert sorted(granted) == [record.number for record in records] == list(range(1, len(records) + 1))
    assert all(record.answers[0].tolist() == [granted[record.number]] for record in records)
    assert ledger.spent == brute_force(records) == sum(record.units for record in records) <= UNITS
    if kind == "equal":
        assert len(records) == 100
        assert ledger.remaining == 0
    else:
        # Each was refused five times by costs of up to 0.1, so less than that is left; and cells shared the budget.
        assert ledger.remaining < UNITS / 10
        assert sum(record.cost.bound for record in records) > 1.2 * UNITS
    assert len(ledger.refusals()) == (8 if kind == "equal" else 40)
    audit = ledger.audit()
    assert audit.ok, audit
    assert audit.pending == 0


def test_kill_at_any_moment(tmp_path, kit):
    """Two processes are killed while they charge and record, again and again; every promise they made still holds."""
    keeper = subprocess.Popen(
        [sys.executable, WORKER, "killed"],
        env=kit.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    killed = turn = 0
    seen = Counter()
    promised = {}
    with keeper:
        while turn < ROUNDS or (turn < MOST and any(seen[what] < least for what, least in WANTED.items())):
            path = tmp_path / f"{turn // 10}.ledger"  # every tenth round also kills the making of the file
            keeper.stdin.write(f"{path}\n")
            keeper.stdin.flush()
            lines = list(iter(keeper.stdout.readline, "done\n"))
            killed += lines.count("killed\n")
            said = [line.split() for line in lines if line.startswith(("charged", "shown"))]
            charges, answers = promised.setdefault(path, ({}, {}))
            charges.update({int(number): int(units) for word, number, units in said if word == "charged"})
            answers.update({int(number): digest for word, number, digest in said if word == "shown"})
            seen["pending"] += check(path, kit, charges, answers, seen, complete=turn % 2 == 0)
            seen["shown"] += len(answers)
            turn += 1
        keeper.stdin.close()
    assert keeper.returncode == 0
    assert killed == 2 * turn
    assert all(seen[what] >= least for what, least in WANTED.items()), seen


def check(path, kit, charges, answers, seen, complete):
    """Check every promise, then write, without waiting for anyone; return how many charges were pending."""
    ledger = Ledger(path, Budget(10**4), timeout=0)
    kit.register(ledger)
    history = {row["number"]: row for row in ledger.history()}
    for number, units in charges.items():
        assert history[number]["units"] == units
    records = {record.number: record for record in ledger.records("people")}
    for number, digest in answers.items():
        assert shown(records[number].answers) == digest
    pending = ledger.pending("people")
    assert {charge.number for charge in pending}.isdisjoint(answers)
    assert sorted([*records, *(charge.number for charge in pending)]) == sorted(history)
    everything = [*records.values(), *pending]
    acknowledged = [charge for charge in everything if charge.number in charges]
    assert ledger.spent == brute_force(everything) >= brute_force(acknowledged)
    # No answer is drawn on twice, also where the charge that does was never recorded; a note is whole or not there.
    refined = [place for charge in everything for place in charge.refines]
    assert len(set(refined)) == len(refined)
    assert all(number in records for number, _ in refined)
    assert ledger.refining("people") == {place for charge in pending for place in charge.refines}
    free = [record for record in records.values() if not record.cost.terms]
    assert all(record.details == {"estimates": [0.5]} for record in free)
    assert "free" not in {charge.question for charge in pending}
    seen["refined"] += len(refined)
    seen["waiting"] += len(ledger.refining("people"))
    seen["free"] += len(free)
    audit = ledger.audit()
    assert audit.ok, audit
    number = ledger.charge("people", "next", {}, kit.cost(0.001)).number
    ledger.record(number, [np.array([0])], {})
    if complete:
        for charge in pending:
            first = ledger.record(charge.number, [np.array([1])], {})
            again = ledger.record(charge.number, [np.array([2])], {})
            assert first.answers[0].tolist() == again.answers[0].tolist() == [1]
            answers[charge.number] = shown(again.answers)
        assert ledger.pending("people") == ()
    ledger.close()
    return len(pending)


def shown(answers):
    return hashlib.sha256(b"".join(array.tobytes() for array in answers)).hexdigest()


def test_brute_force_is_right(kit):
    class Charged:
        def __init__(self, cost):
            self.cost = cost

    overlap = [Charged(kit.cost(0.3, age=[1, 2])), Charged(kit.cost(0.2, age=[2], sex=[0])), Charged(kit.cost(0.1))]
    assert brute_force(overlap) == int(Fraction("0.6") * UNITS)

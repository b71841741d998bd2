"""What opening and auditing a long ledger cost beside reading it, in processor time of one run; and what is checked."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.errors import LedgerCorrupt
from dpnotebook.ledger import Ledger, audit_file, snapshot, writing
from dpnotebook.ledger import replay as module
from dpnotebook.ledger.reading import replay
from dpnotebook.ledger.releases import pack, unpack
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

DOMAIN = Domain({"age": Range(0, 115), "sex": ["F", "M"], "region": Range(1, 10), "income": Range(0, 39)})
RELEASES = 1_000
CELLS = 92_800


def random_cost(source):
    norms = {}
    for name in source.permutation(list(DOMAIN.names))[: source.integers(1, 4)]:
        size = DOMAIN.sizes[name]
        low, high = np.sort(source.integers(0, size, 2))
        norms[str(name)] = ((np.arange(size) >= low) & (np.arange(size) <= high)).astype(np.int64)
    return CellCost((CostTerm(Fraction(int(source.integers(10**6, 10**8))), norms),))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a ledger of thousands of releases on ninety thousand cells, as it is written one by one."""
    path, source = tmp_path_factory.mktemp("long") / "long.ledger", np.random.default_rng(1)
    with contextlib.closing(Ledger(path, Budget(1000.0))) as ledger:
        ledger.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
        with ledger._store.writing() as connection:  # one commit in place of thousands
            view = replay(connection, None)
            for number in range(1, RELEASES + 1):
                cost, table = random_cost(source), view.tables["people"]
                after, units = snapshot.plus(table.spend, cost)
                plan = {"question": "x" * 500, "words": f"q{number}"}
                values = writing.charge_values(view, "people", f"q{number}", plan)
                values |= {"cost": cost.to_json(), "units": units, "spent": view.spent + units}
                values |= {"cells": snapshot.digest(after)}
                entry = writing.append(connection, view, "charge", values, units=units)
                view.computed(entry, after)
                view.take(entry)
                if table.work >= module.SNAPSHOT_WORK:
                    writing.write_snapshot(connection, "people", number, after)
                    table.work = 0
                blob, about = pack([source.integers(0, 10**5, number % 300)])
                values = {"charge": number, "answers": about, "details": {}}
                entry = writing.append(connection, view, "record", values, blob=blob)
                view.take(replace(entry, size=len(blob)))
        assert ledger.spend("people").cells.size == CELLS
    return path


@pytest.fixture
def long(made, path):
    shutil.copy(made, path)
    return path


def reading(path):
    """Read, hash, parse and unpack every entry: the least that an audit must do."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for payload, answers in connection.execute("SELECT payload, answers FROM entry"):
            values = json.loads(payload)
            hashlib.sha256(payload).digest()
            if answers is not None:
                unpack(answers, values["answers"])


def least(path, work):
    """Return the least processor time of some runs of reading, and of work, taken in turns."""
    times = ([], [])
    for _ in range(4):
        for taken, run in zip(times, (reading, work), strict=True):
            started = time.process_time()
            run(path)
            taken.append(time.process_time() - started)
    return min(times[0]), min(times[1])


def test_a_long_ledger_opens_at_a_few_times_the_cost_of_reading_it(long):
    base, opening = least(long, lambda path: Ledger(path, Budget(1000.0)).close())
    assert opening < 15 * base


@pytest.mark.slow
def test_a_long_ledger_is_audited_at_a_few_times_the_cost_of_reading_it(long, monkeypatch):
    """Adding up and hashing every cell after every charge cost 30 to 60 times as much."""
    monkeypatch.setattr(module, "HASHED", module.HASHED // 10)  # of ten thousand releases these are a tenth
    base, auditing = least(long, audit_file)
    assert auditing < 15 * base


def test_opened_and_audited_it_is_what_was_written(long):
    spend = np.zeros((116, 2, 10, 40), dtype=np.int64)
    source = np.random.default_rng(1)
    for number in range(1, RELEASES + 1):
        (term,) = random_cost(source).terms
        source.integers(0, 10**5, number % 300)  # its noisy answers
        box = np.ones((1,) * 4, dtype=np.int64)
        for axis, name in enumerate(DOMAIN.names):
            if name in term.norms:
                box = box * term.norms[name].reshape([-1 if i == axis else 1 for i in range(4)])
        spend += box * int(term.rate)
    with contextlib.closing(Ledger(long, Budget(1000.0))) as ledger:
        np.testing.assert_array_equal(ledger.spend("people").cells, spend)
        assert ledger.spent == spend.max()
        assert ledger.get(299).answers[0].size == 299
        audit = ledger.audit()
        assert (audit.ok, audit.spent, audit.releases) == (True, spend.max(), RELEASES)
        # What was given out does not change with what comes after.
        before = ledger.spend("people")
        copy = before.cells.copy()
        charge = ledger.charge("people", "more", {}, random_cost(source))
        assert ledger.spent == spend.max() + charge.units
        np.testing.assert_array_equal(before.cells, copy)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("number", [RELEASES // 2, RELEASES - 1, RELEASES])
@pytest.mark.parametrize("half", [False, True])
def test_a_forged_cost_is_found_wherever_it_is(long, kit, number, half):
    """Also in the middle, where not every digest is compared: units are, and the last digest covers every cell."""
    with kit.raw(long) as connection:
        ((entry, payload),) = connection.execute(
            "SELECT number, payload FROM entry WHERE kind = 'charge' ORDER BY number LIMIT 1 OFFSET ?", [number - 1]
        ).fetchall()
        values = json.loads(payload)
        (term,) = values["cost"]
        term["rate"] = str(int(term["rate"]) // 2 if half else int(term["rate"]) - 1)
        connection.execute("UPDATE entry SET payload = ? WHERE number = ?", [writing.to_bytes(values), entry])
        kit.rehash(connection, entry)
    audit = audit_file(long)
    assert not audit.ok
    assert any("does not add up" in text or "is not what was written" in text for text in audit.problems)
    connection = sqlite3.connect(long)
    (kept,) = connection.execute("SELECT charge FROM snapshot").fetchone()
    connection.close()
    if number > kept:
        with pytest.raises(LedgerCorrupt):
            Ledger(long, Budget(1000.0))


def test_a_forged_snapshot_is_found(long, kit):
    with kit.raw(long) as connection:
        charge, packed = connection.execute("SELECT charge, spend FROM snapshot").fetchone()
        assert 0 < charge < RELEASES
        spend = snapshot.unpack(packed, DOMAIN.sizes, 10**6)
        spend.cells[0, 0, 0, 0] -= 1
        connection.execute("UPDATE snapshot SET spend = ?", [snapshot.pack(spend)])
    assert audit_file(long).problems == ("the snapshot of the spend of 'people' does not follow from the entries",)
    with pytest.raises(LedgerCorrupt):
        Ledger(long, Budget(1000.0))

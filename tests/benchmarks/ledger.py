"""Times of the ledger: python tests/benchmarks/ledger.py [releases] [folder]. Prints a line for each."""

import contextlib
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from dpnotebook.domain import Domain, Range
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.ledger import SNAPSHOT_WORK
from dpnotebook.ledger.reading import replay
from dpnotebook.ledger.releases import pack
from dpnotebook.ledger.snapshot import digest
from dpnotebook.ledger.writing import append, write_snapshot
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, Term

DOMAIN = Domain({"age": Range(0, 115), "sex": ["F", "M"], "region": Range(1, 10), "income": Range(0, 39)})
PLAN = {"question": {"key": "x" * 300}, "measurements": [{"axes": [["age", list(range(116))]], "scale": "10000/3"}]}


def random_cost(source):
    """Return the cost of a question about a random box: half of them name three attributes."""
    norms = {}
    for name in source.permutation(list(DOMAIN.names))[: source.integers(1, 4)]:
        size = DOMAIN.sizes[name]
        low, high = np.sort(source.integers(0, size, 2))
        norms[str(name)] = ((np.arange(size) >= low) & (np.arange(size) <= high)).astype(np.int64)
    return CellCost((Term(Fraction(int(source.integers(10**6, 10**8))), norms),))


def filled(path, releases):
    """Write a ledger of many releases in one transaction, as `charge` and `record` would one by one."""
    source = np.random.default_rng(1)
    ledger = Ledger(path, Budget(10**5))
    ledger.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
    with ledger._store.writing() as connection:
        view = replay(connection, None)
        for number in range(1, releases + 1):
            cost, table = random_cost(source), view.tables["people"]
            before, snapshot_due = table.spend.maximum, table.work >= SNAPSHOT_WORK
            table.spend.add(cost)
            units = table.spend.maximum - before
            values = {"number": number, "table": "people", "question": f"q{number}", "plan": PLAN}
            values |= {
                "cost": cost.to_json(),
                "units": units,
                "spent": view.spent + units,
                "cells": digest(table.spend),
            }
            entry = append(connection, view, "charge", values, units=units)
            table.work += table.spend.cells.size + (1 << 15)
            view.entries, view.head, view.spent = entry.number, entry.hash, view.spent + units
            if snapshot_due:
                write_snapshot(connection, "people", number, table.spend)
                table.work = 0
            blob, about = pack([source.integers(0, 10**5, int(source.choice([1, 116, 232, 1160])))])
            entry = append(connection, view, "record", {"charge": number, "answers": about, "details": {}}, blob=blob)
            view.entries, view.head = entry.number, entry.hash
    ledger.close()


def timed(name, work, times=1):
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        result = work()
        taken.append(time.perf_counter() - started)
    print(f"{name:<58} {1000 * statistics.median(taken):10.3f} ms", flush=True)
    return result


def main(releases=10_000, folder=None):
    with tempfile.TemporaryDirectory(dir=folder) as top:
        fresh = timed("make a ledger", lambda: Ledger(Path(top, "fresh"), Budget(10**5)))
        fresh.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
        source = np.random.default_rng(0)

        def release():
            charge = fresh.charge("people", "q", PLAN, random_cost(source))
            fresh.record(charge.number, [source.integers(0, 10**5, 116)], {})

        timed("charge + record, two commits on the disk", release, 200)
        memory = Ledger(":memory:", Budget(10**5))
        memory.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
        fresh = memory
        timed("charge + record in memory", release, 200)
        path = Path(top, "long")
        timed(f"write {releases} releases at once", lambda: filled(path, releases))
        print(f"{'size of the file':<58} {path.stat().st_size / 2**20:10.1f} MiB")
        ledger = timed(f"open a ledger of {releases} releases", lambda: Ledger(path, Budget(10**5)))
        print(f"{'cells of its spend':<58} {ledger.spend('people').cells.size:10}")
        timed("price", lambda: ledger.price("people", random_cost(source)), 50)
        timed("spent, nothing new", lambda: ledger.spent, 200)
        timed("records of one question", lambda: ledger.records("people", "q77"), 50)
        timed("history", ledger.history)
        fresh = ledger
        timed("charge + record in the long ledger", release, 50)
        timed("records of the table", lambda: ledger.records("people"))
        ledger.close()
        with contextlib.suppress(IndexError):
            print(timed("audit", lambda: audit_file(path)))


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))

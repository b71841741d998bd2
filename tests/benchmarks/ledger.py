"""Times of the ledger: python tests/benchmarks/ledger.py [releases] [folder]. Prints a line for each."""

import base64
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dpnotebook.domain import Domain, Range
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.ledger import SNAPSHOT_WORK
from dpnotebook.ledger.reading import replay
from dpnotebook.ledger.releases import pack
from dpnotebook.ledger.snapshot import digest, plus
from dpnotebook.ledger.writing import append, charge_values, write_snapshot
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

DOMAIN = Domain({"age": Range(0, 115), "sex": ["F", "M"], "region": Range(1, 10), "income": Range(0, 39)})
PLAN = {"question": {"key": "x" * 300}, "measurements": [{"axes": [["age", list(range(116))]], "scale": "10000/3"}]}


def random_cost(source):
    """Return the cost of a question about a random box: half of them name three attributes."""
    norms = {}
    for name in source.permutation(list(DOMAIN.names))[: source.integers(1, 4)]:
        size = DOMAIN.sizes[name]
        low, high = np.sort(source.integers(0, size, 2))
        norms[str(name)] = ((np.arange(size) >= low) & (np.arange(size) <= high)).astype(np.int64)
    return CellCost((CostTerm(Fraction(int(source.integers(10**6, 10**8))), norms),))


def filled(path, releases, free=0.0):
    """Write a ledger of many releases in one transaction, as `charge`, `record` and `note` would one by one.

    Of all releases, a fraction of `free` follows from what was recorded before: answers of 116 cells.
    """
    source = np.random.default_rng(1)
    ledger = Ledger(path, Budget(10**5))
    ledger.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
    with ledger._store.writing() as connection:
        view = replay(connection, None)
        for number in range(1, releases + 1):
            if source.random() < free:
                charge = append(connection, view, "charge", charge_values(view, "people", f"q{number}", PLAN))
                blob, about = pack(())
                values = {"charge": number, "answers": about, "details": estimates(source)}
                entry = append(connection, view, "record", values, blob=blob, after=charge)
                view.take(charge)
                view.take(replace(entry, size=len(blob)))
                continue
            cost, table = random_cost(source), view.tables["people"]
            after, units = plus(table.spend, cost)
            values = charge_values(view, "people", f"q{number}", PLAN)
            values |= {"cost": cost.to_json(), "units": units, "spent": view.spent + units, "cells": digest(after)}
            entry = append(connection, view, "charge", values, units=units)
            view.computed(entry, after)
            view.take(entry)
            if table.work >= SNAPSHOT_WORK:
                write_snapshot(connection, "people", number, after)
                table.work = 0
            blob, about = pack([source.integers(0, 10**5, int(source.choice([1, 116, 232, 1160])))])
            entry = append(connection, view, "record", {"charge": number, "answers": about, "details": {}}, blob=blob)
            view.take(replace(entry, size=len(blob)))
    ledger.close()


def estimates(source):
    return {"estimates": base64.b64encode(source.normal(0, 1e3, 116).tobytes()).decode()}


def in_use():
    """Return the memory of this process that is in use, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def most_free(path, releases):
    before = in_use()
    ledger = timed(f"open a ledger of {releases} releases, most free", lambda: Ledger(path, Budget(10**5)))
    print(f"{'memory of it':<58} {in_use() - before:10.1f} MiB")
    news = timed("news of the whole table", lambda: ledger.news("people"))[1]
    print(f"{f'memory with its {len(news)} measurements in hand':<58} {in_use() - before:10.1f} MiB")
    records = timed("records of the table", lambda: ledger.records("people"))
    print(f"{f'memory with its {len(records)} records in hand':<58} {in_use() - before:10.1f} MiB")


def timed(name, work, times=1):
    taken, busy = [], time.process_time()
    for _ in range(times):
        started = time.perf_counter()
        result = work()
        taken.append(time.perf_counter() - started)
    busy = 1000 * (time.process_time() - busy) / times
    print(f"{name:<58} {1000 * statistics.median(taken):10.3f} ms {busy:10.3f} ms of a processor", flush=True)
    return result


def one_of_many(path, times):
    """Charge some times, as one of several processes; return when each began and ended."""
    ledger, source, taken = Ledger(path, Budget(10**5)), np.random.default_rng(), []
    for _ in range(times):
        started = time.monotonic()
        ledger.charge("people", "q", PLAN, random_cost(source))
        taken.append((started, time.monotonic()))
    return taken


def many(path, processes, times):
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        taken = [one for some in pool.map(one_of_many, [path] * processes, [times] * processes) for one in some]
    waits = sorted(end - start for start, end in taken)
    per_second = len(waits) / (max(end for _, end in taken) - min(start for start, _ in taken))
    name = f"{processes} processes, {times} charges each: median, 99 of 100"
    print(f"{name:<58} {1000 * statistics.median(waits):10.3f} ms {1000 * waits[len(waits) * 99 // 100]:10.3f} ms")
    print(f"{'longest wait; charges a second of all together':<58} {waits[-1]:10.3f} s  {per_second:10.1f}", flush=True)


def main(releases=10_000, folder=None):
    with tempfile.TemporaryDirectory(dir=folder) as top:
        fresh = timed("make a ledger", lambda: Ledger(Path(top, "fresh"), Budget(10**5)))
        fresh.register("people", fingerprint="f", domain=DOMAIN.to_json(), unit=None, max_rows=None)
        source = np.random.default_rng(0)

        def release():
            charge = fresh.charge("people", "q", PLAN, random_cost(source))
            fresh.record(charge.number, [source.integers(0, 10**5, 116)], {})

        timed("charge + record, two commits on the disk", release, 200)
        for processes, times in ((1, 200), (8, 200)):
            many(Path(top, "fresh"), processes, times)
        print(audit_file(Path(top, "fresh")))
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
        timed("spend of every cell", lambda: ledger.spend("people"), 200)
        timed("version", lambda: ledger.version("people"), 200)
        timed("pending, none", lambda: ledger.pending("people"), 200)
        timed("records after the last", lambda: ledger.records("people", after=releases), 200)
        version = ledger.version("people")
        timed("news, none", lambda: ledger.news("people", version), 200)
        timed("records of one question", lambda: ledger.records("people", "q77"), 50)
        timed("history", ledger.history)
        fresh = ledger
        timed("charge + record in the long ledger", release, 50)
        timed("note in the long ledger", lambda: ledger.note("people", "q", PLAN, estimates(source)), 200)
        large = {"estimates": "x" * 10**5}
        timed("note of 100 kB", lambda: ledger.note("people", "q", PLAN, large), 50)
        timed("records of the table", lambda: ledger.records("people"))
        print(timed("audit", lambda: audit_file(path)))
        timed("backup, audited", lambda: ledger.backup(Path(top, "backup")))
        ledger.close()
        path = Path(top, "free")
        filled(path, releases, free=0.9)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # where no memory is left over from all the above
            pool.submit(most_free, path, releases).result()


if __name__ == "__main__":
    main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))

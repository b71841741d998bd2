"""The first plan beside many releases, in a fresh process: python tests/benchmarks/many.py [releases [history...]].

Of 10^5, which are to open in 10 s: python tests/benchmarks/many.py 100000 "seven attributes". They take a quarter of an
hour to write: some 9 ms each, however many there are, as each charge names the digest of a million cells.
Of 10^4 that are nearly all different, which take minutes: python tests/benchmarks/many.py 10000 "10,000 different"

Of each kind of history: processor time to open the ledger, of the first plan and of the next, memory, and how many
times longer the first plan takes than beside a tenth of the releases (10 would be no worse than in proportion).
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

import dpnotebook as dpn
from dpnotebook.ledger.ledger import SNAPSHOT_WORK
from dpnotebook.ledger.reading import replay
from dpnotebook.ledger.releases import pack
from dpnotebook.ledger.snapshot import digest, plus
from dpnotebook.ledger.writing import append, charge_values, write_snapshot
from dpnotebook.planner.plan_json import plan_to_json

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "income": dpn.Range(0, 39)}
SEVEN = {name: dpn.Range(0, 9) for name in "abcdefg"}
BUDGETS = {"laplace": dpn.Budget(10**5), "gaussian": dpn.Budget(10**5, 1e-6)}
HISTORIES = {
    "one histogram": lambda t: [t.histogram("age", epsilon=0.01, fresh=True)],
    "two histograms": lambda t: [t.histogram(name, epsilon=0.01, fresh=True) for name in ("age", "income")],
    "one crosstab": lambda t: [t.crosstab("age", "sex", epsilon=0.01, fresh=True)],
    "1,000 boxes": lambda t: [t.count(where=where, epsilon=0.01, fresh=True) for where in boxes(1_000)],
    "1,000 different": lambda t: list(different(t, np.random.default_rng(4), 1_000, epsilon=0.01, fresh=True)),
    "seven attributes": lambda t: list(group_bys(t, np.random.default_rng(4), 300, epsilon=0.01, fresh=True)),
}
BY_NAME = {
    "10,000 different": lambda t: list(different(t, np.random.default_rng(11), 10_000, epsilon=0.01, fresh=True))
}
OF_SEVEN = ("seven attributes", "1,000 different", *BY_NAME)


def boxes(count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        (a, b), (c, d) = np.sort(rng.integers(0, 100, 2)), np.sort(rng.integers(0, 40, 2))
        yield f"age >= {a} and age <= {b} and income >= {c} and income <= {d}"


def group_bys(table, rng, count, **accuracy):
    """Yield tables of up to three of seven attributes of ten levels, of all rows or of some levels of another one."""
    for _ in range(count):
        *keys, other = rng.permutation(list(SEVEN))[: int(rng.integers(2, 5))].tolist()
        where = f"{other} < {rng.integers(1, 10)}" if rng.random() < 0.3 else None
        yield table.groupby(keys).count(where=where, **accuracy)


def condition(rng, name):
    """Return a condition on some levels of an attribute of ten."""
    low, high = np.sort(rng.integers(0, 10, 2))
    some = sorted(rng.choice(10, int(rng.integers(2, 6)), replace=False).tolist())
    return str(rng.choice([f"{name} < {high + 1}", f"{name} >= {low} and {name} <= {high}", f"{name} in {some}"]))


def different(table, rng, count, **accuracy):
    """Yield tables of up to four of seven attributes, of all rows, of some by one or two of these, or by an OR."""
    for _ in range(count):
        names = rng.permutation(list(SEVEN)).tolist()
        chosen, told = names[: int(rng.integers(1, 5))], 0 if (kind := rng.random()) < 0.5 else int(rng.integers(1, 3))
        keys, by = chosen[told:], [f"({condition(rng, name)})" for name in names[:told]]
        where = (" or " if kind > 0.9 else " and ").join(by) or None
        yield (table.groupby(keys) if keys else table).count(where=where, **accuracy)


def opened(path, noise, name):
    rows = np.arange(5_000)
    if name in OF_SEVEN:
        frame = pd.DataFrame({name: rows // (place + 1) % 10 for place, name in enumerate(SEVEN)})
        session = dpn.Session(BUDGETS[noise], ledger=path)
        return session, session.protect(frame, "t", domain=SEVEN)
    frame = pd.DataFrame({"age": rows % 100, "sex": np.where(rows % 2, "F", "M"), "income": rows % 40})
    session = dpn.Session(BUDGETS[noise], ledger=path)
    return session, session.protect(frame, "t", domain=DOMAIN)


def fill(path, noise, name, releases):
    """Write releases in one transaction, as running the queries in turn would one by one."""
    session, table = opened(path, noise, name)
    planned = [(query.question.key, query.plan) for query in (HISTORIES | BY_NAME)[name](table)]
    planned = [(key, plan, plan_to_json(plan)) for key, plan in planned]
    rng = np.random.default_rng(0)
    with session.ledger._store.writing() as connection:
        view = replay(connection, None)
        for number in range(1, releases + 1):
            key, plan, values = planned[number % len(planned)]
            known = view.tables["t"]
            after, units = plus(known.spend, plan.cells)
            values = charge_values(view, "t", key, values) | {
                "cost": plan.cells.to_json(),
                "units": units,
                "spent": view.spent + units,
                "cells": digest(after),
            }
            entry = append(connection, view, "charge", values, units=units)
            view.computed(entry, after)
            view.take(entry)
            if known.work >= SNAPSHOT_WORK:
                write_snapshot(connection, "t", number, after)
                known.work = 0
            blob, about = pack([rng.integers(0, 10**4, (1, item.measurement.answers)) for item in plan.measurements])
            entry = append(connection, view, "record", {"charge": number, "answers": about, "details": {}}, blob=blob)
            view.take(replace(entry, size=len(blob)))
    session.close()


def measured(path, noise, name):
    """Return the processor time to open, of the first plan and of the next, in seconds, and memory in MiB."""
    import scipy.linalg
    import scipy.sparse
    import scipy.special  # noqa: F401 - what any first plan loads

    before, times = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [time.process_time()]
    session, table = opened(path, noise, name)
    first = next(iter(table.domain))
    times.append(time.process_time())
    for error in (0.9, 0.8):
        _ = table.histogram(first, error=error).plan
        times.append(time.process_time())
    session.close()
    return *np.diff(times), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main(releases=10_000, *histories):
    print(f"{'of ' + format(releases, ',') + ' releases':<30}{'open':>8}{'first':>8}{'next':>8}{'MiB':>8}{'times':>8}")
    with tempfile.TemporaryDirectory() as top:
        for noise in BUDGETS:
            for name in histories or HISTORIES:
                found = []
                for count in (releases // 10, releases):
                    path = Path(top, f"{noise} {name} {count}", "ledger")
                    path.parent.mkdir()
                    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                        pool.submit(fill, path, noise, name, count).result()
                    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                        found.append(pool.submit(measured, path, noise, name).result())
                few, many = found
                text = "".join(f"{value:8.2f}" for value in many)
                print(f"{name + ', ' + noise:<30}{text}{many[1] / few[1]:8.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])

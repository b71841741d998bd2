"""How long a plan takes beside much history, in milliseconds of processor time, and how much memory plans take."""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import many
import numpy as np
import pandas as pd

import dpnotebook as dpn


def times(queries):
    """Return the processor time of each plan, in milliseconds, one value a query."""
    found = []
    for query in queries:
        start = time.process_time()
        query.session._plan(query)
        found.append(1e3 * (time.process_time() - start))
    return found


def line(name, session, queries, limit):
    """Print one line of the table."""
    queries[0].plan  # noqa: B018 - what is worked out once after a release
    found = times(queries)
    free = np.mean([query.plan.free for query in queries])
    (history,) = session._questions.histories._known.values()
    atoms = max((block.atoms.count for block, _ in history._blocks.values()), default=0)
    median, high = np.percentile(found, [50, 95])
    print(f"{name:<42} {len(history.items):>6} {atoms:>6} {median:>9.1f} {high:>9.1f} {limit:>7} {free:>6.0%}")


def ranges(rng, count, levels=10_000):
    """Return random ranges of an attribute."""
    ends = np.sort(rng.integers(0, levels + 1, (count, 2)), axis=1)
    return [(int(a), int(max(b, a + 1))) for a, b in ends]


def random_ranges(count, spread=None):
    """Return a session with so many past ranges, and queries of others."""
    rng = np.random.default_rng(1)
    session = dpn.Session(budget=dpn.Budget(1e5))
    table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, 9_999)})
    for a, b in ranges(rng, count):
        table.count(where=f"x >= {a} and x < {b}", epsilon=0.5, fresh=True).run()
    return session, [
        table.count(where=f"x >= {a} and x < {b}", variance=float(10 ** rng.uniform(1, 4))) for a, b in ranges(rng, 100)
    ]


def group_bys(count):
    """Return a session with so many past group-bys over 480 cells, and queries of others."""
    rng = np.random.default_rng(2)
    sizes = {"a": 10, "b": 2, "c": 4, "d": 6}
    session = dpn.Session(budget=dpn.Budget(1e5))
    table = session.protect(
        pd.DataFrame({name: [0] for name in sizes}),
        "t",
        domain={name: dpn.Range(0, n - 1) for name, n in sizes.items()},
    )

    def query(**accuracy):
        keys = rng.choice(list(sizes), int(rng.integers(1, 4)), replace=False).tolist()
        name = rng.choice(list(sizes))
        chosen = sorted(rng.choice(sizes[name], max(1, sizes[name] // 2), replace=False).tolist())
        return table.groupby(keys).count(where=f"{name} in {chosen}", **accuracy)

    for _ in range(count):
        query(epsilon=0.5, fresh=True).run()
    return session, [query(variance=float(10 ** rng.uniform(-1, 2))) for _ in range(100)]


def many_levels(levels=1_500):
    """Return a session with a histogram, running totals and ranges of many levels, and queries of all kinds."""
    rng = np.random.default_rng(7)
    session = dpn.Session(budget=dpn.Budget(1e5))
    table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, levels - 1)})
    table.histogram("x", epsilon=0.5).run()
    table.cdf("x", epsilon=0.5, fresh=True).run()
    for a, b in ranges(rng, 30, levels):
        table.count(where=f"x >= {a} and x < {b}", epsilon=0.5, fresh=True).run()
    queries = []
    for a, b in ranges(rng, 8, levels):
        where, accuracy = f"x >= {a} and x < {b}", {"variance": float(10 ** rng.uniform(0, 3))}
        queries += [
            table.count(where=where, **accuracy),
            table.histogram("x", where=where, **accuracy),
            table.histogram("x", **accuracy),
            table.cdf("x", **accuracy),
            table.cdf("x", where=where, **accuracy),
        ]
    return session, queries


def never_bought(count, levels=2_000):
    """Return a session with so many past ranges of mixed errors, none of them bought for, and queries of others."""
    rng = np.random.default_rng(3)
    session = dpn.Session(budget=dpn.Budget(1e6), purchases="never")
    table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, levels - 1)})

    def query():
        ((a, b),) = ranges(rng, 1, levels)
        return table.count(where=f"x >= {a} and x < {b}", error=float(rng.choice([30, 60, 90])))

    for _ in range(count):
        query().run()
    return session, [query() for _ in range(40)]


def two_thousand_atoms():
    """Return a session whose measurements tell 2,000 cells apart, and queries of all kinds."""
    rng = np.random.default_rng(3)
    session = dpn.Session(budget=dpn.Budget(1e5))
    domain = {"x": dpn.Range(0, 199), "y": dpn.Range(0, 9)}
    table = session.protect(pd.DataFrame({"x": [0], "y": [0]}), "t", domain=domain)
    table.crosstab("x", "y", epsilon=0.5).run()
    table.histogram("x", epsilon=0.5, fresh=True).run()
    queries = []
    for a, b in ranges(rng, 25, 200):
        accuracy = {"variance": float(10 ** rng.uniform(0, 3))}
        queries += [
            table.count(where=f"x >= {a} and x < {b}", **accuracy),
            table.histogram("y", where=f"x >= {a} and x < {b}", **accuracy),
            table.histogram("x", **accuracy),
            table.crosstab("x", "y", **accuracy),
        ]
    return session, queries


def any_conditions(count):
    """Return a session with so many past tables of rows by conditions of any kind, and queries of others."""
    rng = np.random.default_rng(1)
    sizes = {"a": 18, "b": 12, "c": 10}
    session = dpn.Session(budget=dpn.Budget(1e5, 1e-6))
    frame = pd.DataFrame({name: [0] for name in sizes})
    table = session.protect(frame, "t", domain={name: dpn.Range(0, n - 1) for name, n in sizes.items()})

    def condition():
        for name, size in sizes.items():
            some = np.flatnonzero(rng.random(size) < 0.4).tolist()
            low, high = np.sort(rng.integers(0, size, 2))
            kinds = [f"{name} in {some}"] * bool(some) + [f"{name} >= {low} and {name} <= {high}", f"{name} <= {high}"]
            if rng.random() < 0.5:
                yield f"({kinds[int(rng.integers(len(kinds)))]})"

    def query(**accuracy):
        keys = [name for name in sizes if rng.random() < 0.4][:2]
        where = (" or " if rng.random() < 0.2 else " and ").join(condition()) or None
        return (table.groupby(keys) if keys else table).count(where=where, **accuracy)

    for _ in range(count):
        query(epsilon=0.5, fresh=True).run()
    return session, [query(variance=float(10 ** rng.uniform(0, 3))) for _ in range(40)]


def many_releases(folder):
    """Return a session beside 10,000 releases over seven attributes of ten levels, and queries of others."""
    path = Path(folder, "many.ledger")
    many.fill(path, "laplace", "seven attributes", 10_000)
    session, table = many.opened(path, "laplace", "seven attributes")
    rng = np.random.default_rng(5)
    errors = 10 ** rng.uniform(-0.5, 1.5, 100)
    return session, [query for error in errors for query in many.group_bys(table, rng, 1, error=float(error))]


def different_releases(folder):
    """Return a session beside 1,000 different releases over seven attributes of ten levels, and queries of others."""
    path = Path(folder, "different.ledger")
    many.fill(path, "laplace", "1,000 different", 1_000)
    session, table = many.opened(path, "laplace", "1,000 different")
    rng = np.random.default_rng(6)
    errors = 10 ** rng.uniform(0.7, 2.3, 100)
    return session, [query for error in errors for query in many.different(table, rng, 1, error=float(error))]


def memory_beside_ranges(count):
    """Return by how many MiB a process that has planned grows while it asks so many ranges and plans others."""
    _, queries = random_ranges(20)
    times(queries[:5])  # what any first plan loads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, queries = random_ranges(count)
    times(queries)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main():
    """Print the table."""
    # First: on Linux a new process is said to have once been as large as the one that starts it.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        print(f"memory beside 1,000 ranges: +{pool.submit(memory_beside_ranges, 1000).result():.0f} MiB (limit 100)")
    print(f"{'':<42} {'past':>6} {'atoms':>6} {'median ms':>9} {'95% ms':>9} {'limit':>7} {'free':>6}")
    line("ranges of one attribute", *random_ranges(200), "")
    line("ranges of one attribute", *random_ranges(1000), "50")
    line("ranges of mixed errors, nothing bought", *never_bought(400), "50")
    line("everything over 1,500 levels", *many_levels(), "100")
    line("group-bys over 480 cells", *group_bys(200), "50")
    line("everything over 2,000 cells", *two_thousand_atoms(), "100")
    line("any conditions over 2,160 cells", *any_conditions(14), "")
    line("any conditions over 2,160 cells", *any_conditions(40), "")
    with tempfile.TemporaryDirectory() as folder:
        session, queries = many_releases(folder)
        line("group-bys of seven attributes of 10", session, queries, "100")
        session.close()
        session, queries = different_releases(folder)
        line("different tables of seven attributes of 10", session, queries, "300")
        session.close()


if __name__ == "__main__":
    main()

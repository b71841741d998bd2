"""Errors of adaptive answers beside those of all marginals: python tests/benchmarks/adaptive.py [runs [words]].

Root mean square errors of least squares, of `nonnegative()` and of `adaptive=True` at the same epsilon, their standard
deviation over runs, what share of the intervals there are holds the exact count, and seconds of an adaptive run. AIM
as quoted when this was begun: 16.6 for CPS1988 (its 3-way marginals at (0.5, 1e-6)), in 108 s. With words only tables
are run whose name has one of them.
"""

import itertools
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inference"))

import numpy as np
import pandas as pd
from test_held_counts import counted, levels, zipf

import dpnotebook as dpn

RUNS = 10


def wide(columns: int, size: int, rows: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return columns each of which depends on one of the three before it."""
    random = np.random.default_rng(5)
    found = np.empty((columns, rows), dtype=np.int64)
    shares = 1 / np.arange(1, size + 1)
    found[0] = random.choice(size, rows, p=shares / shares.sum())
    for place in range(1, columns):
        table = random.dirichlet(np.full(size, 0.4), size=size).cumsum(axis=1)
        parent = found[random.integers(max(0, place - 3), place)]
        found[place] = (table[parent] < random.random(rows)[:, None]).sum(axis=1).clip(0, size - 1)
    return found, (size,) * columns


CASES = {
    "CPS1988, 28,155 rows": (lambda: levels("workers"), 3, (0.1, 0.5)),
    "TV16, 58,079 rows": (lambda: levels("voters"), 3, (0.1, 0.5)),
    "Zipf, 4 columns, 20,000 rows": (zipf, 3, (0.1, 0.5)),
    "12 columns of 5, 5,000 rows": (lambda: wide(12, 5, 5_000), 3, (0.1, 0.5)),
    "15 columns of 4, 20,000 rows": (lambda: wide(15, 4, 20_000), 3, (0.1, 0.5)),
    "20 columns of 4, pairs, 2,000 rows": (lambda: wide(20, 4, 2_000), 2, (0.1, 0.5)),
    "military, 1,414,593 rows": (lambda: levels("soldiers"), 3, (0.1, 0.5)),
    "Titanic, 2,201 rows": (lambda: levels("Titanic"), 3, (0.1, 0.5)),
}
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}


def errors(columns: np.ndarray, sizes: tuple[int, ...], way: int, epsilon: float, delta: float) -> list[float]:
    """Return the errors of one run: least squares, none below 0, adaptive; coverage; seconds."""
    names = [f"c{i:02}" for i in range(len(sizes))]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    subsets = list(itertools.combinations(range(len(sizes)), way))
    truth = np.concatenate(counted(columns, sizes, subsets))
    session = dpn.Session(budget=dpn.Budget(epsilon * 4, delta))
    domain = {name: dpn.Range(0, size - 1) for name, size in zip(names, sizes, strict=True)}
    table = session.protect(frame, "people", domain=domain)
    plain = table.answer(dpn.marginals(way), epsilon=epsilon, fresh=True).run()
    start = time.process_time()
    adaptive = table.answer(dpn.marginals(way), epsilon=epsilon, adaptive=True).run().frame
    seconds = time.process_time() - start
    told = adaptive["upper"].notna()  # what was not measured has no interval
    held = ((adaptive["lower"] <= truth) & (truth <= adaptive["upper"]))[told].mean()
    answers = plain.frame["value"], plain.nonnegative().frame["value"], adaptive["value"]
    return [*(float(np.sqrt(((one - truth) ** 2).mean())) for one in answers), float(held), seconds]


def main(runs: int = RUNS, words: tuple[str, ...] = ()) -> None:
    """Print a line a table, law and epsilon."""
    print(f"{'':36}            least squares  nonnegative     adaptive           held   seconds")
    for name, (load, way, epsilons) in CASES.items():
        if words and not any(word in name for word in words):
            continue
        columns, sizes = load()
        for (law, delta), epsilon in itertools.product(DELTAS.items(), epsilons):
            found = np.array([errors(columns, sizes, way, epsilon, delta) for _ in range(runs)])
            (plain, moved, chosen, held, seconds), spread = np.nanmean(found, axis=0), found.std(axis=0)
            print(
                f"{name:36} {law:8} {epsilon:4} {plain:11.2f} {moved:11.2f} {chosen:11.2f} +- {spread[2]:5.2f} "
                f"{held:9.3f} {seconds:8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS, tuple(sys.argv[2:]))

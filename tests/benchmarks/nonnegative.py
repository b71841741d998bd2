"""Errors of counts moved to those that data could have, by their size: python tests/benchmarks/nonnegative.py.

Root mean square errors of least squares, of `nonnegative` and their ratio. The method's constants were chosen looking
at the workers, the voters and the Zipf tables; the military's and the Titanic's were looked at, and chose nothing.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inference"))

import numpy as np
from test_held_counts import errors_by_class, levels, zipf

RUNS = 20  # of each table; 1,000 say the same to another digit


def flat(draw: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return one column: the hardest case, for nothing but its own cells tells how many rows there are."""
    random = np.random.default_rng(7)
    shares = random.dirichlet(np.full(1000, 0.05)) if draw == "sparse" else 1 / np.arange(1, 501) ** 1.5
    rows = random.multinomial(5_000 if draw == "sparse" else 50_000, shares / shares.sum())
    return np.array([np.repeat(np.arange(rows.size), rows)]), (rows.size,)


CASES = {
    "CPS1988 3-way": (lambda: levels("workers"), 3, (0.2, 0.5, 2.0)),
    "TV16 3-way": (lambda: levels("voters"), 3, (0.2, 0.5, 2.0)),
    "military 3-way": (lambda: levels("soldiers"), 3, (0.1, 1.0)),
    "Titanic 3-way": (lambda: levels("Titanic"), 3, (0.1, 1.0)),
    "Zipf, 4 columns, 3-way": (zipf, 3, (0.2, 0.5, 2.0)),
    "Zipf, one column": (lambda: flat("zipf"), 1, (0.1, 1.0)),
    "sparse multinomial, one column": (lambda: flat("sparse"), 1, (0.1, 1.0)),
}


def main(runs: int = RUNS) -> None:
    """Print a line a table, epsilon and class."""
    for name, (load, way, epsilons) in CASES.items():
        columns, sizes = load()
        for epsilon in epsilons:
            for told, (plain, moved) in errors_by_class(columns, sizes, way, epsilon, runs).items():
                print(f"{name:32} {epsilon:4} {told:>9} {plain:9.2f} {moved:9.2f} {moved / plain:6.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)

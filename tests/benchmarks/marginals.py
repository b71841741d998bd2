"""Times to choose strategies over several attributes, in units of one eigh(1024): python tests/benchmarks/marginals.py.

One BLAS thread: two, on a machine with other work, make small matrices many times slower.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable, Iterator

import numpy as np

from dpnotebook.strategy.hdmm import best_of, tried
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Identity, Kron, Prefix, marginals, prefix_marginals

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
EIGHTEEN = (*ADULT, 20, 30, 8, 4)

CASES: dict[str, Callable[[], Strategy]] = {
    "crosstab 10 x 5, quick": lambda: best_of(tried(Kron(Identity(10), Identity(5)), "laplace", "quick")),
    "cumulative by group, quick": lambda: best_of(tried(Kron(Prefix(100), Identity(5)), "gaussian", "quick")),
    "2-way marginals of 8, Laplace, quick": lambda: best_of(
        tried(marginals((10, 9, 8, 7, 6, 5, 4, 3), 2), "laplace", "quick")
    ),
    "up to 3-way of 14, Gaussian (under 1 s)": lambda: opt_residual(marginals(ADULT, upto=3)),
    "2D prefix-marginals of 14, Gaussian": lambda: opt_residual(prefix_marginals(ADULT, 2, prefix=range(5))),
    "up to 3-way of 100, Gaussian (under 10 s)": lambda: opt_residual(marginals((10,) * 100, upto=3)),
    "up to 3-way of 14, Laplace (under 5 s)": lambda: opt_marginals(marginals(ADULT, upto=3)),
    "up to 3-way of 18, Laplace (under 2 min)": lambda: opt_marginals(marginals(EIGHTEEN, upto=3)),
}


def times() -> Iterator[tuple[str, float, float]]:
    """Yield for each case its name, its seconds, and their ratio to one eigendecomposition of 1,024 cells."""
    matrix = np.random.default_rng().normal(size=(1024, 1024))
    started = time.perf_counter()
    np.linalg.eigh(matrix @ matrix.T)
    unit = time.perf_counter() - started
    for name, choose in CASES.items():
        started = time.perf_counter()
        choose()
        spent = time.perf_counter() - started
        yield name, spent, spent / unit


def main() -> None:
    """Print a line a case."""
    for name, spent, ratio in times():
        print(f"{name:45} {spent:8.3f} s {ratio:8.2f} eigh(1024)")


if __name__ == "__main__":
    main()

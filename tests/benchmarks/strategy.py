"""Times of the strategy optimizers against numpy's eigh: python tests/benchmarks/strategy.py [most cells].

Every time is divided by that of one numpy.linalg.eigh of the same size in the same run, with one BLAS thread each.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

THREADS = "OPENBLAS_NUM_THREADS"
MOST = 1024


def seconds(call: Callable[[], object], runs: int = 1) -> float:
    """Return the least wall time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def optimizer_times(most: int) -> Iterator[tuple[str, float, float, str]]:
    """Yield what was optimised, its seconds, the ratio to one eigh, and the ratio that is wanted."""
    import numpy as np

    from dpnotebook.strategy.gaussian import gaussian_optimum
    from dpnotebook.strategy.laplace import p_identity
    from dpnotebook.workload import AllRange, Prefix

    p_identity(Prefix(8).gram())  # scipy is imported once
    for n in (n for n in (512, 1024, 2048, 4096) if n <= most):
        grams = {kind.__name__: kind(n).gram().astype(float) for kind in (AllRange, Prefix)}
        for name, gram in grams.items():
            eigh = seconds(lambda v=gram: np.linalg.eigh(v), 3 if n <= 1024 else 1)
            spent = seconds(lambda v=gram: gaussian_optimum(v, tolerance=1e-4))
            yield f"Gaussian optimum to 1e-4, {name}({n})", spent, spent / eigh, "<= 20"
            if n <= 1024 or name == "AllRange":
                spent = seconds(lambda v=gram: p_identity(v))
                yield (
                    f"p-Identity, {name}({n})",
                    spent,
                    spent / eigh,
                    "<= 25" if (name, n) == ("AllRange", 1024) else "",
                )


def quick_times() -> Iterator[tuple[str, float]]:
    """Yield workloads that a session asks, and the seconds to choose a strategy for each."""
    from dpnotebook.strategy import explicit
    from dpnotebook.strategy.select import select_own
    from dpnotebook.workload import AllRange, Identity, Kron, Prefix

    for workload in (Identity(256), Kron(Identity(12), Identity(51)), Prefix(256), AllRange(256)):
        for noise in ("laplace", "gaussian"):
            times = []
            for _ in range(3):
                select_own.cache_clear()
                explicit._found.clear()  # what was optimised before is not found again
                times.append(seconds(lambda w=workload, law=noise: select_own(w, law, "quick")))
            yield f"select, {workload!r}, {noise}", min(times)


def table(most: int) -> None:
    """Print the times."""
    for name, spent, ratio, wanted in optimizer_times(most):
        print(f"{name:44s} {spent:9.2f} s {ratio:7.1f} x eigh {wanted}", flush=True)
    for name, spent in quick_times():
        print(f"{name:52s} {spent * 1000:7.1f} ms  <= 150", flush=True)


def main(most: int = MOST) -> None:
    """Print the times, measured in a process whose BLAS has one thread."""
    subprocess.run([sys.executable, __file__, str(most)], env={**os.environ, THREADS: "1"}, check=True)


if __name__ == "__main__":
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else MOST
    (table if os.environ.get(THREADS) == "1" else main)(cells)

"""What the selector makes of workloads, and in which time: against numpy's eigh, against HDMM's algorithm, for errors.

python tests/benchmarks/strategy.py [most cells].

Every time is divided by that of one numpy.linalg.eigh of the same size in the same run, with one BLAS thread each.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "strategy"))

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


# RMSE at epsilon 1 (delta 1e-6) before there was one selector for all: Gaussian and Laplace noise; None: not measured.
SELECTED = (
    ("60 random boxes of 7 x 7 x 7", 13.94, 8.79),
    ("Permuted(AllRange(5000))", 172.51, 57.75),
    ("4,000 random ranges of 4,200 cells", 159.32, 53.33),
    ("the same, their cells in no order", 159.32, 53.33),
    ("Prefix(10000), in a moment", None, 15.73),
    ("AllRange(100000)", None, None),
    ("SF1 cut to 1,008 cells", None, None),
)


def selected() -> Iterator[str]:
    """Yield what the selector makes of workloads that had a cliff."""
    import json

    import numpy as np

    from dpnotebook.strategy.select import select_own
    from dpnotebook.workload import AllRange, Explicit, Kron, Permuted, Predicates, Prefix, Stack, Workload

    rng = np.random.default_rng(0)

    def run(n: int) -> Predicates:
        first, last = sorted(rng.integers(0, n, 2))
        return Predicates([[(int(first), int(last) + 1)]], n)

    def census(sizes: tuple[int, ...]) -> Workload:
        """Return SF1 with attributes cut to their first levels."""
        products = json.loads((Path(__file__).parents[2] / "notebooks/data/sf1.json").read_text())["products"]
        found = []
        for product in products:
            rows = [
                [[(first, min(last + 1, n)) for first, last in row if first < n] for row in rows]
                for rows, n in zip(product["rows"], sizes, strict=True)
            ]
            left = [[row for row in some if row] for some in rows]
            if all(left):
                found.append(Kron(*(Predicates(some, n) for some, n in zip(left, sizes, strict=True))))
        return Stack(*found)

    boxes = Stack(*(Kron(*(run(7) for _ in range(3))) for _ in range(60)))
    ranges = np.vstack([run(4200).dense() for _ in range(4000)])
    workloads = (
        boxes,
        Permuted(AllRange(5000), 1),
        Explicit(ranges),
        Explicit(ranges[:, rng.permutation(4200)]),
        Prefix(10_000),
        AllRange(100_000),
        census((2, 2, 12, 21)),
    )
    for (name, *before), workload in zip(SELECTED, workloads, strict=True):
        for noise, was in zip(("gaussian", "laplace"), before, strict=True):
            started = time.process_time()
            found = select_own(workload, noise, "quick" if "moment" in name else "full")
            error = found.rmse(1.0, 1e-6 if noise == "gaussian" else 0.0)
            spent = time.process_time() - started
            near = "not known" if found.optimality is None else f"{found.optimality:.3f} x the bound"
            known = "" if was is None else f" (was {was:.2f})"
            yield f"{name:36s} {noise:8s} {error:8.3f}{known:15s} {found.name[:44]:44s} {near}, {spent:.1f} s"


def laplace_times() -> Iterator[str]:
    """Yield OPT_0 for Laplace noise beside HDMM's algorithm: processor time as a multiple of its, and error.

    Its descents begin at random and end where its published code ends them (a relative decrease of 1e-4 in one step),
    or where the library would. All of ours stand beside one of theirs: of the issue are at most 3 at 256 cells.
    """
    import numpy as np
    from published_descent import published_descent

    from dpnotebook.strategy.blas import threads_for
    from dpnotebook.strategy.laplace import default_rows, p_identity
    from dpnotebook.workload import AllRange, Prefix, WidthRange

    ways = (("in a moment", {"quick": True}), ("one start", {"single": True}), ("to the end", {}))
    for workload in (Prefix(256), AllRange(256), WidthRange(256, 32), Prefix(128), Prefix(64)):
        gram, n = workload.gram().astype(float), workload.shape[1]
        with threads_for(n):
            for tolerance, runs in ((1e-4, 7), (2.2e-9, 3)):
                started = time.process_time()
                losses = [published_descent(gram, n, default_rows(n), seed, tolerance) for seed in range(runs)]
                theirs = (time.process_time() - started) / runs
                for name, options in ways:
                    started = time.process_time()
                    ours = p_identity(gram, **options)[0].loss
                    spent = (time.process_time() - started) / theirs
                    loss = float(np.median(losses))
                    yield (
                        f"OPT_0 {workload!r:20s} {name:12s} {spent:5.2f} of HDMM's to {tolerance:g}, "
                        f"error {(ours / loss) ** 0.5 - 1:+.2%}"
                    )


def bounds() -> Iterator[str]:
    """Yield how far residuals are above the bound for unions of products, and above the sum of their parts' bounds."""
    import math

    from dpnotebook.strategy.bounds import svd_bound
    from dpnotebook.strategy.residual import opt_residual
    from dpnotebook.workload import Kron, Prefix, Total, prefix_marginals
    from dpnotebook.workload.terms import terms

    for name, workload in (
        (
            "Adult, 2-way, 5 attributes in order",
            prefix_marginals((100, 100, 100, 99, 85, 42, 16, 15, 9), 2, prefix=range(5)),
        ),
        ("two margins of Prefix(100)", Kron(Prefix(100), Total(100)) + Kron(Total(100), Prefix(100))),
    ):
        value = opt_residual(workload).objective
        apart = sum(part.weight**2 * svd_bound(part.product) for part in terms(workload))
        yield f"{name}: {math.sqrt(value / svd_bound(workload)):.3f} x the bound (was {math.sqrt(value / apart):.3f})"


def delta_saves() -> str:
    """Return what a delta of 1e-6 saves for all pairs of 50 columns of 10 levels, at epsilon 1."""
    from dpnotebook.strategy.select import select_own
    from dpnotebook.workload import marginals

    workload = marginals((10,) * 50, 2)
    pure, other = select_own(workload, "laplace").rmse(1.0), select_own(workload, "gaussian", "quick").rmse(1.0, 1e-6)
    return f"50 columns, marginals(2): RMSE {pure:,.0f} without a delta, {other:,.0f} with 1e-6"


def table(most: int) -> None:
    """Print the times."""
    from strategy_errors import catalogue, coverage, verbs_and_answers, worst_case

    promised = (worst_case(), verbs_and_answers(), coverage())
    for lines in (*promised, selected(), catalogue(), laplace_times(), bounds(), [delta_saves()]):
        for line in lines:
            print(line, flush=True)
    for name, spent, ratio, wanted in optimizer_times(most):
        print(f"{name:44s} {spent:9.2f} s {ratio:7.1f} x eigh {wanted}", flush=True)
    for name, spent in quick_times():
        print(f"{name:52s} {spent * 1000:7.1f} ms  <= 150", flush=True)


def main(most: int = MOST) -> None:
    """Print the times, measured in a process whose BLAS has one thread."""
    subprocess.run(
        [sys.executable, __file__, str(most)], env={**os.environ, THREADS: "1", "DPNOTEBOOK_CACHE": "off"}, check=True
    )


if __name__ == "__main__":
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else MOST
    (table if os.environ.get(THREADS) == "1" else main)(cells)

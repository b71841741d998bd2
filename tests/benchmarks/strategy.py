"""Times of the strategy optimizers against numpy's eigh, and what an error of the worst answer costs.

python tests/benchmarks/strategy.py [most cells].

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


# What `error=50` cost in epsilon while strategies were chosen for the total, and what weights of parts alone come to:
# Gaussian (delta 1e-6) and Laplace noise, of four columns of 100 x 2 x 8 x 40 levels.
WORST = (
    ("marginals(upto=2)", (1.798, 2.452), (0.432, 0.517)),
    ("marginals(2)", (0.931, 1.105), (0.363, 0.342)),
    ("marginals(upto=1)", (0.650, 0.522), (0.313, 0.256)),
    ('identity("age") + total()', (0.526, 0.347), (0.212, 0.119)),
    ('ranges("age")', None, None),
    ('cdf("age")', None, None),
    ('ranges("age") + marginals(2)', None, None),
    ('ranges("age") + marginals(upto=1)', None, None),
    ("prefix_marginals(2)", None, None),
)


def worst_case() -> Iterator[str]:
    """Yield what an error of 50 for every answer costs, planned for the total and for the worst answer."""
    import numpy as np
    import pandas as pd

    import dpnotebook as dpn

    names, sizes = ("age", "sex", "region", "group"), (100, 2, 8, 40)
    rows = pd.DataFrame({name: np.arange(400) % size for name, size in zip(names, sizes, strict=True)})
    domain = {name: dpn.Range(0, size - 1) for name, size in zip(names, sizes, strict=True)}
    for asked, before, wanted in WORST:
        workload = eval(f"dpn.{asked}".replace("+ ", "+ dpn."), {"dpn": dpn})
        for place, delta in enumerate((1e-6, 0.0)):
            with dpn.Session(budget=dpn.Budget(epsilon=100, delta=delta), ledger=":memory:") as session:
                people = session.protect(rows, "people", domain=domain)
                found = []
                for objective in ("total", "worst"):
                    query = people.answer(workload, error=50, objective=objective)
                    started = time.process_time()
                    plan = query.plan
                    found += [plan.cost.epsilon, time.process_time() - started]
            known = "" if before is None else f"  (was {before[place]:.3f}, wanted {wanted[place]:.3f})"
            law = "Gaussian" if delta else "Laplace"
            yield (
                f"{asked:36s} {law:8s} total {found[0]:.4f} in {found[1]:.2f} s, "
                f"worst {found[2]:.4f} in {found[3]:.2f} s more, within {plan.error:.3f}{known}"
            )


def table(most: int) -> None:
    """Print the times."""
    for line in worst_case():
        print(line, flush=True)
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

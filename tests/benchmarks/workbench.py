"""How fast the card of the workbench follows: from a move of a control to the new card, in the kernel.

python tests/benchmarks/workbench.py
"""

import time

import numpy as np
import pandas as pd

import dpnotebook as dpn

MOVES = 200  # of a slider
COLUMNS, LEVELS = 60, 10_000


def main():
    """Print the median and the 95th percentile, in milliseconds, for a small table and for a wide one."""
    rng = np.random.default_rng(1)
    small = {"age": rng.integers(0, 100, 20_000), "sex": rng.choice(["F", "M"], 20_000)}
    domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"]}
    wide = small | {f"c{number}": rng.integers(0, 10, 20_000) for number in range(COLUMNS - 2)}
    declared = domain | {f"c{number}": dpn.Range(0, 9) for number in range(COLUMNS - 2)}
    cities = small | {"city": rng.choice(["a", "b"], 20_000)}
    listed = domain | {"city": dpn.Categories(["a", "b", *(f"city {number}" for number in range(LEVELS - 2))])}
    for name, columns, said in (("small", small, domain), ("60 columns", wide, declared), ("levels", cities, listed)):
        with dpn.Session(budget=dpn.Budget(epsilon=1.0)) as session:
            session.protect(pd.DataFrame(columns), "people", domain=said)
            bench = session.workbench()
            control = bench.panel.add_filter("age")
            bench.panel.add_key("sex")
            if "city" in said:
                bench.panel.add_filter("city").list.value = (0, 1)
            bench.wait()
            times = []
            for move in range(MOVES):
                start = time.perf_counter()
                control.slider.value = (move % 50, 50 + move % 49)
                bench.wait()
                times.append(1000 * (time.perf_counter() - start))
            print(f"{name:<12} median {np.median(times):5.0f} ms   95% {np.quantile(times, 0.95):5.0f} ms")


if __name__ == "__main__":
    main()

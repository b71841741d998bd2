"""How fast the card of the workbench follows: from a move of a control to the new card, in the kernel.

python tests/benchmarks/workbench.py
"""

import time

import numpy as np
import pandas as pd

import dpnotebook as dpn

MOVES = 100  # of a slider
COLUMNS, LEVELS = 300, 10_000


def main():
    """Print the median and the 95th percentile, in milliseconds, for a small table, a wide one and long columns."""
    rng = np.random.default_rng(1)
    small = {"age": rng.integers(0, 100, 20_000), "sex": rng.choice(["F", "M"], 20_000)}
    domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"]}
    wide = small | {f"c{number}": rng.integers(0, 10, 20_000) for number in range(COLUMNS - 2)}
    declared = domain | {f"c{number}": dpn.Range(0, 9) for number in range(COLUMNS - 2)}
    names = [f"city {number}" for number in range(LEVELS)]
    cities = small | {"city": rng.choice(names, 20_000)}
    listed = domain | {"city": dpn.Categories(names)}
    narrow = {"small": "", "wide": " and c0 == 0", "levels": " and city == 'city 0'"}
    for budget in (dpn.Budget(epsilon=1.0), dpn.Budget(epsilon=1.0, delta=1e-9)):
        law = "Gaussian" if budget.delta else "Laplace"
        for name, columns, said in (("small", small, domain), ("wide", wide, declared), ("levels", cities, listed)):
            for asked in (0, 20):
                with dpn.Session(budget=budget) as session:
                    table = session.protect(pd.DataFrame(columns), "people", domain=said)
                    for number in range(asked):
                        table.count(where=f"age >= {number}{narrow[name]}", epsilon=0.005).run()
                    times = moved(session, "city" in said)
                row = f"{name:<8}{law:<10}{asked:3} releases"
                print(f"{row}   median {np.median(times):5.0f} ms   95% {np.quantile(times, 0.95):5.0f} ms")


def moved(session, cities):
    """Return how long the card took to follow each move, in milliseconds; with a long column, of which two are chosen.

    Parameters
    ----------
    session
        With the table that is asked.
    cities
        Whether to filter by the long column too.
    """
    bench = session.workbench()
    control = bench.panel.add_filter("age")
    bench.panel.add_key("sex")
    if cities:
        bench.panel.add_filter("city").list.value = (0, 1)
    bench.wait()
    times = []
    for move in range(MOVES):
        start = time.perf_counter()
        control.slider.value = (move % 50, 50 + move % 49)
        bench.wait()
        times.append(1000 * (time.perf_counter() - start))
    return times


if __name__ == "__main__":
    main()

"""The figures of `notebooks/reuse.ipynb`: python tests/benchmarks/reuse_figures.py. Writes the tables that it draws.

What sequences of range counts cost in all, by the experiments of Peng et al. (Pioneer, ICDE 2013, Table III and
Figures 15 to 20), with fewer questions than there: each of ours is asked through a real session with a real ledger. It
takes about a minute of processor time. What questions cost follows from the questions alone, so the data is one row.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpnotebook as dpn
from dpnotebook.planner.pioneer.simulate import answered, running_epsilon

TABLES = Path(__file__).parents[2] / "notebooks/data/reuse.json"
DIGITS = 6  # significant ones of the numbers that are kept

METHODS = ("naive", "baseline", "pioneer", "ours")
SIMULATED = METHODS[:3]
# Table III: its values, and its defaults. Noise variance 250,000 is a standard deviation of 500.
TABLE_III: dict[str, tuple[float, ...]] = {
    "D": (500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "l_avg": (20, 80, 320, 1_280, 5_120),
    "l_std": (2, 10, 50, 250, 1_250),
    "s_std": (10, 20, 50, 100, 200),
    "v_avg": (10_000, 50_000, 250_000, 1_250_000, 6_250_000),
    "v_std": (1_000, 5_000, 25_000, 100_000, 500_000),
}
DEFAULTS: dict[str, float] = {"D": 10_000, "l_avg": 320, "l_std": 10, "s_std": 10, "v_avg": 250_000, "v_std": 25_000}
# Where ours is drawn: every point is a whole session.
SOME: dict[str, tuple[float, ...]] = {
    "l_std": (10, 250), "s_std": (10, 100), "v_avg": (10_000, 250_000), "v_std": (25_000, 500_000)
}  # fmt: skip
QUESTIONS, WITHIN_ONE, GROUPED, DEGREES = 50, 120, 60, 30  # of figures 16 and 17, 18, 19 and 20
FINER = 25  # times less variance in Figure 18: a standard deviation of 100, by which a budget of 1 is soon used up
NODES = 11_342  # as many as in the paper's social network; the degrees are SYNTHETIC

Ranges = Sequence[tuple[int, int, float]]


def draw(count: int, seed: int = 0, **parameters: float) -> Ranges:
    """Return ranges (start, end, variance) as in section V of the paper, all three drawn from normal laws."""
    p, rng = DEFAULTS | parameters, np.random.default_rng(seed)
    starts = np.clip(np.rint(rng.normal(p["D"] / 2, p["s_std"], count)), 0, p["D"] - 1).astype(int)
    widths = np.maximum(np.rint(rng.normal(p["l_avg"], p["l_std"], count)), 1).astype(int)
    variances = rng.normal(p["v_avg"], p["v_std"], count)
    while (low := variances < p["v_avg"] / 100).any():  # nonsense, and it alone would decide the total
        variances[low] = rng.normal(p["v_avg"], p["v_std"], low.sum())
    ends = np.minimum(starts + widths, p["D"])
    return [(int(s), int(e), float(v)) for s, e, v in zip(starts, ends, variances, strict=True)]


def ours(ranges: Ranges, cells: int, budget: float = 100.0) -> np.ndarray:
    """Return the session's total epsilon after each range: the real planner, a real ledger, any data."""
    people = pd.DataFrame({"x": [0]})
    found = []
    with closing(dpn.Session(budget=dpn.Budget(epsilon=budget), ledger=":memory:")) as session:
        table = session.protect(people, "people", domain={"x": dpn.Range(0, cells - 1)})
        for start, end, variance in ranges:
            try:
                table.count(where=f"x >= {start} and x < {end}", variance=variance).run()
            except dpn.BudgetExceeded:
                break
            found.append(session.spent.epsilon)
    return np.array(found)


def totals(ranges: Ranges, method: str, cells: int, k: int = 4) -> np.ndarray:
    """Return the total epsilon after each range."""
    return ours(ranges, cells) if method == "ours" else running_epsilon(ranges, method, k=k, domain=cells)


def figure_15() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the total after N questions, and the milliseconds that each takes: of ours, of all there is to do."""
    epsilon, took = {}, {}
    for method in ("naive", "baseline", "pioneer", "hierarchy", "ours"):
        counts = (20, 80, 160) if method == "ours" else (20, 80, 400, 2_000)  # the paper goes to 50,000
        ranges, start = draw(max(counts)), time.process_time()
        running = totals(ranges, method, int(DEFAULTS["D"]))
        took[method] = (time.process_time() - start) / len(ranges) * 1_000
        epsilon[method] = pd.Series(running[np.array(counts) - 1], index=counts)
    table = pd.DataFrame(epsilon).rename_axis("questions")
    return table, pd.DataFrame({"ms a question": took}).rename_axis("plan")


def vary(parameter: str, methods: Sequence[str] = SIMULATED, values: Sequence[float] = ()) -> pd.DataFrame:
    """Return the total of some questions (the paper: 10,000) over the values of one parameter of Table III."""
    rows = {}
    for value in values or TABLE_III[parameter]:
        ranges, cells = draw(QUESTIONS, **{parameter: value}), int(value if parameter == "D" else DEFAULTS["D"])
        rows[value] = {method: totals(ranges, method, cells)[-1] for method in methods}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(parameter)


def beside(parameter: str) -> pd.DataFrame:
    """Return the same with ours at some of the values."""
    table = vary(parameter)
    return table.join(vary(parameter, ("ours",), SOME[parameter])) if parameter in SOME else table


def within_one(parameter: str, methods: Sequence[str] = SIMULATED, values: Sequence[float] = ()) -> pd.DataFrame:
    """Return how many questions (the paper: 10,000) epsilon = 1 answers, at a part of the paper's variances."""
    rows = {}
    for value in values or TABLE_III[parameter]:
        drawn = draw(WITHIN_ONE, **{parameter: value})
        ranges = [(start, end, variance / FINER) for start, end, variance in drawn]
        rows[value] = {
            method: len(ours(ranges, int(DEFAULTS["D"]), 1.0)) if method == "ours" else answered(ranges, method, 1.0)
            for method in methods
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(parameter)


def figure_19(parameter: str) -> pd.DataFrame:
    """Return Pioneer's total over k, the groups of past questions in a plan; a column for each value."""
    ks = (0, 1, 2, 3, 4, 8)
    columns = {
        f"{parameter} = {value:g}": [totals(draw(GROUPED, **{parameter: value}), "pioneer", 10_000, k)[-1] for k in ks]
        for value in TABLE_III[parameter]
    }
    return pd.DataFrame(columns, index=pd.Index(ks, name="k"))


def degrees(seed: int = 0) -> np.ndarray:
    """Return synthetic degrees with a heavy tail: a power law with exponent 2.2 from 1 to 1,000."""
    uniform = np.random.default_rng(seed).random(NODES)
    return np.minimum(np.floor((1 - uniform) ** (-1 / 1.2)), 1_000).astype(int)


def degree_ranges(l_avg: float, seed: int = 0, l_std: float = 10, s_std: float = 10) -> Ranges:
    """Return ranges of degrees that start near 1, where the nodes are: the middle of the domain is all but empty."""
    rng = np.random.default_rng(seed)
    starts = np.minimum(1 + np.abs(np.rint(rng.normal(0, s_std, DEGREES))), 999).astype(int)
    widths = np.maximum(np.rint(rng.normal(l_avg, l_std, DEGREES)), 1).astype(int)
    return [(int(s), int(min(s + w, 1_001)), 1e6) for s, w in zip(starts, widths, strict=True)]


def figure_20(epsilon: float = 0.001) -> pd.DataFrame:
    """Return the error relative to the true count, the mean over questions that cost `epsilon` each on average.

    All are asked at the one accuracy at which they cost that much: a total is inversely proportional to the standard
    deviation that is asked for. (The paper fixes what each costs: no room to buy for later ones.)
    """
    truth, rows = degrees(), {}
    for value in (20, 80, 320):
        ranges = degree_ranges(value)
        counts = np.array([np.count_nonzero((truth >= start) & (truth < end)) for start, end, _ in ranges])
        rows[value] = {}
        for method in METHODS:
            total = totals(ranges, method, 1_001)[-1]
            rows[value][method] = float(np.mean(1e3 * total / (DEGREES * epsilon) / np.maximum(counts, 1)))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("l_avg")


def tables() -> dict[str, dict[str, pd.DataFrame]]:
    """Return the tables of every figure, by the parameter that each varies."""
    first, milliseconds = figure_15()
    eighteen = {name: within_one(name) for name in ("l_avg", "l_std", "v_avg", "v_std")}
    eighteen["l_std"] = eighteen["l_std"].join(within_one("l_std", ("ours",), (10,)))
    return {
        "15": {"questions": first},
        "15b": {"plan": milliseconds},
        "16": {name: beside(name) for name in ("D", "l_avg", "l_std", "s_std")},
        "17": {name: beside(name) for name in ("v_avg", "v_std")},
        "18": eighteen,
        "19": {name: figure_19(name) for name in ("l_std", "s_std")},
        "20": {"l_avg": figure_20()},
    }


def as_json(found: Mapping[str, Mapping[str, pd.DataFrame]]) -> dict[str, Any]:
    """Return tables as JSON values: the name of the index, the index, the columns and the rows of each."""
    return {
        figure: {
            name: {
                "index": table.index.tolist(),
                "columns": table.columns.tolist(),
                "data": [
                    [None if pd.isna(one) else float(f"{one:.{DIGITS}g}") for one in row] for row in table.to_numpy()
                ],
            }
            for name, table in by_name.items()
        }
        for figure, by_name in found.items()
    }


if __name__ == "__main__":
    start = time.process_time()
    TABLES.write_text(json.dumps(as_json(tables()), indent=1) + "\n")
    sys.stdout.write(f"{TABLES.name}: {time.process_time() - start:.0f} s of processor time\n")

"""Errors of counts moved to those that data could have, by their size: python tests/benchmarks/nonnegative.py.

Root mean square errors of least squares, of `nonnegative` and their ratio. The method's constants were chosen looking
at the workers, the voters and the Zipf tables; the military's and the Titanic's were looked at, and chose nothing.
Then how often the intervals of a release hold the exact counts, and how wide they are, beside those that noise drawn
again gives; and, for one column, how much worse the worst class gets with the best rule that there could be.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inference"))

import itertools

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import norm
from test_held_counts import CLASSES, counted, errors_by_class, levels, zipf

import dpnotebook as dpn
from dpnotebook.inference import nonnegative
from dpnotebook.inference.redraws import gaussian_like
from dpnotebook.privacy.accountant import mu_of_budget

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


def covered(name: str, way: int, epsilon: float, runs: int, redraws: int) -> None:
    """Print how often intervals hold the exact counts, and their mean width: of least squares, of moved counts, and of
    two ways to draw noise again around the moved counts (the middle 95%, and the same mirrored at the moved count)."""
    columns, sizes = levels(name)
    names = [f"c{i}" for i in range(len(sizes))]
    truth = np.concatenate(counted(columns, sizes, list(itertools.combinations(range(len(sizes)), way))))
    session = dpn.Session(budget=dpn.Budget(10.0**6, 1e-6))
    domain = {one: dpn.Range(0, size - 1) for one, size in zip(names, sizes, strict=True)}
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    table = session.protect(frame, "rows", domain=domain)
    query = table.answer(dpn.marginals(way), epsilon=epsilon, fresh=True)
    (item,) = query.plan.measurements
    operator, std = item.strategy.operator, float(item.scale)
    generator, held, width = np.random.default_rng(1), np.zeros((4, truth.size)), np.zeros((4, truth.size))
    for _ in range(runs):
        release = query.run()
        moved = release.nonnegative().frame
        ends = [(one["lower"].to_numpy(), one["upper"].to_numpy()) for one in (release.frame, moved)]
        if redraws:
            values, around = moved["value"].to_numpy(), []
            exact = _measured(operator, sizes, values, way)
            for _ in range(redraws):
                noisy = exact + gaussian_like(generator, std, exact.shape)
                around.append(nonnegative(operator, noisy, noise_std=std).answers(item.strategy.workload))
            low, high = np.quantile(around, (0.025, 0.975), axis=0)
            ends += [(low, high), (np.maximum(0, 2 * values - high), np.maximum(0, 2 * values - low))]
        for place, (low, high) in enumerate(ends):
            held[place] += (low <= truth + 1e-6) & (truth <= high + 1e-6)
            width[place] += high - low
    for told, (low, high) in CLASSES.items():
        cells = (low <= truth) & (truth <= high)
        if cells.any():
            shown = "  ".join(
                f"{held[i, cells].mean() / runs:6.3f} {width[i, cells].mean() / runs:7.1f}" for i in range(4)
            )
            print(f"{name:32} {epsilon:4} {told:>9}  {shown}", flush=True)


def _measured(operator: dpn.workload.Marginals, sizes: tuple[int, ...], values: np.ndarray, way: int) -> np.ndarray:
    """Return what is measured without noise where the tables of so many attributes are these."""
    tables, first = {}, 0
    for axes in itertools.combinations(range(len(sizes)), way):
        shape = [sizes[i] for i in axes]
        tables[axes] = values[first : first + int(np.prod(shape))].reshape(shape)
        first += int(np.prod(shape))
    found = []
    for subset, weight in operator.weights:
        axes, table = next((axes, table) for axes, table in tables.items() if set(subset) <= set(axes))
        table = table.sum(axis=tuple(k for k, i in enumerate(axes) if i not in subset))
        for place, i in enumerate(subset):
            table = np.moveaxis(np.tensordot(operator.factors[i].dense(), table, (1, place)), 0, place)
        found.append(weight * np.reshape(table, -1))
    return np.concatenate(found)


def least_worse(draw: str, epsilon: float, *, totals: bool = True) -> None:
    """Print the least that the worst class of one column can lose, with any rule for its cells that knew all counts.

    Of all functions of a noisy count that are not negative, halve the squared error of zeros and, for `totals`, keep
    the expected sum, this one has the least largest ratio to least squares over the classes: a convex problem, whose
    dual has a weight for each class.
    """
    columns, (size,) = flat(draw)
    counts = np.bincount(columns[0], minlength=size)
    sizes, often = np.unique(counts * mu_of_budget(epsilon, 1e-6), return_counts=True)  # in standard deviations
    seen = np.concatenate([np.arange(-5, 8, 0.05), np.arange(8, sizes.max() + 5, 0.25)])
    edges = np.concatenate([[-np.inf], (seen[1:] + seen[:-1]) / 2, [np.inf]])
    law = np.diff(norm.cdf(edges - sizes[:, None]), axis=1)
    within = [(low <= counts) & (counts <= high) for low, high in CLASSES.values()]
    shares = [
        np.array([(counts[cells] * mu_of_budget(epsilon, 1e-6) == one).mean() for one in sizes])
        for cells in within
        if cells.any()
    ]
    masses, means = [share @ law for share in shares], [(share * sizes) @ law for share in shares]
    squares, whole = [share @ sizes**2 for share in shares], often @ law / size

    def dual(weights: np.ndarray) -> tuple[float, np.ndarray]:
        others = np.exp(weights[1:-1])
        each = np.concatenate([[np.exp(weights[0])], others / others.sum()])
        bias = weights[-1] if totals else 0.0
        rule = np.tensordot(each, means, 1) - bias * whole / 2
        rule = np.maximum(0.0, rule / (np.tensordot(each, masses, 1) + 1e-300))
        risks = np.array([m @ rule**2 - 2 * t @ rule + s for m, t, s in zip(masses, means, squares, strict=True)])
        return float(each @ risks - each[0] / 2 + bias * (whole @ rule - often @ sizes / size)), risks

    best = -np.inf
    for seed in range(4):
        place = np.random.default_rng(seed).normal(size=len(shares) + 1)
        for _ in range(4):
            found = minimize(lambda w: -dual(w)[0], place, method="Nelder-Mead", options={"maxiter": 4000})
            place = found.x
        best = max(best, -found.fun)
    kept = "totals kept" if totals else "totals not kept"
    print(f"{draw}, one column, ε {epsilon}, {kept}: the worst class at least {np.sqrt(best):.3f} x least squares")


def main(runs: int = RUNS) -> None:
    """Print a line a table, epsilon and class."""
    for name, (load, way, epsilons) in CASES.items():
        columns, sizes = load()
        for epsilon in epsilons:
            for told, (plain, moved) in errors_by_class(columns, sizes, way, epsilon, runs).items():
                print(f"{name:32} {epsilon:4} {told:>9} {plain:9.2f} {moved:9.2f} {moved / plain:6.2f}", flush=True)
    for draw, epsilon in itertools.product(("zipf", "sparse"), (0.1, 1.0)):
        least_worse(draw, epsilon)
    least_worse("sparse", 0.1, totals=False)
    for epsilon in (0.1, 1.0):
        covered("Titanic", 3, epsilon, 5 * runs, 80)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)

"""What reuse saves: python tests/benchmarks/reuse.py [all | static [NAME...] | optimum | purchases].

Total epsilon of sequences, by planner. Ours is asked through a real session; one by one and Pioneer are worked out
without data (Pioneer's numbers in brackets are of plans that use 4 groups always). "all" adds what takes minutes: 2,000
and 10,000 ranges.

"static" asks ranges beside the best static hierarchy in hindsight instead: the tree of counts that one would have
measured at once, had one known every range and its variance. It is the best of several branchings, of epsilons that
grow or fall from level to level, and of trees without some of their uppermost levels, with least squares over all
counts. It takes minutes.

"optimum" asks default and narrow ranges, several sequences of each, beside what one would have measured had one known
them all: the best p-Identity that a descent finds, over cells that no range divides, for the worst of the ranges each
by its own variance; and beside a bound that is proven, of which no strategy costs less. The bound is that of Gaussian
noise, by duality, as a strategy's largest column sum is at least its largest column norm; how far the two sides of the
duality are apart is printed ("gap"). It says less of Laplace noise than of Gaussian: the least lies between the two.

Totals differ from sequence to sequence by half as much again: for seeds 0 to 14, 2,000 default ranges cost .029 to
.043, .034 in the mean, so that a single number says little. Issue 14 says .029, without its seeds; the versions before
it (2b0cf721 of 21 November, the last one before ski rental) cost .044, .033, .032 for seeds 0 to 2, where today's cost
.038, .031, .032: other sequences, not a loss. The least that is possible for them all is .017 at most and .0083 at
least.

"purchases" drills down in sessions that buy by themselves and in sessions that never do: total with over without, after
40 questions, after 150, and after whichever makes it largest.
"""

import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import block_array, csr_array, diags_array
from scipy.sparse.linalg import splu

import dpnotebook as dpn
from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.planner.pioneer.simulate import answered, running_epsilon
from dpnotebook.session.query import Query
from dpnotebook.strategy.worst_explicit import WeighedAnswers, gaussian_worst, worst_p_identity
from dpnotebook.workload import Explicit

SEEDS = 3
DRILLED = {40: 1.0, 150: 0.8}  # questions, and how many times the total without purchases that with them may be
BOUND = 1.5  # the same at any question
CELLS = 10_000
MOST = {100: 0.050, 500: 0.055, 2_000: 0.060}  # allowed for us on the default workload
WIDE = {"width": (320, 250), "start_std": 200}
# Ranges beside a static hierarchy: what is drawn, how many, and how many times its epsilon ours may be.
STATIC = {
    "default": ({}, 2_000, 1.25),
    "narrow": ({"width": (320, 2), "start_std": 2}, 2_000, 1.25),
    "short": ({"width": (20, 10), "start_std": 200}, 500, 1.5),
    "wide": (WIDE, 500, 1.5),
    "value-diverse": ({"variance": (250_000, 125_000)}, 500, 1.25),
}
BRANCHINGS = (2, 4, 8, 16)
RATIOS = (0.7, 1.0, 1.4)  # of the epsilons of one level and the level above it
OPTIMUM = {"default": 2.2, "narrow": 2.2}  # how many times the best that is found in hindsight ours may be
HINDSIGHT_SEEDS = range(6)
ROWS = (None, 16, 32)  # of a p-Identity besides the identity; None: the usual number
WEIGHT_BITS = 12  # of the weights of ranges, by the deviation that each may have
AT_ONCE = 100  # ranges whose variances are worked out together


def load_sequences() -> ModuleType:
    """Return the module of sequences that the tests use."""
    path = Path(__file__).parents[1] / "planner" / "sequences.py"
    spec = importlib.util.spec_from_file_location("sequences", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["sequences"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sequences = load_sequences()


def ask(
    frame: pd.DataFrame,
    domain: dict[str, object],
    queries: Iterable[Callable[[pd.DataFrame], Query]],
    *,
    budget: float = 1_000.0,
    **how: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the session's total after each question, up to its budget, and the seconds that each plan took."""
    totals, seconds = [], []
    with closing(dpn.Session(dpn.Budget(epsilon=budget), ":memory:", **how)) as session:
        session.protect(frame, "table", domain=domain)
        for build in queries:
            query = build(frame)
            start = time.perf_counter()
            _ = query.plan
            seconds.append(time.perf_counter() - start)
            try:
                query.run()
            except dpn.BudgetExceeded:
                break
            totals.append(session.spent.epsilon)
    return np.array(totals), np.array(seconds)


def ask_ranges(ranges: list, **how: object) -> tuple[np.ndarray, np.ndarray]:
    """Ask a real session for ranges of one attribute; the data hardly matter, so there is little of it."""
    frame = pd.DataFrame({"x": np.arange(CELLS)})
    queries = [
        lambda frame, r=r: frame.dp.count(where=f"x >= {r.start} and x < {r.end}", variance=r.variance) for r in ranges
    ]
    return ask(frame, {"x": dpn.Range(0, CELLS - 1)}, queries, **how)


def ask_drill_down(asked: list, **how: object) -> tuple[np.ndarray, np.ndarray]:
    """Ask a real session for the group-bys of a drill-down."""
    levels = {name: [f"{name}{i}" for i in range(size)] for name, size in sequences.DRILL_SIZES.items()}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(values, 10_000) for name, values in levels.items()})

    def query(frame: pd.DataFrame, question: object) -> Query:
        where = " and ".join(
            f"{name} in {[levels[name][i] for i in allowed]}" for name, allowed in question.where.items()
        )
        return frame.dp.groupby(list(question.keys)).count(where=where or None, variance=question.variance)

    return ask(frame, levels, [lambda frame, q=q: query(frame, q) for q in asked], **how)


def without_reuse(asked: list) -> float:
    """Return the spend of the dearest cell when every group-by is measured by itself."""
    names, sizes = list(sequences.DRILL_SIZES), tuple(sequences.DRILL_SIZES.values())
    spend = np.zeros(sizes)
    for question in asked:
        picked = [question.where.get(name, range(size)) for name, size in zip(names, sizes, strict=True)]
        spend[np.ix_(*map(list, picked))] += np.sqrt(2 / question.variance)
    return float(spend.max())


def tree(branching: int) -> tuple[np.ndarray, csr_array]:
    """Return the level of every node, leaves first, and which nodes each inner one is the sum of: 1, and -1 itself."""
    levels, rows, columns, values = [np.zeros(CELLS, dtype=int)], [], [], []
    first, width, inner = 0, CELLS, 0
    while width > 1:
        above = -(-width // branching)
        parents = np.arange(width) // branching
        rows += [inner + parents, inner + np.arange(above)]
        columns += [first + np.arange(width), first + width + np.arange(above)]
        values += [np.ones(width), -np.ones(above)]
        levels.append(np.full(above, len(levels)))
        first, width, inner = first + width, above, inner + above
    nodes = np.concatenate(levels)
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return nodes, csr_array(entries, shape=(inner, nodes.size))


def variances_of(asked: np.ndarray, levels: np.ndarray, sums: csr_array, epsilons: np.ndarray) -> np.ndarray:
    """Return the variances of ranges, shape (ranges, 2), by least squares over a tree with an epsilon a level.

    Of all node counts that add up, those are the best that lie nearest to what was measured, each by its precision: the
    answer q has variance q'x, where x minimises half the sum of precision times x squared, less q'x.
    """
    precisions = epsilons[levels] ** 2 / 2
    solved = splu(block_array([[diags_array(precisions), sums.T], [sums, None]], format="csc"))
    found = []
    for part in np.array_split(asked, -(-len(asked) // AT_ONCE)):
        queries = np.zeros((levels.size + sums.shape[0], len(part)))
        for place, (start, end) in enumerate(part):
            queries[start:end, place] = 1
        found.append((queries * solved.solve(queries)).sum(axis=0))
    return np.concatenate(found)


def static_hierarchy(ranges: list) -> tuple[float, int]:
    """Return the least epsilon of a tree that answers every range as accurately as was asked, and its branching."""
    asked = np.array([(one.start, one.end) for one in ranges])
    wanted = np.array([one.variance for one in ranges])
    found = []
    for branching in BRANCHINGS:
        levels, sums = tree(branching)
        height = int(levels.max()) + 1
        for ratio in RATIOS:
            for kept in range(max(1, height // 2), height + 1):
                epsilons = np.where(np.arange(height) < kept, ratio ** np.arange(height, dtype=float), 0.0)
                # Twice every epsilon is a quarter of every variance.
                times = math.sqrt(float((variances_of(asked, levels, sums, epsilons) / wanted).max()))
                found.append((times * float(epsilons.sum()), branching))
    return min(found)


def print_static(names: Iterable[str]) -> None:
    """Print totals of ranges in a real session beside the best static hierarchy in hindsight."""
    row("total epsilon, one sequence", "static (tree)", "ours", "times", "at most")
    for name in names:
        shape, count, most = STATIC[name]
        ranges = sequences.ranges(count, np.random.default_rng(0), **shape)
        least, branching = static_hierarchy(ranges)
        ours = float(ask_ranges(ranges)[0][-1])
        met = "yes" if ours <= most * least else "NO"
        words = f"{name} ranges, {count:,}"
        row(words, f"{least:.3g} ({branching})", f"{ours:.3g}", f"{ours / least:.2f}", f"{most:g}: {met}")


def merged(ranges: list) -> tuple[np.ndarray, float]:
    """Return ranges over the cells that none divides, in integers by how precise each must be, and one integer's worth.

    Integers are rounded down, which asks for a little less: a bound stays one.
    """
    cuts = np.unique([(one.start, one.end) for one in ranges])
    strictest: dict[tuple[int, int], float] = {}
    for one in ranges:
        key = one.start, one.end
        strictest[key] = min(one.variance, strictest.get(key, math.inf))
    precise = np.array([variance**-0.5 for variance in strictest.values()])
    worth = float(precise.max()) / 2**WEIGHT_BITS
    rows = np.zeros((len(strictest), cuts.size - 1), dtype=np.int64)
    for row_, (start, end), one in zip(rows, strictest, np.floor(precise / worth), strict=True):
        row_[np.searchsorted(cuts, start) : np.searchsorted(cuts, end)] = one
    return rows, worth


def hindsight(ranges: list) -> tuple[float, float, float]:
    """Return the epsilon of the best p-Identity found, a bound on that of any strategy, and the gap of its duality."""
    rows, worth = merged(ranges)
    asked = Explicit(rows)
    bound = gaussian_worst(WeighedAnswers(asked))
    found = []
    for count in ROWS:
        operator = worst_p_identity(asked, count)
        worst = float(variances(inverse(operator), asked).max())
        found.append(worth * math.sqrt(2 * worst) * float(operator.column_norms(1).max()))
    return min(found), worth * math.sqrt(2 * bound.lower), math.sqrt(bound.worst / bound.lower) - 1


def print_optimum() -> None:
    """Print totals of ranges in a real session beside what is best in hindsight."""
    row("total epsilon", "bound (gap)", "best found", "ours", "over best", "over bound")
    for name, most in OPTIMUM.items():
        shape, count, _ = STATIC[name]
        over = []
        for seed in HINDSIGHT_SEEDS:
            ranges = sequences.ranges(count, np.random.default_rng(seed), **shape)
            best, bound, gap = hindsight(ranges)
            ours = float(ask_ranges(ranges)[0][-1])
            over.append(ours / best)
            words = f"{name} ranges, {count:,}, seed {seed}"
            epsilons = f"{bound:.3g} ({gap:.0e})", f"{best:.3g}", f"{ours:.3g}"
            row(words, *epsilons, f"{over[-1]:.2f}", f"{ours / bound:.2f}")
        met = "yes" if np.mean(over) <= most else "NO"
        words = f"{name} ranges, mean over the best found (largest)"
        row(words, f"{np.mean(over):.2f} ({max(over):.2f})", f"{most}: {met}")


def print_purchases(seeds: Iterable[int] = range(20, 26)) -> None:
    """Print totals of drill-downs with purchases over those without."""
    found = []
    for seed in seeds:
        asked = sequences.drill_down(np.random.default_rng(seed), max(DRILLED))
        bought, never = (ask_drill_down(asked, purchases=purchases)[0] for purchases in ("auto", "never"))
        found.append(bought / never)
        row(f"drill-down {seed}, with purchases over without", *(f"{number([value])}" for value in _looked(found[-1])))
    mean, most = np.mean([_looked(one) for one in found], axis=0), max(one.max() for one in found)
    limits = [*DRILLED.values(), BOUND]
    for words, value, limit in zip((*map(str, DRILLED), "any"), [*mean[:-1], most], limits, strict=True):
        met = "yes" if value <= limit else "NO"
        row(f"after {words} questions, mean (any: the largest)", f"{value:.3g}", f"{limit:g}: {met}")


def _looked(shares: np.ndarray) -> list[float]:
    return [*(float(shares[count - 1]) for count in DRILLED), float(shares.max())]


def row(words: str, *values: object) -> None:
    """Print one line."""
    print(f"{words:52}" + "".join(f"{value:>16}" for value in values), flush=True)


def number(values: Iterable[float]) -> str:
    """Return a mean, short."""
    return f"{np.mean(list(values)):.3g}"


def print_totals(words: str, counts: list[int], allowed: list[float], **shape: object) -> np.ndarray:
    """Print totals after some numbers of ranges; return the seconds of all plans."""
    drawn = [sequences.ranges(max(counts), np.random.default_rng(seed), **shape) for seed in range(SEEDS)]
    naive = [running_epsilon(ranges, "naive") for ranges in drawn]
    pioneer = [running_epsilon(ranges, "pioneer") for ranges in drawn]
    exactly = [running_epsilon(ranges, "pioneer", exactly=True) for ranges in drawn]
    ours, seconds = zip(*(ask_ranges(ranges) for ranges in drawn), strict=True)
    for count, most in zip(counts, allowed, strict=True):
        after = [number(run[count - 1] for run in runs) for runs in (naive, pioneer, exactly, ours)]
        met = "yes" if float(np.mean([run[count - 1] for run in ours])) <= most else "NO"
        row(f"{words}, {count:,} ranges", after[0], f"{after[1]} ({after[2]})", after[3], f"{most:g}: {met}")
    return np.concatenate(seconds)


def print_answered(std: float, count: int, least: int) -> None:
    """Print how many ranges epsilon = 1 answers."""
    shape = {"variance": (std**2, std**2 / 10)}
    drawn = [sequences.ranges(count, np.random.default_rng(seed), **shape) for seed in range(SEEDS)]
    naive, pioneer = (number(answered(r[:2_000], method, 1.0) for r in drawn) for method in ("naive", "pioneer"))
    exactly = number(answered(ranges[:2_000], "pioneer", 1.0, exactly=True) for ranges in drawn)
    ours = [len(ask_ranges(ranges, budget=1.0)[0]) for ranges in drawn[: 1 if count > 5_000 else SEEDS]]
    met = "yes" if float(np.mean(ours)) >= least else "NO"
    words = f"answered within epsilon 1 at std {std:g}, of {count:,}"
    row(words, naive, f"{pioneer} ({exactly})", f"{np.mean(ours):,.0f}", f"{least:,}: {met}")


def main() -> None:
    """Print the table."""
    if "static" in sys.argv[1:]:
        print_static([name for name in STATIC if name in sys.argv[1:]] or STATIC)
        return
    if "optimum" in sys.argv[1:]:
        print_optimum()
        return
    if "purchases" in sys.argv[1:]:
        print_purchases()
        return
    everything = "all" in sys.argv[1:]
    counts = [100, 500, 2_000] if everything else [100, 500]
    row("total epsilon, means of 3 sequences", "one by one", "Pioneer (k)", "ours", "at most")
    seconds = print_totals("default workload", counts, [MOST[count] for count in counts])
    real = [ask_ranges(sequences.ranges(100, np.random.default_rng(s)), planner="pioneer")[0][-1] for s in range(SEEDS)]
    row("Pioneer in a session, 100 ranges", "", number(real))
    print_totals("wide workload", [1_000], [0.075], **WIDE)
    print_answered(100, 10_000 if everything else 1_000, 10_000 if everything else 1_000)
    print_answered(25, 700, 450)
    shares = []
    for seed in range(10):
        asked = sequences.drill_down(np.random.default_rng(seed))
        shares.append(ask_drill_down(asked)[0][-1] / without_reuse(asked))
    met = "yes" if np.mean(shares) <= 0.4 else "NO"
    row("drill-down, share of no reuse (10 sequences)", "1", "", number(shares), f"0.4: {met}")
    row("plan, ms: median and 95th percentile", *(f"{q:.1f}" for q in np.quantile(seconds, [0.5, 0.95]) * 1000))


if __name__ == "__main__":
    main()

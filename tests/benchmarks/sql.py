"""How fast statements over units with many rows are, beside DuckDB: python tests/benchmarks/sql.py [all].

A statement runs end to end in a session: plan, charge, one query of the engine, noise, threshold, record, release. It
is compared with the same two stages (by unit and group, then by group) without privacy. "all" adds ten million rows.
How wrong counts are on a skewed table is printed as well.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd

import dpnotebook as dpn

GROUPS = 50
MOST_ROWS = 20  # of a unit: with ten rows each on average, only few have more
RUNS = 5

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.01, delta=1e-12, max_groups_contributed={}) g, "
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"
SUM = "SUM(x, contribution_bounds_per_group => (0, 500)) AS s"
AVERAGE = "AVG(x, contribution_bounds_per_group => (0, 100)) AS a"
TWO_STAGES = (
    "SELECT g, sum(n) AS n, sum(s) AS s, avg(a) AS a FROM "
    "(SELECT unit, g, count(*) AS n, sum(x) AS s, avg(x) AS a FROM visits GROUP BY unit, g) GROUP BY g"
)
STATEMENTS = {
    "rows, 20 a unit (few have more)": "SELECT g, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM visits GROUP BY g",
    "groups, 12 a unit (few have more)": f"{PRIVATE.format(12)}{COUNT}, {SUM}, {AVERAGE} FROM visits GROUP BY g",
    "groups, 5 a unit (most have more)": f"{PRIVATE.format(5)}{COUNT}, {SUM}, {AVERAGE} FROM visits GROUP BY g",
    "groups, 1 a unit (all have more)": f"{PRIVATE.format(1)}{COUNT}, {SUM}, {AVERAGE} FROM visits GROUP BY g",
    "groups, 12 a unit, bounds found": f"{PRIVATE.format(12)}COUNT(*) AS n, {SUM} FROM visits GROUP BY g",
}  # fmt: skip


def visits(rows: int) -> pd.DataFrame:
    """Return a made-up table: ten rows a unit on average, groups by Zipf's law."""
    random = np.random.default_rng()
    weights = 1 / np.arange(1, GROUPS + 1)
    groups = np.array([f"group {i}" for i in range(GROUPS)])
    return pd.DataFrame(
        {
            "unit": random.integers(0, rows // 10, rows),
            "g": groups[random.choice(GROUPS, rows, p=weights / weights.sum())],
            "x": random.normal(50, 20, rows),
        }
    )


def measured(
    works: dict[str, Callable[[], object]], runs: int = RUNS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median seconds of each, taken in turns, so that what else runs slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            start = clock()
            work()
            times[name].append(clock() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def compare(rows: int, runs: int = RUNS) -> None:
    """Print how long statements take over so many rows, in seconds and beside the two stages without privacy."""
    frame = visits(rows)
    with (
        closing(dpn.Session(dpn.Budget(100.0, 1e-6), ":memory:", confirm="never")) as session,
        duckdb.connect() as plain,
    ):
        plain.register("visits", frame)
        start = time.perf_counter()
        session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS, domain={"x": dpn.Bins(0, 100, width=1)})
        print(f"\n{f'{rows:,} rows: protect, once':56}{time.perf_counter() - start:8.2f} s")

        def asked(statement: str, **more: str) -> Callable[[], object]:
            given = {} if "OPTIONS" in statement else {"epsilon": 0.01}
            return lambda: session.sql(statement, fresh=True, **given, **more).run()

        works: dict[str, Callable[[], object]] = {
            "two stages without privacy": lambda: plain.execute(TWO_STAGES).fetchnumpy()
        }
        works |= {name: asked(statement) for name, statement in STATEMENTS.items()}
        works["one L2 norm, found"] = asked(
            next(iter(STATEMENTS.values())).replace(", AVG(x) AS a", ""), contribution="l2"
        )
        for work in works.values():
            work()  # once, to be warm
        found = measured(works, runs)
        base = found["two stages without privacy"]
        for name, seconds in found.items():
            print(f"{name:56}{seconds:8.2f} s {seconds / base:8.2f} x")
    print(
        f"{'most memory, the frame included':56}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:8.2f} GiB"
    )


def first_statements(rows: int, runs: int = 3) -> None:
    """Print the processor time of the first plain statement of a session, which finds bounds, and of the same again.

    Over that of the two stages without privacy, with a delta and without, in turns.
    """
    frame, groups = visits(rows), [f"group {i}" for i in range(GROUPS)]
    asked = {
        "COUNT": "COUNT(*) AS v",
        "SUM": "SUM(x) AS v",
        "AVG": "AVG(x) AS v",
        "VAR": "VAR_POP(x) AS v",
        "MEDIAN": "MEDIAN(x) AS v",
        "COUNT, SUM and AVG": "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a",
        "all five": "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, MEDIAN(x) AS m, VAR_POP(x) AS w",
    }
    found: dict[tuple[str, str, bool], list[float]] = {}
    stages: list[float] = []
    with duckdb.connect() as plain:
        plain.register("visits", frame)
        for turn in range(runs + 1):
            start = time.process_time()
            plain.execute(TWO_STAGES).fetchnumpy()
            stages.append(time.process_time() - start)
            for budget, declared in ((dpn.Budget(100.0, 1e-6), None), (dpn.Budget(100.0), {"g": groups})):
                for name, columns in asked.items():
                    with closing(dpn.Session(budget, ":memory:", confirm="never")) as session:
                        most = None if budget.delta else MOST_ROWS
                        session.protect(frame, "visits", unit="unit", max_rows=most, domain=declared)
                        for first in (True, False):
                            start = time.process_time()
                            text = f"SELECT g, {columns} FROM visits GROUP BY g"
                            session.sql(text, epsilon=0.5, fresh=not first).run()
                            key = name, "with delta" if budget.delta else "without", first
                            if turn:  # once, to be warm
                                found.setdefault(key, []).append(time.process_time() - start)
    base = statistics.median(stages[1:])
    print(f"\n{f'{rows:,} rows: times the two stages ({1000 * base:.0f} ms)':56}{'first':>8}{'again':>8}")
    for way in ("with delta", "without"):
        for name in asked:
            both = (statistics.median(found[name, way, first]) / base for first in (True, False))
            print(f"{f'{name}, {way}':56}{''.join(f'{ratio:8.2f}' for ratio in both)}")


def accuracy(draws: int = 5) -> None:
    """Print how wrong counts of all rows by unknown group are at (1, 1e-6), bounds included, where units are skewed."""
    rows, random = 10**6, np.random.default_rng()
    often = np.arange(1, rows // 10 + 1) ** -0.5  # rows a unit by Zipf's law with exponent 1/2: the largest has 1,600
    frame = visits(rows).assign(unit=random.choice(rows // 10, rows, p=often / often.sum()))
    truth = frame["g"].value_counts()
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1{}) g, COUNT(*{}) AS n FROM visits GROUP BY g"
    within = ", contribution_bounds_per_group => (0, {})"
    ways = {
        "two stages, 40 groups of 24 rows": (clause.format(", max_groups_contributed=40", within.format(24)), None),
        "one L2 norm, 76": (clause.format("", within.format(76)), "l2"),
        "one L2 norm, found": (clause.format("", ""), "l2"),
        "rows, 20 drawn at random": ("SELECT g, COUNT(*) AS n FROM visits GROUP BY g", "rows"),
        "plain SQL": ("SELECT g, COUNT(*) AS n FROM visits GROUP BY g", None),
    }
    print(f"\n{'root mean squared error of counts, 50 groups, (1, 1e-6)':56}")
    for name, (text, contribution) in ways.items():
        squares = []
        for _ in range(draws):
            with closing(dpn.Session(dpn.Budget(1.0, 1e-6), ":memory:", confirm="never")) as session:
                session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS)
                given = {} if "OPTIONS" in text else {"epsilon": 0.999999}
                found = session.sql(text, contribution=contribution, **given).run().frame
            counts = found.set_index("g")["n"].reindex(truth.index, fill_value=0)  # a hidden group counts as none
            squares.append(((counts - truth) ** 2).mean())
        print(f"{name:56}{np.sqrt(np.mean(squares)):8,.0f} rows")


def plain_and_sampled(draws: int = 3) -> None:
    """Print how wrong plain statements are at (1, 1e-6) on the skewed table, beside rows drawn at random and the best.

    The best is the least error, of counts and sums, with a norm that is chosen knowing all rows, and four fifths of the
    cost: the rest counts the units that the groups are shown by.
    """
    rows, random = 10**6, np.random.default_rng()
    often = np.arange(1, rows // 10 + 1) ** -0.5
    frame = visits(rows).assign(unit=random.choice(rows // 10, rows, p=often / often.sum()))
    by, budget = frame.groupby("g"), dpn.Budget(1.0, 1e-6)
    wanted = {
        "COUNT(*)": by.size(),
        "SUM(x)": by["x"].sum(),
        "AVG(x)": by["x"].mean(),
        "STDDEV(x)": by["x"].std(),
        "COUNT(DISTINCT unit)": by["unit"].nunique(),
    }
    title = "root mean squared error, 10^6 rows, 50 groups, (1, 1e-6)"
    print(f"\n{title:56}{'plain':>12}{'rows, 20':>12}{'best norm':>12}")
    for asked, exact in wanted.items():
        errors = []
        for contribution in (None, "rows"):
            squares = []
            for _ in range(draws):
                with closing(dpn.Session(budget, ":memory:", confirm="never")) as session:
                    session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS)
                    text = f"SELECT g, {asked} AS n FROM visits GROUP BY g"
                    query = session.sql(text, epsilon=0.999999, contribution=contribution)
                    found = query.run().frame.set_index("g")["n"].reindex(exact.index, fill_value=0)
                    noise = float(session.ledger.accountant.scale(query.plan.units * 4 // 5, 1))
                squares.append(((found - exact) ** 2).mean())
            errors.append(np.sqrt(np.median(squares)))
        best = ""
        if asked in ("COUNT(*)", "SUM(x)"):
            best = f"{best_norm(frame, None if asked == 'COUNT(*)' else 'x', noise):12,.4g}"
        print(f"{asked:56}{errors[0]:12,.4g}{errors[1]:12,.4g}{best}")


def best_norm(frame: pd.DataFrame, column: str | None, noise: float) -> float:
    """Return the least root mean squared error of a count or a sum by group, over all norms to clip to."""
    values = np.ones(len(frame)) if column is None else frame[column].to_numpy()
    vectors = np.zeros((frame["unit"].max() + 1, GROUPS))
    np.add.at(vectors, (frame["unit"].to_numpy(), pd.factorize(frame["g"])[0]), values)
    norms = np.linalg.norm(vectors, axis=1)
    errors = []
    for norm in 2.0 ** np.arange(0, np.log2(norms.max()), 1 / 4):
        lost = np.maximum(1 - norm / np.maximum(norms, 1e-300), 0.0) @ vectors
        errors.append(np.sqrt(np.mean(lost**2) + (noise * norm) ** 2))
    return float(min(errors))


def found_bounds(draws: int = 5, units: int = 40_000) -> None:
    """Print how wrong plain SUM, AVG and STDDEV are at (1, 1e-6), what is cut off included, beside sampled rows."""
    random = np.random.default_rng()
    rows = np.ceil(random.pareto(1.7, units) + 0.2).astype(int).clip(1, 500)
    unit = np.repeat(np.arange(units), rows)
    columns = {
        "normal": random.normal(50, 20, unit.size),
        "years": random.integers(1930, 2021, unit.size),
        "10^6 +- 10": random.uniform(1e6 - 10, 1e6 + 10, unit.size),
        "negative": -random.gamma(3, 20, unit.size),
        "lognormal": random.lognormal(4, 1, unit.size),
        "rows^0.2": rows[unit] ** 0.2 * 20 + random.normal(0, 2, unit.size),
    }
    print(f"\n{f'root mean squared error, {units:,} units, 10 groups, (1, 1e-6)':56}{'plain':>12}{'rows, 20':>12}")
    for name, values in columns.items():
        frame = pd.DataFrame({"unit": unit, "g": random.integers(10, size=unit.size), "x": values})
        for asked, truth in (("SUM", "sum"), ("AVG", "mean"), ("STDDEV", "std")):
            exact, errors = frame.groupby("g")["x"].agg(truth), []
            for contribution in (None, "rows"):
                squares = []
                for _ in range(draws):
                    with closing(dpn.Session(dpn.Budget(1.0, 1e-6), ":memory:", confirm="never")) as session:
                        session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS)
                        text = f"SELECT g, {asked}(x) AS n FROM visits GROUP BY g"
                        found = session.sql(text, epsilon=0.999999, contribution=contribution).run().frame
                    squares.append(((found.set_index("g")["n"].reindex(exact.index) - exact) ** 2).mean())
                errors.append(np.sqrt(np.median(squares)))
            print(f"{f'{asked} of {name}':56}{errors[0]:12,.4g}{errors[1]:12,.4g}")


def people(units: int = 100_000, groups: int = 50, draws: int = 3) -> None:
    """Print how wrong plain AVG and STDDEV are at (1, 1e-6) where people have 1 to 126 rows, beside other ways.

    In the last table values go with the number of rows: whoever takes few rows of each answers another question.
    """
    frame, random = _people(units, groups), np.random.default_rng()
    unit, home, values = (frame[name].to_numpy() for name in ("unit", "g", "x"))
    rows, everywhere = np.bincount(unit), random.permutation(home)
    tables = {
        "groups at random": (everywhere, values),
        "groups of people": (home, values),
        "values with rows": (home, rows[unit] ** 0.2 * 40 + random.normal(0, 4, unit.size)),
    }
    ways = {"plain": (None, None), "2 rows": (2, "rows"), "8 rows": (8, "rows"), "126 rows": (126, "rows")}
    title = f"root mean squared error, {units:,} people, {groups} groups, (1, 1e-6)"
    print(f"\n{title:56}{''.join(f'{name:>12}' for name in ways)}")
    for name, (group, value) in tables.items():
        frame = pd.DataFrame({"unit": unit, "g": group, "x": value})
        for asked, truth in (("AVG", "mean"), ("STDDEV", "std")):
            exact, errors = frame.groupby("g")["x"].agg(truth), []
            for most, contribution in ways.values():
                session = dpn.Session(dpn.Budget(1.0, 1e-6), ":memory:", confirm="never")
                squares = _errors(session, frame, "unit", most, f"{asked}(x)", exact, contribution, draws)
                errors.append(np.sqrt(np.median(squares)))
            print(f"{f'{asked}, {name}':56}{''.join(f'{error:12,.3g}' for error in errors)}")


def declared(units: int = 20_000, draws: int = 5) -> None:
    """Print how wrong plain statements over declared columns are, by how many rows of a person are declared at most.

    People have 1 to 126 rows. "rows" is what the planner answers, with as many rows of each as are declared.
    """
    random = np.random.default_rng()
    rows = np.clip(np.round(random.lognormal(1.5, 1.0, units)), 1, 126).astype(int)
    unit, cities = np.repeat(np.arange(units), rows), [str(i) for i in range(20)]
    group = random.choice(cities, units)[unit]
    frame = pd.DataFrame({"unit": unit, "g": group, "x": np.clip(random.gamma(4, 10, unit.size), 0, 200)})
    domain: dict[str, object] = {"g": cities, "x": dpn.Bins(0, 200, width=5)}
    title = f"root mean squared error, {units:,} people, all declared, epsilon 0.3"
    most, ways = (8, 20, 130), (None, "rows")
    heads = [f"{way or 'plain'}, {one}" for one in most for way in ways]
    print(f"\n{title:66}{''.join(f'{head:>12}' for head in heads)}")
    for budget in (dpn.Budget(1.0, 1e-6), dpn.Budget(1.0)):
        for asked, truth in (("COUNT", "count"), ("SUM", "sum"), ("AVG", "mean"), ("MEDIAN", "median")):
            exact, errors = frame.groupby("g")["x"].agg(truth), []
            for one, way in ((one, way) for one in most for way in ways):
                session = dpn.Session(budget, ":memory:", confirm="never")
                squares = _errors(session, frame, "unit", one, f"{asked}(x)", exact, way, draws, 0.3, domain)
                errors.append(np.sqrt(np.median(squares)))
            name = f"{asked}, {'with delta' if budget.delta else 'without'}"
            print(f"{name:66}{''.join(f'{error:12,.3g}' for error in errors)}")


def _people(units: int, groups: int) -> pd.DataFrame:
    """Return rows of people who have 1 to 126 each, in groups by Zipf's law, most of them in their own."""
    random = np.random.default_rng()
    shares = 1 / np.arange(1, groups + 1)
    rows = np.clip(np.round(random.lognormal(1.8, 1.0, units)), 1, 126).astype(int)
    unit = np.repeat(np.arange(units), rows)
    everywhere = random.choice(groups, unit.size, p=shares / shares.sum())
    home = np.where(random.random(unit.size) < 0.8, everywhere[np.cumsum(rows) - 1][unit], everywhere)
    return pd.DataFrame({"unit": unit, "g": home, "x": random.gamma(4, 20, unit.size)})


def whatever_max_rows(units: int = 100_000, draws: int = 5) -> None:
    """Print how wrong plain SQL is at (1, 1e-6) with `max_rows` unset, 130 and 1,000, beside the best clip there is.

    The true maximum is 126. The best clip is as `plain_and_sampled` has it, the aim at most 1.5 times that.
    """
    frame, budget = _people(units, GROUPS), dpn.Budget(1.0, 1e-6)
    by, mosts = frame.groupby("g"), (None, 130, 1_000)
    wanted = {"COUNT(*)": by.size(), "SUM(x)": by["x"].sum(), "AVG(x)": by["x"].mean()}
    title = f"root mean squared error, {units:,} people, {GROUPS} groups, (1, 1e-6)"
    heads = "".join(f"{'max_rows ' + ('unset' if most is None else f'{most:,}'):>16}" for most in mosts)
    print(f"\n{title:64}{heads}{'best clip':>12}{'times that':>12}")
    for asked, exact in wanted.items():
        errors = []
        for most in mosts:
            session = dpn.Session(budget, ":memory:", confirm="never")
            noise = float(session.ledger.accountant.scale(session.ledger.accountant.units(0.999999) * 4 // 5, 1))
            errors.append(np.sqrt(np.median(_errors(session, frame, "unit", most, asked, exact, None, draws))))
        line = f"{asked:64}{''.join(f'{error:16,.4g}' for error in errors)}"
        if asked != "AVG(x)":
            best = best_norm(frame, None if asked == "COUNT(*)" else "x", noise)
            line += f"{best:12,.4g}{max(errors) / best:12.2f}"
        print(line)


def rows_found(sizes: tuple[int, ...] = (5_000, 100_000), draws: int = 3) -> None:
    """Print how wrong plain COUNT and SUM are without delta, as times the best number of rows of a unit in hindsight.

    With `max_rows` unset, 30, 130 and 1,000, none of which knows how many rows people have. The best number is at most
    as many, of values as far as is declared; "rows" is what `contribution="rows"` gives.
    """
    random, cities = np.random.default_rng(), [str(i) for i in range(20)]
    mosts = (None, 30, 130, 1_000)
    heads = "".join(f"{'unset' if most is None else f'{most:,}':>10}{'rows':>10}" for most in mosts)
    print(f"\n{'errors over those of the best number of rows, 20 groups':64}{heads}")
    everything: list[float] = []
    for units in sizes:
        tables = {
            "lognormal": np.clip(np.round(random.lognormal(1.5, 1.0, units)), 1, 126).astype(int),
            "two kinds": np.where(
                random.random(units) < 0.9, random.integers(1, 4, units), random.integers(40, 80, units)
            ),
            "geometric": random.geometric(1 / 7, units),
            "power law": np.ceil(random.pareto(1.5, units)).astype(int).clip(1, 800),
        }
        for name, rows in tables.items():
            unit = np.repeat(np.arange(units), rows)
            frame = pd.DataFrame({"unit": unit, "g": np.array(cities)[_home(unit, rows, len(cities), random)]})
            frame["x"] = np.clip(random.gamma(4, 10, unit.size), 0, 200)
            domain: dict[str, object] = {"g": cities, "x": dpn.Bins(0, 200, width=5)}
            for asked, epsilon in ((asked, epsilon) for asked in ("COUNT(*)", "SUM(x)") for epsilon in (0.1, 1.0)):
                by = frame.groupby("g")["x"]
                exact, found = by.size() if asked == "COUNT(*)" else by.sum(), []
                for most in mosts:
                    best = _best_rows(frame, rows, None if asked == "COUNT(*)" else "x", epsilon, most or 1_000)
                    for way in (None, "rows"):
                        if way and most is None:
                            found.append(np.nan)  # nobody said how many
                            continue
                        session = dpn.Session(dpn.Budget(2.0), ":memory:", confirm="never")
                        squares = _errors(session, frame, "unit", most, asked, exact, way, draws, epsilon, domain)
                        found.append(float(np.sqrt(np.mean(squares))) / best)
                everything += found[::2]
                title = f"{asked}, {name}, {units:,} people, epsilon {epsilon}"
                print(f"{title:64}{''.join(f'{times:10.2f}' for times in found)}", flush=True)
    print(f"{'median, and nine in ten':64}{np.median(everything):10.2f}{np.quantile(everything, 0.9):10.2f}")


def means_of_rows(sizes: tuple[int, ...] = (5_000, 50_000), draws: int = 5) -> None:
    """Print how wrong means and medians are without delta, with as many rows of a unit as are found, and with five.

    Of people with up to 126 rows, whose values have nothing to do with their number, or grow with it; of bounds that
    are found, and of written ones that are far wider than values are.
    """
    random, groups = np.random.default_rng(), [str(i) for i in range(10)]
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}, max_rows_contributed = 5) "
    print(f"\n{'root mean squared errors of 10 groups, median of draws':64}{'found':>10}{'five rows':>10}")
    for units in sizes:
        rows = np.clip(np.round(random.lognormal(1.5, 1.0, units)), 1, 126).astype(int)
        unit = np.repeat(np.arange(units), rows)
        frame = pd.DataFrame({"unit": unit, "g": random.choice(groups, unit.size)})
        for kind, power in (("alike", 0.0), ("growing", 0.2)):
            frame["x"] = np.clip(random.gamma(4, 10, unit.size) * rows[unit] ** power, 0, 300)
            by = frame.groupby("g")["x"]
            asked = {"AVG(x)": by.mean(), "MEDIAN(x)": by.median(), "AVG(LEAST(GREATEST(x, 0), 300))": by.mean()}
            for (text, exact), epsilon in ((one, epsilon) for one in asked.items() for epsilon in (0.3, 1.5)):
                errors: tuple[list[float], list[float]] = ([], [])
                for _ in range(draws):
                    for told, head in zip(errors, ("", clause.format(epsilon)), strict=True):
                        with closing(dpn.Session(dpn.Budget(5.0), ":memory:", confirm="never")) as session:
                            session.protect(frame, "visits", unit="unit", domain={"g": groups})
                            given = {} if head else {"epsilon": epsilon}
                            release = session.sql(f"SELECT {head}g, {text} AS a FROM visits GROUP BY g", **given).run()
                        off = release.frame.set_index("g")["a"].reindex(exact.index) - exact
                        told.append(float(np.sqrt((off**2).mean())))
                title = f"{text}, {kind}, {units:,} people, epsilon {epsilon}"
                print(f"{title:64}{np.median(errors[0]):10.2f}{np.median(errors[1]):10.2f}", flush=True)


def _home(unit: np.ndarray, rows: np.ndarray, groups: int, random: np.random.Generator) -> np.ndarray:
    """Return groups by Zipf's law, four fifths of a person's rows in one."""
    shares = 1 / np.arange(1, groups + 1)
    own, any_of = (random.choice(groups, size, p=shares / shares.sum()) for size in (rows.size, unit.size))
    return np.where(random.random(unit.size) < 0.8, own[unit], any_of)


def _best_rows(frame: pd.DataFrame, rows: np.ndarray, column: str | None, epsilon: float, most: int) -> float:
    """Return the least root mean squared error of a count or a sum by group, over all numbers of rows that count."""
    unit, groups = frame["unit"].to_numpy(), frame["g"].to_numpy().astype(int)
    values = np.ones(unit.size) if column is None else frame[column].to_numpy()
    high, errors = 1.0 if column is None else 200.0, []
    for k in np.unique(np.round(2.0 ** np.arange(0, np.log2(most) + 0.01, 1 / 4))):
        lost = np.bincount(groups, weights=values * (1 - np.minimum(k / rows, 1.0)[unit]))
        errors.append(np.sqrt(np.mean(lost**2) + 2 * (k * high / epsilon) ** 2))
    return float(min(errors))


def five_statements(units: int = 100_000) -> None:
    """Print what five statements pay that share (1, 1e-6), what finds bounds included, and how wrong they are."""
    frame = _people(units, GROUPS)
    by = frame.groupby("g")
    wanted = {
        "COUNT(*)": by.size(),
        "SUM(x)": by["x"].sum(),
        "AVG(x)": by["x"].mean(),
        "COUNT(DISTINCT unit)": by["unit"].nunique(),
        "STDDEV(x)": by["x"].std(),
    }
    title = f"five statements share (1, 1e-6), {units:,} people"
    print(f"\n{title:64}{'of mu^2':>12}{'error':>12}{'said':>12}")
    with closing(dpn.Session(dpn.Budget(1.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="unit")
        accountant = session.ledger.accountant
        total, spent = accountant.units(1.0), 0
        for asked, exact in wanted.items():
            epsilon = accountant.epsilon(total // len(wanted)) * (1 - 1e-6)
            release = session.sql(f"SELECT g, {asked} AS n FROM visits GROUP BY g", epsilon=epsilon).run()
            found = release.frame.set_index("g")
            error = float(np.sqrt(((found["n"] - exact.reindex(found.index)) ** 2).mean()))
            paid, spent = session.ledger.spent - spent, session.ledger.spent
            print(f"{asked:64}{paid / total:12.1%}{error:12,.4g}{found['n_std_error'].median():12,.4g}")
        print(f"{'all of them, and what found bounds':64}{spent / total:12.1%}")


def one_row_each(rows: int = 10_000, draws: int = 5) -> None:
    """Print how wrong plain statements are at epsilon 0.5 where each row is a person, beside good bounds by hand.

    Without a delta, as the README's first session is, and with one: bounds are found or written.
    """
    random = np.random.default_rng()
    columns = {
        "years": random.integers(1930, 2021, rows).astype(float),
        "10^6 +- 10": random.uniform(1e6 - 10, 1e6 + 10, rows),
        "negative": -random.gamma(3, 20, rows),
        "lognormal": random.lognormal(4, 1, rows),
        "bimodal": np.where(random.random(rows) < 0.5, 10.0, 1_000.0),
        "constant": np.full(rows, 7.0),
    }
    budgets = {"epsilon": dpn.Budget(0.5), "delta": dpn.Budget(0.5, 1e-6)}
    heads = [f"{name}, {how}" for name in budgets for how in ("found", "by hand")]
    print(f"\n{f'root mean squared error, {rows:,} rows, epsilon 0.5':40}{''.join(f'{name:>18}' for name in heads)}")
    for name, values in columns.items():
        frame = pd.DataFrame({"x": values})
        low, high = np.quantile(values, [0.0005, 0.9995]).round(3)
        high = max(high, low + 0.001)
        for asked, truth in (("SUM", "sum"), ("AVG", "mean"), ("VAR_POP", "var"), ("MEDIAN", "median")):
            exact = values.var() if truth == "var" else getattr(frame["x"], truth)()
            errors = []
            for budget in budgets.values():
                per = "group" if asked in ("SUM", "AVG") else "row"
                for bounds in ("", f", contribution_bounds_per_{per} => ({low}, {high})"):
                    session = dpn.Session(budget, ":memory:", confirm="never")
                    found = _errors(session, frame, None, None, f"{asked}(x{bounds})", exact, None, draws, 0.499999)
                    errors.append(np.sqrt(np.median(found)))
            print(f"{f'{asked} of {name}':40}{''.join(f'{error:18,.4g}' for error in errors)}")


def _errors(
    session: dpn.Session,
    frame: pd.DataFrame,
    unit: str | None,
    most: int | None,
    asked: str,
    exact: pd.Series | float,
    contribution: str | None,
    draws: int,
    epsilon: float = 0.999999,
    domain: dict[str, object] | None = None,
) -> list[float]:
    """Return mean squared errors of a statement, each in a session as the one that is given."""
    grouped, squares = isinstance(exact, pd.Series), []
    for _ in range(draws):
        with closing(dpn.Session(session.budget, ":memory:", confirm="never")) as fresh:
            fresh.protect(frame, "visits", unit=unit, max_rows=most, domain=domain)
            text = f"SELECT {'g, ' if grouped else ''}{asked} AS n FROM visits{' GROUP BY g' if grouped else ''}"
            found = fresh.sql(text, epsilon=epsilon, contribution=contribution).run().frame
        answers = found.set_index("g")["n"].reindex(exact.index) if grouped else found["n"]
        squares.append(float(((answers - exact) ** 2).mean()))
    session.close()
    return squares


def planning() -> None:
    """Print how long it takes to parse, check, rewrite and plan a statement."""
    frame = visits(1_000)
    statement = STATEMENTS["groups, 12 a unit (few have more)"]
    with closing(dpn.Session(dpn.Budget(100.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS, domain={"x": dpn.Bins(0, 100, width=1)})
        works: dict[str, Callable[[], object]] = {
            "parse, check and plan, private clause": lambda: session.sql(statement).plan,
            "parse, check and plan, plain": lambda: session.sql(next(iter(STATEMENTS.values())), epsilon=0.01).plan,
        }
        start = time.perf_counter()
        works["parse, check and plan, private clause"]()
        print(f"{'the first statement of a session':56}{(time.perf_counter() - start) * 1000:8.1f} ms")
        for name, seconds in measured(works, 15).items():
            print(f"{name:56}{seconds * 1000:8.1f} ms")


def planning_beside(releases: int) -> None:
    """Print the processor time that it takes to plan a statement beside many releases: of other rows, and the same.

    Also that of one of these statements with a larger epsilon, for which the release is made sharper.
    """
    frame = visits(300).assign(g=lambda table: table["x"].round() % 3)
    for name, others in {
        "other conditions": "SELECT g, COUNT(*) AS n FROM visits WHERE x > {} GROUP BY g",
        "the same rows": "SELECT g, COUNT(*) AS n{} FROM visits GROUP BY g",
    }.items():
        with closing(dpn.Session(dpn.Budget(1e6, 1e-6), ":memory:", confirm="never")) as session:
            session.protect(frame, "visits", unit="unit", max_rows=MOST_ROWS)
            for i in range(releases):
                session.sql(others.format(i), epsilon=5.0, fresh=True).run()
            numbers = iter(range(releases))

            def plan(session: dpn.Session = session, numbers: Iterator[int] = numbers) -> object:
                asked = f"SELECT g, COUNT(*) AS m{next(numbers)} FROM visits WHERE g = 1 GROUP BY g"
                return session.sql(asked, epsilon=9.0).plan

            def sharper(
                session: dpn.Session = session, numbers: Iterator[int] = numbers, others: str = others
            ) -> object:
                return session.sql(others.format(next(numbers)), epsilon=9.0).plan

            for what, seconds in measured({"plan": plan, "sharper": sharper}, 15, time.process_time).items():
                print(f"{f'{what} beside {releases:,} releases of {name}':56}{seconds * 1000:8.1f} ms")


def main() -> None:
    """Print the tables."""
    planning()
    planning_beside(1_000)
    compare(10**6)
    first_statements(10**6)
    accuracy()
    plain_and_sampled()
    found_bounds()
    people()
    declared()
    whatever_max_rows()
    rows_found()
    means_of_rows()
    five_statements()
    one_row_each()
    if "all" in sys.argv:
        compare(10**7, 2)


if __name__ == "__main__":
    main()

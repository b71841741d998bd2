"""Without noise, a statement's answer is that of a query that is written by hand, for every aggregate and surface."""

import math

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

WARDS = ["north", "east", "so'uth", None, "", "ü|1:x"]


def made():
    """Return rows of units with one row and with ten thousand, of nobody, without values and without an end."""
    random = np.random.default_rng(11)
    sizes = [10_000, *random.integers(1, 12, 300), *[1] * 200]
    unit = np.repeat(np.arange(len(sizes)), sizes).astype(object)
    unit[random.random(len(unit)) < 0.002] = None
    size = len(unit)
    stay = random.integers(0, 30, size).astype(object)
    stay[random.random(size) < 0.05] = None
    fee = np.round(random.normal(40, 30, size) * 4) / 4
    fee[random.random(size) < 0.05] = np.nan
    wild = fee.copy()
    wild[random.random(size) < 0.02] = math.inf
    wild[random.random(size) < 0.02] = -math.inf
    frame = pd.DataFrame({
        "who": unit, "ward": np.array(WARDS, dtype=object)[random.integers(len(WARDS), size=size)],
        "stay": stay, "fee": fee, "wild": wild, "urgent": random.random(size) < 0.3,
    })  # fmt: skip
    return frame.astype({"who": "Int64", "stay": "Int64"}).sample(frac=1, random_state=0).reset_index(drop=True)


VISITS = made()
HOUSES = pd.DataFrame({"ward": ["north", "east", "none"], "beds": [10, 20, 30]})
HOMES = pd.DataFrame({"who": np.arange(0, 500, 2), "rooms": np.arange(0, 500, 2) % 5})


@pytest.fixture(scope="module")
def ask():
    """Return a function that answers a statement without noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = exact_session(dpn.Budget(900.0, 1e-6), confirm="never")
    domain = {"stay": dpn.Range(0, 29, nullable=True), "urgent": dpn.Boolean()}
    session.protect(VISITS, "visits", unit="who", max_rows=10_000, domain=domain)
    session.protect(HOMES, "homes", unit="who", max_rows=1, domain={"rooms": dpn.Range(0, 4)})
    session.register(HOUSES, "houses", public=True)
    yield lambda statement, **more: session.sql(statement, **({"epsilon": 1.0} | more)).run().frame
    session.close()


def exactly(query):
    """Return what a query gives over the rows of units, not privately."""
    with duckdb.connect() as connection:
        connection.register("all_visits", VISITS)
        connection.execute("CREATE VIEW visits AS SELECT * FROM all_visits WHERE who IS NOT NULL")
        connection.register("houses", HOUSES)
        connection.register("homes", HOMES)
        return connection.execute(query).df()


PRIVATE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-9, max_{}_contributed={})"
ALL_GROUPS, ALL_ROWS = PRIVATE.format("groups", 10), PRIVATE.format("rows", 10_000)
TO = "contribution_bounds_per_group => (-1000, 1000)"
EACH = "contribution_bounds_per_row => (-100, 100)"

# Clamped by hand, and only where there is a value: NULL clamped is a bound. Sums of infinities would be no numbers.
CLAMPED = "LEAST(GREATEST({}, {}), {})"
FAR = CLAMPED.format("wild", -1e8, 1e8)
ROW = CLAMPED.format("wild", -100, 100)

SAME = [
    "SELECT ward, COUNT(*) AS n, COUNT(fee) AS f, COUNT(stay) AS c, COUNT(DISTINCT who) AS u FROM visits GROUP BY ward",
    "SELECT ward, SUM(stay) AS s, AVG(stay) AS a FROM visits GROUP BY ward",
    "SELECT ward, VAR_POP(stay) AS v, VAR_SAMP(stay) AS w, STDDEV_POP(stay) p, STDDEV(stay) s FROM visits GROUP BY 1",
    "SELECT COUNT(*) AS n, SUM(stay) AS s, AVG(stay) AS a, VARIANCE(stay) AS v, COUNT(DISTINCT who) AS u FROM visits",
    "SELECT ward, urgent, COUNT(*) AS n FROM visits WHERE fee > 20 AND stay < 25 OR wild > 100 GROUP BY ward, urgent",
    "SELECT urgent, SUM(stay) AS s, COUNT(stay) AS n FROM visits GROUP BY urgent",
    "SELECT CASE WHEN fee < 0 THEN '-' WHEN fee IS NULL THEN '' ELSE '+' END k, COUNT(*) AS n FROM visits GROUP BY k",
    "SELECT rooms, COUNT(*) AS n, SUM(stay) AS s FROM visits JOIN homes ON visits.who = homes.who GROUP BY rooms",
    "SELECT n, COUNT(*) AS units FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) GROUP BY n",
    "SELECT fee, COUNT(*) AS n FROM visits GROUP BY fee HAVING COUNT(*) > 20",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE fee > 1000 GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits WHERE fee > 1000",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE ward IN (SELECT ward FROM houses WHERE beds < 15) GROUP BY ward",
    "WITH few AS (SELECT who, ward, stay AS x FROM visits WHERE stay < 9) SELECT ward, SUM(x) AS s FROM few GROUP BY 1",
    "SELECT ward, SUM(stay) / COUNT(*) AS m, 2 * COUNT(*) AS twice FROM visits GROUP BY ward ORDER BY twice LIMIT 3",
    "SELECT SUM(n) AS all_of_them, MAX(n) AS most FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS t",
]  # fmt: skip

# What stands above the groups: windows, several sets of groups, and columns for values.
SAME += [
    "SELECT ward, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward",
    "SELECT stay, SUM(COUNT(*)) OVER (ORDER BY stay) AS c, COUNT(*) - LAG(COUNT(*), 2, 0) OVER (ORDER BY stay) AS d "
    "FROM visits GROUP BY stay",
    "SELECT stay, AVG(n) OVER (ORDER BY stay ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m, "
    "SUM(n) OVER (ORDER BY stay ROWS 3 PRECEDING) AS s, MAX(n) OVER (ORDER BY stay RANGE BETWEEN 2 PRECEDING AND "
    "UNBOUNDED FOLLOWING) AS x FROM (SELECT stay, COUNT(*) AS n FROM visits GROUP BY stay)",
    "SELECT urgent, ward, COUNT(*) AS n, RANK() OVER w AS r, FIRST_VALUE(COUNT(*)) OVER w AS f, "
    "SUM(COUNT(*)) FILTER (WHERE ward <> 'east') OVER (PARTITION BY urgent) AS s, NTILE(3) OVER (w ROWS UNBOUNDED "
    "PRECEDING) AS t FROM visits GROUP BY urgent, ward WINDOW w AS (PARTITION BY urgent ORDER BY COUNT(*) DESC)",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 2",
    "SELECT ward, n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) QUALIFY n > AVG(n) OVER ()",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY RANK() OVER (ORDER BY COUNT(*)) LIMIT 2",
    "SELECT ward, LAST_VALUE(n IGNORE NULLS) OVER (ORDER BY ward NULLS LAST) AS l, COUNT(DISTINCT n) OVER () AS d, "
    "MEDIAN(n) OVER () AS m, COUNT(*) OVER () AS k FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
    "SELECT ward, urgent, COUNT(*) AS n, SUM(stay) AS s, GROUPING(ward, urgent) AS g FROM visits "
    "GROUP BY ROLLUP (ward, urgent)",
    "SELECT ward, urgent, COUNT(stay) AS n, AVG(stay) AS a FROM visits GROUP BY CUBE (1, 2) HAVING COUNT(stay) > 400",
    "SELECT ward, AVG(stay) AS a, SUM(stay) / COUNT(*) AS b FROM visits GROUP BY ROLLUP (ward)",
    "SELECT ward, urgent, stay > 9 AS long, COUNT(*) AS n FROM visits "
    "GROUP BY long, GROUPING SETS ((ward), (urgent), ())",
    "SELECT ward, urgent, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY GROUPING(ward), GROUPING(urgent)) AS share "
    "FROM visits GROUP BY CUBE (ward, urgent) ORDER BY share DESC LIMIT 5",
    "SELECT u, SUM(n) AS n FROM (SELECT ward, urgent AS u, COUNT(*) AS n FROM visits GROUP BY 1, 2) "
    "GROUP BY ROLLUP (u)",
    "SELECT ward, COUNT(*) AS n, n / SUM(n) OVER (PARTITION BY GROUPING(ward)) AS share FROM visits "
    "GROUP BY ROLLUP (ward)",
    "SELECT u, AVG(n) AS a FROM (SELECT ward, urgent AS u, COUNT(*) AS n FROM visits GROUP BY 1, 2) GROUP BY CUBE (u)",
    "SELECT * FROM (SELECT ward, urgent, COUNT(*) AS n FROM visits GROUP BY ward, urgent) "
    "PIVOT (SUM(n) FOR ward IN ('north', 'so''uth', 'none'))",
    "WITH r AS (SELECT ward, urgent, COUNT(*) AS n, SUM(stay) AS s FROM visits GROUP BY ward, urgent) "
    "SELECT urgent, north_n / e_n AS m, north_sum AS s FROM r PIVOT (SUM(n) AS n, SUM(s) AS sum FOR ward IN "
    "('north', 'east' AS e))",
]

WRITTEN = [
    (
        f"SELECT {ALL_GROUPS} ward, COUNT(*, contribution_bounds_per_group => (0, 20)) AS n, "
        "COUNT(fee, contribution_bounds_per_group => (2, 9)) AS f FROM visits GROUP BY ward",
        "SELECT ward, SUM(LEAST(n, 20)) AS n, SUM(LEAST(GREATEST(f, 2), 9)) AS f FROM "
        "(SELECT who, ward, COUNT(*) AS n, COUNT(fee) AS f FROM visits GROUP BY ALL) GROUP BY ward",
    ),
    (
        f"SELECT {ALL_GROUPS} ward, SUM(fee, {TO}) AS s, AVG(fee, {EACH.replace('row', 'group')}) AS a "
        "FROM visits GROUP BY ward",
        "SELECT ward, SUM(LEAST(GREATEST(s, -1000), 1000)) AS s, AVG(LEAST(GREATEST(a, -100), 100)) AS a FROM "
        "(SELECT who, ward, SUM(fee) AS s, AVG(fee) AS a FROM visits WHERE fee IS NOT NULL GROUP BY ALL) GROUP BY ward",
    ),
    (
        f"SELECT {ALL_GROUPS} ward, SUM(wild, {TO}) AS s, AVG(wild, {TO}) AS a FROM visits GROUP BY ward",
        "SELECT ward, SUM(LEAST(GREATEST(s, -1000), 1000)) AS s, AVG(LEAST(GREATEST(a, -1000), 1000)) AS a FROM "
        f"(SELECT who, ward, SUM({FAR}) AS s, AVG({FAR}) AS a "
        "FROM visits WHERE wild IS NOT NULL GROUP BY ALL) GROUP BY ward",
    ),
    (
        f"SELECT {ALL_ROWS} ward, COUNT(wild) AS n, VAR_POP(wild, {EACH}) AS v, STDDEV_POP(wild, {EACH}) AS d "
        "FROM visits GROUP BY ward",
        f"SELECT ward, COUNT(wild) AS n, VAR_POP({ROW}) AS v, STDDEV_POP({ROW}) AS d FROM visits "
        "WHERE wild IS NOT NULL GROUP BY ward",
    ),
    (
        f"SELECT {ALL_GROUPS} ward, VAR_POP(wild, {EACH}) AS v, STDDEV_POP(fee, {EACH}) AS d FROM visits "
        "WHERE who > 300 GROUP BY ward",
        f"SELECT ward, VAR_POP({ROW}) FILTER (wild IS NOT NULL) AS v, STDDEV_POP({CLAMPED.format('fee', -100, 100)}) "
        "FILTER (fee IS NOT NULL) AS d FROM visits WHERE who > 300 GROUP BY ward",
    ),
    (
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, delta=1e-9, kappa=10) ward, "
        "ANON_COUNT(* CLAMPED BETWEEN 0 AND 7) AS n, ANON_SUM(fee CLAMPED BETWEEN 0 AND 90) AS s "
        "FROM visits GROUP BY ward",
        "SELECT ward, SUM(LEAST(n, 7)) AS n, SUM(LEAST(GREATEST(s, 0), 90)) AS s FROM "
        "(SELECT who, ward, COUNT(*) AS n, SUM(fee) AS s FROM visits GROUP BY ALL) GROUP BY ward",
    ),
]  # fmt: skip


def rows_of(frame, columns):
    """Return the rows of columns as a sorted list: numbers as floats, what is missing as None."""
    plain = frame[columns].astype(object).where(frame[columns].notna(), None)
    rows = [
        tuple(float(v) if isinstance(v, (int, float, np.number)) and not isinstance(v, bool) else v for v in row)
        for row in plain.itertuples(index=False)
    ]
    return sorted(rows, key=lambda row: [(v is None, str(type(v)), v if v is not None else 0) for v in row])


def check(private, exact):
    mine, theirs = rows_of(private, list(exact.columns)), rows_of(exact, list(exact.columns))
    assert len(mine) == len(theirs)
    for row, other in zip(mine, theirs, strict=True):
        for value, exact in zip(row, other, strict=True):
            assert value == (pytest.approx(exact, rel=1e-6, abs=1e-6) if isinstance(exact, float) else exact)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("statement", SAME)
def test_plain_statements_are_answered_as_they_are_without_privacy(ask, statement):
    check(ask(statement, contribution="rows"), exactly(statement))


@pytest.mark.parametrize(("statement", "query"), [
    ("SELECT beds, COUNT(*) AS n, SUM(stay) AS s FROM visits JOIN houses ON visits.ward = houses.ward GROUP BY beds",
     "SELECT beds, COUNT(who) AS n, COALESCE(SUM(stay), 0) AS s FROM visits RIGHT JOIN houses USING (ward) "
     "GROUP BY beds"),
    ("SELECT beds, COUNT(*) AS n FROM visits LEFT JOIN houses USING (ward) GROUP BY beds",
     "SELECT beds, COUNT(who) AS n FROM visits FULL JOIN houses USING (ward) GROUP BY beds"),
])  # fmt: skip
def test_groups_of_a_public_column_are_there_though_empty(ask, statement, query):
    check(ask(statement, contribution="rows"), exactly(query))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("statement", "query"), WRITTEN)
def test_bounds_are_those_that_are_written(ask, statement, query):
    check(ask(statement, epsilon=None), exactly(query))


@pytest.mark.parametrize(("kind", "most", "who"), [("groups", 2, "who > 300"), ("rows", 12, "who > 0")])
def test_quantiles_are_those_of_the_values(ask, kind, most, who):
    """Of whole numbers, and of others to the width of a bin, a hundredth of the range at most.

    So much is spent that the noise that is expected, though none is drawn, moves no answer away from the values.
    """
    private = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=250, delta=1e-9, max_{kind}_contributed={most})"
    bounds = "contribution_bounds_per_row => ({}, {})"
    found = ask(
        f"SELECT {private} ward, PERCENTILE_CONT(stay, 0.25, {bounds.format(0, 40)}) AS q, "
        f"PERCENTILE_CONT(fee, 0.75, {bounds.format(-100, 200)}) AS f FROM visits WHERE {who} GROUP BY ward",
        epsilon=None,
    )
    exact = exactly(
        "SELECT ward, QUANTILE_DISC(stay, [0.22, 0.28]) AS q, QUANTILE_CONT(fee, [0.72, 0.78]) AS f "
        f"FROM visits WHERE {who} GROUP BY ward"
    )
    joined = found.merge(exact, on="ward")
    assert len(joined) == len(exact) == 6
    for column, width in (("q", 0), ("f", 3)):
        for value, (low, high) in zip(joined[f"{column}_x"], joined[f"{column}_y"], strict=True):
            assert low - width <= value <= high + width


def test_a_list_of_quantiles_is_each_of_them(ask):
    private = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=250, delta=1e-9, max_rows_contributed=12)"
    of = "FROM visits WHERE who > 0 GROUP BY ward ORDER BY ward"
    listed = ask(
        f"SELECT {private} ward, QUANTILE_CONT(stay, [0.75, 0.25], contribution_bounds_per_row => (0, 40)) AS q {of}",
        epsilon=None,
    )
    alone = ask(
        f"SELECT {private} ward, QUANTILE_CONT(stay, 0.25, contribution_bounds_per_row => (0, 40)) AS a, "
        f"QUANTILE_CONT(stay, 0.75, contribution_bounds_per_row => (0, 40)) AS b {of}",
        epsilon=None,
    )  # fmt: skip
    assert [list(pair) for pair in listed.q] == [list(pair) for pair in zip(alone.b, alone.a, strict=True)]


def test_a_unit_whose_vector_is_short_counts_whole(ask):
    statement = "SELECT ward, COUNT(*) AS n, SUM(stay) AS s FROM visits WHERE who > 300 GROUP BY ward"
    check(ask(statement, contribution="l2"), exactly(statement))


def test_without_bounds_they_are_found_above_nearly_all(ask):
    """All but what single units add beyond what others add; here the one of ten thousand rows."""
    private = PRIVATE.format("groups", 10)
    found = ask(
        f"SELECT {private} ward, SUM(fee) AS s, COUNT(*) AS n FROM visits WHERE who > 0 GROUP BY ward", epsilon=None
    )
    exact = exactly("SELECT ward, SUM(fee) AS s, COUNT(*) AS n FROM visits WHERE who > 0 GROUP BY ward")
    joined = found.merge(exact, on="ward")
    assert len(joined) == 6
    assert (abs(joined.s_x - joined.s_y) <= 0.1 * joined.s_y).all()
    assert (abs(joined.n_x - joined.n_y) <= 0.1 * joined.n_y).all()

"""Bounds that follow from expressions: every row lies between them, and answers cost nothing for finding them."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Bins, Boolean, Dates, Domain, Range
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.statement import Relation

DOMAIN = Domain({
    "age": Range(-3, 110), "pay": Bins(0.5, 200.5, width=10), "smokes": Boolean(),
    "born": Dates("1930-01-15", "2020-12-31"), "came": Dates("2019-01-01", "2024-12-31"),
})  # fmt: skip
KINDS = {
    **{"who": "integer", "age": "integer", "pay": "number", "smokes": "boolean", "cost": "number", "seen": "time"},
    **{"born": "time", "came": "time", "note": "text"},
}
VISITS = Relation("visits", KINDS, unit="who", max_rows=1, domain=DOMAIN)

FOLLOW = {
    "age": (-3, 110),
    "2024 - age": (1914, 2027),
    "-age": (-110, 3),
    "age * 2 + 1": (-5, 221),
    "age * -2": (-220, 6),
    "age / 4": (-0.75, 27.5),
    "age / -4": (-27.5, 0.75),
    "ABS(age)": (0, 110),
    "ABS(age - 200)": (90, 203),
    "age + pay": (-2.5, 310.5),
    "pay - age": (-109.5, 203.5),
    "pay * smokes::INT": (0, 200.5),
    "FLOOR(pay)": (0, 201),
    "ROUND(pay, -2)": (0, 300),
    "ROUND(pay, 1)": (0.5, 200.5),
    "CAST(pay AS INT)": (0, 201),
    "smokes": (0, 1),
    "CAST(age + 50 AS BOOLEAN)": (0, 1),
    "smokes::INT * 100": (0, 100),
    "cost > 3": (0, 1),
    "CASE WHEN cost > 3 THEN 1 ELSE 0 END": (0, 1),
    "CASE WHEN cost > 3 THEN 1 WHEN cost > 2 THEN 0.5 END": (0.5, 1),
    "IF(cost > 3, age, 200)": (-3, 200),
    "COALESCE(age, -10)": (-10, 110),
    "LEAST(age, 65)": (-3, 65),
    "GREATEST(age, 18)": (18, 110),
    "LEAST(GREATEST(cost, 0), 500)": (0, 500),
    "EXTRACT(HOUR FROM seen)": (0, 23),
    "MONTH(seen)": (1, 12),
    "DAYOFWEEK(seen)": (0, 6),
    "ISODOW(seen)": (1, 7),
    "WEEK(seen)": (1, 53),
    "YEAR(born)": (1930, 2020),
    "EXTRACT(YEAR FROM CAST(born AS DATE))": (1930, 2020),
    "2025 - YEAR(born)": (5, 95),
    "EXTRACT(YEAR FROM AGE(DATE '2025-06-30', born))": (4, 96),
    "EXTRACT(YEAR FROM AGE(born, DATE '1940-06-30'))": (-11, 81),
    "DATE_DIFF('year', born, DATE '2025-06-30')": (5, 95),
    "DATE_DIFF('month', born, DATE '2025-06-30')": (54, 1145),
    "DATE_DIFF('day', DATE '2020-01-01', born)": (-32858, 365),
    "DATE_DIFF('day', born, TIMESTAMP '2025-06-30 12:00:00') // 7": (234, 4981),
}
UNKNOWN = [
    *("cost", "cost * 2", "age * cost", "pay * age", "LEAST(cost, 500)", "1 / age", "YEAR(seen)", "LENGTH(note)"),
    *("DATE_DIFF('day', born, came)", "DATE_DIFF('hour', born, DATE '2025-06-30')", "DATE_DIFF('day', seen, born)"),
    *(
        "CASE WHEN smokes THEN cost ELSE 0 END",
        "3",
        "COALESCE(cost, 0)",
        "CAST(note AS INT)",
        "age / 0",
        "age * 1e200 * 1e200",
    ),
]


def bounds(expression):
    select = analyse(f"SELECT AVG({expression}) FROM visits", {"visits": VISITS}, bounds="declared").selects[0]
    return select.aggregates[0].bounds


@pytest.mark.parametrize(("expression", "expected"), FOLLOW.items())
def test_bounds_follow_from_what_is_declared_and_written(expression, expected):
    assert bounds(expression) == tuple(map(Fraction, expected))


@pytest.mark.parametrize("expression", UNKNOWN)
def test_elsewhere_they_are_to_be_found(expression):
    assert bounds(expression) is None


@pytest.mark.one_in(4)
@pytest.mark.parametrize("expression", FOLLOW)
def test_every_row_lies_between_them(expression):
    random = np.random.default_rng(7)
    rows = 2_000
    frame = pd.DataFrame(
        {
            "age": pd.array(random.integers(-3, 111, rows), dtype="Int64"),
            "pay": random.uniform(0.5, 200.5, rows),
            "smokes": random.random(rows) < 0.5,
            "cost": random.normal(0, 100, rows) ** 3,
            "born": pd.Timestamp("1930-01-15") + pd.to_timedelta(random.integers(0, 33_223, rows), unit="D"),
            "seen": pd.Timestamp("1999-01-01") + pd.to_timedelta(random.integers(0, 3 * 10**8, rows), unit="s"),
        }
    )
    frame.loc[random.random(rows) < 0.1, ["age", "cost"]] = None
    low, high = map(float, bounds(expression))
    with duckdb.connect() as engine:
        engine.register("visits", frame)
        least, most = engine.execute(
            f"SELECT MIN(CAST({expression} AS DOUBLE)), MAX(CAST({expression} AS DOUBLE)) FROM visits"
        ).fetchone()
    assert low <= least <= most <= high


pytestmark = pytest.mark.usefixtures("same_noise")  # what answers cost and say, and not how noise is drawn


def people(rows=3_000):
    random = np.random.default_rng(3)
    return pd.DataFrame(
        {"who": random.integers(0, rows // 3, rows), "cost": random.gamma(2.0, 150.0, rows), "born": 1950}
    )


@pytest.fixture(params=[1e-6, 0.0], ids=["gaussian", "laplace"])
def session(request):
    with dpn.Session(budget=dpn.Budget(epsilon=10.0, delta=request.param), ledger=":memory:") as session:
        session.protect(people(), "visits", unit="who", max_rows=12, domain={"born": dpn.Range(1900, 2023)})
        yield session


@pytest.mark.parametrize("share", ["CASE WHEN cost > 300 THEN 1 ELSE 0 END", "cost > 300", "(cost > 300)::INT"])
def test_a_share_of_rows_is_not_charged_for_bounds(session, share):
    release = session.sql(f"SELECT AVG({share}) AS share FROM visits", epsilon=0.5).run()
    truth = float((people()["cost"] > 300).mean())
    found = release.frame.iloc[0]
    assert 0 <= found["share_lower"] <= found["share_upper"] <= 1.5
    assert abs(found["share"] - truth) < 6 * found["share_std_error"] + 0.05  # large units count less
    assert "are found" not in " ".join(release.notes)


def test_a_card_says_where_bounds_are_from(session):
    plan = session.sql("SELECT AVG(2023 - born) AS age FROM visits", epsilon=0.5).plan
    if session.budget.delta == 0:  # with Gaussian noise the bound is a norm
        assert any("bounded by 0 and 123, as follows from" in step for step in plan.steps)
    assert "AUTO" not in " ".join(plan.steps)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_averages_and_quantiles_need_no_rows_of_a_unit(delta):
    with dpn.Session(budget=dpn.Budget(epsilon=10.0, delta=delta), ledger=":memory:") as session:
        session.protect(people(), "visits", unit="who", domain={"born": dpn.Range(1900, 2023)})
        statement = "SELECT MEDIAN(LEAST(GREATEST(cost, 0), 1000)) AS m FROM visits"
        query = session.sql(statement, epsilon=2.0)
        assert "find first how many rows of one unit" in " ".join(query.plan.steps)
        release = query.run()
        found = release.frame.iloc[0]
        truth = people()["cost"].median()
        assert found["m_lower"] - 40 <= truth <= found["m_upper"] + 40  # the median of drawn rows is near that of all
        for other in ("SELECT COUNT(*), MEDIAN(cost) FROM visits", "SELECT SUM(cost), CORR(cost, born) FROM visits"):
            assert session.sql(other, epsilon=1.0).plan.affordable  # how many rows count is found for all of it

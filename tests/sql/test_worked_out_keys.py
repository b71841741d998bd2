"""Groups by expressions over declared columns: which there are is known, and counts by a column tell those by them."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

ZIPS = ["10001", "10002", "20001", "30303"]
DOMAIN = {
    "age": dpn.Range(0, 99, nullable=True),
    "sex": ["F", "M"],
    "zip": ZIPS,
    "day": dpn.Dates("2024-01-01", "2024-12-31"),
    "ward": dpn.Range(0, 39),
    "urgent": [False, True],
}
KEYS = [
    *(
        "age // 10",
        "FLOOR(age / 10) * 10",
        "(age // 5) * 5",
        "age % 7",
        "COALESCE(age // 10, -1)",
        "-age",
        "abs(ward - 20)",
    ),
    *("upper(sex) || left(zip, 1)", "left(zip, 2)", "CAST(ward AS VARCHAR)", "lower(trim(zip))", "nullif(sex, 'M')"),
    *("strftime(day, '%Y-%m')", "date_diff('month', DATE '2024-01-01', day)", "2030 - year(day)"),
    *("extract(month FROM day) * 100 + extract(day FROM day)", "ward * 2 - age // 50", "round(ward / 7.0)"),
    *("CASE WHEN age >= 18 THEN ward // 20 ELSE -1 END", "IF(urgent, ward, 99)", "greatest(ward, 30)"),
    "sex || CASE WHEN urgent THEN '+' ELSE '-' END",
]


@pytest.fixture(scope="module")
def visits():
    """Return visits of people with ages beyond the declared ends, halves of years, none at all, and hours of days."""
    rng = np.random.default_rng(3)
    n = 3_000
    age = rng.integers(-3, 105, n) + 0.5 * (rng.random(n) < 0.1)
    return pd.DataFrame(
        {
            "person": np.arange(n) // 3,
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "sex": rng.choice(["F", "M"], n),
            "zip": rng.choice(ZIPS, n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 366 * 24 * 60, n), "min"),
            "ward": rng.integers(0, 40, n).astype("int16"),
            "urgent": rng.random(n) < 0.3,
        }
    )


def protected(session, visits, unit):
    session.protect(visits, "visits", unit=unit, domain=DOMAIN, **({"max_rows": 3} if unit else {}))


def counts(frame):
    """Return how many rows each group has, of those that have any; numbers as they are written whole."""
    plain = ["nothing" if pd.isna(key) else str(key).removesuffix(".0") for key in frame.iloc[:, 0]]
    return {key: round(n) for key, n in zip(plain, frame["n"], strict=True) if round(n)}


@pytest.mark.one_in(20)
@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("key", KEYS)
def test_groups_are_those_that_duckdb_has(visits, key, unit, monkeypatch):
    """In a session without delta, where groups that are not known are refused; ages as they are declared."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    statement = f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k"
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        protected(session, visits, unit)
        found = session.sql(statement, epsilon=1).run().frame
    meant = visits.assign(age=np.floor(visits["age"].clip(0, 99)).astype("Int64"))
    with duckdb.connect() as other:
        other.register("visits", meant)
        assert counts(found) == counts(other.sql(statement).df())


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("age // 10", [*range(10), None]),
        ("age // 10 * 10", [*range(0, 100, 10), None]),
        ("left(zip, 2)", ["10", "20", "30"]),
        ("sex || zip", [sex + code for sex in "FM" for code in ZIPS]),
        ("COALESCE(zip, 'none')", [*ZIPS, "none"]),  # asked about, though none is declared to be missing
        ("concat(sex, zip)", [sex + code for sex in "FM" for code in ZIPS]),
        ("quarter(day) * 10", [10, 20, 30, 40]),
    ],
)
def test_every_group_is_there_and_in_order(visits, key, known):
    with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
        protected(session, visits, "person")
        found = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=1).run().frame["k"]
    assert [None if pd.isna(value) else value for value in found] == known


@pytest.mark.parametrize(
    "key",
    [
        "age + 0.5",  # no whole numbers
        "strftime(day, '%H')",  # not of the day
        "person // 10",  # nothing is declared of it
        "zip || person",
        "ward * 1000 + age * 7 + day_of",  # of a column that is no level
    ],
)
def test_what_levels_do_not_tell_is_refused_without_delta(visits, key):
    with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
        session.protect(visits.assign(day_of=visits["day"].dt.day), "visits", domain=DOMAIN)
        with pytest.raises(SQLError, match=r"which groups of k exist is not known|holds values that cannot be grouped"):
            session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=1).run()
        assert session.spent.epsilon == 0


def test_capitals_that_databases_know_or_not_are_not_known():
    rows = pd.DataFrame({"town": ["Córdoba", "Gent"] * 50})
    with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
        session.protect(rows, "towns", domain={"town": ["Córdoba", "Gent"]})
        assert (
            len(session.sql("SELECT left(town, 1) AS k, COUNT(*) AS n FROM towns GROUP BY k", epsilon=1).run().frame)
            == 2
        )
        with pytest.raises(SQLError, match="which groups of k exist is not known"):
            session.sql("SELECT upper(town) AS k, COUNT(*) AS n FROM towns GROUP BY k", epsilon=1).run()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("column", "key", "groups"),
    [
        ("age", "age // 10 * 10", 11),
        ("zip", "left(zip, 2)", 3),
        ("day", "strftime(day, '%Y-%m')", 12),
        ("ward", "CASE WHEN ward < 20 THEN ward // 5 ELSE 9 END", 5),
    ],
)
def test_a_released_histogram_tells_them(visits, column, key, groups, delta):
    """Each is the sum of what was released, and free at the error that this has."""
    with dpn.Session(dpn.Budget(epsilon=10.0, delta=delta)) as session:
        protected(session, visits, None)
        visits.dp.histogram(column, epsilon=0.5).run()
        query = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", error=200)
        assert query.plan.epsilon == 0
        assert len(query.run().frame) == groups


def test_conditions_and_means_beside_them(visits, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    statement = (
        "SELECT age // 10 AS decade, COUNT(*) AS n, AVG(ward) AS mean FROM visits WHERE sex = 'F' AND age < 50 "
        "GROUP BY decade"
    )
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        protected(session, visits, None)
        found = session.sql(statement, epsilon=1).run().frame
    women = visits[(visits["sex"] == "F") & (np.floor(visits["age"].clip(0, 99)) < 50)]
    exact = women.groupby(np.floor(women["age"].clip(0, 99)) // 10)["ward"].agg(["size", "mean"])
    assert found["decade"].tolist() == exact.index.tolist()
    assert found["n"].round().tolist() == exact["size"].tolist()
    assert found["mean"].tolist() == pytest.approx(exact["mean"].tolist(), rel=1e-3)


def test_a_text_that_is_no_number_and_a_division_by_nothing_are_missing(visits, monkeypatch):
    """As they are in the statement's own answer, of rows that the level stands for."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    keys = ("TRY_CAST(left(zip, 1) || sex AS INTEGER)", "100 // (ward - 20)")
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        protected(session, visits, None)
        for key in keys[1:]:
            found = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=1).run().frame
            missing = found[found["k"].isna()]["n"].round().tolist()
            assert missing == [(visits["ward"] == 20).sum()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", [None, "person"])
def test_of_ten_thousand_levels_answers_are_off_as_much_as_the_plan_says(unit):
    """A column of numbers with nothing in some rows, as pandas has it; 99 groups and that of nothing."""
    rng = np.random.default_rng(6)
    code = np.where(rng.random(30_000) < 0.02, np.nan, rng.integers(0, 9_900, 30_000))
    rows = pd.DataFrame({"person": np.arange(30_000) // 3, "code": code})
    with dpn.Session(dpn.Budget(epsilon=10.0)) as session:
        domain = {"code": dpn.Range(0, 9_899, nullable=True)}
        session.protect(rows, "codes", unit=unit, domain=domain, **({"max_rows": 3} if unit else {}))
        query = session.sql("SELECT code // 100 AS k, COUNT(*) AS n FROM codes GROUP BY k", epsilon=1)
        found, std_error = query.run().frame, query.plan.std_error
    exact = (rows["code"] // 100).value_counts(dropna=False).sort_index()
    assert len(found) == 100
    errors = (found["n"].to_numpy(dtype=float) - exact.to_numpy()) / std_error
    # Of Laplace noise the mean distance is .71 standard deviations; a mean of 100 is so far off once in 10^8 runs.
    assert 0.3 < np.abs(errors).mean() < 1.25

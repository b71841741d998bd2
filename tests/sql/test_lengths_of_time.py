"""How long stays were, in days, hours, minutes and seconds, wherever the rows are."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

ROWS = 2_000


@pytest.fixture(scope="module")
def stays():
    random = np.random.default_rng(3)
    came = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300 * 86_400, ROWS), unit="s")
    left = came + pd.to_timedelta(random.integers(60, 4 * 86_400, ROWS), unit="s")
    frame = pd.DataFrame({"came": came, "left_at": left, "ward": random.choice(["A", "B"], ROWS)})
    return frame


@pytest.fixture
def session(stays, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(epsilon=300.0, delta=1e-6)) as session:
        session.protect(stays, "stays", domain={"ward": ["A", "B"]})
        yield session


def answer(session, statement):
    return session.sql(statement, epsilon=20.0).run().frame


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "condition",
    [
        "left_at - came < INTERVAL 36 HOUR",
        "INTERVAL '36 hours' > left_at - came",
        "EXTRACT(EPOCH FROM left_at - came) < 36 * 3600",
        "EPOCH(left_at - came) / 3600 < 36",
        "left_at - came < 1.5",
        "DATE_DIFF('second', came, left_at) < 129600",
        "left_at < came + INTERVAL 36 HOUR",
    ],
)
def test_stays_of_less_than_36_hours_are_counted(session, stays, condition):
    found = answer(session, f"SELECT COUNT(*) AS n FROM stays WHERE {condition}")
    assert found.n[0] == (stays.left_at - stays.came < pd.Timedelta(hours=36)).sum()


@pytest.mark.parametrize(("unit", "name"), [("hour", "h"), ("minute", "min"), ("second", "s")])
def test_hours_minutes_and_seconds_are_those_of_duckdb(session, stays, unit, name):
    """It says how often the clock passes a full one."""
    passed = (stays.left_at.dt.floor(name) - stays.came.dt.floor(name)) / pd.Timedelta(1, name)
    long = f"DATE_DIFF('{unit}', came, left_at) > 50"
    found = answer(session, f"SELECT ward, COUNT(*) AS n FROM stays WHERE {long} GROUP BY ALL ORDER BY ALL")
    assert found.n.tolist() == (passed > 50).groupby(stays.ward).sum().tolist()


def test_a_mean_length_is_one_of_days_to_the_second(session, stays):
    written = "SELECT AVG(left_at - came, contribution_bounds_per_group => (0, 5)) AS days FROM stays"
    days = (stays.left_at - stays.came) / pd.Timedelta(1, "D")
    assert answer(session, written).days[0] == pytest.approx(days.mean(), rel=1e-4)


def test_groups_are_of_whole_days_and_not_of_seconds(session, stays):
    with pytest.raises(SQLError, match="DATE_DIFF\\('day', from, to\\)"):
        session.sql("SELECT left_at - came AS days, COUNT(*) FROM stays GROUP BY days", epsilon=1.0)
    assert session.spent.epsilon == 0
    written = "SELECT left_at::DATE - came::DATE AS days, COUNT(*) AS n FROM stays GROUP BY days ORDER BY days"
    days = (stays.left_at.dt.normalize() - stays.came.dt.normalize()).dt.days
    assert answer(session, written).n.tolist() == days.value_counts().sort_index().tolist()


@pytest.mark.parametrize("written", ["came < INTERVAL 1 DAY", "left_at - came < INTERVAL 1 MONTH"])
def test_what_has_no_length_is_refused(session, written):
    with pytest.raises(SQLError):
        session.sql(f"SELECT COUNT(*) FROM stays WHERE {written}", epsilon=1.0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("condition", "exact"),
    [
        ("EXTRACT(DAY FROM left_at - came) >= 2", lambda stay: stay.components.days >= 2),
        ("DAY(left_at - came) = 0", lambda stay: stay.components.days == 0),
        ("DATE_PART('hour', left_at - came) < 5", lambda stay: stay.components.hours < 5),
        ("MINUTE(left_at - came) BETWEEN 10 AND 20", lambda stay: stay.components.minutes.between(10, 20)),
        ("EXTRACT(SECOND FROM left_at - came) = 7", lambda stay: stay.components.seconds == 7),
        ("EXTRACT(DAY FROM came - left_at) <= -2", lambda stay: stay.components.days >= 2),  # towards 0, as in DuckDB
    ],
)
def test_parts_of_a_length_are_its_whole_days_and_what_is_left_of_them(session, stays, condition, exact):
    found = answer(session, f"SELECT COUNT(*) AS n FROM stays WHERE {condition}")
    assert found.n[0] == exact((stays.left_at - stays.came).dt).sum()


START = "TIMESTAMP '2024-01-01'"
BY_MONTH = "SELECT DATE_TRUNC('month', came) AS m, COUNT(*) AS n FROM stays GROUP BY m"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "statement",
    [
        f"{BY_MONTH} HAVING m - {START} < INTERVAL 60 DAY",
        f"{BY_MONTH} HAVING m - {START} < INTERVAL 60 DAY AND COUNT(*) > 1",
        f"SELECT * FROM ({BY_MONTH}) WHERE INTERVAL 1440 HOUR > m - {START}",
        f"SELECT * FROM ({BY_MONTH}) WHERE m - {START} BETWEEN INTERVAL 0 DAY AND INTERVAL 59 DAY",
        f"SELECT m, n FROM (SELECT *, m - {START} AS old FROM ({BY_MONTH})) WHERE old < INTERVAL 60 DAY",
        f"SELECT * FROM ({BY_MONTH}) WHERE EXTRACT(EPOCH FROM m - {START}) < 86400 * 60",
        f"SELECT * FROM ({BY_MONTH}) WHERE EXTRACT(DAY FROM m - {START}) < 60",
    ],
)
def test_lengths_above_a_release_are_between_its_times(session, stays, statement):
    months = stays.came.dt.to_period("M").dt.start_time
    wanted = months[months - pd.Timestamp("2024-01-01") < pd.Timedelta(days=60)].value_counts().sort_index()
    found = answer(session, statement).sort_values("m")
    assert found.m.tolist() == wanted.index.tolist()
    assert found.n.tolist() == wanted.tolist()


@pytest.mark.parametrize("days", [1, 3])
def test_a_released_mean_of_lengths_is_compared_in_days(session, days):
    by_ward = (
        "SELECT ward, AVG(left_at - came, contribution_bounds_per_group => (0, 5)) AS days FROM stays GROUP BY ward"
    )
    below = answer(session, f"SELECT * FROM ({by_ward}) WHERE days < INTERVAL {days} DAY")
    assert len(below) == (2 if days == 3 else 0)  # they are near 2


def test_what_is_no_length_is_refused_above_a_release_too(session):
    with pytest.raises(SQLError, match="TIMESTAMP"):
        session.sql(f"SELECT * FROM ({BY_MONTH}) WHERE m < INTERVAL 60 DAY", epsilon=1.0)
    assert session.spent.epsilon == 0


# How old somebody is


AGES = [
    "EXTRACT(YEAR FROM AGE(DATE '2025-01-01', born))",
    "DATE_PART('year', AGE(seen, born))",
    "YEAR(AGE(born, seen))",
    "EXTRACT(YEAR FROM AGE(DATE '2021-02-28', born)) // 10 * 10",
    "CASE WHEN EXTRACT(YEAR FROM AGE(DATE '1964-03-01', born)) >= 18 THEN 'adult' ELSE 'child' END",
]


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(3)
    born = pd.Series(pd.to_datetime("1930-01-01") + pd.to_timedelta(random.integers(0, 34_000, 3_000), unit="D"))
    born[random.random(3_000) < 0.1] = pd.Timestamp("1964-02-29")
    seen = pd.Series(pd.to_datetime("1935-01-01") + pd.to_timedelta(random.integers(0, 30_000, 3_000), unit="D"))
    birthdays = pd.to_datetime({"year": seen.dt.year, "month": born.dt.month, "day": born.dt.day.clip(upper=28)})
    seen = seen.where(random.random(3_000) < 0.7, birthdays)
    frame = pd.DataFrame({"born": born, "seen": seen})
    frame.loc[::50, "born"] = pd.NaT
    return frame


@pytest.mark.one_in(12)
@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("declared", [True, False])
def test_full_years_are_those_of_duckdb(people, monkeypatch, age, declared):
    """Before the first of them too, on birthdays, and of who was born on the 29th of February."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {age} AS age, COUNT(*) AS n FROM people GROUP BY 1"
    with exact_session(dpn.Budget(epsilon=300.0, delta=1e-6)) as session:
        domain = {"born": dpn.Dates("1930-01-01", "2039-12-31", nullable=True)} if declared else None
        session.protect(people, "people", domain=domain)
        found = answer(session, text)
    whole = {None if pd.isna(age) else age: round(n) for age, n in zip(found.age, found.n, strict=True) if round(n)}
    assert whole == dict(duckdb.sql(text).fetchall())


def test_groups_of_ages_are_known_where_dates_of_birth_are_declared(people):
    """Those of a century are 36,000 days; without delta no group may depend on who is there."""
    with dpn.Session(dpn.Budget(10.0), ledger=":memory:") as session:
        session.protect(people, "people", domain={"born": dpn.Dates("1920-01-01", "2020-12-31", nullable=True)})
        found = session.sql(f"SELECT {AGES[0]} AS age, COUNT(*) AS n FROM people GROUP BY 1", epsilon=1.0).run().frame
    assert found.age.dropna().tolist() == list(range(4, 106))
    assert found.age.isna().sum() == 1


@pytest.mark.parametrize("written", ["AGE(born)", "AGE(DATE '2025-01-01', born)"])
def test_an_age_is_in_full_years(people, written):
    with dpn.Session(dpn.Budget(10.0), ledger=":memory:") as session:
        session.protect(people, "people")
        with pytest.raises(SQLError, match="full years"):
            session.sql(f"SELECT AVG({written}) FROM people", epsilon=1.0)

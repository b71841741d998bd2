"""How long stays were, in days, hours, minutes and seconds, wherever the rows are."""

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

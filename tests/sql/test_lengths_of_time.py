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

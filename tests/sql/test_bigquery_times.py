"""BigQuery's functions that make, cut and write times: groups and conditions are those of pandas on the same rows."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, privacy_unit_column = id)"


@pytest.fixture
def rows():
    rng = np.random.default_rng(9)
    minutes = pd.to_timedelta(rng.integers(0, 60 * 24 * 60, 900), unit="min")
    return pd.DataFrame({"id": np.arange(900), "ts": pd.Timestamp("2024-01-01") + minutes})


@pytest.fixture
def session(rows, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(dpn.Budget(1e4, 1e-3))
    session.protect(rows, "visits", unit="id", max_rows=1)
    return session


def weeks(times, first):
    return times.dt.normalize() - pd.to_timedelta((times.dt.day_of_week - first) % 7, unit="D")


GROUPS = {
    "FORMAT_DATE('%Y-%m', DATE(ts))": lambda ts: ts.dt.strftime("%Y-%m"),
    "FORMAT_TIMESTAMP('%d.%m.%Y', ts)": lambda ts: ts.dt.strftime("%d.%m.%Y"),
    "TIMESTAMP_TRUNC(ts, WEEK)": lambda ts: weeks(ts, 6),
    "DATE_TRUNC(DATE(ts), WEEK)": lambda ts: weeks(ts, 6),
    "DATE_TRUNC(DATE(ts), WEEK(MONDAY))": lambda ts: weeks(ts, 0),
    "DATE_TRUNC(DATE(ts), ISOWEEK)": lambda ts: weeks(ts, 0),
}
CONDITIONS = {
    "ts BETWEEN TIMESTAMP('2024-01-10') AND TIMESTAMP('2024-02-01 12:30:00')": lambda ts: ts.between(
        "2024-01-10", "2024-02-01 12:30:00"
    ),
    "ts < DATETIME('2024-01-20')": lambda ts: ts < "2024-01-20",
    "TIMESTAMP(DATE(ts)) >= TIMESTAMP('2024-01-20')": lambda ts: ts >= "2024-01-20",
}


@pytest.mark.parametrize("written", GROUPS)
def test_groups_are_those_of_pandas(session, rows, written):
    text = f"{PRIVATE} {written} AS k, COUNT(*) AS n FROM visits GROUP BY k"
    found = session.sql(text).run().frame.set_index("k")["n"]
    wanted = rows.groupby(GROUPS[written](rows["ts"])).size()
    assert found.astype(int).to_dict() == wanted.to_dict()


@pytest.mark.parametrize("written", CONDITIONS)
def test_conditions_are_those_of_pandas(session, rows, written):
    found = session.sql(f"{PRIVATE} COUNT(*) AS n FROM visits WHERE {written}").run().frame["n"][0]
    assert found == np.count_nonzero(CONDITIONS[written](rows["ts"]))


def test_patterns_say_what_to_write(session):
    with pytest.raises(SQLError, match="write LIKE"):
        session.sql(f"{PRIVATE} COUNT(*) AS n FROM visits WHERE REGEXP_CONTAINS(id, r'^1')")

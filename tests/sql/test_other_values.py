"""Columns that hold neither numbers, texts nor dates: what would be an empty answer is refused before it is paid."""

import datetime

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError

SIZE = 2_000


@pytest.fixture(scope="module")
def session():
    place = np.arange(SIZE)
    frame = pd.DataFrame({"pid": place, "stay": pd.to_timedelta(place % 300, unit="min"), "kind": "a"})
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect(frame, "t", unit="pid", max_rows=1)
        yield session


REFUSED = {
    "SELECT COUNT(*) AS n FROM t WHERE stay > INTERVAL 2 HOUR": "how long it is between two times",
    "SELECT COUNT(*) AS n FROM t WHERE stay BETWEEN INTERVAL 1 HOUR AND INTERVAL 2 HOUR": "between two times",
    "SELECT COUNT(*) AS n FROM t WHERE kind > INTERVAL 2 HOUR": "between two times",
    "SELECT COUNT(*) AS n FROM t WHERE stay > '02:00:00'": "not known what is less",
    "SELECT COUNT(*) AS n FROM t WHERE EXTRACT(HOUR FROM stay) >= 1": "no part of a date",
    "SELECT EXTRACT(HOUR FROM stay) AS h, COUNT(*) AS n FROM t GROUP BY h": "no part of a date",
    "SELECT AVG(stay) AS n FROM t": "make a column of numbers of it",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_true_of_no_row_is_refused(session, text):
    spent = session.spent.epsilon
    with pytest.raises(SQLError, match=REFUSED[text]):
        session.sql(text, epsilon=1.0).run()
    assert session.spent.epsilon == spent


def test_what_is_written_instead_is_answered(session):
    text = "SELECT COUNT(*) AS n FROM t WHERE CAST(stay AS VARCHAR) > '02:00:00'"
    told = session.sql(text, epsilon=20.0).run().frame["n"][0]
    assert abs(told - np.count_nonzero(np.arange(SIZE) % 300 > 120)) < 10


def test_declared_times_of_a_day_are_times_in_statements_too():
    times = [datetime.time(place % 24, place % 60) for place in range(SIZE)]
    frame = pd.DataFrame({"pid": np.arange(SIZE), "at": times})
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect(frame, "t", unit="pid", max_rows=1, domain={"at": dpn.Times()})
        told = session.sql("SELECT COUNT(*) AS n FROM t WHERE EXTRACT(HOUR FROM at) >= 12", epsilon=20.0).run()
        assert abs(told.frame["n"][0] - sum(time.hour >= 12 for time in times)) < 10
        told = session.sql("SELECT COUNT(*) AS n FROM t WHERE at >= '12:00'", epsilon=20.0).run()
        assert abs(told.frame["n"][0] - sum(time.hour >= 12 for time in times)) < 10
        with pytest.raises(SQLError, match="'noon' is no date"):
            session.sql("SELECT COUNT(*) AS n FROM t WHERE at >= 'noon'", epsilon=1.0)


def test_postgresql_counts_times(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE counted_times AS SELECT g AS who, DATE '2024-01-01' + g % 365 AS day, "
            "CASE WHEN g % 4 > 0 THEN TIMESTAMPTZ '2024-01-01 00:00+00' + make_interval(mins => g) END AS moment "
            "FROM generate_series(1, 2000) AS g"
        )
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect((postgres, "counted_times"), "t", unit="who", max_rows=1)
        text = "SELECT COUNT(day) AS days, COUNT(moment) AS moments, COUNT(*) AS n FROM t"
        told = session.sql(text, epsilon=50.0).run().frame.loc[0]
        assert abs(told["days"] - 2_000) < 10
        assert abs(told["moments"] - 1_500) < 10
        different = session.sql("SELECT COUNT(DISTINCT day) AS n FROM t", epsilon=50.0).run().frame["n"][0]
        assert abs(different - 365) < 10

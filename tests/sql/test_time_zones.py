"""Moments in SQL are told by the clocks of their own place, wherever the rows are: worked out by pandas, not by SQL."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

PLACES = ("Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "UTC+05:30")
FIRST, LAST = "2017-01-01", "2019-12-31"
ASKED = {  # what is grouped by, or the condition, and what pandas says of it
    "HOUR(at)": lambda at: at.dt.hour,
    "DATE_TRUNC('month', at)": lambda at: at.dt.tz_localize(None).dt.to_period("M").dt.start_time,
    "CAST(at AS DATE)": lambda at: at.dt.tz_localize(None).dt.normalize(),
    "EXTRACT(ISODOW FROM at)": lambda at: at.dt.day_of_week + 1,
    "CASE WHEN at >= '2018-03-01' THEN 'late' ELSE 'early' END": lambda at: np.where(
        at.dt.tz_localize(None) >= pd.Timestamp("2018-03"), "late", "early"
    ),
    "CASE WHEN at < TIMESTAMP '2018-11-04 00:30:00' THEN 'early' ELSE 'late' END": lambda at: np.where(
        at.dt.tz_localize(None) < pd.Timestamp("2018-11-04 00:30"), "early", "late"
    ),
}


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def made(zone, size=2_000, seed=3):
    """Return moments of three years, an hour on both sides of where days begin among them, in a time zone."""
    rng = np.random.default_rng(seed)
    local = pd.Timestamp(FIRST) + pd.to_timedelta(rng.integers(86_400, (3 * 365 - 1) * 86_400, size), unit="s")
    local = pd.Series(local)
    local[::3] = local[::3].dt.normalize() + pd.to_timedelta(rng.integers(-3_600, 3_600, local[::3].size), unit="s")
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30)) if zone.startswith("UTC+") else zone
    at = local.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward").dt.as_unit("us")
    return pd.DataFrame({"at": at, "who": np.arange(size) // 2, "cost": rng.integers(1, 9, size)})


def expected(frame, asked):
    """Return how many rows each group has, and what their costs add up to."""
    by = np.asarray(ASKED[asked](frame["at"]))
    return {key: (len(group), int(group["cost"].sum())) for key, group in frame.groupby(by)}


def delivered(session, asked):
    """Return the same as a statement answers it; groups that nobody is in are left out."""
    query = f"SELECT {asked} AS k, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY k"
    frame = session.sql(query, epsilon=1.0).run().frame
    return {key: (round(n), round(s)) for key, n, s in zip(frame["k"], frame["n"], frame["s"], strict=True) if n >= 0.5}


def opened(data, **options):
    session = exact_session(dpn.Budget(epsilon=1e5, delta=1e-6), confirm="never")
    session.protect(data, "visits", **options)
    return session


@pytest.mark.one_in(2)
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_frames(place, declared):
    frame = made(place)
    domain = {"cost": dpn.Range(0, 9)} | ({"at": dpn.Dates(FIRST, LAST)} if declared else {})
    with opened(frame, domain=domain) as session:
        for asked in ASKED:
            assert delivered(session, asked) == expected(frame, asked), asked


@pytest.mark.parametrize("asked", ["DATE_TRUNC('month', at)", "CAST(at AS DATE)"])
def test_a_verb_and_a_statement_are_one_question(asked):
    frame = made("Europe/Berlin")
    by = {"at": "month"} if "month" in asked else "at"
    with opened(frame, domain={"at": dpn.Dates(FIRST, LAST)}) as session:
        verb = frame.dp.groupby(by).count(epsilon=1.0).run().frame
        query = session.sql(f"SELECT {asked} AS k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=1.0)
        assert query.plan.free
        assert query.run().frame["n"].to_numpy() == pytest.approx(verb["value"].to_numpy())
        frame.dp.count(where="at >= '2018-03-01'", epsilon=1.0).run()
        late = session.sql("SELECT COUNT(*) AS n FROM visits WHERE at >= '2018-03-01'", epsilon=1.0)
        assert late.plan.free
        assert late.run().frame["n"][0] == pytest.approx(
            (frame["at"] >= pd.Timestamp("2018-03", tz=frame["at"].dt.tz)).sum()
        )


def test_databases(tmp_path, postgres):
    frame = made("Europe/Berlin", 1_000)
    domain = {"at": dpn.Dates(FIRST, LAST, timezone="Europe/Berlin"), "cost": dpn.Range(0, 9)}
    connection = duckdb.connect(str(tmp_path / "visits.duckdb"))
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("SET TimeZone = 'Asia/Tokyo'")
        server.execute("CREATE TABLE zoned (at timestamptz, who int, cost int)")
        with server.cursor().copy("COPY zoned FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row([row.at.to_pydatetime(), row.who, row.cost])
    for data in ((connection, "visits"), (postgres, "zoned")):
        with opened(data, domain=domain) as session:
            for asked in ASKED:
                assert delivered(session, asked) == expected(frame, asked), asked
    connection.close()


def test_spark(spark, tmp_path):
    frame = made("Europe/Berlin", 500)
    frame.to_parquet(tmp_path / "visits.parquet", coerce_timestamps="us")
    domain = {"at": dpn.Dates(FIRST, LAST, timezone="Europe/Berlin"), "cost": dpn.Range(0, 9)}
    with opened(spark.read.parquet(str(tmp_path / "visits.parquet")), domain=domain) as session:
        for asked in ("HOUR(at)", "DATE_TRUNC('month', at)"):
            assert delivered(session, asked) == expected(frame, asked), asked


def test_joins_parts_of_statements_and_public_tables():
    frame = made("America/Sao_Paulo")
    frame["late"] = frame["at"].dt.tz_localize(None) >= pd.Timestamp("2018-03")
    holidays = pd.DataFrame({"day": pd.to_datetime(["2018-03-01"]).tz_localize("America/Sao_Paulo"), "name": ["x"]})
    late = int(frame["late"].sum())
    with opened(frame, domain={"cost": dpn.Range(0, 9)}, unit="who", max_rows=2) as session:
        session.register(holidays, "holidays", public=True)
        for query in (
            "SELECT COUNT(*) AS n FROM visits JOIN holidays ON visits.at >= holidays.day",
            "SELECT COUNT(*) AS n FROM (SELECT *, MONTH(at) AS m, YEAR(at) AS y FROM visits) WHERE 12 * y + m >= 24219",
            "WITH v AS (SELECT at, who FROM visits) SELECT COUNT(*) AS n FROM v WHERE at >= '2018-03-01'",
            "SELECT SUM(n) AS n FROM (SELECT who, COUNT(*) AS n FROM visits WHERE at >= '2018-03-01' GROUP BY who)",
            "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM holidays h WHERE h.day <= v.at)",
        ):
            assert round(session.sql(query, epsilon=1.0).run().frame["n"][0]) == late, query


def test_the_end_of_the_calendar_stays_what_it_is():
    ends = pd.to_datetime(["2018-01-01 00:00", "2261-12-31 00:00"] * 50).tz_localize("UTC").tz_convert("Europe/Berlin")
    frame = pd.DataFrame({"at": ends, "cost": 1})
    frame["at"] = frame["at"].dt.as_unit("us")
    frame.loc[1::2, "at"] = pd.Timestamp("9999-12-31", tz="UTC").as_unit("us").tz_convert("Etc/GMT+1")
    with opened(frame, domain={"cost": dpn.Range(0, 9)}) as session:
        answer = session.sql("SELECT COUNT(*) AS n FROM visits WHERE at >= '9999-12-30'", epsilon=1.0).run()
    assert round(answer.frame["n"][0]) == 50


def test_parts_of_a_table_that_grew():
    frame = made("Asia/Kolkata")
    first, more = frame.iloc[:900].reset_index(drop=True), frame.iloc[900:].reset_index(drop=True)
    with opened(first, domain={"cost": dpn.Range(0, 9)}) as session:
        session.extend("visits", more.assign(at=more["at"].dt.tz_convert("UTC")))
        assert delivered(session, "HOUR(at)") == expected(frame, "HOUR(at)")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT COUNT(*) FROM visits WHERE at >= '2018-03-01T00:00:00+01:00'", "clocks of Europe/Berlin: write times"),
        (
            "SELECT COUNT(*) FROM visits WHERE at BETWEEN '2018-03-01 00:00Z' AND '2018-04-01'",
            "clocks of Europe/Berlin",
        ),
        ("SELECT COUNT(*) FROM visits WHERE at AT TIME ZONE 'UTC' >= '2018-03-01'", "write the column alone"),
        ("SELECT HOUR(TIMEZONE('UTC', at)) AS h, COUNT(*) FROM visits GROUP BY h", "write the column alone"),
    ],
)
def test_other_clocks_are_told_and_cost_nothing(query, words):
    with opened(made("Europe/Berlin"), domain={"cost": dpn.Range(0, 9)}) as session:
        with pytest.raises(dpn.DPError, match=words):
            session.sql(query, epsilon=1.0)
        assert session.spent.epsilon == 0


def test_what_utc_said_before_is_not_what_clocks_say(tmp_path):
    frame, domain = made("Europe/Berlin"), {"cost": dpn.Range(0, 9)}
    query = "SELECT COUNT(*) AS n FROM visits WHERE HOUR(at) = 0"
    with opened(
        frame.assign(at=frame["at"].dt.tz_convert("UTC")),
        domain=domain,
    ) as session:
        session.sql(query, epsilon=1.0).run()
        session.protect(frame, "visits", domain=domain)
        assert not session.sql(query, epsilon=1.0).plan.free

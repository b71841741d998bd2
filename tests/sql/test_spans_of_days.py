"""Days by month, year or week in SQL are the question that the verbs ask: what DuckDB says, and free after the days."""

from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

FIRST, LAST = "2013-03-05", "2023-11-20"  # 3,913 days: more than 1,000, and parts of a month, a week and a year


@pytest.fixture(params=[False, True], ids=["", "nullable"])
def nullable(request):
    return request.param


@pytest.fixture
def visits(monkeypatch, nullable):
    """Return moments on all days, also outside of what is declared, some of them missing."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    random = np.random.default_rng(7)
    moments = pd.Timestamp("2013-01-01") + pd.to_timedelta(random.integers(0, 11 * 365 * 86_400, 6_000), unit="s")
    frame = pd.DataFrame({"day": moments, "ward": random.choice(["a", "b"], 6_000), "stay": 1})
    frame.loc[random.random(6_000) < 0.02, "day"] = pd.NaT
    return frame


def opened(frame, make, nullable):
    session = make(dpn.Budget(1e6, 1e-6), confirm="never")
    domain = {"day": dpn.Dates(FIRST, LAST, nullable=nullable), "ward": ["a", "b"], "stay": dpn.Range(0, 3)}
    session.protect(frame, "visits", domain=domain)
    return session


def inside(frame, nullable):
    """Return the rows that are declared."""
    declared = frame["day"].between(FIRST, pd.Timestamp(LAST) + pd.Timedelta("1D"), inclusive="left")
    return frame[declared | frame["day"].isna()] if nullable else frame[declared]


KEYS = [
    "DATE_TRUNC('month', day)",
    "DATE_TRUNC('year', day)",
    "DATE_TRUNC('quarter', day)",
    "DATE_TRUNC('week', day)",
    "CAST(DATE_TRUNC('month', day) AS DATE)",
    "DATE_TRUNC('month', CAST(day AS DATE))",
    "YEAR(day)",
    "EXTRACT(MONTH FROM day)",
    "STRFTIME(day, '%Y-%m')",
    "YEAR(day) * 100 + MONTH(day)",
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("key", KEYS)
def test_groups_are_those_of_duckdb(visits, nullable, key):
    """In every spelling of GROUP BY: by its place, its name, and as it is written."""
    rows = duckdb.from_df(inside(visits, nullable))
    wanted = rows.query("t", f"SELECT {key} AS k, ward, COUNT(*) AS n, SUM(stay) AS s FROM t GROUP BY 1, 2").df()
    wanted = wanted.sort_values(["k", "ward"], na_position="last", ignore_index=True)
    with closing(opened(visits, exact_session, nullable)) as session:
        for by in ("1, 2", "k, ward", f"{key}, ward"):
            query = session.sql(
                f"SELECT {key} AS k, ward, COUNT(*) AS n, SUM(stay) AS s FROM visits GROUP BY {by}", epsilon=100
            )
            assert isinstance(query.question, Question)
            found = query.run().frame[["k", "ward", "n", "s"]]
            found = found[found["n"] > 0.5].sort_values(["k", "ward"], na_position="last", ignore_index=True)
            for name in ("k", "ward"):
                same = found[name].isna() == wanted[name].isna()
                assert (same & (found[name].isna() | (found[name] == wanted[name]))).all()
            assert found["n"].tolist() == pytest.approx(wanted["n"].tolist())
            assert found["s"].tolist() == pytest.approx(wanted["s"].tolist())


CONDITIONS = [
    "YEAR(day) = 2019",
    "YEAR(day) <> 2019",
    "2015 < YEAR(day)",
    "MONTH(day) IN (6, 7)",
    "MONTH(day) NOT IN (6, 7)",
    "YEAR(day) BETWEEN 2015 AND 2017 AND MONTH(day) = 2",
    "NOT (QUARTER(day) = 2) OR ward = 'a'",
    "CAST(day AS DATE) BETWEEN DATE '2019-01-01' AND DATE '2019-12-31'",
    "CAST(day AS DATE) > DATE '2020-02-28'",
    "DATE_TRUNC('year', day) = DATE '2018-01-01'",
    "STRFTIME(day, '%Y-%m') = '2016-05'",
    "YEAR(day) * 12 + MONTH(day) >= 2016 * 12 + 5",
    "DAYNAME(day) = 'Sunday'",
    "ISODOW(day) IN (6, 7)",
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_those_of_duckdb(visits, nullable, condition):
    rows = duckdb.from_df(inside(visits, nullable))
    wanted = rows.filter(condition).count("*").fetchall()[0][0]
    with closing(opened(visits, exact_session, nullable)) as session:
        query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=100)
        assert isinstance(query.question, Question)
        assert query.run().frame["n"].tolist() == pytest.approx([wanted])
        counted = session.sql(f"SELECT COUNTIF({condition}) AS n FROM visits", epsilon=100)
        assert counted.run().frame["n"].tolist() == pytest.approx([wanted])


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "condition",
    [
        "day BETWEEN DATE '2019-01-01' AND DATE '2019-12-31'",
        "day > DATE '2019-01-01'",
        "HOUR(day) < 12",
        "YEAR(day) IS NULL",
        "COALESCE(YEAR(day), 2019) = 2019",
    ],
)
def test_what_hours_or_missing_days_decide_is_asked_of_the_rows(visits, nullable, condition):
    wanted = duckdb.sql(f"SELECT COUNT(*) FROM visits WHERE {condition}").fetchall()[0][0]
    with closing(opened(visits, exact_session, nullable)) as session:
        query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=100)
        assert not isinstance(query.question, Question)
        assert query.run().frame["n"].tolist() == pytest.approx([wanted])


OF_DATES = [
    "day BETWEEN DATE '2019-01-01' AND DATE '2019-12-31'",
    "day NOT BETWEEN DATE '2019-01-01' AND '2019-12-31'",
    "day > DATE '2019-01-01'",
    "day <= '2019-01-01' OR day > '2020-06-30'",
    "NOT (day <= DATE '2019-01-01') AND ward = 'a'",
    "DATE '2020-02-29' >= day",
    "day = DATE '2019-05-17'",
    "day <> DATE '2019-05-17'",
    "day IN (DATE '2019-05-17', DATE '2019-05-18', DATE '2020-02-29')",
    "day NOT IN ('2019-05-17', '2019-05-18')",
    "DATE '2020-01-01' - day < 30",
    "day - DATE '2020-01-01' BETWEEN -30 AND 30",
    "day > DATE '2020-01-31' + INTERVAL 1 MONTH",
    "day BETWEEN DATE '2020-01-01' - INTERVAL 90 DAY AND DATE '2020-01-01'",
    "DATE_DIFF('day', day, DATE '2020-01-01') < 30",
    "DATE_DIFF('month', DATE '2016-01-31', day) >= 18",
    "EXTRACT(HOUR FROM day) = 0 AND YEAR(day) = 2019",
]


@pytest.fixture
def dates(visits, tmp_path):
    """Return a file whose column `day` is of dates, not of moments."""
    path = tmp_path / "dates.parquet"
    duckdb.from_df(visits).project("CAST(day AS DATE) AS day, ward, stay").write_parquet(str(path))
    return path


@pytest.mark.one_in(8)
@pytest.mark.parametrize("condition", OF_DATES)
def test_dates_without_hours_are_decided_by_their_days(visits, dates, nullable, condition):
    """As DuckDB decides them, over the rows that are declared."""
    rows = duckdb.from_df(inside(visits, nullable)).project("CAST(day AS DATE) AS day, ward, stay")
    wanted = rows.filter(condition).count("*").fetchall()[0][0]
    with closing(opened(dates, exact_session, nullable)) as session:
        query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=100)
        assert isinstance(query.question, Question)
        assert query.run().frame["n"].tolist() == pytest.approx([wanted])


def test_moments_are_compared_with_the_midnight_of_dates_and_lengths(visits, nullable):
    condition = "day >= DATE '2020-01-31' + INTERVAL 1 MONTH AND day < DATE '2020-12-31' - INTERVAL '10' DAY"
    wanted = duckdb.from_df(visits).filter(condition).count("*").fetchall()[0][0]
    with closing(opened(visits, exact_session, nullable)) as session:
        query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=100)
        assert isinstance(query.question, Question)
        assert query.run().frame["n"].tolist() == pytest.approx([wanted])
        for other in ("day < DATE '2020-01-01' + INTERVAL 5 HOUR", "day <= DATE '2020-01-01' + INTERVAL 1 DAY"):
            query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {other}", epsilon=100)
            assert not isinstance(query.question, Question)


@pytest.mark.one_in(2)
def test_months_decide_what_ends_with_one_of_them(dates):
    with closing(exact_session(dpn.Budget(1e6, 1e-6), confirm="never")) as session:
        session.protect(dates, "visits", domain={"day": dpn.Dates("2013-03", "2023-11", by="month")})
        for condition, decided in {
            "day <= DATE '2019-06-30'": True,
            "day > DATE '2019-06-30'": True,
            "day BETWEEN DATE '2019-06-01' AND DATE '2020-02-29'": True,
            "day <= DATE '2019-06-15'": False,
            "day = DATE '2019-06-01'": False,
        }.items():
            query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=100)
            assert isinstance(query.question, Question) == decided
            declared = "day >= DATE '2013-03-01' AND day < DATE '2023-12-01'" if decided else "TRUE"
            wanted = duckdb.sql(f"SELECT COUNT(*) FROM '{dates}' WHERE {condition} AND {declared}").fetchall()[0][0]
            assert query.run().frame["n"].tolist() == pytest.approx([wanted])


@pytest.mark.one_in(2)
def test_dates_are_free_after_their_days_and_what_was_paid_before_stays_paid(dates, tmp_path, monkeypatch):
    text = "SELECT ward, COUNT(*) AS n FROM visits WHERE day <= DATE '2019-05-17' GROUP BY ward"
    domain = {"day": dpn.Dates(FIRST, LAST), "ward": ["a", "b"]}
    with closing(dpn.Session(dpn.Budget(8.0), tmp_path / "a.ledger", confirm="never")) as session:
        session.protect(dates, "visits", domain=domain)
        with monkeypatch.context() as patch:  # as earlier versions measured it
            patch.setattr("dpnotebook.engine.workspace.Workspace.dates", lambda self, name: frozenset())
            session.protect(dates, "visits", domain=domain)
            before = session.sql(text, epsilon=0.5).run()
            assert not isinstance(before.question, Question)
        spent = session.ledger.spent
        session.protect(dates, "visits", domain=domain)
        again = session.sql(text, epsilon=0.5).run()
        assert session.ledger.spent == spent
        pd.testing.assert_frame_equal(again.frame, before.frame)
        session.table("visits").crosstab("day", "ward", epsilon=2.0).run()
        spent = session.ledger.spent
        for condition in OF_DATES:
            session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", epsilon=0.01).run()
        assert session.ledger.spent == spent


@pytest.mark.one_in(5)
@pytest.mark.parametrize("budget", [dpn.Budget(8.0), dpn.Budget(8.0, 1e-6)], ids=["pure", "gaussian"])
def test_after_the_days_everything_by_their_spans_is_free(visits, tmp_path, budget):
    """In the kernel that asked, and in one that was started anew; and what is said is what the verbs say."""
    for restart in (False, True):
        with closing(dpn.Session(budget, tmp_path / "a.ledger", confirm="never")) as session:
            session.protect(visits, "visits", domain={"day": dpn.Dates(FIRST, LAST), "ward": ["a", "b"]})
            table = session.table("visits")
            if not restart:
                table.histogram("day", error=40).run()
            spent = session.ledger.spent
            by_month = table.groupby({"day": "month"}).count(error=400).run().frame["value"].tolist()
            for key in KEYS[:: 3 if restart else 1]:
                query = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM visits GROUP BY k", error=4_000)
                assert query.plan.cost.epsilon == 0, key
                found = query.run().frame
                if "'month'" in key:
                    assert found["n"].tolist() == pytest.approx(by_month)
                    assert found["k"].dtype.kind == "M"
            for condition in CONDITIONS[:5]:
                query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}", error=4_000)
                assert query.plan.cost.epsilon == 0, condition
            assert session.ledger.spent == spent
            change = "SELECT m, n - LAG(n) OVER (ORDER BY m) AS d FROM m ORDER BY m"
            text = f"WITH m AS (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY 1) {change}"
            assert np.allclose(session.sql(text, error=4_000).run().frame["d"][1:], np.diff(by_month))

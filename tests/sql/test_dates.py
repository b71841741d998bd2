"""Statements about declared dates: their spans are groups that are known, on both routes, as DuckDB groups them."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session


def made(size=4000):
    """Return visits from 2022 to 2025 of people with one to eight rows, with and without times of day."""
    rng = np.random.default_rng(2)
    seen = pd.Series(pd.Timestamp("2022-03-01") + pd.to_timedelta(rng.integers(0, 1100 * 86_400, size), unit="s"))
    seen[::9] = seen[::9].dt.normalize()
    seen[::31] = pd.NaT
    frame = pd.DataFrame(
        {"who": rng.integers(0, 900, size), "seen": seen.dt.as_unit("us"), "sex": rng.choice(["F", "M"], size)}
    )
    frame["cost"] = rng.integers(0, 50, size)
    frame["day"] = frame["seen"].dt.normalize()
    frame["utc"] = frame["seen"].dt.tz_localize("UTC")
    frame["paris"] = frame["utc"].dt.tz_convert("Europe/Paris")
    frame["month"] = frame["seen"].dt.month % 2 + 100  # a column that nobody declared, called as an alias may be
    return frame


VISITS = made()
DOMAIN = {
    "seen": dpn.Dates("2023-01-01", "2024-12-31", by="month"),
    "day": dpn.Dates("2023-01-01", "2024-12-31", nullable=True),
    "utc": dpn.Dates("2023-01-02", "2024-12-29", by="week", timezone="UTC"),
    "paris": dpn.Dates("2023", "2024", by="month"),
    "sex": ["F", "M"],
    "cost": dpn.Range(0, 49),
}


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(dpn.Budget(1e5), confirm="never")  # pure: groups that are not known are refused
    session.protect(VISITS, "visits", domain=DOMAIN)
    for name in ("seen", "day", "utc", "paris"):
        session.protect(VISITS, f"visits_{name}", unit="who", max_rows=20, domain={name: DOMAIN[name]})
    yield session
    session.close()


def exactly(query):
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("frame", VISITS)
        connection.execute("CREATE VIEW visits AS SELECT * FROM frame")
        return connection.execute(query).df()


def answer(session, statement):
    return session.sql(statement, epsilon=200.0).run()


INSIDE = "seen >= '2023-01-01' AND seen < '2025-01-01'"
ALL_INSIDE = f"{INSIDE} AND utc >= '2023-01-02' AND utc < '2024-12-30' AND paris >= '2022-12-31 23:00' " \
             "AND paris < '2024-12-31 23:00'"  # fmt: skip


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    ("statement", "linear"),
    [
        ("SELECT DATE_TRUNC('month', seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY m", True),
        (
            "SELECT DATE_TRUNC('month', seen) m, AVG(cost) n FROM visits WHERE {} GROUP BY DATE_TRUNC('month', seen)",
            True,
        ),
        ("SELECT DATE_TRUNC('month', seen) AS m, sex, SUM(cost) AS n FROM visits WHERE {} GROUP BY 1, 2", True),
        ("SELECT DATE_TRUNC('month', CAST(seen AS DATE)) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", True),
        ("SELECT DATE_TRUNC('quarter', seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", False),
        ("SELECT DATE_TRUNC('year', seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", False),
        ("SELECT DATE_TRUNC('week', day) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", True),
        ("SELECT DATE_TRUNC('day', day) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", True),
        ("SELECT CAST(day AS DATE) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", True),
        ("SELECT DATE_TRUNC('week', utc) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", True),
        ("SELECT EXTRACT(YEAR FROM seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", False),
        ("SELECT YEAR(seen) AS m, MONTH(seen) AS k, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1, 2", False),
        ("SELECT EXTRACT(QUARTER FROM seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", False),
        ("SELECT EXTRACT(HOUR FROM seen) AS m, SUM(cost) AS n FROM visits WHERE {} GROUP BY 1", False),
        ("SELECT EXTRACT(ISODOW FROM seen) AS m, COUNT(*) AS n FROM visits WHERE {} GROUP BY 1", False),
    ],
)
def test_spans_are_groups_that_are_known(session, statement, linear):
    for where in (ALL_INSIDE, f"{ALL_INSIDE} AND cost % 2 = 0"):
        written = statement.format(where)
        release = answer(session, written)
        # what is outside of other dates is not in the table of the declared domain
        wanted = exactly(written.replace("utc)", "CAST(utc AS TIMESTAMP))")).set_index("m")
        found = release.frame[release.frame["n"] != 0].set_index("m")
        keys = [name for name in ("sex", "k") if name in found]
        found, wanted = (frame.reset_index().sort_values(["m", *keys]) for frame in (found, wanted))
        assert found["m"].tolist() == wanted["m"].tolist()
        # a mean has a step to which values are rounded; counts and sums are the same
        assert np.allclose(found["n"].astype(float), wanted["n"].astype(float), rtol=1e-3)
        assert np.isfinite(release.frame["n_std_error"]).all()
    plain = session.sql(statement.replace("WHERE {} ", ""), epsilon=1.0)
    assert isinstance(plain.question, Question) == linear


def test_what_pandas_and_sql_ask_is_the_same_question(session):
    table = session.table("visits")
    first = table.histogram("seen", epsilon=200.0).run()
    again = session.sql(
        "SELECT DATE_TRUNC('month', seen) AS month_, COUNT(*) AS n FROM visits GROUP BY 1", epsilon=200.0
    )
    assert again.plan.cost.epsilon == 0
    frame = again.run().frame
    assert frame["month_"].tolist() == first.frame["seen"].tolist()
    assert frame["n"].tolist() == first.frame["value"].tolist()
    half = session.sql(
        "SELECT COUNT(*) AS n FROM visits WHERE seen >= '2023-04-01' AND seen < DATE '2023-07-01'", error=100.0
    )
    assert half.plan.cost.epsilon == 0
    assert half.run().value == first.frame["value"][3:6].sum()


def test_an_alias_that_is_a_column_of_the_table_means_the_column(session):
    """GROUP BY names the table's own column before the list's alias, as DuckDB has it."""
    with pytest.raises(dpn.DPError, match="GROUP BY month means the column month of the table"):
        answer(session, "SELECT DATE_TRUNC('month', seen) AS month, COUNT(*) AS n FROM visits GROUP BY month")


def test_days_of_another_place_are_those_of_its_clocks(session):
    inside = VISITS["seen"].between("2023-01-01", "2024-12-31 23:59:59") & VISITS["utc"].dt.tz_localize(None).between(
        "2023-01-02", "2024-12-29 23:59:59"
    )
    local = VISITS["paris"][inside].dt.tz_localize(None)
    found = answer(session, "SELECT DATE_TRUNC('month', paris) AS m, COUNT(*) AS n FROM visits GROUP BY 1")
    assert isinstance(found.question, Question)
    months = local[local.dt.year.isin([2023, 2024])].dt.to_period("M").value_counts().sort_index()
    assert found.frame["n"].tolist() == months.tolist()
    where = "WHERE paris >= '2023-05-01' AND paris < '2023-06-01'"
    found = answer(session, f"SELECT COUNT(*) AS n FROM visits {where}")
    assert isinstance(found.question, Question)
    assert found.value == ((local >= "2023-05-01") & (local < "2023-06-01")).sum()


@pytest.mark.one_in(22)
@pytest.mark.parametrize("name", ["seen", "day", "utc"])
@pytest.mark.parametrize(
    ("op", "day"),
    [
        ("<=", "2023-05-31"),
        (">= '2023-02-01' AND {} <", "2023-06-05"),
        (">", "2023-05-31"),
        ("=", "2023-05-31"),
        (">=", "2023-05-31 00:00:01"),
        ("BETWEEN '2023-02-01' AND", "2023-05-31"),
    ],
)
def test_conditions_mean_what_they_mean_in_sql(session, name, op, day):
    """To SQL a date is its midnight: a comparison that does not say whole days or months is left to the rows."""
    statement = f"SELECT COUNT(*) AS n FROM visits_{name} WHERE {name} {op.format(name)} '{day}'"
    assert answer(session, statement).value == exactly(statement.replace(f"visits_{name}", "visits"))["n"][0]


def test_a_date_is_compared_with_dates(session):
    """A column declared as texts or numbers is not, as a question about its levels: it is the rows that are asked."""
    for condition in ("sex <> DATE '2023-05-01'", "sex IN (DATE '2023-05-01', DATE '2023-05-02')"):
        with pytest.raises(dpn.DPError) as caught:
            answer(session, f"SELECT COUNT(*) AS n FROM visits WHERE {condition}")
        assert "has no level" not in str(caught.value)
    statement = (
        "SELECT COUNT(*) AS n FROM visits WHERE seen >= TIMESTAMP '2023-02-01 00:00:00' AND seen < DATE '2023-04-01'"
    )
    found = answer(session, statement)
    assert isinstance(found.question, Question)
    assert found.value == exactly(statement)["n"][0]


@pytest.mark.parametrize("asked", ["MEDIAN(seen)", "MAX(seen)", "QUANTILE_CONT(seen, 0.25)", "MEDIAN(v.seen)"])
def test_what_is_told_of_the_middle_of_times_runs(asked):
    """How many days after one that is written: as many as the days are, whatever times they have."""
    seen = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(2_000) % 300, "D")
    with dpn.Session(dpn.Budget(500.0, 1e-6), ":memory:", confirm="never") as session:
        session.protect(pd.DataFrame({"seen": seen}), "visits")
        with pytest.raises(dpn.SQLError) as told:
            session.sql(f"SELECT {asked} AS m FROM visits AS v", epsilon=1.0)
        instead = str(told.value).split("holds times; ")[1].split(" is how many days")[0]
        days = session.sql(f"SELECT {instead} AS m FROM visits AS v", epsilon=20.0).run().frame["m"][0]
    exact = {"MEDIAN": 150, "MAX(se": 299, "QUANTI": 75}[asked[:6]]
    told_day = pd.Timestamp("2000-01-01") + pd.Timedelta(days=round(days))
    assert abs((told_day - pd.Timestamp("2023-01-01")).days - exact) <= 8

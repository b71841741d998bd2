"""Windows over the rows of one unit: who came back, first visits, and what changed since the last one."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

PEOPLE, ROWS = 400, 1_500


@pytest.fixture(scope="module")
def visits():
    random = np.random.default_rng(6)
    came = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300 * 24, ROWS), unit="h")
    left = came + pd.to_timedelta(random.integers(1, 9 * 24, ROWS), unit="h")
    frame = pd.DataFrame({"person": random.integers(0, PEOPLE, ROWS), "came": came, "left_at": left})
    return frame.assign(cost=random.integers(0, 50, ROWS), ward=random.choice(["A", "B", "C"], ROWS))


@pytest.fixture
def session(visits, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(epsilon=3_000.0, delta=1e-6)) as session:
        session.protect(visits, "visits", unit="person", max_rows=20)
        yield session


def answer(session, statement):
    return session.sql(statement, epsilon=100.0, contribution="rows").run().frame.iloc[0, 0]


def in_order(visits):
    return visits.sort_values(["person", "came", "cost", "left_at", "ward"])


def test_who_came_back_within_thirty_days_is_counted(session, visits):
    before = in_order(visits).groupby("person").left_at.shift()
    back = (visits.came - before).between(pd.Timedelta(0), pd.Timedelta(days=30)).sum()
    lagged = "SELECT person, came, LAG(left_at) OVER (PARTITION BY person ORDER BY came) AS before FROM visits"
    found = answer(session, f"SELECT COUNT(*) AS n FROM ({lagged}) WHERE came - before BETWEEN 0 AND 30")
    assert found == back > 50


def test_the_first_visit_of_each_person_is_that_of_pandas(session, visits):
    first = in_order(visits).groupby("person").head(1)
    numbered = "SELECT person, came, ROW_NUMBER() OVER (PARTITION BY person ORDER BY came) AS k FROM visits"
    assert answer(session, f"SELECT COUNT(*) AS n FROM ({numbered}) WHERE k = 1") == visits.person.nunique()
    early = first.came < "2024-03-01"
    found = answer(session, f"SELECT COUNT(*) AS n FROM ({numbered}) WHERE k = 1 AND came < DATE '2024-03-01'")
    assert found == early.sum()


def test_with_common_tables_and_a_named_window(session, visits):
    changed = in_order(visits).groupby("person").ward.shift().reindex(visits.index)
    moved = ((visits.ward != changed) & changed.notna()).sum()
    statement = """
        WITH moves AS (
            SELECT person, ward, LAG(ward) OVER w AS before FROM visits
            WINDOW w AS (PARTITION BY person ORDER BY came, cost, left_at, ward)
        )
        SELECT COUNT(*) AS n FROM moves WHERE ward <> before
    """
    assert answer(session, statement) == moved


def test_rows_have_one_order_whatever_it_is_that_they_are_read_in(visits, monkeypatch):
    """Of rows that came at the same time all columns decide, so that the order of a table tells nothing."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    same = visits.assign(came=pd.Timestamp("2024-01-01"))
    numbered = "SELECT person, cost, ROW_NUMBER() OVER (PARTITION BY person ORDER BY came) AS k FROM visits"
    found = []
    for frame in (same, same.sample(frac=1.0, random_state=1), same.iloc[::-1]):
        with exact_session(dpn.Budget(epsilon=300.0, delta=1e-6)) as session:
            session.protect(frame.reset_index(drop=True), "visits", unit="person", max_rows=20)
            found.append(answer(session, f"SELECT COUNT(*) AS n FROM ({numbered}) WHERE k = 2 AND cost > 25"))
    assert found[0] == found[1] == found[2]


NUMBER = "ROW_NUMBER() OVER (PARTITION BY person ORDER BY came)"
FIRST = {
    "QUALIFY": f"SELECT * FROM visits QUALIFY {NUMBER} = 1",
    "QUALIFY of an alias": f"SELECT *, {NUMBER} AS k FROM visits QUALIFY k = 1",
    "WHERE": f"SELECT * FROM (SELECT *, {NUMBER} AS k FROM visits) WHERE k = 1",
}


@pytest.mark.parametrize("written", FIRST.values(), ids=FIRST)
def test_first_visits_are_one_row_of_each_person(session, visits, written):
    """So the noise is that of one row, whatever max_rows is."""
    first = in_order(visits).groupby("person").head(1)
    statement = f"SELECT ward, COUNT(*) AS n FROM ({written}) GROUP BY ward ORDER BY ward"
    one = "SELECT ward, COUNT(*) AS n FROM (SELECT person, MIN(ward) AS ward FROM visits GROUP BY person) GROUP BY ward"
    assert session.sql(statement, epsilon=1.0).plan.error == session.sql(one, epsilon=1.0).plan.error
    found = session.sql(statement, epsilon=100.0).run().frame
    assert found.n.tolist() == first.ward.value_counts().sort_index().tolist()


def test_qualify_goes_before_distinct_as_in_duckdb(session, visits):
    wanted = in_order(visits).groupby("person").head(2).drop_duplicates(["person", "ward"])
    two = f"QUALIFY {NUMBER} <= 2"
    found = answer(session, f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT person, ward FROM visits {two})")
    assert found == len(wanted)


@pytest.mark.parametrize(("written", "ascending"), [("ARG_MIN", True), ("MAX_BY", False)])
def test_the_ward_of_a_first_or_last_visit(session, visits, written, ascending):
    gaps = visits.assign(ward=visits.ward.where(visits.cost % 7 > 0), came=visits.came.where(visits.cost % 5 > 0))
    known = gaps.dropna().sort_values(["person", "came"], ascending=ascending)
    known = known[~known.duplicated(["person", "came"], keep=False) | ~known.duplicated(["person"])]
    wanted = known.groupby("person").head(1).ward.value_counts()
    inside = "CASE WHEN cost % 7 > 0 THEN ward END, CASE WHEN cost % 5 > 0 THEN came END"
    below = f"SELECT person, {written}({inside}) AS w, COUNT(*) AS k FROM visits GROUP BY person"
    found = session.sql(f"SELECT w, COUNT(*) AS n FROM ({below}) WHERE w IS NOT NULL GROUP BY w", epsilon=100.0).run()
    assert (found.frame.set_index("w").n - wanted).abs().max() <= 2  # visits at the same hour


def test_the_largest_of_released_groups(session, visits):
    by_ward = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    found = session.sql(
        f"SELECT ARG_MAX(ward, n) AS most, MIN_BY(ward, n) AS least FROM ({by_ward})", epsilon=100.0
    ).run()
    wanted = visits.ward.value_counts()
    assert found.frame.iloc[0].tolist() == [wanted.idxmax(), wanted.idxmin()]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("LAG(cost) OVER (ORDER BY came)", "PARTITION BY person"),
        ("SUM(cost) OVER (PARTITION BY person)", "GROUP BY in FROM"),
        ("LAG(cost, 1, 0) OVER (PARTITION BY person ORDER BY came)", r"LAG\(column\) or LAG\(column, 2\)"),
    ],
)
def test_others_are_refused_and_nothing_is_spent(session, written, said):
    with pytest.raises(SQLError, match=said):
        session.sql(f"SELECT COUNT(*) FROM (SELECT person, {written} AS x FROM visits) WHERE x > 3", epsilon=1.0)
    assert session.spent.epsilon == 0

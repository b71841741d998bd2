"""Subqueries about a unit's rows in other private tables: what they mean, what one unit changes, what is refused."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

RANDOM = np.random.default_rng(8)
SIZE = 400
PEOPLE = pd.DataFrame({
    "who": np.arange(SIZE), "sex": RANDOM.choice(["F", "M"], SIZE), "born": RANDOM.integers(1930, 2015, SIZE),
})  # fmt: skip
VISITS = pd.DataFrame({"who": np.repeat(np.arange(SIZE), RANDOM.integers(0, 6, SIZE))})
VISITS["ward"] = RANDOM.choice(["north", "south"], len(VISITS))
VISITS["fee"] = RANDOM.integers(0, 400, len(VISITS)).astype(float)
VISITS.loc[::9, "fee"] = None

ABOUT_PEOPLE = [
    "who IN (SELECT who FROM visits WHERE ward = 'north')",
    "who NOT IN (SELECT who FROM visits)",
    "born > 1950 AND who IN (SELECT DISTINCT who FROM visits) AND who IN (SELECT v.who FROM visits v WHERE fee > 300)",
    "sex = 'F' OR who IN (SELECT who FROM visits WHERE ward = 'south')",
    "who IN (SELECT who FROM visits GROUP BY who HAVING COUNT(*) >= 3)",
    "who IN (SELECT who FROM visits WHERE ward = 'north' EXCEPT SELECT who FROM visits WHERE ward = 'south')",
    "EXISTS (SELECT 1 FROM visits v WHERE v.who = people.who AND v.fee > 200)",
    "NOT EXISTS (SELECT * FROM visits v WHERE people.who = v.who AND v.ward = 'south')",
    "EXISTS (SELECT 1 FROM visits v JOIN visits w USING (who) WHERE v.who = people.who AND v.ward <> w.ward)",
    "who IN (SELECT who FROM visits v WHERE ward = 'north' AND EXISTS "
    "(SELECT 1 FROM visits w WHERE w.who = v.who AND w.ward = 'south'))",
    "(SELECT COUNT(*) FROM visits v WHERE v.who = people.who) = 0",
    "(SELECT COUNT(*) FROM visits v WHERE v.who = people.who AND v.ward = 'north') BETWEEN 1 AND 2",
    "(SELECT SUM(v.fee) FROM visits v WHERE v.who = people.who) > 500",
    "(SELECT MAX(v.fee) FROM visits v WHERE v.who = people.who) IS NULL",
    "CASE WHEN who IN (SELECT who FROM visits) THEN born > 1980 ELSE born < 1940 END",
    "EXISTS (SELECT 1 FROM visits v WHERE v.who = people.who AND v.fee > people.born - 1800)",
    "sex = 'F' AND NOT EXISTS (SELECT 1 FROM visits v WHERE people.who = v.who AND v.fee * 10 < people.born)",
    "who IN (SELECT who FROM visits WHERE fee > born - 1900)",
    "(SELECT COUNT(*) FROM visits v WHERE v.who = people.who AND v.fee > people.born - 1850) = 2",
]
NONE_THERE = [  # each with what it is in other words
    "SELECT sex, COUNT(*) AS n FROM people LEFT JOIN visits USING (who) WHERE visits.who IS NULL GROUP BY sex",
    "SELECT COUNT(*) AS n FROM people p LEFT JOIN visits v ON p.who = v.who AND v.ward = 'north' AND v.fee > 90 "
    "WHERE (v.who IS NULL AND born < 1990)",
    "SELECT ward, COUNT(DISTINCT visits.who) AS n FROM visits LEFT JOIN people p ON p.who = visits.who AND p.sex = 'F' "
    "WHERE visits.fee > 100 AND p.who IS NULL GROUP BY ward",
    "SELECT sex, COUNT(DISTINCT v.who) AS n FROM people p LEFT JOIN visits w ON w.who = p.who AND w.fee > 200 "
    "JOIN visits v ON v.who = p.who WHERE w.who IS NULL GROUP BY sex",
]
SAID_OTHERWISE = [
    "SELECT sex, COUNT(*) AS n FROM people WHERE NOT EXISTS (SELECT 1 FROM visits WHERE people.who = visits.who) "
    "GROUP BY sex",
    "SELECT COUNT(*) AS n FROM people p ANTI JOIN visits v ON p.who = v.who AND v.ward = 'north' AND v.fee > 90 "
    "WHERE born < 1990",
    "SELECT ward, COUNT(DISTINCT visits.who) AS n FROM visits WHERE visits.fee > 100 "
    "AND NOT EXISTS (SELECT 1 FROM people p WHERE p.who = visits.who AND p.sex = 'F') GROUP BY ward",
    "SELECT sex, COUNT(DISTINCT v.who) AS n FROM people p JOIN visits v ON v.who = p.who "
    "WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.who = p.who AND w.fee > 200) GROUP BY sex",
]
STATEMENTS = [f"SELECT sex, COUNT(*) AS n FROM people WHERE {part} GROUP BY sex" for part in ABOUT_PEOPLE] + [
    "SELECT COUNT(*) FILTER (WHERE who IN (SELECT who FROM visits)) AS n FROM people",
    "SELECT CASE WHEN who IN (SELECT who FROM visits WHERE fee > 350) THEN 'dear' ELSE 'cheap' END AS k, COUNT(*) AS n "
    "FROM people GROUP BY k",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE who IN (SELECT who FROM visits)) AS p",
    "WITH north AS (SELECT who FROM visits WHERE ward = 'north') "
    "SELECT sex, COUNT(*) AS n FROM people p WHERE p.who IN (SELECT who FROM north) GROUP BY sex",
    "SELECT ward, COUNT(*) AS n FROM visits WHERE who IN (SELECT who FROM people WHERE sex = 'F') GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND "
    "w.ward = v.ward AND w.fee > v.fee) GROUP BY ward",
    "SELECT sex, CAST(SUM(CASE WHEN EXISTS (SELECT 1 FROM visits v WHERE v.who = p.who AND v.fee > p.born - 1900) "
    "THEN 1 ELSE 0 END) AS INTEGER) AS n FROM people p GROUP BY sex",
    "SELECT ward, COUNT(*) AS n FROM visits v WHERE fee > (SELECT AVG(w.fee) FROM visits w WHERE w.who = v.who) "
    "GROUP BY ward",
    "SELECT sex, COUNT(*) AS n FROM people p SEMI JOIN visits v ON v.who = p.who AND v.ward = 'north' GROUP BY sex",
    "SELECT sex, COUNT(*) AS n FROM people ANTI JOIN visits USING (who) WHERE born > 1950 GROUP BY sex",
    "SELECT ward, COUNT(DISTINCT v.who) AS n FROM people p ANTI JOIN visits w ON w.who = p.who AND w.fee > 200 "
    "JOIN visits v ON v.who = p.who GROUP BY ward",
    *NONE_THERE,
    "SELECT sex, COUNT(*) AS n FROM people p LEFT JOIN visits v ON v.who = p.who WHERE v.fee IS NULL GROUP BY sex",
    "SELECT sex, COUNT(v.ward) AS n FROM people p LEFT JOIN visits v ON v.who = p.who AND v.fee > 100 "
    "WHERE v.who IS NULL OR born > 1960 GROUP BY sex",
    "SELECT sex, COUNT(*) AS n FROM people p LEFT JOIN visits v ON v.who = p.who AND v.fee > 100 "
    "WHERE v.who IS NULL AND ward IS NULL GROUP BY sex",
]


@pytest.fixture(scope="module")
def exactly():
    """Return what a database says, of all people or of all but one."""
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE all_people AS SELECT * FROM PEOPLE")
        engine.execute("CREATE TABLE all_visits AS SELECT * FROM VISITS")

        def answer(statement, without=-1):
            for name in ("people", "visits"):
                engine.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM all_{name} WHERE who <> {without}")
            return engine.execute(statement).df()

        yield answer


def counts(frame):
    keys = [name for name in frame.columns if name in ("sex", "ward", "k")]
    return {tuple(row[key] for key in keys): int(row["n"]) for _, row in frame.iterrows() if row["n"]}


def opened(people=PEOPLE, visits=VISITS, unit="who"):
    session = exact_session(dpn.Budget(900.0, 1e-6), confirm="never")
    session.protect(people, "people", unit=unit, max_rows=1, domain={"sex": ["F", "M"], "born": dpn.Range(1900, 2023)})
    session.protect(visits, "visits", unit=unit, max_rows=6, domain={"ward": ["north", "south"]})
    return session


@pytest.fixture(scope="module")
def session():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        session = opened(unit=dpn.Unit("person", column="who"))
    yield session
    session.close()


@pytest.mark.one_in(24)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_without_noise_it_is_what_a_database_says(session, exactly, statement):
    found = session.sql(statement, epsilon=20.0).run().frame
    assert counts(found) == counts(exactly(statement))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("statement", STATEMENTS[: len(ABOUT_PEOPLE)])
def test_one_person_is_one_person_whatever_they_have_elsewhere(exactly, statement):
    """One row of a person counts, so that the noise is that of one row, and no other table's rows make it more."""
    with dpn.Session(budget=dpn.Budget(10.0), ledger=":memory:") as session:
        unit = dpn.Unit("person", column="who")
        session.protect(PEOPLE, "people", unit=unit, max_rows=1, domain={"sex": ["F", "M"]})
        session.protect(VISITS, "visits", unit=unit, max_rows=6, domain={"ward": ["north", "south"]})
        plan = session.sql(statement, epsilon=1.0).plan
        alone = session.sql("SELECT sex, COUNT(*) AS n FROM people WHERE born > 1950 GROUP BY sex", epsilon=1.0).plan
    assert plan.error == alone.error
    everyone = counts(exactly(statement))
    for who in RANDOM.choice(SIZE, 40, replace=False):
        without = counts(exactly(statement, without=who))
        assert sum(abs(everyone.get(key, 0) - without.get(key, 0)) for key in everyone | without) <= 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("statement", "said"), list(zip(NONE_THERE, SAID_OTHERWISE, strict=True)))
def test_a_left_join_with_none_there_is_the_same_question_as_not_exists(statement, said):
    """It is answered from the other's release."""
    with dpn.Session(budget=dpn.Budget(10.0), ledger=":memory:") as session:
        unit = dpn.Unit("person", column="who")
        session.protect(PEOPLE, "people", unit=unit, max_rows=1, domain={"sex": ["F", "M"]})
        session.protect(VISITS, "visits", unit=unit, max_rows=6, domain={"ward": ["north", "south"]})
        first = session.sql(said, epsilon=1.0).run()
        assert session.sql(statement, epsilon=1.0).run().frame.equals(first.frame)
        assert session.spent.epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(
    "statement", [NONE_THERE[0], NONE_THERE[1], "SELECT COUNT(*) FROM people ANTI JOIN visits USING (who)"]
)
def test_who_has_none_there_has_one_row(statement):
    with dpn.Session(budget=dpn.Budget(10.0), ledger=":memory:") as session:
        unit = dpn.Unit("person", column="who")
        session.protect(PEOPLE, "people", unit=unit, max_rows=1, domain={"sex": ["F", "M"]})
        session.protect(VISITS, "visits", unit=unit, domain={"ward": ["north", "south"]})
        plan = session.sql(statement, epsilon=1.0).plan
        alone = session.sql("SELECT sex, COUNT(*) AS n FROM people WHERE born > 1950 GROUP BY sex", epsilon=1.0).plan
    assert plan.error == alone.error


def test_joins_decide_what_may_be_asked_of_tables_about_others(exactly, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with opened() as session:  # the two columns called who are not said to be of the same people
        inside = "SELECT COUNT(*) AS n FROM people WHERE who IN (SELECT who FROM visits)"
        assert counts(session.sql(inside, epsilon=20.0).run().frame) == counts(exactly(inside))
        with pytest.raises(SQLError, match=r"IN \(SELECT \.\.\.\) needs tables of one population"):
            _ = session.sql("SELECT COUNT(*) FROM people WHERE who NOT IN (SELECT who FROM visits)", epsilon=1.0).plan


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("born IN (SELECT born FROM people)", "join it on the unit"),
        ("who IN (SELECT fee FROM visits)", "join it on the unit"),
        ("who IN (SELECT who + 1 FROM visits)", "join it on the unit"),
        ("who IN (SELECT who FROM visits LIMIT 3)", "LIMIT below an aggregation"),
        ("EXISTS (SELECT 1 FROM visits v WHERE v.fee = people.born)", "join it on the unit"),
        ("EXISTS (SELECT 1 FROM visits v WHERE v.who = people.who OR v.fee > 3)", "join it on the unit"),
        (
            "EXISTS (SELECT 1 FROM visits v WHERE v.who = people.who AND v.fee > people.born HAVING COUNT(*) > 1)",
            "join it",
        ),
        ("(SELECT COUNT(*) + 1 FROM visits v WHERE v.who = people.who) = 1", "ask for it by itself first"),
        ("(SELECT COALESCE(SUM(v.fee), 0) FROM visits v WHERE v.who = people.who) = 0", "ask for it by itself first"),
        ("born > (SELECT AVG(born) FROM people)", "ask for it by itself first"),
        ("(SELECT COUNT(*) FROM visits v WHERE v.fee = people.born) > 1", "ask for it by itself first"),
    ],
)
def test_what_says_something_of_other_people_is_refused(session, condition, says):
    with pytest.raises(SQLError, match=says):
        _ = session.sql(f"SELECT COUNT(*) FROM people WHERE {condition}", epsilon=1.0).plan

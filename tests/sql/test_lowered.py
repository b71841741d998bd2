"""Statements that mean a question about declared columns are that question, however they are written."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "city": ["a", "b", "c"], "stay": dpn.Range(0, 30)}


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, 700),
            "sex": rng.choice(["F", "M"], 700),
            "city": rng.choice(["a", "b", "c"], 700),
            "stay": rng.integers(0, 31, 700),
        }
    )


SAME = [
    "SELECT COUNTIF(sex = 'F') AS n FROM people",
    "SELECT COUNT(*) FILTER (WHERE sex = 'F' AND age >= 65) AS n FROM people WHERE city <> 'b'",
    "SELECT SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS n FROM people",
    "SELECT COUNT(CASE WHEN sex = 'F' THEN 1 END) AS n FROM people",
    "SELECT city, COUNTIF(age < 30) AS n FROM people GROUP BY city ORDER BY city",
    "SELECT SUM(stay) FILTER (WHERE sex = 'F') AS n FROM people",
    "SELECT SUM(CASE WHEN sex = 'F' THEN stay ELSE 0 END) AS n FROM people",
    "SELECT AVG(CASE WHEN sex = 'F' THEN stay END) AS n FROM people",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE sex = 'F') AS q WHERE age < 50",
    "SELECT COUNT(*) AS n FROM (SELECT age AS years FROM people WHERE sex = 'F') AS q WHERE years < 50",
    "SELECT COUNT(*) AS n FROM (SELECT sex AS city FROM people WHERE city = 'a') AS q WHERE q.city = 'F'",
    "SELECT COUNT(*) AS n FROM (SELECT years FROM (SELECT age AS years, sex FROM people) AS p WHERE sex = 'M') AS q",
    "WITH q AS (SELECT * FROM people WHERE city = 'b') SELECT sex, COUNT(*) AS n FROM q GROUP BY sex ORDER BY sex",
    "WITH q AS (SELECT city AS c, stay AS s FROM people WHERE age >= 40), r AS (SELECT c, s FROM q WHERE c <> 'a') "
    "SELECT c, SUM(s) AS n FROM r GROUP BY c ORDER BY c",
    "WITH people AS (SELECT * FROM people WHERE sex = 'M') SELECT COUNT(*) AS n FROM people WHERE age > 20",
    "WITH q AS (SELECT age AS a, sex FROM people) SELECT COUNTIF(a > 50) AS n FROM q WHERE sex = 'F'",
    "SELECT COUNT(*) AS n, COUNTIF(sex = 'F') AS f, COUNT(*) FILTER (WHERE age > 50) AS o FROM people",
    "SELECT COUNTIF(sex = 'F' AND age < 20) AS n, COUNTIF(sex = 'M') AS m FROM people",
    "SELECT city, SUM(stay) AS n, SUM(CASE WHEN age < 30 THEN stay END) AS y, SUM(stay) FILTER (WHERE age >= 90) AS o "
    "FROM people WHERE stay > 2 GROUP BY city ORDER BY city",
    "SELECT city, COUNT(*) AS n, 100.0 * COUNTIF(sex = 'F') / COUNT(*) AS f FROM people GROUP BY city ORDER BY city",
    "SELECT city, SUM(n) AS n FROM (SELECT city, sex, COUNT(*) AS n FROM people GROUP BY city, sex) AS q "
    "GROUP BY city ORDER BY city",
    "WITH g AS (SELECT sex, city, COUNT(*) AS n FROM people WHERE age < 50 GROUP BY sex, city) "
    "SELECT sex, MAX(n) AS n FROM g GROUP BY sex ORDER BY sex",
    "SELECT SUM(n) AS n FROM (SELECT c, COUNT(*) AS n FROM (SELECT city AS c FROM people WHERE sex = 'F') AS p "
    "GROUP BY c) AS q WHERE c <> 'a'",
    "SELECT COUNT(*) AS n FROM people UNION ALL SELECT COUNT(*) AS n FROM people",  # one number, twice
]

OTHER = [
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT sex FROM people) AS q",
    "SELECT COUNT(*) AS n FROM (SELECT age + 1 AS b FROM people) AS q WHERE b < 50",
    "SELECT COUNT(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS n FROM people",
    "SELECT AVG(CASE WHEN sex = 'F' THEN stay ELSE 0 END) AS n FROM people",
    "SELECT COUNTIF(age % 2 = 0) AS n FROM people",
    "WITH q AS (SELECT * FROM people WHERE city = 'b') SELECT sex, SUM(n) AS n FROM "
    "(SELECT sex, city, COUNT(*) AS n FROM q GROUP BY sex, city) AS g GROUP BY sex ORDER BY sex",
    "WITH people AS (SELECT * FROM people WHERE city = 'b') SELECT sex, SUM(n) AS n FROM "
    "(SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city) AS g GROUP BY sex ORDER BY sex",
]


@pytest.mark.parametrize("text", SAME)
def test_it_is_a_question_with_the_answer_that_the_database_gives(text, people):
    session = exact_session(dpn.Budget(100.0))
    session.protect(people, "people", domain=DOMAIN)
    query = session.sql(text, epsilon=1.0)
    assert isinstance(query.question, Question)
    found = query.run().frame
    wanted = duckdb.connect().execute(text).df()
    found = found[list(wanted.columns)]
    kept = found[found["n"].abs() > 1e-9] if len(found) > len(wanted) else found  # every declared level is listed
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), wanted, check_dtype=False, rtol=1e-9)


@pytest.mark.parametrize("text", OTHER)
def test_what_means_something_else_is_no_such_question(text, people):
    session = exact_session(dpn.Budget(100.0))
    session.protect(people, "people", domain=DOMAIN)
    try:
        query = session.sql(text, epsilon=1.0)
    except dpn.errors.SQLError:
        return
    assert not isinstance(query.question, Question)


def test_all_of_them_are_free_after_the_table_that_they_follow_from(people):
    session = dpn.Session(dpn.Budget(10.0))
    session.protect(people, "people", domain=DOMAIN)
    session.sql("SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city", epsilon=0.5).run()
    for text in (
        "SELECT COUNTIF(sex = 'F' AND city = 'a') AS n FROM people",
        "SELECT COUNT(*) AS n FROM (SELECT city AS c FROM people WHERE sex = 'M') AS q WHERE c = 'b'",
        "WITH q AS (SELECT * FROM people WHERE sex = 'M') SELECT city, COUNT(*) AS n FROM q GROUP BY city",
        "SELECT city, SUM(n) AS n FROM (SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city) GROUP BY city",
        "WITH g AS (SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city) SELECT MAX(n) - MIN(n) AS n FROM g",
    ):
        assert session.sql(text, epsilon=0.5).plan.free
    session.close()


def test_what_an_earlier_version_measured_by_itself_stays_free(people, monkeypatch):
    session = dpn.Session(dpn.Budget(10.0))
    session.protect(people, "people", domain=DOMAIN)
    inner = "SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city"
    text = f"SELECT city, SUM(n) AS n FROM ({inner}) GROUP BY city"
    with monkeypatch.context() as earlier:
        earlier.setattr("dpnotebook.sql.linear.questions.linear_question", lambda *given: None)
        before = session.sql(text, epsilon=0.5).run()
    again = session.sql(text, epsilon=0.5)
    assert again.plan.free
    pd.testing.assert_frame_equal(again.run().frame[["city", "n"]], before.frame[["city", "n"]])
    assert not session.sql(text, epsilon=0.7).plan.free
    session.close()

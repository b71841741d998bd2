"""Statements that mean a question about declared columns are that question, however they are written."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

DOMAIN = {
    "age": dpn.Range(0, 99),
    "sex": ["F", "M"],
    "city": ["a", "b", "c"],
    "stay": dpn.Range(0, 30),
    "ward": dpn.Categories(["p", "q"], nullable=True),
}


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
            "ward": rng.choice(np.array(["p", "q", None], dtype=object), 700),
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
    "SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END AS g, COUNT(*) AS n FROM people "
    "GROUP BY g ORDER BY g",
    "SELECT CASE WHEN age < 30 THEN 'z' WHEN age < 65 THEN 'a' WHEN age < 30 THEN 'never' END AS g, SUM(stay) AS n "
    "FROM people WHERE sex = 'F' GROUP BY 1 ORDER BY g",
    "SELECT CASE city WHEN 'a' THEN 2 WHEN 'c' THEN 1 ELSE 2 END AS g, sex, COUNT(*) AS n FROM people "
    "GROUP BY g, sex ORDER BY g, sex",
    "SELECT sex AS s, CASE city WHEN 'a' THEN 2 ELSE 1 END AS g, AVG(stay) AS n FROM people GROUP BY ALL ORDER BY ALL",
    "SELECT IF(age >= 65, 1, 0) AS g, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY g ORDER BY g",
    "SELECT age >= 65 AS g, COUNT(*) AS n FROM people GROUP BY g ORDER BY g",
    "SELECT COUNT(*) AS n FROM people GROUP BY CASE WHEN sex = 'F' THEN 'x' END ORDER BY n",
    "SELECT COALESCE(ward, 'none') AS g, COUNT(*) AS n FROM people GROUP BY g ORDER BY g",
    "SELECT IFNULL(ward, 'p') AS g, COUNT(*) AS n FROM people GROUP BY g ORDER BY g",
    "SELECT CASE WHEN ward = 'p' THEN 1 WHEN NOT ward = 'p' THEN 2 END AS g, COUNT(*) AS n FROM people GROUP BY g "
    "ORDER BY g",
    "SELECT CASE WHEN ward <> 'p' THEN 'q' ELSE CASE WHEN ward IS NULL THEN 'none' ELSE ward END END AS g, "
    "COUNT(*) AS n FROM people GROUP BY g ORDER BY g",
    "SELECT ward = 'p' AS g, COUNT(*) AS n FROM people GROUP BY g ORDER BY g",
    "SELECT CASE WHEN sex = 'F' AND age < 30 THEN 'a' WHEN city = 'b' THEN 'b' ELSE 'c' END AS g, COUNT(*) AS n, "
    "SUM(stay) AS s FROM people WHERE age < 70 OR sex = 'M' GROUP BY g ORDER BY g",
    "SELECT g, 2 * n AS n FROM (SELECT CASE WHEN sex = 'F' THEN 'w' ELSE 'm' END AS g, COUNT(*) AS n FROM people "
    "GROUP BY g) AS q WHERE n > 10 ORDER BY g",
    "SELECT CASE WHEN sex = 'F' THEN city ELSE 'm' END AS city, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1",
    "SELECT CASE WHEN age < 30 THEN 'a' ELSE 'b' END AS g, CASE WHEN city = 'a' THEN 'a' ELSE 'b' END AS h, COUNT(*) "
    "AS n FROM people GROUP BY g, h ORDER BY g, h",
]

OTHER = [
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT sex FROM people) AS q",
    "SELECT COUNT(*) AS n FROM (SELECT age + 1 AS b FROM people) AS q WHERE b < 50",
    "SELECT COUNT(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS n FROM people",
    "SELECT AVG(CASE WHEN sex = 'F' THEN stay ELSE 0 END) AS n FROM people",
    "SELECT COUNTIF(age % 2 = 0) AS n FROM people",
    "SELECT CASE WHEN age < 30 THEN 'a' ELSE 'b' END AS g, age, COUNT(*) AS n FROM people GROUP BY g, age",
    "SELECT CASE WHEN age < 30 THEN 'a' ELSE 2 END AS g, COUNT(*) AS n FROM people GROUP BY g",
    "SELECT CASE WHEN age % 2 = 0 THEN 'a' ELSE 'b' END AS g, COUNT(*) AS n FROM people GROUP BY g",
    "SELECT CASE WHEN city = 'zzz' THEN 'a' ELSE 'b' END AS g, COUNT(*) AS n FROM people GROUP BY g",
    "WITH q AS (SELECT * FROM people WHERE city = 'b') SELECT sex, SUM(n) AS n FROM "
    "(SELECT sex, city, COUNT(*) AS n FROM q GROUP BY sex, city) AS g GROUP BY sex ORDER BY sex",
    "WITH people AS (SELECT * FROM people WHERE city = 'b') SELECT sex, SUM(n) AS n FROM "
    "(SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city) AS g GROUP BY sex ORDER BY sex",
]


@pytest.mark.one_in(12)
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


@pytest.mark.one_in(5)
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
    found = (one.frame[["city", "n"]].sort_values("city", ignore_index=True) for one in (again.run(), before))
    pd.testing.assert_frame_equal(*found)  # DuckDB's groups come in any order
    assert not session.sql(text, epsilon=0.7).plan.free
    session.close()


def test_groups_of_a_case_are_free_after_the_columns_that_they_are_of(people):
    session = dpn.Session(dpn.Budget(10.0))
    session.protect(people, "people", domain=DOMAIN)
    session.sql("SELECT sex, city, COUNT(*) AS n FROM people GROUP BY sex, city", epsilon=0.5).run()
    case = "CASE WHEN city IN ('a', 'b') THEN 'in' ELSE 'out' END AS g"
    for text in (
        f"SELECT {case}, sex, COUNT(*) AS n FROM people GROUP BY g, sex",
        f"SELECT {case}, COUNT(*) AS n FROM people WHERE sex = 'F' GROUP BY g",
        "SELECT sex = 'F' AS g, COUNT(*) AS n FROM people WHERE city = 'b' GROUP BY g",
        "SELECT CASE WHEN sex = 'F' AND city = 'a' THEN 1 WHEN city = 'b' THEN 2 ELSE 3 END, COUNT(*) FROM people "
        "GROUP BY 1",
    ):
        assert session.sql(text, variance=40.0).plan.free, text
    found = session.sql(f"SELECT {case}, COUNT(*) AS n FROM people GROUP BY g", variance=60.0).run()
    wards = session.sql("SELECT ward, COUNT(*) AS n FROM people GROUP BY ward", epsilon=0.5).run().frame
    none = session.sql("SELECT COALESCE(ward, 'none') AS w, COUNT(*) AS n FROM people GROUP BY w", epsilon=0.5)
    assert none.plan.free
    assert none.run().frame["n"].tolist() == wards["n"].tolist()
    # shown again it is what it was, and its code asks for it again
    again = session.release(found.number)
    assert again.frame["g"].tolist() == ["in", "out"]
    assert again.keys == ("g",)
    assert "COUNT by g" in again.question.words
    assert eval(session.code(found.number), {"session": session}).plan.free
    session.close()


def test_groups_of_a_case_that_an_earlier_version_measured_by_itself_stay_free(people, monkeypatch):
    session = dpn.Session(dpn.Budget(10.0))
    session.protect(people, "people", domain=DOMAIN)
    text = "SELECT CASE WHEN age < 30 THEN 'young' ELSE 'old' END AS g, COUNT(*) AS n FROM people GROUP BY g"
    with monkeypatch.context() as earlier:
        earlier.setattr("dpnotebook.sql.linear.questions.linear_question", lambda *given: None)
        before = session.sql(text, epsilon=0.5).run()
    again = session.sql(text, epsilon=0.5)
    assert again.plan.free
    pd.testing.assert_frame_equal(again.run().frame, before.frame)
    assert isinstance(session.sql(text, epsilon=0.7).question, Question)
    session.close()

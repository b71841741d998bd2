"""Joins with public tables of one row a declared level mean a question about that column, and are free as it is."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.testing import exact_session

DOMAIN = {
    "age": dpn.Range(0, 19),
    "sex": ["F", "M"],
    "city": ["a", "b", "c", "d'é"],
    "ward": dpn.Categories(["p", "q"], nullable=True),
    "job": dpn.Categories(["x", "y"], other="other"),
}
PUBLIC = {
    "regions": pd.DataFrame(
        {
            "city": ["a", "b", "c", "zzz", None],
            "north": ["yes", "no", "yes", "no", "yes"],
            "beds": [3, 0, 7, 9, 1],
            "coast": pd.array([True, None, False, True, True], dtype="boolean"),
            "size": [1.5, 2.5, np.nan, 1.0, 1.0],
        }
    ),
    "towns": pd.DataFrame({"town": ["a", "b", "c", "d'é"], "kind": ["old", "new", "old", "new"]}),
    "ages": pd.DataFrame({"age": range(25), "decade": [n // 10 * 10 for n in range(25)]}),
    "wards": pd.DataFrame({"ward": ["p", "q"], "floor": [1, 2]}),
    "jobs": pd.DataFrame({"job": ["x", "y", "z"], "paid": ["well", "badly", "well"]}),
    "twice": pd.DataFrame({"city": ["a", "a", "b"], "name": ["k", "l", "m"]}),
}
SAME = [
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE north = 'yes'",
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city)",
    "SELECT COUNT(*) AS n FROM people AS p INNER JOIN regions AS r ON p.city = r.city WHERE r.beds > 1 AND p.age < 9",
    "SELECT COUNT(*) AS n FROM people p JOIN regions r ON r.city = p.city WHERE r.north = 'yes' AND p.sex = 'F'",
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE coast",
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE NOT coast OR beds + 1 IN (4, 8)",
    "SELECT COUNT(*) AS n FROM people LEFT JOIN regions USING (city) WHERE age < 7",
    "SELECT COUNT(*) AS n FROM people LEFT JOIN regions USING (city) WHERE north IS NULL",
    "SELECT north, COUNT(*) AS n FROM people JOIN regions USING (city) GROUP BY north ORDER BY north",
    "SELECT r.north AS g, COUNT(*) AS n FROM people p JOIN regions r USING (city) GROUP BY r.north ORDER BY g",
    "SELECT kind, sex, COUNT(*) AS n FROM people JOIN towns ON city = town GROUP BY kind, sex ORDER BY kind, sex",
    "SELECT kind, COUNT(*) AS n FROM people JOIN towns ON people.city = towns.town WHERE age > 4 GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*) AS n FROM people JOIN wards USING (ward)",  # without those of no ward
    "SELECT COUNT(*) AS n FROM people JOIN towns t ON people.city = t.town JOIN wards w USING (ward) "
    "WHERE t.kind = 'new' AND w.floor = 2",
    "SELECT COUNTIF(sex = 'F') AS n FROM people JOIN regions USING (city) WHERE north <> 'yes'",
]
OTHER = [  # or nothing that is seen to be the same
    "SELECT COUNT(*) AS n FROM people JOIN ages USING (age) WHERE decade = 10",  # numbers may not be whole
    "SELECT COUNT(*) AS n FROM people JOIN twice USING (city)",
    "SELECT COUNT(*) AS n FROM people JOIN twice USING (city) WHERE name = 'k'",
    "SELECT COUNT(*) AS n FROM people JOIN jobs USING (job) WHERE paid = 'well'",  # z is another job
    "SELECT COUNT(*) AS n FROM people JOIN regions ON people.city = regions.north",
    "SELECT COUNT(*) AS n FROM people JOIN regions ON people.city = regions.city AND regions.beds > people.age",
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE beds > age",
    "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE size > 1",
    "SELECT COUNT(*) AS n FROM people JOIN ages ON people.age = ages.decade",
    "SELECT SUM(beds) AS n FROM people JOIN regions USING (city)",
    "SELECT COUNT(beds) AS n FROM people LEFT JOIN regions USING (city)",
]


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 20, 400),
            "sex": rng.choice(["F", "M"], 400),
            "city": rng.choice(DOMAIN["city"], 400),
            "ward": rng.choice(np.array(["p", "q", None], dtype=object), 400),
            "job": rng.choice(["x", "y", "z"], 400),
        }
    )


@pytest.fixture
def session(people):
    """Everything that is declared was released, without noise."""
    session = exact_session(dpn.Budget(1000.0))
    table = session.protect(people, "people", domain=DOMAIN)
    for name, rows in PUBLIC.items():
        session.register(rows, name, public=True)
    table.groupby(list(DOMAIN)).count(epsilon=90.0).run()
    yield session
    session.close()


def by_database(text, people):
    connection = duckdb.connect()
    for name, rows in {"people": people, **PUBLIC}.items():
        connection.register(name, rows)
    return connection.execute(text).df()


@pytest.mark.one_in(30)
@pytest.mark.parametrize("text", SAME)
def test_it_is_free_and_the_answer_that_the_database_gives(text, people, session):
    query = session.sql(text, epsilon=1.0)
    assert isinstance(query.question, Question)
    assert query.plan.free
    wanted = by_database(text, people)
    found = query.run().frame[list(wanted.columns)]
    pd.testing.assert_frame_equal(found.reset_index(drop=True), wanted, check_dtype=False, rtol=1e-9)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("text", OTHER)
def test_what_means_something_else_is_measured_by_itself(text, session):
    try:
        query = session.sql(text, epsilon=1.0)
    except dpn.errors.SQLError:
        return
    assert not isinstance(query.question, Question)


def test_what_is_not_known_is_measured_as_before(people):
    with exact_session(dpn.Budget(100.0)) as session:
        session.protect(people, "people", domain=DOMAIN)
        session.register(PUBLIC["regions"], "regions", public=True)
        assert not isinstance(session.sql(SAME[0], epsilon=1.0).question, Question)
        # Its groups are declared by what the public table says of each level: no delta hides any.
        assert session.sql(SAME[8], epsilon=1.0).run().frame["n"].sum() == pytest.approx(
            float(by_database(SAME[1], people)["n"][0])
        )


def test_another_public_table_of_the_name_has_other_answers(people, session):
    before = session.sql(SAME[0], epsilon=1.0).run().frame["n"][0]
    session.register(PUBLIC["regions"].assign(north="no"), "regions", public=True)
    rest = session.sql(SAME[0].replace("'yes'", "'no'"), epsilon=1.0).run().frame["n"][0]
    assert rest == pytest.approx(float(by_database(SAME[1], people)["n"][0]))
    assert before < rest


def test_public_tables_of_many_rows_are_not_read(session, monkeypatch):
    session.register(pd.DataFrame({"city": [f"{n}" for n in range(2_001)], "north": "yes"}), "regions", public=True)

    def read(*_):
        raise AssertionError("it was read to plan")

    monkeypatch.setattr(type(session._statements.relations.workspace), "frame", read)
    assert not isinstance(session.sql(SAME[0], epsilon=1.0).question, Question)


def test_a_public_frame_is_read_once(people, session, monkeypatch):
    """Not at each statement that joins it; another of its name is."""
    workspace, read = session._statements.relations.workspace, []
    frame = workspace.frame
    monkeypatch.setattr(workspace, "frame", lambda name: [read.append(name), frame(name)][1])
    for age in (3, 9, 12):
        for where in ("north = 'yes'", "beds > 1", "coast"):
            text = f"SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE {where} AND age < {age}"
            query = session.sql(text, epsilon=1.0)
            assert isinstance(query.question, Question)
            assert query.run().frame["n"][0] == by_database(text, people)["n"][0]
    assert read == ["regions"]
    session.register(PUBLIC["regions"].assign(north="no"), "regions", public=True)
    text = "SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE north = 'no' AND age < 3"
    everyone = by_database("SELECT COUNT(*) AS n FROM people JOIN regions USING (city) WHERE age < 3", people)
    assert session.sql(text, epsilon=1.0).run().frame["n"][0] == everyone["n"][0]
    assert read == ["regions", "regions"]

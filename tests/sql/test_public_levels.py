"""Groups by columns of public tables: all of these are known, none is hidden, and each is what a database says."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from public_spells import MONTHS, RANDOM, SPELLS, STOCK, is_what_a_database_says, opened

import dpnotebook as dpn
from dpnotebook.testing import exact_session

KNOWN = [  # question, groups
    (f"SELECT day, COUNT(*) AS n {STOCK} GROUP BY day", 24),  # none had begun in the first two
    (f"SELECT day, sex, COUNT(*) AS n, COUNT(DISTINCT person) AS people {STOCK} GROUP BY day, sex", 48),
    (f"SELECT seen, AVG(DATE_DIFF('day', begin, day)) AS d {STOCK} GROUP BY seen", 2),
    (f"SELECT day, COUNT(*) AS n {STOCK} WHERE day >= '2024-01-01' GROUP BY day", 10),
    (f"SELECT day, COUNT(*) AS n {STOCK} WHERE seen AND YEAR(day) = 2023 GROUP BY day", 6),
    (f"SELECT YEAR(day) AS y, COUNT(*) AS n {STOCK} GROUP BY y", 3),
    (f"SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n {STOCK} GROUP BY m", 24),
    ("SELECT job, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY job", 5),
    ("SELECT job, COUNT(*) AS n FROM spells LEFT JOIN jobs USING (code) GROUP BY job", 5),
    ("SELECT grade, COUNT(*) AS n FROM spells LEFT JOIN jobs ON spells.code = jobs.code GROUP BY grade", 8),
    ("SELECT g, COUNT(*) AS n FROM (SELECT person, grade AS g FROM spells LEFT JOIN jobs USING (code)) GROUP BY g", 8),
    ("SELECT field, COUNT(*) AS n FROM spells s JOIN jobs j ON s.code = j.code GROUP BY field", 30),
    ("SELECT LEFT(field, 7) AS f, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY f", 10),
    ("SELECT grade % 2 AS odd, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY odd", 2),
    ("SELECT manual, sex, COUNT(*) AS n FROM spells JOIN jobs USING (code) WHERE grade < 3 GROUP BY manual, sex", 4),
    ("WITH j AS (SELECT DISTINCT code, grade FROM jobs) SELECT grade, COUNT(*) AS n FROM spells JOIN j USING (code) "
     "GROUP BY grade", 7),
    ("SELECT code, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY code", 60),
    ("SELECT s.code, j.manual, COUNT(*) AS n FROM spells s JOIN jobs j ON s.code = j.code GROUP BY s.code, 2", 60),
    ("SELECT b.grade, COUNT(*) AS n FROM spells JOIN jobs a USING (code) JOIN jobs b ON a.grade > b.grade "
     "WHERE a.grade > 4 GROUP BY b.grade", 7),
    ("WITH w AS (SELECT person, a.grade AS one, b.grade AS two FROM spells JOIN jobs a USING (code) "
     "JOIN jobs b ON a.grade > b.grade) SELECT two, COUNT(*) AS n FROM w WHERE one > 4 GROUP BY two", 7),
    ("SELECT day, manual, COUNT(*) AS n FROM spells JOIN jobs USING (code) JOIN months ON begin <= day GROUP BY 1, 2",
     48),
]  # fmt: skip
KNOWN += [  # of queries over a public table that leave rows out by a condition on them
    ("SELECT grade, COUNT(*) AS n FROM spells JOIN (SELECT * FROM jobs WHERE code > '057') USING (code) GROUP BY 1", 2),
    ("WITH m AS (SELECT day AS e FROM months WHERE YEAR(day) = 2024) SELECT e, COUNT(*) AS n FROM spells JOIN m "
     "ON begin <= e WHERE e < '2024-06-01' GROUP BY e", 5),
    ("SELECT s.code, COUNT(*) AS n FROM spells s JOIN (SELECT code FROM jobs WHERE manual) j ON s.code = j.code "
     "GROUP BY s.code", 20),
    ("SELECT g, COUNT(*) AS n FROM (SELECT person, grade AS g FROM spells JOIN (SELECT code AS c, grade FROM (SELECT * "
     "FROM jobs WHERE manual) WHERE field > 'field 3') ON c = code) GROUP BY g", 4),
    ("SELECT grade, COUNT(*) AS n FROM spells LEFT JOIN (SELECT * FROM jobs WHERE code > '057') USING (code) "
     "GROUP BY 1", 3),
]  # fmt: skip
UNKNOWN = [
    *(
        f"SELECT grade, COUNT(*) AS n FROM spells JOIN ({jobs}) USING (code) GROUP BY grade"
        for jobs in (
            "SELECT * FROM jobs WHERE code IN (SELECT code FROM jobs WHERE manual)",
            "SELECT grade, MAX(code) AS code FROM jobs WHERE manual GROUP BY grade",
            "SELECT * FROM jobs WHERE manual LIMIT 9",
            "SELECT * FROM jobs WHERE manual UNION SELECT * FROM jobs WHERE NOT manual",
            "SELECT a.* FROM jobs a JOIN jobs b USING (field) WHERE a.manual",
            "SELECT * FROM jobs TABLESAMPLE 50 PERCENT WHERE manual",
        )
    ),
    "WITH m AS (SELECT day FROM months ORDER BY day LIMIT 3) "
    "SELECT day, COUNT(*) AS n FROM spells JOIN m ON begin <= day GROUP BY day",
    "SELECT wage, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY wage",
    "SELECT code, COUNT(*) AS n FROM spells GROUP BY code",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (group_selection_strategy = LAPLACE_THRESHOLD) grade, COUNT(*) AS n "
    "FROM spells JOIN jobs USING (code) GROUP BY grade",
]


@pytest.fixture(autouse=True)
def unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("question", "groups"), KNOWN)
def test_all_groups_of_a_public_column_are_there(question, groups):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), max_rows=2) as session:
        asked, answer = is_what_a_database_says(session, question)
        assert asked.question.selects[0].selection == "all"
        assert asked.plan.threshold_delta == 0
        assert len(answer) == groups


@pytest.mark.parametrize("question", UNKNOWN)
def test_others_are_those_of_enough_people(question):
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:"), max_rows=2) as session:
        assert session.sql(question, epsilon=1.0).question.selects[0].selection == "threshold"


def test_a_budget_without_delta_has_them_and_an_error_can_be_asked_for():
    with opened(dpn.Session(dpn.Budget(1.0), ":memory:", confirm="never"), max_rows=2) as session:
        asked = session.sql(KNOWN[0][0], error=500)  # up to 24 rows of each of two count, so a look finds how many
        assert "error=500 is kept" in str(asked.plan)
        frame = asked.run().frame
        assert len(frame) == 24
        assert ((frame.n_upper - frame.n_lower) / 2 <= 500).all()
        with pytest.raises(dpn.SQLError, match="which groups of wage exist is not known beforehand"):
            _ = session.sql(next(one for one in UNKNOWN if "wage" in one), epsilon=0.1).plan


def test_the_rows_that_a_table_has_now_say_which_groups_there_are():
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        first = session.sql(KNOWN[0][0], epsilon=1.0).run()
        assert session.sql(KNOWN[0][0], epsilon=1.0).plan.free
        session.register(MONTHS[MONTHS["day"] >= "2024-01-01"], "months", public=True)
        again = session.sql(KNOWN[0][0], epsilon=1.0, fresh=True)
        assert len(again.run().frame) == 10
        assert len(first.frame) == 24


def test_a_part_of_the_groups_is_free_after_all_of_them():
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        known = session.sql(KNOWN[7][0], epsilon=1.0).run().frame.set_index("job")["n"]
        part = session.sql(KNOWN[7][0].replace(" GROUP", " WHERE job IN ('cook', 'smith') GROUP"), epsilon=1.0)
        assert part.plan.free
        assert part.run().frame.set_index("job")["n"].to_dict() == known[["cook", "smith"]].to_dict()
        assert not session.sql(
            KNOWN[7][0].replace("job,", "grade,").replace("BY job", "BY grade"), epsilon=1.0
        ).plan.free


def test_what_was_released_by_a_threshold_stays_free(monkeypatch):
    text = KNOWN[-5][0]
    with opened(dpn.Session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        known = session._statements.relations.known
        monkeypatch.setitem(known, "jobs", replace(known["jobs"], levels=None))  # as before they were known
        earlier = session.sql(text, epsilon=20.0).run()
        assert session.sql(text, epsilon=20.0).question.selects[0].selection == "threshold"
        monkeypatch.undo()
        monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
        again = session.sql(text, epsilon=20.0)
        assert again.plan.free
        pd.testing.assert_frame_equal(again.run().frame, earlier.frame)
        assert session.sql(text, epsilon=20.0, fresh=True).question.selects[0].selection == "all"


def test_of_ten_thousand_values_all_are_looked_up():
    places = pd.DataFrame({"code": [f"{number:05d}" for number in range(10_000)], "more": np.arange(10_000) % 3})
    rows = pd.DataFrame({"person": np.arange(5_000), "place": RANDOM.choice(places["code"], 5_000), "sex": "F"})
    with exact_session(dpn.Budget(10_000.0, 1e-6)) as session:
        session.protect(rows, "visits", unit="person", max_rows=1, domain={"sex": ["F", "M"]})
        session.register(places, "places", public=True)
        text = "SELECT p.code, COUNT(*) AS n FROM visits v JOIN places p ON v.place = p.code GROUP BY p.code"
        answer = session.sql(text, epsilon=500.0).run().frame
        truth = rows["place"].value_counts().reindex(places["code"], fill_value=0)
        assert len(answer) == 10_000
        assert answer.set_index("code")["n"].reindex(truth.index).round().astype(int).tolist() == truth.tolist()
        session.register(pd.concat([places, places.assign(code=lambda one: "x" + one["code"])]), "places", public=True)
        assert session.sql(text, epsilon=1.0).question.selects[0].selection == "threshold"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (0, 5, 8, 11)])
def test_databases(question, groups, spells_in_databases):
    for data in spells_in_databases:
        with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), data, max_rows=2) as session:
            _, answer = is_what_a_database_says(session, question)
            assert len(answer) == groups


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (1, 11)])
def test_spark(question, groups, spark):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), spark.createDataFrame(SPELLS), max_rows=2) as session:
        _, answer = is_what_a_database_says(session, question)
        assert len(answer) == groups


def test_values_in_order_have_a_number_each():
    with opened(exact_session(dpn.Budget(1000.0, 1e-6)), max_rows=2) as session:
        keys = session.sql(KNOWN[0][0], epsilon=1.0).question.selects[0].keys
        assert list(keys[0].levels) == MONTHS["day"].dt.to_pydatetime().tolist()
        both = session.sql(KNOWN[1][0], epsilon=1.0).question.selects[0].keys
        assert [len(key.levels) for key in both] == [24, 2]
        assert all(one < other for one, other in itertools.pairwise(keys[0].levels))

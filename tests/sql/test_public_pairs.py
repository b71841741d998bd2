"""Groups by several columns of public tables: those that the table has, and no others, are there whoever is in them."""

import numpy as np
import pandas as pd
import pytest
from public_spells import JOBS, SPELLS, STOCK, groups_of, is_what_a_database_says, of_public_tables, opened

import dpnotebook as dpn
from dpnotebook.testing import exact_session

PAIRS = "SELECT job, grade, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY job, grade"
MANUAL = "SELECT manual, field, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY manual, field"
KNOWN = [  # question, the groups that the public tables have
    (MANUAL, "SELECT DISTINCT manual, field FROM jobs"),  # 30 of 60
    (PAIRS, "SELECT DISTINCT job, grade FROM jobs"),
    (PAIRS.replace("JOIN", "LEFT JOIN"), "SELECT DISTINCT job, grade FROM jobs UNION SELECT NULL, NULL"),
    ("SELECT grade, sex, job, COUNT(*) AS n, COUNT(DISTINCT person) AS people FROM spells JOIN jobs USING (code) "
     "GROUP BY grade, sex, job", "SELECT DISTINCT grade, sex, job FROM jobs, (VALUES ('F'), ('M')) AS s(sex)"),
    (PAIRS.replace("GROUP", "WHERE field > 'field 2' GROUP"), "SELECT DISTINCT job, grade FROM jobs WHERE field > "
     "'field 2'"),
    (PAIRS.replace("GROUP", "WHERE job = 'baker''s' GROUP"), "SELECT DISTINCT job, grade FROM jobs WHERE job = "
     "'baker''s'"),
    (PAIRS.replace("GROUP", "WHERE job = 'cook' OR grade = 2 GROUP"), "SELECT DISTINCT job, grade FROM jobs WHERE "
     "job = 'cook' OR grade = 2"),
    (f"SELECT day, seen, COUNT(*) AS n {STOCK} GROUP BY day, seen", "SELECT DISTINCT day, seen FROM months"),
    (f"SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) AS n {STOCK} GROUP BY y, m",
     "SELECT DISTINCT YEAR(day), MONTH(day) FROM months"),
    ("SELECT day, manual, seen, field, COUNT(*) AS n FROM spells JOIN jobs USING (code) JOIN months ON begin <= day "
     "GROUP BY 1, 2, 3, 4", "SELECT DISTINCT day, manual, seen, field FROM jobs, months"),
    ("SELECT s.code, j.grade, COUNT(*) AS n FROM spells s JOIN jobs j ON s.code = j.code AND j.grade > 1 GROUP BY 1, 2",
     "SELECT code, grade FROM jobs"),
    ("SELECT COALESCE(job, 'no job') AS j, grade, COUNT(*) AS n FROM spells LEFT JOIN jobs USING (code) GROUP BY 1, 2",
     "SELECT DISTINCT COALESCE(job, 'no job'), grade FROM jobs UNION SELECT 'no job', NULL"),
    ("SELECT f, m, COUNT(*) AS n FROM (SELECT person, field AS f, manual AS m FROM spells JOIN jobs USING (code)) "
     "GROUP BY f, m", "SELECT DISTINCT field, manual FROM jobs"),
    ("WITH j AS (SELECT DISTINCT code, field, manual FROM jobs) SELECT field, manual, COUNT(*) AS n FROM spells "
     "JOIN j USING (code) GROUP BY 1, 2", "SELECT DISTINCT field, manual FROM jobs"),
    ("SELECT job, grade, COUNT(*) AS n FROM spells JOIN (SELECT * FROM jobs WHERE manual) USING (code) WHERE grade > 1 "
     "GROUP BY 1, 2", "SELECT DISTINCT job, grade FROM jobs WHERE manual AND grade > 1"),
    # of two rows of one table, which may be any
    ("SELECT a.grade AS a, b.grade AS b, COUNT(*) AS n FROM spells JOIN jobs a USING (code) JOIN jobs b "
     "ON a.grade > b.grade GROUP BY 1, 2", "SELECT DISTINCT a.grade, b.grade FROM jobs a, jobs b"),
    ("WITH j AS (SELECT code, field, manual FROM jobs) SELECT a.field, b.manual, COUNT(*) AS n FROM spells "
     "JOIN j a USING (code) JOIN j b ON a.field > b.field GROUP BY 1, 2",
     "SELECT DISTINCT a.field, b.manual FROM jobs a, jobs b"),
]  # fmt: skip
UNKNOWN = [
    "SELECT job, wage, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY job, wage",
    "SELECT job, grade, COUNT(*) AS n FROM spells JOIN (SELECT * FROM jobs LIMIT 9) USING (code) GROUP BY 1, 2",
]


@pytest.fixture(autouse=True)
def unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("question", "groups"), KNOWN)
def test_the_groups_that_a_public_table_has_are_there_and_no_others(question, groups):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), max_rows=2) as session:
        asked, answer = is_what_a_database_says(session, question)
        assert asked.question.selects[0].selection == "all"
        assert asked.plan.threshold_delta == 0
        shown = groups_of(answer)
        assert len(shown) == len(set(shown))
        assert set(shown) == of_public_tables(groups)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("question", [question for question, _ in KNOWN])
def test_which_groups_are_shown_does_not_depend_on_who_is_there(question):
    shown = []
    for data in (SPELLS, SPELLS[:1], SPELLS.assign(code="none")):
        with opened(dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never"), data, max_rows=2) as session:
            shown.append(groups_of(session.sql(question, epsilon=1.0).run().frame))
    assert shown[0] == shown[1] == shown[2]


def test_a_condition_on_a_protected_column_hides_no_group_where_the_public_table_has_one_of_that_name():
    with exact_session(dpn.Budget(10_000.0, 1e-6)) as session:
        session.protect(SPELLS, "spells", unit="person", max_rows=2, domain={"sex": ["F", "M"]})
        session.register(pd.concat([JOBS.assign(sex="F"), JOBS[59:].assign(sex="M")]), "jobs", public=True)
        text = "SELECT s.code, COUNT(*) AS n FROM spells s JOIN jobs j ON s.code = j.code WHERE s.sex = 'M' GROUP BY 1"
        shown = session.sql(text, epsilon=200.0).run().frame.set_index("code")["n"]
        truth = SPELLS[SPELLS["sex"] == "M"]["code"].value_counts().reindex(JOBS["code"], fill_value=0)
        truth["059"] *= 2
        assert shown.round().astype(int).to_dict() == truth.to_dict()


@pytest.mark.parametrize("question", UNKNOWN)
def test_others_are_those_of_enough_people(question):
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:"), max_rows=2) as session:
        assert session.sql(question, epsilon=1.0).question.selects[0].selection == "threshold"


def test_parts_are_free_and_others_are_not():
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        assert session.sql(MANUAL, error=500).plan.error <= 500
        known = session.sql(MANUAL, epsilon=1.0).run().frame
        assert len(known) == 30
        part = session.sql(MANUAL.replace("GROUP", "WHERE field IN ('field 1', 'field 3') GROUP"), epsilon=1.0)
        assert part.plan.free
        assert part.run().frame["n"].tolist() == known[known["field"].isin(["field 1", "field 3"])]["n"].tolist()
        turned = session.sql(MANUAL.replace("manual, field", "field, manual"), epsilon=1.0)
        assert turned.plan.free
        by = ["field", "manual"]
        assert turned.run().frame[[*by, "n"]].to_dict("list") == known.sort_values(by)[[*by, "n"]].to_dict("list")
        assert not session.sql(PAIRS, epsilon=1.0).plan.free


@pytest.mark.parametrize("keys", ["manual, field", "manual, sex", "manual"])
def test_groups_of_which_a_truth_value_holds_are_free_after_all_of_them(keys):
    text = f"SELECT {keys}, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY {keys}"
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        known = session.sql(text, epsilon=1.0).run().frame
        for condition, held in (
            *(("manual", True), ("NOT manual", False), ("manual = FALSE", False), ("manual IS TRUE", True)),
            *(("manual IS NOT TRUE", False), ("NOT (NOT manual)", True), ("(manual IS FALSE) IS FALSE", True)),
        ):
            part = session.sql(text.replace("GROUP", f"WHERE {condition} GROUP"), epsilon=1.0)
            assert part.plan.free, condition
            pd.testing.assert_frame_equal(part.run().frame, known[known["manual"] == held].reset_index(drop=True))


def test_a_truth_value_that_is_missing_is_in_no_group_of_either():
    some = JOBS.assign(manual=JOBS["manual"].astype(object).where(np.arange(60) % 4 > 0))
    text = "SELECT manual, COUNT(*) AS n FROM spells JOIN jobs USING (code) GROUP BY manual"
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        session.register(some.astype({"manual": "boolean"}), "jobs", public=True)
        known = session.sql(text, epsilon=1.0).run().frame["n"]
        assert len(known) == 3
        for condition, places in (("manual", [1]), ("NOT manual", [0]), ("manual IS NOT TRUE", [0, 2])):
            part = session.sql(text.replace("GROUP", f"WHERE {condition} GROUP"), epsilon=1.0)
            assert part.plan.free, condition
            assert part.run().frame["n"].tolist() == known[places].tolist()


def test_the_rows_that_a_table_has_now_say_which_groups_there_are():
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        assert len(session.sql(MANUAL, epsilon=1.0).run().frame) == 30
        other = JOBS.assign(manual=np.arange(60) % 30 < 10)  # of the same values, with other pairs
        session.register(other, "jobs", public=True)
        again = session.sql(MANUAL, epsilon=1.0, fresh=True)
        assert not again.plan.free
        shown = groups_of(again.run().frame)
        assert set(shown) == set(map(tuple, other[["manual", "field"]].to_numpy()))


def test_what_was_released_by_a_threshold_stays_free(monkeypatch):
    from dataclasses import replace

    with opened(dpn.Session(dpn.Budget(50.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        known = session._statements.relations.known
        monkeypatch.setitem(known, "jobs", replace(known["jobs"], groups=None))
        earlier = session.sql(MANUAL, epsilon=20.0).run()
        assert session.sql(MANUAL, epsilon=20.0).question.selects[0].selection == "threshold"
        monkeypatch.undo()
        monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
        again = session.sql(MANUAL, epsilon=20.0)
        assert again.plan.free
        pd.testing.assert_frame_equal(again.run().frame, earlier.frame)


def test_of_ten_thousand_pairs_all_are_looked_up_and_of_more_none():
    places = pd.DataFrame({"code": np.arange(10_000), "one": np.arange(10_000) // 100, "two": np.arange(10_000) % 100})
    rows = pd.DataFrame({"person": np.arange(5_000), "code": np.arange(5_000) * 7 % 10_000, "sex": "F"})
    with exact_session(dpn.Budget(10_000.0, 1e-6)) as session:
        session.protect(rows, "visits", unit="person", max_rows=1, domain={"sex": ["F", "M"]})
        session.register(places, "places", public=True)
        text = "SELECT one, two, COUNT(*) AS n FROM visits JOIN places USING (code) GROUP BY one, two"
        answer = session.sql(text, epsilon=500.0).run().frame.set_index(["one", "two"])["n"]
        truth = rows.merge(places).groupby(["one", "two"]).size().reindex(answer.index, fill_value=0)
        assert len(answer) == 10_000
        assert answer.round().astype(int).tolist() == truth.tolist()
        session.register(pd.concat([places, places.assign(one=100)[:1]]), "places", public=True)
        assert session.sql(text, epsilon=1.0).question.selects[0].selection == "threshold"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (2, 7, 8)])
def test_databases(question, groups, spells_in_databases):
    for data in spells_in_databases:
        with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), data, max_rows=2) as session:
            _, answer = is_what_a_database_says(session, question)
            assert set(groups_of(answer)) == of_public_tables(groups)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (2, 8)])
def test_spark(question, groups, spark):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), spark.createDataFrame(SPELLS), max_rows=2) as session:
        _, answer = is_what_a_database_says(session, question)
        assert set(groups_of(answer)) == of_public_tables(groups)

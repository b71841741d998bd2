"""Public tables on the kept side of an outer join: all of their groups are there, and nothing says who is in none."""

import contextlib

import numpy as np
import pandas as pd
import public_spells
import pytest
from joined_tables import components_of, influence, owned
from padded_statements import RELATIONS, Padded, check, connect
from public_spells import JOBS, MONTHS, SPELLS, groups_of, is_what_a_database_says, of_public_tables, opened

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.testing import exact_session

ON = "ON s.begin <= m.day AND (s.until > m.day OR s.until IS NULL)"
STOCK = f"FROM months m LEFT JOIN spells s {ON}"
BY_JOB = "FROM jobs j LEFT JOIN spells s ON s.code = j.code"
DAYS, GRADES = "SELECT day FROM months", "SELECT DISTINCT grade FROM jobs"
KNOWN = [  # question, the groups that the public tables have
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} GROUP BY m.day", DAYS),
    (f"SELECT m.day, COUNT(s.person) AS n FROM spells s RIGHT JOIN months m {ON} GROUP BY m.day", DAYS),
    (f"SELECT m.day, COUNT(s.person) AS n, COUNT(DISTINCT s.person) AS people {STOCK} WHERE m.seen GROUP BY m.day",
     f"{DAYS} WHERE seen"),
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} AND m.seen GROUP BY m.day", DAYS),
    (f"SELECT m.day, COUNT(*) AS n {STOCK} WHERE s.sex = 'F' GROUP BY m.day", DAYS),
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} WHERE s.sex = 'F' OR s.sex IS NULL GROUP BY m.day", DAYS),
    ("SELECT m.day, COUNT(s.sex) AS n FROM months m LEFT JOIN spells s ON s.begin <= m.day "
     "WHERE s.until > m.day OR s.until IS NULL GROUP BY m.day", DAYS),
    (f"SELECT YEAR(m.day) AS y, COUNTIF(s.sex = 'F') AS n {STOCK} GROUP BY y", "SELECT DISTINCT YEAR(day) FROM months"),
    (f"SELECT m.day, m.seen, SUM(CASE WHEN s.sex = 'F' THEN 1 ELSE 0 END) AS n {STOCK} GROUP BY 1, 2",
     "SELECT day, seen FROM months"),
    (f"SELECT COUNT(s.person) AS n {STOCK}", "SELECT 1 WHERE FALSE"),
    (f"SELECT j.grade, COUNT(s.person) AS n {BY_JOB} GROUP BY j.grade", GRADES),
    ("SELECT grade, COUNT(person) AS n FROM jobs LEFT JOIN spells USING (code) GROUP BY grade", GRADES),
    ("SELECT code, COUNT(person) AS n FROM spells RIGHT OUTER JOIN jobs USING (code) GROUP BY code",
     "SELECT code FROM jobs"),
    (f"SELECT j.code, j.job, j.grade, COUNT(s.person) AS n, COUNT(s.person) / MAX(j.grade) AS d {BY_JOB} "
     "GROUP BY 1, 2, 3", "SELECT code, job, grade FROM jobs"),
    (f"SELECT j.manual, j.field, COUNT(s.person) AS n {BY_JOB} GROUP BY 1, 2",
     "SELECT DISTINCT manual, field FROM jobs"),
    ("SELECT m.day, j.manual, COUNT(s.person) AS n FROM months m CROSS JOIN jobs j LEFT JOIN spells s "
     "ON s.begin <= m.day AND s.code = j.code GROUP BY 1, 2", "SELECT DISTINCT day, manual FROM months, jobs"),
    ("SELECT j.grade, COUNT(s.person) AS n FROM jobs j LEFT JOIN months m ON m.seen = j.manual LEFT JOIN spells s "
     "ON s.code = j.code AND s.begin <= m.day GROUP BY 1", GRADES),
    (f"SELECT day, COUNT(DISTINCT person) AS people, COUNT(w) AS n FROM (SELECT m.day, s.person, UPPER(s.sex) AS w "
     f"{STOCK}) GROUP BY day", DAYS),
    (f"WITH x AS (SELECT s.*, m.* {STOCK}) SELECT day, COUNT(person) AS n FROM x WHERE seen OR NOT seen GROUP BY day",
     DAYS),
    (f"SELECT day, COUNT(n) AS n FROM (SELECT m.day, s.person, MAX(s.begin) AS n {STOCK} GROUP BY m.day, s.person) "
     "GROUP BY day", DAYS),
    (f"WITH m AS (SELECT day FROM months WHERE YEAR(day) = 2024) SELECT m.day, COUNT(s.person) AS n FROM m LEFT JOIN "
     f"spells s {ON} GROUP BY m.day", f"{DAYS} WHERE YEAR(day) = 2024"),
    (f"SELECT m.day, s.sex, COUNT(s.person) AS n {STOCK} GROUP BY 1, 2",
     "SELECT day, s FROM months, (VALUES ('F'), ('M')) AS s(s)"),
    (f"SELECT m.day, COALESCE(s.sex, 'none') AS s, COUNT(s.person) AS n {STOCK} GROUP BY 1, 2",
     "SELECT day, s FROM months, (VALUES ('F'), ('M'), ('none')) AS s(s)"),
]  # fmt: skip
PLACES = "(line 1, column"
REFUSED = [  # question, words, what is written instead and means the same
    (f"SELECT m.day, COUNT(*) AS n {STOCK} GROUP BY m.day", "write COUNT(s.person)", "COUNT(s.person)"),
    (f"SELECT m.day, COUNT(1) AS n {STOCK} GROUP BY m.day", "also counts rows of m that no row of s meets", None),
    (f"SELECT m.day, COUNT(m.day) AS n {STOCK} GROUP BY m.day",
     "COUNT(m.day) FILTER (WHERE s.person IS NOT NULL)", "COUNT(m.day) FILTER (WHERE s.person IS NOT NULL)"),
    (f"SELECT m.day, AVG(CASE WHEN s.sex = 'F' THEN 1 ELSE 0 END) AS n {STOCK} GROUP BY m.day", "FILTER (WHERE", None),
    (f"SELECT m.day, COUNTIF(m.seen) AS n {STOCK} GROUP BY m.day", "add AND s.person IS NOT NULL to its condition",
     "COUNTIF(m.seen AND s.person IS NOT NULL)"),
    (f"SELECT m.day, SUM(COALESCE(s.person, 1)) AS n {STOCK} GROUP BY m.day", "has a value also in rows", None),
    (f"SELECT m.day, COUNT(DISTINCT COALESCE(s.sex, 'none')) AS n {STOCK} GROUP BY m.day", "has a value also", None),
    (f"SELECT m.day, COUNT(CONCAT(s.sex, 'x')) AS n {STOCK} GROUP BY m.day", "has a value also in rows", None),
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} WHERE s.person IS NULL GROUP BY m.day",
     "whether there is one may be about a single person", None),
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} WHERE m.seen AND NOT (s.sex IS NOT NULL) GROUP BY 1",
     "behind ON", None),
    (f"SELECT m.day, COUNT(s.person) AS n {STOCK} WHERE COALESCE(s.sex, 'F') = 'F' GROUP BY 1", "behind ON", None),
    (f"SELECT m.day {STOCK} WHERE s.person IS NULL GROUP BY m.day", "aggregate", None),
    (f"SELECT COUNT(*) AS n {STOCK}", "COUNT(s.person)", "COUNT(s.person)"),
    (f"SELECT day, COUNT(*) AS n FROM (SELECT m.day, s.person AS who {STOCK}) GROUP BY 1", "COUNT(who)", "COUNT(who)"),
    (f"SELECT COUNT(*) AS n FROM (SELECT s.person, COUNT(*) AS k {STOCK} GROUP BY s.person) WHERE k > 2",
     "COUNT(person)", "COUNT(person)"),
    (f"SELECT SUM(z) AS n FROM (SELECT m.day, s.person, CASE WHEN s.person IS NULL THEN 1 ELSE 0 END AS z {STOCK})",
     "has a value also in rows", None),
    (f"SELECT COUNT(*) AS n FROM months m FULL JOIN spells s {ON}", "LEFT JOIN for all of the public table", None),
]  # fmt: skip


@pytest.fixture(autouse=True)
def unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("question", "groups"), KNOWN)
def test_all_groups_of_the_public_side_are_there(question, groups):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), max_rows=40) as session:
        asked, answer = is_what_a_database_says(session, question)
        assert asked.question.selects[0].selection == "all"
        assert asked.plan.threshold_delta == 0
        shown = groups_of(answer)
        assert len(shown) == len(set(shown))
        assert set(shown) == of_public_tables(groups)


@pytest.mark.parametrize(
    "question",
    [
        f"SELECT m.day, COUNT(s.person) AS n, COUNT(DISTINCT s.person) AS people {STOCK} GROUP BY m.day",
        f"SELECT j.code, COUNT(s.person) AS n {BY_JOB} GROUP BY j.code",
        f"SELECT j.job, j.field, COUNT(s.person) AS n {BY_JOB} GROUP BY j.job, j.field",
        f"SELECT s.code, COUNT(s.person) AS n {BY_JOB} GROUP BY s.code",
        "SELECT code, COUNT(person) AS n FROM jobs LEFT JOIN spells USING (code) GROUP BY code",
        "SELECT j.grade, COUNT(s.person) AS n FROM jobs j LEFT JOIN spells s ON s.code IS NOT DISTINCT FROM j.code "
        "GROUP BY j.grade",
        f"SELECT m.day, j.grade, COUNT(s.person) AS n {STOCK} LEFT JOIN jobs j ON j.code = s.code GROUP BY 1, 2",
        f"SELECT j.grade, COUNT(*) AS n {STOCK} JOIN jobs j ON j.code = s.code GROUP BY 1",
    ],
)
def test_keys_that_are_missing_or_twice_or_unknown_on_either_side(question, monkeypatch):
    random = np.random.default_rng(3)
    gone = random.random((2, len(SPELLS))) < 0.1
    spells = SPELLS.assign(code=SPELLS["code"].mask(gone[0], None), begin=SPELLS["begin"].mask(gone[1]))
    more = [JOBS, JOBS[:7].assign(job="twice"), JOBS[:3].assign(code=None, job="nowhere", field=None)]
    monkeypatch.setattr(public_spells, "SPELLS", spells)
    monkeypatch.setattr(public_spells, "JOBS", pd.concat(more, ignore_index=True))
    monkeypatch.setattr(public_spells, "MONTHS", pd.concat([MONTHS, pd.DataFrame({"day": [pd.NaT], "seen": [True]})]))
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), spells, max_rows=60) as session:
        asked, _ = is_what_a_database_says(session, question)
        assert asked.question.selects[0].selection == "all"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("question", [question for question, _ in KNOWN])
def test_which_groups_are_shown_does_not_depend_on_who_is_there(question):
    shown = []
    for data in (SPELLS, SPELLS[:1], SPELLS.assign(code="none", begin=pd.Timestamp("2030-01-01"))):
        with opened(dpn.Session(dpn.Budget(10.0), ":memory:", confirm="never"), data, max_rows=2) as session:
            shown.append(groups_of(session.sql(question, epsilon=1.0).run().frame))
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize(("question", "words", "instead"), REFUSED)
def test_what_padded_rows_would_add_to_is_refused_and_what_is_written_instead_runs(question, words, instead):
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        with pytest.raises(SQLError) as error:
            session.sql(question, epsilon=1.0)
        assert words in str(error.value)
        assert PLACES in str(error.value)
        if instead is not None:
            place = question.index("COUNT")
            asked = question[:place] + instead + question[question.index(" AS n", place) :]
            assert "n" in session.sql(asked, epsilon=1.0).run().frame


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_random_statements_mean_what_duckdb_says(seed):
    rng = np.random.default_rng(seed)
    writer, known, accepted = Padded(rng), [connect(rng) for _ in range(4)], 0
    for _ in range(120):
        statement = writer.statement()
        with contextlib.suppress(SQLError):
            accepted += all(check(connection, statement) for connection in known)
    assert 40 < accepted < 90
    for connection in known:
        connection.close()


def test_the_test_of_meaning_sees_rows_that_are_missing():
    rng = np.random.default_rng(5)
    known = [connect(rng) for _ in range(4)]
    for asked, means in (
        ("SELECT m.k AS g, COUNT(*) AS n FROM p m JOIN a s ON m.k = s.k GROUP BY 1",
         "SELECT m.k AS g, COUNT(*) AS n FROM p m LEFT JOIN a s ON m.k = s.k GROUP BY 1"),
        ("SELECT m.k AS g, COUNT(s.id) AS n FROM p m JOIN a s ON m.k = s.k GROUP BY 1",
         "SELECT m.k AS g, COUNT(s.id) AS n FROM p m JOIN a s ON m.k = s.k WHERE s.x > 0 GROUP BY 1"),
    ):  # fmt: skip
        assert not all(same(connection, asked, means) for connection in known)


def same(connection, asked, means):
    try:
        return check(connection, asked, means)
    except AssertionError:
        return False


def random_selects(seed, count):
    rng = np.random.default_rng(seed)
    writer, found = Padded(rng), 0
    while found < count:
        try:
            statement = analyse(writer.statement(), RELATIONS)
        except SQLError:
            continue
        found += 1
        for select in statement.selects:
            yield select, connect(rng)


def test_whoever_leaves_takes_their_rows_along_and_no_others():
    for select, connection in random_selects(11, 40):
        assert owned(connection, select, RELATIONS) is None, select.rows


def test_whoever_leaves_changes_no_more_than_is_paid_for():
    largest = 0.0
    for select, connection in random_selects(12, 25):
        found = influence(connection, select, RELATIONS, components_of(select))
        assert np.all(found <= 1 + 1e-12), (select.rows, found)
        largest = max(largest, found.max())
    assert largest > 0.9  # somebody does change as much


def test_somebody_whom_many_public_rows_meet_counts_no_more_than_a_bound_says():
    rows = pd.DataFrame({"person": np.arange(200), "begin": pd.Timestamp("2020-01-01"), "sex": "F"})
    rows["until"], rows["code"] = pd.NaT, "000"
    text = f"SELECT m.day, COUNT(s.person) AS n {STOCK} GROUP BY m.day"
    with opened(exact_session(dpn.Budget(1_000.0)), rows, max_rows=1) as session:
        release = session.sql(text, epsilon=100.0, contribution="rows").run()
        contribution = session.sql(text, epsilon=100.0, contribution="rows").question.selects[0].contribution
        assert release.frame["n"].sum() == 200 * contribution.most < 200 * 24


def test_the_same_as_an_inner_join_costs_once():
    for turned in (False, True):
        texts = [f"SELECT m.day, COUNT(s.person) AS n {source} GROUP BY m.day"
                 for source in (STOCK, STOCK.replace("LEFT ", ""))]  # fmt: skip
        texts += [f"SELECT m.day, COUNT(s.person) AS n {STOCK} AND s.sex = 'F' GROUP BY m.day"]
        texts += [f"SELECT m.day, COUNT(*) AS n {STOCK.replace('LEFT ', '')} AND s.sex = 'F' GROUP BY m.day"]
        for first, second in (texts[:2], texts[2:]):
            first, second = (second, first) if turned else (first, second)
            with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
                known = session.sql(first, epsilon=1.0).run().frame
                again = session.sql(second, epsilon=1.0)
                assert again.plan.free
                pd.testing.assert_frame_equal(again.run().frame, known)


def test_parts_are_free_and_an_error_can_be_asked_for():
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        text = f"SELECT j.field, COUNT(s.person) AS n {BY_JOB} GROUP BY j.field"
        assert session.sql(text, error=500).plan.error <= 500
        known = session.sql(text, epsilon=1.0).run().frame
        assert session.sql(text, epsilon=1.0).plan.free
        part = session.sql(text.replace("GROUP", "WHERE j.field IN ('field 2', 'field 1') GROUP"), epsilon=1.0)
        assert part.plan.free
        assert part.run().frame["n"].tolist() == known[known["field"].isin(["field 1", "field 2"])]["n"].tolist()
        assert session.sql(f"{text} HAVING n > 100", epsilon=1.0).plan.free
        other = text.replace("s.person", "s.sex")
        told = session.sql(other, epsilon=1.0, fresh=True).plan.steps
        assert any("all groups of j are shown" in step and "counts and sums are about 0" in step for step in told)


def test_where_groups_are_not_known_the_plan_says_that_not_all_are_shown():
    text = "SELECT j.wage, COUNT(s.person) AS n FROM jobs j LEFT JOIN spells s ON s.code = j.code GROUP BY j.wage"
    with opened(dpn.Session(dpn.Budget(10.0, 1e-6), ":memory:", confirm="never"), max_rows=2) as session:
        asked = session.sql(text, epsilon=1.0)
        assert asked.question.selects[0].selection == "threshold"
        assert any("only groups with enough of s are shown" in step for step in asked.plan.steps)


def test_a_group_without_anybody_has_a_sum_about_nothing_and_no_average():
    spells = SPELLS.assign(days=np.arange(len(SPELLS)) % 100)
    text = f"SELECT m.day, SUM(s.days) AS d, AVG(s.days) AS a, COUNT(s.days) AS n {STOCK} GROUP BY m.day"
    with exact_session(dpn.Budget(10_000.0, 1e-6)) as session:
        domain = {"days": dpn.Range(0, 99), "sex": ["F", "M"]}
        session.protect(spells, "spells", unit="person", max_rows=2, domain=domain)
        session.register(MONTHS, "months", public=True)
        first = session.sql(text, epsilon=500.0).run().frame.iloc[0]
        assert abs(first["d"]) < 1
        assert abs(first["n"]) < 1
        assert pd.isna(first["a"]) or first["a_upper"] - first["a_lower"] > 90


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (0, 1, 4, 11, 13, 15)])
def test_databases(question, groups, spells_in_databases):
    for data in spells_in_databases:
        with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), data, max_rows=40) as session:
            _, answer = is_what_a_database_says(session, question)
            assert set(groups_of(answer)) == of_public_tables(groups)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "groups"), [KNOWN[place] for place in (0, 11, 14)])
def test_spark(question, groups, spark):
    with opened(exact_session(dpn.Budget(10_000.0, 1e-6)), spark.createDataFrame(SPELLS), max_rows=40) as session:
        _, answer = is_what_a_database_says(session, question)
        assert set(groups_of(answer)) == of_public_tables(groups)

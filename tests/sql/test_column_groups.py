"""Aggregates of disjoint rows side by side: measured as the grouping that they are, and never as other numbers."""

import contextlib
from itertools import combinations, pairwise

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.analysis.column_groups import _choice
from dpnotebook.sql.parse.statement_parser import read_surface
from dpnotebook.testing import exact_session

PEOPLE = 3_000
DOMAIN = {"region": ["North", "South", "West"]}
GROUPED = {  # what is measured of it, and by how many groups
    "filter": ("AVG(income) FILTER (WHERE region = 'North') AS a, AVG(income) FILTER (WHERE region = 'South') AS b", 1),
    "case": ("AVG(CASE WHEN region = 'North' THEN income END) AS a, AVG(IF(region = 'West', income, NULL)) AS b", 1),
    "sums": ("SUM(CASE WHEN employed THEN income ELSE 0 END) AS a, SUM(income) FILTER (WHERE NOT employed) AS b", 1),
    "bands": ("COUNTIF(age < 30) AS a, COUNTIF(age >= 30 AND age < 60) AS b, COUNTIF(60 <= age) AS c", 1),
    "others": (
        "MEDIAN(income) FILTER (WHERE region <> 'North') AS a, MEDIAN(income) FILTER (WHERE region = 'North') AS b",
        1,
    ),
    "between": ("STDDEV(income) FILTER (WHERE age BETWEEN 0 AND 29) AS a, "
    "STDDEV(CASE WHEN age > 29.5 THEN income END) AS b", 1),
    "difference": (
        "AVG(income) FILTER (WHERE employed) - AVG(income) FILTER (WHERE NOT employed) AS a, COUNTIF(employed) AS b, "
        "COUNTIF(NOT employed) AS c",
        2,
    ),
    "shares": (
        "COUNTIF(employed AND region = 'North') / COUNTIF(region = 'North') AS a, "
        "100 * COUNTIF(region = 'West' AND employed) / COUNTIF(region = 'West') AS b",
        1,
    ),
    "rates": (
        "SUM(CASE WHEN region = 'North' THEN income ELSE 0 END) / COUNTIF(region = 'North') AS a, "
        "SUM(income) FILTER (WHERE region = 'South') / COUNT(*) FILTER (WHERE region = 'South') AS b",
        1,
    ),
    "of one text or several": (
        "AVG(income) FILTER (WHERE region IN ('North', 'West')) AS a, AVG(income) FILTER (WHERE region = 'South') AS b",
        1,
    ),
}  # fmt: skip
ALONE = {  # that are measured each for itself
    "rows of both": "AVG(income) FILTER (WHERE age < 30) AS a, AVG(income) FILTER (WHERE age < 60) AS b",
    "ends of both": "COUNTIF(age <= 30) AS a, COUNTIF(age >= 30) AS b",
    "of all too": "COUNTIF(employed) AS a, COUNT(*) AS b",
    "other columns": "AVG(income) FILTER (WHERE employed) AS a, AVG(age) FILTER (WHERE NOT employed) AS b",
    "other conditions": "AVG(income) FILTER (WHERE employed) AS a, AVG(income) FILTER (WHERE region = 'West') AS b",
    "of all by 0": "AVG(CASE WHEN employed THEN income ELSE 0 END) AS a, "
    "AVG(CASE WHEN NOT employed THEN income ELSE 0 END) AS b",
    "one value in two ways": "COUNTIF(region = '1') AS a, COUNTIF(region = '1.0') AS b",
    "one text to a collation": "COUNTIF(region = 'Montréal') AS a, COUNTIF(region = 'MONTREAL ') AS b",
    "one alone": "AVG(income) FILTER (WHERE region = 'North') AS a",
    "own bounds": "AVG(income, contribution_bounds_per_group => (0, 9)) FILTER (WHERE employed) AS a, "
    "AVG(income, contribution_bounds_per_group => (0, 9)) FILTER (WHERE NOT employed) AS b",
}


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(5)
    income = random.gamma(2.0, 900.0, PEOPLE).round()
    return pd.DataFrame(
        {
            "person": np.arange(PEOPLE),
            "region": random.choice([*DOMAIN["region"], None], PEOPLE, p=[0.4, 0.3, 0.2, 0.1]),
            "age": random.integers(0, 90, PEOPLE).astype(float),
            "employed": random.random(PEOPLE) < 0.7,
            "income": np.where(random.random(PEOPLE) < 0.1, np.nan, income),
        }
    )


def protected(session, people, rows=1):
    session.protect(people, "people", unit="person", max_rows=rows, domain=DOMAIN, nullable=True)
    return session


def measured(query):
    return [(len(one.aggregates), len(one.keys)) for one in query.question.selects]


@pytest.mark.parametrize(("written", "aggregates"), GROUPED.values(), ids=GROUPED)
def test_one_grouping_is_measured_and_the_answers_are_duckdbs(people, written, aggregates, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {written} FROM people WHERE age <> 50"
    exact = duckdb.sql(text.replace("COUNTIF", "COUNT_IF")).df()
    with contextlib.closing(exact_session(dpn.Budget(30.0, 1e-6), ":memory:")) as session:
        query = protected(session, people).sql(text, epsilon=9.0)
        assert measured(query) == [(aggregates, 1)]
        answer = query.run().frame
    assert [name for name in answer.columns if len(name) == 1] == list(exact.columns)
    np.testing.assert_allclose(answer[exact.columns].astype(float), exact.astype(float), rtol=0.006, atol=0.02)
    assert {f"{name}_lower" for name in exact.columns} <= set(answer.columns)


@pytest.mark.parametrize("written", ALONE.values(), ids=ALONE)
def test_others_are_measured_each_for_itself(people, written):
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        query = protected(session, people).sql(f"SELECT {written} FROM people", epsilon=1.0)
        assert all(keys == 0 for _, keys in measured(query))


CONDITIONS = [
    *(f"age {sign} {end}" for sign in ("<", "<=", "=", ">=", ">", "<>") for end in (-1, 0.5, 1)),
    *("age BETWEEN 0 AND 1", "age BETWEEN 1 AND 2", "1 > age", "-1 = age", "age = '1'", "age <> '1'"),
    *("name = 'a'", "name <> 'a'", "name IN ('a', 'b')", "name IN ('b')", "name <> 'b'", "name = '1'"),
    *("there", "NOT there", "there = TRUE", "there <> FALSE", "there = FALSE"),
]


def test_what_is_taken_to_be_disjoint_has_no_row_in_both():
    """Held against all values that may lie between or at the ends of what is written, and missing ones."""
    ages = [None, *np.arange(-3, 4) / 2, float("nan"), float("inf")]
    names, truths = [None, "a", "b", "c", "A", "", "1"], [None, True, False]
    rows = duckdb.sql(
        "SELECT * FROM (SELECT unnest($ages)::DOUBLE AS age), (SELECT unnest($names) AS name), "
        "(SELECT unnest($truths)::BOOLEAN AS there)",
        params={"ages": ages, "names": names, "truths": truths},
    ).df()
    held, values = {}, {}
    for text in CONDITIONS:
        tree = read_surface(f"SELECT COUNT(*) FROM t WHERE {text}", {}).tree
        found = _choice(tree.args["where"].this)
        if found is not None:
            held[text] = duckdb.sql(f"SELECT coalesce({text}, false) AS held FROM rows").df().held.to_numpy(bool)
            values[text] = found
    assert len(rows) == len(ages) * len(names) * len(truths)
    disjoint = {pair for pair in combinations(values, 2) if values[pair[0]][0] == values[pair[1]][0]}
    disjoint = {pair for pair in disjoint if values[pair[0]][1].apart_from(values[pair[1]][1])}
    for one, other in disjoint:
        assert not (held[one] & held[other]).any(), (one, other)
    assert len(disjoint) > 40
    for pair in [
        ("age < 1", "age >= 1"),
        ("name = 'a'", "name <> 'a'"),
        ("age = 1", "age <> 1"),
        ("there", "NOT there"),
    ]:
        assert pair in disjoint or pair[::-1] in disjoint


FILTERED = (
    "SELECT AVG(income) FILTER (WHERE region = 'North') AS a, AVG(income) FILTER (WHERE region = 'South') AS b "
    "FROM people"
)
TURNED = (
    "SELECT AVG(CASE WHEN region = 'South' THEN income END) - AVG(IF(region = 'North', income, NULL)) AS d FROM people"
)
BY_GROUP = "SELECT region, AVG(income) AS a FROM people GROUP BY region"


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("rows", [1, 4], ids=["one row", "many rows"])
def test_what_groups_have_is_known_in_every_spelling(people, same_noise, rows, delta):
    frame = people if rows == 1 else people.assign(person=people.person // 3)
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, delta), ":memory:")) as session:
        protected(session, frame, rows)
        groups = session.sql(BY_GROUP, epsilon=1.0).run().frame.set_index("region").a
        for first, second in pairwise([BY_GROUP, FILTERED, TURNED]):
            assert session.sql(first, epsilon=1.0).plan.free
            assert session.sql(second, epsilon=1.0).plan.free
        told = session.sql(FILTERED, epsilon=1.0).run().frame
        assert (told.a[0], told.b[0]) == (groups["North"], groups["South"])
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, delta), ":memory:")) as session:
        protected(session, frame, rows)
        session.sql(FILTERED, epsilon=1.0).run()
        assert session.sql(FILTERED, epsilon=1.0).plan.free
        assert session.sql(TURNED, epsilon=1.0).plan.free


def test_groups_that_a_threshold_would_hide_are_grouped_by_their_conditions(people):
    text = "SELECT COUNTIF(region = 'North') AS a, COUNTIF(region = 'South') AS b FROM people"
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        session.protect(people, "people", unit="person", max_rows=1)
        (select,) = session.sql(text, epsilon=1.0).question.selects
        assert select.selection == "all"
        assert select.levels == ((0, 1),)


def test_what_was_paid_each_for_itself_stays_free(people, same_noise, monkeypatch):
    """As an earlier version released it."""
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-6), ":memory:")) as session:
        protected(session, people)
        with monkeypatch.context() as patch:
            patch.setattr("dpnotebook.sql.analysis.outer.as_groups", lambda select, by, text: None)
            before = session.sql(FILTERED, epsilon=1.0)
            assert measured(before) == [(2, 0)]
            paid = before.run()
        again = session.sql(FILTERED, epsilon=1.0)
        assert again.plan.free
        assert again.run().frame.a[0] == paid.frame.a[0]

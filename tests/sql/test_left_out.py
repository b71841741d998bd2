"""Rows with missing values of declared columns: counted where a statement speaks of them, and else told of."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

INCOME = '"income [EUR]"'


@pytest.fixture(scope="module")
def frame():
    """Return customers, some without an income, some of whom it is not known how many children they have."""
    random = np.random.default_rng(1)
    people = pd.DataFrame({"plan": random.choice(["S", "M"], 4_000), "income [EUR]": random.lognormal(10, 0.5, 4_000)})
    people["children"] = pd.Series(random.integers(0, 4, 4_000)).astype("Int64")
    people.loc[random.random(4_000) < 0.2, "income [EUR]"] = np.nan
    people.loc[random.random(4_000) < 0.1, "children"] = pd.NA
    return people


@pytest.fixture
def session(frame):
    """Return a session over them, with next to no noise."""
    domain = {"plan": ["S", "M"], "children": dpn.Range(0, 8), "income [EUR]": dpn.Bins(0, 200_000, width=5_000)}
    with closing(dpn.Session(dpn.Budget(10_000.0), ":memory:", confirm="never")) as opened:
        opened.protect(frame, "customers", domain=domain)
        yield opened


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (f"SELECT COUNT(*) AS n FROM customers WHERE {INCOME} IS NULL", lambda f: f["income [EUR]"].isna()),
        (
            f"SELECT COUNT(*) AS n FROM customers WHERE {INCOME} IS NULL OR {INCOME} < 20000",
            lambda f: f["income [EUR]"].isna() | (f["income [EUR]"] < 20_000),
        ),
        (f"SELECT COUNT(*) FILTER ({INCOME} IS NULL) AS n FROM customers", lambda f: f["income [EUR]"].isna()),
        (
            "SELECT COUNT(CASE WHEN children IS NULL AND plan = 'S' THEN 1 END) AS n FROM customers",
            lambda f: f["children"].isna() & (f["plan"] == "S"),
        ),
    ],
)
def test_rows_that_a_statement_speaks_of_are_counted(session, frame, text, rows):
    """It said 0, or that no row could satisfy it."""
    assert session.sql(text, epsilon=500.0).run().frame["n"][0] == pytest.approx(rows(frame).sum(), abs=1)


def test_so_are_groups_of_them(session, frame):
    bands = f"CASE WHEN {INCOME} >= 60000 THEN 'rich' WHEN {INCOME} IS NULL THEN 'unknown' ELSE 'other' END"
    found = session.sql(f"SELECT {bands} AS b, COUNT(*) AS n FROM customers GROUP BY b", epsilon=500.0).run().frame
    income = frame["income [EUR]"]
    exact = {"rich": (income >= 60_000).sum(), "unknown": income.isna().sum(), "other": (income < 60_000).sum()}
    assert dict(zip(found["b"], found["n"].round(), strict=True)) == pytest.approx(exact, abs=1)


def test_an_answer_says_which_rows_it_lacks(session, frame):
    release = session.sql("SELECT COUNT(*) AS n FROM customers", epsilon=500.0).run()
    assert release.frame["n"][0] == pytest.approx(len(frame.dropna()), abs=1)
    said = "rows with no plan, children or income [EUR], or with an undeclared plan, are left out, as declared"
    assert said in release.notes
    assert said in str(release)


def test_where_missing_values_are_declared_all_are_counted_and_nothing_is_said(frame):
    whole = {
        "plan": dpn.Categories(["S", "M"], nullable=True, other="other"),
        "children": dpn.Range(0, 8, nullable=True),
    }
    with closing(dpn.Session(dpn.Budget(10_000.0), ":memory:", confirm="never")) as session:
        session.protect(frame, "customers", domain=whole)
        release = session.sql("SELECT COUNT(*) AS n FROM customers", epsilon=500.0).run()
        assert release.frame["n"][0] == pytest.approx(len(frame), abs=1)
        assert release.notes == ()
        missing = session.sql("SELECT COUNT(*) AS n FROM customers WHERE children IS NULL", epsilon=500.0)
        assert "children" in missing.question.where.attributes  # the planner tells it
        assert missing.run().frame["n"][0] == pytest.approx(frame["children"].isna().sum(), abs=1)

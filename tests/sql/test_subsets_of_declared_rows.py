"""What is known of groups answers what is asked of some of them, or of all, also where units are declared with rows.

Rows are drawn of who has more than are declared: nobody has, by what is declared, so that a sample of the rows that a
statement is about is the sample of all of them.
"""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

KINDS = ["a", "b", "c"]
AGGREGATES = ["SUM(x)", "COUNT(x)", "AVG(x)", "MEDIAN(x)", "COUNT(*), AVG(x), MAX(x)", "COUNT(DISTINCT code)"]
FEWER = ["WHERE kind <> 'b'", "WHERE kind = 'a'", "WHERE kind IN ('a', 'c')"]


def people(most=1, size=900):
    random = np.random.default_rng(8)
    who = np.repeat(np.arange(size), random.integers(1, most + 1, size))
    return pd.DataFrame(
        {
            "who": who,
            "kind": random.choice(KINDS, who.size),
            "x": random.exponential(5, who.size),
            "code": random.choice(list("pqrstuvw"), who.size),
        }
    )


def opened(most, noise, declared=True, session=dpn.Session):
    budget = dpn.Budget(400.0, 1e-6) if noise == "gaussian" else dpn.Budget(400.0)
    made = session(budget, ":memory:", confirm="never") if session is dpn.Session else session(budget)
    domain = {"domain": {"kind": KINDS}} if declared else {}
    made.protect(people(most), "visits", unit="who", max_rows=most, **domain)
    return made


@pytest.mark.one_in(20)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("asked", AGGREGATES)
def test_some_of_the_groups_are_free(asked, most, noise):
    if noise == "laplace" and "MAX" in asked and most > 1:
        pytest.skip("asked in one way with a count, and in another without")
    with closing(opened(most, noise)) as session:
        first = session.sql(f"SELECT kind, {asked} FROM visits GROUP BY kind", epsilon=4).run().frame.set_index("kind")
        for fewer in FEWER:
            query = session.sql(f"SELECT kind, {asked} FROM visits {fewer} GROUP BY kind", epsilon=4)
            assert query.plan.free
            found = query.run().frame.set_index("kind")
            pd.testing.assert_frame_equal(found, first.loc[found.index])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("asked", ["SUM(x)", "AVG(x)", "COUNT(DISTINCT who), SUM(x)"])
def test_all_groups_together_are_free_where_a_unit_is_in_one(asked, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with closing(opened(1, "gaussian", session=exact_session)) as session:
        # Every row is in one of these groups, whatever its kind is.
        session.sql(f"SELECT kind = 'a' AS k, {asked} FROM visits GROUP BY k", epsilon=40).run()
        query = session.sql(f"SELECT {asked} FROM visits", epsilon=1)
        assert query.plan.free
        rows = people()
        exact = {"SUM(x)": [rows.x.sum()], "AVG(x)": [rows.x.mean()]}.get(asked, [rows.who.nunique(), rows.x.sum()])
        values = [column for column in query.run().frame if not column.endswith(("_error", "_lower", "_upper"))]
        np.testing.assert_allclose(query.run().frame.loc[0, values].to_numpy(dtype=float), exact, rtol=0.02)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("key", "free"),
    [
        ("CASE WHEN kind = 'a' THEN 'a' ELSE 'other' END", True),
        ("CASE WHEN x < 2 THEN 'low' WHEN x < 9 THEN 'mid' ELSE 'high' END", True),
        ("CASE WHEN kind = 'a' THEN 1 ELSE 2 END", True),
        ("CASE WHEN kind = 'a' THEN 'a' WHEN kind = 'b' THEN 'b' END", True),  # what is neither is a group, too
        ("kind", False),  # others than those declared are in no group
    ],
)
def test_the_groups_of_a_written_case_have_all_rows(key, free):
    rows = people()
    with closing(opened(1, "gaussian")) as session:
        session.sql(f"SELECT {key} AS k, SUM(x) AS s FROM visits GROUP BY k", epsilon=9).run()
        query = session.sql("SELECT SUM(x) AS s FROM visits", epsilon=1)
        assert query.plan.free is free
        assert query.run().frame["s"][0] == pytest.approx(rows.x.sum(), rel=0.2)


def test_units_with_several_rows_are_not_added_up():
    with closing(opened(3, "gaussian")) as session:
        session.sql(
            "SELECT kind, COUNT(DISTINCT who) AS n FROM visits GROUP BY kind", epsilon=4, contribution="rows"
        ).run()
        whole = session.sql("SELECT COUNT(DISTINCT who) AS n FROM visits", epsilon=4, contribution="rows")
        assert not whole.plan.free


def test_fewer_rows_than_are_declared_are_a_sample():
    """Of a statement that draws fewer, another one that is about some of the rows would draw others."""
    with closing(opened(3, "gaussian")) as session:
        clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = {})"
        for most, free in ((2, False), (3, True)):
            text = f"SELECT {clause.format(most)} kind, SUM(x, contribution_bounds_per_row => (0, 9)) AS s FROM visits"
            session.sql(f"{text} GROUP BY kind", epsilon=4).run()
            assert session.sql(f"{text} WHERE kind = 'a' GROUP BY kind", epsilon=4).plan.free is free


def test_a_join_may_give_a_unit_more_rows():
    with closing(opened(1, "gaussian")) as session:
        tags = pd.DataFrame({"code": list("ppqqrs"), "tag": list("uvuvuv")})
        session.register(tags, "tags", public=True)
        text = "SELECT kind, MEDIAN(x) AS m FROM visits JOIN tags USING (code)"
        session.sql(f"{text} GROUP BY kind", epsilon=4).run()
        assert not session.sql(f"{text} WHERE kind = 'a' GROUP BY kind", epsilon=4).plan.free

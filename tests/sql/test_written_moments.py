"""Variances that are written as moments are measured as variances, and their roots as standard deviations."""

import contextlib

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.testing import exact_session

PEOPLE = 4_000
SPREADS = {  # as people write them, and what of it is measured
    "root": ("SQRT(AVG(x * x) - AVG(x) * AVG(x))", ["deviation"]),
    "power": ("SQRT(AVG(POWER(x, 2)) - POWER(AVG(x), 2))", ["deviation"]),
    "sums": ("SQRT(SUM(x * x) / COUNT(x) - POWER(SUM(x) / COUNT(x), 2))", ["deviation"]),
    "of all rows": ("SUM(x * x) / COUNT(*) - (SUM(x) / COUNT(*)) * (SUM(x) / COUNT(*))", ["variance"]),
    "variance": ("(AVG(x * x)) - (AVG(x) * (AVG(x)))", ["variance"]),
    "in a ratio": ("SQRT(AVG(x * x) - AVG(x) * AVG(x)) / AVG(x)", ["deviation", "average"]),
    "of some": ("SQRT(AVG(x * x) FILTER (WHERE ok) - POWER(AVG(x) FILTER (WHERE ok), 2))", ["deviation"]),
    "of a product": ("AVG((x + y) * (x + y)) - POWER(AVG(x + y), 2)", ["variance"]),
}
OTHERS = {
    "covariance": "AVG(x * y) - AVG(x) * AVG(y)",
    "another column": "AVG(x * x) - AVG(y) * AVG(y)",
    "other rows": "AVG(x * x) FILTER (WHERE ok) - POWER(AVG(x), 2)",
    "cube": "AVG(x * x) - POWER(AVG(x), 3)",
    "shown too": "AVG(x * x) AS squares, AVG(x * x) - AVG(x) * AVG(x)",
}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(8)
    x = np.where(random.random(PEOPLE) < 0.1, np.nan, random.normal(100.0, 6.0, PEOPLE))
    return pd.DataFrame({"x": x, "y": random.random(PEOPLE), "ok": random.random(PEOPLE) < 0.5})


def kinds(session, text):
    (select,) = analyse(text, session._statements.relations.known).selects
    return [one.kind for one in select.aggregates]


@pytest.mark.parametrize(("written", "measured"), SPREADS.values(), ids=SPREADS)
def test_the_answer_is_duckdbs_and_a_variance_is_measured(rows, written, measured, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {written} AS v FROM rows"
    (exact,) = duckdb.sql(text).fetchall()[0]
    with contextlib.closing(exact_session(dpn.Budget(30.0, 1e-6), ":memory:")) as session:
        session.protect(rows, "rows")
        assert kinds(session, text) == measured
        assert session.sql(text, epsilon=9.0).run().frame.v[0] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("written", OTHERS.values(), ids=OTHERS)
def test_other_differences_stay_what_they_are(rows, written):
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        session.protect(rows, "rows")
        assert set(kinds(session, f"SELECT {written} AS v FROM rows")) == {"average"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_it_is_as_close_as_stddev_in_every_spelling(rows, same_noise, delta):
    """By two means of a column whose mean is far larger than its spread it was eight to thirty times farther off."""
    (exact,) = duckdb.sql("SELECT STDDEV_POP(x) FROM rows").fetchall()[0]
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
        session.protect(rows, "rows")
        frame = session.sql("SELECT SQRT(AVG(x * x) - POWER(AVG(x), 2)) AS v FROM rows", epsilon=1.0).run().frame
        assert session.sql("SELECT STDDEV_POP(x) AS v FROM rows", epsilon=1.0).plan.free
    assert abs(frame.v[0] - exact) < 0.1 * exact

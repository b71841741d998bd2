"""Counts over counts that they are a part of: measured as the means that they are, and never as another number."""

import contextlib

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.plan import KEPT
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.testing import exact_session

PEOPLE = 4_000
ALL_OF = "region, COUNT(*) AS n"
MEANS = {  # as people write them, and what of it is measured
    "filter": "COUNT(*) FILTER (WHERE employed) / COUNT(*)",
    "percent": "100.0 * COUNT(*) FILTER (WHERE employed) / COUNT(*)",
    "percent behind": "COUNT_IF(employed) * 100 / NULLIF(COUNT(*), 0)",
    "rounded": "ROUND(100.0 * COUNTIF(age > 40) / COUNT(*), 2)",
    "case of sums": "SUM(CASE WHEN age > 40 THEN 1 ELSE 0 END)::DOUBLE / COUNT(*)",
    "case of counts": "CAST(COUNT(CASE WHEN age > 40 THEN 1 END) AS DECIMAL(18, 3)) / (COUNT(*))",
    "sum of truth": "SUM(CAST(employed AS INT)) / COUNT(*)",
    "sum of a comparison": "1 - SUM((age > 40)::INT) / COUNT(*)",
    "filled in": "COUNT(income) / COUNT(*)",
    "among some": "COUNT(*) FILTER (WHERE employed AND age > 40) / COUNT(*) FILTER (WHERE age > 40)",
    "mean in two steps": "SUM(income) / COUNT(income)",
    "mean of some in two steps": "SUM(income) FILTER (WHERE employed) / COUNT(income) FILTER (WHERE employed)",
    "sum of some over their number": "SUM(income) FILTER (WHERE employed) / COUNT(*) FILTER (WHERE employed)",
    "sum of some by case": "SUM(CASE WHEN employed THEN income ELSE 0 END) / COUNTIF(employed)",
    "those with a value by case": "SUM(CASE WHEN employed THEN income ELSE 0 END) "
    "/ COUNT(CASE WHEN employed THEN income END)",
    "of some among more": "SUM(CASE WHEN employed AND age > 40 THEN income END) / COUNTIF(age > 40)",
    "of what is worked out": "SUM(income * income - 2 * income) / COUNT(income)",
    "among those with a value": "SUM(CASE WHEN age > 40 THEN 1 ELSE 0 END) * 100.0 / COUNT(age)",
    "of what is there": "COUNT(*) FILTER (WHERE employed AND income > 9) / COUNT(income)",
    "of answers that count": "100 * COUNT(*) FILTER (WHERE age IN (4, 5)) / COUNT(*) FILTER (WHERE age < 90)",
    "sum of those that count": "SUM(income) FILTER (WHERE age BETWEEN 20 AND 30) / COUNT(*) FILTER (WHERE age >= 20)",
}
DIFFERENCES = {  # of two such means
    "promoters less detractors": "100.0 * (COUNT(*) FILTER (age > 60) - COUNT(*) FILTER (age < 20)) / COUNT(*)",
    "of sums": "(SUM(CASE WHEN age > 60 THEN 1 ELSE 0 END) - SUM((age < 20)::INT)) * 100 / COUNT(*)",
    "added": "ROUND((COUNTIF(age > 60) + COUNTIF(age < 20)) / COUNT(*), 4)",
}
RATIOS = {  # that are no such means
    "other rows": "COUNT_IF(age > 64) / COUNT_IF(age BETWEEN 16 AND 64)",
    "not all above are below": "COUNT_IF(employed) / COUNT_IF(age > 40)",
    "of other values": "SUM(income) / COUNT(age)",
    "of values of two": "SUM(income * age) / COUNT(income)",
    "sum of more than are below": "SUM(income) FILTER (WHERE employed) / COUNTIF(employed AND age > 40)",
    "sum of others": "SUM(income) FILTER (WHERE age > 40) / COUNTIF(employed)",
    "two sums": "SUM(income) / SUM(age)",
    "turned round": "COUNT(*) / COUNT_IF(employed)",
    "whole numbers": "COUNT_IF(employed) // COUNT(*)",
    "of people": "COUNT_IF(employed) / COUNT(DISTINCT person)",
    "not all above are there": "COUNT(*) FILTER (WHERE COALESCE(age, 50) > 40) / COUNT(age)",
    "beyond what counts": "COUNT(*) FILTER (WHERE age IN (4, 95)) / COUNT(*) FILTER (WHERE age < 90)",
    "one of two is of others": "(COUNT_IF(age > 60) - COUNT(DISTINCT person)) / COUNT(*)",
    "shown too": "COUNT_IF(employed) AS k, COUNT_IF(employed) / COUNT(*)",
}


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(3)
    income = random.gamma(2.0, 900.0, PEOPLE).round()
    return pd.DataFrame(
        {
            "person": np.arange(PEOPLE),
            "region": random.choice(["North", "South"], PEOPLE),
            "age": random.integers(0, 90, PEOPLE).astype(float),
            "employed": random.random(PEOPLE) < 0.7,
            "income": np.where(random.random(PEOPLE) < 0.1, np.nan, income),
        }
    )


def protected(session, people, **more):
    session.protect(people, "people", unit="person", domain={"region": ["North", "South"]}, **more)
    return session


def kinds(session, text, **more):
    (select,) = analyse(text, session._statements.relations.known, **more).selects
    return [one.kind for one in select.aggregates]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("written", MEANS.values(), ids=MEANS)
def test_the_answer_is_duckdbs_and_one_mean_is_measured(people, written, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {ALL_OF}, {written} AS rate FROM people GROUP BY region HAVING COUNT(*) > 0 ORDER BY region"
    exact = duckdb.sql(text.replace("COUNTIF", "COUNT_IF")).df()
    with contextlib.closing(exact_session(dpn.Budget(30.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        assert kinds(session, text) == ["count", "average"]
        assert kinds(session, text, rates=False).count("average") == 0
        query = session.sql(text, epsilon=9.0)
        answer = query.run().frame
    assert query.question.selects[0].aggregates[0].name == "n"
    np.testing.assert_allclose(answer.rate.astype(float), exact.rate.astype(float), rtol=1e-5, atol=0.006)


@pytest.mark.parametrize("written", DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_difference_of_counts_over_all_is_that_of_two_means(people, written, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {ALL_OF}, {written} AS x FROM people GROUP BY region ORDER BY region"
    exact = duckdb.sql(text).df()
    with contextlib.closing(exact_session(dpn.Budget(30.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        assert kinds(session, text) == ["count", "average", "average"]
        frame = session.sql(text, epsilon=9.0).run().frame
    np.testing.assert_allclose(frame.x.astype(float), exact.x.astype(float), rtol=1e-5, atol=0.02)


@pytest.mark.parametrize("written", RATIOS.values(), ids=RATIOS)
def test_other_ratios_stay_what_they_are(people, written):
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        text = f"SELECT region, {written} AS rate FROM people GROUP BY region"
        assert kinds(session, text) == kinds(session, text, rates=False)


def test_who_says_how_it_is_measured_has_it_like_that(people):
    ratio = "COUNT(CASE WHEN age > 40 THEN 1 END) / COUNT(*)"
    own = "SUM(CASE WHEN age > 40 THEN 1 ELSE 0 END, contribution_bounds_per_group => (0, 1)) / COUNT(*)"
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        private = (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) region, {ratio} AS r FROM people GROUP BY region"
        )
        assert kinds(session, private) == ["count", "count"]
        assert "average" not in kinds(session, f"SELECT region, {own} AS r FROM people GROUP BY region")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("rows", [1, None], ids=["one row", "many rows"])
def test_it_is_at_most_half_as_far_off_as_two_counts(people, same_noise, delta, rows):
    """Both are asked at one price; the ratio beside its numerator is that of counts."""
    frame = people if rows else people.assign(person=people.person // 3)
    rate = "COUNT_IF(employed) / COUNT(*) AS rate"
    found = {}
    for name, shown in {"mean": rate, "counts": f"COUNT_IF(employed) AS k, {rate}"}.items():
        with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
            protected(session, frame, max_rows=rows)
            found[name] = session.sql(f"SELECT region, {shown} FROM people GROUP BY region", epsilon=0.5).run().frame
    assert found["mean"].rate_std_error.max() < found["counts"].rate_std_error.max() / 2
    exact = people.groupby("region").employed.mean().to_numpy()
    off = np.abs(found["mean"].rate.to_numpy(float) - exact)
    assert (off < 5 * found["mean"].rate_std_error + 0.03).all()  # 0.03: what clipping may move


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_known_counts_tell_rates_for_nothing(people, same_noise, delta):
    counts = "SELECT region, COUNT(*) AS n, COUNT_IF(employed) AS k FROM people GROUP BY region"
    rates = "SELECT region, COUNT_IF(employed) / COUNT(*) AS rate FROM people GROUP BY region"
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, delta), ":memory:")) as session:
        protected(session, people, max_rows=1)
        known = session.sql(counts, epsilon=1.0).run().frame
        assert session.sql(rates, epsilon=0.5).plan.free
        told = session.sql(rates, epsilon=0.5).run().frame
        np.testing.assert_allclose(told.rate, known.k / known.n)
        assert not session.sql(rates, epsilon=1.0).plan.free  # the mean is much closer
        first = session.sql(rates, epsilon=1.0).run()
        assert session.sql(rates, epsilon=1.0).plan.free
        again = session.sql(f"{rates} ORDER BY region DESC", epsilon=1.0).run()
        assert sorted(again.frame.rate) == sorted(first.frame.rate)


@pytest.mark.parametrize(
    "written", ["100 * COUNT_IF(employed) / COUNT(*)", "100 * SUM(employed::INT)::DOUBLE / COUNT(*)"]
)
def test_an_error_is_that_of_the_ratio(people, written):
    """It was one of the counts, from which the ratio was worked out: of less than a row it was refused."""
    rates = f"SELECT region, {written} AS rate FROM people GROUP BY region"
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        session.sql(rates, epsilon=0.2).run()
        query = session.sql(rates, error=0.5)
        assert "average" in [one.kind for one in query.question.selects[0].aggregates]
        frame = query.run().frame
        width = float((frame.rate_upper - frame.rate_lower).max() / 2)
        assert 0.25 <= width <= KEPT * 0.5


def test_the_planner_tells_them_from_counts_that_serve_later_questions(people, same_noise):
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-6), ":memory:")) as session:
        domain = {"region": ["North", "South"], "employed": [False, True]}
        table = session.protect(people.drop(columns="person"), "people", domain=domain)
        session.sql(
            "SELECT region, COUNT_IF(employed) / COUNT(*) AS rate FROM people GROUP BY region", epsilon=0.5
        ).run()
        assert table.groupby("region").count(epsilon=0.25).plan.free


def test_names_and_words_are_those_that_were_written(people):
    text = "SELECT region, 100.0 * COUNT_IF(employed) / COUNT(*) FROM people GROUP BY region"
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        protected(session, people, max_rows=1)
        query = session.sql(text, epsilon=1.0)
        assert "100.0 * COUNT_IF(employed) / COUNT(*)" in query.run().frame.columns
        assert "COUNT_IF(employed) / COUNT(*)" in str(query)
        assert "AVG" not in str(query)

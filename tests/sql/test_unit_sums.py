"""Sums over rows without Gaussian noise are measured as sums of what each unit adds up."""

import contextlib

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

PEOPLE = 1_500
OF_UNITS = {
    "sum": "SUM(hours) AS a",
    "two": "SUM(hours) AS a, SUM(fee) AS b, COUNT(*) AS c",
    "of some": "SUM(hours) FILTER (WHERE paid) AS a, SUM(CASE WHEN paid THEN fee ELSE 0 END) AS b",
    "worked out": "SUM(hours) - 2 * SUM(fee * 3) AS a",
    "people": "SUM(hours) AS a, COUNT(DISTINCT person) AS b",
    "rows a person": "COUNT(*) AS a, COUNT(*) * 1.0 / COUNT(DISTINCT person) AS b",
    "some people": "SUM(hours) / COUNT(DISTINCT CASE WHEN paid THEN person END) AS a, COUNT(DISTINCT person) AS b",
}
OF_ROWS = {
    "a deviation too": "SUM(amount) AS a, STDDEV(fee) AS b",
    "counts alone": "COUNT(*) AS a, COUNT(fee) AS b",
    "own bounds": "SUM(amount, contribution_bounds_per_group => (0, 9)) AS a",
    "different values": "SUM(amount) AS a, COUNT(DISTINCT hours) AS b",
    "people alone": "COUNT(DISTINCT person) AS a",
}


@pytest.fixture(scope="module")
def payments():
    """Payments of which 6% are a hundred times as large as the others, a few or many of each person."""
    random = np.random.default_rng(6)
    rows = 1 + random.negative_binomial(1, 1 / 12, PEOPLE)
    person = np.repeat(np.arange(PEOPLE), rows)
    salary = random.random(person.size) < 0.06
    amount = np.where(salary, random.normal(2500.0, 500.0, person.size), random.exponential(25.0, person.size)).round(2)
    fee = np.where(random.random(person.size) < 0.1, np.nan, random.random(person.size))
    hours, paid = random.integers(1, 9, person.size), random.random(person.size) < 0.7
    frame = pd.DataFrame({"person": person, "amount": amount, "fee": fee, "hours": hours, "paid": paid})
    return frame.groupby("person").head(200)


def protected(session, payments, rows=200):
    session.protect(payments, "payments", unit="person", max_rows=rows)
    return session


def is_of_units(query):
    return all(select.single for select in query.question.selects)


@pytest.mark.parametrize("written", OF_UNITS.values(), ids=OF_UNITS)
def test_the_answers_are_duckdbs(payments, written, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {written} FROM payments AS p WHERE p.hours < 7 OR paid"
    exact = duckdb.sql(text).df()
    with contextlib.closing(exact_session(dpn.Budget(30.0), ":memory:")) as session:
        query = protected(session, payments).sql(text, epsilon=9.0)
        assert is_of_units(query)
        answer = query.run().frame
    np.testing.assert_allclose(answer[exact.columns].astype(float), exact.astype(float), rtol=0.002)


@pytest.mark.parametrize("written", OF_ROWS.values(), ids=OF_ROWS)
def test_others_are_of_rows(payments, written):
    with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
        assert not is_of_units(protected(session, payments).sql(f"SELECT {written} FROM payments", epsilon=1.0))


def test_who_says_otherwise_has_it_otherwise(payments):
    text = "SELECT SUM(amount) AS a FROM payments"
    with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
        protected(session, payments)
        assert not is_of_units(session.sql(text, epsilon=1.0, contribution="rows"))
        assert not is_of_units(session.sql("SELECT paid, SUM(amount) AS a FROM payments GROUP BY paid", epsilon=1.0))
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        (select,) = protected(session, payments).sql(text, epsilon=1.0).question.selects
        assert select.contribution.kind == "l2"


def test_it_is_known_in_either_spelling(payments, same_noise, monkeypatch):
    """And what an earlier version released by rows stays free."""
    text = "SELECT SUM(amount) AS a FROM payments"
    by_unit = "SELECT SUM(s) AS a FROM (SELECT person, SUM(amount) AS s FROM payments GROUP BY person)"
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        protected(session, payments)
        told = session.sql(text, epsilon=1.0).run().frame.a[0]
        assert session.sql(text, epsilon=1.0).plan.free
        assert session.sql(by_unit, epsilon=1.0).plan.free
        assert session.sql(by_unit, epsilon=1.0).run().frame.a[0] == told
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        protected(session, payments)
        with monkeypatch.context() as patch:
            patch.setattr("dpnotebook.sql.analysis.unit_sums.adds_up_rows", lambda select: False)
            session.sql(text, epsilon=1.0).run()
        assert session.sql(text, epsilon=1.0).plan.free


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("rows", [200, None], ids=["declared", "not declared"])
def test_people_beside_rows_are_as_close_as_alone(payments, same_noise, rows):
    """One row of each counted, as that suits their number: rows a person were 1.0, and people up to eight times."""
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        protected(session, payments, rows)
        asked = "COUNT(*) AS n, COUNT(DISTINCT person) AS people, COUNT(*) / COUNT(DISTINCT person) AS each"
        frame = session.sql(f"SELECT {asked} FROM payments", epsilon=1.0).run().frame
    exact = {"n": len(payments), "people": PEOPLE, "each": len(payments) / PEOPLE}
    for name, truth in exact.items():
        assert frame[f"{name}_lower"][0] <= truth <= frame[f"{name}_upper"][0]
        assert abs(frame[name][0] / truth - 1.0) < 0.15
    assert frame.people_upper[0] - frame.people_lower[0] < 30  # at half of the epsilon


@pytest.mark.parametrize("rows", [200, None], ids=["declared", "not declared"])
def test_people_by_group_take_no_rows_from_counts(payments, same_noise, rows):
    """A person adds 1 to each group at most, however many rows count."""
    ward = np.random.default_rng(4).choice(["a", "b", "c"], len(payments))
    visits = payments.assign(ward=ward)
    exact = visits.groupby("ward").person.agg(["size", "nunique"])
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        given = {} if rows is None else {"max_rows": rows}
        session.protect(visits, "visits", unit="person", domain={"ward": ["a", "b", "c"]}, **given)
        text = "SELECT ward, COUNT(*) AS n, COUNT(DISTINCT person) AS people FROM visits GROUP BY ward ORDER BY ward"
        query = session.sql(text, epsilon=2.0, contribution="rows" if rows else None)
        frame = query.run().frame
    assert ((frame.people - exact["nunique"].to_numpy()).abs() <= 40).all()  # of noise with a scale of 3, not of 200
    assert ((frame.people_upper - frame.people_lower) < 80).all()
    assert ((frame.n_lower <= exact["size"].to_numpy()) & (exact["size"].to_numpy() <= frame.n_upper)).mean() > 0.5


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("rows", [200, None], ids=["declared", "not declared"])
def test_what_few_rows_have_is_in_it(payments, same_noise, rows):
    """By rows nine tenths of the sum were missing, and intervals did not hold it."""
    exact, off, held = payments.amount.sum(), [], []
    for _ in range(4):
        with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
            frame = (
                protected(session, payments, rows).sql("SELECT SUM(amount) AS a FROM payments", epsilon=1.0).run().frame
            )
        off.append(abs(frame.a[0] / exact - 1.0))
        held.append(frame.a_lower[0] <= exact <= frame.a_upper[0])
    assert np.median(off) < 0.1
    assert sum(held) >= 3

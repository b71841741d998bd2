"""Tables of which nobody says how many rows of a person count: what works without, and what asks for it."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DomainError, LedgerMismatch, SQLError
from dpnotebook.testing import exact_session

CITIES = ["Ulm", "Bonn", "Jena"]
BUDGET = dpn.Budget(60.0, 1e-5)
BY_CITY = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city ORDER BY city"


def made(people=4_000, seed=2):
    """Return visits of people, most of whom have few, and some up to sixty."""
    random = np.random.default_rng(seed)
    sizes = np.minimum(random.geometric(0.3, people) * random.choice([1, 1, 1, 1, 5], people), 60)
    who = np.repeat(np.arange(people), sizes)
    return pd.DataFrame({
        "who": who, "city": random.choice(CITIES, who.size, p=[0.5, 0.3, 0.2]),
        "cost": random.gamma(2, 20, who.size).round(2),
    })  # fmt: skip


VISITS = made()


@pytest.fixture
def session():
    made = dpn.Session(BUDGET, ":memory:", confirm="never")
    made.protect(VISITS, "visits", unit="who", domain={"city": CITIES})
    yield made
    made.close()


def test_without_noise_all_rows_count(monkeypatch):
    """Whoever has sixty rows has all of them: nothing samples them, and the norm that is found is above theirs."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(BUDGET, confirm="never")
    session.protect(VISITS, "visits", unit="who")
    frame = session.sql(
        "SELECT city, COUNT(*) AS n, SUM(cost) AS paid FROM visits GROUP BY city ORDER BY city", epsilon=50.0
    ).run().frame  # fmt: skip
    exact = VISITS.groupby("city").agg(n=("who", "size"), paid=("cost", "sum"))
    assert np.allclose(frame["n"], exact["n"], rtol=2e-3)
    assert np.allclose(frame["paid"], exact["paid"], rtol=5e-3)
    people = session.sql("SELECT COUNT(DISTINCT who) AS people FROM visits", epsilon=5.0).run()
    assert people.frame["people"][0] == VISITS["who"].nunique()
    session.close()


@pytest.mark.usefixtures("same_noise")
def test_how_many_rows_are_declared_is_no_matter_to_what_finds_them():
    """A bound that is far too wide costs nothing: the error is about that of no bound."""

    def error(most):
        session = dpn.Session(BUDGET, ":memory:", confirm="never")
        session.protect(VISITS, "visits", unit="who", max_rows=most)
        found = session.sql(BY_CITY, epsilon=2.0).run().frame["n_std_error"][0]
        session.close()
        return found

    errors = [np.median([error(most) for _ in range(17)]) for most in (None, 1_000)]
    assert max(errors) < 1.8 * min(errors)


def test_the_preview_does_not_say_what_it_cannot_know(session, same_noise):
    plan = session.sql(BY_CITY, epsilon=1.0).plan
    assert np.isnan(plan.std_errors).all()
    assert "the least if one unit has 1 row, the most if it has 10, in proportion more" in str(
        session.sql(BY_CITY, epsilon=1.0)
    )
    low, high = plan.parts[0].between  # of units of one row and of ten: noise is in proportion to what a unit may add
    assert high == pytest.approx(10 * low, rel=0.02)
    assert session.spent.epsilon == 0
    session.sql(BY_CITY, epsilon=1.0).run()
    known = session.sql(BY_CITY, epsilon=2.0).plan
    assert np.isfinite(known.std_errors).all()
    assert session.sql(BY_CITY, error=150).plan.cost.epsilon > 0


UNKNOWN = {  # and what makes it known, each as the hint has it
    "SUM(extra)": "declare 'extra' in domain=, or write contribution_bounds_per_group => (lower, upper)",
    "SUM(cost * cost)": "run, write contribution_bounds_per_group => (lower, upper)",
    "STDDEV(extra)": "declare 'extra' in domain=, or write contribution_bounds_per_row => (lower, upper)",
}


@pytest.mark.parametrize("aggregate", UNKNOWN)
def test_an_unknown_error_says_what_makes_it_known(aggregate):
    frame = pd.DataFrame({"who": np.arange(400) // 2, "cost": np.arange(400) % 10, "extra": np.arange(400) % 7})
    for declared in ({}, {"extra": dpn.Range(0, 6)}):
        session = dpn.Session(dpn.Budget(5.0, delta=1e-6), ":memory:", confirm="never")
        session.protect(frame, "t", unit="who", domain={"cost": dpn.Range(0, 9), **declared})

        def planned(written, session=session):
            return session.sql(f"SELECT {written} AS x FROM t", epsilon=1.0).plan.parts[0]

        if declared and "extra" in aggregate:
            assert planned(aggregate).hint == ""
            assert planned(aggregate).may_be_less
            assert np.isfinite(planned(aggregate).between).all()
        else:
            assert planned(aggregate).between is None
            assert UNKNOWN[aggregate] in planned(aggregate).hint
        bounds = f"{planned(aggregate).hint or UNKNOWN[aggregate]}".partition("write ")[2].replace(
            "lower, upper", "0, 9"
        )
        known = planned(f"{aggregate[:-1]}, {bounds})")
        assert np.isfinite(known.half_width)
        assert known.hint == ""
        session.close()


ASK = {
    "counts that are all near at once": lambda session: (
        session.table("visits").groupby("city").count(epsilon=1.0, simultaneous=True).plan
    ),
    "bounds of rows": lambda session: session.sql(BY_CITY, epsilon=1.0, contribution="rows"),
}


@pytest.mark.parametrize("name", ASK)
def test_what_needs_it_says_so_and_nothing_is_spent(session, name):
    with pytest.raises((DomainError, SQLError), match="how many rows of one who count") as caught:
        ASK[name](session)
    assert "session.protect(..., 'visits', max_rows=" in str(caught.value)
    assert session.spent.epsilon == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", ["COUNT(*), MEDIAN(cost)", "SUM(cost), CORR(cost, cost * cost)"])
def test_of_groups_that_a_threshold_hides_nobody_has_to_say_it_either(session, asked):
    """The threshold goes by what lengths bound, however many rows are drawn for the rest."""
    query = session.sql(f"SELECT FLOOR(cost / 50) AS about, {asked} FROM visits GROUP BY 1", epsilon=2.0)
    assert len(query.run().frame) >= 2
    assert session.spent.epsilon == pytest.approx(2.0, rel=1e-6)


def test_laplace_noise_finds_it_too_but_not_where_a_threshold_goes_by_it(same_noise):
    session = dpn.Session(dpn.Budget(5.0, noise="laplace"), ":memory:", confirm="never")
    session.protect(VISITS, "visits", unit="who", domain={"city": CITIES})
    assert session.sql(BY_CITY, epsilon=1.0).run().frame["n_std_error"].max() < 200
    session.close()
    session = dpn.Session(dpn.Budget(5.0, 1e-6, noise="laplace"), ":memory:", confirm="never")
    session.protect(VISITS, "visits", unit="who", domain={"city": CITIES})
    with pytest.raises(SQLError, match="this needs to know how many rows of one who count"):
        session.sql(BY_CITY, epsilon=1.0)
    session.close()


def test_bounds_of_a_statement_are_enough(session):
    private = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=2, delta=1e-7, max_rows_contributed=3)"
    frame = session.sql(f"SELECT {private} city, MEDIAN(cost) AS m FROM visits GROUP BY city").run().frame
    assert frame["m"].between(0, 200).all()


def test_what_a_person_adds_to_a_group_is_not_taken_to_be_one_value():
    """Declared bounds are of one value; a sum of several is found, where nobody says of how many."""
    session = dpn.Session(BUDGET, ":memory:", confirm="never")
    session.protect(VISITS, "visits", unit="who", domain={"cost": dpn.Range(0, 400)})
    private = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=5, delta=1e-7, max_groups_contributed=3)"
    plan = session.sql(f"SELECT {private} city, SUM(cost) AS paid FROM visits GROUP BY city").plan
    assert plan.question.selects[0].aggregates[0].bounds is None
    session.close()


def test_what_each_row_of_a_person_is_counts_once(session):
    """A query that has one row for each person needs no bound."""
    text = "SELECT COUNT(*) AS n, MEDIAN(total) AS m FROM (SELECT who, SUM(cost) AS total FROM visits GROUP BY who)"
    release = session.sql(text, epsilon=5.0).run()
    assert release.frame["n"][0] == pytest.approx(VISITS["who"].nunique(), abs=20)


def test_it_can_be_said_until_something_was_charged_and_is_known_from_then_on(tmp_path):
    path, domain = tmp_path / "clinic.ledger", {"city": CITIES}
    first = dpn.Session(BUDGET, path, confirm="never")
    assert "up to" not in repr(first.protect(VISITS, "visits", unit="who", domain=domain))
    said = first.protect(VISITS, "visits", unit="who", max_rows=4, domain=domain)
    assert "up to 4 rows" in repr(said)
    assert said.count(epsilon=1.0).run().value < len(VISITS)
    with pytest.raises(LedgerMismatch, match="max_rows"):
        first.protect(VISITS, "visits", unit="who", max_rows=5, domain=domain)
    first.protect(VISITS, "others", unit="who", domain=domain)
    first.sql("SELECT COUNT(*) FROM others", epsilon=1.0).run()
    with pytest.raises(LedgerMismatch, match="max_rows"):
        first.protect(VISITS, "others", unit="who", max_rows=5, domain=domain)
    spent = first.spent
    first.close()
    again = dpn.Session(BUDGET, path, confirm="never")  # reads the whole ledger
    assert "up to 4 rows" in repr(again.protect(VISITS, "visits", unit="who", domain=domain))
    assert "up to" not in repr(again.protect(VISITS, "others", unit="who", domain=domain))
    assert again.tables()["max_rows"].tolist() == [4, pd.NA]
    assert again.sql("SELECT COUNT(*) FROM others", epsilon=1.0).run().paid == 0
    assert again.spent == spent
    again.close()


def test_parts_and_joins_need_none(session):
    session.extend("visits", made(people=500, seed=3))
    frame = session.sql(BY_CITY, epsilon=5.0).run().frame
    assert frame["n"].sum() == pytest.approx(len(VISITS) + len(made(people=500, seed=3)), rel=0.03)
    unit = dpn.Unit("person", column="who")
    session.protect(VISITS, "stays", unit=unit)
    session.protect(
        pd.DataFrame({"who": np.arange(4_000), "old": np.arange(4_000) % 3}), "people", unit=unit, max_rows=1
    )
    found = session.sql("SELECT old, COUNT(*) AS n FROM stays JOIN people USING (who) GROUP BY old", epsilon=5.0).run()
    assert found.frame["n"].sum() == pytest.approx(len(VISITS), rel=0.03)


def test_the_preview_of_units_by_group_speaks_of_groups():
    """Rows count in no count of units, and the card spoke of them."""
    frame = pd.DataFrame({"who": np.arange(400) % 100, "month": np.arange(400) % 12})
    with closing(dpn.Session(dpn.Budget(5.0), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="who", domain={"month": range(12)})
        units, rows = (
            str(session.sql(f"SELECT month, {count} AS n FROM visits GROUP BY month", epsilon=1.0).plan)
            for count in ("COUNT(DISTINCT who)", "COUNT(*)")
        )
    assert "the least if one unit is in 1 group, the most if it is in 10, in proportion more if it is in more" in units
    assert "1 row" not in units
    assert "the least if one unit has 1 row, the most if it has 10" in rows


def test_who_has_one_row_is_told_to_say_so(session):
    """Of a table with one row a person, intervals were far longer than they need be, and nobody said why."""
    assert "max_rows=1 where everyone has one: answers are closer" in repr(session.table("visits"))
    assert "max_rows=1 in protect says so" in str(session.sql(BY_CITY, epsilon=1.0).plan)
    known = dpn.Session(BUDGET, ":memory:", confirm="never")
    with closing(known):
        known.protect(VISITS.drop_duplicates("who"), "visits", unit="who", max_rows=1, domain={"city": CITIES})
        assert "max_rows=1" not in repr(known.table("visits")) + str(known.sql(BY_CITY, epsilon=1.0).plan)

"""Averages over rows without Gaussian noise, from what each unit has: how near they are, and what that costs."""

import contextlib
import math
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest
from added_up import SECRET, connect, connect_postgres
from private_selects import fixed_noise
from strange_units import STRANGE, influences

import dpnotebook as dpn
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.bounds import check_scales
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import exact, noisy
from dpnotebook.sql.bounded_sums import Totals
from dpnotebook.sql.measured_units import KnownUnits, measured_units
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.select import Aggregate, Contribution, PrivateSelect
from dpnotebook.testing import exact_session

LAPLACE = accountant_for(Budget(1.0))
BOUNDS = Fraction(-50), Fraction(150), Fraction(25), Fraction(8), Fraction(40)  # a unit adds -75 to 125, of 40 rows
WRITTEN = {
    "all": "AVG(amount) AS a",
    "two": "AVG(amount) AS a, AVG(fee) AS b",
    "beside": "AVG(amount) AS a, SUM(fee) AS b, COUNT(*) AS c",
    "of some": "AVG(amount) FILTER (WHERE paid) AS a, AVG(CASE WHEN paid THEN fee END) AS b",
    "worked out": "2 * AVG(amount) - SUM(fee) / COUNT(fee) AS a",
}


def of_units(rows='SELECT u, x0, x1 FROM "the table"'):
    """Return a private aggregation of the mean and the number of values of each unit."""
    rest = Aggregate("unit_average", "", 1, (Fraction(0), Fraction(1)), "follows")
    asked = Aggregate("unit_average", "a", 0, words="AVG(x)", other=rest)
    return PrivateSelect(rows, ("the table",), (), (), (asked,), 2, Contribution("rows", 1), "all", single=True)


def table(means, numbers):
    units = np.arange(len(means))
    return pd.DataFrame({"u": units.astype(str), "x0": np.asarray(means, float), "x1": np.asarray(numbers, float)})


def measured(units=UNITS):
    chosen = of_units()
    return measuring(chosen, shares(chosen, units, LAPLACE), LAPLACE, found={0: BOUNDS})


def test_the_worst_unit_costs_what_is_charged_and_no_more():
    """With the noise that is drawn: with a tenth less it would cost more than is charged."""
    chosen, of = of_units(), measured()
    charged = sum(shares(chosen, UNITS, LAPLACE).main)

    def loss(means, numbers):
        found = exact(of, totals(chosen, of.components, connect(table(means, numbers)), SECRET))
        return float((np.abs(found[0]) / np.array(of.scales, dtype=float)).sum()) * UNITS

    strange = [math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 24.0, 1e6, -1e6, None]
    costs = [loss([mean], [rows]) for mean in strange for rows in (1.0, 40.0, 1e300, math.inf, 0.0, None)]
    assert max(costs) <= charged * (1 + 1e-12)
    assert max(costs) > 0.999 * charged
    assert 1.1 * max(costs) > charged * (1 + 1e-12)


def test_one_unit_changes_each_sum_by_no_more_than_noise_is_for():
    """Whatever else is in the table."""
    of = measured()
    for component in of.components:
        chosen = replace(of_units(), rows='SELECT u, x0, x1 FROM "the table"')
        assert max(influences(chosen, [component])) <= component.largest**2


@pytest.mark.parametrize(("epsilon", "people"), [(0.05, 300), (0.7, 60_000), (6.0, 3_000)])
def test_bounds_are_found_for_what_is_given_for_that(epsilon, people):
    """By the noise that is drawn: every histogram counts a unit once; what is left is the answer's."""
    chosen, drawn = of_units(), []
    total = LAPLACE.units(epsilon)
    given = shares(chosen, total, LAPLACE)
    check_scales(chosen, given, LAPLACE, Fraction(0))
    units = np.arange(people)

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    run = connect(table(units % 50 + 1.0, units % 7 + 1.0))
    found, _, rest = measured_units(chosen, {}, given, LAPLACE, run, draw)
    spent = UNITS * sum(1 / scale for scale in drawn)
    assert sum(rest.auto) - 8 <= spent <= sum(rest.auto)
    assert given.total - 4 <= rest.total <= given.total <= total
    assert sum(rest.auto) < sum(given.auto)
    assert found[0].bounds is not None or epsilon < 0.1
    if epsilon > 0.1:
        low, high, centre, _, rows = map(float, found[0].bounds)
        assert 10 < centre < 41
        assert low < centre < high
        assert 7 <= rows < 16


def test_they_are_read_off_noisy_numbers():
    """Noise that says so moves the centre: nothing is read off the data beside."""
    chosen = of_units()
    given, random = shares(chosen, LAPLACE.units(0.7), LAPLACE), np.random.default_rng(2)
    units = np.arange(3_000)
    run, centres = connect(table(units % 50 + 1.0, units % 7 + 1.0)), set()
    for _ in range(3):
        found, *_ = measured_units(
            chosen, {}, given, LAPLACE, run, lambda noise, scale, size: random.integers(-60, 60, size)
        )
        centres.add(found[0].bounds[2])
    assert len(centres) == 3


def test_postgresql_has_the_same_of_units_that_are_strange(postgres):
    rows = [(str(i), a, b) for i, (a, b) in enumerate((a, b) for a in STRANGE for b in (1.0, 40.0, 1e300, -2.0, None))]
    kinds = {"u": "text", "x0": "double precision", "x1": "double precision"}
    there = replace(of_units("SELECT u, x0, x1 FROM unit_rows"), tables=("unit_rows",))
    rows += [(f"{i} more", i % 50 + 1.0, i % 7 + 1.0) for i in range(500)]
    here = pd.DataFrame(rows, columns=list(kinds)).astype({"u": object, "x0": float, "x1": float})
    given, of = shares(there, LAPLACE.units(5.0), LAPLACE), measured()

    def silent(noise, scale, size):
        return np.zeros(size, dtype=np.int64)

    with connect_postgres(postgres, "unit_rows", kinds, rows) as run:
        bounds, *_ = measured_units(there, {}, given, LAPLACE, run, silent)
        found = totals(there, of.components, run, SECRET)
    same, *_ = measured_units(of_units(), {}, given, LAPLACE, connect(here), silent)
    assert bounds[0].bounds == same[0].bounds
    assert bounds[0].bounds is not None
    np.testing.assert_array_equal(found.numbers, totals(of_units(), of.components, connect(here), SECRET).numbers)


@pytest.mark.parametrize("less", [1.0, 0.9])
def test_errors_are_as_large_as_is_told(less):
    """Twenty thousand draws: three standard errors of Laplace noise's size are less than 3%."""
    of, draw, draws = measured(UNITS // 2), fixed_noise(), 20_000
    away, rows = 80_000.0, 90_000.0
    step = {component.statistic: float(component.step) for component in of.components}
    numbers = np.array([rows / step["unit rows"], away / step["unit away"]]).astype(np.int64)
    every = Totals(tuple((i,) for i in range(draws)), np.tile(numbers, (draws, 1)))
    scaled = replace(of, blocks=tuple(replace(one, scale=Fraction(one.scale) * Fraction(less)) for one in of.blocks))
    (found,) = estimate(of, noisy(scaled, every, draw), 0.95)
    truth = 25 + away / rows
    ratio = math.sqrt(((found.value - truth) ** 2).mean()) / found.std_error.mean()
    held = ((found.lower <= truth) & (truth <= found.upper)).mean()
    assert (0.96 < ratio < 1.04) == (less == 1.0)
    if less == 1.0:
        assert 0.945 < held < 0.99  # two Laplace numbers are less often far out than one


@pytest.fixture(scope="module")
def payments():
    """Payments, of which who has more pays more at a time."""
    random = np.random.default_rng(6)
    rows = 1 + random.negative_binomial(1, 1 / 12, 2_500)
    person = np.repeat(np.arange(rows.size), rows)
    amount = (random.lognormal(3, 1, person.size) * np.repeat(rows, rows) ** 0.2).round(2)
    fee = np.where(random.random(person.size) < 0.1, np.nan, 1970 + random.integers(0, 40, person.size))
    return pd.DataFrame({"person": person, "amount": amount, "fee": fee, "paid": random.random(person.size) < 0.7})


def protected(session, payments, **more):
    session.protect(payments, "payments", unit="person", **more)
    return session


def is_of_units(query):
    return all(select.single for select in query.question.selects)


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_the_answers_are_duckdbs(payments, written, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT {written} FROM payments AS p WHERE p.amount < 1000 OR paid"
    truth = duckdb.sql(text).df()
    with contextlib.closing(exact_session(dpn.Budget(30.0), ":memory:")) as session:
        query = protected(session, payments).sql(text, epsilon=9.0)
        assert is_of_units(query)
        answer = query.run().frame
    np.testing.assert_allclose(answer[truth.columns].astype(float), truth.astype(float), rtol=0.004)


def test_who_says_otherwise_has_it_otherwise(payments):
    text = "SELECT AVG(amount) AS a FROM payments"
    with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
        protected(session, payments, max_rows=60)
        assert is_of_units(session.sql(text, epsilon=1.0))
        assert not is_of_units(session.sql(text, epsilon=1.0, contribution="rows"))
        assert not is_of_units(session.sql(f"{text} GROUP BY paid", epsilon=1.0))
        assert not is_of_units(
            session.sql("SELECT AVG(amount, contribution_bounds_per_group => (0, 9)) AS a FROM payments", epsilon=1.0)
        )
    with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
        assert not is_of_units(protected(session, payments, max_rows=1).sql(text, epsilon=1.0))
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, 1e-6), ":memory:")) as session:
        (select,) = protected(session, payments).sql(text, epsilon=1.0).question.selects
        assert select.contribution.kind == "l2"


def test_it_is_known_again_and_what_rows_told_stays_free(payments, monkeypatch):
    text = "SELECT AVG(amount) AS a FROM payments"
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        protected(session, payments)
        told = session.sql(text, epsilon=1.0).run()
        again = session.sql(text, epsilon=1.0)
        assert again.plan.free
        assert again.run().frame.equals(told.frame)
        assert "each less" in str(told)
    with contextlib.closing(dpn.Session(dpn.Budget(9.0), ":memory:")) as session:
        protected(session, payments)
        with monkeypatch.context() as patch:
            patch.setattr("dpnotebook.sql.analysis.unit_sums.adds_up_rows", lambda select: False)
            session.sql(text, epsilon=1.0).run()
        assert session.sql(text, epsilon=1.0).plan.free


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize(("column", "near"), [("amount", 0.02), ("fee", 1e-4)])
def test_all_rows_count_and_each_as_much(payments, same_noise, column, near):
    """Few rows of each unit were 5 to 20 times farther off, and of another mean where values go with rows."""
    truth, off, held = payments[column].mean(), [], []
    for _ in range(6):
        with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
            frame = (
                protected(session, payments).sql(f"SELECT AVG({column}) AS a FROM payments", epsilon=1.0).run().frame
            )
        off.append(abs(frame.a[0] / truth - 1.0))
        held.append(frame.a_lower[0] <= truth <= frame.a_upper[0])
    assert np.median(off) < near
    assert sum(held) >= 5


def test_the_card_says_that_all_rows_count(payments):
    with contextlib.closing(dpn.Session(dpn.Budget(3.0), ":memory:")) as session:
        plan = protected(session, payments).sql("SELECT AVG(amount) AS a FROM payments", epsilon=1.0).plan
        told = "\n".join(plan.steps)
        assert "add up the rows of each unit, all of which count" in told
        assert "contribution='rows'" in told
        assert "one row" not in told
        assert "at most two thirds" in plan.assumption


def test_what_was_found_is_not_bought_twice():
    """The second price goes to the answer alone; bounds suit its noise."""
    random = np.random.default_rng(6)
    who = np.repeat(np.arange(4_000), 1 + random.poisson(6, 4_000))
    frame = pd.DataFrame({"who": who, "x": random.lognormal(3, 1, who.size)})
    with dpn.Session(dpn.Budget(20.0), ":memory:", confirm="never") as session:
        session.protect(frame, "t", unit="who", max_rows=40)
        first = session.sql("SELECT AVG(x) AS a FROM t", epsilon=0.5).run()
        query = session.sql("SELECT AVG(x) AS a FROM t", epsilon=1.0)
        assert math.isfinite(query.plan.std_error)  # told before, as the bounds are known
        second = query.run()
        assert session.spent.epsilon == pytest.approx(1.5)
        profiles = [session.ledger.get(one.number).details["selects"][0].get("profile", {}) for one in (first, second)]
        assert [len(one) for one in profiles] == [1, 0]
        (known,) = (KnownUnits.from_json(told) for told in profiles[0].values())
        assert KnownUnits.from_json(known.to_json()) == known
        scales = [
            Measuring.from_json(session.ledger.get(one.number).details["selects"][0]["measuring"]).blocks[0].scale
            for one in (first, second)
        ]
        assert scales[0] / scales[1] > 2.0
        elsewhere = session.sql("SELECT AVG(x) AS a FROM t WHERE x > 5", epsilon=0.5).run()  # of other rows anew
        assert len(session.ledger.get(elsewhere.number).details["selects"][0]["profile"]) == 1

"""Aggregates of different rows in one statement: disjoint parts of the rows cost together what one of them does."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.layers import layers_of
from dpnotebook.planner.plan_json import plan_to_json, planned_from_json
from dpnotebook.planner.pricing import cost_of
from dpnotebook.planner.table import TableSchema
from dpnotebook.privacy.laws import law_of

BUDGETS = {"laplace": dpn.Budget(1e4), "gaussian": dpn.Budget(1e4, 1e-6)}
ROWS = 4_000
DOMAIN = {
    "city": ["A", "B"],
    "smokes": bool,
    "age": dpn.Range(0, 3),
    "stay": dpn.Range(0, 4, nullable=True),
}
STATEMENTS = [
    "SELECT COUNT(*) AS n, COUNTIF(smokes) AS s FROM visits",
    "SELECT city, COUNT(*) AS n, COUNTIF(smokes) AS s, COUNTIF(age >= 2) AS o FROM visits GROUP BY city",
    "SELECT city, COUNT(*) AS n, COUNT(stay) AS k, AVG(stay) AS m FROM visits GROUP BY city",
    "SELECT COUNTIF(age = 0) AS a, COUNTIF(age = 1) AS b, COUNTIF(age = 2) AS c FROM visits",
    "SELECT SUM(age) AS n, SUM(CASE WHEN smokes THEN age END) AS s, COUNT(*) AS k FROM visits",
    "SELECT AVG(age) FILTER (WHERE smokes) AS m, AVG(age) AS n, COUNTIF(stay > 2) AS o FROM visits WHERE city = 'A'",
    "SELECT "
    + ", ".join(f"COUNTIF(age >= {low} AND stay >= {low + 1}) AS n{low}" for low in range(3))
    + " FROM visits",
]


@pytest.fixture(params=BUDGETS)
def visits(request):
    rng = np.random.default_rng(6)
    rows = pd.DataFrame({"city": rng.choice(["A", "B"], ROWS), "smokes": rng.random(ROWS) < 0.3})
    rows["age"] = rng.integers(0, 4, ROWS)
    rows["stay"] = pd.array(rng.integers(0, 5, ROWS), dtype="Int64")
    rows.loc[rng.random(ROWS) < 0.2, "stay"] = pd.NA
    session = dpn.Session(budget=BUDGETS[request.param])
    session.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
    yield session, rows
    session.close()


def loss(measurements, noise):
    """Return by definition the most that one row can add to what is measured: sums of |x| / b, or of (x / sigma)^2."""
    values = [["A", "B"], [False, True], range(4), [*range(5), None]]
    domain, most = dpn.Domain(DOMAIN), 0.0
    for row in itertools.product(*values):
        levels = [domain[name].labels.index(value) for name, value in zip(domain.names, row, strict=True)]
        spent = 0.0
        for item in measurements:
            assert all(type(factor).__name__ == "Identity" for factor in factors(item.measurement.operator))
            if not item.measurement.where.dense(domain.names)[tuple(levels)]:
                continue
            added = contribution(item.measurement.summand, dict(zip(domain.names, row, strict=True)))
            scale = float(item.scale)
            spent += sum(abs(x) / scale if noise == "laplace" else (x / scale) ** 2 for x in added)
        most = max(most, spent)
    return most


def factors(operator):
    return getattr(operator, "factors", (operator,))


def contribution(summand, row):
    if summand.column is None:
        return [1]
    value = row[summand.column]
    if value is None:
        return []
    return [value - summand.low, summand.high - value] if summand.ends else [value]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_price_is_what_the_dearest_row_loses(visits, statement):
    session, _ = visits
    plan = session.sql(statement, epsilon=0.4).plan
    lost = loss(plan.measurements, plan.noise)
    accountant = session.ledger.accountant
    paid = accountant.epsilon(plan.cost.units)
    if plan.noise == "laplace":
        assert lost <= paid * (1 + 1e-9)
        assert lost >= 0.99 * paid
    else:  # mu^2 adds up
        whole = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.4, fresh=True).plan
        (single,) = whole.measurements
        mu2 = 1 / float(single.scale) ** 2
        assert lost <= mu2 * (1 + 1e-6)
        assert lost >= 0.99 * mu2


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_row_is_in_two_parts_of_a_layer(visits, statement):
    session, _ = visits
    query = session.sql(statement, epsilon=0.4)
    domain = dpn.Domain(DOMAIN)
    for layer in layers_of(query.question, domain, session.ledger.accountant.noise):
        counted = np.zeros(domain.shape, dtype=int)
        for one in layer:
            rows = one.where.dense(domain.names)
            if one.measures[0].column == "stay":  # a row without a value adds nothing
                rows = rows & (np.arange(6) < 5)
            counted += rows
        assert counted.max() == 1


def test_a_part_has_the_whole_epsilon_and_all_of_it_that_of_its_parts(visits):
    session, rows = visits
    query = session.sql(STATEMENTS[1], epsilon=0.4)
    alone = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.4).plan.std_error
    frame = query.run().frame
    for name, parts in (("n", 4), ("s", 2), ("o", 2)):
        assert frame[f"{name}_std_error"].to_numpy() == pytest.approx(alone * math.sqrt(parts), rel=1e-3)
    exact = rows.groupby("city").agg(n=("age", "size"), s=("smokes", "sum"), o=("age", lambda ages: (ages >= 2).sum()))
    for name in ("n", "s", "o"):
        assert (np.abs(frame[name] - exact[name].to_numpy()) < 17 * frame[f"{name}_std_error"]).all()
    assert [part.name for part in query.plan.parts] == ["n", "s", "o"]


def test_rows_without_a_value_are_counted_beside_the_mean_for_nothing_more(visits):
    session, _ = visits
    query = session.sql(STATEMENTS[2], epsilon=0.4)
    sums, missing = query.plan.measurements
    assert (sums.measurement.summand.column, missing.measurement.summand.column) == ("stay", None)
    variances = [law_of(query.plan.noise).count_variance(item.scale) for item in (sums, missing)]
    frame, steps = query.run().frame, sums.measurement.summand.steps
    known = 2 * variances[0] / steps**2
    assert frame["k_std_error"].to_numpy() == pytest.approx(math.sqrt(known), rel=1e-3)
    assert frame["n_std_error"].to_numpy() == pytest.approx(math.sqrt(known + variances[1]), rel=1e-3)


@pytest.mark.parametrize("noise", BUDGETS)
def test_counts_that_overlap_too_much_are_measured_apart(noise):
    """Nine conditions that are independent of each other cut the rows into 512 parts: 256 for each of them."""
    domain = dpn.Domain({f"x{place}": bool for place in range(9)})
    statement = "SELECT " + ", ".join(f"COUNTIF(x{place}) AS n{place}" for place in range(9)) + " FROM t"
    frame = pd.DataFrame({name: [True, False] for name in domain.names})
    with dpn.Session(BUDGETS[noise]) as session:
        session.protect(frame, "t", domain=domain)
        plan = session.sql(statement, epsilon=0.9).plan  # a ninth of it is a price, to the last unit
        assert len(layers_of(plan.question, domain, noise)) == 9
        values = assert_kept(plan, domain, session)
        assert len(values["measures"]) == (9 if noise == "laplace" else 0)  # as if they were asked one by one


@pytest.mark.one_in(3)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_charged_for_is_what_is_measured(visits, statement):
    session, _ = visits
    for fresh in (False, True):
        assert_kept(session.sql(statement, epsilon=0.4, fresh=fresh).plan, dpn.Domain(DOMAIN), session)


def assert_kept(plan, domain, session):
    """What the ledger keeps of a plan asks the data for the very rows whose cells pay for it."""
    values = json.loads(json.dumps(plan_to_json(plan)))
    kept = planned_from_json(values, domain)
    assert [one.measurement for one in kept] == [one.measurement for one in plan.measurements]
    charged = cost_of(kept, TableSchema("t", domain), session.ledger.accountant)
    assert charged.to_json() == plan.cells.to_json()
    return values


@pytest.mark.one_in(4)
@pytest.mark.parametrize("statement", [STATEMENTS[0], STATEMENTS[1], STATEMENTS[3]])
def test_an_error_holds_for_every_aggregate_and_costs_no_more_than_apart(visits, statement):
    session, _ = visits
    query = session.sql(statement, error=30)
    plan = query.plan
    assert max(part.half_width for part in plan.parts) <= 30 * (1 + 1e-6)
    assert plan.error <= 30 * (1 + 1e-6)
    units = plan.without_reuse.units if plan.without_reuse else plan.cost.units
    assert plan.cost.units <= units
    if statement == STATEMENTS[3]:  # three that have no row in common cost what one does
        one = session.sql("SELECT COUNTIF(age = 0) AS a FROM visits", error=30).plan
        assert plan.cost.units <= 1.05 * one.cost.units
    frame = query.run().frame
    for part in plan.parts:
        reach = (frame[f"{part.name}_upper"] - frame[f"{part.name}_lower"]).max() / 2
        assert reach <= 30 * (1 + 1e-6)
    assert session.sql(statement, error=30).plan.free


def test_what_is_known_of_a_part_or_of_all_is_not_paid_for_again(visits):
    session, rows = visits
    rows.dp.groupby(["city", "smokes"]).count(epsilon=0.5).run()
    text = "SELECT city, COUNT(*) AS n, COUNTIF({}) AS s FROM visits GROUP BY city"
    for accuracy in ({"epsilon": 0.4}, {"error": 60}):
        assert session.sql(text.format("smokes"), **accuracy).plan.free, accuracy
    other = session.sql(text.format("age = 0"), epsilon=0.4)
    assert not other.plan.free
    other.run()
    for where in ("", "WHERE age = 0 "):
        assert session.sql(f"SELECT city, COUNT(*) AS n FROM visits {where}GROUP BY city", epsilon=0.4).plan.free


def test_a_release_of_different_rows_survives_a_restart(visits, tmp_path):
    _, rows = visits
    budget = dpn.Budget(5.0, 1e-6)
    with dpn.Session(budget, tmp_path / "own.ledger") as own:
        own.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
        first = own.sql(STATEMENTS[1], epsilon=0.5).run()
        own.sql(STATEMENTS[1], error=70, fresh=True).run()
    with dpn.Session(budget, tmp_path / "own.ledger") as again:
        again.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
        assert again.audit().ok
        found = again.sql(STATEMENTS[1], epsilon=0.5)
        assert found.plan.free
        assert found.run().names == first.names
        assert set(again.release(1).frame.columns) == set(first.frame.columns)


@pytest.mark.one_in(2)
@pytest.mark.statistical
def test_intervals_of_different_rows_hold_as_often_as_they_say(same_noise, visits):
    session, rows = visits
    statement = STATEMENTS[1]
    exact = rows.groupby("city").agg(n=("age", "size"), s=("smokes", "sum"), o=("age", lambda ages: (ages >= 2).sum()))
    held = []
    for _ in range(50):
        frame = session.sql(statement, epsilon=0.3, fresh=True).run().frame
        for name in ("n", "s", "o"):
            truth = exact[name].to_numpy()
            held.append(((frame[f"{name}_lower"] <= truth) & (truth <= frame[f"{name}_upper"])).mean())
    # 300 intervals, three of a city from the same four draws: a standard error of at most 2.2%.
    assert 0.89 < np.mean(held) < 0.99

"""Several measures of the same rows in one question: what one of them measures is not measured again for the others."""

import math
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.laws import law_of

pytestmark = pytest.mark.usefixtures("same_noise")  # what becomes of it is tested, not how it is drawn

BUDGETS = {"pure": dpn.Budget(1e4), "gaussian": dpn.Budget(1e4, 1e-6)}
ROWS, CITIES = 6_000, list("ABCDE")
DOMAIN = {
    "city": CITIES,
    "cost": dpn.Bins(0, 1_000, count=10),
    "pay": dpn.Range(20, 60),
    "stay": dpn.Range(0, 30, nullable=True),
}
ALL = "SELECT city, COUNT(*) AS n, AVG(cost) AS mean, SUM(cost) AS total FROM visits GROUP BY city"


@pytest.fixture(params=BUDGETS)
def visits(request):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"city": rng.choice(CITIES, ROWS), "cost": rng.gamma(2, 100, ROWS).clip(0, 1_000).round(2)})
    rows["pay"] = rng.integers(20, 61, ROWS)
    rows["stay"] = np.where(rng.random(ROWS) < 0.2, np.nan, rng.integers(0, 31, ROWS))
    session = dpn.Session(budget=BUDGETS[request.param])
    session.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
    yield session, rows
    session.close()


def test_a_count_a_sum_and_a_mean_are_one_measurement(visits):
    session, rows = visits
    query = session.sql(ALL, epsilon=0.5)
    (measured,) = query.plan.measurements
    assert len(set(query.plan.warnings)) == len(query.plan.warnings) == 2  # of values outside, and of narrower bounds
    assert measured.measurement.summand.ends
    assert query.plan.cost.epsilon == pytest.approx(0.5, rel=1e-3)
    frame = query.run().frame
    variance = law_of(query.plan.noise).count_variance(measured.scale)
    steps = measured.measurement.summand.steps
    assert frame["n_std_error"].to_numpy() == pytest.approx(math.sqrt(2 * variance) / steps)
    assert frame["total_std_error"].to_numpy() == pytest.approx(math.sqrt(variance) * 1_000 / steps)  # from 0 on
    exact = rows.groupby("city")["cost"].agg(["size", "mean", "sum"])
    for name, truth in (("n", "size"), ("mean", "mean"), ("total", "sum")):
        assert (np.abs(frame[name] - exact[truth].to_numpy()) < 12 * frame[f"{name}_std_error"]).all()
    assert frame["total"].to_numpy() == pytest.approx((frame["n"] * frame["mean"]).to_numpy(), rel=1e-4)


def test_what_was_measured_together_is_free_apart(visits):
    session, _ = visits
    session.sql(ALL, epsilon=0.5).run()
    for statement in (
        ALL,
        "SELECT city, SUM(cost) AS s, COUNT(*) AS n FROM visits GROUP BY city",
        "SELECT city, AVG(cost) AS m FROM visits GROUP BY city",
        "SELECT city, SUM(cost) AS m FROM visits GROUP BY city",
    ):
        query = session.sql(statement, epsilon=0.5)
        assert query.plan.free, statement
        assert query.run().paid == 0
    count = session.sql("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=0.3)
    assert count.plan.free
    assert not session.sql(ALL, epsilon=0.7).plan.free


def test_what_is_known_of_one_measure_is_not_paid_for_again(visits):
    session, rows = visits
    rows.dp.groupby("city").mean("cost", epsilon=0.5).run()
    statement = "SELECT city, AVG(cost) AS m, AVG(pay) AS p FROM visits GROUP BY city"
    query = session.sql(statement, epsilon=0.5)
    assert [item.measurement.summand.column for item in query.plan.measurements] == ["pay"]
    assert query.plan.cost.epsilon < 0.4
    assert query.plan.reused == (1,)
    frame = query.run().frame
    alone = rows.dp.groupby("city").mean("cost", epsilon=0.5).run().frame["std_error"]
    assert (frame["m_std_error"] <= alone.to_numpy()).all()  # those of pay count the rows as well


def test_rows_without_a_value_are_counted_apart(visits):
    session, _ = visits
    query = session.sql("SELECT COUNT(*) AS n, AVG(stay) AS m FROM visits", epsilon=0.5)
    assert len(query.plan.measurements) == 2
    filtered = session.sql("SELECT COUNT(*) AS n, AVG(stay) AS m FROM visits WHERE stay >= 0", epsilon=0.5)
    assert len(filtered.plan.measurements) == 1
    assert query.run().frame["n"][0] == pytest.approx(ROWS, abs=120)
    assert filtered.run().frame["n"][0] == pytest.approx(0.8 * ROWS, abs=400)


def test_means_of_two_columns_count_the_rows_together(visits):
    session, _ = visits
    query = session.sql("SELECT COUNT(*) AS n, AVG(cost) AS m, AVG(pay) AS p FROM visits", epsilon=0.5)
    one, other = query.plan.measurements
    variances = [
        2 * law_of(query.plan.noise).count_variance(item.scale) / item.measurement.summand.steps**2
        for item in (one, other)
    ]
    shown = query.run().frame["n_std_error"][0]
    assert shown == pytest.approx(math.sqrt(1 / (1 / variances[0] + 1 / variances[1])), rel=1e-6)


def test_afresh_it_is_answered_from_its_own_measurement(visits):
    session, _ = visits
    first = session.sql(ALL, epsilon=0.5).run()
    query = session.sql(ALL, epsilon=0.5, fresh=True)
    assert not query.plan.free
    assert query.plan.reused == ()
    release = query.run()
    assert release.sources == (release.number,)
    assert (release.frame["n"] != first.frame["n"]).any()


def test_a_release_of_several_measures_survives_a_restart(visits, tmp_path):
    _, rows = visits
    with dpn.Session(dpn.Budget(5.0), tmp_path / "own.ledger") as own:
        own.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
        first = own.sql(ALL, epsilon=0.5).run()
    with dpn.Session(dpn.Budget(5.0), tmp_path / "own.ledger") as again:
        again.protect(rows, "visits", domain=DOMAIN, rows=ROWS)
        second = again.sql(ALL, epsilon=0.5).run()
        assert second.paid == 0
        pd.testing.assert_frame_equal(first.frame, second.frame)


@pytest.mark.one_in(2)
@pytest.mark.statistical
def test_intervals_hold_as_often_as_they_say(visits):
    session, rows = visits
    exact = rows.groupby("city")["cost"].agg(["size", "mean", "sum"])
    held = []
    for _ in range(60):
        frame = session.sql(ALL, epsilon=0.3, fresh=True).run().frame
        for name, truth in (("n", "size"), ("mean", "mean"), ("total", "sum")):
            inside = (frame[f"{name}_lower"] <= exact[truth].to_numpy()) & (
                exact[truth].to_numpy() <= frame[f"{name}_upper"]
            )
            held.append(inside.mean())
    # 900 intervals, three of a group from the same two draws: a standard error of at most 1.3%.
    assert 0.92 < np.mean(held) < 0.98


def test_the_least_epsilon_is_planned_though_half_of_it_measures_nothing():
    with dpn.Session(dpn.Budget(1.0)) as session:
        session.protect(pd.DataFrame({"pay": np.arange(20, 60)}), "t", domain={"pay": dpn.Range(20, 60)}, rows=40)
        plan = session.sql("SELECT COUNT(*) AS n, AVG(pay) AS m FROM t", epsilon=1e-9).plan
        assert plan.cost.epsilon == pytest.approx(1e-9)
        assert min(other.epsilon for other in plan.alternatives) == plan.cost.epsilon


def test_means_are_foretold_by_the_sizes_that_groups_are_known_to_have(same_noise):
    """The card of several measures says about what means have, where releases have counted each group."""
    sex = np.repeat(["F", "M"], [100, 4_900])
    rows = pd.DataFrame({"sex": sex, "age": np.arange(5_000) % 100, "pay": np.arange(5_000) % 50 + 20})
    domain = {"sex": ["F", "M"], "age": dpn.Range(0, 99), "pay": dpn.Range(0, 99)}
    with dpn.Session(dpn.Budget(1_000.0)) as session:
        session.protect(rows, "t", domain=domain, rows=5_000)

        def query():
            return rows.dp.groupby("sex").agg({"age": "mean", "pay": ["mean", "sum"]}, epsilon=5.0)

        before = query().plan
        assert before.assumption == "assuming about 2,500 rows in each group, wherever the mean lies"
        rows.dp.groupby("sex").count(epsilon=50.0).run()
        plan = query().plan
        assert plan.assumption == (
            "taking groups to have the rows that releases tell, about 100 to 4,900, wherever the mean lies"
        )
        assert plan.error > 10 * before.error
        frame = query().run().frame
        halves = [(frame[f"{name}_upper"] - frame[f"{name}_lower"]).max() / 2 for name in ("age_mean", "pay_mean")]
        assert max(halves) <= 1.05 * plan.error
        assert plan.error <= 2.5 * max(halves)  # wherever the mean lies: in the middle it is less


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["laplace", "gaussian"])
def test_groups_that_a_condition_treats_unlike_cost_what_is_said(delta):
    """Such a condition is of several boxes, which no row has in common: the plan's price is what is charged."""
    numbers = np.arange(2_000)
    frame = pd.DataFrame({"s": numbers % 50, "g": np.where(numbers % 3, "a", "b"), "z": numbers % 70})
    domain = {"s": dpn.Range(0, 49), "g": ["a", "b"], "z": dpn.Range(0, 69)}
    with closing(dpn.Session(dpn.Budget(5.0, delta), ":memory:", confirm="never")) as session:
        table = session.protect(frame, "t", domain=domain)
        query = table.groupby("g").agg({"s": ["mean", "sum"]}, where="g == 'a' or z >= 10", epsilon=0.1)
        planned = query.plan
        assert planned.units <= session.ledger.accountant.least_units(0.1)
        query.run()
        assert 0 <= planned.units - session.ledger.spent <= 2  # both are rounded up to whole units, by themselves

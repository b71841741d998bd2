"""A session with planner="pioneer" does with real measurements what the simulation does without data."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.pioneer.plans import cost
from dpnotebook.planner.pioneer.simulate import running_epsilon

CELLS = 200
DOMAIN = {"x": dpn.Range(0, CELLS - 1), "sex": ["F", "M"]}


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.integers(0, CELLS, 500), "sex": rng.choice(["F", "M"], 500)})


def opened(frame, ledger=":memory:", planner="pioneer"):
    session = dpn.Session(dpn.Budget(epsilon=10.0), ledger, planner=planner)
    session.protect(frame, "table", domain=DOMAIN)
    return session


def where(one):
    return f"x >= {one.start} and x < {one.end}"


def test_ranges_cost_what_the_simulation_says(frame, sequences):
    """The first ten exactly; later, least squares over everything recorded finds some answers where no plan looks."""
    drawn = sequences.ranges(40, np.random.default_rng(0), CELLS, (60, 10))
    session = opened(frame)
    totals = []
    for one in drawn:
        release = frame.dp.count(where=where(one), variance=one.variance).run()
        assert release.frame["std_error"][0] ** 2 <= one.variance * (1 + 1e-6)
        totals.append(session.spent.epsilon)
    simulated = running_epsilon(drawn, "pioneer")
    assert totals[:10] == pytest.approx(simulated[:10], rel=1e-3)
    assert totals[-1] == pytest.approx(simulated[-1], rel=0.1)
    assert totals[-1] < 0.85 * running_epsilon(drawn, "naive")[-1]


def test_disjoint_answers_are_refined_at_one_price(frame):
    """The second plan of Fig. 2, through a session: sqrt(2) - 1 times the price of an answer of variance 2."""
    session = opened(frame)
    for text in ("x < 60", "x >= 60 and x < 100"):
        frame.dp.count(where=text, variance=20_000).run()
    assert session.spent.epsilon == pytest.approx(cost(20_000), rel=1e-3)
    plan = frame.dp.count(where="x < 100", variance=20_000).plan
    assert plan.cost.epsilon == pytest.approx((2**0.5 - 1) * cost(20_000), rel=1e-3)
    release = frame.dp.count(where="x < 100", variance=20_000).run()
    assert session.spent.epsilon == pytest.approx(cost(10_000), rel=1e-3)
    assert release.frame["std_error"][0] ** 2 == pytest.approx(20_000, rel=1e-3)


def test_a_ledger_goes_from_planner_to_planner(frame, sequences, tmp_path):
    drawn = sequences.ranges(24, np.random.default_rng(1), CELLS, (60, 10), variance=(2_500, 250))
    for turn, planner in enumerate(("pioneer", "optimal", "pioneer", "naive", "pioneer", "optimal")):
        session = opened(frame, tmp_path / "table.ledger", planner)
        for one in drawn[4 * turn : 4 * turn + 4]:
            before = session.spent.epsilon
            release = frame.dp.count(where=where(one), variance=one.variance).run()
            assert release.frame["std_error"][0] ** 2 <= one.variance * (1 + 1e-6)
            assert session.spent.epsilon - before == pytest.approx(release.paid, abs=1e-9)
        frame.dp.groupby("sex").count(where=f"x < {100 + turn}", variance=4_000.0).run()
        assert session.audit()
        session.close()


def test_pioneer_plans_no_gaussian_noise():
    with pytest.raises(ValueError, match="Laplace"):
        dpn.Session(dpn.Budget(epsilon=1.0, delta=1e-6), planner="pioneer")

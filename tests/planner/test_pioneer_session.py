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


@pytest.mark.slow
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


COMPOSED = [("x < 40", 1), ("x >= 20 and x < 60", 4), ("x >= 60 and x < 80", 0.5)]
UNIT = 10_000  # of the variances here


def composed(session, frame):
    """Ask three questions, whose answers add up to a fourth, x < 80, in two ways that share one.

    Of the second, [20, 60), as much as need be is left to [0, 60), which the first was extended to for free, less
    [0, 20): 1/4 = 1/r + 1/(2 + r) gives the variance r of [20, 60) and [0, 20). The third is dearer than the two
    others together, and cannot share their price. So x < 80 is the third, and the average of [0, 40) + [40, 60), at
    variance 1 each, and [20, 60) + [0, 20), at r each, which is returned.
    """
    for text, variance in COMPOSED:
        frame.dp.count(where=text, variance=variance * UNIT).run()
    rough = 3 + 17**0.5
    assert 1 / rough + 1 / (2 + rough) == pytest.approx(1 / 4)
    assert session.spent.epsilon == pytest.approx(cost(0.5 * UNIT), rel=1e-3)
    return rough


def test_a_composite_plan_is_what_is_charged_measured_and_revealed(frame):
    """Fig. 8: 1/v = 1/v' + 1/(v4 + 1/(1/(v1 + v1') + 1/(v2 + v3))), eq. 19, at the price of v', eq. 23."""
    session = opened(frame)
    rough = composed(session, frame)
    before = session.spent.epsilon
    known = 0.5 + 1 / (1 / (1 + 1) + 1 / (rough + rough))
    new = 1 / (1 / 1 - 1 / known)
    query = frame.dp.count(where="x < 80", variance=UNIT)
    planned = query.plan.cost.epsilon
    assert planned == pytest.approx(cost(new * UNIT), rel=1e-3)
    assert planned < 0.75 * cost(UNIT)
    release = query.run()
    assert release.paid == planned
    assert session.spent.epsilon - before == pytest.approx(release.paid, rel=1e-9)
    assert release.frame["std_error"][0] ** 2 == pytest.approx(UNIT, rel=1e-3)
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]])
    information = (rows.T / [1, 1, rough, rough, 0.5, new]) @ rows
    assert np.linalg.inv(information).sum() == pytest.approx(1)  # what is in the ledger by then, and no less, gives 1
    assert session.audit()


def test_a_composite_plan_refines_what_costs_least(frame):
    """Where asking nothing new is cheaper: eq. 19 with v1 and v1' refined, which are disjoint and share one price."""
    session = opened(frame)
    rough = composed(session, frame)
    refined = 1 / (1 / (1.5 - 0.5) - 1 / (rough + rough)) / 2
    query = frame.dp.count(where="x < 80", variance=1.5 * UNIT)
    # Before, [60, 80) was the dearest part, by a little.
    dearest = cost(refined * UNIT) + cost(rough * UNIT)
    assert query.plan.cost.epsilon == pytest.approx(dearest - session.spent.epsilon, rel=1e-3)
    assert [action.kind for action in query.plan.actions].count("refine") == 2
    assert query.run().frame["std_error"][0] ** 2 == pytest.approx(1.5 * UNIT, rel=1e-3)


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

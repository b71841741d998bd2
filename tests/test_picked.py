"""Who asks about the row that stood out is told so: its interval misses, one that is measured anew does not."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.session.questions import draw_noise

CELLS, RUNS = 64, 2_000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": np.repeat(np.arange(CELLS), 40), "sex": rng.choice(["F", "M"], 40 * CELLS)})


@pytest.fixture
def session(frame):
    session = dpn.Session(dpn.Budget(epsilon=10.0))
    session.protect(frame, "people", domain={"x": dpn.Range(0, CELLS - 1), "sex": ["F", "M"]})
    yield session
    session.close()


@pytest.fixture
def seen(frame, session):
    return frame.dp.histogram("x", error=30).run()


def half(release):
    return float(release.frame["upper"][0] - release.frame["value"][0])


def drawn(plan, seed, count):
    """Return noise as a plan would have it, for every answer, many times; shape (count, answers)."""
    (item,) = plan.measurements
    return np.array(
        [
            np.ldexp(
                draw_noise(item, plan.noise, Randomness(bytes([seed] * 32)).source("noise", i)).astype(float),
                -item.bits,
            )
            for i in range(count)
        ]
    )


def test_what_stands_out_is_covered_by_fresh_answers_and_by_intervals_that_hold_at_once(frame, session):
    """Of 64 equal counts the largest has the largest noise: 0.975 ** 64 = 20% are covered by the interval of one."""
    asked = frame.dp.histogram("x", error=30)
    noise = drawn(asked.plan, 1, RUNS)
    seen = asked.run()
    again = frame.dp.count(where="x == 7", error=30)
    assert again.plan.free
    known = again.run()  # the very row, with its very interval
    assert (known.value, half(known)) == pytest.approx((seen.frame["value"][7], half(seen)))
    largest = noise.max(axis=1)
    assert 0.17 < np.mean(np.abs(largest) <= half(known)) < 0.24
    anew = frame.dp.count(where="x == 7", error=30, fresh=True)
    fresh = drawn(anew.plan, 2, RUNS)
    assert np.mean(np.abs(fresh) <= half(anew.run())) > 0.935
    assert np.mean(np.abs(noise).max(axis=1) <= half(seen.simultaneous())) > 0.935
    assert np.mean(np.abs(largest) <= half(seen.simultaneous())) > 0.95


def test_a_plan_says_from_what_it_may_have_been_picked_and_what_a_fresh_answer_costs(frame, session, seen):
    spent = session.spent.epsilon
    query = frame.dp.count(where="x == 7", error=30)
    for _ in range(2):  # from the histogram; then from its own record, that follows from it
        plan = query.plan
        assert (plan.picked.release, plan.picked.rows) == (1, CELLS)
        assert plan.afresh.cost == frame.dp.count(where="x == 7", error=30, fresh=True).plan.cost
        release = query.run()
        assert (release.paid, release.picked) == (0, plan.picked)
        assert session.release(release.number).picked == plan.picked
    assert session.spent.epsilon == spent
    partly = frame.dp.count(where="x == 7", error=20).plan
    assert partly.cost.units
    assert partly.picked == plan.picked
    relative = frame.dp.count(where="x <= 7", error="50%").plan
    assert relative.afresh.accuracy.error == relative.accuracy.error


def test_nothing_is_said_where_nothing_was_picked(frame, session, seen):
    frame.dp.crosstab("x", "sex", error=60).run()
    assert frame.dp.count(error=300).plan.picked is None  # all rows
    assert frame.dp.histogram("x", error=40).plan.picked is None  # the same again
    assert frame.dp.histogram("sex", error=700).plan.free
    assert frame.dp.histogram("sex", error=700).plan.picked is None  # added up
    assert frame.dp.count(where="sex == 'F'", error=700).plan.picked is None  # one of two, of whatever rows
    assert frame.dp.count(where="x == 7 and sex == 'F'", error=60).plan.picked.rows == 2 * CELLS
    assert frame.dp.groupby("sex").count(where="x == 7", error=60).plan.picked.rows == 2 * CELLS
    assert frame.dp.count(where="x == 7", error=30, fresh=True).plan.picked is None
    assert frame.dp.count(where="x == 7", error=30, fresh=True).run().picked is None


def test_few_rows_are_no_choice(frame, session):
    frame.dp.histogram("sex", error=20).run()
    query = frame.dp.count(where="sex == 'F'", error=25)
    assert query.plan.free
    assert query.plan.picked is None


@pytest.mark.parametrize("budget", [dpn.Budget(epsilon=10.0), dpn.Budget(epsilon=1.0, delta=1e-6)])
def test_intervals_that_hold_at_once_are_those_of_a_higher_confidence(frame, budget):
    with_all = dpn.Session(budget)
    with_all.protect(frame, "people", domain={"x": dpn.Range(0, CELLS - 1), "sex": ["F", "M"]})
    query = frame.dp.histogram("x", epsilon=0.1)
    release = query.run()
    joint = release.simultaneous()
    sharper = query.at(epsilon=0.1, confidence=1 - 0.05 / CELLS).run()
    assert sharper.paid == 0
    assert joint.frame[["lower", "upper"]].equals(sharper.frame[["lower", "upper"]])
    assert (joint.confidence, joint.paid, joint.together) == (0.95, release.paid, True)
    assert joint.simultaneous() is joint
    assert (joint.frame["value"] == release.frame["value"]).all()
    assert half(joint.nonnegative()) > 0
    with pytest.raises(WorkloadError, match="as it was measured"):
        release.nonnegative().simultaneous()
    one = frame.dp.count(where="sex == 'F'", epsilon=0.1, fresh=True).run()
    assert one.simultaneous().interval == one.interval
    with_all.close()


def test_answers_of_statements_hold_at_once_too(frame, session):
    linear = session.sql("SELECT x AS place, COUNT(*) AS people FROM people GROUP BY x", error=30).run()
    assert list(linear.simultaneous().frame.columns) == list(linear.frame.columns)
    other = session.sql("SELECT sex, COUNT(*) AS n, SUM(x) AS s FROM people GROUP BY sex", epsilon=1.0).run()
    for release, names in ((linear, ["people"]), (other, ["n", "s"])):
        joint = release.simultaneous()
        for name in names:
            wide, narrow = (one.frame[f"{name}_upper"] - one.frame[name] for one in (joint, release))
            assert (wide > narrow).all()


def test_statements_are_told_so_too(frame, session, seen):
    query = session.sql("SELECT COUNT(*) AS n FROM people WHERE x = 7", error=30)
    assert (query.plan.picked.release, query.plan.picked.rows) == (1, CELLS)
    release = query.run()
    assert (release.paid, release.picked) == (0, query.plan.picked)
    assert session.sql("SELECT x, COUNT(*) AS n FROM people GROUP BY x", error=40).plan.picked is None

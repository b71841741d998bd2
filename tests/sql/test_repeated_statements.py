"""A statement asked again is free, and its card has the errors of the recorded answers, not those foretold."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

ROWS = 5_000
ASKED = [
    "SELECT STDDEV(age) FROM visits",
    "SELECT sex, AVG(age), COUNT(*) FROM visits GROUP BY sex",
    "SELECT sex, SUM(age * 2) FROM visits GROUP BY sex",
]


@pytest.fixture(params=[1e-6, 0.0], ids=["gaussian", "laplace"])
def session(request):
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": np.clip(random.normal(45, 20, ROWS), 0, 109).astype(int),
            "sex": random.choice(["F", "M"], ROWS),
            "who": np.arange(ROWS) // 3,
        }
    )
    with dpn.Session(dpn.Budget(epsilon=3.0, delta=request.param), ledger=":memory:") as session:
        domain = {"age": dpn.Range(0, 109), "sex": ["F", "M"]}
        session.protect(frame, "visits", unit="who", max_rows=3, domain=domain)
        yield session


@pytest.mark.one_in(8)
@pytest.mark.parametrize("asked", ASKED)
def test_the_card_of_a_repeat_has_the_errors_that_were_delivered(session, asked):
    frame = session.sql(asked, epsilon=0.2).run().frame
    again = session.sql(asked, epsilon=0.2).plan
    assert again.free
    assert again.reused == (1,)
    ends = [name.removesuffix("_lower") for name in frame if name.endswith("_lower")]
    delivered = [float((frame[f"{name}_upper"] - frame[f"{name}_lower"]).max() / 2) for name in ends]
    assert [part.half_width for part in again.parts] == pytest.approx(delivered, rel=1e-9)
    assert again.error == pytest.approx(delivered[0], rel=1e-9)


def test_variances_and_their_roots_are_one_question(session):
    """STDDEV after VAR was paid anew, and the two did not agree."""
    asked = "SELECT sex, {}(age) AS v FROM visits GROUP BY sex"
    first = session.sql(asked.format("VAR_POP"), epsilon=0.2).run().frame
    rows = {}
    for name in ("STDDEV_POP", "STDDEV", "VAR_SAMP"):
        query = session.sql(asked.format(name), epsilon=0.2)
        assert query.plan.free, name
        rows[name] = query.run().frame
    ends = ["v", "v_lower", "v_upper"]
    assert np.allclose(rows["STDDEV_POP"][ends] ** 2, first[ends])
    assert np.allclose(rows["STDDEV"][ends] ** 2, rows["VAR_SAMP"][ends])
    assert (rows["VAR_SAMP"]["v"] >= first["v"]).all()
    assert np.allclose(rows["VAR_SAMP"]["v"], first["v"], rtol=0.01)
    assert not session.sql("SELECT sex, STDDEV(age + 1) AS v FROM visits GROUP BY sex", epsilon=0.2).plan.free


def test_a_root_of_a_variance_is_a_deviation(session):
    """It had no interval where noise may make the variance negative."""
    release = session.sql("SELECT sex, SQRT(VAR_POP(age)) AS sd FROM visits GROUP BY sex", epsilon=0.001).run()
    assert np.isfinite(release.frame[["sd", "sd_lower", "sd_upper"]].to_numpy()).all()
    session.sql("SELECT VAR_POP(age) AS v FROM visits", epsilon=0.2).run()
    for asked in ("STDDEV_POP(age)", "SQRT(VAR_POP(age))", "100 * SQRT(VAR_POP(age))"):
        query = session.sql(f"SELECT {asked} AS sd FROM visits", epsilon=0.2)
        assert query.plan.free, asked


def test_a_variance_and_its_root_in_one_statement_are_one_measurement(session):
    """Each had half of the price, and twice the error."""
    both = session.sql("SELECT sex, STDDEV(age) AS s, VAR_POP(age) AS v FROM visits GROUP BY sex", epsilon=0.2)
    alone = session.sql("SELECT sex, VAR_POP(age) AS v FROM visits GROUP BY sex", epsilon=0.2)
    assert [part.name for part in both.plan.parts] == ["s", "v"]
    for part in both.plan.parts:  # each keeps a line of the card
        assert np.isfinite(part.half_width)
    assert both.plan.parts[1].half_width == pytest.approx(alone.plan.parts[0].half_width, rel=1e-9)
    frame = both.run().frame
    assert alone.plan.free
    ends, of_root = ["v", "v_lower", "v_upper"], ["s", "s_lower", "s_upper"]
    root = frame[of_root].to_numpy() ** 2 / frame[ends].to_numpy()
    assert (root > 1).all()
    assert (root < 1.02).all()  # a sample's

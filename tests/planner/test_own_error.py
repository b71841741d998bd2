"""What was released at an error is free at that error, in part too, whatever else is known of the same rows."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.answers import LinearAnswers

SIZES = {"age": 9, "city": 4, "sex": 2}
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}


def asked_before(rng, table):
    """Pay for a few questions that tell a little of what is asked later."""
    for _ in range(int(rng.integers(1, 4))):
        keys = [name for name in SIZES if rng.random() < 0.5] or ["sex"]
        epsilon = float(rng.choice([0.01, 0.03, 0.1]))
        if rng.random() < 0.4:
            table.groupby([name for name in keys if name != "age"] or ["city"]).mean("age", epsilon=epsilon).run()
        else:
            table.groupby(keys).count(epsilon=epsilon).run()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(5, 300, 5))])
def test_a_part_of_a_released_table_is_free_at_the_error_of_the_table(first, delta):
    """Together with what others tell its variance is less, and its interval may be longer: the table's own is kept."""
    for seed in range(first, first + 5):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({name: rng.integers(0, size, 400) for name, size in SIZES.items()})
        with dpn.Session(dpn.Budget(1_000.0, delta), ":memory:") as session:
            table = session.protect(frame, "t", domain=DOMAIN, rows=400)
            asked_before(rng, table)
            keys = [str(name) for name in rng.permutation(list(SIZES))[:2]]
            error = float(rng.choice([20.0, 33.0, 50.0]))
            released = table.groupby(keys).count(error=error).run().frame
            row = released.iloc[int(rng.integers(len(released)))]
            parts = [
                table.groupby(keys[0]).count(where=f"{keys[1]} == {row[keys[1]]}", error=error),
                table.count(where=" and ".join(f"{name} == {row[name]}" for name in keys), error=error),
            ]
            for part in rng.permutation(len(parts)):
                assert parts[part].plan.free, (seed, part)
                answer = parts[part].run()
                width = (answer.frame["upper"] - answer.frame["lower"]) / 2
                assert (width <= error * (1 + 1e-9)).all(), (seed, part)
            drawn = answer.samples(400)["value"].to_numpy(dtype=float).reshape(400, -1)
            spread = answer.frame["std_error"].to_numpy(dtype=float)
            assert drawn.std(axis=0) == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize("error", [1.0, 2.0, 5.0])
def test_an_error_just_below_a_point_of_a_lattice_takes_few_looks(error, monkeypatch):
    """Sums of whole numbers reach as far until noise is much less: it was lowered by a millionth, for minutes."""
    looks, expected = [], LinearAnswers.expected
    monkeypatch.setattr(LinearAnswers, "expected", lambda *given: looks.append(given) or expected(*given))
    with dpn.Session(dpn.Budget(500.0), ":memory:") as session:
        table = session.protect(pd.DataFrame({"x": [1, 2, 3]}), "t", domain={"x": range(1, 7)}, rows=100)
        below, between = (table.cdf("x", error=one).plan for one in (error - 1e-10, error - 0.5))
    assert len(looks) <= 200
    assert below.error <= error - 1e-10
    assert below.cost.epsilon <= 1.01 * between.cost.epsilon  # either is one of the same, smaller whole number

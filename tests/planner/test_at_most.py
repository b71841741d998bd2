"""epsilon= means "at most this": beside what is known no answer costs more, or is worse, than that epsilon alone."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

SIZES = {"age": 12, "city": 4, "sex": 2}
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}


def asked(rng, table):
    """Return what makes a question of an epsilon, of many kinds."""
    low, high = sorted(rng.integers(0, 12, 2).tolist())
    where = [f"age >= {low} and age <= {high}", f"city == {low % 4}", f"sex == 0 and age <= {high}", None][
        int(rng.integers(4))
    ]
    keys = [name for name in SIZES if rng.random() < 0.5]
    kind = str(rng.choice(["count", "groups", "groups", "sum", "cdf", "ranges"]))
    if kind == "count" or (kind == "groups" and not keys):
        return lambda **accuracy: table.count(where=where, **accuracy)
    if kind == "groups":
        return lambda **accuracy: table.groupby(keys).count(where=where, **accuracy)
    if kind == "sum":
        return lambda **accuracy: table.sum("age", where=where, **accuracy)
    if kind == "cdf":
        return lambda **accuracy: table.cdf("age", where=None if where and "age" in where else where, **accuracy)
    return lambda **accuracy: table.answer(dpn.ranges("age"), **accuracy)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_answer_costs_more_or_is_worse_than_its_epsilon_alone(delta, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.integers(0, size, 500) for name, size in SIZES.items()})
    cheaper = 0
    with (
        dpn.Session(dpn.Budget(50.0, delta), ":memory:") as session,
        dpn.Session(dpn.Budget(50.0, delta), ":memory:", planner="naive") as apart,
    ):
        tables = [one.protect(frame.copy(), "t", domain=DOMAIN) for one in (session, apart)]
        for _ in range(22):
            state = rng.bit_generator.state
            ask = asked(rng, tables[0])
            rng.bit_generator.state = state
            alone = asked(rng, tables[1])
            epsilon = float(rng.choice([0.1, 0.2, 0.5]))
            plan = (query := ask(epsilon=epsilon)).plan
            most = session.ledger.accountant.units(epsilon)
            assert plan.cost.units <= most
            cheaper += plan.cost.units < most
            answers = [one.run().frame["std_error"] for one in (query, alone(epsilon=epsilon))]
            errors = [one.to_numpy(dtype=float) for one in answers]
            assert (errors[0] <= errors[1] * (1 + 1e-6)).all()
    assert cheaper > 8  # or nothing would be tested

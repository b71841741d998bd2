"""No error of a mean is said to be larger than half of what its values lie between: its interval ends at these."""

import math

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

FRAME = pd.DataFrame({"age": np.arange(400) % 100, "ward": ["A"] * 390 + ["B"] * 10})
DOMAIN = {"age": dpn.Range(0, 99), "ward": ["A", "B"]}
HALF = 99 / 2
ASKED = {
    "alone": lambda table: table.mean("age", epsilon=0.001),
    "by ward": lambda table: table.groupby("ward").mean("age", epsilon=0.001),
    "beside others": lambda table: table.agg({"age": ["mean", "sum"]}, epsilon=0.001),
    "described": lambda table: table.describe(epsilon=0.001),
}


@pytest.mark.parametrize("counted", [False, True], ids=["assumed", "counted"])
@pytest.mark.parametrize("budget", [dpn.Budget(4.0), dpn.Budget(4.0, 1e-6)], ids=["pure", "gaussian"])
@pytest.mark.parametrize("name", ASKED)
def test_one_rule_for_every_number_that_is_shown(name, budget, counted):
    with dpn.Session(budget) as session:
        table = session.protect(FRAME, "people", domain=DOMAIN)
        if counted:
            table.groupby("ward").count(epsilon=2.0).run()
        query = ASKED[name](table)
        plan = query.plan
        of_mean = [part for part in plan.parts if "mean" in part.name.lower()]
        shown = [part.half_width for part in of_mean] or [plan.error]
        assert shown == [HALF]
        assert all(part.half_width > 1_000 for part in plan.parts if "sum" in part.name)
        if not plan.parts or plan.parts[0] in of_mean:
            prices = {round(one.epsilon / plan.cost.epsilon, 2): one.error for one in plan.alternatives}
            assert max(prices.values()) == HALF
        release = query.run()
        columns = [column for column in release.frame if column.endswith("lower") and "mean" in column] or ["lower"]
        for lower in columns if name != "described" else []:
            width = release.frame[lower.replace("lower", "upper")] - release.frame[lower]
            assert (width / 2 <= shown[0] * (1 + 1e-9)).all()


def test_an_error_that_is_told_is_as_it_was():
    with dpn.Session(dpn.Budget(4.0)) as session:
        table = session.protect(FRAME, "people", domain=DOMAIN)
        near, far = (table.mean("age", epsilon=epsilon).plan.error for epsilon in (2.0, 1.0))
        assert math.isclose(far / near, 2, rel_tol=0.01)
        assert far < HALF

"""A column of truth values that was declared by a list of them is summed and averaged like one declared as bool."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

LISTED = [[False, True], [True, False], dpn.Categories([False, True], nullable=True), dpn.Categories([True])]
ASKED = ["mean", "sum"]


def people(dtype):
    """Return people of whom some have died, in a column of a type; of some it is not known."""
    random = np.random.default_rng(3)
    died = pd.Series(random.random(3_000) < 0.2).astype(dtype)
    if dtype != "bool":
        died[random.random(3_000) < 0.1] = None
    return pd.DataFrame({"sex": random.choice(["F", "M"], 3_000), "died": died})


def opened(frame, died):
    """Return a session whose answers are exact."""
    session = exact_session(dpn.Budget(20.0), ":memory:", confirm="never")
    session.protect(frame, "people", rows=3_000, domain={"sex": ["F", "M"], "died": died})
    return session


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["bool", "boolean", "object"])
@pytest.mark.parametrize("listed", LISTED, ids=str)
def test_answers_are_those_of_the_rows(listed, dtype, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = people(dtype)
    known = frame.dropna() if not isinstance(listed, dpn.Categories) or not listed.nullable else frame
    if isinstance(listed, dpn.Categories) and len(listed.levels) == 1:
        known = known[known["died"].astype(bool)]
    with closing(opened(frame, listed)) as session:
        died = known["died"].dropna().astype(float)
        assert float(frame.dp.sum("died", epsilon=1.0).run()) == died.sum()
        assert float(frame.dp.mean("died", epsilon=1.0).run()) == pytest.approx(died.mean(), abs=1e-9)
        by = frame.dp.groupby("sex").mean("died", epsilon=1.0).run().frame
        assert by["value"].to_list() == pytest.approx(died.groupby(known["sex"]).mean().to_list(), abs=1e-9)
        found = session.sql("SELECT AVG(died) AS x, COUNT(*) AS n FROM people WHERE sex = 'F'", epsilon=1.0).run().frame
        assert found["x"][0] == pytest.approx(died[known["sex"] == "F"].mean(), abs=1e-9)


@pytest.mark.parametrize("asked", ASKED)
def test_it_costs_and_errs_as_much_as_declared_as_bool(asked):
    frame, found = people("bool"), []
    for died in (bool, [False, True], [True, False]):
        with closing(dpn.Session(dpn.Budget(5.0), ":memory:", confirm="never")) as session:
            session.protect(frame, "people", rows=3_000, domain={"sex": ["F", "M"], "died": died})
            one = getattr(frame.dp, asked)("died", epsilon=0.5)
            wanted = getattr(frame.dp, asked)("died", error=0.05 if asked == "mean" else 50.0)
            found.append((one.plan.error, wanted.plan.cost.epsilon))
            frame.dp.histogram("died", epsilon=1.0).run()
            assert getattr(frame.dp, asked)("died", epsilon=0.5, where="sex == 'F'").plan.cost.epsilon > 0
    assert found[0] == found[1] == found[2]


def test_its_bounds_are_those_of_truth_values():
    with closing(dpn.Session(dpn.Budget(5.0), ":memory:", confirm="never")) as session:
        frame = people("bool")
        session.protect(frame, "people", domain={"sex": ["F", "M"], "died": [False, True]})
        with pytest.raises(dpn.errors.DomainError, match="counted as 1 or 0: leave bounds= and granularity= out"):
            _ = frame.dp.mean("died", bounds=(0, 1), epsilon=0.5).plan

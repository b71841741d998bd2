"""A question of many columns takes work in proportion to them, and says what all measurements together say."""

import numpy as np
import pandas as pd

import dpnotebook as dpn
from dpnotebook.planner import repeats
from dpnotebook.planner.combining import Promise
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.plan_json import estimates_from_json
from dpnotebook.planner.several import details_of
from dpnotebook.privacy.laws import law_of


def described(columns):
    """Return a question of some columns, an empty history, and what is measured for it with noise alone."""
    kinds = [dpn.Range(0, 9), dpn.Bins(0, 100, count=6)]
    domain = {f"c{place}": kinds[place % 2] for place in range(columns)}
    with dpn.Session(dpn.Budget(10.0)) as session:
        rows = pd.DataFrame({name: [1, 2] for name in domain})
        session.protect(rows, "t", domain=domain, rows=2)
        plan = rows.dp.describe(epsilon=1.0).plan
    rng, history = np.random.default_rng(columns), History(plan.question.where.domain, plan.noise)
    also = []
    for place, planned in enumerate(plan.measurements):
        asked = planned.measurement
        noisy = rng.integers(-50, 1_000, (asked.summand.components, asked.operator.shape[0]))
        also.append(item_of(planned, (1, place), noisy, law_of(plan.noise)))
    return plan.question, history, also


def test_measurements_of_other_columns_added_up_say_what_each_of_them_does(monkeypatch):
    question, history, also = described(18)
    assert len(also) > repeats.FEW
    found = details_of(question, history, 0.95, Promise(), also)
    monkeypatch.setattr(repeats, "FEW", len(also))
    question, history, also = described(18)
    each = details_of(question, history, 0.95, Promise(), also)
    for one, other in zip([found["estimates"], *found["others"]], [each["estimates"], *each["others"]], strict=True):
        assert one["sources"] == other["sources"]
        one, other = (estimates_from_json(told, history.noise, 0.95) for told in (one, other))
        for name in ("value", "std_error", "lower", "upper"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-7, atol=1e-9)


def test_work_grows_as_the_columns_do(monkeypatch):
    looked = []
    told = repeats.told
    monkeypatch.setattr(repeats, "told", lambda *asked, **how: looked.append(1) or told(*asked, **how))
    counts = []
    for columns in (20, 40):
        question, history, also = described(columns)
        looked.clear()
        details_of(question, history, 0.95, Promise(), also)
        counts.append(len(looked))
    assert counts[1] < 2.2 * counts[0]

"""Releases: keys in the order they were asked, whatever order they were measured in; the rest follows the frame."""

import numpy as np
import pandas as pd
import pytest

from dpnotebook.domain import Range
from dpnotebook.privacy.budget import Budget
from dpnotebook.session.session import Session
from dpnotebook.testing import exact_session
from dpnotebook.workload import AllRange, Total


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"a": random.integers(0, 3, 500), "b": random.choice(["x", "y"], 500), "c": random.integers(0, 4, 500)}
    )
    session = exact_session(Budget(1000.0))
    session.protect(frame, "people", domain={"a": Range(0, 2), "b": ["x", "y"], "c": Range(0, 3)})
    return frame


def test_groups_are_in_the_order_asked(people):
    for keys in (["a", "b"], ["b", "a"], ["c", "a", "b"], ["b"]):
        found = people.dp.groupby(keys).count(epsilon=1.0).run().frame
        exact = people.groupby(keys).size().rename("value").reset_index()
        assert found[keys].values.tolist() == exact[keys].values.tolist()
        assert found["value"].to_numpy() == pytest.approx(exact["value"].to_numpy(), abs=1e-9)  # combined


def test_another_order_of_keys_is_the_same_question(people):
    one = people.dp.crosstab("a", "b", epsilon=1.0).run()
    other = people.dp.crosstab("b", "a", epsilon=1.0).run()
    assert other.paid == 0
    assert other.number == one.number
    merged = one.frame.merge(other.frame, on=["a", "b"])
    assert merged["value_x"].tolist() == merged["value_y"].tolist()


def test_cumulative_counts_and_quantiles_by_group(people):
    for keys in (["b", "a"], ["a", "b"]):
        found = people.dp.groupby(keys).cdf("c", epsilon=1.0).run().frame
        plan = people.dp.groupby(keys).cdf("c", epsilon=2.0).plan
        assert plan.std_errors.shape == (len(found),)
        for group, rows in found.groupby(keys):
            mine = people[(people[keys] == list(group)).all(axis=1)]["c"]
            assert np.rint(rows["value"]).tolist() == [int((mine <= level).sum()) for level in rows["c"]]
            assert rows["share"].iloc[-1] == pytest.approx(1)
        medians = people.dp.groupby(keys).quantile("c", 0.5, epsilon=1.0).run().frame
        for row in medians.itertuples():
            mine = people[(people["a"] == row.a) & (people["b"] == row.b)]["c"]
            assert row.value == np.quantile(mine, 0.5, method="inverted_cdf")


def test_a_workload_keeps_the_cells_as_they_stand(people):
    one = people.dp.answer(Total(6), on=["a", "b"], epsilon=1.0).run()
    assert one.value == pytest.approx(500)
    assert people.dp.answer(Total(6), on=["b", "a"], epsilon=1.0).run().number != one.number
    ranges = people.dp.answer(AllRange(3), on="a", epsilon=1.0).run().frame
    for row in ranges.itertuples(index=False):
        assert round(row.value) == people["a"].between(row[0], row[1]).sum()


def test_a_single_answer_and_many(people, tmp_path):
    one = people.dp.count(epsilon=1.0).run()
    assert one.value == 500
    assert one.interval[0] < 500 < one.interval[1]
    many = people.dp.histogram("a", epsilon=1.0).run()
    with pytest.raises(ValueError, match=r"3 answers: use \.frame"):
        _ = many.value
    many.to_csv(tmp_path / "public.csv")
    assert pd.read_csv(tmp_path / "public.csv").columns.tolist() == ["a", "value", "std_error", "lower", "upper"]


def test_a_failing_watcher_loses_no_release():
    session = Session(Budget(1.0))
    frame = pd.DataFrame({"a": [0, 1, 2]})
    session.protect(frame, "t", domain={"a": Range(0, 2)})
    session.on_change(lambda: 1 / 0)
    assert frame.dp.count(epsilon=0.5).run().number == 1

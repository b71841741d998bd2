"""Answers of a workload say what each counts, and truly: the words of each, taken as a condition, are its query."""

import re

import numpy as np
import pandas as pd
import pytest
from clocks import processor_time

import dpnotebook as dpn
from dpnotebook.query.measurement import Axis
from dpnotebook.session.answer_frame import answer_labels
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Permuted,
    Predicates,
    Prefix,
    Stack,
    Total,
    WidthRange,
    disjunction,
)

DOMAIN = dpn.Domain(
    {
        "age": dpn.Range(0, 5, nullable=True),
        "sex": ["F", "M"],
        "income": dpn.Bins(0, 40_000, width=10_000),
    }
)
AXES = [Axis(name, tuple(range(DOMAIN[name].size))) for name in DOMAIN.names]


def cells_of(label, axis):
    """Return which levels of an attribute the words of an answer stand for, read as a person would."""
    names = [DOMAIN[axis.attribute].labels[level] for level in axis.levels]
    if label in names:
        return np.array([name == label for name in names])
    if label == "(all)":
        return np.ones(len(names), dtype=bool)
    if axis.attribute == "income":
        edges = [int(edge) for edge in re.findall(r"\d+", label.replace(",", ""))]
        low, high = edges if len(edges) == 2 else (0, *edges)
        return np.array([low <= 10_000 * i and 10_000 * (i + 1) <= high for i in range(4)])
    known = [str(name) for name in names]
    if label.startswith("<= "):
        return np.arange(len(names)) <= known.index(label[3:])
    first, last = label.split(" to ")
    places = np.arange(len(names))
    return (known.index(first) <= places) & (places <= known.index(last))


def rows_of(columns, axes=AXES):
    rows = []
    for labels in zip(*columns.values(), strict=True):
        row = np.ones(1)
        for label, axis in zip(labels, axes, strict=True):
            row = np.kron(row, cells_of(label, axis))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(
    "request_",
    [
        dpn.marginals(2),
        dpn.marginals(upto=3),
        dpn.prefix_marginals(2),
        dpn.marginals(1) + dpn.ranges("income") + 2 * dpn.ranges("age") + dpn.total(),
        dpn.cdf("age", "income") + dpn.ranges("age", "income"),
        dpn.identity("age", "sex", "income"),
    ],
    ids=repr,
)
def test_the_words_are_the_queries(request_):
    unweighted = dpn.workload.Workload.dense(request_.over(DOMAIN)) > 0
    columns = answer_labels(request_.over(DOMAIN), AXES, DOMAIN)
    assert list(columns) == list(DOMAIN.names)
    np.testing.assert_array_equal(rows_of(columns) > 0, unweighted)


@pytest.mark.parametrize(
    "w",
    [
        Kron(Hierarchy(7, 2), WidthRange(2, 1), WidthRange(4, 3)),
        Kron(Stack(Identity(7), 3 * Total(7)), 2 * Identity(2), Stack(Prefix(4), AllRange(4))),
        Stack(Kron(Identity(7), Total(2), Total(4)), Kron(Total(7), Identity(2), Total(4))),
    ],
    ids=repr,
)
def test_the_words_of_factors_are_their_queries(w):
    np.testing.assert_array_equal(rows_of(answer_labels(w, AXES, DOMAIN)) > 0, w.dense() > 0)


def test_levels_that_do_not_take_part_have_no_words():
    axes = [Axis("age", (1, 2, 4)), Axis("income", (1, 2))]
    w = Kron(AllRange(3), Prefix(2))
    columns = answer_labels(w, axes, DOMAIN)
    assert columns["age"].tolist() == [a for a in (1, "1 to 2", "(all)", 2, "2 to 4", 4) for _ in range(2)]
    assert columns["income"].tolist() == ["< 20,000", "< 30,000"] * 6


def test_queries_without_words_have_a_number():
    age = AXES[:1]
    odd = Predicates([[1, 0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 1, 0]])
    assert answer_labels(odd, age, DOMAIN)["age"].tolist() == ["query 0", "query 1"]
    shuffled = Permuted(Identity(7), [1, 0, 2, 3, 4, 5, 6])  # not the levels, in order
    assert answer_labels(shuffled, age, DOMAIN)["age"].tolist()[:2] == ["query 0", "query 1"]
    product = answer_labels(Kron(odd, Identity(2)), AXES[:2], DOMAIN)
    assert product["age"].tolist() == ["query 0", "query 0", "query 1", "query 1"]
    assert product["sex"].tolist() == ["F", "M"] * 2
    for w in (disjunction(odd, Identity(2)), Explicit(np.eye(14)), Total(14) + Prefix(14), AllRange(14)):
        assert answer_labels(w, AXES[:2], DOMAIN) is None
    # All cells as one attribute are all combinations of levels.
    assert answer_labels(Identity(14) + Total(14), AXES[:2], DOMAIN)["sex"].tolist() == ["F", "M"] * 7 + ["(all)"]


def test_200_000_answers_take_no_time():
    big = dpn.Domain({f"a{i}": dpn.Range(0, 9) for i in range(11)})
    w = dpn.marginals(upto=3).over(big)
    axes = [Axis(name, tuple(range(10))) for name in big.names]
    assert w.shape[0] == 170_611
    assert processor_time(lambda: answer_labels(w, axes, big)) < 1
    columns = answer_labels(w, axes, big)
    assert [column[-1] for column in columns.values()] == ["(all)"] * 8 + [9] * 3


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    from dpnotebook.testing import exact_session

    session = exact_session(dpn.Budget(100.0))
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(0, 6, 400).astype(float), "sex": rng.choice(["F", "M"], 400),
                           "income": rng.integers(0, 40_000, 400)})  # fmt: skip
    people.loc[:30, "age"] = np.nan
    session.protect(people, "people", domain={name: DOMAIN[name] for name in DOMAIN})
    return people


def test_answers_of_a_named_workload_are_true(table):
    found = table.dp.answer(2 * dpn.marginals(2) + dpn.ranges("age"), epsilon=1.0).run().frame
    assert list(found.columns) == ["age", "sex", "income", "value", "std_error", "lower", "upper"]
    assert len(found) == 7 * 2 + 7 * 4 + 2 * 4 + 21
    codes = {name: DOMAIN[name].encode(table[name]) for name in DOMAIN}
    for row in found.itertuples():
        inside = np.ones(len(table), dtype=bool)
        for axis in AXES:
            label = getattr(row, axis.attribute)
            inside &= cells_of(None if label is None or label != label else label, axis)[codes[axis.attribute]]
        assert row.value == pytest.approx(inside.sum(), abs=1e-6)


def test_where_leaves_levels_out(table):
    found = table.dp.answer(dpn.marginals(1) + dpn.cdf("age"), where="age >= 3 and sex == 'F'", epsilon=1.0).run().frame
    kept = table[(table["age"] >= 3) & (table["sex"] == "F")]
    assert found["age"].tolist()[:3] == [3, 4, 5]
    assert found["age"].tolist()[-3:] == ["<= 3", "<= 4", "<= 5"]
    assert found["value"].tolist()[-3:] == pytest.approx([(kept["age"] <= a).sum() for a in (3, 4, 5)])
    assert (found["sex"] == "F").sum() == 1


def test_attributes_of_an_answer(table):
    dp = table.dp
    assert dp.answer(dpn.cdf("age"), epsilon=1.0).question.keys == ("age",)
    assert dp.answer(dpn.total(), epsilon=1.0).question.keys == ()
    assert dp.answer(dpn.total(), epsilon=1.0).run().value == pytest.approx(400)
    assert dp.answer(dpn.marginals(1), epsilon=1.0).question.keys == ("age", "sex", "income")
    assert dp.answer(dpn.marginals(1), on=["sex", "age"], epsilon=1.0).question.keys == ("sex", "age")
    assert dp.answer(DOMAIN.marginals(1), epsilon=1.0).question.keys == DOMAIN.names
    with pytest.raises(dpn.WorkloadError, match="did you mean 'age'"):
        dp.answer(dpn.ranges("agee"), epsilon=1.0)
    with pytest.raises(dpn.WorkloadError, match="what it is asked of has 'sex'"):
        dp.answer(dpn.ranges("age"), on="sex", epsilon=1.0)
    with pytest.raises(dpn.DomainError, match=r"answer\(\) takes a workload, such as dpn.marginals\(2\)"):
        dp.answer("marginals", epsilon=1.0)


def test_the_same_named_workload_is_answered_once(table):
    first = table.dp.answer(dpn.marginals(1) + dpn.ranges("age"), epsilon=1.0).run()
    again = table.dp.answer(dpn.marginals(1) + dpn.ranges("age"), epsilon=1.0).run()
    assert (again.number, again.paid) == (first.number, 0)
    pd.testing.assert_frame_equal(first.frame, again.frame)


def test_cumulative_counts_are_drawn_as_a_line(table):
    release = table.dp.answer(dpn.cdf("age"), epsilon=1.0).run()
    assert release.frame["age"].tolist() == [f"<= {age}" for age in range(6)]
    assert sorted(set(release.plot().data[1].x)) == list(range(6))
    income = table.dp.answer(dpn.cdf("income"), epsilon=1.0).run()
    assert income.frame["income"].tolist() == ["< 10,000", "< 20,000", "< 30,000", "<= 40,000"]
    assert sorted(set(income.plot().data[1].x)) == [10_000, 20_000, 30_000, 40_000]
    ranges = table.dp.answer(dpn.ranges("age"), epsilon=1.0).run().frame
    assert list(ranges.columns[:2]) == ["age from", "age to"]  # the missing level is in no range
    for row in ranges.itertuples(index=False):
        assert row.value == pytest.approx(table["age"].between(row[0], row[1]).sum(), abs=1e-6)


@pytest.mark.parametrize("request_", [dpn.marginals(2), dpn.marginals(1) + dpn.ranges("age"), dpn.total()], ids=repr)
def test_every_answer_has_a_figure_and_a_card(table, request_):
    release = table.dp.answer(request_, epsilon=1.0).run()
    assert release.plot().data
    assert release.title.startswith(repr(request_))

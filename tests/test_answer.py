"""`df.dp.answer`: whole workloads, by attribute names, with the strategy that is found or one that is given."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy, identity
from dpnotebook.testing import exact_session
from dpnotebook.workload import AllRange, Prefix

FRAME = pd.DataFrame({"age": [0, 1, 2, 3, 3, 5, 7, 7] * 5, "sex": ["F", "M"] * 20})
DOMAIN = {"age": dpn.Range(0, 7), "sex": ["F", "M"]}


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def people(request, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(budget=dpn.Budget(epsilon=10.0, delta=request.param))
    yield session.protect(FRAME, "people", domain=DOMAIN)
    session.close()


def test_a_union_by_names(people):
    asked = dpn.marginals(2) + dpn.ranges("age") + 4 * dpn.identity("sex")
    query = people.answer(asked, epsilon=1.0)
    frame = query.run().frame
    assert len(frame) == len(query.plan.std_errors) == 16 + 36 + 2
    found = {(row.age, row.sex): round(row.value, 6) for row in frame.itertuples()}
    counts = FRAME.groupby(["age", "sex"]).size()
    assert all(found[age, sex] == counts.get((age, sex), 0) for age in range(8) for sex in "FM")
    assert found["(all)", "F"] == found["(all)", "M"] == 20
    assert found["2 to 5", "(all)"] == FRAME["age"].between(2, 5).sum()
    assert (frame["lower"] <= frame["value"]).all()


def test_a_weight_is_an_accuracy_not_a_factor(people):
    plain, heavy = (
        people.answer(dpn.identity("age") + k * dpn.identity("sex"), epsilon=1.0).plan.std_errors for k in (1, 20)
    )
    assert heavy[8:].max() < plain[8:].max()
    assert heavy[:8].max() > plain[:8].max()


@pytest.mark.parametrize("asked", [dpn.ranges("age"), AllRange(8)])
def test_with_a_strategy_that_is_given(people, asked):
    query = people.answer(asked, "age", strategy=identity, epsilon=1.0)
    assert query.plan.measurements[0].strategy.name == "identity"
    counts = FRAME["age"].value_counts().reindex(range(8), fill_value=0).to_numpy()
    assert np.allclose(query.run().frame["value"], AllRange(8).matvec(counts))
    found = people.answer(asked, "age", epsilon=1.0, fresh=True).plan
    assert found.error <= query.plan.error * 1.5
    assert sum(found.std_errors**2) <= sum(query.plan.std_errors**2) * (1 + 1e-9)


def test_a_strategy_that_does_not_fit(people):
    noise = people.session.ledger.accountant.noise
    other = {"laplace": "gaussian", "gaussian": "laplace"}[noise]
    spent = people.session.spent
    for strategy, said in [
        (identity(Prefix(8), noise), "make one for it"),
        (identity(AllRange(8), other), f'noise="{noise}"'),
        (Strategy(AllRange(8), dpn.workload.Total(8), noise, "the total"), "does not determine every answer"),
        (lambda workload, noise: "identity", "not str"),
    ]:
        with pytest.raises(WorkloadError, match=said):
            people.answer(AllRange(8), "age", strategy=strategy, epsilon=1.0)
    assert people.session.spent == spent


def test_more_answers_than_a_person_reads(people):
    wide = pd.DataFrame({f"x{i}": [0, 1] for i in range(12)})
    table = people.session.protect(wide, "wide", domain={name: dpn.Range(0, 29) for name in wide})
    with pytest.raises(dpn.DomainError, match=r"5,940,000 answers; at most 2,000,000 .* unless they are of marginals"):
        table.answer(dpn.prefix_marginals(3), epsilon=1.0).run()


def test_the_plan_says_what_was_asked_by_its_names(people):
    asked = dpn.marginals(2) + 3 * dpn.ranges("age")
    plan = people.answer(asked, where="age < 6", epsilon=1.0).plan
    assert plan.title == "marginals(2) + 3 * ranges('age') by age, sex"
    again = "people.dp.answer(dpn.marginals(2) + 3 * dpn.ranges('age'), on=['age', 'sex'], where='age <= 5', epsilon=1)"
    assert plan.code == again
    # The words are no part of the question: the same queries, stated otherwise, are answered by the same release.
    release = people.answer(asked, epsilon=1.0).run()
    same = people.answer(asked.over(people.domain), on=["age", "sex"], epsilon=1.0).run()
    assert (same.number, same.paid) == (release.number, 0)
    assert same.title == "52 queries of a workload by age, sex"

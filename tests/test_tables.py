"""Marginals of very many counts: planned, paid and recorded as any others, and read table by table."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner import answers, partwise

pytestmark = pytest.mark.usefixtures("same_noise")
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
LEVELS = {"a": 5, "b": 4, "c": 3, "d": 2}
DOMAIN = {name: dpn.Range(0, size - 1) for name, size in LEVELS.items()}
NUMBERS = ["value", "std_error", "lower", "upper"]


def people(rows=500):
    random = np.random.default_rng(3)
    return pd.DataFrame({name: random.integers(0, size, rows) for name, size in LEVELS.items()})


@pytest.fixture(params=DELTAS)
def noise(request):
    return request.param


def residual(workload, noise):
    return dpn.strategy.opt_residual(workload)


def opened(noise, ledger=":memory:"):
    session = dpn.Session(budget=dpn.Budget(epsilon=4.0, delta=DELTAS[noise]), ledger=ledger, confirm="never")
    session.protect(people(), "people", domain=DOMAIN)
    return session


@pytest.fixture
def by_table(monkeypatch):
    """Tables are read one by one from so few answers on."""
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)
    monkeypatch.setattr(answers, "WEIGHTS_LIMIT", 0)  # intervals of Laplace noise as of answers that are many


@pytest.mark.parametrize("accuracy", [{"epsilon": 1.0}, {"error": 30.0}, {"epsilon": 1.0, "simultaneous": True}])
@pytest.mark.parametrize("where", [None, "a >= 1 and b != 2"])
def test_tables_are_those_that_a_frame_would_have(noise, monkeypatch, accuracy, where, tmp_path):
    monkeypatch.setattr(answers, "WEIGHTS_LIMIT", 0)
    asked = dpn.marginals(2) + 3 * dpn.marginals(1)
    found = []
    for most in (10**6, 10):  # of the same record, in a session after it
        monkeypatch.setattr(partwise, "MAX_ANSWERS", most)
        with opened(noise, tmp_path / "ledger") as session:
            best = dpn.strategy.opt_marginals if noise == "laplace" else residual
            query = session.table("people").answer(asked, where=where, strategy=best, **accuracy)
            afresh = session.table("people").answer(asked, where=where, strategy=best, fresh=True, **accuracy)
            found.append((afresh.plan, query.run(), session.spent))
    (plan, whole, spent), (lazy_plan, lazy, spent_after) = found
    assert (spent, whole.number, "") == (spent_after, lazy.number, whole.unread)
    assert lazy.paid == 0
    assert lazy.unread
    assert lazy_plan.answers == plan.answers == len(whole.frame)
    assert lazy_plan.cost == plan.cost
    assert lazy_plan.error == pytest.approx(plan.error, rel=1e-9)
    assert list(lazy.tables.names) == list(whole.tables.names)
    monkeypatch.setattr(partwise, "MAX_ANSWERS", 20)  # a table has fewer
    at = 0
    for names in whole.tables.names:
        for order in itertools.permutations(names):
            one, other = whole.marginal(*order), lazy.marginal(*order)
            assert one.keys == other.keys == order
            pd.testing.assert_frame_equal(one.frame, other.frame, rtol=1e-9, atol=1e-9)
            assert (one.together, one.confidence) == (other.together, other.confidence)
        rows = whole.frame.iloc[at : at + len(whole.marginal(*names))]
        at += len(rows)
        assert (rows[NUMBERS].to_numpy() == whole.marginal(*names).frame[NUMBERS].to_numpy()).all()
        for name in names:
            assert rows[name].tolist() == whole.marginal(*names).frame[name].tolist()
    assert at == len(whole.frame)

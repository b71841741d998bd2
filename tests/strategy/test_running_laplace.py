"""p-Identities for running counts: their error by dense matrices, against long searches and trees, and in plans."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.strategy import hierarchical
from dpnotebook.strategy.running_laplace import (
    is_running,
    loss_of_norm,
    running_counts,
    running_p_identity,
    running_variances,
)
from dpnotebook.strategy.select import select_own
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import AllRange, Prefix


def test_variances_and_gradient_against_dense_matrices():
    theta = np.random.default_rng(3).random((4, 30)) * (np.random.default_rng(4).random((4, 30)) < 0.5)
    operator = np.vstack([np.eye(30), theta]) / (1 + theta.sum(axis=0))
    prefix = np.tri(30)
    dense = np.diagonal(prefix @ np.linalg.inv(operator.T @ operator) @ prefix.T)
    assert running_variances(theta) == pytest.approx(dense, rel=1e-10)
    for power in (1.0, 8.0, 128.0):
        loss, gradient = loss_of_norm(theta, power)
        assert loss == pytest.approx(np.log((dense**power).sum()) / power, rel=1e-9)
        for place in ((0, 3), (1, 17), (3, 29)):
            step = np.zeros_like(theta)
            step[place] = 1e-6
            slope = (loss_of_norm(theta + step, power)[0] - loss_of_norm(theta - step, power)[0]) / 2e-6
            assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("n", [257, *(pytest.param(n, marks=pytest.mark.slow) for n in (419, 700, 1024))])
def test_as_good_as_a_long_search(n):
    """At most 1% more error than of OPT_0, and of the search for the worst answer, which take up to fifteen seconds."""
    for objective, worse in (("total", lambda s: s.objective), ("worst", lambda s: s.worst)):
        found = Strategy(Prefix(n), running_counts(n, objective), "laplace", "")
        assert worse(found) <= 1.01**2 * worse(select_own(Prefix(n), "laplace", "full", objective))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", [1025, 1500, 2048])
def test_better_than_every_tree(n):
    """Where trees were all there was: by 7% in the mean, and by 23% in the worst answer."""
    tree = hierarchical(Prefix(n), "laplace")
    total, worst = (Strategy(Prefix(n), running_counts(n, each), "laplace", "") for each in ("total", "worst"))
    assert total.objective <= 0.93**2 * tree.objective
    assert worst.worst <= 0.77**2 * tree.worst


def test_what_is_promised_is_what_the_integers_have():
    found = running_counts(300, "worst")
    assert found == running_p_identity(300, "worst")  # nothing is drawn
    dense = found.dense().astype(float)
    assert (np.abs(dense).sum(axis=0) == found.max_column_norm(1)).all()  # every cell may be spent alike
    prefix = np.tri(300)
    by_hand = np.diagonal(prefix @ np.linalg.inv(dense.T @ dense) @ prefix.T)
    assert variances(inverse(found), Prefix(300)) == pytest.approx(by_hand, rel=1e-9)


def test_for_which_it_is():
    assert is_running(Prefix(257), "laplace")
    assert is_running(Prefix(2048), "laplace")
    for other in (Prefix(256), Prefix(2049), AllRange(300), 2 * Prefix(300)):
        assert not is_running(other, "laplace")
    assert not is_running(Prefix(300), "gaussian")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("levels", "kept"), [(400, 400), (1500, 1500), (1500, 700)])
def test_plans_measure_it(levels, kept):
    """By the verb and by `answer` alike, of all levels or of some."""
    session = dpn.Session(budget=dpn.Budget(10))
    table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, levels - 1)})
    where = None if kept == levels else f"x < {kept}"
    for accuracy, objective in (({"error": 40}, "worst"), ({"epsilon": 0.1}, "total")):
        plan = table.cdf("x", where=where, **accuracy).plan
        assert plan.measurements[0].measurement.operator == running_counts(kept, objective)
        if where is None:
            asked = table.answer(Prefix(levels), on="x", **accuracy).plan
            assert asked.measurements[0].measurement.operator == running_counts(kept, objective)

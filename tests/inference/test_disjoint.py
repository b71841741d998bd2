"""Queries that share no cell have a pseudo-inverse in closed form, at any number of cells: months of a century."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.inference.dense import DenseInverse
from dpnotebook.inference.disjoint import DisjointInverse, are_disjoint
from dpnotebook.inference.inverse import inverse, variances
from dpnotebook.workload import AllRange, Identity, Predicates, Total


def disjoint(random, runs):
    """Return queries that share no cell, of one run of cells each or of several; some may hold none."""
    n, k = (int(random.integers(*ends)) for ends in ((1, 15), (1, 6)))
    cuts = np.sort(random.integers(0, n + 1, 2 * k)).reshape(k, 2)
    cells, groups = np.arange(n), random.integers(0, k + 1, n)
    held = (cuts[:, :1] <= cells) & (cells < cuts[:, 1:]) if runs else groups == np.arange(k)[:, None]
    held[0, random.integers(n)] |= not held.any()
    return held


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_pseudo_inverse(seed, runs):
    random = np.random.default_rng(seed)
    held = disjoint(random, runs)
    operator, z = Predicates(held), random.normal(size=(2, held.shape[1], 3))
    assert are_disjoint(operator)
    found, exact = DisjointInverse(operator), DenseInverse(operator)
    written = held.astype(float)
    assert found.rank == np.linalg.matrix_rank(written)
    assert found.apply(z) == pytest.approx(np.einsum("ij,ajb->aib", np.linalg.pinv(written.T @ written), z), abs=1e-9)
    for workload in (operator, AllRange(held.shape[1]), Identity(held.shape[1]), Total(held.shape[1])):
        assert variances(found, workload) == pytest.approx(variances(exact, workload), abs=1e-9)


def test_queries_that_share_a_cell_are_not_taken_for_such():
    groups = np.repeat(np.arange(1_100), 4)
    assert isinstance(inverse(Predicates.of_groups(groups)), DisjointInverse)
    assert not are_disjoint(Predicates([[(0, 3)], [(2, 4)]], n=5))
    with pytest.raises(dpn.WorkloadError, match="pseudo-inverse"):
        inverse(Predicates([[(i, i + 2)] for i in range(4_998)], n=5_000))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(("by", "groups"), [("month", 1_260), ("week", 5_480), ("quarter", 420)])
def test_births_of_a_century_are_counted_by_month_and_week(delta, by, groups):
    """38,352 days: by month they were refused, as least squares took a matrix over all of them."""
    born = pd.Series(pd.date_range("1920-01-01", "2024-12-31", freq="D").to_numpy())
    frame = pd.DataFrame({"born": born.sample(60_000, replace=True, random_state=1).to_numpy()})
    with closing(dpn.Session(budget=dpn.Budget(epsilon=100, delta=delta))) as session:
        table = session.protect(frame, "people", domain={"born": dpn.Dates("1920-01-01", "2024-12-31")})
        found = table.groupby({"born": by}).count(epsilon=1.0).run()
        again = table.groupby({"born": "year"}).count(epsilon=0.001)
        assert by == "week" or again.plan.free
        answer = found.frame.set_index("born")["value"]
        errors = found.frame["std_error"].to_numpy()
    exact = frame.groupby(frame["born"].dt.to_period({"month": "M", "week": "W", "quarter": "Q"}[by])).size()
    assert len(answer) == groups
    assert answer.index.tolist() == sorted(answer.index)
    away = (answer.to_numpy() - exact.reindex(pd.PeriodIndex(exact.index)).to_numpy()[: len(answer)]) / errors
    assert np.sqrt(np.mean(away**2)) == pytest.approx(1, abs=0.4)

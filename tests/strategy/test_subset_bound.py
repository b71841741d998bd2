"""Bounds of unions of products are never above the optimum, and near it; where none is near, that is said."""

import math

import numpy as np
import pytest

from dpnotebook.strategy import Strategy, itself, opt_residual, select
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.subset_bound import subset_bound
from dpnotebook.workload import AllRange, Explicit, Identity, Kron, Prefix, Stack, Total, marginals, prefix_marginals

FACTORS = [Identity, Total, Prefix, AllRange, lambda n: Stack(Total(n), Identity(n)), lambda n: Explicit(np.eye(1, n))]


@pytest.mark.parametrize("seed", range(60))
def test_never_above_the_optimum(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, int(rng.integers(1, 4)))
    parts = [
        float(rng.uniform(0.3, 3)) * Kron(*(FACTORS[rng.integers(len(FACTORS))](int(n)) for n in sizes))
        for _ in range(int(rng.integers(1, 5)))
    ]
    workload = Stack(*parts) if len(parts) > 1 else parts[0]
    optimum = gaussian_optimum(workload.gram().astype(float), tolerance=1e-7)
    assert 0 < subset_bound(workload) <= optimum.objective * (1 + 1e-8)


def test_marginals_reach_it():
    workload = marginals((5, 7, 3, 4), upto=2)
    assert subset_bound(workload) == pytest.approx(select(workload, "gaussian").objective, rel=1e-3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("workload", "times"),
    [
        (prefix_marginals((100,) * 5 + (16, 9), 2, prefix=range(5)), 1.16),
        (Kron(Prefix(100), Total(100)) + Kron(Total(100), Prefix(100)), 1.06),
    ],
    ids=["two-way", "one-way"],
)
def test_near_over_domains_that_nobody_forms(workload, times):
    found = opt_residual(workload)
    assert found.optimality < times
    assert found.lower_bound(1.0, 1e-6) == pytest.approx(found.rmse(1.0, 1e-6) / found.optimality)


def test_where_none_is_near_it_is_not_known():
    wide = marginals((10,) * 30, 2)
    pure = select(wide, "laplace", "quick")
    assert math.sqrt(pure.objective / pure.bound) > 4
    assert pure.optimality is None
    assert pure.lower_bound(1.0) is None
    assert "not known" in repr(pure) + str(pure._repr_html_() if hasattr(pure, "_repr_html_") else "")
    assert select(wide, "gaussian", "quick").optimality == pytest.approx(1, abs=1e-4)


def test_a_bad_strategy_is_far_from_a_bound_that_is_known():
    bad = itself(AllRange(512), "gaussian")
    assert bad.optimality > 4
    assert isinstance(bad, Strategy)

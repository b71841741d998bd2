"""The standard errors of a hundred thousand answers, against rows of W A^+, without ever forming it."""

import itertools
import tracemalloc

import numpy as np
import pytest

from dpnotebook.strategy import Strategy
from dpnotebook.workload import AllRange, Explicit, Hierarchy, Identity, Kron, Marginals, Prefix

RANGES, BOXES = AllRange(450), Kron(AllRange(25), AllRange(25))
TREE = Kron(Hierarchy(25, 5), Hierarchy(25, 5))
UNEVEN = Explicit(np.random.default_rng(0).integers(-2, 5, size=(480, 450)))


@pytest.mark.parametrize(
    ("workload", "operator"),
    [(RANGES, Hierarchy(450, 8)), (RANGES, UNEVEN), (BOXES, TREE), (BOXES, 2 * Identity(25**2) + 3 * TREE)],
    ids=["tree", "no structure", "product", "union"],
)
def test_of_a_hundred_thousand_answers(workload, operator):
    strategy = Strategy(workload, operator, "gaussian", "under test")
    answers, measurements = workload.shape[0], operator.shape[0]
    assert answers > 10**5
    tracemalloc.start()
    try:
        factors = strategy.error_factors()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * answers * measurements / 5  # a fifth of what W A^+ alone would take
    rows = np.random.default_rng(1).choice(answers, size=200, replace=False)
    expected = workload.rows(rows) @ np.linalg.pinv(operator.dense().astype(float))
    np.testing.assert_allclose(strategy.answer_weights(rows), expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(factors[rows], (expected**2).sum(axis=1), rtol=1e-8)
    assert strategy.objective == pytest.approx(strategy.norm * factors.sum(), rel=1e-8)


def test_of_marginals_of_a_domain_that_is_never_formed():
    sizes = [30] * 16
    pairs = [(pair, 1 + sum(pair) % 3) for pair in itertools.combinations(range(16), 2)]
    workload = Marginals([Prefix(30)] * 16, pairs)
    strategy = Strategy(workload, Marginals([Hierarchy(n, 6) for n in sizes], pairs), "laplace", "under test")
    factors = strategy.error_factors()
    assert factors.size == 108_000
    rows = np.random.default_rng(2).choice(factors.size, size=200, replace=False)
    weights = strategy.answer_weights(rows)
    np.testing.assert_allclose(factors[rows], (weights**2).sum(axis=1), rtol=1e-8)
    # Unbiased: what the weights make of exact measurements of any table is its answers. Here of people all alike.
    cell = [3, 29, 0, 17] * 4
    ones = [(np.arange(30) == level).astype(float) for level in cell]
    exact = []
    for m in (strategy.operator, workload):
        seen = [factor.matvec(one) for factor, one in zip(m.factors, ones, strict=True)]
        exact.append(np.concatenate([weight * np.kron(seen[i], seen[j]) for (i, j), weight in m.weights]))
    measured, asked = exact
    np.testing.assert_allclose(weights @ measured, asked[rows], atol=1e-9)

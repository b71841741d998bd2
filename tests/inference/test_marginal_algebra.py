"""Least squares from measured marginals, held against dense pseudo-inverses."""

import itertools

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.marginal_algebra import marginal_algebra, variances_of_sums
from dpnotebook.strategy import Strategy, itself
from dpnotebook.workload import AllRange, Centred, Explicit, Identity, Kron, Marginals, Prefix, Stack, Total

SIZES = (3, 4, 2)
PAIRS = list(itertools.combinations(range(3), 2))


def random_factor(rng, n, rows):
    while True:
        matrix = rng.integers(-3, 4, (rows, n))
        if matrix.any():
            return Explicit(matrix)


def operators():
    rng = np.random.default_rng(5)
    identities = [Identity(n) for n in SIZES]
    every = [s for k in range(4) for s in itertools.combinations(range(3), k)]
    yield "marginals", Marginals(identities, {s: int(rng.integers(1, 6)) for s in every})
    yield "one full marginal", Marginals(identities, [((0, 1, 2), 2), ((1,), 3)])
    yield "residuals", Marginals([Centred(n) for n in SIZES], {s: int(rng.integers(1, 6)) for s in every})
    mixed = [Centred(3), Prefix(4), Identity(2)]
    yield "mixed", Marginals(mixed, {s: int(rng.integers(1, 6)) for s in every})
    full = [random_factor(rng, n, n + 1) for n in SIZES]
    yield "any queries", Marginals(full, {s: int(rng.integers(1, 6)) for s in every})
    nearly = [Explicit(1000 * Centred(n).dense() + rng.integers(-1, 2, (n, n))) for n in SIZES]
    yield "nearly residuals", Marginals(nearly, {s: int(rng.integers(1, 6)) for s in every})
    yield "a union", Stack(Kron(*identities), 2 * Kron(Identity(3), Total(4), Total(2)))


def workloads():
    identities = [Identity(n) for n in SIZES]
    yield "marginals", Marginals(identities, [((), 1), ((0,), 2), *((pair, 1) for pair in PAIRS)])
    yield "prefixes", Marginals([Prefix(3), AllRange(4), Identity(2)], [((1,), 1), ((0, 1), 0.5), ((0, 1, 2), 1)])
    yield "products", Kron(Stack(Total(3), Identity(3)), Prefix(4), Stack(Total(2), Identity(2)))
    yield "a stack", Stack(Kron(Prefix(3), Total(4), Identity(2)), 3 * Kron(Total(3), Total(4), Total(2)))


@pytest.mark.parametrize(("_", "operator"), list(operators()))
@pytest.mark.parametrize(("__", "workload"), list(workloads()))
def test_against_the_dense_pseudo_inverse(_, operator, __, workload):
    strategy = Strategy(workload, operator, "gaussian", "test")
    a, w = operator.dense().astype(float), workload.dense().astype(float)
    best = w @ np.linalg.pinv(a)
    assert np.allclose(strategy.error_factors(), (best**2).sum(axis=1), rtol=1e-6)
    assert strategy.objective == pytest.approx((a**2).sum(axis=0).max() * (best**2).sum(), rel=1e-6)
    rows = np.arange(workload.shape[0])[::-1]
    assert np.allclose(strategy.answer_weights(rows), best[::-1], atol=1e-6 * abs(best).max())
    noisy = np.random.default_rng(1).normal(size=operator.shape[0])
    assert np.allclose(strategy.answers(noisy), best @ noisy, atol=1e-6 * abs(best @ noisy).max())
    x = np.random.default_rng(2).integers(0, 50, workload.shape[1])
    assert np.allclose(strategy.answers(operator.matvec(x)), workload.matvec(x), rtol=1e-8)


def test_what_is_not_determined():
    workload = Marginals([Identity(3), Identity(4)], [((0, 1), 1), ((0,), 1)])
    strategy = Strategy(workload, Marginals([Identity(3), Identity(4)], [((0,), 1), ((1,), 1)]), "laplace", "test")
    assert strategy.objective == np.inf
    assert np.isinf(strategy.error_factors()).tolist() == [True] * 12 + [False] * 3
    with pytest.raises(WorkloadError, match="do not determine"):
        strategy.answer_weights([0])
    assert strategy.answer_weights([12]).shape == (1, 7)


def test_a_rank_deficient_factor():
    # Two queries of five cells: they answer themselves and their sums, nothing else.
    factor = Explicit([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]])
    operator = Marginals([factor, Identity(2)], [((), 1), ((0,), 2), ((0, 1), 1)])
    workload = Marginals([Explicit([[1, 1, 1, 1, 0]]), Identity(2)], [((0, 1), 1), ((0,), 1)])
    a, w = operator.dense().astype(float), workload.dense().astype(float)
    strategy = Strategy(workload, operator, "gaussian", "test")
    assert np.allclose(strategy.error_factors(), ((w @ np.linalg.pinv(a)) ** 2).sum(axis=1))
    lost = Strategy(Marginals([Identity(5), Identity(2)], [((0,), 1)]), operator, "gaussian", "test")
    assert lost.objective == np.inf


def test_marginals_of_a_domain_that_cannot_be_formed():
    # HDMM, Table 3: all 2-way marginals of (2, 5, 50, 100) measured as they are; the table prints 36 x their rank.
    sizes = (2, 5, 50, 100)
    w = Marginals(map(Identity, sizes), [(pair, 1) for pair in itertools.combinations(range(4), 2)])
    assert itself(w).objective == pytest.approx(206_964)
    union = Stack(*(w.product(subset) for subset, _ in w.weights))
    assert itself(union).objective == pytest.approx(206_964)
    # 10^100 cells: a total and one-way marginals
    huge = Marginals([Identity(10)] * 100, [((i,), 1) for i in range(100)])
    strategy = Strategy(huge, huge, "gaussian", "test")
    assert strategy.objective == pytest.approx(100 * (1 + 9 * 100), rel=1e-9)  # 100 x rank
    counts = np.tile(np.arange(10), 100)
    assert np.allclose(strategy.answers(counts), counts)


@pytest.mark.parametrize(("name", "operator"), list(operators()))
def test_variances_of_sums_are_those_of_what_measurements_count_for_in_them(name, operator):
    rng = np.random.default_rng(11)
    queries = [
        Kron(random_factor(rng, 3, 2), random_factor(rng, 4, 3), random_factor(rng, 2, 1)),
        Kron(Explicit(np.eye(3)[:2]), random_factor(rng, 4, 3), Total(2)),
        Kron(random_factor(rng, 3, 2), Explicit(np.eye(4)[1:]), random_factor(rng, 2, 1)),
    ]
    boxes = [marginal_algebra(one, operator) for one in queries]
    rows = np.arange(6)
    try:
        wanted = (sum(one.weights(rows) for one in boxes) ** 2).sum(axis=1)
    except WorkloadError:
        assert name in ("a union", "residuals", "nearly residuals")  # these do not tell all of it
        with pytest.raises(WorkloadError):
            variances_of_sums(boxes)
        return
    np.testing.assert_allclose(variances_of_sums(boxes), wanted, rtol=1e-7)

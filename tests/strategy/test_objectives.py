"""Every optimizer takes an objective: against dense matrices, random starts, general solvers, and what is proved."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from dpnotebook.errors import AccuracyError, WorkloadError
from dpnotebook.strategy import (
    compare,
    for_relative_error,
    opt_0,
    opt_hdmm,
    opt_marginals,
    opt_product,
    opt_residual,
    opt_union,
    select,
)
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Permuted,
    Prefix,
    Stack,
    Total,
    WidthRange,
    marginals,
    prefix_marginals,
)

NOISES = ["laplace", "gaussian"]
ONE = {
    "ranges": AllRange(9),
    "reordered": Permuted(AllRange(8), 3),
    "deficient": WidthRange(8, 4),
    "weighted parts": Stack(Prefix(8), 3 * Total(8)),
    "relative": for_relative_error(AllRange(6)),
    "a cell nobody asks of": Explicit([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]]),
    "no zeros and ones": Explicit([[1, 2, 0], [0, -1, 1], [1, 1, 1]]),
}
SEVERAL = {
    "marginals": marginals((2, 3, 4), upto=2),
    "prefix marginals": prefix_marginals((4, 3, 2), 2, prefix=(0,)),
    "several kinds": Stack(Kron(AllRange(5), Identity(3)), Kron(Prefix(5), Total(3)), 2 * Kron(Total(5), Identity(3))),
    "a product": Kron(Prefix(4), AllRange(3)),
    "parts within errors of their own": Stack(0.1 * Kron(Prefix(6), Total(4)), 0.5 * Kron(Total(6), Identity(4))),
}
OF_SEVERAL = [opt_marginals, opt_residual, opt_product, opt_union, opt_hdmm]
MAKERS = [(opt_0, ONE | {"two columns": Kron(Prefix(3), Identity(2))}), *((make, SEVERAL) for make in OF_SEVERAL)]
CASES = [
    pytest.param(make, w, noise, id=f"{make.__name__}, {name}, {noise}")
    for make, workloads in MAKERS
    for name, w in workloads.items()
    for noise in NOISES
    if make is not opt_residual or noise == "gaussian"
]


def by_definition(strategy):
    """Return the variances of all answers, times the squared sensitivity, by dense matrices."""
    w, a = strategy.workload.dense().astype(float), strategy.operator.dense().astype(float)
    assert np.allclose(w @ np.linalg.pinv(a) @ a, w, atol=1e-6)
    norm = (np.abs(a).sum(axis=0).max()) ** 2 if strategy.noise == "laplace" else (a**2).sum(axis=0).max()
    return norm * ((w @ np.linalg.pinv(a)) ** 2).sum(axis=1)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("make", "w", "noise"), CASES)
def test_none_is_worse_by_its_objective_than_what_is_best_for_the_other(make, w, noise):
    given = {} if make is opt_residual else {"noise": noise}
    total, worst = make(w, **given), make(w, **given, objective="worst")
    assert make(w, **given, objective="total") == total
    assert worst.worst <= total.worst * (1 + 1e-12)
    descent = 1e-3 if noise == "laplace" else 1e-5  # Laplace noise: where descents end, and no proved optimum
    assert total.objective <= worst.objective * (1 + descent)
    if not total.split:  # what is answered part by part is no least squares over all
        assert total.objective == pytest.approx(by_definition(total).sum(), rel=1e-6)
    if not worst.split:
        assert worst.worst == pytest.approx(by_definition(worst).max(), rel=1e-6)
    assert worst.worst >= worst.worst_bound * (1 - 1e-9)


def p_identity_by_random_starts(w, p, starts):
    """Return the least worst variance of the p-Identities (HDMM, Definition 13) where descents from anywhere end."""
    queries, n, rng = w.dense().astype(float), w.shape[1], np.random.default_rng(5)

    def variances(flat):
        rows = np.vstack([np.eye(n), np.abs(flat.reshape(p, n))])
        a = rows / rows.sum(axis=0)
        return np.einsum("ij,jk,ik->i", queries, np.linalg.inv(a.T @ a), queries)

    def smooth(flat, power):
        each = np.log(variances(flat))
        return each.max() + np.log(np.exp(power * (each - each.max())).sum()) / power

    found = []
    for _ in range(starts):
        flat = rng.random(p * n)
        for power in (4, 32, 256):
            flat = minimize(smooth, flat, args=(power,), method="L-BFGS-B", options={"maxiter": 100}).x
        found.append(variances(flat).max())
    return min(found)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "w", [AllRange(6), Prefix(6), Stack(Prefix(5), 2 * Total(5)), Stack(Identity(5), 3 * Total(5))], ids=repr
)
def test_one_attribute_with_laplace_noise_is_as_good_as_many_random_starts(w):
    found = opt_0(w, p=2, objective="worst")
    assert found.worst <= p_identity_by_random_starts(w, 2, 4) * 1.01


@pytest.mark.parametrize(
    "w", [AllRange(40), Prefix(64), Permuted(WidthRange(32, 5), 2), Stack(Prefix(20), 5 * Total(20))]
)
def test_one_attribute_with_gaussian_noise_is_proved(w):
    found = opt_0(w, "gaussian", objective="worst")
    assert found.optimality < 1.0006
    assert found.worst <= select(w, "gaussian", objective="worst").worst * (1 + 1e-9)


def shares_by_random_starts(w, starts):
    """Return the least worst variance of weighted marginals with Laplace noise where descents from anywhere end."""
    sizes, rng = w.sizes, np.random.default_rng(3)
    queries = np.unique(w.dense().astype(float), axis=0)
    grams = []
    for k in range(len(sizes) + 1):
        for subset in itertools.combinations(range(len(sizes)), k):
            gram = np.eye(1)
            for i, n in enumerate(sizes):
                gram = np.kron(gram, np.eye(n) if i in subset else np.ones((n, n)))
            grams.append(gram)
    stacked = np.array(grams)

    def variances(logs):
        shares = np.exp(logs - logs.max())
        shares = np.maximum(shares / shares.sum(), 1e-6)
        told = np.tensordot(shares**2, stacked, 1)
        return shares.sum() ** 2 * np.einsum("ij,jk,ik->i", queries, np.linalg.pinv(told), queries)

    def smooth(logs, power):
        each = np.log(variances(logs))
        return each.max() + np.log(np.exp(power * (each - each.max())).sum()) / power

    found = []
    for _ in range(starts):
        logs = rng.normal(size=len(grams))
        for power in (4, 64):
            logs = minimize(smooth, logs, args=(power,), method="L-BFGS-B", options={"maxiter": 60}).x
        found.append(variances(logs).max())
    return min(found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "w", [marginals((2, 3, 2), upto=2), marginals((2, 2, 3), 2), marginals((4, 3), upto=1)], ids=repr
)
def test_marginals_with_laplace_noise_are_as_good_as_many_random_starts(w):
    assert opt_marginals(w, objective="worst").worst <= shares_by_random_starts(w, 6) * 1.005


def test_marginals_with_gaussian_noise_are_proved():
    w = marginals((100, 2, 8, 40), upto=2)
    for found in (opt_marginals(w, "gaussian", objective="worst"), opt_residual(w, objective="worst")):
        assert found.optimality < 1.0003
        assert opt_residual(w).worst > 14 * found.worst


def test_operators_that_are_given_stay():
    w = prefix_marginals((6, 4), 2, prefix=(0,))
    factors = [opt_0(Stack(Prefix(6), Total(6))).operator, Identity(4)]
    total, worst = opt_marginals(w, factors=factors), opt_marginals(w, factors=factors, objective="worst")
    assert list(worst.operator.factors) == factors
    assert worst.worst <= total.worst


@pytest.mark.slow
def test_one_product_for_parts_is_near_the_best_that_a_general_solver_finds():
    w = Stack(Kron(Prefix(4), Total(3)), 3 * Kron(Total(4), Identity(3)), Kron(Identity(4), Prefix(3)))
    queries = w.dense().astype(float)

    def worst(flat, power):
        one, two = flat[:16].reshape(4, 4), flat[16:].reshape(3, 3)
        a = np.kron(one / np.linalg.norm(one, axis=0), two / np.linalg.norm(two, axis=0))
        try:
            each = ((queries @ np.linalg.inv(a)) ** 2).sum(axis=1)
        except np.linalg.LinAlgError:
            return 1e9
        top = each.max()
        return float(np.log(top) + np.log(((each / top) ** power).sum()) / power)

    rng, reference = np.random.default_rng(1), np.inf
    for _ in range(6):
        flat = np.concatenate([np.eye(4).ravel(), np.eye(3).ravel()]) + 0.3 * rng.standard_normal(25)
        for power in (4, 32, 256):
            flat = minimize(worst, flat, args=(power,), method="BFGS", options={"maxiter": 100}).x
        reference = min(reference, np.exp(worst(flat, 1e6)))
    assert opt_product(w, "gaussian", objective="worst").worst <= reference * 1.02  # one attribute after the other


@pytest.mark.parametrize("noise", NOISES)
def test_all_are_compared_by_the_objective(noise):
    w = marginals((2, 3, 4), upto=2)
    found = compare(w, noise, objective="worst")
    assert found == sorted(found, key=lambda strategy: strategy.worst)
    assert found[0].worst <= compare(w, noise)[0].worst
    assert found[0].worst == opt_hdmm(w, noise, objective="worst").worst


@pytest.mark.parametrize("make", [opt_0, *OF_SEVERAL, compare])
@pytest.mark.parametrize("objective", ["best", None, 3, "Worst"])
def test_objectives_that_there_are_not(make, objective):
    with pytest.raises(AccuracyError, match=r'objective= is "total"'):
        make(Kron(Prefix(3), Identity(2)), objective=objective)


@pytest.mark.parametrize("noise", NOISES)
def test_more_answers_than_are_weighed_are_refused_before_any_search(noise):
    def told(share, words):
        raise AssertionError(words)

    with pytest.raises(WorkloadError, match="too many to weigh one by one"):
        opt_0(AllRange(4096), noise, objective="worst", report=told)

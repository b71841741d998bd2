"""OPT_M against its definition, brute force over all shares, and finite differences."""

import itertools
import time

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.progress import silent
from dpnotebook.strategy.lattice import lattice
from dpnotebook.strategy.marginals import _measured, _prices, _problem, _weighted, opt_marginals
from dpnotebook.strategy.subset_search import SubsetShares
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Prefix,
    Stack,
    Total,
    WidthRange,
    marginals,
    prefix_marginals,
    small_marginals,
)


def by_definition(strategy):
    w, a = strategy.workload.dense().astype(float), strategy.operator.dense().astype(float)
    assert np.allclose(w @ np.linalg.pinv(a) @ a, w, atol=1e-7)
    return np.abs(a).sum(axis=0).max() ** 2 * np.linalg.norm(w @ np.linalg.pinv(a)) ** 2


SMALL = {
    "marginals": marginals((2, 3, 4), 2),
    "up to three": marginals((2, 3, 4), upto=3),
    "small": small_marginals((2, 3, 4, 3), 8),
    "prefixes": prefix_marginals((4, 5, 2), 2, prefix=(0, 1)),
    "several kinds": Stack(Kron(AllRange(5), Identity(3)), Kron(Prefix(5), Total(3)), 2 * Kron(Total(5), Identity(3))),
    "one product": Kron(Prefix(6), Stack(Total(3), Identity(3))),
    "total": Kron(Total(3), Total(4)),
    "one cell": Kron(Identity(1), Prefix(4)),
    "rows of ones": Stack(Kron(Explicit([[1, 1, 1]]), Prefix(4)), Kron(Identity(3), WidthRange(4, 4))),
}


@pytest.mark.parametrize("name", SMALL)
def test_error_is_by_definition(name):
    found = opt_marginals(SMALL[name])
    assert found.objective == pytest.approx(by_definition(found), rel=1e-7)
    assert found.objective >= found.bound * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_given_operators(seed):
    rng = np.random.default_rng(seed)
    w = SMALL["prefixes"]
    factors = [[Identity(4), Prefix(4), Hierarchy(4, 2)][rng.integers(3)], Hierarchy(5, 2), Identity(2)]
    found = opt_marginals(w, factors=factors)
    assert found.operator.factors == tuple(factors)
    assert found.objective == pytest.approx(by_definition(found), rel=1e-7)


def brute_force(w, starts, rng):
    """The paper's OPT_M, all shares at once by L-BFGS-B from random starts: Theorem 9 and Definition 22, dense."""
    from scipy.optimize import minimize

    sizes = w.sizes
    subsets = list(itertools.chain.from_iterable(itertools.combinations(range(len(sizes)), k) for k in range(5)))
    grams = []
    for subset in subsets:
        factors = [np.eye(n) if i in subset else np.ones((n, n)) for i, n in enumerate(sizes)]
        grams.append(np.eye(1))
        for factor in factors:
            grams[-1] = np.kron(grams[-1], factor)
    _, vectors = np.linalg.eigh(sum(grams[i] * 1.37**i for i in range(len(grams))))
    spectra = np.array([np.einsum("ij,ik,kj->j", vectors, gram, vectors) for gram in grams])
    asked = np.einsum("ij,ik,kj->j", vectors, w.gram(), vectors)
    spectra[np.abs(spectra) < 1e-9] = 0.0
    asked[np.abs(asked) < 1e-9] = 0.0

    def loss(theta):
        told = theta**2 @ spectra
        total, error = theta.sum(), (asked / told).sum()
        slope = -2 * theta * (spectra @ (asked / told**2))
        return np.log(total**2 * error), 2 / total + slope / error

    return min(
        np.exp(minimize(loss, rng.random(len(subsets)) + 0.01, jac=True, bounds=[(1e-6, None)] * len(subsets)).fun)
        for _ in range(starts)
    )


@pytest.mark.parametrize("w", [marginals((2, 3, 4), 2), marginals((2, 5, 3), upto=2), small_marginals((2, 3, 4, 3), 9)])
def test_as_good_as_many_random_starts(w):
    rng = np.random.default_rng(0)
    assert opt_marginals(w).objective < brute_force(w, 60, rng) * (1 + 1e-4)


def test_table_3():
    # The optimum is 62,886.05: the printed number is that, rounded.
    w = marginals((2, 5, 50, 100), 2)
    found = opt_marginals(w)
    assert [subset for subset, _ in found.operator.weights] == [(2, 3), (0, 1, 2), (0, 1, 3)]
    assert 62_886.05 < found.objective < 62_886.5
    shares = np.array([weight for _, weight in found.operator.weights]) / found.norm
    np.testing.assert_allclose(shares, [0.44, 0.25, 0.31], atol=0.0051)


def test_shares_settle_where_no_share_improves():
    found = lattice(small_marginals((3, 4, 5, 6), 60))
    measured = [_measured(found, i, Identity(n)) for i, n in enumerate(found.sizes)]
    problem, losses = _problem(found, measured)
    rng = np.random.default_rng(0)
    shares = rng.random(losses.size) + 0.1
    errors = []
    for _ in range(50):  # majorisation: no step is worse than the one before
        one = problem.settle(problem.needed, shares / shares.sum(), steps=1)
        errors.append(one.error)
        again = problem.settle(problem.needed, shares / shares.sum(), steps=2)
        assert again.error <= one.error * (1 + 1e-12)
        shares = shares * rng.random(shares.size)
    best = problem.settle(problem.needed, np.ones(losses.size) / losses.size, steps=20_000)
    assert problem.exact(best) == pytest.approx(best.error, rel=1e-6)
    for i in range(best.shares.size):
        step = np.zeros(best.shares.size)
        step[i] = 1e-5 * best.shares[i]
        up, down = (
            problem.exact(SubsetShares(best.subsets, best.shares + sign * step, 0.0)) / best.error for sign in (1, -1)
        )
        assert abs(up - down) < 1e-5 * (up + down) * best.shares[i] * 0.1 + 1e-12


def test_price_of_a_total_is_a_derivative():
    # Information on the total is worth what the error changes by, as the other parts of an operator stay the same.
    from dataclasses import replace

    found = lattice(prefix_marginals((4, 5, 2), upto=2))
    measured = [_measured(found, i, op) for i, op in enumerate([Hierarchy(4, 2), Hierarchy(5, 2), Identity(2)])]
    shares = _weighted(found, measured, silent)
    union, price = _prices(found, measured, shares, 1)

    def error(change):
        one = replace(measured[1], information=1 / (1 / measured[1].information + change))
        problem, _ = _problem(found, [measured[0], one, measured[2]])
        return problem.exact(shares)

    slope = (error(1e-5) - error(-1e-5)) / 2e-5
    of_beta = np.array([weight for weight, _ in union])
    assert price + of_beta @ measured[1].alpha == pytest.approx(slope, rel=1e-6)


def test_restarts_never_do_worse():
    w = small_marginals((2, 3, 4, 5, 6), 30)
    plain = opt_marginals(w)
    again = opt_marginals(w, restarts=3, rng=np.random.default_rng(0))
    assert again.objective <= plain.objective * (1 + 1e-5)
    assert opt_marginals(w).operator == plain.operator


def test_more_attributes_than_bits():
    w = marginals((3,) * 70, upto=1)
    assert opt_marginals(w).objective >= opt_marginals(w).bound


def test_fourteen_attributes_in_seconds():
    began = time.process_time()
    found = opt_marginals(marginals((100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2), upto=2))
    assert time.process_time() - began < 5
    assert np.isfinite(found.objective)


def test_what_is_refused():
    with pytest.raises(WorkloadError, match="same attributes"):
        opt_marginals(Stack(Kron(Identity(2), Identity(6)), Kron(Identity(4), Identity(3))))
    with pytest.raises(WorkloadError, match="one operator for each"):
        opt_marginals(SMALL["marginals"], factors=[Identity(2)])

    def cancel(fraction, text):
        raise KeyboardInterrupt(text)

    with pytest.raises(KeyboardInterrupt):
        opt_marginals(SMALL["marginals"], report=cancel)

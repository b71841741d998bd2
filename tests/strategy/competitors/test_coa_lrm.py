"""COA and LRM: against the columns of HDMM's Tables 4 and 5, the optimum, and brute force."""

import itertools

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import coa, identity, itself, lrm
from dpnotebook.strategy.competitors.coa import newton
from dpnotebook.strategy.competitors.lrm import _onto_l1_balls, _value_and_slope, low_rank
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.strategy import unit_variance
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Marginals,
    Permuted,
    Prefix,
    Stack,
    Total,
    WidthRange,
)

WORKLOADS = {"all-range": AllRange, "prefix": Prefix, "width32": lambda n: WidthRange(n, 32)}

# HDMM, Table 5, column COA. It stops early in some cells: ours must not be worse, and where COA reached the optimum, or
# the little that it adds to the diagonal decides (width-32 over 64 cells), the digits are the same.
TABLE_5 = [
    ("all-range", 64, 9.73, True),
    ("prefix", 64, 8.87, False),
    ("width32", 64, 8.79, True),
    ("all-range", 256, 12.26, True),
    ("prefix", 256, 10.70, False),
    ("width32", 256, 12.24, False),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "n", "published", "same"), TABLE_5)
def test_coa_of_table_5(name, n, published, same):
    w = WORKLOADS[name](n)
    x = newton(w.gram())
    assert np.allclose(np.diagonal(x), 1)
    objective = np.trace(np.linalg.solve(x, w.gram()))
    rmse = np.sqrt(objective / w.shape[0] * unit_variance("gaussian", 1.0, 1e-6))
    assert rmse < published + 0.0051
    assert not same or rmse > published - 0.0051
    assert objective >= gaussian_optimum(w.gram(), tolerance=1e-4).lower
    assert coa(w).objective <= objective * 1.004  # of which rounding to integers takes 0.3%


# HDMM, Table 4, column LRM: local optima of the same problem, not even monotone in n. Ours are lower.
TABLE_4 = [
    ("all-range", 64, 7.02),
    ("prefix", 64, 7.67),
    ("width32", 64, 9.44),
    pytest.param("all-range", 256, 15.73, marks=pytest.mark.slow),
    pytest.param("prefix", 256, 12.64, marks=pytest.mark.slow),
    pytest.param("width32", 256, 25.81, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "n", "published"), TABLE_4)
def test_lrm_of_table_4(name, n, published):
    found = lrm(WORKLOADS[name](n))
    assert found.lower_bound(1.0) <= found.rmse(1.0) < 0.95 * published
    assert found.objective < identity(found.workload).objective


def test_few_queries_are_what_lrm_is_for():
    # Rank 5 over 64 cells: far below the cells and the queries themselves, with rows that have negative entries.
    w = Explicit(np.random.default_rng(0).integers(0, 2, (5, 64)))
    found = lrm(w)
    assert found.rmse(1.0) < 0.7 * min(identity(w).rmse(1.0), itself(w).rmse(1.0))
    assert (found.operator.dense() < 0).any()


def test_the_order_of_cells_does_not_matter():
    # Table 4 and 5, rows "permuted".
    w = Permuted(AllRange(64), 4)
    assert lrm(w).rmse(1.0) < 0.95 * 7.02
    assert coa(w).rmse(1.0, 1e-6) == pytest.approx(coa(AllRange(64)).rmse(1.0, 1e-6), rel=1e-3)


def test_lrm_with_gaussian_noise_finds_the_optimum():
    w = AllRange(32)
    found = low_rank(w.gram(), "gaussian")
    assert (found**2).sum(axis=0).max() <= 1 + 1e-12
    objective = np.trace(np.linalg.solve(found.T @ found, w.gram()))
    assert objective == pytest.approx(gaussian_optimum(w.gram()).objective, rel=1e-3)


def test_slope_of_lrm():
    rng = np.random.default_rng(0)
    gram, point = AllRange(5).gram(), rng.normal(size=(7, 5))
    _, slope = _value_and_slope(point, gram)
    for _ in range(5):
        move = rng.normal(size=point.shape)
        sides = [_value_and_slope(point + s * 1e-6 * move, gram)[0] for s in (1, -1)]
        assert (sides[0] - sides[1]) / 2e-6 == pytest.approx(np.vdot(slope, move), rel=1e-5)


def test_projection_onto_l1_balls():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(6, 40)) * rng.exponential(size=40)
    found = _onto_l1_balls(points)
    assert (np.abs(found).sum(axis=0) <= 1 + 1e-12).all()
    inside = np.abs(points).sum(axis=0) <= 1
    assert inside.any()
    assert np.allclose(found[:, inside], points[:, inside])
    for _ in range(200):  # the nearest point of a convex set: no other one is on the far side
        other = rng.dirichlet(np.ones(6), 40).T * rng.choice([-1, 1], (6, 40))
        assert (((points - found) * (other - found)).sum(axis=0) <= 1e-9).all()


SMALL = [
    AllRange(6),
    2.5 * Prefix(5),
    WidthRange(12, 8),
    Explicit([[1, 2, 0, -1, 3, 0], [0, 1, 1, 1, 0, 0]]),
    Kron(Prefix(4), Total(3), AllRange(5)),
    Stack(Kron(Identity(3), Total(5)), 2 * Kron(Total(3), Prefix(5))),
    Marginals(map(Identity, (2, 3, 2)), dict.fromkeys(itertools.combinations(range(3), 2), 1)),
    Identity(1),
]


@pytest.mark.parametrize(("strategy", "noise"), [(coa, "gaussian"), (lrm, "laplace"), (lrm, "gaussian")])
@pytest.mark.parametrize("w", SMALL, ids=repr)
def test_errors_by_brute_force(w, strategy, noise):
    found = strategy(w, noise)
    a = found.operator.dense().astype(float)
    sensitivity = np.abs(a).sum(axis=0).max() if noise == "laplace" else np.sqrt((a**2).sum(axis=0).max())
    assert found.sensitivity == pytest.approx(sensitivity)
    exact = w.dense() @ np.linalg.pinv(a)
    assert np.allclose(exact @ a, w.dense(), atol=1e-7)
    assert found.objective == pytest.approx(sensitivity**2 * (exact**2).sum(), rel=1e-6)
    assert found.objective >= found.bound * (1 - 1e-9)
    assert found.objective <= identity(w, noise).objective * 1.004


@pytest.mark.parametrize("w", [Explicit(np.diag([1, 2, 3])), Prefix(1)], ids=repr)
def test_queries_of_single_cells_are_best_measured_by_counting_cells(w):
    # Of a diagonal V, tr(X^-1 V) is least for X = 1: the diagonal of X^-1 is never below 1 / that of X.
    gram = w.gram().astype(float)
    assert np.array_equal(newton(gram), np.eye(len(gram)))
    assert coa(w).objective == pytest.approx(np.trace(gram), rel=1e-9)


def test_bad_input():
    with pytest.raises(WorkloadError, match="COA is for Gaussian noise"):
        coa(Prefix(4), "laplace")
    for strategy in (coa, lrm):
        with pytest.raises(WorkloadError, match="limit is 1,024"):
            strategy(Prefix(1025))


@pytest.mark.parametrize("strategy", [coa, lrm])
def test_progress_may_stop_it(strategy):
    class Stopped(Exception):
        pass

    def report(fraction, doing):
        assert 0 <= fraction <= 1
        raise Stopped

    with pytest.raises(Stopped):
        strategy(AllRange(16), report=report)

"""Eigen-design: the convex program against proofs and brute force, and the ratios that its paper prints.

The paper's absolute errors carry a factor P(epsilon, delta) that is the same for every strategy; so do ours.
"""

import itertools
import math

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import datacube, eigen_design, for_relative_error, fourier, h2, identity, itself, wavelet
from dpnotebook.strategy.bounds import svd_bound
from dpnotebook.strategy.eigen.design import eigen_weights
from dpnotebook.strategy.eigen.weighting import weigh_queries
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
    Weighted,
    WidthRange,
)

# Li and Miklau, Fig. 1(b).
FIGURE_1 = Explicit(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 1, 1],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, -1, -1, -1, -1],
    ]
)


def ratio(strategy, other):
    """How many times the error of the first is that of the second."""
    return math.sqrt(strategy.objective / other.objective)


def above_bound(strategy):
    return math.sqrt(strategy.objective / strategy.bound)


def k_way(sizes, ways, kind):
    subsets = itertools.combinations(range(len(sizes)), ways)
    return Marginals(map(kind, sizes), dict.fromkeys(subsets, 1))


# --- Program 1 ---


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_program_1_is_solved_with_proof(seed, power):
    rng = np.random.default_rng(seed)
    costs, usage = rng.exponential(size=7) ** 3, rng.exponential(size=(7, 5)) * (rng.random((7, 5)) < 0.7)
    usage[:, 0] += 0.01
    costs[3] = 0
    found = weigh_queries(costs, usage, power, tolerance=1e-6)
    kept = costs > 0
    assert found.amounts[3] == 0
    assert (found.amounts[kept] @ usage[kept]).max() <= 1 + 1e-12
    assert found.objective == pytest.approx((costs[kept] / found.amounts[kept] ** power).sum())
    assert 0 <= found.gap <= 1e-6
    for _ in range(200):  # nothing feasible is below the bound
        other = found.amounts[kept] * np.exp(rng.normal(size=kept.sum()) * rng.choice([0.01, 0.1, 1]))
        other /= (other @ usage[kept]).max()
        assert (costs[kept] / other**power).sum() >= found.lower


@pytest.mark.parametrize(("n", "objective"), [(64, 11752.581), (256, 293271.07), (1024, 6820811.7)])
def test_program_1_on_all_ranges(n, objective):
    # What two conic solvers, a barrier method and quasi-Newton agree on.
    values, vectors = np.linalg.eigh(AllRange(n).gram())
    found = weigh_queries(values, vectors.T**2, tolerance=1e-4)
    assert found.lower <= objective * (1 + 1e-7)
    assert objective * (1 - 1e-7) <= found.objective <= objective * (1 + 1e-4)


def test_the_objective_is_that_of_the_weighted_queries():
    for noise in ("gaussian", "laplace"):
        w = Prefix(12)
        values, vectors = np.linalg.eigh(w.gram())
        lengths = eigen_weights(values[::-1], vectors.T[::-1], noise, tolerance=1e-8)
        a = vectors.T[::-1] * lengths[:, None]
        norm = (a**2).sum(axis=0) if noise == "gaussian" else np.abs(a).sum(axis=0)
        assert norm.max() == pytest.approx(1)
        usage = vectors.T**2 if noise == "gaussian" else np.abs(vectors.T)
        power = 1 if noise == "gaussian" else 2
        error = (w.dense() @ np.linalg.inv(a)) ** 2
        assert error.sum() == pytest.approx(weigh_queries(values, usage, power, tolerance=1e-8).objective)


# --- The paper's numbers ---


def test_example_4():
    # The errors 45.36, 47.78, 34.62, 29.79 and the bound 29.18, as ratios to the identity, which they are to 0.001.
    # (The workload itself: 1.053 is without least squares, sqrt(5 * 8) / sqrt(36); with it there is 0.745.)
    cells = identity(FIGURE_1, "gaussian")
    assert ratio(wavelet(FIGURE_1, "gaussian"), cells) == pytest.approx(34.62 / 45.36, abs=0.001)
    found = eigen_design(FIGURE_1)
    assert ratio(found, cells) <= 29.79 / 45.36
    assert math.sqrt(found.bound / cells.objective) == pytest.approx(29.18 / 45.36, abs=0.001)
    assert math.sqrt(40 / cells.objective) == pytest.approx(47.78 / 45.36, abs=0.001)
    assert itself(FIGURE_1, "gaussian").objective < 40


CENSUS, ADULT = (8, 16, 16), (8, 8, 16, 2)  # Table 1: 2,048 cells


@pytest.mark.parametrize("sizes", [(32, 64), CENSUS, ADULT, (2,) * 11])
def test_all_ranges_in_several_attributes(sizes):
    # Section 5.1: 1.2 to 2.1 times less error than the better of Wavelet and Hierarchical, within 1.3 of the bound.
    w = Kron(*map(AllRange, sizes))
    found = eigen_design(w)
    assert above_bound(found) < 1.04
    assert ratio(wavelet(w, "gaussian"), found) > 1.2
    assert ratio(h2(w, "gaussian"), found) > 1.2


@pytest.mark.parametrize(("n", "bound"), [(64, 1.016), (256, 1.015), (512, 1.0145)])
def test_all_ranges(n, bound):
    w = AllRange(n)
    found = eigen_design(w)
    assert above_bound(found) < bound
    # Program 2, as it is written, stops at Program 1's weights: 1.020 here at 64 cells.
    assert ratio(wavelet(w, "gaussian"), found) > 1.16
    # Semantic equivalence (Proposition 5): the order of the cells does not matter.
    permuted = eigen_design(Permuted(w, 5))
    assert permuted.objective == pytest.approx(found.objective, rel=1e-3)
    assert ratio(wavelet(Permuted(w, 5), "gaussian"), permuted) > 1.7


def test_only_the_gram_matrix_counts():
    # Error equivalence (Proposition 6): queries that are rotated into others have the same error.
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    w = Explicit(FIGURE_1.matrix + rng.normal(scale=0.1, size=(8, 8)))  # without eigenvalues that are equal
    rotated = Explicit(rotation @ w.matrix)
    assert not np.allclose(rotated.matrix, w.matrix)
    assert eigen_design(rotated).objective == pytest.approx(eigen_design(w).objective, rel=1e-3)


@pytest.mark.parametrize("n", [64, 256, 512])
def test_cdf(n):
    # Table 2: 1.01 times better than Wavelet, and the bound is 0.80 of it.
    found = eigen_design(Prefix(n))
    assert 1 / above_bound(found) > 0.85
    assert ratio(wavelet(Prefix(n), "gaussian"), found) > 1.08


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ways", [1, 2])
def test_marginals_reach_the_bound(ways):
    # Section 5.1: "the error of eigen-design strategies match the lower bound".
    w = k_way((4, 8, 8), ways, Identity)
    found = eigen_design(w)
    assert above_bound(found) < 1.001
    assert ratio(fourier(w, "gaussian"), found) > 1.02
    assert ratio(datacube(w, "gaussian"), found) > 1.02


@pytest.mark.parametrize("seed", range(4))
def test_random_marginals_reach_the_bound(seed):
    # Section 5.1: random sets of marginals are answered at the bound too, 1.3 to 2.2 times better than the better of
    # Fourier and DataCube.
    rng = np.random.default_rng(seed)
    sizes = (4, 2, 4, 4)
    subsets = [s for k in range(5) for s in itertools.combinations(range(4), k)]
    chosen = [subsets[i] for i in rng.choice(16, rng.integers(2, 9), replace=False)]
    w = Marginals(map(Identity, sizes), dict.fromkeys(chosen, 1))
    found = eigen_design(w)
    assert above_bound(found) < 1.001
    for strategy in (fourier, datacube):
        assert ratio(strategy(w, "gaussian"), found) > 1 / 1.001


@pytest.mark.parametrize("n", [64, pytest.param(2048, marks=pytest.mark.slow)])
def test_all_predicates(n):
    # Table 2, predicates, on 2,048 cells: 1.39 and 1.94 times better than the competitors, and at the bound. Predicates
    # drawn at random have the Gram matrix of the cells and the total (times a quarter), the more of them there are.
    w = Stack(Identity(n), Total(n))
    found = eigen_design(w)
    assert above_bound(found) < 1.001
    if n == 2048:
        assert ratio(fourier(w, "gaussian"), found) == pytest.approx(1.39, abs=0.01)
        assert ratio(wavelet(w, "gaussian"), found) == pytest.approx(1.94, abs=0.02)


# Table 2 on 2,048 cells. "D. Cube" and "Four." of the 1-way row fit Adult's attributes, "Hier." of the 2-way row fits
# Census's; the bound fits both.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "ways", "of_bound", "competitor", "published"),
    [
        (CENSUS, 1, 0.98, datacube, None),
        (ADULT, 1, 0.98, datacube, 1.30),
        (CENSUS, 2, 0.95, h2, 1.63),
        (ADULT, 2, 0.95, h2, 1.63),
    ],
)
def test_range_marginals_on_2048_cells(sizes, ways, of_bound, competitor, published):
    w = k_way(sizes, ways, AllRange)
    found = eigen_design(w)
    assert 1 / above_bound(found) > of_bound - 0.005
    if published:  # to the digits printed; rounding to integers costs us 0.0005
        assert ratio(competitor(w, "gaussian"), found) > published - 0.006


@pytest.mark.slow
def test_ranges_in_any_order_on_2048_cells():
    # Table 2, first row: 9.62 and 13.16 times better than Wavelet and Hierarchical, 0.99; the paper drew one order.
    w = AllRange(2048)
    found = eigen_design(w)
    assert 1 / above_bound(found) > 0.985
    assert ratio(wavelet(w, "gaussian"), found) > 1.2
    ours = [ratio(wavelet(Permuted(w, seed), "gaussian"), found) for seed in range(5)]
    assert abs(np.mean(ours) - 9.62) < 3 * np.std(ours, ddof=1) * math.sqrt(1 + 1 / 5) + 0.005
    assert np.std(ours) < 0.02 * 9.62
    # Hierarchical does not fit as well: 12.99 on average, a draw varies by 0.05, the paper has 13.16.
    ours = [ratio(h2(Permuted(w, seed), "gaussian"), found) for seed in range(5)]
    assert 12.8 < min(ours) < max(ours) < 13.16


@pytest.mark.slow
def test_cdf_on_2048_cells():
    found = eigen_design(Prefix(2048))
    assert 1 / above_bound(found) >= 0.80
    assert ratio(wavelet(Prefix(2048), "gaussian"), found) >= 1.01
    assert ratio(h2(Prefix(2048), "gaussian"), found) >= 1.01


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [CENSUS, ADULT])
def test_marginals_on_2048_cells(sizes):
    found = eigen_design(k_way(sizes, 2, Identity))
    assert above_bound(found) < 1.001


# --- Reductions ---


def test_eigen_query_separation():
    # Section 5.2, on 8,192 cells, groups of 16: 5% above the error without it on ranges, 11% on marginals; both stay
    # within 12% of the lower bound.
    for w in (AllRange(512), k_way((8, 8, 8), 2, Identity)):
        found = eigen_design(w, group=8)
        assert above_bound(found) < 1.12
        assert found.objective >= eigen_design(w).objective * (1 - 1e-3)
    assert eigen_design(AllRange(64), group=64).objective == pytest.approx(
        eigen_design(AllRange(64), principal=64).objective, rel=1e-3
    )


def test_principal_vectors():
    # Section 4.2: "good results are possible with as little as 10%"; section 5.2, on 8,192 cells: with 6%, 10% above on
    # ranges (here 14% at 512 cells, falling to 12% at 2,048), and nothing on marginals.
    assert above_bound(eigen_design(AllRange(512), principal=51)) < 1.08
    assert above_bound(eigen_design(k_way((8, 8, 8), 2, Identity), principal=31)) < 1.001
    errors = [eigen_design(AllRange(128), principal=k).objective for k in (1, 4, 16)]
    assert errors == sorted(errors, reverse=True)


# --- Relative error ---

SCALED = [
    Identity(4),
    Total(5),
    Prefix(6),
    AllRange(5),
    3 * Prefix(4),
    WidthRange(8, 3),
    Explicit([[1, 0, 2], [0, 0, -3]]),
    Kron(Prefix(3), Total(4)),
    Stack(Kron(Identity(2), Total(3)), Weighted(0.5, Kron(Total(2), AllRange(3)))),
    Permuted(AllRange(4), 1),
    Marginals((Prefix(3), Identity(4), AllRange(2)), {(): 2, (0,): 1, (0, 2): 0.5, (1,): 3}),
]


@pytest.mark.parametrize("w", SCALED, ids=repr)
def test_every_query_gets_length_one(w):
    dense = w.dense().astype(float)
    scaled = dense / np.linalg.norm(dense, axis=1)[:, None]
    assert np.allclose(for_relative_error(w).dense(), scaled)
    assert np.allclose(for_relative_error(w).gram(), scaled.T @ scaled)


def test_relative_design_is_better_for_relative_errors():
    w = AllRange(64)
    lengths = (w.dense() ** 2).sum(axis=1)
    plain, relative = eigen_design(w), eigen_design(w, relative=True)
    assert relative.workload == w
    errors = [s.norm * (s.error_factors() / lengths).sum() for s in (plain, relative)]
    assert errors[1] < 0.96 * errors[0]
    assert relative.objective > plain.objective
    assert errors[1] >= svd_bound(for_relative_error(w)) * (1 - 1e-9)


# --- Any workload ---

WORKLOADS = [
    FIGURE_1,
    AllRange(9),
    WidthRange(64, 32),
    2.5 * Prefix(7),
    Explicit([[1, 2, 0, -1, 3, 0], [0, 1, 1, 1, 0, 0]]),
    Explicit([[0.25, 0.5, 0.0], [1.0, 1.0, 1e-3]]),
    Kron(Prefix(4), Total(3), AllRange(5)),
    k_way((3, 4, 2), 2, Identity),
    Stack(Kron(Identity(3), Total(5)), 2 * Kron(Total(3), Prefix(5))),
    Total(6),
    Identity(1),
]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("w", WORKLOADS, ids=repr)
def test_errors_by_brute_force(w, noise):
    found = eigen_design(w, noise)
    a = found.operator.dense().astype(float)
    sensitivity = np.abs(a).sum(axis=0).max() if noise == "laplace" else np.sqrt((a**2).sum(axis=0).max())
    assert found.sensitivity == pytest.approx(sensitivity)
    exact = w.dense() @ np.linalg.pinv(a)
    assert np.allclose(exact @ a, w.dense(), atol=1e-7)
    assert found.objective == pytest.approx(sensitivity**2 * (exact**2).sum(), rel=1e-6)
    assert found.objective >= found.bound * (1 - 1e-9)
    assert found.bound == pytest.approx(svd_bound(w), rel=1e-6)


def test_rounding_costs_little():
    for w in (AllRange(100), Prefix(33), WidthRange(64, 32), k_way((4, 4, 4), 2, Identity), FIGURE_1):
        gram = w.gram()
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-10 * values[-1]
        lengths = eigen_weights(values[kept][::-1], vectors.T[kept][::-1])
        ideal = (values[kept][::-1] / lengths**2).sum()  # Program 1 alone, without completed columns
        assert eigen_design(w).objective <= ideal * 1.001


def test_progress_may_stop_it():
    class Stopped(Exception):
        pass

    def report(fraction, doing):
        assert fraction is None or 0 <= fraction <= 1
        if "weighing" in doing:
            raise Stopped

    with pytest.raises(Stopped):
        eigen_design(AllRange(32), report=report)


def test_bad_input():
    with pytest.raises(WorkloadError, match="not both"):
        eigen_design(Prefix(8), group=2, principal=2)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(WorkloadError, match="whole number"):
            eigen_design(Prefix(8), group=wrong)
        with pytest.raises(WorkloadError, match="whole number"):
            eigen_design(Prefix(8), principal=wrong)
    with pytest.raises(WorkloadError, match="limit is 4,096"):
        eigen_design(Prefix(5000))
    assert eigen_design(Kron(Prefix(8), Identity(5000), Total(7000))).objective > 0

"""OPT_0 for Laplace noise against HDMM's Table 4, its gradient, its rounding, and choices for one attribute."""

import math
import time

import numpy as np
import pytest
from published_descent import published_descent
from threadpoolctl import threadpool_info, threadpool_limits

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy, blas, explicit, hierarchical, identity, laplace, select
from dpnotebook.strategy.bounds import svd_bound
from dpnotebook.strategy.explicit import choice_error, explicit_choice, merged, opt_0, product_certificate
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.laplace import default_rows, gram_product, loss_and_gradient, p_identity, starting_points
from dpnotebook.strategy.product import library_choice
from dpnotebook.strategy.rounding import rounded_gram, rounded_p_identity
from dpnotebook.strategy.two_weights import two_weights
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Permuted,
    PIdentity,
    Prefix,
    Stack,
    Total,
    WidthRange,
)

PRINTED = 0.005  # half a unit of the last digit that the paper prints
NOISES = ["laplace", "gaussian"]
PRIVACY = {"laplace": {"epsilon": 1.0}, "gaussian": {"epsilon": 1.0, "delta": 1e-6}}


def width_32(n):
    return WidthRange(n, 32)


def permuted(n):
    return Permuted(AllRange(n), 7)


# Table 4, column OPT_0.
TABLE_4 = [
    (AllRange, 64, 5.55),
    (AllRange, 256, 8.07),
    (AllRange, 1024, 11.08),
    (AllRange, 4096, 14.38),
    (Prefix, 64, 5.32),
    (Prefix, 256, 7.35),
    (Prefix, 1024, 9.58),
    (Prefix, 4096, 12.20),
    (width_32, 64, 5.88),
    (width_32, 256, 6.34),
    (width_32, 1024, 6.41),
    (width_32, 4096, 6.46),
    (permuted, 64, 5.55),
    (permuted, 256, 8.06),
    (permuted, 1024, 11.08),
    (permuted, 4096, 14.37),
]
SLOW = [pytest.param(*row, marks=pytest.mark.slow) for row in TABLE_4 if row[1] > 256]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("workload", "n", "published"), [row for row in TABLE_4 if row[1] <= 256] + SLOW)
def test_table_4(workload, n, published):
    found = opt_0(workload(n))
    assert found.rmse(1.0) < published + PRINTED
    assert found.norm == found.operator.column_norms(1).min()  # no cell is measured less than it may be


@pytest.mark.parametrize(("w", "ours"), [(width_32(64), 5.78), (Prefix(256), 7.33), (AllRange(256), 8.0585)], ids=repr)
def test_better_than_published(w, ours):
    assert opt_0(w).rmse(1.0) <= ours


@pytest.mark.parametrize(
    ("w", "published"),
    [(permuted(64), 9.73), (permuted(256), 12.26), (AllRange(256), 12.26), (Prefix(256), 10.66), (width_32(64), 8.697)],
    ids=repr,
)
def test_table_5_as_measured(w, published):
    # The integer strategy, not only the optimum that it rounds.
    found = opt_0(w, "gaussian")
    assert found.rmse(**PRIVACY["gaussian"]) < published + (PRINTED if published != 8.697 else 5e-4)
    assert 1 <= found.objective / found.certificate < 1 + 1e-4
    assert found.bound == found.certificate


@pytest.mark.parametrize("w", [AllRange(20), Prefix(13), WidthRange(20, 3), Explicit([[1, 0, 2, 0], [0, 1, -1, 1]])])
def test_the_gradient_against_finite_differences(w):
    gram = w.gram().astype(float)
    rng = np.random.default_rng(0)
    theta, diagonal, product = rng.random((3, len(gram))), np.diagonal(gram), gram_product(gram)
    loss, gradient = loss_and_gradient(theta, product, diagonal)
    a = np.vstack([np.eye(len(gram)), theta]) / (1 + theta.sum(axis=0))
    assert loss == pytest.approx(np.trace(np.linalg.solve(a.T @ a, gram)))
    for _ in range(10):
        direction = rng.normal(size=theta.shape)
        steps = [loss_and_gradient(theta + h * direction, product, diagonal)[0] for h in (1e-5, -1e-5)]
        assert (steps[0] - steps[1]) / 2e-5 == pytest.approx(np.vdot(gradient, direction), rel=1e-6)


@pytest.mark.parametrize("w", [AllRange(300), Prefix(300), WidthRange(300, 7), 2.5 * Prefix(300), Total(300)], ids=repr)
def test_products_with_a_gram_matrix_by_running_sums(w):
    gram = w.gram().astype(float)
    x = np.random.default_rng(0).normal(size=(4, 300))
    assert gram_product(gram)(x) == pytest.approx(x @ gram, rel=1e-9, abs=1e-9 * gram.max())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "w", [AllRange(64), Prefix(256), width_32(64), width_32(100), permuted(64), Explicit(np.eye(7)[:3] + 1)], ids=repr
)
def test_rounding_costs_little(w, noise):
    gram = w.gram().astype(float)
    if noise == "laplace":
        descent = p_identity(gram)[0]
        theta = descent.theta
        a = np.vstack([np.eye(len(gram)), theta]) / (1 + theta.sum(axis=0))
        real = np.trace(np.linalg.solve(a.T @ a, gram))
        rounded = rounded_p_identity(theta)
        assert set(rounded.column_norms(1)) == {2**14}
        cost = Strategy(w, rounded, noise, "rounded").objective / real
    else:
        optimum = gaussian_optimum(gram)
        rounded = rounded_gram(optimum.gram, gram, optimum.objective)
        assert rounded.max_column_norm(2) < 2**24.5
        cost = Strategy(w, rounded, noise, "rounded").objective / optimum.objective
    assert math.sqrt(cost) < 1.002  # an error of 0.2%


def test_a_weight_that_rounds_to_nothing_is_kept():
    rounded = rounded_p_identity(np.array([[1e9, 0.0, 0.5], [1e9, 0.0, 0.0]]), 100)
    assert rounded.diagonal.min() >= 1
    assert set(rounded.column_norms(1)) == {100}


def test_expected_error_is_that_of_noise():
    # Noisy measurements, least squares, errors: the mean squared error of 4,000 runs is chi-square-like around what the
    # strategy promises.
    rng = np.random.default_rng(3)
    for noise in NOISES:
        found = opt_0(Prefix(16), noise)
        scale = found.sensitivity
        draw = rng.laplace if noise == "laplace" else rng.normal
        unit = 2.0 if noise == "laplace" else 1.0
        x = rng.integers(0, 100, 16)
        exact = found.operator.matvec(x)
        errors = [
            found.answers(exact + draw(scale=scale, size=exact.size)) - found.workload.matvec(x) for _ in range(4000)
        ]
        squared = np.array([(error**2).sum() for error in errors])
        assert abs(squared.mean() - unit * found.objective) < 4.5 * squared.std() / math.sqrt(len(squared))


@pytest.mark.parametrize("noise", NOISES)
def test_never_worse_than_simple_strategies(noise):
    rng = np.random.default_rng(1)
    for w in (Explicit(rng.integers(-1, 3, size=(9, 6))), Explicit(rng.integers(0, 2, size=(3, 12))), Prefix(9)):
        chosen = select(w, noise)
        assert chosen.objective <= identity(w, noise).objective * (1 + 1e-9)
        assert chosen.objective <= hierarchical(w, noise).objective * (1 + 1e-9)
        assert chosen.objective >= chosen.bound * (1 - 1e-9)


def test_merged_cells():
    # Cells 0, 2 and 1, 3 are counted alike; nobody asks for the last.
    w = Explicit(np.array([[1, 0, 1, 0, 0], [1, 2, 1, 2, 0], [0, 1, 0, 1, 0]]))
    forms = merged(w.gram().astype(float))
    assert forms[0].signs.tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 1, 0]]
    assert forms[0].total == 0
    assert opt_0(w).objective == pytest.approx(opt_0(Explicit([[1, 0], [1, 2], [0, 1]])).objective, rel=1e-6)
    # Each of 33 ranges has either cell j or cell j + 32: with the total apart, they are opposite.
    form = merged(width_32(64).gram().astype(float))[-1]
    assert len(form.gram) == 32
    assert (form.signs[:, :32] == -form.signs[:, 32:]).all()
    assert merged(Prefix(8).gram().astype(float)) == []
    assert merged(AllRange(9).gram().astype(float)) == []


def test_an_order_of_cells_changes_nothing():
    for noise in NOISES:
        plain, moved = opt_0(AllRange(20), noise), opt_0(Permuted(AllRange(20), 5), noise)
        assert moved.objective == pytest.approx(plain.objective)
        assert moved.norm == plain.norm


@pytest.mark.parametrize("noise", NOISES)
def test_totals_and_cells_by_two_weights(noise):
    union = [(1.0, Identity(10)), (30.0, Total(10))]
    found = two_weights(union, noise)
    # Against every pair of real weights, on a fine grid.
    t = np.linspace(0.01, 5, 20_000)
    norm = (1 + t) ** 2 if noise == "laplace" else 1 + t**2
    best = (norm * (9 + 1 / (1 + 10 * t**2) + 300 / (1 + 10 * t**2))).min()
    assert best <= choice_error(found, union, noise) * (1 + 1e-6) < best * 1.001
    assert two_weights([(1.0, Identity(10))], noise) is None
    assert two_weights([(3.0, Identity(10)), (7.0, Total(10))], "laplace") is None  # the identity alone is better
    assert two_weights([(1.0, Total(10)), (1.0, Prefix(10)), (1.0, Identity(10))], noise) is None
    w = Stack(6 * Total(10), Identity(10))
    assert isinstance(select(w, noise, "quick").operator, PIdentity)


@pytest.mark.parametrize("noise", NOISES)
def test_a_choice_for_one_attribute_is_better_than_the_library(noise):
    union = [(1.0, Prefix(30)), (4.0, Identity(30))]
    library = choice_error(library_choice(noise)(union), union, noise)
    found = choice_error(explicit_choice(noise)(union), union, noise)
    assert found < library
    if noise == "gaussian":
        gram = Prefix(30).gram() + 4 * np.eye(30)
        assert gaussian_optimum(gram).lower <= found <= gaussian_optimum(gram).lower * 1.004
    started = time.process_time()
    explicit_choice(noise)(union)
    assert time.process_time() - started < 0.05  # remembered


@pytest.mark.parametrize("noise", NOISES)
def test_products_of_three_rounded_factors_stay_exact(noise):
    w = Kron(AllRange(12), Prefix(10), AllRange(7))
    chosen = select(w, noise)
    assert chosen.norm < 2**62
    assert chosen.objective <= select(w, noise, "quick").objective


def test_certificates_of_products_multiply():
    w = 3 * Kron(AllRange(6), Total(4), Prefix(5), Identity(3))
    certificate = product_certificate(w)
    small = Kron(Prefix(4), AllRange(3))
    assert product_certificate(small) == pytest.approx(gaussian_optimum(small.gram(), tolerance=1e-8).lower, rel=1e-5)
    assert svd_bound(w) < certificate <= select(w, "gaussian").objective
    product = Kron(*(opt_0(factor, "gaussian").operator for factor in w.workload.factors))
    assert Strategy(w, product, "gaussian", "product").objective == pytest.approx(certificate, rel=1e-4)
    assert product_certificate(Stack(Prefix(3), Total(3))) == 0


@pytest.mark.parametrize("w", [Prefix(200), AllRange(200)], ids=repr)
def test_quick_is_one_short_descent_and_nearly_as_good(w, monkeypatch):
    steps = []
    monkeypatch.setattr(explicit, "_found", {})
    found = explicit_choice("laplace", "quick", lambda _, doing: steps.append(doing))([(1.0, w)])
    assert 10 < len(steps) < 150
    error = choice_error(found, ((1.0, w),), "laplace")
    assert error < 0.9 * hierarchical(w).objective
    assert error < 1.02 * opt_0(w).objective


def test_small_problems_take_one_thread_and_leave_the_others():
    def threads():
        blas_of_numpy = [library for library in threadpool_info() if "numpy" in library["filepath"]]
        return [library["num_threads"] for library in blas_of_numpy]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        if not before:
            pytest.skip("this numpy brings no BLAS of its own")
        assert max(before) == 2
        with blas.threads_for(100):
            assert max(threads()) == 1
        assert threads() == before
        with blas.threads_for(5000):
            assert threads() == before
        with pytest.raises(KeyboardInterrupt), blas.threads_for(100):
            raise KeyboardInterrupt
        assert threads() == before


def test_bad_input():
    with pytest.raises(WorkloadError, match="8,192"):
        opt_0(Prefix(10_000))
    with pytest.raises(WorkloadError, match="noise"):
        opt_0(Prefix(4), "cauchy")
    with pytest.raises(WorkloadError, match="rows"):
        opt_0(Prefix(4), p=5)
    with pytest.raises(WorkloadError, match="rows"):
        opt_0(Prefix(4), p=0)
    with pytest.raises(WorkloadError, match="restarts"):
        opt_0(Prefix(4), restarts=-1)
    with pytest.raises(WorkloadError, match="effort"):
        select(Prefix(4), effort="slow")


def test_report_can_stop_it():
    def stop(fraction, doing):
        raise KeyboardInterrupt

    for noise in NOISES:
        with pytest.raises(KeyboardInterrupt):
            opt_0(Prefix(16), noise, report=stop)


def test_restarts_are_no_worse():
    rng = np.random.default_rng(0)
    gram = WidthRange(40, 9).gram().astype(float)
    plain, more = p_identity(gram)[0].loss, p_identity(gram, restarts=3, rng=rng)[0].loss
    assert more <= plain * (1 + 1e-6)


@pytest.mark.parametrize("extra", [np.zeros((2, 3), dtype=int), np.array([[1, 2, 0]]), np.zeros((0, 3), dtype=int)])
def test_p_identities_are_written_and_read(extra):
    from dpnotebook.workload import Workload

    w = PIdentity([3, 1, 2], extra)
    assert Workload.from_json(w.to_json()) == w
    assert hash(Workload.from_json(w.to_json())) == hash(w)
    for diagonal, rows in (([0, 1, 1], extra), ([1, 1], extra), ([1.5, 1, 1], extra), ([1, 1, 1], extra[:, :2])):
        with pytest.raises(WorkloadError):
            PIdentity(diagonal, rows)


@pytest.mark.parametrize("workload", [Prefix(64), AllRange(96), WidthRange(96, 12)], ids=repr)
def test_one_short_descent_is_as_good_as_the_published_one(workload):
    """HDMM's descent takes 30 to 100 evaluations that are three times as long: ours ends after as many."""
    gram, n = workload.gram().astype(float), workload.shape[1]
    steps = []
    (quick,) = p_identity(gram, quick=True, report=lambda _, told: steps.append(told))
    told = []
    theirs = np.median([published_descent(gram, n, default_rows(n), seed, told=told) for seed in range(5)])
    assert quick.loss <= theirs * 1.0005
    assert len(steps) <= 1.25 * laplace.HASTE
    # Of the issue: the same error in at most three times the time, in products with the Gram matrix.
    assert len(steps) <= 3 * 2 * len(told) / 5


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "workload",
    [Prefix(64), AllRange(64), AllRange(100), WidthRange(96, 12), WidthRange(160, 20), AllRange(200)],
    ids=repr,
)
def test_few_starts_to_the_end_are_as_good_as_all_of_them(workload):
    from scipy.optimize import minimize

    gram = workload.gram().astype(float)
    product, diagonal, n = gram_product(gram), np.diagonal(gram), len(gram)

    def evaluate(flat):
        loss, gradient = loss_and_gradient(flat.reshape(-1, n), product, diagonal)
        return loss / diagonal.sum(), gradient.ravel() / diagonal.sum()

    every = []
    for start in starting_points(n, default_rows(n)):
        options = {"maxiter": 1000, "ftol": 1e-10}
        found = minimize(evaluate, start.ravel(), jac=True, bounds=[(0, 1e3)] * start.size, options=options)
        every.append(found.fun * diagonal.sum())
    best = p_identity(gram)[0]
    assert best.loss <= min(every) * 1.002  # 0.1% of the error


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workload", [Prefix(256), WidthRange(256, 32)], ids=repr)
def test_no_more_than_three_of_hdmms_descents_are_worked_through(workload):
    """Of the issue: at n = 256 no more error than one published descent, in at most three times the time of it.

    Time is counted in products with the Gram matrix, two for each of theirs; of the processor, see the benchmark.
    """
    gram, n = workload.gram().astype(float), workload.shape[1]
    steps, told = [], []
    ours, *_ = p_identity(gram, report=lambda _, words: steps.append(words))
    theirs = [published_descent(gram, n, default_rows(n), seed, told=told) for seed in range(3)]
    assert ours.loss <= np.median(theirs)
    assert len(steps) <= 3 * 2 * len(told) / 3

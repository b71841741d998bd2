"""The optimum for Gaussian noise, against HDMM's Table 5, brute force, random strategies, and its own certificate."""

import math

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy.bounds import svd_bound
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.strategy import unit_variance
from dpnotebook.workload import AllRange, Explicit, Identity, Prefix, Total

UNIT = unit_variance("gaussian", 1.0, 1e-6)


def width_32(n):
    """Every range of 32 cells."""
    starts = np.arange(n - 31)[:, None]
    return Explicit((starts <= np.arange(n)) & (np.arange(n) < starts + 32))


# Table 5, column OPT_0; the paper prints two digits, and the optimum must not be above what it found.
TABLE_5 = [
    (AllRange, 64, 9.73),
    (AllRange, 256, 12.26),
    (AllRange, 1024, 14.85),
    (Prefix, 64, 8.87),
    (Prefix, 256, 10.66),
    (Prefix, 1024, 12.49),
    (width_32, 64, 8.74),
    (width_32, 256, 9.93),
    (width_32, 1024, 10.08),
]
SLOW = [(AllRange, 4096, 17.46), (Prefix, 4096, 14.32), (width_32, 4096, 10.11)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("workload", "n", "published"), TABLE_5 + [pytest.param(*row, marks=pytest.mark.slow) for row in SLOW]
)
def test_table_5(workload, n, published):
    w = workload(n)
    found = gaussian_optimum(w.gram(), tolerance=1e-4)
    assert found.gap <= 1e-4
    assert svd_bound(w) <= found.lower * (1 + 1e-9)
    assert math.sqrt(found.objective * UNIT / w.shape[0]) < published + 0.005


def test_width_32_is_certified():
    # The paper printed 8.74; the optimum is 8.697 to the digits shown.
    found = gaussian_optimum(width_32(64).gram(), tolerance=1e-8)
    assert found.gap <= 1e-8
    assert math.sqrt(found.objective * UNIT / 33) == pytest.approx(8.697, abs=0.001)


def cases():
    rng = np.random.default_rng(0)
    yield "full rank", rng.normal(size=(12, 8))
    yield "few queries", rng.integers(0, 2, size=(3, 20))
    yield "dependent queries", rng.integers(0, 3, size=(30, 4)) @ rng.integers(0, 2, size=(4, 9))
    yield "cells that nobody asks for", np.pad(rng.integers(0, 2, size=(6, 5)), ((0, 0), (2, 3)))
    yield "cells that are the same", np.repeat(rng.normal(size=(6, 4)), 3, axis=1)
    yield "one query", np.array([[0.0, 1, 1, 3]])
    yield "one cell", np.array([[2.0], [1]])


@pytest.mark.parametrize(("name", "matrix"), list(cases()), ids=lambda v: v if isinstance(v, str) else "")
def test_the_strategy_is_feasible_and_nothing_is_below_the_bound(name, matrix):
    gram = matrix.T @ matrix
    found = gaussian_optimum(gram, tolerance=1e-7)
    n, rng = len(gram), np.random.default_rng(1)
    assert found.gap <= 1e-7
    assert found.gram.diagonal().max() <= 1 + 1e-12
    assert np.linalg.eigvalsh(found.gram)[0] > -1e-9
    recomputed = np.trace(np.linalg.pinv(found.gram, rcond=1e-9, hermitian=True) @ gram)
    assert recomputed == pytest.approx(found.objective, rel=1e-6)
    for scale in (0.01, 0.1, 1.0):
        near = np.linalg.cholesky(found.gram + 1e-6 * np.eye(n)).T
        a = near + scale * rng.normal(size=(n, n))
        other = a.T @ a
        assert found.lower <= other.diagonal().max() * np.trace(np.linalg.solve(other, gram))


@pytest.mark.parametrize("seed", range(3))
def test_against_a_general_optimizer(seed):
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    n = 4
    w = rng.normal(size=(6, n))
    gram = w.T @ w

    def loss(flat):
        a = flat.reshape(n, n)
        a = a / np.sqrt((a**2).sum(axis=0))
        return np.trace(np.linalg.solve(a.T @ a, gram))

    best = min(minimize(loss, rng.normal(size=n * n), options={"gtol": 1e-7}).fun for _ in range(3))
    found = gaussian_optimum(gram, tolerance=1e-9)
    assert found.lower <= best
    assert found.objective == pytest.approx(best, rel=1e-6)


def test_closed_forms():
    assert gaussian_optimum(Identity(7).gram()).objective == pytest.approx(7)
    assert gaussian_optimum(Total(7).gram()).objective == pytest.approx(1)
    # Of one query, the largest coefficient is all that counts.
    assert gaussian_optimum(np.outer([1, 2, 5], [1, 2, 5]), tolerance=1e-8).objective == pytest.approx(25, rel=1e-6)


def test_a_warm_start_only_saves_steps():
    calls = []
    first = gaussian_optimum(Prefix(128).gram(), tolerance=1e-7, report=lambda *_: calls.append(1))
    cold, _ = len(calls), calls.clear()
    again = gaussian_optimum(Prefix(128).gram(), tolerance=1e-7, start=first.v, report=lambda *_: calls.append(1))
    assert len(calls) < cold / 2
    assert again.objective == pytest.approx(first.objective, rel=1e-6)


def test_report_can_stop_it():
    def stop(fraction, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gaussian_optimum(Prefix(16).gram(), report=stop)


@pytest.mark.parametrize(
    "gram",
    [[[1.0, 2.0]], [1.0], [], [[np.nan]], [[0.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
)
def test_what_is_not_a_gram_matrix_is_refused(gram):
    with pytest.raises(WorkloadError):
        gaussian_optimum(gram)


def test_a_start_must_fit():
    for start in ([1.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0]):
        with pytest.raises(WorkloadError, match="start"):
            gaussian_optimum(np.eye(3), start=start)

"""Descents that can be put down: against least squares within a range, and against one that was not put down."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize, nnls, rosen, rosen_der

from dpnotebook.strategy.descent import BoundedDescent


def least_squares(seed, n=12, largest=np.inf):
    """Return |A x - b|^2 with its gradient, and its least value for 0 <= x <= largest, which others find exactly."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((3 * n, n)), 3 * rng.standard_normal(3 * n)
    exact = nnls(a, b)[1] ** 2 if np.isinf(largest) else 2 * lsq_linear(a, b, (0, largest), tol=1e-14).cost

    def function(x):
        left = a @ x - b
        return float(left @ left), 2 * a.T @ left

    return function, exact


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("largest", [np.inf, 0.4])
def test_it_ends_at_the_least_that_numbers_in_their_range_have(seed, largest):
    function, exact = least_squares(seed, largest=largest)
    descent = BoundedDescent(function, np.full(12, 0.2), largest)
    descent.go(500, 0.0)
    assert descent.value == pytest.approx(exact, rel=1e-7)
    assert descent.point.min() >= 0
    assert descent.point.max() <= largest


def test_a_curved_valley_is_followed_as_by_the_librarys():
    start = np.linspace(0.1, 1.9, 10).clip(0, 0.9)
    descent = BoundedDescent(lambda x: (float(rosen(x)), rosen_der(x)), start, 0.9)
    descent.go(2000, 0.0)
    library = minimize(rosen, start, jac=rosen_der, bounds=[(0, 0.9)] * 10, method="L-BFGS-B")
    assert descent.value <= library.fun * (1 + 1e-5)


def test_putting_it_down_changes_nothing():
    function, _ = least_squares(3)
    once, often = (BoundedDescent(function, np.ones(12), 10.0) for _ in range(2))
    once.go(9, 0.0)
    for _ in range(3):
        often.go(3, 0.0)
    assert often.value == once.value
    assert np.array_equal(often.point, once.point)


def test_the_value_never_rises_and_where_it_hardly_falls_it_stops():
    values = []
    function, _ = least_squares(5)
    descent = BoundedDescent(function, np.ones(12), 10.0)
    for _ in range(40):
        descent.go(1, 0.0)
        values.append(descent.value)
    assert (np.diff(values) <= 0).all()
    calls = []
    stopped = BoundedDescent(lambda x: calls.append(0) or function(x), np.ones(12), 10.0)
    stopped.go(1000, 0.5, patience=3)  # no three steps in which the value does not even halve
    assert len(calls) < 20


def test_where_nothing_is_to_be_gained_it_stays():
    descent = BoundedDescent(lambda x: (float(x.sum()), np.ones(3)), np.zeros(3), 1.0)
    descent.go(10, 0.0)
    assert descent.value == 0
    assert descent.point.tolist() == [0, 0, 0]

"""How the budget is split between the parts of a union: HDMM's closed form, in small integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpnotebook.strategy import Strategy
from dpnotebook.strategy.operators import integer_weights, union_operator
from dpnotebook.workload import Identity, Kron, Prefix, Stack, Total
from dpnotebook.workload.terms import terms

sizes = st.lists(st.floats(1, 1e4), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(errors=sizes, data=st.data(), noise=st.sampled_from(["laplace", "gaussian"]))
def test_integer_weights_are_within_a_thousandth_of_the_best(errors, data, noise):
    errors = np.array(errors)
    squares = np.array(
        data.draw(st.lists(st.sampled_from([1.0, 4.0, 9.0, 49.0]), min_size=len(errors), max_size=len(errors)))
    )
    weights = integer_weights(errors, squares, noise)
    assert weights.dtype == np.int64
    assert weights.min() >= 1
    scaled = errors * squares
    best = (scaled ** (1 / 3)).sum() ** 3 if noise == "laplace" else (scaled**0.5).sum() ** 2
    sensitivities = np.sqrt(squares) * weights
    norm = sensitivities.sum() ** 2 if noise == "laplace" else (sensitivities**2).sum()
    assert best * (1 - 1e-9) <= norm * (errors / weights**2).sum() <= best * 1.0011


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_closed_form_is_the_minimum(noise):
    scaled = np.array([200.0, 300.0, 7.0])

    def total(log_shares):
        c = np.exp(log_shares)
        return (c.sum() ** 2 if noise == "laplace" else (c**2).sum()) * (scaled / c**2).sum()

    found = minimize(total, np.zeros(3), tol=1e-10).fun
    best = (scaled ** (1 / 3)).sum() ** 3 if noise == "laplace" else (scaled**0.5).sum() ** 2
    assert found == pytest.approx(best, rel=1e-6)


def test_equal_parts_have_equal_weights():
    assert integer_weights(np.array([5.0, 5.0]), np.array([4.0, 4.0]), "laplace").tolist() == [1, 1]
    assert integer_weights(np.array([8.0, 1.0]), np.array([1.0, 1.0]), "laplace").tolist() == [2, 1]
    assert integer_weights(np.array([16.0, 1.0]), np.array([1.0, 1.0]), "gaussian").tolist() == [2, 1]


def test_weights_of_the_workload_count():
    w = Stack(3 * Kron(Prefix(10), Total(20)), Kron(Total(10), Identity(20)))
    parts = terms(w)
    operators = [Kron(Identity(10), Total(20)), Kron(Total(10), Identity(20))]
    operator = union_operator(parts, operators, "gaussian")
    strategy = Strategy(w, operator, "gaussian", "split", split=True)
    best = (np.sqrt(9 * 55) + np.sqrt(20)) ** 2
    assert best <= strategy.objective < best * 1.001

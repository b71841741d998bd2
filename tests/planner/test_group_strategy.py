"""What group-bys cost in the eigenspaces of marginals, against dense matrices; what is worth buying."""

import math
from functools import reduce
from itertools import permutations, product

import numpy as np
import pytest

from dpnotebook.planner.group_forecast import GroupBy, Outlook, likely
from dpnotebook.planner.group_spaces import average_information, marginal_information, shares, subsets
from dpnotebook.planner.group_strategy import Raise, group_strategy, price

SIZES = (3, 2, 4)


def marginal(subset, sizes=SIZES):
    return reduce(np.kron, [np.eye(n) if i in subset else np.ones((1, n)) for i, n in enumerate(sizes)])


def question(widths, sizes=SIZES):
    return reduce(np.kron, [(np.arange(n) < w).astype(float)[None] for w, n in zip(widths, sizes, strict=True)])


def space(subset, sizes=SIZES):
    parts = [np.eye(n) - 1 / n if i in subset else np.full((n, n), 1 / n) for i, n in enumerate(sizes)]
    return reduce(np.kron, parts)


@pytest.mark.parametrize("seed", range(3))
def test_variances_from_weighted_marginals(seed):
    rng = np.random.default_rng(seed)
    precision = rng.uniform(0.1, 3, len(subsets(3)))
    dense = sum(p * marginal(s).T @ marginal(s) for s, p in zip(subsets(3), precision, strict=True))
    values = precision @ marginal_information(SIZES)
    for widths in product(*(range(1, n + 1) for n in SIZES)):
        row = question(widths)
        expected = float((row @ np.linalg.inv(dense) @ row.T).item())
        assert float((shares(widths, SIZES) / values).sum()) == pytest.approx(expected, rel=1e-9)


def test_information_averaged_over_permutations_of_levels():
    rng = np.random.default_rng(1)
    rows = (rng.random((7, 24)) < 0.3).astype(float)
    matrix = rows.T @ rows
    orders = [reduce(np.add.outer, parts).reshape(-1) for parts in _orders()]
    mean = sum(matrix[np.ix_(order, order)] for order in orders) / len(orders)
    found = average_information(matrix, SIZES)
    assert np.allclose(sum(v * space(s) for v, s in zip(found, subsets(3), strict=True)), mean)


def _orders():
    strides = [8, 4, 1]
    return [
        [np.array(p) * stride for p, stride in zip(chosen, strides, strict=True)]
        for chosen in product(*(permutations(range(n)) for n in SIZES))
    ]


def test_measured_marginals_are_their_own_average():
    precision = np.arange(1.0, 9.0)
    dense = sum(p * marginal(s).T @ marginal(s) for s, p in zip(subsets(3), precision, strict=True))
    assert np.allclose(average_information(dense, SIZES), precision @ marginal_information(SIZES))


@pytest.mark.parametrize("outside", [0, 3])
def test_what_is_likely_is_a_distribution(outside):
    asked = [GroupBy((1, 2, 4), 1.0), GroupBy((1, 2, 4), 2.0), GroupBy((1, 1, 4), 2.0)]
    found, weights = likely(_outlook(asked, outside=outside))
    assert found.shape == (weights.size, 8)
    assert (weights > 0).all()
    if outside:
        assert weights.sum() < 0.9  # the rest is about attributes of which nothing can be known here
    else:
        assert weights.sum() == pytest.approx(1.0)


def _outlook(asked, known=None, bought=None, outside=0, sizes=SIZES):
    size = 2 ** len(sizes)
    return Outlook(
        sizes,
        asked,
        np.zeros(size) if known is None else known,
        np.zeros(size) if bought is None else bought,
        outside,
    )


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_what_is_bought_fits_the_credit_and_serves_the_question(noise):
    asked = [GroupBy((1, 2, 4), 4.0)] * 3 + [GroupBy((1, 1, 4), 1.0)]
    alone = math.sqrt(2) if noise == "laplace" else 1.0
    for credit in (alone, 2 * alone, math.inf):
        outlook = _outlook(asked)
        raises = group_strategy(outlook, noise, alone, credit)
        paid = price(outlook, raises, noise)
        assert paid <= credit * (1 + 1e-9)
        if noise == "laplace" and credit > alone:
            assert raises
            told = sum(one.precision * marginal_information(SIZES)[subsets(3).index(one.subset)] for one in raises)
            after = float((shares((1, 1, 4), SIZES) / np.maximum(told, 1e-12)).sum())
            rest = math.sqrt(max(2 * (1 - 1 / after), 0))
            assert paid + rest <= credit * (1 + 1e-6)


def test_nothing_is_bought_for_what_is_known():
    asked = [GroupBy((1, 2, 4), 4.0)] * 5
    known = 1e6 * marginal_information(SIZES).sum(axis=0)
    assert group_strategy(_outlook(asked, known), "laplace", 0.0) == ()


def test_a_more_precise_marginal_is_charged_for_what_is_added():
    bought = np.zeros(8)
    bought[-1] = 2.0  # epsilon 2
    outlook = _outlook([GroupBy((1, 1, 1), 1.0)], bought=bought)
    assert price(outlook, [Raise((0, 1, 2), 2.5)], "laplace") == pytest.approx(1.0)
    assert price(outlook, [Raise((0, 1, 2), 2.5)], "gaussian") == pytest.approx(2.5)
    assert price(outlook, [], "laplace") == 0.0

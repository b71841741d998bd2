"""Columns in which most have zero, as costs of what seldom happens: what the others have is found, or it is not."""

import contextlib
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.aggregates.bounds import found, magnitude_edges

UNITS = 15_000
SHARES = {"one in five": 0.2, "one in twenty": 0.05, "one in a hundred": 0.01}


def amounts(share, random):
    """Return amounts of units, of which a share have some, mostly from 10 to 80."""
    return np.where(random.random(UNITS) < share, random.gamma(3.0, 10.0, UNITS), 0.0)


@pytest.mark.one_in(30)
@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize(("epsilon", "rows"), [(0.1, 1), (1.0, 1), (1.0, 4)])
def test_a_mean_is_never_that_of_the_zeros_alone(share, delta, epsilon, rows):
    """It was 0 with an interval of a billionth. Noise may hide what the others have: then there is no answer."""
    random = np.random.default_rng(7)
    values = amounts(share, random)
    frame = pd.DataFrame({"who": np.arange(UNITS) // rows, "cost": values})
    for _ in range(3):
        with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
            session.protect(frame, "bills", unit="who", max_rows=rows)
            answer = session.sql("SELECT AVG(cost) AS cost FROM bills", epsilon=epsilon).run().frame
        mean, error = answer.cost[0], answer.cost_std_error[0]
        assert math.isnan(mean) or mean + 6 * error > values.mean() / 2
        assert math.isnan(mean) or mean - 6 * error < values.mean() * 1.5


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_with_enough_of_them_the_mean_is_close(delta):
    values = amounts(0.2, np.random.default_rng(8))
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
        session.protect(pd.DataFrame({"cost": values}), "bills")
        answer = session.sql("SELECT AVG(cost) AS cost, STDDEV(cost) AS spread FROM bills", epsilon=2.0).run().frame
    assert answer.cost[0] == pytest.approx(values.mean(), abs=6 * answer.cost_std_error[0] + 0.05 * values.mean())
    assert answer.spread[0] == pytest.approx(values.std(), abs=6 * answer.spread_std_error[0] + 0.1 * values.std())


def test_zeros_alone_have_no_bounds_and_others_have_theirs_beside_any_number_of_zeros():
    edges = magnitude_edges()
    counts = np.zeros(edges.size - 1)
    counts[counts.size // 2] = 1e6
    assert found(counts, Fraction(10), "laplace") is None
    counts[np.searchsorted(edges, 48.0) - 1] = 400
    assert found(counts, Fraction(10), "laplace") == (0, 64)
    counts[np.searchsorted(edges, -5.0) - 1] = 400
    assert found(counts, Fraction(10), "laplace") == (-8, 64)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_a_median_of_zeros_is_zero(delta):
    values = amounts(0.05, np.random.default_rng(9))
    with contextlib.closing(dpn.Session(dpn.Budget(3.0, delta), ":memory:")) as session:
        session.protect(pd.DataFrame({"cost": values}), "bills")
        answer = session.sql("SELECT MEDIAN(cost) AS cost FROM bills", epsilon=1.0).run().frame
    assert abs(answer.cost[0]) < 1  # those who have some have 30 on average

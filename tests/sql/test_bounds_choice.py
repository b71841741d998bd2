"""Bounds that are chosen where noise hides how far values reach: their noise, and how little they err in all ways."""

import itertools
import math

import numpy as np
import pytest

from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.laws import law_of
from dpnotebook.sql.aggregates.bounds_choice import TailsCut, bias, noise_between
from dpnotebook.sql.aggregates.budget_split import ValueCosts, of_range
from dpnotebook.sql.aggregates.hidden_tail import ALIKE, alike_tails
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram

VALUES, RUNS = 5_000, 40_000


def drawn_moments(law, squares, random, mean, square):
    """Return noisy numbers of values, sums and sums of squares between -1 and 1, as a cost of 1 measures them."""
    if law == "laplace" and squares:
        # (1 - p)^2, 2 p (1 - p) and p^2 add up to one for every value, p its place between the bounds.
        p = np.array([(1 - 2 * mean + square) / 4, (1 - square) / 2, (1 + 2 * mean + square) / 4])
        a, b, c = VALUES * p[:, None] + random.laplace(0, 1, (3, RUNS))
        return a + b + c, c - a, a - b + c
    if law == "laplace":
        below, above = (VALUES * (1 + side * mean) / 2 + random.laplace(0, 1, RUNS) for side in (-1, 1))
        return above + below, above - below, 0.0
    n, c, q = random.normal(0, 1, (3, RUNS))
    if squares:
        n, c, q = (one * math.sqrt(3) for one in (n, c, q))
        return VALUES + n, VALUES * mean + c, VALUES * square + (q + n) / 2
    return VALUES + n / math.sqrt(0.4), VALUES * mean + c / math.sqrt(0.6), 0.0


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("mean", "variance"), [(-0.9, 0.02), (0.0, 0.02), (0.0, 0.9), (0.4, 0.3), (0.8, 0.02)])
@pytest.mark.parametrize("of", ["means", "squares"])
def test_noise_is_that_of_ratios(of, mean, variance, law):
    """What noise does to a ratio of sums, drawn, but for what draws and squares of noise may do to a variance."""
    random = np.random.default_rng(5)
    n, c, q = drawn_moments(law, of == "squares", random, mean, mean**2 + variance)
    answers = q / n - (c / n) ** 2 if of == "squares" else c / n
    one = math.sqrt(2.0) if law == "laplace" else 1.0  # standard deviation of the noise on a sum of a cost of 1
    told = float(noise_between(np.array(-1.0), np.array(1.0), mean, variance, of, law)) * one / VALUES
    fourth = ((answers - answers.mean()) ** 4).mean() / answers.var() ** 2
    assert told / answers.std() == pytest.approx(1.0, abs=5.5 * math.sqrt((fourth - 1) / (4 * RUNS)) + 1e-3)


def test_bias_is_what_clipping_takes():
    values = np.random.default_rng(2).gamma(2, 10, 2_000)
    edges = np.linspace(0, 120, 2_401)
    counts = np.histogram(values, edges)[0].astype(float)
    for low, high in [(0.0, 40.0), (5.0, 60.0), (8.0, 30.0)]:
        for squares in (False, True):
            (taken,) = bias(counts, edges, np.array([low]), np.array([high]), squares=squares)
            kept = values.clip(low, high)
            less, more = (kept - values).clip(0).mean(), (values - kept).clip(0).mean()
            assert taken == pytest.approx(values.var() - kept.var() if squares else less + more, rel=0.02, abs=0.01)


@pytest.mark.parametrize("squares", [False, True])
def test_the_least_logarithm_of_all_bounds(squares):
    """Beside every pair of bounds and of ways, one after the other."""
    random = np.random.default_rng(8)
    edges = np.arange(13.0)
    below, above = random.random((2, 3, 12)) / 12
    below[:, 6:] = above[:, :6] = 0
    lows, highs, mean = edges[:6], edges[7:], 6.1
    error = 0.1 * (highs - lows[:, None])
    places, best = (edges[1:] + edges[:-1]) / 2, {}
    for (i, low), (j, high) in itertools.product(enumerate(lows), enumerate(highs)):
        best[float(low), float(high)] = 0.0
        for one, other in itertools.product(below, above):
            less, more = (low - places).clip(0) @ one, (places - high).clip(0) @ other
            taken = less + more
            if squares:
                off = ((places - mean) ** 2 - (places.clip(low, high) - mean) ** 2) @ (one + other)
                taken = max(off + (less - more) ** 2, 0.0)
            best[float(low), float(high)] += math.log(error[i, j] ** 2 + taken**2)
    cut = TailsCut.of(below, above, edges, lows, highs, mean)
    assert cut.least_off(error, squares=squares) == min(best, key=best.get)


def test_tails_are_as_uncertain_as_noise_makes_them():
    """Of an exponential tail: most of the ways hold about as many as there are, none of them absurdly many."""
    random, edges = np.random.default_rng(3), np.concatenate([np.arange(0, 6), 5 * 1.35 ** np.arange(1, 12)])
    exact = -np.diff(5_000 * np.exp(-np.append(edges[:-1], np.inf)))
    hidden = float(exact[5:].sum())
    middles = []
    for _ in range(60):
        noisy = NoisyHistogram(exact + random.normal(0, 15, exact.size), 15.0, edges)
        ways = alike_tails(noisy.with_found(0, 5))
        assert ways.shape == (ALIKE, exact.size - 5)
        middles.append(ways[ALIKE // 2].sum())
        assert ways.sum(axis=1).max() < hidden + 8 * 15
    assert abs(np.median(middles) - hidden) < 2 * 15


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_what_only_locates_values_costs_little_where_there_are_many(law):
    """Its noise reaches as far as Gaussian noise of a hundredth of the units, unless the last histogram's does less."""
    costs = of_range(int(UNITS * law_of(law).cost(1.0 / 2**2)))
    each = [costs.of_locating(units, law_of(law)) for units in (0, 500, 5_000, 50_000, math.inf)]
    assert each == sorted(each, reverse=True)
    assert each[0] == costs.of_others(0)
    assert each[2] < costs.of_others(5_000)
    noise = float(law_of(law).precision(each[2] / UNITS)) ** -0.5
    assert noise * law_of(law).tail_ratio == pytest.approx(50.0, rel=1e-3)
    assert each[-1] == costs.least_locating >= 1
    assert ValueCosts((1,), 1).of_locating(math.inf, law_of(law)) == 1

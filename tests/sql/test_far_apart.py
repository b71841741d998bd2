"""Some values lie apart from all others, and noise hides them: what bounds take is told by what noise may hide."""

from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.sql.aggregates.expected import _taken
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.value_range import Trimming, range_edges

UNITS = 5_000
EDGES = range_edges((Fraction(1), Fraction(4)), (Fraction(-96), Fraction(96)))
COLUMNS = {
    "2% are 9": lambda random: np.where(random.random(UNITS) < 0.02, 9.0, random.integers(1, 5, UNITS)),
    "1% are 40": lambda random: np.where(random.random(UNITS) < 0.01, 40.0, random.integers(1, 5, UNITS)),
    "a few below": lambda random: np.where(random.random(UNITS) < 0.01, -30.0, random.integers(1, 5, UNITS)),
    "none": lambda random: random.integers(1, 5, UNITS).astype(float),
    "exponential": lambda random: 1 + random.exponential(1, UNITS),
}
NOISES = {"gaussian": lambda random, n: random.normal(0, 40, n), "laplace": lambda random, n: random.laplace(0, 30, n)}


@pytest.mark.one_in(30)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("of", ["means", "squares"])
def test_what_is_told_holds_wherever_they_lie(name, noise, of):
    """By exact counts with new noise: three standard deviations, that few pass by chance."""
    random = np.random.default_rng(sum(map(ord, name)))
    values = COLUMNS[name](random)
    exact, _ = np.histogram(values, EDGES)
    scale, ratio = (40.0, 1.0) if noise == "gaussian" else (30 * 2**0.5, 1.6)
    passed, by_law = [], []
    for _ in range(200):
        noisy = exact + np.rint(NOISES[noise](random, exact.size))
        (low, high), told = Trimming.of_told(NoisyHistogram(noisy, scale, EDGES, ratio), of).at(30.0)
        kept = values.clip(float(low), float(high))
        taken = values.mean() - kept.mean() if of == "means" else values.var() - kept.var()
        passed.append(abs(taken) > told.apart)
        by_law.append(abs(taken) > told.most)
    assert np.mean(passed) < 0.05
    assert name != "2% are 9" or np.mean(by_law) > 0.3  # which is why it is told


def test_both_are_said():
    """Of values that thin out, and of some that noise may hide."""
    exact = np.histogram(COLUMNS["2% are 9"](np.random.default_rng(1)), EDGES)[0]
    _, told = Trimming.of_told(NoisyHistogram(exact, 40.0, EDGES), "means").at(30.0)
    assert told.looked == 96
    assert told.apart > told.most
    assert "if noise hides a few that reach 96)" in _taken(told, "mean")

"""Units that lie apart from all others, as zeros and codes do: noise hides each bin of them, but not all together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.sql.aggregates.bounds_choice import noise_between
from dpnotebook.sql.aggregates.hidden_humps import hidden_humps
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.value_range import Trimming, range_edges

UNITS = 40_000


def beside(random, main, part):
    """Return values of which a part lies elsewhere."""
    values, elsewhere = main
    return np.where(random.random(UNITS) < part, elsewhere, values)


COLUMNS = {
    "zeros": lambda random: beside(random, (random.normal(100, 8, UNITS), 0.0), 0.015),
    "logarithms of incomes": lambda random: np.log(
        beside(random, (random.lognormal(10.3, 0.6, UNITS), random.pareto(1.5, UNITS) * 300 + 1), 0.05)
    ),
    "two ages": lambda random: beside(random, (random.normal(24, 3, UNITS), random.normal(61, 4, UNITS)), 0.03),
    "normal": lambda random: random.normal(50, 10, UNITS),
    "gamma": lambda random: random.gamma(3, 12, UNITS),
}


def of_column(name, random, scale, noise, of):
    """Return the values of a column, the bounds that its noisy histogram suggests, and what these are told to take."""
    values = COLUMNS[name](random)
    low, high = np.quantile(values, [0.1, 0.9])
    edges = range_edges((Fraction(low), Fraction(high)), (Fraction(-12 * high), Fraction(12 * high)))
    exact = np.histogram(values, edges)[0]
    (least, most), told = Trimming.of_told(
        NoisyHistogram(exact + random.normal(0, scale, exact.size), scale, edges), of
    ).at(noise)
    return values, float(least), float(most), told


@pytest.mark.parametrize("of", ["means", "vectors", "squares"])
@pytest.mark.parametrize("name", ["zeros", "logarithms of incomes", "two ages"])
def test_intervals_hold_who_lies_apart_from_the_tail(name, of):
    random, held = np.random.default_rng(11), 0
    for _ in range(40):
        values, least, most, told = of_column(name, random, 120.0, 40.0, of)
        kept = values.clip(least, most)
        exact, near = (values.var(), kept.var()) if of == "squares" else (values.mean(), kept.mean())
        off = (
            40.0 / UNITS * float(noise_between(*map(np.array, ([least], [most])), near, kept.var(), of, "gaussian")[0])
        )
        answer = near + random.normal(0, off)
        held += answer - np.hypot(1.96 * off, told.above) <= exact <= answer + np.hypot(1.96 * off, told.below)
    assert held >= 34


@pytest.mark.parametrize("name", ["normal", "gamma"])
def test_where_nobody_does_hardly_more_is_told(name):
    random, wide = np.random.default_rng(12), []
    for _ in range(40):
        values, _, _, told = of_column(name, random, 120.0, 40.0, "means")
        wide.append(told.most / values.std())
    assert np.median(wide) < 0.02


def test_noise_alone_is_mostly_nobody_and_several_bins_say_more_than_one():
    random, away = np.random.default_rng(13), np.arange(20) / 4
    nobody = [hidden_humps(random.normal(0, 10, 20), np.zeros(20), 10.0, away).weights[0] for _ in range(200)]
    assert np.median(nobody) > 0.97
    told = np.zeros(20)
    told[4:8] = 26.0  # each by 2.6 standard deviations, all four by 5.2
    humps = hidden_humps(told, np.zeros(20), 10.0, away)
    assert humps.weights[0] < 0.05
    assert humps.average()[4:8].sum() == pytest.approx(104, rel=0.15)
    assert hidden_humps(told, told, 10.0, away).weights[0] > 0.97  # the tail has them
    assert hidden_humps(told, np.zeros(20), 10.0, away + 20.0).weights[0] > humps.weights[0]
    assert hidden_humps(np.zeros(0), np.zeros(0), 10.0, np.zeros(0)).weights.tolist() == [1.0]

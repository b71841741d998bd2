"""Bounds that are found: never without an answer, seldom too wide for an empty bin, near what the data holds."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from private_selects import aggregate, select

from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.noise import draw_integers, gaussian_mass, laplace_mass
from dpnotebook.sql.aggregates.bounds import (
    LEAST,
    LEVELS,
    MOST,
    _reached,
    find_bounds,
    found,
    histogram_scale,
    magnitude_edges,
)
from dpnotebook.sql.aggregates.shares import Shares, found_with, shares

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
BINS = magnitude_edges().size - 1


def histogram(values):
    """Return how many values are in every bin; what is beyond belongs to the ends."""
    edges = magnitude_edges()
    place = np.searchsorted(edges, np.asarray(values, dtype=float), side="right") - 1
    return np.bincount(place.clip(0, BINS - 1), minlength=BINS)


def silent(noise, scale, size):
    return np.zeros(size, dtype=np.int64)


def bounds_of(chosen, values, units, accountant, draw=draw_integers):
    """Return the bounds of the first aggregate."""
    share = Shares((1,), (units,))
    return find_bounds(chosen, share, accountant, lambda one: histogram(values), draw)[0]


def test_edges_are_signed_powers_of_two_around_zero():
    edges = magnitude_edges()
    assert np.all(np.diff(edges) > 0)
    assert np.array_equal(edges, -edges[::-1])
    assert edges[0] == -(2.0**MOST)
    assert 2.0**LEAST in edges
    assert histogram([0.0])[(BINS - 1) // 2] == 1


@pytest.mark.parametrize(
    ("values", "integer", "around_zero", "bounds"),
    [
        ([3.0, 5.0, 9.0], False, False, (2, 16)),
        ([3.0, 5.0, 9.0], False, True, (0, 16)),
        ([-3.0, 5.0], False, False, (-4, 8)),
        ([-3.0, -5.0], False, False, (-8, -2)),
        ([-3.0, -5.0], False, True, (-8, 0)),
        ([1, 1, 2, 3], True, True, (0, 3)),
        ([1], True, True, (0, 1)),
        ([0, 0], True, True, (0, 1)),
        ([0.0], False, False, (0, 1)),
        ([0, 6], True, False, (0, 7)),
        ([-1, 4], True, False, (-1, 7)),
        ([0.3], False, False, (Fraction(1, 4), Fraction(1, 2))),
        ([math.inf], False, False, (2**62, 2**63)),
    ],
)
def test_bounds_hold_the_data_without_noise(values, integer, around_zero, bounds):
    counts = histogram(values * 1000)
    lower, upper = found(counts, Fraction(1), "gaussian", integer, around_zero)
    assert (lower, upper) == bounds


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False), max_size=30),
    st.integers(1, 1000),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["gaussian", "laplace"]),
    st.fractions(Fraction(1, 1000), 1000),
)
def test_there_are_always_bounds(values, times, integer, around_zero, noise, scale):
    noisy = histogram(values) * times + draw_integers(noise, scale, BINS)
    lower, upper = found(noisy, scale, noise, integer, around_zero)
    assert math.isfinite(lower)
    assert math.isfinite(upper)
    assert lower < upper
    assert not integer or lower.denominator == upper.denominator == 1
    assert not around_zero or lower <= 0 <= upper


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_an_empty_bin_passes_the_level_as_seldom_as_is_said(noise):
    mass = gaussian_mass if noise == "gaussian" else laplace_mass
    for scale in (Fraction(1), Fraction(30)):
        for chance in LEVELS:
            level = _reached(noise, scale, chance / BINS)
            beyond = mass(np.arange(level, level + 3000), scale).sum()
            assert beyond <= chance / BINS * (1 + 1e-9)
            assert mass(np.arange(level - 1, level + 3000), scale).sum() > chance / BINS


@pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_bounds_of_skewed_data_are_near_its_ends(accountant):
    """Of 50,000 units: the bound is passed by a few at most, and is not far above the largest of the rest."""
    values = np.random.default_rng(5).lognormal(3, 1.0, 50_000)
    chosen = select(aggregate("sum"))
    units = accountant.units(0.5)
    for _ in range(50):
        lower, upper = bounds_of(chosen, values, units, accountant)
        assert lower == 0
        left_out = np.sum(values > float(upper))
        level = _reached(accountant.noise, histogram_scale(accountant, units), 1e-9 / BINS)
        assert left_out <= 3 * level
        assert upper <= 2 * values.max()


def test_an_average_of_whole_numbers_is_none_and_norms_and_counts_are_not_negative():
    units = 100 * UNITS
    average = select(aggregate("average", integer=True))
    assert bounds_of(average, [2.5, 3.5] * 500, units, LAPLACE, silent) == (2, 4)
    norm = select(aggregate("sum", integer=True), kind="l2")
    assert bounds_of(norm, [5.5] * 500, units, GAUSSIAN, silent) == (0, 8)
    count = select(aggregate("count"))
    assert bounds_of(count, [3.0] * 500, units, LAPLACE, silent) == (0, 3)


def test_aggregates_of_the_same_rows_are_bounded_from_one_histogram():
    drawn = []

    def draw(noise, scale, size):
        drawn.append(scale)
        return np.zeros(size, dtype=np.int64)

    kinds = ("sum", "quantiles", "average", "variance", "quantiles")
    asked = [aggregate(kind, integer=True, fractions=(0.5,), name=f"a{i}") for i, kind in enumerate(kinds)]
    for kind, first, auto in (
        ("rows", {0: 0, 1: 0, 2: 0, 3: 0, 4: 0}, (500, 0, 0, 0, 0)),
        ("groups", {0: 0, 1: 1, 2: 2, 3: 1, 4: 1}, (100, 300, 100, 0, 0)),
    ):
        drawn.clear()
        chosen = select(*asked, kind=kind, selection="all")
        assert {i: found_with(chosen, i) for i in range(5)} == first
        share = shares(chosen, 1000, LAPLACE)
        assert share.auto == auto
        assert share.total == 1000
        asked_for = []
        bounds = find_bounds(
            chosen, share, LAPLACE, lambda one, asked=asked_for: asked.append(one.name) or histogram([3]) * 10**12, draw
        )
        assert asked_for == [f"a{i}" for i in sorted(set(first.values()))]
        assert drawn == [LAPLACE.scale(cost, 1) for cost in auto if cost]
        assert bounds == {0: (0, 3), 1: (2, 3), 2: (2, 4), 3: (2, 3), 4: (2, 3)}

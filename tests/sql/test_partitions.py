"""Thresholds: a unit's own groups show with a probability of at most delta, computed from exact mass functions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from noise_laws import gaussian_mass

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.exact import exp_minus, normal_beyond
from dpnotebook.privacy.laws import law_of
from dpnotebook.privacy.noise import laplace_mass, rounded_gaussian
from dpnotebook.sql.aggregates.partitions import (
    PARTS,
    clipped_spread,
    threshold,
    units_needed,
    weighted_threshold,
)

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(31, 3), Fraction(400), Fraction(2**20) + Fraction(1, 7)]
DELTAS = [Fraction(1, 10), Fraction(1, 10**5), Fraction(1, 10**7), Fraction(3, 10**15), Fraction(1, 10**40)]
DIGITS = 90


def tail_bounds(noise, scale, least):
    """Return P(V >= m), m >= 1, between two exact fractions."""
    if noise == "gaussian":
        low, high = normal_beyond((least - Fraction(1, 2)) / scale, DIGITS)
        return low / 2, high / 2
    low, high = exp_minus(1 / scale, DIGITS)
    power = exp_minus(least / scale, DIGITS)
    return power[0] / (1 + high), power[1] / (1 + low)


def any_of(p, groups):
    return 1 - (1 - p) ** groups


def appearance(noise, scale, tau, groups, weight=1):
    """Return the probability that at least one of a unit's own groups, in which it weighs so much, reaches tau."""
    log_one = float(law_of(noise).log_tail(scale, np.array([tau - weight]))[0])
    if log_one < -1:
        return -math.expm1(groups * math.log1p(-math.exp(log_one)))
    return -math.expm1(groups * math.log(-math.expm1(log_one))) if log_one < 0 else 1.0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_units_own_groups_show_with_probability_delta_at_most_and_one_less_would_be_too_little(noise, scale):
    """In exact arithmetic, for 1 to 10 groups of a unit."""
    for delta in DELTAS:
        for groups in range(1, 11):
            tau = threshold(noise, scale, groups, delta)
            if tau < 2:  # noise hides nothing at this scale: 1 + V >= 1 needs no tail
                assert tau >= 1
                continue
            assert any_of(tail_bounds(noise, scale, tau - 1)[1], groups) <= delta
            if tau > 2:
                assert any_of(tail_bounds(noise, scale, tau - 2)[0], groups) > delta


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_appearance_is_the_sum_of_the_mass_function(noise):
    mass = laplace_mass if noise == "laplace" else gaussian_mass
    for scale in (Fraction(1, 2), Fraction(5), Fraction(40)):
        for tau in (-5, 0, 1, 2, 7, 30):
            for groups in (1, 3, 10):
                k = np.arange(tau - 1, tau + 4000)
                one = float(mass(k, scale).sum())
                assert appearance(noise, scale, tau, groups) == pytest.approx(1 - (1 - one) ** groups, rel=1e-9)


def test_appearance_is_what_noise_does():
    """Drawn noise crosses the threshold as often as is computed; a fixed seed would not be noise, so 6 sigma."""
    scale, tau, size = Fraction(3), 7, 400_000
    shown = (1 + rounded_gaussian(scale, size).reshape(-1, 4) >= tau).any(axis=1)
    chance = appearance("gaussian", scale, tau, 4)
    assert abs(shown.mean() - chance) < 6 * math.sqrt(chance / shown.size)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_tails_are_right_on_both_sides(noise):
    mass = laplace_mass if noise == "laplace" else gaussian_mass
    k = np.arange(-3000, 3001)
    for scale in (Fraction(1, 2), Fraction(9), Fraction(90)):
        cumulative = np.cumsum(mass(k, scale)[::-1])[::-1]
        some = np.array([-900, -20, -1, 0, 1, 2, 20])
        assert np.exp(law_of(noise).log_tail(scale, some)) == pytest.approx(
            cumulative[some + 3000], rel=1e-9, abs=1e-300
        )


def test_more_groups_of_a_unit_raise_the_threshold_and_more_delta_lowers_it():
    for noise in ("laplace", "gaussian"):
        taus = [threshold(noise, Fraction(20), groups, Fraction(1, 10**6)) for groups in (1, 2, 5, 10, 100)]
        assert taus == sorted(taus)
        assert taus[0] < taus[-1]
        by_delta = [threshold(noise, Fraction(20), 1, Fraction(1, 10**power)) for power in (3, 6, 9, 12)]
        assert by_delta == sorted(by_delta)
        assert by_delta[0] < by_delta[-1]


def test_the_papers_formula_is_that_of_continuous_noise():
    """Wilson et al.: tau = 1 - log(2 - 2 (1 - delta)^(1 / C)) / epsilon; the exact law by half a unit, and rounding."""
    for epsilon in (0.05, 0.2, 1.0):
        for groups in (1, 3, 10):
            delta = 1e-6
            theirs = 1 - math.log(2 - 2 * (1 - delta) ** (1 / groups)) / epsilon
            # Theirs is for a noise of scale C / epsilon where C groups share epsilon; here per group.
            ours = threshold("laplace", Fraction(1) / Fraction(str(epsilon)), groups, Fraction(1, 10**6))
            assert 0.5 <= ours - theirs <= 1.5 + 1e-6


@pytest.mark.parametrize("delta", [0, 1, Fraction(-1, 2), 2])
def test_a_threshold_needs_a_delta(delta):
    with pytest.raises(AccuracyError, match="delta"):
        threshold("gaussian", Fraction(5), 1, Fraction(delta))


def test_a_clipped_unit_is_hidden_in_however_many_groups_it_is():
    """Under "l2" a unit in k groups weighs floor(64 / sqrt(k)) in each: for every k all of its groups stay hidden."""
    scale, delta = Fraction(300), Fraction(1, 10**7)
    tau = weighted_threshold("gaussian", scale, clipped_spread(), delta)
    worst = 0.0
    for k in range(1, PARTS**2 + 2):
        weight = math.isqrt(PARTS * PARTS // k)  # floor(64 / sqrt k)
        if weight == 0:  # a group in which nobody weighs anything is not shown
            continue
        worst = max(worst, appearance("gaussian", scale, tau, k, weight))
    assert worst <= delta
    short = max(appearance("gaussian", scale, tau - 1, groups, weight) for groups, weight in clipped_spread())
    assert short > delta
    assert worst > delta / 2  # tight


def test_spread_lists_the_most_groups_of_every_weight():
    listed = dict(clipped_spread())
    most = {}
    for k in range(1, PARTS**2 + 1):
        most[math.isqrt(PARTS * PARTS // k)] = k
    assert {weight: groups for groups, weight in listed.items()} == most


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_units_needed_are_enough_and_no_more(noise):
    for scale in (Fraction(2), Fraction(25)):
        for tau in (5, 80):
            needed = units_needed(noise, scale, tau, 0.95)
            enough, fewer = (
                math.exp(float(law_of(noise).log_tail(scale, tau - units))) for units in (needed, needed - 1)
            )
            assert enough >= 0.95 - 1e-9
            assert fewer < 0.95

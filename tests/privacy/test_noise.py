"""The public samplers, mass functions and variances; privacy from the mass functions; bad input."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from clocks import processor_time
from noise_laws import gaussian_log_mass, gaussian_mass
from scipy import stats

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.accountant import GaussianAccountant, PureAccountant
from dpnotebook.privacy.noise import (
    discrete_laplace,
    gaussian_variance,
    laplace_log_mass,
    laplace_mass,
    laplace_variance,
    rounded_gaussian,
)

LESS = Fraction(9, 10)  # a mechanism with 10% too little noise


# -- privacy, exactly ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(17, 5), Fraction(100), Fraction(10**6)])
def test_laplace_is_exactly_private(scale, pure_loss):
    assert pure_loss(lambda k: laplace_log_mass(k, scale), 2000) == pytest.approx(float(1 / scale), rel=1e-6)
    assert pure_loss(lambda k: laplace_log_mass(k, scale * LESS), 2000) > 1.1 * float(1 / scale)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(300)])
def test_rounded_gaussian_is_exactly_gaussian_private(sigma, gaussian_excess):
    reach = int(60 * sigma) + 5
    mu = float(1 / sigma)
    assert gaussian_excess(lambda k: gaussian_mass(k, sigma), mu, reach) < 1e-7
    if sigma >= 1:  # rounding to steps wider than sigma gives more privacy than was asked for
        assert gaussian_excess(lambda k: gaussian_mass(k, sigma * LESS), mu, reach) > 0.02


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_from_epsilon_to_noise_both_laws_keep_the_promise(epsilon, pure_loss, gaussian_excess):
    """Neighbouring counts differ by one row: the noise that the accountants ask for hides exactly that."""
    pure = PureAccountant(Fraction(str(epsilon)))
    scale = pure.scale(pure.units(epsilon), 1)
    assert pure_loss(lambda k: laplace_log_mass(k, scale), 2000) <= epsilon * (1 + 1e-9)
    assert pure_loss(lambda k: laplace_log_mass(k, scale * LESS), 2000) > epsilon * 1.1

    delta = 1e-6
    gaussian = GaussianAccountant(Fraction(str(epsilon)), delta)
    sigma = gaussian.scale(gaussian.units(epsilon), 1)
    reach = int(40 * sigma)

    def spent(sigma):
        p = gaussian_mass(np.arange(-reach, reach + 1), sigma)
        return np.maximum(p[1:] - math.exp(epsilon) * p[:-1], 0).sum()

    assert 0.9 * delta < spent(sigma) <= delta * (1 + 1e-6)
    assert spent(sigma * LESS) > 1.2 * delta


# -- the laws --------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10, 3), Fraction(50)])
def test_laplace_fits_its_mass_function(scale, fits):
    assert fits(discrete_laplace(scale, 150_000), lambda k: laplace_mass(k, scale))
    assert not fits(discrete_laplace(scale * LESS, 150_000), lambda k: laplace_mass(k, scale))


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [Fraction(4, 5), Fraction(10), Fraction(777)])
def test_gaussian_fits_its_mass_function(sigma, fits):
    assert fits(rounded_gaussian(sigma, 300_000), lambda k: gaussian_mass(k, sigma))
    assert not fits(rounded_gaussian(sigma * LESS, 300_000), lambda k: gaussian_mass(k, sigma))


@pytest.mark.statistical
def test_the_sampler_and_opendp_draw_from_one_law():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = np.array(dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=5.0)(np.zeros(100_000, np.int64)))

    def agreement(ours):
        reach = 30
        rows = [np.bincount(np.clip(x, -reach, reach) + reach, minlength=2 * reach + 1) for x in (ours, theirs)]
        rows = np.array(rows)
        return stats.chi2_contingency(rows[:, rows.sum(axis=0) >= 40]).pvalue

    assert agreement(discrete_laplace(5, 100_000)) > 1e-7
    assert agreement(discrete_laplace(5 * LESS, 100_000)) < 1e-7


def test_a_source_decides_everything():
    for draw in (discrete_laplace, rounded_gaussian):
        first, second = (draw(1000, 500, np.random.default_rng(9).bytes) for _ in range(2))
        assert np.array_equal(first, second)
        assert not np.array_equal(draw(1000, 500), draw(1000, 500))


def test_a_million_draws_take_less_than_a_second():
    for draw in (discrete_laplace, rounded_gaussian):
        for scale in (1, 10**6):
            draw(scale, 10)
            assert processor_time(lambda draw=draw, scale=scale: draw(scale, 10**6), 3) < 1


# -- mass functions and variances ------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [Fraction(1, 5), Fraction(9, 10), Fraction(11, 10), Fraction(10), Fraction(10**6)])
def test_gaussian_mass_against_independent_digits(sigma, phi):
    steps = [0, 1, 2, 5] if sigma < 2 else [int(sigma * z) for z in (0, 0.5, 1, 2.5, 6, 9.9)]
    got = gaussian_log_mass(steps, sigma)
    for k, log in zip(steps, got, strict=True):
        with localcontext() as context:
            context.prec = 150
            exact = phi((k + Fraction(1, 2)) / sigma) - phi((k - Fraction(1, 2)) / sigma)
            if exact > Decimal(10) ** -85:
                assert log == pytest.approx(float(exact.ln()), rel=2e-15, abs=3e-14)
    assert np.array_equal(gaussian_log_mass([-k for k in steps], sigma), got)


def test_gaussian_mass_far_out():
    k = np.array([100, 1000, 10_000])
    # Far out the mass is that of the whole tail beyond k - 1/2.
    np.testing.assert_allclose(gaussian_log_mass(k, 1), stats.norm.logsf(k - 0.5), rtol=1e-12)
    assert gaussian_mass(10_000, 1) == 0


@pytest.mark.parametrize("scale", [Fraction(1, 4), 1, 10, 1000])
def test_masses_add_up_to_one_and_have_the_stated_variances(scale):
    k = np.arange(-60 * max(1, int(scale)), 60 * max(1, int(scale)) + 1)
    for mass, variance in (
        (laplace_mass(k, scale), laplace_variance(scale)),
        (gaussian_mass(k, scale), gaussian_variance(scale)),
    ):
        assert mass.sum() == pytest.approx(1, rel=1e-12)
        assert (mass * k**2).sum() == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("sigma", [1.5, 1.999, 2.0, 2.5])
def test_the_two_variance_formulas_meet(sigma):
    term = (4 * sigma**2 + 1 / math.pi**2) * math.exp(-2 * math.pi**2 * sigma**2)  # first of the Poisson series
    assert gaussian_variance(sigma) == pytest.approx(sigma**2 + 1 / 12 - term, rel=1e-14)


def test_shapes_follow_the_argument():
    for mass in (laplace_mass, gaussian_mass):
        assert mass(3, 2).shape == ()
        assert mass(np.zeros((2, 5), int), 2).shape == (2, 5)


def test_extreme_scales():
    assert laplace_variance(2**53) == pytest.approx(2.0**107)
    assert laplace_variance(Fraction(1, 2000)) == 0
    assert gaussian_variance(Fraction(1, 2000)) == 0
    for draw in (discrete_laplace, rounded_gaussian):
        assert not draw(Fraction(1, 2000), 50).any()
        assert not draw(Fraction(1, 2**53), 50).any()
        wide = draw(2**53, 1000)
        assert 2**52 < np.abs(wide).max() < 2**60


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [discrete_laplace, rounded_gaussian])
@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0], 10**400])
def test_bad_scales(draw, scale):
    with pytest.raises(AccuracyError):
        draw(scale, 3)


@pytest.mark.parametrize("draw", [discrete_laplace, rounded_gaussian])
@pytest.mark.parametrize("scale", [2**53 + 1, 1e300, Fraction(2**54), math.nextafter(2.0**53, math.inf)])
def test_scales_that_whole_numbers_cannot_carry(draw, scale):
    with pytest.raises(AccuracyError, match="larger epsilon"):
        draw(scale, 3)


def test_a_scale_that_protects_nobody():
    with pytest.raises(AccuracyError, match="smaller epsilon"):
        discrete_laplace(Fraction(1, 2**60), 3)


@pytest.mark.parametrize("draw", [discrete_laplace, rounded_gaussian])
@pytest.mark.parametrize("size", [-1, 1.5, "3", None, True])
def test_bad_sizes(draw, size):
    with pytest.raises(AccuracyError, match="number of draws"):
        draw(1, size)


@pytest.mark.parametrize("scale", [3, 3.0, Fraction(3), Decimal(3), np.float64(3), np.float32(3), np.int64(3)])
def test_numbers_of_any_kind(scale):
    for draw in (discrete_laplace, rounded_gaussian):
        assert draw(scale, np.int64(4)).shape == (4,)
        assert draw(scale, 0).shape == (0,)
    assert laplace_variance(scale) == laplace_variance(3)

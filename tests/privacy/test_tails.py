"""Half-widths against brute-force convolution, by simulation, and at their edges."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.laplace_tails import laplace_quantile, laplace_scale_for
from dpnotebook.privacy.noise import discrete_laplace, laplace_mass, laplace_variance
from dpnotebook.privacy.tails import half_widths, kappa


def enumerated(weights, scale, confidence):
    """The exact quantile of |sum|, and P(|sum| <= h) as a function, by adding up all values of a few draws."""
    values, masses = np.zeros(1), np.ones(1)
    reach = math.ceil(scale * 30) + 2
    k = np.arange(-reach, reach + 1)
    for weight in weights:
        values = np.round(np.add.outer(values, weight * k).ravel(), 9)
        masses = np.multiply.outer(masses, laplace_mass(k, scale)).ravel()
        values, which = np.unique(values, return_inverse=True)
        masses = np.bincount(which, masses)
        values, masses = values[masses > 1e-14], masses[masses > 1e-14]
    order = np.argsort(np.abs(values), kind="stable")
    sizes, total = np.abs(values)[order], np.cumsum(masses[order])

    def inside(h):
        return total[np.searchsorted(sizes, h + 1e-8, side="right") - 1] / total[-1]

    return sizes[np.searchsorted(total, confidence * total[-1])], inside


def convolved(weights, scale, points=1 << 18):
    """The quantiles of |sum| on a fine grid, by multiplying the transforms of every draw's law, placed on the grid."""
    step = 70 * (scale + 1) * float(np.linalg.norm(weights)) / points
    k = np.arange(-math.ceil(scale * 34) - 2, math.ceil(scale * 34) + 3)
    transform = np.ones(points // 2 + 1, complex)
    for weight in weights:
        place = np.rint(weight * k / step).astype(int) % points
        transform *= np.fft.rfft(np.bincount(place, laplace_mass(k, scale), points))
    mass = np.fft.irfft(transform, points)
    inside = mass[0] + 2 * np.concatenate([[0], np.cumsum(mass[1 : points // 2])])
    return lambda confidence: np.searchsorted(inside, confidence) * step


# -- one draw --------------------------------------------------------------------------------------


@given(st.fractions(Fraction(1, 20), 2000), st.floats(0.01, 1 - 1e-9))
@settings(deadline=None)
def test_quantile_of_one_draw_is_the_least_integer_that_covers(scale, confidence):
    k, a, beta = laplace_quantile(scale, confidence), math.exp(-1 / scale), 1 - confidence

    def outside(k):
        return 2 * a ** (k + 1) / (1 + a)

    assert outside(k) <= beta * (1 + 1e-9)
    assert k == 0 or outside(k - 1) > beta * (1 - 1e-9)
    weights = np.array([[0, 0.25, 0], [0, 0, -3], [0, 0, 0]])
    assert half_widths(weights, scale, "laplace", confidence, step=2).tolist() == [0.5 * k, 6 * k, 0]


@given(st.floats(0, 1e9), st.floats(0.01, 1 - 1e-9))
@settings(deadline=None)
def test_scale_for_an_error_is_the_largest(error, confidence):
    scale = laplace_scale_for(error, confidence)
    assert isinstance(scale, Fraction)
    steps = math.floor(error * (1 + 1e-12))
    assert laplace_quantile(scale, confidence) <= steps
    assert laplace_quantile(scale * (1 + Fraction(1, 10**9)), confidence) > steps


def test_scale_for_an_error_that_is_whole_but_for_rounding():
    assert 2.5 / 0.1 == 25
    assert laplace_scale_for(0.7 / 0.1, 0.95) == laplace_scale_for(7, 0.95)
    assert 0.7 / 0.1 < 7


@pytest.mark.statistical
def test_one_draw_covers_as_often_as_it_says():
    scale = laplace_scale_for(25, 0.95)
    draws = discrete_laplace(scale, 400_000)
    covered = np.mean(np.abs(draws) <= 25)
    a = math.exp(-1 / scale)
    truth = 1 - 2 * a**26 / (1 + a)
    assert truth == pytest.approx(0.95, abs=1e-9)
    assert abs(covered - truth) < 5.5 * math.sqrt(truth * (1 - truth) / draws.size)


# -- several draws ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 2), 1, 3, 10])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_two_and_three_draws_against_enumeration(scale, confidence):
    random = np.random.default_rng(int(scale * 100))
    for terms in (2, 3) if scale <= 1 else (2,):
        rows = random.random((6, terms)) ** random.choice([1, 4], size=(6, 1))
        for weights, h in zip(rows, half_widths(rows, scale, "laplace", confidence), strict=True):
            exact, inside = enumerated(weights, scale, confidence)
            assert inside(h) >= confidence - 1e-6 * (1 - confidence) - 1e-9
            # 0.3%, or 0.3% of a standard deviation where the quantile is less than that
            spread = math.sqrt(laplace_variance(scale)) * np.linalg.norm(weights)
            assert exact - 1e-8 <= h <= exact + 0.003 * max(exact, 2 * spread)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("scale", [1, 4, 30])
def test_many_draws_against_convolution(scale):
    random = np.random.default_rng(int(scale))
    for terms in (4, 17, 40):
        rows = np.stack([random.random(terms), random.random(terms) ** 5, random.integers(1, 4, terms) * 0.37])
        quantiles = [convolved(weights, scale) for weights in rows]
        for confidence in (0.9, 0.95, 0.99, 0.999):
            widths = half_widths(rows, scale, "laplace", confidence)
            assert widths == pytest.approx([quantile(confidence) for quantile in quantiles], rel=0.003)


@pytest.mark.parametrize("weights", [[1, 1], [2, 3], [0.1, 0.2, 0.5], [1] * 30, [1 / 3, 0.25, 0.5], [4, 1, 1, 1]])
@pytest.mark.parametrize("scale", [Fraction(1, 3), 1, 5])
def test_sums_on_a_lattice_are_exact(weights, scale):
    for confidence in (0.5, 0.9, 0.95, 0.9999):
        (h,) = half_widths([weights], scale, "laplace", confidence)
        exact, inside = enumerated(weights, scale, confidence)
        assert h == pytest.approx(exact, rel=1e-6)
        assert inside(h) >= confidence


@pytest.mark.parametrize(("scale", "terms"), [(150, 2), (150, 3), (400, 2)])
def test_sums_on_a_fine_lattice_end_on_its_points(scale, terms):
    k = np.arange(-30 * scale, 30 * scale + 1)
    mass = law = laplace_mass(k, scale)
    for _ in range(terms - 1):
        mass = np.convolve(mass, law)
    middle = mass.size // 2
    inside = mass[middle] + 2 * np.concatenate([[0], np.cumsum(mass[middle + 1 :])])
    for confidence in np.linspace(0.8, 0.99, 20):
        (h,) = half_widths(np.ones((1, terms)), scale, "laplace", confidence)
        assert h == np.searchsorted(inside, confidence)


@pytest.mark.statistical
def test_a_combination_covers_as_often_as_it_says():
    weights = np.array([1.0, -0.6, 0.3, 0.3, 0.05])
    (h,) = half_widths(weights[None], 2, "laplace", 0.95)
    n = 300_000
    sums = discrete_laplace(2, n * weights.size).reshape(n, -1) @ weights
    covered = np.mean(np.abs(sums) <= h)
    assert abs(covered - 0.95) < 5.5 * math.sqrt(0.95 * 0.05 / n) + 0.0003
    assert np.mean(np.abs(sums) <= 0.9 * h) < 0.95 - 0.005


@given(
    st.lists(st.lists(st.sampled_from([0, 0.25, 1, 1.5, 2, 7]), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
    st.sampled_from([Fraction(1, 2), 2, 40]),
)
@settings(deadline=None, max_examples=40)
def test_widths_do_not_depend_on_order_sign_scale_or_company(rows, confidence, scale):
    rows = np.array(rows)
    together = half_widths(rows, scale, "laplace", confidence)
    alone = [half_widths(row[None, ::-1] * -3, scale, "laplace", confidence)[0] / 3 for row in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_more_than_sixteen_weights_keep_variance_and_kurtosis():
    # 40 distinct weights near 1 are nearly 40 equal ones, which are treated exactly.
    near = 1 + np.linspace(-1e-4, 1e-4, 40)
    for scale in (2, 25):
        for confidence in (0.9, 0.99, 0.9999):
            h = half_widths([near], scale, "laplace", confidence)[0]
            equal = half_widths([np.ones(40)], scale, "laplace", confidence)[0]
            assert h == pytest.approx(equal, rel=0.003, abs=1)


def test_widths_grow_with_confidence_and_scale():
    rows = np.random.default_rng(1).random((5, 9))
    by_confidence = [half_widths(rows, 4, "laplace", c) for c in (0.1, 0.5, 0.9, 0.99, 0.999999, 1 - 1e-9)]
    assert np.all(np.diff(by_confidence, axis=0) > 0)
    by_scale = [half_widths(rows, b, "laplace", 0.95) for b in (0.5, 1, 2, 100, 1e6, 2**53)]
    assert np.all(np.diff(by_scale, axis=0) > 0)
    np.testing.assert_allclose(by_scale[-1] / 2.0**53, by_scale[-2] / 1e6, rtol=1e-4)


def test_tiny_confidence_levels_are_those_of_the_exponential_tail():
    # Two equal draws: P(|V1 + V2| > h) is about exp(-x) (1 + x / 2), x = h / b, for wide noise.
    for beta in (1e-3, 1e-6, 1e-9):
        h = half_widths([[1, 1]], 10**6, "laplace", 1 - beta)[0] / 10**6
        assert math.exp(-h) * (1 + h / 2) < beta < math.exp(-h / 1.003) * (1 + h / 1.003 / 2)


# -- Gaussian --------------------------------------------------------------------------------------


def test_gaussian_widths_are_normal_quantiles():
    rows = np.array([[1, 0, 0], [3, 4, 0], [0, 0, 0], [1, -1, 1]])
    for confidence in (0.5, 0.95, 0.999):
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        expected = z * 2.5 * np.array([1, 5, 0, math.sqrt(3)]) * 0.01
        np.testing.assert_allclose(half_widths(rows, Fraction(5, 2), "gaussian", confidence, step=0.01), expected)


# -- planning --------------------------------------------------------------------------------------


def test_kappa_of_the_design():
    assert kappa(0.95, "laplace") == pytest.approx(math.log(20) / math.sqrt(2))
    assert kappa(0.95, "laplace") == pytest.approx(2.118, abs=5e-4)
    assert kappa(0.9, "laplace") == pytest.approx(1.645, abs=5e-4)
    assert kappa(0.95, "gaussian") == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.8, 0.88, 0.9, 0.904, 0.907, 0.9071, 0.91, 0.93, 0.95, 0.99, 0.9999])
def test_no_combination_is_wider_than_kappa(confidence):
    """Wide noise, where the grid does not matter: random weights, equal ones, one large with many small."""
    random, terms = np.random.default_rng(5), 24
    rows = [random.dirichlet(np.full(terms, a)) ** 0.5 for a in (0.03, 0.1, 0.3, 1, 10) for _ in range(30)]
    rows += [np.r_[np.ones(n), np.zeros(terms - n)] for n in range(1, terms + 1)]
    rows += [np.r_[1, np.full(terms - 1, x)] for x in np.geomspace(1e-3, 1, 20)]
    rows += [np.r_[1, x, np.zeros(terms - 2)] for x in np.linspace(0.05, 1, 30)]
    rows = np.array(rows)
    spread = math.sqrt(laplace_variance(5000)) * np.linalg.norm(rows, axis=1)
    worst = np.max(half_widths(rows, 5000, "laplace", confidence) / spread)
    assert worst <= kappa(confidence, "laplace") * 1.002  # up to 0.2% is what the numerical quantile adds to cover
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    single = math.log(1 / (1 - confidence)) / math.sqrt(2)
    assert kappa(confidence, "laplace") <= 1.001 * max(normal, single)


def test_between_one_draw_and_the_normal_limit_two_draws_are_widest():
    beta = 0.09288
    others = max(NormalDist().inv_cdf(1 - beta / 2), math.log(1 / beta) / math.sqrt(2))
    found = half_widths([[1, 1]], 10**6, "laplace", 1 - beta)[0] / (2 * 10**6)
    assert 1.0005 * others < kappa(1 - beta, "laplace") < 1.0007 * others
    assert found == pytest.approx(kappa(1 - beta, "laplace"), rel=1e-5)


@pytest.mark.parametrize("scale", [Fraction(1, 2), 1, 2, 5, 20])
def test_on_the_integers_kappa_needs_at_most_half_a_step_more(scale):
    rows = np.array([np.r_[np.ones(n), np.zeros(12 - n)] for n in range(1, 13)])
    spread = math.sqrt(laplace_variance(scale)) * np.linalg.norm(rows, axis=1)
    for confidence in (0.9, 0.95, 0.99):
        widths = half_widths(rows, scale, "laplace", confidence)
        assert np.all(widths <= kappa(confidence, "laplace") * spread + 0.5 + 0.3 / float(scale))


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, 95, math.nan, 1 - 1e-12, True, "0.95", None])
def test_bad_confidence(confidence):
    for call in (
        lambda: half_widths([[1, 2]], 3, "laplace", confidence),
        lambda: laplace_scale_for(3, confidence),
        lambda: kappa(confidence, "laplace"),
    ):
        with pytest.raises(AccuracyError, match="confidence"):
            call()
    if confidence == 95:
        with pytest.raises(AccuracyError, match=r"write 95% as 0\.95"):
            kappa(confidence, "gaussian")


@pytest.mark.parametrize("error", [-1, math.nan, math.inf])
def test_bad_error(error):
    with pytest.raises(AccuracyError, match="error"):
        laplace_scale_for(error, 0.95)


@pytest.mark.parametrize("weights", [[1, 2], [[math.nan, 1]], [[math.inf]], 3])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="matrix of finite numbers"):
        half_widths(weights, 1, "laplace", 0.95)


def test_no_weights():
    assert half_widths(np.zeros((0, 3)), 1, "laplace", 0.95).shape == (0,)
    assert half_widths(np.zeros((2, 0)), 1, "laplace", 0.95).tolist() == [0, 0]

"""Half-widths of sums of draws of different scales: against exact convolution, by simulation, and at their edges."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from clocks import cost
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.laplace_tails import grid_excess, laplace_quantile
from dpnotebook.privacy.noise import discrete_laplace, laplace_mass, laplace_variance
from dpnotebook.privacy.noise_down import refined_laplace
from dpnotebook.privacy.tails import half_widths, kappa

CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def spread(weights, scales):
    return math.sqrt(sum(w * w * laplace_variance(b) for w, b in zip(weights, scales, strict=True)))


def enumerated(weights, scales):
    """All sizes of a sum of a few draws with the exact probability that it is no larger."""
    values, masses = np.zeros(1), np.ones(1)
    for weight, scale in zip(weights, scales, strict=True):
        k = np.arange(-math.ceil(scale * 36) - 1, math.ceil(scale * 36) + 2)
        values = np.add.outer(values, weight * k).ravel()
        masses = np.multiply.outer(masses, laplace_mass(k, scale)).ravel()
        values, masses = values[masses > 1e-17], masses[masses > 1e-17]
    order = np.argsort(np.abs(values))
    sizes, masses = np.abs(values)[order], masses[order]
    last = np.append(np.diff(sizes) > 1e-9 * sizes[-1], True)  # sizes that are one but for rounding
    total = np.cumsum(masses)[last]
    return sizes[last], total / total[-1]


def convolved(weights, scales, points=1 << 18):
    """The quantile function of the size of a sum, from the laws of all draws placed on one fine grid."""
    step = 70 * math.sqrt(sum((w * (b + 1)) ** 2 for w, b in zip(weights, scales, strict=True))) / points
    transform = np.ones(points // 2 + 1, complex)
    for weight, scale in zip(weights, scales, strict=True):
        k = np.arange(-math.ceil(scale * 34) - 2, math.ceil(scale * 34) + 3)
        place = np.rint(weight * k / step).astype(int) % points
        transform *= np.fft.rfft(np.bincount(place, laplace_mass(k, scale), points))
    mass = np.fft.irfft(transform, points)
    inside = mass[0] + 2 * np.concatenate([[0], np.cumsum(mass[1 : points // 2])])
    return lambda confidence: np.searchsorted(inside, confidence) * step


# -- against exact laws ----------------------------------------------------------------------------


@pytest.mark.parametrize("scales", [(0.4, 0.9), (3, 0.5), (8, 2.5), (0.4, 1.5, 0.8), (2.5, 0.6, 1.1)])
def test_two_and_three_draws_against_enumeration(scales):
    random = np.random.default_rng(1)
    rows = random.random((5, len(scales))) ** random.choice([1, 4], size=(5, 1))
    rows = np.vstack([rows, [1 / laplace_variance(b) for b in scales]])
    for weights in rows:
        sizes, total = enumerated(weights, scales)
        for confidence in CONFIDENCES:
            (h,) = half_widths([weights], scales, "laplace", confidence)
            exact = sizes[np.searchsorted(total, confidence)]
            covered = total[np.searchsorted(sizes, h * (1 + 1e-9), side="right") - 1]
            assert covered >= confidence - 1e-6 * (1 - confidence) - 1e-9
            # 0.3%, or 0.3% of two standard deviations where the quantile is less than that
            assert exact * (1 - 1e-9) <= h <= exact + 0.003 * max(exact, 2 * spread(weights, scales))


@pytest.mark.parametrize(
    ("weights", "scales"),
    [
        ([1, 1], [3, 1]),
        ([2, 3], [0.5, 2]),
        ([0.1, 0.2, 0.5], [4, 1, 0.7]),
        ([0.8, 0.2], [1, 4]),
        ([1, 1, 1, 1], [2, 1, 2, 0.5]),
    ],
)
def test_sums_on_a_lattice_are_exact(weights, scales):
    sizes, total = enumerated(weights, scales)
    for confidence in (*CONFIDENCES, 0.9999):
        (h,) = half_widths([weights], scales, "laplace", confidence)
        assert h == pytest.approx(sizes[np.searchsorted(total, confidence)], rel=1e-6)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "scales", [(0.7, 2, 3.3, 10, 25.5, 60), (0.4, 0.5, 0.6, 0.8, 1, 1.3), (20, 22, 25, 30, 40, 50)]
)
def test_many_draws_against_convolution(scales):
    random = np.random.default_rng(2)
    for terms in (4, 20, 50):
        each = random.choice(scales, terms)
        inverse = 1 / np.array([laplace_variance(float(b)) for b in each])
        rows = np.stack([random.random(terms), random.random(terms) ** 5, inverse])
        rows = np.vstack(
            [rows, random.integers(1, [[4], [12]], (2, terms)) * 0.37]
        )  # on a lattice, also of many weights
        deviations = np.array([spread(weights, each) for weights in rows])
        quantiles = [convolved(weights, each) for weights in rows]
        for confidence in (0.9, 0.95, 0.999):
            exact = np.array([quantile(confidence) for quantile in quantiles])
            off = np.abs(half_widths(rows, each, "laplace", confidence) - exact)
            # 0.3%, or 0.3% of two standard deviations where that is more; the last term is the grid of the check
            assert np.all(off <= 0.003 * np.maximum(exact, 2 * deviations) + 4e-4 * deviations)


def test_noise_of_less_than_a_third_of_a_step_is_within_one_percent():
    """Epsilons of 3 and more, at weights that let their rare steps matter: never too narrow, hardly too wide."""
    random = np.random.default_rng(9)
    for _ in range(15):
        scales = random.uniform([0.15, 0.15, 0.4], [0.25, 0.6, 3], 3).round(2)
        weights = random.random(3) ** [1, 5, 9]
        sizes, total = enumerated(weights, scales)
        for confidence in CONFIDENCES:
            (h,) = half_widths([weights], scales, "laplace", confidence)
            exact = sizes[np.searchsorted(total, confidence)]
            covered = total[np.searchsorted(sizes, h * (1 + 1e-9), side="right") - 1]
            assert covered >= confidence - 1e-6 * (1 - confidence) - 1e-9
            assert h <= exact + 0.013 * max(exact, 2 * spread(weights, scales))


@pytest.mark.statistical
def test_a_combination_with_a_refined_answer_covers_as_often_as_it_says():
    """One number measured at 8, refined to 3, measured anew at 4, and two parts at 2.5 that add up to it."""
    n = 300_000
    draws = [refined_laplace(discrete_laplace(8, n), 8, 3), discrete_laplace(4, n)]
    draws += [discrete_laplace(2.5, n), discrete_laplace(2.5, n)]
    scales = [3, 4, 2.5, 2.5]
    precision = np.array([1 / laplace_variance(3), 1 / laplace_variance(4), *[0.5 / laplace_variance(2.5)] * 2])
    weights = precision / (precision[:3].sum())
    (h,) = half_widths(weights[None], scales, "laplace", 0.95)
    sums = np.abs(weights @ np.array(draws))
    tolerance = 5.5 * math.sqrt(0.95 * 0.05 / n)
    assert abs(np.mean(sums <= h) - 0.95) < tolerance + 0.0003
    assert np.mean(sums <= 0.9 * h) < 0.95 - 0.005
    assert sums.std() == pytest.approx(np.std(sums))
    # As if the refined answer still had its first noise: too wide by far. As if all had the least scale: too narrow.
    (wide,) = half_widths(weights[None], [8, 4, 2.5, 2.5], "laplace", 0.95)
    (narrow,) = half_widths(weights[None], 2.5, "laplace", 0.95)
    assert np.mean(sums <= wide) > 0.96
    assert np.mean(sums <= narrow) < 0.95 - tolerance


# -- what must not matter --------------------------------------------------------------------------


def test_equal_scales_are_one_scale():
    random = np.random.default_rng(3)
    for terms in (1, 2, 5, 30):
        rows = np.vstack([random.random((4, terms)), np.zeros(terms), np.ones(terms)])
        for scale in (Fraction(1, 3), 2, 50):
            for noise in ("laplace", "gaussian"):
                one = half_widths(rows, scale, noise, 0.95)
                assert np.array_equal(half_widths(rows, [scale] * terms, noise, 0.95), one)
                assert np.array_equal(half_widths(rows, (float(scale),) * terms, noise, 0.95), one)


@given(
    st.lists(st.lists(st.sampled_from([0, 0.25, 1, 1.5, 2, 7]), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from(CONFIDENCES),
    st.lists(st.sampled_from([Fraction(1, 2), 2, 2.25, 40]), min_size=4, max_size=4),
    st.permutations(range(4)),
)
@settings(deadline=None, max_examples=60)
def test_widths_do_not_depend_on_order_sign_scale_or_company(rows, confidence, scales, order):
    rows, scales = np.array(rows), np.array(scales, dtype=object)
    together = half_widths(rows, scales, "laplace", confidence)
    alone = [half_widths(row[None, order] * -3, scales[order], "laplace", confidence)[0] / 3 for row in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_draws_that_count_for_nothing_do_not_matter():
    for confidence in CONFIDENCES:
        (h,) = half_widths([[1, 0.6]], [2, 5], "laplace", confidence)
        assert half_widths([[0, 1, 0.6, 0]], [1000, 2, 5, 0.01], "laplace", confidence)[0] == pytest.approx(h)
        (one,) = half_widths([[0, 3, 0]], [1000, 2, 5], "laplace", confidence)
        assert one == half_widths([[3]], 2, "laplace", confidence)[0]


def test_noise_that_is_nearly_always_zero_is_left_out_of_wider_noise():
    (wide,) = half_widths([[1, 0.3]], [4, 7], "laplace", 0.95)
    (both,) = half_widths([[1, 0.3, 1000]], [4, 7, Fraction(1, 40)], "laplace", 0.95)  # P(V != 0) = 8e-18
    assert wide * (1 - 1e-12) <= both <= wide * 1.001
    # Where it does matter it stays: P(V != 0) = 0.09 and 1000 steps of the rest.
    (jumps,) = half_widths([[1, 0.3, 1000]], [4, 7, Fraction(1, 3)], "laplace", 0.95)
    assert 990 < jumps < 1020
    # Alone, or among its own kind, it is its own law.
    for tiny in (0.1, 0.01, 1e-3, Fraction(1, 2**50)):
        found = half_widths([[1, 1, 0], [0, 1, 1], [1, 0, 0]], [tiny, tiny / 2, 5], "laplace", 0.95)
        assert found.tolist() == [0, pytest.approx(half_widths([[1]], 5, "laplace", 0.95)[0], rel=1e-6), 0]


def test_what_counts_is_weight_times_scale():
    """Wide noise of any scales: the same sum of exponential laws, however it is split."""
    for sizes in ([1, 1], [1, 0.5, 0.2], [1] * 5):
        for confidence in CONFIDENCES:
            (h,) = half_widths([sizes], 10**6, "laplace", confidence)
            scales = [10**6, 10**9, 10**12, 2**53, 10**7][: len(sizes)]
            weights = [size / b for size, b in zip(sizes, scales, strict=True)]
            (mixed,) = half_widths([weights], scales, "laplace", confidence)
            assert mixed * 10**6 == pytest.approx(h, rel=2e-3)


def test_widths_grow_with_confidence_and_every_scale():
    weights = np.random.default_rng(4).random((1, 6))
    scales = np.array([1, 2, 3, 5, 8, 13.0])
    by_confidence = [half_widths(weights, scales, "laplace", c)[0] for c in (0.1, *CONFIDENCES, 1 - 1e-9)]
    assert np.all(np.diff(by_confidence) > 0)
    for i in range(6):
        more = [
            half_widths(weights, np.where(np.arange(6) == i, scales * f, scales), "laplace", 0.95)[0] for f in (1, 4)
        ]
        assert more[0] < more[1]


def test_gaussian_widths_are_normal_quantiles():
    rows, scales = np.array([[1, 0, 0], [3, 4, 0], [0, 0, 0], [1, -1, 1]]), [2, Fraction(1, 2), 7]
    deviations = np.sqrt(rows**2 @ np.array([4, 0.25, 49]))
    for confidence in (0.5, 0.95, 0.999):
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        np.testing.assert_allclose(half_widths(rows, scales, "gaussian", confidence, step=0.01), z * deviations * 0.01)


# -- planning --------------------------------------------------------------------------------------


def mixtures(seed, least, most):
    """Rows of weights with their scales: any weights, equal ones, those of least squares."""
    random = np.random.default_rng(seed)
    for draws in (1, 2, 2, 2, 3, 3, 4, 4, 8):
        scales = np.exp(random.uniform(math.log(least), math.log(most), draws)).round(2)
        rows = random.random((12, draws)) ** np.array([[0.3], [1], [4]] * 4)
        rows = np.vstack([rows, random.integers(1, 4, (6, draws)), np.ones(draws), 1 / scales, 1 / scales**2])
        yield rows, scales


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_no_mixture_of_wide_noise_is_wider_than_kappa(confidence):
    for rows, scales in mixtures(5, 1000, 100_000):
        widths = half_widths(rows, scales, "laplace", confidence)
        deviations = np.array([spread(weights, scales) for weights in rows])
        assert np.all(widths <= kappa(confidence, "laplace") * deviations * 1.002)


@given(st.fractions(Fraction(1, 20), 2000), st.floats(0.01, 1 - 1e-9))
def test_a_single_draw_needs_at_most_half_a_step_more_than_kappa(scale, confidence):
    bound = kappa(confidence, "laplace") * math.sqrt(laplace_variance(scale))
    assert laplace_quantile(scale, confidence) <= bound + grid_excess(confidence, 1, float(scale)) + 1e-9


def test_kappa_alone_is_not_enough_where_noise_has_few_steps():
    for scale, confidence, covered in ((1, 0.95, 0.9272), (0.5, 0.9, 0.7616)):
        reach = math.floor(kappa(confidence, "laplace") * math.sqrt(laplace_variance(scale)))
        a = math.exp(-1 / scale)
        assert 1 - 2 * a ** (reach + 1) / (1 + a) == pytest.approx(covered, abs=1e-4)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("least", "most"), [(0.3, 5), (0.3, 0.6), (2, 5), (4, 40)])
def test_on_the_integers_mixtures_need_at_most_half_a_step_more_than_kappa(confidence, least, most):
    """A step is that of the largest weight; for a single draw the bound is a theorem."""
    passed = 0
    for rows, scales in mixtures(6, least, most):
        deviations = np.array([spread(weights, scales) for weights in rows])
        bound = kappa(confidence, "laplace") * deviations
        widths = half_widths(rows, scales, "laplace", confidence)
        excess = [grid_excess(confidence, weights.max(), scales.min()) for weights in rows]
        assert np.all(widths <= bound * 1.002 + excess)
        passed += np.count_nonzero(widths > bound * 1.01)
    if least < 1 and confidence >= 0.9:
        assert passed  # kappa alone is not enough for noise of so few steps


# -- speed -----------------------------------------------------------------------------------------


def test_one_mixed_sum_takes_a_moment():
    random = np.random.default_rng(7)
    scales = random.choice([0.7, 2, 3.3, 10, 25.5, 100], 20)
    for weights in (random.random((1, 20)), 1 / scales[None] ** 2):
        assert cost(lambda w=weights: half_widths(w, scales, "laplace", 0.95), 10) < 2  # 0.3 measured


def test_five_hundred_sums_of_a_thousand_draws_take_a_second():
    random = np.random.default_rng(8)
    scales = random.choice([0.7, 2, 3.3, 10, 25.5, 30, 50, 100], 1000)
    for rows in (random.random((500, 1000)), random.random((500, 1000)) * (random.random((500, 1000)) < 0.004)):
        assert cost(lambda w=rows: half_widths(w, scales, "laplace", 0.95), 2) < 200  # 30 measured


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_scales_are_one_a_draw(noise):
    for scales in ([], [1], [1, 2, 3], np.ones(5)):
        with pytest.raises(ValueError, match=f"{len(scales)} scales for 2 draws"):
            half_widths([[1, 2]], scales, noise, 0.95)
    for scales in ([1, 0], [1, -1], [math.nan, 1], [1, "2"], [None, 1], [1, 2**54], np.array([1, np.inf]), "12"):
        with pytest.raises(AccuracyError):
            half_widths([[1, 2]], scales, noise, 0.95)


def test_no_weights():
    assert half_widths(np.zeros((0, 2)), [1, 2], "laplace", 0.95).shape == (0,)
    assert half_widths(np.zeros((2, 0)), [], "laplace", 0.95).tolist() == [0, 0]
    assert half_widths(np.zeros((2, 2)), [1, 2], "laplace", 0.95).tolist() == [0, 0]

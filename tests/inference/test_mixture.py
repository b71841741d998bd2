"""Mixtures of products: gradients, planted mixtures, exact tables, and rows that are drawn from them."""

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.mixture import Mixture, ProductObservation, _Fit, fit_mixture

SIZES = (3, 4, 2)


def observations(seed):
    random = np.random.default_rng(seed)
    return [
        ProductObservation({0: np.eye(3), 1: np.eye(4)}, 10 * random.random(12), 1.5),
        ProductObservation({2: np.eye(2)}, 10 * random.random(2), 2.0),
        ProductObservation({}, np.array([33.0]), 2.0),
        ProductObservation(
            {0: random.random((2, 3)), 1: random.random((3, 4)), 2: np.ones((1, 2))}, np.arange(6.0), 1.0
        ),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_against_finite_differences(seed):
    fit = _Fit(SIZES, observations(seed), 5)
    x = np.random.default_rng(seed).standard_normal(1 + 5 + 5 * sum(SIZES))
    error = check_grad(lambda y: fit.loss(y)[0], lambda y: fit.loss(y)[1], x)
    assert error < 1e-4 * np.linalg.norm(fit.loss(x)[1])


def test_answers_are_those_of_the_whole_table():
    random = np.random.default_rng(1)
    levels = tuple(random.dirichlet(np.ones(size), size=6) for size in SIZES)
    shares = random.dirichlet(np.ones(6))
    found = Mixture(50.0, shares, levels)
    table = 50 * np.einsum("k,ka,kb,kc->abc", shares, *levels)
    first, last = random.random((2, 3)), random.random((5, 2))
    np.testing.assert_allclose(found.answers({}), [table.sum()])
    np.testing.assert_allclose(found.answers({1: np.eye(4)}), table.sum(axis=(0, 2)))
    expected = np.einsum("xa,yc,abc->xy", first, last, table)
    np.testing.assert_allclose(found.answers({0: first, 2: last}).reshape(2, 5), expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kinds", [2, 5])
def test_a_planted_mixture_is_found_through_the_noise(kinds):
    """Of 8 attributes of 6 levels, all pairs are released.

    Consistent tables have 1 + 8 * 5 + 28 * 25 degrees of freedom in 28 * 36 counts: that much of the noise is left by
    least squares, and what is fitted is nearer to the truth.
    """
    random = np.random.default_rng(kinds)
    sizes, noise = (6,) * 8, 40.0
    truth = Mixture(
        20_000.0,
        random.dirichlet(5 * np.ones(kinds)),
        tuple(random.dirichlet(np.ones(6), size=kinds) for _ in sizes),
    )
    pairs = [{i: np.eye(6), j: np.eye(6)} for i, j in itertools.combinations(range(8), 2)]
    exact = [truth.answers(pair) for pair in pairs]
    noisy = [one + random.normal(0, noise, one.size) for one in exact]
    told = [ProductObservation(pair, one, noise) for pair, one in zip(pairs, noisy, strict=True)]
    found = fit_mixture(sizes, told, total=19_000.0)
    off = np.concatenate([found.answers(pair) - one for pair, one in zip(pairs, exact, strict=True)])
    assert np.sqrt((off**2).mean()) < noise * np.sqrt((1 + 8 * 5 + 28 * 25) / (28 * 36))
    assert found.total == pytest.approx(20_000, rel=0.01)
    assert fit_mixture(sizes, told, total=19_000.0).total == found.total  # the same for the same


def test_a_table_without_noise_is_found_again():
    table = np.array([[30.0, 0, 5], [0, 20, 0], [1, 2, 42]])
    told = ProductObservation({0: np.eye(3), 1: np.eye(3)}, table.ravel(), 0.05)
    found = fit_mixture((3, 3), [told], total=100.0)
    np.testing.assert_allclose(found.answers(told.factors).reshape(3, 3), table, atol=0.2)


@pytest.mark.statistical
def test_rows_are_drawn_as_often_as_they_should():
    random = np.random.default_rng(3)
    levels = tuple(random.dirichlet(np.ones(size), size=4) for size in SIZES)
    model = Mixture(1.0, random.dirichlet(np.ones(4)), levels)
    rows = 40_000
    drawn = model.sample(rows, np.random.default_rng(4))
    for i, j in itertools.combinations(range(3), 2):
        expected = rows * model.answers({i: np.eye(SIZES[i]), j: np.eye(SIZES[j])})
        counts = np.bincount(drawn[:, i] * SIZES[j] + drawn[:, j], minlength=expected.size)
        assert (np.abs(counts - expected) < 6 * np.sqrt(expected + 1)).all()
    for i, size in enumerate(SIZES):  # and each attribute by itself much nearer than chance would have it
        counts = np.bincount(drawn[:, i], minlength=size)
        assert np.abs(counts - rows * model.answers({i: np.eye(size)})).max() < 12


def test_few_rows_and_certain_levels():
    model = Mixture(5.0, np.array([1.0, 0.0]), (np.array([[0.0, 1.0], [1.0, 0.0]]),))
    assert model.sample(3, np.random.default_rng(0)).tolist() == [[1], [1], [1]]
    assert model.sample(1, np.random.default_rng(0)).shape == (1, 1)


def test_nothing_and_too_much_are_refused():
    with pytest.raises(WorkloadError, match="nothing to fit"):
        fit_mixture((2,), [], total=1.0)
    with pytest.raises(WorkloadError, match="too large"):
        fit_mixture((10**5,), [ProductObservation({0: np.eye(1)}, np.zeros(10**5), 1.0)], total=1.0)

"""Accountants against 100-digit arithmetic that owes them nothing, and the promises that the ledger relies on."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.accountant import (
    UNITS,
    GaussianAccountant,
    PureAccountant,
    accountant_for,
    delta_of_mu,
    epsilon_of_mu,
    mu_of_budget,
)
from dpnotebook.privacy.budget import Budget

BUDGETS = [(1.0, 1e-6), (0.1, 1e-5), (0.01, 1e-9), (3.0, 1e-12), (10.0, 1e-6), (1.0, 0.1), (1e-3, 1e-6), (0.5, 1e-30)]


@pytest.fixture(scope="module")
def exact_delta(phi):
    """delta of mu-GDP at epsilon in 100 digits, from Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""

    def delta(mu, epsilon):
        with localcontext() as context:
            context.prec = 150
            mu, epsilon = Decimal(mu), Decimal(epsilon)
            return phi(mu / 2 - epsilon / mu) - epsilon.exp() * phi(-mu / 2 - epsilon / mu)

    return delta


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.1, 0.7, 2.0, 6.0])
@pytest.mark.parametrize("ratio", [1e-3, 0.4, 0.5, 0.7, 3.0, 10.0])
def test_delta_against_100_digits(mu, ratio, exact_delta):
    epsilon = ratio * mu
    truth = float(exact_delta(mu, epsilon))
    assert delta_of_mu(mu, epsilon) == pytest.approx(truth, rel=1e-13 + 1e-15 / mu)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 0.3), (1.0, 1.0), (2.0, 0.0), (1.5, 4.0)])
def test_delta_is_the_hockey_stick_of_two_normals(mu, epsilon):
    def excess(x):
        return max(stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), 0.0)

    start = mu / 2 + epsilon / mu  # where the densities' ratio is e^epsilon
    value, _ = integrate.quad(excess, start, start + 15, epsabs=1e-13)
    assert delta_of_mu(mu, epsilon) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_mu_of_a_budget_is_the_largest(epsilon, delta, exact_delta):
    mu = mu_of_budget(epsilon, delta)
    target = Decimal(delta)
    assert exact_delta(mu * (1 - 2e-10), epsilon) < target < exact_delta(mu * (1 + 2e-10), epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_epsilon_of_mu_is_the_inverse(epsilon, delta):
    mu = mu_of_budget(epsilon, delta)
    assert epsilon_of_mu(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    assert delta_of_mu(mu, epsilon) == pytest.approx(delta, rel=1e-9)


@given(st.floats(1e-4, 20), st.floats(1e-4, 20), st.floats(1.0001, 3))
@settings(deadline=None)
def test_conversions_are_monotone(mu, epsilon, factor):
    assert delta_of_mu(mu * factor, epsilon) >= delta_of_mu(mu, epsilon)
    assert delta_of_mu(mu, epsilon * factor) <= delta_of_mu(mu, epsilon)
    assert epsilon_of_mu(mu * factor, 1e-6) >= epsilon_of_mu(mu, 1e-6)
    assert epsilon_of_mu(mu, 1e-6) <= epsilon_of_mu(mu, 1e-9)
    assert mu_of_budget(epsilon * factor, 1e-6) > mu_of_budget(epsilon, 1e-6)
    assert mu_of_budget(epsilon, 1e-6) > mu_of_budget(epsilon, 1e-9)


def test_conversions_at_their_ends():
    assert delta_of_mu(0, 1) == 0
    assert epsilon_of_mu(0, 1e-6) == 0
    assert epsilon_of_mu(1e-9, 1e-6) == 0
    assert delta_of_mu(1e-30, 1e-40) < 1e-29
    assert delta_of_mu(1e150, 1) == 1
    for epsilon in (1e-300, 1e-40, 1e300):
        for delta in (1e-300, 1e-17, 1e-6, 0.999):
            assert mu_of_budget(epsilon, delta) > 0


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "count"), [(0.1, 10), (0.01, 100), (1 / 3, 3), (0.3, 3), (0.7, 1), (1e-9, 10**9)])
def test_equal_parts_of_a_pure_budget(part, count):
    books = accountant_for(Budget(1.0))
    assert books.total == UNITS
    assert count * books.units(part) <= books.total
    if part in (0.1, 0.01):
        assert count * books.units(part) == books.total


@given(st.floats(1e-3, 100), st.sampled_from([0, 1e-12, 1e-6, 1e-3]))
@settings(deadline=None)
def test_the_whole_budget_can_be_spent_at_once_and_is_never_more(epsilon, delta):
    books = accountant_for(Budget(epsilon, delta))
    assert books.units(epsilon) == books.total
    assert books.epsilon(books.total) <= epsilon
    assert books.epsilon(books.total) == pytest.approx(epsilon, rel=1e-6 + 10 / books.total)
    assert books.epsilon(0) == 0
    assert books.epsilon(books.total // 2) <= books.epsilon(books.total)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_units_never_pass_delta(epsilon, delta, exact_delta):
    books = GaussianAccountant(Fraction(str(epsilon)), delta)
    if mu_of_budget(epsilon, delta) ** 2 * UNITS < 1000:
        with pytest.raises(AccuracyError, match="too small"):
            books.units(epsilon)
        return
    units = books.units(epsilon)
    with localcontext() as context:
        context.prec = 60
        mu = (Decimal(units) / UNITS).sqrt()
    assert exact_delta(mu, epsilon) <= Decimal(delta)
    with localcontext() as context:
        context.prec = 60
        more = (Decimal(units + 1 + units // 10**8) / UNITS).sqrt()
    assert exact_delta(more, epsilon) > Decimal(delta)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", None, True, 1e-13])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_bad_epsilon(epsilon, delta):
    with pytest.raises(AccuracyError, match="epsilon"):
        accountant_for(Budget(1.0, delta)).units(epsilon)


# -- scales ----------------------------------------------------------------------------------------


@given(st.integers(1, 10**15), st.integers(1, 10**12))
@example(1, 1)
@example(10**30, 1)
@example(1, 10**40)
@settings(deadline=None)
def test_a_scale_costs_what_was_granted_and_hardly_less(units, norm):
    pure, gaussian = PureAccountant(Fraction(1)), GaussianAccountant(Fraction(1), 1e-6)
    assert pure.rate(pure.scale(units, norm)) * norm == units
    cost = gaussian.rate(gaussian.scale(units, norm)) * norm
    assert cost <= units
    assert cost >= units * (1 - Fraction(1, 2**38))
    assert math.ceil(cost) <= units


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(1, 10**6))
@settings(deadline=None)
def test_more_budget_or_less_norm_means_less_noise(units, norm, more):
    for books in (PureAccountant(Fraction(1)), GaussianAccountant(Fraction(1), 1e-6)):
        assert books.scale(units + more, norm) <= books.scale(units, norm) <= books.scale(units, norm + more)


def test_scales_of_the_textbook():
    assert PureAccountant(Fraction(1)).scale(UNITS // 10, 3) == 30
    gaussian = GaussianAccountant(Fraction(1), 1e-6)
    assert float(gaussian.scale(gaussian.total, 1)) == pytest.approx(4.224678889327)
    assert gaussian.scale(UNITS, 4) == 2
    assert gaussian.rate(Fraction(2)) == UNITS // 4


@pytest.mark.parametrize("books", [PureAccountant(Fraction(1)), GaussianAccountant(Fraction(1), 1e-6)])
@pytest.mark.parametrize(("units", "norm"), [(0, 1), (-5, 1), (1, 0), (1, -2)])
def test_no_scale_for_nothing(books, units, norm):
    with pytest.raises(ValueError, match="whole numbers from 1"):
        books.scale(units, norm)


def test_units_of_many_rows():
    assert PureAccountant(Fraction(1)).per_unit(8) == 8
    assert GaussianAccountant(Fraction(1), 1e-6).per_unit(8) == 64


@given(st.lists(st.floats(1e-3, 0.2), min_size=1, max_size=8))
@settings(deadline=None)
def test_costs_add_up_as_the_notion_of_privacy_says(epsilons):
    """Composition of mu-GDP: the mu^2 add up; the epsilon of the sum is never below the largest part's."""
    books = GaussianAccountant(Fraction(5), 1e-6)
    assume(all(mu_of_budget(e, 1e-6) ** 2 * UNITS > 1000 for e in epsilons))
    units = [books.units(e) for e in epsilons]
    total = books.epsilon(sum(units))
    assert total == pytest.approx(
        epsilon_of_mu(math.sqrt(sum(mu_of_budget(e, 1e-6) ** 2 for e in epsilons)), 1e-6), 1e-5
    )
    assert total <= sum(epsilons) * (1 + 1e-6)
    assert max(epsilons) * (1 - 1e-9) <= books.epsilon(sum(units) + 1)  # each is rounded down by less than a unit

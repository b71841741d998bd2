"""Bounds against known digits and against each other."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.privacy.exact import _pi, exp_minus, normal_beyond


def as_fraction(digits):
    return Fraction(Decimal(digits))


def test_exp_of_known_digits():
    low, high = exp_minus(Fraction(1), 50)
    assert low < as_fraction("0.36787944117144232159552377016146086744581113103176783450783680169746149574") < high
    assert high - low < Fraction(1, 10**50)
    assert exp_minus(Fraction(0), 30)[0] <= 1 <= exp_minus(Fraction(0), 30)[1]


def test_normal_tail_of_known_digits():
    # erfc(1)
    with localcontext() as context:
        context.prec = 80
        root = Fraction(Decimal(2).sqrt())
    low, high = normal_beyond(root, 45)
    assert low < as_fraction("0.157299207050285130658779364917390740703933002033697091540062102165282745904") < high
    assert high - low < Fraction(1, 10**45)


@given(st.fractions(0, 14), st.integers(5, 60))
@settings(max_examples=60, deadline=None)
def test_normal_tail_holds_the_independent_value(phi, q, digits):
    low, high = normal_beyond(q, digits)
    with localcontext() as context:
        context.prec = 120
        truth = Fraction(2 * phi(-q))
    assert low - Fraction(1, 10**90) <= truth <= high + Fraction(1, 10**90)
    assert high - low <= Fraction(1, 10**digits)


@given(st.fractions(0, 400), st.integers(5, 80))
@settings(max_examples=60, deadline=None)
def test_more_digits_stay_within_fewer(x, digits):
    for bounds in (exp_minus, lambda x, digits: normal_beyond(x / 20, digits)):
        low, high = bounds(x, digits)
        finer_low, finer_high = bounds(x, 2 * digits)
        assert low <= finer_high
        assert finer_low <= high
        assert high - low <= Fraction(1, 10**digits)


def test_pi():
    assert str(_pi(60)).startswith("3.14159265358979323846264338327950288419716939937510582097494")


@pytest.mark.parametrize("bounds", [exp_minus, normal_beyond])
def test_hopelessly_small_numbers_cost_nothing(bounds):
    low, high = bounds(Fraction(10) ** 300, 40)
    assert (low, high) == (0, Fraction(1, 10**40))

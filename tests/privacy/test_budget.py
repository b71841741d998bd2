"""Budgets: exact decimals, and what is not a budget."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.errors import AccuracyError
from dpnotebook.privacy.accountant import GaussianAccountant, PureAccountant, accountant_for
from dpnotebook.privacy.budget import Budget, positive


def test_what_is_written_is_what_is_meant():
    assert positive(0.1, "epsilon") == Fraction(1, 10)
    assert positive(1e-9, "epsilon") == Fraction(1, 10**9)
    assert positive(Fraction(1, 3), "epsilon") == Fraction(1, 3)
    assert positive(Decimal("0.25"), "epsilon") == Fraction(1, 4)
    assert positive(np.float64(0.3), "epsilon") == Fraction(3, 10)
    assert positive(np.int64(2), "epsilon") == 2


@pytest.mark.parametrize(
    "value",
    [0, -1, math.nan, math.inf, -math.inf, "1", b"1", None, True, np.True_, 1j, [1], np.array([1.0]), 10**400],
)
def test_not_a_positive_number(value):
    with pytest.raises(AccuracyError, match="epsilon must be a"):
        positive(value, "epsilon")
    with pytest.raises(AccuracyError, match="the budget's epsilon"):
        Budget(value)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan, math.inf, "0", None, True, 1j])
def test_not_a_delta(delta):
    with pytest.raises(AccuracyError, match="delta must be a number from 0"):
        Budget(1.0, delta)


def test_delta_chooses_the_accountant():
    assert accountant_for(Budget(1)) == PureAccountant(Fraction(1))
    assert accountant_for(Budget(0.5, 1e-6)) == GaussianAccountant(Fraction(1, 2), 1e-6)
    assert accountant_for(Budget(1)).noise == "laplace"
    assert accountant_for(Budget(1, 1e-6)).noise == "gaussian"


def test_text_and_identity():
    assert str(Budget(1.0)) == "ε = 1"
    assert str(Budget(0.5, 1e-6)) == "ε = 0.5, δ = 1e-06"
    assert Budget(1) == Budget(1.0, 0)
    assert isinstance(Budget(1).epsilon, float)
    assert hash(Budget(1, 1e-6)) == hash(Budget(1.0, 1e-6))

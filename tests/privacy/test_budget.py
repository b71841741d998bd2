"""Budgets: exact decimals, and what is not a budget."""

import json
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
    assert accountant_for(Budget(0.5, 1e-6)) == GaussianAccountant(Fraction(1, 2), 9e-7, Fraction(1, 10**7))
    assert accountant_for(Budget(0.5, 1e-6, "laplace")) == PureAccountant(
        Fraction(1, 2), threshold_delta=Fraction(1, 10**6)
    )
    assert accountant_for(Budget(1)).noise == "laplace"
    assert accountant_for(Budget(1, 1e-6)).noise == "gaussian"


def test_text_and_identity():
    assert str(Budget(1.0)) == "ε = 1"
    assert str(Budget(0.5, 1e-6)) == "ε = 0.5, δ = 1e-06"
    assert Budget(1) == Budget(1.0, 0)
    assert isinstance(Budget(1).epsilon, float)
    assert hash(Budget(1, 1e-6)) == hash(Budget(1.0, 1e-6))


def test_a_part_of_delta_is_kept_for_thresholds():
    """A tenth with Gaussian noise, all of it with Laplace noise, and the two parts never pass the whole."""
    assert Budget(1, 1e-6).for_thresholds == Fraction(1, 10**7)
    assert Budget(1, 1e-6, threshold_delta=0).for_thresholds == 0
    assert Budget(1, 1e-6, threshold_delta=4e-7).for_thresholds == Fraction(4, 10**7)
    assert Budget(1, 1e-6, noise="laplace").for_thresholds == Fraction(1, 10**6)
    assert Budget(1, 0).for_thresholds == 0
    assert accountant_for(Budget(1, 1e-6, threshold_delta=0)) == GaussianAccountant(Fraction(1), 1e-6)
    for delta in (1e-6, 0.3, 1 / 3, 7e-17, 1.2345678901234567e-9):
        for part in (None, 0.0, delta / 7, delta / 2, delta * (1 - 1e-15)):
            accountant = accountant_for(Budget(1, delta, threshold_delta=part))
            assert Fraction(accountant.delta) + accountant.threshold_delta <= max(
                Fraction(delta), Fraction(repr(delta))
            )
            assert accountant.delta > 0


@pytest.mark.parametrize("part", [-1e-9, 1e-6, 2e-6, 1, math.nan, math.inf, "0", True, 1j])
def test_not_a_part_of_delta(part):
    with pytest.raises(AccuracyError, match="threshold_delta"):
        Budget(1.0, 1e-6, threshold_delta=part)


def test_noise_that_cannot_be_had():
    with pytest.raises(AccuracyError, match="Gaussian noise needs a budget with delta"):
        Budget(1.0, noise="gaussian")
    with pytest.raises(AccuracyError, match="'laplace' or 'gaussian', not 'uniform'"):
        Budget(1.0, 1e-6, noise="uniform")
    with pytest.raises(AccuracyError, match="all of delta is for thresholds"):
        Budget(1.0, 1e-6, noise="laplace", threshold_delta=1e-7)
    with pytest.raises(AccuracyError, match="without delta has none for thresholds"):
        Budget(1.0, threshold_delta=1e-7)


BUDGETS = [
    Budget(1.0),
    Budget(1.0, 1e-6),
    Budget(1.0, 1e-6, noise="laplace"),
    Budget(1.0, 1e-6, threshold_delta=0),
    Budget(1.0, 1e-6, threshold_delta=3e-7),
    Budget(1.0, 1.2345678901234567e-9),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_budget_is_written_and_read_again(budget):
    again = Budget.from_json(json.loads(json.dumps(budget.to_json())))
    assert budget.agrees(again)
    assert accountant_for(again) == accountant_for(budget)
    assert eval(repr(budget)) == budget


def test_which_ledgers_a_budget_opens():
    """Without a part of its own a budget takes what was kept; another budget, law or part it is not."""
    default, none, more, laplace = BUDGETS[1], BUDGETS[3], BUDGETS[4], BUDGETS[2]
    assert all(default.agrees(made) for made in (default, none, more))
    assert [none.agrees(made) for made in (default, none, more)] == [False, True, False]
    assert not default.agrees(laplace)
    assert not laplace.agrees(default)
    assert not default.agrees(Budget(1.0, 1e-5))
    assert not default.agrees(Budget(2.0, 1e-6))


def test_budgets_of_earlier_versions_keep_nothing_for_thresholds():
    assert Budget.from_json({"epsilon": 1.0, "delta": 1e-6}).for_thresholds == 0
    assert Budget.from_json({"epsilon": 1.0, "delta": 0.0}) == Budget(1.0)
    assert Budget(1.0).to_json() == {"epsilon": 1.0, "delta": 0.0}  # as earlier versions write and read it

"""The least price that keeps an error, where errors jump with the price as norms do that are chosen for it."""

import math
from types import SimpleNamespace

import pytest

from dpnotebook.errors import AccuracyError
from dpnotebook.sql.prices import least

ACCOUNTANT = SimpleNamespace(total=10**9, law=SimpleNamespace(power=2))
JUMP = 40_000_000  # of a price, where a dearer norm has 1.3 times the error


def error(units):
    return 10**6 / units**0.5 * (1.3 if units >= JUMP else 1.0)


@pytest.mark.parametrize("aim", [250.0, 180.0, 160.0, 150.0])
@pytest.mark.parametrize("lowest", [1000, 20_000_000, JUMP, 10**8])
@pytest.mark.parametrize("total", [10**6, 10**9])
def test_a_price_keeps_the_error_whatever_the_least_may_be(aim, lowest, total):
    """What was paid before is a least price, at which the error may be larger than at a lower one."""
    found = least(error, aim, SimpleNamespace(total=total, law=ACCOUNTANT.law), from_below=True, lowest=lowest)
    assert found >= lowest
    assert error(found) <= aim
    cheapest = next(units for units in range(lowest, 10**9, 10_000) if error(units) <= aim)
    assert found <= 1.001 * max(cheapest, 1.69 * (10**6 / aim) ** 2 if found >= JUMP else 0)


def test_no_price_keeps_an_error_that_does_not_fall():
    with pytest.raises(AccuracyError, match="no price comes near to keeping this error"):
        least(lambda units: 2.0, 1.0, ACCOUNTANT, from_below=True)


@pytest.mark.parametrize("from_below", [False, True])
@pytest.mark.parametrize("aim", [0.9, 0.97, 2.5, 40.0])
def test_errors_that_fall_in_stairs_are_looked_at_few_times(aim, from_below):
    """Intervals of quantiles end where bins do: between two prices their error is one number, or falls at once."""
    looked = []

    def in_stairs(units):
        looked.append(units)
        return 2.0 ** math.ceil(math.log2(10**6 / units**0.5))

    found = least(in_stairs, aim, ACCOUNTANT, from_below=from_below)
    assert len(looked) <= 13
    assert in_stairs(found) <= aim
    assert in_stairs(found * 59 / 60) > aim


def test_a_price_far_beyond_the_budget_is_found_where_errors_fall_in_stairs():
    looked = []

    def one_stair(units):
        looked.append(units)
        return 0.5 if units > 3000 * ACCOUNTANT.total else 1.01

    found = least(one_stair, 1.0, ACCOUNTANT, from_below=True)
    assert 3000 * ACCOUNTANT.total < found <= 3060 * ACCOUNTANT.total
    assert len(looked) <= 30

"""What is written of answers: the digits that noise and floating point leave, no interval where there is no noise."""

import numpy as np
import pytest

from dpnotebook.planner.answers import written
from dpnotebook.planner.plan_json import estimates_from_json, estimates_to_json
from dpnotebook.privacy.tails import farthest_of


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_what_nobody_can_be_in_has_no_interval(noise, confidence):
    """A group that a filter excludes: when it is worked out, and when it is shown again at another confidence."""
    std_errors = np.array([0.0, 1.0, np.inf, np.nan])
    reach = farthest_of(std_errors, noise, confidence, 1.0, 1.0)
    assert reach[0] == 0
    assert reach[1] > 1.5
    assert reach[2] == np.inf
    assert np.isnan(reach[3])  # what is not known is not 0
    found = written(np.array([0.0, 3.0]), std_errors[:2], farthest_of(std_errors[:2], noise, 0.95, 1.0, 1.0))
    again = estimates_to_json(found, 0.95, [1]) | {"step": 1.0, "scale": 1.0}
    shown = estimates_from_json(again, noise, confidence)
    assert shown.lower[0] == shown.upper[0] == 0
    assert shown.lower[1] < 3 < shown.upper[1]


def test_digits_that_floating_point_makes_up_are_not_shown():
    found = written(np.array([20.000000000000004, -1.1e-15]), np.full(2, 1e-12), np.full(2, 1e-12))
    assert found.value.tolist() == [20.0, 0.0]
    assert not np.signbit(found.value).any()


def test_whole_answers_are_never_rounded():
    large = np.array([2.0**50 + 1, 3.0])
    assert written(large, np.full(2, 1e-12), np.ones(2)).value.tolist() == large.tolist()

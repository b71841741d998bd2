"""What is written of answers: the digits that noise and floating point leave, no interval where there is no noise."""

import numpy as np

from dpnotebook.planner.answers import written


def test_what_nobody_can_be_in_has_no_interval():
    found = written(np.array([0.0, 3.0]), np.array([0.0, 1.0]), np.array([0.5, 2.0]))
    assert (found.lower.tolist(), found.upper.tolist()) == ([0.0, 1.0], [0.0, 5.0])


def test_digits_that_floating_point_makes_up_are_not_shown():
    found = written(np.array([20.000000000000004, -1.1e-15]), np.full(2, 1e-12), np.full(2, 1e-12))
    assert found.value.tolist() == [20.0, 0.0]
    assert not np.signbit(found.value).any()


def test_whole_answers_are_never_rounded():
    large = np.array([2.0**50 + 1, 3.0])
    assert written(large, np.full(2, 1e-12), np.ones(2)).value.tolist() == large.tolist()

"""An accuracy that is asked for is kept: the interval of the planned noise is never wider than `error=`."""

from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.planner.answers import LinearAnswers
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import GAUSSIAN, law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Accuracy
from dpnotebook.strategy import Strategy, select
from dpnotebook.workload import AllRange, Identity, Prefix, Total

DOMAIN = Domain({"age": Range(0, 39)})


def answers(workload, noise):
    strategy = select(workload, noise)
    axis = Axis("age", tuple(range(workload.shape[1])))
    return LinearAnswers(Measurement(strategy.operator, (axis,), Predicate.everything(DOMAIN)), strategy)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("workload", [Identity(40), Total(40), Prefix(40), AllRange(12)], ids=repr)
def test_an_error_is_kept_and_not_by_far(workload, confidence, noise):
    asked = answers(workload, noise)
    for error in (3.0, 10.0, 250.0):
        scale = asked.scale_for(Accuracy(error=error, confidence=confidence), law_of(noise))
        reached = asked.expected(law_of(noise), scale, confidence).half_width
        assert reached <= error * (1 + 1e-12)
        # Not much less noise than the error allows: combinations are planned for the worst law of their variance.
        assert reached >= error * (0.6 if error < 5 else 0.75)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_variance_is_kept(noise):
    for workload in (Identity(40), Prefix(40)):
        asked = answers(workload, noise)
        for variance in (4.0, 400.0):
            scale = asked.scale_for(Accuracy(variance=variance), law_of(noise))
            worst = float(np.max(asked.expected(law_of(noise), scale, 0.95).std_errors)) ** 2
            assert variance * (1 - 1e-6) <= worst <= variance * (1 + 1e-6)


def test_a_weight_changes_the_accuracy_of_an_answer_not_the_answer():
    histogram = Domain({"age": Range(0, 3)})
    axis = Axis("age", (0, 1, 2, 3))
    workload = 5 * Identity(4) + Total(4)
    strategy = Strategy(workload, workload, "gaussian", "as asked")
    answers = LinearAnswers(Measurement(workload, (axis,), Predicate.everything(histogram)), strategy)
    exact = workload.matvec(np.array([10, 20, 30, 40]))
    found = answers.estimate(exact[None].astype(float), GAUSSIAN, Fraction(100), 0.95)
    assert np.allclose(found.value, [10, 20, 30, 40, 100])
    dense = workload.dense() @ np.linalg.pinv(workload.dense())
    std_errors = np.sqrt((dense**2).sum(axis=1)) * 100 / np.array([5, 5, 5, 5, 1])
    assert np.allclose(found.std_error, std_errors, rtol=1e-6)
    assert answers.expected(GAUSSIAN, Fraction(100), 0.95).half_width == pytest.approx(1.96 * max(std_errors), rel=1e-3)
    scale = answers.scale_for(Accuracy(error=12.0), GAUSSIAN)
    assert answers.expected(GAUSSIAN, scale, 0.95).half_width == pytest.approx(12.0, rel=1e-3)

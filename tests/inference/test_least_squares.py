"""Reconstruction is the pseudo-inverse, whichever way it is computed."""

import time
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.domain import Domain, Range
from dpnotebook.errors import WorkloadError
from dpnotebook.inference import least_squares
from dpnotebook.inference.least_squares import _iterate
from dpnotebook.planner.answers import LinearAnswers
from dpnotebook.planner.explain import steps
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import LAPLACE
from dpnotebook.query.measurement import Measurement
from dpnotebook.strategy import select
from dpnotebook.workload import AllRange, Hierarchy, Identity, Kron, Prefix, Stack, Total


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_is_the_pseudo_inverse(data, workloads, by_definition):
    operator = data.draw(workloads())
    y = np.random.default_rng(0).normal(size=operator.shape[0])
    np.testing.assert_allclose(least_squares(operator, y), np.linalg.pinv(by_definition(operator)) @ y, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_iteration_finds_the_same_cells(data, workloads, by_definition):
    operator = data.draw(workloads())
    y = np.random.default_rng(0).normal(size=operator.shape[0])
    np.testing.assert_allclose(_iterate(operator, y), np.linalg.pinv(by_definition(operator)) @ y, atol=1e-6)


def test_exact_answers_give_back_the_cells():
    x = np.random.default_rng(0).integers(0, 1000, size=(10, 12, 8)).ravel()
    operator = 3 * Kron(Prefix(10), Hierarchy(12, 3), AllRange(8))
    np.testing.assert_allclose(least_squares(operator, operator.matvec(x)), x, atol=1e-8)


def test_a_union_over_a_million_cells():
    rng = np.random.default_rng(0)
    sizes = (100, 100, 100)
    parts = [
        Kron(*(Identity(n) if i in chosen else Total(n) for i, n in enumerate(sizes)))
        for chosen in [(0, 1), (1, 2), (0, 2)]
    ]
    operator = Stack(*parts) + 5 * Kron(*map(Total, sizes))
    x = rng.integers(0, 20, size=10**6)
    noisy = operator.matvec(x) + rng.normal(size=operator.shape[0])
    started = time.process_time()
    found = least_squares(operator, noisy)
    assert time.process_time() - started < 20
    # The normal equations hold, and answers of different margins agree with one another.
    np.testing.assert_allclose(operator.rmatvec(operator.matvec(found)), operator.rmatvec(noisy), rtol=1e-6)
    first, second = parts[0].matvec(found), parts[1].matvec(found)
    np.testing.assert_allclose(first.reshape(100, 100).sum(axis=0), second.reshape(100, 100).sum(axis=1), rtol=1e-6)


def test_the_iteration_at_a_million_cells_is_exact():
    rng = np.random.default_rng(1)
    tree = Hierarchy(1000, 10)
    operator = Kron(tree, Identity(1000)) + 2 * Identity(10**6)
    noisy = rng.normal(size=operator.shape[0])
    found = least_squares(operator, noisy).reshape(1000, 1000)
    # The same problem for every level of the second attribute, each small enough for a factorisation.
    first, second = noisy[: tree.shape[0] * 1000].reshape(-1, 1000), noisy[tree.shape[0] * 1000 :].reshape(1000, 1000)
    expected = np.linalg.solve(tree.gram() + 4 * np.eye(1000), tree.rmatvec(first) + 2 * second)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_parts_that_cannot_be_combined_are_answered_from_their_own_measurements():
    # Products over different attributes, of three million cells: no least squares over all of them at once.
    parts = (Kron(Prefix(2000), Total(1500)), Kron(Total(1000), Prefix(3000)))
    chosen = select(Stack(*parts), "laplace", "quick")
    assert chosen.split
    rng = np.random.default_rng(2)
    noisy = rng.normal(size=chosen.operator.shape[0])
    own, first = [], 0
    for part, queries in zip(chosen.operator.parts, parts, strict=True):
        cells = least_squares(part, noisy[first : first + part.shape[0]])
        own.append(queries.matvec(cells))
        first += part.shape[0]
    np.testing.assert_allclose(chosen.answers(noisy), np.concatenate(own), atol=1e-9)
    # A person is told, before anything is measured.
    everything = Predicate.everything(Domain({"age": Range(0, 9)}))
    answer = LinearAnswers(Measurement(chosen.operator, (), everything), chosen)
    _, said = steps(SimpleNamespace(unit=None, name="t"), [answer], [Fraction(1)], LAPLACE)
    assert "answers of different parts need not agree" in said[-1]


@pytest.mark.parametrize("noisy", [np.ones(3), np.ones((4, 1)), [1, 2, 3, np.nan], [1, np.inf, 2, 3], ["a"] * 4])
def test_one_finite_number_for_each_measurement(noisy):
    with pytest.raises(WorkloadError, match="one finite number for each of 4 measurements"):
        least_squares(Prefix(4), noisy)


def test_cells_that_do_not_fit_are_refused():
    with pytest.raises(WorkloadError, match="an estimate of 10,000,000,000 cells would take"):
        least_squares(Kron(*[Total(100)] * 5), [1.0])

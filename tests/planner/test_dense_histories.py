"""Answers from random histories of 2,000 cells equal dense least squares over all cells, whatever worked them out."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, known_in
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity, Kron, Total

SIZES = {"a": 20, "b": 10, "c": 10}
NAMES = tuple(SIZES)
DOMAIN = Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
FILTERS = ("a < {n}", "b >= {k}", "a < {n} and c in [1, {k}]", "a >= 3 and a < {n} and b < {k}")


def picked(rng):
    """Return some attributes, a filter at random, and which cells each of their groups has (dense)."""
    names = tuple(name for name in NAMES if rng.random() < 0.5) or (str(rng.choice(NAMES)),)
    text = str(rng.choice(FILTERS)).format(n=rng.integers(5, 19), k=rng.integers(2, 9))
    where = Predicate.parse(text, DOMAIN) if rng.random() < 0.7 else Predicate.everything(DOMAIN)
    inside = np.ones(tuple(SIZES.values())) if where.is_everything else where.dense(NAMES)
    grouped = Kron(*(Identity(size) if name in names else Total(size) for name, size in SIZES.items()))
    return names, where, grouped.dense() * inside.ravel()


def identity(names):
    parts = [Identity(SIZES[name]) for name in names]
    return parts[0] if len(parts) == 1 else Kron(*parts)


def axes_of(names):
    return tuple(Axis(name, tuple(range(SIZES[name]))) for name in names)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("noise", "seed"), [("laplace", 21), ("gaussian", 22)])
def test_answers_equal_dense_least_squares(noise, seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 50, 2_000).astype(float)
    history, law = History(DOMAIN, noise), law_of(noise)
    information, told = np.zeros((2_000, 2_000)), np.zeros(2_000)
    everything = (NAMES, Predicate.everything(DOMAIN), np.eye(2_000))
    for number, (names, where, matrix) in enumerate([everything, *(picked(rng) for _ in range(6))], 1):
        scale = int(rng.integers(3, 20))
        planned = Planned(Measurement(identity(names), axes_of(names), where), Fraction(scale), 0)
        noisy = np.rint(matrix @ cells + rng.normal(0, scale, len(matrix)))
        item = item_of(planned, (number, 0), noisy[None], law)
        history.add(item)
        information += matrix.T @ matrix / item.variance
        told += matrix.T @ noisy / item.variance
    covariance = np.linalg.inv(information)
    for _ in range(8):
        names, where, matrix = picked(rng)
        inside = np.flatnonzero(matrix.any(axis=1))  # groups that the filter leaves
        operator = identity(names)
        part = ProductTerm(axes_of(names), where, operator, 1.0, np.arange(len(matrix)))
        found = known_in(LinearForm(part, COUNT, 1.0), history, ())
        values, variances = found.estimates()[:2]
        np.testing.assert_allclose(values[inside], (matrix @ covariance @ told)[inside], rtol=1e-6, atol=1e-6)
        expected = ((matrix @ covariance) * matrix).sum(axis=1)
        np.testing.assert_allclose(variances[inside], expected[inside], rtol=1e-6)

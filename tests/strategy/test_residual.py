"""Residual strategies against dense matrices, the explicit optimum, and the SVD bound."""

import time

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy.bounds import svd_bound
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.lattice import lattice
from dpnotebook.strategy.residual import opt_residual, whole_columns
from dpnotebook.strategy.splits import attribute, residual_objective, splits, uniform
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Marginals,
    Prefix,
    Stack,
    Total,
    WidthRange,
    marginals,
    prefix_marginals,
    small_marginals,
)

ROUNDED = 1.002  # whole numbers cost at most this factor of the objective, 0.1% of the error


def by_definition(strategy):
    w, a = strategy.workload.dense().astype(float), strategy.operator.dense().astype(float)
    assert np.allclose(w @ np.linalg.pinv(a) @ a, w, atol=1e-7)
    return (a**2).sum(axis=0).max() * np.linalg.norm(w @ np.linalg.pinv(a)) ** 2


SMALL = {
    "marginals": marginals((2, 3, 4), 2),
    "up to three": marginals((2, 3, 4), upto=3),
    "small": small_marginals((2, 3, 4, 3), 8),
    "prefixes": prefix_marginals((4, 5, 2), 2, prefix=(0, 1)),
    "weighted": Stack(5 * prefix_marginals((4, 6), 1), marginals((4, 6), 2)),
    "several kinds": Stack(Kron(AllRange(5), Identity(3)), Kron(Prefix(5), Total(3)), 2 * Kron(Total(5), Identity(3))),
    "one product": Kron(Prefix(6), Stack(Total(3), Identity(3))),
    "one attribute": Stack(Prefix(8), 3 * Total(8)),
    "deficient": Stack(Kron(WidthRange(8, 4), Identity(2)), Kron(Total(8), Identity(2))),
    "equal cells": Kron(Explicit([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 1, 1]]), Prefix(3)),
    "total": Kron(Total(3), Total(4)),
    "one cell": Kron(Identity(1), Prefix(4)),
    "rows of ones": Stack(Kron(Explicit([[1, 1, 1]]), Prefix(4)), Kron(Identity(3), WidthRange(4, 4))),
}


@pytest.mark.parametrize("name", SMALL)
def test_error_is_by_definition_and_near_the_optimum(name):
    w = SMALL[name]
    found = opt_residual(w)
    assert found.objective == pytest.approx(by_definition(found), rel=1e-7)
    best = gaussian_optimum(w.gram(), tolerance=1e-7)
    # One split an attribute costs little; for marginals it costs nothing. Where an attribute's queries differ much
    # between subsets, one operator for all of them costs more.
    assert best.lower <= found.objective * (1 + 1e-9)
    assert found.objective < best.objective * (1.05 if name == "weighted" else 1.01) * ROUNDED
    if name in ("marginals", "up to three", "small", "total"):
        assert found.objective < best.objective * ROUNDED
        assert found.certificate == pytest.approx(svd_bound(w), rel=1e-9)
        assert found.certificate == pytest.approx(best.lower, rel=1e-5)


@pytest.mark.parametrize("name", ["marginals", "small", "up to three"])
def test_no_strategy_is_below_the_certificate(name):
    w = SMALL[name]
    certificate = opt_residual(w).certificate
    rng = np.random.default_rng(0)
    gram = w.gram()
    for _ in range(30):
        a = (
            rng.normal(size=(w.shape[1] + 3, w.shape[1])) * rng.random(w.shape[1])
            + 2 * np.eye(w.shape[1] + 3)[:, : w.shape[1]] * rng.random()
        )
        error = (a**2).sum(axis=0).max() * np.trace(np.linalg.solve(a.T @ a, gram))
        assert error >= certificate


@pytest.mark.parametrize("name", SMALL)
def test_rounding_costs_little(name):
    w = SMALL[name]
    found = lattice(w)
    real = residual_objective(
        found, splits(found, [attribute(kinds, n) for kinds, n in zip(found.kinds, found.sizes, strict=True)])
    )
    assert real * (1 - 1e-9) <= opt_residual(w).objective * (1 + 1e-3)
    assert opt_residual(w).objective <= real * ROUNDED


def test_better_splits_than_the_mean():
    # Prefix-marginals, whose total is not best told by the mean of all cells.
    w = prefix_marginals((6, 6), upto=2)
    found = lattice(w)
    attributes = [attribute(kinds, n) for kinds, n in zip(found.kinds, found.sizes, strict=True)]
    plain = residual_objective(found, [uniform(asked) for asked in attributes])
    assert residual_objective(found, splits(found, attributes)) < 0.95 * plain


def test_answers_are_unbiased_and_as_exact_as_claimed():
    w = SMALL["prefixes"]
    found = opt_residual(w)
    x = np.random.default_rng(0).integers(0, 50, size=w.shape[1])
    np.testing.assert_allclose(found.answers(found.operator.matvec(x)), w.matvec(x), atol=1e-6)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(400, found.operator.shape[0]))
    errors = np.array([((found.answers(row)) ** 2).sum() for row in noise])
    expected = found.error_factors().sum()
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(len(errors))


def test_whole_columns_are_near_and_never_longer():
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(40, 30))
    matrix *= 64 / np.linalg.norm(matrix, axis=0)
    whole = whole_columns(matrix, 64.0**2)
    assert (whole == np.rint(whole)).all()
    assert np.abs(whole - matrix).max() <= 1
    norms = (whole**2).sum(axis=0)
    assert norms.max() <= 64**2
    assert norms.min() > 64**2 * 0.98
    assert (np.rint(matrix) ** 2).sum(axis=0).max() > 64**2


def test_marginals_of_many_attributes():
    w = marginals((10,) * 60, upto=2)
    began = time.process_time()
    found = opt_residual(w)
    assert found.objective <= svd_bound(w) * ROUNDED
    assert found.certificate == pytest.approx(svd_bound(w), rel=1e-9)
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_all_three_way_marginals_of_a_hundred_attributes():
    w = marginals((10,) * 100, upto=3)
    assert len(w.weights) == 166_751
    began = time.process_time()
    found = opt_residual(w)
    assert time.process_time() - began < 10
    assert found.objective <= svd_bound(w) * ROUNDED


def test_what_is_refused():
    with pytest.raises(WorkloadError, match="same attributes"):
        opt_residual(Stack(Kron(Identity(2), Identity(6)), Kron(Identity(4), Identity(3))))

    def cancel(fraction, text):
        raise KeyboardInterrupt(text)

    with pytest.raises(KeyboardInterrupt):
        opt_residual(Marginals([Prefix(4), Prefix(5)], [((0, 1), 1)]), report=cancel)


def rounded_all_columns_at_once(matrix, square):
    """As `whole_columns` says, with every column looked at in every step."""
    whole, columns = np.rint(matrix), np.arange(matrix.shape[1])
    for _ in range(16):
        size, room = np.abs(whole), square - (whole**2).sum(axis=0)
        less = np.where(size > np.abs(matrix), 2 * size - 1, np.inf)
        more = np.where(size < np.abs(matrix), 2 * size + 1, np.inf)
        down = np.where(less <= -room, -less, less).argmin(axis=0)
        up = np.where(more <= room, more, -1.0).argmax(axis=0)
        shrinks = (room < 0) & np.isfinite(less[down, columns])
        grows = (room > 0) & (more[up, columns] <= room)
        towards = np.where(shrinks, -1, np.where(grows, 1, 0))
        pick = np.where(shrinks, down, up)
        whole[pick, columns] += np.where(matrix[pick, columns] < 0, -towards, towards)
    return whole


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_are_left_alone_are_those_that_no_step_changes(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(int(rng.integers(2, 40)), int(rng.integers(2, 40))))
    matrix *= 2.0 ** int(rng.integers(2, 9)) / np.linalg.norm(matrix, axis=0).max()
    square = float((matrix**2).sum(axis=0).max()) * float(rng.uniform(0.9, 1.1))
    assert (whole_columns(matrix, square) == rounded_all_columns_at_once(matrix, square)).all()

"""Structured pseudo-inverses equal the dense ones, and say what they cannot answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.dense import DenseInverse, WideInverse
from dpnotebook.inference.inverse import inverse, total_variance, variances
from dpnotebook.inference.tree import gains
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Permuted,
    Prefix,
    Stack,
    Toeplitz,
    Total,
    Weighted,
)

OPERATORS = [
    Identity(1),
    Identity(6),
    Total(1),
    Total(6),
    Prefix(1),
    Prefix(6),
    AllRange(1),
    AllRange(6),
    Hierarchy(1, 2),
    *(
        Hierarchy(n, b, levels)
        for n, b, levels in [(6, 2, 3), (6, 6, 2), (6, 4, 3), (11, 3, 3), (27, 3, 4), (29, 3, 4)]
    ),
    Hierarchy(17, 4),
    Hierarchy(17, 16),
    Toeplitz([3]),
    Toeplitz([8, 4, 3, 2, 2, 2, 2]),
    Toeplitz([-2, 1, 0, 1, 5]),
    Explicit([[1, 1, 0, 0], [0, 1, 1, 0]]),
    Explicit([[2, 0, 0], [0, 1, 1], [0, 1, -1], [1, 1, 1]]),
    Stack(Kron(Identity(2), Total(3)), 3 * Kron(Total(2), Identity(3))),
]


def quadratic(a, rows):
    """Return the variances by the textbook formula, infinite off the row space."""
    plus = np.linalg.pinv(a)
    found = ((rows @ plus) ** 2).sum(axis=1)
    lost = np.linalg.norm(rows - rows @ plus @ a, axis=1) > 1e-9 * np.linalg.norm(rows, axis=1)
    return np.where(lost, np.inf, found)


@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
def test_is_the_pseudo_inverse_of_the_normal_matrix(operator, by_definition):
    a = by_definition(operator)
    n = a.shape[1]
    found = inverse(operator)
    m = np.linalg.pinv(a.T @ a)
    z = np.random.default_rng(0).normal(size=(2, n, 3))
    np.testing.assert_allclose(found.apply(z), m @ z, atol=1e-9)
    assert found.n == n
    assert found.rank == np.linalg.matrix_rank(a)
    starts, ends = np.triu_indices(n + 1, 1)
    runs = ((starts[:, None] <= np.arange(n)) & (np.arange(n) < ends[:, None])).astype(float)
    np.testing.assert_allclose(found.intervals(starts, ends), quadratic(a, runs), rtol=1e-9)
    rows = np.random.default_rng(1).integers(-2, 3, size=(5, len(a))) @ a
    rows = np.vstack([runs, rows, np.random.default_rng(2).normal(size=(5, n))])
    np.testing.assert_allclose(found.of_rows(rows), quadratic(a, rows), rtol=1e-9)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_variances_of_random_workloads(data, workloads, by_definition):
    n = data.draw(st.integers(1, 12))
    operator, w = data.draw(workloads(n, integer=True)), data.draw(workloads(n))
    expected = quadratic(by_definition(operator), by_definition(w))
    asked = by_definition(w)
    expected[~asked.any(axis=1)] = 0  # a query that asks nothing is always answered
    found = variances(inverse(operator), w)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert total_variance(operator, w) == pytest.approx(expected.sum(), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("n", "branching"), [(2, 2), (64, 4), (65, 4), (100, 7), (101, 100), (243, 3), (250, 3)])
def test_gains_of_tree_levels_add_up_to_the_dense_error(n, branching, by_definition):
    w = AllRange(n)
    energy = w.energy()
    error = w.frobenius_squared()
    for k, gain in enumerate(gains(n, branching)):
        error -= gain.coefficients @ energy(gain.starts, gain.ends)
        a = by_definition(Hierarchy(n, branching, k + 2))
        assert error == pytest.approx(np.trace(w.gram() @ np.linalg.inv(a.T @ a)), rel=1e-9)


def test_a_structured_inverse_over_a_million_cells():
    n = 10**6
    found = inverse(Hierarchy(n, 10))
    z = np.random.default_rng(0).normal(size=n)
    back = Hierarchy(n, 10).rmatvec(Hierarchy(n, 10).matvec(found.apply(z[None, :, None])[0, :, 0]))
    np.testing.assert_allclose(back, z, atol=1e-8)
    # A run that is one whole node of the tree is answered better than from its node alone.
    assert 0.4 < found.intervals(np.array([500_000]), np.array([600_000]))[0] < 1
    assert total_variance(Identity(n), Prefix(n)) == n * (n + 1) / 2
    assert total_variance(Prefix(n), Prefix(n)) == n
    np.testing.assert_array_equal(variances(inverse(Prefix(n)), Identity(n)), [1] + [2] * (n - 1))


def test_a_matrix_without_structure_is_not_inverted_over_too_many_cells():
    with pytest.raises(WorkloadError, match="5,000 cells at once; up to 4,096 are possible, or 1,024"):
        inverse(Stack(Kron(Identity(50), Total(100)), Prefix(5000)))


def test_few_measurements_of_many_cells(by_definition):
    margins = Stack(Kron(Identity(6), Total(10)), Kron(Total(6), Prefix(10)))
    wide, dense = WideInverse(margins), DenseInverse(margins)
    assert isinstance(inverse(Stack(Kron(Identity(20), Total(80)), Kron(Total(20), Prefix(80)))), WideInverse)
    assert wide.rank == dense.rank == 6 + 10 - 1
    w = Stack(margins, Kron(Prefix(6), Prefix(10)), AllRange(60), 2 * Total(60))
    found = variances(wide, w)
    np.testing.assert_allclose(found, variances(dense, w), rtol=1e-7)
    np.testing.assert_allclose(found, quadratic(by_definition(margins), by_definition(w)), rtol=1e-7)
    assert np.isinf(found).any()
    assert np.isfinite(found).any()
    z = np.random.default_rng(0).normal(size=(1, 60, 2))
    np.testing.assert_allclose(wide.apply(z), dense.apply(z), atol=1e-10)


def test_dense_and_structured_agree_where_both_apply():
    tree = Hierarchy(40, 3)
    dense = DenseInverse(tree)
    w = Stack(AllRange(40), 2.5 * Prefix(40))
    np.testing.assert_allclose(variances(inverse(tree), w), variances(dense, w), rtol=1e-9)


def test_a_nearly_singular_operator_is_not_taken_for_regular():
    # Full rank to floating point, not to least squares: the third column is the sum of the others but for 1e-9.
    a = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1e-9]])
    found = DenseInverse(Weighted(1, Explicit(a)))
    assert found.rank == 2
    assert np.isinf(found.of_rows(np.array([[0.0, 0.0, 1.0]]))).all()


@pytest.mark.parametrize(
    "operator", [Hierarchy(9, 3), Identity(9), Prefix(9), AllRange(9), Total(9), Hierarchy(9, 2, 2)]
)
def test_queries_of_cells_in_another_order(operator, by_definition):
    asked = Permuted(AllRange(9), 4)
    np.testing.assert_allclose(variances(inverse(operator), asked), quadratic(by_definition(operator), asked.dense()))

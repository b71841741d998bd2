"""Orders in which queries are runs of cells: found where there are any, and never believed without looking."""

import itertools

import numpy as np
import pytest

from dpnotebook.inference.inverse import inverse, total_variance, variances
from dpnotebook.strategy.ordering import cells_in_order, put_back, reordered
from dpnotebook.workload import AllRange, Explicit, Hierarchy, Identity, Permuted, Predicates, Prefix, Total
from dpnotebook.workload.contiguous import Contiguous


def are_runs(rows):
    return all((np.diff(np.flatnonzero(row)) == 1).all() for row in rows)


@pytest.mark.parametrize("seed", range(150))
def test_every_order_that_there_is_is_found(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 50)), int(rng.integers(1, 40))
    widest = int(rng.integers(1, n + 1))
    rows = np.zeros((m, n), dtype=int)
    for row in rows:
        first = int(rng.integers(0, n))
        row[first : first + 1 + int(rng.integers(0, widest))] = 1
    shuffled = Explicit(rows[:, rng.permutation(n)])
    found = reordered(shuffled, cells_in_order([shuffled]))
    assert isinstance(found, Predicates | Contiguous)
    assert are_runs(found.dense())
    assert found.frobenius_squared() == shuffled.frobenius_squared()


@pytest.mark.parametrize("seed", range(60))
def test_an_order_is_found_if_and_only_if_brute_force_finds_one(seed):
    rng = np.random.default_rng(seed)
    rows = (rng.random((int(rng.integers(2, 6)), 6)) < rng.uniform(0.3, 0.7)).astype(int)
    rows[0, 0] = 1
    exists = any(are_runs(rows[:, list(order)]) for order in itertools.permutations(range(6)))
    shown = reordered(Explicit(rows), cells_in_order([Explicit(rows)]))
    assert isinstance(shown, Predicates | Contiguous) == exists


def test_rows_within_rows_of_any_depth():
    rng = np.random.default_rng(0)
    nested = Explicit(Permuted(Prefix(400), 3).dense()[rng.permutation(400)])
    assert are_runs(reordered(nested, cells_in_order([nested])).dense())


def test_factors_share_one_order_or_have_none():
    same = Permuted(Prefix(9), 4)
    assert np.array_equal(cells_in_order([same, Identity(9), 2 * Permuted(AllRange(9), 4)]), same.order)
    assert cells_in_order([same, Permuted(AllRange(9), 5)]) is None
    assert cells_in_order([Prefix(9), same]) is None
    assert cells_in_order([Identity(9), Total(9)]) is None
    assert cells_in_order([Explicit([[1, 2, 0], [0, 1, 1]])]) is None  # no zeros and ones


def test_operators_over_reordered_cells_have_the_errors_that_their_matrix_has():
    rng = np.random.default_rng(2)
    order = rng.permutation(30)
    operator = put_back(Hierarchy(30, 3), order)
    dense = Explicit(operator.dense())
    asked = [
        Permuted(AllRange(30), order),
        AllRange(30),
        Explicit(rng.integers(-2, 3, (5, 30))),
        Predicates(rng.random((6, 30)) < 0.5),
        Total(30),
        Identity(30),
    ]
    for workload in asked:
        expected = np.einsum(
            "ij,jk,ik->i", *(2 * [workload.dense()])[:1], np.linalg.inv(dense.gram()), workload.dense()
        )
        assert variances(inverse(operator), workload) == pytest.approx(expected)
        assert total_variance(operator, workload) == pytest.approx(expected.sum())
    counts = rng.integers(0, 50, (1, 30, 1))
    measured = operator.apply_transposed(operator.apply(counts))
    assert inverse(operator).apply(measured) == pytest.approx(counts)

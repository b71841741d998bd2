"""Wavelet and Fourier bases, and queries with weights of their own, against their matrices written out."""

import json
import math

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy
from dpnotebook.workload import AllRange, Explicit, Fourier, Hierarchy, Identity, Prefix, Workload
from dpnotebook.workload.permuted import Permuted
from dpnotebook.workload.wavelet import Wavelet
from dpnotebook.workload.weighted_rows import WeightedRows

SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16]


def haar(n):
    """The rows of the padded wavelet basis, block by block, without the cells that are not there."""
    padded = 2 ** max(0, math.ceil(math.log2(n)))
    rows, size = [np.ones(padded)], padded
    while size > 1:
        for start in range(0, n, size):
            row = np.zeros(padded)
            row[start : start + size // 2], row[start + size // 2 : start + size] = 1, -1
            rows.append(row)
        size //= 2
    return np.array(rows)[:, :n]


def assert_same_matrix(w, dense, rng):
    m, n = dense.shape
    assert w.shape == dense.shape
    assert np.array_equal(w.dense(), dense)
    x, y = rng.integers(-9, 9, (n, 2)), rng.integers(-9, 9, m)
    assert np.allclose(w.matvec(x), dense @ x)
    assert np.allclose(w.rmatvec(y), dense.T @ y)
    assert np.allclose(w.gram(), dense.T @ dense)
    assert np.allclose(w.column_norms(1), np.abs(dense).sum(axis=0))
    assert w.max_column_norm(2) == pytest.approx((dense**2).sum(axis=0).max())
    matrix = rng.normal(size=(2, n, n))
    assert np.allclose(w.quadratic(matrix), np.einsum("mi,aij,mj->am", dense, matrix, dense))
    assert Workload.from_json(json.loads(json.dumps(w.to_json()))) == w
    assert hash(Workload.from_json(w.to_json())) == hash(w)


@pytest.mark.parametrize("n", SIZES)
def test_wavelet_rows(n):
    w = Wavelet(n)
    assert_same_matrix(w, haar(n), np.random.default_rng(n))
    assert w.integer
    assert w.matvec(np.arange(n)).dtype == np.int64
    gram = w.dense() @ w.dense().T
    assert w.complete == (np.count_nonzero(gram) == np.count_nonzero(np.diagonal(gram)))


@pytest.mark.parametrize("n", SIZES)
def test_fourier_rows(n):
    padded = 2 ** max(0, math.ceil(math.log2(n)))
    walsh = np.array([[(-1.0) ** (r & j).bit_count() for j in range(n)] for r in range(padded)])
    assert_same_matrix(Fourier(n), walsh, np.random.default_rng(n))
    if n > 1:
        assert_same_matrix(Fourier(n, constant=False), walsh[1:], np.random.default_rng(n))


def bases(n):
    return [Wavelet(n), Hierarchy(n, 2), Hierarchy(n, max(2, min(3, n))), AllRange(n), Explicit(np.eye(n) - 2)]


@pytest.mark.parametrize("n", SIZES)
def test_weighted_rows(n):
    rng = np.random.default_rng(n)
    for base in bases(n):
        for weights in (rng.integers(0, 4, base.shape[0]), rng.uniform(0.5, 2, base.shape[0])):
            weights[0] = 1
            w = WeightedRows(weights, base)
            assert w.integer == np.array_equal(weights, np.rint(weights))
            assert_same_matrix(w, weights[:, None] * base.dense(), rng)


def some_workloads(n, rng):
    ranges = AllRange(n)
    return [ranges, Prefix(n), Explicit(rng.integers(1, 5, (3, n))), Permuted(ranges, rng.permutation(n)), 2 * ranges]


@pytest.mark.one_in(10)
@pytest.mark.parametrize("n", SIZES)
def test_least_squares_from_weighted_trees_and_wavelets(n):
    rng = np.random.default_rng(n)
    for base in bases(n):
        zeros = rng.integers(0, 2, base.shape[0])
        zeros[:n] = 1  # the leaves of a hierarchy come first
        for weights in (np.ones(base.shape[0]), rng.integers(1, 6, base.shape[0]), zeros):
            operator = WeightedRows(weights.astype(int), base)
            a = operator.dense().astype(float)
            if np.linalg.matrix_rank(a) < n:
                continue
            for w in some_workloads(n, rng):
                found = Strategy(w, operator, "gaussian", "test")
                exact = w.dense() @ np.linalg.pinv(a)
                assert found.objective == pytest.approx((a**2).sum(axis=0).max() * (exact**2).sum())
                assert np.allclose(found.error_factors(), (exact**2).sum(axis=1))
                rows = np.arange(min(3, w.shape[0]))
                assert np.allclose(found.answer_weights(rows), exact[rows], atol=1e-9)
                y = rng.normal(size=operator.shape[0])
                assert np.allclose(found.answers(y), exact @ y)


def test_large_ones_need_no_matrix():
    n = 2**16
    assert Strategy(Prefix(n), Wavelet(n), "laplace", "wavelet").objective > 0
    assert Strategy(AllRange(n), Wavelet(n), "gaussian", "wavelet").norm == 17


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "3 weights"),
        ([1, -1, 1], "at least 0"),
        ([1, math.nan, 1], "finite"),
        ([0, 0, 0], "not all 0"),
        (["a", "b", "c"], "3 weights"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(WorkloadError, match=message):
        WeightedRows(weights, Identity(3))
    with pytest.raises(WorkloadError, match="takes a workload"):
        WeightedRows(weights, np.eye(3))
    for basis in (Wavelet, Fourier):
        with pytest.raises(WorkloadError, match="whole number"):
            basis(0)


def test_a_large_weighted_tree_needs_no_gram_matrix():
    tree = Hierarchy(2**15, 2)
    weights = np.ones(tree.shape[0], dtype=int)
    plain, weighted = (Strategy(Prefix(2**15), a, "laplace", "tree") for a in (tree, WeightedRows(weights, tree)))
    assert weighted.objective == pytest.approx(plain.objective)

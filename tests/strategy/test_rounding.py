"""Rounding a real operator: how far its error is then from what was meant, in the plain and the awkward cases."""

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy, rounded
from dpnotebook.workload import AllRange, Explicit, Identity, Prefix, Toeplitz, Weighted


def objective(matrix, asked, noise):
    """Return |A|^2 |W A^+|_F^2 by the textbook formula."""
    norm = np.abs(matrix).sum(axis=0).max() ** 2 if noise == "laplace" else (matrix**2).sum(axis=0).max()
    return norm * ((asked @ np.linalg.pinv(matrix)) ** 2).sum()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_the_error_is_that_of_the_real_operator(noise, scale):
    rng = np.random.default_rng(3)
    matrices = [rng.normal(size=(40, 24)), rng.uniform(size=(24, 24)) + 3 * np.eye(24), np.eye(24) / 3]
    values, vectors = np.linalg.eigh(AllRange(24).gram())
    matrices.append(vectors @ np.diag(values**0.25) @ vectors.T)
    for matrix in matrices:
        found = Strategy(AllRange(24), rounded(scale * matrix), noise, "")
        meant = objective(matrix, AllRange(24).dense(), noise)
        assert abs(found.objective / meant - 1) < 1e-3
        entries = found.operator.dense()
        unit = 2**16 / np.abs(matrix).max()
        assert entries.dtype == np.int64
        assert np.abs(entries - unit * matrix).max() <= 0.5 + 1e-9


def test_more_bits_are_nearer():
    matrix = np.random.default_rng(4).normal(size=(30, 20))
    meant = objective(matrix, np.eye(20), "gaussian")
    far = [
        abs(Strategy(Identity(20), rounded(matrix, bits=bits), "gaussian", "").objective / meant - 1)
        for bits in (4, 10, 22)
    ]
    assert far[0] > 1e-3 > far[1] > 1e-6 > far[2]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_queries_stay_determined_where_rows_span_less_than_all_cells(noise):
    rng = np.random.default_rng(5)
    asked = Explicit(rng.normal(size=(6, 30)))
    for matrix in (asked.matrix, rng.normal(size=(12, 6)) @ asked.matrix):
        found = Strategy(asked, rounded(matrix), noise, "")
        assert abs(found.objective / objective(matrix, asked.matrix, noise) - 1) < 5e-3


def test_what_is_exact_already_stays():
    tree = Prefix(8)
    assert rounded(tree) is tree
    assert rounded([[1, 2], [0, 3]]) == Explicit([[1, 2], [0, 3]])
    assert rounded(Toeplitz([1.0, 0.5, 0.375]), bits=4) == Toeplitz([16, 8, 6])
    assert rounded(Weighted(0.5, Prefix(3)), bits=2) == Explicit(4 * Prefix(3).dense())


@pytest.mark.parametrize("bits", [0, 27, 1.5, True])
def test_bits_out_of_range_are_refused(bits):
    with pytest.raises(WorkloadError, match="bits"):
        rounded([[0.5]], bits=bits)


@pytest.mark.parametrize("matrix", [[[np.nan]], [[np.inf, 1]], [1.5], [["a"]], [[0.0]]])
def test_what_is_no_matrix_of_numbers_is_refused(matrix):
    with pytest.raises(WorkloadError):
        rounded(matrix)

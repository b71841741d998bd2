"""Queries over few numbers, answered by a factor or an inverse: beside NumPy's pseudo-inverse."""

import numpy as np
import pytest

from dpnotebook.planner.factored import MANY, Factored
from dpnotebook.planner.information import factor_of, generalised_inverse
from dpnotebook.planner.solved import refined


def measured(rng, numbers, rank):
    """Return an information matrix of some rank, whose numbers are of very different precision."""
    rows = rng.integers(-2, 3, (rank, numbers)).astype(float)
    return rows.T * 10 ** rng.uniform(-3, 3, rank) @ rows


@pytest.mark.parametrize("rank", [0, 1, 9, 24])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("share", [MANY / 2, 1.0])
def test_variances_are_those_of_the_pseudo_inverse(rank, every, share):
    """A full rank that is said and is not there does no harm; what is not determined is left as a residual."""
    rng = np.random.default_rng(rank)
    matrix = measured(rng, 24, rank) + (np.eye(24) if rank == 24 else 0)
    queries = rng.normal(size=(round(24 * share), 24))
    if 0 < rank < 24:
        queries[::2] = queries[::2] @ matrix / np.abs(matrix).max()  # determined; the others are not
    block = Factored(matrix, every=every)
    z, told = refined(block, queries, block.applied(queries))
    inverse = np.linalg.pinv(matrix, rcond=1e-13, hermitian=True)
    certain = np.abs(queries - queries @ inverse @ matrix).max(axis=1) < 1e-6 * np.abs(queries).max(axis=1)
    assert certain.sum() == (len(queries) if rank == 24 else len(queries[::2]) if rank else 0)
    found = np.abs(queries - told).max(axis=1) < 1e-8 * np.abs(queries).max(axis=1)
    assert found.tolist() == certain.tolist()
    expected = np.einsum("ij,jk,ik->i", queries, inverse, queries)
    assert np.einsum("ij,ij->i", told, z)[certain] == pytest.approx(expected[certain], rel=1e-6)


def test_a_full_rank_that_is_said_and_is_not_there_is_found_by_pivots():
    rng = np.random.default_rng(3)
    for rank in range(8):
        matrix = measured(rng, 8, rank)
        one, other = (factor_of(matrix, every=every) for every in (False, True))
        assert one[1].tolist() == other[1].tolist()
        assert np.array_equal(one[0], other[0])
    assert generalised_inverse(np.diag([4.0, 16.0]), every=True)[0].tolist() == [[0.25, 0], [0, 0.0625]]

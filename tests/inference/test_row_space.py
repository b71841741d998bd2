"""Least squares over a basis of the queries equals dense least squares over all cells."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpnotebook.inference import row_space
from dpnotebook.inference.row_space import RowSpace

CELLS = 90


def batches(rng, count, *, single):
    """Return queries of several kinds: tables of disjoint counts, conditions, and cells one by one."""
    for place in range(count):
        if single and place % 3 == 1:
            chosen = np.sort(rng.permutation(CELLS)[: int(rng.integers(6, CELLS + 1))])
            rows = np.zeros((chosen.size, CELLS))
            rows[np.arange(chosen.size), chosen] = rng.choice([1.0, 2.0])
        else:
            of = rng.integers(0, int(rng.integers(1, 9)), CELLS)
            inside = rng.random(CELLS) < rng.choice([0.3, 1.0])
            rows = ((of == np.arange(of.max() + 1)[:, None]) & inside).astype(float) * rng.choice([1.0, 3.0])
            rows = rows[rows.any(axis=1)]
        if len(rows):
            yield rows


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("single", [False, True])
def test_answers_are_those_of_the_pseudo_inverse(seed, single, monkeypatch):
    monkeypatch.setattr(row_space, "MANY", 5)
    rng = np.random.default_rng(seed)
    space, queries = RowSpace(CELLS), []
    for rows in batches(rng, int(rng.integers(3, 12)), single=single):
        before = space.copy()
        rank = before.rank
        space.add(csr_array(rows))
        assert before.rank == rank  # a copy stays as it was
        queries.append(rows)
    matrix = np.concatenate(queries)
    precision = rng.uniform(0.01, 3, len(matrix))
    information = matrix.T @ (matrix * precision[:, None])
    inverse = np.linalg.pinv(information, rcond=1e-11, hermitian=True)
    assert space.rank == np.linalg.matrix_rank(matrix[:, ~space.apart])
    assert space.alone.any() == (single and any((rows != 0).sum() == len(rows) >= 5 for rows in queries))
    seen = rng.integers(0, len(matrix), 4)
    mixed = rng.normal(size=(3, len(matrix))) @ matrix
    asked = np.concatenate([matrix[seen], mixed, np.eye(CELLS)[:5], np.ones((1, CELLS))])
    found = space.ready(precision).solved(csr_array(asked))
    known = np.abs(asked - asked @ inverse @ information).max(axis=1) < 1e-7 * np.abs(asked).max(axis=1)
    assert known[:7].all()
    assert (found.determined == known).all()
    covariance = asked @ inverse @ asked.T
    np.testing.assert_allclose(
        found.covariance[np.ix_(known, known)], covariance[np.ix_(known, known)], rtol=1e-6, atol=1e-8
    )
    best = asked @ inverse @ matrix.T * precision
    np.testing.assert_allclose(found.weights[known], best[known], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.weights @ matrix + found.residuals, asked, atol=1e-7)
    # What is said of variances is so of the very weights.
    own = (found.weights**2 / precision).sum(axis=1)
    np.testing.assert_allclose(np.diagonal(found.covariance), own, rtol=1e-9)


def test_a_query_of_what_is_known_already_adds_nothing():
    space = RowSpace(4)
    space.add(csr_array(np.eye(4)[:3]))
    space.add(csr_array(np.array([[1.0, 1, 0, 0]])))
    assert (space.rank, space.numbers) == (3, 4)
    space.add(csr_array(np.ones((1, 4))))
    assert space.rank == 4


def test_repeats_of_one_query_are_their_weighted_mean():
    space = RowSpace(3)
    for _ in range(2):
        space.add(csr_array(np.ones((1, 3))))
    found = space.ready(np.array([1.0, 3.0])).solved(csr_array(np.ones((1, 3))))
    np.testing.assert_allclose(found.weights, [[0.25, 0.75]], rtol=1e-12)
    np.testing.assert_allclose(found.covariance, [[0.25]], rtol=1e-12)

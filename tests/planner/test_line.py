"""What is known along one attribute, held against dense least squares over its levels."""

import numpy as np
import pytest
from run_states import line_of_covariance

from dpnotebook.planner.information import Information
from dpnotebook.planner.run_state import line_index


def _levels(information, labels):
    """Return the information matrix over levels: an atom's count is the sum of its levels."""
    spread = np.eye(information.atoms)[labels]
    return spread @ information.matrix @ spread.T


def _measured(rng, atoms, rows):
    information = Information(atoms)
    queries = rng.integers(0, 3, (rows, atoms)) * (rng.random((rows, atoms)) < 0.6)
    queries = queries[queries.any(axis=1)].astype(float)
    for query in queries:
        information.add(query[None], rng.uniform(0.5, 2, 1), np.zeros(1))
    return information


@pytest.mark.parametrize("seed", range(40))
def test_variances_of_runs_are_those_of_least_squares(seed):
    rng = np.random.default_rng(seed)
    atoms = int(rng.integers(1, 7))
    information = _measured(rng, atoms, int(rng.integers(0, 7)))
    labels = np.repeat(np.arange(atoms), rng.integers(1, 4, atoms))
    if seed % 2:
        labels = rng.permutation(labels)  # atoms need not be runs
    n = labels.size
    inner = rng.choice(np.arange(1, n), min(n - 1, int(rng.integers(0, 6))), replace=False) if n > 1 else []
    cuts = np.unique([0, n, *inner])
    line = line_index(information, labels).line(cuts)
    matrix = _levels(information, labels)
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    for i in range(cuts.size):
        for j in range(cuts.size):
            query = np.zeros(n)
            query[min(cuts[i], cuts[j]) : max(cuts[i], cuts[j])] = 1
            told = matrix @ inverse @ query
            exact = query @ inverse @ query if np.abs(told - query).max(initial=0) < 1e-7 else np.inf
            assert line.variances()[i, j] == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_cut_points_may_leave_levels_out():
    information = Information(3)
    information.add(np.array([[1.0, 1, 0]]), np.array([0.5]), np.zeros(1))
    line = line_index(information, [0, 0, 1, 1, 2, 2]).line([0, 2, 4])
    assert line.cells == 2
    assert line.variances()[0, 2] == pytest.approx(2)
    assert np.isinf(line.variances()[0, 1])
    assert np.isinf(line_index(information, [0, 0, 1, 1, 2, 2]).line([1, 2, 4]).variances()).sum() == 6


def test_a_diffuse_prior_knows_what_the_line_knows():
    line = line_of_covariance(np.diag([1.0, 2, 3]), [0, 0, 1, 1])
    corners = line.diffuse(1e6)
    diagonal = np.diagonal(corners)
    variances = diagonal[:, None] + diagonal - 2 * corners
    known = np.isfinite(line.variances())
    assert variances[known] == pytest.approx(line.variances()[known], abs=1e-6)
    assert (variances[~known] > 1e6).all()

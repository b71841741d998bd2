"""Strategies for running counts: as good as the best there is, and measured in the order of arrival."""

import numpy as np
import pytest

from dpnotebook import strategy
from dpnotebook.errors import WorkloadError
from dpnotebook.strategy.arrival import at_arrival, last_parts, running_counts
from dpnotebook.strategy.strategy import unit_variance
from dpnotebook.workload import Prefix

SIZES = [1, 2, 3, 5, 12, 30, 64, 65]


@pytest.mark.parametrize("objective", ["total", "worst"])
@pytest.mark.parametrize("parts", SIZES)
def test_gaussian_is_as_good_as_the_best_strategy_in_any_order(parts, objective):
    found = running_counts(parts, "gaussian", objective)
    best = strategy.select(Prefix(parts), noise="gaussian", objective=objective)
    ours, theirs = (one.objective if objective == "total" else one.worst for one in (found, best))
    assert ours == pytest.approx(theirs, rel=1e-3)
    rows = found.operator.dense()
    assert (np.triu(rows, 1) == 0).all()
    assert (np.diagonal(rows) != 0).all()


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("parts", SIZES)
def test_nothing_needs_what_has_not_arrived(parts, noise):
    """By brute force: least squares from the rows that read no later part, at every part."""
    found = running_counts(parts, noise)
    rows, last = found.operator.dense().astype(float), last_parts(found)
    assert (np.diff(last) >= 0).all()
    said = at_arrival(found)
    for part in range(parts):
        there = np.linalg.pinv(rows[last <= part])
        count = (np.arange(parts) <= part).astype(float)
        weights = count @ there
        np.testing.assert_allclose(weights @ rows[last <= part], count, atol=1e-9)
        if noise == "gaussian":  # there is one way only
            assert (weights**2).sum() == pytest.approx(said[part], rel=1e-6)
        else:
            assert (weights**2).sum() <= said[part] * (1 + 1e-9)


def test_1024_parts_are_within_1_percent_of_the_optimum():
    """The optimum over all strategies has a root mean square of 2.955; the Toeplitz square root has 3.110."""
    found = running_counts(1024, "gaussian", "total")
    unit = unit_variance("gaussian", 1.0, 1e-6) ** 0.5
    assert found.rmse(epsilon=1.0, delta=1e-6) / unit == pytest.approx(2.955, rel=0.01)
    squared = found.norm * at_arrival(found).mean()
    assert squared**0.5 == pytest.approx(2.955, rel=0.01)  # also of each count when its last part arrives
    assert found.optimality < 1.001


def test_beyond_the_optimum_stands_the_square_root():
    found = running_counts(3_000)
    assert found.name == "Toeplitz square root"
    assert found.norm * at_arrival(found).max() < 4 * (1 + np.log(3_000) / np.pi) ** 2


def test_a_tree_for_laplace_noise_is_far_better_than_counts_by_themselves():
    found = running_counts(365, "laplace")
    assert found.norm**2 * at_arrival(found).max() < 365


@pytest.mark.parametrize(("parts", "noise"), [(0, "gaussian"), (20_000, "gaussian"), (600, "laplace")])
def test_too_many_parts_or_none(parts, noise):
    with pytest.raises(WorkloadError, match="parts"):
        running_counts(parts, noise)

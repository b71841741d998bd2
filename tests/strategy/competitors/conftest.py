"""What every competitor is held against."""

import numpy as np
import pytest


@pytest.fixture
def check_by_brute_force():
    """Return a check of a strategy's sensitivity, support and error against its dense matrices."""

    def check(found, w, noise):
        a = found.operator.dense().astype(float)
        norms = np.abs(a).sum(axis=0) if noise == "laplace" else np.sqrt((a**2).sum(axis=0))
        sensitivity = norms.max()
        assert found.sensitivity == pytest.approx(sensitivity)
        exact = w.dense() @ np.linalg.pinv(a)
        assert np.allclose(exact @ a, w.dense())
        assert found.objective == pytest.approx(sensitivity**2 * (exact**2).sum())

    return check

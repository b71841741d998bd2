"""Products over many attributes, whose sensitivities no float holds: compared, or left out, but never in the way."""

import math
import warnings

import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy, select
from dpnotebook.strategy.catalogue import candidates, made
from dpnotebook.workload import Explicit, Kron, prefix_marginals

SIZES = (21, 34, 5, 13, 8, 40, 17, 29, 11, 38) * 3 + (2,) * 8  # together 10^40 cells


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_every_strategy_has_an_error_or_is_refused(noise):
    workload, found = prefix_marginals(SIZES, 1), {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for candidate in candidates(workload, noise):
            if candidate.optimized:
                continue
            try:
                found[candidate.name] = made(candidate, workload, noise).objective
            except WorkloadError:
                found[candidate.name] = math.inf
    assert found["wavelet"] > found["itself"] > 0
    assert not any(map(math.isnan, found.values()))


def test_the_best_of_wide_prefixes():
    best = select(prefix_marginals(SIZES, 1), noise="gaussian", effort="quick")
    assert 0 < best.objective < math.inf


def test_errors_do_not_depend_on_the_scale_of_a_strategy():
    """A weight of 2^24 on each of 21 attributes: a squared sensitivity of 2^1029, and the error of weight one."""
    plain, heavy = Explicit([[1, 1], [0, 1]]), Explicit([[2**24, 2**24], [0, 2**24]])
    workload = Kron(*[plain] * 21)
    one = Strategy(workload, Kron(*[plain] * 21), "gaussian", "as it is")
    large = Strategy(workload, Kron(*[heavy] * 21), "gaussian", "heavier")
    assert large.objective == pytest.approx(one.objective)
    assert large.worst == pytest.approx(one.worst)

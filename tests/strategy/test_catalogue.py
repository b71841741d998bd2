"""What there is to compare: who suits which workload, and that what is made answers it."""

import numpy as np
import pytest

from dpnotebook import strategy
from dpnotebook.errors import Cancelled, WorkloadError
from dpnotebook.strategy.catalogue import CANDIDATES, Candidate, candidates, form, made
from dpnotebook.workload import AllRange, Identity, Kron, Marginals, Prefix, Total, marginals, prefix_marginals

WORKLOADS = {
    "ranges": AllRange(12),
    "several kinds": AllRange(8) + Identity(8),
    "product": Kron(Prefix(4), Identity(3)),
    "marginals": marginals((2, 3, 4), upto=2),
    "prefix-marginals": prefix_marginals((2, 3, 4), 2),
    "different attributes": Kron(Identity(2), Total(6)) + Kron(Total(3), Identity(4)),
}


def names(workload, noise="laplace"):
    return [candidate.name for candidate in candidates(workload, noise)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_candidate_answers_what_it_says_it_suits(workload, noise):
    found = candidates(workload, noise)
    assert [each.name for each in found[:2]] == ["identity", "itself"]
    told = []
    for candidate in found:
        one = made(candidate, workload, noise, report=lambda *said: told.append(said))
        assert one.workload == workload
        assert one.noise == noise
        assert one.bound * (1 - 1e-9) <= one.objective < np.inf
    assert all(fraction is None or 0 <= fraction <= 1 for fraction, _ in told)


def test_those_first_that_take_no_time():
    optimized = [candidate.optimized for candidate in CANDIDATES]
    assert optimized == sorted(optimized)
    assert any(optimized)
    assert len({candidate.title for candidate in CANDIDATES}) == len(CANDIDATES)


def test_names_are_those_of_functions():
    for candidate in CANDIDATES:
        assert callable(getattr(strategy, candidate.name)), candidate.name


def test_trees_are_for_attributes_in_order_and_marginals_for_several():
    assert {"h2", "wavelet"} <= set(names(AllRange(12)))
    assert "h2" not in names(marginals((2, 3), 1))
    assert "datacube" in names(marginals((2, 3), 1))
    assert "datacube" not in names(AllRange(12))
    assert "opt_residual" in names(marginals((2, 3), 1), "gaussian")
    assert "opt_residual" not in names(marginals((2, 3), 1), "laplace")


def test_the_form_of_marginals_is_known_over_any_domain():
    found = form(marginals((10,) * 30, upto=2))
    assert (found.attributes, found.cells, found.products, found.ordered) == (30, 10, 466, False)
    assert form(Marginals([Prefix(3), Identity(4)], [((0,), 1)])).ordered


def test_a_strategy_that_leaves_answers_open_is_refused():
    def half(workload, noise, report):
        return strategy.Strategy(workload, Total(4), noise, "half")

    with pytest.raises(WorkloadError, match="do not determine"):
        made(Candidate("half", "half", "the total", half, lambda *_: ""), Identity(4))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_whoever_searches_can_be_stopped(noise):
    def stop(fraction, doing):
        raise Cancelled("enough")

    stopped = []
    for workload in (AllRange(16), prefix_marginals((4, 5, 6), 2)):
        for candidate in candidates(workload, noise):
            if candidate.optimized:
                with pytest.raises(Cancelled):
                    made(candidate, workload, noise, report=stop)
                stopped.append(candidate.name)
    assert stopped

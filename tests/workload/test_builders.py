"""Sets of marginals over attributes given by their numbers of cells."""

import itertools
import math
import time
from functools import reduce

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Identity, Kron, Prefix, Stack, Total, marginals, prefix_marginals, small_marginals

SHAPE = (2, 3, 4)


def written_out(shape, subsets, prefix=()):
    """Return the matrix of some marginals, one product after the other."""
    blocks = []
    for subset in subsets:
        factors = [
            np.tril(np.ones((n, n))) if i in subset and i in prefix else np.eye(n) if i in subset else np.ones((1, n))
            for i, n in enumerate(shape)
        ]
        blocks.append(reduce(np.kron, factors))
    return np.vstack(blocks)


@pytest.mark.parametrize("k", range(4))
def test_marginals_of_k_attributes(k):
    chosen = list(itertools.combinations(range(3), k))
    np.testing.assert_array_equal(marginals(SHAPE, k).dense(), written_out(SHAPE, chosen))
    np.testing.assert_array_equal(prefix_marginals(SHAPE, k).dense(), written_out(SHAPE, chosen, (0, 1, 2)))
    np.testing.assert_array_equal(prefix_marginals(SHAPE, k, [1]).dense(), written_out(SHAPE, chosen, (1,)))
    upto = [subset for rank in range(k + 1) for subset in itertools.combinations(range(3), rank)]
    np.testing.assert_array_equal(marginals(SHAPE, upto=k).dense(), written_out(SHAPE, upto))
    np.testing.assert_array_equal(prefix_marginals(SHAPE, prefix=[2], upto=k).dense(), written_out(SHAPE, upto, (2,)))


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 6, 8, 11, 12, 24, 100])
def test_small_marginals(cells):
    everything = [subset for rank in range(4) for subset in itertools.combinations(range(3), rank)]
    small = [subset for subset in everything if math.prod(SHAPE[i] for i in subset) <= cells]
    found = small_marginals(SHAPE, cells)
    assert [subset for subset, _ in found.weights] == small
    assert len(small_marginals((1, *SHAPE, 1), cells).weights) == 4 * len(small)
    np.testing.assert_array_equal(small_marginals(SHAPE, cells, prefix=[0]).dense(), written_out(SHAPE, small, (0,)))


def test_small_marginals_of_many_attributes_hold_levels_of_one():
    # A growing subset may keep its size: attributes of one cell multiply nothing.
    assert len(small_marginals((1, 1, 5), 1).weights) == 4
    assert len(small_marginals((1, 1, 5), 5).weights) == 8


def test_100_attributes():
    started = time.process_time()
    w = marginals([10] * 100, upto=3)
    assert len(w.weights) == 166_751
    assert w.shape == (1 + 100 * 10 + 4950 * 100 + 161_700 * 1000, 10**100)
    assert time.process_time() - started < 5


def test_the_same_queries_as_unions_of_products():
    w = marginals(SHAPE, 2)
    union = Stack(
        Kron(Identity(2), Identity(3), Total(4)),
        Kron(Identity(2), Total(3), Identity(4)),
        Kron(Total(2), Identity(3), Identity(4)),
    )
    np.testing.assert_array_equal(w.dense(), union.dense())
    every = Kron(*(Stack(Total(n), Identity(n)) for n in SHAPE))
    np.testing.assert_allclose(marginals(SHAPE, upto=3).gram(), every.gram())
    np.testing.assert_array_equal(prefix_marginals((5,), 1).dense(), Prefix(5).dense())
    np.testing.assert_array_equal(marginals((5,), 0).dense(), Total(5).dense())


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: marginals((), 1), "a domain without attributes has no marginals"),
        (lambda: small_marginals((), 5), "a domain without attributes has no marginals"),
        (lambda: prefix_marginals([], 0), "a domain without attributes has no marginals"),
        (lambda: marginals(5, 1), "a shape is the number of cells of each attribute"),
        (lambda: marginals("55", 1), "a shape is the number of cells of each attribute"),
        (
            lambda: marginals((5, 0), 1),
            "cells of an attribute must be a whole number of at least 1, not 0",
        ),
        (lambda: marginals((5, float("nan")), 1), "whole number of at least 1, not nan"),
        (lambda: marginals((5, 2.0), 1), "whole number of at least 1, not 2.0"),
        (lambda: marginals(SHAPE), "exactly one of k and upto="),
        (lambda: marginals(SHAPE, 1, upto=2), "exactly one of k and upto="),
        (lambda: marginals(SHAPE, 4), "marginals of 4 attributes need at least as many, and there are 3; write k=3"),
        (lambda: marginals((5,), upto=2), "there is 1; write upto=1"),
        (lambda: marginals(SHAPE, -1), "k must be a whole number of at least 0, not -1"),
        (lambda: marginals(SHAPE, upto=1.5), "upto must be a whole number of at least 0, not 1.5"),
        (lambda: marginals(SHAPE, True), "k must be a whole number"),
        (lambda: small_marginals(SHAPE, 0), "the most cells of a marginal must be a whole number of at least 1"),
        (lambda: prefix_marginals(SHAPE, 1, [3]), "positions of attributes, 0 to 2, not 3"),
        (lambda: prefix_marginals(SHAPE, 1, [-1]), "the position of an ordered attribute must be a whole number"),
        (lambda: prefix_marginals(SHAPE, 1, 2), "lists positions of ordered attributes"),
        (lambda: marginals([2] * 100, 6), r"these are 1,192,052,400 marginals, and at most 1,000,000 are possible"),
        (lambda: small_marginals([2] * 40, 1000), "373,585,604 marginals have at most 1,000 cells"),
    ],
)
def test_what_is_no_set_of_marginals_is_refused(make, why):
    with pytest.raises(WorkloadError, match=why):
        make()


def test_answers_that_do_not_fit_are_refused_with_their_size():
    huge = marginals([10] * 20, 2)
    with pytest.raises(WorkloadError, match=r"would take [\d,.]+ GiB \(the limit is 2\.0 GiB\)"):
        huge.gram()
    with pytest.raises(WorkloadError, match=r"would take [\d,.]+ GiB"):
        huge.column_norms()
    assert huge.l1_sensitivity == math.comb(20, 2)

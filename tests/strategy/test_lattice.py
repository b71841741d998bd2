"""Losses of subsets of attributes against dense matrices."""

import itertools
import tracemalloc

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.attribute_split import attribute_split
from dpnotebook.strategy.lattice import lattice, pairs_within
from dpnotebook.workload import AllRange, Hierarchy, Identity, Kron, Marginals, Prefix, Stack, Total, marginals

FULL_RANK = [Identity(3), Prefix(3), Hierarchy(3, 2), Stack(Identity(3), 2 * Total(3))]
ASKED = [Identity, Prefix, AllRange, lambda n: Stack(Total(n), Identity(n))]


def random_union(rng, sizes, terms=4):
    """Random products over random subsets of the attributes, with weights."""
    parts = []
    for _ in range(terms):
        factors = [rng.choice(ASKED)(n) if rng.random() < 0.6 else Total(n) for n in sizes]
        parts.append(float(rng.integers(1, 5)) * Kron(*factors))
    return Stack(*parts)


@pytest.mark.parametrize("seed", range(12))
def test_losses_over_precisions_are_the_error(seed):
    # The definition: |W A^+|^2 with A a random weighted stack of products over subsets, all with full rank together.
    rng = np.random.default_rng(seed)
    sizes = (3, 3, 3)
    factors = [FULL_RANK[i] for i in rng.integers(0, len(FULL_RANK), size=3)]
    subsets = [s for k in range(4) for s in itertools.combinations(range(3), k) if k == 3 or rng.random() < 0.5]
    operator = Marginals(factors, [(subset, int(rng.integers(1, 9))) for subset in subsets])
    w = random_union(rng, sizes)
    found = lattice(w)
    splits = [attribute_split(factor) for factor in factors]
    alpha = [split.squared_means(kind) for split, kinds in zip(splits, found.kinds, strict=True) for kind in kinds]
    beta = [split.total_variance(kind) for split, kinds in zip(splits, found.kinds, strict=True) for kind in kinds]
    losses = found.losses(np.array(alpha), np.array(beta))
    error = 0.0
    for subset, loss in zip(found.subsets, losses, strict=True):
        told = [
            weight**2 * np.prod([splits[i].s for i in b if i not in subset])
            for b, weight in operator.weights
            if set(subset) <= set(b)
        ]
        error += loss / sum(told)
    exact = np.linalg.norm(w.dense() @ np.linalg.pinv(operator.dense().astype(float))) ** 2
    assert error == pytest.approx(exact, rel=1e-9)


def test_derivatives_are_finite_differences():
    rng = np.random.default_rng(1)
    found = lattice(random_union(rng, (3, 4, 2, 5), terms=7))
    count = found.attribute.size
    alpha, beta = rng.random(count) + 0.5, rng.random(count) + 0.5
    slopes = rng.random(len(found.subsets))
    of_alpha, of_beta = found.sensitivities(alpha, beta, slopes)
    step = 1e-6
    for k in range(count):
        up, down = (np.where(np.arange(count) == k, step * sign, 0.0) for sign in (1, -1))
        by_alpha = slopes @ (found.losses(alpha + up, beta) - found.losses(alpha + down, beta)) / (2 * step)
        by_beta = slopes @ (found.losses(alpha, beta + up) - found.losses(alpha, beta + down)) / (2 * step)
        assert of_alpha[k] == pytest.approx(by_alpha, rel=1e-6)
        assert of_beta[k] == pytest.approx(by_beta, rel=1e-6)


@pytest.mark.parametrize("attributes", [5, 70, 300])
def test_subsets_of_few_and_of_many_attributes(attributes):
    # Sets are numbers to the base two, to a larger base, and beyond 64 bits; each against itertools.
    ends = (0, 1, attributes - 1)
    w = Marginals([Identity(2)] * attributes, [(ends, 1), ((1,), 1), ((2, 3), 1)])
    expected = {s for subset in (ends, (2, 3)) for k in range(4) for s in itertools.combinations(subset, k)}
    assert set(lattice(w).subsets) == expected
    assert len(lattice(w).subsets) == len(expected)
    wide = Marginals([Identity(2)] * attributes, [(tuple(range(min(12, attributes))), 1)])
    assert len(lattice(wide).subsets) == 2 ** min(12, attributes)


def test_equal_products_are_merged():
    w = Stack(marginals((2, 3), 1), 3 * marginals((2, 3), 1))
    found = lattice(w)
    assert sum(len(group.squares) for group in found.groups) == 2
    np.testing.assert_allclose(found.losses(np.ones(2), np.ones(2)), [20, 10, 10])


def test_what_has_no_lattice():
    with pytest.raises(WorkloadError, match="same attributes"):
        lattice(Stack(Kron(Identity(2), Identity(6)), Kron(Identity(4), Identity(3))))
    with pytest.raises(WorkloadError, match="too many"):
        lattice(Marginals([Identity(2)] * 40, [(tuple(range(40)), 1)]))


# Numbers to the base of two; to that of 91, in one word; beyond one word. Few subsets are looked up, many compared.
@pytest.mark.parametrize(("attributes", "largest"), [(8, 8), (62, 4), (90, 4), (90, 90)])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_within_by_definition(attributes, largest, seed):
    rng = np.random.default_rng(seed)
    few = min(attributes, 8)  # so that many are within others

    def sets(count):
        flags = np.zeros((count, attributes), dtype=bool)
        for row in flags:
            row[rng.choice(few, rng.integers(0, min(few, largest) + 1), replace=False) * (attributes // few)] = True
        flags[0] = False
        flags[1] = np.arange(attributes) < largest
        return flags

    measured, asked = sets(150), np.unique(sets(300), axis=0)
    one, other = pairs_within(measured, asked)
    expected = np.argwhere((~asked[None] | measured[:, None]).all(axis=2))
    assert np.array_equal(np.stack((one, other), axis=1), expected)
    assert len(expected) > 150
    for nothing in (measured[:0], measured):
        assert [side.size for side in pairs_within(nothing, asked[:0])] == [0, 0]


def test_tens_of_thousands_of_small_sets_take_no_table_of_all_pairs():
    triples = np.zeros((19_600, 50), dtype=bool)
    for row, axes in zip(triples, itertools.combinations(range(50), 3), strict=True):
        row[list(axes)] = True
    tracemalloc.start()
    one, other = pairs_within(triples, triples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(one, np.arange(19_600))
    assert np.array_equal(other, one)
    assert peak < 50e6  # a table of truth values takes 384 MB

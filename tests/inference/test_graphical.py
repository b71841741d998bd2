"""The graphical model is the solution of its convex problem; without its package, the error says what to install."""

import math
import sys

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.inference import graphical_model, nonnegative
from dpnotebook.inference.consistent import nearest_marginals
from dpnotebook.inference.graphical import junction_tree
from dpnotebook.inference.nonnegative import best_total
from dpnotebook.workload import Centred, Hierarchy, Identity, Kron, Marginals, Prefix, Stack, Total

SIZES = (6, 5, 4, 7)
NOISE = 10.0


@pytest.fixture
def mbi():
    return pytest.importorskip("mbi", reason='graphical models need the extra "pgm"')


def measured(factors, subsets, seed=0, noise=NOISE):
    rng = np.random.default_rng(seed)
    operator = Marginals(factors, subsets)
    x = rng.multinomial(3000, rng.dirichlet(np.full(math.prod(SIZES), 0.05)))
    return operator, x, operator.matvec(x) + noise * rng.normal(size=operator.shape[0])


@pytest.mark.parametrize("subsets", [[((0, 1), 1), ((1, 2), 2), ((2, 3), 1)], [((0, 1), 1), ((1, 2), 3), ((0, 2), 1)]])
def test_is_the_best_of_all_cells(mbi, subsets):
    operator, _, noisy = measured([Identity(n) for n in SIZES], subsets)
    found, best = graphical_model(operator, noisy), nonnegative(operator, noisy)
    assert found.total == pytest.approx(best.total)
    for subset, _ in subsets:
        # Mirror descent is stopped a hundredth of the noise from the optimum.
        np.testing.assert_allclose(found.marginal(subset), best.marginal(subset), atol=NOISE / 100)
    np.testing.assert_allclose(found.answers(operator), best.answers(operator), atol=3 * NOISE / 100)


def test_other_queries_than_counts(mbi):
    factors = [Prefix(6), Centred(5), Hierarchy(4, 2), Identity(7)]
    operator, _, noisy = measured(factors, [((), 5), ((0,), 2), ((0, 1), 1), ((1,), 3), ((1, 2), 2), ((2, 3), 1)])
    found, nearest = graphical_model(operator, noisy), nearest_marginals(operator, noisy, best_total(operator, noisy))
    for subset, table in nearest.items():
        np.testing.assert_allclose(found.marginal(subset), table, atol=NOISE / 100)


def test_marginals_agree_and_every_other_follows(mbi):
    operator, _, noisy = measured([Identity(n) for n in SIZES], [((0, 1), 1), ((1, 2), 1), ((2, 3), 1)])
    found = graphical_model(operator, noisy)
    pairs = {pair: found.marginal(pair) for pair in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]}
    for pair, table in pairs.items():
        assert table.min() >= 0
        for other, second in pairs.items():
            for i in set(pair) & set(other):
                mine, theirs = table.sum(axis=1 - pair.index(i)), second.sum(axis=1 - other.index(i))
                np.testing.assert_allclose(mine, theirs, atol=1e-6)
    # Of greatest entropy: given the attribute between them, the outer two are independent.
    inner = pairs[(1, 2)].sum(axis=0)
    middle = found.marginal((1, 2, 3))
    np.testing.assert_allclose(middle, pairs[(1, 2)][:, :, None] * pairs[(2, 3)][None] / inner[:, None], atol=1e-6)
    assert found.answers(Kron(Total(6), Prefix(5), Total(4), Total(7)))[-1] == pytest.approx(found.total)


def test_is_nearer_to_the_truth_than_least_squares(mbi):
    pairs = [((0, 1), 1), ((1, 2), 1), ((2, 3), 1)]
    better = []
    for seed in range(10):
        operator, x, noisy = measured([Identity(n) for n in SIZES], pairs, seed, noise=40)
        truth = operator.matvec(x)
        plain = operator.matvec(np.linalg.pinv(operator.dense().astype(float)) @ noisy)
        found = graphical_model(operator, noisy).answers(operator)
        better.append(((plain - truth) ** 2).mean() - ((found - truth) ** 2).mean())
    # The mean gain is above nothing by more than three of its standard errors.
    assert np.mean(better) > 3 * np.std(better, ddof=1) / math.sqrt(len(better))


def test_precision_is_that_of_jax_elsewhere_when_done(mbi):
    import jax

    before = jax.config.jax_enable_x64
    operator, _, noisy = measured([Identity(n) for n in SIZES], [((0, 1), 1)])
    graphical_model(operator, noisy, total=3000)
    assert jax.config.jax_enable_x64 == before


def test_no_rows_at_all():
    operator = Marginals([Identity(n) for n in SIZES], [((0, 1), 1)])
    found = graphical_model(operator, np.full(30, -1.0))
    assert found.total == 0
    assert not found.marginal((0, 3)).any()


def test_a_tree_that_is_too_large_is_refused_with_its_size():
    sizes = [100] * 8
    operator = Marginals([Identity(n) for n in sizes], [((i, j), 1) for j in range(8) for i in range(j)])
    with pytest.raises(WorkloadError, match=r"10,000,000,000,000,000 cells .* measure fewer or smaller marginals"):
        graphical_model(operator, np.ones(operator.shape[0]))


def test_products_over_different_attributes_are_refused():
    operator = Stack(Kron(Identity(3), Identity(4)), Identity(12))
    with pytest.raises(WorkloadError, match="products over the same attributes"):
        graphical_model(operator, np.ones(24))


def test_queries_that_are_no_marginals_are_refused(mbi):
    operator = Stack(Kron(Identity(3), Prefix(4)), Kron(Identity(3), Hierarchy(4, 2)))
    with pytest.raises(WorkloadError, match="one kind of queries an attribute"):
        graphical_model(operator, np.ones(operator.shape[0]))


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)
    operator = Marginals([Identity(n) for n in SIZES], [((0, 1), 1)])
    with pytest.raises(WorkloadError, match=r'pip install "dpnotebook\[pgm\]"'):
        graphical_model(operator, np.ones(30))


def test_a_junction_tree_has_every_subset_within_a_clique():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(1, 9, size=7).tolist()
        subsets = [tuple(sorted(rng.choice(7, size=rng.integers(0, 4), replace=False).tolist())) for _ in range(6)]
        tree = junction_tree(sizes, subsets)
        assert all(any(set(subset) <= clique for clique in tree) for subset in subsets)
        assert set().union(*tree) == set(range(7))
    assert sorted(map(sorted, junction_tree([2, 3, 4], [(0, 1), (1, 2)]))) == [[0, 1], [1, 2]]
    # A ring of four needs one chord, of the smaller two cliques.
    ring = junction_tree([2, 9, 2, 9], [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert sorted(map(sorted, ring)) == [[0, 1, 2], [0, 2, 3]]

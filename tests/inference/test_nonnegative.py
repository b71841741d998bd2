"""Counts that are never negative are the solution of their convex problem, and nearer to the truth than raw ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from dpnotebook.errors import Cancelled, WorkloadError
from dpnotebook.inference import nonnegative
from dpnotebook.inference.consistent import nearest_marginals
from dpnotebook.inference.marginal_algebra import marginal_algebra
from dpnotebook.inference.nonnegative import best_total
from dpnotebook.inference.simplex import _descend, _interior, on_simplex
from dpnotebook.progress import silent
from dpnotebook.workload import AllRange, Centred, Hierarchy, Identity, Kron, Marginals, Prefix, Stack, Total
from dpnotebook.workload.marginals import largest_subsets


def by_active_sets(operator, noisy, total):
    """Return the answers of the best non-negative cells of that sum: the sum is one more row, of great weight."""
    a = operator.dense().astype(float)
    weight = 1e4 * np.linalg.norm(a)
    x, _ = nnls(np.vstack([a, np.full((1, a.shape[1]), weight)]), np.append(noisy, weight * total))
    return a @ x


def correlated(sizes, rows, rng):
    """Return the table of people of a few kinds: sparse, and with attributes that depend on one another."""
    kinds = rng.integers(5, size=rows)
    columns = [
        (rng.dirichlet(np.full(n, 0.3), size=5).cumsum(axis=1)[kinds] < rng.random((rows, 1))).sum(axis=1)
        for n in sizes
    ]
    return np.array([np.minimum(column, n - 1) for column, n in zip(columns, sizes, strict=True)])


def tables(columns, sizes, subsets):
    found = []
    for subset in subsets:
        if not subset:
            found.append([float(columns.shape[1])])
            continue
        index = np.ravel_multi_index(tuple(columns[i] for i in subset), [sizes[i] for i in subset])
        found.append(np.bincount(index, minlength=np.prod([sizes[i] for i in subset])).astype(float))
    return np.concatenate(found)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cells_are_those_of_an_active_set_method(data, workloads):
    operator = data.draw(workloads())
    if operator.shape[1] < 2:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(0, 6, size=operator.shape[1])
    noisy = operator.matvec(x) + 5 * rng.normal(size=operator.shape[0])
    total = float(max(1, x.sum()))
    found = nonnegative(operator, noisy, total=total)
    best = by_active_sets(operator, noisy, total)
    length = np.linalg.norm(noisy - best)
    assert np.linalg.norm(found.answers(operator) - best) <= 1e-3 * length + 2e-6 * np.linalg.norm(noisy)
    (cells,) = found.tables.values()
    assert cells.min() >= 0
    assert cells.sum() == pytest.approx(total)


@pytest.mark.parametrize("operator", [Identity(300), Hierarchy(300, 4), Kron(Hierarchy(20, 3), Identity(15))])
def test_descent_and_interior_points_agree(operator):
    rng = np.random.default_rng(1)
    x = rng.multinomial(4000, rng.dirichlet(np.full(300, 0.1)))
    noisy = operator.matvec(x) + 10 * rng.normal(size=operator.shape[0])
    first, second = (operator.matvec(find(operator, noisy, 4000.0, silent)) for find in (_descend, _interior))
    assert np.linalg.norm(first - second) < 1e-2 * np.linalg.norm(second - noisy)


@given(values=st.lists(st.floats(-100, 100), min_size=1, max_size=30), total=st.floats(0.01, 1000))
def test_the_nearest_point_of_a_simplex(values, total):
    v = np.array(values)
    x = on_simplex(v, total)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(total)
    # Optimal: what is above 0 lies below v by one and the same amount, what is 0 by no more.
    below = v - x
    assert np.ptp(below[x > 0]) < 1e-9 * (1 + total + np.abs(v).max())
    assert (below[x == 0] <= below[x > 0].max() + 1e-9 * (1 + total)).all()


@pytest.mark.parametrize(
    "factors",
    [
        [Identity(6), Identity(5), Identity(4)],
        [Centred(6), Centred(5), Centred(4)],
        [Centred(6), Identity(5), Centred(4)],
    ],
    ids=["marginals", "residuals", "mixed"],
)
def test_marginals_along_a_tree_are_those_of_the_best_cells(factors):
    # Along a tree, whatever agrees pairwise belongs to some cells, so both ways solve the same problem.
    rng = np.random.default_rng(2)
    operator = Marginals(factors, [((), 6), ((0,), 3), ((1,), 3), ((2,), 3), ((0, 1), 2), ((1, 2), 1)])
    x = rng.multinomial(500, rng.dirichlet(np.full(120, 0.1)))
    noisy = operator.matvec(x) + 20 * rng.normal(size=operator.shape[0])
    found = nearest_marginals(operator, noisy, 500.0)
    cells = _interior(operator, noisy, 500.0, silent).reshape(6, 5, 4)
    np.testing.assert_allclose(found[(0, 1)], cells.sum(axis=2), atol=0.05)
    np.testing.assert_allclose(found[(1, 2)], cells.sum(axis=0), atol=0.05)
    assert found[(0, 1)].min() >= 0


@pytest.mark.parametrize("kind", [Identity, Centred, Prefix, lambda n: Hierarchy(n, 3)])
def test_marginals_of_huge_domains_agree_and_are_nearer_to_the_truth(kind):
    rng = np.random.default_rng(3)
    sizes = [40, 3, 9, 7, 15, 5, 30, 4, 12, 25]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    weights = [(pair, 1) for pair in pairs]
    if kind is Centred:
        weights = [((), 400), *[((i,), 20) for i in range(len(sizes))], *weights]
    operator = Marginals([kind(n) for n in sizes], weights)
    asked = Marginals([Identity(n) for n in sizes], [(pair, 1) for pair in pairs])
    columns = correlated(sizes, 3000, rng)
    truth = tables(columns, sizes, pairs)
    exact = []
    for subset, weight in weights:
        counts = tables(columns, sizes, [subset])
        exact.append(weight * (Kron(*[operator.factors[i] for i in subset]).matvec(counts) if subset else counts))
    noise = 6.0 if kind is not Centred else 1500.0
    noisy = np.concatenate(exact) + noise * rng.normal(size=operator.shape[0])
    found = nonnegative(operator, noisy)
    for pair, table in found.tables.items():
        assert table.min() >= 0
        assert table.sum() == pytest.approx(found.total, rel=1e-9)
        for other, second in found.tables.items():
            for i in set(pair) & set(other):
                mine = table.sum(axis=1 - pair.index(i))
                np.testing.assert_allclose(mine, second.sum(axis=1 - other.index(i)), atol=1e-6)
    plain = marginal_algebra(asked, operator).answers(noisy)
    first = np.sqrt(((found.answers(asked) - truth) ** 2).mean())
    second = np.sqrt(((plain - truth) ** 2).mean())
    assert first < 0.9 * second


def test_answers_are_sums_of_the_counts():
    rng = np.random.default_rng(4)
    operator = Marginals([Identity(20), Identity(30), Identity(4)], [((0, 1), 1), ((1, 2), 2)])
    found = nonnegative(operator, rng.normal(10, 30, size=operator.shape[0]))
    asked = 3 * Kron(Prefix(20), AllRange(30), Total(4)) + Kron(Total(20), Total(30), Prefix(4))
    table = found.marginal((0, 1))
    expected = [3 * Kron(Prefix(20), AllRange(30)).matvec(table.ravel()), np.cumsum(found.marginal((2,)))]
    np.testing.assert_allclose(found.answers(asked), np.concatenate(expected), rtol=1e-9)
    assert found.answers(Kron(Total(20), Total(30), Total(4)))[0] == pytest.approx(found.total)


def test_the_total_is_that_of_least_squares():
    rng = np.random.default_rng(5)
    operator = Marginals([Identity(4), Identity(7), Identity(3)], [((0, 1), 1), ((1, 2), 3), ((2,), 2)])
    noisy = rng.normal(50, 10, size=operator.shape[0])
    assert best_total(operator, noisy) == pytest.approx((np.linalg.pinv(operator.dense().astype(float)) @ noisy).sum())
    single = 2 * Kron(Hierarchy(5, 2), Prefix(4))
    noisy = rng.normal(50, 10, size=single.shape[0])
    assert best_total(single, noisy) == pytest.approx((np.linalg.pinv(single.dense().astype(float)) @ noisy).sum())


def test_parts_over_different_attributes_tell_the_total_each():
    operator = Stack(Kron(Hierarchy(5, 2), Identity(4)), 2 * Prefix(20))
    x = np.random.default_rng(6).integers(0, 9, size=20)
    assert best_total(operator, operator.matvec(x)) == pytest.approx(x.sum())
    assert nonnegative(operator, operator.matvec(x)).answers(operator) == pytest.approx(operator.matvec(x), abs=1e-2)


def test_next_to_nothing_is_nothing():
    operator = Marginals([Identity(40), Identity(40), Identity(40)], [((0, 1), 1), ((1, 2), 1)])
    found = nonnegative(operator, np.full(operator.shape[0], -1.0))
    assert found.total == 0
    assert not found.answers(operator).any()
    assert not nonnegative(Prefix(5), [-1, -2, -3, -4, -5]).answers(Identity(5)).any()


def test_largest_subsets():
    assert largest_subsets([(), (0,), (0, 1), (1,), (2,), (1, 3), (0, 1)]) == [(0, 1), (1, 3), (2,)]


def test_what_cannot_be_said_is_refused():
    pairs = Marginals([Identity(40)] * 3, [((0, 1), 1), ((1, 2), 1)])
    noisy = np.ones(pairs.shape[0])
    with pytest.raises(WorkloadError, match="one finite number for each of 3,200 measurements"):
        nonnegative(pairs, [1.0])
    with pytest.raises(WorkloadError, match="total= is the number of rows"):
        nonnegative(pairs, noisy, total=-1)
    found = nonnegative(pairs, noisy)
    with pytest.raises(WorkloadError, match=r"nothing was measured of the attributes \(0, 2\) together"):
        found.marginal((0, 2))
    with pytest.raises(WorkloadError, match="not ascending positions"):
        found.marginal((1, 0))
    with pytest.raises(WorkloadError, match="over other attributes"):
        found.answers(Identity(7))
    residuals = Marginals([Centred(40), Centred(40)], [((0,), 1), ((0, 1), 1)])
    with pytest.raises(WorkloadError, match="give total="):
        nonnegative(residuals, np.ones(residuals.shape[0]))
    with pytest.raises(WorkloadError, match="do not determine every cell"):
        nonnegative(residuals, np.ones(residuals.shape[0]), total=100)
    uneven = Stack(Kron(Prefix(700), Identity(700)), Kron(Identity(700), Identity(700)))
    with pytest.raises(WorkloadError, match="490,000 cells need measurements of marginals"):
        nonnegative(uneven, np.ones(uneven.shape[0]))


def test_it_may_be_cancelled():
    def stop(*_):
        raise Cancelled("stopped")

    pairs = Marginals([Identity(40)] * 3, [((0, 1), 1), ((1, 2), 1)])
    for operator in (pairs, Hierarchy(100, 3), Hierarchy(2000, 3)):
        with pytest.raises(Cancelled):
            nonnegative(operator, np.random.default_rng(0).normal(50, 99, size=operator.shape[0]), report=stop)

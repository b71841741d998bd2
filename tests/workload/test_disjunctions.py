"""Differences of workloads, and disjunctions as everything but the negations (HDMM, appendix A)."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import identity, select
from dpnotebook.workload import (
    AllRange,
    Difference,
    Explicit,
    Identity,
    Kron,
    Ones,
    Permuted,
    Predicates,
    Prefix,
    Stack,
    Total,
    WidthRange,
    Workload,
    complement,
    disjunction,
)
from dpnotebook.workload.terms import terms


def by_logic(factors):
    """Return the matrix of "this or that", cell by cell, from the truth of each query in each cell."""
    dense = [factor.dense() != 0 for factor in factors]
    queries = itertools.product(*(range(len(one)) for one in dense))
    cells = list(itertools.product(*(range(one.shape[1]) for one in dense)))
    return np.array([[any(one[q][c] for one, q, c in zip(dense, query, cell, strict=True)) for cell in cells]
                     for query in queries])  # fmt: skip


EXAMPLES = [
    (Identity(3), WidthRange(4, 2)),
    (Predicates([[1, 0, 1], [0, 0, 1]]), Identity(2)),
    (Prefix(3), AllRange(3)),
    (Identity(2), Identity(3), Permuted(Prefix(2), [1, 0])),
    (Stack(Identity(3), Predicates([[1, 1, 0]])), Explicit([[1, 0], [1, 1]])),
    (Kron(Identity(2), Prefix(2)), Identity(3)),
]


@pytest.mark.parametrize("factors", EXAMPLES, ids=repr)
def test_a_disjunction_is_the_logical_or(factors):
    w, dense = disjunction(*factors), by_logic(factors).astype(float)
    m, n = dense.shape
    assert w.shape == (m, n)
    assert w.integer
    np.testing.assert_array_equal(w.dense(), dense)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 99, size=n), rng.integers(0, 99, size=m)
    np.testing.assert_array_equal(w.matvec(x), dense @ x)
    np.testing.assert_array_equal(w.rmatvec(y), dense.T @ y)
    np.testing.assert_allclose(w.gram(), dense.T @ dense, atol=1e-9)
    for power in (1, 2):
        np.testing.assert_array_equal(w.column_norms(power), dense.sum(axis=0))
        assert w.max_column_norm(power) == dense.sum(axis=0).max()
        assert w.column_norms(power).dtype == np.int64
    assert w.frobenius_squared() == dense.sum()
    matrix = rng.normal(size=(n, n))
    np.testing.assert_allclose(w.quadratic(matrix), np.einsum("mi,ij,mj->m", dense, matrix, dense))
    assert Workload.from_json(w.to_json()) == w
    assert len({w, disjunction(*factors), Difference(Ones(n, m), Explicit(1 - dense))}) == 2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_difference(data, workloads, by_definition):
    n = data.draw(st.integers(1, 8))
    left = data.draw(workloads(n, integer=True, depth=1))
    rows = st.lists(st.integers(-3, 3), min_size=n, max_size=n)
    matrix = data.draw(st.lists(rows, min_size=left.shape[0], max_size=left.shape[0]).filter(np.any))
    if left == Explicit(matrix):
        return
    for w, dense in (
        (Difference(left, 2 * Explicit(matrix)), by_definition(left) - 2 * np.array(matrix)),
        (Difference(Kron(left, Prefix(2)), Kron(Explicit(matrix), Identity(2))),
         np.kron(by_definition(left), np.tril(np.ones((2, 2)))) - np.kron(matrix, np.eye(2))),
    ):  # fmt: skip
        np.testing.assert_allclose(w.gram(), dense.T @ dense, atol=1e-9)
        for power in (1, 2):
            np.testing.assert_array_equal(w.column_norms(power), (np.abs(dense) ** power).sum(axis=0))
            assert w.max_column_norm(power) == (np.abs(dense) ** power).sum(axis=0).max()
        assert w.frobenius_squared() == (dense**2).sum()


def test_a_negation_of_a_negation():
    w = Stack(Identity(4), WidthRange(4, 2))
    assert complement(complement(w)) == w
    masks = Predicates([[1, 0, 0], [0, 1, 1]])
    assert complement(masks) == Predicates([[0, 1, 1], [1, 0, 0]])
    assert complement(complement(masks)) == masks


def test_strategies_for_a_disjunction():
    # Each answer is exact least squares over the cells: the error is that of the strategy's pseudo-inverse.
    w = disjunction(Predicates([[1, 1, 0], [0, 1, 1]]), Prefix(4))
    mixed = Stack(w, Kron(Identity(3), Total(4)))
    for asked in (w, mixed):
        for noise in ("laplace", "gaussian"):
            found = select(asked, noise)
            a, dense = found.operator.dense().astype(float), asked.dense().astype(float)
            norm = np.abs(a).sum(axis=0).max() ** 2 if noise == "laplace" else (a**2).sum(axis=0).max()
            if not found.split:
                assert found.objective == pytest.approx(norm * ((dense @ np.linalg.pinv(a)) ** 2).sum())
            assert found.objective <= identity(asked, noise).objective * (1 + 1e-9)
            assert found.objective >= found.bound * (1 - 1e-9)
    assert len(terms(w)) == 1


def test_a_disjunction_over_a_domain_that_cannot_be_held():
    sizes = (1000, 1000, 1000)
    w = disjunction(*(Identity(n) for n in sizes))
    # One cell satisfies "a or b or c" in all queries but those that name another level in all three.
    assert w.l1_sensitivity == 1000**3 - 999**3
    assert w.frobenius_squared() == 1000**6 - math.prod(n * (n - 1) for n in sizes)
    assert identity(w).rmse(1.0) == pytest.approx(math.sqrt(2 * w.frobenius_squared() / 1000**3))
    refused = r"would take [\d.,]+ GiB \(the limit is 2\.0 GiB\)"
    with pytest.raises(WorkloadError, match=refused + "; a disjunction is answered over all cells"):
        w.rows([0])
    with pytest.raises(WorkloadError, match=refused + "; a disjunction is answered over all cells"):
        w.column_norms()
    with pytest.raises(WorkloadError, match=refused):
        w.gram()
    with pytest.raises(WorkloadError, match=refused):
        select(w).error_factors()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: disjunction(Identity(3)), "two or more attributes"),
        (lambda: disjunction(Identity(3), 2), "made of workloads, not of int"),
        (lambda: disjunction(Identity(3), Explicit([[2, 0]])), "only queries with coefficients 0 and 1 can be negated"),
        (lambda: disjunction(Identity(3), 2 * Identity(2)), "only queries with coefficients 0 and 1 can be negated"),
        (lambda: disjunction(Identity(3), Total(2)), "queries that hold every cell asks nothing"),
        (lambda: Difference(Identity(3), Prefix(4)), "3 queries over 3 cells and 4 queries over 4 cells"),
        (lambda: Difference(Identity(3), Identity(3)), "asks nothing"),
        (lambda: Difference(Identity(3), np.eye(3)), "one of workloads, not of ndarray"),
    ],
)
def test_what_is_no_difference_is_refused(make, why):
    with pytest.raises(WorkloadError, match=why):
        make()

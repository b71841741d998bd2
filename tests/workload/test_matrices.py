"""Every implicit operation equals the same operation on the matrix written out from its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.workload import (
    AllRange,
    Difference,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Ones,
    Padded,
    Permuted,
    Predicates,
    Prefix,
    Stack,
    Toeplitz,
    Total,
    Weighted,
    WidthRange,
    Workload,
    disjunction,
)

EXAMPLES = [
    Identity(1),
    Identity(7),
    Total(1),
    Total(6),
    Prefix(1),
    Prefix(9),
    AllRange(1),
    AllRange(8),
    Hierarchy(1, 2),
    Hierarchy(8, 2),
    Hierarchy(11, 3),
    Hierarchy(11, 3, 2),
    Hierarchy(10, 10),
    Hierarchy(9, 4, 1),
    Toeplitz([3]),
    Toeplitz([5, -2, 0, 1, 7]),
    Toeplitz([0.5, 0.25, -1.5]),
    Kron(Toeplitz([2, 1, 1]), Prefix(2)),
    Explicit([[1, 0, -2], [0, 3, 1]]),
    Explicit([[0.5, 1.5]]),
    Kron(Prefix(3), Total(2), AllRange(3)),
    Stack(Identity(4), Total(4), Prefix(4)),
    Weighted(3, AllRange(5)),
    Weighted(0.3, Kron(Identity(2), Prefix(3))),
    Stack(Kron(Total(3), Identity(2)), 2 * Kron(Identity(3), Total(2)), Hierarchy(6, 2)),
    Kron(Stack(Identity(3), Total(3)), Stack(Prefix(2), 2 * Total(2))),
    WidthRange(9, 4),
    WidthRange(5, 5),
    Ones(4, 3),
    Padded(AllRange(4), 2),
    Permuted(AllRange(5), [4, 0, 3, 1, 2]),
    Predicates([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]),
    Difference(Prefix(4), Explicit(np.arange(16).reshape(4, 4))),
    disjunction(Identity(3), Predicates([[1, 0], [0, 1]])),
    Kron(Padded(Prefix(2), 1), Permuted(WidthRange(3, 2), [2, 0, 1])),
]


def check(w, dense, rng):
    m, n = dense.shape
    assert w.shape == (m, n)
    np.testing.assert_allclose(w.dense(), dense, atol=1e-12)
    x, y = rng.normal(size=n), rng.normal(size=m)
    np.testing.assert_allclose(w.matvec(x), dense @ x, atol=1e-9)
    np.testing.assert_allclose(w.rmatvec(y), dense.T @ y, atol=1e-9)
    xs, ys = rng.normal(size=(n, 3)), rng.normal(size=(m, 2))
    np.testing.assert_allclose(w.matvec(xs), dense @ xs, atol=1e-9)
    np.testing.assert_allclose(w.rmatvec(ys), dense.T @ ys, atol=1e-9)
    gram = dense.T @ dense
    np.testing.assert_allclose(w.gram(), gram, atol=1e-9)
    for power in (1, 2):
        norms = (np.abs(dense) ** power).sum(axis=0)
        np.testing.assert_allclose(w.column_norms(power), norms, atol=1e-9)
        assert w.max_column_norm(power) == pytest.approx(norms.max())
    assert w.l1_sensitivity == pytest.approx(np.abs(dense).sum(axis=0).max())
    assert w.l2_sensitivity == pytest.approx(np.linalg.norm(dense, axis=0).max())
    assert w.frobenius_squared() == pytest.approx((dense**2).sum())
    square = rng.normal(size=(2, n, n))
    expected = np.einsum("mi,kij,mj->km", dense, square, dense)
    np.testing.assert_allclose(w.quadratic(square), expected, atol=1e-8)
    starts, ends = np.triu_indices(n + 1, 1)
    runs = np.array([gram[s:e, s:e].sum() for s, e in zip(starts, ends, strict=True)])
    np.testing.assert_allclose(w.energy()(starts, ends), runs, rtol=1e-9, atol=1e-9)
    some = rng.integers(0, m, size=5)
    np.testing.assert_allclose(w.rows(some), dense[some], atol=1e-12)
    assert Workload.from_json(w.to_json()) == w


@pytest.mark.parametrize("w", EXAMPLES, ids=repr)
def test_agrees_with_its_definition(w, by_definition):
    check(w, by_definition(w), np.random.default_rng(0))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_combinations_agree_with_their_definition(data, workloads, by_definition):
    w = data.draw(workloads())
    check(w, by_definition(w), np.random.default_rng(1))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_integer_workloads_answer_integer_counts_exactly(data, workloads, by_definition):
    w = data.draw(workloads(integer=True))
    assert w.integer
    # Counts near 2^55: any detour through floating point would lose their last bits.
    x = np.random.default_rng(2).integers(2**55, 2**55 + 1000, size=w.shape[1])
    dense = by_definition(w).astype(int).astype(object)
    if (np.abs(dense).sum(axis=1) * (2**55 + 1000)).max() < 2**63:
        answers = w.matvec(x)
        assert answers.dtype == np.int64
        assert answers.tolist() == (dense @ x.astype(object)).tolist()
    for power in (1, 2):
        assert w.column_norms(power).dtype == np.int64
        assert type(w.max_column_norm(power)) is int


def test_rows_of_all_range_are_lexicographic_in_start_and_end():
    n = 6
    rows = AllRange(n).dense()
    found = [(int(np.argmax(row)), int(n - 1 - np.argmax(row[::-1]))) for row in rows]
    assert found == sorted(found)
    for s, e in found:
        assert found[s * n - s * (s - 1) // 2 + (e - s)] == (s, e)


def test_rows_of_a_hierarchy_are_leaves_first():
    w = Hierarchy(5, 2)
    assert [row.nonzero()[0].tolist() for row in w.dense()] == [
        *([j] for j in range(5)),
        [0, 1],
        [2, 3],
        [4],
        [0, 1, 2, 3],
        [4],
        [0, 1, 2, 3, 4],
    ]
    assert Hierarchy(5, 2, 1).shape == (5, 5)


def test_kron_varies_its_last_factor_fastest():
    counts = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(Kron(Identity(2), Total(3)).matvec(counts.ravel()), counts.sum(axis=1))
    np.testing.assert_array_equal(Kron(Total(2), Identity(3)).matvec(counts.ravel()), counts.sum(axis=0))


def test_large_workloads_stay_implicit():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 50, size=(100, 100, 100))
    w = Kron(Prefix(100), Total(100), Identity(100))
    np.testing.assert_array_equal(w.matvec(x.ravel()).reshape(100, 100), x.sum(axis=1).cumsum(axis=0))
    assert w.l1_sensitivity == 100
    assert w.frobenius_squared() == 5050 * 100 * 100

    wide = AllRange(8192)
    counts = rng.integers(0, 50, size=8192)
    answers = wide.matvec(counts)
    sums = np.concatenate(([0], counts.cumsum()))
    picked = rng.integers(0, wide.shape[0], size=1000)
    starts, ends = wide.intervals(picked)
    np.testing.assert_array_equal(answers[picked], sums[ends] - sums[starts])
    np.testing.assert_array_equal(wide.rmatvec(np.ones(wide.shape[0], dtype=int)), wide.column_norms())
    gram = AllRange(2048).gram()
    assert gram[17, 1000] == 18 * (2048 - 1000)
    np.testing.assert_array_equal(np.diagonal(gram), AllRange(2048).column_norms())


def test_operators_read_like_algebra():
    w = Identity(3) + 2 * Prefix(3) + Total(3) * 0.5
    assert w == Stack(Identity(3), Weighted(2, Prefix(3)), Weighted(0.5, Total(3)))
    assert eval(repr(w), vars(__import__("dpnotebook.workload", fromlist=["x"]))) == w
    assert hash(w) == hash(Identity(3) + 2.0 * Prefix(3) + Total(3) * 0.5)
    assert w != Identity(3) + 2 * Prefix(3)
    assert Explicit([[1, 2]]) == Explicit(np.array([[1.0, 2.0]])) != Explicit([[2, 1]])
    assert len({Explicit([[1, 2]]), Explicit([[1, 2]]), Identity(2), Total(2), Prefix(2)}) == 4

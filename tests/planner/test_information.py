"""Least squares over atoms, held against dense pseudo-inverses."""

import numpy as np
import pytest

from dpnotebook.planner.information import FEW, Information, generalised_inverse
from dpnotebook.planner.product_terms import unique_columns
from dpnotebook.planner.solved import Combinations, screened, solve
from dpnotebook.workload import Prefix


def by_pseudo_inverse(rows, variances, query):
    """Return the variance of the best answer to a query, infinite where it is not determined."""
    weighted = rows / np.sqrt(variances)[:, None]
    combination = np.linalg.lstsq(rows.T, query, rcond=None)[0]
    if not np.allclose(combination @ rows, query, atol=1e-8):
        return np.inf
    return float(query @ np.linalg.pinv(weighted.T @ weighted) @ query)


def random_rows(rng, count, atoms, kind):
    if kind == "ranges":
        ends = np.sort(rng.integers(0, atoms + 1, (count, 2)), axis=1)
        ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
        return ((np.arange(atoms) >= ends[:, :1]) & (np.arange(atoms) < ends[:, 1:])).astype(float)
    if kind == "sets":
        return (rng.random((count, atoms)) < 0.4).astype(float)
    return rng.integers(-3, 4, (count, atoms)).astype(float)


@pytest.mark.parametrize("kind", ["ranges", "sets", "weights"])
@pytest.mark.parametrize("batch", [1, 40])
def test_variances_are_those_of_the_best_linear_unbiased_answer(kind, batch):
    rng = np.random.default_rng(1)
    for _ in range(12):
        atoms, count = int(rng.integers(2, 12)), int(rng.integers(1, 14))
        rows, variances = random_rows(rng, count, atoms, kind), 10 ** rng.uniform(0, 3, count)
        information = Information(atoms)
        for start in range(0, count, batch):
            part = slice(start, start + batch)
            information.add(rows[part], 1 / variances[part], np.zeros(rows[part].shape[0]))
        queries = np.concatenate([random_rows(rng, 6, atoms, kind), rows, np.eye(atoms)])
        found = solve(information, queries).variances(Combinations(np.eye(len(queries))))
        expected = [by_pseudo_inverse(rows, variances, query) for query in queries]
        assert found == pytest.approx(expected, rel=1e-7)


def test_answers_and_weights_are_those_of_least_squares():
    rng = np.random.default_rng(2)
    atoms, count = 9, 30
    rows, variances = random_rows(rng, count, atoms, "sets"), 10 ** rng.uniform(0, 2, count)
    noisy = rng.normal(50, 20, count)
    information = Information(atoms)
    information.add(rows, 1 / variances, noisy / variances)
    expected = np.linalg.lstsq(rows / np.sqrt(variances)[:, None], noisy / np.sqrt(variances), rcond=None)[0]
    assert solve(information, np.eye(atoms)).coefficients @ information.vector == pytest.approx(expected, rel=1e-8)


def test_many_new_directions_at_once_are_as_good_as_a_new_factorisation():
    """Groups of rows beside other groups, their differences and repeats: an update sees which of them are new."""
    rng = np.random.default_rng(13)
    atoms = 700
    first, second = ((rng.integers(0, parts, atoms) == np.arange(parts)[:, None]).astype(float) for parts in (150, 28))
    added = np.concatenate([second, second[:3] - second[3:6], second[:1]])
    precisions = [10 ** rng.uniform(-3, 0, len(rows)) for rows in (first, added)]
    updated, anew = Information(atoms), Information(atoms)
    for rows, precision in zip((first, added), precisions, strict=True):
        updated.add(rows, precision, np.zeros(len(rows)))
        assert updated.inverse is not None  # so that the next ones update it
    assert len(added) <= atoms / 20
    anew.add(np.concatenate([first, added]), np.concatenate(precisions), np.zeros(len(first) + len(added)))
    queries = np.concatenate([first, added, rng.normal(size=(20, len(added))) @ added, np.eye(atoms)[:5]])
    one, other = (solve(known, queries).variances() for known in (updated, anew))
    assert np.isfinite(one).sum() >= len(queries) - 5
    assert one == pytest.approx(other, rel=1e-9)


def test_one_by_one_and_at_once_are_the_same():
    rng = np.random.default_rng(3)
    rows, variances = random_rows(rng, 120, 60, "ranges"), 10 ** rng.uniform(0, 3, 120)
    slow, fast = Information(60), Information(60)
    for row, variance in zip(rows, variances, strict=True):
        slow.add(row[None], np.array([1 / variance]), np.zeros(1))
    assert len(rows) > FEW
    fast.add(rows, 1 / variances, np.zeros(120))
    one, other = (solve(each, rows).variances(Combinations(np.eye(120))) for each in (slow, fast))
    assert np.isfinite(one).all()
    assert one == pytest.approx(other, rel=1e-7)


def test_atoms_that_are_split_know_no_more_than_before():
    information = Information(2)
    information.add(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.1]), np.zeros(2))
    before = solve(information, np.eye(2)).variances(Combinations(np.eye(2)))
    information.split(np.array([0, 1, 1]))  # the second atom is now two
    known = solve(information, np.array([[1.0, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]])).variances(
        Combinations(np.eye(4))
    )
    assert known[:2] == pytest.approx(before)
    assert np.isinf(known[2:]).all()
    information.add(np.array([[0.0, 1, 0]]), np.array([1.0]), np.zeros(1))
    after = solve(information, np.array([[0.0, 0, 1]])).variances(Combinations(np.eye(1)))
    # What is left of the pair after one of them: the variances add up.
    assert after == pytest.approx(before[1] + 1.0)


def test_more_precision_for_a_measurement_is_the_same_as_a_better_one():
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 8, 5, "sets")
    first, second = Information(5), Information(5)
    first.add(rows, np.full(8, 0.2), np.zeros(8))
    first.add(rows[2:3], np.array([0.7]), np.zeros(1))
    second.add(rows, np.where(np.arange(8) == 2, 0.9, 0.2), np.zeros(8))
    one, other = (solve(each, rows).variances(Combinations(np.eye(8))) for each in (first, second))
    assert one == pytest.approx(other)


def test_combinations_of_queries_have_the_variances_of_their_sums():
    rng = np.random.default_rng(5)
    rows = random_rows(rng, 12, 6, "sets")
    information = Information(6)
    information.add(rows, rng.uniform(0.1, 1, 12), np.zeros(12))
    mixed = rng.integers(-2, 3, (5, 6)).astype(float)
    together = solve(information, np.eye(6)).variances(Combinations(mixed))
    apart = solve(information, mixed).variances(Combinations(np.eye(5)))
    assert together == pytest.approx(apart, rel=1e-8)


def test_what_cancels_between_undetermined_counts_is_determined():
    information = Information(3)
    information.add(np.array([[1.0, 1, 0]]), np.array([1.0]), np.zeros(1))
    solved = solve(information, np.eye(3))
    assert np.isinf(solved.variances(Combinations(np.eye(3)))).all()
    assert solved.variances(Combinations(np.array([[1.0, 1, 0]]))) == pytest.approx([1.0])


@pytest.mark.parametrize("full", [True, False])
def test_screened_variances_are_the_same(full):
    rng = np.random.default_rng(6)
    atoms = 40
    rows = random_rows(rng, 200 if full else 25, atoms, "ranges")
    information = Information(atoms)
    information.add(rows, rng.uniform(0.1, 1, len(rows)), np.zeros(len(rows)))
    bins = rng.integers(-1, 12, atoms)
    exact = solve(information, (bins == np.arange(12)[:, None]).astype(float))
    fast = screened(information, bins, 12)
    queries = rng.integers(-1, 2, (30, 12)).astype(float)
    queries = np.concatenate([queries, np.eye(12)])
    combinations = Combinations(queries)
    assert fast.variances(combinations) == pytest.approx(exact.variances(combinations), rel=1e-7)


@pytest.mark.parametrize(("decades", "all_found"), [(3, True), (10, False)])
def test_nearly_nothing_is_not_taken_for_something(decades, all_found):
    """Where precisions are very far apart an answer may be missed, but none is ever made up."""
    rng = np.random.default_rng(7)
    found, determined = [], []
    for _ in range(20):
        rows = random_rows(rng, 10, 12, "ranges")
        variances = 10 ** rng.uniform(-decades, decades, 10)
        information = Information(12)
        for row, variance in zip(rows, variances, strict=True):
            information.add(row[None], np.array([1 / variance]), np.zeros(1))
        queries = np.concatenate([np.eye(12), rows[:3] - rows[3:6], rows])
        found.extend(np.isfinite(solve(information, queries).variances(Combinations(np.eye(len(queries))))))
        rank = np.linalg.matrix_rank(rows)
        determined.extend(np.linalg.matrix_rank(np.vstack([rows, query])) == rank for query in queries)
    assert not (np.array(found) & ~np.array(determined)).any()
    assert not all_found or found == determined


def test_a_generalised_inverse_of_a_singular_matrix():
    rng = np.random.default_rng(8)
    rows = random_rows(rng, 7, 20, "sets")
    matrix = rows.T @ rows
    inverse, rank = generalised_inverse(matrix)
    assert rank == np.linalg.matrix_rank(rows)
    assert matrix @ inverse @ matrix == pytest.approx(matrix, abs=1e-9)


@pytest.mark.parametrize("count", [3, 400])
@pytest.mark.parametrize("kind", ["prefix", "windows", "any"])
def test_running_totals_are_added_up_as_the_product_is(count, kind):
    rng = np.random.default_rng(5)
    place = np.arange(count)
    rows = {
        "prefix": np.tril(np.ones((count, count))),
        "windows": ((place >= place[:, None]) & (place < place[:, None] + 7)).astype(float),
        "any": rng.normal(size=(count, count)),
    }[kind]
    values = rng.normal(size=(count, 30))
    np.testing.assert_allclose(Combinations(rows).of(values), rows @ values, rtol=0, atol=1e-11)
    operator = Prefix(count)
    columns, which = unique_columns(operator, count**2)
    assert np.array_equal(columns[:, which], operator.dense())

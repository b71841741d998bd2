"""Queries by sets of cells, ranges of one width, cells in another order, queries that leave cells out."""

import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Identity,
    Kron,
    Ones,
    Padded,
    Permuted,
    Predicates,
    Prefix,
    Stack,
    Total,
    WidthRange,
    Workload,
    complement,
)
from dpnotebook.workload.packing import packed

CENSUS = json.loads((Path(__file__).parents[2] / "notebooks/data/sf1.json").read_text())


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_runs_masks_and_inclusive_runs_are_the_same_queries(data):
    n = data.draw(st.integers(1, 20))
    run = st.tuples(st.integers(0, n - 1), st.integers(1, n)).filter(lambda run: run[0] < run[1])
    rows = data.draw(st.lists(st.lists(run, max_size=5), min_size=1, max_size=5).filter(lambda rows: any(rows)))
    masks = np.array([[any(a <= j < b for a, b in row) for j in range(n)] for row in rows])
    found = Predicates(rows, n)
    assert found == Predicates(masks) == Predicates.inclusive([[(a, b - 1) for a, b in row] for row in rows], n)
    assert hash(found) == hash(Predicates(masks.astype(float)))
    np.testing.assert_array_equal(found.dense(), masks)
    if not masks.all():
        np.testing.assert_array_equal(complement(found).dense(), ~masks)
        assert found != complement(found)


@pytest.mark.parametrize("known", [Identity(9), Total(9), Prefix(9), AllRange(9), WidthRange(9, 4), WidthRange(9, 8)])
def test_known_queries_are_recognised(known):
    assert Predicates(known.dense()).simplest() == known
    other = np.roll(known.dense(), 1, axis=0)
    if known.shape[0] > 1:
        assert isinstance(Predicates(other).simplest(), Predicates)


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_gram_matrix_of_many_rows(share):
    # Few borders a row: from pairs of borders; many: multiplied out. Both against the product.
    masks = np.random.default_rng(0).random((400, 300)) < share
    np.testing.assert_array_equal(Predicates(masks).gram(), masks.T.astype(float) @ masks.astype(float))


def test_many_ranges_are_never_a_matrix():
    n, m = 2048, 200_000  # 3 GiB as a matrix
    rng = np.random.default_rng(0)
    starts = rng.integers(0, n // 2, size=m)
    ends = starts + rng.integers(1, n // 2, size=m)
    runs = np.column_stack((starts, ends)).reshape(m, 1, 2)
    w = Predicates(runs.tolist(), n)
    counts = rng.integers(0, 100, size=n)
    sums = np.concatenate(([0], counts.cumsum()))
    started = time.process_time()
    np.testing.assert_array_equal(w.matvec(counts), sums[ends] - sums[starts])
    gram = w.gram()
    assert gram[700, 900] == ((starts <= 700) & (ends > 900)).sum()
    np.testing.assert_array_equal(np.diagonal(gram), w.column_norms())
    assert time.process_time() - started < 10


def census(plus=False):
    """Return HDMM's SF1 workload as a union of products, or SF1+ with its attribute of 51 states."""
    found = []
    for product in CENSUS["products"]:
        pairs = zip(product["rows"], CENSUS["shape"], strict=True)
        found.append(Kron(*(Predicates.inclusive(rows, n).simplest() for rows, n in pairs)))
    states = (Total(51), Identity(51))
    return Stack(*(Kron(part, state) for part in found for state in states) if plus else found)


def test_census_workloads():
    sf1, plus = census(), census(plus=True)
    assert len(sf1.parts) == 33
    assert sf1.shape == (4151, 2 * 2 * 64 * 115)
    assert plus.shape == (215_852, 2 * 2 * 64 * 115 * 51)
    # The queries of the file, by their own words: how many cells each counts.
    lengths = []
    for product in CENSUS["products"]:
        sizes = [[sum(last - first + 1 for first, last in row) for row in rows] for rows in product["rows"]]
        lengths += [
            np.prod(combination) for combination in np.stack(np.meshgrid(*sizes, indexing="ij"), -1).reshape(-1, 4)
        ]
    np.testing.assert_array_equal(sf1.matvec(np.ones(sf1.shape[1], dtype=int)), lengths)
    assert plus.l1_sensitivity == 2 * sf1.l1_sensitivity == 2 * sf1.column_norms().max()
    assert Workload.from_json(json.loads(json.dumps(sf1.to_json()))) == sf1


def test_ranges_of_one_width_between_identity_and_total():
    assert Predicates(WidthRange(7, 1).dense()).simplest() == Identity(7)
    assert Predicates(WidthRange(7, 7).dense()).simplest() == Total(7)
    wide = WidthRange(4096, 32)
    gram = wide.gram()
    assert gram[100, 131] == 1
    assert gram[100, 132] == 0
    np.testing.assert_array_equal(np.diagonal(gram), wide.column_norms())
    counts = np.random.default_rng(0).integers(0, 9, size=4096)
    np.testing.assert_array_equal(wide.matvec(counts), np.convolve(counts, np.ones(32, dtype=int), "valid"))


def test_the_gram_matrix_of_all_ranges_builds_no_row(monkeypatch):
    n = 8192  # 33,558,528 ranges; a row each would take two terabytes
    monkeypatch.setattr(AllRange, "rows", lambda *_: pytest.fail("a row was built"))
    monkeypatch.setattr(AllRange, "intervals", lambda *_: pytest.fail("a row was built"))
    tracemalloc.start()
    gram = AllRange(n).gram()
    assert tracemalloc.get_traced_memory()[1] < 1.2 * gram.nbytes
    tracemalloc.stop()
    i, j = np.random.default_rng(0).integers(0, n, size=(2, 1000))
    np.testing.assert_array_equal(gram[i, j], (np.minimum(i, j) + 1) * (n - np.maximum(i, j)))


def test_another_order_of_the_cells():
    order = np.array([2, 0, 1])
    w = Permuted(Prefix(3), order)
    # Prefix counts its first cell, then its first two: now cell 2, then cells 2 and 0.
    assert w.dense().tolist() == [[0, 0, 1], [1, 0, 1], [1, 1, 1]]
    assert Permuted(AllRange(50), 3) == Permuted(AllRange(50), np.random.default_rng(3).permutation(50))
    assert Permuted(AllRange(50), 3) != Permuted(AllRange(50), 4) != AllRange(50)
    assert hash(Permuted(AllRange(50), 3)) == hash(Permuted(AllRange(50), 3))
    assert Permuted(AllRange(4096), 0).l1_sensitivity == 2048 * 2049  # nothing of 8 million rows is formed


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0], "210", -1, True, None])
def test_an_order_holds_every_cell_once(order):
    with pytest.raises(WorkloadError, match="an order of 3 cells holds each of 0 to 2 once"):
        Permuted(Prefix(3), order)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: WidthRange(5, 6), "ranges of 6 cells do not fit into 5 cells; write a smaller width"),
        (lambda: WidthRange(5, 0), "the width of the ranges must be a whole number of at least 1, not 0"),
        (lambda: WidthRange(5, 2.0), "the width of the ranges must be a whole number"),
        (lambda: Ones(5, 0), "the number of queries must be a whole number"),
        (lambda: Padded(Prefix(3), 0), "the number of cells left out must be a whole number of at least 1"),
        (lambda: Padded(Explicit([[1]]), 1), r"a workload of runs, such as Prefix\(10\)"),
        (lambda: Permuted(5, 1), "Permuted takes a workload"),
        (lambda: Predicates([[0, 2]]), "coefficients 0 and 1"),
        (lambda: Predicates([[0.5, 1]]), "coefficients 0 and 1"),
        (lambda: Predicates([[float("nan"), 1]]), "coefficients 0 and 1"),
        (lambda: Predicates([[0, 0]]), "hold no cell"),
        (lambda: Predicates([]), "one row a query and one column a cell"),
        (lambda: Predicates([[(0, 5)]]), "give their number too"),
        (lambda: Predicates([[(0, 5)]], 4), r"\[0, 5\) is empty or leaves the 4 cells"),
        (lambda: Predicates([[(2, 2)]], 4), r"\[2, 2\) is empty or leaves the 4 cells"),
        (lambda: Predicates([[(-1, 2)]], 4), "the start of a run must be a whole number of at least 0"),
        (lambda: Predicates([[1, 2]], 4), r"a list of runs \(start, end\)"),
        (lambda: Predicates([], 4), "at least one row"),
        (lambda: Predicates([[], []], 4), "hold no cell"),
        (lambda: Predicates("ab", 4), "a list of rows"),
        (lambda: Predicates([[(0, 1)]], 0), "the number of cells must be"),
        (lambda: Predicates.inclusive([[(0, 4)]], 4), r"\[0, 5\) is empty or leaves the 4 cells"),
        (lambda: Predicates.inclusive([[(0,)]], 4), "a pair of its first and its last cell"),
        (lambda: complement(Predicates(np.ones((2, 3)))), "every cell asks nothing"),
    ],
)
def test_what_is_no_workload_is_refused(make, why):
    with pytest.raises(WorkloadError, match=why):
        make()


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_cells_are_queries_and_come_back_from_json(seed):
    random = np.random.default_rng(seed)
    groups = np.unique(random.integers(0, 6, int(random.integers(1, 30))), return_inverse=True)[1]
    found = Predicates.of_groups(groups)
    assert found == Predicates(np.array([groups == group for group in range(groups.max() + 1)]))
    assert Workload.from_json(found.to_json()) == found


def test_runs_in_json_that_are_not_in_order_or_touch_are_put_right_as_ever():
    told = Predicates([[(0, 2), (4, 6)], [(1, 3)]], n=8).to_json()
    for runs in ([[4, 6], [0, 2], [1, 3]], [[0, 5], [4, 6], [1, 3]], [[0, 2], [2, 6], [1, 3]]):
        read = Workload.from_json(told | {"runs": packed(np.array(runs))})
        assert read == Predicates([[tuple(run) for run in runs[:2]], [(1, 3)]], n=8)
    for runs in ([[0, 2], [4, 9], [1, 3]], [[0, 2], [4, 4], [1, 3]], [[-1, 2], [4, 6], [1, 3]]):
        with pytest.raises(WorkloadError):
            Workload.from_json(told | {"runs": packed(np.array(runs))})

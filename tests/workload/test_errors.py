"""What cannot be a workload is refused, in words."""

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Prefix,
    Stack,
    Total,
    Weighted,
    Workload,
)


@pytest.mark.parametrize("kind", [Identity, Total, Prefix, AllRange])
@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None, True, float("nan")])
def test_a_number_of_cells_is_a_whole_number(kind, n):
    with pytest.raises(WorkloadError, match="the number of cells must be a whole number of at least 1"):
        kind(n)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), True, "2", None])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(WorkloadError, match="the weight of a workload must be a finite number above 0"):
        Weighted(weight, Identity(3))


@pytest.mark.parametrize("branching", [1, 0, 2.5, None, True])
def test_a_hierarchy_branches(branching):
    with pytest.raises(WorkloadError, match="branching"):
        Hierarchy(8, branching)


def test_a_hierarchy_is_no_wider_and_no_deeper_than_its_cells():
    with pytest.raises(WorkloadError, match="over 8 cells is at most 8"):
        Hierarchy(8, 9)
    with pytest.raises(WorkloadError, match="has 4 levels"):
        Hierarchy(8, 2, 5)
    with pytest.raises(WorkloadError, match="levels"):
        Hierarchy(8, 2, 0)


@pytest.mark.parametrize(
    ("matrix", "why"),
    [
        ([], "one row"),
        ([[]], "one row"),
        ([1, 2], "one row"),
        ([["a"]], "one row"),
        ([[1, float("nan")]], "finite"),
        ([[float("inf")]], "finite"),
        ([[0, 0]], "asks nothing"),
    ],
)
def test_a_matrix_is_finite_and_asks_something(matrix, why):
    with pytest.raises(WorkloadError, match=why):
        Explicit(matrix)


def test_combinations_are_made_of_workloads_over_the_same_cells():
    with pytest.raises(WorkloadError, match="at least one"):
        Kron()
    with pytest.raises(WorkloadError, match="at least one"):
        Stack()
    with pytest.raises(WorkloadError, match="not of int"):
        Kron(Identity(2), 3)
    with pytest.raises(WorkloadError, match="not of ndarray"):
        Weighted(2, np.eye(2))
    with pytest.raises(WorkloadError, match=r"the same cells, not over \[2, 3\]"):
        Stack(Identity(2), Identity(3))
    with pytest.raises(WorkloadError, match="joined with another workload"):
        Identity(2) + 1
    with pytest.raises(WorkloadError, match="the same cells"):
        Identity(2) + Identity(3)


@pytest.mark.parametrize("x", [np.ones(3), np.ones((2, 2, 2)), np.ones(()), np.ones((5, 2))])
def test_counts_of_another_shape_are_refused(x):
    with pytest.raises(WorkloadError, match="takes one number a cell, 4 in all"):
        Prefix(4).matvec(x)
    with pytest.raises(WorkloadError, match="takes one number a query, 10 in all"):
        AllRange(4).rmatvec(x)


def test_counts_are_numbers():
    for x in (["a", "b"], [None, 1], [1 + 2j, 0]):
        with pytest.raises(WorkloadError, match="acts on numbers"):
            Identity(2).matvec(x)


def test_what_cannot_be_held_is_refused_with_its_size():
    with pytest.raises(
        WorkloadError,
        match=r"1,000,000 x 1,000,000 Gram matrix of this workload would take 7,450\.6 GiB .*; write it as products or",
    ):
        Kron(Identity(1000), Identity(1000)).gram()
    with pytest.raises(WorkloadError, match=r"33,558,528 x 8,192 matrix .* would take 2,048\.2 GiB .*; matvec"):
        AllRange(8192).dense()
    with pytest.raises(WorkloadError, match=r"result of this workload would take .*; ask for fewer queries"):
        Kron(AllRange(1000), AllRange(1000)).matvec(np.ones(10**6))
    with pytest.raises(WorkloadError, match="column norms of this workload would take"):
        Kron(*[Identity(100)] * 6).column_norms()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "Nothing"},
        {"kind": "Identity"},
        {"kind": "Identity", "n": 3, "m": 4},
        {"kind": "Kron", "factors": 3},
        {"kind": "Contiguous", "n": 3},
        {"kind": "Explicit", "matrix": "x"},
        {"kind": ["Identity"], "n": 3},
        3,
        None,
    ],
)
def test_json_that_is_no_workload_is_refused(value):
    with pytest.raises(WorkloadError):
        Workload.from_json(value)

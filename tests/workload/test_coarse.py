"""Workloads over runs of cells; that they are the matrices they claim to be is tested with all others."""

import json

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Coarse, Explicit, PIdentity, Prefix, Workload


def test_cells_of_no_run_are_not_counted():
    coarse = Coarse(Prefix(2), [1, 2, 4], 6)
    assert coarse.dense().tolist() == [[0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0]]
    assert coarse.matvec(np.arange(6)).tolist() == [1, 6]
    assert coarse.run_of.tolist() == [-1, 0, 1, 1, -1, -1]
    assert repr(coarse) == "Coarse(Prefix(2), 6 cells)"


def test_json_brings_it_back():
    coarse = Coarse(PIdentity([3, 4, 5], [[1, 0, 2]]), [0, 7, 8, 500], 1000)
    found = Workload.from_json(json.loads(json.dumps(coarse.to_json())))
    assert found == coarse
    assert hash(found) == hash(coarse)
    assert found != Coarse(PIdentity([3, 4, 5], [[1, 0, 2]]), [0, 7, 9, 500], 1000)
    assert found != Prefix(1000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Coarse([[1]], [0, 1], 2), "takes a workload"),
        (lambda: Coarse(Prefix(2), [0, 1], 2), "takes 3 edges"),
        (lambda: Coarse(Prefix(2), [0.0, 1.0, 2.0], 2), "takes 3 edges"),
        (lambda: Coarse(Prefix(2), [0, 1, 3], 2), "from 0 or more to 2 or less"),
        (lambda: Coarse(Prefix(2), [0, 1, 1], 2), "rise"),
        (lambda: Coarse(Explicit([[1]]), [-1, 1], 2), "rise"),
        (lambda: Coarse(Prefix(1), [0, 1], 0), "number of cells"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(WorkloadError, match=message):
        make()

"""Workloads are equal where all that they are made of is: what is worked out once is kept by them."""

from dataclasses import fields

import numpy as np

from dpnotebook.workload.base import Workload
from dpnotebook.workload.runs import Runs


def test_runs_that_differ_are_not_equal():
    """Variances are kept by what they are of: equal by the number of cells alone, those of other runs were taken."""
    runs = [Runs(6, np.array(starts), np.array(ends)) for starts, ends in [([1], [3]), ([1], [4]), ([1, 2], [2, 3])]]
    assert len({*runs, Runs(6, np.array([1]), np.array([3]))}) == 3
    assert runs[0] == Runs(6, np.array([1]), np.array([3])) != Runs(7, np.array([1]), np.array([3]))


def test_no_workload_takes_its_equality_from_one_of_fewer_fields():
    def below(kind):
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    ours = {kind for kind in below(Workload) if kind.__module__.startswith("dpnotebook.")}  # tests have others
    assert len(ours) > 10
    for kind in ours:
        equal = next(base for base in kind.__mro__ if "__eq__" in vars(base))
        assert equal is not object
        assert [one.name for one in fields(equal)] == [one.name for one in fields(kind)], kind

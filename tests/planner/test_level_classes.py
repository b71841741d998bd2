"""The functions of the levels of an attribute are orthonormal, and cost no more than the levels: dates have many."""

import tracemalloc
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.level_classes import Basis, LevelsAsked


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 50])
@pytest.mark.parametrize("seed", range(10))
def test_functions_are_orthonormal_and_each_kind_adds_up_to_nothing_over_each_class(size, seed):
    random = np.random.default_rng(seed)
    basis = Basis(
        size,
        [
            LevelsAsked(bool(random.random() < 0.5), (random.random(size) < random.random()).tobytes())
            for _ in range(random.integers(1, 4))
        ],
    )
    functions = basis.at_levels(np.eye(size))
    assert functions @ functions.T == pytest.approx(np.eye(size), abs=1e-12)
    assert basis.of_levels(np.eye(size)) == pytest.approx(functions.T, abs=1e-12)
    some = random.integers(0, size, 5)
    assert basis.at(some) == pytest.approx(functions.T[some], abs=1e-12)
    assert [place.start for place in basis.slices.values()] == sorted(place.start for place in basis.slices.values())
    for kind, place in basis.slices.items():
        for function in functions[place]:
            (label,) = np.unique(basis.labels[np.abs(function) > 1e-12])
            assert basis.kinds[label] == kind
            assert function.sum() == pytest.approx(0, abs=1e-12)


def test_dates_of_a_century_are_planned_beside_other_answers():
    """38,351 days beside conditions on other columns: functions written out as a matrix took 12 GB and minutes."""
    patients = pd.DataFrame(
        {"born": pd.to_datetime(["1950-03-01", "2001-05-09"]), "sex": ["F", "M"], "bmi": [20.5, 31.0]}
    )
    domain = {
        "born": dpn.Dates("1920-01-01", "2024-12-31"), "sex": ["F", "M"], "bmi": dpn.Bins(10, 60, width=1),
    }  # fmt: skip
    with closing(dpn.Session(budget=dpn.Budget(epsilon=20))) as session:
        table = session.protect(patients, "patients", domain=domain)
        table.median("born", epsilon=0.2).run()
        table.quantile("bmi", [0.1, 0.5, 0.9], epsilon=0.2).run()
        table.count(where="sex == 'M'", epsilon=0.2).run()
        tracemalloc.start()
        try:
            plan = table.count(where="born >= '2000-01-01'", epsilon=0.2).plan
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert plan.cost.epsilon <= 0.2
    assert peak < 200e6

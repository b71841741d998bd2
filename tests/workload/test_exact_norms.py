"""Column norms are exact integers or an error: one that wraps around would be a sensitivity far too small."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import Strategy, select
from dpnotebook.workload import (
    Explicit,
    Identity,
    Kron,
    Marginals,
    PIdentity,
    Prefix,
    Stack,
    Toeplitz,
    Weighted,
    WeightedRows,
    Workload,
)

BIG = 2**32  # the square of it is 0 in 64 bits
OPERATORS = {
    "explicit": Explicit([[BIG, 0, 1], [0, 1, 0], [0, 0, 1]]),
    "least": Explicit([[-(2**63), 1, 1]]),
    "toeplitz": Toeplitz([BIG, 1, 1]),
    "p-identity": PIdentity([1, 1, 1], [[BIG, 0, 0]]),
    "p-identity diagonal": PIdentity([BIG, 1, 1], np.zeros((0, 3), dtype=int)),
    "weighted": BIG * Explicit([[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "weighted rows": WeightedRows([BIG, 1, 1], Identity(3)),
    "weighted rows of others": WeightedRows([BIG, 1, 1], Explicit([[1, 0, 0], [0, 1, 0], [0, 0, 1]])),
    "stack": Stack(Prefix(3), *[Explicit([[2**30, 0, 0]])] * 4),
    "product": Kron(Explicit([[2**16]]), Explicit([[2**15, 0, 0], [0, 1, 0], [0, 0, 1]])),
    "marginals": Marginals([Identity(1), Identity(3)], {(0,): 2**16, (1,): BIG}),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_no_norm_is_too_small(operator):
    exact = (np.abs(operator.dense().astype(object)) ** 2).sum(axis=0)
    if isinstance(operator, Kron | Marginals | Weighted):  # their largest norm is a product of Python's integers
        assert operator.max_column_norm(2) == exact.max()
    else:
        with pytest.raises(WorkloadError, match="64-bit"):
            operator.max_column_norm(2)
    with pytest.raises(WorkloadError, match="64-bit"):
        operator.column_norms(2)


def test_norms_just_below_the_limit_are_given():
    assert Explicit([[2**30], [2**30]]).max_column_norm(2) == 2**61
    assert Explicit([[3 * 2**29], [2**30]]).max_column_norm(2) == 9 * 2**58 + 2**60
    with pytest.raises(WorkloadError, match="64-bit"):
        Explicit([[2**31]]).max_column_norm(2)


def test_a_strategy_whose_sensitivity_does_not_fit_is_refused_before_anything_is_spent(tmp_path):
    frame = pd.DataFrame({"a": [0, 1, 2, 1]})
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), ledger=tmp_path / "large.ledger")
    session.protect(frame, "t", domain={"a": dpn.Range(0, 2)})
    huge = Strategy(Identity(3), OPERATORS["explicit"], "gaussian", "huge")
    with pytest.raises(WorkloadError, match="64-bit"):
        frame.dp.answer(Identity(3), on="a", strategy=huge, epsilon=0.1)
    assert session.spent.epsilon == 0


def test_queries_with_large_coefficients_are_answered_from_something_else():
    asked = Explicit([[10**12, 1, 0], [0, 1, 1]])
    for effort in ("quick", "full"):
        assert select(asked, "gaussian", effort).norm < 2**60


def test_a_class_of_somebody_elses_does_not_replace_one_of_ours():
    @dataclass(frozen=True, repr=False)
    class Prefix(Identity):  # under a name that ledgers hold
        pass

    assert type(Workload.from_json({"kind": "Prefix", "n": 3})) is dpn.workload.Prefix
    assert (Identity(3) + Identity(3)).kind == "Stack"

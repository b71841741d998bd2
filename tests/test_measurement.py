"""What a measurement is charged in a cell is the norm of that cell's column, computed from the dense matrix."""

from fractions import Fraction

import numpy as np
import pytest
from spends import of_every_cell

from dpnotebook.domain import Domain, Range
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import Spend
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import bounded_value
from dpnotebook.workload import (
    AllRange,
    Centred,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Marginals,
    Prefix,
    Stack,
    Total,
    Weighted,
)

DOMAIN = Domain({"a": Range(0, 4), "b": ["x", "y", "z"], "v": Range(0, 9)})
A, B = Axis("a", (0, 1, 2, 3, 4)), Axis("b", (0, 1, 2))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("operator", "axes", "exact"),
    [
        (Identity(1), (), True),
        (Prefix(5), (A,), True),
        (Weighted(3, AllRange(5)), (A,), True),
        (Hierarchy(3, 2), (Axis("a", (1, 2, 4)),), True),
        (Kron(Prefix(5), Total(3)), (A, B), True),
        (Stack(Kron(Prefix(5), Total(3)), Weighted(2, Kron(Total(5), Identity(3)))), (A, B), True),
        (Weighted(2, Stack(Weighted(3, Kron(Identity(5), Prefix(3))), Kron(Total(5), Total(3)))), (A, B), True),
        (Marginals([Identity(5), Identity(3)], {(): 4, (0,): 2, (0, 1): 1}), (A, B), True),
        (Marginals([Centred(5), Prefix(3)], {(1,): 3, (0, 1): 2}), (A, B), True),
        (Explicit(np.array([[1, -2, 0, 1, 3] * 3, [0, 1, 1, 0, -5] * 3])), (A, B), False),
    ],
)
@pytest.mark.parametrize("where", [None, "a >= 2 and b == 'x' or b == 'z'"])
def test_cost_is_the_column_norm(operator, axes, exact, where, delta):
    accountant = accountant_for(Budget(1.0, delta))
    predicate = Predicate.everything(DOMAIN) if where is None else Predicate.parse(where, DOMAIN)
    for summand in (None, bounded_value(DOMAIN, "v"), bounded_value(DOMAIN, "v", (2, 6), 0.5, ends=True)):
        extra = {} if summand is None else {"summand": summand}
        measurement = Measurement(operator, axes, predicate, **extra)
        power = {"laplace": 1, "gaussian": 2}[accountant.noise]
        scale, rows = Fraction(7, 3), 2
        spend = Spend(DOMAIN.sizes)
        spend.add(measurement.cost(DOMAIN, accountant, scale, rows))

        columns = (np.abs(operator.dense()).astype(float) ** power).sum(axis=0)
        cells = np.zeros(DOMAIN.shape)
        dense = predicate.dense(DOMAIN.names)
        values = np.ones(10) if summand is None else summand.norms(DOMAIN["v"], power)
        for index in np.ndindex(DOMAIN.shape):
            if not dense[index]:
                continue
            place, level = 0, dict(zip(DOMAIN.names, index, strict=True))
            for axis in axes:
                if level[axis.attribute] not in axis.levels:
                    break
                place = place * axis.size + axis.levels.index(level[axis.attribute])
            else:
                cells[index] = columns[place] * values[level["v"]]
        charged = of_every_cell(spend) / UNITS
        due = cells * rows**power / float(scale) ** power
        assert (charged >= due * (1 - 1e-12)).all()
        norm = measurement.norm(DOMAIN, power)
        assert norm >= cells.max()
        if exact:
            assert charged == pytest.approx(due, abs=1e-9)
            assert charged.max() <= norm * rows**power / float(scale) ** power * (1 + 1e-9)

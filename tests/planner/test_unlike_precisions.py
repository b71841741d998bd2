"""Noise that differs a hundred thousand times: what each release tells is free at its own error, by exact algebra."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

LEVELS = 24


def exact_inverse(rows, variances):
    """Return the inverse of the information of rows of zeros and ones, worked out with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        matrix = [[Decimal(int(j == i + LEVELS)) for j in range(2 * LEVELS)] for i in range(LEVELS)]
        for row, variance in zip(rows, variances, strict=True):
            for i in row:
                for j in row:
                    matrix[i][j] += 1 / Decimal(variance)
        for column in range(LEVELS):  # positive definite: no pivots are needed
            own = matrix[column] = [entry / matrix[column][column] for entry in matrix[column]]
            for place in range(LEVELS):
                if place != column:
                    times = matrix[place][column]
                    matrix[place] = [entry - times * mine for entry, mine in zip(matrix[place], own, strict=True)]
        return [row[LEVELS:] for row in matrix]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("whole", [True, False], ids=["histogram", "ranges"])
@pytest.mark.parametrize(("delta", "least"), [(0.0, 0.02), (0.0, 0.2), (1e-6, 0.2)])
def test_what_each_tells_is_free_at_its_own_error(delta, least, whole):
    rng = np.random.default_rng(7)
    session = dpn.Session(dpn.Budget(999, delta), purchases="never")
    table = session.protect(pd.DataFrame({"x": [0]}), "t", domain={"x": dpn.Range(0, LEVELS - 1)})
    rows, variances = [], []

    def ask(start, end, std):
        query = table.count(where=f"x >= {start} and x < {end}", variance=std**2, fresh=True)
        rows.append(range(start, end))
        variances.append(float(query.plan.std_errors[0]) ** 2)
        query.run()

    if whole:
        query = table.histogram("x", variance=1000.0**2, fresh=True)
        rows.extend(range(level, level + 1) for level in range(LEVELS))
        variances.extend((query.plan.std_errors**2).tolist())
        query.run()
    else:
        for level in range(LEVELS):
            ask(level, level + 1, float(10 ** rng.uniform(2, 3.5)))
    for _ in range(15):
        start, end = sorted(rng.choice(LEVELS + 1, 2, replace=False).tolist())
        ask(start, end, float(10 ** rng.uniform(2, 3.5)))
    cuts = [0, 5, 6, 13, 20, LEVELS]
    for start, end in itertools.pairwise(cuts):
        ask(start, end, least)
    covariance = exact_inverse(rows, variances)
    between = [(start, end) for place, start in enumerate(cuts) for end in cuts[place + 1 :]]
    others = [sorted(rng.choice(LEVELS + 1, 2, replace=False).tolist()) for _ in range(8)]
    for start, end in [*between, *others]:
        error = float(sum(covariance[i][j] for i in range(start, end) for j in range(start, end))) ** 0.5
        query = table.count(where=f"x >= {start} and x < {end}", variance=(1.0001 * error) ** 2)
        assert query.plan.free
        assert query.plan.std_errors[0] == pytest.approx(error, rel=1e-5)
        assert query.run().std_error.iloc[0] == pytest.approx(error, rel=1e-5)

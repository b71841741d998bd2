"""Answers of many draws of the measurements at once are those of each draw."""

import numpy as np
import pytest

from dpnotebook.strategy import select
from dpnotebook.workload import AllRange, Identity, Kron, Prefix, Stack, Total, marginals


@pytest.mark.parametrize(
    "workload",
    [
        Identity(4),
        Kron(Prefix(6), Identity(3)),
        Stack(3 * Kron(Identity(4), Total(5)), Kron(Total(4), AllRange(5))),
        marginals([3, 4, 2], 2),
    ],
    ids=["counts", "product", "union", "marginals"],
)
def test_each_draw_has_its_answers(workload):
    strategy = select(workload)
    random = np.random.default_rng(8)
    drawn = random.normal(size=(7, strategy.operator.shape[0]))
    found = strategy.answers_of_draws(drawn)
    assert found.shape == (7, workload.shape[0])
    assert found == pytest.approx(np.stack([strategy.answers(one) for one in drawn]), rel=1e-12, abs=1e-12)
    assert found[0] != pytest.approx(found[1])

"""What groups are off their proportion: the variances that made-up groups have, at any size and of either sign."""

import math

import numpy as np
import pytest

from dpnotebook.sql.aggregates.groups_apart import groups_apart

LENGTH = 100.0
SETS = 60
FACTOR = 2.0  # of a variance: a hundred groups tell it to that, with the ways that are likely beforehand


def variances(found, sizes):
    return found.each + found.sized * np.abs(sizes) + found.squared * sizes**2


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("by", "part"), [("chance", 0.05), ("proportion", 0.3), ("group", 0.5)])
def test_variances_are_those_of_the_groups(by, part, sign):
    random = np.random.default_rng(5)
    sizes = sign * random.gamma(2, 500, 100)
    of = {"chance": np.abs(sizes), "proportion": sizes**2, "group": np.ones(100)}[by]
    exact = (part * LENGTH) ** 2 * of / of.mean()
    beyond = 2.0
    told = [
        variances(groups_apart(LENGTH, sizes, random.normal(0, np.sqrt(exact + beyond**2)), beyond), sizes).mean()
        for _ in range(SETS)
    ]
    assert exact.mean() / FACTOR < np.mean(told) < exact.mean() * FACTOR


@pytest.mark.parametrize("sizes", [np.zeros(3), np.array([0.0, -1e15, 1e15]), np.array([-5.0]), np.full(4, 1e-12)])
@pytest.mark.parametrize("beyond", [1e-6, 1.0, 1e12])
def test_numbers_stay_finite(sizes, beyond):
    for off in (np.zeros(sizes.size), np.full(sizes.size, 1e3), -sizes):
        found = groups_apart(LENGTH, sizes, off, beyond)
        assert all(math.isfinite(part) and part >= 0 for part in found)
        assert np.isfinite(variances(found, sizes)).all()

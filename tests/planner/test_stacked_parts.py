"""What draws of noise count for, worked out of all parts at once, is what each part says by itself."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.stacked_parts import MANY, StackedParts, draws_of
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Measure, Question
from dpnotebook.workload import AllRange, Identity, Total

DOMAIN = Domain({"x": dpn.Range(0, 29), "y": ["a", "b", "c"]})


@pytest.fixture
def block():
    """Return what is known of ranges, their levels, levels of another attribute as well, and all ranges of a few."""
    rng, law = np.random.default_rng(4), law_of("laplace")
    history = History(DOMAIN, law.name)
    for number in range(1, 60):
        low = int(rng.integers(0, 25))
        where = Predicate.parse(f"x >= {low if number % 9 else 3} and x <= {low + 4 if number % 9 else 9}", DOMAIN)
        along, across = Axis("x", where.levels_of("x")), Axis("y", (0, 1, 2))
        axes, operator = [
            ((), Total(1)),
            ((along,), Identity(along.size)),
            ((along, across), Identity(along.size * 3)),
            ((along,), AllRange(along.size)),
        ][number % 4]
        planned = Planned(Measurement(operator, axes, where), Fraction(int(rng.integers(3, 20))), 0, None)
        history.add(item_of(planned, (number, 0), np.round(rng.normal(0, 9, (1, operator.shape[0]))), law))
    return asked_of(Question("t", (Measure("count"),), (), Predicate.parse("x >= 3", DOMAIN)), history).block


def test_they_are_what_each_part_says(block):
    parts = [*block.sources.values()]
    assert len(parts) >= MANY
    assert {len(part.repeats) > 1 for part in parts} == {part.columns is None for part in parts} == {True, False}
    stacked = StackedParts(parts, block.atoms.count)
    coefficients = np.random.default_rng(5).normal(size=(3, block.atoms.count))
    alone = [part.weights(coefficients) for part in parts]
    for (part, found), own, wanted in zip(stacked.weights(coefficients), parts, alone, strict=True):
        assert part is own
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    most = [np.abs(own).max(axis=1) for own in alone]
    np.testing.assert_allclose(stacked.peaks(coefficients), np.stack(most, axis=1), atol=1e-12)
    weights, keys = draws_of(zip(parts, alone, strict=True), 3, 10_000)
    found, names = stacked.draws(coefficients, 10_000)
    assert stacked.draws(coefficients, len(keys)) is not None
    assert stacked.draws(coefficients, len(keys) - 1) is None
    both = (keys, weights), (names, found)
    by_key = [sorted(zip(of, *map(np.ndarray.tolist, rows), strict=True)) for of, rows in both]
    assert [one[0] for one in by_key[0]] == [one[0] for one in by_key[1]]
    np.testing.assert_allclose([one[1:] for one in by_key[0]], [one[1:] for one in by_key[1]], atol=1e-12)

"""Groups beside a measurement of some of them are as if that had been made."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner import level_classes
from dpnotebook.planner.beside_groups import beside_groups
from dpnotebook.planner.exchangeable import by_classes
from dpnotebook.planner.in_closed_form import in_classes
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import cells_predicate
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.repeats import RecordedRepeats
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import LAPLACE
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity

SIZES = {"a": 20, "b": 12, "c": 9}
NAMES = tuple(SIZES)
DOMAIN = Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
CONDITIONS = ("", "a < 10", "b >= 6 and c <= 4", "a < 10 or b >= 6", "a in [3, 12] or c <= 2 or b == 4")


def a_table(rng, fewest=0):
    """Return a table of up to two attributes, of all rows or some."""
    text = str(rng.choice(CONDITIONS))
    where = Predicate.parse(text, DOMAIN) if text else Predicate.everything(DOMAIN)
    names = rng.permutation([*SIZES])[: int(rng.integers(fewest, 3))].tolist()
    axes = tuple(Axis(name, where.levels_of(name)) for name in names)
    return Measurement(product_of([Identity(axis.size) for axis in axes]), axes, where)


def item(rng, measurement, number):
    planned = Planned(measurement, Fraction(int(rng.integers(2, 30))), 0, None)
    return item_of(planned, (number, 0), rng.integers(0, 90, (1, measurement.operator.shape[0])), LAPLACE)


def sums_of(draws):
    """Return what draws count for, squared and to the third power, added up by measurement."""
    weights, keys = draws
    found = {key: np.array([own == key for own in keys]) for key in sorted(set(keys))}
    return {
        key: np.array([(np.abs(weights[:, of]) ** power).sum(axis=1) for power in (2, 3)]) for key, of in found.items()
    }


@pytest.mark.parametrize("seed", range(8))
def test_some_groups_beside_what_is_known_are_as_when_they_are_measured(seed, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", 2_000)
    rng, recorded = np.random.default_rng(seed), RecordedRepeats()
    axes = tuple(Axis(name, tuple(range(SIZES[name]))) for name in "ab")
    every = Measurement(product_of([Identity(axis.size) for axis in axes]), axes, Predicate.everything(DOMAIN))
    for number, one in enumerate([*([every] if seed % 2 else []), *(a_table(rng) for _ in range(6))], 1):
        recorded.add(item(rng, one, number))
    looked = 0
    for _ in range(4):
        asked = a_table(rng, 1)
        part = ProductTerm(asked.axes, asked.where, asked.operator, 1.0, np.arange(0))
        before = by_classes(part, NAMES, DOMAIN, recorded.by_queries.values())
        cells = rng.random(asked.operator.shape[0]) < 0.6
        some = Measurement(asked.operator, asked.axes, asked.where & cells_predicate(asked.axes, cells, DOMAIN))
        for measured in (asked, some):
            further = item(rng, measured, 0)
            found = beside_groups(in_classes(before, 1.0, 1.0, 1.0), part, [further], frozenset(NAMES), 1.0)
            if found is None:
                continue
            together = RecordedRepeats([*recorded.items.values(), further])
            whole = in_classes(by_classes(part, NAMES, DOMAIN, together.by_queries.values()), 1.0, 1.0, 1.0)
            np.testing.assert_allclose(found.variances, whole.variances, rtol=1e-7)
            np.testing.assert_allclose(found.variances[found.alike], found.variances, rtol=1e-7)
            rows = np.flatnonzero(np.isfinite(found.variances) & (found.variances > 0))[:5]
            draws, same = found.draws(rows, 10**6), whole.draws(rows, 10**6)
            one, other = sums_of(draws), sums_of(same)
            for key in one.keys() | other.keys():
                np.testing.assert_allclose(one.get(key, 0.0), other.get(key, 0.0), rtol=1e-6, atol=1e-9)
            assert found.draws(rows, len(draws[1]) - 1) is None
            looked += 1
    assert looked > 2


def test_other_numbers_than_counts_of_the_groups_are_looked_at_elsewhere():
    recorded = RecordedRepeats()
    rng, axes = np.random.default_rng(0), (Axis("a", tuple(range(20))),)
    where = Predicate.parse("b < 4 or c < 3", DOMAIN)
    recorded.add(item(rng, Measurement(Identity(20), axes, where), 1))
    part = ProductTerm(axes, where, Identity(20), 1.0, np.arange(0))
    known = in_classes(by_classes(part, NAMES, DOMAIN, recorded.by_queries.values()), 1.0, 1.0, 1.0)
    same, told = item(rng, Measurement(Identity(20), axes, where), 0), frozenset(NAMES)
    others = (
        item(rng, Measurement(Identity(20), axes, Predicate.parse("b < 4", DOMAIN)), 0),
        item(rng, Measurement(Identity(12), (Axis("b", tuple(range(12))),), where), 0),
        item_of(Planned(same.measurement, Fraction(2), 0, None, refines=(1, 0)), (0, 0), same.noisy, LAPLACE),
    )
    assert beside_groups(known, part, [same], told, 1.0) is not None
    assert all(beside_groups(known, part, [other], told, 1.0) is None for other in others)
    assert beside_groups(known, part, [same, others[0]], told, 1.0) is None
    assert beside_groups(known, part, [same], told | {"d"}, 1.0) is None

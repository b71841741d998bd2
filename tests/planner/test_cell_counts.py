"""Many disjoint counts over all cells of some attributes, against one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.planner.atoms import places
from dpnotebook.planner.cell_counts import CountsOfCells, alike_in, groups_of, told_of_cells
from dpnotebook.planner.known_part import Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis
from dpnotebook.workload import Identity, Total

DOMAIN = Domain({"a": Range(0, 2), "b": ["x", "y"], "c": Range(0, 3), "d": Range(0, 4)})
NAMES = ("a", "c", "d")
SIZES = {name: DOMAIN[name].size for name in NAMES}
CONDITIONS = ("a < 2", "c != 1", "a > 0 or d in [1, 3]", "a == 1 and c < 2", "c > 1 or (a == 0 and d < 3)", "d >= 2")


def counts(seed, count=40):
    """Return tables of any axes in any order, of all levels or of some, of rows by any condition or of all."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        axes = []
        for name in rng.permutation(NAMES)[: int(rng.integers(0, 4))].tolist():
            levels = np.flatnonzero(rng.random(DOMAIN[name].size) < rng.choice([0.5, 1.0]))
            axes.append(Axis(name, tuple(levels.tolist()) or (0,)))
        where = Predicate.everything(DOMAIN)
        if rng.random() < 0.7:
            where = Predicate.parse(str(rng.choice(CONDITIONS)), DOMAIN)
        operator = product_of([Identity(axis.size) for axis in axes])
        found.append(ProductTerm(tuple(axes), where, operator, 1.0, np.arange(operator.shape[0])))
    return found


def written_out(part):
    """Return the queries of a table over all cells."""
    group = places(part.axes, part.where, DOMAIN, NAMES)
    if part.operator.shape[0] == 1:
        return (group >= 0)[None].astype(float)
    return (group == np.arange(part.operator.shape[0])[:, None]).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_groups_and_what_they_say_are_those_of_each(seed):
    parts, rng = counts(seed), np.random.default_rng(100 + seed)
    for part, found in zip(parts, groups_of([*alike_in(parts, DOMAIN, NAMES)]), strict=True):
        assert np.array_equal(found(), places(part.axes, part.where, DOMAIN, NAMES))
    precision = rng.uniform(0.1, 3, len(parts))
    weighted = [rng.normal(size=part.operator.shape[0]) for part in parts]
    matrix, vector = told_of_cells([*alike_in(parts, DOMAIN, NAMES)], precision, weighted, SIZES)
    rows = [written_out(part) for part in parts]
    wanted = sum(own * row.T @ row for own, row in zip(precision, rows, strict=True))
    np.testing.assert_allclose(matrix, wanted, atol=1e-12)
    np.testing.assert_allclose(vector, sum(row.T @ own for row, own in zip(rows, weighted, strict=True)), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_products_of_all_queries_are_those_of_each(seed):
    parts, rng = counts(seed), np.random.default_rng(200 + seed)
    columns, order = rng.normal(size=(60, 3)), rng.permutation(60)
    found = CountsOfCells([*alike_in(parts, DOMAIN, NAMES)], order).times(columns)
    wanted = np.concatenate([written_out(part) @ columns[order] for part in parts])
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_a_block_is_the_same_however_many_come_at_once(at_once):
    parts, rng = counts(9), np.random.default_rng(9)
    axes = tuple(Axis(name, tuple(range(DOMAIN[name].size))) for name in NAMES)
    cells = ProductTerm(axes, Predicate.everything(DOMAIN), Identity(60), 1.0, np.arange(60))
    total = ProductTerm(axes[:1], parts[0].where, Total(3), 1.0, np.arange(1))  # its axis is not told apart
    asked = [
        Observation(str(place), 0, part, 2.0 + place, rng.normal(size=part.operator.shape[0]), {(place, 0): 1.0})
        for place, part in enumerate([*parts[:20], cells, total, *parts[20:]])
    ]
    block = LeastSquaresState(DOMAIN, NAMES)
    for start in range(0, len(asked), at_once):
        assert block.add_all(asked[start : start + at_once])
        _ = block.information
    values, variances, _ = block.estimates(block.queries(cells))
    rows = np.concatenate([written_out(one.part) * np.sqrt(one.precision) for one in asked])
    inverse = np.linalg.inv(rows.T @ rows)
    said = sum(written_out(one.part).T @ one.weighted for one in asked)
    np.testing.assert_allclose(variances, np.diagonal(inverse), rtol=1e-8)
    np.testing.assert_allclose(values, inverse @ said, rtol=1e-6, atol=1e-9)

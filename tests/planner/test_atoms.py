"""Atoms: the coarsest partition that everything asked so far respects."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook import Range
from dpnotebook.domain import Domain
from dpnotebook.planner.atoms import one_atom, places
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis

DOMAIN = Domain({"a": Range(0, 4), "b": ["x", "y"], "c": Range(0, 2)})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=24, max_size=24), max_size=5))
def test_the_partition_is_the_coarsest_that_tells_apart_what_was_told_apart(columns):
    atoms = one_atom({"a": 4, "b": 2, "c": 3})
    for column in columns:
        before = atoms
        atoms, parents = atoms.refined(np.array(column))
        assert (parents[: before.count] == np.arange(before.count)).all()
        assert (parents[atoms.labels] == before.labels).all()
        assert (np.array(column) == np.array(column)[atoms.first][atoms.labels]).all()  # the same in all of an atom
    table = np.array(columns).reshape(len(columns), 24)
    signatures = [tuple(cell) for cell in table.T]
    assert atoms.count == len(set(signatures))
    for one in range(24):
        for other in range(24):
            assert (atoms.labels[one] == atoms.labels[other]) == (signatures[one] == signatures[other])
    assert (atoms.labels[atoms.first] == np.arange(atoms.count)).all()


@pytest.mark.parametrize("text", ["a > 1", "a in [0, 3] and b == 'x'", "a == 1 or c == 2", "not (b == 'y' and c < 1)"])
@pytest.mark.parametrize("axes", [(), ("b",), ("c", "a")])
def test_places_are_those_of_the_rows_in_the_histogram(text, axes):
    names = ("a", "b", "c")
    where = Predicate.parse(text, DOMAIN)
    sides = tuple(Axis(name, tuple(range(1 if name == "a" else 0, DOMAIN[name].size))) for name in axes)
    found = places(sides, where, DOMAIN, names)
    inside = where.dense(names)
    for cell, levels in enumerate(np.ndindex(*inside.shape)):
        at = dict(zip(names, levels, strict=True))
        taken = inside[levels] and all(at[side.attribute] in side.levels for side in sides)
        place = 0
        for side in sides:
            place = place * side.size + (side.levels.index(at[side.attribute]) if taken else 0)
        assert found[cell] == (place if taken else -1)

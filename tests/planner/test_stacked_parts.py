"""What draws of noise count for, worked out of all parts at once, is what each part says by itself."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.known_part import KnownPart
from dpnotebook.planner.marginal_measurement import asked_of
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm
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


def counts_of_ranges(count, atoms, *others):
    """Return counts of ranges of atoms as a block holds them, and parts of other columns in the middle."""
    rng, everything = np.random.default_rng(6), Predicate.everything(DOMAIN)
    part = ProductTerm((), everything, Total(1), 1.0, np.arange(1))
    found = []
    for number in range(count):
        low, high = np.sort(rng.integers(0, atoms + 1, 2))
        inside = np.full(atoms, -1, dtype=np.int8)
        inside[low:high] = 0
        found.append(KnownPart(part, None, inside, 1, total=0.5, repeats={(number, 0): 0.5}))
    for number, columns in enumerate(others, count):
        classes = rng.integers(-1, columns.shape[1], atoms).astype(np.int8)
        found.insert(count // 2, KnownPart(part, columns, classes, len(columns), None, 0.5, repeats={(number, 0): 0.5}))
    return found


def test_many_ranges_take_little_room_while_they_are_stacked():
    """Written out all at once, they took seven times what is kept: the most that a plan ever needed."""
    parts = counts_of_ranges(640, 1_500)
    StackedParts(parts[:MANY], 1_500)  # what is loaded once
    tracemalloc.start()
    stacked = StackedParts(parts, 1_500)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    cells = sum(int((part.atoms >= 0).sum()) for part in parts)
    assert kept < 6 * cells  # the column in four bytes, a one in a byte
    assert most < 4 * kept
    coefficients = np.random.default_rng(7).normal(size=(2, 1_500))
    own = np.stack([part.weights(coefficients)[:, 0] for part in parts], axis=1)
    np.testing.assert_allclose(stacked.peaks(coefficients), np.abs(own), atol=1e-12)


def test_other_numbers_among_counts_keep_their_values():
    columns = np.array([[0.25, -3.0], [1.0, 0.0], [7.5, 2.0]])
    parts = counts_of_ranges(150, 40, columns)
    stacked, coefficients = StackedParts(parts, 40), np.random.default_rng(8).normal(size=(2, 40))
    for part, found in stacked.weights(coefficients):
        np.testing.assert_allclose(found, part.weights(coefficients), atol=1e-12)


def test_which_atoms_are_counted_takes_a_byte_an_atom(block):
    assert {part.atoms.itemsize for part in block.sources.values()} == {1}

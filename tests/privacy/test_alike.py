"""Levels that share cells: as exact as all cells apart as long as few enough differ, and never less than the truth."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.ledger import snapshot
from dpnotebook.privacy.spend import CellCost, CostTerm, Spend, dearest, same_slices, told_apart

LARGE = {"age": 120, "region": 300, "income": 200, "job": 500}  # 3.6 billion cells
SMALL = {"age": 6, "sex": 2, "region": 4}

vectors = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 2), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(vectors)
def test_levels_are_told_apart_by_any_vector(rows):
    first, *norms = (np.array(row) for row in rows)
    labels, stand = told_apart(first, norms)
    meant = list(zip(*rows, strict=True))
    in_order = list(dict.fromkeys(meant))
    assert labels.tolist() == [in_order.index(level) for level in meant]
    assert stand.tolist() == [meant.index(level) for level in in_order]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_slices_are_the_same_where_every_entry_is(a, b, c, data):
    entries = st.sampled_from([0, 1, -1, 2**62])
    cells = np.array(data.draw(st.lists(entries, min_size=a * b * c, max_size=a * b * c))).reshape(a, b, c)
    for axis in range(3):
        slices = [cells.take(i, axis=axis).tolist() for i in range(cells.shape[axis])]
        assert same_slices(cells, axis).tolist() == [slices.index(one) for one in slices]


@given(vectors.filter(lambda rows: len(rows) > 1))
def test_a_class_costs_what_its_dearest_level_costs(rows):
    norm, labels = np.array(rows[0]), told_apart(np.array(rows[1]), ())[0]
    expected = [max(n for n, label in zip(norm, labels, strict=True) if label == k) for k in range(labels.max() + 1)]
    assert dearest(norm, labels).tolist() == expected


def ranges(random, sizes, attributes):
    """The cost of a weighted sum of counts over random ranges of some attributes."""
    norms = {}
    for name in random.choice(list(sizes), attributes, replace=False):
        start, end = sorted(random.integers(0, sizes[name], 2))
        norms[str(name)] = np.zeros(sizes[name], int)
        norms[str(name)][start : end + 1] = random.integers(1, 4)
    return CostTerm(Fraction(10**12, int(random.integers(5, 500))), norms)


def truth(charges, sizes, cell):
    """The spend of one cell, by the definition."""
    level = dict(zip(sizes, cell, strict=True))
    terms = (term for cost in charges for term in cost.terms)
    return sum(math.ceil(t.rate * math.prod(int(norm[level[n]]) for n, norm in t.norms.items())) for t in terms)


def representatives(charges, sizes):
    """One level of each kind that some charge treats differently, for each attribute, and the kind of each level."""
    found, kinds = [], {}
    for name, size in sizes.items():
        norms = [term.norms[name] for cost in charges for term in cost.terms if name in term.norms]
        meant = [tuple(int(norm[i]) for norm in norms) for i in range(size)]
        kinds[name] = meant
        found.append([meant.index(one) for one in dict.fromkeys(meant)])
    return found, kinds


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(4))
def test_tables_of_billions_of_cells_are_exact(seed):
    random = np.random.default_rng(seed)
    spend, charges, before = Spend(LARGE), [], 0
    for _ in range(9):
        cost = CellCost(tuple(ranges(random, LARGE, random.integers(1, 4)) for _ in range(random.integers(1, 3))))
        charges.append(cost)
        rise = spend.increase(cost)
        spend.add(cost)
        assert spend.maximum == before + rise
        before = spend.maximum
    assert spend.everywhere == 0
    assert spend.cells.size <= spend.limit < math.prod(LARGE.values())
    stand, kinds = representatives(charges, LARGE)
    cells = random.permutation(list(product(*stand)))[:20_000]  # all of them, or many
    exact = {tuple(cell): truth(charges, LARGE, cell) for cell in cells.tolist()}
    for cell, units in exact.items():
        levels = dict(zip(LARGE, cell, strict=True))
        place = (spend.labels[name][levels[name]] if name in spend.labels else levels[name] for name in spend.axes)
        assert spend.cells[tuple(place)] == units
    if len(exact) == math.prod(map(len, stand)):
        assert spend.maximum == max(exact.values())
        for axis, name in enumerate(LARGE):
            along = spend.by_attribute(name)
            for level in stand[axis]:
                assert along[level] == max(units for cell, units in exact.items() if cell[axis] == level)
            assert len({(kind, units) for kind, units in zip(kinds[name], along.tolist(), strict=True)}) == len(
                stand[axis]
            )


terms = st.builds(
    lambda rate, norms: CostTerm(Fraction(rate), {name: np.array(norm) for name, norm in norms.items() if norm}),
    st.integers(1, 20),
    st.fixed_dictionaries(
        {
            name: st.one_of(st.just(()), st.lists(st.integers(0, 2), min_size=size, max_size=size))
            for name, size in SMALL.items()
        }
    ),
)
histories = st.lists(st.lists(terms, min_size=1, max_size=2).map(lambda ts: CellCost(tuple(ts))), max_size=6)


@given(histories, st.sampled_from([1, 2, 6, 12, 24, 47]))
@settings(deadline=None, max_examples=200)
def test_exact_while_few_enough_cells_differ_and_never_less(charges, limit):
    spend = Spend(SMALL, limit)
    for i, cost in enumerate(charges):
        before, rise = spend.maximum, spend.increase(cost)
        spend.add(cost)
        assert spend.maximum == before + rise <= before + cost.bound
        assert spend.cells.size <= limit
        cells = {cell: truth(charges[: i + 1], SMALL, cell) for cell in product(*map(range, SMALL.values()))}
        needed = math.prod(map(len, representatives(charges[: i + 1], SMALL)[0]))
        assert spend.maximum >= max(cells.values())
        if needed <= limit:
            assert spend.maximum == max(cells.values())
        for axis, name in enumerate(SMALL):
            for level, units in enumerate(spend.by_attribute(name)):
                most = max(v for cell, v in cells.items() if cell[axis] == level)
                assert units == most if needed <= limit else units >= most


@given(histories, st.sampled_from([1, 2, 6, 12, 24]), st.integers(0, 6))
@settings(deadline=None)
def test_a_spend_that_was_written_down_goes_on_the_same(charges, limit, written):
    """What a process that opens the ledger at a snapshot computes is what one that added everything up computes."""
    one, other = Spend(SMALL, limit), Spend(SMALL, limit)
    for i, cost in enumerate(charges):
        if i == written:
            other = snapshot.unpack(snapshot.pack(other), SMALL, limit)
        one.add(cost)
        other.add(cost)
        assert snapshot.digest(one) == snapshot.digest(other)


def test_levels_that_were_spent_alike_share_cells_again():
    spend, half = Spend({"age": 10, "region": 10}, 20), [1] * 5 + [0] * 5

    def asked(**norms):
        return CellCost((CostTerm(Fraction(8), {name: np.array(norm) for name, norm in norms.items()}),))

    for level in range(10):  # the whole of one attribute, level by level
        spend.add(asked(age=(np.arange(10) == level).astype(int)))
    assert (spend.axes, spend.cells.shape) == (("age",), (10,))
    spend.add(asked(region=np.arange(10) + 1))
    assert (spend.axes, spend.cells.shape) == (("region",), (10,))  # 100 cells are too many, but all ages have spent 8
    assert spend.maximum == 8 + 80
    spend.add(asked(age=half))
    assert spend.cells.shape == (2, 10)
    assert spend.increase(asked(age=[1 - bit for bit in half])) == 0


def test_past_the_limit_levels_that_share_cells_are_charged_for_the_dearest():
    spend = Spend({"age": 4, "region": 4}, 4)

    def asked(units, **norms):
        return CellCost((CostTerm(Fraction(units), {name: np.array(norm) for name, norm in norms.items()}),))

    spend.add(asked(10, age=[1, 2, 3, 4]))
    spend.add(asked(5, age=[1, 0, 0, 0], region=[0, 0, 1, 0]))  # region cannot be told apart, age is
    assert spend.everywhere == 0
    assert spend.by_attribute("age").tolist() == [15, 20, 30, 40]
    assert spend.maximum == 40  # and not 45
    without = Spend({"age": 4, "region": 4}, 4, merge=False)
    without.add(asked(10, age=[1, 2, 3, 4]))
    without.add(asked(5, age=[1, 0, 0, 0], region=[0, 0, 1, 0]))
    assert (without.everywhere, without.maximum) == (5, 45)

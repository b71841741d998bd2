"""Spend per cell against a dense computation in whole numbers, cell by cell."""

import copy
import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spends import of_every_cell

from dpnotebook.privacy import spend as module
from dpnotebook.privacy.accountant import UNITS, GaussianAccountant, PureAccountant
from dpnotebook.privacy.spend import CellCost, CostTerm, Spend

SIZES = {"age": 4, "sex": 2, "region": 3}

rates = st.one_of(
    st.fractions(0, 10**13, max_denominator=10**6),
    st.integers(1, 10**6).map(lambda n: Fraction(10**40 + n, 10**35 + 7)),  # as those of Gaussian scales: long
)


@st.composite
def terms(draw):
    names = draw(st.lists(st.sampled_from(list(SIZES)), unique=True))
    norms = {
        name: np.array(draw(st.lists(st.integers(0, 3), min_size=SIZES[name], max_size=SIZES[name]))) for name in names
    }
    return CostTerm(draw(rates), norms)


@pytest.fixture(scope="module", params=["cell by cell", "levels that are alike at once"], autouse=True)
def prices(request):
    """Have prices worked out in either way, which depends on how many cells a cost tells apart."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "cell by cell":
            patch.setattr(module, "_FEW", 0)
        yield


costs = st.lists(terms(), min_size=1, max_size=3).map(lambda ts: CellCost(tuple(ts)))


def by_cell(charges):
    """The spend of every cell, by the definition: a dictionary from cells to units."""
    return {
        cell: sum(
            math.ceil(
                term.rate
                * math.prod(int(term.norms[n][i]) for n, i in zip(SIZES, cell, strict=True) if n in term.norms)
            )
            for cost in charges
            for term in cost.terms
        )
        for cell in product(*map(range, SIZES.values()))
    }


@given(st.lists(costs, max_size=6))
@settings(deadline=None, max_examples=150)
def test_spend_is_that_of_every_cell(charges):
    spend, before = Spend(SIZES), 0
    for i, cost in enumerate(charges):
        truth = by_cell(charges[: i + 1])
        after = max(truth.values())
        assert spend.increase(cost) == after - before
        assert spend.maximum == before  # asking changes nothing
        spend.add(cost)
        assert spend.maximum == before + (after - before)
        assert cost.bound >= max(by_cell([cost]).values())
        before = after
        for axis, name in enumerate(SIZES):
            levels = spend.by_attribute(name)
            assert levels.tolist() == [
                max(v for cell, v in truth.items() if cell[axis] == level) for level in range(SIZES[name])
            ]


@pytest.mark.one_in(2)
@given(st.lists(costs, max_size=6), st.sampled_from([1, 4, 8, 12]))
@settings(deadline=None, max_examples=150)
def test_where_cells_would_be_too_many_the_spend_is_never_below(charges, limit):
    spend, dense = Spend(SIZES, limit), Spend(SIZES)
    for cost in charges:
        before, increase = spend.maximum, spend.increase(cost)
        spend.add(cost)
        dense.add(cost)
        assert spend.cells.size <= limit
        assert spend.maximum == before + increase
        assert increase <= cost.bound
    truth = by_cell(charges)
    assert spend.maximum >= max(truth.values())
    assert spend.maximum <= sum(cost.bound for cost in charges)
    for axis, name in enumerate(SIZES):
        for level, units in enumerate(spend.by_attribute(name)):
            assert units >= max(v for cell, v in truth.items() if cell[axis] == level)


WIDE = {f"x{number}": 1 + number % 3 for number in range(300)}


@pytest.mark.parametrize("seed", range(3))
def test_of_three_hundred_columns_the_spend_is_that_of_those_that_charges_tell_apart(seed):
    random = np.random.default_rng(seed)
    chosen = random.choice(list(WIDE), 7, replace=False).tolist()
    chosen = [name for name in WIDE if name in chosen]  # at most 3^7 cells differ
    wide, narrow = Spend(WIDE), Spend({name: WIDE[name] for name in chosen})
    truth = np.zeros([WIDE[name] for name in chosen], dtype=object)
    maximum = 0
    for _ in range(12):
        names = random.choice(chosen, random.integers(0, 4), replace=False).tolist()
        norms = {name: random.integers(0, 3, WIDE[name]) for name in names}
        rate = Fraction(int(random.integers(1, 10**9)), int(random.integers(1, 10**3)))
        cost = CellCost((CostTerm(rate, norms), CostTerm(Fraction(5, 3), {})))
        after = truth.copy()
        for cell in np.ndindex(*truth.shape):
            norm = math.prod(int(norms[n][level]) for n, level in zip(chosen, cell, strict=True) if n in norms)
            after[cell] += math.ceil(rate * norm) + 2
        assert wide.increase(cost) == narrow.increase(cost) == after.max() - truth.max()
        before = copy.deepcopy(wide)
        maximum = before.add_in_place(cost.to_json(), maximum)
        wide.add(cost)
        narrow.add(cost)
        truth = after
        assert wide.maximum == before.maximum == maximum == truth.max()
        assert (wide.axes, wide.cells.tolist()) == (before.axes, before.cells.tolist())
        assert wide.cells.ndim <= len(chosen)
    for axis, name in enumerate(chosen):
        others = tuple(other for other in range(len(chosen)) if other != axis)
        assert wide.by_attribute(name).tolist() == truth.max(axis=others).tolist() == narrow.by_attribute(name).tolist()
    assert (of_every_cell(narrow) == truth).all()
    untold = next(name for name in WIDE if name not in chosen and WIDE[name] == 3)
    assert wide.by_attribute(untold).tolist() == [truth.max()] * 3


@pytest.mark.one_in(2)
def test_many_columns_that_are_all_told_apart_share_cells():
    some = dict(list(WIDE.items())[:60])  # 6^20 cells
    spend = Spend(some)
    for name, levels in some.items():
        cost = CellCost((CostTerm(Fraction(1), {name: np.arange(levels)}),))
        rise = spend.increase(cost)
        assert 0 <= rise <= cost.bound
        spend.add(cost)
    assert spend.cells.size <= spend.limit
    assert spend.maximum == sum(levels - 1 for levels in some.values())  # who is at every last level


def counting(books, epsilon, **masks):
    """The cost of one counting query over the cells where every mask holds."""
    return CellCost(
        (CostTerm(books.rate(books.scale(books.units(epsilon), 1)), {n: np.array(m) for n, m in masks.items()}),)
    )


@pytest.mark.parametrize("books", [PureAccountant(Fraction(1)), GaussianAccountant(Fraction(1), 1e-6)])
def test_disjoint_questions_cost_what_one_costs(books):
    spend, units = Spend(SIZES), books.units(0.3)
    old, young = [0, 0, 1, 1], [1, 1, 0, 0]
    spend.add(counting(books, 0.3, age=old))
    spend.add(counting(books, 0.3, age=young))
    assert spend.maximum == units
    assert books.epsilon(spend.maximum) == pytest.approx(0.3, rel=1e-8)

    third = counting(books, 0.2, age=[0, 1, 1, 0], sex=[0, 1])  # overlaps both, in some cells
    more = books.units(0.2)
    assert spend.increase(third) == more
    spend.add(third)
    assert spend.maximum == units + more
    elsewhere = counting(books, 0.2, age=[1, 0, 0, 1])  # a cell of these has 0.3 only
    assert spend.increase(elsewhere) == 0
    spend.add(elsewhere)
    assert spend.increase(counting(books, 0.1, sex=[1, 0])) == books.units(0.1)
    assert spend.by_attribute("sex").tolist() == [units + more, units + more]


def test_ten_tenths_are_a_whole():
    books, spend = PureAccountant(Fraction(1)), Spend({"age": 3})
    for _ in range(10):
        spend.add(counting(books, 0.1, age=[1, 1, 0]))
    assert spend.maximum == books.total == UNITS


@pytest.mark.one_in(2)
@given(costs)
@settings(deadline=None)
def test_json_keeps_every_unit(cost):
    text = json.dumps(cost.to_json())
    again = CellCost.from_json(json.loads(text))
    assert again.to_json() == cost.to_json()
    assert [term.rate for term in again.terms] == [term.rate for term in cost.terms]
    for one, other in zip(cost.terms, again.terms, strict=True):
        assert one.norms.keys() == other.norms.keys()
        assert all(np.array_equal(one.norms[n], other.norms[n]) for n in one.norms)
    assert by_cell([again]) == by_cell([cost])


def test_long_norms_are_coded_by_runs():
    cost = CellCost((CostTerm(Fraction(1), {"age": np.repeat([0, 1, 0], [10, 1000, 5])}),))
    assert cost.to_json() == [{"rate": "1", "norms": {"age": [[0, 10], [1, 1000], [0, 5]]}}]


def test_a_table_without_attributes():
    spend = Spend({})
    spend.add(CellCost((CostTerm(Fraction(7, 2), {}),)))
    assert spend.maximum == 4
    assert spend.increase(CellCost(())) == 0


def test_costs_past_64_bits_are_added_as_bounds():
    spend = Spend({"age": 2, "sex": 2})
    one = CellCost((CostTerm(Fraction(5 * 10**18), {"age": np.array([1, 0])}),))
    spend.add(one)
    assert spend.increase(one) == 5 * 10**18
    spend.add(one)
    assert spend.maximum == 10**19
    # norms whose product passes 64 bits, at a rate that makes the cost small again
    wide = np.array([2**40, 0])
    many = CellCost((CostTerm(Fraction(1, 2**80), {"age": wide, "sex": wide}),))
    fresh = Spend({"age": 2, "sex": 2})
    fresh.add(many)
    assert fresh.maximum == 1
    huge = CellCost(
        (CostTerm(Fraction(10**30), {"age": np.array([0, 1])}), CostTerm(Fraction(10**30), {"age": np.zeros(2, int)}))
    )
    fresh.add(huge)
    assert fresh.maximum == 10**30 + 1
    nothing = CellCost((CostTerm(Fraction(10**30), {"age": np.zeros(2, int)}),))
    assert fresh.increase(nothing) == 0


def test_costs_of_another_table_are_refused():
    spend = Spend({"age": 3})
    with pytest.raises(ValueError, match="no attributes"):
        spend.increase(CellCost((CostTerm(Fraction(1), {"sex": np.array([1, 1])}),)))
    with pytest.raises(ValueError, match="2 levels, the table has 3"):
        spend.add(CellCost((CostTerm(Fraction(1), {"age": np.array([1, 1])}),)))


@pytest.mark.parametrize("norm", [[-1, 1], [0.5, 1.0]])
def test_norms_are_whole_and_not_negative(norm):
    with pytest.raises(ValueError, match="whole numbers from 0"):
        CostTerm(Fraction(1), {"age": np.array(norm)})


def test_rates_are_not_negative():
    with pytest.raises(ValueError, match="negative"):
        CostTerm(Fraction(-1), {})


@pytest.mark.parametrize(
    "norms",
    [
        {"a": [0, 1, 1, 0]},  # a box
        {"a": [0, 2, 2, 0], "b": [0, 3]},
        {"a": [1, 0, 0, 1]},  # none
        {"a": [0, 1, 2, 0]},
        {"a": [0, 0, 0, 0]},
        {},
    ],
)
@pytest.mark.parametrize("rate", ["1/3", "7", str(2**61), str(2**64)])
def test_in_place_boxes_and_others(norms, rate):
    sizes = {"a": 4, "b": 2}
    cost = CellCost((CostTerm(Fraction(rate), {name: np.array(norm) for name, norm in norms.items()}),))
    one, other, maximum = Spend(sizes), Spend(sizes), 0
    for more in (CellCost((CostTerm(Fraction(5), {"b": np.array([0, 1])}),)), cost, cost):
        one.add(more)
        maximum = other.add_in_place(more.to_json(), maximum)
        assert maximum == one.maximum == other.maximum
        np.testing.assert_array_equal(one.cells, other.cells)


@pytest.mark.parametrize(
    "term",
    [
        {"rate": "1", "norms": {"c": [[1, 4]]}},
        {"rate": "1", "norms": {"a": [[1, 3]]}},
        {"rate": "1", "norms": {"a": [[-1, 4]]}},
        {"rate": "1", "norms": {"a": [[1, -4], [1, 8]]}},
        {"rate": "-1", "norms": {"a": [[1, 4]]}},
        {"rate": "x", "norms": {}},
        {"rate": "1"},
    ],
)
def test_in_place_what_is_no_term_is_refused(term):
    spend = Spend({"a": 4, "b": 2})
    with pytest.raises((ValueError, KeyError, TypeError)):
        spend.add_in_place([term], 0)
    assert spend.maximum == 0

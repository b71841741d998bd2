"""Random histories: the spend of every cell is the column norm of all measurements stacked into one dense matrix.

The matrix is built cell by cell from what the queries mean, in exact fractions; nothing of it comes from the package
but the dense form of the operators.
"""

import json
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spends import of_every_cell

from dpnotebook.domain import Domain, Range
from dpnotebook.errors import PredicateError
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, Spend
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Summand, bounded_value
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Hierarchy,
    Identity,
    Kron,
    Marginals,
    Prefix,
    Stack,
    Total,
    Weighted,
)

LEVELS = {"a": [0, 1, 2, 3], "b": ["x", "y", "z"], "v": [2, 3, 4, 5, 6]}
DOMAIN = Domain({"a": Range(0, 3), "b": ["x", "y", "z"], "v": Range(2, 6)})
CELLS = list(product(*LEVELS.values()))
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@st.composite
def conditions(draw, depth=2):
    """A predicate as text, and what it means of the values of one row."""
    if depth and draw(st.booleans()):
        (one, first), (other, second) = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        return draw(
            st.sampled_from(
                [
                    (f"({one}) and ({other})", lambda row: first(row) and second(row)),
                    (f"({one}) or ({other})", lambda row: first(row) or second(row)),
                    (f"not ({one})", lambda row: not first(row)),
                ]
            )
        )
    name = draw(st.sampled_from(list(LEVELS)))
    value = draw(st.sampled_from(LEVELS[name]))
    sign = draw(st.sampled_from(["==", "!="] if name == "b" else list(COMPARE)))
    return f"{name} {sign} {value!r}", lambda row: COMPARE[sign](row[name], value)


@st.composite
def predicates(draw):
    """A predicate, and what it means of a row."""
    text, meaning = draw(st.one_of(st.just(("", lambda _: True)), conditions()))
    if not text:
        return Predicate.everything(DOMAIN), meaning
    try:
        return Predicate.parse(text, DOMAIN), meaning
    except PredicateError:  # no row satisfies it
        return Predicate.everything(DOMAIN), lambda _: True


def small(n):
    """Operators on n cells of one axis, with integer entries."""
    return st.sampled_from([Identity(n), Total(n), Prefix(n), AllRange(n), Hierarchy(n, 2), Weighted(3, Prefix(n))])


@st.composite
def operators(draw, sizes):
    """Operators on some axes whose column norms are products, or sums of such: what strategies are made of."""
    if not sizes:
        return draw(st.sampled_from([Identity(1), Weighted(2, Identity(1))]))
    kinds = ["product", "union", "marginals"] if len(sizes) > 1 else ["product", "union"]
    kind = draw(st.sampled_from(kinds))
    if kind == "marginals":
        bases = [draw(st.sampled_from([Identity(n), Prefix(n)])) for n in sizes]
        subsets = [tuple(i for i in range(len(sizes)) if mask >> i & 1) for mask in range(1 << len(sizes))]
        chosen = draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=3, unique=True))
        return Marginals(bases, {subset: draw(st.integers(1, 3)) for subset in chosen})
    parts = []
    for _ in range(1 if kind == "product" else 2):
        factors = [draw(small(n)) for n in sizes]
        whole = factors[0] if len(factors) == 1 else Kron(*factors)
        parts.append(Weighted(draw(st.integers(1, 3)), whole))
    return parts[0] if kind == "product" else Stack(*parts)


@dataclass
class Asked:
    """A measurement, which rows it counts, and the scale of its noise, of its last where it was refined."""

    measurement: Measurement
    meaning: object
    scale: Fraction

    @cached_property
    def dense(self):
        """The queries of the measurement over all cells, shape (answers, cells), in whole numbers."""
        dense = np.rint(self.measurement.operator.dense()).astype(int)
        columns = []
        for cell in CELLS:
            row = dict(zip(LEVELS, cell, strict=True))
            place, inside = 0, self.meaning(row)
            for axis in self.measurement.axes:
                level = LEVELS[axis.attribute].index(row[axis.attribute])
                inside = inside and level in axis.levels
                place = place * axis.size + (axis.levels.index(level) if inside else 0)
            queries = dense[:, place] if inside else np.zeros(len(dense), int)
            columns.append(np.concatenate([queries * part for part in added(self.measurement.summand, row["v"])]))
        return np.array(columns).T


def added(summand, value):
    """What a row of this value adds to each component of a summand."""
    if summand.column is None:
        return [1]
    clamped = min(max(Fraction(value), summand.low), summand.high)
    ends = [clamped - summand.low, summand.high - clamped] if summand.ends else [clamped]
    return [int(end / summand.step) for end in ends]


@st.composite
def histories(draw, most=5):
    """Measurements in the order in which they were paid for: (which, scale, scale before), with the list of them."""
    asked, paid = [], []
    for _ in range(draw(st.integers(1, most))):
        open_ = [i for i, each in enumerate(asked) if each.scale > Fraction(1, 4)]
        if open_ and draw(st.integers(0, 2)) == 0:
            which = draw(st.sampled_from(open_))
            before = asked[which].scale
            share = draw(st.fractions(Fraction(1, 5), Fraction(19, 20), max_denominator=40))
            asked[which].scale = before * share
            paid.append((which, asked[which].scale, before))
            continue
        names = draw(st.lists(st.sampled_from(list(LEVELS)), max_size=2, unique=True))
        axes = []
        for name in names:
            size = len(LEVELS[name])
            levels = draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=size, unique=True))
            axes.append(Axis(name, tuple(sorted(levels))))
        where, meaning = draw(predicates())
        summand = draw(
            st.sampled_from(
                [
                    Summand(),
                    Summand(),
                    bounded_value(DOMAIN, "v"),
                    bounded_value(DOMAIN, "v", (3, 5), 1),
                    bounded_value(DOMAIN, "v", (2, 6), 1, ends=True),
                ]
            )
        )
        measurement = Measurement(draw(operators([axis.size for axis in axes])), tuple(axes), where, summand)
        asked.append(Asked(measurement, meaning, draw(st.fractions(Fraction(1, 2), 500, max_denominator=10**6))))
        paid.append((len(asked) - 1, asked[-1].scale, None))
    return asked, paid


def due(asked, last, pure, rows):
    """The column norm of every cell over all measurements, each divided by the last of its noise, in exact units."""
    power, total = 1 if pure else 2, [Fraction(0)] * len(CELLS)
    for which, scale in last.items():
        rate = UNITS * (rows / scale) ** power
        norms = (np.abs(asked[which].dense) ** power).sum(axis=0).tolist()
        total = [so_far + rate * norm for so_far, norm in zip(total, norms, strict=True)]
    return total


def charges(asked, paid, accountant, rows):
    """The cost of each payment, as the ledger keeps it."""
    for which, scale, before in paid:
        cost = asked[which].measurement.cost(DOMAIN, accountant, scale, rows, before)
        yield CellCost.from_json(json.loads(json.dumps(cost.to_json())))


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6)], ids=["pure", "gaussian"])
@given(histories(), st.integers(1, 3))
@settings(deadline=None, max_examples=80)
def test_spend_is_the_column_norm_of_all_measurements(budget, history, rows):
    (asked, paid), accountant = history, accountant_for(budget)
    spend, terms, risen = Spend(DOMAIN.sizes), 0, 0
    for cost in charges(asked, paid, accountant, rows):
        terms += len(cost.terms)  # each of them is rounded up to a whole unit, of 10^-12
        risen += spend.increase(cost)
        spend.add(cost)
        assert spend.maximum == risen
    truth = due(asked, {which: scale for which, scale, _ in paid}, not budget.delta, rows)
    cells = of_every_cell(spend).ravel().tolist()
    assert spend.everywhere == 0
    assert all(exact <= units < exact + terms + 1 for exact, units in zip(truth, cells, strict=True))
    assert max(truth) <= spend.maximum < max(truth) + terms + 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6)], ids=["pure", "gaussian"])
@given(histories(), st.integers(1, 3), st.sampled_from([1, 5, 12, 20, 60]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_what_is_added_in_place_is_what_is_added(budget, history, rows, limit, merge):
    """Replaying a ledger touches only the box of each term, and finds what charging found on all cells."""
    (asked, paid), accountant = history, accountant_for(budget)
    one, other, maximum = Spend(DOMAIN.sizes, limit, merge), Spend(DOMAIN.sizes, limit, merge), 0
    for cost in charges(asked, paid, accountant, rows):
        one.add(cost)
        maximum = other.add_in_place(cost.to_json(), maximum)
        assert maximum == one.maximum == other.maximum
        assert (one.everywhere, one.axes, one.labels.keys()) == (other.everywhere, other.axes, other.labels.keys())
        np.testing.assert_array_equal(one.cells, other.cells)


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6)], ids=["pure", "gaussian"])
@given(histories(), st.integers(1, 3), st.sampled_from([1, 3, 4, 5, 12, 20]))
@settings(deadline=None, max_examples=80)
def test_with_few_cells_the_spend_is_never_less(budget, history, rows, limit):
    (asked, paid), accountant = history, accountant_for(budget)
    spend, bounds = Spend(DOMAIN.sizes, limit), 0
    for i, cost in enumerate(charges(asked, paid, accountant, rows)):
        before, rise = spend.maximum, spend.increase(cost)
        spend.add(cost)
        bounds += cost.bound
        assert spend.maximum == before + rise
        truth = due(asked, {which: scale for which, scale, _ in paid[: i + 1]}, not budget.delta, rows)
        assert max(truth) <= spend.maximum <= bounds
        for axis, (name, levels) in enumerate(LEVELS.items()):
            along = spend.by_attribute(name)
            for place, level in enumerate(levels):
                assert along[place] >= max(t for t, cell in zip(truth, CELLS, strict=True) if cell[axis] == level)


def test_queries_that_are_no_product_cost_no_less_than_their_columns():
    """The dearest column of such queries is charged in every cell that takes part."""
    random = np.random.default_rng(1)
    axes = (Axis("a", (0, 1, 2, 3)), Axis("b", (0, 2)))
    for delta in (0.0, 1e-6):
        accountant = accountant_for(Budget(1.0, delta))
        for _ in range(20):
            queries = Explicit(random.integers(-3, 4, (5, 8)).astype(float))
            where = Predicate.parse("v >= 3 or b == 'x'", DOMAIN)
            asked = Asked(
                Measurement(queries, axes, where), lambda row: row["v"] >= 3 or row["b"] == "x", Fraction(7, 3)
            )
            spend = Spend(DOMAIN.sizes)
            spend.add(asked.measurement.cost(DOMAIN, accountant, Fraction(7, 3), 2))
            cells = of_every_cell(spend).ravel().tolist()
            truth = due([asked], {0: Fraction(7, 3)}, not delta, 2)
            assert all(units >= exact for exact, units in zip(truth, cells, strict=True))
            assert spend.maximum == math.ceil(max(truth))


def test_a_refinement_leaves_the_price_of_the_lesser_noise():
    accountant = accountant_for(Budget(1.0))
    measurement = Measurement(Prefix(4), (Axis("a", (0, 1, 2, 3)),), Predicate.parse("b == 'x'", DOMAIN))
    steps = [Fraction(100), Fraction(40), Fraction(70, 3), Fraction(5)]
    refined, once = Spend(DOMAIN.sizes), Spend(DOMAIN.sizes)
    for before, after in zip([None, *steps], steps, strict=False):
        refined.add(measurement.cost(DOMAIN, accountant, after, 1, before))
    once.add(measurement.cost(DOMAIN, accountant, steps[-1], 1))
    assert 0 <= refined.maximum - once.maximum <= len(steps)
    assert once.maximum == 4 * UNITS // 5

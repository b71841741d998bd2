"""Above 2,000 cells, conditions of any kind: answers are as accurate as dense least squares over all cells."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import cho_factor, cho_solve

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner import over_rows
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, _measured_beside, known_in
from dpnotebook.planner.over_rows import ByRows, RowsBeside
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity

SIZES = {"a": 18, "b": 12, "c": 10}
NAMES = tuple(SIZES)
CELLS = 2_160
DOMAIN = Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
NEARLY_NOTHING = 1e-9  # precision of every cell, so that dense least squares has an inverse
UNKNOWN = 1e5  # variances above it are of that


def a_condition(rng):
    """Return lists, ranges and comparisons of some attributes, of all at once or of any."""
    texts = []
    for name in NAMES:
        kind = rng.integers(6)
        some = np.flatnonzero(rng.random(SIZES[name]) < 0.4).tolist()
        low, high = np.sort(rng.integers(0, SIZES[name], 2))
        if kind == 0 and some:
            texts.append(f"{name} in {some}")
        elif kind == 1:
            texts.append(f"{name} >= {low} and {name} <= {high}")
        elif kind == 2:
            texts.append(f"{name} <= {high}")
    return (" or " if rng.random() < 0.2 else " and ").join(f"({text})" for text in texts)


def a_table(rng, names=None):
    """Return a table of up to two attributes, or of those given, of some rows; and its queries over all cells."""
    text = a_condition(rng)
    where = Predicate.parse(text, DOMAIN) if text else Predicate.everything(DOMAIN)
    names = [name for name in NAMES if rng.random() < 0.4][:2] if names is None else names
    axes = tuple(Axis(name, where.levels_of(name)) for name in names)
    inside = where.dense(NAMES).ravel() if text else np.ones(CELLS, dtype=bool)
    level, place = np.indices([*SIZES.values()]).reshape(3, -1), np.zeros(CELLS, dtype=int)
    for axis in axes:
        at = np.searchsorted(axis.levels, level[NAMES.index(axis.attribute)])
        place = place * axis.size + at.clip(max=axis.size - 1)
    operator = product_of([Identity(axis.size) for axis in axes])
    queries = np.zeros((operator.shape[0], CELLS))
    queries[place[inside], np.flatnonzero(inside)] = 1
    return operator, axes, where, queries


def a_history(rng, tables, law):
    """Return a history of tables, each with its noise, and its information over all cells."""
    history, information = History(DOMAIN, law.name), NEARLY_NOTHING * np.eye(CELLS)
    for number, (operator, axes, where, queries) in enumerate(tables, 1):
        planned = Planned(Measurement(operator, axes, where), Fraction(int(rng.integers(3, 20))), 0, None)
        item = item_of(planned, (number, 0), np.round(rng.normal(0, 9, (1, len(queries)))), law)
        history.add(item)
        information += queries.T @ (queries / item.variance)
    return history, information


def asked(operator, axes, where):
    return LinearForm(ProductTerm(axes, where, operator, 1.0, np.arange(0)), COUNT, 1.0)


@pytest.fixture
def no_classes(monkeypatch):
    """Leave what classes of levels say out: over numbers it is the same, and this is about these."""
    monkeypatch.setattr(History, "by_classes", lambda *arguments, **options: None)


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("no_classes")
@pytest.mark.parametrize(("seed", "whole"), [(0, False), (2, True)])
def test_answers_are_as_accurate_as_from_everything_that_was_measured(seed, whole):
    rng, law = np.random.default_rng(seed), law_of("gaussian")
    tables = [a_table(rng) for _ in range(14)]
    if whole:  # of some rows every cell by itself
        tables.insert(5, a_table(rng, list(NAMES)))
    history, information = a_history(rng, tables, law)
    factor, looked, by_rows = cho_factor(information), 0, 0
    for _ in range(40):
        operator, axes, where, queries = a_table(rng)
        least = np.einsum("ij,ji->i", queries, cho_solve(factor, queries.T))
        known = (least < UNKNOWN) & queries.any(axis=1)
        if not known.any():
            continue
        if looked == 6:
            break
        found = known_in(asked(operator, axes, where), history, ())
        np.testing.assert_allclose(found.variances[known], least[known], rtol=1e-3)
        by_rows += isinstance(found, InClosedForm) and isinstance(found.found[0].reconstruction, ByRows)
        looked += 1
    assert looked > 3
    assert by_rows > 0


@pytest.mark.usefixtures("no_classes")
def test_what_is_said_of_an_answer_is_so_of_the_numbers_that_it_is_made_of():
    rng, law = np.random.default_rng(7), law_of("laplace")
    history, _ = a_history(rng, [a_table(rng) for _ in range(14)], law)
    looked = 0
    for _ in range(12):
        found = known_in(asked(*a_table(rng)[:3]), history, ())
        if not isinstance(found, InClosedForm) or not isinstance(found.found[0].reconstruction, ByRows):
            continue
        rows = np.flatnonzero(np.isfinite(found.variances))[:5]
        weights, keys = found.draws(rows, 10**5)
        noise = np.array([history.items[key].variance for key in keys])
        np.testing.assert_allclose(weights**2 @ noise, found.variances[rows], rtol=1e-9)
        looked += rows.size
    assert looked > 5


def test_what_has_no_room_is_left_out_and_promises_nothing_false(monkeypatch):
    monkeypatch.setattr(over_rows, "MOST_NUMBERS", 60)
    rng, law = np.random.default_rng(3), law_of("gaussian")
    history, information = a_history(rng, [a_table(rng) for _ in range(14)], law)
    factor, partial = cho_factor(information), 0
    for _ in range(6):
        operator, axes, where, queries = a_table(rng)
        part = ProductTerm(axes, where, operator, 1.0, np.arange(0))
        found = history.by_rows(part, COUNT)
        if found is None:
            continue
        known, partial = np.isfinite(found.variances()), partial + (not found.every)
        least = np.einsum("ij,ji->i", queries, cho_solve(factor, queries.T))
        assert (found.variances()[known] >= least[known] * (1 - 1e-3)).all()
    assert partial > 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [0, 4])
def test_what_is_supposed_tells_what_it_will_tell_when_it_is_measured(seed):
    """An update by what comes beside says the same as all numbers together, also of what nothing told before."""
    rng, law = np.random.default_rng(seed), law_of("gaussian")
    tables = [a_table(rng) for _ in range(12)]
    history, _ = a_history(rng, tables, law)
    looked, told = 0, 0
    for number in range(13, 19):
        operator, axes, where, queries = a_table(rng)
        other = tables[number % 12] if number % 3 == 0 else a_table(rng)  # measured again, or anew
        also = []
        for place, (each, sides, rows, inside) in enumerate([(operator, axes, where, queries), other][number % 2 :]):
            planned = Planned(Measurement(each, sides, rows), Fraction(5), 0, None)
            also.append(item_of(planned, (number, place), np.round(rng.normal(0, 9, (1, len(inside)))), law))
        part = ProductTerm(axes, where, operator, 1.0, np.arange(0))
        supposed, before = history.by_rows(part, COUNT, also), history.by_rows(part, COUNT)
        if supposed is None or before is None:
            continue
        assert isinstance(supposed._rows, RowsBeside)
        expected, known_before = supposed.variances(), np.isfinite(before.variances())
        for item in also:
            history.add(item)
        after = history.by_rows(part, COUNT)
        assert not isinstance(after._rows, RowsBeside)
        known = np.isfinite(after.variances())
        np.testing.assert_array_equal(np.isfinite(expected), known)
        np.testing.assert_allclose(expected[known], after.variances()[known], rtol=1e-9)
        rows = np.flatnonzero(known)[:9]
        weights = [
            {each.measurement.key: one.weights(rows)[:, at] for each, at in one.sources()} for one in (supposed, after)
        ]
        assert weights[0].keys() == weights[1].keys()
        for key, found in weights[0].items():
            np.testing.assert_allclose(found, weights[1][key], atol=1e-7)
        looked, told = looked + 1, told + int(known.sum() > known_before.sum())
    assert looked > 3
    assert told > 0


def test_counts_that_are_measured_together_deliver_what_all_numbers_say():
    """Of a question's own counts the covariances tell it, also where only some of them are measured."""
    rng, law = np.random.default_rng(0), law_of("gaussian")
    history, _ = a_history(rng, [a_table(rng) for _ in range(12)], law)
    looked = 0
    for _ in range(12):
        operator, axes, where, queries = a_table(rng)
        found = known_in(asked(operator, axes, where), history, ())
        if not isinstance(found, InClosedForm) or not found.joint or not found.whole or len(axes) != 1:
            continue
        some = rng.random(axes[0].size) < 0.7
        some[0] = True
        chosen = Predicate.box(
            DOMAIN,
            {axes[0].attribute: np.isin(np.arange(DOMAIN[axes[0].attribute].size), np.array(axes[0].levels)[some])},
        )
        planned = Planned(Measurement(operator, axes, where & chosen), Fraction(5), 0, None)
        item = item_of(planned, (13, 0), np.zeros((1, len(queries))), law)
        wanted = known_in(asked(operator, axes, where), history, [item]).variances
        delivered = _measured_beside(found.jointly(), some, 1 / item.variance)
        np.testing.assert_allclose(delivered, wanted, rtol=1e-8)
        looked += 1
    assert looked > 1


def session_of(domain, rows):
    session = dpn.Session(budget=dpn.Budget(100))
    return session, session.protect(pd.DataFrame(rows), "t", domain=domain)


@pytest.mark.usefixtures("same_noise")
def test_a_total_less_some_groups_is_known_through_attributes_that_are_not_asked_about():
    """All of `a` by `b` where c is one of three, and where it is not: together they are all rows."""
    rng = np.random.default_rng(1)
    rows = {name: rng.integers(0, size, 500) for name, size in SIZES.items()}
    _, table = session_of({name: dpn.Range(0, size - 1) for name, size in SIZES.items()}, rows)
    table.groupby(["a", "b"]).count(where="c in [1, 4, 7]", epsilon=1).run()
    table.groupby(["a", "b"]).count(where="not (c in [1, 4, 7])", epsilon=1).run()
    table.groupby("c").count(epsilon=0.01).run()
    one = table.count(where="a in [0, 2, 3, 9]", epsilon=0.1)
    assert one.plan.free
    assert table.groupby("b").count(where="a in [0, 2, 3, 9]", epsilon=0.1).plan.free


@pytest.mark.usefixtures("same_noise")
def test_plans_do_not_depend_on_what_was_looked_at_before():
    rng = np.random.default_rng(5)
    domain = {name: dpn.Range(0, size - 1) for name, size in SIZES.items()}
    rows = {name: rng.integers(0, size, 500) for name, size in SIZES.items()}
    tables = []
    for look in (False, True):
        again = np.random.default_rng(6)
        _, table = session_of(domain, rows)
        prices = []
        for _ in range(6):
            names = [name for name in NAMES if again.random() < 0.4][:2]
            where = a_condition(again) or None
            if look:
                table.groupby(["b", "c"]).count(where="a in [1, 3, 5]", error=40).plan  # noqa: B018
                table.count(where="a in [1, 3, 5] or b >= 4", error=40).plan  # noqa: B018
            query = (table.groupby(names) if names else table).count(where=where, error=90)
            prices.append(float(query.plan.epsilon))
            query.run()
        tables.append(prices)
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9)

"""Above 2,000 cells answers are as accurate as dense least squares over all cells, where conditions are few."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, known_in
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity

SIZES = {"a": 20, "b": 12, "c": 9}
NAMES = tuple(SIZES)
CELLS = 2_160
DOMAIN = Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
CONDITIONS = ("", "", "a < 10", "b >= 6", "c <= 4", "a >= 10 and c <= 4", "b >= 6 and c >= 5")
UNIONS = ("a < 10 or b >= 6", "a in [3, 12, 17] or c <= 2 or b == 4", "(a >= 10 and c <= 4) or (b < 3 and c >= 5)")
NEARLY_NOTHING = 1e-9  # precision of every cell, so that dense least squares has an inverse
UNKNOWN = 1e5  # variances above it are of that


def a_table(rng, conditions=CONDITIONS):
    """Return a table of up to two attributes, of all rows or some, and its queries over all cells."""
    text = str(rng.choice(conditions))
    where = Predicate.parse(text, DOMAIN) if text else Predicate.everything(DOMAIN)
    names = [name for name in NAMES if rng.random() < 0.4][:2]
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


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("asked", [CONDITIONS, UNIONS])
def test_answers_are_as_accurate_as_from_everything_that_was_measured(seed, asked):
    rng = np.random.default_rng(seed)
    history, law = History(DOMAIN, "gaussian"), law_of("gaussian")
    information = NEARLY_NOTHING * np.eye(CELLS)
    for number in range(1, 16):
        operator, axes, where, queries = a_table(rng, CONDITIONS if number % 3 else asked)
        planned = Planned(Measurement(operator, axes, where), Fraction(int(rng.integers(3, 20))), 0, None)
        item = item_of(planned, (number, 0), None, law)
        history.add(item)
        information += queries.T @ queries / item.variance
    factor, looked = cho_factor(information), 0
    for _ in range(8):
        operator, axes, where, queries = a_table(rng, asked)
        least = np.einsum("ij,ji->i", queries, cho_solve(factor, queries.T))
        known = least < UNKNOWN
        if not known.any():
            continue
        found = known_in(LinearForm(ProductTerm(axes, where, operator, 1.0, np.arange(0)), COUNT, 1.0), history, ())
        np.testing.assert_allclose(found.variances[known], least[known], rtol=1e-3)
        looked += 1
    assert looked > 3


def test_what_is_known_does_not_depend_on_what_was_asked_before():
    """What is kept of classes is a function of the history to the last bit, and goes when something is measured."""
    rng, law = np.random.default_rng(5), law_of("gaussian")
    used, items, looked = History(DOMAIN, "gaussian"), [], 0
    questions = [a_table(rng, (*CONDITIONS, *UNIONS)) for _ in range(6)]
    forms = [
        LinearForm(ProductTerm(axes, where, op, 1.0, np.arange(0)), COUNT, 1.0) for op, axes, where, _ in questions
    ]
    for number in range(1, 13):
        operator, axes, where, _ = a_table(rng)
        measurement = Measurement(operator, axes, where)
        planned = Planned(measurement, Fraction(int(rng.integers(3, 20))), 0, None)
        items.append(item_of(planned, (number, 0), rng.integers(0, 90, (1, operator.shape[0])), law))
        used.add(items[-1])
        if number % 4:
            continue
        found = [known_in(form, used, ()) for form in forms]
        for form, one in zip(reversed(forms), reversed(found), strict=True):
            fresh = History(DOMAIN, "gaussian")
            for item in items:
                fresh.add(item)
            other = known_in(form, fresh, ())
            assert type(one) is type(other)
            if isinstance(one, InClosedForm) and one.joint:  # atoms are added to, and their last digits say when
                known = np.isfinite(one.variances)
                for told, same in zip(one.estimates(), other.estimates(), strict=True):
                    np.testing.assert_array_equal(told[known], same[known])
                looked += 1
    assert looked > 4

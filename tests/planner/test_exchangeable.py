"""Least squares by classes of levels equals dense least squares over all cells."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner import level_classes
from dpnotebook.planner.exchangeable import by_classes, with_supposed
from dpnotebook.planner.factored import Factored
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import MOST_MIXED, in_classes
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import OverAtoms, asked_of
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.repeats import RecordedRepeats
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import LAPLACE
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity, Marginals

SIZES = {"a": 6, "b": 5, "c": 3, "d": 4}
NAMES = tuple(SIZES)
DOMAIN = Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})
CELLS = 360
CONDITIONS = ("a < 4", "d in [0, 2]", "b >= 2", "a in [0, 1, 5] and c == 1", "d == 3 and b < 3", "c != 0")
UNIONS = ("a < 2 or b == 1", "c == 1 or d >= 2 or a == 5", "(a < 3 and c == 0) or (b > 2 and d != 1)")


def dense(measurement):
    """Return the queries of a measurement over all cells, from its definition, cell by cell."""
    cells = np.indices([*SIZES.values()]).reshape(len(SIZES), -1)
    where = measurement.where
    inside = np.ones(CELLS, dtype=bool) if where.is_everything else where.dense(NAMES).reshape(-1)
    place = np.zeros(CELLS, dtype=int)
    for axis in measurement.axes:
        level = cells[NAMES.index(axis.attribute)]
        inside &= np.isin(level, axis.levels)
        place = place * axis.size + np.searchsorted(axis.levels, level).clip(max=axis.size - 1)
    found = np.zeros((measurement.operator.shape[0], CELLS))
    found[:, inside] = np.asarray(measurement.operator.dense(), dtype=float)[:, place[inside]]
    return found


def predicate(text):
    return Predicate.parse(text, DOMAIN) if text else Predicate.everything(DOMAIN)


def axes_of(names):
    return tuple(Axis(name, tuple(range(SIZES[name]))) for name in names)


def a_measurement(rng):
    """Return a table of some attributes in any order, of all rows or some; or a union of tables."""
    where = predicate(str(rng.choice(CONDITIONS + UNIONS)) if rng.random() < 0.6 else "")
    if rng.random() < 0.2:
        weights = {(0, 1): 1, (2,): 2, (1, 3): 1}
        return Measurement(Marginals([Identity(size) for size in SIZES.values()], weights), axes_of(NAMES), where)
    names = rng.permutation(NAMES)[: int(rng.integers(0, 4))].tolist()
    axes = axes_of(names)
    if names and rng.random() < 0.3:
        axes = (Axis(names[0], tuple(range(1, SIZES[names[0]]))), *axes[1:])
    return Measurement(product_of([Identity(axis.size) for axis in axes]), axes, where)


def a_history(rng, count):
    """Return measurements, their dense information and what they told of each cell."""
    recorded, information, vector = RecordedRepeats(), np.zeros((CELLS, CELLS)), np.zeros(CELLS)
    counts = rng.integers(0, 50, CELLS)
    measured = [a_measurement(rng) for _ in range(count)]
    for number, measurement in enumerate([*measured, measured[0]], 1):
        scale = Fraction(int(rng.integers(2, 9)))
        matrix = dense(measurement)
        noisy = np.rint(matrix @ counts + rng.normal(0, 3, matrix.shape[0]))
        item = item_of(Planned(measurement, scale, 0, None), (number, 0), noisy[None, :], LAPLACE)
        recorded.add(item)
        information += matrix.T @ matrix / item.variance
        vector += matrix.T @ noisy / item.variance
    return recorded, information, vector


def questions(rng):
    for _ in range(6):
        names = rng.permutation(NAMES)[: int(rng.integers(0, 4))].tolist()
        where = predicate(str(rng.choice(CONDITIONS + UNIONS)) if rng.random() < 0.6 else "")
        axes = tuple(Axis(name, where.levels_of(name)) for name in names)
        yield ProductTerm(axes, where, product_of([Identity(axis.size) for axis in axes]), 1.0, np.arange(0))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(8))
def test_answers_are_dense_least_squares(seed, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", 10**4)
    rng = np.random.default_rng(seed)
    recorded, information, vector = a_history(rng, int(rng.integers(2, 14)))
    inverse, determined = np.linalg.pinv(information, rcond=1e-12, hermitian=True), 0
    for part in questions(rng):
        found = by_classes(part, NAMES, DOMAIN, list(recorded.by_queries.values()))
        asked = dense(Measurement(part.operator, part.axes, part.where))
        known = np.abs(asked - asked @ inverse @ information).max(axis=1) < 1e-7
        variances = found.variances()
        assert found.every
        assert (np.isfinite(variances) == known).all()
        np.testing.assert_allclose(variances[known], np.diagonal(asked @ inverse @ asked.T)[known], rtol=1e-6)
        noisy, answers = found.numbers, asked @ inverse @ vector
        np.testing.assert_allclose(found.answers(noisy)[known], answers[known], rtol=1e-6, atol=1e-6)
        rows = np.flatnonzero(known)
        weights = found.weights(rows)
        np.testing.assert_allclose(weights @ noisy, answers[known], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose((weights**2).sum(axis=1), variances[known], rtol=1e-6)
        np.testing.assert_allclose(variances[found.alike], variances, rtol=1e-9)
        mixture = np.where(known, rng.normal(size=known.size), 0.0)
        np.testing.assert_allclose(found.mixed(mixture)[0], mixture[known] @ weights, rtol=1e-6, atol=1e-9)
        largest = [np.abs(found.mixed(mixture)[:, columns]).max() for _, columns in found.sources()]
        np.testing.assert_allclose(found.peaks(mixture), largest, rtol=1e-9, atol=1e-12)
        covariance, left = found.jointly()
        whole = asked @ inverse @ asked.T
        np.testing.assert_allclose(covariance[np.ix_(known, known)], whole[np.ix_(known, known)], rtol=1e-6, atol=1e-9)
        assert ((np.abs(left).max(axis=1, initial=0) < 1e-7) == known).all()
        determined += known.sum()
    assert determined > 0


@pytest.mark.parametrize("most", [10**4, 24])
def test_what_is_supposed_beside_what_was_recorded_is_dense_least_squares(most, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", most)
    looked = sum(_looked_beside(np.random.default_rng(100 + seed)) for seed in range(8))
    assert looked > 8


def _looked_beside(rng):
    """Compare questions beside what is supposed, and return how many had room there."""
    recorded, information, _ = a_history(rng, int(rng.integers(4, 14)))
    known, looked = list(recorded.by_queries.values()), 0
    for part in questions(rng):
        if (before := by_classes(part, NAMES, DOMAIN, known)) is None:
            continue
        own, more = Measurement(part.operator, part.axes, part.where), []
        for number, one in enumerate((own, known[0].measurement, a_measurement(rng)), 100):
            planned = Planned(one, Fraction(int(rng.integers(1, 9))), 0, None)
            more.append(item_of(planned, (number, 0), np.zeros((1, one.operator.shape[0])), LAPLACE))
        precisions, parts = dict(before.information.told.precisions), list(before.information.told.parts)
        supposed = recorded.supposed(more)
        found = with_supposed(part, before.information, supposed)
        assert before.information.told.precisions == precisions
        assert before.information.told.parts == parts
        if found is None:
            continue
        looked += 1
        # As many are left out as where what is supposed comes first.
        first = [*supposed.values(), *(each for each in known if each.measurement.key not in supposed)]
        other = by_classes(part, NAMES, DOMAIN, first)
        names = [each.measurement.key for each, _ in found.sources()]
        assert sorted(names) == sorted(each.measurement.key for each, _ in other.sources())
        np.testing.assert_allclose(found.variances(), other.variances(), rtol=1e-7)
        if found.every:
            asked = dense(own)
            told = [dense(item.measurement) / np.sqrt(item.variance) for item in more]
            inverse = np.linalg.pinv(information + sum(one.T @ one for one in told), rcond=1e-12, hermitian=True)
            np.testing.assert_allclose(found.variances(), np.diagonal(asked @ inverse @ asked.T), rtol=1e-6)
            numbers = [each.weighted.size for each, _ in found.sources()]
            weights = found.weights(np.arange(len(asked)))
            assert weights.shape[1] == sum(numbers)
            np.testing.assert_allclose((weights**2).sum(axis=1), found.variances(), rtol=1e-6)
    return looked


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_only_supposed_is_the_same_in_passing_as_with_the_whole_certificate(seed, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", 10**4)
    looked = []
    in_passing = Factored.in_passing
    monkeypatch.setattr(Factored, "in_passing", lambda *a, **b: looked.append(in_passing(*a, **b)) or looked[-1])
    rng = np.random.default_rng(seed)
    recorded, *_ = a_history(rng, int(rng.integers(2, 14)))
    known = list(recorded.by_queries.values())
    shared = 0
    for part in questions(rng):
        before, more = by_classes(part, NAMES, DOMAIN, known, apart=True), RecordedRepeats()
        for number, one in enumerate((Measurement(part.operator, part.axes, part.where), a_measurement(rng)), 100):
            planned = Planned(one, Fraction(int(rng.integers(1, 9))), 0, None)
            more.add(item_of(planned, (number, 0), np.zeros((1, one.operator.shape[0])), LAPLACE))
        told = [*known, *list(more.by_queries.values())[: int(rng.integers(1, 3))]]
        whole, quick = by_classes(part, NAMES, DOMAIN, told), by_classes(part, NAMES, DOMAIN, told, before=before)
        shared += quick.information.shares
        variances = whole.variances()
        np.testing.assert_allclose(quick.variances(), variances, rtol=1e-9)
        rows = np.flatnonzero(np.isfinite(variances))
        np.testing.assert_allclose(quick.weights(rows), whole.weights(rows), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(quick.answers(quick.numbers)[rows], whole.answers(whole.numbers)[rows], atol=1e-6)
        both = np.ix_(rows, rows)
        np.testing.assert_allclose(quick.jointly()[0][both], whole.jointly()[0][both], rtol=1e-7, atol=1e-9)
    assert sum(one is not None for one in looked) > len(looked) / 4
    assert shared


@pytest.mark.parametrize("seed", range(4))
def test_draws_add_up_to_the_variance_and_are_given_up_only_where_they_are_too_many(seed, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", 10**4)
    recorded, *_ = a_history(np.random.default_rng(seed), 12)
    axes = axes_of(("b", "a"))
    part = ProductTerm(axes, predicate(""), product_of([Identity(axis.size) for axis in axes]), 1.0, np.arange(0))
    closed = in_classes(by_classes(part, NAMES, DOMAIN, list(recorded.by_queries.values())), 1.0, 1.0, 1.0)
    rows = np.flatnonzero(np.isfinite(closed.variances))
    assert rows.size > MOST_MIXED  # of so many the first is looked at before the others
    weights, keys = closed.draws(rows, 10**6)
    variances = [recorded.items[key].variance for key in keys]
    np.testing.assert_allclose(weights**2 @ variances, closed.variances[rows], rtol=1e-6)
    assert closed.draws(rows, len(keys)) is not None
    assert all(closed.draws(rows, most) is None for most in (0, len(keys) // 3, len(keys) - 1))


@pytest.mark.parametrize("seed", range(4))
def test_what_has_no_room_is_left_out_and_promises_nothing_false(seed, monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_CLASSES", 12)
    rng = np.random.default_rng(seed)
    recorded, information, _ = a_history(rng, 12)
    inverse, less = np.linalg.pinv(information, rcond=1e-12, hermitian=True), 0
    for part in questions(rng):
        found = by_classes(part, NAMES, DOMAIN, list(recorded.by_queries.values()))
        if found is None:
            continue
        asked = dense(Measurement(part.operator, part.axes, part.where))
        least = np.diagonal(asked @ inverse @ asked.T)
        known = np.isfinite(found.variances())
        assert (found.variances()[known] >= least[known] * (1 - 1e-9)).all()
        weights = found.weights(np.flatnonzero(known))
        np.testing.assert_allclose((weights**2).sum(axis=1), found.variances()[known], rtol=1e-6)
        less += not found.every
    assert less > 0


def test_a_condition_of_too_many_boxes_is_left_out(monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_BOXES", 1)
    recorded = RecordedRepeats()
    where = predicate("a < 2 or b == 1")
    for number, measurement in enumerate(
        [Measurement(Identity(1), (), where), Measurement(Identity(6), axes_of("a"), predicate(""))]
    ):
        noisy = np.zeros((1, measurement.operator.shape[0]))
        recorded.add(item_of(Planned(measurement, Fraction(2), 0, None), (number, 0), noisy, LAPLACE))
    part = ProductTerm(axes_of("a"), predicate(""), Identity(6), 1.0, np.arange(0))
    found = by_classes(part, NAMES, DOMAIN, list(recorded.by_queries.values()))
    assert not found.products
    assert not found.every
    np.testing.assert_allclose(found.variances(), LAPLACE.count_variance(Fraction(2)))


def test_plans_beside_tables_of_more_cells_than_atoms_promise_dense_least_squares(monkeypatch):
    # 10 x 10 x 10 x 6 cells, of which no question's attributes have room together; these have 1,000 or 600.
    domain = {"a": dpn.Range(0, 9), "b": dpn.Range(0, 9), "c": dpn.Range(0, 9), "d": dpn.Range(0, 5)}
    session = dpn.Session(budget=dpn.Budget(1e4), purchases="never")
    table = session.protect(pd.DataFrame({name: [0] for name in domain}), "t", domain=domain)
    for keys, where in (("ab", "c < 4"), ("bc", None), ("abc", None), ("ad", "b < 7"), ("ac", None), ("bcd", "a < 2")):
        table.groupby(list(keys)).count(where=where, epsilon=0.5, fresh=True).run()

    def asked(*some):
        for keys, where in some:
            for variance in (40.0, 7.0):
                query = table.groupby(list(keys)).count(where=where, variance=variance)
                plan = query.plan
                (history,) = session._questions.histories._known.values()
                known = asked_of(query.question, history)
                values, variances = known.estimates()
                told = np.where(np.isfinite(variances), values, 0.0)
                yield known, told, variances, plan.cost.units, plan.std_error

    whole = ("bca", None), ("ba", "c < 4"), ("c", "a < 2 and b < 7"), ("cb", "a == 5")
    wider = ("db", "a >= 3"), ("d", None)  # of which tables of other attributes tell something as well
    classes, more = list(asked(*whole)), list(asked(*wider))
    assert all(known.joint for known, *_ in classes)
    monkeypatch.setattr(History, "by_classes", lambda *_: None)
    atoms, less = list(asked(*whole)), list(asked(*wider))
    assert all(isinstance(known, OverAtoms) for known, *_ in atoms)
    for (_, *one), (_, *other) in zip(classes, atoms, strict=True):
        for value, same in zip(one, other, strict=True):
            np.testing.assert_allclose(value, same, rtol=1e-6, atol=1e-6)
    for (_, _, variances, units, _), (_, _, others, most, _) in zip(more, less, strict=True):
        assert (variances <= others * (1 + 1e-9)).all()
        assert units <= most
    session.close()

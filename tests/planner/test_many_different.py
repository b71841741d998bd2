"""Beside many different releases over many attributes a plan looks at few of them, and loses nothing by it."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner import level_classes
from dpnotebook.planner.asked_histogram import AskedProducts
from dpnotebook.planner.closed_form import ClosedForm
from dpnotebook.planner.history import History
from dpnotebook.planner.information import Information
from dpnotebook.planner.items import item_of
from dpnotebook.planner.level_classes import MOST_CLASSES, ToldProducts
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, product_of
from dpnotebook.planner.repeats import RecordedRepeats
from dpnotebook.planner.supposed import Supposed
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity, Marginals, Prefix

NAMES = tuple("abcdefg")
DOMAIN = Domain({name: dpn.Range(0, 9) for name in NAMES})


def some_rows(rng, names):
    """Return rows told by some attributes, by levels that follow each other."""
    masks = {}
    for name in names:
        low, high = np.sort(rng.integers(0, 10, 2))
        masks[name] = (np.arange(10) >= low) & (np.arange(10) <= high)
    return Predicate.box(DOMAIN, masks)


def a_table(rng, most=3):
    """Return counts by some attributes, mostly of all rows, else of some rows by one or two others."""
    chosen = rng.permutation(NAMES)[: int(rng.integers(1, most + 2))].tolist()
    told = chosen[: int(rng.integers(0, 3))] if rng.random() < 0.6 else []
    where = some_rows(rng, told)
    axes = tuple(Axis(name, where.levels_of(name)) for name in NAMES if name in chosen[len(told) :][:most])
    return Measurement(product_of([Identity(axis.size) for axis in axes]), axes, where)


def history_of(rng, count, noise="gaussian"):
    history, law = History(DOMAIN, noise), law_of(noise)
    for number in range(1, count + 1):
        planned = Planned(a_table(rng), Fraction(int(rng.integers(3, 20))), 0, None)
        history.add(item_of(planned, (number, 0), None, law))
    return history


def asked(measurement):
    return ProductTerm(measurement.axes, measurement.where, measurement.operator, 1.0, np.arange(0))


def test_few_classes_are_solved_for_where_more_was_measured_than_they_hold():
    rng = np.random.default_rng(3)
    history, seen = history_of(rng, 150), 0
    for _ in range(12):
        part = asked(a_table(rng))
        found = history.by_classes(part, COUNT)
        if found is None:
            continue
        assert set(part.attributes) <= set(found.names) < set(NAMES)
        assert found.classes <= MOST_CLASSES
        seen += len(found.names) > len(part.attributes)
    assert seen >= 6


def test_what_the_rows_of_a_question_are_told_by_comes_before_what_others_are_told_by():
    rng = np.random.default_rng(5)
    history = history_of(rng, 150)
    part = asked(Measurement(Identity(10), (Axis("c", tuple(range(10))),), some_rows(rng, ["a"])))
    found = history.by_classes(part, COUNT)
    assert found is not None
    assert len(found.names) > 2
    told = {known.measurement.key for known, _ in found.sources()}
    own = [each for each in history._counts.by_queries.values() if each.rows <= {"a", "c"}]
    assert len(own) > 10
    assert all(each.measurement.key in told for each in own)
    assert not found.every


@pytest.mark.parametrize("seed", range(6))
def test_no_measurement_that_is_close_enough_by_itself_is_passed_over(seed):
    rng = np.random.default_rng(seed)
    recorded, closed, law = RecordedRepeats(), ClosedForm(DOMAIN), law_of("laplace")
    for number in range(1, 41):
        measurement = a_table(rng)
        if number % 4 == 0:
            axes = tuple(Axis(name, tuple(range(10))) for name in NAMES[:3])
            weights = {(0,): int(rng.integers(1, 4)), (0, 1): 1, (1, 2): int(rng.integers(1, 4))}
            measurement = Measurement(Marginals([Identity(10)] * 3, weights), axes, Predicate.everything(DOMAIN))
        planned = Planned(measurement, Fraction(int(rng.integers(3, 20))), 0, None)
        recorded.add(item_of(planned, (number, 0), None, law))
    for known in recorded.changed(0):
        closed.put(known)
    compared = passed_over = 0
    for _ in range(20):
        measurement = a_table(rng, most=2)
        if len(measurement.axes) == 1 and rng.random() < 0.3:
            measurement = Measurement(Prefix(measurement.axes[0].size), measurement.axes, measurement.where)
        everything = [one.variances for one in closed.each(asked(measurement), 1.0, 1.0)]
        if not everything:
            continue
        most = float(np.median([variances.min() for variances in everything]))
        close = [variances for variances in everything if variances.min() <= most]
        found = [one.variances for one in closed.each(asked(measurement), 1.0, 1.0, most * (1 + 1e-9))]
        for variances in close:
            assert any(np.array_equal(variances, one) for one in found)
        compared += len(close)
        passed_over += len(everything) - len(found)
    assert compared > 20
    assert passed_over > 10


def test_measurements_that_are_too_noisy_are_not_looked_at(monkeypatch):
    rng = np.random.default_rng(8)
    recorded, law = RecordedRepeats(), law_of("laplace")
    for number in range(1, 201):
        recorded.add(item_of(Planned(a_table(rng), Fraction(20), 0, None), (number, 0), None, law))
    looked = []
    of = AskedProducts.of
    monkeypatch.setattr(AskedProducts, "of", lambda self, source: looked.append(source) or of(self, source))
    part = asked(Measurement(Identity(10), (Axis("c", tuple(range(10))),), Predicate.everything(DOMAIN)))
    found = list(closed_form_of(recorded).each(part, 1.0, 1.0, 2 * 20.0**2))
    assert len(found) == 1
    assert len(looked) == 1
    looked.clear()
    closed = closed_form_of(recorded)
    everything = list(closed.each(part, 1.0, 1.0))
    assert len(looked) > 1
    looked.clear()
    again = list(closed.each(part, 1.0, 1.0))  # as a plan asks several times
    assert [one.found for one in again] == [one.found for one in everything]
    assert not looked


@pytest.mark.parametrize("seed", range(3))
def test_what_each_says_by_itself_is_said_anew_once_more_was_measured(seed):
    rng = np.random.default_rng(seed)
    recorded, closed, law = RecordedRepeats(), ClosedForm(DOMAIN), law_of("laplace")
    measured, compared = [a_table(rng) for _ in range(40)], 0
    part = asked(Measurement(Identity(10), (Axis("c", tuple(range(10))),), Predicate.everything(DOMAIN)))
    for number in range(1, 201):
        position = recorded.count
        planned = Planned(measured[int(rng.integers(40))], Fraction(int(rng.integers(2, 30))), 0, None)
        recorded.add(item_of(planned, (number, 0), None, law))
        for known in recorded.changed(position):
            closed.put(known)
        if number % 5:
            continue
        for one, other in zip(closed.each(part, 1.0, 1.0), closed_form_of(recorded).each(part, 1.0, 1.0), strict=True):
            np.testing.assert_array_equal(one.variances, other.variances)
            compared += 1
        together, anew = closed.known(part, 1.0, 1.0), closed_form_of(recorded).known(part, 1.0, 1.0)
        if together is not None and anew is not None:
            np.testing.assert_array_equal(together.variances, anew.variances)
    assert compared > 20


def test_what_is_of_some_rows_comes_in_the_order_of_the_first_question():
    rng = np.random.default_rng(5)
    recorded, law, latest = RecordedRepeats(), law_of("laplace"), {}
    measured = [a_table(rng) for _ in range(30)]
    for number in range(1, 121):
        measurement = measured[int(rng.integers(30))]
        refines = latest.get(measurement.key) if rng.random() < 0.5 else None
        planned = Planned(measurement, Fraction(200 - number), 0, None, refines)
        recorded.add(item_of(planned, (number, 0), None, law))
        latest[measurement.key] = number, 0
    for names in ((), ("a",), ("b", "c"), ("a", "b", "c", "d"), DOMAIN.names):
        told = [known for known in recorded.changed(0) if known.rows <= set(names)]
        assert recorded.of_some(names) == told


def closed_form_of(recorded):
    """Return what was measured in closed form, of which nothing was asked yet."""
    closed = ClosedForm(DOMAIN)
    for known in recorded.changed(0):
        closed.put(known)
    return closed


def test_what_has_a_copy_is_not_changed_by_it():
    rng = np.random.default_rng(11)
    recorded, closed, law = RecordedRepeats(), ClosedForm(DOMAIN), law_of("gaussian")
    tables = [a_table(rng) for _ in range(30)]
    for number, measurement in enumerate(tables[:20], start=1):
        recorded.add(item_of(Planned(measurement, Fraction(9), 0, None), (number, 0), None, law))
    for known in recorded.changed(0):
        closed.put(known)
    part = asked(Measurement(Identity(10), (Axis("c", tuple(range(10))),), Predicate.everything(DOMAIN)))
    before = closed.known(part, 1.0, 1.0)
    twin, more = closed.copy(), RecordedRepeats()
    for number, measurement in enumerate([part_of_c(), *tables[20:]], start=100):
        more.add(item_of(Planned(measurement, Fraction(1), 0, None), (number, 0), None, law))
    for known in more.changed(0):
        twin.put(known)
    np.testing.assert_array_equal(closed.known(part, 1.0, 1.0).variances, before.variances)
    assert (twin.known(part, 1.0, 1.0).variances < before.variances).all()


def part_of_c():
    return Measurement(Identity(10), (Axis("c", tuple(range(10))),), Predicate.everything(DOMAIN))


def test_tables_of_all_rows_have_room_after_many_that_have_none(monkeypatch):
    monkeypatch.setattr(level_classes, "MOST_LEFT_OUT", 3)
    rng, law = np.random.default_rng(2), law_of("gaussian")
    told, names = ToldProducts(("a", "b", "c", "d"), DOMAIN, (), 40), set("abcd")
    looked = []
    monkeypatch.setattr(
        level_classes, "boxes_of", lambda *args, of=level_classes.boxes_of: looked.append(args) or of(*args)
    )
    for number in range(1, 400):
        measurement = a_table(rng)
        recorded = RecordedRepeats([item_of(Planned(measurement, Fraction(5), 0, None), (number, 0), None, law)])
        (known,) = recorded.changed(0)
        before = len(looked), len(told.parts)
        told.put(known)
        if known.rows and told._left_out >= 3 and before[0] == len(looked):
            assert len(told.parts) == before[1]
        if not known.rows:
            assert len(told.parts) > before[1]
        if not known.rows <= names:
            assert len(looked) == before[0]
    assert told._left_out == 3
    assert not told.room
    assert not told.every


@pytest.mark.parametrize("few", [1, 30, 10**9])
@pytest.mark.parametrize("much", [0.0, 1.0])
def test_queries_of_few_atoms_are_added_up_in_turn_or_at_once(monkeypatch, few, much):
    monkeypatch.setattr("dpnotebook.planner.information.SHORT", few)
    monkeypatch.setattr("dpnotebook.planner.information.DENSE", much)
    rng = np.random.default_rng(4)
    rows = (rng.random((150, 120)) < rng.choice([0.01, 0.03, 0.3], (150, 1))) * 1.0
    precision = rng.random(150) + 0.1
    information = Information(120)
    information.add(rows, precision, np.zeros(150))
    np.testing.assert_allclose(information.matrix, (rows.T * precision) @ rows, rtol=1e-12, atol=1e-12)


def test_cells_of_a_condition_that_are_kept_are_nobody_elses():
    where = some_rows(np.random.default_rng(6), ["a", "c"])
    first = where.dense(["a", "c"])
    first[:] = True
    np.testing.assert_array_equal(where.dense(["a", "c"]), where.dense(["c", "a"]).T)
    assert not where.dense(["a", "c"]).all()


@pytest.mark.parametrize("seed", range(4))
def test_what_matters_most_comes_first_as_if_all_were_looked_through(seed):
    rng, law = np.random.default_rng(seed), law_of("gaussian")
    history = history_of(rng, 120)
    for number in range(200, 220):  # again, and the latest of these come first
        again = history.items[int(rng.integers(1, 120)), 0].measurement
        history.add(item_of(Planned(again, Fraction(5), 0, None), (number, 0), None, law))
    supposed = [a_table(rng), history.items[7, 0].measurement]
    items = [item_of(Planned(one, Fraction(3), 0, None), (0, at), None, law) for at, one in enumerate(supposed)]
    for also in ((), items):
        part, beside = asked(a_table(rng)), Supposed.of(also).telling(COUNT)
        names = part.attributes | set("abc")
        known = history._with_supposed(COUNT, beside)
        first = [one.key for one in supposed if also and set(one.where.attributes) <= names]
        others = sorted(
            (each for name, each in known.items() if each.rows <= names and name not in first),
            key=lambda each: (
                each.measurement.where.key != part.where.key,
                len(each.rows - part.attributes),
                each.measurement.answers == 1,
                *(-place for place in each.latest),
            ),
        )
        found = history._by_importance(part, COUNT, beside, names)
        assert [each.measurement.key for each in found] == [*first, *(each.measurement.key for each in others)]
        assert all(each is known[each.measurement.key] for each in found)
        assert len(found) > 10

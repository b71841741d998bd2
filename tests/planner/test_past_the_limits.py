"""What was paid for is answered whatever else was measured, below, at and past the size of one least-squares state.

Measurements of a few hundred numbers each can together tell thousands of cells apart. What does not fit together is
answered from what fits, and never from nothing.
"""

import json
import math
import shutil
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.focused import focused
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.least_squares_state import MOST_ATOMS
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm, measurement_to_json
from dpnotebook.planner.repeats import RecordedRepeats
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import LAPLACE, law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Summand
from dpnotebook.workload import Identity, Kron

# Written at commit 01db493 with the rows of `people`: a crosstab by sex and age where income >= 5000, a histogram of
# income where age >= 2, and a median of income where age >= 2, at epsilon 0.1 each. Of the histogram 39 bins were
# recorded as 0 from 0 to 0, of an infinite standard error.
BEFORE = Path(__file__).parents[1] / "data" / "ledger_before_limits.sqlite"
BUDGETS = {"pure": dpn.Budget(20.0), "gaussian": dpn.Budget(20.0, 1e-6)}
ROWS = 8_000


def people(budget, ledger=":memory:", ages=100, incomes=40):
    """Return a session on made-up people, their table and their rows."""
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, ages, ROWS),
            "sex": rng.choice(["F", "M"], ROWS),
            "income": rng.integers(0, incomes * 5_000, ROWS),
        }
    )
    domain = {
        "age": dpn.Range(0, ages - 1),
        "sex": ["F", "M"],
        "income": dpn.Bins(0, incomes * 5_000, count=incomes),
    }
    session = dpn.Session(budget=BUDGETS[budget], ledger=ledger)
    return session, session.protect(frame, "people", domain=domain), frame


def deliver(query):
    """Run a query and hold what it shows against what its plan said; return its frame."""
    plan = query.plan
    release = query.run()
    values = release.frame[["value", "std_error", "lower", "upper"]].to_numpy(dtype=float)
    assert np.isfinite(values).all()
    value, std_error, lower, upper = values.T
    assert ((lower < upper) & (lower <= value) & (value <= upper)).all()
    if query.question.measures[0].kind != "quantile":
        assert (std_error > 0).all()
        assert std_error.max() <= plan.std_error * (1 + 1e-5)
        assert ((upper - lower) / 2).max() <= plan.error * (1 + 1e-5)
    return release.frame


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_histogram_after_a_crosstab_shows_every_bin(budget):
    session, table, frame = people(budget)
    deliver(table.crosstab("sex", "age", where="income >= 5000", epsilon=0.1))
    found = deliver(table.histogram("income", where="age >= 2", epsilon=0.1))
    exact = np.bincount(frame["income"][frame["age"] >= 2] // 5_000, minlength=40)
    assert (np.abs(found["value"] - exact) < 17 * found["std_error"]).all()
    assert session.audit().ok


@pytest.mark.one_in(8)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("accuracy", [{"epsilon": 0.1}, {"error": 60}, {"variance": 900.0}])
def test_a_quantile_after_a_crosstab_is_recorded_and_stays(budget, accuracy, tmp_path):
    session, table, frame = people(budget, tmp_path / "ledger")
    deliver(table.crosstab("sex", "age", where="income >= 5000", epsilon=0.1))
    # So wide an interval that it misses once in 10^9 runs.
    query = table.quantile("income", 0.5, where="age >= 2", confidence=1 - 1e-9, **accuracy)
    first = deliver(query)
    assert query.plan.free
    spent = session.ledger.spent
    session.close()
    again, table, _ = people(budget, tmp_path / "ledger")  # `protect` finishes what was charged and not recorded
    repeated = table.quantile("income", 0.5, where="age >= 2", confidence=1 - 1e-9, **accuracy).run()
    assert again.ledger.spent == spent
    assert repeated.frame.equals(first)
    assert first["lower"][0] <= np.median(frame["income"][frame["age"] >= 2]) <= first["upper"][0]
    audit = again.audit()
    assert audit.ok
    assert not audit.pending


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_was_told_apart_before_is_still_known_to_whom_it_matters(budget):
    """Past the size of one state each question is answered from what matters to it, as freely as before."""
    session, table, _ = people(budget)
    deliver(table.crosstab("sex", "age", where="income >= 5000", variance=100.0))
    deliver(table.histogram("income", where="age >= 2", variance=100.0))
    spent = session.ledger.spent
    parts = [
        table.count(where="age < 50 and income >= 5000", variance=2 * 50 * 100.0 * 1.01),
        table.count(where="income < 50000 and age >= 2", variance=10 * 100.0 * 1.01),
        table.histogram("sex", where="income >= 5000", variance=100 * 100.0 * 1.01),
    ]
    for query in parts:
        assert query.plan.free
        deliver(query)
    assert session.ledger.spent == spent


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_crosstab_too_large_for_one_state_answers_its_sums(budget):
    session, table, frame = people(budget, ages=90, incomes=60)
    assert MOST_ATOMS < 90 * 60
    deliver(table.crosstab("age", "income", variance=25.0))
    spent = session.ledger.spent
    found = deliver(table.count(where="age < 30 and income < 50000", variance=300 * 25.0 * 1.01))
    exact = ((frame["age"] < 30) & (frame["income"] < 50_000)).sum()
    assert abs(found["value"][0] - exact) < 17 * found["std_error"][0]
    assert found["std_error"][0] == pytest.approx(math.sqrt(300 * 25.0), rel=0.01)
    deliver(table.histogram("sex", error=200))  # of which it says nothing
    assert session.ledger.spent > spent


@pytest.mark.slow
@pytest.mark.parametrize("levels", [MOST_ATOMS - 1, MOST_ATOMS, MOST_ATOMS + 1, 10_001])
@pytest.mark.parametrize("budget", BUDGETS)
def test_one_long_attribute(budget, levels):
    a_long_attribute(budget, levels, levels // 3)


@pytest.fixture
def room_for_few(monkeypatch):
    """Lower limits, at which things take a moment."""
    monkeypatch.setattr("dpnotebook.planner.least_squares_state.MOST_ATOMS", 100)
    monkeypatch.setattr("dpnotebook.planner.joint_measurement.MOST_ATOMS", 100)
    monkeypatch.setattr("dpnotebook.planner.focused.ROOM", 40)


@pytest.mark.one_in(20)
@pytest.mark.parametrize("levels", [99, 100, 101, 102, 300])
@pytest.mark.parametrize("budget", BUDGETS)
def test_one_long_attribute_with_room_for_few(budget, levels, room_for_few):
    a_long_attribute(budget, levels, levels // 3)


def a_long_attribute(budget, levels, cut):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.integers(0, levels, ROWS)})
    session = dpn.Session(budget=BUDGETS[budget])
    table = session.protect(frame, "t", domain={"x": dpn.Range(0, levels - 1)})
    deliver(table.count(where=f"x < {cut}", error=40))
    found = deliver(table.histogram("x", where="x >= 3", epsilon=0.5))
    assert len(found) == levels - 3
    deliver(table.count(where="x >= 10 and x < 50", error=60))
    deliver(table.quantile("x", 0.5, error=200))
    deliver(table.quantile("x", 0.25, where="x >= 1", epsilon=0.1))
    assert session.audit().ok


def test_hundreds_of_ranges_of_a_long_attribute_are_never_lost(room_for_few):
    """More cut points than one state has room for, and more ranges than are looked at."""
    domain = Domain({"x": dpn.Range(0, 9_999)})
    history = History(domain, "laplace")
    rng = np.random.default_rng(8)
    numbers, measured = [], []
    for number in range(1, 601):
        start, end = np.sort(rng.choice(10_000, 2, replace=False)).tolist()
        measured.append(_range(domain, start, end))
        numbers.append(100 * (end - start))
        history.take([_release(number, measured[-1], np.array([[numbers[-1]]]))])
    for place in (0, 300, 599):
        part = ProductTerm((), measured[place].where, Identity(1), 1.0, np.arange(1))
        for found in (history.block(part, Summand()), history.along(part, Summand())):
            values, variances, _ = found.estimates(found.queries(part))
            assert variances[0] <= 200.0 * (1 + 1e-6)  # at most that of the measurement itself
            assert values[0] == pytest.approx(numbers[place], abs=1e-3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_what_is_added_up_for_a_question_is_the_best_linear_unbiased_answer(noise):
    """Against dense least squares over all cells, where that is possible: nothing is lost for aligned counts."""
    domain = Domain({"a": dpn.Range(0, 11), "b": dpn.Range(0, 9)})
    everything = Predicate.everything(domain)
    rows, columns = (Axis(name, tuple(range(domain[name].size))) for name in "ab")
    asked = ProductTerm((), Predicate.parse("a < 6 and b >= 2", domain), Identity(1), 1.0, np.arange(1))
    rng = np.random.default_rng(4)
    cells = rng.integers(0, 50, (12, 10)).astype(float)
    wheres = [everything, Predicate.parse("a < 8", domain), Predicate.parse("b >= 2", domain)]
    items, dense, values = [], [], []
    for place, (where, scale) in enumerate(zip(wheres, (3, 5, 8), strict=True)):
        operator = Kron(Identity(12), Identity(10))
        planned = Planned(Measurement(operator, (rows, columns), where), Fraction(scale), 0)
        inside = where.dense(["a", "b"]) if not where.is_everything else np.ones((12, 10), dtype=bool)
        noisy = np.rint(cells * inside + rng.normal(0, scale, (12, 10))).reshape(1, -1)
        items.append(item_of(planned, (place + 1, 0), noisy, law_of(noise)))
        dense.append(np.diag(inside.ravel().astype(float)))
        values.append(noisy[0])
    found = focused(domain, ("a", "b"), asked, list(RecordedRepeats(items).by_queries.values()))
    answer, variance, z = found.estimates(found.queries(asked))
    weights = np.concatenate([np.full(120, 1 / item.variance) for item in items])
    matrix, noisy = np.concatenate(dense), np.concatenate(values)
    information = matrix.T @ (weights[:, None] * matrix)
    query = (np.add.outer(np.arange(12) < 6, np.zeros(10, dtype=bool)) & (np.arange(10) >= 2)).ravel().astype(float)
    inverse = np.linalg.pinv(information)
    assert variance[0] == pytest.approx(query @ inverse @ query, rel=1e-9)
    assert answer[0] == pytest.approx(query @ inverse @ (matrix.T @ (weights * noisy)), rel=1e-9)
    # The weights of the draws of noise give that variance, so intervals are found from the right law.
    total = sum(
        items[next(iter(source.repeats))[0] - 1].variance * (source.draws(source_weights) ** 2).sum()
        for source, source_weights in found.weights(z[:1])
    )
    assert total == pytest.approx(variance[0], rel=1e-9)


def test_counts_that_share_a_bin_with_others_are_not_added_up(monkeypatch):
    """A bin that reaches out of what is asked says nothing about it by itself."""
    monkeypatch.setattr("dpnotebook.planner.focused.ROOM", 0)
    domain = Domain({"a": dpn.Range(0, 9), "b": dpn.Range(0, 9)})
    axis = Axis("a", tuple(range(10)))
    planned = Planned(Measurement(Identity(10), (axis,), Predicate.everything(domain)), Fraction(4), 0)
    item = item_of(planned, (1, 0), np.arange(10)[None], LAPLACE)
    for text, known in (("a < 3", True), ("a < 3 and b < 5", False), ("a in [1, 7]", True), ("b < 5", False)):
        where = Predicate.parse(text, domain)
        asked = ProductTerm((), where, Identity(1), 1.0, np.arange(1))
        found = focused(domain, ("a", "b"), asked, list(RecordedRepeats([item]).by_queries.values()))
        values, variances, _ = found.estimates(found.queries(asked))
        assert bool(np.isfinite(variances[0])) == known
        if known:
            levels = np.flatnonzero(where.dense(["a"]))
            assert values[0] == pytest.approx(levels.sum())
            assert variances[0] == pytest.approx(item.variance * levels.size)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_group_that_the_filter_excludes_takes_nothing_from_the_others(monkeypatch):
    """Nothing was counted of it, and nothing is divided by that."""
    monkeypatch.setattr("dpnotebook.planner.focused.ROOM", 0)
    domain = Domain({"a": dpn.Range(0, 9), "b": dpn.Range(0, 4)})
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in "ab")
    planned = Planned(Measurement(Kron(Identity(10), Identity(5)), axes, Predicate.everything(domain)), Fraction(4), 0)
    item = item_of(planned, (1, 0), np.arange(50)[None], LAPLACE)
    asked = ProductTerm(axes[:1], Predicate.parse("a in [1, 2, 7]", domain), Identity(10), 1.0, np.arange(10))
    found = focused(domain, ("a", "b"), asked, list(RecordedRepeats([item]).by_queries.values()))
    values, variances, _ = found.estimates(found.queries(asked))
    inside = [1, 2, 7]
    assert values[inside] == pytest.approx(np.arange(50).reshape(10, 5).sum(axis=1)[inside])
    assert variances[inside] == pytest.approx(5 * item.variance)
    others = np.setdiff1d(np.arange(10), inside)
    assert values[others].tolist() == variances[others].tolist() == [0] * 7


def test_a_state_is_a_function_of_the_ledger_and_not_of_when_it_was_asked_for(room_for_few):
    domain = Domain({"x": dpn.Range(0, 999)})
    rng = np.random.default_rng(2)
    asked_often, asked_once = History(domain, "laplace"), History(domain, "laplace")
    releases, parts = [], []
    for number in range(1, 121):
        start, end = np.sort(rng.choice(1_000, 2, replace=False)).tolist()
        measurement = _range(domain, start, end)
        parts.append(ProductTerm((), measurement.where, Identity(1), 1.0, np.arange(1)))
        releases.append(_release(number, measurement, rng.integers(0, 1_000, (1, 1))))
    for release, part in zip(releases, parts, strict=True):
        asked_often.take([release])
        if release.number % 5 == 0:
            asked_often.block(part, Summand())
    asked_once.take(releases)
    for part in parts[::20]:
        one, other = asked_often.block(part, Summand()), asked_once.block(part, Summand())
        assert one.atoms.count == other.atoms.count
        assert set(one.sources) == set(other.sources)
        assert one.estimates(one.queries(part))[1] == pytest.approx(other.estimates(other.queries(part))[1], rel=1e-9)
        assert one.estimates(one.queries(part))[0] == pytest.approx(other.estimates(other.queries(part))[0], rel=1e-6)


def test_what_another_kernel_recorded_meanwhile_takes_nothing_from_a_promise(tmp_path):
    """Between a plan and its answer the state may run full: then the answer is from what it was planned with."""
    session, table, frame = people("pure", tmp_path / "ledger")
    deliver(table.histogram("age", where="income >= 5000", variance=200.0))
    other, same, _ = people("pure", tmp_path / "ledger")
    query = table.histogram("age", where="income >= 5000", variance=60.0)
    plan = query.plan
    measure = session._pipeline.measure

    def late(mechanism, charge, report):
        same.histogram("income", where="age >= 2", variance=90.0).run()
        same.crosstab("sex", "income", where="age >= 50", variance=90.0).run()
        return measure(mechanism, charge, report)

    session._pipeline.measure = late
    found = query.run().frame
    assert found["std_error"].max() <= plan.std_error * (1 + 1e-5)
    exact = np.bincount(frame["age"][frame["income"] >= 5_000], minlength=100)
    assert (np.abs(found["value"] - exact) < 17 * found["std_error"]).all()
    assert other.audit().ok


def test_what_an_earlier_version_recorded_as_nothing_is_answered_from_what_was_measured(tmp_path):
    path = tmp_path / "ledger"
    shutil.copy(BEFORE, path)
    path.chmod(0o600)
    session, table, frame = people("pure", path)
    spent = session.ledger.spent
    queries = (
        table.histogram("income", where="age >= 2", epsilon=0.1),
        table.histogram("income", where="age >= 2", error=31),
        table.histogram("income", where="age >= 2", error=31, confidence=0.9),
    )
    exact = np.bincount(frame["income"][frame["age"] >= 2] // 5_000, minlength=40)
    for query in queries:
        found = deliver(query)
        assert (np.abs(found["value"] - exact) < 17 * found["std_error"]).all()
    assert np.isfinite(session.release(2).frame[["value", "std_error", "lower", "upper"]].to_numpy()).all()
    deliver(table.quantile("income", 0.5, where="age >= 2", epsilon=0.1))
    assert session.ledger.spent == spent
    assert session.audit().ok


def test_nothing_that_is_not_finite_is_ever_recorded(tmp_path):
    session, table, _ = people("pure", tmp_path / "ledger")
    for query in (
        table.crosstab("sex", "age", where="income >= 5000", epsilon=0.1),
        table.cdf("income", where="age >= 2", epsilon=0.1),
        table.quantile("income", 0.9, where="age >= 3", epsilon=0.1),
        table.groupby("sex").mean("income", where="age >= 4", epsilon=0.1),
    ):
        query.run()
    for record in session.ledger.records("people"):
        json.dumps([record.plan, record.details], allow_nan=False)
        session.release(record.number)


def _range(domain, start, end):
    mask = np.zeros(domain["x"].size, dtype=bool)
    mask[start:end] = True
    return Measurement(Identity(1), (), Predicate.box(domain, {"x": mask}))


def _release(number, measurement, answers):
    """Return a recorded release of one measurement, with noise of scale 10."""
    item = {"measurement": measurement_to_json(measurement), "scale": "10", "bits": 0}
    plan = {"measures": [], "items": [item], "noise": "laplace", "units": 1}
    return SimpleNamespace(number=number, since=2, question="q", units=1, numbers=(answers,), plan=plan, details={})

"""What is known in closed form is least squares, and what was released or bought stays free at any size."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.asked_histogram import AskedProducts
from dpnotebook.planner.closed_form import ClosedForm
from dpnotebook.planner.history import History
from dpnotebook.planner.in_closed_form import InClosedForm
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import LinearForm, OverAtoms, known_in
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.repeats import RecordedRepeats
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.planner.value_ends import COUNT
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import GAUSSIAN, LAPLACE
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Explicit, Hierarchy, Identity, Kron, Marginals, Prefix, Total

SIZES = {"age": 5, "city": 3, "sex": 2}
DOMAIN = Domain({"age": dpn.Range(0, 4), "city": ["a", "b", "c"], "sex": ["F", "M"]})
CELLS = int(np.prod(list(SIZES.values())))
CONDITIONS = ("", "age >= 2", "city != 'b'", "age < 4 and sex == 'F'", "age == 1 or sex == 'M'", "city == 'a'")


def predicate(text):
    return Predicate.parse(text, DOMAIN) if text else Predicate.everything(DOMAIN)


def axes_of(names, where):
    return tuple(Axis(name, allowed_levels(where, name, DOMAIN)) for name in names)


def dense(measurement):
    """Return the queries of a measurement over all cells, from its definition."""
    where = measurement.where.dense(DOMAIN.names).reshape(-1) if not measurement.where.is_everything else np.ones(CELLS)
    place = np.zeros((1, 1), dtype=int)
    for name, size in SIZES.items():
        index = np.full(size, 0)
        axis = next((axis for axis in measurement.axes if axis.attribute == name), None)
        if axis is not None:
            index = np.array([axis.levels.index(i) if i in axis.levels else -1 for i in range(size)])
        place = (np.where(place[:, :, None] < 0, -1, place[:, :, None]) * 1).reshape(-1, 1)
        width = 1 if axis is None else axis.size
        place = np.where((place < 0) | (index[None, :] < 0), -1, place * width + index[None, :]).reshape(-1, 1)
    place = place.reshape(-1)
    operator = np.asarray(measurement.operator.dense(), dtype=float)
    padded = np.concatenate([operator, np.zeros((operator.shape[0], 1))], axis=1)
    return padded[:, place] * where


names = st.lists(st.sampled_from(list(SIZES)), unique=True, max_size=3).map(
    lambda chosen: [name for name in SIZES if name in chosen]
)


def ranked(axes):
    """Leave out the last level of the last axis, as ranks leave out rows without a value."""
    return (*axes[:-1], Axis(axes[-1].attribute, axes[-1].levels[:-1])) if axes and axes[-1].size > 1 else axes


@st.composite
def measurements(draw, marginals=False):
    """Draw what might have been measured: marginals, a union of them, or trees and prefixes of one attribute."""
    where = predicate("" if marginals else draw(st.sampled_from(CONDITIONS)))
    kind = draw(st.sampled_from(["marginal", "union"] if marginals else ["marginal", "union", "tree", "rows"]))
    if kind == "union":
        axes = axes_of(SIZES, where)
        subsets = draw(st.lists(st.sampled_from([(), (0,), (1,), (0, 1), (1, 2), (0, 1, 2)]), unique=True, min_size=1))
        weights = {subset: draw(st.integers(1, 3)) for subset in subsets}
        return Measurement(Marginals([Identity(axis.size) for axis in axes], weights), axes, where)
    axes = axes_of(draw(names), where)
    if not marginals and draw(st.booleans()):
        axes = ranked(axes)
    factors = [Identity(axis.size) for axis in axes]
    if kind == "tree" and axes:
        factors[0] = Hierarchy(axes[0].size, 2) if axes[0].size > 2 else Prefix(axes[0].size)
    if kind == "rows" and axes:
        rows = draw(st.lists(st.lists(st.integers(0, 2), min_size=axes[-1].size, max_size=axes[-1].size), min_size=1))
        factors[-1] = Explicit(np.array([[1] * axes[-1].size, *rows[:3]]))
    operator = Identity(1) if not factors else factors[0] if len(factors) == 1 else Kron(*factors)
    return Measurement(operator, axes, where)


@st.composite
def questions(draw):
    """Draw counts by some attributes, cumulative ones too, of rows that a condition selects."""
    where = predicate(draw(st.sampled_from(CONDITIONS)))
    axes = axes_of(draw(names), where)
    factors = [Identity(axis.size) for axis in axes]
    if axes and draw(st.booleans()):
        axes = ranked(axes)
        factors[-1] = Prefix(axes[-1].size)
    operator = Identity(1) if not factors else factors[0] if len(factors) == 1 else Kron(*factors)
    return ProductTerm(axes, where, operator, 1.0, np.arange(0))


def recorded(drawn, seed):
    """Return measurements with noisy answers of a made-up table, the table and the variances."""
    rng = np.random.default_rng(seed)
    items = []
    for number, measurement in enumerate(drawn, 1):
        noisy = rng.integers(-50, 50, (1, measurement.operator.shape[0]))
        scale = Fraction(int(rng.integers(1, 9)))
        items.append(item_of(Planned(measurement, scale, 0), (number, 0), noisy, LAPLACE))
    return items


def known(items, question):
    form = ClosedForm(DOMAIN)
    for repeats in RecordedRepeats(items).by_queries.values():
        form.put(repeats)
    return form.known(question, 1.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(measurements(marginals=True), min_size=1, max_size=4), questions(), st.integers(0, 99))
def test_marginals_of_any_noise_are_combined_as_by_dense_least_squares(drawn, question, seed):
    items = recorded(drawn, seed)
    found = known(items, question)
    rows = np.concatenate([dense(item.measurement) for item in items])
    variance = np.concatenate([np.full(item.measurement.operator.shape[0], item.variance) for item in items])
    wanted = dense(Measurement(question.operator, question.axes, question.where))
    scaled = rows / np.sqrt(variance)[:, None]
    inverse = np.linalg.pinv(scaled.T @ scaled, rcond=1e-10)
    determined = np.abs(wanted - wanted @ inverse @ scaled.T @ scaled).max(axis=1) < 1e-7
    if found is None:  # a condition that is no product, of answers that are not all determined
        assert not determined.all() or len(question.where.products()) > 1
        return
    values, variances = found.estimates()
    single = question.where.is_everything or len(question.where.products()) == 1
    assert (np.isfinite(variances) == determined).all() or not single
    noisy = np.concatenate([item.noisy[0] for item in items]) / np.sqrt(variance)
    best = wanted @ inverse @ scaled.T @ noisy
    np.testing.assert_allclose(values[determined], best[determined], rtol=0, atol=1e-7)
    expected = np.einsum("ij,jk,ik->i", wanted, inverse, wanted)
    np.testing.assert_allclose(variances[determined], expected[determined], rtol=1e-7, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(measurements(), min_size=1, max_size=5), questions(), st.integers(0, 99))
def test_answers_are_unbiased_with_the_variance_that_is_said(drawn, question, seed):
    items = recorded(drawn, seed)
    found = known(items, question)
    if found is None:
        return
    values, variances = found.estimates()
    rows = np.flatnonzero(np.isfinite(variances))
    wanted = dense(Measurement(question.operator, question.axes, question.where))
    weights, keys = found.draws(rows, 10**6)
    # Which number of its measurement each draw is, is found by adding one to each number in turn.
    by_key = {item.key: item for item in items}
    noise = np.array([by_key[key].variance for key in keys])
    np.testing.assert_allclose((weights**2 * noise).sum(axis=1), variances[rows], rtol=1e-7, atol=1e-12)
    effects = []
    for item in items:
        for place in range(item.noisy.size):
            changed = item.noisy.copy()
            changed[0, place] += 1
            others = [one if one is not item else _with(item, changed) for one in items]
            effects.append(known(others, question).estimates()[0] - values)
    effects = np.array(effects).T[rows]
    queries = np.concatenate([dense(item.measurement) for item in items])
    np.testing.assert_allclose(effects @ queries, wanted[rows], rtol=0, atol=1e-6)
    spread = np.concatenate([np.full(item.noisy.size, item.variance) for item in items])
    np.testing.assert_allclose(effects**2 @ spread, variances[rows], rtol=1e-6, atol=1e-9)
    assert (found.alike[found.alike] == found.alike).all()
    np.testing.assert_allclose(variances, variances[found.alike], rtol=1e-9)


def _with(item, noisy):
    return type(item)(item.key, item.measurement, item.scale, item.variance, noisy, item.refines, item.group)


def test_what_is_measured_of_other_rows_says_nothing():
    items = recorded([Measurement(Identity(5), axes_of(["age"], predicate("sex == 'F'")), predicate("sex == 'F'"))], 1)
    asked = ProductTerm(axes_of(["age"], predicate("")), predicate(""), Identity(5), 1.0, np.arange(0))
    assert known(items, asked) is None
    part = predicate("sex == 'F' and city == 'a'")
    assert known(items, ProductTerm(axes_of(["age"], part), part, Identity(5), 1.0, np.arange(0))) is None
    inside = predicate("sex == 'F' and age <= 2")
    found = known(items, ProductTerm((), inside, Identity(1), 1.0, np.arange(0)))
    assert found.variances == pytest.approx(3 * items[0].variance)
    whole = ProductTerm((), predicate("sex == 'F'"), Total(1), 1.0, np.arange(0))
    assert known(items, whole).variances == pytest.approx(5 * items[0].variance)


BUDGETS = {"pure": dpn.Budget(20.0), "gaussian": dpn.Budget(20.0, 1e-6)}


def people(budget, sizes, rows=5_000):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({name: rng.integers(0, size, rows) for name, size in sizes.items()})
    session = dpn.Session(budget=BUDGETS[budget])
    session.protect(frame, "people", domain={name: dpn.Range(0, size - 1) for name, size in sizes.items()})
    return session, frame


def free(query):
    """Run a query that must cost nothing, hold it against its plan, and return its frame."""
    plan = query.plan
    assert plan.free, plan
    release = query.run()
    assert release.paid == 0
    shown = release.frame
    assert np.isfinite(shown[["value", "lower", "upper"]].to_numpy(dtype=float)).all()
    if query.question.measures[0].kind != "quantile":  # whose error is in ranks
        assert (shown["upper"] - shown["lower"]).max() / 2 <= plan.error * (1 + 1e-6)
    return shown


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_tables_that_were_bought_are_free_at_14400_cells(budget):
    session, frame = people(budget, {"a": 60, "b": 60, "c": 4})
    session.prefetch(dpn.marginals(2)).buy(error=50)
    for keys in (["a", "b"], ["a", "c"], ["b", "c"], ["b", "a"]):
        free(frame.dp.groupby(keys).count(error=50))
    free(frame.dp.count(where="a == 3 and b == 17", error=50))
    free(frame.dp.groupby("b").count(where="a == 3", error=50))
    free(frame.dp.groupby("a").count(error=50 * 60**0.5))
    free(frame.dp.count(where="a < 10 and b in (1, 5)", error=50 * 20**0.5))
    session.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", BUDGETS)
def test_whatever_follows_from_a_histogram_of_10000_levels_is_free(budget):
    session, frame = people(budget, {"x": 10_000, "y": 3})
    table = frame.dp.histogram("x", epsilon=1.0)
    error, shown = table.plan.error, table.run().frame
    one = free(frame.dp.count(where="x == 77", error=error))
    assert one["value"][0] == pytest.approx(shown["value"][77], abs=1e-5)
    part = free(frame.dp.histogram("x", where="x >= 9000", error=error))
    np.testing.assert_allclose(part["value"], shown["value"][9000:], rtol=0, atol=1e-5)  # six digits are shown
    run = free(frame.dp.count(where="x >= 100 and x < 2100", error=error * 2_000**0.5))
    assert run["value"][0] == pytest.approx(shown["value"][100:2100].sum(), rel=1e-6)
    total = free(frame.dp.count(error=error * 101))
    assert total["value"][0] == pytest.approx(shown["value"].sum(), rel=1e-6)
    free(frame.dp.cdf("x", error=error * 101))
    free(frame.dp.quantile("x", 0.25, error=5_000))
    session.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", BUDGETS)
def test_all_tables_of_four_among_seven_attributes_answer_for_all_up_to_four(budget):
    session, frame = people(budget, dict.fromkeys("abcdefg", 10))
    session.prefetch(dpn.marginals(4)).buy(error=400)
    before = session.spent.epsilon
    for keys in ("abcd", "bdfg", "ace", "dg", "f"):
        free(frame.dp.groupby(list(keys)).count(error=400 * 10 ** ((4 - len(keys)) / 2)))
    free(frame.dp.count(where="a == 1 and c == 2 and e == 3 and g == 4", error=400))
    free(frame.dp.count(where="a <= 3 and g > 5", error=400 * 24))
    assert session.spent.epsilon == before
    session.close()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
def test_one_measurement_of_many_cells_says_all_that_its_atoms_do(law):
    """Its own least squares are those over all cells, which nobody needs to write out."""
    domain = Domain({"code": dpn.Range(0, 59), "score": dpn.Range(0, 19)})
    axes = tuple(Axis(name, tuple(range(domain[name].size))) for name in domain.names)
    everything, history = Predicate.everything(domain), History(domain, law.name)
    operator = Kron(Identity(60), Hierarchy(20, 2))
    rng = np.random.default_rng(7)
    for number in (1, 2):
        noisy = rng.integers(0, 90, (1, operator.shape[0]))
        planned = Planned(Measurement(operator, axes, everything), Fraction(4 + number), 0)
        history.add(item_of(planned, (number, 0), noisy, law))
    questions = [
        (axes[:1], everything, Identity(60)),
        ((), everything, Identity(1)),
        ((), Predicate.parse("code <= 12", domain), Identity(1)),
        (axes[1:], everything, Prefix(20)),
        (axes[:1], everything, Explicit((np.arange(60) % 3 == np.arange(3)[:, None]).astype(int))),
    ]
    for names, where, asked in questions:
        form = LinearForm(ProductTerm(names, where, asked, 1.0, np.arange(0)), COUNT, 1.0)
        soon, whole = known_in(form, history, ()), known_in(form, history, (), over_atoms=True)
        assert isinstance(soon, InClosedForm)
        assert isinstance(whole, OverAtoms)
        np.testing.assert_allclose(soon.variances, whole.variances, rtol=1e-8)
        np.testing.assert_allclose(soon.estimates()[0], whole.estimates()[0], rtol=1e-7)
        assert soon.sources() == whole.sources()


def test_what_a_proposal_leaves_as_it_is_is_worked_out_once_a_question(monkeypatch):
    looked = []
    monkeypatch.setattr(
        AskedProducts, "of", lambda self, source, of=AskedProducts.of: looked.append((self, source)) or of(self, source)
    )
    recorded, everything = RecordedRepeats(), predicate("")

    def item(number, keys, where, variance):
        axes = axes_of(keys, where)
        operator = Kron(*(Identity(axis.size) for axis in axes)) if len(axes) > 1 else Identity(axes[0].size)
        planned = Planned(Measurement(operator, axes, where), Fraction(variance), 0)
        return item_of(planned, (number, 0), None, LAPLACE)

    for number, text in enumerate(CONDITIONS, 1):
        recorded.add(item(number, ["age"], predicate(text), number))
    closed = ClosedForm(DOMAIN)
    for known in recorded.changed(0):
        closed.put(known)
    axes = axes_of(["age"], predicate("city == 'a'"))
    part = ProductTerm(axes, predicate("city == 'a'"), Identity(5), 1.0, np.arange(0))
    first = closed.known(part, 1.0, 1.0)
    before = len(looked)
    assert before >= 1
    again = ProductTerm(axes, predicate("city == 'a'"), Identity(5), 1.0, np.arange(0))  # an equal question
    assert [a is b for a, b in zip(first.found, closed.known(again, 1.0, 1.0).found, strict=True)]
    assert len(looked) == before
    for variance in (1, 2, 3):
        proposed = closed.copy()
        beside = recorded.supposed([item(100 + variance, ["age"], predicate("city == 'a'"), variance)])
        for known in beside.values():
            proposed.put(known)
        found = proposed.known(part, 1.0, 1.0)
        assert len(looked) == before + variance  # the one source that the proposal is of
        anew = ClosedForm(DOMAIN)
        for known in (recorded.by_queries | beside).values():
            anew.put(known)
        assert found.variances.tolist() == anew.known(part, 1.0, 1.0).variances.tolist()
        assert (found.variances < first.variances).all()
        looked[before + variance :] = []
    other = ProductTerm(axes_of(["age"], everything), everything, Identity(5), 1.0, np.arange(0))
    here = len(looked)
    assert closed.known(other, 1.0, 1.0) is not None
    assert len(looked) > here  # another question

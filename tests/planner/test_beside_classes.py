"""What many answers would be worth beside as many numbers is what dense least squares over all of them says."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.beside_classes import BesideClasses
from dpnotebook.planner.few_rows import FewRows
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import asked_of, beside_all
from dpnotebook.planner.plan import Planned
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Measure, Question
from dpnotebook.workload import Explicit, Hierarchy, Identity, PIdentity, Prefix, Total

LEVELS = 300
DOMAIN = Domain({"x": dpn.Range(0, LEVELS - 1), "y": ["a", "b"]})
LAW = law_of("laplace")


def measured(operator, where, key, scale, *, refines=None, counted=True):
    """Return a measurement over the levels of x among some rows, or of how many rows there are."""
    axes = (Axis("x", where.levels_of("x")),) if counted else ()
    planned = Planned(Measurement(operator, axes, where), Fraction(scale), 0, None, refines)
    return item_of(planned, key, np.zeros((1, operator.shape[0])), LAW)


def rows_of(item):
    """Return the queries of a measurement over all levels, and one over the variance of each."""
    levels, operator = list(item.measurement.where.levels_of("x")), item.measurement.operator
    rows = np.zeros((operator.shape[0], LEVELS))
    rows[:, levels] = operator.rows(np.arange(operator.shape[0])) if item.measurement.axes else 1.0
    return rows / np.sqrt(item.variance)


def dense(items, asked):
    """Return the variances of some queries over the levels, from everything that was measured."""
    rows = np.concatenate([rows_of(item) for item in items])
    return np.einsum("ij,ij->i", asked @ np.linalg.inv(rows.T @ rows), asked)


def pairs(size):
    """Return the counts of neighbours, and of quarters: a few of which a level is in."""
    levels = np.arange(size)
    own = [(levels >= start) & (levels < start + 2) for start in range(0, size, 2)]
    quarters = [(levels >= start) & (levels < start + -(-size // 4)) for start in range(0, size, -(-size // 4))]
    return Explicit(np.array(own + quarters, dtype=float))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("low", "high"), [(0, 299), (7, 290), (40, 180), (100, 199)])
def test_it_is_dense_least_squares(low, high):
    """Of all levels, of nearly all and of few: a histogram, or its running totals, beside what was measured."""
    rng = np.random.default_rng(low)
    history = History(DOMAIN, LAW.name)
    everything, where = Predicate.everything(DOMAIN), Predicate.parse(f"x >= {low} and x <= {high}", DOMAIN)
    size = high - low + 1
    history.add(measured(Identity(LEVELS), everything, (1, 0), 7))
    for number in range(2, 40):
        some = Predicate.parse("x >= {} and x <= {}".format(*np.sort(rng.integers(0, LEVELS, 2))), DOMAIN)
        history.add(measured(Total(1), some, (number, 0), int(rng.integers(3, 20)), counted=False))
    history.add(measured(pairs(size), where, (40, 0), 9))
    kinds = {"count": ("x",), "cdf": ()}
    for kind, groups in kinds.items():
        question = Question("t", (Measure(kind, **({} if groups else {"column": "x"})),), groups, where)
        for operator, scale, refines in ((Prefix(size), 30, None), (pairs(size), 4, (40, 0)), (pairs(size), 20, None)):
            also = [measured(operator, where, (0, 0), scale, refines=refines)]
            asked = asked_of(question, history)
            whole = asked_of(question, history, also)
            found = beside_all(asked, question, history, also, partial(asked_of, question, history, also))
            assert isinstance(found, BesideClasses)
            rows = np.zeros((size, LEVELS))
            rows[:, low : high + 1] = np.eye(size) if groups else np.tril(np.ones((size, size)))
            kept = [item for key, item in history.items.items() if key != refines]
            np.testing.assert_allclose(found.variances, dense([*kept, *also], rows), rtol=1e-7)
            np.testing.assert_allclose(found.variances, whole.certain().variances, rtol=1e-7)
            assert found.alike.tolist() == whole.alike.tolist()
    other = [measured(Identity(LEVELS), everything, (0, 0), 5)]
    found = beside_all(asked, question, history, other, lambda: None)
    assert (found is None) == (size < LEVELS)  # of other levels too: that is not looked at here


def p_identity(size, rng):
    """Return a p-Identity with eight rows of runs."""
    extra = np.zeros((8, size), dtype=int)
    for row in extra:
        start, end = np.sort(rng.integers(0, size + 1, 2))
        row[start:end] = rng.integers(1, 9)
    return PIdentity(rng.integers(1, 9, size), extra)


def history_of(rng, everything, where, size, *, cells=7):
    """Return a history of a histogram, of ranges and of the counts that a p-Identity has; and its latest key."""
    history = History(DOMAIN, LAW.name)
    if cells:
        history.add(measured(Identity(LEVELS), everything, (1, 0), cells))
    for number in range(2, 22):
        some = Predicate.parse("x >= {} and x <= {}".format(*np.sort(rng.integers(0, LEVELS, 2))), DOMAIN)
        history.add(measured(Total(1), some, (number, 0), int(rng.integers(3, 20)), counted=False))
    operator = p_identity(size, rng)
    history.add(measured(operator, where, (40, 0), 9))
    return history, operator


@pytest.mark.one_in(8)
@pytest.mark.parametrize("scales", [(7, 30), (3, 3000), (900, 5)])
@pytest.mark.parametrize(("low", "high"), [(0, 299), (7, 290), (90, 180)])
def test_few_rows_are_dense_least_squares(low, high, scales):
    """Where nearly all is of single levels: a histogram, running totals or a mixture, beside what is new or refined."""
    rng = np.random.default_rng(low)
    everything, where = Predicate.everything(DOMAIN), Predicate.parse(f"x >= {low} and x <= {high}", DOMAIN)
    size = high - low + 1
    history, before = history_of(rng, everything, where, size, cells=scales[0])
    mixture = Explicit(rng.integers(-2, 3, (size, size)))
    kinds = {"count": (("x",), None, np.eye(size)), "cdf": ((), None, np.tri(size))}
    kinds["workload"] = (("x",), mixture, mixture.dense())
    for kind, (groups, workload, matrix) in kinds.items():
        column = {"column": "x"} if kind == "cdf" else {}
        question = Question("t", (Measure(kind, workload=workload, **column),), groups, where)
        asked = asked_of(question, history)
        rows = np.zeros((size, LEVELS))
        rows[:, low : high + 1] = matrix
        new = p_identity(size, rng)
        for operator, scale, refines in ((new, scales[1], None), (Identity(size), 4, None), (before, 2, (40, 0))):
            also = [measured(operator, where, (0, 0), scale, refines=refines)]
            found = beside_all(asked, question, history, also, partial(asked_of, question, history, also))
            assert isinstance(found, BesideClasses)
            # Beside single levels that hardly anything is known of, rounding may be too much: then over the classes.
            assert isinstance(asked.block.latest_beside[1], FewRows) or scales[0] == 900
            kept = [item for key, item in history.items.items() if key != refines]
            np.testing.assert_allclose(found.variances, dense([*kept, *also], rows), rtol=1e-7)


@pytest.mark.parametrize("why", ["no cell is counted alone", "most rows are of several cells"])
def test_elsewhere_it_is_worked_out_over_the_classes(why):
    rng = np.random.default_rng(5)
    everything = Predicate.everything(DOMAIN)
    history, _ = history_of(rng, everything, everything, LEVELS)
    operator = p_identity(LEVELS, rng)
    if why == "most rows are of several cells":
        operator = Hierarchy(LEVELS, 2, 9)
    else:
        history = History(DOMAIN, LAW.name)
        history.add(measured(Prefix(LEVELS), everything, (1, 0), 7))
    question = Question("t", (Measure("cdf", column="x"),), (), everything)
    asked, also = asked_of(question, history), [measured(operator, everything, (0, 0), 6)]
    found = beside_all(asked, question, history, also, lambda: None)
    assert not isinstance(asked.block.latest_beside[1], FewRows)
    whole = dense([*history.items.values(), *also], np.tri(LEVELS))
    np.testing.assert_allclose(found.variances, whole, rtol=1e-7)

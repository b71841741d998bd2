"""What a question would be answered with beside a few more numbers is what a block of all of them says."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.combining import Promise, combined
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import OverAtoms, asked_of, beside_all, over_atoms_beside
from dpnotebook.planner.plan import Planned
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Measure, Question
from dpnotebook.workload import Identity, Total

LEVELS = 300
DOMAIN = Domain({"x": dpn.Range(0, LEVELS - 1), "y": ["a", "b"]})
LAW = law_of("gaussian")


def a_range(rng):
    low, high = np.sort(rng.integers(0, LEVELS, 2))
    return Predicate.parse(f"x >= {low} and x <= {high}", DOMAIN)


def measured(rng, number, where, *, every=False, place=0):
    """Return a count of a range, or of each of its levels, with noise."""
    axes = (Axis("x", where.levels_of("x")),) if every else ()
    operator = Identity(axes[0].size) if every else Total(1)
    planned = Planned(Measurement(operator, axes, where), Fraction(int(rng.integers(3, 20))), 0, None)
    return item_of(planned, (number, place), np.round(rng.normal(0, 9, (1, operator.shape[0]))), LAW)


def weights_of(asked):
    """Return what the draws of each measurement count for in the one answer, but for rounding."""
    weights, keys = asked.draws(np.arange(1), 10_000)
    found = {}
    for key, weight in zip(keys, weights[0], strict=True):
        found.setdefault(key, []).append(weight)
    return {
        (key, place): weight for key, own in found.items() for place, weight in enumerate(own) if abs(weight) > 1e-8
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_what_a_block_of_everything_says(seed):
    rng = np.random.default_rng(seed)
    history, ranges = History(DOMAIN, LAW.name), [a_range(rng) for _ in range(240)]
    for number, where in enumerate(ranges, 1):
        history.add(measured(rng, number, where))
    looked, found_out = 0, 0
    for trial in range(30):
        # asked before or never; measured alone, by level, or with another one, which may have been measured before
        where = ranges[trial] if trial % 3 == 0 else a_range(rng)
        small = Predicate.parse(f"x >= {trial} and x <= {trial + 20}", DOMAIN)
        also = [measured(rng, 0, small, every=True) if trial % 4 == 0 else measured(rng, 0, where)]
        if trial % 2:
            other = ranges[-trial] if trial % 5 == 0 else a_range(rng)
            also.append(measured(rng, 0, other, place=1))
        question = Question("t", (Measure("count"),), (), where)
        asked = asked_of(question, history)
        assert isinstance(asked, OverAtoms)
        found = beside_all(asked, question, history, also)
        assert found is not None
        quick = found.variances
        wanted = asked_of(question, history, also).certain().variances
        np.testing.assert_array_equal(np.isfinite(quick), np.isfinite(wanted))
        if np.isfinite(wanted).all():
            assert weights_of(found) == pytest.approx(weights_of(asked_of(question, history, also)), rel=1e-6, abs=1e-9)
            np.testing.assert_allclose(quick, wanted, rtol=1e-8)
            looked, found_out = looked + 1, found_out + int(np.isinf(asked.variances).any())
    assert looked > 15
    assert found_out > 5


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_answers_and_what_each_draw_counts_for_are_those_of_a_block_of_everything(law):
    rng = np.random.default_rng(2)
    history, ranges = History(DOMAIN, law), [a_range(rng) for _ in range(240)]
    for number, where in enumerate(ranges, 1):
        history.add(measured(rng, number, where))
    compared = 0
    for trial in range(24):
        where = ranges[trial] if trial % 3 == 0 else a_range(rng)
        also = [measured(rng, 0, where)]
        if trial % 2:  # another one, of which a half was measured before
            also.append(measured(rng, 0, ranges[-trial] if trial % 4 == 1 else a_range(rng), place=1))
        question = Question("t", (Measure("count"),), (), where)
        quick, whole = over_atoms_beside(question, history, also), asked_of(question, history, also)
        assert quick is not None
        (value, variance), (wanted, least) = quick.estimates(), whole.estimates()
        np.testing.assert_allclose(variance, least, rtol=1e-8)
        np.testing.assert_allclose(value, wanted, rtol=1e-7, atol=1e-5)
        assert quick.sources() == whole.sources()
        (weights, keys), (others, other_keys) = (one.draws(np.arange(1), 10_000) for one in (quick, whole))
        of_draw = dict(zip(other_keys, others[0], strict=True))
        assert sum(abs(weight - of_draw.get(key, 0.0)) for key, weight in zip(keys, weights[0], strict=True)) < 1e-6
        assert {(0, place) for place in range(len(also))} <= set(keys)
        compared += 1
    assert compared == 24


def test_no_second_matrix_of_all_atoms_is_made():
    rng = np.random.default_rng(3)
    history = History(DOMAIN, LAW.name)
    for number in range(1, 241):
        history.add(measured(rng, number, a_range(rng)))
    question = Question("t", (Measure("count"),), (), a_range(rng))
    also = [measured(rng, 0, question.where)]
    asked = asked_of(question, history)
    assert isinstance(asked, OverAtoms)
    asked.estimates()
    tracemalloc.start()
    found = combined(history, question, 0.95, Promise.of(question, (1e9, 1e9), None), also)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert most < asked.block.information.matrix.nbytes

"""What a question would be answered with beside a few more numbers is what a block of all of them says."""

from fractions import Fraction

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.history import History
from dpnotebook.planner.items import item_of
from dpnotebook.planner.marginal_measurement import OverAtoms, asked_of, beside_all
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


def measured(rng, number, where, *, every=False, place=0, refines=None):
    """Return a count of a range, or of each of its levels, with noise."""
    axes = (Axis("x", where.levels_of("x")),) if every else ()
    operator = Identity(axes[0].size) if every else Total(1)
    scale = Fraction(int(rng.integers(3, 20))) if refines is None else Fraction(2)
    planned = Planned(Measurement(operator, axes, where), scale, 0, None, refines)
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


@pytest.mark.one_in(2)
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
        found = beside_all(asked, question, history, also, lambda: None)
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_so_it_is_of_groups(law):
    """Of twenty-one levels that are measured, one by one, beside ranges of them."""
    rng = np.random.default_rng(5)
    history = History(DOMAIN, law)
    for number in range(1, 241):
        history.add(measured(rng, number, a_range(rng)))
    for trial in range(10):
        where = Predicate.parse(f"x >= {trial} and x <= {trial + 20}", DOMAIN)
        also = [measured(rng, 0, where, every=True)]
        if trial % 2:
            also.append(measured(rng, 0, a_range(rng), place=1))
        question = Question("t", (Measure("count"),), ("x",), where)
        quick = beside_all(asked_of(question, history), question, history, also, lambda: None)
        whole = asked_of(question, history, also)
        assert quick is not None
        np.testing.assert_allclose(quick.variances, whole.certain().variances, rtol=1e-7)
        for row in range(3):
            of_each = [{}, {}]
            for found, asked in zip(of_each, (quick, whole), strict=True):
                weights, keys = asked.draws(np.array([row]), 10_000)
                for key, weight in zip(keys, weights[0], strict=True):
                    found[key] = found.get(key, 0.0) + weight**2
            for key in {*of_each[0], *of_each[1]}:
                assert of_each[0].get(key, 0.0) == pytest.approx(of_each[1].get(key, 0.0), rel=1e-6, abs=1e-9)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_what_is_refined_gives_its_place_to_what_refines_it(law):
    """Of ranges asked once or twice, alone and beside another one: the noise that is refined counts no more."""
    rng = np.random.default_rng(7)
    history, ranges = History(DOMAIN, law), [a_range(rng) for _ in range(200)]
    for number in range(1, 251):  # of fifty of them there are two, of which one is refined
        history.add(measured(rng, number, ranges[(number - 1) % 200]))
    refined = 0
    for trial, key in enumerate([(152, 0), (157, 0), (3, 0), (4, 0), (203, 0), (204, 0)]):
        where = history.items[key].measurement.where
        also = [measured(rng, 0, where, refines=key)]
        if trial % 2:
            also.append(measured(rng, 0, a_range(rng), place=1))
        for asked_of_rows in (where, ranges[trial + 20]):
            question = Question("t", (Measure("count"),), (), asked_of_rows)
            quick = beside_all(asked_of(question, history), question, history, also, lambda: None)
            whole = asked_of(question, history, also)
            assert quick is not None
            np.testing.assert_allclose(quick.variances, whole.certain().variances, rtol=1e-7)
            told, wanted = weights_of(quick), weights_of(whole)
            assert told == pytest.approx(wanted, rel=1e-6, abs=1e-9)
            assert (key, 0) not in told
            refined += ((0, 0), 0) in told
    assert refined >= 6

"""What a test with many parameters leaves out by default is spread over them, and never all."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SPEC = importlib.util.spec_from_file_location("thinned", Path(__file__).parent / "thinned.py")
thinned = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(thinned)


@pytest.mark.parametrize("one_in", [2, 3, 5, 10])
@pytest.mark.parametrize("inner", [2, 3, 4, 7, 10])
def test_one_in_so_many_is_kept_and_every_value_of_both_parameters(one_in, inner):
    """Of outer times inner parameters, as pytest puts them one after another."""
    kept = [place for place in range(40 * inner) if not thinned.is_left_out(place, one_in)]
    assert len(kept) == pytest.approx(40 * inner / one_in, abs=2)
    assert {place % inner for place in kept} == set(range(inner))
    assert all(any(place // inner // one_in == outer for place in kept) for outer in range(40 // one_in))


def test_another_may_be_the_one_that_is_kept():
    assert [thinned.is_left_out(place, 2) for place in range(2)] == [False, True]
    assert [thinned.is_left_out(place, 3, first=1) for place in range(2)] == [True, False]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", range(40))
def test_those_that_are_left_out_are_slow(case, request):
    """Unless slow tests are asked for too."""
    assert thinned.is_left_out(case, 4) == (request.node.get_closest_marker("slow") is not None)


@pytest.mark.parametrize(("asked", "tried"), [(300, 100), (30, 10), (12, 10), (5, 5)])
def test_hypothesis_tries_a_third_and_no_more_where_it_is_told_twice(asked, tried):
    seen = []

    @settings(max_examples=asked, database=None)
    @given(st.floats())
    def test(number):
        seen.append(number)

    for _ in range(2):
        thinned.with_fewer_examples(test)
    test()
    assert len(seen) == tried
    assert test.examples_before == asked


def test_what_protects_privacy_tries_all_its_examples(request):
    """Of the tests that were collected with this one."""
    tests = [getattr(item, "obj", None) for item in request.session.items if item.get_closest_marker("privacy")]
    assert not [test.__name__ for test in tests if hasattr(test, "examples_before")]


def test_what_protects_privacy_is_not_left_out(request):
    """Of the tests that were collected with this one."""
    marked = [item for item in request.session.items if item.get_closest_marker("privacy")]
    assert not [item.nodeid for item in marked if item.get_closest_marker("one_in")]

from dataclasses import replace

import pytest

from dpnotebook.notebook.controls import LEAST, REACH, errors, stops
from dpnotebook.planner.plan import Comparisons


@pytest.fixture
def query(session):
    return session.table("people").count(where="age >= 10", error=25)


def test_the_slider_stops_at_round_numbers_up_to_what_is_left(query):
    plan = query.plan
    found = stops(plan, 1.0)
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert plan.epsilon in found
    assert found[-1] == 1.0
    assert found[0] <= plan.epsilon / 5
    assert {0.1, 0.2, 0.5, 0.8} <= set(found)


@pytest.mark.parametrize("epsilon", [1e-7, 0.1, 40.0])
def test_the_slider_has_room_for_every_price(query, epsilon):
    plan = query.plan
    other = replace(plan, epsilon=epsilon, comparisons=Comparisons())
    found = stops(other, 0.123456)
    assert epsilon in found
    assert len(found) > 5
    assert found[-1] == max(epsilon, 0.123)  # rounded down: what is left must be enough


@pytest.mark.parametrize("left", [0.0, 1e-9, 0.3])
def test_a_slider_can_start_at_nothing(query, left):
    free = replace(query.plan, epsilon=0.0, comparisons=Comparisons())
    found = stops(free, left)
    assert found[0] == 0.0
    assert found[-1] == max(left, LEAST / 5)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("error", [1e-3, 0.999, 1.0, 25.0, 31.7, 8e6])
def test_errors_are_round_numbers_around_the_plans_own(query, error):
    found = errors(replace(query.plan, error=error))
    assert found == sorted(set(found))
    assert error in found
    assert len(found) > 15
    assert error / REACH <= found[0] < error / REACH * 1.3
    assert error * REACH / 1.3 < found[-1] <= error * REACH

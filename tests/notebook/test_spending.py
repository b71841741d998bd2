import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.notebook.dashboard.spending import (
    accuracy_in_words,
    asked_prices,
    columns,
    levels,
    offers,
    timeline,
)
from dpnotebook.notebook.dashboard.summary import summary_html


def test_the_timeline_adds_up_in_exact_units(make_session):
    session = make_session(epsilon=1.0, delta=1e-6)
    people = session.table("people")
    for epsilon in (0.3, 0.4):
        people.count(epsilon=epsilon, fresh=True).run()
    steps = timeline(session)
    assert [step.number for step in steps] == [1, 2]
    assert steps[0].epsilon == pytest.approx(0.3)
    assert 0.4 < steps[1].epsilon < 0.7  # Gaussian: squares add up
    assert steps[-1].epsilon == session.spent.epsilon
    assert steps[-1].share == session.ledger.spent / session.ledger.accountant.total


def test_disjoint_questions_are_one_step(session):
    people = session.table("people")
    people.count(where="sex == 'F'", epsilon=0.3).run()
    people.count(where="sex == 'M'", epsilon=0.3).run()
    assert [step.epsilon for step in timeline(session)] == [0.3, 0.3]
    by_name = {column.attribute: column for column in columns(session)}
    assert by_name["sex"].most == by_name["sex"].least == pytest.approx(0.3)


def test_columns_tell_which_levels_have_paid(session):
    session.table("people").count(where="age < 5", epsilon=0.3).run()
    by_name = {column.attribute: column for column in columns(session)}
    assert (by_name["age"].most, by_name["age"].least) == pytest.approx((0.3, 0.0))
    assert (by_name["sex"].most, by_name["sex"].least) == pytest.approx((0.3, 0.3))


def test_offers_are_the_planners_own_numbers(session):
    people = session.table("people")
    people.count(epsilon=0.4).run()
    found = {offer.question: offer for offer in offers(session)}
    assert set(found) == {"a count", "the cumulative counts of age", "the mean of age"}
    count = found["a count"]
    assert count.epsilon == pytest.approx(0.6)
    assert count.error == people.count(epsilon=0.6, fresh=True).plan.error
    assert count.error_at_half == people.count(epsilon=0.3, fresh=True).plan.error
    assert session.spent.epsilon == pytest.approx(0.4)


def test_of_many_rows_a_person_nothing_is_offered_whose_error_is_not_known():
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), ledger=":memory:")
    visits = pd.DataFrame({"person": np.repeat(np.arange(500), 4), "kind": ["a", "b"] * 1000})
    session.protect(visits, "visits", unit="person", domain={"kind": ["a", "b"]})
    assert offers(session) == []
    assert "could buy" not in summary_html(session)
    assert "Nothing is left" not in summary_html(session)


def test_nothing_is_offered_when_nothing_is_left(session):
    session.table("people").count(epsilon=1.0).run()
    assert offers(session) == []


def test_what_is_left_pays_for_as_many_more_as_it_says(make_session):
    """Gaussian: prices do not add up as epsilons; so many can be asked, and not one more."""
    session = make_session(epsilon=1.0, delta=1e-6)
    people = session.table("people")
    people.count(error=60, fresh=True).run()
    (asked,) = asked_prices(session)
    assert (asked.question, asked.accuracy) == ("COUNT", "within ±60")
    assert 3 <= asked.times <= 300
    for _ in range(asked.times):
        people.count(error=60, fresh=True).run()
    assert asked_prices(session)[0].times == 0
    with pytest.raises(dpn.BudgetExceeded):
        people.count(error=60, fresh=True).run()


def test_questions_are_said_once_the_latest_first_and_free_ones_at_their_own_price(session):
    people = session.table("people")
    people.histogram("sex", epsilon=0.1).run()
    people.histogram("sex", epsilon=0.1).run()
    people.count(where="sex == 'F'", error=500).run()  # costs nothing now, and would by itself
    found = asked_prices(session)
    assert [one.question for one in found] == ["COUNT where sex == 'F'", "COUNT by sex"]
    assert found[0].epsilon == pytest.approx(people.count(where="sex == 'F'", error=500, fresh=True).plan.cost.epsilon)
    assert found[1].times == 9


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("error=25", "within ±25"),
        ("error=12345.678, confidence=0.9", "within ±12,300"),
        ("error='5%'", "within 5%"),
        ("variance=250000", "variance 250,000"),
        ("epsilon=0.1", ""),
        ("", ""),
    ],
)
def test_an_accuracy_in_words(written, said):
    assert accuracy_in_words(written) == said


def test_levels_have_the_spend_of_their_dearest_cell(session):
    session.table("people").count(where="age < 2 and sex == 'F'", epsilon=0.25).run()
    found = levels(session, "people", "age")
    assert [(one.level, one.epsilon) for one in found[:3]] == [("0", 0.25), ("1", 0.25), ("2", 0.0)]
    assert levels(session, "people", "income")[-1].level == "missing"
